"""LabelAudit: settings, `fit`, and one method per question. Each question is a function of what was fitted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError as SklearnNotFittedError

from butfor.data.sensitive import Cuts
from butfor.errors import SettingError, listed
from butfor.learn.protocols import Learner, Model, Table
from butfor.learn.threshold import USUAL
from butfor.machine import single_threaded
from butfor.progress import Progress
from butfor.prove import Bracket
from butfor.result.labels import ClosedGap
from butfor.result.population import Population
from butfor.result.reviewed import Reviewed
from butfor.result.verdict import Verdict
from butfor.result.worlds import OneStandard
from butfor.review.answers import check_answers
from butfor.review.close import after_review
from butfor.review.tasks import Review, review_tasks
from butfor.run import explain, trial, worlds
from butfor.run.fit import fit, with_settings
from butfor.run.fitted import Fitted, Settings
from butfor.run.labels import labels_frame, labels_to_review, review_order
from butfor.standard.groups import GroupStandard, Standards
from butfor.stopping import Stop, listen
from butfor.validate import as_person

KEEP: Any = type("Keep", (), {"__repr__": lambda self: "as it is"})()
"""What `with_search` leaves as it is."""
OF_THE_FIT = ("model", "encoder", "members", "threshold", "budget", "random_state", "rank", "strategy", "phi", "psi")
"""Settings that take effect when a model is fitted; the others do when people are audited."""


class NotFittedError(SettingError, SklearnNotFittedError):
    """An audit was asked something before `fit`."""


class LabelAudit(BaseEstimator):
    """Which few training labels decide about a person?

    Parameters
    ----------
    model : what to audit: any scikit-learn classifier or pipeline, `butfor.MLP`, or a `butfor.Learner`. Its settings
        are the learning algorithm, everything fixed; it is cloned, whether fitted or not. None: a network that suits
        the table or, without torch, boosting.
    encoder : how a table becomes numbers for a network or for an estimator without preprocessing of its own; a
        `TableEncoder` where None. "passthrough" hands the raw table to the estimator whatever it holds.
    members : trainings, under as many seeds, whose mean logit decides: the audited model is this ensemble. 1 is the
        published setting, a single model. None: 16, fewer where a training takes long, 1 where seeds change nothing.
    threshold : the probability of the favourable label from which on a decision is favourable (of the second label,
        where `fit` is told no adverse one). Or "top 20%": as many of the people who compete for the places have one,
        whichever model was trained.
    budget : labels that may be flipped at the most, a share (0.01, rounded up) or a count (3).
    rank : a ranking's name (see `butfor.rank.NAMES`), or an object with `score`, or a function. None: the
        strategy's own.
    strategy : how to search: "solid" (the default for an ensemble), "guided" (for a single model), or a published one:
        "algorithm1", "singles", "attempts", "exhaustive"; or a `butfor.Strategy`.
    phi, psi : who may be audited and which labels may be flipped: rules, their text, callables or masks. Where `phi` is
        None, people whose decision stays when the protected attribute is switched and, where `fit` is told the adverse
        label, who get it.
    fresh_seeds : seeds without any part in the search under which every find is put to the test; 0 for none.
    engine : what trains: a name (see `butfor.learn.engines`), a torch device, a cluster, or a `butfor.Engine`.
    n_jobs : models trained at a time on the CPU; -1 for one per core.
    ledger : a file that remembers every model's answers, so that nothing is trained twice, also not after an
        interruption.
    random_state : seed of whatever the search draws, and of a model whose own `random_state` is None.

    After `fit`, `model_` is the audited model, `learner_` what trained it, `table_` what it was trained on, and
    `classes_` the labels; `fitted_` holds these and everything else that questions start from.
    """

    fitted_: Fitted
    _standards: Standards | None
    _review: Review | None

    def __init__(
        self,
        model: Any = None,
        *,
        encoder: Any = None,
        members: int | None = None,
        threshold: float | str = USUAL,
        budget: float = 0.01,
        rank: Any = None,
        strategy: Any = None,
        phi: Any = None,
        psi: Any = "published",
        fresh_seeds: int = 59,
        engine: Any = "auto",
        n_jobs: int | None = -1,
        ledger: str | Path | None = None,
        random_state: int = 0,
    ) -> None:
        self.model = model
        self.encoder = encoder
        self.members = members
        self.threshold = threshold
        self.budget = budget
        self.rank = rank
        self.strategy = strategy
        self.phi = phi
        self.psi = psi
        self.fresh_seeds = fresh_seeds
        self.engine = engine
        self.n_jobs = n_jobs
        self.ledger = ledger
        self.random_state = random_state

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        sensitive_features: Any,
        sensitive_bands: Cuts | None = None,
        sample_weight: Any = None,
        validation: tuple[Any, Any] | None = None,
        adverse: Any = None,
        reference: Any = None,
        also_labelled: Sequence[Any] = (),
        pool: Any = None,
        label_names: Sequence[str] | None = None,
        progress: Progress | None = None,
    ) -> Self:
        """Train the model on the table.

        `sensitive_features` names the protected column, or several, which stay in X; or it holds one value per row
        beside X, and the model is blind to it. One that is a number of more than 10 different values is cut into bands,
        at the cut points `sensitive_bands` ([25, 60], or by column {"age": [25, 60]}), else in thirds. `validation`
        rows steer a network's early stopping; where a network is given none, a share of X is set aside for it.
        `adverse` is the label that people would rather not have, of more than two perhaps several: with it, groups'
        standards are compared, and people who get it are audited. `reference` is the group to compare with, instead of
        all others. `also_labelled`, as (X, y) or (X, y, sensitive_features), are further labelled rows, such as test
        rows: they take part in the comparison of standards alone. `pool`: with `threshold="top 20%"`, the rows whose
        best have a place, whom the model must not have been trained on; where None, those of `also_labelled`."""
        fitted = fit(
            self._settings(),
            X,
            y,
            sensitive_features=sensitive_features,
            sensitive_bands=sensitive_bands,
            sample_weight=sample_weight,
            validation=validation,
            adverse=adverse,
            reference=reference,
            also_labelled=also_labelled,
            pool=pool,
            label_names=label_names,
            progress=progress,
        )
        return self._reset(fitted)

    def with_search(self, rank: Any = KEEP, strategy: Any = KEEP) -> Self:
        """This audit, with the same model, under another search. What is not named stays as it is."""
        self._require_fit(besides=("rank", "strategy", "phi", "psi"))
        other = copy(self)
        for name, value in {"rank": rank, "strategy": strategy}.items():
            if value is not KEEP:
                setattr(other, name, value)
        other.fitted_ = with_settings(self.fitted_, other._settings())
        return other

    @property
    def classes_(self) -> NDArray[Any]:
        """The labels, in sorted order."""
        return self._require_fit().classes

    @property
    def model_(self) -> Model:
        """The audited model: f."""
        return self._require_fit().model

    @property
    def learner_(self) -> Learner:
        """What trained it."""
        return self._require_fit().learner

    @property
    def table_(self) -> Table:
        """What it was trained on."""
        return self._require_fit().table

    # --- people -------------------------------------------------------------------------------------

    def predict(self, X: Any) -> NDArray[Any]:
        """The audited model's decisions about the rows of X."""
        fitted = self._require_fit()
        return fitted.classes[fitted.decide(X)]

    def explain(
        self,
        person: Any,
        *,
        sensitive_features: Any = None,
        towards: Any = None,
        stop: Stop | None = None,
        progress: Progress | None = None,
    ) -> Verdict:
        """The verdict about one person: one row of a table with the training columns."""
        frame = as_person(person, self._require_fit().table.X)
        beside = None if sensitive_features is None else np.atleast_1d(np.asarray(sensitive_features, dtype=object))
        answer = self.explain_all(frame, sensitive_features=beside, towards=towards, stop=stop, progress=progress)
        return replace(answer[0], case=None)

    def explain_all(
        self,
        X: Any,
        y: Any = None,
        *,
        sensitive_features: Any = None,
        cases: Sequence[int] | None = None,
        towards: Any = None,
        stop: Stop | None = None,
        progress: Progress | None = None,
    ) -> Population:
        """Verdicts about all rows of X, or about those at the positions `cases`.

        The decision changes when it is any other, or the one that `towards` names: then whoever has it already is left
        out. With more than two labels, flips give the label asked for, else the one whose score comes next.
        `sensitive_features` holds one value per row of X where the model is blind to the protected attribute. The other
        rows of X serve to count collateral changes and, with their labels `y`, accuracy. `stop` ends the search early
        (`butfor.max_seconds(600) | butfor.max_retrainings(5000)`), and so does Ctrl-C; what is done is returned, the
        rest is marked incomplete."""
        answer = explain.explain_all(
            self._require_fit(),
            X,
            y,
            sensitive_features=sensitive_features,
            cases=cases,
            towards=towards,
            standards=self._standards,
            stop=stop,
            progress=progress,
        )
        found = answer.standards
        if found is not None and (found.draws or self.fitted_.adverse is None) and not found.interrupted:
            self._standards = found
        return answer.population

    def brackets(self, X: Any, *, sensitive_features: Any = None) -> list[Bracket]:
        """What is proven about each row of X: how many of the labels that ψ allows it takes at least to change the
        decision and, where that is known, which ones do it. Refused where no prover knows the model."""
        return explain.brackets(self._require_fit(), X, sensitive_features=sensitive_features)

    # --- labels and groups --------------------------------------------------------------------------

    def standards(self, progress: Progress | None = None) -> Standards:
        """Each group's labels beside the standard of the others; computed once."""
        fitted = self._require_fit()
        fitted.require_adverse()
        return self._compared(fitted, progress)

    def labels(self, population: Population | None = None) -> pd.DataFrame:
        """One row per training row: label, group, doubt (the probability of the other label by the standard of the
        other groups), wrong (the probability that an adverse label of a group that falls short is wrong), rank among
        those to review (by wrong, then by doubt), and people: in how many flip sets of a population it is."""
        fitted = self._require_fit()
        return labels_frame(fitted, self._compared(fitted), population.flip_counts if population else {})

    def one_standard(
        self, X: Any, y: Any = None, *, sensitive_features: Any = None, progress: Progress | None = None
    ) -> list[OneStandard]:
        """For every group that falls short of the others' standard by more than chance: in 20 worlds its labels are
        drawn by that standard, and the model is trained on them. `probability` is the share of worlds that decide
        favourably about each person who is decided adversely now; `expected` how many decisions about the group would
        change, with its `interval`. Ctrl-C keeps the worlds that are done."""
        fitted, progress = self._require_fit(), progress or Progress()
        standards = self.standards(progress)
        with listen(), progress, single_threaded():
            people = trial.FlipTrial.about(fitted, X, y, sensitive_features, progress)
            return worlds.one_standard(standards, people, fitted.settings.random_state, fitted.fit_seconds)

    def close_gap(
        self,
        X: Any,
        y: Any = None,
        *,
        by: str = trial.BY[0],
        groups: Sequence[Any] | None = None,
        within: float = 0.01,
        sensitive_features: Any = None,
        stop: Stop | None = None,
        progress: Progress | None = None,
    ) -> ClosedGap:
        """The fewest doubted labels, in the order of review, whose flipping brings two groups' rates about X within a
        point of each other: `by` "selection" or "true positive" rates. `groups`: which two, else those furthest apart.
        That the doubted labels do not suffice is an answer too. When the time of `stop` is up it ends as by Ctrl-C."""
        fitted, progress = self._require_fit(), progress or Progress()
        fitted.require_adverse()
        standards = self._compared(fitted, progress)
        with progress, single_threaded():
            people = trial.FlipTrial.about(fitted, X, y, sensitive_features, progress)
            return trial.close_gap(review_order(fitted, standards), standards, people, by, groups, within, stop)

    # --- reviews ------------------------------------------------------------------------------------

    def review_tasks(
        self,
        population: Population | None = None,
        *,
        labels: int | None = None,
        hide: Sequence[str] = (),
        random_state: int = 0,
    ) -> Review:
        """The labels to review, as many decoys among them: `shown` is for the reviewer, by task id. Without a number of
        `labels`, those that may be wrong, at most 100. With a population, labels of its flip sets are no decoys."""
        fitted = self._require_fit()
        first = labels_to_review(fitted, self._compared(fitted))
        self._review = review_tasks(fitted, first, population, labels=labels, hide=hide, seed=random_state)
        return self._review

    def after_review(
        self,
        answers: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        X: Any,
        y: Any = None,
        *,
        sensitive_features: Any = None,
        before: Sequence[GroupStandard] | None = None,
        apply_anyway: bool = False,
        progress: Progress | None = None,
    ) -> tuple[Reviewed, Self]:
        """What a review changes: whose decisions about X change once its corrections are made, rates, accuracy and
        standards before and after; and the audit of the corrected table, for the next round. `answers`: the label that
        is right for each task of `review_tasks`, by its id, or "cannot tell"; of several reviewers a list, and labels
        are corrected where they agree. Answers that show nothing are refused, unless `apply_anyway`."""
        fitted = self._require_fit()
        outcome = check_answers(answers, self._review, fitted.label_names, apply_anyway=apply_anyway)
        reviewed, again, standards = after_review(
            fitted, outcome, X, y, sensitive_features=sensitive_features, before=before, progress=progress
        )
        other = copy(self)._reset(again)
        other._standards = standards
        return reviewed, other

    # --- what is known so far -----------------------------------------------------------------------

    def _reset(self, fitted: Fitted) -> Self:
        """Nothing is known yet but what was fitted."""
        self.fitted_ = fitted
        self._standards = self._review = None
        return self

    def _compared(self, fitted: Fitted, progress: Progress | None = None) -> Standards:
        """The comparison of standards, computed once; where no adverse label is named, for the doubts alone."""
        if self._standards is None:
            draws = {"draws": 0} if fitted.adverse is None else {}
            self._standards = fitted.compare(progress=progress, **draws)
        return self._standards

    def _settings(self) -> Settings:
        return Settings(**self.get_params(deep=False))

    def _require_fit(self, besides: Sequence[str] = ()) -> Fitted:
        """What was fitted, under the settings as they are now; settings of the model must be as they were."""
        if not hasattr(self, "fitted_"):
            raise NotFittedError("This LabelAudit is not fitted yet: call fit(X, y, sensitive_features=...) first.")
        changed = [n for n in OF_THE_FIT if not _same(getattr(self.fitted_.settings, n), getattr(self, n))]
        if set(changed) - set(besides):
            raise SettingError(
                f"{listed(changed)} changed since fit: call fit again, or with_search(rank=…, strategy=…) for another "
                "search with the same model."
            )
        settings = self._settings()
        if not all(_same(getattr(self.fitted_.settings, name), value) for name, value in vars(settings).items()):
            self.fitted_ = replace(self.fitted_, settings=settings)
        return self.fitted_

    def _repr_html_(self) -> str:
        return f"<pre>{escape(repr(self))}</pre>"

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return {"text/plain": repr(self), "text/html": self._repr_html_()}


def _same(before: Any, now: Any) -> bool:
    """Whether a setting is as it was; of objects, whether it is the same one."""
    return before is now or (isinstance(now, (str, int, float)) and bool(before == now))

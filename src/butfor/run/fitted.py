"""An audit's settings, and its model trained: what everything else of an audit starts from."""

from __future__ import annotations

import time
from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator

from butfor.data.check import Concern, check_table
from butfor.data.sensitive import Cuts, Sensitive
from butfor.errors import LearnerError, SettingError, TableError, listed
from butfor.learn.capabilities import Encoded, usual_members
from butfor.learn.decision_split import DecisionSplit
from butfor.learn.engines import check_engine, choose_engine, own_fit_engine
from butfor.learn.ensemble import FRESH_FROM, Ensemble, fresh_seeds, with_split
from butfor.learn.learners import as_learner, first_model, seed_matters, seed_note
from butfor.learn.named import default_model
from butfor.learn.protocols import BIAS, Engine, Learner, Model
from butfor.machine import check_random_state
from butfor.progress import Progress
from butfor.prove import provable
from butfor.provenance import data_hash
from butfor.rank import as_ranking, refuse_unaccepted
from butfor.result.record import AFTER, BEFORE, DOUBT
from butfor.rules import as_phi, as_psi
from butfor.search import as_strategy, budget_in_labels
from butfor.situation import Mask
from butfor.validate import as_labels, as_table, as_weights, training_table

if TYPE_CHECKING:
    from butfor.run.labels import Values
    from butfor.standard.groups import Standards
    from butfor.tasks.tasks import Review

KEEP: Any = type("Keep", (), {"__repr__": lambda self: "as it is"})()
"""What `searching` leaves as it is."""
OF_THE_SEARCH = ("rank", "strategy", "phi", "psi")
OF_THE_FIT = ("model", "encoder", "members", "budget", "random_state", *OF_THE_SEARCH)
"""Settings that take effect when a model is fitted; the others do when people are asked about."""


class FittedAudit(BaseEstimator):
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
    budget : labels that may be flipped at the most, a share (0.01, rounded up) or a count (3).
    rank : a ranking's name (see `butfor.rank.NAMES`), or an object with `score`, or a function. None: the
        strategy's own.
    strategy : how to search: "solid" (the default for an ensemble), "guided" (for a single model), or a published one:
        "algorithm1", "singles", "attempts", "exhaustive"; or a `butfor.Strategy`.
    phi, psi : who may be audited and which labels may be flipped: rules, their text, callables or masks.
    fresh_seeds : seeds without any part in the search under which every find is put to the test; 0 for none.
    shuffles : how often to ask again with the protected attribute shuffled, to see whether groups differ more than
        groups of these sizes do anyway.
    engine : what trains: a name (see `butfor.learn.engines`), a torch device, a cluster, or a `butfor.Engine`.
    n_jobs : models trained at a time on the CPU. None: one per core.
    ledger : a file that remembers every model's answers, so that nothing is trained twice, also not after an
        interruption.
    random_state : seed of whatever the search draws. The model has a seed of its own.

    After `fit`, `model_` is f, `learner_` what trained it, `table_` what it was trained on; `concerns_` is what a look
    at the table found, and `remarks_` what became of missing and rare values and of a numeric protected attribute.
    """

    def __init__(
        self,
        model: Any = None,
        *,
        encoder: Any = None,
        members: int | None = None,
        budget: float = 0.01,
        rank: Any = None,
        strategy: Any = None,
        phi: Any = "stable_under_switch",
        psi: Any = "published",
        fresh_seeds: int = 59,
        shuffles: int = 0,
        engine: Any = "auto",
        n_jobs: int | None = None,
        ledger: str | Path | None = None,
        random_state: int = 0,
    ) -> None:
        self.model = model
        self.encoder = encoder
        self.members = members
        self.budget = budget
        self.rank = rank
        self.strategy = strategy
        self.phi = phi
        self.psi = psi
        self.fresh_seeds = fresh_seeds
        self.shuffles = shuffles
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
        label_names: Sequence[str] | None = None,
        progress: Progress | None = None,
    ) -> Self:
        """Train f on the table.

        `sensitive_features` names the protected column, or several, which stay in X; or it holds one value per row
        beside X, and the model is blind to it. One that is a number of more than 10 different values is cut into bands,
        at the cut points `sensitive_bands` ([25, 60], or by column {"age": [25, 60]}), else in thirds. `validation`
        rows steer a network's early stopping; where a network is given none, a share of X is set aside for it.
        `adverse` is the label that people would rather not have, of more than two perhaps several: with it, audits
        compare the groups' standards."""
        self._check_settings()
        X = as_table(X)
        y = as_labels(X, y)
        taken = [name for name in (BEFORE, AFTER, DOUBT, BIAS) if name in X.columns]
        if taken:
            raise TableError(f"Column {listed(taken)} has a name that verdicts use for something else; rename it.")
        sensitive = Sensitive.of(sensitive_features, X, sensitive_bands)
        progress = progress or Progress()
        with progress:
            progress.phase("a look at the table")
            self.concerns_ = noted(check_table(X, y), progress)
            model = default_model(len(X)) if self.model is None else self.model
            self.learner_: Learner = as_learner(model, self.encoder, self.random_state)
            self.table_, kept = training_table(self.learner_, X, y, validation, as_weights(X, sample_weight))
            self.sensitive_ = replace(sensitive, values=sensitive.values[kept])
            self.classes_ = self.table_.classes
            names = dict(enumerate(y.attrs.get("label_names", ())))
            coded = [names[c] for c in self.classes_] if set(self.classes_) <= set(names) else None
            self.label_names_: tuple[str, ...] = tuple(map(str, label_names or coded or self.classes_))
            if len(self.label_names_) != len(self.classes_):
                raise SettingError(f"label_names has {len(self.label_names_)} names for {len(self.classes_)} labels.")
            if self.table_.multiclass and self.shuffles:
                raise SettingError(
                    f"shuffles={self.shuffles}: nothing is shuffled with more than two labels; leave it out."
                )
            sides = self._sides(adverse)
            self._forget()
            self.origin_: dict[str, Any] = dict(X.attrs.get("origin") or {"table": None})
            self.data_hash_ = data_hash(self.table_)
            self.budget_ = budget_in_labels(self.budget, self.table_.n)
            self._train(progress)
            note = seed_note(model, self.random_state) if self.seeded_ else None
            if note:
                progress.note(note)
            self._draw_line(sides)
        if not np.isfinite(self.training_logits_).all():
            raise LearnerError(
                f"The training of {self.learner_.name} diverged: it answers with numbers that are infinite or none. "
                "Scale the table's numbers, or lower the learning rate."
            )
        self._choose_search()
        self.remarks_ = self.remarks()
        return self

    def with_search(self, rank: Any = KEEP, strategy: Any = KEEP) -> Self:
        """This audit, with the same model, under another search. What is not named stays as it is."""
        self._check_fitted(besides=OF_THE_SEARCH)
        other = copy(self)
        for name, value in {"rank": rank, "strategy": strategy}.items():
            if value is not KEEP:
                setattr(other, name, value)
        other._check_settings()
        other._choose_search()
        return other

    def remarks(self, X: Any = None) -> list[str]:
        """A sentence each on what became of the protected attribute and of missing, unknown and rare values, of the
        training rows and of the rows X."""
        parts = [self.table_.X, *([self.table_.validation[0]] if self.table_.validation else [])]
        rows = pd.concat([*parts, *([] if X is None else [as_table(X)])])
        encoded = self.model_.capability(Encoded)
        if encoded is not None:
            return [*self.sensitive_.remarks, *encoded.encoder.remarks(rows)]
        holes = rows.columns[rows.isna().any()]
        said = [f"{self.learner_.name} gets the missing values of {listed(holes)} as they are."]
        return [*self.sensitive_.remarks, *said[: len(holes)]]

    # --- fitting ------------------------------------------------------------------------------------

    def _forget(self) -> None:
        """Nothing is known yet of these labels. `answered_`, `corrected_`: positions of labels that were reviewed and
        corrected; `review_`: the tasks handed out last."""
        self.answered_: frozenset[int] = frozenset()
        self.corrected_: tuple[int, ...] = ()
        self.review_: Review | None = None
        self._standards: Standards | None = None
        self._values: Values | None = None

    def _train(self, progress: Progress) -> None:
        """f, and how many members it has."""
        progress.phase("encoding and the first model")
        first, self.fit_seconds_ = first_model(self.learner_, self.table_)
        self.seeded_ = seed_matters(self.learner_, self.table_, first)
        self.members_ = self._how_many(first, self.fit_seconds_)
        self.model_: Model = first
        if self.members_ > 1:
            ensemble = Ensemble(self.learner_, self.members_)
            progress.phase("the other members", self.members_ - 1)
            started = time.perf_counter()
            trains = own_fit_engine(self.engine, self.n_jobs)
            self.learner_, self.model_ = ensemble, ensemble.fit_beside(first, self.table_, trains, progress.advance)
            each = (time.perf_counter() - started) / (self.members_ - 1)
            self.fit_seconds_ = min(self.fit_seconds_, each)  # the first one may load what is needed

    def _sides(self, adverse: Any) -> Mask:
        """Which labels count as 1: the second of two; of more those that are not adverse or, where none is named, all
        but the first. `adverse_` is the adverse side, `sides_` what the two are called."""
        given = list(adverse) if isinstance(adverse, (list, tuple, set, np.ndarray)) else [adverse]
        found = [] if adverse is None else sorted({self._label(each) for each in given})
        names = np.array(self.label_names_, dtype=object)
        if len(found) == len(names):
            raise SettingError(f"adverse names all labels, {listed(names)}: which one would people rather have?")
        ours = np.isin(np.arange(len(names)), found if found and len(names) > 2 else [0])
        self.adverse_ = None if not found else found[0] if len(names) == 2 else 0
        self.sides_: tuple[str, str] = (" or ".join(names[ours]), " or ".join(names[~ours]))
        return ~ours

    def _draw_line(self, sides: Mask) -> None:
        """What the model says about its training rows and, with more than two labels, the sides that it is about."""
        table = self.table_
        answers = table.answers(self.model_, table.X)
        self.training_decisions_ = table.decided(answers)
        if table.multiclass:
            scores = answers.reshape(table.n, -1)
            decision_split = DecisionSplit.between(sides, table.codes, scores)
            self.table_, self.model_ = table.with_split(decision_split), with_split(self.model_, decision_split)
        self.training_logits_ = self.table_.margins(answers)

    def _choose_search(self) -> None:
        """Settings as the objects they name; the ranking must accept the model."""
        self._fitted_with = {name: getattr(self, name) for name in OF_THE_FIT}
        usual = "solid" if self.members_ > 1 else "guided"
        self.strategy_ = as_strategy(usual if self.strategy is None else self.strategy)
        self.strategy_.check(self.members_)
        self.phi_, self.psi_ = as_phi(self.phi), as_psi(self.psi)
        if self.rank is None:
            self.rank_ = self.strategy_.ranking(self.model_)
        else:
            self.rank_ = as_ranking(self.rank, self.random_state)
            refuse_unaccepted(self.rank_, self.model_, self.learner_.name)

    def _how_many(self, first: Model, seconds: float) -> int:
        """Members of the ensemble, given one of them and what its training took. Where the single model has proofs,
        there is one: they would not hold for a mean."""
        if isinstance(self.learner_, Ensemble):
            members = self.learner_.members
            raise SettingError(f"{self.learner_.name}: give the learner itself, and members={members}.")
        if self.members is not None:
            if self.members > 1 and not self.seeded_:
                raise SettingError(
                    f"members={self.members}: no seed changes what {self.learner_.name} learns here, so that all "
                    "members would be the same model; leave members out."
                )
            return int(self.members)
        if not self.seeded_ or provable(first):
            return 1
        return usual_members(self.learner_, self.table_.n, seconds)

    def _check_fitted(self, besides: Sequence[str] = ()) -> None:
        """Whether there is a model, and it is the one that the settings name, `besides` those that may change."""
        if not hasattr(self, "model_"):
            raise SettingError("This audit has no model yet: call fit(X, y, sensitive_features=...) first.")
        changed = [name for name, value in self._fitted_with.items() if not _same(value, getattr(self, name))]
        if set(changed) - set(besides):
            raise SettingError(
                f"{listed(changed)} changed since fit: call fit again, or with_search(rank=…, strategy=…) for another "
                "search with the same model."
            )

    def _check_settings(self) -> None:
        """Refuse settings that cannot be, before anything is trained."""
        if self.strategy is not None:
            as_strategy(self.strategy)
        if self.rank is not None:
            as_ranking(self.rank)
        as_phi(self.phi)
        as_psi(self.psi)
        budget_in_labels(self.budget, 2**62)
        check_engine(self.engine, self.n_jobs)
        check_random_state(self.random_state)
        for name, least, most in (
            ("members", 1, FRESH_FROM),
            ("fresh_seeds", 0, FRESH_FROM),
            ("shuffles", 0, FRESH_FROM),
        ):
            value = getattr(self, name)
            whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
            if not (whole and least <= value <= most) and not (name == "members" and value is None):
                raise SettingError(f"{name}={value!r} must be a whole number from {least} to {most}.")

    def _label(self, given: Any, option: str = "adverse") -> int:
        """A label's number, from its name or value."""
        names = [self.label_names_, tuple(name.rpartition(" = ")[2] for name in self.label_names_)]
        for known in [*names, tuple(map(str, self.classes_))]:
            if str(given) in known:
                return known.index(str(given))
        raise SettingError(f"{option}='{given}' is not a label; the labels are {listed(self.label_names_)}.")

    def _engine(self, progress: Progress) -> Engine:
        return choose_engine(self.engine, self.learner_, self.n_jobs, progress.note)

    @property
    def seeds_(self) -> list[int]:
        """The fresh seeds; none where no seed matters."""
        return fresh_seeds(self.learner_, self.fresh_seeds) if self.seeded_ else []


def _same(before: Any, now: Any) -> bool:
    """Whether a setting is as it was; of objects, whether it is the same one."""
    return before is now or (isinstance(now, (str, int, float)) and bool(before == now))


def noted(concerns: list[Concern], progress: Progress) -> list[Concern]:
    for concern in concerns:
        progress.note(f"Note: {concern}")
    return concerns

"""LabelAudit: Algorithm 1. Train f; ask φ who may be audited; rank the labels that ψ allows; flip,
retrain and look again, until the prediction changes or the protocol is through."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from butfor.bands import Cuts, in_order
from butfor.data.check import Concern, check_people, check_table
from butfor.encoded import EncodedTable
from butfor.endings import held_back
from butfor.errors import LearnerError, SettingError, TableError, listed
from butfor.frames import as_labels, as_person, as_positions, as_table, as_weights, like_training, training_table
from butfor.inquiry.ask import Inquiry
from butfor.inquiry.conclude import Conclusions
from butfor.inquiry.record import record_of
from butfor.inquiry.settings import Settings, check_settings
from butfor.inquiry.steady import as_steady
from butfor.learn.engines import choose_engine, definition_of
from butfor.learn.ensemble import Ensemble, members_of, models_of, usual_members
from butfor.learn.learners import as_learner, first_model, gaps, seed_matters, suited_mlp
from butfor.learn.local import BIAS
from butfor.machine import single_threaded
from butfor.mlp.learner import MLPLearner
from butfor.progress import Deadline, Watcher
from butfor.prove import Bracket, provable, prove
from butfor.provenance import data_hash
from butfor.rank import as_ranking, refuse_unaccepted
from butfor.rank.averaged import suited
from butfor.result.groups import Null
from butfor.result.performance import Performance
from butfor.result.population import Population
from butfor.result.record import AFTER, BEFORE
from butfor.result.verdict import Verdict
from butfor.rules import as_phi, as_psi, eligible, flippable
from butfor.seam import Learner, Model, Training
from butfor.search import SolidSearch, as_protocol, budget_in_labels
from butfor.search.ledger import Ledger
from butfor.search.trainer import Trainer
from butfor.situation import Sensitive, Situation

Keep = type("Keep", (), {"__repr__": lambda self: "as it is"})
KEEP: Any = Keep()
"""What `searching` leaves as it is."""

LEAST_TIME = 0.1
"""The share of the time given that a search has, however long reading and training took."""


class LabelAudit(BaseEstimator):
    """Which few training labels decide about a person?

    Parameters
    ----------
    model : what to audit: any scikit-learn classifier or pipeline, `butfor.MLP`, or a `butfor.Learner`. Its settings
        are the learning algorithm, everything fixed; it is cloned, whether fitted or not. None: a network that suits
        the table.
    encoder : how a table becomes numbers for a network or for an estimator without preprocessing of its own; a
        `TableEncoder` where None. "passthrough" hands the raw table to the estimator whatever it holds.
    members : trainings, under as many seeds, whose mean logit decides: the audited model is this ensemble. 1 is the
        published setting, a single model. None: 16, fewer where a training takes long, 1 where seeds change nothing.
    budget : labels that may be flipped at the most, a share (0.01, rounded up) or a count (3).
    rank : a ranking's name (see `butfor.rank.NAMES`), or an object with `score`, or a function. None: the
        protocol's own.
    protocol : "solid" (the default for an ensemble), "guided" (for a single model), or a published one: "algorithm1",
        "singles", "attempts", "exhaustive"; or a `butfor.Protocol`.
    phi, psi : who may be audited and which labels may be flipped: rules, their text, callables or masks.
    share : ask every trained model about everyone. None: as the protocol has it.
    max_retrainings : stop after that many trainings, whoever is still waiting.
    max_seconds : time for `explain_all`: the search ends after two thirds of it, those nearest to the other decision
        having come first, and what is found is confirmed and put to fresh seeds in the rest.
    fresh_seeds : seeds without any part in the search under which every find is put to the test; 0 for none.
    alternatives : further flip sets, sharing no row with each other, to look for where one was found.
    steady : also train a model that is provably steady on the same table, and compare: a `PartitionEnsemble`, a number
        of parts, or "auto".
    null : how often to ask again with the protected attribute shuffled, to see whether groups differ more than groups
        of these sizes do anyway.
    engine, device, jobs : what trains: a name (see `butfor.learn.engines`) or a `butfor.Engine`.
    ledger : a file that remembers every model's answers, so that nothing is trained twice, also not
        after an interruption.
    strict : refuse to train, or to search, where a look at the table finds something (see `butfor.check_table`), or
        where the model is no better than the commoner label.
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
        protocol: Any = None,
        phi: Any = "stable_under_switch",
        psi: Any = "published",
        share: bool | None = None,
        max_retrainings: int | None = None,
        max_seconds: float | None = None,
        fresh_seeds: int = 59,
        alternatives: int = 0,
        null: int = 0,
        steady: Any = None,
        engine: Any = "auto",
        device: str | None = None,
        jobs: int | None = None,
        ledger: str | Path | None = None,
        strict: bool = False,
        random_state: int = 0,
    ) -> None:
        self.model = model
        self.encoder = encoder
        self.members = members
        self.budget = budget
        self.rank = rank
        self.protocol = protocol
        self.phi = phi
        self.psi = psi
        self.share = share
        self.max_retrainings = max_retrainings
        self.max_seconds = max_seconds
        self.fresh_seeds = fresh_seeds
        self.alternatives = alternatives
        self.null = null
        self.steady = steady
        self.engine = engine
        self.device = device
        self.jobs = jobs
        self.ledger = ledger
        self.strict = strict
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
        label_names: tuple[str, str] | None = None,
        watch: Watcher | None = None,
    ) -> LabelAudit:
        """Train f on the table.

        `sensitive_features` names the protected column, or several, which stay in X; or it holds one value per row
        beside X, and the model is blind to it. One that is a number of more than 10 different values is cut into bands,
        at the cut points `sensitive_bands` ([25, 60], or by column {"age": [25, 60]}), else in thirds. `validation`
        rows steer a network's early stopping; where a network is given none, a share of X is set aside for it."""
        check_settings(self)
        X = as_table(X)
        y = as_labels(X, y)
        taken = [name for name in (BEFORE, AFTER, BIAS) if name in X.columns]
        if taken:
            raise TableError(f"Column {listed(taken)} has a name that verdicts use for something else; rename it.")
        sensitive = Sensitive.of(sensitive_features, X, sensitive_bands)
        watch = watch or Watcher()
        with watch:
            watch.phase("a look at the table")
            self.concerns_ = self._told(check_table(X, y), watch)
            self.learner_: Learner = as_learner(suited_mlp(len(X)) if self.model is None else self.model, self.encoder)
            self.table_, kept = training_table(self.learner_, X, y, validation, as_weights(X, sample_weight))
            self.sensitive_ = replace(sensitive, values=sensitive.values[kept])
            self.classes_ = self.table_.classes
            names = label_names or y.attrs.get("label_names") or tuple(str(c) for c in self.classes_)
            self.label_names_: tuple[str, str] = (str(names[0]), str(names[1]))
            self.origin_: dict[str, Any] = dict(X.attrs.get("origin") or {"table": None})
            self.data_hash_ = data_hash(self.table_)
            self.budget_ = budget_in_labels(self.budget, self.table_.n)
            self._train(watch)
        self.training_logits_ = self.model_.logits(self.table_.X)
        if not np.isfinite(self.training_logits_).all():
            raise LearnerError(
                f"The training of {self.learner_.name} diverged: it answers with numbers that are infinite or none. "
                "Scale the table's numbers, or lower the learning rate."
            )
        self._choose_search()
        self.remarks_ = self.remarks()
        return self

    def explain(self, person: Any, *, sensitive_features: Any = None, watch: Watcher | None = None) -> Verdict:
        """The verdict about one person: one row of a table with the training columns."""
        self._check_fitted()
        frame = as_person(person, self.table_.X)
        beside = None if sensitive_features is None else np.atleast_1d(np.asarray(sensitive_features, dtype=object))
        return replace(self.explain_all(frame, sensitive_features=beside, watch=watch)[0], case=None)

    def explain_all(
        self,
        X: Any,
        y: Any = None,
        *,
        sensitive_features: Any = None,
        cases: Sequence[int] | None = None,
        watch: Watcher | None = None,
        spent: float = 0.0,
    ) -> Population:
        """Verdicts about all rows of X, or about those at the positions `cases`.

        `sensitive_features` holds one value per row of X where the model is blind to the protected attribute. The other
        rows of X serve to count collateral changes and, with their labels `y`, accuracy. Ctrl-C ends
        the search early; what is done is returned, and the rest is marked incomplete. `spent`: seconds of
        `max_seconds` that are over already; a tenth of it is left in any case."""
        self._check_fitted()
        begun = time.monotonic()
        X = as_table(X)
        labels = None if y is None else as_labels(X, y)
        unknown = set() if labels is None else set(labels.unique()) - set(self.classes_)
        if unknown:
            raise TableError(f"The labels of these people hold {listed(unknown)}, which no training label is.")
        cases = range(len(X)) if cases is None else as_positions(cases, len(X))
        X = like_training(X, self.table_.X)
        groups = self.sensitive_.of_people(X, sensitive_features)
        watch = watch or Watcher()
        watch = watch if self.max_seconds is None else Deadline(watch)
        started = time.perf_counter()
        performance = None if labels is None else self._performance(X, labels, groups)
        concerns = check_people(self.table_.X, X)
        concerns += [performance.concern] if performance and performance.concern else []
        concerns = self.concerns_ + self._told(concerns, watch)
        situation = self._situation(X.iloc[list(cases)], groups[list(cases)])
        astray = np.flatnonzero(~np.isfinite(situation.logits))
        if len(astray):
            raise TableError(
                f"The model's answer about person {list(cases)[astray[0]]} is infinite or not a number: look at that "
                "row for numbers that are far from the training rows'."
            )
        psi = flippable(self.psi_, situation)
        people = np.flatnonzero(eligible(self.phi_, situation))
        truth = None if labels is None else labels.to_numpy() == self.classes_[1]
        engine = choose_engine(self.engine, self.learner_, self.device, self.jobs, watch.note)
        if hasattr(self.rank_, "train_on"):
            self.rank_.train_on(str(getattr(engine, "device", "cpu")))
        if hasattr(self.rank_, "sweep_by"):
            self.rank_.sweep_by(getattr(engine, "spread", None))
        with ExitStack() as ending:
            with single_threaded() as opened:
                ledger = opened.enter_context(closing(self._ledger(watch.note))) if self.ledger is not None else None
                trainer = Trainer(engine, self.learner_, self.table_, situation.people, ledger, self.jobs)
                opened.enter_context(watch)
                inquiry = Inquiry(
                    self._settings(),
                    self.learner_,
                    self.seeded_,
                    situation,
                    psi,
                    people,
                    watch,
                    self.fit_seconds_,
                    len(X) > 1,
                    self._seconds_left(spent + time.monotonic() - begun),
                )
                null, steady = self._gone_through(inquiry, trainer, X, truth, list(cases))
                ending.enter_context(held_back())  # also while the ledger is closed
            run = self._told_run(inquiry, trainer, X, started) | {
                "null": null.to_dict() if null else None,
                "steady": steady,
                "performance": performance.to_dict() if performance else None,
                "concerns": [concern.to_dict() for concern in concerns],
            }
            return Population(Conclusions(inquiry, run).verdicts(cases), run, interrupted=inquiry.interrupted)

    def _gone_through(
        self, inquiry: Inquiry, trainer: Trainer, X: pd.DataFrame, truth: NDArray[np.bool_] | None, cases: list[int]
    ) -> tuple[Null | None, dict[str, Any] | None]:
        """The search and everything after it; Ctrl-C ends it with what there is by then. What shuffling gave, and the
        comparison with a steady model."""
        null: Null | None = None
        steady: dict[str, Any] | None = None
        beside, around = as_steady(self.steady), False
        try:
            inquiry.run(trainer)
            if not inquiry.interrupted:
                inquiry.judge(trainer)
            if self.null and inquiry.on_time:
                null = inquiry.shuffle(trainer, self.null)
            around = inquiry.on_time
            if around:
                inquiry.look_around(trainer, X, truth, cases)
            if beside and not inquiry.interrupted:
                steady = inquiry.beside(beside, None if truth is None else truth[cases])
        except KeyboardInterrupt as stop:
            inquiry.stop(stop)
        asked = {
            "--null, the shuffles": self.null and null is None,
            "side effects on others": not around and self.fresh_seeds and inquiry.found and len(X) > 1,
            "--steady": beside and steady is None,
        }
        left = [name for name, missing in asked.items() if missing]
        if left and (inquiry.interrupted or inquiry.out_of_time):
            inquiry.watch.note(f"Left out because the audit was stopped: {'; '.join(left)}.")
        return null, steady

    def _told_run(self, inquiry: Inquiry, trainer: Trainer, X: pd.DataFrame, started: float) -> dict[str, Any]:
        """Settings and what became of them, for the record."""
        run = self.run_record() | {
            "engine": trainer.engine.name,
            "retrainings": trainer.trained,
            "needed": trainer.needed,
            "recalled": trainer.recalled,
            "confirmations": trainer.confirmations,
            "agreement": inquiry.agreement,
            "out_of_time": inquiry.out_of_time,
            "remarks": self.remarks(X),
            "seconds": round(time.perf_counter() - started, 3),
        }
        if trainer.glanced:
            run["seed_ranges"] |= {"measured": trainer.glanced}
        return run

    def _seconds_left(self, spent: float) -> float | None:
        return None if self.max_seconds is None else max(LEAST_TIME * self.max_seconds, self.max_seconds - spent)

    def remarks(self, X: Any = None) -> list[str]:
        """A sentence each on what became of the protected attribute and of missing, unknown and rare values, of the
        training rows and of the rows X."""
        parts = [self.table_.X, *([self.table_.validation[0]] if self.table_.validation else [])]
        rows = pd.concat([*parts, *([] if X is None else [as_table(X)])])
        encoded, said = getattr(models_of(self.model_)[0], "data", None), list(self.sensitive_.remarks)
        if isinstance(encoded, EncodedTable):
            return said + encoded.encoder.remarks(rows)
        holes = rows.columns[rows.isna().any()]
        return said + [f"{self.learner_.name} gets the missing values of {listed(holes)} as they are."] * bool(
            len(holes)
        )

    def eligible_cases(self, X: Any, most: int | None = None, *, sensitive_features: Any = None) -> list[int]:
        """The positions in X of the people φ admits, in order, `most` of them at the most."""
        self._check_fitted()
        X = like_training(as_table(X), self.table_.X)
        situation = self._situation(X, self.sensitive_.of_people(X, sensitive_features))
        return [int(case) for case in np.flatnonzero(eligible(self.phi_, situation))[:most]]

    def flippable_labels(self, X: Any, *, sensitive_features: Any = None) -> list[int]:
        """For each row of X, how many training labels ψ allows to flip."""
        self._check_fitted()
        if not len(X):
            return []
        X = like_training(as_table(X), self.table_.X)
        situation = self._situation(X, self.sensitive_.of_people(X, sensitive_features))
        return [int(count) for count in flippable(self.psi_, situation).counts]

    def brackets(self, X: Any, *, sensitive_features: Any = None) -> list[Bracket]:
        """What is proven about each row of X: how many of the labels that ψ allows it takes at least to turn the
        decision and, where that is known, which so many do it. Refused where no prover knows the model."""
        self._check_fitted()
        X = like_training(as_table(X), self.table_.X)
        situation = self._situation(X, self.sensitive_.of_people(X, sensitive_features))
        with single_threaded():
            proven = prove(self.learner_, situation, flippable(self.psi_, situation))
        if proven is None:
            raise SettingError(
                f"Nothing can be proven about {self.learner_.name}; ridge classifiers, linear regression and "
                "kernel ridge on 0 and 1, nearest neighbours and PartitionEnsemble have proofs."
            )
        return proven

    def confirmed(self, X: Any, brackets: Sequence[Bracket]) -> list[bool]:
        """Whether each set that `brackets` names turns the decision about its row of X when the model's own `fit`
        trains on it; True where it names none."""
        X = like_training(as_table(X), self.table_.X)
        sets = list(dict.fromkeys(b.witness for b in brackets if b.witness))
        logits = definition_of(self.engine, self.jobs).bind(self.learner_, self.table_, X)(
            [Training(flips) for flips in sets]
        )
        before = self.model_.logits(X) > 0
        return [
            b.witness is None or bool((logits[sets.index(b.witness), k] > 0) != before[k])
            for k, b in enumerate(brackets)
        ]

    def searching(
        self, rank: Any = KEEP, protocol: Any = KEEP, *, share: Any = KEEP, max_retrainings: Any = KEEP
    ) -> LabelAudit:
        """This audit, with the same model, under another search. What is not named stays as it is."""
        self._check_fitted()
        other = copy(self)
        named = {"rank": rank, "protocol": protocol, "share": share, "max_retrainings": max_retrainings}
        for name, value in named.items():
            if value is not KEEP:
                setattr(other, name, value)
        check_settings(other)
        other._choose_search()
        return other

    def run_record(self) -> dict[str, Any]:
        """What is needed to run this audit again; `not_rebuildable` names what a record cannot carry."""
        self._check_fitted()
        return record_of(self)

    def to_frame(self) -> pd.DataFrame:
        """One row per training row: its label, its group, what the audited model decides about it, and the logit."""
        self._check_fitted()
        names, labels = self.label_names_, self.table_.zero_one.astype(int)
        return pd.DataFrame(
            {
                "label": [names[label] for label in labels],
                "group": self.sensitive_.values,
                "prediction": [names[int(logit > 0)] for logit in self.training_logits_],
                "logit": self.training_logits_,
            },
            index=self.table_.X.index,
        )

    def _repr_html_(self) -> str:
        from butfor.report.page import audit_fragment

        if not hasattr(self, "model_"):
            hint = "Next: audit.fit(X, y, sensitive_features=…)"
            return audit_fragment("A label audit without a model yet.", [("settings", repr(self))], hint)
        right = float(((self.training_logits_ > 0) == self.table_.zero_one.astype(bool)).mean())
        facts = [
            ("training rows", self.table_.n), ("protected attribute", self.sensitive_.name),
            ("decisions", " or ".join(self.label_names_)),
            ("labels that may be flipped, at most", self.budget_), ("members", self.members_),
            ("fresh seeds", self.fresh_seeds if self.seeded_ else "none: no seed matters here"),
            ("search", f"{self.protocol_.name}, by {self.rank_.name}"),
            ("who is audited (φ)", self.phi_.text), ("which labels may be flipped (ψ)", self.psi_.text),
            ("right about its training rows", f"{100 * right:.1f} %"),
        ]  # fmt: skip
        return audit_fragment(
            f"A label audit of {self.learner_.name}.", facts, "Next: audit.explain(person), audit.explain_all(X, y)"
        )

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        """What notebooks ask first of an estimator."""
        return {"text/plain": repr(self), "text/html": self._repr_html_()}

    # --- fitting ------------------------------------------------------------------------------------

    def _train(self, watch: Watcher) -> None:
        """f, and how many members it has."""
        watch.phase("encoding and the first model")
        if isinstance(self.learner_, MLPLearner):
            self.learner_.warm_up(self.table_)
        started = time.perf_counter()
        first = first_model(self.learner_, self.table_)
        self.fit_seconds_ = (time.perf_counter() - started) / (1 if isinstance(self.learner_, MLPLearner) else 2)
        self.seeded_ = seed_matters(self.learner_, self.table_, first)
        self.members_ = self._how_many(first, self.fit_seconds_)
        self.model_: Model = first
        if self.members_ > 1:
            ensemble = Ensemble(self.learner_, self.members_)
            watch.phase("the other members", self.members_ - 1)
            started = time.perf_counter()
            trains = definition_of(self.engine, self.jobs)
            self.learner_, self.model_ = ensemble, ensemble.fit_beside(first, self.table_, trains, watch.trained)
            each = (time.perf_counter() - started) / (self.members_ - 1)
            self.fit_seconds_ = min(self.fit_seconds_, each)  # the first one may load what is needed

    def _choose_search(self) -> None:
        """Settings as the objects they name; the ranking must accept the model."""
        usual = "solid" if self.members_ > 1 else "guided"
        self.protocol_ = as_protocol(usual if self.protocol is None else self.protocol)
        if isinstance(self.protocol_, SolidSearch) and self.members_ == 1:
            raise SettingError(
                "protocol 'solid' asks the members of an ensemble, and this is an audit of a single model; use "
                "'guided', or members=2 or more with a model that has a seed."
            )
        self.phi_, self.psi_ = as_phi(self.phi), as_psi(self.psi)
        self.share_ = self.protocol_.shares if self.share is None else self.share
        if self.rank is None:
            self.rank_ = self.protocol_.ranking(self.model_)
        else:
            self.rank_ = suited(as_ranking(self.rank, self.random_state), self.model_)
            refuse_unaccepted(self.rank_, self.model_, self.learner_.name)

    def _how_many(self, first: Model, seconds: float) -> int:
        """Members of the ensemble, given one of them and what its training took. Where the single model has proofs,
        there is one: they would not hold for a mean."""
        if isinstance(self.learner_, Ensemble):
            raise SettingError(f"{self.learner_.name}: give the learner itself, and members={self.learner_.members}.")
        if self.members is not None:
            if self.members > 1 and not self.seeded_:
                raise SettingError(
                    f"members={self.members}: no seed changes what {self.learner_.name} learns here, so that all "
                    "members would be the same model; leave members out."
                )
            return int(self.members)
        if not self.seeded_ or provable(self.learner_, first):
            return 1
        return usual_members(self.learner_, self.table_, seconds)

    def _check_fitted(self) -> None:
        if not hasattr(self, "model_"):
            raise SettingError("This audit has no model yet: call fit(X, y, sensitive_features=...) first.")

    def _told(self, concerns: list[Concern], watch: Watcher) -> list[Concern]:
        """The concerns, said; refused where they are not to be."""
        if concerns and self.strict:
            raise TableError(f"Refused, because the audit is strict: {' '.join(map(str, concerns))}")
        for concern in concerns:
            watch.note(f"Note: {concern}")
        return concerns

    # --- asking -------------------------------------------------------------------------------------

    def _situation(self, people: pd.DataFrame, groups: NDArray[np.object_]) -> Situation:
        return Situation(
            model=self.model_, table=self.table_, people=people, sensitive=self.sensitive_, groups=groups,
            label_names=self.label_names_, training_logits=self.training_logits_,
        )  # fmt: skip

    def _performance(self, X: pd.DataFrame, labels: pd.Series, groups: NDArray[np.object_]) -> Performance:
        truth = (labels.to_numpy() == self.classes_[1]).astype(np.int64)
        decided = (self.model_.logits(X) > 0).astype(np.int64)
        commoner = int(2 * self.table_.zero_one.sum() > self.table_.n)
        theirs = pd.Series(groups, name=self.sensitive_.name)
        order = in_order(groups, self.sensitive_.cuts)
        return Performance.of(theirs, truth, decided, commoner, self.label_names_[1], order)

    def _settings(self) -> Settings:
        return Settings(
            rank=self.rank_, protocol=self.protocol_, phi=self.phi_, psi=self.psi_, budget=self.budget_,
            share=self.share_, max_retrainings=self.max_retrainings, fresh_seeds=self.fresh_seeds,
            alternatives=self.alternatives, null=self.null, random_state=self.random_state,
        )  # fmt: skip

    def _ledger(self, note: Callable[[str], None]) -> Ledger:
        lost = gaps(self.learner_)
        if lost and hasattr(members_of(self.learner_)[0], "estimator"):
            raise SettingError(
                f"A ledger tells models apart by their records, and this one's lacks {listed(lost)}; leave it out."
            )
        return Ledger(self.ledger or "", note)

"""LabelAudit: train the model, find the labels that decisions hinge on, say how far to believe it."""

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

from butfor.data.bands import Cuts, in_order
from butfor.data.check import Concern, check_people, check_table
from butfor.data.sensitive import Sensitive
from butfor.errors import LearnerError, SettingError, TableError, listed
from butfor.follow_up import FollowUp
from butfor.interrupt import held_back, work_begins
from butfor.learn.engines import choose_engine, definition_of
from butfor.learn.ensemble import Ensemble
from butfor.learn.learners import as_learner, first_model, seed_matters
from butfor.learn.margin_model import under
from butfor.learn.named import default_model
from butfor.learn.protocols import BIAS, Learner, Model
from butfor.learn.question import Question
from butfor.machine import single_threaded
from butfor.progress import Watcher
from butfor.prove import Bracket, provable, prove
from butfor.provenance import data_hash
from butfor.rank import as_ranking, refuse_unaccepted
from butfor.result.performance import Performance
from butfor.result.population import Population
from butfor.result.record import AFTER, BEFORE, DOUBT, Run
from butfor.result.verdict import Verdict
from butfor.rules import Allowed, as_phi, as_psi, eligible, flippable
from butfor.run.compare import beside_ridge
from butfor.run.conclude import Conclusions
from butfor.run.parts import Part, parts_of
from butfor.run.runner import Runner
from butfor.run.settings import Settings, check_settings, record_of
from butfor.search import as_strategy, budget_in_labels
from butfor.search.ledger import Ledger
from butfor.search.listed import Recorded
from butfor.search.trainer import Trainer
from butfor.situation import Mask, Situation
from butfor.stopping import Stop, Stopper
from butfor.validate import as_labels, as_person, as_positions, as_table, as_weights, like_training, training_table

KEEP: Any = type("Keep", (), {"__repr__": lambda self: "as it is"})()
"""What `searching` leaves as it is."""
OF_THE_SEARCH = ("rank", "strategy", "phi", "psi")
OF_THE_FIT = ("model", "encoder", "members", "budget", "random_state", *OF_THE_SEARCH)
"""Settings that take effect when a model is fitted; the others do when people are asked about."""
LEAST_TIME = 0.1
"""The share of the time given that a search has, however long reading and training took."""


class LabelAudit(FollowUp, BaseEstimator):
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
        watch: Watcher | None = None,
    ) -> LabelAudit:
        """Train f on the table.

        `sensitive_features` names the protected column, or several, which stay in X; or it holds one value per row
        beside X, and the model is blind to it. One that is a number of more than 10 different values is cut into bands,
        at the cut points `sensitive_bands` ([25, 60], or by column {"age": [25, 60]}), else in thirds. `validation`
        rows steer a network's early stopping; where a network is given none, a share of X is set aside for it.
        `adverse` is the label that people would rather not have, of more than two perhaps several: with it, audits
        compare the groups' standards."""
        check_settings(self)
        X = as_table(X)
        y = as_labels(X, y)
        taken = [name for name in (BEFORE, AFTER, DOUBT, BIAS) if name in X.columns]
        if taken:
            raise TableError(f"Column {listed(taken)} has a name that verdicts use for something else; rename it.")
        sensitive = Sensitive.of(sensitive_features, X, sensitive_bands)
        watch = watch or Watcher()
        with watch:
            watch.phase("a look at the table")
            self.concerns_ = _noted(check_table(X, y), watch)
            model = default_model(len(X)) if self.model is None else self.model
            self.learner_: Learner = as_learner(model, self.encoder)
            self.table_, kept = training_table(self.learner_, X, y, validation, as_weights(X, sample_weight))
            self.sensitive_ = replace(sensitive, values=sensitive.values[kept])
            self.classes_ = self.table_.classes
            names = dict(enumerate(y.attrs.get("label_names", ())))
            coded = [names[c] for c in self.classes_] if set(self.classes_) <= set(names) else None
            self.label_names_: tuple[str, ...] = tuple(map(str, label_names or coded or self.classes_))
            if len(self.label_names_) != len(self.classes_):
                raise SettingError(f"label_names has {len(self.label_names_)} names for {len(self.classes_)} labels.")
            if self.table_.many and self.shuffles:
                raise SettingError(
                    f"shuffles={self.shuffles}: nothing is shuffled with more than two labels; leave it out."
                )
            sides = self._sides(adverse)
            self._forget()
            self.origin_: dict[str, Any] = dict(X.attrs.get("origin") or {"table": None})
            self.data_hash_ = data_hash(self.table_)
            self.budget_ = budget_in_labels(self.budget, self.table_.n)
            self._train(watch)
            self._draw_line(sides)
        if not np.isfinite(self.training_logits_).all():
            raise LearnerError(
                f"The training of {self.learner_.name} diverged: it answers with numbers that are infinite or none. "
                "Scale the table's numbers, or lower the learning rate."
            )
        self._choose_search()
        self.remarks_ = self.remarks()
        return self

    def explain(
        self,
        person: Any,
        *,
        sensitive_features: Any = None,
        towards: Any = None,
        stop: Stop | None = None,
        watch: Watcher | None = None,
    ) -> Verdict:
        """The verdict about one person: one row of a table with the training columns."""
        self._check_fitted()
        frame = as_person(person, self.table_.X)
        beside = None if sensitive_features is None else np.atleast_1d(np.asarray(sensitive_features, dtype=object))
        asked = self.explain_all(frame, sensitive_features=beside, towards=towards, stop=stop, watch=watch)
        return replace(asked[0], case=None)

    def explain_all(
        self,
        X: Any,
        y: Any = None,
        *,
        sensitive_features: Any = None,
        cases: Sequence[int] | None = None,
        towards: Any = None,
        stop: Stop | None = None,
        watch: Watcher | None = None,
    ) -> Population:
        """Verdicts about all rows of X, or about those at the positions `cases`.

        A decision is turned when it is any other, or the one that `towards` names: then whoever has it already is left
        out. With more than two labels, flips give the label asked for, else the one whose score comes next.
        `sensitive_features` holds one value per row of X where the model is blind to the protected attribute. The other
        rows of X serve to count collateral changes and, with their labels `y`, accuracy. `stop` ends the search early
        (`butfor.max_seconds(600) | butfor.max_retrainings(5000)`), and so does Ctrl-C; what is done is returned, the
        rest is marked incomplete."""
        self._check_fitted()
        work_begins()
        begun = time.monotonic()
        X = as_table(X)
        truth = self._truth(X, y)
        wanted = None if towards is None else self._label(towards, "towards")
        cases = range(len(X)) if cases is None else as_positions(cases, len(X))
        X = like_training(X, self.table_.X)
        groups = self.sensitive_.of_people(X, sensitive_features)
        watch = watch or Watcher()
        everyone = self._situation(X, groups)
        astray = np.flatnonzero(~np.isfinite(everyone.logits[list(cases)]))
        if len(astray):
            raise TableError(
                f"The model's answer about person {list(cases)[astray[0]]} is infinite or not a number: look at that "
                "row for numbers that are far from the training rows'."
            )
        performance = None if truth is None else self._performance(everyone, truth)
        concerns = check_people(self.table_.X, X)
        concerns += [performance.concern] if performance and performance.concern else []
        concerns = self.concerns_ + _noted(concerns, watch)
        searches = not isinstance(self.strategy_, Recorded)
        standards = self._compared(watch, stop, alone=len(cases) == 1) if searches else None
        situation = everyone.of(np.array(cases, dtype=np.int64))
        psi = flippable(self.psi_, situation)
        admitted = eligible(self.phi_, situation) & (situation.decisions != wanted)
        engine = self._engine(watch)
        self.rank_.train_on(engine)
        with ExitStack() as ending:
            with single_threaded() as opened:
                ledger = opened.enter_context(closing(self._ledger(watch.note))) if self.ledger is not None else None
                opened.enter_context(watch)
                runners: list[Runner] = []
                interrupted = bool(standards and standards.interrupted)
                # The first one says what it will cost: the one with most people to ask about.
                parts = sorted(parts_of(situation, wanted), key=lambda part: -int(admitted[part.people].sum()))
                for part in parts:
                    left = len(cases) - sum(len(runner.situation.people) for runner in runners)
                    trained = sum(runner.trainer.trained for runner in runners)
                    limits = _left(stop, time.monotonic() - begun, trained, len(part.people) / max(1, left))
                    asked = part.of(situation)
                    trainer = Trainer(
                        engine,
                        self.learner_,
                        asked.table,
                        asked.people,
                        ledger=ledger,
                        n_jobs=self.n_jobs,
                        watch=watch,
                        stopper=Stopper(limits),
                    )
                    runner = Runner(
                        replace(self._settings(), strategy=self.strategy_.among(part.people)),
                        self.learner_,
                        self.seeded_,
                        asked,
                        part.allowed(psi, situation),
                        np.flatnonzero(admitted[part.people]),
                        trainer,
                        self.fit_seconds_,
                        everyone=None if runners else int(admitted.sum()),
                    )
                    runner.interrupted = interrupted
                    runner.run(X, truth, [cases[k] for k in part.people])
                    runners.append(runner)
                    interrupted = runner.interrupted
                stopped = any(r.interrupted or r.out_of_time for r in runners)
                whole = runners[0].trainer if len(cases) == len(X) and not self.table_.many else None
                more = {}
                if len(cases) > 1 and searches:
                    self._values = None
                    more = {} if stopped else self._about_labels(engine, watch, everyone, truth, whole)
                ending.enter_context(held_back())  # also while the ledger is closed
            run = Run(
                self._run_record(runners, X, time.monotonic() - begun)
                | {
                    "towards": None if wanted is None else self.label_names_[wanted],
                    "stop": {"seconds": stop.seconds, "retrainings": stop.retrainings} if stop else None,
                    "shuffles": runners[0].shuffles,
                    "performance": performance.to_dict() if performance else None,
                    "concerns": [concern.to_dict() for concern in concerns],
                    "standard": standards.to_dict() if standards and standards.shuffles else None,
                    "phi_reason": self.phi_.reason(situation),
                }
                | more
            )
            verdicts: dict[int, Verdict] = {}
            for part, runner in zip(parts, runners, strict=True):
                said = Conclusions(runner, run, self._doubt_for(part)).verdicts([cases[k] for k in part.people])
                verdicts |= zip(map(int, part.people), said, strict=True)
            values = () if self._values is None else self.label_values()
            return Population([verdicts[k] for k in sorted(verdicts)], run, interrupted=interrupted, labels=values)

    def _doubt_for(self, part: Part) -> NDArray[np.float64] | None:
        """The doubt about labels, where the standards were compared; of more than two labels that is about two sides,
        and says nothing of a flip within one."""
        if self._standards is None or part.question is None:
            return None if self._standards is None else self._standards.doubt
        table = self.table_
        return np.where(table.sides(table.codes) != table.sides(part.question.new), self._standards.doubt, np.nan)

    def _label(self, given: Any, option: str = "adverse") -> int:
        """A label's number, from its name or value."""
        names = [self.label_names_, tuple(name.rpartition(" = ")[2] for name in self.label_names_)]
        for known in [*names, tuple(map(str, self.classes_))]:
            if str(given) in known:
                return known.index(str(given))
        raise SettingError(f"{option}='{given}' is not a label; the labels are {listed(self.label_names_)}.")

    def _truth(self, X: pd.DataFrame, y: Any) -> NDArray[np.int64] | None:
        """People's own labels by number, where they are known."""
        if y is None:
            return None
        labels = as_labels(X, y)
        unknown = set(labels.unique()) - set(self.classes_)
        if unknown:
            raise TableError(f"The labels of these people hold {listed(unknown)}, which no training label is.")
        return np.searchsorted(self.classes_, labels.to_numpy().astype(self.classes_.dtype))

    def _run_record(self, runners: Sequence[Runner], X: pd.DataFrame, seconds: float) -> dict[str, Any]:
        """Settings and what became of them, for the record."""
        trainers = [runner.trainer for runner in runners]
        run = self.run_record() | {
            "engine": trainers[0].engine.name,
            "retrainings": sum(trainer.trained for trainer in trainers),
            "recalled": sum(trainer.recalled for trainer in trainers),
            "confirmations": sum(trainer.confirmations for trainer in trainers),
            "agreement": runners[0].agreement,
            "out_of_time": any(runner.out_of_time for runner in runners),
            "remarks": self.remarks(X),
            "seconds": round(seconds, 3),
        }
        measured = [seed for trainer in trainers for seed in trainer.measuring_seeds]
        if measured:
            run["seed_ranges"] |= {"measured": [min(measured), max(measured)]}
        return run

    def remarks(self, X: Any = None) -> list[str]:
        """A sentence each on what became of the protected attribute and of missing, unknown and rare values, of the
        training rows and of the rows X."""
        parts = [self.table_.X, *([self.table_.validation[0]] if self.table_.validation else [])]
        rows = pd.concat([*parts, *([] if X is None else [as_table(X)])])
        said = list(self.sensitive_.remarks)
        if self.model_.encoder is not None:
            return said + self.model_.encoder.remarks(rows)
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

    def flippable(self, X: Any, *, sensitive_features: Any = None) -> Allowed:
        """For each row of X, which training labels ψ allows to flip."""
        self._check_fitted()
        X = like_training(as_table(X), self.table_.X)
        return flippable(self.psi_, self._situation(X, self.sensitive_.of_people(X, sensitive_features)))

    def brackets(self, X: Any, *, sensitive_features: Any = None) -> list[Bracket]:
        """What is proven about each row of X: how many of the labels that ψ allows it takes at least to turn the
        decision and, where that is known, which so many do it. Refused where no prover knows the model."""
        self._check_fitted()
        X = like_training(as_table(X), self.table_.X)
        situation = self._situation(X, self.sensitive_.of_people(X, sensitive_features))
        psi, found = flippable(self.psi_, situation), dict[int, Bracket]()
        for part in parts_of(situation):
            with single_threaded():
                proven = prove(part.of(situation), part.allowed(psi, situation))
            if proven is None:
                raise SettingError(
                    f"Nothing can be proven about {self.learner_.name}; ridge classifiers, linear regression and "
                    "kernel ridge on 0 and 1, nearest neighbours and PartitionEnsemble have proofs."
                )
            found |= zip(map(int, part.people), proven, strict=True)
        return [found[k] for k in sorted(found)]

    def compare_with_ridge(self, X: Any, y: Any = None, *, sensitive_features: Any = None) -> dict[str, Any]:
        """This model beside ridge, whose decisions have exact proofs: how often each is right about the rows X, whose
        decision changes, and how many are proven to stand. For the page: `population.run["ridge"]`."""
        self._check_fitted()
        X = as_table(X)
        if self.table_.many:
            raise SettingError("The comparison with ridge is about two labels; here there are more.")
        codes = self._truth(X, y)
        truth = None if codes is None else codes == 1
        X = like_training(X, self.table_.X)
        situation = self._situation(X, self.sensitive_.of_people(X, sensitive_features))
        with single_threaded():
            return beside_ridge(situation, self.psi_, self.budget_, truth)

    def searching(self, rank: Any = KEEP, strategy: Any = KEEP) -> LabelAudit:
        """This audit, with the same model, under another search. What is not named stays as it is."""
        self._check_fitted(besides=OF_THE_SEARCH)
        other = copy(self)
        for name, value in {"rank": rank, "strategy": strategy}.items():
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
        names = self.label_names_
        return pd.DataFrame(
            {
                "label": [names[label] for label in self.table_.codes],
                "group": self.sensitive_.values,
                "prediction": [names[decision] for decision in self.training_decisions_],
                "logit": self.training_logits_,
            },
            index=self.table_.X.index,
        )

    def _repr_html_(self) -> str:
        from butfor.report.page import audit_fragment

        if not hasattr(self, "model_"):
            hint = "Next: audit.fit(X, y, sensitive_features=…)"
            return audit_fragment("A label audit without a model yet.", [("settings", repr(self))], hint)
        right = float((self.training_decisions_ == self.table_.codes).mean())
        facts = [
            ("training rows", self.table_.n), ("protected attribute", self.sensitive_.name),
            ("decisions", " or ".join(self.label_names_)),
            ("labels that may be flipped, at most", self.budget_), ("members", self.members_),
            ("fresh seeds", self.fresh_seeds if self.seeded_ else "none: no seed matters here"),
            ("search", f"{self.strategy_.name}, by {self.rank_.name}"),
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
        first, self.fit_seconds_ = first_model(self.learner_, self.table_)
        self.seeded_ = seed_matters(self.learner_, self.table_, first)
        self.members_ = self._how_many(first, self.fit_seconds_)
        self.model_: Model = first
        if self.members_ > 1:
            ensemble = Ensemble(self.learner_, self.members_)
            watch.phase("the other members", self.members_ - 1)
            started = time.perf_counter()
            trains = definition_of(self.engine, self.n_jobs)
            self.learner_, self.model_ = ensemble, ensemble.fit_beside(first, self.table_, trains, watch.advance)
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
        answers = self.model_.answers(table.X, table.many)
        self.training_decisions_ = table.decided(answers)
        if table.many:
            scores = answers.reshape(table.n, -1)
            question = Question.between(sides, table.codes, scores)
            self.table_, self.model_ = table.under(question), under(self.model_, question)
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
        if self.learner_.single is not self.learner_:
            members = len(self.learner_.seeds)
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
        return self.learner_.usual_members(self.table_.n, seconds)

    def _check_fitted(self, besides: Sequence[str] = ()) -> None:
        """Whether there is a model, and it is the one that the settings name, `besides` those that may change."""
        if not hasattr(self, "model_"):
            raise SettingError("This audit has no model yet: call fit(X, y, sensitive_features=...) first.")
        changed = [name for name, value in self._fitted_with.items() if not _same(value, getattr(self, name))]
        if set(changed) - set(besides):
            raise SettingError(
                f"{listed(changed)} changed since fit: call fit again, or searching(rank=…, strategy=…) for another "
                "search with the same model."
            )

    # --- asking -------------------------------------------------------------------------------------

    def _situation(self, people: pd.DataFrame, groups: NDArray[np.object_]) -> Situation:
        return Situation(
            model=self.model_, table=self.table_, people=people, sensitive=self.sensitive_, groups=groups,
            label_names=self.label_names_, training_decisions=self.training_decisions_, doubts=lambda: self.doubt_,
        )  # fmt: skip

    def _performance(self, everyone: Situation, truth: NDArray[np.int64]) -> Performance:
        table, decided = self.table_, everyone.decisions
        groups = pd.Series(everyone.groups, name=self.sensitive_.name)
        order = in_order(everyone.groups, self.sensitive_.cuts)
        commoner = int(np.bincount(table.codes).argmax())  # of equally common ones the first
        named = None if table.many and self.adverse_ is None else self.sides_[1]
        return Performance.of(groups, truth, decided, commoner, table.sides, named, order)

    def _engine(self, watch: Watcher) -> Any:
        return choose_engine(self.engine, self.learner_, self.n_jobs, watch.note)

    def _settings(self) -> Settings:
        return Settings(
            rank=self.rank_,
            strategy=self.strategy_,
            phi=self.phi_,
            psi=self.psi_,
            budget=self.budget_,
            fresh_seeds=self.fresh_seeds,
            shuffles=self.shuffles,
            random_state=self.random_state,
        )

    def _ledger(self, note: Callable[[str], None]) -> Ledger:
        if not self.learner_.single.identified:
            raise SettingError(
                "A ledger tells models apart by their records, and this one's lacks "
                f"{listed(self.learner_.gaps())}; leave it out."
            )
        return Ledger(self.ledger or "", note)


def _same(before: Any, now: Any) -> bool:
    """Whether a setting is as it was; of objects, whether it is the same one."""
    return before is now or (isinstance(now, (str, int, float)) and bool(before == now))


def _noted(concerns: list[Concern], watch: Watcher) -> list[Concern]:
    for concern in concerns:
        watch.note(f"Note: {concern}")
    return concerns


def _left(stop: Stop | None, spent: float, trained: int, share: float) -> Stop | None:
    """What is left of the limits: trainings not done yet, a share of the seconds not over yet, or of a tenth of all."""
    if stop is None:
        return None
    seconds = None if stop.seconds is None else share * max(LEAST_TIME * stop.seconds, stop.seconds - spent)
    return Stop(seconds, None if stop.retrainings is None else max(0, stop.retrainings - trained))

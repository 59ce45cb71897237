"""LabelAudit: Algorithm 1. Train f; ask φ who may be audited; rank the labels that ψ allows; flip,
retrain and look again, until the prediction changes or the protocol is through."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import closing
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from butfor import __version__
from butfor.errors import LearnerError, SettingError, TableError, listed
from butfor.frames import as_labels, as_person, as_table, as_weights, like_training
from butfor.learn.engines import check_engine, choose_engine
from butfor.learn.joblib_engine import JoblibEngine
from butfor.learn.learners import as_learner, first_model, gaps, seed_matters, set_aside, suited_mlp
from butfor.machine import single_threaded
from butfor.progress import Watcher
from butfor.prove import Bracket, prove
from butfor.provenance import data_hash, versions
from butfor.rank import as_ranking, checked_scores, refuse_unaccepted
from butfor.rank.ranking import parameters
from butfor.result.conclude import Conclusions
from butfor.result.control import Collateral, Found, collaterals, seed_controls
from butfor.result.population import Population
from butfor.result.record import AFTER, BEFORE
from butfor.result.verdict import Verdict
from butfor.rules import as_phi, as_psi, eligible, flippable
from butfor.seam import FlipSet, Learner, Table, Training, away, person_keys
from butfor.search import as_protocol, budget_in_labels
from butfor.search.guided import Leaders, leader_words
from butfor.search.joint import JointSearch, Pursuit
from butfor.search.ledger import Ledger
from butfor.search.plans import Listed
from butfor.search.protocols import Ranked
from butfor.search.trainer import Trainer
from butfor.situation import Sensitive, Situation

BLOCK = 256
"""People scored at once: their scores against every training row must fit in memory."""

Keep = type("Keep", (), {"__repr__": lambda self: "as it is"})
KEEP: Any = Keep()
"""What `searching` leaves as it is."""


class LabelAudit(BaseEstimator):
    """Which few training labels decide about a person?

    Parameters
    ----------
    model : what to audit: any scikit-learn classifier or pipeline, `butfor.MLP`, or a `butfor.Learner`. Its settings
        are the learning algorithm, everything fixed; it is cloned, whether fitted or not. None: a network that suits
        the table.
    encoder : how a table becomes numbers for a network or for an estimator without preprocessing of its own; a
        `TableEncoder` where None. "passthrough" hands the raw table to the estimator whatever it holds.
    budget : labels that may be flipped, a share (0.001, rounded up) or a count (3).
    rank : a ranking's name (see `butfor.rank.NAMES`), or an object with `score`, or a function. None: the
        protocol's own.
    protocol : "guided", or a published one: "algorithm1", "singles", "attempts", "exhaustive"; or a `butfor.Protocol`.
    phi, psi : who may be audited and which labels may be flipped: rules, their text, callables or masks.
    share : ask every trained model about everyone. None: as the protocol has it.
    max_retrainings : stop after that many trainings, whoever is still waiting.
    seeds : other seeds under which every found verdict is put to the test; 0 for none.
    alternatives : further flip sets, sharing no row with each other, to look for where one was found.
    engine, device, jobs : what trains: a name (see `butfor.learn.engines`) or a `butfor.Engine`.
    ledger : a file that remembers every model's answers, so that nothing is trained twice, also not
        after an interruption.
    random_state : seed of whatever the search draws. The model has a seed of its own.

    After `fit`, `model_` is f, `learner_` what trained it, `table_` what it was trained on.
    """

    def __init__(
        self,
        model: Any = None,
        *,
        encoder: Any = None,
        budget: float = 0.001,
        rank: Any = None,
        protocol: Any = "guided",
        phi: Any = "stable_under_switch",
        psi: Any = "published",
        share: bool | None = None,
        max_retrainings: int | None = None,
        seeds: int = 20,
        alternatives: int = 0,
        engine: Any = "auto",
        device: str | None = None,
        jobs: int | None = None,
        ledger: str | Path | None = None,
        random_state: int = 0,
    ) -> None:
        self.model = model
        self.encoder = encoder
        self.budget = budget
        self.rank = rank
        self.protocol = protocol
        self.phi = phi
        self.psi = psi
        self.share = share
        self.max_retrainings = max_retrainings
        self.seeds = seeds
        self.alternatives = alternatives
        self.engine = engine
        self.device = device
        self.jobs = jobs
        self.ledger = ledger
        self.random_state = random_state

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        sensitive_features: Any,
        sample_weight: Any = None,
        validation: tuple[Any, Any] | None = None,
        label_names: tuple[str, str] | None = None,
    ) -> LabelAudit:
        """Train f on the table.

        `sensitive_features` names the protected column, or several, which stay in X; or it holds one value per row
        beside X, and the model is blind to it. `validation` rows steer a network's early stopping; where a network is
        given none, a share of X is set aside for it."""
        self._check_settings()
        X = as_table(X)
        y = as_labels(X, y)
        taken = [name for name in (BEFORE, AFTER) if name in X.columns]
        if taken:
            raise TableError(f"Column {listed(taken)} has a name that verdicts use for the flipped labels; rename it.")
        sensitive = Sensitive.of(sensitive_features, X)
        self.learner_: Learner = as_learner(suited_mlp(len(X)) if self.model is None else self.model, self.encoder)
        self.table_, kept = self._prepared(X, y, validation, as_weights(X, sample_weight))
        self.sensitive_ = replace(sensitive, values=sensitive.values[kept])
        self.classes_ = self.table_.classes
        names = label_names or y.attrs.get("label_names") or tuple(str(c) for c in self.classes_)
        self.label_names_: tuple[str, str] = (str(names[0]), str(names[1]))
        self.origin_: dict[str, Any] = dict(X.attrs.get("origin") or {"table": None})
        self.data_hash_ = data_hash(self.table_)
        self.budget_ = budget_in_labels(self.budget, self.table_.n)
        self.model_ = first_model(self.learner_, self.table_)
        self.training_logits_ = self.model_.logits(self.table_.X)
        self.seeded_ = seed_matters(self.learner_, self.table_, self.model_)
        self._choose_search()
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
    ) -> Population:
        """Verdicts about all rows of X, or about those at the positions `cases`.

        `sensitive_features` holds one value per row of X where the model is blind to the protected attribute. The other
        rows of X serve to count collateral changes and, with their labels `y`, accuracy. Ctrl-C ends
        the search early; what is done is returned, and the rest is marked incomplete."""
        self._check_fitted()
        X = as_table(X)
        labels = None if y is None else as_labels(X, y)
        unknown = set() if labels is None else set(labels.unique()) - set(self.classes_)
        if unknown:
            raise TableError(f"The labels of these people hold {listed(unknown)}, which no training label is.")
        cases = range(len(X)) if cases is None else cases
        outside = [case for case in cases if not 0 <= case < len(X)]
        if outside:
            raise SettingError(f"There is no person {outside[0]}: the table has people 0 to {len(X) - 1}.")
        X = like_training(X, self.table_.X)
        groups = self.sensitive_.of_people(X, sensitive_features)
        watch = watch or Watcher()
        started = time.perf_counter()
        situation = self._situation(X.iloc[list(cases)], groups[list(cases)])
        psi = flippable(self.psi_, situation)
        people = np.flatnonzero(eligible(self.phi_, situation))
        proven = self._proven(situation, people, psi)
        engine = choose_engine(self.engine, self.learner_, self.device, self.jobs, watch.note)
        if hasattr(self.rank_, "train_on"):
            self.rank_.train_on(str(getattr(engine, "device", "cpu")))
        with single_threaded() as opened:
            ledger = opened.enter_context(closing(self._ledger())) if self.ledger is not None else None
            trainer = Trainer(engine, self.learner_, self.table_, situation.people, ledger, self.jobs)
            settled = [self._settled(situation, person, bracket) for person, bracket in proven.items()]
            pursuits = [pursuit for pursuit in settled if pursuit is not None]
            searched = np.setdiff1d(people, [pursuit.person for pursuit in pursuits])
            agreement = self._trial(trainer, situation, searched, psi, watch)
            pursuits += self._pursuits(situation, searched, psi)
            opened.enter_context(watch)
            self._announce(pursuits, psi, trainer, watch)
            interrupted = self._search(trainer, psi, pursuits, watch)
            extra: dict[int, dict[str, Any]] = {}
            if not interrupted:
                extra = self._other_sets(trainer, situation, psi, pursuits, watch)
                for person, belief in self._beliefs(trainer, situation, X, labels, cases, pursuits, watch).items():
                    extra.setdefault(person, {}).update(belief)
        run = self.run_record() | {
            "engine": trainer.engine.name,
            "retrainings": trainer.trained,
            "needed": trainer.needed,
            "recalled": trainer.recalled,
            "confirmations": trainer.confirmations,
            "agreement": agreement,
            "seconds": round(time.perf_counter() - started, 3),
        }
        conclusions = Conclusions(
            situation, self.learner_, self.budget_, self.rank_.name, self.protocol_, self.phi_, self.psi_, proven, run
        )
        return Population(conclusions.verdicts(cases, psi, pursuits, extra), run, interrupted=interrupted)

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
        return [int(count) for count in flippable(self.psi_, situation).sum(axis=1)]

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
                f"Nothing can be proven about {self.learner_.name}; ridge classifiers, nearest neighbours and "
                "PartitionEnsemble have proofs."
            )
        return proven

    def confirmed(self, X: Any, brackets: Sequence[Bracket]) -> list[bool]:
        """Whether each set that `brackets` names turns the decision about its row of X when the model's own `fit`
        trains on it; True where it names none."""
        X = like_training(as_table(X), self.table_.X)
        sets = list(dict.fromkeys(b.witness for b in brackets if b.witness))
        logits = JoblibEngine(self.jobs).bind(self.learner_, self.table_, X)([Training(flips) for flips in sets])
        before = self.model_.logits(X) > 0
        return [
            b.witness is None or bool((logits[sets.index(b.witness), k] > 0) != before[k])
            for k, b in enumerate(brackets)
        ]

    def searching(
        self, rank: Any = KEEP, protocol: Any = KEEP, *, share: Any = KEEP, max_retrainings: Any = KEEP
    ) -> LabelAudit:
        """This audit, with the same model, under another search. What is not named stays as it is."""
        other = copy(self)
        named = {"rank": rank, "protocol": protocol, "share": share, "max_retrainings": max_retrainings}
        for name, value in named.items():
            if value is not KEEP:
                setattr(other, name, value)
        other._check_settings()
        other._choose_search()
        return other

    def run_record(self) -> dict[str, Any]:
        """What is needed to run this audit again; `not_rebuildable` names what a record cannot carry."""
        self._check_fitted()
        data = {"sha256": self.data_hash_, "training_rows": self.table_.n, "set_aside": self.table_.set_aside}
        return {
            "butfor": __version__,
            "versions": versions(),
            "data": self.origin_
            | data
            | {"validated": self.table_.validation is not None, "weighted": self.table_.weight is not None},
            "sensitive": self.sensitive_.name,
            "sensitive_columns": list(self.sensitive_.columns),
            "blind": self.sensitive_.blind,
            "label_names": list(self.label_names_),
            "learner": self.learner_.record(),
            "learner_name": self.learner_.name,
            "seeded": self.seeded_,
            "budget": self.budget_,
            "rank": self.rank_.name,
            "rank_parameters": parameters(self.rank_),
            "protocol": self.protocol_.name,
            "protocol_parameters": parameters(self.protocol_),
            "share": self.share_,
            "phi": self.phi_.text,
            "psi": self.psi_.text,
            "max_retrainings": self.max_retrainings,
            "seeds": self.seeds,
            "alternatives": self.alternatives,
            "random_state": self.random_state,
            "not_rebuildable": self._not_rebuildable(),
        }

    # --- fitting ------------------------------------------------------------------------------------

    def _check_settings(self) -> None:
        """Refuse settings that cannot be, before anything is trained."""
        as_protocol(self.protocol)
        if self.rank is not None:
            as_ranking(self.rank)
        as_phi(self.phi)
        as_psi(self.psi)
        budget_in_labels(self.budget, 2**62)
        check_engine(self.engine, self.jobs)
        if self.max_retrainings is not None and self.max_retrainings < 1:
            raise SettingError(f"max_retrainings={self.max_retrainings} must be at least 1.")
        for name in ("seeds", "alternatives", "random_state"):
            value = getattr(self, name)
            if not isinstance(value, (int, np.integer)) or value < 0:
                told = "random_state (--seed)" if name == "random_state" else name
                raise SettingError(f"{told}={value!r} must be a whole number from 0 up.")

    def _choose_search(self) -> None:
        """Settings as the objects they name; the ranking must accept the model."""
        self.protocol_ = as_protocol(self.protocol)
        self.phi_, self.psi_ = as_phi(self.phi), as_psi(self.psi)
        self.share_ = self.protocol_.shares if self.share is None else self.share
        if self.rank is None:
            self.rank_ = self.protocol_.ranking(self.model_)
        else:
            self.rank_ = as_ranking(self.rank, self.random_state)
            refuse_unaccepted(self.rank_, self.model_, self.learner_.name)

    def _prepared(
        self, X: pd.DataFrame, y: pd.Series, validation: tuple[Any, Any] | None, weight: NDArray[np.float64] | None
    ) -> tuple[Table, NDArray[np.int64]]:
        """The training table, and the positions of its rows in X."""
        everything, split = np.arange(len(X)), getattr(self.learner_, "split", None)
        if split is None:
            if validation is not None:
                raise SettingError(
                    f"{self.learner_.name} takes no validation rows: leave validation out, or add them to X."
                )
            return Table(X, y, weight=weight), everything
        if weight is not None:
            raise LearnerError(f"{self.learner_.name} takes no sample_weight; leave it out.")
        if validation is not None:
            X_val = as_table(validation[0])
            y_val = as_labels(X_val, validation[1], "validation labels")
            table = Table(X, y, (X_val, y_val))
            unknown = set(y_val.unique()) - set(table.classes)
            if unknown:
                raise TableError(f"The validation labels hold {listed(unknown)}, which no training label is.")
            return table, everything
        return set_aside(Table(X, y), self.learner_)

    def _not_rebuildable(self) -> list[str]:
        lost = gaps(self.learner_)
        if self.origin_["table"] is None:
            lost.append("data: the table was given in Python")
        if self.table_.weight is not None:
            lost.append("sample_weight: given in Python")
        for name, rule in (("phi", self.phi_), ("psi", self.psi_)):
            if not rule.rebuildable:
                lost.append(f"{name}: {rule.text}, which is a function or a mask")
        for name, thing in (("rank", self.rank_), ("protocol", self.protocol_)):
            if type(thing).__module__.split(".")[0] != "butfor" or hasattr(thing, "function"):
                lost.append(f"{name}: {thing.name}, which is the user's own code")
        return lost

    def _check_fitted(self) -> None:
        if not hasattr(self, "model_"):
            raise SettingError("This audit has no model yet: call fit(X, y, sensitive_features=...) first.")

    # --- searching ----------------------------------------------------------------------------------

    def _situation(self, people: pd.DataFrame, groups: NDArray[np.object_]) -> Situation:
        return Situation(
            model=self.model_, table=self.table_, people=people, sensitive=self.sensitive_, groups=groups,
            label_names=self.label_names_, training_logits=self.training_logits_,
        )  # fmt: skip

    def _ledger(self) -> Ledger:
        lost = gaps(self.learner_)
        if lost and hasattr(self.learner_, "estimator"):
            raise SettingError(
                f"A ledger tells models apart by their records, and this one's lacks {listed(lost)}; leave it out."
            )
        return Ledger(self.ledger or "")

    def _proven(self, situation: Situation, people: NDArray[np.int64], psi: NDArray[np.bool_]) -> dict[int, Bracket]:
        """What is proven about each of the people, where a prover knows the model."""
        asked = replace(situation, people=situation.people.iloc[people], groups=situation.groups[people])
        brackets = prove(self.learner_, asked, psi[people]) if len(people) else None
        return dict(zip(map(int, people), brackets, strict=True)) if brackets else {}

    def _settled(self, situation: Situation, person: int, bracket: Bracket) -> Pursuit | None:
        """A search that need not search: its only attempt is what was proven to be the smallest set, or there is none
        because the proof goes beyond the budget."""
        beyond = bracket.at_least > self.budget_
        if not self.protocol_.proves or (bracket.witness is None and not beyond):
            return None
        attempts = [] if beyond or bracket.witness is None else [bracket.witness]
        out = -1.0 if situation.predictions[person] else 1.0
        return Pursuit(person, Listed(iter(attempts)), out, settled=True)

    def _pursuits(self, situation: Situation, people: NDArray[np.int64], psi: NDArray[np.bool_]) -> list[Pursuit]:
        """One search per eligible person, the ranking cut off where the protocol cannot reach."""
        pursuits = []
        keys = person_keys(self.model_, situation.people)
        directions = away(situation.logits)
        for first in range(0, len(people), BLOCK):
            block = people[first : first + BLOCK]
            asked = situation.people.iloc[block]
            scores = checked_scores(self.rank_, self.model_, self.table_, asked)
            foretold = (
                self.rank_.predictions(self.model_, self.table_, asked) if isinstance(self.rank_, Leaders) else None
            )
            for k, (person, score) in enumerate(zip(block, scores, strict=True)):
                allowed = np.flatnonzero(psi[person])
                depth = self.protocol_.depth(len(allowed), self.budget_)
                drawn = self.rank_.name == "chance"
                order = allowed[np.argsort(-score[allowed], kind="stable")][: None if drawn else depth]
                rng = np.random.default_rng([self.random_state, keys[person]])
                out = float(directions[person])
                start = out * float(situation.logits[person])
                effects = None if foretold is None else np.asarray(foretold[k][order], np.float64)
                ranked = Ranked(order, self.budget_, rng, len(allowed), drawn, start, effects)
                pursuits.append(Pursuit(int(person), self.protocol_.plan(ranked), out))
        return pursuits

    def _trial(
        self, trainer: Trainer, situation: Situation, people: NDArray[np.int64], psi: NDArray[np.bool_], watch: Watcher
    ) -> dict[str, Any] | None:
        """Let the ranking look at a few real retrainings first, where it wants to."""
        if not (hasattr(self.rank_, "prepare") and hasattr(self.rank_, "trial")) or not len(people):
            return None
        if self.max_retrainings is not None and 2 * self.rank_.trial(len(people)) > self.max_retrainings:
            return None  # what is left would be too little to search with
        figures: dict[str, Any] = self.rank_.prepare(
            lambda sets: trainer.retrain(sets)[:, people], self.model_, self.table_, situation.people.iloc[people],
            psi[people], self.budget_,
        )  # fmt: skip
        if figures["poor"]:
            watch.note(
                f"Training is rough here: predicted and real effects of a single flip agree poorly (rank correlation "
                f"{figures['spearman']:.2f}). The search goes by {leader_words(figures)}, which moved "
                "decisions furthest in a trial."
            )
        return figures

    def _search(self, trainer: Trainer, psi: NDArray[np.bool_], pursuits: Sequence[Pursuit], watch: Watcher) -> bool:
        """Run the pursuits; True where Ctrl-C ended it."""
        search = JointSearch(
            trainer,
            psi,
            self.budget_,
            share=self.share_,
            shrink=self.protocol_.shrinks,
            max_retrainings=self.max_retrainings,
            pool=self.protocol_.pool([p.plan for p in pursuits]),
            watch=watch,
        )
        search.run(pursuits)
        return search.interrupted

    def _other_sets(
        self,
        trainer: Trainer,
        situation: Situation,
        psi: NDArray[np.bool_],
        pursuits: Sequence[Pursuit],
        watch: Watcher,
    ) -> dict[int, dict[str, Any]]:
        """Per person found, further flip sets without any row that was used before."""
        sets: dict[int, list[FlipSet]] = {p.person: [p.found] for p in pursuits if p.found}
        left = psi.copy()
        going = list(sets)
        try:
            for _ in range(self.alternatives):
                for person in going:
                    left[person, list(sets[person][-1])] = False
                again = self._pursuits(situation, np.array(going, dtype=np.int64), left)
                interrupted = self._search(trainer, left, again, watch)
                for pursuit in again:
                    if pursuit.found:
                        sets[pursuit.person].append(pursuit.found)
                if interrupted:
                    raise KeyboardInterrupt
                going = [p.person for p in again if p.found]
        except KeyboardInterrupt:
            watch.note("Stopped before all alternatives were looked for: the verdicts stand without them.")
        return {person: {"alternatives": tuple(found[1:])} for person, found in sets.items()}

    def _beliefs(
        self, trainer: Trainer, situation: Situation, X: pd.DataFrame, y: pd.Series | None, cases: Sequence[int],
        pursuits: Sequence[Pursuit], watch: Watcher,
    ) -> dict[int, dict[str, Any]]:  # fmt: skip
        """Per person found: seed control, where seeds matter, and collateral, by the engine."""
        found = [Found(p.person, p.found, int(situation.predictions[p.person])) for p in pursuits if p.found]
        if not self.seeds or not found:
            return {}
        beliefs: dict[int, dict[str, Any]] = {f.person: {} for f in found}
        try:
            if self.seeded_:
                controls = seed_controls(trainer.train, self._own_seed() + 1, found, self.seeds, watch)
                for f, control in zip(found, controls, strict=True):
                    beliefs[f.person]["control"] = control
            if len(X) > 1:
                labels = None if y is None else (y.to_numpy() == self.classes_[1])
                ask = trainer.engine.bind(self.learner_, self.table_, X)
                sides: Sequence[Collateral] = collaterals(ask, labels, found, [cases[f.person] for f in found], watch)
                for f, side in zip(found, sides, strict=True):
                    beliefs[f.person]["collateral"] = side
        except KeyboardInterrupt:
            watch.note("Stopped before the seed control was through: the verdicts stand without it.")
            return {}
        return beliefs

    def _own_seed(self) -> int:
        """The learner's seed as far as it has one; other seeds are counted from it."""
        return int(getattr(self.learner_, "own_seed", 0))

    def _announce(self, pursuits: Sequence[Pursuit], psi: NDArray[np.bool_], trainer: Trainer, watch: Watcher) -> None:
        """Say what the search will cost, from the time a training takes here. Nothing is trained for it but one model,
        and that only where somebody listens and nothing was trained yet."""
        most = sum(self.protocol_.most(int(psi[p.person].sum()), self.budget_) for p in pursuits)
        if self.budget_ <= 2 and pursuits:  # equal sets are trained once
            most = min(most, _distinct_sets(psi[[p.person for p in pursuits]], self.budget_))
        if self.max_retrainings is not None:
            most = min(most, max(0, self.max_retrainings - trainer.trained))
        if not most or not watch.listens:
            watch.plan(len(pursuits), most and trainer.trained + most, 0.0)
            return
        watch.plan(len(pursuits), trainer.trained + most, most * trainer.time_of_one())


def _distinct_sets(psi: NDArray[np.bool_], budget: int) -> int:
    """Different single labels and, with a budget of 2, pairs that somebody's ψ `[people × rows]` allows."""
    singles = psi[:, psi.any(axis=0)]
    count = singles.shape[1]
    if budget == 1:
        return count
    if count > 5000:
        return count * (count + 1) // 2
    allowed = singles.astype(np.float32)
    return count + int(np.triu(allowed.T @ allowed > 0, 1).sum())

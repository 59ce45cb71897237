"""LabelAudit: Algorithm 1. Train f; ask φ who may be audited; rank the labels that ψ allows; flip,
retrain and look again, until the prediction changes or the protocol is through."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from butfor import __version__
from butfor.conclude import conclude
from butfor.control import Collateral, Found, collaterals, seed_controls
from butfor.encode import TableEncoder
from butfor.errors import SettingError, TableError, listed
from butfor.learn.engines import choose_engine
from butfor.learn.mlp import MLP, split_off_validation, two_classes
from butfor.learn.recipe import Engine, FlipSet, Floats, Network, Rows
from butfor.learn.reference import train
from butfor.ledger import Ledger
from butfor.population import Population
from butfor.progress import Watcher
from butfor.protocols import Protocol, Ranked, as_protocol, budget_in_labels
from butfor.provenance import data_hash, versions
from butfor.rank import Ranking, as_ranking, checked_scores
from butfor.rank.chance import person_key
from butfor.rank.guided import LEADERS
from butfor.rules import Rule, Situation, as_phi, as_psi, eligible, flippable, group_values
from butfor.search import JointSearch, Pursuit
from butfor.trainer import Trainer
from butfor.verdict import AFTER, BEFORE, Training, Verdict

BLOCK = 256
"""People scored at once: their scores against every training row must fit in memory."""


class LabelAudit:
    """Which few training labels decide about a person?

    Parameters
    ----------
    model : the network to audit; its settings are the learning algorithm, everything fixed.
    encoder : how the table becomes numbers; a `TableEncoder` with its defaults where None.
    budget : labels that may be flipped, a share (0.001, rounded up) or a count (3).
    rank : a ranking's name (see `butfor.rank.NAMES`), or an object with `score`, or a function. None: the
        protocol's own.
    protocol : "guided", or a published one: "algorithm1", "singles", "attempts", "exhaustive".
    phi, psi : who may be audited and which labels may be flipped: rules, their text, callables or masks.
    share : ask every trained network about everyone. None: as the protocol has it.
    max_retrainings : stop after that many networks, whoever is still waiting.
    seeds : other seeds under which every found verdict is put to the test; 0 for none.
    alternatives : further flip sets, sharing no row with each other, to look for where one was found.
    engine, device, jobs : what trains; see `butfor.learn.engines`.
    ledger : a file that remembers every network's answers, so that nothing is trained twice, also not
        after an interruption.
    random_state : seed of whatever the search draws. The model has a seed of its own.
    """

    def __init__(
        self,
        model: MLP | None = None,
        *,
        encoder: TableEncoder | None = None,
        budget: float = 0.001,
        rank: str | Ranking | Callable[..., Any] | None = None,
        protocol: str | Protocol = "guided",
        phi: Any = "stable_under_switch",
        psi: Any = "published",
        share: bool | None = None,
        max_retrainings: int | None = None,
        seeds: int = 20,
        alternatives: int = 0,
        engine: str | Engine = "auto",
        device: str | None = None,
        jobs: int | None = None,
        ledger: str | Path | None = None,
        random_state: int = 0,
    ) -> None:
        self.model = model or MLP()
        self.encoder = encoder or TableEncoder()
        self.budget = budget
        self.protocol = as_protocol(protocol)
        self.rank = as_ranking(self.protocol.rank if rank is None else rank, random_state)
        self.phi: Rule = as_phi(phi)
        self.psi: Rule = as_psi(psi)
        self.share = self.protocol.shares if share is None else share
        _check_limit(max_retrainings)
        for name, value in (("seeds", seeds), ("alternatives", alternatives)):
            if value < 0:
                raise SettingError(f"{name}={value} must be 0 or more.")
        self.max_retrainings, self.seeds, self.alternatives = max_retrainings, seeds, alternatives
        self.engine, self.device, self.jobs = engine, device, jobs
        self.ledger = Ledger(ledger) if ledger is not None else None
        self.random_state = random_state

    def fit(
        self,
        X: pd.DataFrame,
        y: pd.Series,
        *,
        sensitive_features: Hashable,
        validation: tuple[pd.DataFrame, pd.Series] | None = None,
        label_names: tuple[str, str] | None = None,
    ) -> LabelAudit:
        """Train f on the table. `sensitive_features` names the protected column, which stays in X."""
        X, y = _table(X), _labels(X, y)
        if not isinstance(sensitive_features, Hashable) or sensitive_features not in X.columns:
            raise TableError(
                f"sensitive_features must name a column of X, which has {listed(X.columns, 30)}; "
                f"got {_brief(sensitive_features)}."
            )
        taken = [name for name in (BEFORE, AFTER) if name in X.columns]
        if taken:
            raise TableError(f"Column {listed(taken)} has a name that verdicts use for the flipped labels; rename it.")
        group_values(X[sensitive_features])
        self.sensitive_ = sensitive_features
        self.classes_ = two_classes(y.to_numpy())
        self.label_names_ = label_names or y.attrs.get("label_names") or tuple(str(c) for c in self.classes_)
        self.budget_ = budget_in_labels(self.budget, len(X))
        self.encoder_ = self.encoder.fit(X)
        self._learn(X, y, validation)
        return self

    def explain(self, person: pd.DataFrame | pd.Series, *, watch: Watcher | None = None) -> Verdict:
        """The verdict about one person: one row of a table with the training columns."""
        frame = person.to_frame().T if isinstance(person, pd.Series) else person
        if not isinstance(frame, pd.DataFrame) or len(frame) != 1:
            raise TableError(
                f"explain takes one person, a table of one row (X.iloc[[36]]); got {_brief(person)}. "
                "For several people use explain_all."
            )
        return replace(self.explain_all(frame, watch=watch).verdicts[0], case=None)

    def explain_all(
        self,
        X: pd.DataFrame,
        y: pd.Series | None = None,
        *,
        cases: Sequence[int] | None = None,
        watch: Watcher | None = None,
    ) -> Population:
        """Verdicts about all rows of X, or about those at the positions `cases`.

        The other rows of X serve to count collateral changes and, with their labels `y`, accuracy. Ctrl-C ends
        the search early; what is done is returned, and the rest is marked incomplete."""
        self._check_fitted()
        cases = range(len(X)) if cases is None else cases
        outside = [case for case in cases if not 0 <= case < len(X)]
        if outside:
            raise SettingError(f"There is no person {outside[0]}: the table has people 0 to {len(X) - 1}.")
        watch = watch or Watcher()
        started = time.perf_counter()
        situation = self._situation(X.iloc[list(cases)])
        psi = flippable(self.psi, situation)
        engine = self._engine(watch)
        if hasattr(self.rank, "train_on"):
            self.rank.train_on(str(getattr(engine, "device", "cpu")))
        trainer = Trainer(engine, self.network_.recipe, self.rows_, situation.encoded, self.ledger, self.jobs)
        people = np.flatnonzero(eligible(self.phi, situation))
        agreement = self._prepared(trainer, situation.encoded[people], psi[people], people, watch)
        pursuits = self._pursuits(situation, people, psi)
        with watch:
            self._announce(pursuits, psi, trainer, watch)
            interrupted = self._search(trainer, psi, pursuits, watch)
            others = {} if interrupted else self._other_sets(trainer, situation, psi, pursuits, watch)
            beliefs = {} if interrupted else self._beliefs(trainer, situation, X, y, cases, pursuits, watch)
        run = self.run_record() | {
            "engine": trainer.engine.name,
            "retrainings": trainer.trained,
            "needed": trainer.needed,
            "recalled": trainer.recalled,
            "confirmations": trainer.confirmations,
            "agreement": agreement,
            "seconds": round(time.perf_counter() - started, 3),
        }
        by_person = {p.person: p for p in pursuits}
        verdicts = [
            replace(
                conclude(self, situation, k, case, psi[k], by_person.get(k), run),
                alternatives=tuple(others.get(k, ())),
                **beliefs.get(k, {}),
            )
            for k, case in enumerate(cases)
        ]
        return Population(verdicts, run, interrupted=interrupted)

    def eligible_cases(self, X: pd.DataFrame, most: int | None = None) -> list[int]:
        """The positions in X of the people φ admits, in order, `most` of them at the most."""
        self._check_fitted()
        return [int(case) for case in np.flatnonzero(eligible(self.phi, self._situation(X)))[:most]]

    def searching(
        self,
        rank: str | Ranking | None = None,
        protocol: str | Protocol | None = None,
        *,
        share: bool | None = None,
        max_retrainings: int | None = None,
    ) -> LabelAudit:
        """This audit, with the same network, under another search. What is not named is as in `LabelAudit(...)`."""
        _check_limit(max_retrainings)
        other = copy(self)
        other.protocol = as_protocol(protocol or "guided")
        other.rank = as_ranking(rank or other.protocol.rank, self.random_state)
        other.share = other.protocol.shares if share is None else share
        other.max_retrainings = max_retrainings
        return other

    def run_record(self) -> dict[str, Any]:
        """Everything needed to run this audit again."""
        self._check_fitted()
        return {
            "butfor": __version__,
            "versions": versions(),
            "data": self.origin_ | {"sha256": self.data_hash_, "training_rows": self.rows_.n},
            "sensitive": str(self.sensitive_),
            "label_names": list(self.label_names_),
            "encoder": self.encoder_.get_params(),
            "learner": self.network_.recipe.to_dict(),
            "budget": self.budget_,
            "rank": self.rank.name,
            "protocol": self.protocol.name,
            "share": self.share,
            "phi": self.phi.text,
            "psi": self.psi.text,
            "max_retrainings": self.max_retrainings,
            "seeds": self.seeds,
            "alternatives": self.alternatives,
            "random_state": self.random_state,
        }

    # --- fitting ------------------------------------------------------------------------------------

    def _learn(self, X: pd.DataFrame, y: pd.Series, validation: tuple[pd.DataFrame, pd.Series] | None) -> None:
        recipe = self.model.recipe()
        labels = (y.to_numpy() == self.classes_[1]).astype(np.float32)
        encoded = self.encoder_.transform(X)
        if validation is None:
            at = np.arange(len(X), dtype=np.float32)[:, None]
            parts = split_off_validation(
                at, labels, None, None, fraction=self.model.validation_fraction, seed=recipe.seed
            )
            train_at, val_at = parts.X[:, 0].astype(np.int64), parts.X_val[:, 0].astype(np.int64)
            validation = (X.iloc[val_at], y.iloc[val_at])
            X, y, labels, encoded = X.iloc[train_at], y.iloc[train_at], labels[train_at], encoded[train_at]
            self.budget_ = budget_in_labels(self.budget, len(X))
        X_val, y_val = _table(validation[0]), _labels(validation[0], validation[1])
        unknown = set(y_val.unique()) - set(self.classes_)
        if unknown:
            raise TableError(f"The validation labels hold {listed(unknown)}, which no training label is.")
        self.rows_ = Rows(
            encoded,
            labels,
            self.encoder_.transform(X_val),
            (y_val.to_numpy() == self.classes_[1]).astype(np.float32),
        )
        self.training_ = Training(X, y, (X_val, y_val))
        self.origin_: dict[str, Any] = dict(X.attrs.get("origin") or {"table": None})
        self.data_hash_ = data_hash(self.training_)
        self.network_: Network = train(recipe, self.rows_)
        self.training_predictions_ = self.network_.predict(self.rows_.X)

    def _check_fitted(self) -> None:
        if not hasattr(self, "network_"):
            raise SettingError("This audit has no network yet: call fit(X, y, sensitive_features=...) first.")

    # --- searching ----------------------------------------------------------------------------------

    def _situation(self, people: pd.DataFrame) -> Situation:
        return Situation(
            network=self.network_, rows=self.rows_, encoder=self.encoder_, table=self.training_.X,
            people=people, encoded=self.encoder_.transform(people), sensitive=self.sensitive_,
            label_names=self.label_names_, training_predictions=self.training_predictions_,
        )  # fmt: skip

    def _engine(self, watch: Watcher) -> Engine:
        if isinstance(self.engine, str):
            return choose_engine(self.engine, self.device, self.jobs, watch.note)
        return self.engine

    def _pursuits(self, situation: Situation, people: NDArray[np.int64], psi: NDArray[np.bool_]) -> list[Pursuit]:
        """One search per eligible person, the ranking cut off where the protocol cannot reach."""
        pursuits = []
        logits = self.network_.logits(situation.encoded)
        for first in range(0, len(people), BLOCK):
            block = people[first : first + BLOCK]
            scores = checked_scores(self.rank, self.network_, self.rows_, situation.encoded[block])
            for person, score in zip(block, scores, strict=True):
                allowed = np.flatnonzero(psi[person])
                depth = self.protocol.depth(len(allowed), self.budget_)
                drawn = self.rank.name == "chance"
                order = allowed[np.argsort(-score[allowed], kind="stable")][: None if drawn else depth]
                rng = np.random.default_rng([self.random_state, person_key(situation.encoded[person])])
                away = -1.0 if situation.predictions[person] else 1.0
                ranked = Ranked(order, self.budget_, rng, len(allowed), drawn, start=away * float(logits[person]))
                pursuits.append(Pursuit(int(person), self.protocol.plan(ranked), away))
        return pursuits

    def _prepared(
        self, trainer: Trainer, people: Floats, psi: NDArray[np.bool_], places: NDArray[np.int64], watch: Watcher
    ) -> dict[str, Any] | None:
        """Let the ranking look at a few real retrainings first, where it wants to."""
        if not (hasattr(self.rank, "prepare") and hasattr(self.rank, "trial")) or not len(people):
            return None
        if self.max_retrainings is not None and 2 * self.rank.trial(len(people)) > self.max_retrainings:
            return None  # what is left would be too little to search with
        figures: dict[str, Any] = self.rank.prepare(
            lambda sets: trainer.retrain(sets)[:, places], self.network_, self.rows_, people, psi, self.budget_
        )
        if figures["poor"]:
            watch.note(
                f"Training is rough here: predicted and real effects of a single flip agree poorly (rank correlation "
                f"{figures['spearman']:.2f}). The search goes by {LEADERS[figures['leader']]}, which moved "
                "decisions furthest in a trial."
            )
        return figures

    def _search(self, trainer: Trainer, psi: NDArray[np.bool_], pursuits: Sequence[Pursuit], watch: Watcher) -> bool:
        """Run the pursuits; True where Ctrl-C ended it."""
        search = JointSearch(
            trainer,
            psi,
            self.budget_,
            share=self.share,
            shrink=self.protocol.shrinks,
            max_retrainings=self.max_retrainings,
            pool=self.protocol.pool([p.plan for p in pursuits]),
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
    ) -> dict[int, list[FlipSet]]:
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
        return {person: found[1:] for person, found in sets.items()}

    def _beliefs(
        self,
        trainer: Trainer,
        situation: Situation,
        X: pd.DataFrame,
        y: pd.Series | None,
        cases: Sequence[int],
        pursuits: Sequence[Pursuit],
        watch: Watcher,
    ) -> dict[int, dict[str, Any]]:
        """Per person found: seed control and collateral, by the fast engine."""
        found = [Found(p.person, p.found, int(situation.predictions[p.person])) for p in pursuits if p.found]
        if not self.seeds or not found:
            return {}
        engine, recipe = trainer.engine, trainer.recipe
        try:
            controls = seed_controls(engine, recipe, self.rows_, trainer.people, found, self.seeds, watch)
            labels = None if y is None else (_labels(X, y).to_numpy() == self.classes_[1])
            places = [cases[f.person] for f in found]
            sides: Sequence[Collateral | None] = [None] * len(found)
            if len(X) > 1:
                table = self.encoder_.transform(X)
                sides = collaterals(engine, recipe, self.rows_, table, labels, found, places, watch)
        except KeyboardInterrupt:
            watch.note("Stopped before the seed control was through: the verdicts stand without it.")
            return {}
        return {
            f.person: {"control": control, "collateral": side}
            for f, control, side in zip(found, controls, sides, strict=True)
        }

    def _announce(self, pursuits: Sequence[Pursuit], psi: NDArray[np.bool_], trainer: Trainer, watch: Watcher) -> None:
        """Say what the search will cost, from the time one training takes here."""
        most = sum(self.protocol.most(int(psi[p.person].sum()), self.budget_) for p in pursuits)
        if self.budget_ == 1 and pursuits:  # single labels: equal ones are trained once
            most = min(most, int(psi[[p.person for p in pursuits]].any(axis=0).sum()))
        if self.max_retrainings is not None:
            most = min(most, max(0, self.max_retrainings - trainer.trained))
        if not most:
            watch.plan(len(pursuits), 0, 0.0)
            return
        train = partial(trainer.engine.fit_many, trainer.recipe, trainer.rows, people=trainer.people[:1])
        train(flip_sets=[()])  # compiles what must be compiled, so that the next ones are timed fairly
        started = time.perf_counter()
        train(flip_sets=[()] * trainer.width)
        each = (time.perf_counter() - started) / trainer.width
        watch.plan(len(pursuits), trainer.trained + most, each * most)


def _check_limit(max_retrainings: int | None) -> None:
    if max_retrainings is not None and max_retrainings < 1:
        raise SettingError(f"max_retrainings={max_retrainings} must be at least 1.")


def _table(X: Any) -> pd.DataFrame:
    if isinstance(X, pd.DataFrame):
        return X
    raise TableError(f"An audit needs a pandas DataFrame, so that it can name columns and rows; got {_brief(X)}.")


def _labels(X: pd.DataFrame, y: Any) -> pd.Series:
    series = y if isinstance(y, pd.Series) else pd.Series(np.asarray(y), index=X.index, name="label")
    if len(series) != len(X):
        raise TableError(f"The table has {len(X)} rows but there are {len(series)} labels.")
    if series.isna().any():
        raise TableError(
            f"The label of row {series.index[series.isna().to_numpy()][0]} is missing; fill it in or drop it."
        )
    return series


def _brief(thing: Any) -> str:
    shape = getattr(thing, "shape", None)
    return f"{type(thing).__name__} of shape {shape}" if shape is not None else repr(thing)[:60]

"""Models made of others: an ensemble of seeds, and a model of more than two classes under a question.

An ensemble: several trainings of one learner that differ in the seed alone, deciding by their mean logit. A single
network's verdict is about its labels and its seed; the mean over seeds is about the labels. The ensemble is a learner
like any other. Whoever trains many of them hands the members (`single`, `seeds`) to the engine one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from butfor.errors import SettingError
from butfor.learn.decision_split import DecisionSplit
from butfor.learn.joblib_engine import fitted_model
from butfor.learn.protocols import MEMBERS, Advance, Engine, Floats, Learner, Model, Numbers, Table

FRESH_FROM = 10_000
"""Fresh seeds are counted from this far above the learner's own: no member comes near."""
PROOFS = {"sum of the labels": "moved sums", "neighbours": "moved votes"}
"""What is left of a model's proof where flips move weight from one class to another."""


class Ensemble(Learner):
    """`members` trainings of `learner`, with its own seed and those that follow it."""

    kind = "ensemble"

    @property
    def seeded(self) -> bool:
        return True

    def __init__(self, learner: Learner, members: int = MEMBERS) -> None:
        if members < 2:
            raise SettingError(f"members={members}: an ensemble has at least 2.")
        if learner.single is not learner:
            raise SettingError(f"{learner.name} is an ensemble of seeds already; set its members instead.")
        if not learner.seeded:
            raise SettingError(f"{learner.name} has no seed: an ensemble of it would be many times the same model.")
        self.learner, self.members = learner, members

    @property
    def name(self) -> str:
        return f"{self.members} × {self.learner.name}"

    @property
    def own_seed(self) -> int:  # type: ignore[override]
        return self.learner.own_seed

    @property
    def single(self) -> Learner:
        return self.learner

    def gaps(self) -> list[str]:
        return self.learner.gaps()

    @property
    def seeds(self) -> tuple[int | None, ...]:
        return (None, *(self.own_seed + k for k in range(1, self.members)))

    def fit(self, table: Table, labels: Floats) -> EnsembleModel:
        """Every member by the learner's own `fit`."""
        taught = (self.learner if seed is None else self.learner.reseeded(seed) for seed in self.seeds)
        return EnsembleModel(tuple(learner.fit(table, labels) for learner in taught))

    def fit_beside(self, first: Model, table: Table, trains: Engine, advance: Advance | None = None) -> EnsembleModel:
        """The ensemble on the labels as they are, given its first member; the others wherever `trains` has them
        trained."""
        subject = self.learner, replace(table, whole=None), table.X.iloc[:0]
        others = trains.spread(fitted_model, subject, self.seeds[1:], advance)
        return EnsembleModel((first, *(self.learner.restored(light, table) for light in others)))

    def reseeded(self, seed: int) -> Ensemble:
        return Ensemble(self.learner.reseeded(seed), self.members)

    def record(self) -> dict[str, Any]:
        return {"kind": self.kind, "members": self.members, "learner": self.learner.record()}


class EnsembleModel(Model):
    """The trained members."""

    def __init__(self, models: Sequence[Model]) -> None:
        self._members = tuple(models)
        self.encoder = self._members[0].encoder

    @property
    def members(self) -> Sequence[Model]:
        return self._members

    def logits(self, people: pd.DataFrame) -> Floats:
        return together(self.member_logits(people))

    def scores(self, people: pd.DataFrame) -> Floats:
        return together(np.array([member.scores(people) for member in self.members], np.float32))

    def member_logits(self, people: pd.DataFrame) -> NDArray[np.float32]:
        """`[members × people]`."""
        return np.array([member.logits(people) for member in self.members], np.float32)

    def person_keys(self, people: pd.DataFrame) -> list[int]:
        return self.members[0].person_keys(people)

    def numbers(self, table: Table, people: pd.DataFrame) -> tuple[Numbers, Numbers] | None:
        return self.members[0].numbers(table, people)

    def pulls(self, people: pd.DataFrame, contrast: Floats | None = None) -> list[dict[str, float]] | None:
        """The mean of the members', as the logit is."""
        each = [pulls for member in self.members if (pulls := member.pulls(people, contrast)) is not None]
        if len(each) < len(self.members):
            return None
        return [
            {name: float(np.mean([pull[name] for pull in person])) for name in person[0]}
            for person in zip(*each, strict=True)
        ]


class MarginModel(Model):
    """A model of more than two classes with a logit, as rankings, rules and pages know it: the question's margin. What
    else it can do is about that margin too."""

    def __init__(self, model: Model, decision_split: DecisionSplit) -> None:
        self.model, self.decision_split = model, decision_split
        self.encoder, self.linear, self.trees, self.network = model.encoder, model.linear, model.trees, model.network
        self.proof = None if decision_split.decided is None else PROOFS.get(model.proof or "")
        self.rows = None if model.rows is None else replace(model.rows, decision_split=decision_split)

    def logits(self, people: pd.DataFrame) -> Floats:
        return self.decision_split.margins(self.model.scores(people))

    def scores(self, people: pd.DataFrame) -> Floats:
        return self.model.scores(people)

    @property
    def members(self) -> Sequence[Model]:
        inside = self.model.members
        return (self,) if len(inside) == 1 else tuple(MarginModel(member, self.decision_split) for member in inside)

    def person_keys(self, people: pd.DataFrame) -> list[int]:
        return self.model.person_keys(people)

    def numbers(self, table: Table, people: pd.DataFrame) -> tuple[Numbers, Numbers] | None:
        return self.model.numbers(table, people)

    def pulls(self, people: pd.DataFrame, contrast: Floats | None = None) -> list[dict[str, float]] | None:
        return self.model.pulls(people, self._contrast(people)) if len(people) else []

    def flip_effects(
        self, table: Table, people: pd.DataFrame, weights: Numbers | None = None, contrast: Floats | None = None
    ) -> NDArray[np.float64]:
        return self.model.flip_effects(table, people, weights, self._contrast(people) if contrast is None else contrast)

    def neighbours(self, people: pd.DataFrame) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        return self.model.neighbours(people)

    def leaves(self, rows: pd.DataFrame) -> NDArray[Any]:
        return self.model.leaves(rows)

    def _contrast(self, people: pd.DataFrame) -> Floats:
        return self.decision_split.contrast(self.model.scores(people))


def with_split(model: Model, decision_split: DecisionSplit | None) -> Model:
    """The model under a question; of two classes as it is."""
    inside = model.model if isinstance(model, MarginModel) else model
    return inside if decision_split is None else MarginModel(inside, decision_split)


def together(members: NDArray[np.floating[Any]]) -> Floats:
    """The ensemble's logits from its members', `[members × …]`. One that diverged leaves no answer."""
    return np.asarray(np.mean(members, axis=0, dtype=np.float64), np.float32)


def fresh_seeds(learner: Learner, count: int, skip: int = 0) -> list[int]:
    """Seeds that no training of the learner has used, after the first `skip` of them."""
    return [learner.own_seed + FRESH_FROM + skip + k for k in range(count)]

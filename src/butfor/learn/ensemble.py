"""An ensemble of seeds: several trainings of one learner that differ in the seed alone, deciding by their mean logit.

A single network's verdict is about its labels and its seed; the mean over seeds is about the labels. The ensemble is a
learner like any other. Whoever trains many of them (`members_of`) hands the members to the engine one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from butfor.errors import SettingError
from butfor.learn.joblib_engine import JoblibEngine
from butfor.seam import Floats, Learner, Model, Progress, Table

MEMBERS = 16
"""Members of an ensemble where nobody says how many."""
FRESH_FROM = 10_000
"""Fresh seeds are counted from this far above the learner's own: no member comes near."""


class TrainsModels(Protocol):
    """Part of an engine: the models themselves that a learner trains under several seeds, the labels unchanged."""

    def models(
        self, learner: Learner, table: Table, seeds: Sequence[int | None], progress: Progress | None = None
    ) -> list[Model]: ...


class Ensemble:
    """`members` trainings of `learner`, with its own seed and those that follow it."""

    kind = "ensemble"
    seeded = True

    def __init__(self, learner: Learner, members: int = MEMBERS) -> None:
        if members < 2:
            raise SettingError(f"members={members}: an ensemble has at least 2.")
        if isinstance(learner, Ensemble):
            raise SettingError(f"{learner.name} is an ensemble of seeds already; set its members instead.")
        if not learner.seeded:
            raise SettingError(f"{learner.name} has no seed: an ensemble of it would be many times the same model.")
        self.learner, self.members = learner, members

    @property
    def name(self) -> str:
        return f"{self.members} × {self.learner.name}"

    @property
    def own_seed(self) -> int:
        return own_seed(self.learner)

    @property
    def seeds(self) -> tuple[int | None, ...]:
        """One per member; None is the learner as it is."""
        return (None, *(self.own_seed + k for k in range(1, self.members)))

    def fit(self, table: Table, labels: Floats) -> EnsembleModel:
        """Every member by the learner's own `fit`."""
        taught = (self.learner if seed is None else self.learner.reseeded(seed) for seed in self.seeds)
        return EnsembleModel(tuple(learner.fit(table, labels) for learner in taught))

    def fit_beside(
        self, first: Model, table: Table, trains: TrainsModels | None = None, progress: Progress | None = None
    ) -> EnsembleModel:
        """The ensemble on the labels as they are, given its first member; the others in several processes where that
        is faster, or wherever `trains` has them trained."""
        others = (trains or JoblibEngine()).models(self.learner, table, self.seeds[1:], progress)
        return EnsembleModel((first, *others))

    def reseeded(self, seed: int) -> Ensemble:
        return Ensemble(self.learner.reseeded(seed), self.members)

    def record(self) -> dict[str, Any]:
        return {"kind": self.kind, "members": self.members, "learner": self.learner.record()}


@dataclass(frozen=True, eq=False)
class EnsembleModel:
    """The trained members."""

    models: tuple[Model, ...]

    def logits(self, people: pd.DataFrame) -> Floats:
        return together(self.member_logits(people))

    def member_logits(self, people: pd.DataFrame) -> NDArray[np.float32]:
        """`[members × people]`."""
        return np.array([model.logits(people) for model in self.models], np.float32)

    @property
    def encoded(self) -> Any:
        """How the members see people, where they see numbers: all alike. (AttributeError where they do not.)"""
        return self.models[0].encoded  # type: ignore[attr-defined]


def together(members: NDArray[np.floating[Any]]) -> Floats:
    """The ensemble's logits from its members', `[members × …]`. One that diverged leaves no answer."""
    return np.asarray(np.mean(members, axis=0, dtype=np.float64), np.float32)


def members_of(learner: Learner) -> tuple[Learner, tuple[int | None, ...]]:
    """The learner to train and the seeds to train it with: several for an ensemble, for any other its own."""
    return (learner.learner, learner.seeds) if isinstance(learner, Ensemble) else (learner, (None,))


def models_of(model: Model) -> Sequence[Model]:
    """An ensemble's members; any other model alone."""
    return model.models if isinstance(model, EnsembleModel) else (model,)


def own_seed(learner: Learner) -> int:
    """A learner's seed as far as it has one; other seeds are counted from it."""
    return int(getattr(learner, "own_seed", 0))


def fresh_seeds(learner: Learner, count: int, skip: int = 0) -> list[int]:
    """Seeds that no training of the learner has used, after the first `skip` of them."""
    return [own_seed(learner) + FRESH_FROM + skip + k for k in range(count)]


def usual_members(learner: Learner, table: Table, seconds: float) -> int:
    """How many members where nobody says: fewer where a training takes long. For our network the table's size says so,
    whatever machine it is trained on; for others `seconds`, what one training took."""
    if getattr(learner, "kind", None) == "mlp":
        return MEMBERS if table.n <= LARGE else MEMBERS // 2
    return next(members for limit, members in SLOW if seconds <= limit)


LARGE = 20_000
"""Training rows from which on our network has half the members."""
SLOW = ((0.1, MEMBERS), (1.0, MEMBERS // 2), (float("inf"), MEMBERS // 4))
"""Seconds a training of another learner may take, and the members it then has."""

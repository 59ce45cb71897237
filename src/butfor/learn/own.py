"""A user's own learner, model and engine, with the few methods that are asked of them, as full ones.

What they do not say gets the defaults of `butfor.learn.protocols`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pandas as pd

from butfor.errors import SettingError
from butfor.learn.protocols import Bound, Engine, Floats, Learner, Model, Progress, Table, Training

LEARNER = ("fit", "reseeded", "record")
ENGINE = ("accepts", "bind")


class OwnModel(Model):
    """A model of the user's own."""

    def __init__(self, given: Any) -> None:
        self.given = given

    def logits(self, people: pd.DataFrame) -> Floats:
        logits: Floats = self.given.logits(people)
        return logits


class OwnLearner(Learner):
    """A learner of the user's own, with whatever of the optional members it has."""

    def __init__(self, given: Any) -> None:
        self.given = given
        self.own_seed = int(getattr(given, "own_seed", 0))

    @property
    def name(self) -> str:
        return str(getattr(self.given, "name", type(self.given).__name__))

    @property
    def seeded(self) -> bool:
        return bool(getattr(self.given, "seeded", True))

    def fit(self, table: Table, labels: Floats) -> Model:
        model = self.given.fit(table, labels)
        return model if isinstance(model, Model) else OwnModel(model)

    def reseeded(self, seed: int) -> Learner:
        return OwnLearner(self.given.reseeded(seed))

    def record(self) -> dict[str, Any]:
        record: dict[str, Any] = self.given.record()
        return record


class OwnEngine(Engine):
    """An engine of the user's own."""

    def __init__(self, given: Any) -> None:
        self.given, self.name = given, str(given.name)
        self.by_definition, self.device = bool(given.by_definition), getattr(given, "device", "cpu")

    @property
    def width(self) -> int:
        return int(self.given.width)

    def accepts(self, learner: Learner) -> bool:
        return bool(self.given.accepts(learner))

    def bind(self, learner: Learner, table: Table, people: pd.DataFrame) -> Bound:
        return as_bound(self.given.bind(learner, table, people))


class BoundFunction(Bound):
    """A plain function as one."""

    def __init__(self, function: Callable[..., Floats]) -> None:
        self.function = function

    def __call__(self, trainings: Sequence[Training], progress: Progress | None = None) -> Floats:
        return self.function(trainings, progress)


def as_bound(given: Callable[..., Floats]) -> Bound:
    return given if isinstance(given, Bound) else BoundFunction(given)


def is_own_learner(given: Any) -> bool:
    """Whether an object has the three methods of a learner."""
    return not isinstance(given, type) and all(hasattr(given, method) for method in LEARNER)


def as_engine(given: Any) -> Engine:
    """An engine as it is, or the user's own with the rest added."""
    if isinstance(given, Engine):
        return given
    if isinstance(given, type) or not all(hasattr(given, method) for method in ENGINE):
        raise SettingError(f"engine={given!r} is neither an engine's name nor an engine (accepts, bind).")
    return OwnEngine(given)

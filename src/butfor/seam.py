"""The seam between what is audited and how it is audited.

    Table      training rows and labels as given, validation rows and weights where there are some
    Learner    L with everything fixed: a table and 0/1 labels in, a Model out
    Model      one trained f: raw people in, logits out
    Training   which labels are turned and, where it is not the learner's own, under which seed
    Engine     trains many of them for a learner it accepts; the data travels once, when it is bound

A learner's own `fit` is the definition of L: it confirms every find, whatever an engine says. The user's pipeline is
a learner, our network is one, and so is anything with the three methods below; nothing else knows what a network is.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from butfor.errors import TableError, listed

Floats = NDArray[np.float32]
FlipSet = tuple[int, ...]
"""Positions of training rows whose labels are turned, ascending, each once."""
Progress = Callable[[int], None]
"""Called with the number of trainings that just finished."""


class Training(NamedTuple):
    """One training to be done. `seed=None` is the learner's own."""

    flips: FlipSet
    seed: int | None = None


@dataclass(frozen=True, eq=False)
class Table:
    """Training rows `X` and their labels `y`, two values, as given.

    `validation` rows and labels steer a learner that stops early; `weight [n]` goes to one that takes weights. Neither
    is ever flipped. `whole` is the table that was given, with the positions in it of the training rows, where rows
    were set aside; else X and y are all there is."""

    X: pd.DataFrame
    y: pd.Series
    validation: tuple[pd.DataFrame, pd.Series] | None = None
    weight: NDArray[np.float64] | None = None
    whole: tuple[pd.DataFrame, pd.Series, NDArray[np.int64]] | None = None

    @property
    def n(self) -> int:
        return len(self.X)

    @property
    def set_aside(self) -> int:
        """Rows of the given table that are validation rows instead of training rows."""
        return 0 if self.whole is None else len(self.whole[0]) - self.n

    @cached_property
    def classes(self) -> NDArray[Any]:
        """The two label values; the second is class 1."""
        return two_classes(self.y.to_numpy())

    @cached_property
    def zero_one(self) -> Floats:
        """The labels as 0 and 1, `[n]`."""
        return self._coded(self.y)

    @cached_property
    def validation_zero_one(self) -> Floats:
        return self._coded(self.validation[1]) if self.validation else np.empty(0, np.float32)

    def labels(self, flips: Sequence[int] = ()) -> Floats:
        """0/1 labels with the given positions turned; turning a set twice gives them back."""
        y = self.zero_one.copy()
        y[list(flips)] = 1 - y[list(flips)]
        return y

    def flipped(self, positions: Sequence[int]) -> tuple[pd.DataFrame, pd.Series]:
        """D' = (X, y'): the whole table as given, the labels with the flips made."""
        X, y, kept = self.whole or (self.X, self.y, np.arange(self.n))
        y = y.copy()
        at = kept[list(positions)]
        other = {value: self.classes[1 - k] for k, value in enumerate(self.classes)}
        if len(at):
            y.iloc[at] = [other[value] for value in y.iloc[at]]
        return X, y

    def _coded(self, y: pd.Series) -> Floats:
        return (y.to_numpy() == self.classes[1]).astype(np.float32)


@runtime_checkable
class Model(Protocol):
    """One trained f."""

    def logits(self, people: pd.DataFrame) -> Floats:
        """One number per raw person; class 1 is decided where it is above 0."""
        ...


@runtime_checkable
class Learner(Protocol):
    """L, everything fixed. `fit` twice on the same labels must give the same answers."""

    @property
    def name(self) -> str:
        """What it is, in a word or two, for sentences and records."""
        ...

    @property
    def seeded(self) -> bool:
        """Whether another seed may make another model."""
        ...

    def fit(self, table: Table, labels: Floats) -> Model:
        """f trained on the rows of the table with these 0/1 labels."""
        ...

    def reseeded(self, seed: int) -> Learner:
        """The same learner under another seed; itself where it has none."""
        ...

    def record(self) -> dict[str, Any]:
        """Settings as JSON knows them: the ledger's key, and what a replay rebuilds the learner from."""
        ...


class Bound(Protocol):
    """An engine with its data in place: what each trained model says about the people, `[trainings × people]`.
    A training that diverged has no answer: NaN."""

    def __call__(self, trainings: Sequence[Training], progress: Progress | None = None) -> Floats: ...


class Engine(Protocol):
    """Trains many flip sets of a learner. `width`: how many it likes to train side by side. `by_definition`: it
    calls the learner's own `fit`, so that its answers need no confirmation."""

    name: str
    by_definition: bool

    @property
    def width(self) -> int: ...

    def accepts(self, learner: Learner) -> bool: ...

    def bind(self, learner: Learner, table: Table, people: pd.DataFrame) -> Bound: ...


def two_classes(y: NDArray[Any]) -> NDArray[Any]:
    """The two label values in sorted order, or an error that says how many there are."""
    try:
        classes = np.unique(y)
    except TypeError as error:
        kinds = sorted({type(each).__name__ for each in y})
        raise TableError(
            f"The labels are of kinds that cannot be compared ({listed(kinds)}); make them alike."
        ) from error
    if len(classes) == 1:
        raise TableError(
            f"The labels hold one class only ('{classes[0]}'): there is nothing to decide. "
            "Check that the label column is the right one."
        )
    if len(classes) > 2:
        # The first sentence is the one scikit-learn's own checks look for.
        raise TableError(
            "Only binary classification is supported. The type of the target is multiclass: "
            f"the labels hold {len(classes)} values ({listed(classes)}). Group them into two."
        )
    return classes


def person_keys(model: Model, people: pd.DataFrame) -> list[int]:
    """A number that belongs to each person, whoever else is audited and in which order."""
    encoded = getattr(model, "encoded", None)
    if encoded is not None:
        return [zlib.crc32(np.ascontiguousarray(x, dtype=np.float32).tobytes()) for x in encoded(people)]
    return [zlib.crc32(repr(row).encode()) for row in people.itertuples(index=False, name=None)]


def away(logits: NDArray[Any]) -> Floats:
    """The direction out of the present class: −1 where class 1 is decided, else +1."""
    return np.where(logits > 0, -1.0, 1.0).astype(np.float32)

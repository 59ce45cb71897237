"""The rows that a model is trained on, and their labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from butfor.table.columns import own
from butfor.table.labels import label_values
from butfor.table.sides import Sides

Floats = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class SetAside:
    """A table as it was handed over, and which of its rows were set aside for validation."""

    X: pd.DataFrame
    y: pd.Series
    kept: NDArray[np.int64]
    """Positions of the training rows."""
    aside: NDArray[np.int64]
    """Positions of the rows that were set aside."""
    weight: NDArray[np.float64] | None = None
    """The weights of all rows, in their order; so are the clusters."""
    cluster: NDArray[np.object_] | None = None


@dataclass(frozen=True, eq=False)
class Table:
    """Training rows and their labels: copies, so that a table never changes.

    Parameters
    ----------
    X : pandas.DataFrame
        The training rows.
    y : pandas.Series
        Their labels, with two or more values.
    validation : (X, y), optional
        Rows for a learner that stops early. Their labels are never flipped.
    weight : array of shape (n,), optional
        Weights, for a learner that takes them and for the comparison of groups.
    whole : SetAside, optional
        If rows were set aside: the table with all rows, and the positions of the training rows in
        it.
    cluster : array of shape (n,), optional
        Rows with the same value are about one person or household. Only the comparison of groups
        uses it.
    two_sides : Sides, optional
        Of more than two labels, which count as 1, and what a flip gives. Of two labels a flip
        gives the other.
    """

    X: pd.DataFrame
    y: pd.Series
    validation: tuple[pd.DataFrame, pd.Series] | None = None
    weight: NDArray[np.float64] | None = None
    whole: SetAside | None = None
    cluster: NDArray[np.object_] | None = None
    two_sides: Sides | None = None

    def __post_init__(self) -> None:
        copies: dict[str, Any] = {
            name: own(getattr(self, name)) for name in ("X", "y", "weight", "cluster")
        }
        if self.validation is not None:
            copies["validation"] = tuple(map(own, self.validation))
        vars(self).update(copies)

    @property
    def n(self) -> int:
        return len(self.X)

    @property
    def set_aside(self) -> int:
        """The number of rows that were set aside for validation."""
        return len(self.as_handed_over.aside)

    @property
    def as_handed_over(self) -> SetAside:
        """The table with all its rows, also if none were set aside."""
        if self.whole is not None:
            return self.whole
        rows = np.arange(self.n)
        return SetAside(self.X, self.y, rows, rows[:0], self.weight, self.cluster)

    @cached_property
    def classes(self) -> NDArray[Any]:
        """The label values in sorted order; the second of two is class 1."""
        return label_values(self.y.to_numpy())

    @property
    def multiclass(self) -> bool:
        return len(self.classes) > 2

    @cached_property
    def codes(self) -> NDArray[np.int64]:
        """The labels by their number in `classes`, `[n]`."""
        return self.numbers_of(self.y)

    @cached_property
    def validation_codes(self) -> NDArray[np.int64]:
        return self.numbers_of(self.validation[1]) if self.validation else np.empty(0, np.int64)

    @cached_property
    def zero_one(self) -> Floats:
        """The labels as 0 and 1, `[n]`; with more than two, 1 is a label that the split counts as
        1."""
        return self.sides(self.codes).astype(np.float32)

    def sides(self, codes: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which labels or decisions, given by number, count as 1."""
        if not self.multiclass:
            return np.asarray(codes == 1)
        assert self.two_sides is not None
        return self.two_sides.ones[codes]

    def labels(self, flips: Sequence[int] = ()) -> Floats:
        """Labels by number, flipped at the given positions."""
        labels = self.codes.astype(np.float32)
        rows = list(flips)
        labels[rows] = self.new_codes[rows]
        return labels

    @cached_property
    def new_codes(self) -> NDArray[np.int64]:
        """Each label after a flip, by number."""
        return 1 - self.codes if self.two_sides is None else self.two_sides.new

    @property
    def outputs(self) -> int:
        """Numbers that a model gives per person."""
        return len(self.classes) if self.multiclass else 1

    def with_flips(self, positions: Sequence[int]) -> tuple[pd.DataFrame, pd.Series]:
        """D' = (X, y'): the whole given table with these labels flipped."""
        given = self.as_handed_over
        y = given.y.copy()
        flips = list(positions)
        if flips:
            y.iloc[given.kept[flips]] = self.classes[self.new_codes[flips]]
        return given.X, y

    def with_labels(self, positions: Sequence[int], labels: Sequence[int] | None = None) -> Table:
        """The same rows with these labels flipped for good, or replaced by `labels` by number; rows
        that were set aside stay aside."""
        y = self.y.copy()
        rows = list(positions)
        if rows:
            codes = self.new_codes[rows] if labels is None else list(labels)
            y.iloc[rows] = self.classes[codes]
        return replace(self, y=y, whole=None)

    def numbers_of(self, y: pd.Series) -> NDArray[np.int64]:
        """Labels by their number in `classes`."""
        return np.searchsorted(self.classes, y.to_numpy().astype(self.classes.dtype))

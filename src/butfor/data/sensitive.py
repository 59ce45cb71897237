"""The protected attribute: columns of the table, or values beside it that the model never sees."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from butfor.data.bands import Bands, Cuts, banded, bands_of
from butfor.encode import MISSING, refuse_lacking
from butfor.errors import SettingError, TableError, brief, listed

MOST_GROUPS = 20
"""A protected attribute with more values is a number in disguise: switching to each makes no sense."""


@dataclass(frozen=True, eq=False)
class Sensitive:
    """The protected attribute: columns of the table, or values beside it that the model never sees.

    `values [n]` are the training rows' groups; with several columns their combinations, joined by `JOINT`. Those
    whose value is missing are a group too, `MISSING`. `bands`: how each column is cut, where it is."""

    name: str
    values: NDArray[np.object_]
    columns: tuple[Hashable, ...] = ()
    bands: dict[Hashable, Bands] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()

    JOINT = " · "

    @property
    def blind(self) -> bool:
        """The model is not told the attribute, so no switch of it can change a decision."""
        return not self.columns

    @property
    def cuts(self) -> dict[str, list[float]]:
        """The cut points of the columns that are cut into bands."""
        return {str(name): list(bands.cuts) for name, bands in self.bands.items()}

    @classmethod
    def of(cls, given: Any, X: pd.DataFrame, cuts: Cuts | None = None, *, automatic: bool = True) -> Sensitive:
        """From a column's name, a list of names, or values beside X: an array, a Series, a table. Numbers are cut into
        bands by `cuts`, else, where `automatic` and there are many, in thirds."""
        columns = _columns(given, X)
        raw = X[list(columns)] if columns else _beside(given, X)
        bands = bands_of(raw, cuts, automatic)
        remarks = tuple(cut.sentence(name, raw[name]) for name, cut in bands.items())
        found = cls(" × ".join(map(str, raw.columns)), joined(banded(raw, bands)), columns, bands, remarks)
        group_values(found.values, found.name)
        return found

    def of_people(self, people: pd.DataFrame, given: Any = None) -> NDArray[np.object_]:
        """The people's groups: from their own columns, or from what is given beside them."""
        if not self.blind:
            refuse_lacking(people, self.columns)
            return joined(banded(people[list(self.columns)], self.bands))
        if given is None:
            raise SettingError(
                f"The model is blind to '{self.name}', so the people's values must be given beside their table: "
                "pass sensitive_features=... with one value per person."
            )
        known = {MISSING: MISSING} | {str(value): value for value in self.values}
        groups = joined(banded(_beside(given, people), self.bands))
        unknown = sorted(set(map(str, groups)) - set(known))
        if unknown:
            raise TableError(f"The people's '{self.name}' holds {listed(unknown)}, which no training row has.")
        return np.array([known[str(group)] for group in groups], dtype=object)


def group_values(values: Any, name: str) -> list[Any]:
    """The different values of a protected attribute among the training rows, sorted."""
    found = list(pd.unique(pd.Series(named(pd.Series(values)), dtype=object)))
    if len(found) > MOST_GROUPS:
        raise SettingError(
            f"'{name}' has {len(found)} different values, too many for a protected attribute: "
            f"group it into at most {MOST_GROUPS} first (for example age into age bands)."
        )
    return sorted(found, key=lambda value: (type(value).__name__, value))


def _columns(given: Any, X: pd.DataFrame) -> tuple[Hashable, ...]:
    """The columns of X that are named; none where values are given instead."""
    if isinstance(given, (pd.Series, pd.DataFrame)):
        return _columns_given_again(given.to_frame() if isinstance(given, pd.Series) else given, X)
    names = list(given) if isinstance(given, (list, tuple)) and not _is_column(given, X) else [given]
    if len(names) == len(X) and len(set(map(str, names))) < len(names):
        return ()  # one value per row, whatever columns are called
    named = [name for name in names if _is_column(name, X)]
    if named and len(named) == len(names):
        return tuple(dict.fromkeys(names))
    if all(isinstance(name, str) for name in names) and len(names) != len(X):
        absent = [name for name in names if not _is_column(name, X)]
        raise TableError(
            f"sensitive_features names {listed(absent)}, not a column of X, which has {listed(X.columns, 30)}. Name "
            "a column of X, or several in a list, or give one value per row beside X."
        )
    return ()


def _columns_given_again(frame: pd.DataFrame, X: pd.DataFrame) -> tuple[Hashable, ...]:
    """Columns of X that are handed over as values too: the model sees them, so it is not blind to them."""
    if not len(frame.columns) or not all(_is_column(name, X) for name in frame.columns):
        return ()
    if len(frame) != len(X) or not frame.index.equals(X.index):
        return ()  # refused where values are read
    for name in frame.columns:
        if list(map(str, frame[name])) != list(map(str, X[name])):
            raise TableError(
                f"sensitive_features is named '{name}' like a column of X but holds other values; rename it, or name "
                "the column."
            )
    return tuple(frame.columns)


def _is_column(name: Any, X: pd.DataFrame) -> bool:
    return isinstance(name, Hashable) and name in X.columns


def _beside(given: Any, X: pd.DataFrame) -> pd.DataFrame:
    """Values beside X as a table of one or more columns, checked against its rows."""
    if isinstance(given, pd.Series):
        frame = given.to_frame(given.name if given.name is not None else "group")
    elif isinstance(given, pd.DataFrame):
        frame = given
    else:
        try:
            frame = pd.DataFrame(given)
        except (ValueError, TypeError):
            frame = pd.DataFrame()
        if frame.shape[1] == 1:
            frame.columns = pd.Index(["group"])
    if len(frame) != len(X) or not frame.shape[1]:
        raise TableError(
            f"sensitive_features must name a column of X, which has {listed(X.columns, 30)}, or hold one value for "
            f"each of its {len(X)} rows; got {brief(given)}."
        )
    if isinstance(given, (pd.Series, pd.DataFrame)) and not frame.index.equals(X.index):
        raise TableError(
            "The index of sensitive_features is not that of X: other rows, or another order. Align it "
            "(sensitive_features.loc[X.index]), or pass a plain array in the order of X."
        )
    return frame


def joined(frame: pd.DataFrame) -> NDArray[np.object_]:
    columns = [named(frame.iloc[:, k]) for k in range(frame.shape[1])]
    if len(columns) == 1:
        return columns[0]
    rows = [tuple(map(str, row)) for row in zip(*columns, strict=True)]
    names = {row: Sensitive.JOINT.join(row) for row in set(rows)}
    if len(set(names.values())) < len(names):
        raise TableError(
            f"Values of {listed(frame.columns)} hold '{Sensitive.JOINT}', which stands between the values of several "
            "attributes: two groups would have one name. Write it otherwise."
        )
    return np.array([names[row] for row in rows], dtype=object)


def named(values: pd.Series) -> NDArray[np.object_]:
    """The values, with a word for those that are missing."""
    if values.isna().any() and (values == MISSING).any():
        raise TableError(
            f"Column '{values.name}' has the value '{MISSING}' and missing values, which are called so too: write one "
            "of them otherwise, to tell the groups apart."
        )
    return values.astype(object).where(values.notna(), MISSING).to_numpy()

"""The protected attribute: columns of the table, or values beside it that the model never sees.

A numeric attribute, such as age, is cut into named bands. A band reaches from one cut point up to, but not including,
the next: 25 and 60 make "under 25", "25 to under 60" and "60 and over". Without cut points, the training rows are cut
into rounded thirds.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from butfor.columns import is_numeric, numbers_in, refuse_missing_columns
from butfor.data.dates import date_of
from butfor.encode import MISSING
from butfor.errors import SettingError, TableError, brief, listed, nearest

MOST_GROUPS = 20
"""The most values of a protected attribute; with more, it is a number in disguise."""
AS_THEY_ARE = 10
"""A number with at most this many different values has one group per value."""

Cuts = Sequence[float] | Mapping[Any, Sequence[float]]
"""Cut points of the one numeric attribute, or of several by their names."""


@dataclass(frozen=True)
class Bands:
    """Cut points of a number, or of dates as days, smallest first, and the names of the bands."""

    cuts: tuple[float, ...]
    dates: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        shown = [date_of(cut) if self.dates else f"{cut:.12g}" for cut in self.cuts]
        between = [f"{low} to under {high}" for low, high in pairwise(shown)]
        return (f"under {shown[0]}", *between, f"{shown[-1]} and over")

    def of(self, values: pd.Series) -> pd.Series:
        """Each value's band; missing if the value is missing."""
        names = np.array(self.names, dtype=object)[np.searchsorted(self.cuts, numbers_in(values), side="right")]
        return pd.Series(names, values.index, dtype=object, name=values.name).where(values.notna())

    def typical(self, values: pd.Series) -> pd.Series:
        """For each value, the median of its band, which is one of the values."""
        own = self.of(values).fillna("")
        medians = {band: values[own == band].quantile(interpolation="lower") for band in own.unique() if band}
        return values.where(values.isna(), own.map(medians).astype(np.float64)).astype(values.dtype)

    def sentence(self, name: Hashable, values: pd.Series) -> str:
        counts = self.of(values).value_counts()
        parts = ", ".join(f"'{band}' ({int(counts.get(band, 0))} training rows)" for band in self.names)
        return f"'{name}' is a number, cut into bands: {parts}. A switch goes to the median of another band."


@dataclass(frozen=True, eq=False)
class Sensitive:
    """`values [n]` are the groups of the training rows; several columns are joined by `JOINT`. Missing values form the
    group `MISSING`. `bands` says how numeric columns are cut."""

    name: str
    values: NDArray[np.object_]
    columns: tuple[Hashable, ...] = ()
    bands: dict[Hashable, Bands] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()
    attributes: tuple[str, ...] = ()
    """The names of the columns, in or beside the table."""
    combinations: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """With several columns, each group's values."""

    JOINT = " · "

    @property
    def blind(self) -> bool:
        """Whether the model does not see the attribute, so that switching it changes nothing."""
        return not self.columns

    @property
    def cuts(self) -> dict[str, list[float]]:
        """The cut points of the columns that are cut into bands."""
        return {str(name): list(bands.cuts) for name, bands in self.bands.items()}

    @property
    def each(self) -> list[Sensitive]:
        """The attribute that rows belong to, last; before it, of several columns, each alone."""
        parts = []
        for k, name in enumerate(self.attributes if self.combinations else ()):
            values = np.array([self.combinations[group][k] for group in self.values], dtype=object)
            one = replace(self, name=name, values=values, columns=self.columns[k : k + 1], combinations={})
            parts.append(replace(one, attributes=(name,)))
        return [*parts, self]

    @classmethod
    def of(cls, given: Any, X: pd.DataFrame, cuts: Cuts | None = None) -> Sensitive:
        """From a column's name, a list of names, or values beside X (array, Series or table). Numbers are cut into
        bands by `cuts` or, if there are many, into thirds."""
        columns = _columns(given, X)
        raw = X[list(columns)] if columns else _beside(given, X)
        bands = bands_of(raw, cuts)
        remarks = tuple(cut.sentence(name, raw[name]) for name, cut in bands.items())
        names, groups = tuple(map(str, raw.columns)), in_bands(raw, bands)
        values = group_names(groups)
        group_values(values, " × ".join(names))
        return cls(" × ".join(names), values, columns, bands, remarks, names, combinations(groups))

    def combinations_of(self, people: pd.DataFrame) -> dict[str, tuple[str, ...]]:
        """Each group's values, of training rows and people; empty with one column."""
        own = {} if self.blind else combinations(in_bands(people[list(self.columns)], self.bands))
        return self.combinations | own

    def of_people(self, people: pd.DataFrame, given: Any = None) -> NDArray[np.object_]:
        """The people's groups, from their columns or from values beside them."""
        if not self.blind:
            refuse_missing_columns(people, self.columns)
            return group_names(in_bands(people[list(self.columns)], self.bands))
        if given is None:
            raise SettingError(
                f"'{self.name}' stands beside the table, so it is needed for these people too: pass "
                "sensitive_features=... with one value per person."
            )
        known = {MISSING: MISSING} | {str(value): value for value in self.values}
        groups = group_names(in_bands(_beside(given, people), self.bands))
        unknown = sorted(set(map(str, groups)) - set(known))
        if unknown:
            raise TableError(f"The people's '{self.name}' includes {listed(unknown)}, which no training row has.")
        return np.array([known[str(group)] for group in groups], dtype=object)


def group_values(values: Any, name: str) -> list[Any]:
    """The different values of a protected attribute among the training rows, sorted."""
    found = list(pd.unique(pd.Series(fill_missing(pd.Series(values)), dtype=object)))
    if len(found) > MOST_GROUPS:
        raise SettingError(
            f"'{name}' has {len(found)} different values, too many for a protected attribute: "
            f"group it into at most {MOST_GROUPS} first (for example age into age bands)."
        )
    return sorted(found, key=lambda value: (type(value).__name__, value))


def _columns(given: Any, X: pd.DataFrame) -> tuple[Hashable, ...]:
    """The columns of X that are named or passed as values; none if other values are given."""
    if isinstance(given, (pd.Series, pd.DataFrame)):
        frame = pd.DataFrame(given)
        if not all(_is_column(name, X) for name in frame.columns) or not frame.index.equals(X.index):
            return ()
        for name in frame.columns:
            if list(map(str, frame[name])) != list(map(str, X[name])):
                raise TableError(
                    f"sensitive_features has the name '{name}' of a column of X but other values; rename it, or name "
                    "the column."
                )
        return tuple(frame.columns)
    names = list(given) if isinstance(given, (list, tuple)) and not _is_column(given, X) else [given]
    absent = [name for name in names if not _is_column(name, X)]
    if len(names) == len(X) and len(set(map(str, names))) < len(names):
        return ()  # one value per row, even if a value equals a column's name
    if names and not absent:
        return tuple(dict.fromkeys(names))
    if all(isinstance(name, str) for name in names) and len(names) != len(X):
        raise TableError(
            f"sensitive_features: X has no column {listed(absent)}. {nearest(absent[0], X.columns, 'It has')} Name "
            "columns of X, or give one value per row."
        )
    return ()


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
            f"each of its {len(X)} rows, not {brief(given)}."
        )
    if isinstance(given, (pd.Series, pd.DataFrame)) and not frame.index.equals(X.index):
        raise TableError(
            "The index of sensitive_features does not match X: other rows, or another order. Align it "
            "(sensitive_features.loc[X.index]), or pass a plain array in the order of X."
        )
    return frame


def group_names(frame: pd.DataFrame) -> NDArray[np.object_]:
    """Each row's group; the values of several columns are joined."""
    columns = [fill_missing(frame.iloc[:, k]) for k in range(frame.shape[1])]
    if len(columns) == 1:
        return columns[0]
    return np.array([Sensitive.JOINT.join(map(str, row)) for row in zip(*columns, strict=True)], dtype=object)


def combinations(frame: pd.DataFrame) -> dict[str, tuple[str, ...]]:
    """Each combination of the columns' values by its displayed name; empty with one column."""
    if frame.shape[1] == 1:
        return {}
    rows = set(zip(*(map(str, fill_missing(frame.iloc[:, k])) for k in range(frame.shape[1])), strict=True))
    named = {Sensitive.JOINT.join(row): row for row in sorted(rows)}
    if len(named) < len(rows):
        raise TableError(
            f"Values of {listed(frame.columns)} contain '{Sensitive.JOINT}', which joins the values of several "
            "attributes, so two groups would have the same name. Write it differently."
        )
    return named


def fill_missing(values: pd.Series) -> NDArray[np.object_]:
    """The values, with `MISSING` for missing ones."""
    if values.isna().any() and (values == MISSING).any():
        raise TableError(
            f"Column '{values.name}' has the value '{MISSING}' as well as missing values, which get the same name: "
            "rename the value, to tell the groups apart."
        )
    return values.astype(object).where(values.notna(), MISSING).to_numpy()


# --- numbers in bands ------------------------------------------------------------------------------------


def bands_of(frame: pd.DataFrame, given: Cuts | None) -> dict[Hashable, Bands]:
    """The protected columns that are cut: as given or, with many different numbers, into thirds."""
    numeric = [str(name) for name in frame.columns if is_numeric(frame[name])]
    if given is not None and not isinstance(given, Mapping):
        if len(numeric) != 1:
            raise SettingError(
                f"Bands need exactly one numeric protected attribute; of {listed(frame.columns)}, {len(numeric)} hold "
                "numbers. Leave the bands out, or name the column: --bands age=25,60, "
                "sensitive_bands={'age': [25, 60]}."
            )
        given = {numeric[0]: given}
    cuts = {str(name): points for name, points in (given or {}).items()}
    unknown = [name for name in cuts if name not in map(str, frame.columns)]
    if unknown:
        raise SettingError(
            f"Bands are given for {listed(unknown)}, which is not a protected attribute. "
            f"{nearest(unknown[0], frame.columns, 'Those are')}"
        )
    bands: dict[Hashable, Bands] = {}
    for name in frame.columns:
        values = frame[name]
        if str(name) in cuts:
            bands[name] = _as_given(cuts[str(name)], values)
        elif str(name) in numeric and values.nunique() > AS_THEY_ARE:
            if values.dropna().between(0, 1).all():
                raise SettingError(
                    f"'{name}' holds numbers from 0 to 1, like probabilities, and a protected attribute needs groups: "
                    f"make groups of it first, or give cut points: --bands {name}=0.5, "
                    f"sensitive_bands={{'{name}': [0.5]}}."
                )
            bands[name] = _thirds(values)
    return bands


def in_bands(frame: pd.DataFrame, bands: Mapping[Hashable, Bands]) -> pd.DataFrame:
    """The frame with band names in place of numbers."""
    return pd.DataFrame({name: bands[name].of(frame[name]) if name in bands else frame[name] for name in frame})


def in_order(groups: Iterable[Any], cuts: Mapping[str, Sequence[float]]) -> list[Any]:
    """The different groups, bands from low to high, others by name."""
    bands = [name for one in cuts.values() for name in Bands(tuple(one)).names]
    places = {name: place for place, name in enumerate(bands)}
    return sorted(set(groups), key=lambda group: (places.get(group, len(places)), type(group).__name__, group))


def _as_given(cuts: Sequence[float], values: pd.Series) -> Bands:
    if not is_numeric(values):
        raise SettingError(f"Bands are given for '{values.name}', which does not hold numbers; leave them out.")
    numbers = [float(cut) for cut in cuts]
    if not numbers or not np.isfinite(numbers).all() or any(np.diff(numbers) <= 0):
        raise SettingError(f"Bands of '{values.name}': give cut points from small to large, such as 25,60.")
    bands = Bands(tuple(numbers))
    empty = [band for band in bands.names if not (bands.of(values) == band).any()]
    if empty:
        raise SettingError(
            f"Bands of '{values.name}': no training row is in {listed(empty)}; its values go from "
            f"{values.min():.12g} to {values.max():.12g}."
        )
    return bands


def _thirds(values: pd.Series) -> Bands:
    """Cut points near the thirds, as round as possible."""
    numbers = np.sort(numbers_in(values.dropna()))
    cuts = set()
    for exact in map(float, np.quantile(numbers, (1 / 3, 2 / 3), method="higher")):
        rounded = float(f"{exact:.2g}")
        cuts.add(rounded if numbers[0] < rounded <= numbers[-1] else exact)
    above = sorted(cut for cut in cuts if cut > numbers[0])
    return Bands(tuple(above) or (float(numbers[numbers > numbers[0]][0]),))

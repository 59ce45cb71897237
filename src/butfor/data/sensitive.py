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

from butfor.columns import date_of, is_numeric, numbers_in, refuse_misaligned
from butfor.data.labels import refuse_alike
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
        raw, columns = _read(given, X)
        bands, remarks = bands_of(raw, cuts), list[str]()
        for name, cut in bands.items():
            counts = cut.of(raw[name]).value_counts().reindex(cut.names, fill_value=0)
            parts = ", ".join(f"'{band}' ({count} training rows)" for band, count in counts.items())
            remarks += [f"'{name}' is a number, cut into bands: {parts}. A switch goes to the median of another band."]
        names = tuple(map(str, raw.columns))
        values, combinations = groups_in(raw, bands)
        group_values(values, joint := " × ".join(names))
        return cls(joint, values, columns, bands, tuple(remarks), names, combinations)

    def combinations_of(self, people: pd.DataFrame) -> dict[str, tuple[str, ...]]:
        """Each group's values, of training rows and people; empty with one column."""
        own = {} if self.blind else groups_in(people[list(self.columns)], self.bands)[1]
        return self.combinations | own

    def of_people(self, people: pd.DataFrame, given: Any = None) -> NDArray[np.object_]:
        """The people's groups, from their columns or from values beside them."""
        if not self.blind:
            return groups_in(people[list(self.columns)], self.bands)[0]
        if given is None:
            raise SettingError(
                f"'{self.name}' stands beside the table, so it is needed for these people too: pass "
                "sensitive_features=... with one value per person."
            )
        known = {MISSING: MISSING} | {str(value): value for value in self.values}
        groups = list(map(str, groups_in(_beside(given, people), self.bands)[0]))
        if unknown := sorted(set(groups) - set(known)):
            raise TableError(f"The people's '{self.name}' includes {listed(unknown)}, which no training row has.")
        return np.array([known[group] for group in groups], dtype=object)


def group_values(values: Any, name: str) -> list[Any]:
    """The different values of a protected attribute among the training rows, sorted."""
    found = list(pd.unique(pd.Series(fill_missing(pd.Series(values)), dtype=object)))
    if len(found) > MOST_GROUPS:
        raise SettingError(
            f"'{name}' has {len(found)} different values, too many for a protected attribute: "
            f"group it into at most {MOST_GROUPS} first (for example age into age bands)."
        )
    refuse_alike([value for value in found if value != MISSING], f"'{name}' has the values")
    return sorted(found, key=lambda value: (type(value).__name__, value))


def _read(given: Any, X: pd.DataFrame) -> tuple[pd.DataFrame, tuple[Hashable, ...]]:
    """The protected attribute as a table, and the columns of X that it is; none if it stands beside X."""

    def is_column(name: Any) -> bool:
        return isinstance(name, Hashable) and name in X.columns

    if isinstance(given, (pd.Series, pd.DataFrame)):
        frame = _beside(given, X)
        if (isinstance(given, pd.Series) and given.name is None) or not all(map(is_column, frame.columns)):
            return frame, ()
        for name in frame.columns:
            if list(map(str, frame[name])) != list(map(str, X[name])):
                raise TableError(
                    f"sensitive_features has the name '{name}' of a column of X but other values; rename it, or name "
                    "the column."
                )
        names = list(frame.columns)
    else:
        names = list(given) if isinstance(given, (list, tuple)) and not is_column(given) else [given]
        absent = [name for name in names if not is_column(name)]
        if not names or absent or (len(names) == len(X) and len(set(map(str, names))) < len(names)):
            if absent and len(names) != len(X) and all(isinstance(name, str) for name in names):
                raise TableError(
                    f"sensitive_features: X has no column {listed(absent)}. {nearest(absent[0], X.columns, 'It has')} "
                    "Name columns of X, or give one value per row."
                )
            return _beside(given, X), ()  # one value per row, even if a value equals a column's name
    columns = tuple(dict.fromkeys(names))
    return X[list(columns)], columns


def _beside(given: Any, X: pd.DataFrame) -> pd.DataFrame:
    """Values beside X as a table of one or more columns, checked against its rows."""
    try:
        frame = pd.DataFrame(given)
    except (ValueError, TypeError):
        frame = pd.DataFrame()
    named = isinstance(given, pd.DataFrame) or (isinstance(given, pd.Series) and given.name is not None)
    if frame.shape[1] == 1 and not named:
        frame.columns = pd.Index(["group"])
    if len(frame) != len(X) or not frame.shape[1]:
        raise TableError(
            f"sensitive_features must name a column of X, which has {listed(X.columns, 30)}, or hold one value for "
            f"each of its {len(X)} rows, not {brief(given)}."
        )
    indexed = isinstance(given, (pd.Series, pd.DataFrame))
    refuse_misaligned(frame if indexed else frame.to_numpy(), X, "groups", "sensitive_features")
    return frame


def groups_in(
    frame: pd.DataFrame, bands: Mapping[Hashable, Bands]
) -> tuple[NDArray[np.object_], dict[str, tuple[str, ...]]]:
    """Each row's group; of several columns also each group's values, which its name joins."""
    columns = [fill_missing(bands[name].of(frame[name]) if name in bands else frame[name]) for name in frame.columns]
    if len(columns) == 1:
        return columns[0], {}
    rows = list(zip(*(map(str, column) for column in columns), strict=True))
    different = sorted(set(rows))
    named = {Sensitive.JOINT.join(row): row for row in different}
    if len(named) < len(different):
        raise TableError(
            f"Values of {listed(frame.columns)} contain '{Sensitive.JOINT}', which joins the values of several "
            "attributes, so two groups would have the same name. Write it differently."
        )
    return np.array([Sensitive.JOINT.join(row) for row in rows], dtype=object), named


def fill_missing(values: pd.Series) -> NDArray[np.object_]:
    """The values, with `MISSING` for missing ones."""
    return values.astype(object).where(values.notna(), MISSING).to_numpy()


def bands_of(frame: pd.DataFrame, given: Cuts | None) -> dict[Hashable, Bands]:
    """The protected columns that are cut: as given or, with many different numbers, near their thirds."""
    numeric = {str(name): name for name in frame.columns if is_numeric(frame[name])}
    if given is not None and not isinstance(given, Mapping):
        if len(numeric) > 1:
            raise SettingError(
                f"Bands cut one number, but {listed(numeric)} all hold numbers. Name the column: --bands age=25,60, "
                "sensitive_bands={'age': [25, 60]}."
            )
        given = {next(iter(numeric or frame)): given}
    cuts = {str(name): points for name, points in (given or {}).items()}
    if unknown := [name for name in cuts if name not in numeric]:
        raise SettingError(
            f"Bands are given for {listed(unknown)}, which is no protected attribute with numbers. "
            f"{nearest(unknown[0], numeric, 'Those are') if numeric else 'Leave them out.'}"
        )
    bands: dict[Hashable, Bands] = {}
    for written, name in numeric.items():
        values = frame[name]
        if written in cuts:
            points = [float(cut) for cut in cuts[written]]
            if not points or not np.isfinite(points).all() or any(np.diff(points) <= 0):
                raise SettingError(f"Bands of '{name}': give cut points from small to large, such as 25,60.")
            bands[name] = Bands(tuple(points))
            filled = set(bands[name].of(values))
            if empty := [band for band in bands[name].names if band not in filled]:
                raise SettingError(
                    f"Bands of '{name}': no training row is in {listed(empty)}; its values go from "
                    f"{values.min():.12g} to {values.max():.12g}."
                )
        elif values.nunique() > AS_THEY_ARE:
            if values.dropna().between(0, 1).all():
                raise SettingError(
                    f"'{name}' holds numbers from 0 to 1, like probabilities, and a protected attribute needs groups: "
                    f"give cut points: --bands {name}=0.5, sensitive_bands={{'{name}': [0.5]}}."
                )
            numbers, thirds = np.sort(numbers_in(values.dropna())), set()
            for exact in map(float, np.quantile(numbers, (1 / 3, 2 / 3), method="higher")):
                rounded = float(f"{exact:.2g}")
                thirds.add(rounded if numbers[0] < rounded <= numbers[-1] else exact)
            above = sorted(cut for cut in thirds if cut > numbers[0])
            bands[name] = Bands(tuple(above) or (float(numbers[numbers > numbers[0]][0]),))
    return bands


def in_order(groups: Iterable[Any], cuts: Mapping[str, Sequence[float]]) -> list[Any]:
    """The different groups, bands from low to high, others by name."""
    bands = [name for one in cuts.values() for name in Bands(tuple(one)).names]
    places = {name: place for place, name in enumerate(bands)}
    return sorted(set(groups), key=lambda group: (places.get(group, len(places)), type(group).__name__, group))

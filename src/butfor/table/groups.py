"""The protected attribute: columns of the table, or values beside it that the model never sees.

A numeric attribute, such as age, or a date, such as that of birth, is cut into named bands. A band
reaches from one cut point up to, but not including, the next: 25 and 60 make "under 25", "25 to
under 60" and "60 and over". A number with many values and no cut points is refused.

The same value may be stored in several ways: 0 becomes 0.0 in a column with a missing value, and
"0" in a column of text. Groups are named by the training rows' values, and other rows' values are
mapped to these.
"""

from __future__ import annotations

import decimal
import math
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from butfor.support.errors import (
    BandsNeeded,
    SettingError,
    TableError,
    brief,
    listed,
    nearest,
    plural,
)
from butfor.table.columns import (
    beside,
    date_of,
    dates_in,
    days_in,
    is_numeric,
    numbers_in,
    refuse_misaligned,
    spelled,
)
from butfor.table.encoding import MISSING
from butfor.table.labels import refuse_alike

MOST_GROUPS = 20
"""The most values of a protected attribute; with more, it is a number in disguise."""
AS_THEY_ARE = 10
"""A number with at most this many different values has one group per value."""

Cuts = Sequence[Any] | Mapping[Any, Sequence[Any]]
"""Cut points of the one attribute that is cut, or of several by their names: numbers, or dates."""
Recorded = tuple[float | str, ...]
"""Cut points in a record: dates as text."""


@dataclass(frozen=True)
class Bands:
    """Cut points of a number, or of dates as days, smallest first, and the names of the bands."""

    cuts: tuple[float, ...]
    dates: bool = False

    @property
    def recorded(self) -> Recorded:
        """The cut points, dates as text."""
        return tuple(map(date_of, self.cuts)) if self.dates else self.cuts

    @property
    def names(self) -> tuple[str, ...]:
        return band_names(self.recorded)

    def numbers(self, values: pd.Series) -> NDArray[np.float64]:
        """Values as numbers, dates as days; NaN for missing ones."""
        dates = self.dates and not is_numeric(values)
        return days_in(values).astype(np.float64) if dates else numbers_in(values)

    def of(self, values: pd.Series) -> pd.Series:
        """Each value's band; missing if the value is missing."""
        names = np.array(self.names, dtype=object)[
            np.searchsorted(self.cuts, self.numbers(values), side="right")
        ]
        return pd.Series(names, values.index, dtype=object, name=values.name).where(values.notna())

    def typical(self, values: pd.Series) -> pd.Series:
        """For each value, the median of its band, which is one of the values."""
        bands = self.of(values).to_numpy()
        numbers = self.numbers(values)
        medians = values.to_numpy(copy=True)
        for band in set(bands[values.notna().to_numpy()]):
            inside = np.flatnonzero(bands == band)
            middle = inside[np.argsort(numbers[inside], kind="stable")[(len(inside) - 1) // 2]]
            medians[inside] = medians[middle]
        return pd.Series(medians, values.index, dtype=values.dtype, name=values.name)


def band_names(cuts: Recorded) -> tuple[str, ...]:
    """The names of the bands between cut points."""
    shown = [cut if isinstance(cut, str) else f"{cut:.12g}" for cut in cuts]
    between = [f"{low} to under {high}" for low, high in pairwise(shown)]
    return (f"under {shown[0]}", *between, f"{shown[-1]} and over")


@dataclass(frozen=True, eq=False)
class Sensitive:
    """`values [n]` are the groups of the training rows; several columns are joined by `JOINT`.
    Missing values form the group `MISSING`. `bands` says how numeric columns are cut."""

    name: str
    values: NDArray[np.object_]
    columns: tuple[Hashable, ...] = ()
    bands: dict[Hashable, Bands] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()
    attributes: tuple[str, ...] = ()
    """The names of the columns, in or beside the table."""
    combinations: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """With several columns, each group's values."""
    dates: frozenset[Hashable] = frozenset()
    """The columns that hold dates."""
    known: dict[Hashable, dict[str, Any]] = field(default_factory=dict)
    """Of each column that is not cut, the training rows' values by how they are spelled."""

    JOINT = " · "

    @property
    def blind(self) -> bool:
        """Whether the model does not see the attribute, so that switching it changes nothing."""
        return not self.columns

    @property
    def cuts(self) -> dict[str, Recorded]:
        """The cut points of the columns that are cut into bands, dates as text."""
        return {str(name): bands.recorded for name, bands in self.bands.items()}

    @property
    def each(self) -> list[Sensitive]:
        """The attribute that rows belong to, last; before it, of several columns, each alone."""
        parts = []
        for k, name in enumerate(self.attributes if self.combinations else ()):
            values = np.array([self.combinations[group][k] for group in self.values], dtype=object)
            one = replace(
                self, name=name, values=values, columns=self.columns[k : k + 1], combinations={}
            )
            parts.append(replace(one, attributes=(name,)))
        return [*parts, self]

    @classmethod
    def of(
        cls,
        given: Any,
        X: pd.DataFrame,
        cuts: Cuts | None = None,
        days: Collection[Hashable] = (),
    ) -> Sensitive:
        """From a column's name, a list of names, or values beside X (array, Series or table).
        Numbers and dates are cut into bands by `cuts`, which those with many values need. `days`:
        columns of X that hold dates as days."""
        raw, columns = _read(given, X, days)
        dates = frozenset(
            name
            for name in raw.columns
            if (columns and name in days) or dates_in(raw[name]) is not None
        )
        bands = bands_of(raw, cuts, dates)
        remarks = list[str]()
        for name, cut in bands.items():
            counts = cut.of(raw[name]).value_counts().reindex(cut.names, fill_value=0)
            parts = ", ".join(f"'{band}' ({count} training rows)" for band, count in counts.items())
            what = "holds dates" if cut.dates else "is a number"
            remarks += [
                f"'{name}' {what}, cut into bands: {parts}. A switch goes to the median of "
                "another band."
            ]
        known: dict[Hashable, dict[str, Any]] = {
            name: _by_spelling(_as_text(raw[name]) if name in dates else raw[name])
            for name in raw.columns
            if name not in bands
        }
        names = tuple(map(str, raw.columns))
        empty = cls(
            "", np.empty(0, object), columns, bands, tuple(remarks), names, dates=dates, known=known
        )
        values, combinations = groups_in(raw, empty.groups_of)
        joint = " × ".join(names)
        group_values(values, joint)
        return replace(empty, name=joint, values=values, combinations=combinations)

    def groups_of(self, values: pd.Series) -> pd.Series:
        """A column's values as those of groups: its bands, or the training rows' values however
        they are stored."""
        if values.name in self.bands:
            return self.bands[values.name].of(values)
        return _mapped(
            _as_text(values) if values.name in self.dates else values, self.known[values.name]
        )

    def as_in_training(self, values: pd.Series, training: pd.Series) -> pd.Series:
        """A protected column of people as the model knows it: numbers where the training column
        holds numbers, else the training rows' values however people's are stored. Values that no
        training row has stay."""
        if is_numeric(training):
            if is_numeric(values):
                return values
            return pd.Series(numbers_in(values), values.index, name=values.name)
        return values if values.name in self.dates else _mapped(values, self.known[values.name])

    def combinations_of(self, people: pd.DataFrame) -> dict[str, tuple[str, ...]]:
        """Each group's values, of training rows and people; empty with one column."""
        own = {} if self.blind else groups_in(people[list(self.columns)], self.groups_of)[1]
        return self.combinations | own

    def of_people(self, people: pd.DataFrame, given: Any = None) -> NDArray[np.object_]:
        """The people's groups, from their columns or from values beside them."""
        if not self.blind:
            return groups_in(people[list(self.columns)], self.groups_of)[0]
        if given is None:
            raise SettingError(
                f"'{self.name}' stands beside the table, so it is needed for these people too: "
                "pass sensitive_features=... with one value per person."
            )
        frame = _beside(given, people)
        if frame.shape[1] != len(self.attributes):
            columns = plural(frame.shape[1], "column")
            raise TableError(
                f"sensitive_features of these people has {columns}; give those of the training "
                f"rows: {listed(self.attributes)}."
            )
        named = set(frame.columns) == set(self.attributes)
        frame = (
            frame[list(self.attributes)] if named else frame.set_axis(list(self.attributes), axis=1)
        )
        group_named = {MISSING: MISSING} | {str(value): value for value in self.values}
        groups = list(map(str, groups_in(frame, self.groups_of)[0]))
        unknown = sorted(set(groups) - set(group_named))
        if unknown:
            raise TableError(
                f"The people's '{self.name}' includes {listed(unknown)}, which no training row has."
            )
        return np.array([group_named[group] for group in groups], dtype=object)


def _as_text(days: pd.Series) -> pd.Series:
    """Dates as text; they may be days since 1970-01-01."""
    if not is_numeric(days):
        days = pd.Series(days_in(days), days.index, name=days.name)
    return days.map(date_of, na_action="ignore").astype(object)


def _plain(value: Any) -> Any:
    """A value whose name has no needless fraction: 1 for 1.0."""
    fraction = isinstance(value, (float, np.floating, decimal.Decimal))
    return int(value) if fraction and float(value).is_integer() else value


def _by_spelling(values: pd.Series) -> dict[str, Any]:
    """The different values by how they are spelled; of several with one spelling the first in order
    of type and text. Truth values also stand for 1 and 0."""
    different = sorted(
        values.dropna().astype(object).unique(),
        key=lambda value: (type(value).__name__, str(value)),
    )
    found = {str(int(value)): value for value in different if isinstance(value, (bool, np.bool_))}
    return found | {spelled(value): _plain(value) for value in reversed(different)}


def _mapped(values: pd.Series, known: Mapping[str, Any]) -> pd.Series:
    """The values as the known ones that are spelled alike; others stay."""
    codes, different = pd.factorize(values.astype(object))
    found = []
    for value in different:
        as_number = str(int(value)) if isinstance(value, (bool, np.bool_)) else ""
        found.append(known.get(spelled(value), known.get(as_number, _plain(value))))
    if all(
        type(new) is type(old) and new == old for new, old in zip(found, different, strict=True)
    ):
        return values
    mapped = np.array([*found, None], dtype=object)[codes]
    return pd.Series(mapped, values.index, dtype=object, name=values.name).where(values.notna())


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


def _read(
    given: Any, X: pd.DataFrame, days: Collection[Hashable]
) -> tuple[pd.DataFrame, tuple[Hashable, ...]]:
    """The protected attribute as a table, and the columns of X that it is; none if it stands beside
    X. `days`: columns of X that hold dates as days."""

    def is_column(name: Any) -> bool:
        return isinstance(name, Hashable) and name in X.columns

    given = beside(given, X)
    if isinstance(given, (pd.Series, pd.DataFrame)):
        frame = _beside(given, X)
        if (isinstance(given, pd.Series) and given.name is None) or not all(
            map(is_column, frame.columns)
        ):
            return frame.set_axis(list(map(str, frame.columns)), axis=1), ()
        for name in frame.columns:
            column = X[name]
            beside_it = frame[name]
            if name in days:
                column = _as_text(column)
                beside_it = _as_text(beside_it)
            if [*map(spelled, fill_missing(column))] != [*map(spelled, fill_missing(beside_it))]:
                raise TableError(
                    f"sensitive_features has the name '{name}' of a column of X but other values; "
                    "rename it, or name the column."
                )
        names = list(frame.columns)
    else:
        names = (
            list(given) if isinstance(given, (list, tuple)) and not is_column(given) else [given]
        )
        absent = [name for name in names if not is_column(name)]
        if not names or absent or (len(names) == len(X) and len(set(map(str, names))) < len(names)):
            if absent and len(names) != len(X) and all(isinstance(name, str) for name in names):
                raise TableError(
                    f"sensitive_features: X has no column {listed(absent)}. "
                    f"{nearest(absent[0], X.columns, 'It has')} Name columns of X, or give one "
                    "value per row."
                )
            frame = _beside(given, X)  # one value per row, even if a value equals a column's name
            return frame.set_axis(list(map(str, frame.columns)), axis=1), ()
    columns = tuple(dict.fromkeys(names))
    return X[list(columns)], columns


def _beside(given: Any, X: pd.DataFrame) -> pd.DataFrame:
    """Values beside X as a table of one or more columns, checked against its rows."""
    given = beside(given, X)
    try:
        frame = pd.DataFrame(given)
    except (ValueError, TypeError):
        frame = pd.DataFrame()
    named = isinstance(given, pd.DataFrame) or (
        isinstance(given, pd.Series) and given.name is not None
    )
    if frame.shape[1] == 1 and not named:
        frame.columns = pd.Index(["group"])
    if len(frame) != len(X) or not frame.shape[1]:
        raise TableError(
            f"sensitive_features must name a column of X, which has {listed(X.columns, 30)}, or "
            f"hold one value for each of its {len(X)} rows, not {brief(given)}."
        )
    indexed = isinstance(given, (pd.Series, pd.DataFrame))
    refuse_misaligned(frame if indexed else frame.to_numpy(), X, "groups", "sensitive_features")
    return frame


def groups_in(
    frame: pd.DataFrame, groups_of: Callable[[pd.Series], pd.Series]
) -> tuple[NDArray[np.object_], dict[str, tuple[str, ...]]]:
    """Each row's group; of several columns also each group's values, which its name joins.
    `groups_of`: what a column's values are called."""
    columns = [fill_missing(groups_of(frame[name])) for name in frame.columns]
    if len(columns) == 1:
        return columns[0], {}
    rows = list(zip(*(map(str, column) for column in columns), strict=True))
    different = sorted(set(rows))
    named = {Sensitive.JOINT.join(row): row for row in different}
    if len(named) < len(different):
        raise TableError(
            f"Values of {listed(frame.columns)} contain '{Sensitive.JOINT}', which joins the "
            "values of several attributes, so two groups would have the same name. Write it "
            "differently."
        )
    return np.array([Sensitive.JOINT.join(row) for row in rows], dtype=object), named


def spellings(values: NDArray[np.object_]) -> NDArray[np.object_]:
    """How each value is spelled."""
    codes, different = pd.factorize(values)
    return np.array([*map(spelled, different)], dtype=object)[codes]


def fill_missing(values: pd.Series) -> NDArray[np.object_]:
    """The values, with `MISSING` for missing ones."""
    return values.astype(object).where(values.notna(), MISSING).to_numpy()


def bands_of(
    frame: pd.DataFrame, given: Cuts | None, dates: Collection[Hashable] = ()
) -> dict[Hashable, Bands]:
    """The protected columns that are cut, as given. Columns with many different numbers or `dates`
    need cut points."""
    cut = {str(name): name for name in frame.columns if name in dates or is_numeric(frame[name])}
    if given is not None and not isinstance(given, Mapping):
        if len(cut) > 1:
            raise SettingError(
                f"Bands cut one number, but {listed(cut)} all hold numbers. Name the column: "
                "--bands age=25,60, "
                "sensitive_bands={'age': [25, 60]}."
            )
        given = {next(iter(cut or frame)): given}
    cuts = {str(name): points for name, points in (given or {}).items()}
    if unknown := [name for name in cuts if name not in cut]:
        raise SettingError(
            f"Bands are given for {listed(unknown)}, which is no protected attribute with "
            f"numbers. {nearest(unknown[0], cut, 'Those are') if cut else 'Leave them out.'}"
        )
    bands: dict[Hashable, Bands] = {}
    missing: dict[str, Bands] = {}
    for written, name in cut.items():
        values = frame[name]
        of_dates = name in dates
        numbers = np.sort(Bands((), of_dates).numbers(values.dropna()))
        different = len(np.unique(numbers))
        if written in cuts:
            bands[name] = Bands(_cut_points(written, cuts[written], of_dates), of_dates)
            filled = set(bands[name].of(values))
            if empty := [band for band in bands[name].names if band not in filled]:
                ends = (
                    [date_of(end) if of_dates else f"{end:.12g}" for end in numbers[[0, -1]]]
                    if len(numbers)
                    else []
                )
                known = (
                    f"its values go from {ends[0]} to {ends[1]}"
                    if ends
                    else "all its values are missing"
                )
                raise SettingError(
                    f"Bands of '{name}': no training row is in {listed(empty)}; {known}."
                )
        elif different > AS_THEY_ARE:
            missing[written] = near_thirds(numbers, of_dates)
    if missing:
        name, example = next(iter(missing.items()))
        numbers = Bands((), example.dates).numbers(frame[cut[name]].dropna())
        held = "dates" if example.dates else "numbers"
        if not example.dates and numbers.min() >= 0 and numbers.max() <= 1:
            held = "numbers from 0 to 1, like probabilities"
        raise BandsNeeded(
            f"'{name}' holds {held} with {len(np.unique(numbers))} different values, and a "
            "protected attribute needs groups: give cut points. These cut the training rows near "
            "their thirds:",
            {name: bands.recorded for name, bands in missing.items()},
        )
    return bands


def near_thirds(numbers: NDArray[np.float64], dates: bool) -> Bands:
    """Cut points near the thirds of sorted numbers, rounded to two digits or to days; every band
    has one of the numbers."""
    points = set()
    for exact in map(float, np.quantile(numbers, (1 / 3, 2 / 3), method="higher")):
        rounded = float(math.floor(exact)) if dates else float(f"{exact:.2g}")
        points.add(rounded if numbers[0] < rounded <= numbers[-1] else exact)
    above = sorted(point for point in points if point > numbers[0])
    if not above:
        above = [float(numbers[numbers > numbers[0]][0])]
    return Bands(tuple(above), dates)


def _cut_points(name: str, given: Sequence[Any], dates: bool) -> tuple[float, ...]:
    """Cut points as numbers; of dates as days since 1970-01-01, which they may be already."""
    points = list[float]()
    for point in given:
        number = isinstance(point, (int, float, np.integer, np.floating))
        with suppress(ValueError, TypeError, TableError):
            points.append(float(days_in(pd.Series([point]))[0] if dates and not number else point))
    in_full = len(points) == len(given) > 0 and np.isfinite(points).all()
    if not in_full or any(np.diff(points) <= 0):
        example = "from small to large, such as 25,60"
        if dates:
            example = "from early to late, such as 1980-01-01,1990-01-01"
        raise SettingError(f"Bands of '{name}': give cut points {example}.")
    return tuple(points)


def in_order(groups: Iterable[Any], cuts: Mapping[str, Recorded]) -> list[Any]:
    """The different groups, bands from low to high, others by name."""
    bands = [name for one in cuts.values() for name in band_names(one)]
    places = {name: place for place, name in enumerate(bands)}
    return sorted(
        set(groups), key=lambda group: (places.get(group, len(places)), type(group).__name__, group)
    )

"""Where a group falls short: slices of its rows, those with one value of one column, or a quarter of a number.

Once a group falls short, every large slice of it does. So a slice is called only by its excess: its difference less
what the group's own shortfall would be there if the group lost the same share r of its favourable labels everywhere.
Labels drawn with that share say how large the largest excess of all slices is by chance.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.sparse import csr_array

from butfor.columns import DATES, is_numeric, numbers_in
from butfor.data.sensitive import AS_THEY_ARE, Bands
from butfor.encode import MISSING
from butfor.errors import plural
from butfor.names import PLAIN, Names
from butfor.standard.inference import WIDER, Drawn
from butfor.standard.inputs import Floats, Mask, Rows

LEAST_ROWS = 30
"""A smaller group, slice, or rest, says too little."""
MOST_VALUES = 1000
"""A column of text with more different values makes no slices."""
MOST_KEPT = 50
"""Slices of a group in a record."""
CHANCE = 0.05
"""How often any slice is called where the group falls short by the same share everywhere."""
CERTAIN = 0.02
"""Probabilities stay this far from 0 and 1 where slices are put in order."""
NOWHERE = -1
LOST = np.linspace(0, 0.95, 39)
"""Shares r that are tried there."""


@dataclass(frozen=True)
class Slice:
    """The rows of a group with one value of a column. `difference` is as a group's, and so is its interval from `low`
    to `high`; `elsewhere` that of the group's other rows. `excess`: the difference less what the group's shortfall
    would make here, `z` that in standard errors. `share`: of the labels that the group lacks, how many are here; None
    where it lacks none."""

    attribute: str
    group: str
    column: str
    value: str
    rows: int
    recorded: float
    expected: float
    difference: float
    low: float
    high: float
    elsewhere: float
    excess: float
    z: float
    share: float | None
    called: bool = False

    @property
    def name(self) -> str:
        return f"{self.column} = {self.value}"

    @property
    def more(self) -> float:
        """How much larger its gap is than elsewhere or, if fewer labels are expected to be favourable here, than the
        group's own gap would make it."""
        return max(self.difference - self.elsewhere, self.excess)

    @property
    def stands_out(self) -> bool:
        """Whether it is called and says something: that its gap is larger by a point or more."""
        return self.called and round(100 * self.more) >= 1

    def sentence(self, names: Names = PLAIN) -> str:
        """ "Where purpose = education, the gap of sex = f is 21 points, 14 more than elsewhere; over half of …" """
        share, gap = self.share or 0, plural(100 * self.difference, "point")
        part = "almost all" if share > 0.9 else "over half" if share > 0.5 else f"about {100 * share:.0f} %"
        than = "the group's own gap would make it" if self.more == self.excess else "elsewhere"
        return (
            f"Where {names.column(self.column)} = {self.value}, the gap of "
            f"{names.group(self.attribute, self.group)} is {gap}, "
            f"{100 * self.more:.0f} more than {than}; {part} of the shortfall is there."
        )


def kept(slices: Iterable[Slice]) -> tuple[Slice, ...]:
    """Those that a record keeps: the first of each group."""
    seen: Counter[tuple[str, str]] = Counter()
    found = []
    for one in slices:
        seen[one.attribute, one.group] += 1
        if seen[one.attribute, one.group] <= MOST_KEPT:
            found.append(one)
    return tuple(found)


class Slicing(NamedTuple):
    """Column and value of each slice of a table; per row and column the slice it is in, `len(names)` where it is in
    none; and the columns that have too many values."""

    names: list[tuple[str, str]]
    places: NDArray[np.int32]
    skipped: tuple[str, ...]

    @classmethod
    def of(cls, table: pd.DataFrame) -> Slicing:
        names, skipped, found = list[tuple[str, str]](), list[str](), []
        for column in table.columns:
            codes, values = pd.factorize(_values(table[column], column in table.attrs.get(DATES, ())), sort=True)
            if len(values) > MOST_VALUES:
                skipped.append(str(column))
                continue
            large = np.bincount(codes, minlength=len(values)) >= LEAST_ROWS
            place = np.where(large, len(names) + np.cumsum(large) - 1, NOWHERE).astype(np.int32)
            found.append(place[codes])
            names += [(str(column), str(values[int(code)])) for code in np.flatnonzero(large)]
        places = np.column_stack(found) if found else np.empty((len(table), 0), np.int32)
        places[places == NOWHERE] = len(names)
        return cls(names, places, tuple(skipped))


@dataclass(frozen=True, eq=False)
class Means:
    """Means over a group's rows: all of them, the comparable ones, and those of each slice that has enough of them and
    leaves out enough. `names`: of the slices; `places [rows × some]`: the means that a row counts in."""

    names: list[tuple[str, str]]
    places: NDArray[np.int32]
    weight: Floats

    @classmethod
    def of(cls, slicing: Slicing, rows: Rows, comparable: Mask, weight: Floats) -> Means:
        places = slicing.places[rows]
        count = np.bincount(places.ravel(), minlength=len(slicing.names) + 1)[:-1]
        stay = (count >= LEAST_ROWS) & (len(rows) - count >= LEAST_ROWS)
        nowhere = 2 + int(stay.sum())
        to = np.append(np.where(stay, 1 + np.cumsum(stay), nowhere), nowhere).astype(np.int32)
        if not (weight * comparable).any():
            comparable = np.ones(len(rows), bool)
        ahead = np.column_stack([np.zeros(len(rows)), np.where(comparable, 1, nowhere)]).astype(np.int32)
        names = [slicing.names[k] for k in np.flatnonzero(stay)]
        return cls(names, np.column_stack([ahead, to[places]]), weight)

    @property
    def count(self) -> int:
        return 2 + len(self.names)

    @cached_property
    def scale(self) -> Floats:
        """One over the weight of each mean's rows, and 0 for what counts nowhere."""
        return np.append(1 / self.sums(self.weight), 0.0)

    def of_tables(self, values: Floats, power: int = 1) -> Floats:
        """Of values `[rows]` or `[tables × rows]`: `[means]` or `[means × tables]`; weights raised to a power."""
        weights = self.scale[self.places] * self.weight[:, None]
        return self.sums(values, weights**power if power > 1 else weights).T

    def sums(self, values: Floats, factors: Floats | None = None) -> Floats:
        """Sums of factor times value `[means]` or `[tables × means]`, of values `[rows]` or `[tables × rows]`."""
        rows, each = self.places.shape
        factors = np.ones(rows * each) if factors is None else factors.ravel()
        ends = np.arange(0, each * rows + 1, each)
        inside = csr_array((factors, self.places.ravel(), ends), shape=(rows, self.count + 1))
        found: Floats = (inside.T @ values.T)[:-1].T
        return found


def _values(column: pd.Series, dates: bool) -> pd.Series:
    """What slices go by: values as text, of dates and numbers with many the quarter."""
    if is_numeric(column) and column.nunique() > AS_THEY_ARE:
        found = np.sort(numbers_in(column.dropna()))
        above = found[found > found[0]]
        cuts = np.quantile(found, [0.25, 0.5, 0.75], method="higher")
        cuts = np.maximum(cuts, above[0])  # where most are alike, those stay apart from the others
        cuts = np.unique([float(f"{cut:.6g}") for cut in cuts])  # a name that can be read
        return Bands(tuple(cuts.tolist()), dates).of(column).fillna(MISSING)
    return column.astype(object).where(column.notna(), MISSING).map(str)


class Found(NamedTuple):
    """The slices of one group, none called yet; `first`: higher where the group more likely falls short; and the
    largest z of each drawn table."""

    slices: list[Slice]
    first: Floats
    largest: Floats


def slices_of(
    attribute: str,
    group: str,
    means: Means,
    figures: Sequence[Drawn],
    probabilities: Floats,
    favourable: Mask,
    uniforms: Iterable[Floats],
) -> Found:
    """Of one group, by the figures of all its rows and of each of its slices. `probabilities` and `favourable` are of
    its rows, and `uniforms`, some `[tables × its rows]` at a time, draw their labels."""
    whole, parts = figures[0], figures[2 : means.count]
    weight = means.weight / means.weight.sum()
    mass = means.sums(weight)[2:]
    differences = np.array([part.difference for part in parts])
    expected = np.array([part.recorded for part in parts]) + differences
    usual = whole.difference / max(whole.recorded + whole.difference, 1e-9)
    excess = differences - usual * expected
    likely = np.clip(probabilities * (1 - usual), 0, 1)
    by_group, by_slice = [], []
    for some in uniforms:
        noise = (some < likely) - likely
        by_group.append(noise @ weight)
        by_slice.append(means.sums(noise * weight)[:, 2:] / mass)
    together = whole.draws - np.concatenate(by_group)
    drawn = np.array([part.draws for part in parts]).T - np.concatenate(by_slice)
    drawn = drawn - np.outer(together, expected / max(whole.recorded + whole.difference, 1e-9))
    drawn = WIDER * (drawn - drawn.mean(axis=0))
    error = np.maximum(drawn.std(axis=0, ddof=1), 1e-9)
    elsewhere = (whole.difference - mass * differences) / (1 - mass)
    lacking = np.clip(mass * differences / max(whole.difference, 1e-9), 0, 1)
    counts = means.sums(np.ones(len(weight)))[2:]
    slices = []
    for k, part in enumerate(parts):
        low, high = part.interval or (np.nan, np.nan)
        slices.append(
            Slice(
                attribute,
                group,
                *means.names[k],
                rows=int(counts[k]),
                recorded=part.recorded,
                expected=float(expected[k]),
                difference=float(differences[k]),
                low=low,
                high=high,
                elsewhere=float(elsewhere[k]),
                excess=float(excess[k]),
                z=float(excess[k] / error[k]),
                share=float(lacking[k]) if whole.difference > 0 else None,
            )
        )
    # How far the labels of a slice speak for a shortfall there: the root of twice the log-likelihood ratio between a
    # share r lost in this slice alone and none lost, at the best r.
    p = np.clip(probabilities - whole.centre, CERTAIN, 1 - CERTAIN)
    alone = np.zeros(len(parts))
    for lost in LOST:
        ratio = np.where(favourable, np.log(1 - lost), np.log1p(p * lost / (1 - p)))
        alone = np.maximum(alone, means.sums(ratio * weight * len(weight))[2:])
    return Found(slices, np.sqrt(2 * alone) + excess / error, (drawn / error).max(axis=1, initial=-np.inf))


def in_order(groups: Iterable[Found]) -> tuple[Slice, ...]:
    """The slices of all groups, those first where a group most likely falls short. Called are those of groups that
    fall short whose excess is larger than the largest of all such slices by chance."""
    found = list(groups)
    short = [each for each in found if each.slices and each.slices[0].share is not None]
    largest = np.max([each.largest for each in short], axis=0) if short else np.empty(0)
    at_least = float(np.quantile(largest, 1 - CHANCE, method="higher")) if len(largest) else np.inf
    slices = [replace(s, called=s.share is not None and s.z > at_least) for each in found for s in each.slices]
    order = np.argsort(-np.concatenate([[], *(each.first for each in found)]), kind="stable")
    return tuple(slices[k] for k in order)

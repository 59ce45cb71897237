"""What is behind a gap: how it moves when a column is left out, and slices of the group's rows
where it is larger.

Moves do not add up and depend on the columns that remain. Explained is not justified: a column may
itself come from unequal treatment.

A slice is the rows with one value of one column, or a quarter of a number. Once a group falls
short, every large slice of it does. So a slice is called only by its excess: its difference less
what the group's own shortfall would be there if the group lost the same share r of its favourable
labels everywhere. Labels drawn with that share say how large the largest excess of all slices is by
chance.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from butfor.standard.inputs import (
    MOST_LEARNED_ROWS,
    Floats,
    dense,
    thin,
)
from butfor.standard.logistic import design_of, fit_logistic, levers
from butfor.standard.model import Records
from butfor.standard.null import (
    ERROR_FACTOR,
    MIN_ROWS,
    CommonStandard,
    Group,
)
from butfor.support.errors import plural
from butfor.table.columns import (
    date_of,
    is_numeric,
    numbers_in,
)
from butfor.table.encoding import MISSING
from butfor.table.groups import AS_THEY_ARE, Bands
from butfor.words.names import PLAIN, Names

MOST_COLUMNS = 60
"""Of more columns only those whose terms in the logistic regression differ most between the groups
are left out, one at a time: each costs two fits."""
MOST_VALUES = 1000
"""A column of text with more different values makes no slices."""
MOST_KEPT_SLICES = 200
"""Slices in a record."""
CHANCE_OF_A_CALL = 0.05
"""How often any slice is called where the group falls short by the same share everywhere."""
MIN_PROBABILITY = 0.02
"""Probabilities stay this far from 0 and 1 where slices are put in order."""
LOST_SHARES = np.linspace(0, 0.95, 39)
"""Shares r that are tried there."""


@dataclass(frozen=True)
class ColumnMove:
    """How the difference of one group moves when a column is left out. Above 0: it is larger
    without it."""

    attribute: str
    group: str
    column: str
    move: float
    error: float
    """Its standard error: both fits share their rows."""


def column_moves(group: Group, records: Records) -> list[ColumnMove]:
    """Per column, how the difference moves without it, and the standard error of that move, by the
    logistic regression. Of a large table, by a part of its rows."""
    rows = group.rows[thin(len(group.rows), MOST_LEARNED_ROWS)]
    others = group.others[thin(len(group.others), MOST_LEARNED_ROWS)]
    encoded = records.encoded
    own = records.weight[rows]
    theirs = records.weight[others]
    labels = records.labels[others]
    asked = dense(encoded.inputs[rows])
    learned = dense(encoded.inputs[others])
    whole = fit_logistic(design_of(learned), labels[None], theirs)[0]
    # First none is left out, so that moves compare models of the same rows.
    columns = list(encoded.columns)
    if len(columns) > MOST_COLUMNS:
        terms = whole[1:] * (asked.mean(axis=0) - learned.mean(axis=0))
        apart = {
            name: abs(float(np.sum(terms[inputs]))) for name, inputs in encoded.columns.items()
        }
        largest = set(sorted(apart, key=lambda name: -apart[name])[:MOST_COLUMNS])
        columns = [name for name in columns if name in largest]
    lever, residual = levers(design_of(learned), labels, design_of(asked), theirs, own, whole)
    gone = np.zeros((1 + len(columns), asked.shape[1]), bool)
    for out, column in zip(gone[1:], columns, strict=True):
        out[encoded.columns[column]] = True
    fits = []
    errors = list[float]()
    for stays in ~gone:
        design = design_of(learned[:, stays])
        start = whole[np.append(True, stays)]
        fits.append(fit_logistic(design, labels[None], theirs, start)[0])
        moved, _ = levers(design, labels, design_of(asked[:, stays]), theirs, own, fits[-1])
        paired = (moved - lever) * residual  # both fits share their rows
        if records.clusters is not None:
            paired = np.bincount(records.clusters[others], paired).astype(np.float64)
        errors.append(float(np.sqrt((paired**2).sum())))
    recorded, *left = records.model.predict_without(gone, fits, others, rows, labels, theirs)
    moves = [float(np.average(p - recorded, weights=own)) for p in left]
    figures = zip(map(str, columns), moves, errors[1:], strict=True)
    return [ColumnMove(group.attribute, group.value, *of) for of in figures]


def strongest(moves: Sequence[ColumnMove], difference: float) -> ColumnMove | None:
    """The column that brings the difference closest to 0: leaving it out moves the difference
    furthest away from there. None where none does by more than its error."""
    away = [m for m in moves if abs(m.move) > m.error and m.move * np.sign(difference) > 0]
    return max(away, key=lambda m: (abs(m.move), m.column), default=None)


@dataclass(frozen=True)
class Slice:
    """The rows of a group with one value of a column. `difference` is as a group's, and so is its
    interval from `low` to `high`; `elsewhere` that of the group's other rows. `excess`: the
    difference less what the group's shortfall would make here, `z` that in standard errors.
    `share`: of the labels that the group lacks, how many are here; None where it lacks none."""

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
    def more(self) -> float:
        """How much larger its gap is than elsewhere or, if fewer labels are expected to be
        favourable here, than the group's own gap would make it."""
        return max(self.difference - self.elsewhere, self.excess)

    @property
    def stands_out(self) -> bool:
        """Whether it is called and says something: that its gap is larger by a point or more."""
        return self.called and round(100 * self.more) >= 1

    def sentence(self, names: Names = PLAIN) -> str:
        """ "Where purpose = education, the gap of people with sex = f is 21 points, 14 more than
        elsewhere; …" """
        share = self.share or 0
        gap = plural(100 * self.difference, "point")
        part = f"about {100 * share:.0f} %"
        if share > 0.9:
            part = "almost all"
        elif share > 0.5:
            part = "over half"
        than = "the group's own gap would make it" if self.more == self.excess else "elsewhere"
        return (
            f"Where {names.column(self.column)} = {self.value}, the gap of "
            f"{names.people_in(self.attribute, self.group)} is {gap}, {100 * self.more:.0f} more "
            f"than {than}; {part} of the shortfall is there."
        )


class Slicing:
    """Column and value of each slice of a table; per row and column the slice it is in,
    `len(names)` where it is in none; and the columns that have too many values. `dates`: columns
    that hold days."""

    def __init__(self, table: pd.DataFrame, dates: Collection[Hashable] = ()) -> None:
        self.names = list[tuple[str, str]]()
        self.skipped = list[str]()
        found = []
        for column, values in table.items():
            if (
                is_numeric(values) and values.nunique() > AS_THEY_ARE
            ):  # of dates and numbers with many, the quarter
                ordered = np.sort(numbers_in(values.dropna()))
                cuts = np.quantile(ordered, [0.25, 0.5, 0.75], method="higher")
                cuts = np.maximum(
                    cuts, ordered[ordered > ordered[0]][0]
                )  # where most are alike, those stay apart
                cuts = np.unique([float(f"{cut:.6g}") for cut in cuts])  # a name that can be read
                values = Bands(tuple(cuts.tolist()), column in dates).of(values).fillna(MISSING)
            else:
                named = date_of if is_numeric(values) and column in dates else str
                values = (
                    values.map(named, na_action="ignore")
                    .astype(object)
                    .where(values.notna(), MISSING)
                )
            codes, distinct = pd.factorize(values, sort=True)
            if len(distinct) > MOST_VALUES:
                self.skipped.append(str(column))
                continue
            large = np.bincount(codes, minlength=len(distinct)) >= MIN_ROWS
            place = np.where(large, len(self.names) + np.cumsum(large) - 1, -1).astype(np.int32)
            found.append(place[codes])
            self.names += [
                (str(column), str(distinct[int(code)])) for code in np.flatnonzero(large)
            ]
        self.places = np.column_stack(found) if found else np.empty((len(table), 0), np.int32)
        self.places[self.places == -1] = len(self.names)


def slices_of(groups: Sequence[Group], common: CommonStandard) -> tuple[Slice, ...]:
    """The slices of all groups, by the figures of all their rows and of each slice; those first
    where a group most likely falls short. Called are those of groups that fall short whose excess
    is larger than the largest of all such slices by chance."""
    slices = list[Slice]()
    first = list[float]()
    largest = list[Floats]()
    for group in groups:
        means = group.means
        tables = group.draws.shape[1]
        probabilities = group.probabilities
        if tables < 2 or not means.names:
            continue
        gap = group.difference[0]
        all_expected = group.recorded[0] + group.difference[0]
        inside = slice(1, 1 + len(means.names))
        difference = group.difference[inside]
        recorded = group.recorded[inside]
        expected = recorded + difference
        weight = means.weight / means.weight.sum()
        mass = means.sums(weight)[1:]
        usual = gap / max(all_expected, 1e-9)
        excess = difference - usual * expected
        likely = np.clip(probabilities * (1 - usual), 0, 1)
        by_group = []
        by_slice = []
        for some in common.uniforms_of(group.rows, tables):
            noise = (some < likely) - likely
            by_group.append(noise @ weight)
            by_slice.append(means.sums(noise * weight)[:, 1:] / mass)
        together = group.draws[0] - np.concatenate(by_group)
        drawn = group.draws[inside].T - np.concatenate(by_slice)
        drawn = drawn - np.outer(together, expected / max(all_expected, 1e-9))
        drawn = ERROR_FACTOR * (drawn - drawn.mean(axis=0))
        error = np.maximum(drawn.std(axis=0, ddof=1), 1e-9)
        sizes = means.sums(np.ones(len(weight)))[1:].astype(int)
        low, high = group.ends[:, inside]
        elsewhere = (gap - mass * difference) / (1 - mass)
        z = excess / error
        shares = np.full(len(mass), None)
        if gap > 0:
            shares = np.clip(mass * difference / max(gap, 1e-9), 0, 1)
        figures = (
            *(sizes, recorded, expected, difference, low, high),
            *(elsewhere, excess, z, shares),
        )
        by_slice_figures = zip(*(figure.tolist() for figure in figures), strict=True)
        for name, row in zip(means.names, by_slice_figures, strict=True):
            slices.append(Slice(group.attribute, group.value, *name, *row))
        # How far the labels of a slice speak for a shortfall there: the root of twice the
        # log-likelihood ratio between a share r lost in this slice alone and none lost, at the best
        # r.
        p = np.clip(probabilities - group.centre[0], MIN_PROBABILITY, 1 - MIN_PROBABILITY)
        alone = np.zeros(len(mass))
        favourable = common.records.labels[group.rows] == 1
        for lost in LOST_SHARES:
            ratio = np.where(favourable, np.log(1 - lost), np.log1p(p * lost / (1 - p)))
            alone = np.maximum(alone, means.sums(ratio * weight * len(weight))[1:])
        first += (np.sqrt(2 * alone) + z).tolist()
        if gap > 0:
            largest.append((drawn / error).max(axis=1))
    z_by_chance = np.inf
    if largest:
        by_table = np.max(largest, axis=0)
        z_by_chance = float(np.quantile(by_table, 1 - CHANCE_OF_A_CALL, method="higher"))
    called = [replace(s, called=s.share is not None and s.z > z_by_chance) for s in slices]
    return tuple(called[k] for k in np.argsort(-np.array(first), kind="stable"))

"""One standard for everybody, tables whose labels are drawn by it, and what they say about a
group's difference.

A model of all rows knows the protected attribute. Asked about everybody with every value of the
attribute, and averaged over these, it gives people with the same columns the same probability in
every group. On tables drawn by it no group is held to another standard, but groups differ in their
columns as they really do. What the comparison finds there is the method's own error.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from scipy.optimize import brentq
from scipy.sparse import csr_array
from scipy.special import ndtr, ndtri

from butfor.standard.inputs import (
    LARGE_TABLE_ROWS,
    MOST_LEARNED_ROWS,
    ROWS_AT_ONCE,
    Floats,
    Rows,
    beside,
    thin,
)
from butfor.standard.model import Records
from butfor.standard.second_opinion import (
    EVERYBODY,
    ClusteredError,
    Opinion,
    Part,
    folds_of,
)
from butfor.words.figures import Interval

MEMBERSHIP_SIZE = 2.0
"""Size of a membership input: as large as a column's spread of two standard deviations, so that it
is shrunk little."""
MOST_PAIRS = 2000
"""Pairs of rows of one cluster by which their correlation is judged."""
MAX_CORRELATION = 0.95
"""The largest correlation of a cluster's labels."""
UNIFORMS_AT_ONCE = 4_000_000
"""Random numbers that are held at a time, of large tables."""
ERROR_FACTOR = 1.05
"""Errors over drawn tables lack the error of the centre itself: true errors are this much larger
(`python -m benchmarks.coverage --double`)."""
FEW_LABELS = 10
"""Labels of either kind: with fewer expected, intervals are quantiles of what was drawn, not
normal."""
REDRAWS = 40
"""Of a group's labels per drawn table, where quantiles are taken."""
MIN_ROWS = 30
"""A smaller group, slice, or rest, says too little."""
COVERAGE = 0.95
"""How often intervals and bounds include the true difference."""
BY_OTHERS = 0
"""Position of a group's share by the others' standard; its slices follow."""
BY_AIPW = -1
"""Position of its share by AIPW."""
DISAGREEMENT_DEVIATIONS = 2.58
"""Standard deviations of their difference beyond which two opinions disagree: one pair in a hundred
by chance."""
SIGNIFICANCE_LEVEL = 0.05
"""Adjusted p below which a gap is more than chance."""
CLOSE_ERRORS = 3.0
"""A p that is fewer of its own standard errors away from that is close to the line: other draws may
say otherwise."""
MIN_DISTANCE_FROM_ZERO = 0.0005
"""Where a gap is more than chance, its interval and bounds end this far from 0 at least, or at half
the gap."""


class CommonStandard:
    """One standard for everybody: `everybody [rows]` are probabilities of the favourable label that
    are the same for people with the same columns; `own [rows]` those of the recorded labels, by
    each row's own group."""

    def __init__(self, records: Records, attributes: list[Rows], random_state: int = 0) -> None:
        """`attributes`: the rows' codes by each attribute; the last one, all of them together, is
        averaged out."""
        self.records = records
        self.random_state = random_state
        self.correlation = 0.0
        whole = attributes[-1]
        labels = records.labels
        weight = records.weight
        clusters = records.clusters
        n = len(labels)
        shares = np.bincount(whole, weight) / weight.sum()
        one_hot = [MEMBERSHIP_SIZE * (codes[:, None] == np.unique(codes)) for codes in attributes]
        members = np.column_stack(one_hot)
        model = records.encoded.with_inputs(members)
        predict = model.fit(np.arange(n), labels[None], weight)
        # All rows as they are, then once with each value of the attribute, that of its first row;
        # some at a time.
        first = np.append(0, [np.flatnonzero(whole == code)[0] for code in range(len(shares))])
        asked = len(first) * n
        predicted = []
        for begin in range(0, asked, ROWS_AT_ONCE):
            time, row = np.divmod(np.arange(begin, min(begin + ROWS_AT_ONCE, asked)), n)
            member_of = members[np.where(time == 0, row, first[time])]
            predicted.append(predict(beside(records.encoded.inputs[row], member_of)))
        self.own, *by_value = np.concatenate(predicted, axis=1)[0].reshape(-1, n)
        self.everybody: Floats = shares @ np.array(by_value)
        if clusters is not None:
            # By models that saw no row of the cluster: others take its luck for their own.
            learn = thin(n, 2 * MOST_LEARNED_ROWS)
            unseen = model.cross_predict(
                np.arange(n), labels, folds_of(n, clusters, 0), learn, weight[learn]
            )
            self.correlation = _latent_correlation(labels, unseen, clusters)
            """Of the labels' latent scores within a cluster."""

    def uniforms(self, table: int) -> Floats:
        """Of a drawn table, a number from 0 to 1 per row, those of a cluster alike: a label is
        favourable where it is below the row's probability."""
        # Not (0, 0): for numpy that is 0, which made many a table, whose columns such labels would
        # follow.
        rng = np.random.default_rng((self.random_state, 1 + table))
        if self.records.clusters is None or not self.correlation:
            return rng.random(len(self.everybody))
        shared = rng.standard_normal(int(self.records.clusters.max()) + 1)[self.records.clusters]
        apart = rng.standard_normal(len(shared))
        latent = np.sqrt(self.correlation) * shared + np.sqrt(1 - self.correlation) * apart
        uniforms: Floats = ndtr(latent)
        return uniforms

    def uniforms_of(self, rows: Rows, tables: int) -> Iterator[Floats]:
        """Those of some rows in the first drawn tables `[tables × rows]`; of large tables, a few at
        a time."""
        size = max(1, tables)
        if len(self.everybody) > LARGE_TABLE_ROWS:
            size = max(1, UNIFORMS_AT_ONCE // len(self.everybody))
        for begin in range(0, tables, size):
            some = range(begin, min(begin + size, tables))
            yield np.array([self.uniforms(table)[rows] for table in some])


def _latent_correlation(labels: Floats, expected: Floats, clusters: Rows) -> float:
    """The correlation of latent normal scores within clusters under which labels agree as often as
    the recorded ones do, given what is expected of each row."""
    order = np.argsort(clusters, kind="stable")
    same = clusters[order[:-1]] == clusters[order[1:]]
    if not same.any():
        return 0.0
    # Neighbours of one cluster.
    first = order[:-1][same]
    second = order[1:][same]
    p = np.clip(expected[first], 0.005, 0.995)
    q = np.clip(expected[second], 0.005, 0.995)
    scale = np.sqrt(p * (1 - p) * q * (1 - q))
    observed = float(np.mean((labels[first] - p) * (labels[second] - q) / scale))
    some = np.linspace(0, len(p) - 1, min(len(p), MOST_PAIRS)).astype(int)
    p = p[some]
    q = q[some]
    scale = scale[some]
    nodes, weights = np.polynomial.hermite_e.hermegauss(20)
    weights = weights / weights.sum()

    def excess(correlation: float) -> float:
        root = np.sqrt(correlation)
        rest = np.sqrt(1 - correlation)
        one = ndtr((ndtri(p)[:, None] - root * nodes) / rest)
        other = ndtr((ndtri(q)[:, None] - root * nodes) / rest)
        both = one * other
        return float(np.mean((both @ weights - p * q) / scale)) - observed

    if observed <= 0:
        return 0.0
    if excess(MAX_CORRELATION) < 0:
        return MAX_CORRELATION
    return float(brentq(excess, 0.0, MAX_CORRELATION, xtol=1e-3))


def effective_rows(sums: Any, squares: Any) -> Any:
    """How many rows of equal weight say as much, from the sums of weights and of their squares
    (Kish 1965)."""
    return sums**2 / np.maximum(squares, 1e-300)


def effective_rows_of(weight: Floats) -> float:
    """The same, from the weights."""
    return float(effective_rows(weight.sum(), (weight**2).sum()))


def _sums_by_slice(slices: NDArray[np.int32], values: Floats, count: int) -> Floats:
    """Of values `[rows]`, the sum in each slice; `slices [rows × columns]`, `count` for none."""
    by_row = np.repeat(values, slices.shape[1])
    sums: Floats = np.bincount(slices.ravel(), by_row, minlength=count + 1)[:-1].astype(np.float64)
    return sums


class Means:
    """Means over a group's rows: all of them, and those of each slice that has enough of them and
    leaves out enough. `names`: column and value of these slices."""

    def __init__(
        self, names: list[tuple[str, str]], slices: NDArray[np.int32], weight: Floats
    ) -> None:
        """`slices [rows × columns]`: by number, `len(names)` for none."""
        rows = len(slices)
        sums = _sums_by_slice(slices, weight, len(names))
        squares = _sums_by_slice(slices, weight**2, len(names))
        inside = effective_rows(sums, squares)
        outside = effective_rows(weight.sum() - sums, (weight**2).sum() - squares)
        stay = (inside >= MIN_ROWS) & (outside >= MIN_ROWS)
        self.names = [names[k] for k in np.flatnonzero(stay)]
        self.weight = weight
        nowhere = 1 + len(self.names)
        to = np.append(np.where(stay, np.cumsum(stay), nowhere), nowhere)
        places = np.column_stack([np.zeros(rows, int), to[slices]]).astype(np.int32)
        ends = np.arange(0, places.size + 1, places.shape[1])
        ones = np.ones(places.size, np.int8)
        everywhere = csr_array((ones, places.ravel(), ends), shape=(rows, 1 + nowhere))
        self.inside = everywhere[:, :nowhere]
        """1 where a row counts `[rows × means]`."""

    def of_tables(self, values: Floats, power: int = 1) -> Floats:
        """Of values `[rows]` or `[tables × rows]`: `[means]` or `[means × tables]`; weights raised
        to a power."""
        factors = self.factors if power == 1 else self.factors.power(power)
        means: Floats = factors.T @ values.T
        return means

    @cached_property
    def factors(self) -> csr_array:
        """How much a row counts `[rows × means]`."""
        places = self.inside.indices
        ends = self.inside.indptr
        data = (1 / self.sums(self.weight))[places] * np.repeat(self.weight, np.diff(ends))
        return csr_array((data, places, ends), shape=self.inside.shape)

    def sums(self, values: Floats) -> Floats:
        """Sums of values `[rows]` or `[tables × rows]`: `[means]` or `[tables × means]`."""
        sums: Floats = (self.inside.T @ values.T).T
        return sums


@dataclass(frozen=True, eq=False)
class DrawnTables:
    """What tables drawn by one standard say about a group."""

    expected: Floats
    """Its shares by the others' standard `[shares × tables]`."""
    recorded: Floats
    """The share of all its rows, by the drawn labels `[tables]`."""
    again: Floats
    """Its shares were its labels drawn again by the probabilities of its own labels: with the
    tables' own random numbers, or several times each `[shares × tables × times]`."""

    @classmethod
    def joined(cls, parts: Sequence[DrawnTables]) -> DrawnTables:
        """Those of several runs of tables, as one."""
        return cls(
            np.concatenate([part.expected for part in parts], axis=1),
            np.concatenate([part.recorded for part in parts]),
            np.concatenate([part.again for part in parts], axis=1),
        )


class Group:
    """Rows of one group, by position, and those it is compared with: all others, or the reference
    group's. The rest is what a comparison measures of it, step by step. `[shares]` are those of the
    favourable label: among all its rows, in each slice, and by AIPW."""

    opinion: Opinion | None = None
    part: Part = EVERYBODY
    """Of the others, those that models of drawn labels learn from."""
    means: Means
    probabilities: Floats
    """Of the favourable label, by the others' standard `[rows]`."""
    outcomes: Floats
    """What AIPW expects `[rows of group and others]`."""
    by_others: Floats
    """By the others' standard `[shares]`."""
    apart: Floats | float = 0.0
    """How much higher that is, on labels without noise, by models of all others than by those of
    `part` `[shares]`."""
    suspect: Floats
    """How likely the rows' adverse labels are wrong, before the gap says how many are."""

    draws: Floats
    """By the others' standard in each drawn table `[shares × tables]`."""
    recorded: Floats
    """What the rows have `[shares]`."""
    centre: Floats
    """What the method finds where nobody is held to another standard `[shares]`."""
    difference: Floats
    error: Floats
    """Its standard error; no number without draws."""
    ends: Floats
    """Of its interval, low and high `[2 × shares]`; no number without draws."""
    by_clusters: ClusteredError | None = None
    """Its standard error were other clusters recorded, where that is the larger one."""
    null: Floats
    """Differences of all rows in drawn tables, as far as they are from their centre `[tables]`."""
    label_draws: Floats
    """Deviations of all rows' recorded share, were labels drawn again `[tables × times]`."""
    standard_draws: Floats
    """Deviations of its shares by the others' standard, were the others' labels drawn again by the
    probabilities of their own labels `[shares × tables]`."""

    def __init__(
        self, attribute: str, value: str, rows: Rows, others: Rows, reference: str | None = None
    ) -> None:
        self.attribute = attribute
        self.value = value
        self.rows = rows
        self.others = others
        self.reference = reference

    def repeats(self, group: Group) -> bool:
        """Whether it is the same comparison under another name: the same rows beside the same
        others."""
        return np.array_equal(self.rows, group.rows) and np.array_equal(self.others, group.others)

    @property
    def of_share(self) -> Rows:
        """Which of the group's means each share is of: AIPW is about all of its rows."""
        return np.append(np.arange(1 + len(self.means.names)), 0)

    def redraws(self, common: CommonStandard) -> int:
        """How many times labels are drawn again for each drawn table: once, or many times where so
        few labels are expected of one kind that intervals are quantiles."""
        if common.correlation:
            return 1
        favourable = len(self.rows) * float(self.means.of_tables(common.own[self.rows])[0])
        return REDRAWS if min(favourable, len(self.rows) - favourable) < FEW_LABELS else 1

    def drawn(
        self, tables: range, expected: Floats, uniforms: Floats, common: CommonStandard, number: int
    ) -> DrawnTables:
        """These tables' shares. `expected [shares × tables]`, `uniforms [tables × rows of the
        group]`; `number` is the group's, for random numbers of its own."""
        everybody = common.everybody[self.rows]
        own = common.own[self.rows]
        recorded = self.means.of_tables((uniforms < everybody).astype(float))[0]
        times = self.redraws(common)
        if times > 1:
            seeds = [[common.random_state, 7, number, table] for table in tables]
            size = times, len(self.rows)
            uniforms = np.concatenate([np.random.default_rng(seed).random(size) for seed in seeds])
        again = self.means.of_tables((uniforms < own).astype(float))[self.of_share]
        return DrawnTables(expected, recorded, again.reshape(len(again), len(tables), times))

    def measure(self, drawn: DrawnTables, common: CommonStandard) -> None:
        """The figures, when tables are drawn."""
        rows = self.rows
        means = self.means
        of_share = self.of_share
        tables = drawn.expected.shape[1]
        by_row = np.array([common.records.labels[rows], common.everybody[rows], common.own[rows]])
        recorded, one_standard, own_share = means.of_tables(by_row)[of_share].T
        self.draws = drawn.expected
        self.recorded = recorded
        deviations = drawn.again - own_share[:, None, None]
        self.label_draws = deviations[0]
        self.centre = np.zeros(len(of_share))
        deviations_of_draws = self.draws
        if tables:
            self.centre = self.draws.mean(axis=1) - one_standard
            deviations_of_draws = self.draws - self.draws.mean(axis=1, keepdims=True)
        self.standard_draws = self._noise_of_others(common) * deviations_of_draws
        self.difference = np.clip(self.by_others - self.centre, 0, 1) - recorded
        self.error = np.full(len(of_share), np.nan)
        self.ends = np.full((2, len(of_share)), np.nan)
        self.null = ERROR_FACTOR * (self.draws[0] - drawn.recorded - self.centre[0])
        if tables < 2:
            return
        times = deviations.shape[2]
        if common.correlation:
            off_by_table = self.standard_draws - deviations[:, :, 0]
            self.error = ERROR_FACTOR * np.std(off_by_table, axis=1, ddof=1)
        else:
            own = common.own[rows]
            label_variance = means.of_tables(own * (1 - own), power=2)[of_share]
            standard_variance = self.standard_draws.var(axis=1, ddof=1)
            self.error = ERROR_FACTOR * np.sqrt(standard_variance + label_variance)
        if times > 1:
            off = ERROR_FACTOR * (self.standard_draws[:, :, None] - deviations)
            tails = [(1 - COVERAGE) / 2, (1 + COVERAGE) / 2]
            low, high = np.quantile(off.reshape(len(off), -1), tails, axis=1)
        else:
            high = float(stats.t.ppf((1 + COVERAGE) / 2, tables - 1)) * self.error
            low = -high
        factors = self._widening((high - low) / 2, common)
        self.error = self.error * factors
        ends = np.array([self.difference - factors * high, self.difference - factors * low])
        self.ends = np.clip(ends, -recorded, 1 - recorded)  # no share is below 0 or above 1

    def _noise_of_others(self, common: CommonStandard) -> float:
        """How many times as far the others' own labels vary as labels drawn by one standard do, at
        least 1.

        A group that was shorted gives labels nearer to one half than the one standard does (0.72
        for 0.87), and those vary more. Others count as far as they resemble the group."""
        counts = common.records.weight[self.others] if self.opinion is None else self.opinion.odds
        everybody = common.everybody[self.others]
        own = common.own[self.others]
        drawn = counts @ (everybody * (1 - everybody))
        return max(1.0, float(np.sqrt(counts @ (own * (1 - own)) / max(drawn, 1e-300))))

    def _widening(self, half_widths: Floats, common: CommonStandard) -> Floats:
        """How many times as wide intervals become so that they say how far other clusters of this
        kind would differ `[shares]`: as wide as AIPW's clustered error makes them, slices as many
        times as their group."""
        factors = np.ones(len(half_widths))
        self.by_clusters = None
        if self.opinion is None or common.records.clusters is None:
            return factors
        clustered = self.opinion.clustered_error(self.outcomes)
        of_group = max(1.0, clustered.half_width / half_widths[BY_OTHERS])
        of_second = max(1.0, clustered.half_width / half_widths[BY_AIPW])
        if of_group > 1:
            self.by_clusters = clustered
        factors[:BY_AIPW] = of_group
        factors[BY_AIPW] = of_second
        return factors

    def interval(self, share: int) -> Interval | None:
        low, high = self.ends[:, share].tolist()
        return None if np.isnan(low) else (low, high)

    @property
    def disagrees(self) -> bool:
        """Whether the second opinion differs by more than it does on drawn tables: both share their
        data."""
        if self.opinion is None or self.draws.shape[1] < 2:
            return False
        spread = ERROR_FACTOR * float(np.std(self.draws[BY_OTHERS] - self.draws[BY_AIPW], ddof=1))
        apart = abs(self.difference[BY_OTHERS] - self.difference[BY_AIPW])
        return bool(apart > DISAGREEMENT_DEVIATIONS * max(spread, 1e-12))


@dataclass(frozen=True)
class Verdict:
    """What all groups together say about one: p, how often tables drawn by one standard show a
    difference of its own as large, in either direction; p adjusted, how often any group of theirs
    shows one as large in standard deviations; and bounds that hold for all groups at once in 95 of
    100 tables. All are None with fewer than two drawn tables."""

    p: float | None = None
    p_adjusted: float | None = None
    interval: Interval | None = None
    bounds: Interval | None = None


def at_once(groups: Sequence[Group]) -> list[Verdict]:
    """The verdict on each group. Interval and bounds follow it at 0: where adjusted p is below 0.05
    neither includes 0, where it is not the bounds do."""
    if groups[0].draws.shape[1] < 2:
        return [Verdict(interval=group.interval(BY_OTHERS)) for group in groups]
    spread = np.array([max(float(group.null.std(ddof=1)), 1e-12) for group in groups])
    null = np.abs(np.array([group.null for group in groups])) / spread[:, None]
    largest = null.max(axis=0)
    multiplier = _multiplier(groups)
    verdicts = []
    for group, own, scale in zip(groups, null, spread, strict=True):
        difference = float(group.difference[BY_OTHERS])
        z = abs(difference) / scale
        least_p = 0.0
        if group.by_clusters is not None:
            # As unlikely as the clustered error makes it, if that is more likely.
            least_p = group.by_clusters.tail(difference)
            z = min(z, float(stats.norm.isf(least_p / 2)))
        tail = float(2 * stats.norm.sf(z))
        p = max(_p_of(own, z, tail), least_p)
        adjusted = max(_p_of(largest, z, 1 - (1 - tail) ** len(groups)), p)
        low, high = group.ends[:, BY_OTHERS].tolist()
        interval = (low, high)
        margin = multiplier * float(group.error[BY_OTHERS])
        recorded = float(group.recorded[BY_OTHERS])
        lowest = max(min(low, difference - margin), -recorded)
        highest = min(max(high, difference + margin), 1 - recorded)
        if adjusted < SIGNIFICANCE_LEVEL:
            interval = short_of_zero(interval, difference)
            bounds = short_of_zero((lowest, highest), difference)
        else:
            bounds = (min(lowest, 0.0), max(highest, 0.0))
        verdicts.append(Verdict(p, adjusted, interval, bounds))
    return verdicts


def _multiplier(groups: Sequence[Group]) -> float:
    """How many standard errors away bounds are from differences: as many as the group furthest off
    is where labels are drawn again, in 95 of 100 tables."""
    off = [group.standard_draws[BY_OTHERS][:, None] - group.label_draws for group in groups]
    deviations = [np.abs(of_group) / max(float(of_group.std(ddof=1)), 1e-12) for of_group in off]
    furthest = np.max(np.broadcast_arrays(*deviations), axis=0)
    return float(np.quantile(furthest, COVERAGE, method="weibull"))


def _p_of(drawn: Floats, z: float, tail: float) -> float:
    """How often drawn tables are at least so far off or, below the smallest p that they can show,
    the normal tail."""
    least = 1 / (1 + len(drawn))
    as_large = int((drawn >= z).sum())
    return (1 + as_large) * least if as_large else min(least, tail)


def short_of_zero(interval: Interval, difference: float) -> Interval:
    """The interval of a difference that is more than chance: its end nearer to 0 is on the
    difference's side of it."""
    low, high = interval
    least = min(MIN_DISTANCE_FROM_ZERO, abs(difference) / 2)
    return (max(low, least), high) if difference > 0 else (low, min(high, -least))


def error_of_p(p: float, draws: int) -> float:
    """The Monte Carlo standard error of a p by so many drawn tables."""
    return float(np.sqrt(p * (1 - p) / draws))


def is_close(p: float, draws: int) -> bool:
    """Whether other draws may put this p on the other side of 0.05."""
    return draws > 0 and bool(abs(p - SIGNIFICANCE_LEVEL) < CLOSE_ERRORS * error_of_p(p, draws))

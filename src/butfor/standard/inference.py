"""From a group's figures, recorded and on drawn tables, to a difference with its interval and p-values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import stats

from butfor.standard.inputs import Floats, Mask

WIDER = 1.05
"""Errors over drawn tables lack the error of the centre itself: true errors are this much larger
(`python -m benchmarks.coverage --double`)."""
FEW = 10
"""Labels of either kind: with fewer expected, intervals are quantiles of what was drawn, not normal."""
REDRAWS = 40
"""Of a group's labels per drawn table, where quantiles are taken."""
LEVEL = 0.95
APART = 2.58
"""Standard deviations of their difference beyond which two opinions disagree: one pair in a hundred by chance."""


@dataclass(frozen=True, eq=False)
class Drawn:
    """One share of a group, recorded and on drawn tables: what the others' standard gives these rows, and what they
    have."""

    expected: float
    recorded: float
    draws: Floats
    """The expected share of each drawn table."""
    own_draws: Floats
    """The share that the group has in each."""
    one_standard: float
    """The group's share by the standard that drew them."""
    label_variance: float
    """Of the recorded share, were labels drawn again as they are."""
    label_draws: Floats
    """Deviations of the recorded share, were labels drawn again: with the tables' own random numbers, several each."""
    few: bool
    clustered: bool

    @property
    def centre(self) -> float:
        """What the method finds where nobody is held to another standard."""
        return float(self.draws.mean()) - self.one_standard if len(self.draws) else 0.0

    @property
    def difference(self) -> float:
        return self.expected - self.recorded - self.centre

    @property
    def null(self) -> Floats:
        """Differences of drawn tables, as far as they are from their centre."""
        return WIDER * (self.draws - self.own_draws - self.centre)

    @property
    def error(self) -> float:
        """The standard error of the difference."""
        if self.clustered:
            return WIDER * float(np.std(self.draws - self.label_draws[:, 0], ddof=1))
        return WIDER * float(np.sqrt(self.draws.var(ddof=1) + self.label_variance))

    @property
    def interval(self) -> tuple[float, float] | None:
        if len(self.draws) < 2:
            return None
        if self.few:
            off = WIDER * ((self.draws - self.draws.mean())[:, None] - self.label_draws)
            low, high = np.quantile(off, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
            return self.difference - float(high), self.difference - float(low)
        margin = float(stats.t.ppf((1 + LEVEL) / 2, len(self.draws) - 1)) * self.error
        return self.difference - margin, self.difference + margin


class AtOnce(NamedTuple):
    """What all groups together say about one: how often tables drawn by one standard show a difference of its own as
    large, in either direction; how often any group of theirs shows one as large in standard deviations; and bounds that
    hold for all groups at once in 95 of 100 tables."""

    p: float
    p_adjusted: float
    bounds: tuple[float, float]


def at_once(groups: list[Drawn]) -> Sequence[AtOnce | None]:
    """Of each group; None without draws."""
    if min((len(group.draws) for group in groups), default=0) < 2:
        return [None] * len(groups)
    spread = np.array([max(float(group.null.std(ddof=1)), 1e-12) for group in groups])
    drawn = np.abs(np.array([group.null for group in groups])) / spread[:, None]
    seen = np.array([abs(group.difference) for group in groups]) / spread
    largest = drawn.max(axis=0)
    # Bounds are as many standard errors away from the difference as the group furthest off is where labels are drawn
    # again, and no group's own interval is wider.
    off = [(group.draws - group.draws.mean())[:, None] - group.label_draws for group in groups]
    apart = np.broadcast_arrays(*(np.abs(each) / max(float(each.std(ddof=1)), 1e-12) for each in off))
    multiplier = float(np.quantile(np.max(apart, axis=0), LEVEL, method="weibull"))
    found = []
    for group, own, z in zip(groups, drawn, seen, strict=True):
        tail = float(2 * stats.norm.sf(z))
        p = _p(own >= z, tail)
        adjusted = _p(largest >= z, 1 - (1 - tail) ** len(groups))
        low, high = group.interval or (group.difference, group.difference)
        margin = multiplier * group.error
        found.append(
            AtOnce(p, max(p, adjusted), (min(low, group.difference - margin), max(high, group.difference + margin)))
        )
    return found


def _p(as_large: Mask, tail: float) -> float:
    """By the draws or, below the smallest that they can show, by the normal tail."""
    least = 1 / (1 + len(as_large))
    return float((1 + as_large.sum()) * least) if as_large.any() else min(least, tail)


def disagree(first: Drawn, second: Drawn) -> bool:
    """Whether two opinions on one group differ by more than they do on drawn tables: they share their data."""
    if len(first.draws) < 2:
        return False
    spread = WIDER * float(np.std(first.draws - second.draws, ddof=1))
    return abs(first.difference - second.difference) > APART * max(spread, 1e-12)

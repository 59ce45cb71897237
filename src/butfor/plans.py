"""Plans: what one person's search tries next, given what it has seen.

A plan hands out flip sets (`next`), hears what networks say (`saw`) and knows when it is through (`done`).
`Listed` walks down a fixed list, `Guided` improves on the best set seen, `Shrink` makes a set that works smaller.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from butfor.learn.recipe import FlipSet


class Plan:
    """The next flip set to try, or None: none at all when `done`, none until it has heard more otherwise."""

    done = False

    def next(self) -> FlipSet | None:
        raise NotImplementedError

    def saw(self, flips: FlipSet, gain: float, works: bool) -> None:
        """A network trained on `flips` gives a logit of `gain`, counted towards the other decision."""

    def strongest_first(self, flips: FlipSet) -> list[int]:
        """The rows of a flip set, those believed to matter most first."""
        return list(flips)


class Listed(Plan):
    """A fixed list of attempts."""

    def __init__(self, attempts: Iterator[FlipSet], order: Sequence[int] | NDArray[np.int64] = ()) -> None:
        self._attempts = attempts
        self._rank = {int(row): place for place, row in enumerate(order)}

    def next(self) -> FlipSet | None:
        flips = next(self._attempts, None)
        self.done = flips is None
        return flips

    def strongest_first(self, flips: FlipSet) -> list[int]:
        return sorted(flips, key=lambda row: self._rank.get(row, len(self._rank)))


class Guided(Plan):
    """Spend the whole budget at once, then improve on the best set seen so far.

    The first attempt flips the top `budget` rows of the ranking together: more flips move a decision further,
    and a set that works is shrunk afterwards. Every further attempt takes the best set seen (the person's own
    or, with sharing, anybody's that ψ allows), puts some of its rows back and flips others from the top of
    the ranking instead. Rows are chosen by their place in the ranking and by the company they were seen in:
    `credit` is how much better sets with the row did than sets without it.
    """

    REACH = 3
    """Rows in the pool, as a multiple of the budget."""
    LEAST_POOL = 24
    LEARNING = 3.0
    """Weight of credit against the ranking."""
    CHANGE = (0.1, 0.5)
    """Share of a set that a further attempt changes, from and to."""

    def __init__(self, order: NDArray[np.int64], budget: int, tries: int, rng: np.random.Generator) -> None:
        self.pool = [int(row) for row in order[: max(self.LEAST_POOL, self.REACH * budget)]]
        self.budget = min(budget, len(order))
        self.tries = tries
        self.rng = rng
        self._rank = {int(row): place for place, row in enumerate(order)}
        self._tried: set[FlipSet] = set()
        self._best: tuple[float, FlipSet] | None = None
        self._sums: dict[int, float] = {}
        self._counts: dict[int, int] = {}
        self._total, self._squares, self._seen = 0.0, 0.0, 0

    def next(self) -> FlipSet | None:
        if self.done or len(self._tried) >= self.tries:
            self.done = True
            return None
        flips = self._proposal()
        if flips is None:
            self.done = True
            return None
        self._tried.add(flips)
        return flips

    def saw(self, flips: FlipSet, gain: float, works: bool) -> None:
        if self._best is None or gain > self._best[0]:
            self._best = (gain, flips)
        self._total += gain
        self._squares += gain * gain
        self._seen += 1
        for row in flips:
            self._sums[row] = self._sums.get(row, 0.0) + gain
            self._counts[row] = self._counts.get(row, 0) + 1

    def strongest_first(self, flips: FlipSet) -> list[int]:
        return sorted(flips, key=lambda row: self._rank.get(row, len(self._rank)))

    def _proposal(self) -> FlipSet | None:
        """A set not tried before; None where the pool has no more."""
        if not self._tried:
            return _sorted(self.pool[: self.budget])
        for _ in range(20):
            flips = self._varied()
            if flips not in self._tried:
                return flips
        return None

    def _varied(self) -> FlipSet:
        base = list(self._best[1]) if self._best else self.pool[: self.budget]
        out = max(1, round(self.rng.uniform(*self.CHANGE) * self.budget))
        if len(base) > self.budget - out:
            leave = self._chosen(base, len(base) - (self.budget - out), best=False)
            base = [row for row in base if row not in leave]
        others = [row for row in self.pool if row not in base]
        return _sorted([*base, *self._chosen(others, min(self.budget - len(base), len(others)), best=True)])

    def _chosen(self, rows: list[int], count: int, best: bool) -> set[int]:
        """`count` of the rows drawn at random, the better (or the worse) ones more often."""
        if count <= 0:
            return set()
        # Gumbel noise on log-weights draws without replacement in proportion to the weights.
        worth = np.array([self._worth(row) for row in rows])
        keys = (worth if best else -worth) + self.rng.gumbel(size=len(rows))
        return {rows[k] for k in np.argsort(-keys)[:count]}

    def _worth(self, row: int) -> float:
        """Log-weight of a row: down by one for each budget's length in the ranking, up with its credit."""
        return -self._rank.get(row, len(self._rank)) / self.budget + self._credit(row)

    def _credit(self, row: int) -> float:
        count = self._counts.get(row, 0)
        if not count or count == self._seen:
            return 0.0
        spread = math.sqrt(max(self._squares / self._seen - (self._total / self._seen) ** 2, 0.0))
        if spread == 0:
            return 0.0
        inside = self._sums[row] / count
        outside = (self._total - self._sums[row]) / (self._seen - count)
        # In units of the gains' own spread; a few sightings say little, so shrink towards no opinion.
        return self.LEARNING * (inside - outside) / spread * count / (count + 3)


class Shrink(Plan):
    """Drop flips while the set still works: first by halves from the weak end, then one by one.

    When it is `done`, every set that leaves out a single flip of `smallest` was tried and does not work."""

    def __init__(self, strongest_first: Sequence[int]) -> None:
        self._ordered = list(strongest_first)
        self._working: dict[FlipSet, float] = {_sorted(self._ordered): 0.0}
        self._known: dict[FlipSet, bool] = {_sorted(self._ordered): True}
        self._fails = 0
        """Longest prefix known to fail: the empty one is the data as it is."""
        self._queue: list[FlipSet] = []
        self._waiting: set[FlipSet] = set()
        self._advance()

    @property
    def smallest(self) -> FlipSet:
        return min(self._working, key=lambda flips: (len(flips), -self._working[flips]))

    def smallest_first(self) -> list[FlipSet]:
        """The sets that work, fewest flips first, then the clearest."""
        return sorted(self._working, key=lambda flips: (len(flips), -self._working[flips]))

    def next(self) -> FlipSet | None:
        if not self._queue:
            return None
        flips = self._queue.pop(0)
        self._waiting.add(flips)
        return flips

    def saw(self, flips: FlipSet, gain: float, works: bool) -> None:
        self._known[flips] = works
        if works:
            self._working[flips] = gain
        self._waiting.discard(flips)
        if not self._waiting and not self._queue:
            self._advance()

    def _advance(self) -> None:
        """What to ask next, now that all answers are in."""
        best = self.smallest
        if len(best) == 1:
            self.done = True
            return
        if not set(best) <= set(self._ordered):  # somebody else's set, in which nothing is known of the order
            self._ordered, self._fails = list(best), 0
        halves = self._halfway(best)
        asked = [halves] if halves else self._one_less(best)
        self._queue = [flips for flips in asked if flips not in self._known]
        self.done = not self._queue

    def _halfway(self, best: FlipSet) -> FlipSet | None:
        """Bisection over prefixes of the strongest rows, while the smallest set is such a prefix."""
        ordered = [row for row in self._ordered if row in best]
        if self._fails >= len(best) - 1:
            return None
        while True:
            middle = (self._fails + len(best)) // 2
            if middle == self._fails:
                return None
            prefix = _sorted(ordered[:middle])
            if self._known.get(prefix) is not False:
                return prefix
            self._fails = middle

    def _one_less(self, best: FlipSet) -> list[FlipSet]:
        return [tuple(row for row in best if row != left_out) for left_out in best]


def _sorted(rows: Sequence[int]) -> FlipSet:
    return tuple(sorted(rows))

"""Plans: what one person's search tries next, given what it has seen.

A plan hands out flip sets (`next`), hears what networks say (`saw`) and knows when it is through (`done`).
`Listed` walks down a fixed list, `Guided` learns which labels matter, `Shrink` makes a set that works smaller.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from butfor.effects import Effects
from butfor.learn.recipe import FlipSet


class Plan:
    """The next flip set to try, or None: none at all when `done`, none until it has heard more otherwise."""

    done = False

    def next(self) -> FlipSet | None:
        raise NotImplementedError

    def saw(self, flips: FlipSet, gain: float, works: bool) -> None:
        """A network trained on `flips` gives a logit of `gain`, counted towards the other decision."""

    def promise(self) -> float:
        """Whose turn it is where attempts are scarce: the highest first."""
        return math.inf

    def opening(self) -> list[FlipSet]:
        """The first attempt, as far as it is known, without taking it."""
        return []

    def strongest_first(self, flips: FlipSet) -> list[int]:
        """The rows of a flip set, those believed to matter most first."""
        return list(flips)

    def of_size(self, size: int) -> FlipSet | None:
        """A set of that many rows which may work, not proposed before; None where the plan knows no better."""
        return None


class Listed(Plan):
    """A fixed list of attempts."""

    def __init__(self, attempts: Iterator[FlipSet], order: Sequence[int] | NDArray[np.int64] = ()) -> None:
        self._attempts = attempts
        self._ahead: list[FlipSet] = []
        self._rank = {int(row): place for place, row in enumerate(order)}

    def next(self) -> FlipSet | None:
        flips = self._ahead.pop() if self._ahead else next(self._attempts, None)
        self.done = flips is None
        return flips

    def opening(self) -> list[FlipSet]:
        if not self._ahead:
            self._ahead = list(islice(self._attempts, 1))
        return list(self._ahead)

    def strongest_first(self, flips: FlipSet) -> list[int]:
        return sorted(flips, key=lambda row: self._rank.get(row, len(self._rank)))


class Guided(Plan):
    """Spend the whole budget at once, and learn from every retraining which labels matter.

    The first attempt flips the top `budget` rows of the ranking together: more flips move a decision further,
    and a set that works is shrunk afterwards. Every further attempt flips the rows that are best by a draw from
    what is believed of their effects (see `butfor.effects`), after all networks seen so far: the person's own and,
    with sharing, anybody's that ψ allows.
    """

    REACH = 3
    """Candidate rows, as a multiple of the budget."""
    LEAST_CANDIDATES = 24

    def __init__(
        self, order: NDArray[np.int64], budget: int, tries: int, rng: np.random.Generator, start: float = -1.0
    ) -> None:
        self.candidates = [int(row) for row in order[: max(self.LEAST_CANDIDATES, self.REACH * budget)]]
        self.budget = min(budget, len(order))
        self.tries = tries
        self.rng = rng
        self.effects = Effects(self.candidates, self.budget, start)
        self._rank = {int(row): place for place, row in enumerate(order)}
        self._tried: set[FlipSet] = set()

    def next(self) -> FlipSet | None:
        flips = None if self.done or len(self._tried) >= self.tries else self._proposal()
        if flips is None:
            self.done = True
            return None
        self._tried.add(flips)
        return flips

    def saw(self, flips: FlipSet, gain: float, works: bool) -> None:
        self.effects.saw(flips, gain)

    def opening(self) -> list[FlipSet]:
        return [_sorted(self.candidates[: self.budget])]

    def promise(self) -> float:
        """How near the next attempt may come to the other decision: one draw, above 0 beyond it. Before the first
        attempt, how near the person is now."""
        if not self._tried:
            return self.effects.start
        expected, spread = self.effects.forecast(self._best(self.effects.worth()))
        return expected + spread * float(self.rng.standard_normal())

    def strongest_first(self, flips: FlipSet) -> list[int]:
        worth, place = self.effects.worth(), self.effects.place
        behind = float(worth.min(initial=0.0))
        return sorted(flips, key=lambda row: (-worth[place[row]] if row in place else -behind, self._rank.get(row, -1)))

    def _proposal(self) -> FlipSet | None:
        """A set not tried before; None where the candidates allow no more."""
        if not self._tried:
            return _sorted(self.candidates[: self.budget])
        for _ in range(20):
            flips = self._best(self.effects.drawn(self.rng))
            if flips not in self._tried:
                return flips
        for _ in range(20):  # beliefs are too firm for anything new: any set at all
            flips = _sorted([int(row) for row in self.rng.choice(self.candidates, self.budget, replace=False)])
            if flips not in self._tried:
                return flips
        return None

    def of_size(self, size: int) -> FlipSet | None:
        for _ in range(20):
            flips = self._best(self.effects.drawn(self.rng), size)
            if flips not in self._tried:
                self._tried.add(flips)
                return flips
        return None

    def _best(self, worth: NDArray[np.float64], size: int | None = None) -> FlipSet:
        return _sorted([self.candidates[k] for k in np.argsort(-worth, kind="stable")[: size or self.budget]])


class Shrink(Plan):
    """Drop flips while the set still works: by halves from the weak end, then one by one. Leaving out one at a time
    also shows which flips weigh least, and by that order halves are tried again. When nothing more can be left out,
    `other` proposes sets of one flip less that need not be part of this one, `OTHERS` of them.

    When it is `done`, every set that leaves out a single flip of `smallest` was tried and does not work."""

    OTHERS = 12

    def __init__(
        self,
        strongest_first: Sequence[int],
        gain: float = 0.0,
        other: Callable[[int], FlipSet | None] = lambda size: None,
    ) -> None:
        self._ordered = list(strongest_first)
        self._other, self._others = other, 0
        whole = _sorted(self._ordered)
        self._gains: dict[FlipSet, float] = {whole: gain}
        self._working: set[FlipSet] = {whole}
        self._fails = 0
        """Longest prefix known to fail: the empty one is the data as it is."""
        self._whole: FlipSet | None = None
        """The set of which every flip was left out, one at a time."""
        self._queue: list[FlipSet] = []
        self._waiting: set[FlipSet] = set()
        self._advance()

    @property
    def smallest(self) -> FlipSet:
        return min(self._working, key=lambda flips: (len(flips), -self._gains[flips]))

    def smallest_first(self) -> list[FlipSet]:
        """The sets that work, fewest flips first, then the clearest."""
        return sorted(self._working, key=lambda flips: (len(flips), -self._gains[flips]))

    def minimal(self, flips: FlipSet) -> bool:
        """Whether every set that leaves out one of these flips is known not to work."""
        fewer = [_without(flips, row) for row in flips] if len(flips) > 1 else []
        return all(flips in self._gains and flips not in self._working for flips in fewer)

    def reject(self, flips: FlipSet) -> None:
        """Works by the engine, but not by the reference: it does not work."""
        self._working.discard(flips)
        if not self._waiting and not self._queue:
            self._advance()

    def next(self) -> FlipSet | None:
        if not self._queue:
            return None
        flips = self._queue.pop(0)
        self._waiting.add(flips)
        return flips

    def saw(self, flips: FlipSet, gain: float, works: bool) -> None:
        self._gains[flips] = gain
        if works:
            self._working.add(flips)
        self._waiting.discard(flips)
        if not self._waiting and not self._queue:
            self._advance()

    def _advance(self) -> None:
        """What to ask next, now that all answers are in."""
        best = self.smallest
        if len(best) == 1:
            self.done = True
            return
        if self._whole and set(best) < set(self._whole):
            self._ordered, self._fails = self._heaviest_first(best, self._whole), 0
        elif not set(best) <= set(self._ordered):  # somebody else's set, in which nothing is known of the order
            self._ordered, self._fails = list(best), 0
        self._whole = None
        halves = self._halfway(best)
        if halves:
            self._queue = [halves]
        else:
            self._whole = best
            self._queue = [flips for row in best if (flips := _without(best, row)) not in self._gains]
        while not self._queue and self._others < self.OTHERS:
            self._others += 1
            proposed = self._other(len(best) - 1)
            self._queue = [proposed] if proposed and proposed not in self._gains else []
        self.done = not self._queue

    def _heaviest_first(self, best: FlipSet, whole: FlipSet) -> list[int]:
        """The rows of `best`; first those without which `whole` falls back furthest."""
        return sorted(best, key=lambda row: self._gains[_without(whole, row)])

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
            if prefix not in self._gains:
                return prefix
            self._fails = middle


def _sorted(rows: Sequence[int]) -> FlipSet:
    return tuple(sorted(rows))


def _without(flips: FlipSet, left_out: int) -> FlipSet:
    return tuple(row for row in flips if row != left_out)

"""A flip set that works, made smaller."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from butfor.learn.protocols import FlipSet
from butfor.search.state import Plan, flip_set


class Shrink(Plan):
    """Drop flips while the set still works: by halves from the weak end, then one by one. Leaving out one at a time
    also shows which flips weigh least, and by that order halves are tried again. When nothing more can be left out,
    `other` proposes sets of one flip less that need not be part of this one, `OTHERS` of them.

    When it is `done`, every set that leaves out a single flip of `smallest` was tried and does not work; unless it
    has more than `ONE_BY_ONE` flips, or as many attempts were taken as `most` allows."""

    OTHERS = 12
    EACH, MOST = 16, 400
    """Attempts at the most for each flip of the first set, and for any set."""
    ONE_BY_ONE = 64
    """Flips of a set beyond which leaving out one at a time would cost more than it tells."""

    def __init__(
        self,
        strongest_first: Sequence[int],
        gain: float = 0.0,
        other: Callable[[int], FlipSet | None] = lambda size: None,
    ) -> None:
        self._ordered = list(strongest_first)
        self._other, self._others = other, 0
        whole = flip_set(self._ordered)
        self._left = self.most(len(whole))
        self._gains: dict[FlipSet, float] = {whole: gain}
        self._working: set[FlipSet] = {whole}
        self._fails = 0
        """Longest prefix known to fail: the empty one is the data as it is."""
        self._whole: FlipSet | None = None
        """The set of which every flip was left out, one at a time."""
        self._queue: list[FlipSet] = []
        self._waiting: set[FlipSet] = set()
        self._advance()

    @classmethod
    def most(cls, size: int) -> int:
        """Attempts at the most to make a set of that many flips smaller."""
        return min(cls.EACH * size, cls.MOST) + cls.OTHERS if size > 1 else 0

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
        """Works by the engine, but not by the definition: it does not work."""
        self._working.discard(flips)
        if not self._waiting and not self._queue:
            self._advance()

    def next(self) -> FlipSet | None:
        if not self._queue:
            return None
        flips = self._queue.pop(0)
        self._left -= 1
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
            one_by_one = best if len(best) <= self.ONE_BY_ONE else ()
            self._queue = [flips for row in one_by_one if (flips := _without(best, row)) not in self._gains]
        while not self._queue and self._others < self.OTHERS:
            self._others += 1
            proposed = self._other(len(best) - 1)
            self._queue = [proposed] if proposed and proposed not in self._gains else []
        del self._queue[self._left :]
        self.done = not self._queue

    def _heaviest_first(self, best: FlipSet, whole: FlipSet) -> list[int]:
        """The rows of `best`; first those without which `whole` falls back furthest."""
        return sorted(best, key=lambda row: self._gains.get(_without(whole, row), 0.0))

    def _halfway(self, best: FlipSet) -> FlipSet | None:
        """Bisection over prefixes of the strongest rows, while the smallest set is such a prefix."""
        ordered = [row for row in self._ordered if row in best]
        if self._fails >= len(best) - 1:
            return None
        while True:
            middle = (self._fails + len(best)) // 2
            if middle == self._fails:
                return None
            prefix = flip_set(ordered[:middle])
            if prefix not in self._gains:
                return prefix
            self._fails = middle


def _without(flips: FlipSet, left_out: int) -> FlipSet:
    return tuple(row for row in flips if row != left_out)

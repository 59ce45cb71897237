"""The state of one person's search: the ranked rows it starts from, what it tries next, and what came of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from butfor.learn.decision_split import decides_one
from butfor.learn.protocols import FlipSet


def flip_set(rows: Iterable[int]) -> FlipSet:
    """Positions as a flip set: sorted, so that equal sets are recognised."""
    return tuple(sorted(int(row) for row in rows))


@dataclass(frozen=True, eq=False)
class RankedRows:
    """A person's flippable training rows, best first, as far down as the strategy's `depth` reaches.

    `away`: which way the logit must go, −1 for a person now in class 1, else +1. `flippable` counts all rows that may
    be flipped. `random_order`: the ranking is pure chance, so attempts are independent draws from all rows. `start`:
    the logit, counted towards the other decision and so below 0. `predicted`: each row's effect in logits, where the
    ranking can be believed; `further`: how many times the gain of its best set any other may bring then."""

    person: int
    away: float
    order: NDArray[np.int64]
    budget: int
    rng: np.random.Generator
    flippable: int
    random_order: bool = False
    start: float = -1.0
    predicted: NDArray[np.float64] | None = None
    further: float = math.inf


@dataclass(eq=False)
class PersonSearch:
    """One person's search, as verdicts read it."""

    person: int
    away: float
    spent: int = 0
    """Own flip sets tried."""
    course: list[tuple[int, float]] = field(default_factory=list)
    """Per own set: how many labels were flipped, and the logit."""
    closest: float | None = None
    """The logit nearest to the other decision."""
    found: FlipSet | None = None
    found_logit: float | None = None
    shared: bool = False
    """Found by a model that was trained for somebody else."""
    first_size: int = 0
    """Flips in the first set that worked, before it was made smaller."""
    minimal: bool = False
    """Every set with one flip fewer was tried and does not work."""
    clearance: float | None = None
    """The mean gain of an ensemble's members in standard deviations, where they were asked one by one."""
    complete: bool = False
    failed: int = 0
    """Own sets whose training failed or diverged."""
    rejected: set[FlipSet] = field(default_factory=set)
    """Sets that work by the engine, but not by the definition."""

    def changes_decision(self, logits: Any) -> Any:
        """Whether this logit, or each of them, is another decision than the person's present one; NaN is none."""
        return (decides_one(logits) == (self.away > 0)) & ~np.isnan(logits)

    def record_closest(self, logit: float) -> None:
        if self.closest is None or (logit - self.closest) * self.away > 0:
            self.closest = logit


class Plan:
    """The next flip set to try, or None: none at all when `done`, none until it has heard more otherwise."""

    done = False
    pool_share = 0
    """Attempts that it adds to a pool for all people, where it takes its own from there."""
    pool_returns = 0
    """Attempts of the pool that nobody needs, because the person is out of reach."""

    def next(self) -> FlipSet | None:
        raise NotImplementedError

    def observe(self, sets: Sequence[FlipSet], gains: Sequence[float], work: Sequence[bool]) -> None:
        """Models trained on these sets give such logits, counted towards the other decision, and turn it or not."""

    def promise(self) -> float:
        """Whose turn it is where attempts are scarce: the highest first."""
        return math.inf

    def first_attempts(self) -> list[FlipSet]:
        """The first attempt, as far as it is known, without taking it."""
        return []

    def strongest_first(self, flips: FlipSet) -> list[int]:
        """The rows of a flip set, those believed to matter most first."""
        return list(flips)

    def propose_size(self, size: int) -> FlipSet | None:
        """A set of that many rows which may work, not proposed before; None where the plan knows no better."""
        return None


class FixedPlan(Plan):
    """A fixed list of attempts; `order`: the rows, best first."""

    def __init__(self, attempts: Iterable[FlipSet] = (), order: Sequence[int] | NDArray[np.int64] = ()) -> None:
        self._attempts: Iterator[FlipSet] = iter(attempts)
        self._rank = {int(row): place for place, row in enumerate(order)}

    def next(self) -> FlipSet | None:
        flips = next(self._attempts, None)
        self.done = flips is None
        return flips

    def first_attempts(self) -> list[FlipSet]:
        first = list(islice(self._attempts, 1))
        self._attempts = chain(first, self._attempts)
        return first

    def strongest_first(self, flips: FlipSet) -> list[int]:
        return sorted(flips, key=lambda row: self._rank.get(row, len(self._rank)))


class Shrink(Plan):
    """A flip set that works, made smaller: drop flips while it does, by halves from the weak end, then one by one.
    Leaving out one at a time also shows which flips weigh least, and by that order halves are tried again. When nothing
    more can be left out, `other` proposes sets of one flip less that need not be part of this one, `OTHERS` of them.

    When it is `done`, every set that leaves out a single flip of the smallest was tried and does not work; unless that
    has more than `ONE_BY_ONE` flips, or as many attempts were taken as there may be."""

    OTHERS = 12
    EACH, MOST = 16, 400
    """Attempts at the most for each flip of the first set, and for any set; `OTHERS` come on top."""
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
        given = flip_set(self._ordered)
        self._left = min(self.EACH * len(given), self.MOST) + self.OTHERS
        self._gains: dict[FlipSet, float] = {given: gain}
        self._working: set[FlipSet] = {given}
        self._fails = 0
        """Longest prefix known to fail: the empty one is the data as it is."""
        self._whole: FlipSet | None = None
        """The set of which every flip was left out, one at a time."""
        self._queue: list[FlipSet] = []
        self._waiting: set[FlipSet] = set()
        self._advance()

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
        self._advance()

    def next(self) -> FlipSet | None:
        if not self._queue:
            return None
        flips = self._queue.pop(0)
        self._left -= 1
        self._waiting.add(flips)
        return flips

    def observe(self, sets: Sequence[FlipSet], gains: Sequence[float], work: Sequence[bool]) -> None:
        for flips, gain, works in zip(sets, gains, work, strict=True):
            self._gains[flips] = gain
            if works:
                self._working.add(flips)
            self._waiting.discard(flips)
            self._advance()

    def _advance(self) -> None:
        """What to ask next, once all answers are in."""
        if self._waiting or self._queue:
            return
        best = self.smallest_first()[0]
        if len(best) == 1:
            self.done = True
            return
        if self._whole and set(best) < set(self._whole):  # first those without which it falls back furthest
            whole = self._whole
            self._ordered = sorted(best, key=lambda row: self._gains.get(_without(whole, row), 0.0))
            self._fails = 0
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

    def _halfway(self, best: FlipSet) -> FlipSet | None:
        """Bisection over prefixes of the strongest rows, while the smallest set is such a prefix."""
        ordered = [row for row in self._ordered if row in best]
        while (middle := (self._fails + len(best)) // 2) > self._fails:
            prefix = flip_set(ordered[:middle])
            if prefix not in self._gains:
                return prefix
            self._fails = middle
        return None


def _without(flips: FlipSet, left_out: int) -> FlipSet:
    return tuple(row for row in flips if row != left_out)

"""The state of one person's search: its ranked rows, the plan of what to try next, and the results."""

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
    """Positions as a flip set, sorted so that equal sets compare equal."""
    return tuple(sorted(int(row) for row in rows))


@dataclass(frozen=True, eq=False)
class RankedRows:
    """A person's flippable training rows, best first, down to the strategy's `depth`.

    `away`: the direction to the other decision, −1 for a person in class 1, else +1. `flippable`: the number of all
    flippable rows. `random_order`: the ranking is pure chance, so attempts are independent draws. `start`: the logit
    towards the other decision, below 0. `predicted`: each row's effect in logits, if predictions are reliable;
    `gain_limit`: how many times the gain of the best set by them another set may have."""

    person: int
    away: float
    order: NDArray[np.int64]
    budget: int
    rng: np.random.Generator
    flippable: int
    random_order: bool = False
    start: float = -1.0
    predicted: NDArray[np.float64] | None = None
    gain_limit: float = math.inf


@dataclass(eq=False)
class PersonSearch:
    """One person's search, as verdicts read it."""

    person: int
    away: float
    spent: int = 0
    """Own flip sets tried."""
    course: list[tuple[int, float]] = field(default_factory=list)
    """For each own set: the number of flips, and the logit."""
    closest: float | None = None
    """The logit nearest to the other decision."""
    found: FlipSet | None = None
    found_logit: float | None = None
    shared: bool = False
    """Found by a model that was trained for someone else."""
    first_size: int = 0
    """Flips in the first set that worked, before shrinking."""
    minimal: bool = False
    """Every set with one flip fewer was tried and does not change the decision."""
    clearance: float | None = None
    """The members' mean gain in standard deviations, if members were trained one by one."""
    complete: bool = False
    failed: int = 0
    """Own sets whose training failed or diverged."""
    rejected: set[FlipSet] = field(default_factory=set)
    """Sets that work by the engine but were not confirmed."""

    def changes_decision(self, logits: Any) -> Any:
        """Whether each logit is the other decision; NaN is not."""
        return (decides_one(logits) == (self.away > 0)) & ~np.isnan(logits)

    def record_closest(self, logit: float) -> None:
        if self.closest is None or (logit - self.closest) * self.away > 0:
            self.closest = logit


class Plan:
    """Proposes flip sets. `next` returns None if the plan is `done` or waits for results."""

    done = False
    pool_share = 0
    """Attempts that it adds to a pool for all people; 0 if it does not use the pool."""
    pool_returns = 0
    """Attempts that it gives back to the pool because the other decision is out of reach."""

    def next(self) -> FlipSet | None:
        raise NotImplementedError

    def observe(self, sets: Sequence[FlipSet], gains: Sequence[float], work: Sequence[bool]) -> None:
        """Learn from models trained on these sets: logits towards the other decision, and whether it changed."""

    def promise(self) -> float:
        """The priority if attempts are limited; the highest comes first."""
        return math.inf

    def first_attempts(self) -> list[FlipSet]:
        """The first attempt, if known, without taking it."""
        return []

    def strongest_first(self, flips: FlipSet) -> list[int]:
        """The rows of a flip set, the strongest first."""
        return list(flips)

    def propose_size(self, size: int) -> FlipSet | None:
        """A new set of `size` rows that may work; None if there is none."""
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
    """Shrinks a flip set that works: drops flips by halves from the weak end, then one by one. Dropping them one by one
    also shows which flips matter least, and halves are tried again in that order. Then `other` proposes up to `OTHERS`
    sets with one flip fewer that need not be subsets.

    When it is `done`, every set that drops a single flip of the smallest set was tried and does not work, unless the
    set has more than `ONE_BY_ONE` flips or the attempts ran out."""

    OTHERS = 12
    EACH, MOST = 16, 400
    """The most attempts per flip of the first set, and in all; `OTHERS` are added."""
    ONE_BY_ONE = 64
    """The largest set whose flips are dropped one by one; beyond it that costs too much."""

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
        """The longest prefix known to fail; the empty one is the unchanged data."""
        self._whole: FlipSet | None = None
        """The set whose flips were dropped one by one."""
        self._queue: list[FlipSet] = []
        self._waiting: set[FlipSet] = set()
        self._advance()

    def smallest_first(self) -> list[FlipSet]:
        """The sets that work, by number of flips, then by gain."""
        return sorted(self._working, key=lambda flips: (len(flips), -self._gains[flips]))

    def minimal(self, flips: FlipSet) -> bool:
        """Whether every set that drops one of these flips is known not to work."""
        fewer = [_without(flips, row) for row in flips] if len(flips) > 1 else []
        return all(flips in self._gains and flips not in self._working for flips in fewer)

    def reject(self, flips: FlipSet) -> None:
        """Remove a set that was not confirmed."""
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
        """Choose the next sets once all results are in."""
        if self._waiting or self._queue:
            return
        best = self.smallest_first()[0]
        if len(best) == 1:
            self.done = True
            return
        if self._whole and set(best) < set(self._whole):  # the most needed flips first
            whole = self._whole
            self._ordered = sorted(best, key=lambda row: self._gains.get(_without(whole, row), 0.0))
            self._fails = 0
        elif not set(best) <= set(self._ordered):  # someone else's set, without an order
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
        """The next prefix of the strongest rows to try by bisection; None at its end."""
        ordered = [row for row in self._ordered if row in best]
        while (middle := (self._fails + len(best)) // 2) > self._fails:
            prefix = flip_set(ordered[:middle])
            if prefix not in self._gains:
                return prefix
            self._fails = middle
        return None


def _without(flips: FlipSet, left_out: int) -> FlipSet:
    return tuple(row for row in flips if row != left_out)

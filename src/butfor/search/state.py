"""The state of one person's search: the ranked rows it starts from, what it tries next, and what came of it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from butfor.learn.protocols import FlipSet
from butfor.learn.question import decides_one


def flip_set(rows: Iterable[int]) -> FlipSet:
    """Positions as a flip set: sorted, so that equal sets are recognised."""
    return tuple(sorted(int(row) for row in rows))


@dataclass(frozen=True, eq=False)
class Ranked:
    """A person's flippable training rows, best first, as far down as the strategy's `depth` reaches.

    `away`: which way the logit must go, −1 for a person now in class 1, else +1. `flippable` counts all rows that may
    be flipped. `drawn`: the ranking is pure chance, so that attempts are independent draws from all rows. `start`: the
    logit, counted towards the other decision and so below 0. `predicted`: each row's effect in logits, where the
    ranking can be believed; and `further`: how many times the gain of its best set any other may bring then."""

    person: int
    away: float
    order: NDArray[np.int64]
    budget: int
    rng: np.random.Generator
    flippable: int
    drawn: bool = False
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

    def turned(self, logits: Any) -> Any:
        """Whether this logit, or each of them, is another decision than the person's present one; NaN is none."""
        return (decides_one(logits) == (self.away > 0)) & ~np.isnan(logits)

    def came_close(self, logit: float) -> None:
        if self.closest is None or (logit - self.closest) * self.away > 0:
            self.closest = logit


class Plan:
    """The next flip set to try, or None: none at all when `done`, none until it has heard more otherwise."""

    done = False
    pooled = 0
    """Attempts at the most, where they come from a pool for all people."""
    given_back = 0
    """Attempts of the pool that nobody needs, because the person is out of reach."""

    def next(self) -> FlipSet | None:
        raise NotImplementedError

    def saw(self, flips: FlipSet, gain: float, works: bool) -> None:
        """A model trained on `flips` gives a logit of `gain`, counted towards the other decision."""

    def saw_all(self, sets: Sequence[FlipSet], gains: Sequence[float], work: Sequence[bool]) -> None:
        """The same of several models."""
        for seen in zip(sets, gains, work, strict=True):
            self.saw(*seen)

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

    def __init__(self, attempts: Iterable[FlipSet] = (), order: Sequence[int] | NDArray[np.int64] = ()) -> None:
        self._attempts: Iterator[FlipSet] = iter(attempts)
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

"""What a search knows about a person, and what it may ask."""

from __future__ import annotations

import math
import operator
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from butfor.models.seam import FlipSet, Floats

Vector = NDArray[np.float64]


class Try(NamedTuple):
    """Train these sets with the first `members` of an ensemble; None: all, averaged. `one`: a
    question about one set, whose answer is a number."""

    sets: Sequence[FlipSet]
    members: int | None = None
    one: bool = False


class Confirm(NamedTuple):
    """Train this set with the model's own `fit`."""

    flips: FlipSet


class Rank(NamedTuple):
    """Rank the person's labels again, after these flips."""

    flips: FlipSet


Search = Generator[Any, Any, FlipSet | None]


def flip_set(rows: Iterable[int]) -> FlipSet:
    """Positions as a flip set, sorted so that equal sets compare equal."""
    return tuple(sorted(operator.index(row) for row in rows))


class Known:
    """What all trained sets gave all people, stored once; each person sees what they were told."""

    def __init__(self, away: NDArray[np.floating[Any]]) -> None:
        self.away = np.asarray(away, np.float32)
        """For each person the direction towards the other decision, −1 or +1."""
        self.sets: dict[FlipSet, tuple[Floats, NDArray[np.bool_]]] = {}
        """Everybody's gains and who was told of them, both `[people]`, in the order in which sets
        were trained."""
        self.closest = np.full(len(self.away), np.nan, np.float32)
        """The best gain of any set, `[people]`."""
        self.working: list[dict[FlipSet, float]] = [{} for _ in self.away]
        """For each person the sets that change the decision."""

    def add(self, flips: FlipSet, logits: Floats) -> None:
        """A trained set, of which nobody is told yet."""
        gains = np.asarray(logits, np.float32) * self.away
        # A logit of 0 decides for class 0.
        gains[(logits == 0) & (self.away < 0)] = np.finfo(np.float32).tiny
        nobody = np.zeros(len(gains), bool)
        self.sets[flips] = (gains, nobody)

    def tell(self, flips: FlipSet, people: NDArray[np.bool_]) -> None:
        """These people may use the set."""
        gains, told = self.sets[flips]
        new = people & ~told
        told |= new
        if flips:
            self.closest[new] = np.fmax(self.closest[new], gains[new])
            for person in np.flatnonzero(new & (gains > 0)):
                self.working[person][flips] = float(gains[person])


class Gains(Mapping[FlipSet, float]):
    """One person's gains, in the order in which sets were trained. `own`: means over members that
    the person asked for one by one, who would fill the memory if all people's were kept."""

    def __init__(self, known: Known, person: int) -> None:
        self._known = known
        self._person = person
        self.own: dict[FlipSet, float] = {}

    def __getitem__(self, flips: FlipSet) -> float:
        if flips in self.own:
            return self.own[flips]
        gains, told = self._known.sets[flips]
        if not told[self._person]:
            raise KeyError(flips)
        return float(gains[self._person])

    def __iter__(self) -> Iterator[FlipSet]:
        shared = (flips for flips, (_, told) in self._known.sets.items() if told[self._person])
        return chain(shared, (flips for flips in self.own if flips not in self._known.sets))

    def __len__(self) -> int:
        return sum(1 for _ in self)


@dataclass(eq=False)
class Person:
    """What a search knows about one person; the scheduler fills in the result.

    `order`: the rows that ψ allows, best first. `flippable`: how many rows ψ allows in all.
    `start`: the gain of the unchanged data, at most 0. `members`: of the ensemble. `predicted`:
    each row's effect in logits, if the ranking predicts it reliably; `gain_limit`: how many times
    the gain of the best set by these another set may have. `random_order`: the ranking is pure
    chance, so attempts are independent draws."""

    number: int
    """The position among the people who are audited together."""
    position: int
    """The position among all people asked about."""
    budget: int
    flippable: int
    start: float
    gains: Gains
    known: Known = field(repr=False)
    order: NDArray[np.integer[Any]] = field(default_factory=lambda: np.empty(0, np.int64))
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))
    members: int = 1
    random_order: bool = False
    ranks_again: bool = False
    """Whether `Rank` can be asked."""
    predicted: Vector | None = None
    gain_limit: float = math.inf
    margin: float = 0.0
    """The gain that a set should exceed."""
    spread: float | None = None
    """The standard deviation of the members, if they were looked at one by one."""

    rejected: set[FlipSet] = field(default_factory=set)
    """Sets that work by the engine but were not confirmed."""
    asked: list[tuple[FlipSet, float]] = field(default_factory=list)
    """Own sets and their gains, in the order asked."""
    first: FlipSet | None = None
    """The first set that worked and was not rejected."""
    tried: int = 0
    """Own sets asked until then."""
    found: FlipSet | None = None
    found_logit: float | None = None
    complete: bool = False

    @property
    def away(self) -> float:
        return float(self.known.away[self.number])

    def note(self, flips: FlipSet, gain: float) -> None:
        """A set of one's own, of which nobody else is told."""
        self.gains.own[flips] = gain
        self.known.closest[self.number] = np.fmax(self.known.closest[self.number], gain)
        if gain > 0:
            self.known.working[self.number][flips] = gain

    def best(self, k: int) -> FlipSet:
        """The k best-ranked labels."""
        return flip_set(self.order[:k])

    def works(self, flips: FlipSet) -> bool:
        """Whether the set changes the decision, by all that is known."""
        return flips in self.known.working[self.number] and flips not in self.rejected

    @property
    def working(self) -> dict[FlipSet, float]:
        """All sets that change the decision, and their gains."""
        gains = self.known.working[self.number]
        return {flips: gain for flips, gain in gains.items() if flips not in self.rejected}

    def smallest(self) -> FlipSet | None:
        """The smallest set whose gain exceeds the margin or, if there is none, the one with the
        largest gain."""
        working = self.working
        clear = [flips for flips, gain in working.items() if gain > self.margin]
        if clear:
            return min(clear, key=lambda flips: (len(flips), -working[flips]))
        return max(working, key=lambda flips: (working[flips], -len(flips)), default=None)

"""What a search knows about a person, and what it may ask."""

from __future__ import annotations

import math
import operator
from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from butfor.models.seam import FlipSet
from butfor.search.gains import Gains

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


@dataclass(eq=False)
class Person:
    """What a search knows about one person: the question, the ranking's answer, and all gains so
    far."""

    number: int
    """The position among the people who are searched for together."""
    position: int
    """The position among all people asked about."""
    budget: int
    """The most labels that may be flipped."""
    flippable: int
    """How many labels ψ allows to flip."""
    start: float
    """The gain of the unchanged data, at most 0."""
    gains: Gains = field(repr=False)
    """The gains of all sets that this person was told of."""
    order: NDArray[np.integer[Any]] = field(default_factory=lambda: np.empty(0, np.int64))
    """The rows that ψ allows, best first."""
    predicted: Vector | None = None
    """Each row's effect in logits, if the ranking predicts it reliably."""
    gain_limit: float = math.inf
    """How many times the gain of the best set by `predicted` another set may have."""
    random_order: bool = False
    """The ranking is pure chance, so attempts are independent draws."""
    ranks_again: bool = False
    """Whether `Rank` can be asked."""
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))
    members: int = 1
    """Of the ensemble."""

    # What a search may set.
    margin: float = 0.0
    """The gain that a set should exceed."""
    spread: float | None = None
    """The standard deviation of the members, if the search looks at them one by one."""

    def best(self, k: int) -> FlipSet:
        """The k best-ranked labels."""
        return flip_set(self.order[:k])

    def works(self, flips: FlipSet) -> bool:
        """Whether the set changes the decision, by all that is known."""
        return flips in self.gains.changing and flips not in self.gains.refuted

    @property
    def working(self) -> dict[FlipSet, float]:
        """All sets that change the decision, and their gains."""
        return self.gains.working

    def smallest(self) -> FlipSet | None:
        """The smallest set whose gain exceeds the margin or, if there is none, the one with the
        largest gain."""
        working = self.working
        clear = [flips for flips, gain in working.items() if gain > self.margin]
        if clear:
            return min(clear, key=lambda flips: (len(flips), -working[flips]))
        return max(working, key=lambda flips: (working[flips], -len(flips)), default=None)

"""Protocols: given a person's ranking, which flip sets to try, in which order.

Each protocol turns the ranked, flippable rows of one person into attempts. The search itself
(`joint.py`) trains the attempts of all people together and stops a person at the first success.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from butfor.errors import SettingError
from butfor.rank import Ranking, accepts, as_ranking
from butfor.rank.averaged import suited
from butfor.seam import FlipSet, Model
from butfor.search.plans import Listed, Plan, flip_set

USUAL = ("combined", "influence", "leaves", "surrogate-signed")
"""Rankings in the order in which they are taken where nobody names one; the last ranks for every model."""
MOST_PAIRS = 200_000
"""Beyond this many pairs of labels, enumerating them all is no longer a search one waits for."""


@dataclass(frozen=True, eq=False)
class Ranked:
    """One person's flippable training rows, best first, as far down as the protocol's `depth` reaches.

    `flippable` counts all of them. `drawn`: the ranking is pure chance, so that attempts are independent
    draws from all rows instead of a walk down one fixed order. `start`: the person's logit, counted towards the
    other decision and so below 0. `predicted`: each row's effect in logits, where the ranking can be believed."""

    order: NDArray[np.int64]
    budget: int
    rng: np.random.Generator
    flippable: int
    drawn: bool = False
    start: float = -1.0
    predicted: NDArray[np.float64] | None = None


class Protocol:
    """How attempts follow from a ranking. `shares`: by default, every trained network is asked about
    everyone; off for the published protocols, whose counts would no longer be comparable."""

    name: ClassVar[str]
    shares: ClassVar[bool] = False
    proves: ClassVar[bool] = False
    """Whether proven answers are taken where there are some, instead of searching for them."""
    shrinks: ClassVar[bool] = False
    """Whether a flip set that works is made smaller before it is reported."""

    def ranking(self, model: Model) -> Ranking:
        """The ranking used where nobody names one: the published one, or the nearest to it that the model allows."""
        return next(r for r in (suited(as_ranking(name), model) for name in USUAL) if accepts(r, model))

    def plan(self, person: Ranked) -> Plan:
        """What one person's search tries."""
        return Listed(self.attempts(person), person.order)

    def attempts(self, person: Ranked) -> Iterator[FlipSet]:
        raise NotImplementedError

    def most(self, flippable: int, budget: int) -> int:
        """How many attempts one person can take at most; where attempts are one pool, on average."""
        raise NotImplementedError

    def depth(self, flippable: int, budget: int) -> int:
        """How far down the ranking attempts can reach."""
        raise NotImplementedError

    def pool(self, plans: Sequence[Plan]) -> int | None:
        """Attempts for all people together, where these are not fixed for each."""
        return None

    def enumerates(self, flippable: int, budget: int) -> bool:
        """Whether a search that is through has tried every allowed set within the budget."""
        return False


class Algorithm1(Protocol):
    """Flip the top k together, k = 1 … budget (Algorithm 1 of the paper)."""

    name = "algorithm1"
    shares = True

    def attempts(self, person: Ranked) -> Iterator[FlipSet]:
        for k in range(1, min(person.budget, len(person.order)) + 1):
            yield flip_set(person.order[:k])

    def most(self, flippable: int, budget: int) -> int:
        return min(budget, flippable)

    def depth(self, flippable: int, budget: int) -> int:
        return min(budget, flippable)


class Singles(Protocol):
    """The published protocol for small data: attempt t flips the t-th ranked row alone, t up to a tenth
    of the flippable rows. By chance: any flippable row at each attempt."""

    name = "singles"

    def attempts(self, person: Ranked) -> Iterator[FlipSet]:
        for t in range(self.most(person.flippable, person.budget)):
            row = person.rng.choice(person.order) if person.drawn else person.order[t]
            yield (int(row),)

    def most(self, flippable: int, budget: int) -> int:
        return max(1, flippable // 10) if flippable else 0

    def depth(self, flippable: int, budget: int) -> int:
        return self.most(flippable, budget)


class Attempts(Protocol):
    """The published protocol for large data: for each k = 1 … budget ten attempts; the first flips the
    top k, the others k rows drawn from the top a·k. By chance: ten independent draws per k."""

    name = "attempts"
    TRIES = 10

    def attempts(self, person: Ranked) -> Iterator[FlipSet]:
        for k in range(1, min(person.budget, person.flippable) + 1):
            pool = person.order if person.drawn else person.order[: self.reach(k)]
            for attempt in range(self.TRIES):
                if attempt == 0 and not person.drawn:
                    yield flip_set(person.order[:k])
                else:
                    yield flip_set(person.rng.choice(pool, size=k, replace=False))

    def most(self, flippable: int, budget: int) -> int:
        return self.TRIES * min(budget, flippable)

    def depth(self, flippable: int, budget: int) -> int:
        return min(flippable, max(self.reach(k) for k in range(1, budget + 1)))

    @classmethod
    def reach(cls, k: int) -> int:
        """a·k with the smallest a such that there are more than ten ways to choose k rows from it."""
        a = next(a for a in range(1, cls.TRIES + 2) if math.comb(a * k, k) > cls.TRIES)
        return a * k


class Exhaustive(Protocol):
    """Every flippable row alone and, with a budget of 2, every pair: nothing is left untried."""

    name = "exhaustive"
    shares = True

    def plan(self, person: Ranked) -> Plan:
        """The single labels; pairs are looked through for all people together (`pairs.py`)."""
        self.most(person.flippable, person.budget)
        return Listed(((int(row),) for row in person.order), person.order)

    def attempts(self, person: Ranked) -> Iterator[FlipSet]:
        self.most(person.flippable, person.budget)
        for row in person.order:
            yield (int(row),)
        if person.budget == 2:
            for pair in combinations(person.order, 2):
                yield flip_set(np.array(pair))

    def most(self, flippable: int, budget: int) -> int:
        if budget > 2:
            raise SettingError(
                f"protocol 'exhaustive' with a budget of {budget} labels would take more retrainings than anyone "
                "can wait for; use a budget of 1 (or of 2 on a small table), or another protocol."
            )
        pairs = math.comb(flippable, 2) if budget == 2 else 0
        if pairs > MOST_PAIRS:
            raise SettingError(
                f"protocol 'exhaustive' with a budget of 2 would try {pairs} pairs of the {flippable} flippable "
                f"labels, above the limit of {MOST_PAIRS}; use a budget of 1, a narrower psi, or another protocol."
            )
        return flippable + pairs

    def depth(self, flippable: int, budget: int) -> int:
        return flippable

    def enumerates(self, flippable: int, budget: int) -> bool:
        return True


def budget_in_labels(budget: float, n: int) -> int:
    """A budget as a count of labels: whole numbers from 1 are counts, smaller ones shares, rounded up."""
    if isinstance(budget, bool) or not isinstance(budget, (int, float, np.integer, np.floating)):
        raise SettingError(f"budget={budget!r} is not a number; give a count of labels or a share such as 0.001.")
    if not math.isfinite(budget):
        raise SettingError(f"budget={budget} is not a count of labels; give one, or a share such as 0.001.")
    if not budget > 0:
        raise SettingError(f"budget={budget} must be above 0: at least one label must be allowed to flip.")
    if budget < 1:
        return math.ceil(round(budget * n, 9))
    if budget != int(budget):
        raise SettingError(f"budget={budget} is neither a share below 1 nor a whole number of labels.")
    if budget > n:
        raise SettingError(f"budget={int(budget)} is more than the {n} training labels there are.")
    return int(budget)

"""Strategies with a fixed list of attempts: the three of the paper, every label alone, and recorded sets."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from butfor.errors import SettingError
from butfor.learn.protocols import FlipSet, flip_direction
from butfor.rules import Allowed
from butfor.search.loop import AttemptSearch
from butfor.search.state import FixedPlan, PersonSearch, RankedRows, flip_set
from butfor.search.strategy import Strategy
from butfor.search.task import Task


class Algorithm1(Strategy):
    """Flip the top k together, k = 1 … budget (Algorithm 1 of the paper)."""

    name = "algorithm1"
    shares = True

    def attempts(self, person: RankedRows) -> Iterator[FlipSet]:
        for k in range(1, min(person.budget, len(person.order)) + 1):
            yield flip_set(person.order[:k])

    def count(self, flippable: int, budget: int) -> int:
        return min(budget, flippable)

    def depth(self, flippable: int, budget: int) -> int:
        return min(budget, flippable)


class Singles(Strategy):
    """The published protocol for small data: attempt t flips the t-th ranked row alone, t up to a tenth of the
    flippable rows. With ranking "chance": a random flippable row at each attempt."""

    name = "singles"

    def attempts(self, person: RankedRows) -> Iterator[FlipSet]:
        for t in range(self.count(person.flippable, person.budget)):
            row = person.rng.choice(person.order) if person.random_order else person.order[t]
            yield (int(row),)

    def count(self, flippable: int, budget: int) -> int:
        return max(1, flippable // 10) if flippable else 0

    def depth(self, flippable: int, budget: int) -> int:
        return self.count(flippable, budget)


class TenAttempts(Strategy):
    """The published protocol for large data: ten attempts for each k = 1 … budget; the first flips the top k, the
    others k rows drawn from the top a·k. With ranking "chance": ten independent draws per k."""

    name = "attempts"
    TRIES = 10

    def attempts(self, person: RankedRows) -> Iterator[FlipSet]:
        for k in range(1, min(person.budget, person.flippable) + 1):
            pool = person.order if person.random_order else person.order[: self.reach(k)]
            for attempt in range(self.TRIES):
                if attempt == 0 and not person.random_order:
                    yield flip_set(person.order[:k])
                else:
                    yield flip_set(person.rng.choice(pool, size=k, replace=False))

    def count(self, flippable: int, budget: int) -> int:
        return self.TRIES * min(budget, flippable)

    def depth(self, flippable: int, budget: int) -> int:
        return min(flippable, max(self.reach(k) for k in range(1, budget + 1)))

    @classmethod
    def reach(cls, k: int) -> int:
        """a·k with the smallest a that allows more than ten choices of k rows."""
        a = next(a for a in range(1, cls.TRIES + 2) if math.comb(a * k, k) > cls.TRIES)
        return a * k


class Exhaustive(Strategy):
    """All sets of one label: if none works, no single label changes the decision."""

    name = "exhaustive"
    shares = True

    def attempts(self, person: RankedRows) -> Iterator[FlipSet]:
        self.count(person.flippable, person.budget)
        return ((int(row),) for row in person.order)

    def count(self, flippable: int, budget: int) -> int:
        if budget > 1:
            raise SettingError(
                f"strategy 'exhaustive' tries every label alone, and the budget is {budget} labels. Use a budget of 1, "
                "or another strategy."
            )
        return flippable

    def enumerates(self, flippable: int, budget: int) -> bool:
        return True

    def expected_sets(self, flippable: Sequence[int], budget: int, members: int) -> float:
        return max(flippable, default=0)  # models are shared


class Recorded(Strategy):
    """`sets`: for each position among the people, the flip sets to retrain in turn until one changes the decision."""

    name = "recorded"

    def __init__(self, sets: Mapping[int, Sequence[FlipSet]]) -> None:
        super().__init__()
        self.sets = sets

    def search(self, task: Task, people: NDArray[np.int64], psi: Allowed) -> list[PersonSearch]:
        directions = flip_direction(task.situation.logits)
        searches = [
            AttemptSearch(
                int(person), float(directions[person]), plan=FixedPlan(self.sets.get(int(person), ())), proven=True
            )
            for person in people
        ]
        return self.confirm(task, psi, searches)

    def for_people(self, people: NDArray[np.int64]) -> Recorded:
        return Recorded({k: self.sets[int(person)] for k, person in enumerate(people) if int(person) in self.sets})

    def count(self, flippable: int, budget: int) -> int:
        return 1

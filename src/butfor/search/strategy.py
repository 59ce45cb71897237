"""What a strategy is: how flip sets to try follow from a ranking.

A strategy owns its loop (propose → train → observe → confirm). By default `search` trains the sets of `attempts` for
all people together and stops each person at the first success; `solid` has its own `search`."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from butfor.errors import SettingError
from butfor.learn.protocols import FlipSet, Model
from butfor.rank import Ranking, as_ranking
from butfor.rules import Allowed
from butfor.search.loop import AttemptSearch, Loop
from butfor.search.state import FixedPlan, PersonSearch, Plan, RankedRows, Shrink
from butfor.search.task import Task

USUAL = ("combined", "influence", "leaves", "surrogate-signed")
"""Default rankings; the first that accepts the model is used, and the last accepts every model."""
FOUND = 0.4
"""The usual share of people with a find, for estimates of time."""


class Strategy:
    """`share`: every trained model counts for everyone; None is the strategy's default."""

    name: ClassVar[str]
    shares: ClassVar[bool] = False
    """The default of `share`; off for published strategies, whose counts would not be comparable."""
    proves: ClassVar[bool] = False
    """Whether proven answers replace the search."""
    shrinks: ClassVar[bool] = False
    """Whether a flip set that works is shrunk."""

    def __init__(self, *, share: bool | None = None) -> None:
        self.share = self.shares if share is None else share

    def check(self, members: int) -> None:
        """Raise an error if the strategy cannot audit a model with `members` members."""

    def ranking(self, model: Model) -> Ranking:
        """The default ranking: the published one, or the nearest to it that accepts the model."""
        return next(ranking for ranking in map(as_ranking, USUAL) if ranking.ranks(model))

    def search(self, task: Task, people: NDArray[np.int64], psi: Allowed) -> list[PersonSearch]:
        """Search for these people among the labels that `psi` allows."""
        ranked = task.ranked(people, psi, self.depth)
        return self.confirm(task, psi, [AttemptSearch(each.person, each.away, plan=self.plan(each)) for each in ranked])

    def confirm(self, task: Task, psi: Allowed, searches: list[AttemptSearch]) -> list[PersonSearch]:
        """Run searches that have their plans."""
        flippable = psi.of_people([search.person for search in searches]).counts
        everything = any(self.enumerates(int(size), task.budget) for size in flippable)
        shares, claims = [search.plan.pool_share for search in searches], None if everything else Loop.CLAIMS
        pool = sum(share or 1 for share in shares) if any(shares) else None
        Loop(task, psi, share=self.share, shrink=self.shrinks, pool=pool, claims=claims).run(searches)
        return list(searches)

    def plan(self, person: RankedRows) -> Plan:
        """The plan of one person's search."""
        return FixedPlan(self.attempts(person), person.order)

    def attempts(self, person: RankedRows) -> Iterator[FlipSet]:
        raise NotImplementedError

    def for_people(self, people: NDArray[np.int64]) -> Strategy:
        """The strategy for some of the people."""
        return self

    def count(self, flippable: int, budget: int) -> int:
        """The most attempts for one person; with a pool, the mean."""
        raise NotImplementedError

    def depth(self, flippable: int, budget: int) -> int:
        """The last rank that attempts can use."""
        return flippable

    def enumerates(self, flippable: int, budget: int) -> bool:
        """Whether a complete search has tried every allowed set within the budget."""
        return False

    def expected_sets(self, flippable: Sequence[int], budget: int, members: int) -> float:
        """The usual number of flip sets for people with these numbers of flippable labels."""
        sets = sum(self.count(size, budget) for size in flippable)
        size = min(budget, max(flippable, default=0))
        return sets + self.shrinks * FOUND * len(flippable) * (min(size, Shrink.ONE_BY_ONE) if size > 1 else 0)

    def expected_rankings(self, people: int, budget: int) -> float:
        """The usual number of rankings at one person's flipped labels."""
        return 0.0


def budget_in_labels(budget: float, n: int) -> int:
    """A budget as a number of labels: numbers from 1 are counts, smaller ones shares, rounded up."""
    if isinstance(budget, bool) or not isinstance(budget, (int, float, np.integer, np.floating)):
        raise SettingError(f"budget={budget!r} is not a number; give a count of labels or a share such as 0.001.")
    if not 0 < budget < math.inf:
        raise SettingError(f"budget={budget} must be above 0: at least one label must be allowed to flip.")
    if budget < 1:
        return math.ceil(round(budget * n, 9))
    if budget != int(budget):
        raise SettingError(f"budget={budget} is neither a share below 1 nor a whole number of labels.")
    if budget > n:
        raise SettingError(f"budget={int(budget)} is more than the {n} training labels of the table.")
    return int(budget)

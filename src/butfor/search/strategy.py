"""What a strategy is: how the flip sets that are tried follow from a ranking.

A strategy owns its loop (propose → train → observe → confirm). The usual one, `search`, trains the attempts that
`attempts` proposes for all people together and stops a person at the first success; `solid` has a `search` of its own.
"""

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
"""Rankings in the order in which they are taken where nobody names one; the last ranks for every model."""
FOUND = 0.4
"""The share of people who are usually found, for estimates of how long it takes."""


class Strategy:
    """`share`: ask every trained model about everyone; None: as the strategy has it."""

    name: ClassVar[str]
    shares: ClassVar[bool] = False
    """Off for the published strategies, whose counts would no longer be comparable."""
    proves: ClassVar[bool] = False
    """Whether proven answers are taken where there are some, instead of searching for them."""
    shrinks: ClassVar[bool] = False
    """Whether a flip set that works is made smaller before it is reported."""

    def __init__(self, *, share: bool | None = None) -> None:
        self.share = self.shares if share is None else share

    def check(self, members: int) -> None:
        """Refuse an audited model of so many members."""

    def ranking(self, model: Model) -> Ranking:
        """The ranking used where nobody names one: the published one, or the nearest to it that the model allows."""
        return next(ranking for ranking in map(as_ranking, USUAL) if ranking.ranks(model))

    def search(self, task: Task, people: NDArray[np.int64], psi: Allowed) -> list[PersonSearch]:
        """Search for these people among the labels that `psi` allows them."""
        ranked = task.ranked(people, psi, self.depth)
        return self.confirm(task, psi, [AttemptSearch(each.person, each.away, plan=self.plan(each)) for each in ranked])

    def confirm(self, task: Task, psi: Allowed, searches: list[AttemptSearch]) -> list[PersonSearch]:
        """Go through searches whose plans are made."""
        flippable = psi.of_people([search.person for search in searches]).counts
        everything = any(self.enumerates(int(size), task.budget) for size in flippable)
        shares, claims = [search.plan.pool_share for search in searches], None if everything else Loop.CLAIMS
        pool = sum(share or 1 for share in shares) if any(shares) else None
        Loop(task, psi, share=self.share, shrink=self.shrinks, pool=pool, claims=claims).run(searches)
        return list(searches)

    def plan(self, person: RankedRows) -> Plan:
        """What one person's search tries."""
        return FixedPlan(self.attempts(person), person.order)

    def attempts(self, person: RankedRows) -> Iterator[FlipSet]:
        raise NotImplementedError

    def for_people(self, people: NDArray[np.int64]) -> Strategy:
        """The strategy for some of the people alone."""
        return self

    def count(self, flippable: int, budget: int) -> int:
        """How many attempts one person takes at the most; where attempts are one pool, on average."""
        raise NotImplementedError

    def depth(self, flippable: int, budget: int) -> int:
        """How far down the ranking attempts can reach."""
        return flippable

    def enumerates(self, flippable: int, budget: int) -> bool:
        """Whether a search that is through has tried every allowed set within the budget."""
        return False

    def expected_sets(self, flippable: Sequence[int], budget: int, members: int) -> float:
        """Flip sets that people with so many flippable labels usually take together."""
        sets = sum(self.count(size, budget) for size in flippable)
        size = min(budget, max(flippable, default=0))
        return sets + self.shrinks * FOUND * len(flippable) * (min(size, Shrink.ONE_BY_ONE) if size > 1 else 0)

    def expected_rankings(self, people: int, budget: int) -> float:
        """Rankings at flipped labels, one person's each, that so many people usually take together."""
        return 0.0


def budget_in_labels(budget: float, n: int) -> int:
    """A budget as a count of labels: whole numbers from 1 are counts, smaller ones shares, rounded up."""
    if isinstance(budget, bool) or not isinstance(budget, (int, float, np.integer, np.floating)):
        raise SettingError(f"budget={budget!r} is not a number; give a count of labels or a share such as 0.001.")
    if not 0 < budget < math.inf:
        raise SettingError(f"budget={budget} must be a number above 0: at least one label must be allowed to flip.")
    if budget < 1:
        return math.ceil(round(budget * n, 9))
    if budget != int(budget):
        raise SettingError(f"budget={budget} is neither a share below 1 nor a whole number of labels.")
    if budget > n:
        raise SettingError(f"budget={int(budget)} is more than the {n} training labels there are.")
    return int(budget)

"""The guided search: what a person tries next (`Learned`), and how much (`GuidedSearch`).

Every retraining teaches what labels do (`effects`), so that a poor ranking costs attempts, not answers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from butfor.errors import SettingError
from butfor.learn.protocols import FlipSet, Model
from butfor.rank import Ranking
from butfor.rank.leaders import Leaders
from butfor.search.effects import Effects
from butfor.search.state import Listed, Plan, Ranked, flip_set
from butfor.search.strategy import Strategy


class Learned(Plan):
    """Spend the whole budget at once, and learn from every retraining which labels matter.

    The first attempt flips the top `budget` rows of the ranking together: more flips move a decision further,
    and a set that works is shrunk afterwards. Every further attempt flips the rows that are best by a draw from
    what is believed of their effects (see `effects`), after all networks seen so far: the person's own and,
    with sharing, anybody's that ψ allows.
    """

    REACH = 3
    """Candidate rows, as a multiple of the budget."""
    LEAST_CANDIDATES = 24
    SURE = 4.0
    """Standard deviations short of the other decision at which a believed forecast ends the search."""

    def __init__(
        self,
        order: NDArray[np.int64],
        budget: int,
        tries: int,
        rng: np.random.Generator,
        start: float = -1.0,
        predicted: NDArray[np.float64] | None = None,
        further: float = math.inf,
    ) -> None:
        self.candidates = [int(row) for row in order[: max(self.LEAST_CANDIDATES, self.REACH * budget)]]
        self.budget = min(budget, len(order))
        self.tries = self.pooled = tries
        self.rng = rng
        self.believed, self.further = predicted is not None, further
        self._first: float | None = None
        """What the first set brought: where effects are believed, the best one."""
        known = None if predicted is None else predicted[: len(self.candidates)]
        self.effects = Effects(self.candidates, self.budget, start, known)
        self._rank = {int(row): place for place, row in enumerate(order)}
        self._tried: set[FlipSet] = set()

    def next(self) -> FlipSet | None:
        over = self.done or len(self._tried) >= self.tries or self._hopeless()
        flips = None if over else self._proposal()
        if flips is None:
            self.done = True
            return None
        self._tried.add(flips)
        return flips

    def saw(self, flips: FlipSet, gain: float, works: bool) -> None:
        self.effects.saw(flips, gain)
        if self._first is None and flips in self._tried:
            self._first = gain - self.effects.start
            if self._out_of_reach():
                self.done, self.given_back = True, max(0, self.tries // GuidedSearch.PATIENCE - len(self._tried))

    def saw_all(self, sets: Sequence[FlipSet], gains: Sequence[float], work: Sequence[bool]) -> None:
        if self._first is None:
            super().saw_all(sets, gains, work)
        else:
            self.effects.saw_all(sets, gains)

    def opening(self) -> list[FlipSet]:
        return [flip_set(self.candidates[: self.budget])]

    def promise(self) -> float:
        """How near the next attempt may come to the other decision: one draw, above 0 beyond it. Before the first
        attempt, how near the person is now."""
        if not self._tried:
            return self.effects.start
        expected, spread = self.effects.forecast(self._best(self.effects.worth()))
        return expected + spread * float(self.rng.standard_normal())

    def strongest_first(self, flips: FlipSet) -> list[int]:
        worth, place = self.effects.worth(), self.effects.place
        behind = float(worth.min(initial=0.0))
        return sorted(flips, key=lambda row: (-worth[place[row]] if row in place else -behind, self._rank.get(row, -1)))

    def _proposal(self) -> FlipSet | None:
        """A set not tried before; None where the candidates allow no more."""
        if not self._tried:
            return flip_set(self.candidates[: self.budget])
        for _ in range(20):
            flips = self._best(self.effects.drawn(self.rng))
            if flips not in self._tried:
                return flips
        for _ in range(20):  # beliefs are too firm for anything new: any set at all
            flips = flip_set([int(row) for row in self.rng.choice(self.candidates, self.budget, replace=False)])
            if flips not in self._tried:
                return flips
        return None

    def _hopeless(self) -> bool:
        """After a first attempt with the best set by effects that can be believed, nothing may be left to hope for."""
        if not self.believed or not self._tried:
            return False
        expected, spread = self.effects.forecast(self._best(self.effects.worth()))
        return expected + self.SURE * spread < 0

    def _out_of_reach(self) -> bool:
        """Whether the best set by effects that can be believed, and a trial's share more, falls short."""
        if not self.believed or self._first is None or self._first <= 0:
            return False
        return self.effects.start + self.further * self._first < 0

    def of_size(self, size: int) -> FlipSet | None:
        for _ in range(20):
            flips = self._best(self.effects.drawn(self.rng), size)
            if flips not in self._tried:
                self._tried.add(flips)
                return flips
        return None

    def _best(self, worth: NDArray[np.float64], size: int | None = None) -> FlipSet:
        return flip_set([self.candidates[k] for k in np.argsort(-worth, kind="stable")[: size or self.budget]])


class GuidedSearch(Strategy):
    """The whole budget at once, sets that learn from every retraining, and what works made smaller.

    With a budget of one label it tries the flippable labels one by one, all of them where they are few.
    `tries`: attempts per person on average before shrinking; by default as many as Algorithm 1 takes, at least
    `LEAST` and at most `MOST`. They are spent where they promise most: one person may take up to `PATIENCE` times as
    many."""

    name = "guided"
    proves = True
    shares = True
    shrinks = True
    LEAST, MOST = 8, 64
    FEW = 2000
    PATIENCE = 8

    def __init__(self, tries: int | None = None, *, share: bool | None = None, alternatives: int = 0) -> None:
        super().__init__(share=share, alternatives=alternatives)
        if tries is not None and tries < 1:
            raise SettingError(f"tries={tries} must be at least 1.")
        self.tries = tries

    def ranking(self, model: Model) -> Ranking:
        return Leaders.of(model)

    def plan(self, person: Ranked) -> Plan:
        if person.budget == 1 or len(person.order) < 2:
            return Listed(((int(row),) for row in person.order[: self.count(person.flippable, 1)]), person.order)
        tries = self.count(person.flippable, person.budget)
        if person.predicted is not None and self.tries is None:
            tries = self.LEAST  # there is little left to learn
        believed = (person.start, person.predicted, person.further)
        return Learned(person.order, person.budget, self.PATIENCE * tries, person.rng, *believed)

    def count(self, flippable: int, budget: int) -> int:
        if budget == 1:
            return min(flippable, self.tries or (flippable if flippable <= self.FEW else self.FEW // 10))
        return self.tries or max(self.LEAST, min(budget, flippable, self.MOST))

    def depth(self, flippable: int, budget: int) -> int:
        return min(flippable, max(self.FEW, Learned.REACH * budget))

    def enumerates(self, flippable: int, budget: int) -> bool:
        return budget == 1 and self.count(flippable, 1) == flippable

    def pool(self, plans: Sequence[Plan]) -> int | None:
        if not any(plan.pooled for plan in plans):
            return None
        return sum(plan.pooled // self.PATIENCE if plan.pooled else 1 for plan in plans)

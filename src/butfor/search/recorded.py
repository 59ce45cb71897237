"""Flip sets that are known already: each is retrained and confirmed, and nothing is searched for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from butfor.learn.protocols import FlipSet, away
from butfor.rules import Allowed
from butfor.search.loop import Attempts
from butfor.search.state import Listed, PersonSearch
from butfor.search.strategy import Strategy
from butfor.search.task import Task


class Recorded(Strategy):
    """`sets`: per position among the people, the flip sets to retrain in turn until one turns the decision."""

    name = "recorded"

    def __init__(self, sets: Mapping[int, Sequence[FlipSet]]) -> None:
        super().__init__()
        self.sets = sets

    def search(self, task: Task, people: NDArray[np.int64], psi: Allowed) -> list[PersonSearch]:
        directions = away(task.situation.logits)
        searches = [
            Attempts(int(person), float(directions[person]), plan=Listed(self.sets.get(int(person), ())), settled=True)
            for person in people
        ]
        return self.confirm(task, psi, searches)

    def count(self, flippable: int, budget: int) -> int:
        return 1

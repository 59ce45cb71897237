"""Every label alone: nothing is left untried, so that what is not found within one label is proven not to exist."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from butfor.errors import SettingError
from butfor.learn.protocols import FlipSet
from butfor.search.state import Ranked
from butfor.search.strategy import Strategy


class Exhaustive(Strategy):
    """All sets of one label."""

    name = "exhaustive"
    shares = True

    def attempts(self, person: Ranked) -> Iterator[FlipSet]:
        self.count(person.flippable, person.budget)
        return ((int(row),) for row in person.order)

    def count(self, flippable: int, budget: int) -> int:
        if budget > 1:
            raise SettingError(
                f"strategy 'exhaustive' tries every label alone, and a budget of {budget} labels would take more "
                "retrainings than anyone can wait for; use a budget of 1, or another strategy."
            )
        return flippable

    def enumerates(self, flippable: int, budget: int) -> bool:
        return True

    def expected_sets(self, flippable: Sequence[int], budget: int, members: int) -> float:
        return max(flippable, default=0)  # models are shared

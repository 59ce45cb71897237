"""What is known about flip sets: the gains of every trained set for everybody.

A *gain* is a person's logit towards the other decision under a model trained on a flip set: above 0
the set changes the decision. One model answers for all people, so gains are stored once, in a
`GainTable`. Each person sees them through `Gains`: only the sets that they were told of.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain, islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from butfor.models.seam import FlipSet, Floats

Mask = NDArray[np.bool_]


class GainTable:
    """The gains of all trained sets for all people."""

    def __init__(self, away: NDArray[np.floating[Any]]) -> None:
        self.away = np.asarray(away, np.float32)
        """For each person the direction towards the other decision, −1 or +1."""
        self.by_set: dict[FlipSet, Floats] = {}
        """Everybody's gains, `[people]`, in the order in which sets were trained."""
        self.told: dict[FlipSet, Mask] = {}
        """Who was told of each set, `[people]`."""
        self.closest = np.full(len(self.away), np.nan, np.float32)
        """The best gain of any set that a person was told of, `[people]`."""
        self.people = [Gains(self, number) for number in range(len(self.away))]

    def __contains__(self, flips: object) -> bool:
        return flips in self.by_set

    def add(self, flips: FlipSet, logits: Floats) -> None:
        """A trained set, of which nobody is told yet."""
        gains = np.asarray(logits, np.float32) * self.away
        exactly_0 = (logits == 0) & (self.away < 0)
        # A logit of 0 decides for class 0.
        gains[exactly_0] = np.finfo(np.float32).tiny
        self.by_set[flips] = gains
        self.told[flips] = np.zeros(len(gains), bool)

    def tell(self, flips: FlipSet, people: Mask) -> None:
        """Tell these people of a set."""
        gains = self.by_set[flips]
        new = people & ~self.told[flips]
        self.told[flips] |= new
        if not flips:
            # The unchanged data: a search may compare with them, but they are no find.
            return
        self.closest[new] = np.fmax(self.closest[new], gains[new])
        for number in np.flatnonzero(new & (gains > 0)):
            self.people[number].changing[flips] = float(gains[number])

    def sets_that_change(self) -> set[FlipSet]:
        """All sets that change somebody's decision."""
        return set(chain.from_iterable(person.changing for person in self.people))


class Gains(Mapping[FlipSet, float]):
    """One person's gains by set, in the order in which sets were trained."""

    def __init__(self, table: GainTable, number: int) -> None:
        self.table = table
        self._number = number
        # Means over members that this person asked for one by one. Nobody else is told of them,
        # since everybody's would fill the memory.
        self._own: dict[FlipSet, float] = {}
        self.changing: dict[FlipSet, float] = {}
        """The sets that change the decision, as far as the engine can tell."""
        self.refuted: set[FlipSet] = set()
        """Those of them that the model's own `fit` did not confirm."""

    def __getitem__(self, flips: FlipSet) -> float:
        if flips in self._own:
            return self._own[flips]
        if not self.table.told[flips][self._number]:
            raise KeyError(flips)
        return float(self.table.by_set[flips][self._number])

    def __iter__(self) -> Iterator[FlipSet]:
        told = (flips for flips, who in self.table.told.items() if who[self._number])
        return chain(told, (flips for flips in self._own if flips not in self.table.told))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    @property
    def away(self) -> float:
        """The direction of the other decision: gain = logit × away."""
        return float(self.table.away[self._number])

    @property
    def closest(self) -> float:
        """The best gain of any set; NaN before the first."""
        return float(self.table.closest[self._number])

    @property
    def working(self) -> dict[FlipSet, float]:
        """The sets that change the decision, by all that is known, and their gains."""
        return {flips: gain for flips, gain in self.changing.items() if flips not in self.refuted}

    def note(self, flips: FlipSet, gain: float) -> None:
        """A set that this person alone is told of."""
        self._own[flips] = gain
        closest = self.table.closest
        closest[self._number] = np.fmax(closest[self._number], gain)
        if gain > 0:
            self.changing[flips] = gain

    def since(self, seen: int) -> dict[FlipSet, float]:
        """The gains of shared sets after the first `seen` of the table."""
        told = self.table.told
        number = self._number
        newest = list(islice(reversed(told), len(told) - seen))
        own = [flips for flips in reversed(newest) if told[flips][number]]
        return {flips: float(self.table.by_set[flips][number]) for flips in own}

    @property
    def trained(self) -> int:
        """How many sets the table holds, for `since`."""
        return len(self.table.told)

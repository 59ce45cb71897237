"""Plans: what one person's search tries next, given what it has seen.

A plan hands out flip sets (`next`), hears what networks say (`saw`) and knows when it is through (`done`).
`Listed` walks down a fixed list; `guided.Learned` learns which labels matter; `shrink.Shrink` makes a set that works
smaller.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from butfor.seam import FlipSet


class Plan:
    """The next flip set to try, or None: none at all when `done`, none until it has heard more otherwise."""

    done = False

    def next(self) -> FlipSet | None:
        raise NotImplementedError

    def saw(self, flips: FlipSet, gain: float, works: bool) -> None:
        """A network trained on `flips` gives a logit of `gain`, counted towards the other decision."""

    def promise(self) -> float:
        """Whose turn it is where attempts are scarce: the highest first."""
        return math.inf

    def opening(self) -> list[FlipSet]:
        """The first attempt, as far as it is known, without taking it."""
        return []

    def strongest_first(self, flips: FlipSet) -> list[int]:
        """The rows of a flip set, those believed to matter most first."""
        return list(flips)

    def of_size(self, size: int) -> FlipSet | None:
        """A set of that many rows which may work, not proposed before; None where the plan knows no better."""
        return None


class Listed(Plan):
    """A fixed list of attempts."""

    def __init__(self, attempts: Iterator[FlipSet], order: Sequence[int] | NDArray[np.int64] = ()) -> None:
        self._attempts = attempts
        self._ahead: list[FlipSet] = []
        self._rank = {int(row): place for place, row in enumerate(order)}

    def next(self) -> FlipSet | None:
        flips = self._ahead.pop() if self._ahead else next(self._attempts, None)
        self.done = flips is None
        return flips

    def opening(self) -> list[FlipSet]:
        if not self._ahead:
            self._ahead = list(islice(self._attempts, 1))
        return list(self._ahead)

    def strongest_first(self, flips: FlipSet) -> list[int]:
        return sorted(flips, key=lambda row: self._rank.get(row, len(self._rank)))


def flip_set(rows: Iterable[int]) -> FlipSet:
    """Positions as a flip set: sorted, so that equal sets are recognised."""
    return tuple(sorted(int(row) for row in rows))

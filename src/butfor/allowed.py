"""ψ's answer: which labels may be flipped for whom, kept as the few different masks there are.

People of one group with one decision have one and the same mask, so that a mask of people × rows is a few masks of rows
and, for each person, which of them is theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from butfor.situation import Mask

BLOCK = 2**26
"""Entries of a whole mask made at a time, while the different ones are gathered."""

People = Sequence[int] | NDArray[np.int64] | slice


@dataclass(frozen=True, eq=False)
class Allowed:
    """`masks [kinds × rows]`, and `kind [people]`: whose is which."""

    masks: Mask
    kind: NDArray[np.int64]

    @classmethod
    def of(cls, whole: Mask) -> Allowed:
        """From a mask of people × rows."""
        return cls.gathered(len(whole), whole.shape[1], lambda people: whole[people])

    @classmethod
    def gathered(cls, people: int, rows: int, some: Callable[[NDArray[np.int64]], Mask]) -> Allowed:
        """`some(people)` gives their rows of the mask; it is asked block by block."""
        known: dict[bytes, int] = {}
        masks: list[Mask] = []
        kind = np.empty(people, np.int64)
        size = max(1, BLOCK // max(1, rows))
        for first in range(0, people, size):
            block = np.arange(first, min(people, first + size))
            whole = some(block)
            for person, packed in zip(block, np.packbits(whole, axis=1), strict=True):
                key = packed.tobytes()
                if key not in known:
                    known[key] = len(masks)
                    masks.append(whole[person - first].copy())
                kind[person] = known[key]
        return cls(np.array(masks, bool).reshape(-1, rows), kind)

    def __len__(self) -> int:
        return len(self.kind)

    def __iter__(self) -> Iterator[Mask]:
        return (self.masks[kind] for kind in self.kind)

    def __getitem__(self, person: int | np.integer) -> Mask:
        """One person's mask of rows."""
        return self.masks[self.kind[person]]

    @property
    def rows(self) -> int:
        return self.masks.shape[1]

    @property
    def counts(self) -> NDArray[np.int64]:
        """How many labels may be flipped for each person."""
        return self.masks.sum(axis=1)[self.kind]

    @property
    def different(self) -> Mask:
        """The masks that somebody has, each once."""
        return self.masks[np.unique(self.kind)]

    def of_people(self, people: People) -> Allowed:
        return Allowed(self.masks, self.kind[people if isinstance(people, slice) else list(people)])

    def whole(self) -> Mask:
        """People × rows, for a few people."""
        return self.masks[self.kind]

    def permits(self, rows: Iterable[int]) -> NDArray[np.bool_]:
        """For whom all of these labels may be flipped together."""
        permits: NDArray[np.bool_] = np.all(self.masks[:, list(rows)], axis=1)
        return permits[self.kind]

    def without(self, taken: Mapping[int, Iterable[int]]) -> Allowed:
        """The same less the rows that `taken` names for some people."""
        fewer: list[Mask] = []
        kind = self.kind.copy()
        for person, rows in taken.items():
            mask = self[person].copy()
            mask[list(rows)] = False
            kind[person] = len(self.masks) + len(fewer)
            fewer.append(mask)
        return Allowed(np.concatenate([self.masks, np.array(fewer, bool).reshape(-1, self.rows)]), kind)

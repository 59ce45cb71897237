"""A random order: the baseline every other ranking must beat."""

from __future__ import annotations

import zlib

import numpy as np
from numpy.typing import NDArray

from butfor.learn.recipe import Floats, Network, Rows


class Chance:
    """Uniform scores, drawn per person from `seed` and the person's own values."""

    name = "chance"

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed

    def score(self, network: Network, rows: Rows, people: Floats) -> NDArray[np.float64]:
        draws = [np.random.default_rng([self.seed, person_key(x)]).random(rows.n) for x in people]
        return np.array(draws).reshape(len(people), rows.n)


def person_key(x: Floats) -> int:
    """A number that belongs to a person, whoever else is audited and in which order."""
    return zlib.crc32(np.ascontiguousarray(x, dtype=np.float32).tobytes())

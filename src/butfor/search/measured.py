"""What labels do for one person, measured: models are trained with random parts of the candidates flipped.

A ranking foretells what a single flip does to the model as it is. Among thirty flips, each does something else than it
would alone. So a person's best candidates, three times as many as may be flipped, are flipped at random, as many at a
time as will be in the end, each time under one member's seed; a ridge regression tells what each of them brought.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from butfor.seam import FlipSet, Training
from butfor.search.plans import flip_set

REACH = 3
"""Candidates, as a multiple of the labels that may be flipped."""
SETS = 64
"""What measuring takes for one person, in sets of all members."""
LEAST, MOST = 8, 80
"""Labels that may be flipped from which on each changes what others do, and up to which so many trainings suffice."""
SIDE_BY_SIDE, ROWS = 256, 10_000
"""Trainings that an engine has to do side by side, and training rows at the most, for it to be done unasked."""
RIDGE = 0.3
"""The penalty, in units of what a candidate's own flips say."""


class Design:
    """Random parts of the candidates, each trained under one of the seeds in turn."""

    def __init__(self, candidates: NDArray[np.int64], labels: int, seeds: Sequence[int | None]) -> None:
        self.candidates, self.seeds = candidates, seeds
        self.share = labels / len(candidates)
        rng = np.random.default_rng([int(row) for row in candidates])
        self.inside = rng.random((SETS * len(seeds), len(candidates))) < self.share

    def trainings(self) -> list[Training]:
        return [
            Training(self._flips(part), self.seeds[k % len(self.seeds)]) for k, part in enumerate(self.inside)
        ]  # fmt: skip

    def _flips(self, part: NDArray[np.bool_]) -> FlipSet:
        return flip_set(self.candidates[part])

    def best_first(self, gains: NDArray[np.floating]) -> NDArray[np.int64]:
        """The candidates by what they brought; `gains`: how far each training went towards the other decision."""
        return self.candidates[np.argsort(-self.effects(gains), kind="stable")]

    def effects(self, gains: NDArray[np.floating]) -> NDArray[np.float64]:
        by_seed = np.asarray(gains, np.float64).reshape(-1, len(self.seeds))
        finite = np.isfinite(by_seed)
        kept = np.where(finite, by_seed, 0.0)
        centred = np.where(finite, kept - kept.sum(axis=0) / np.maximum(1, finite.sum(axis=0)), 0.0).ravel()
        inside = self.inside - self.share
        penalty = RIDGE * len(inside) * self.share * (1 - self.share)
        return np.linalg.solve(inside.T @ inside + penalty * np.eye(inside.shape[1]), inside.T @ centred)

"""What the audited kind of model decides with no label flipped: the control beside a group's
worlds.

A seed changes decisions too. An applicant whom the audited mean of 16 networks just accepts may be
refused by most other means of 16, with every label as recorded. So worlds are not compared with the
audited model but with models of its kind under other seeds. Paired controls are trained under the
very seeds of the worlds, so that the seed's noise cancels. Where that would take too long, single
models under the fresh seeds say how the mean of as many members varies.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from butfor.models.seam import Training
from butfor.models.trainer import Trainer
from butfor.result.fresh import MIN_SOLID_SEEDS
from butfor.table.decisions import decides_one
from butfor.table.sides import Margins

DRAWN_MEANS = 999
"""Means that are drawn where the cut moves with them."""
MEANS_AT_ONCE = 100
"""How many of them are held at a time."""


@dataclass(frozen=True, eq=False)
class SingleModels:
    """The answers of single models `[seeds × answers]`, each trained without flips under a seed of
    its own, and what they say about the mean of `members` others."""

    answers: NDArray[np.float64]
    trainer: Trainer
    """What trained them, and computes margins from answers."""

    @classmethod
    def of(cls, trainer: Trainer, seeds: Sequence[int]) -> SingleModels | None:
        """Trained now; None if too few trainings succeed."""
        answers = trainer.ensemble_answers([[Training((), seed)] for seed in seeds]).astype(
            np.float64
        )
        answers = answers[np.isfinite(answers).all(axis=1)]
        if len(answers) < MIN_SOLID_SEEDS:
            return None
        return cls(answers, trainer)

    @property
    def spread(self) -> float:
        """The standard deviation of such a mean around the mean of these models, in those of one
        model."""
        return float(np.sqrt(1 / self.trainer.members + 1 / len(self.answers)))

    def decides_one(self, random_state: int) -> NDArray[np.float64]:
        """Per person, the probability that the mean decides for class 1: by the t distribution or,
        where its cut moves or the best of several classes counts, by the share of drawn means."""
        if self.trainer.table.multiclass or self.trainer.decision.pool is not None:
            rng = np.random.default_rng(random_state)
            sizes = [
                min(MEANS_AT_ONCE, DRAWN_MEANS - begun)
                for begun in range(0, DRAWN_MEANS, MEANS_AT_ONCE)
            ]
            found: NDArray[np.float64] = (
                sum(decides_one(self.drawn(rng, size)).sum(axis=0) for size in sizes) / DRAWN_MEANS
            )
            return found
        margins = self.trainer.margins(self.answers.astype(np.float32)).astype(np.float64)
        mean = margins.mean(axis=0)
        deviation = self.spread * margins.std(axis=0, ddof=1)
        away = np.divide(
            mean, deviation, out=np.where(decides_one(mean), np.inf, -np.inf), where=deviation > 0
        )
        return np.asarray(stats.t.cdf(away, len(margins) - 1), np.float64)

    def drawn(self, rng: np.random.Generator, count: int) -> Margins:
        """Margins of means that are drawn `[count × people]`, each with its own cut. People move
        together as they do from one of these models to another; each alone follows the t
        distribution above."""
        seeds = len(self.answers)
        centre = self.answers.mean(axis=0)
        weights = rng.standard_normal((count, seeds)) / np.sqrt(
            rng.chisquare(seeds - 1, (count, 1))
        )
        return self.trainer.margins(
            (centre + self.spread * (weights @ (self.answers - centre))).astype(np.float32)
        )

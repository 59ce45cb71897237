"""What labels do for one person, measured: models are trained with random parts of the candidates flipped.

A ranking foretells what a single flip does to the model as it is. Among thirty flips, each does something else than it
would alone. So a person's best candidates, three times as many as may be flipped, are flipped at random, as many at a
time as will be in the end, and a regression tells what each of them brought. It begins with what the ranking says, as
far as the first trainings bear it out. Then once more, and again: each round flips a candidate as often as it is likely
to be one of the best by then, so that the last ones tell how the best do among each other. Seeds are new in each round,
and none of them is a member's or judges anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from butfor.learn.protocols import Learner, Training
from butfor.search.state import flip_set
from butfor.search.trainer import Trainer

REACH = 3
"""Candidates, as a multiple of the labels that may be flipped."""
ROUNDS, SETS_A_ROUND = 8, 16
"""Rounds, and what one takes for a person, in sets of all members."""
SETS = ROUNDS * SETS_A_ROUND
LEAST, MOST = 8, 80
"""Labels that may be flipped from which on each changes what others do, and up to which so many trainings suffice."""
SIDE_BY_SIDE, ROWS = 256, 10_000
"""Trainings that an engine has to do side by side, and training rows at the most, for it to be done unasked."""
SEEDS_FROM = 1_000_000
"""Seeds to measure with are counted from this far above the learner's own: no member or judge comes near."""

FADING = 0.5
"""How far around the last label the first round's choice fades out, as a multiple of the labels."""
RARELY = 0.03
"""How often a candidate is flipped, or left alone, at the least."""
MOST_ANSWERS = 2**26
"""Answers about people that are held at a time."""
KEPT = 0.8
"""What a round's trainings count in the next: candidates had other company then."""
DOUBT = 0.25
"""What is not known of an effect at the least, in standard deviations of all of them."""


def seeds_of_round(learner: Learner, members: int, round_: int) -> list[int | None]:
    """As many as there are members; a learner without a seed has none."""
    if not learner.seeded:
        return [None] * members
    first = learner.own_seed + SEEDS_FROM + round_ * members
    return list(range(first, first + members))


def measure(trainer: Trainer, effects: Sequence[Effects]) -> None:
    """All rounds of all people."""
    each = SETS_A_ROUND * trainer.members
    at_once = max(1, MOST_ANSWERS // (each * len(trainer.people)))
    for round_ in range(ROUNDS):
        seeds = seeds_of_round(trainer.single, trainer.members, round_)
        for first in range(0, len(effects), at_once):
            some = effects[first : first + at_once]
            answers = trainer.measure([training for one in some for training in one.trainings(seeds)])
            for one, gains in zip(some, answers.reshape(-1, each, len(trainer.people)), strict=True):
                one.learn(gains[:, one.person] * one.away)


class Effects:
    """What each of a person's candidates brings among the others, as far as is known; `candidates`: best first."""

    def __init__(self, candidates: NDArray[np.int64], labels: int, person: int = 0, away: float = 1.0) -> None:
        self.candidates, self.labels, self.person, self.away = candidates, labels, person, away
        count = len(candidates)
        self._expected = -np.log((np.arange(count) + 0.5) / count)
        self.effects = self._expected
        self.likely = expit((labels - 0.5 - np.arange(count)) / (FADING * labels))
        self.inside = np.zeros((0, count), np.bool_)
        self._rng = np.random.default_rng([int(row) for row in candidates])
        self._prior: Prior | None = None
        self._precision, self._told = np.zeros((count, count)), np.zeros(count)

    @property
    def best_first(self) -> NDArray[np.int64]:
        return self.candidates[np.argsort(-self.effects, kind="stable")]

    def trainings(self, seeds: Sequence[int | None]) -> list[Training]:
        """A round's: random parts of the candidates, under each of the seeds in turn."""
        often = np.clip(self.likely, RARELY, 1 - RARELY)
        self.inside = self._rng.random((SETS_A_ROUND * len(seeds), len(often))) < often
        return [Training(flip_set(self.candidates[part]), seeds[k % len(seeds)]) for k, part in enumerate(self.inside)]

    def learn(self, gains: NDArray[np.floating]) -> None:
        """`gains`: how far each training of the round went towards the other decision. What diverged says nothing."""
        inside, gains = self._by_seed(np.asarray(gains, np.float64))
        if not gains.any():
            return
        if self._prior is None:
            self._prior = explained(inside, gains, self._expected)
        slope, spread, noise = self._prior
        self._precision = KEPT * self._precision + inside.T @ inside / noise
        self._told = KEPT * self._told + inside.T @ gains / noise
        covariance = np.linalg.inv(self._precision + np.eye(len(self.candidates)) / spread)
        self.effects = covariance @ (self._told + slope * self._expected / spread)
        best = np.sort(self.effects)[::-1]
        last = best[self.labels - 1 : self.labels + 1].mean()
        doubt = np.sqrt(np.diag(covariance)) + DOUBT * self.effects.std()
        self.likely = expit(1.7 * (self.effects - last) / doubt)  # about the normal distribution's

    def _by_seed(self, gains: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Flips and gains less their mean under the same seed; zeros where a training diverged."""
        by_seed = gains.reshape(SETS_A_ROUND, -1)
        finite = np.isfinite(by_seed)
        ended = np.maximum(1, finite.sum(axis=0))
        inside = np.where(finite[:, :, None], self.inside.reshape(*by_seed.shape, -1), 0.0)
        inside = np.where(finite[:, :, None], inside - inside.sum(axis=0) / ended[:, None], 0.0)
        kept = np.where(finite, by_seed, 0.0)
        kept = np.where(finite, kept - kept.sum(axis=0) / ended, 0.0)
        return inside.reshape(len(gains), -1), kept.ravel()


class Prior(NamedTuple):
    """Before a candidate is measured: its effect is `slope` times what was expected, give or take (variances)."""

    slope: float
    spread: float
    noise: float


def explained(inside: NDArray[np.float64], gains: NDArray[np.float64], expected: NDArray[np.float64]) -> Prior:
    """The prior under which the gains are likeliest: how much of them is the expected order, how much other effects of
    the candidates, and how much noise."""
    left, singular, _ = np.linalg.svd(inside, full_matrices=False)
    along, foretold = left.T @ gains, left.T @ (inside @ expected)
    across = max(0.0, float(gains @ gains - along @ along))
    best, found = -np.inf, Prior(0.0, 1.0, 1.0)
    for ratio in np.geomspace(1e-5, 1e2, 29):  # of the effects' variance to the noise's
        scale = 1 + ratio * singular**2
        known = float((foretold**2 / scale).sum())
        slope = max(0.0, float((foretold * along / scale).sum() / known)) if known else 0.0
        noise = (float(((along - slope * foretold) ** 2 / scale).sum()) + across) / len(gains)
        noise = max(noise, 1e-12 * float(gains @ gains))
        likelihood = -0.5 * (len(gains) * np.log(noise) + float(np.log(scale).sum()))
        if likelihood > best:
            best, found = likelihood, Prior(slope, ratio * noise, noise)
    return found

"""What the default search ranks by: the exact training gradient, the published score, or the mean of both.

The gradient looks ahead through training but can be rough; the published score is blind to training but local.
Which of the three leads is decided by a trial: for a few of the people, each flips its best labels, the whole budget at
once, and the one that moves them furthest is used for all. The gradient's predictions for single labels are compared
with retrainings too, so that a verdict can say how far to trust them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from butfor.learn.recipe import FlipSet, Floats, Network, Rows
from butfor.rank.chance import person_key
from butfor.rank.combined import Combined, beaten
from butfor.rank.gradient import Gradient, Retrain, away, smoothness

SAMPLE, FLIPS = 8, 12
"""People of the trial, and labels on which single predictions are compared with retrainings."""
POOR = 0.2
"""Mean rank correlation below which single predictions are called poor."""
LEADERS = {
    "both": "the gradient and the published ranking together",
    "gradient": "the gradient alone",
    "published": "the published ranking alone",
}
"""Who may lead the search, in words."""


class Guided:
    """A mean of two rankings, by the share of rows each row beats, or one of them alone: see `leader`."""

    name = "guided"

    def __init__(self, leader: str = "both") -> None:
        self.gradient = Gradient()
        self.published = Combined()
        self.leader = leader
        self._subject: tuple[Network, Rows] | None = None
        self._scored: dict[int, NDArray[np.floating[Any]]] = {}
        """The gradient's scores of the people asked about last, by `person_key`, for this subject."""

    def train_on(self, device: str) -> None:
        self.gradient.train_on(device)

    @staticmethod
    def trial(people: int) -> int:
        """How many retrainings `prepare` takes at the most."""
        return len(LEADERS) * min(people, SAMPLE) + FLIPS + 1

    def prepare(
        self, retrain: Retrain, network: Network, rows: Rows, people: Floats, psi: NDArray[np.bool_], budget: int
    ) -> dict[str, Any]:
        """Hold the trial with the first of the people; what came out goes into the record. `retrain` answers about
        all of them."""
        sample, psi = people[:SAMPLE], psi[:SAMPLE]
        predicted = self._gradient_scores(network, rows, sample)
        sets = [
            flips
            for leader in LEADERS
            for flips in _best_sets(self._led_by(leader, network, rows, sample), psi, budget)
        ]
        logits = retrain(sets)[:, : len(sample)]
        before = network.logits(sample)
        own = logits.reshape(len(LEADERS), len(sample), len(sample)).diagonal(axis1=1, axis2=2)
        gains = ((own - before) * away(before)).mean(axis=1)
        self.leader = list(LEADERS)[int(np.argmax(gains))]
        singles = smoothness(lambda flips: retrain(flips)[:, : len(sample)], predicted, count=FLIPS).overall
        return {
            "spearman": round(singles.spearman, 3),
            "slope": round(singles.slope, 3),
            "flips": singles.flips,
            "people": len(sample),
            "poor": singles.spearman < POOR,
            "leader": self.leader,
            "gains": {leader: round(float(gain), 4) for leader, gain in zip(LEADERS, gains, strict=True)},
        }

    def score(self, network: Network, rows: Rows, people: Floats) -> NDArray[np.float64]:
        return self._led_by(self.leader, network, rows, people)

    def _led_by(self, leader: str, network: Network, rows: Rows, people: Floats) -> NDArray[np.float64]:
        parts = []
        if leader != "published":
            parts.append(beaten(self._gradient_scores(network, rows, people)))
        if leader != "gradient":
            parts.append(beaten(self.published.score(network, rows, people)))
        return np.mean(parts, axis=0)

    def _gradient_scores(self, network: Network, rows: Rows, people: Floats) -> NDArray[np.floating[Any]]:
        if self._subject is None or self._subject[0] is not network or self._subject[1] is not rows:
            self._subject, self._scored = (network, rows), {}
        keys = [person_key(x) for x in people]
        missing = [k for k, key in enumerate(keys) if key not in self._scored]
        if missing:
            known = {key: self._scored[key] for key in keys if key in self._scored}  # no more than one block is kept
            scores = self.gradient.score(network, rows, people[missing])
            self._scored = known | {keys[k]: score for k, score in zip(missing, scores, strict=True)}
        return np.array([self._scored[key] for key in keys])


def _best_sets(scores: NDArray[np.float64], psi: NDArray[np.bool_], budget: int) -> list[FlipSet]:
    """Each person's `budget` best rows of those that may be flipped."""
    order = np.argsort(np.where(psi, -scores, np.inf), axis=1, kind="stable")
    counts = np.minimum(budget, psi.sum(axis=1))
    return [tuple(sorted(map(int, rows[:count]))) for rows, count in zip(order, counts, strict=True)]

"""What the default search ranks by: the exact training gradient and the published score, half each.

The gradient looks ahead through training but can be rough; the published score is blind to training but
local. Before it is used, the gradient is put to the test on a few real retrainings; where its predictions do
not agree with them, it is left out.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from butfor.learn.recipe import Engine, Floats, Network, Rows
from butfor.rank.chance import person_key
from butfor.rank.combined import Combined, beaten
from butfor.rank.gradient import Agreement, Gradient, smoothness

SAMPLE, FLIPS = 8, 12
"""People and labels on which predictions are compared with retrainings."""
POOR = 0.2
"""Mean rank correlation below which the gradient is not trusted."""


class Guided:
    """The mean of two rankings, by the share of rows each row beats."""

    name = "guided"

    def __init__(self, device: str = "cpu") -> None:
        self.gradient = Gradient(device=device)
        self.published = Combined()
        self.agreement: Agreement | None = None
        self._scored: dict[int, NDArray[np.floating[Any]]] = {}

    def prepare(self, engine: Engine, network: Network, rows: Rows, people: Floats) -> dict[str, Any]:
        """Put the gradient to the test on some of the people; what came out goes into the record."""
        sample = people[:SAMPLE]
        scores = self.gradient.score(network, rows, sample)
        self._scored = {person_key(x): score for x, score in zip(sample, scores, strict=True)}
        self.agreement = smoothness(engine, network.recipe, rows, sample, scores, count=FLIPS).overall
        return {
            "spearman": round(self.agreement.spearman, 3),
            "slope": round(self.agreement.slope, 3),
            "flips": self.agreement.flips,
            "people": len(sample),
            "trusted": self.trusted,
        }

    @property
    def trusted(self) -> bool:
        return self.agreement is None or self.agreement.spearman >= POOR

    def score(self, network: Network, rows: Rows, people: Floats) -> NDArray[np.float64]:
        published = beaten(self.published.score(network, rows, people))
        if not self.trusted:
            return published
        missing = np.array([person_key(x) not in self._scored for x in people], dtype=bool)
        scores = np.empty((len(people), rows.n), np.float32)
        if missing.any():
            scores[missing] = self.gradient.score(network, rows, people[missing])
        for k in np.flatnonzero(~missing):
            scores[k] = self._scored[person_key(people[k])]
        return (beaten(scores) + published) / 2

"""Nearest training rows first: L2 distance in the encoded feature space."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from butfor.learn.protocols import Model, Table
from butfor.rank.numbers import numbers_of
from butfor.rank.ranking import BLOCK, Ranking, Scores

FADING = 4.0
"""How fast nearness fades: at the median distance it is e to minus this."""


class Distance(Ranking):
    """Minus the Euclidean distance between the person and each training row."""

    name = "distance"

    def score(self, model: Model, table: Table, people: pd.DataFrame) -> NDArray[np.float64]:
        from sklearn.metrics.pairwise import euclidean_distances

        rows, asked = numbers_of(model, table, people)
        return -euclidean_distances(np.asarray(asked, np.float64), rows.astype(np.float64))

    def total(self, model: Model, table: Table, people: pd.DataFrame, weights: Scores, out: int) -> Scores:
        """Nearness instead, which fades with the distance: what is far counts for nothing, however many there are."""
        total, scale = np.zeros((len(weights), table.n)), None
        for first in range(0, len(people), BLOCK):
            distances = -self.score(model, table, people.iloc[first : first + BLOCK])
            scale = scale or float(np.median(distances)) or 1.0
            total += weights[:, first : first + BLOCK] @ np.exp(-((distances / scale) ** 2) * FADING)
        return total

"""Nearest training rows first: L2 distance in the encoded feature space."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from butfor.learn.recipe import Floats, Network, Rows


class Distance:
    """Minus the Euclidean distance between the person and each training row."""

    name = "distance"

    def score(self, network: Network, rows: Rows, people: Floats) -> NDArray[np.float64]:
        from sklearn.metrics.pairwise import euclidean_distances

        return -euclidean_distances(np.asarray(people, np.float64), rows.X.astype(np.float64))

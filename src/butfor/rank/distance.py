"""Nearest training rows first: L2 distance in the encoded feature space."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from butfor.learn.protocols import Model, Table
from butfor.rank.numbers import numbers_of
from butfor.rank.ranking import Ranking


class Distance(Ranking):
    """Minus the Euclidean distance between the person and each training row."""

    name = "distance"

    def score(self, model: Model, table: Table, people: pd.DataFrame) -> NDArray[np.float64]:
        from sklearn.metrics.pairwise import euclidean_distances

        rows, asked = numbers_of(model, table, people)
        return -euclidean_distances(np.asarray(asked, np.float64), rows.astype(np.float64))

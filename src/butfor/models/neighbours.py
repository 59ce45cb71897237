"""Models of `sklearn.neighbors`: k nearest rows vote."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from butfor.models.estimator import Array, EstimatorModel
from butfor.models.seam import Floats
from butfor.support.threads import single_threaded

MAX_PEOPLE = 256
"""The most people per call, on one thread: with more, scikit-learn breaks ties differently."""


class NeighboursModel(EstimatorModel):
    """A model that looks at nearby rows; ties do not depend on who else is asked about."""

    def _answers(self, people: pd.DataFrame, answer: Callable[[Any], Floats]) -> Floats:
        blocks = _blocks(people) or [people]
        with single_threaded():
            answers = [EstimatorModel._answers(self, block, answer) for block in blocks]
        return np.concatenate(answers)


class NearestModel(NeighboursModel):
    """k nearest neighbours whose votes count equally or by distance. The neighbours do not depend
    on the labels."""

    def neighbours(self, people: pd.DataFrame) -> tuple[NDArray[np.int64], Array]:
        """The nearest rows and the weight of each vote, both `[people × k]`."""
        with single_threaded():
            blocks = [self.final.kneighbors(self.step_inputs(some)) for some in _blocks(people)]
        distances = np.concatenate([distances for distances, _ in blocks])
        rows = np.concatenate([rows for _, rows in blocks])
        if self.final.weights == "uniform":
            return rows, np.ones_like(distances)
        with np.errstate(divide="ignore"):
            weights = 1 / distances
        here = np.isinf(weights)  # if neighbours are at distance 0, only they count
        return rows, np.where(here.any(axis=1, keepdims=True), here.astype(float), weights)


def _blocks(people: pd.DataFrame) -> list[pd.DataFrame]:
    return [people.iloc[k : k + MAX_PEOPLE] for k in range(0, len(people), MAX_PEOPLE)]

"""The published score: surrogate and activation similarity, each min–max normalised per person, averaged."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from butfor.learn.protocols import Model, Table
from butfor.rank.activation import Activation
from butfor.rank.ranking import Ranking, Scores, adapted, checked_scores
from butfor.rank.surrogate import Surrogate


class Combined(Ranking):
    """The mean of several rankings' min–max normalised scores; by default the two published ones."""

    name = "combined"

    def __init__(self, parts: Sequence[Ranking] | None = None) -> None:
        self.parts = [adapted(part) for part in parts or (Surrogate(), Activation())]

    @property
    def needs(self) -> str:  # type: ignore[override]
        return " and ".join(dict.fromkeys(part.needs for part in self.parts))

    def accepts(self, model: Model) -> bool:
        return all(part.accepts(model) for part in self.parts)

    def score(self, model: Model, table: Table, people: pd.DataFrame) -> NDArray[np.float64]:
        total = np.zeros((len(people), table.n))
        for part in self.parts:
            total += normalised(checked_scores(part, model, table, people))
        return total / len(self.parts)


def normalised(scores: Scores) -> Scores:
    """Each person's scores from 0 to 1; all 0 where they are all the same."""
    low = scores.min(axis=1, keepdims=True)
    spread = scores.max(axis=1, keepdims=True) - low
    return (scores - low) / np.where(spread > 0, spread, 1)


def beaten(scores: Scores) -> NDArray[np.float64]:
    """The share of rows that each row's score is above, equal scores sharing their place."""
    from scipy.stats import rankdata

    return (rankdata(scores, axis=1) - 1) / max(1, scores.shape[1] - 1)

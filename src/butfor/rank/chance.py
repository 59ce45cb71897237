"""A random order: the baseline every other ranking must beat."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from butfor.learn.protocols import Model, Table
from butfor.rank.ranking import Ranking


class Chance(Ranking):
    """Uniform scores, drawn per person from `seed` and the person's own values."""

    name = "chance"
    draws = True

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed

    def score(self, model: Model, table: Table, people: pd.DataFrame) -> NDArray[np.float64]:
        keys = model.person_keys(people)
        draws = [np.random.default_rng([self.seed, key]).random(table.n) for key in keys]
        return np.array(draws).reshape(len(people), table.n)

"""A random order: the baseline every other ranking must beat."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from butfor.rank.ranking import AnyModel
from butfor.seam import Model, Table, person_keys


class Chance(AnyModel):
    """Uniform scores, drawn per person from `seed` and the person's own values."""

    name = "chance"

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed

    def score(self, model: Model, table: Table, people: pd.DataFrame) -> NDArray[np.float64]:
        keys = person_keys(model, people)
        draws = [np.random.default_rng([self.seed, key]).random(table.n) for key in keys]
        return np.array(draws).reshape(len(people), table.n)

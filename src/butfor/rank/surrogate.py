"""How much a ridge regression's prediction for the person rests on each training label.

The ridge prediction for x is Σ zᵢyᵢ with z = xᵀ(XᵀX + λI)⁻¹Xᵀ (section 2 of the paper).
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from butfor.errors import SettingError
from butfor.learn.protocols import Model, Numbers, Table, away
from butfor.rank.numbers import numbers_of
from butfor.rank.ranking import Ranking


class Surrogate(Ranking):
    """|zᵢ| as published; `signed=True` instead scores the change of the ridge prediction, away from
    the person's present class, if label i were flipped (unit: probability). For ridge regression itself
    flipping in that signed order is optimal; |zᵢ| lets rows of the wrong sign through."""

    def __init__(self, ridge: float = 1.0, signed: bool = False) -> None:
        if not ridge > 0:
            raise SettingError(f"ridge={ridge} must be above 0.")
        self.ridge = ridge
        self.signed = signed
        self.name = "surrogate-signed" if signed else "surrogate"

    def weights(self, rows: Numbers, people: Numbers) -> NDArray[np.float64]:
        """z, `[people × training rows]`: z·y is the ridge prediction."""
        X = rows.astype(np.float64)
        gram = X.T @ X + self.ridge * np.eye(X.shape[1])
        return np.linalg.solve(gram, np.asarray(people, np.float64).T).T @ X.T

    def score(self, model: Model, table: Table, people: pd.DataFrame) -> NDArray[np.float64]:
        z = self.weights(*numbers_of(model, table, people))
        if not self.signed:
            return np.abs(z, out=z)
        z *= away(model.logits(people))[:, None]
        z *= (1 - 2 * table.zero_one)[None, :]
        return z

"""How much a ridge regression's prediction for the person rests on each training label.

The ridge prediction for x is Σ zᵢyᵢ with z = xᵀ(XᵀX + λI)⁻¹Xᵀ (section 2 of the paper).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from butfor.errors import SettingError
from butfor.learn.recipe import Floats, Network, Rows


class Surrogate:
    """|zᵢ| as published; `signed=True` instead scores the change of the ridge prediction, away from
    the person's present class, if label i were flipped (unit: probability). For ridge regression itself
    flipping in that signed order is optimal; |zᵢ| lets rows of the wrong sign through."""

    def __init__(self, ridge: float = 1.0, signed: bool = False) -> None:
        if not ridge > 0:
            raise SettingError(f"ridge={ridge} must be above 0.")
        self.ridge = ridge
        self.signed = signed
        self.name = "surrogate-signed" if signed else "surrogate"

    def weights(self, rows: Rows, people: Floats) -> NDArray[np.float64]:
        """z, `[people × training rows]`: z·y is the ridge prediction."""
        X = rows.X.astype(np.float64)
        gram = X.T @ X + self.ridge * np.eye(rows.d)
        return np.linalg.solve(gram, np.asarray(people, np.float64).T).T @ X.T

    def score(self, network: Network, rows: Rows, people: Floats) -> NDArray[np.float64]:
        z = self.weights(rows, people)
        if not self.signed:
            return np.abs(z, out=z)
        away = np.where(network.predict(people) == 1, -1.0, 1.0)
        z *= away[:, None]
        z *= (1 - 2 * rows.y)[None, :]
        return z

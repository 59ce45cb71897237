"""Regressions on 0 and 1 that are linear in them: least squares, ridge, kernel ridge.

The prediction is a sum over the labels, so that a flip moves it by the same amount under any other
flips. `linear_engine.py` trains them by adding these effects."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LinearRegression, Ridge

from butfor.models.estimator import Array, EstimatorModel
from butfor.models.linear import reaches_minimum, solved_directly
from butfor.models.seam import Floats
from butfor.models.steps import steps_of, uses_no_label
from butfor.models.thresholded import ThresholdedRegressor
from butfor.table.table import Table


class RegressionModel(EstimatorModel):
    """A fitted `ThresholdedRegressor` whose regression `adds_up`."""

    @property
    def exact(self) -> bool:  # type: ignore[override]
        """Least squares on sparse inputs are not solved in one step: where they stop is not linear
        in labels."""
        regression = steps_of(self.final.regressor_)[-1]
        if type(regression) is LinearRegression and not hasattr(regression, "singular_"):
            return False
        return reaches_minimum(regression)

    def flip_effects(
        self, table: Table, people: pd.DataFrame, contrast: Floats | None = None
    ) -> Array:
        """The change of each person's prediction if label i is flipped, `[people × n]`."""
        rows = self.step_inputs(table.X)
        shares = self.final.share_of_labels(rows, self.step_inputs(people), table.weight)
        return np.asarray(shares * (1 - 2 * table.zero_one))


def adds_up(estimator: Any) -> bool:
    """Whether it is a regression on 0 and 1 that is a sum over the labels, with weights that do not
    depend on labels."""
    *before, final = steps_of(estimator)
    if type(final) is not ThresholdedRegressor:
        return False
    *inside, regression = steps_of(final.new_regressor())
    linear = type(regression) in (LinearRegression, Ridge, KernelRidge)
    return linear and solved_directly(regression) and all(map(uses_no_label, before + inside))

"""Trees, forests and boosted trees: the leaves that rows share.

`boosting.py` beside this file trains scikit-learn's histogram boosting."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from butfor.models.estimator import EstimatorModel

LEAF_DECIMALS = 9
"""Two leaves of a tree rarely have values that agree in so many decimals."""


class TreesModel(EstimatorModel):
    """Trees with the method `apply`, which gives each row's leaf: scikit-learn's and xgboost's."""

    def leaves(self, rows: pd.DataFrame) -> NDArray[Any]:
        return np.asarray(self.final.apply(self.step_inputs(rows))).reshape(len(rows), -1)


class StagedModel(EstimatorModel):
    """Boosted stages, such as histograms, that give each tree's value instead of its leaf."""

    def leaves(self, rows: pd.DataFrame) -> NDArray[Any]:
        scores = self.final.staged_decision_function(self.step_inputs(rows))
        stages = np.array([stage.reshape(len(rows), -1) for stage in scores])
        steps = np.round(np.diff(stages, axis=0, prepend=stages[:1] * 0), LEAF_DECIMALS)
        return steps.transpose(1, 0, 2).reshape(len(rows), -1)


class LightGBMModel(EstimatorModel):
    """Boosted trees of LightGBM."""

    def leaves(self, rows: pd.DataFrame) -> NDArray[Any]:
        leaves = self.final.predict(self.step_inputs(rows), pred_leaf=True)
        return np.asarray(leaves).reshape(len(rows), -1)

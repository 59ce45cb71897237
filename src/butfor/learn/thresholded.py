"""ThresholdedRegressor: a regression on 0 and 1 that decides, class 1 above a threshold.

Many decisions are made that way: a linear probability model, a kernel regression, a score with a line drawn through it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from butfor.errors import SettingError
from butfor.learn.protocols import two_classes

TARGETS = 2**25
"""Targets held at a time where every label has an output of its own."""


class ThresholdedRegressor(ClassifierMixin, BaseEstimator):
    """Fits `regressor` on the labels as 0 and 1, and decides for the second class where it predicts more than
    `threshold`. None: ordinary least squares, the linear probability model."""

    def __init__(self, regressor: Any = None, threshold: float = 0.5) -> None:
        self.regressor = regressor
        self.threshold = threshold

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> ThresholdedRegressor:
        if not np.isfinite(self.threshold):
            raise SettingError(f"threshold={self.threshold} must be a number; 0.5 is halfway between the two labels.")
        y = np.asarray(y)
        self.classes_ = two_classes(y)
        self.regressor_ = self.fresh()
        targets = (y == self.classes_[1]).astype(np.float64)
        self.regressor_.fit(X, targets, **self._weights(sample_weight))
        self.n_features_in_ = X.shape[1]
        return self

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        check_is_fitted(self)
        return np.asarray(np.ravel(self.regressor_.predict(X)) - self.threshold, np.float64)

    def predict(self, X: Any) -> NDArray[Any]:
        return self.classes_[(self.decision_function(X) > 0).astype(np.int64)]

    def fresh(self) -> Any:
        """The regressor, not yet fitted."""
        from sklearn.linear_model import LinearRegression

        return LinearRegression() if self.regressor is None else clone(self.regressor)

    def share_of_labels(self, X: Any, people: Any, sample_weight: Any = None) -> NDArray[np.float64]:
        """For a regressor that is linear in its targets: how much of each person's prediction each row's label is,
        `[people × rows]`. By the regressor's own fit, with one output per label that is 1 for this label alone."""
        rows = X.shape[0]
        block = max(1, TARGETS // rows)
        found = []
        for first in range(0, rows, block):
            alone = np.zeros((rows, min(block, rows - first)))
            alone[np.arange(first, first + alone.shape[1]), np.arange(alone.shape[1])] = 1.0
            regressor = self.fresh().fit(X, alone, **self._weights(sample_weight))
            found.append(np.asarray(regressor.predict(people), np.float64).reshape(-1, alone.shape[1]))
        return np.concatenate(found, axis=1)

    def _weights(self, sample_weight: Any) -> dict[str, Any]:
        if sample_weight is None:
            return {}
        if not has_fit_parameter(self.fresh(), "sample_weight"):
            raise SettingError(f"{type(self.fresh()).__name__} takes no sample_weight; leave it out.")
        return {"sample_weight": sample_weight}

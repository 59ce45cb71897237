"""`ThresholdedRegressor`: a regression on 0 and 1 with a threshold, for linear probability models,
kernel regressions and scores."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.linear_model import LinearRegression
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from butfor.models.two_classes import two_classes
from butfor.support.errors import SettingError

MAX_TARGETS = 2**25
"""Targets held at a time if every label has its own output."""


class ThresholdedRegressor(ClassifierMixin, BaseEstimator):
    """A classifier made of a regression on the labels 0 and 1.

    Parameters
    ----------
    regressor : estimator or None, default=None
        The regression. None is ordinary least squares, the linear probability model.
    threshold : float, default=0.5
        The decision is the second class if the prediction exceeds it.

    Examples
    --------
    >>> import numpy as np
    >>> from butfor import ThresholdedRegressor
    >>> model = ThresholdedRegressor().fit(np.array([[0], [1], [2], [3]]), [0, 0, 1, 1])
    >>> model.predict(np.array([[0.5], [2.5]])).tolist()
    [0, 1]
    """

    def __init__(self, regressor: Any = None, threshold: float = 0.5) -> None:
        self.regressor = regressor
        self.threshold = threshold

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> ThresholdedRegressor:
        if not np.isfinite(self.threshold):
            raise SettingError(
                f"threshold={self.threshold} must be a number, such as 0.5, halfway between the "
                "two labels."
            )
        y = np.asarray(y)
        self.classes_ = two_classes(y)
        self.regressor_ = self.fitted_regressor(
            X, (y == self.classes_[1]).astype(np.float64), sample_weight
        )
        self.n_features_in_ = X.shape[1]
        return self

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        check_is_fitted(self)
        return np.asarray(np.ravel(self.regressor_.predict(X)) - self.threshold, np.float64)

    def predict(self, X: Any) -> NDArray[Any]:
        return self.classes_[(self.decision_function(X) > 0).astype(np.int64)]

    def new_regressor(self) -> Any:
        return LinearRegression() if self.regressor is None else clone(self.regressor)

    def fitted_regressor(self, X: Any, targets: NDArray[np.float64], sample_weight: Any) -> Any:
        regressor = self.new_regressor()
        if sample_weight is None:
            return regressor.fit(X, targets)
        if not has_fit_parameter(regressor, "sample_weight"):
            raise SettingError(f"{type(regressor).__name__} takes no sample_weight; leave it out.")
        return regressor.fit(X, targets, sample_weight=sample_weight)

    def share_of_labels(
        self, X: Any, people: Any, sample_weight: Any = None
    ) -> NDArray[np.float64]:
        """For a regressor that is linear in its targets: the weight of each row's label in each
        person's prediction, `[people × rows]`, from the regressor's own fit with one output per
        label."""
        rows = X.shape[0]
        shares = []
        block = max(1, MAX_TARGETS // rows)
        for first in range(0, rows, block):
            alone = np.eye(rows, min(block, rows - first), -first)
            predicted = self.fitted_regressor(X, alone, sample_weight).predict(people)
            shares.append(np.asarray(predicted, np.float64).reshape(-1, alone.shape[1]))
        return np.concatenate(shares, axis=1)

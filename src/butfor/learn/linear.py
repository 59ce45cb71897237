"""What flipping a label does to a linear classifier: exactly for ridge, by one Newton step for logistic regression.

Logistic regression minimises C·Σ sᵢ·lossᵢ + ½‖w‖². Flipping label i adds −C·sᵢ(1 − 2yᵢ)x̃ᵢ to the gradient, and with the
exact Hessian H = C·Σ sᵢσ'(zᵢ)x̃ᵢx̃ᵢᵀ + I the minimum moves by H⁻¹ of that to first order; the intercept (the 1 in x̃) has
no penalty. A ridge classifier's prediction Σ zᵢtᵢ is linear in its targets t = ±1, so there the effect is exact; so it
is for regressions on 0 and 1 that are linear in them (least squares, ridge, kernel ridge, neighbours).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from butfor.learn.sklearn import TOGETHER, SklearnModel, by_neighbours, last_step, sees_no_label
from butfor.learn.thresholded import ThresholdedRegressor
from butfor.seam import Model, Table

Array = NDArray[np.float64]


DIRECT = ("auto", "cholesky", "svd")
"""Solvers of ridge that end at the minimum itself."""


def adds_up(estimator: Any) -> bool:
    """Whether the margin is a sum over the labels, each with a weight that no label has a say in: then flipping one
    moves it by the same amount, whatever else is flipped."""
    from sklearn.kernel_ridge import KernelRidge
    from sklearn.linear_model import LinearRegression, Ridge, RidgeClassifier
    from sklearn.neighbors import KNeighborsRegressor

    if not sees_no_label(estimator):
        return False
    final = last_step(estimator)
    if type(final) is RidgeClassifier:
        return not final.positive and final.solver in DIRECT and final.class_weight is None
    if type(final) is not ThresholdedRegressor:
        return False
    regressor = final.fresh()
    inner = last_step(regressor)
    if type(inner) in (LinearRegression, Ridge):
        usual = not inner.positive and getattr(inner, "solver", "auto") in DIRECT
    else:
        usual = type(inner) is KernelRidge or (
            type(inner) is KNeighborsRegressor and inner.weights in ("uniform", "distance")
        )
    return usual and sees_no_label(regressor)


def solved_directly(fitted: Any) -> bool:
    """Whether a fitted model that adds up was solved in one step. Ridge and least squares on sparse inputs are not:
    they stop near the minimum, and where they stop depends on the labels in other ways too."""
    from sklearn.linear_model import LinearRegression

    final = last_step(fitted)
    if isinstance(final, ThresholdedRegressor):
        final = last_step(final.regressor_)
    if hasattr(final, "solver"):
        return getattr(final, "solver_", final.solver) in DIRECT
    return type(final) is not LinearRegression or hasattr(final, "singular_")


def is_linear(model: Model) -> bool:
    """A logistic regression with the usual penalty, a ridge classifier, or a regression on 0 and 1 whose predictions
    are sums over the labels; where its inputs are known."""
    if not isinstance(model, SklearnModel):
        return False
    from sklearn.linear_model import LogisticRegression, RidgeClassifier

    final = model.final
    if type(final) is ThresholdedRegressor:
        return adds_up(model.estimator)
    if type(final) is LogisticRegression:
        plain = final.l1_ratio in (None, 0) and getattr(final, "penalty", None) not in ("l1", "elasticnet")
    else:
        plain = type(final) is RidgeClassifier
    return plain and model.separable


def flip_effects(model: Model, table: Table, people: pd.DataFrame) -> Array:
    """The change of each person's margin if label i were flipped, `[people × n]`."""
    assert isinstance(model, SklearnModel)
    if len(people) > TOGETHER and by_neighbours(model.estimator):
        blocks = [people.iloc[k : k + TOGETHER] for k in range(0, len(people), TOGETHER)]
        return np.concatenate([flip_effects(model, table, block) for block in blocks])
    if isinstance(model.final, ThresholdedRegressor):
        rows, those = model.step_inputs(table.X), model.step_inputs(people)
        return model.final.share_of_labels(rows, those, table.weight) * (1 - 2 * table.zero_one)[None, :]
    X, asked = model.inputs(table.X), model.inputs(people)
    assert X is not None
    assert asked is not None
    y, weight = table.zero_one.astype(np.float64), _weights(model.final, table)
    if type(model.final).__name__ == "RidgeClassifier":
        return _ridge(model.final, X, asked, y, weight)
    return _logistic(model.final, X, asked, y, weight)


def _weights(estimator: Any, table: Table) -> Array:
    """Each row's weight as the estimator has it, class weights included: as they are before the flip."""
    from sklearn.utils.class_weight import compute_sample_weight

    weight = np.ones(table.n) if table.weight is None else np.asarray(table.weight, np.float64)
    if estimator.class_weight is not None:
        weight = weight * compute_sample_weight(estimator.class_weight, estimator.classes_[table.zero_one.astype(int)])
    return weight


def _logistic(estimator: Any, X: Array, people: Array, y: Array, weight: Array) -> Array:
    X, people = (with_ones(A, estimator.fit_intercept) for A in (X, people))
    H = curvature(X, weight, penalty(estimator, X.shape[1]), coefficients(estimator))
    effects: Array = (_solve(H, people.T).T @ X.T) * (weight * (1 - 2 * y))[None, :]
    return effects


def coefficients(estimator: Any) -> Array:
    """Weights and, where there is one, the intercept behind them."""
    w = np.ravel(estimator.coef_).astype(np.float64)
    return np.append(w, estimator.intercept_[0]) if estimator.fit_intercept else w


def penalty(estimator: Any, size: int) -> Array:
    """½ Σ penaltyⱼ wⱼ² is added to the sum of the losses; the intercept's is 0."""
    strength = 0.0 if getattr(estimator, "penalty", "l2") is None or not np.isfinite(estimator.C) else 1 / estimator.C
    return np.append(np.full(size - 1, strength), 0.0) if estimator.fit_intercept else np.full(size, strength)


def curvature(X: Array, weight: Array, penalty: Array, w: Array) -> Array:
    """The Hessian of the penalised sum of losses at w."""
    from scipy.special import expit

    share = expit(X @ w)
    return np.asarray((X * (weight * share * (1 - share))[:, None]).T @ X + np.diag(penalty))


def _ridge(estimator: Any, X: Array, people: Array, y: Array, weight: Array) -> Array:
    if estimator.fit_intercept:
        centre = np.average(X, axis=0, weights=weight)
        share = weight / weight.sum()
    else:
        centre, share = np.zeros(X.shape[1]), np.zeros(len(X))
    centred = X - centre
    gram = (centred * weight[:, None]).T @ centred + estimator.alpha * np.eye(X.shape[1])
    z: Array = _solve(gram, (people - centre).T).T @ (centred * weight[:, None]).T + share[None, :]
    return z * (2 * (1 - 2 * y))[None, :]


def _solve(A: Array, b: Array) -> Array:
    """A⁻¹b for a symmetric matrix that may be singular: duplicate columns without a penalty."""
    try:
        from scipy.linalg import cho_factor, cho_solve

        return np.asarray(cho_solve(cho_factor(A), b))
    except np.linalg.LinAlgError:
        return np.asarray(np.linalg.lstsq(A, b, rcond=None)[0])


def with_ones(X: Array, intercept: bool) -> Array:
    return np.column_stack([X, np.ones(len(X))]) if intercept else X

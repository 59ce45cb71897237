"""The effect of a flip on a linear classifier: exact for ridge, one Newton step for logistic regression.

Logistic regression minimises C·Σ sᵢ·lossᵢ + ½‖w‖². Flipping label i adds −C·sᵢ(1 − 2yᵢ)x̃ᵢ to the gradient, and with the
exact Hessian H = C·Σ sᵢσ'(zᵢ)x̃ᵢx̃ᵢᵀ + I the minimum moves by H⁻¹ of that to first order; the intercept (the 1 in x̃) has
no penalty. A ridge classifier's prediction Σ zᵢtᵢ is linear in its targets t = ±1, so its effects are exact. So are
those of regressions on 0 and 1 that are linear in them (least squares, ridge, kernel ridge, neighbours).

With k classes the losses are those of the softmax, w has k rows, and H = C·Σ sᵢ(diag pᵢ − pᵢpᵢᵀ) ⊗ x̃ᵢx̃ᵢᵀ + I; a flip
from class a to b adds −C·sᵢ(e_b − e_a) ⊗ x̃ᵢ to the gradient.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from butfor.models.learner import Table

Array = NDArray[np.float64]


def flip_effects(final: Any, X: Array, people: Array, table: Table) -> Array:
    """The change of each person's margin if label i is flipped, `[people × n]`, for a fitted logistic regression or
    ridge classifier with inputs `X` of the rows and `people`."""
    y, weight = table.zero_one.astype(np.float64), _weights(final, table)
    if type(final).__name__ == "RidgeClassifier":
        return ridge_effects(final, X, people, y, weight)
    return _logistic(final, X, people, y, weight)


def _weights(estimator: Any, table: Table) -> Array:
    """Each row's weight for the estimator, with class weights, before the flip."""
    from sklearn.utils.class_weight import compute_sample_weight

    weight = np.ones(table.n) if table.weight is None else np.asarray(table.weight, np.float64)
    if estimator.class_weight is not None:
        weight = weight * compute_sample_weight(estimator.class_weight, estimator.classes_[table.codes])
    return weight


def multiclass_effects(final: Any, X: Array, people: Array, table: Table, contrast: NDArray[Any]) -> Array:
    """The same with more than two classes: the change of each person's sum of scores weighted by `contrast [people ×
    classes]`."""
    weight, classes = _weights(final, table), contrast.shape[1]
    if type(final).__name__ == "RidgeClassifier":
        effects = ridge_effects(final, X, people, np.zeros(table.n), weight)
        effects *= contrast[:, table.new_codes] - contrast[:, table.codes]
        return effects
    X, people = (with_ones(A, final.fit_intercept) for A in (X, people))
    outcomes = (contrast[:, :, None] * people[:, None, :]).reshape(len(people), -1)
    by_class = _solve(_softmax_curvature(final, X, weight), outcomes.T).T.reshape(len(outcomes), classes, -1)
    found = np.zeros((len(outcomes), table.n))
    for k in range(classes):
        moved = (table.new_codes == k).astype(float) - (table.codes == k)
        found += (by_class[:, k] @ X.T) * (weight * moved)
    return found


def _softmax_curvature(estimator: Any, X: Array, weight: Array) -> Array:
    """The Hessian of the penalised sum of losses, `[classes · inputs]` squared. Adding a constant to all scores does
    not change the softmax, so the intercepts have a direction without curvature; it gets a little."""
    from scipy.special import softmax

    w = np.column_stack([estimator.coef_, estimator.intercept_]) if estimator.fit_intercept else estimator.coef_
    shares, (classes, size) = softmax(X @ w.T, axis=1), w.shape
    blocks = np.empty((classes, size, classes, size))
    for a in range(classes):
        for b in range(a, classes):
            curved = weight * shares[:, a] * ((a == b) - shares[:, b])
            blocks[a, :, b] = (X * curved[:, None]).T @ X
            blocks[b, :, a] = blocks[a, :, b].T
    H = blocks.reshape(classes * size, classes * size)
    H += np.diag(np.tile(penalty(estimator, size), classes))
    return np.asarray(H + 1e-9 * np.trace(H) / len(H) * np.eye(len(H)))


def _logistic(estimator: Any, X: Array, people: Array, y: Array, weight: Array) -> Array:
    X, people, w = reduce_inputs(estimator, X, people)
    H = curvature(X, weight, penalty(estimator, X.shape[1]), w)
    effects: Array = (_solve(H, people.T).T @ X.T) * (weight * (1 - 2 * y))[None, :]
    return effects


def reduce_inputs(estimator: Any, X: Array, people: Array) -> tuple[Array, Array, Array]:
    """Rows and people, with a column of ones for an intercept, and the coefficients. If there are more inputs than
    rows, all are projected on the space that the rows span: the penalty is the same in every direction, so flips do not
    move the minimum out of it."""
    w, intercept = np.ravel(estimator.coef_).astype(np.float64), estimator.fit_intercept
    if X.shape[1] > len(X):
        basis = np.linalg.qr(X.T)[0]
        X, people, w = X @ basis, people @ basis, w @ basis
    return with_ones(X, intercept), with_ones(people, intercept), np.append(w, estimator.intercept_[:intercept])


def penalty(estimator: Any, size: int) -> Array:
    """½ Σ penaltyⱼ wⱼ² is added to the sum of losses; 0 for the intercept."""
    strength = 0.0 if getattr(estimator, "penalty", "l2") is None or not np.isfinite(estimator.C) else 1 / estimator.C
    return np.append(np.full(size - 1, strength), 0.0) if estimator.fit_intercept else np.full(size, strength)


def curvature(X: Array, weight: Array, penalty: Array, w: Array) -> Array:
    """The Hessian of the penalised sum of losses at w."""
    from scipy.special import expit

    share = expit(X @ w)
    return np.asarray((X * (weight * share * (1 - share))[:, None]).T @ X + np.diag(penalty))


def ridge_effects(estimator: Any, X: Array, people: Array, y: Array, weight: Array) -> Array:
    """The same for a ridge classifier, which need not be fitted."""
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
    """A⁻¹b for a symmetric matrix; it may be singular, with duplicate columns and no penalty."""
    try:
        from scipy.linalg import cho_factor, cho_solve

        return np.asarray(cho_solve(cho_factor(A), b))
    except np.linalg.LinAlgError:
        return np.asarray(np.linalg.lstsq(A, b, rcond=None)[0])


def with_ones(X: Array, intercept: bool) -> Array:
    return np.column_stack([X, np.ones(len(X))]) if intercept else X

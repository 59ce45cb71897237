"""Linear classifiers: their pulls, and the effect of a flip.

Logistic regression minimises C·Σ sᵢ·lossᵢ + ½‖w‖². Flipping label i adds −C·sᵢ(1 − 2yᵢ)x̃ᵢ to the
gradient, and with the exact Hessian H = C·Σ sᵢσ'(zᵢ)x̃ᵢx̃ᵢᵀ + I the minimum moves by H⁻¹ of that to
first order; the intercept (the 1 in x̃) has no penalty. A ridge classifier's prediction Σ zᵢtᵢ is
linear in its targets t = ±1, so its effects are exact. So are those of regressions on 0 and 1 that
are linear in them (`regression.py`).

With k classes the losses are those of the softmax, w has k rows, and H = C·Σ sᵢ(diag pᵢ − pᵢpᵢᵀ) ⊗
x̃ᵢx̃ᵢᵀ + I; a flip from class a to b adds −C·sᵢ(e_b − e_a) ⊗ x̃ᵢ to the gradient.

`linear_engine.py` beside this file trains many at once.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from scipy.special import expit, softmax
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.utils.class_weight import compute_sample_weight

from butfor.models.abilities import Pull
from butfor.models.estimator import EstimatorModel
from butfor.models.seam import Floats, named_pulls
from butfor.models.steps import steps_of, uses_no_label
from butfor.table.table import Table

Array = NDArray[np.float64]

DIRECT_SOLVERS = ("auto", "cholesky", "svd")
"""Solvers of ridge that reach the exact minimum."""


# --- the kinds ------------------------------------------------------------------------------------


class LinearModel(EstimatorModel):
    """A fitted estimator with coefficients, whose decision function may be their sum."""

    def pulls(self, people: pd.DataFrame, contrast: Floats | None = None) -> list[Pull] | None:
        inputs = self.encoded(people)
        counted = np.ones((1, 1)) if contrast is None else contrast
        coefficients = np.atleast_2d(self.final.coef_)
        if inputs is None or coefficients.shape != (counted.shape[1], inputs.shape[1]):
            return None
        terms = inputs * (counted @ coefficients)
        intercepts = np.broadcast_to(self.final.intercept_, counted.shape[1])
        bias = np.broadcast_to(counted @ intercepts, len(people))
        names = people.columns
        before = self.steps[:-1]
        if self.table_encoder is not None and before == [self.table_encoder]:
            return named_pulls(self.table_encoder.by_column(terms), bias, list(names))
        try:
            for number, step in enumerate(before):
                names = step.get_feature_names_out(names if number else None)
        except (AttributeError, ValueError):
            return None
        return named_pulls(terms, bias, list(names))


class EffectsModel(LinearModel):
    """A linear classifier that knows the minimum of its loss, and so where a flip moves it."""

    def flip_effects(
        self, table: Table, people: pd.DataFrame, contrast: Floats | None = None
    ) -> Array:
        rows = self.encoded(table.X)
        asked = self.encoded(people)
        assert rows is not None
        assert asked is not None
        return self.effects(rows, asked, table, contrast)

    @abstractmethod
    def effects(
        self, rows: Array, people: Array, table: Table, contrast: NDArray[Any] | None = None
    ) -> Array:
        """The same from rows and people as inputs of the last step."""


class LogisticModel(EffectsModel):
    """Logistic regression with the usual penalty."""

    def effects(
        self, rows: Array, people: Array, table: Table, contrast: NDArray[Any] | None = None
    ) -> Array:
        return logistic_effects(self.final, rows, people, table, contrast)


class RidgeModel(EffectsModel):
    """A ridge classifier."""

    @property
    def exact(self) -> bool:  # type: ignore[override]
        """Ridge on sparse inputs is not solved in one step: where it stops is not linear in
        labels."""
        return adds_up(self.estimator) and reaches_minimum(self.final)

    def effects(
        self, rows: Array, people: Array, table: Table, contrast: NDArray[Any] | None = None
    ) -> Array:
        weight = weight_of_rows(self.final, table)
        if contrast is None:
            labels = table.zero_one.astype(np.float64)
            return ridge_effects(self.final, rows, people, labels, weight)
        towards = ridge_effects(self.final, rows, people, np.zeros(table.n), weight)
        return np.asarray(towards * (contrast[:, table.new_codes] - contrast[:, table.codes]))


def has_usual_penalty(logistic: LogisticRegression) -> bool:
    """Whether a logistic regression has no penalty but the squared norm."""
    if getattr(logistic, "penalty", None) in ("l1", "elasticnet"):
        return False
    return logistic.l1_ratio in (None, 0)


def has_coefficients(final: Any) -> bool:
    """Whether a fitted estimator has coefficients that may explain its decision function."""
    coefficients = getattr(final, "coef_", None)
    if coefficients is None or np.size(coefficients) == 0:
        return False
    return hasattr(final, "decision_function")


def adds_up(estimator: Any) -> bool:
    """Whether it is a ridge classifier whose margin is a sum over the labels with weights that do
    not depend on labels: then a flip moves it by the same amount under any other flips."""
    *before, final = steps_of(estimator)
    if type(final) is not RidgeClassifier or final.class_weight is not None:
        return False
    return solved_directly(final) and all(map(uses_no_label, before))


def solved_directly(regression: Any) -> bool:
    """Whether its parameters ask for a solver that reaches the exact minimum."""
    if getattr(regression, "positive", False):
        return False
    return getattr(regression, "solver", "auto") in DIRECT_SOLVERS


def reaches_minimum(fitted: Any) -> bool:
    """The same of the solver that a fitted regression chose."""
    return getattr(fitted, "solver_", getattr(fitted, "solver", "auto")) in DIRECT_SOLVERS


# --- the effect of a flip -------------------------------------------------------------------------


def weight_of_rows(final: Any, table: Table) -> Array:
    """Each row's weight in the loss; a class weight is that of the label before the flip."""
    weight = np.ones(table.n) if table.weight is None else np.asarray(table.weight, np.float64)
    if final.class_weight is None:
        return weight
    return weight * compute_sample_weight(final.class_weight, final.classes_[table.codes])


def logistic_effects(
    final: Any, X: Array, people: Array, table: Table, contrast: NDArray[Any] | None = None
) -> Array:
    """The change of each person's margin if label i is flipped, `[people × n]`, for a fitted
    logistic regression with inputs `X` of the rows and `people`. With more than two classes the
    margin is the sum of scores weighted by `contrast [people × classes]`."""
    weight = weight_of_rows(final, table)
    X, people, w = reduce_inputs(final, X, people)
    if contrast is None:
        H = curvature(X, weight, penalty(final, X.shape[1]), w)
        change = 1 - 2 * table.zero_one.astype(np.float64)
        return np.asarray((_solve(H, people.T).T @ X.T) * (weight * change)[None, :])
    outcomes = (contrast[:, :, None] * people[:, None, :]).reshape(len(people), -1)
    solved = _solve(_softmax_curvature(final, X, weight, w), outcomes.T).T
    by_class = solved.reshape(*contrast.shape, -1)
    effects = np.zeros((len(people), table.n))
    for k in range(contrast.shape[1]):
        moved = (table.new_codes == k).astype(float) - (table.codes == k)
        effects += (by_class[:, k] @ X.T) * (weight * moved)
    return effects


def _softmax_curvature(estimator: Any, X: Array, weight: Array, w: Array) -> Array:
    """The Hessian of the penalised sum of losses, `[classes · inputs]` squared. Adding a constant
    to all scores does not change the softmax, so the intercepts have a direction without curvature;
    it gets a little."""
    shares = softmax(X @ w.T, axis=1)
    classes, size = w.shape
    blocks = np.empty((classes, size, classes, size))
    for a in range(classes):
        for b in range(a, classes):
            curved = weight * shares[:, a] * ((a == b) - shares[:, b])
            blocks[a, :, b] = (X * curved[:, None]).T @ X
            blocks[b, :, a] = blocks[a, :, b].T
    H = blocks.reshape(classes * size, classes * size)
    H += np.diag(np.tile(penalty(estimator, size), classes))
    return np.asarray(H + 1e-9 * np.trace(H) / len(H) * np.eye(len(H)))


def reduce_inputs(estimator: Any, X: Array, people: Array) -> tuple[Array, Array, Array]:
    """Rows and people, with a column of ones for an intercept, and the coefficients (one row per
    class, if there are several). If there are more inputs than rows, all are projected on the space
    that the rows span: the penalty is the same in every direction, so flips do not move the minimum
    out of it."""
    w = np.atleast_2d(estimator.coef_).astype(np.float64)
    X, people, w = spanned(X, people, w)
    if estimator.fit_intercept:
        X = with_ones(X)
        people = with_ones(people)
        w = np.column_stack([w, estimator.intercept_])
    return X, people, w if len(w) > 1 else w[0]


def spanned(X: Array, *others: Array) -> tuple[Array, ...]:
    """Rows and others, projected on the space that the rows span if there are more inputs than
    rows: products of all pairs of inputs would fill the memory."""
    if X.shape[1] <= len(X):
        return X, *others
    basis = np.linalg.qr(X.T)[0]
    return X @ basis, *(other @ basis for other in others)


def penalty(estimator: Any, size: int) -> Array:
    """½ Σ penaltyⱼ wⱼ² is added to the sum of losses; 0 for the intercept."""
    strength = 0.0
    if getattr(estimator, "penalty", "l2") is not None and np.isfinite(estimator.C):
        strength = 1 / estimator.C
    penalties = np.full(size, strength)
    if estimator.fit_intercept:
        penalties[-1] = 0.0
    return penalties


def curvature(X: Array, weight: Array, penalty: Array, w: Array) -> Array:
    """The Hessian of the penalised sum of losses at w."""
    share = expit(X @ w)
    return np.asarray((X * (weight * share * (1 - share))[:, None]).T @ X + np.diag(penalty))


def ridge_effects(estimator: Any, X: Array, people: Array, y: Array, weight: Array) -> Array:
    """The same for a ridge classifier, which need not be fitted, with labels `y` of two classes."""
    centre = np.zeros(X.shape[1])
    share = np.zeros(len(X))
    if estimator.fit_intercept:
        centre = np.average(X, axis=0, weights=weight)
        share = weight / weight.sum()
    centred, asked = spanned(X - centre, people - centre)
    weighted = centred * weight[:, None]
    gram = weighted.T @ centred + estimator.alpha * np.eye(centred.shape[1])
    z: Array = _solve(gram, asked.T).T @ weighted.T + share[None, :]
    return z * (2 * (1 - 2 * y))[None, :]


def _solve(A: Array, b: Array) -> Array:
    """A⁻¹b for a symmetric matrix; it may be singular, with duplicate columns and no penalty."""
    try:
        return np.asarray(cho_solve(cho_factor(A), b))
    except np.linalg.LinAlgError:
        return np.asarray(np.linalg.lstsq(A, b, rcond=None)[0])


def with_ones(X: Array) -> Array:
    return np.column_stack([X, np.ones(len(X))])

"""Linear classifiers: the effect of a flip, and the engine that trains many at once.

Logistic regression minimises C·Σ sᵢ·lossᵢ + ½‖w‖². Flipping label i adds −C·sᵢ(1 − 2yᵢ)x̃ᵢ to the
gradient, and with the exact Hessian H = C·Σ sᵢσ'(zᵢ)x̃ᵢx̃ᵢᵀ + I the minimum moves by H⁻¹ of that to
first order; the intercept (the 1 in x̃) has no penalty. A ridge classifier's prediction Σ zᵢtᵢ is
linear in its targets t = ±1, so its effects are exact. So are those of regressions on 0 and 1 that
are linear in them (least squares, ridge, kernel ridge).

With k classes the losses are those of the softmax, w has k rows, and H = C·Σ sᵢ(diag pᵢ − pᵢpᵢᵀ) ⊗
x̃ᵢx̃ᵢᵀ + I; a flip from class a to b adds −C·sᵢ(e_b − e_a) ⊗ x̃ᵢ to the gradient.

All flip sets of a table share X and differ in a few labels, so their minima are close together. If
the margin is a sum over the labels (ridge, regressions on 0 and 1), a flip set adds its labels'
effects, exactly. For logistic regression the loss is convex: Newton's method starts at the present
minimum, with the present Hessian factorised once, and moves all flip sets together; those that are
far away get Hessians of their own. The estimator's solver stops about equally far before each
minimum, so the engine adds the movement of the minimum to the estimator's present answer. Flip sets
without a minimum (separable labels and no penalty) are trained by the estimator's own `fit`, which
also confirms every find.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from scipy.special import expit, softmax
from sklearn.utils.class_weight import compute_sample_weight

from butfor.models.engines import OwnFit
from butfor.models.estimators import (
    is_logistic,
    linear_in_labels,
    steps_of,
    uses_no_label,
)
from butfor.models.seam import (
    Advance,
    Bound,
    FlipSet,
    Floats,
    Training,
)
from butfor.table.table import Table

Array = NDArray[np.float64]

SOLVERS = ("lbfgs", "newton-cg", "newton-cholesky")
"""Solvers of logistic regression that minimise the usual loss; liblinear also penalises the
intercept."""
SETS_AT_ONCE = 64
SMALL_GRADIENT = 1e-6
"""The largest entry of the gradient, per training row, at a minimum."""
NEAR = 0.02
"""The largest difference in logits between estimator and minimum for training rows near the
boundary."""
SHARED_STEPS, OWN_STEPS = 12, 40
SLOW = 0.5
"""The most that a step may leave of the gradient for another with the same Hessian to pay."""


def flip_effects(
    final: Any, X: Array, people: Array, table: Table, contrast: NDArray[Any] | None = None
) -> Array:
    """The change of each person's margin if label i is flipped, `[people × n]`, for a fitted
    logistic regression or ridge classifier with inputs `X` of the rows and `people`. With more than
    two classes the margin is the sum of scores weighted by `contrast [people × classes]`."""
    weight = np.ones(table.n) if table.weight is None else np.asarray(table.weight, np.float64)
    if final.class_weight is not None:  # of the label before the flip
        weight = weight * compute_sample_weight(final.class_weight, final.classes_[table.codes])
    y = table.zero_one.astype(np.float64)
    if type(final).__name__ == "RidgeClassifier":
        if contrast is None:
            return ridge_effects(final, X, people, y, weight)
        effects = ridge_effects(final, X, people, np.zeros(table.n), weight)
        return np.asarray(effects * (contrast[:, table.new_codes] - contrast[:, table.codes]))
    if contrast is None:
        X, people, w = reduce_inputs(final, X, people)
        H = curvature(X, weight, penalty(final, X.shape[1]), w)
        return np.asarray((_solve(H, people.T).T @ X.T) * (weight * (1 - 2 * y))[None, :])
    X, people, w = reduce_inputs(final, X, people)
    outcomes = (contrast[:, :, None] * people[:, None, :]).reshape(len(people), -1)
    by_class = _solve(_softmax_curvature(final, X, weight, w), outcomes.T).T.reshape(
        *contrast.shape, -1
    )
    effects = np.zeros((len(people), table.n))
    for k in range(contrast.shape[1]):
        moved = (table.new_codes == k).astype(float) - (table.codes == k)
        effects += (by_class[:, k] @ X.T) * (weight * moved)
    return effects


def _softmax_curvature(estimator: Any, X: Array, weight: Array, w: Array) -> Array:
    """The Hessian of the penalised sum of losses, `[classes · inputs]` squared. Adding a constant
    to all scores does not change the softmax, so the intercepts have a direction without curvature;
    it gets a little."""
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


def reduce_inputs(estimator: Any, X: Array, people: Array) -> tuple[Array, Array, Array]:
    """Rows and people, with a column of ones for an intercept, and the coefficients (one row per
    class, if there are several). If there are more inputs than rows, all are projected on the space
    that the rows span: the penalty is the same in every direction, so flips do not move the minimum
    out of it."""
    w = np.atleast_2d(estimator.coef_).astype(np.float64)
    X, people, w = spanned(X, people, w)
    if estimator.fit_intercept:
        X, people = with_ones(X, True), with_ones(people, True)
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
    strength = (
        0.0
        if getattr(estimator, "penalty", "l2") is None or not np.isfinite(estimator.C)
        else 1 / estimator.C
    )
    return (
        np.append(np.full(size - 1, strength), 0.0)
        if estimator.fit_intercept
        else np.full(size, strength)
    )


def curvature(X: Array, weight: Array, penalty: Array, w: Array) -> Array:
    """The Hessian of the penalised sum of losses at w."""
    share = expit(X @ w)
    return np.asarray((X * (weight * share * (1 - share))[:, None]).T @ X + np.diag(penalty))


def ridge_effects(estimator: Any, X: Array, people: Array, y: Array, weight: Array) -> Array:
    """The same for a ridge classifier, which need not be fitted."""
    if estimator.fit_intercept:
        centre = np.average(X, axis=0, weights=weight)
        share = weight / weight.sum()
    else:
        centre, share = np.zeros(X.shape[1]), np.zeros(len(X))
    centred, asked = spanned(X - centre, people - centre)
    gram = (centred * weight[:, None]).T @ centred + estimator.alpha * np.eye(centred.shape[1])
    z: Array = _solve(gram, asked.T).T @ (centred * weight[:, None]).T + share[None, :]
    return z * (2 * (1 - 2 * y))[None, :]


def _solve(A: Array, b: Array) -> Array:
    """A⁻¹b for a symmetric matrix; it may be singular, with duplicate columns and no penalty."""
    try:
        return np.asarray(cho_solve(cho_factor(A), b))
    except np.linalg.LinAlgError:
        return np.asarray(np.linalg.lstsq(A, b, rcond=None)[0])


def _stable(H: Array) -> Array:
    """Without a penalty, or with duplicate columns, H may be nearly singular."""
    return np.asarray(H + 1e-10 * np.trace(H) / len(H) * np.eye(len(H)))


def with_ones(X: Array, intercept: bool) -> Array:
    return np.column_stack([X, np.ones(len(X))]) if intercept else X


# --- the engine -----------------------------------------------------------------------------------


def bind(learner: Any, table: Table, people: pd.DataFrame, n_jobs: int) -> Bound | None:
    """The engine for LogisticRegression with the usual penalty, RidgeClassifier, and regressions on
    0 and 1 that are linear in them, after preprocessing that does not use labels. None for other
    models, with more than two classes, and if the estimator's solver stops short of the minimum
    (logistic regression, or sparse inputs)."""
    *before, final = steps_of(learner.estimator)
    adds_up, logistic = (
        linear_in_labels(learner.estimator),
        is_logistic(final) and all(map(uses_no_label, before)),
    )
    if logistic:
        logistic = (
            final.solver in SOLVERS
            and not final.dual
            and not final.warm_start
            and final.class_weight is None
        )
    if table.multiclass or not (adds_up or logistic):
        return None
    model = learner.fit(table, table.labels())
    if logistic:
        try:
            newton = _Newton(model, table, people, OwnFit(n_jobs).bind(learner, table, people))
        except (np.linalg.LinAlgError, FloatingPointError):
            return None
        return Bound(newton.train, "linear", width=SETS_AT_ONCE)
    if not model.exact:
        return None
    present, effects = model.logits(people).astype(np.float64), model.flip_effects(table, people)

    def train(trainings: Sequence[Training], advance: Advance | None = None) -> Floats:
        if advance:
            advance(len(trainings))
        moved = [present + effects[:, list(flips)].sum(axis=1) for flips, _ in trainings]
        return np.array(moved, np.float32).reshape(-1, len(present))

    return Bound(train, "linear", width=SETS_AT_ONCE)


class _Newton:
    """Newton's method for the logistic regressions of many flip sets of one table; an error if the
    estimator is not near the minimum."""

    def __init__(self, model: Any, table: Table, people: pd.DataFrame, own_fit: Bound) -> None:
        self.X, self.people, given = reduce_inputs(
            model.final, model.encoded(table.X), model.encoded(people)
        )
        self.table, self.own_fit = table, own_fit
        self.weight = np.ones(table.n) if table.weight is None else table.weight
        self.penalty = penalty(model.final, self.X.shape[1])
        self.small = SMALL_GRADIENT * table.n
        self.w = self._minimum(given, table.zero_one.astype(np.float64))
        self.at_flip = self.X * (self.weight * (2 * table.zero_one - 1))[:, None]
        self.before = model.logits(people).astype(np.float64)
        near = np.abs(self.X @ self.w - float(model.decision.answer_at_cut(self.before))) < 1
        if (
            not np.abs(self.X[near] @ (self.w - given)).max(initial=0.0) <= NEAR
            or not np.isfinite(self.w).all()
        ):
            raise np.linalg.LinAlgError("no minimum here")
        self.factor = cho_factor(_stable(curvature(self.X, self.weight, self.penalty, self.w)))

    def train(self, trainings: Sequence[Training], advance: Advance | None = None) -> Floats:
        logits = np.empty((len(trainings), len(self.people)), np.float32)
        for first in range(0, len(trainings), SETS_AT_ONCE):
            some = [flips for flips, _ in trainings[first : first + SETS_AT_ONCE]]
            logits[first : first + len(some)] = (
                self.before + (self.people @ (self._minima(some) - self.w[:, None])).T
            )
            if advance:
                advance(len(some))
        if lost := np.flatnonzero(~np.isfinite(logits).all(axis=1)).tolist():
            logits[lost] = self.own_fit([trainings[k] for k in lost])
        return logits

    def _minima(self, flip_sets: Sequence[FlipSet]) -> Array:
        """The minima for the flip sets, `[inputs × sets]`; NaN where Newton's method finds none.
        All take steps with the present Hessian, until such a step leaves too much; then each goes
        on with its own."""
        labels = np.array([self.table.labels(flips) for flips in flip_sets], np.float64).T
        W, going = np.repeat(self.w[:, None], len(flip_sets), axis=1), np.arange(len(flip_sets))
        # At the present minimum only the flipped labels contribute to the gradient.
        gradient = np.array([self.at_flip[list(flips)].sum(axis=0) for flips in flip_sets]).T
        left = np.full(len(flip_sets), np.inf)
        for _ in range(SHARED_STEPS):
            W[:, going] -= cho_solve(self.factor, gradient)
            gradient = self._gradient(W[:, going], labels[:, going])
            before, left[going] = left[going], np.abs(gradient).max(axis=0)
            on = (left[going] > self.small) & (left[going] < SLOW * before)
            going, gradient = going[on], gradient[:, on]
            if not len(going):
                break
        for k in np.flatnonzero((left > self.small) | (not self.penalty.any())):
            W[:, k] = self._minimum(W[:, k], labels[:, k])
        W[:, np.ptp(labels, axis=0) == 0] = np.nan  # a single class, which the estimator refuses
        return W

    def _minimum(self, w: Array, labels: Array) -> Array:
        """The minimum from `w` on; NaN if Newton's method finds none. A Hessian serves until a step
        with it leaves too much of the gradient; a step after which there is more of it is
        halved."""
        step, before = np.zeros(len(w)), np.inf
        for _ in range(OWN_STEPS):
            gradient = self._gradient(w[:, None], labels[:, None])[:, 0]
            left = np.abs(gradient).max()
            if left <= self.small:
                if not self.penalty.any() and ((self.X @ w > 0) == (labels > 0)).all():
                    # a hyperplane separates the labels, and no penalty keeps it from moving out for
                    # ever
                    break
                return w
            if left > before:
                w, step = w + step / 2, step / 2
                continue
            if before == np.inf or left > SLOW * before:
                try:
                    factor = cho_factor(
                        _stable(curvature(self.X, self.weight, self.penalty, w)), check_finite=False
                    )
                except np.linalg.LinAlgError:
                    break
            before, step = left, cho_solve(factor, gradient, check_finite=False)
            w = w - step
        return np.full(len(w), np.nan)

    def _gradient(self, W: Array, labels: Array) -> Array:
        """Of the penalised sums of losses, `[inputs × sets]`."""
        missed = self.X @ W
        expit(missed, out=missed)
        missed -= labels
        missed *= self.weight[:, None]
        return np.asarray(self.X.T @ missed + self.penalty[:, None] * W)

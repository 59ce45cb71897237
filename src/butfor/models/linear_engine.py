"""The engine that trains many linear classifiers at once.

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
from scipy.linalg import cho_factor, cho_solve
from scipy.special import expit

from butfor.models import linear, regression
from butfor.models.abilities import FlipEffects
from butfor.models.kinds import kind_of
from butfor.models.linear import Array, LogisticModel, curvature, penalty, reduce_inputs
from butfor.models.own_fit import OwnFit
from butfor.models.seam import Advance, Bound, FlipSet, Floats, Training
from butfor.models.steps import steps_of, uses_no_label
from butfor.table.table import Table

SOLVERS = ("lbfgs", "newton-cg", "newton-cholesky")
"""Solvers of logistic regression that minimise the usual loss; liblinear also penalises the
intercept."""
SETS_AT_ONCE = 64
GRADIENT_TOLERANCE = 1e-6
"""The largest entry of the gradient, per training row, at a minimum."""
LOGIT_TOLERANCE = 0.02
"""The largest difference in logits between estimator and minimum for training rows near the
boundary."""
BOUNDARY_WIDTH = 1.0
"""Rows this near to the boundary, in logits, are near it."""
MAX_SHARED_STEPS = 12
"""Steps with the present Hessian."""
MAX_OWN_STEPS = 40
"""Steps of a flip set with Hessians of its own."""
MAX_GRADIENT_LEFT = 0.5
"""The most that a step may leave of the gradient for another with the same Hessian to pay."""


def bind(learner: Any, table: Table, people: pd.DataFrame, n_jobs: int) -> Bound | None:
    """The engine for LogisticRegression with the usual penalty, RidgeClassifier, and regressions on
    0 and 1 that are linear in them, after preprocessing that does not use labels. None for other
    models, with more than two classes, and if the estimator's solver stops short of the minimum
    (logistic regression, or sparse inputs)."""
    if table.multiclass:
        return None
    if takes_newton_steps(learner.estimator):
        model = learner.fit(table, table.labels())
        try:
            newton = _Newton(model, table, people, OwnFit(n_jobs).bind(learner, table, people))
        except (np.linalg.LinAlgError, FloatingPointError):
            return None
        return Bound(newton.train, "linear", width=SETS_AT_ONCE)
    if not (linear.adds_up(learner.estimator) or regression.adds_up(learner.estimator)):
        return None
    model = learner.fit(table, table.labels())
    able = model.ability(FlipEffects)
    if able is None or not able.exact:
        return None
    effects = able.flip_effects(table, people)
    present = model.logits(people).astype(np.float64)

    def train(trainings: Sequence[Training], advance: Advance | None = None) -> Floats:
        if advance:
            advance(len(trainings))
        moved = [present + effects[:, list(flips)].sum(axis=1) for flips, _ in trainings]
        return np.array(moved, np.float32).reshape(-1, len(present))

    return Bound(train, "linear", width=SETS_AT_ONCE)


def takes_newton_steps(estimator: Any) -> bool:
    """Whether it is a logistic regression that goes to the minimum of the usual loss, behind steps
    that see no label."""
    *before, final = steps_of(estimator)
    if kind_of(estimator) is not LogisticModel or not all(map(uses_no_label, before)):
        return False
    weighted = final.class_weight is not None
    return final.solver in SOLVERS and not (final.dual or final.warm_start or weighted)


class _Newton:
    """Newton's method for the logistic regressions of many flip sets of one table; an error if the
    estimator is not near the minimum."""

    def __init__(self, model: Any, table: Table, people: pd.DataFrame, own_fit: Bound) -> None:
        self.X, self.people, coefficients = reduce_inputs(
            model.final, model.encoded(table.X), model.encoded(people)
        )
        self.table = table
        self.own_fit = own_fit
        self.weight = np.ones(table.n) if table.weight is None else table.weight
        self.penalty = penalty(model.final, self.X.shape[1])
        self.small = GRADIENT_TOLERANCE * table.n
        self.w = self._minimum(coefficients, table.zero_one.astype(np.float64))
        self.at_flip = self.X * (self.weight * (2 * table.zero_one - 1))[:, None]
        self.before = model.logits(people).astype(np.float64)
        at_cut = float(model.decision.answer_at_cut(self.before))
        near = np.abs(self.X @ self.w - at_cut) < BOUNDARY_WIDTH
        away = np.abs(self.X[near] @ (self.w - coefficients)).max(initial=0.0)
        if not np.isfinite(self.w).all() or not away <= LOGIT_TOLERANCE:
            raise np.linalg.LinAlgError("no minimum here")
        self.factor = cho_factor(_stable(curvature(self.X, self.weight, self.penalty, self.w)))

    def train(self, trainings: Sequence[Training], advance: Advance | None = None) -> Floats:
        logits = np.empty((len(trainings), len(self.people)), np.float32)
        for first in range(0, len(trainings), SETS_AT_ONCE):
            some = [flips for flips, _ in trainings[first : first + SETS_AT_ONCE]]
            moved = self.people @ (self._minima(some) - self.w[:, None])
            logits[first : first + len(some)] = self.before + moved.T
            if advance:
                advance(len(some))
        lost = np.flatnonzero(~np.isfinite(logits).all(axis=1)).tolist()
        if lost:
            logits[lost] = self.own_fit([trainings[k] for k in lost])
        return logits

    def _minima(self, flip_sets: Sequence[FlipSet]) -> Array:
        """The minima for the flip sets, `[inputs × sets]`; NaN where Newton's method finds none.
        All take steps with the present Hessian, until such a step leaves too much; then each goes
        on with its own."""
        labels = np.array([self.table.labels(flips) for flips in flip_sets], np.float64).T
        W = np.repeat(self.w[:, None], len(flip_sets), axis=1)
        going = np.arange(len(flip_sets))
        # At the present minimum only the flipped labels contribute to the gradient.
        gradient = np.array([self.at_flip[list(flips)].sum(axis=0) for flips in flip_sets]).T
        left = np.full(len(flip_sets), np.inf)
        for _ in range(MAX_SHARED_STEPS):
            W[:, going] -= cho_solve(self.factor, gradient)
            gradient = self._gradient(W[:, going], labels[:, going])
            before = left[going]
            left[going] = np.abs(gradient).max(axis=0)
            pays = left[going] < MAX_GRADIENT_LEFT * before
            on = pays & (left[going] > self.small)
            going = going[on]
            gradient = gradient[:, on]
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
        step = np.zeros(len(w))
        before = np.inf
        for _ in range(MAX_OWN_STEPS):
            gradient = self._gradient(w[:, None], labels[:, None])[:, 0]
            left = np.abs(gradient).max()
            if left <= self.small:
                if not self.penalty.any() and ((self.X @ w > 0) == (labels > 0)).all():
                    # a hyperplane separates the labels, and no penalty keeps it from moving out for
                    # ever
                    break
                return w
            if left > before:
                step = step / 2
                w = w + step
                continue
            if before == np.inf or left > MAX_GRADIENT_LEFT * before:
                H = _stable(curvature(self.X, self.weight, self.penalty, w))
                try:
                    factor = cho_factor(H, check_finite=False)
                except np.linalg.LinAlgError:
                    break
            before = left
            step = cho_solve(factor, gradient, check_finite=False)
            w = w - step
        return np.full(len(w), np.nan)

    def _gradient(self, W: Array, labels: Array) -> Array:
        """Of the penalised sums of losses, `[inputs × sets]`."""
        missed = self.X @ W
        expit(missed, out=missed)
        missed -= labels
        missed *= self.weight[:, None]
        return np.asarray(self.X.T @ missed + self.penalty[:, None] * W)


def _stable(H: Array) -> Array:
    """Without a penalty, or with duplicate columns, H may be nearly singular."""
    return np.asarray(H + 1e-10 * np.trace(H) / len(H) * np.eye(len(H)))

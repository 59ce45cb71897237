"""Logistic regression of many tables at once that differ in their labels alone.

All tables start from the fit to their mean label and take steps with its Hessian: one matrix product per step for all
of them. The few that do not settle are fitted by Newton's method, one by one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.special import expit

from butfor import stopping
from butfor.standard.inputs import MOST_LEARNED, Dense, Floats, Inputs, thin

PENALTY = 1.0
"""On the squared coefficients, the intercept left out: scikit-learn's C = 1."""
TOLERANCE = 1e-4
"""A fit is over when its next step would move logits by less, root mean square."""
START = 0.02
"""The same for a fit that others only start from."""
SHARED_STEPS, NEWTON_STEPS = 40, 60


def fit_logistic(design: Dense, labels: Floats, weight: Floats | None = None, start: Floats | None = None) -> Floats:
    """Coefficients `[tables × (1 + inputs)]`, intercept first; `labels [tables × rows]` are shares from 0 to 1.
    `start`: coefficients to start from."""
    weight, penalty = _weights(labels, weight), _penalty(design)
    if start is None and len(weight) > 2 * MOST_LEARNED:  # some rows bring it so near that few steps of all are needed
        some = thin(len(weight), MOST_LEARNED)
        start = _newton(design.rows(some), labels[:, some].mean(axis=0), weight[some], penalty)
    tolerance = START if len(labels) > 1 else TOLERANCE
    base = _newton(design, labels.mean(axis=0), weight, penalty, start, tolerance)
    if len(labels) == 1:
        return base[None]
    factor = _hessian(design, expit(design.logits(base)), weight, penalty)
    found = np.repeat(base[None], len(labels), axis=0)
    open_ = np.arange(len(labels))
    for _ in range(SHARED_STEPS):
        stopping.check()
        residual = design.logits(found[open_])
        expit(residual, out=residual)
        residual -= labels if len(open_) == len(labels) else labels[open_]
        residual *= weight
        gradient = design.sums(residual) + penalty * found[open_]
        step = cho_solve(factor, gradient.T, check_finite=False).T
        found[open_] -= step
        moved = np.einsum("tk,tk->t", step, gradient)
        open_ = open_[~(moved < TOLERANCE**2 * weight.sum())]
        if not len(open_):
            return found
    for table in open_:
        found[table] = _newton(design, labels[table], weight, penalty, base)
    return found


def predict_logistic(inputs: Inputs, coefficients: Floats) -> Floats:
    """Probabilities `[tables × rows]`."""
    found: Floats = coefficients[:, 1:] @ inputs.T
    found += coefficients[:, :1]
    expit(found, out=found)
    return found


def levers(
    design: Dense, labels: Floats, asked: Dense, weight: Floats | None, asked_weight: Floats | None, beta: Floats
) -> tuple[Floats, Floats]:
    """Of one table with coefficients `beta`, by the delta method: how far the mean probability of the asked rows moves
    with each learned label `[rows]`, and the labels less what is expected of them `[rows]`. The root of the sum of the
    products' squares is the mean's standard error."""
    weight = _weights(labels, weight)
    p, q = expit(design.logits(beta)), expit(asked.logits(beta))
    slope = asked.mean(q * (1 - q), asked_weight)
    factor = _hessian(design, p, weight, _penalty(design))
    lever = design.logits(cho_solve(factor, slope, check_finite=False))
    return lever * weight, labels - p


def _weights(labels: Floats, weight: Floats | None) -> Floats:
    return np.ones(labels.shape[-1]) if weight is None else weight


def _penalty(design: Dense) -> Floats:
    penalty = np.full(design.width, PENALTY)
    penalty[0] = 0
    return penalty


def _hessian(design: Dense, p: Floats, weight: Floats, penalty: Floats) -> Any:
    """Its Cholesky factor; a little is added so that there is one where all labels are alike."""
    hessian = design.gram(weight * np.maximum(p * (1 - p), 1e-9))
    hessian[np.diag_indices_from(hessian)] += np.maximum(penalty, 1e-6)
    return cho_factor(hessian, check_finite=False)


def _loss(design: Dense, labels: Floats, weight: Floats, penalty: Floats, beta: Floats) -> float:
    logits = design.logits(beta)
    return float(weight @ (np.logaddexp(0, logits) - labels * logits) + 0.5 * penalty @ beta**2)


def _newton(
    design: Dense,
    labels: Floats,
    weight: Floats,
    penalty: Floats,
    start: Floats | None = None,
    tolerance: float = TOLERANCE,
) -> Floats:
    """One table's coefficients, each step halved until the loss falls."""
    beta = np.zeros(len(penalty)) if start is None else start
    loss = _loss(design, labels, weight, penalty, beta)
    for _ in range(NEWTON_STEPS):
        stopping.check()
        p = expit(design.logits(beta))
        gradient = design.sums(weight * (p - labels)) + penalty * beta
        step = cho_solve(_hessian(design, p, weight, penalty), gradient, check_finite=False)
        if step @ gradient < tolerance**2 * weight.sum():
            return beta - step
        size = 1.0
        while (lower := _loss(design, labels, weight, penalty, beta - size * step)) > loss and size > 1e-6:
            size /= 2
        beta, loss = beta - size * step, lower
    return beta

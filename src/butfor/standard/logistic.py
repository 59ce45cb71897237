"""Logistic regression of many tables at once that differ in their labels alone.

All tables start from the fit to their mean label and take steps with its Hessian: one matrix
product per step for all of them. The few that do not settle are fitted by Newton's method, one by
one. A design is a column of 1 and the inputs, as an array or a `csr_array`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.sparse import csr_array
from scipy.special import expit

from butfor.standard.inputs import (
    MOST_LEARNED_ROWS,
    ROWS_AT_ONCE,
    Floats,
    Inputs,
    beside,
    thin,
)
from butfor.support import stopping

PENALTY = 1.0
"""On the squared coefficients, the intercept left out: scikit-learn's C = 1."""
TOLERANCE = 1e-4
"""A fit is over when its next step would move logits by less, root mean square."""
START_TOLERANCE = 0.02
"""The same for a fit that others only start from."""
SHARED_STEPS = 40
"""The most steps that all tables take together."""
NEWTON_STEPS = 60
"""The most steps of Newton's method for one table."""
COLUMNS_AT_ONCE = 128
"""Columns of a design whose weighted copy is held at a time."""


def design_of(inputs: Inputs) -> Inputs:
    """The inputs behind a column of 1."""
    ones = np.ones((inputs.shape[0], 1))
    design = beside(ones, inputs)
    if isinstance(inputs, np.ndarray):
        # In row order whatever the order of the inputs, so that products are summed alike.
        return np.ascontiguousarray(design)
    return design


def gram(design: Inputs, weight: Floats) -> Floats:
    """Products of all pairs of columns, times the rows' weights, summed over rows."""
    rows, width = design.shape
    products = np.zeros((width, width))
    if isinstance(design, np.ndarray):
        ends = [*range(COLUMNS_AT_ONCE, width - COLUMNS_AT_ONCE, COLUMNS_AT_ONCE), width]
        for begin, end in zip([0, *ends], ends, strict=False):  # never a weighted copy of the whole
            products[begin:end] = (design[:, begin:end] * weight[:, None]).T @ design
    else:
        for begin in range(0, rows, ROWS_AT_ONCE):
            part = design[begin : begin + ROWS_AT_ONCE]
            by = weight[begin : begin + ROWS_AT_ONCE]
            data = part.data * np.repeat(by, np.diff(part.indptr))
            weighted = csr_array((data, part.indices, part.indptr), shape=part.shape)
            products += (part.T @ weighted).toarray()
    return products


def fit_logistic(
    design: Inputs, labels: Floats, weight: Floats | None = None, start: Floats | None = None
) -> Floats:
    """Coefficients `[tables × (1 + inputs)]`, intercept first; `labels [tables × rows]` are shares
    from 0 to 1. `start`: coefficients to start from."""
    weight = np.ones(labels.shape[1]) if weight is None else weight
    if start is None and len(weight) > 2 * MOST_LEARNED_ROWS:
        # Some rows bring it so near that few steps of all are needed.
        some = thin(len(weight), MOST_LEARNED_ROWS)
        start = _newton(design[some], labels[:, some].mean(axis=0), weight[some])
    tolerance = START_TOLERANCE if len(labels) > 1 else TOLERANCE
    base = _newton(design, labels.mean(axis=0), weight, start, tolerance)
    if len(labels) == 1:
        return base[None]
    factor = _hessian(design, expit(design @ base), weight)
    penalty = _penalty(design)
    beta = np.repeat(base[None], len(labels), axis=0)
    open_ = np.arange(len(labels))
    for _ in range(SHARED_STEPS):
        stopping.check()
        residual = beta[open_] @ design.T
        expit(residual, out=residual)
        residual -= labels if len(open_) == len(labels) else labels[open_]
        residual *= weight
        gradient = residual @ design + penalty * beta[open_]
        step = cho_solve(factor, gradient.T, check_finite=False).T
        beta[open_] -= step
        moved = np.einsum("tk,tk->t", step, gradient)
        open_ = open_[~(moved < TOLERANCE**2 * weight.sum())]
        if not len(open_):
            return beta
    for table in open_:
        beta[table] = _newton(design, labels[table], weight, base)
    return beta


def _newton(
    design: Inputs,
    labels: Floats,
    weight: Floats,
    start: Floats | None = None,
    tolerance: float = TOLERANCE,
) -> Floats:
    """One table's coefficients, each step halved until the loss falls."""
    penalty = _penalty(design)

    def loss_of(beta: Floats) -> float:
        logits = design @ beta
        return float(weight @ (np.logaddexp(0, logits) - labels * logits) + 0.5 * penalty @ beta**2)

    beta = np.zeros(design.shape[1]) if start is None else start
    loss = loss_of(beta)
    for _ in range(NEWTON_STEPS):
        stopping.check()
        p = expit(design @ beta)
        gradient = (weight * (p - labels)) @ design + penalty * beta
        step = cho_solve(_hessian(design, p, weight), gradient, check_finite=False)
        if step @ gradient < tolerance**2 * weight.sum():
            return beta - step
        size = 1.0
        while (lower := loss_of(beta - size * step)) > loss and size > 1e-6:
            size /= 2
        beta = beta - size * step
        loss = lower
    return beta


def predict_logistic(inputs: Inputs, coefficients: Floats) -> Floats:
    """Probabilities `[tables × rows]`."""
    logits: Floats = coefficients[:, 1:] @ inputs.T
    logits += coefficients[:, :1]
    return np.asarray(expit(logits, out=logits))


def levers(
    design: Floats,
    labels: Floats,
    asked: Floats,
    weight: Floats | None,
    asked_weight: Floats | None,
    beta: Floats,
) -> tuple[Floats, Floats]:
    """Of one table with coefficients `beta`, by the delta method: how far the mean probability of
    the asked rows moves with each learned label `[rows]`, and the labels less what is expected of
    them `[rows]`. The root of the sum of the products' squares is the mean's standard error."""
    weight = np.ones(len(labels)) if weight is None else weight
    p = expit(design @ beta)
    q = expit(asked @ beta)
    slope = np.average(asked * (q * (1 - q))[:, None], axis=0, weights=asked_weight)
    lever = design @ cho_solve(_hessian(design, p, weight), slope, check_finite=False)
    residual = labels - p
    return lever * weight, residual


def _penalty(design: Inputs) -> Floats:
    return np.append(0.0, np.full(design.shape[1] - 1, PENALTY))


def _hessian(design: Inputs, p: Floats, weight: Floats) -> Any:
    """Its Cholesky factor; a little is added so that there is one where all labels are alike."""
    hessian = gram(design, weight * np.maximum(p * (1 - p), 1e-9))
    hessian[np.diag_indices_from(hessian)] += np.maximum(_penalty(design), 1e-6)
    return cho_factor(hessian, check_finite=False)

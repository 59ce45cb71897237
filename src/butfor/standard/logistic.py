"""Logistic regression of many tables at once that differ in their labels alone.

All tables start from the fit to their mean label and take steps with its Hessian: one matrix product per step for all
of them. The few that do not settle are fitted by Newton's method, one by one. Inputs come through a design: a column of
1, perhaps further columns, and the inputs.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.sparse import csr_array, hstack
from scipy.special import expit

from butfor import stopping
from butfor.standard.inputs import MOST_LEARNED, ROWS_AT_ONCE, Floats, Inputs, Mask, Rows, thin

PENALTY = 1.0
"""On the squared coefficients, the intercept left out: scikit-learn's C = 1."""
TOLERANCE = 1e-4
"""A fit is over when its next step would move logits by less, root mean square."""
START = 0.02
"""The same for a fit that others only start from."""
SHARED_STEPS, NEWTON_STEPS = 40, 60
COLUMNS_AT_ONCE = 128


class Dense:
    """Rows of an array; products with coefficients, intercept first."""

    def __init__(self, matrix: Floats) -> None:
        self.matrix, self.width = matrix, matrix.shape[1]

    def rows(self, at: Any) -> Dense:
        return Dense(self.matrix[at])

    def logits(self, beta: Floats) -> Floats:
        """Of one table `[rows]`, or of several `[tables × rows]`."""
        found: Floats = self.matrix @ beta if beta.ndim == 1 else beta @ self.matrix.T
        return found

    def sums(self, values: Floats) -> Floats:
        """Per coefficient, of `values [rows]` or `[tables × rows]`."""
        found: Floats = values @ self.matrix
        return found

    def mean(self, values: Floats, weight: Floats | None) -> Floats:
        return np.average(self.matrix * values[:, None], axis=0, weights=weight)

    def gram(self, weight: Floats) -> Floats:
        """Products of all pairs of columns, summed over rows."""
        found = np.empty((self.width, self.width))
        ends = [*range(COLUMNS_AT_ONCE, self.width - COLUMNS_AT_ONCE, COLUMNS_AT_ONCE), self.width]
        for begin, end in zip([0, *ends], ends, strict=False):  # never a weighted copy of the whole
            found[begin:end] = (self.matrix[:, begin:end] * weight[:, None]).T @ self.matrix
        return found


class Sparse(Dense):
    """The same of sparse inputs, less their means, behind the columns `ahead`."""

    def __init__(self, ahead: Floats, inputs: csr_array, means: Floats) -> None:
        self.ahead, self.inputs, self.means = ahead, inputs, means
        self.width = ahead.shape[1] + len(means)

    def rows(self, at: Any) -> Sparse:
        return Sparse(self.ahead[at], self.inputs[at], self.means)

    def logits(self, beta: Floats) -> Floats:
        few = self.ahead.shape[1]
        found: Floats = beta[..., few:] @ self.inputs.T
        found += (beta[..., 0] - beta[..., few:] @ self.means)[..., None]
        for column in range(1, few):
            found += beta[..., column, None] * self.ahead[:, column]
        return found

    def sums(self, values: Floats) -> Floats:
        total = values.sum(axis=-1)
        inputs = values @ self.inputs - total[..., None] * self.means
        return np.concatenate([values @ self.ahead, inputs], axis=-1)

    def mean(self, values: Floats, weight: Floats | None) -> Floats:
        weight = np.ones(len(values)) if weight is None else weight
        return self.sums(values * weight) / weight.sum()

    def gram(self, weight: Floats) -> Floats:
        found = np.zeros((self.width, self.width))
        for begin in range(0, len(weight), ROWS_AT_ONCE):
            rows = slice(begin, begin + ROWS_AT_ONCE)
            part = csr_array(hstack([csr_array(self.ahead[rows]), self.inputs[rows]], format="csr"))
            data = part.data * np.repeat(weight[rows], np.diff(part.indptr))
            found += (part.T @ csr_array((data, part.indices, part.indptr), shape=part.shape)).toarray()
        return found


def design_of(
    inputs: Inputs,
    rows: Rows | None = None,
    gone: Mask | None = None,
    further: Floats | None = None,
    centred: bool = False,
) -> Dense:
    """Some rows behind a column of 1 and `further` columns, without the inputs that are `gone`; `centred`: less their
    means. Sparse inputs that are gone stay as zeros, whose coefficients are 0."""
    count = inputs.shape[0] if rows is None else len(rows)
    ahead = np.column_stack([np.ones(count), *([] if further is None else [further])])
    few = ahead.shape[1]
    if isinstance(inputs, np.ndarray):
        columns: Any = slice(None) if gone is None else ~gone
        matrix = np.empty((count, few + np.arange(inputs.shape[1])[columns].size))
        matrix[:, :few] = ahead
        for begin in range(0, count, ROWS_AT_ONCE):
            some = slice(begin, begin + ROWS_AT_ONCE)
            matrix[some, few:] = inputs[some if rows is None else rows[some]][:, columns]
        if centred:
            matrix[:, few:] -= matrix[:, few:].mean(axis=0)
        return Dense(matrix)
    whole = rows is None or (count == inputs.shape[0] and bool((rows[:-1] < rows[1:]).all()))
    own = inputs if whole else inputs[rows]
    if gone is not None:
        own = own.copy() if whole else own
        own.data *= ~gone[own.indices]
    return Sparse(ahead, own, np.asarray(own.mean(axis=0)) if centred else np.zeros(inputs.shape[1]))


def fit_logistic(design: Dense, labels: Floats, weight: Floats | None = None, start: Floats | None = None) -> Floats:
    """Coefficients `[tables × (1 + inputs)]`, intercept first; `labels [tables × rows]` are shares from 0 to 1.
    `start`: coefficients to start from."""
    weight = np.ones(labels.shape[1]) if weight is None else weight
    if start is None and len(weight) > 2 * MOST_LEARNED:  # some rows bring it so near that few steps of all are needed
        some = thin(len(weight), MOST_LEARNED)
        start = _newton(design.rows(some), labels[:, some].mean(axis=0), weight[some])
    base = _newton(design, labels.mean(axis=0), weight, start, START if len(labels) > 1 else TOLERANCE)
    if len(labels) == 1:
        return base[None]
    factor, penalty = _hessian(design, expit(design.logits(base)), weight), _penalty(design)
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
        found[table] = _newton(design, labels[table], weight, base)
    return found


def _newton(
    design: Dense, labels: Floats, weight: Floats, start: Floats | None = None, tolerance: float = TOLERANCE
) -> Floats:
    """One table's coefficients, each step halved until the loss falls."""
    penalty = _penalty(design)

    def loss_of(beta: Floats) -> float:
        logits = design.logits(beta)
        return float(weight @ (np.logaddexp(0, logits) - labels * logits) + 0.5 * penalty @ beta**2)

    beta = np.zeros(design.width) if start is None else start
    loss = loss_of(beta)
    for _ in range(NEWTON_STEPS):
        stopping.check()
        p = expit(design.logits(beta))
        gradient = design.sums(weight * (p - labels)) + penalty * beta
        step = cho_solve(_hessian(design, p, weight), gradient, check_finite=False)
        if step @ gradient < tolerance**2 * weight.sum():
            return beta - step
        size = 1.0
        while (lower := loss_of(beta - size * step)) > loss and size > 1e-6:
            size /= 2
        beta, loss = beta - size * step, lower
    return beta


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
    weight = np.ones(len(labels)) if weight is None else weight
    p, q = expit(design.logits(beta)), expit(asked.logits(beta))
    slope = asked.mean(q * (1 - q), asked_weight)
    lever = design.logits(cho_solve(_hessian(design, p, weight), slope, check_finite=False))
    return lever * weight, labels - p


def _penalty(design: Dense) -> Floats:
    return np.append(0.0, np.full(design.width - 1, PENALTY))


def _hessian(design: Dense, p: Floats, weight: Floats) -> Any:
    """Its Cholesky factor; a little is added so that there is one where all labels are alike."""
    hessian = design.gram(weight * np.maximum(p * (1 - p), 1e-9))
    hessian[np.diag_indices_from(hessian)] += np.maximum(_penalty(design), 1e-6)
    return cho_factor(hessian, check_finite=False)

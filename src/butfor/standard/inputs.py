"""A table as numbers for the standard: an array, and beyond `LARGE` rows a sparse one.

A row of a one-hot table has one entry per column, not one per value. Models see either kind through a `Design`: the
intercept, further columns, and the inputs.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.sparse import csr_array, hstack, vstack

from butfor.encode import TableEncoder

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
Rows = NDArray[np.int64]
Inputs: TypeAlias = Any
"""Rows of numbers `[rows × inputs]`, an array or a `csr_array`."""

LARGE, SAMPLE = 200_000, 100_000
"""Of tables with more rows inputs are sparse, and a boosting learns from a random sample."""
MOST_LEARNED = 10_000
"""Of a large table, models of drawn labels, of the propensity and without a column learn from at most so many rows."""
ROWS_AT_ONCE, COLUMNS_AT_ONCE = 20_000, 128
MANY_INPUTS, FEWER_CATEGORIES = 1000, 20
"""Where one-hot columns would be more, each column keeps its most frequent values and the rest share one."""


def encode(X: pd.DataFrame) -> tuple[Inputs, dict[Hashable, slice]]:
    """The table one-hot with scaled numbers, and the inputs that each of its columns became."""
    encoder = TableEncoder("onehot", dtype="float64").fit(X)
    if encoder.n_features_out_ > MANY_INPUTS:
        encoder = TableEncoder("onehot", dtype="float64", max_categories=FEWER_CATEGORIES).fit(X)
    columns = {column: block.columns for column, block in encoder.blocks_.items()}
    if len(X) <= LARGE:
        return encoder.transform(X), columns
    parts = (X.iloc[begin : begin + ROWS_AT_ONCE] for begin in range(0, len(X), ROWS_AT_ONCE))
    return vstack([csr_array(encoder.transform(part)) for part in parts], format="csr"), columns


def dense(inputs: Inputs) -> Floats:
    """Rows as an array."""
    found: Floats = inputs if isinstance(inputs, np.ndarray) else inputs.toarray()
    return found


def beside(inputs: Inputs, extra: Floats) -> Inputs:
    """The inputs with more columns after them."""
    if isinstance(inputs, np.ndarray):
        return np.column_stack([inputs, extra])
    return csr_array(hstack([inputs, csr_array(extra)], format="csr"))


def thin(rows: int, most: int) -> Rows:
    """At most so many of these rows, at random; the same for any labels."""
    if rows <= most:
        return np.arange(rows)
    return np.sort(np.random.default_rng([rows, 11]).choice(rows, most, replace=False))


def sample(rows: int, inputs: Inputs) -> Rows | slice:
    """Which of these rows a boosting learns from: all, or of a sparse table a random `SAMPLE` of them, the same for any
    labels."""
    return slice(None) if rows <= SAMPLE or isinstance(inputs, np.ndarray) else thin(rows, SAMPLE)


class Dense:
    """A column of 1, perhaps further columns, and the inputs; products with coefficients, intercept first."""

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
    """The same of sparse inputs, less their means."""

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
            scaled = csr_array((data, part.indices, part.indptr), shape=part.shape)
            found += (part.T @ scaled).toarray()
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


def correlations(inputs: Inputs) -> Floats:
    """Of all pairs of inputs."""
    if isinstance(inputs, np.ndarray):
        scaled = inputs - inputs.mean(axis=0)
        scaled /= np.maximum(np.sqrt((scaled**2).sum(axis=0)), 1e-12)
        found: Floats = scaled.T @ scaled
        return found
    rows, means = inputs.shape[0], np.asarray(inputs.mean(axis=0))
    products = design_of(inputs).gram(np.ones(rows))[1:, 1:] / rows - np.outer(means, means)
    spread = np.sqrt(np.maximum(np.diag(products), 1e-12))
    return products / np.outer(spread, spread)

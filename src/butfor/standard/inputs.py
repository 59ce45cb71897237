"""A table as numbers for the standard: an array or, beyond `LARGE` rows, a sparse one. A row of a one-hot table has one
entry per column, not one per value."""

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
ROWS_AT_ONCE = 20_000
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


def dense(inputs: Inputs) -> Any:
    """Rows as an array."""
    return inputs if isinstance(inputs, np.ndarray) else inputs.toarray()


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

"""A table as numbers for the standard: an array or, beyond `LARGE_TABLE_ROWS`, a sparse one. A row
of a one-hot table has one entry per column, not one per value."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, hstack

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
Rows = NDArray[np.int64]
Inputs: TypeAlias = Any
"""Rows of numbers `[rows × inputs]`, an array or a `csr_array`."""

LARGE_TABLE_ROWS = 200_000
"""Of tables with more rows inputs are sparse, and a boosting learns from a random sample."""
BOOSTING_ROWS = 100_000
"""Rows in that sample."""
MOST_LEARNED_ROWS = 10_000
"""Of a large table, models of drawn labels, of the propensity and without a column learn from at
most so many rows."""
ROWS_AT_ONCE = 20_000
"""Rows of a large table that are encoded, multiplied or predicted at a time."""


def dense(inputs: Inputs) -> Any:
    """Rows as an array."""
    return inputs if isinstance(inputs, np.ndarray) else inputs.toarray()


def beside(*parts: Inputs) -> Inputs:
    """Inputs and further columns, sparse if one of them is."""
    if all(isinstance(part, np.ndarray) for part in parts):
        return np.column_stack(parts)
    return csr_array(hstack([csr_array(part) for part in parts], format="csr"))


def thin(rows: int, most: int) -> Rows:
    """At most so many of these rows, at random; the same for any labels."""
    if rows <= most:
        return np.arange(rows)
    return np.sort(np.random.default_rng([rows, 11]).choice(rows, most, replace=False))

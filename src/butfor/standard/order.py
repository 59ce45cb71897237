"""The comparison's own order of rows, so that no figure hangs on the order in which somebody keeps
a table.

Folds and drawn labels go by a row's place. So the rows are put in order first: by the values of the
columns, columns by name, then by group, cluster, weight and, last, label. The label comes last so
that a corrected label hardly moves its row: a comparison before a review and one after it draw the
same random numbers for the same people.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from butfor.standard.inputs import Floats, Mask, Rows
from butfor.table.columns import is_numeric, numbers_in

ALONE = -1
"""Stands for every cluster of one row: which of them a row is says nothing."""


@dataclass(frozen=True, eq=False)
class OwnOrder:
    """`rows`: the table's rows in the comparison's order. `places`: each of the table's rows' place
    in that order. `kinds`: by place, a number that rows share which are equal in everything the
    comparison knows of them."""

    rows: Rows
    places: Rows
    kinds: Rows

    @classmethod
    def of(
        cls,
        inputs: pd.DataFrame,
        groups: NDArray[Any],
        cluster: Any,
        weight: Floats,
        favourable: Mask,
    ) -> OwnOrder:
        """The order of these rows. `inputs` are the columns that the standard learns from,
        `cluster` holds a value per row, however it is written."""
        keys = list[NDArray[Any]]()
        for column in inputs.columns:
            keys += _column_keys(inputs[column])
        keys.append(np.unique(groups.astype(str), return_inverse=True)[1])
        if cluster is not None:
            keys.append(_cluster_key(cluster))
        keys += [weight, favourable]
        rows = np.lexsort(keys[::-1]).astype(np.int64)
        begins = np.zeros(len(rows), bool)
        for key in keys:
            begins[1:] |= key[rows[1:]] != key[rows[:-1]]
        places = np.empty_like(rows)
        places[rows] = np.arange(len(rows))
        return cls(rows, places, np.cumsum(begins))

    def shared(self, values: Floats) -> Floats:
        """Values by place, the mean of its kind at each place: rows that are equal in everything
        get one value."""
        means: Floats = np.bincount(self.kinds, values) / np.bincount(self.kinds)
        return means[self.kinds]


def columns_by_name(inputs: pd.DataFrame) -> pd.DataFrame:
    """The table with its columns in the order of their names."""
    return inputs[sorted(inputs.columns, key=str)]


def _column_keys(values: pd.Series) -> list[NDArray[Any]]:
    """What a column's rows are put in order by, the more important first: numbers by size,
    categories by name, missing values last."""
    missing = values.isna().to_numpy()
    if is_numeric(values):
        return [missing, np.where(missing, 0.0, numbers_in(values))]
    codes, distinct = pd.factorize(values.astype(object))

    def type_and_value(code: int) -> tuple[str, Any]:
        return type(distinct[code]).__name__, distinct[code]

    by_name = sorted(range(len(distinct)), key=type_and_value)
    ranks = np.empty(len(distinct) + 1, np.int64)
    ranks[by_name] = np.arange(len(distinct))
    ranks[-1] = len(distinct)  # pd.factorize gives missing values the code -1
    return [ranks[codes]]


def _cluster_key(cluster: Any) -> Rows:
    """Clusters of several rows by name; those of one row, and rows without a cluster, are all
    alike."""
    values = pd.Series(cluster, dtype=object)
    codes, _ = pd.factorize(values.astype(str).where(values.notna(), None), sort=True)
    sizes = np.bincount(codes[codes >= 0], minlength=1)
    return np.where((codes >= 0) & (sizes[codes] > 1), codes, ALONE).astype(np.int64)

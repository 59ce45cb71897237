"""What explains a gap: how the difference moves when a column is left out.

Moves do not add up and depend on the columns that remain. Explained is not justified: a column may itself come from
unequal treatment.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.sparse.csgraph import connected_components

from butfor.standard.inputs import MOST_LEARNED, Floats, Rows, thin
from butfor.standard.logistic import design_of, fit_logistic, levers
from butfor.standard.model import Columns, Standard, TwoModels

CORRELATED = 0.7
"""Columns with inputs that are correlated more strongly are also left out together."""
MOST_COLUMNS = 60
"""Of more columns only those whose terms in the logistic regression differ most between the groups are left out, one
at a time: each costs two fits."""

MISSING_APART = 0.05
"""A column that lacks values in a group more often, or less, by this share of its rows is mentioned."""


@dataclass(frozen=True)
class ColumnMove:
    """How the difference of one group moves when a column, or several correlated ones, are left out. Above 0: it is
    larger without them."""

    attribute: str
    group: str
    column: str
    move: float
    error: float
    """Its standard error: both fits share their rows."""


def column_sets(encoded: TwoModels) -> Sequence[Columns]:
    """Each column, then every block of columns that are strongly correlated."""
    names: list[Hashable] = list(encoded.columns)
    about = np.empty(encoded.inputs.shape[1], int)
    for place, columns in enumerate(encoded.columns.values()):
        about[columns] = place
    rows, means = encoded.inputs.shape[0], np.asarray(encoded.inputs.mean(axis=0))
    products = design_of(encoded.inputs).gram(np.ones(rows))[1:, 1:] / rows - np.outer(means, means)
    spread = np.sqrt(np.maximum(np.diag(products), 1e-12))
    first, second = np.nonzero(np.abs(products) > CORRELATED * np.outer(spread, spread))
    linked = np.zeros((len(names), len(names)), bool)
    linked[about[first], about[second]] = True
    blocks, block = connected_components(linked, directed=False)
    together = [[names[k] for k in np.flatnonzero(block == b)] for b in range(blocks)]
    return [[name] for name in names] + [columns for columns in together if len(columns) > 1]


def column_moves(
    group: Rows,
    others: Rows,
    standard: Standard,
    encoded: TwoModels,
    labels: Floats,
    weight: Floats | None,
    clusters: Rows | None,
) -> list[tuple[str, float, float]]:
    """Per set of columns: its name, how the difference moves without it, and the standard error of that move, by the
    logistic regression. Of a large table, by a part of its rows."""
    group, others = group[thin(len(group), MOST_LEARNED)], others[thin(len(others), MOST_LEARNED)]
    own, theirs = (None, None) if weight is None else (weight[group], weight[others])

    def linear(columns: Columns, whole: Floats | None = None) -> tuple[Floats, Floats, Floats]:
        """The logistic regression without some columns, started from the whole one: coefficients, levers, residuals."""
        gone = encoded.inputs_of(columns)
        design = design_of(encoded.inputs, others, gone)
        start = whole if whole is None or design.width == len(whole) else whole[np.append(True, ~gone)]
        fitted = fit_logistic(design, labels[None, others], theirs, start)[0]
        asked = design_of(encoded.inputs, group, gone)
        return fitted, *levers(design, labels[others], asked, theirs, own, fitted)

    fitted, lever, residual = linear([])
    if len(encoded.columns) > MOST_COLUMNS:
        terms = fitted[1:] * (encoded.inputs[group].mean(axis=0) - encoded.inputs[others].mean(axis=0))
        apart = {name: abs(float(np.sum(terms[columns]))) for name, columns in encoded.columns.items()}
        largest = set(sorted(apart, key=lambda name: -apart[name])[:MOST_COLUMNS])
        sets: Sequence[Columns] = [[name] for name in encoded.columns if name in largest]
    else:
        sets = column_sets(encoded)
    sets = [[], *sets]  # first none, so that moves compare models of the same rows
    coefficients, errors = [], []
    for columns in sets:
        without, moved, _ = linear(columns, fitted)
        paired = (moved - lever) * residual
        if clusters is not None:
            paired = np.bincount(clusters[others], paired).astype(np.float64)
        coefficients.append(without)
        errors.append(float(np.sqrt((paired**2).sum())))
    whole, *left = standard.predict_without(sets, coefficients, others, group, labels[others], theirs)
    moves = [float(np.average(each - whole, weights=own)) for each in left]
    names = [" + ".join(map(str, columns)) for columns in sets[1:]]
    return list(zip(names, moves, errors[1:], strict=True))


def strongest(moves: Sequence[tuple[str, float, float]], columns: int, difference: float) -> tuple[str, float] | None:
    """The column, among the first `columns` moves, that brings the difference closest to 0, and how far leaving it out
    moves the difference away from there; None where none does by more than its error."""
    away = [(move * np.sign(difference), move, name) for name, move, error in moves[:columns] if abs(move) > error]
    if not away or max(away)[0] <= 0:
        return None
    _, move, name = max(away)
    return name, move


def missing_values(inputs: pd.DataFrame, group: Rows, others: Rows) -> tuple[str, ...]:
    """A sentence per column that lacks values in the group clearly more often, or less, than among the others."""
    said = []
    for column in inputs.columns[inputs.isna().any()]:
        absent = inputs[column].isna().to_numpy()
        own, other = float(absent[group].mean()), float(absent[others].mean())
        if abs(own - other) >= MISSING_APART:
            said.append(
                f"{column} is missing in {100 * own:.0f} % of these rows and {100 * other:.0f} % of the others."
            )
    return tuple(said)

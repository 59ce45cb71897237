"""scikit-learn's histogram boosting in compiled code, for many sets of labels of one table.

Bins do not depend on labels, so the table is binned once. A histogram has as many bins as its
column (scikit-learn's have 256), and no Python runs between two splits. All sums are in
scikit-learn's order, so answers are the same to the last bit. Binding compares them on the
unchanged labels. If they differ, as they may with another version of scikit-learn, the estimator's
own `fit` trains instead; it confirms every find anyway.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd
from numba import njit
from numpy.typing import NDArray
from scipy.special import logit
from sklearn.ensemble import HistGradientBoostingClassifier

from butfor.models.estimator import EstimatorModel
from butfor.models.seam import Advance, Bound, Floats, Training
from butfor.models.steps import steps_of, uses_no_label
from butfor.nets import keeps_compiled
from butfor.support.compiling import compiling
from butfor.support.threads import in_threads
from butfor.table.table import Table

Bins = NDArray[np.uint8]
Ints = NDArray[np.int64]
Array = NDArray[np.float64]

BINS = 256
"""The most bins of a column, that of missing values included."""
MIN_HESSIAN = 1e-3
"""The least sum of Hessians in a leaf."""
MIN_SHARE = 10 * float(np.finfo(np.float64).eps)
"""The least share of a class: with one class alone its log-odds stay finite."""
COMPILED: dict[str, Any] = {"nogil": True, "cache": keeps_compiled(), "error_model": "numpy"}
INNER = COMPILED | {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
"""Options of functions that only compiled code calls."""


def bind(learner: Any, table: Table, people: pd.DataFrame, n_jobs: int) -> Bound | None:
    """The engine for HistGradientBoostingClassifier with two labels, behind preprocessing that sees
    no label: without early stopping, weights, missing values, constraints and categories of its
    own. Trains `n_jobs` models at a time. None for other models and tables."""
    *before, final = steps_of(learner.estimator)
    if type(final) is not HistGradientBoostingClassifier or not all(map(uses_no_label, before)):
        return None
    if table.multiclass or table.weight is not None or not _is_plain(final):
        return None
    binned = _binned(learner, table)
    if binned is None:
        return None
    model, boosted = binned
    asked = model.encoded(people)
    if asked is None:
        return None
    bins = np.ascontiguousarray(model.final._bin_mapper.transform(asked))

    def train(trainings: Sequence[Training], advance: Advance | None = None) -> Floats:
        labels = (table.labels(training.flips) for training in trainings)
        logits = list(in_threads(lambda some: boosted(some, bins), labels, n_jobs, advance))
        return np.array(logits, np.float32).reshape(len(trainings), -1)

    return Bound(train, "boosting", width=n_jobs)


def _is_plain(final: HistGradientBoostingClassifier) -> bool:
    """Whether its settings leave the growing of trees as it is here."""
    if final.max_features != 1.0 or final.class_weight is not None or final.warm_start:
        return False
    constrained = final.monotonic_cst is not None or final.interaction_cst is not None
    return not constrained and final.max_leaf_nodes is not None


@lru_cache(maxsize=1)
def _binned(
    learner: Any, table: Table
) -> tuple[EstimatorModel, Callable[[Floats, Bins], Array]] | None:
    """The model on the unchanged labels, and the logits of people, given as bins, under a model
    trained on labels; None if scikit-learn stops early or its answers differ from ours."""
    model: EstimatorModel = learner.fit(table, table.labels())
    final = model.final
    X = model.encoded(table.X)
    try:
        mapper = final._bin_mapper
        if X is None or final.do_early_stopping_:
            return None
        if mapper.is_categorical_.any() or mapper.n_bins != BINS:
            return None
        starts = np.concatenate([[0], np.cumsum(mapper.n_bins_non_missing_)]).astype(np.int64)
        rows = np.ascontiguousarray(mapper.transform(X))
        depth = final.max_depth or -1
        settings = (
            final.max_iter,
            final.learning_rate,
            final.max_leaf_nodes,
            depth,
            final.min_samples_leaf,
        )
    except AttributeError:  # scikit-learn's private names may change
        return None

    def boosted(labels: Floats, asked: Bins) -> Array:
        y = labels.astype(np.float64)
        start = logit(np.clip(y.mean(), MIN_SHARE, 1 - MIN_SHARE))
        return np.asarray(
            boost(rows, starts, asked, y, start, *settings, float(final.l2_regularization))
        )

    with compiling():
        ours = boosted(table.labels(), rows)
    theirs = final.decision_function(model.step_inputs(table.X))
    return (model, boosted) if np.array_equal(ours, theirs) else None


# --- compiled -------------------------------------------------------------------------------------


@njit(**COMPILED)
def boost(
    rows: Bins,
    starts: Ints,
    asked: Bins,
    y: Array,
    start: float,
    rounds: int,
    rate: float,
    most_leaves: int,
    deepest: int,
    least: int,
    l2: float,
) -> Array:
    """The logits of people. A tree is grown best leaf first; the left half of a split leaf keeps
    its number. `least`: rows of a leaf; `deepest`: −1 for any depth."""
    n = len(y)
    logits = np.full(n, start)
    answers = np.full(len(asked), start)
    slopes = np.empty((n, 2), np.float32)  # gradient and curvature of the loss at each row
    sums = np.empty((most_leaves, starts[-1], 2))
    counts = np.empty((most_leaves, starts[-1]), np.int64)
    place = np.empty(most_leaves, np.int64)  # of a leaf's histogram in sums and counts
    depth = np.empty(most_leaves, np.int64)
    first = np.empty(most_leaves, np.int64)
    end = np.empty(most_leaves, np.int64)
    total = np.empty((most_leaves, 2))
    value = np.empty(most_leaves)
    gain = np.empty(most_leaves)
    split = np.empty((most_leaves, 2), np.int64)
    left = np.empty((most_leaves, 2))
    order = np.empty(n, np.int64)  # rows, leaf by leaf
    right = np.empty(n, np.int64)
    leaf_of = np.empty(len(asked), np.int64)
    for _ in range(rounds):
        for i in range(n):
            order[i] = i
            if logits[i] > -37:
                odds = math.exp(-logits[i])
                slopes[i, 0] = ((1 - y[i]) - y[i] * odds) / (1 + odds)
                slopes[i, 1] = odds / ((1 + odds) * (1 + odds))
            else:
                share = math.exp(logits[i])
                slopes[i, 0] = share - y[i]
                slopes[i, 1] = share
        leaf_of[:] = 0
        leaves = 1
        first[0] = 0
        end[0] = n
        depth[0] = 0
        place[0] = 0
        value[0] = 0.0
        _histogram(sums[0], counts[0], rows, starts, order, slopes)
        for s in range(2):
            total[0, s] = _sum_as_numpy(sums[0, : starts[1], s])
        gain[0] = -1.0
        if n >= 2 * least and total[0, 1] >= MIN_HESSIAN:
            gain[0] = _best_split(
                sums[0], counts[0], starts, n, total[0], 0.0, least, l2, split[0], left[0]
            )
        while leaves < most_leaves:
            k = gain[:leaves].argmax()
            new = leaves
            if gain[k] <= 0:
                break
            column, cut = split[k]
            middle = first[k]
            moved = 0
            for i in order[first[k] : end[k]]:  # both sides stay in their order
                if rows[i, column] <= cut:
                    order[middle] = i
                    middle += 1
                else:
                    right[moved] = i
                    moved += 1
            order[middle : end[k]] = right[:moved]
            for p in range(len(asked)):
                if leaf_of[p] == k and asked[p, column] > cut:
                    leaf_of[p] = new
            first[new] = middle
            end[new] = end[k]
            end[k] = middle
            depth[k] += 1
            depth[new] = depth[k]
            for s in range(2):
                total[new, s] = total[k, s] - left[k, s]
                total[k, s] = left[k, s]
            value[k] = _value(total[k], l2)
            value[new] = _value(total[new], l2)
            gain[k] = -1.0
            gain[new] = -1.0
            leaves += 1
            size = end[k] - first[k]
            size_new = end[new] - first[new]
            if leaves == most_leaves or depth[k] == deepest or max(size, size_new) < 2 * least:
                continue
            small = k if size < size_new else new
            large = new if size < size_new else k
            place[large] = place[k]
            place[small] = new
            a = place[small]
            b = place[large]
            _histogram(sums[a], counts[a], rows, starts, order[first[small] : end[small]], slopes)
            for i in range(starts[-1]):
                counts[b, i] -= counts[a, i]
                sums[b, i, 0] -= sums[a, i, 0]
                sums[b, i, 1] -= sums[a, i, 1]
            for j in (k, new):
                if end[j] - first[j] >= 2 * least:
                    gain[j] = _best_split(
                        sums[place[j]],
                        counts[place[j]],
                        starts,
                        end[j] - first[j],
                        total[j],
                        value[j],
                        least,
                        l2,
                        split[j],
                        left[j],
                    )
        for j in range(leaves):
            step = value[j] * rate
            for i in order[first[j] : end[j]]:
                logits[i] += step
        for p in range(len(asked)):
            answers[p] += value[leaf_of[p]] * rate
    return answers


@njit(**INNER)
def _histogram(
    sums: Array, counts: Ints, rows: Bins, starts: Ints, order: Ints, slopes: Any
) -> None:
    sums[:] = 0.0
    counts[:] = 0
    for i in order:
        for column in range(rows.shape[1]):
            bin = starts[column] + rows[i, column]
            sums[bin, 0] += slopes[i, 0]
            sums[bin, 1] += slopes[i, 1]
            counts[bin] += 1


@njit(**INNER)
def _sum_as_numpy(values: Array) -> float:
    """The sum of 256 numbers, 0 after the given ones, in numpy's order: two halves of eight partial
    sums each."""
    total = 0.0
    for half in range(0, len(values), 128):
        parts = np.zeros(8)
        for i in range(half, min(half + 128, len(values))):
            parts[i % 8] += values[i]
        total += ((parts[0] + parts[1]) + (parts[2] + parts[3])) + (
            (parts[4] + parts[5]) + (parts[6] + parts[7])
        )
    return total


@njit(**INNER)
def _value(total: Array, l2: float) -> float:
    return -total[0] / (total[1] + l2 + 1e-15)


@njit(**INNER)
def _best_split(
    sums: Array,
    counts: Ints,
    starts: Ints,
    n: int,
    total: Array,
    value: float,
    least: int,
    l2: float,
    split: Ints,
    left: Array,
) -> float:
    """By how much the best split of a leaf lowers the loss, −1 if there is none. Sets `split` to
    its column and bin and `left` to the sums of its left half."""
    best = -1.0
    before = total[0] * value
    for column in range(len(starts) - 1):
        count = 0
        gradient = 0.0
        hessian = 0.0
        for bin in range(starts[column], starts[column + 1] - 1):
            count += counts[bin]
            gradient += sums[bin, 0]
            hessian += sums[bin, 1]
            if count < least or hessian < MIN_HESSIAN:
                continue
            other = total[0] - gradient
            other_hessian = total[1] - hessian
            if n - count < least or other_hessian < MIN_HESSIAN:
                break
            gain = before - gradient * (-gradient / (hessian + l2 + 1e-15))
            gain -= other * (-other / (other_hessian + l2 + 1e-15))
            if gain > best and gain > 0:
                best = gain
                split[0] = column
                split[1] = bin - starts[column]
                left[0] = gradient
                left[1] = hessian
    return best

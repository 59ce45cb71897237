"""Gradient boosting of many tables at once that differ in their labels alone, or in the questions
they may ask.

Every split asks a row one yes-or-no question ("income at most 2 000?", "town = north?"). The
questions are the same for all tables, so the sums that choose the splits of all nodes of all tables
are one matrix product.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from butfor.standard.inputs import (
    Floats,
    Inputs,
    Mask,
    Rows,
    dense,
)
from butfor.support import stopping
from butfor.support.errors import TableError

Singles = NDArray[np.float32]

ROUNDS = 50
"""Trees of each boosting."""
LEARNING_RATE = 0.1
"""The share of a leaf's best step that is taken."""
DEPTH = 3
"""Questions on the way to a leaf."""
SHRINKAGE = 1.0
"""Added to the curvature of a leaf, so that small leaves say little."""
LEAST_CURVATURE = 3.0
"""A leaf with less, about twelve labels of even odds, is not split off."""
TIE_TOLERANCE = 1e-4
"""Of questions as good as the best to within this share the first is asked, so that rounding does
not decide."""
MOST_CUTS = 16
"""The most quantiles at which a number is asked about."""
MOST_QUESTIONS = 4000
"""The most questions in all; with many inputs, each is asked about at fewer quantiles."""
MOST_INPUTS = 1000
"""Both models of more inputs would take minutes on a small table."""
ROWS_AT_ONCE = 8192
"""Rows whose answers are held while they are predicted: as many as stay in a core's cache."""


@dataclass(frozen=True, eq=False)
class Questions:
    """Yes-or-no questions: is this input at most this number? An input of two values is asked about
    once, a number at quantiles."""

    about: Rows
    """Which input each question is about."""
    cuts: Floats

    @classmethod
    def of(cls, inputs: Inputs) -> Questions:
        if inputs.shape[1] > MOST_INPUTS:
            raise TableError(
                f"The columns make {inputs.shape[1]} inputs (one per number, one per value of "
                f"text), and groups are compared by at most {MOST_INPUTS}. Drop columns that had "
                "no part in the decisions, or combine them."
            )
        most = min(MOST_CUTS, max(1, MOST_QUESTIONS // max(1, inputs.shape[1])))
        about = list[int]()
        asked = list[float]()
        by_column: Any = inputs if isinstance(inputs, np.ndarray) else inputs.tocsc()
        for column in range(inputs.shape[1]):
            values = dense(by_column[:, [column]])[:, 0]
            distinct = np.unique(values)
            cuts = distinct[:-1]
            if len(cuts) > most:
                shares = np.arange(1, most + 1) / (most + 1)
                cuts = np.unique(np.quantile(values, shares, method="lower"))
                cuts = cuts[cuts < distinct[-1]]
            about += [column] * len(cuts)
            asked += cuts.tolist()
        return cls(np.array(about, np.int64), np.array(asked, np.float64))

    def answers(self, inputs: Inputs) -> Mask:
        """`[questions + 1 × rows]`; the last question, −1, is one that nobody says yes to."""
        answers = np.zeros((len(self.about) + 1, inputs.shape[0]), bool)
        for begin in range(0, inputs.shape[0], ROWS_AT_ONCE):
            rows = slice(begin, begin + ROWS_AT_ONCE)
            values = dense(inputs[rows]).T[self.about]
            np.less_equal(values, self.cuts[:, None], out=answers[:-1, rows])
        return answers


@dataclass(frozen=True, eq=False)
class Boosting:
    """The trees of several tables: per round the question of each node, level by level `[nodes ×
    tables]`, and how far each leaf moves logits `[leaves × tables]`."""

    questions: Questions
    start: Singles
    trees: list[tuple[list[Rows], Singles]]

    def predict(self, inputs: Inputs, table: int | None = None) -> Floats:
        """Probabilities of these rows, `[tables × rows]`, or by one table alone."""
        which = slice(None) if table is None else slice(table, table + 1)
        probabilities = np.empty((len(self.start[which]), inputs.shape[0]))
        for begin in range(0, inputs.shape[0], ROWS_AT_ONCE):
            stopping.check()
            rows = slice(begin, begin + ROWS_AT_ONCE)
            answers = self.questions.answers(inputs[rows])
            logits = np.repeat(self.start[which, None], answers.shape[1], axis=1)
            said_yes = np.empty((DEPTH, *logits.shape), bool)
            for tree, step in self.trees:
                for level, best in enumerate(tree):
                    said_yes[level] = _answers(best[:, which], said_yes[:level], answers)
                logits += _moves(step[:, which], said_yes)
            probabilities[:, rows] = expit(logits.astype(np.float64))
        return probabilities


def fit_boosting(
    questions: Questions,
    inputs: Inputs,
    labels: NDArray[Any],
    weight: Floats | None = None,
    barred: Mask | None = None,
) -> Boosting:
    """Learned from rows and `labels [tables × rows]`. `weight [rows]`, or one row of them per
    table; `barred [tables × questions]`: what a table may not ask."""
    tables, rows = labels.shape
    answers = questions.answers(inputs)
    as_numbers = np.ascontiguousarray(answers[:-1].T, np.float32)
    targets = labels.astype(np.float32)
    mean = np.clip(np.average(labels, axis=1, weights=weight), 1e-4, 1 - 1e-4)
    start = np.log(mean / (1 - mean)).astype(np.float32)
    logits = np.repeat(start[:, None], rows, axis=1)
    slopes = np.empty((2, tables, rows), np.float32)
    """Gradient and curvature of the loss at each row."""
    inside = np.empty((2, 1 << (DEPTH - 2), tables, rows), np.float32)
    said_yes = np.empty((DEPTH, tables, rows), bool)
    """To the question of the row's node, level by level."""
    scale = None if weight is None else weight.astype(np.float32)
    trees = []
    for _ in range(ROUNDS):
        stopping.check()
        p = expit(logits)
        np.subtract(p, targets, out=slopes[0])
        np.multiply(p, 1 - p, out=slopes[1])
        if scale is not None:
            slopes *= scale
        total = slopes.sum(axis=2)[:, None]  # 2 × nodes × tables
        yes = (slopes.reshape(-1, rows) @ as_numbers).reshape(2, 1, tables, -1)
        tree = []
        for level in range(DEPTH):
            nodes = 1 << level
            best, taken = _best_questions(yes, total, barred)
            tree.append(best)
            said_yes[level] = _answers(best, said_yes[:level], answers)
            total = np.stack([total - taken, taken], axis=2).reshape(2, 2 * nodes, tables)
            if level + 1 < DEPTH:
                for node in range(nodes):
                    # Rows of the node that say yes to its question.
                    *path, chosen = said_yes[: level + 1]
                    for above, before in enumerate(reversed(path)):
                        chosen = chosen & (before if node >> above & 1 else ~before)
                    np.multiply(slopes, chosen, out=inside[:, node])
                sums = inside[:, :nodes].reshape(-1, rows) @ as_numbers
                below = sums.reshape(2, nodes, tables, -1)
                yes = np.stack([yes - below, below], axis=2).reshape(2, 2 * nodes, tables, -1)
        # Leaves × tables.
        step = (-LEARNING_RATE * total[0] / (total[1] + SHRINKAGE)).astype(np.float32)
        trees.append((tree, step))
        logits += _moves(step, said_yes)
    return Boosting(questions, start, trees)


def _best_questions(yes: Singles, total: Singles, barred: Mask | None) -> tuple[Rows, Singles]:
    """Per node and table the question that lowers the loss most, −1 where none may be asked, and
    the sums of the rows that say yes to it."""
    if not yes.shape[-1]:  # all columns are constant
        return np.full(yes.shape[1:3], -1), np.zeros(yes.shape[:3], np.float32)
    gradient, curvature = yes
    all_gradient, all_curvature = total[..., None]
    gain = gradient**2 / (np.abs(curvature) + SHRINKAGE)
    gain += (all_gradient - gradient) ** 2 / (np.abs(all_curvature - curvature) + SHRINKAGE)
    gain[(curvature < LEAST_CURVATURE) | (all_curvature - curvature < LEAST_CURVATURE)] = -1
    if barred is not None:
        gain[:, barred] = -1
    best = (gain >= (1 - TIE_TOLERANCE) * gain.max(axis=-1, keepdims=True)).argmax(axis=-1)
    place = best[..., None]
    asks = np.take_along_axis(gain, place, -1)[..., 0] >= 0
    taken = np.where(asks, np.take_along_axis(yes, place[None], -1)[..., 0], np.float32(0))
    return np.where(asks, best, -1), taken


def _answers(best: Rows, path: Mask, answers: Mask) -> Mask:
    """Every row's answer to the question of its node `[tables × rows]`; nodes are numbered by the
    answers on their way."""
    by_node = answers[best]  # nodes × tables × rows
    for before in path[::-1]:
        no = by_node[::2]
        yes = by_node[1::2]
        by_node = no ^ ((no ^ yes) & before)  # no where it was no, else yes
    return by_node[0]


def _moves(step: Singles, said_yes: Mask) -> Singles:
    """How far the leaf of each row moves its logit `[tables × rows]`."""
    leaves, tables = step.shape
    leaf = np.repeat(leaves * np.arange(tables, dtype=np.int32)[:, None], said_yes.shape[2], axis=1)
    for level, yes in enumerate(said_yes):
        leaf += np.left_shift(yes, DEPTH - 1 - level, dtype=np.int32)
    return step.T.ravel().take(leaf)

"""Gradient boosting of many tables at once that differ in their labels alone, or in the questions they may ask.

Every split asks a row one yes-or-no question ("income at most 2 000?", "town = north?"). The questions are the same for
all tables, so the sums that choose the splits of all nodes of all tables are one matrix product.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
Mask = NDArray[np.bool_]

ROUNDS, RATE, DEPTH = 50, 0.1, 3
SHRINKAGE = 1.0
"""Added to the curvature of a leaf, so that small leaves say little."""
LEAST_CURVATURE = 3.0
"""A leaf with less, about twelve labels of even odds, is not split off."""
CUTS = 16
"""A number is asked about at so many quantiles."""


def answers_to_questions(inputs: Floats) -> tuple[Singles, NDArray[np.int64]]:
    """Rows' answers, 0 or 1, `[rows × questions]`, and the input that each question is about. An input of two values is
    asked about once, a number at quantiles."""
    answers, about = [], []
    for column, values in enumerate(inputs.T):
        found = np.unique(values)
        cuts = found[:-1]
        if len(cuts) > CUTS:
            cuts = np.unique(np.quantile(values, np.arange(1, CUTS + 1) / (CUTS + 1), method="lower"))
            cuts = cuts[cuts < found[-1]]
        for cut in cuts:
            answers.append(values <= cut)
            about.append(column)
    shape = (len(answers), len(inputs))
    return np.ascontiguousarray(np.array(answers, np.float32).reshape(shape).T), np.array(about, np.int64)


@dataclass(frozen=True, eq=False)
class Asked:
    """Answers of the rows to learn from, and of those followed by the rows to predict, question by question; the last
    question, −1, is one that nobody says yes to."""

    learned: Singles
    everyone: Mask

    @classmethod
    def of(cls, learned: Singles, predicted: Singles) -> Asked:
        everyone = np.zeros((learned.shape[1] + 1, len(learned) + len(predicted)), bool)
        everyone[:-1, : len(learned)], everyone[:-1, len(learned) :] = learned.T, predicted.T
        return cls(np.ascontiguousarray(learned), everyone)


def predict_boosting(
    asked: Asked, labels: NDArray[Any], weight: Floats | None = None, barred: Mask | None = None
) -> Floats:
    """Probabilities of the rows to predict, `[tables × rows]`, learned from `labels [tables × learned rows]`.
    `weight [learned rows]`, or one row of them per table; `barred [tables × questions]`: what a table may not ask."""
    tables, rows = labels.shape
    targets = labels.astype(np.float32)
    mean = np.clip(np.average(labels, axis=1, weights=weight), 1e-4, 1 - 1e-4)
    logits = np.repeat(np.log(mean / (1 - mean))[:, None], asked.everyone.shape[1], axis=1).astype(np.float32)
    slopes = np.empty((2, tables, rows), np.float32)  # gradient and curvature of the loss at each row
    inside = np.empty((2, 1 << (DEPTH - 2), tables, rows), np.float32)
    said_yes = np.empty((DEPTH, *logits.shape), bool)  # to the question of the row's node, level by level
    scale = None if weight is None else weight.astype(np.float32)
    for _ in range(ROUNDS):
        p = expit(logits[:, :rows])
        np.subtract(p, targets, out=slopes[0])
        np.multiply(p, 1 - p, out=slopes[1])
        if scale is not None:
            slopes *= scale
        total = slopes.sum(axis=2)[:, None]  # 2 × nodes × tables
        yes = (slopes.reshape(-1, rows) @ asked.learned).reshape(2, 1, tables, -1)
        for level in range(DEPTH):
            nodes = 1 << level
            best, taken = _best_questions(yes, total, barred)
            for table in range(tables):
                said_yes[level, table] = _answers(best[:, table], said_yes[:level, table], asked.everyone)
            total = np.stack([total - taken, taken], axis=2).reshape(2, 2 * nodes, tables)
            if level + 1 < DEPTH:
                for node in range(nodes):
                    np.multiply(slopes, _says_yes_in(node, said_yes[: level + 1, :, :rows]), out=inside[:, node])
                below = (inside[:, :nodes].reshape(-1, rows) @ asked.learned).reshape(2, nodes, tables, -1)
                yes = np.stack([yes - below, below], axis=2).reshape(2, 2 * nodes, tables, -1)
        leaf = np.zeros(logits.shape, np.uint8)
        for yes_no in said_yes:
            leaf *= 2
            leaf += yes_no
        step = (-RATE * total[0] / (total[1] + SHRINKAGE)).astype(np.float32)  # leaves × tables
        for table in range(tables):
            logits[table] += step[:, table].take(leaf[table])
    return expit(logits[:, rows:].astype(np.float64))


def _best_questions(yes: Singles, total: Singles, barred: Mask | None) -> tuple[NDArray[np.int64], Singles]:
    """Per node and table the question that lowers the loss most, −1 where none may be asked, and the sums of the rows
    that say yes to it."""
    gradient, curvature = yes
    all_gradient, all_curvature = total[..., None]
    gain = gradient**2 / (np.abs(curvature) + SHRINKAGE)
    gain += (all_gradient - gradient) ** 2 / (np.abs(all_curvature - curvature) + SHRINKAGE)
    gain[(curvature < LEAST_CURVATURE) | (all_curvature - curvature < LEAST_CURVATURE)] = -1
    if barred is not None:
        gain[:, barred] = -1
    best = gain.argmax(axis=-1)
    at = best[..., None]
    asks = np.take_along_axis(gain, at, -1)[..., 0] >= 0
    taken = np.where(asks, np.take_along_axis(yes, at[None], -1)[..., 0], np.float32(0))
    return np.where(asks, best, -1), taken


def _answers(best: NDArray[np.int64], path: Mask, everyone: Mask) -> Mask:
    """Of one table: every row's answer to the question of its node; nodes are numbered by the answers on their way."""
    answers = [everyone[question] for question in best]
    for before in path[::-1]:
        pairs = zip(answers[::2], answers[1::2], strict=True)
        answers = [no ^ ((no ^ yes) & before) for no, yes in pairs]  # no where it was no, else yes
    return answers[0]


def _says_yes_in(node: int, said_yes: Mask) -> Mask:
    """Rows of a node of the last level that say yes to its question."""
    *path, found = said_yes
    for level, before in enumerate(reversed(path)):
        found = found & (before if node >> level & 1 else ~before)
    return found

"""Ridge classifiers and nearest neighbours with more than two classes: weight moves from one class to another.

Every flip takes the same step: a row labelled as the person is decided becomes the label in view, which takes a fixed
weight from the score of the one class and adds it to the other's. The other scores stay. So whether the decision turns
depends on the sum of the weights alone, and the heaviest labels are the fewest. Rows of other labels, where ψ allows
them, would take from other classes: then nothing is proven.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from butfor.learn.question import Question
from butfor.prove.bracket import Bracket
from butfor.rules import Allowed
from butfor.situation import Situation

HOW = "weight moved between classes"
SLACK = 1e-6
"""Margins this near to 0 are left open: the estimator's own arithmetic decides there."""

Array = NDArray[np.float64]


def brackets(situation: Situation, psi: Allowed) -> list[Bracket] | None:
    table, question = situation.table, situation.table.question
    assert question is not None
    if (psi.masks & (table.codes != question.decided)).any():
        return None
    weights, scores, votes = (_votes if situation.model.proof == "moved votes" else _sums)(situation)
    return [_one(question, votes, *each) for each in zip(weights, scores, psi, strict=True)]


def _sums(situation: Situation) -> tuple[Array, Array, bool]:
    """What each label moves, `[people × rows]`, and the scores as they are, `[people × classes]`."""
    table, people, model = situation.table, situation.people, situation.model
    new = np.eye(len(table.classes), dtype=np.float32)[table.turned[:1].repeat(len(people))]
    return model.flip_effects(table, people, contrast=new), model.scores(people).astype(np.float64), False


def _votes(situation: Situation) -> tuple[Array, Array, bool]:
    """The same of neighbours, and whether all of them count alike."""
    table, (rows, counted) = situation.table, situation.model.neighbours(situation.people)
    weights, scores = np.zeros((len(rows), table.n)), np.zeros((len(rows), len(table.classes)))
    for person, (near, weight) in enumerate(zip(rows, counted / counted.sum(axis=1, keepdims=True), strict=True)):
        weights[person, near] = weight
        np.add.at(scores[person], table.codes[near], weight)
    return weights, scores, bool(np.ptp(counted) == 0)


def _one(question: Question, votes: bool, weights: Array, scores: Array, allowed: NDArray[np.bool_]) -> Bracket:
    """`votes`: all weights are equal, and a tie goes to the first class."""
    rows = np.flatnonzero(allowed)
    heaviest = rows[np.argsort(-weights[rows], kind="stable")]
    after = np.repeat(scores[None], len(rows), axis=0)
    moved = np.cumsum(np.maximum(weights[heaviest], 0.0))
    after[:, question.decided] -= moved
    after[:, question.new[0]] += moved
    margins = after[:, question.towards].max(axis=1) - after[:, ~question.towards].max(axis=1)
    if votes:
        first = (after > after.max(axis=1, keepdims=True) - SLACK).argmax(axis=1)
        margins = np.where(question.towards[first], 1.0, -1.0)
    possible, sure = np.flatnonzero(margins > -SLACK), np.flatnonzero(margins > SLACK)
    at_least = int(possible[0]) + 1 if len(possible) else len(rows) + 1
    met = len(sure) and int(sure[0]) + 1 == at_least
    return Bracket(at_least, HOW, tuple(sorted(map(int, heaviest[:at_least]))) if met else None)

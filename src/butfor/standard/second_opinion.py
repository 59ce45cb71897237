"""A second opinion: the same share by augmented inverse probability weighting (AIPW), cross-fitted.

A logistic regression of the others' rows predicts the group's labels, and its errors on others who resemble the group
correct it. They resemble it as far as the propensity says: the probability of being of the group given the columns.
Overlap and the robustness value come from the same quantities.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq

from butfor.standard.inputs import MOST_LEARNED, Floats, Rows, thin
from butfor.standard.logistic import design_of, fit_logistic, predict_logistic
from butfor.standard.model import TwoModels

FOLDS = 5
PART_ROWS = 10_000
"""Of more others, models of drawn labels learn from so many, or a quarter of that where the group is small."""
COMPARABLE = 0.9
"""A row has comparable people among the others where its propensity, were both equally many, is at most this (Crump and
others 2009)."""
LARGEST_PROPENSITY = 0.99
POOR_SHARE, POOR_OTHERS = 0.9, 50
"""Overlap is poor where fewer of the rows are comparable, or where the others count for fewer."""


def folds_of(rows: int, clusters: Rows | None, seed: int) -> Rows:
    """Each row's fold; rows of a cluster share one."""
    rng = np.random.default_rng([seed, 5])
    if clusters is None:
        return rng.permutation(np.arange(rows) % FOLDS)
    return rng.permutation(np.arange(int(clusters.max()) + 1) % FOLDS)[clusters]


class Part(NamedTuple):
    """Some of a group's others, by position among them, and how likely each was to be taken; None: for sure."""

    rows: Rows | slice
    taken: Floats | None


EVERYBODY = Part(slice(None), None)


class Opinion:
    """What AIPW needs to know of a group and its others, for any labels."""

    def __init__(self, group: Rows, others: Rows, folds: Rows, propensity: Floats, weight: Floats | None) -> None:
        """`folds` and `propensity`: of the group's rows, then of the others'; `weight`: of all rows of the table."""
        self.group, self.others, self.folds, self.propensity = group, others, folds, propensity
        rows, size = np.concatenate([group, others]), len(group)
        self.weights = np.ones(len(rows)) if weight is None else weight[rows]
        own, theirs, p = self.weights[:size].sum(), self.weights[size:].sum(), propensity[:size]
        self.comparable = p / own <= COMPARABLE * (p / own + (1 - p) / theirs)
        """Which of the group's rows have comparable people among the others."""
        self.odds = propensity[size:] / (1 - propensity[size:]) * self.weights[size:]
        """How much each of the others counts."""
        self.effective_others = float(self.odds.sum() ** 2 / (self.odds**2).sum())
        self.poor = bool(self.comparable.mean() < POOR_SHARE or self.effective_others < POOR_OTHERS)

    @classmethod
    def of(cls, encoded: TwoModels, group: Rows, others: Rows, folds: Rows, weight: Floats | None) -> Opinion:
        """Of large groups, the propensity is learned from a part of either side, whose rows count for more."""
        rows = np.concatenate([group, others])
        member = (np.arange(len(rows)) < len(group)).astype(float)
        own, theirs = thin(len(group), MOST_LEARNED), thin(len(others), MOST_LEARNED)
        learn = np.concatenate([own, len(group) + theirs])
        count = np.repeat([len(group) / len(own), len(others) / len(theirs)], [len(own), len(theirs)])
        count = count if weight is None else count * weight[rows[learn]]
        propensity = encoded.cross_predict(rows, member, folds[rows], learn, count)
        return cls(group, others, folds[rows], np.minimum(propensity, LARGEST_PROPENSITY), weight)

    def part(self, clusters: Rows | None) -> Part:
        """Which of the others models of drawn labels learn from: of many, a part, and rows that resemble the group more
        often, since they matter more; whole clusters."""
        rows = len(self.others)
        if rows <= PART_ROWS:
            return EVERYBODY
        most = int(np.clip(len(self.group), PART_ROWS // 4, PART_ROWS))
        codes = np.arange(rows) if clusters is None else np.unique(clusters[self.others], return_inverse=True)[1]
        sizes = np.bincount(codes)
        near = 1 + np.bincount(codes, self.odds) / sizes / self.odds.mean()
        scale = brentq(lambda by: np.minimum(by * near, 1) @ sizes - most, 0, 1 / near.min())
        taken = np.minimum(scale * near, 1)
        order = np.argsort(near, kind="stable")  # evenly over nearness
        ends = np.floor(np.cumsum(taken[order]) + 0.5)
        some = order[np.diff(ends, prepend=0) > 0]
        inside = np.flatnonzero(np.isin(codes, some))
        return Part(inside, taken[codes[inside]])

    def shares(
        self, encoded: TwoModels, labels: Floats, weight: Floats | None = None, part: Part = EVERYBODY
    ) -> tuple[Floats, Floats]:
        """The group's share by the standard of a part of the others `[tables]`, and the probabilities behind it,
        cross-fitted, `[tables × (group, then this part)]`; `labels [tables × part]`, `weight [part]`."""
        size, learn = len(self.group), self.others[part.rows]
        rows, folds = np.concatenate([self.group, learn]), self.folds
        folds = np.concatenate([folds[:size], folds[size:][part.rows]])
        outcomes = np.empty((len(labels), len(rows)))
        for fold in range(FOLDS):
            inside = folds == fold
            known = ~inside[size:]
            by = None if weight is None else weight[known]
            fitted = fit_logistic(design_of(encoded.inputs[learn[known]]), labels[:, known], by)
            outcomes[:, inside] = predict_logistic(encoded.inputs[rows[inside]], fitted)
        odds, own = self.odds[part.rows], self.weights[:size]
        residual = (labels - outcomes[:, size:]) @ (odds if part.taken is None else odds / part.taken)
        return (outcomes[:, :size] @ own + residual) / own.sum(), outcomes

    def robustness_value(self, difference: float, outcomes: Floats, own: Floats, labels: Floats) -> float:
        """The share of the remaining variation of label and of group membership that a missing column would have to
        explain, of both as much, to make the difference nothing (Chernozhukov and others 2022, for the effect on the
        treated). `outcomes [rows of group and others]`, `own` and `labels [all rows]`."""
        size, weights = len(self.group), self.weights
        predicted = np.concatenate([own[self.group], outcomes[size:]])
        residual = np.concatenate([labels[self.group], labels[self.others]]) - predicted
        share = weights[:size].sum() / weights.sum()
        propensity = self.propensity[size:]
        odds = propensity / (1 - propensity)
        label_variance = np.average(residual**2, weights=weights)
        representer = 1 / share + (weights[size:] @ odds**2) / weights.sum() / share**2
        ratio = difference**2 / (label_variance * representer)
        return float((np.sqrt(ratio**2 + 4 * ratio) - ratio) / 2)

"""A second opinion: the same share by augmented inverse probability weighting (AIPW), cross-fitted.

A logistic regression of the others' rows predicts the group's labels, and its errors on others who resemble the group
correct it. They resemble it as far as the propensity says: the probability of being of the group given the columns.
Overlap and the robustness value come from the same quantities.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from butfor.standard.inputs import MOST_LEARNED, Floats, Mask, Rows, thin
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


def folds_of(rows: int, clusters: NDArray[np.int64] | None, seed: int) -> Rows:
    """Each row's fold; rows of a cluster share one."""
    rng = np.random.default_rng([seed, 5])
    if clusters is None:
        return rng.permutation(np.arange(rows) % FOLDS)
    return rng.permutation(np.arange(int(clusters.max()) + 1) % FOLDS)[clusters]


class Part(NamedTuple):
    """Some of a group's others, by position among them, and how likely each was to be taken."""

    rows: Rows | slice
    taken: Floats | float

    def weight(self, weight: Floats | None, learn: Rows) -> Floats | None:
        """Of the learned rows: those taken rarely stand for more."""
        if isinstance(self.taken, float):
            return None if weight is None else weight[learn]
        return (1.0 if weight is None else weight[learn]) / self.taken

    def labels(self, labels: NDArray[Any], expected: Floats) -> Floats:
        """Labels `[tables × learned rows]`; the noise of those that stand for more is smaller, so that models move as
        far as by all rows."""
        found = labels.astype(np.float64)
        return found if isinstance(self.taken, float) else expected + np.sqrt(self.taken) * (found - expected)


EVERYBODY = Part(slice(None), 1.0)


@dataclass(frozen=True, eq=False)
class Opinion:
    """What AIPW needs to know of a group and its others, for any labels."""

    group: Rows
    others: Rows
    folds: Rows
    """Of the group's rows, then of the others'."""
    propensity: Floats
    weight: Floats | None

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

    @property
    def comparable(self) -> Mask:
        """Which of the group's rows have comparable people among the others."""
        own, others = self._weights(self.group).sum(), self._weights(self.others).sum()
        propensity = self.propensity[: len(self.group)]
        return propensity / own <= COMPARABLE * (propensity / own + (1 - propensity) / others)

    @property
    def odds(self) -> Floats:
        """How much each of the others counts, times its weight."""
        propensity = self.propensity[len(self.group) :]
        return propensity / (1 - propensity) * self._weights(self.others)

    @property
    def effective_others(self) -> float:
        return float(self.odds.sum() ** 2 / (self.odds**2).sum())

    @property
    def poor(self) -> bool:
        return bool(self.comparable.mean() < POOR_SHARE or self.effective_others < POOR_OTHERS)

    def outcomes(self, encoded: TwoModels, labels: Floats, part: Part) -> Floats:
        """The standard of a part of the others, cross-fitted: probabilities `[tables × (group, then this part)]`;
        `labels [tables × part]`."""
        rows, size = np.concatenate([self.group, self.others[part.rows]]), len(self.group)
        folds, weight = (
            np.concatenate([self.folds[:size], self.folds[size:][part.rows]]),
            part.weight(self.weight, rows[size:]),
        )
        found = np.empty((len(labels), len(rows)))
        for fold in range(FOLDS):
            inside = folds == fold
            learn = ~inside[size:]
            known = None if weight is None else weight[learn]
            fitted = fit_logistic(design_of(encoded.inputs, rows[size:][learn]), labels[:, learn], known)
            found[:, inside] = predict_logistic(encoded.inputs[rows[inside]], fitted)
        return found

    def expected(self, outcomes: Floats, labels: Floats, part: Part) -> Floats:
        """The group's share by the standard of a part of the others `[tables]`; labels `[tables × part]`."""
        weights, size = self._weights(self.group), len(self.group)
        residual = (labels - outcomes[:, size:]) @ (self.odds[part.rows] / part.taken)
        return (outcomes[:, :size] @ weights + residual) / weights.sum()

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

    def robustness_value(self, difference: float, outcomes: Floats, own: Floats, labels: Floats) -> float:
        """The share of the remaining variation of label and of group membership that a missing column would have to
        explain, of both as much, to make the difference nothing (Chernozhukov and others 2022, for the effect on the
        treated). `outcomes [rows of group and others]`, `own` and `labels [all rows]`."""
        size, weights = len(self.group), self._weights(np.concatenate([self.group, self.others]))
        predicted = np.concatenate([own[self.group], outcomes[size:]])
        residual = np.concatenate([labels[self.group], labels[self.others]]) - predicted
        share = weights[:size].sum() / weights.sum()
        propensity = self.propensity[size:]
        odds = propensity / (1 - propensity)
        label_variance = np.average(residual**2, weights=weights)
        representer = 1 / share + (weights[size:] @ odds**2) / weights.sum() / share**2
        ratio = difference**2 / (label_variance * representer)
        return float((np.sqrt(ratio**2 + 4 * ratio) - ratio) / 2)

    def _weights(self, rows: Rows) -> Floats:
        return np.ones(len(rows)) if self.weight is None else self.weight[rows]

"""A second opinion: the same share by augmented inverse probability weighting (AIPW), cross-fitted.

A logistic regression of the others' rows predicts the group's labels, and its errors on others who resemble the group
correct it. They resemble it as far as the propensity says: the probability of being of the group given the columns.
Overlap and the robustness value come from the same quantities.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from butfor.standard.inputs import Floats, Mask, Rows, design_of
from butfor.standard.logistic import fit_logistic, predict_logistic
from butfor.standard.model import TwoModels

FOLDS = 5
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
        rows = np.concatenate([group, others])
        member = (np.arange(len(rows)) < len(group)).astype(float)
        propensity = encoded.cross_predict(rows, member, folds[rows], weight)
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

    def outcomes(self, encoded: TwoModels, labels: NDArray[Any]) -> Floats:
        """The others' standard, cross-fitted: probabilities `[tables × (group, then others)]`."""
        rows = np.concatenate([self.group, self.others])
        found = np.empty((len(labels), len(rows)))
        for fold in range(FOLDS):
            inside = self.folds == fold
            learn = self.others[~inside[len(self.group) :]]
            weight = None if self.weight is None else self.weight[learn]
            fitted = fit_logistic(design_of(encoded.inputs, learn), labels[:, learn].astype(np.float64), weight)
            found[:, inside] = predict_logistic(encoded.inputs[rows[inside]], fitted)
        return found

    def expected(self, outcomes: Floats, labels: NDArray[Any]) -> Floats:
        """The group's share by the others' standard `[tables]`; labels `[tables × all rows]`."""
        weights, size = self._weights(self.group), len(self.group)
        residual = labels[:, self.others] - outcomes[:, size:]
        return outcomes[:, :size] @ weights / weights.sum() + residual @ self.odds / weights.sum()

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

"""A second opinion: the same share by augmented inverse probability weighting (AIPW), cross-fitted.

A logistic regression of the others' rows predicts the group's labels, and its errors on others who
resemble the group correct it. They resemble it as far as the propensity says: the probability of
being of the group given the columns. Overlap and the robustness value come from the same
quantities.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import stats
from scipy.optimize import brentq

from butfor.standard.inputs import (
    MOST_LEARNED_ROWS,
    Floats,
    Rows,
    thin,
)
from butfor.standard.logistic import design_of, fit_logistic, predict_logistic
from butfor.standard.model import Records

FOLDS = 5
PART_ROWS = 10_000
"""Of more others, models of drawn labels learn from so many, or a quarter of that where the group
is small."""
COMPARABLE_PROPENSITY = 0.9
"""A row has comparable people among the others where its propensity, were both equally many, is at
most this (Crump and others 2009)."""
LARGEST_PROPENSITY = 0.99
"""Larger propensities count as this one, so that no single row of the others counts for too much.
"""
POOR_COMPARABLE_SHARE = 0.9
"""Overlap is poor where a smaller share of the group's rows is comparable."""
POOR_EFFECTIVE_OTHERS = 50
"""Overlap is poor where the others count for fewer rows."""


def folds_of(rows: int, clusters: Rows | None, seed: int) -> Rows:
    """Each row's fold; rows of a cluster share one."""
    rng = np.random.default_rng([seed, 5])
    if clusters is None:
        return rng.permutation(np.arange(rows) % FOLDS)
    return rng.permutation(np.arange(int(clusters.max()) + 1) % FOLDS)[clusters]


class Part(NamedTuple):
    """Some of a group's others, by position among them, and how likely each was to be taken; None:
    for sure."""

    rows: Rows | slice
    taken: Floats | None


EVERYBODY = Part(slice(None), None)


@dataclass(frozen=True)
class ClusteredError:
    """A standard error over clusters, and its degrees of freedom: one fewer than there are
    clusters."""

    error: float
    degrees: int

    @property
    def half_width(self) -> float:
        """Of the 95 % interval."""
        return float(stats.t.ppf(0.975, self.degrees)) * self.error

    def tail(self, difference: float) -> float:
        """How likely a difference at least as large is by chance, in either direction."""
        return float(2 * stats.t.sf(abs(difference) / max(self.error, 1e-12), self.degrees))


class Opinion:
    """What AIPW needs to know of a group and its others, for any labels."""

    def __init__(self, records: Records, group: Rows, others: Rows) -> None:
        """Of large groups, the propensity is learned from a part of either side, whose rows count
        for more."""
        self.records = records
        self.group = group
        self.others = others
        rows = np.concatenate([group, others])
        size = len(group)
        self.folds = records.folds[rows]
        self.weights = records.weight[rows]
        own = thin(size, MOST_LEARNED_ROWS)
        theirs = thin(len(others), MOST_LEARNED_ROWS)
        learn = np.concatenate([own, size + theirs])
        stands_for = [size / len(own), len(others) / len(theirs)]
        count = np.repeat(stands_for, [len(own), len(theirs)]) * self.weights[learn]
        member = (np.arange(len(rows)) < size).astype(float)
        propensity = records.encoded.cross_predict(rows, member, self.folds, learn, count)
        self.propensity = np.minimum(propensity, LARGEST_PROPENSITY)
        """Of the group's rows, then of the others'."""
        p, q = np.split(self.propensity, [size])
        own_weight, other_weight = np.split(self.weights, [size])
        near = p / own_weight.sum()
        self.comparable = near <= COMPARABLE_PROPENSITY * (near + (1 - p) / other_weight.sum())
        """Which of the group's rows have comparable people among the others."""
        self.odds = q / (1 - q) * other_weight
        """How much each of the others counts."""
        self.effective_others = float(self.odds.sum() ** 2 / (self.odds**2).sum())
        self.poor = bool(
            self.comparable.mean() < POOR_COMPARABLE_SHARE
            or self.effective_others < POOR_EFFECTIVE_OTHERS
        )

    def part(self) -> Part:
        """Which of the others models of drawn labels learn from: of many, a part, and rows that
        resemble the group more often, since they matter more; whole clusters."""
        rows = len(self.others)
        clusters = self.records.clusters
        if rows <= PART_ROWS:
            return EVERYBODY
        most = int(np.clip(len(self.group), PART_ROWS // 4, PART_ROWS))
        codes = np.arange(rows)
        if clusters is not None:
            codes = np.unique(clusters[self.others], return_inverse=True)[1]
        sizes = np.bincount(codes)
        near = 1 + np.bincount(codes, self.odds) / sizes / self.odds.mean()
        scale = brentq(lambda by: np.minimum(by * near, 1) @ sizes - most, 0, 1 / near.min())
        taken = np.minimum(scale * near, 1)
        order = np.argsort(near, kind="stable")  # evenly over nearness
        ends = np.floor(np.cumsum(taken[order]) + 0.5)
        inside = np.flatnonzero(np.isin(codes, order[np.diff(ends, prepend=0) > 0]))
        return Part(inside, taken[codes[inside]])

    def shares(
        self, labels: Floats, weight: Floats, part: Part = EVERYBODY
    ) -> tuple[Floats, Floats]:
        """The group's share by the standard of a part of the others `[tables]`, and the
        probabilities behind it, cross-fitted, `[tables × (group, then this part)]`; `labels [tables
        × part]`, `weight [part]`."""
        size = len(self.group)
        inputs = self.records.encoded.inputs
        learn = self.others[part.rows]
        odds = self.odds[part.rows]
        rows = np.append(self.group, learn)
        folds = np.append(self.folds[:size], self.folds[size:][part.rows])
        outcomes = np.empty((len(labels), len(rows)))
        for fold in range(FOLDS):
            inside = folds == fold
            outside = ~inside[size:]
            design = design_of(inputs[learn[outside]])
            fitted = fit_logistic(design, labels[:, outside], weight[outside])
            outcomes[:, inside] = predict_logistic(inputs[rows[inside]], fitted)
        own = self.weights[:size]
        counts = odds if part.taken is None else odds / part.taken
        residual = (labels - outcomes[:, size:]) @ counts
        share = (outcomes[:, :size] @ own + residual) / own.sum()
        return share, outcomes

    def clustered_error(self, outcomes: Floats) -> ClusteredError:
        """The standard error of AIPW's difference if other clusters of this kind had been recorded:
        its influence function, summed by cluster. `outcomes [rows of group and others]` are
        cross-fitted by cluster."""
        size = len(self.group)
        assert self.records.clusters is not None
        clusters = self.records.clusters[np.append(self.group, self.others)]
        labels = self.records.labels[np.append(self.group, self.others)]
        own = self.weights[:size]
        total = own.sum()
        off = outcomes - labels
        influence = np.append(own, -self.odds * (total / self.odds.sum())) * off / total
        # The difference itself, so that all sum to 0.
        influence[:size] -= own / total * influence.sum()
        _, numbers = np.unique(clusters, return_inverse=True)
        by_cluster = np.bincount(numbers, influence)
        count = len(by_cluster)
        error = float(np.sqrt(count / (count - 1) * (by_cluster**2).sum()))
        return ClusteredError(error, count - 1)

    def robustness_value(self, difference: float, outcomes: Floats, own: Floats) -> float:
        """The share of the remaining variation of label and of group membership that a missing
        column would have to explain, of both as much, to make the difference nothing (Chernozhukov
        and others 2022, for the effect on the treated). `outcomes [rows of group and others]`, `own
        [all rows]`."""
        size = len(self.group)
        weights = self.weights
        labels = self.records.labels[np.append(self.group, self.others)]
        residual = labels - np.append(own[self.group], outcomes[size:])
        share = weights[:size].sum() / weights.sum()
        odds = self.propensity[size:] / (1 - self.propensity[size:])
        label_variance = np.average(residual**2, weights=weights)
        representer = 1 / share + (weights[size:] @ odds**2) / weights.sum() / share**2
        ratio = difference**2 / (label_variance * representer)
        return float((np.sqrt(ratio**2 + 4 * ratio) - ratio) / 2)

"""One standard for everybody, and tables whose labels are drawn by it.

A model of all rows knows the protected attribute. Asked about everybody with every value of the attribute, and averaged
over these, it gives people with the same columns the same probability in every group. On tables drawn by it no group is
held to another standard, but groups differ in their columns as they really do. What the comparison finds there is the
method's own error.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import ndtr, ndtri

from butfor.standard.inputs import LARGE, MOST_LEARNED, ROWS_AT_ONCE, Floats, Inputs, Mask, Rows, beside, thin
from butfor.standard.model import TwoModels
from butfor.standard.second_opinion import folds_of

MEMBERSHIP = 2.0
"""Size of a membership input: as large as a column's spread of two standard deviations, so that it is shrunk little."""
PAIRS = 2000
"""Pairs of rows of one cluster by which their correlation is judged."""
MOST_CORRELATED = 0.95
UNIFORMS = 4_000_000
"""Random numbers that are held at a time, of large tables."""


@dataclass(frozen=True, eq=False)
class CommonStandard:
    """Probabilities of the favourable label `[rows]`: the same for people with the same columns, and, as the recorded
    labels have it, by their own group."""

    everybody: Floats
    own: Floats
    clusters: NDArray[np.int64] | None = None
    correlation: float = 0.0
    """Of the labels' latent scores within a cluster."""

    @classmethod
    def of(
        cls,
        encoded: TwoModels,
        attributes: list[NDArray[np.int64]],
        labels: Floats,
        weight: Floats | None,
        clusters: NDArray[np.int64] | None,
    ) -> CommonStandard:
        """`attributes`: the rows' codes by each attribute; the last one, all of them together, is averaged out."""
        whole, rows = attributes[-1], np.arange(len(labels))
        shares = np.bincount(whole, weight) / (len(whole) if weight is None else weight.sum())
        first = [int(np.flatnonzero(whole == code)[0]) for code in range(len(shares))]
        members = np.column_stack([MEMBERSHIP * (codes[:, None] == np.unique(codes)) for codes in attributes])
        model = encoded.with_inputs(members)
        predict = model.fit(rows, labels[None], weight)
        found = [predict(some) for some in _everybody(encoded.inputs, members, first)]
        own, *by_value = np.concatenate(found, axis=1)[0].reshape(-1, len(rows))
        everybody = shares @ np.array(by_value)
        correlation = 0.0
        if clusters is not None:  # by models that saw no row of the cluster: others take its luck for their own
            folds = folds_of(len(rows), clusters, 0)
            learn = thin(len(rows), 2 * MOST_LEARNED)
            known = None if weight is None else weight[learn]
            unseen = model.cross_predict(rows, labels, folds, learn, known)
            correlation = _latent_correlation(labels, unseen, clusters)
        return cls(everybody, own, clusters, correlation)

    def uniforms(self, seed: tuple[int, ...]) -> Floats:
        """A number from 0 to 1 per row, those of a cluster alike: a label is favourable where it is below the row's
        probability."""
        rng = np.random.default_rng(seed)
        if self.clusters is None or not self.correlation:
            return rng.random(len(self.everybody))
        shared = rng.standard_normal(int(self.clusters.max()) + 1)[self.clusters]
        apart = rng.standard_normal(len(shared))
        found: Floats = ndtr(np.sqrt(self.correlation) * shared + np.sqrt(1 - self.correlation) * apart)
        return found

    def uniforms_of(self, rows: Rows, random_state: int, tables: int) -> Iterator[Floats]:
        """Those of some rows in the first drawn tables `[tables × rows]`; of large tables, a few at a time."""
        size = max(1, UNIFORMS // len(self.everybody)) if len(self.everybody) > LARGE else max(1, tables)
        seeds = seeds_of(random_state, tables)
        for begin in range(0, tables, size):
            yield np.array([self.uniforms(seed)[rows] for seed in seeds[begin : begin + size]])

    def labels(self, seeds: list[tuple[int, int]]) -> Mask:
        """Of drawn tables `[tables × rows]`."""
        return np.array([self.uniforms(seed) < self.everybody for seed in seeds])


def seeds_of(random_state: int, tables: int) -> list[tuple[int, int]]:
    """Of drawn tables. Not (0, 0): for numpy that is 0, which made many a table, whose columns such labels would
    follow."""
    return [(random_state, 1 + k) for k in range(tables)]


def _everybody(inputs: Inputs, members: Floats, first: list[int]) -> Iterator[Inputs]:
    """All rows as they are, then once with each value of the attribute, that of the rows `first`; some at a time."""
    rows = len(members)
    for begin in range(0, (1 + len(first)) * rows, ROWS_AT_ONCE):
        time, row = np.divmod(np.arange(begin, min(begin + ROWS_AT_ONCE, (1 + len(first)) * rows)), rows)
        theirs = np.append(0, first)[time]
        yield beside(inputs[row], members[np.where(time == 0, row, theirs)])


def _latent_correlation(labels: Floats, expected: Floats, clusters: NDArray[np.int64]) -> float:
    """The correlation of latent normal scores within clusters under which labels agree as often as the recorded ones
    do, given what is expected of each row."""
    order = np.argsort(clusters, kind="stable")
    first, second = order[:-1], order[1:]  # neighbours of one cluster
    same = clusters[first] == clusters[second]
    if not same.any():
        return 0.0
    first, second = first[same], second[same]
    p, q = np.clip(expected[first], 0.005, 0.995), np.clip(expected[second], 0.005, 0.995)
    scale = np.sqrt(p * (1 - p) * q * (1 - q))
    observed = float(np.mean((labels[first] - p) * (labels[second] - q) / scale))
    some = np.linspace(0, len(p) - 1, min(len(p), PAIRS)).astype(int)
    p, q, scale = p[some], q[some], scale[some]
    nodes, weights = np.polynomial.hermite_e.hermegauss(20)
    weights = weights / weights.sum()

    def excess(correlation: float) -> float:
        root, rest = np.sqrt(correlation), np.sqrt(1 - correlation)
        both = ndtr((ndtri(p)[:, None] - root * nodes) / rest) * ndtr((ndtri(q)[:, None] - root * nodes) / rest)
        return float(np.mean((both @ weights - p * q) / scale)) - observed

    if observed <= 0:
        return 0.0
    return MOST_CORRELATED if excess(MOST_CORRELATED) < 0 else float(brentq(excess, 0.0, MOST_CORRELATED, xtol=1e-3))

"""What each label does to one person's decision, learned from the retrainings seen so far.

The model is a straight line: the logit moves by the sum of the flipped labels' effects, and by noise, because
training is rough. Before anything is seen, all that is known of a label's effect is its place in a ranking: the
effect shrinks down the ranking, by a scale that is unknown, and each label differs from that by its own amount. Every
network that was trained, for whomever, adds an observation. What comes out is a normal distribution over effects, from
which a search draws (Thompson sampling): labels that might be strong get their chance in proportion to how likely
they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack

from butfor.learn.protocols import FlipSet

Vector = NDArray[np.float64]


class Effects:
    """Beliefs about the effects of the rows of a `pool`, the best ranked first; sets have up to `budget` of them.

    Gains are logits counted towards the other decision; `start` is that of the unchanged data. `predicted [pool]`: the
    rows' effects, where a ranking can be trusted with more than their order."""

    SHIFT, SCALE = 0, 1
    """Places of the two parameters that precede the rows' own: a shift common to all retrainings (the unchanged
    network is one draw of training's noise itself), and the scale of the ranking's effects."""
    FALL = 3.0
    """Budgets' lengths down the ranking until the expected effect has fallen to 1/e."""
    OWN = 0.5
    """How far a row's effect differs from what its rank makes expect, as a share of that (one standard deviation)."""
    PREDICTED = 0.05
    """The same where the effects themselves are predicted, by a ranking that was seen to be right."""
    NOISE = 0.15
    """Noise of training to begin with, as a share of what a full set does."""

    def __init__(self, pool: list[int], budget: int, start: float, predicted: Vector | None = None) -> None:
        self.place = {row: k for k, row in enumerate(pool)}
        self._places = np.argsort(pool)
        self._pool = np.array(pool, np.int64)[self._places]
        self.start = start
        own = self.OWN
        if predicted is None:
            self.expected = np.exp(-np.arange(len(pool)) / (self.FALL * budget))
        else:
            self.expected, own = predicted / max(float(np.abs(predicted).max(initial=0.0)), 1e-12), self.PREDICTED
        size = len(pool) + 2
        # In units of one expected effect: noise variance over a row's own variance, from the shares above.
        ridge = (self.NOISE * budget / own) ** 2
        self._precision = np.zeros((size, size))
        self._precision[np.arange(2, size), np.arange(2, size)] = ridge
        self._precision[self.SHIFT, self.SHIFT] = self._precision[self.SCALE, self.SCALE] = 1e-3
        self._moment = np.zeros(size)
        self._squares, self._count = 0.0, 0
        self._solved: tuple[Vector, NDArray[np.float64], float] | None = None
        self._news: list[tuple[FlipSet, float]] = [((), 0.0)]

    def saw(self, flips: FlipSet, gain: float) -> None:
        """A network trained on `flips` gave this gain."""
        self._news.append((flips, gain - self.start))

    def saw_all(self, sets: Sequence[FlipSet], gains: Sequence[float]) -> None:
        self._news += [(flips, gain - self.start) for flips, gain in zip(sets, gains, strict=True)]

    def _take_in(self) -> None:
        features = self._features([flips for flips, _ in self._news])
        moved = np.array([moved for _, moved in self._news])
        self._precision += features.T @ features
        self._moment += features.T @ moved
        self._squares += float(moved @ moved)
        self._count += len(moved)
        self._news.clear()

    def _features(self, sets: Sequence[FlipSet]) -> NDArray[np.float64]:
        """Of each set its shift, its scale, and which rows of the pool it holds."""
        features = np.zeros((len(sets), len(self._moment)))
        rows = np.fromiter(chain.from_iterable(sets), np.int64)
        of_set = np.repeat(np.arange(len(sets)), [len(flips) for flips in sets])
        at = np.minimum(np.searchsorted(self._pool, rows), len(self._pool) - 1)
        known = self._pool[at] == rows
        features[of_set[known], 2 + self._places[at[known]]] = 1.0
        features[:, self.SHIFT] = 1.0
        features[:, self.SCALE] = features[:, 2:] @ self.expected
        return features

    def _posterior(self) -> tuple[Vector, NDArray[np.float64], float]:
        """Mean, the precision's Cholesky factor, and the noise's deviation."""
        if self._news or self._solved is None:
            self._take_in()
            factor = lapack.dpotrf(self._precision, lower=1)[0]
            mean = lapack.dpotrs(factor, self._moment, lower=1)[0]
            left = max(self._squares - float(mean @ self._moment), 0.0)
            # One pseudo-observation: a full set's usual noise, so that few observations do not look exact.
            usual = self.NOISE * max(abs(float(mean[self.SCALE])) * self.expected.sum() / 3, 0.1)
            noise = float(np.sqrt((left + usual**2) / (self._count + 1)))
            self._solved = mean, factor, noise
        return self._solved

    def worth(self) -> Vector:
        """The expected effect of each row of the pool."""
        mean, _, _ = self._posterior()
        rows: Vector = mean[self.SCALE] * self.expected + mean[2:]
        return rows

    def drawn(self, rng: np.random.Generator) -> Vector:
        """Effects of the rows as they may be: one draw."""
        mean, factor, noise = self._posterior()
        draw = mean + noise * lapack.dtrtrs(factor, rng.standard_normal(len(mean)), lower=1, trans=1)[0]
        # The scale is about all rows together: its own doubt would only blur the comparison between them.
        rows: Vector = mean[self.SCALE] * self.expected + draw[2:]
        return rows

    def forecast(self, flips: FlipSet) -> tuple[float, float]:
        """The gain to expect of a set, and its standard deviation, noise of training included."""
        mean, factor, noise = self._posterior()
        (features,) = self._features([flips])
        unsure = lapack.dtrtrs(factor, features, lower=1)[0]
        spread = noise * float(np.sqrt(1 + unsure @ unsure))
        return self.start + float(features @ mean), spread

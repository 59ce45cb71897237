"""The guided search: beliefs about the effects of labels (`Effects`), the next set to try for a person
(`ThompsonPlan`), and how many (`GuidedSearch`). Every retraining updates the beliefs, so a poor ranking costs attempts,
not answers."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack

from butfor.errors import SettingError
from butfor.learn.protocols import FlipSet, Model
from butfor.rank import Ranking
from butfor.rank.mix import RankingMix
from butfor.search.state import FixedPlan, Plan, RankedRows, flip_set
from butfor.search.strategy import Strategy

Vector = NDArray[np.float64]
DRAWS = 20
"""The most draws to find a set that was not tried before."""


class Effects:
    """Beliefs about the effect of each label on one person's decision, from all retrainings so far. `pool`: the rows,
    best ranked first; sets have up to `budget` of them.

    The model is linear: the logit moves by the sum of the flipped labels' effects, plus noise, because training is
    rough. The prior comes from the ranking: effects fall along it, by an unknown scale, and each label differs from
    that by its own amount. Every trained model is an observation, for all people. The posterior is a
    normal distribution over effects. The search draws from it (Thompson sampling), so labels that may be strong are
    tried in proportion to their probability.

    Gains are logits towards the other decision; `start` is the gain of the unchanged data. `predicted [pool]`: the
    rows' effects, if the ranking predicts them reliably."""

    SHIFT, SCALE = 0, 1
    """Positions of two parameters before those of the rows: a shift common to all retrainings (the unchanged model is
    itself one draw of training noise), and the scale of the ranking's effects."""
    FALL = 3.0
    """Ranks, as a multiple of the budget, over which the expected effect falls to 1/e."""
    OWN = 0.5
    """The standard deviation of a row's effect, as a share of the effect expected from its rank."""
    PREDICTED = 0.05
    """The same if a reliable ranking predicts the effects."""
    NOISE = 0.15
    """The prior noise of training, as a share of the effect of a full set."""

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
        # In units of one expected effect: noise variance over a row's own variance.
        ridge = (self.NOISE * budget / own) ** 2
        self._precision = np.zeros((size, size))
        self._precision[np.arange(2, size), np.arange(2, size)] = ridge
        self._precision[self.SHIFT, self.SHIFT] = self._precision[self.SCALE, self.SCALE] = 1e-3
        self._moment = np.zeros(size)
        self._squares, self._count = 0.0, 0
        self._solved: tuple[Vector, Vector, float] | None = None
        self._news: list[tuple[FlipSet, float]] = [((), 0.0)]

    def observe(self, sets: Sequence[FlipSet], gains: Sequence[float]) -> None:
        """Models trained on these sets gave these gains."""
        self._news += [(flips, gain - self.start) for flips, gain in zip(sets, gains, strict=True)]

    def _features(self, sets: Sequence[FlipSet]) -> Vector:
        """Of each set: 1 for the shift, the coefficient of the scale, and 1 for each of its rows in the pool."""
        features = np.zeros((len(sets), len(self._moment)))
        rows = np.fromiter(chain.from_iterable(sets), np.int64)
        of_set = np.repeat(np.arange(len(sets)), [len(flips) for flips in sets])
        at = np.minimum(np.searchsorted(self._pool, rows), len(self._pool) - 1)
        known = self._pool[at] == rows
        features[of_set[known], 2 + self._places[at[known]]] = 1.0
        features[:, self.SHIFT] = 1.0
        features[:, self.SCALE] = features[:, 2:] @ self.expected
        return features

    def _posterior(self) -> tuple[Vector, Vector, float]:
        """Mean, Cholesky factor of the precision, and standard deviation of the noise."""
        if self._news or self._solved is None:
            features = self._features([flips for flips, _ in self._news])
            moved = np.array([moved for _, moved in self._news])
            self._precision += features.T @ features
            self._moment += features.T @ moved
            self._squares += float(moved @ moved)
            self._count += len(moved)
            self._news.clear()
            factor = lapack.dpotrf(self._precision, lower=1)[0]
            mean = lapack.dpotrs(factor, self._moment, lower=1)[0]
            left = max(self._squares - float(mean @ self._moment), 0.0)
            # One pseudo-observation with the usual noise of a full set: few observations must not look exact.
            usual = self.NOISE * max(abs(float(mean[self.SCALE])) * self.expected.sum() / 3, 0.1)
            noise = float(np.sqrt((left + usual**2) / (self._count + 1)))
            self._solved = mean, factor, noise
        return self._solved

    def expected_effects(self) -> Vector:
        """The expected effect of each row of the pool."""
        mean, _, _ = self._posterior()
        return np.asarray(mean[self.SCALE] * self.expected + mean[2:])

    def draw(self, rng: np.random.Generator) -> Vector:
        """One draw of the rows' effects."""
        mean, factor, noise = self._posterior()
        draw = mean + noise * lapack.dtrtrs(factor, rng.standard_normal(len(mean)), lower=1, trans=1)[0]
        # The scale is common to all rows: its variance would only blur comparisons between them.
        return np.asarray(mean[self.SCALE] * self.expected + draw[2:])

    def forecast(self, flips: FlipSet) -> tuple[float, float]:
        """The expected gain of a set and its standard deviation, with noise of training."""
        mean, factor, noise = self._posterior()
        (features,) = self._features([flips])
        unsure = lapack.dtrtrs(factor, features, lower=1)[0]
        spread = noise * float(np.sqrt(1 + unsure @ unsure))
        return self.start + float(features @ mean), spread


class ThompsonPlan(Plan):
    """Sets that spend the whole budget, updated by every retraining.

    The first attempt flips the top `budget` rows of the ranking: more flips move a decision further, and a set that
    works is shrunk afterwards. Each further attempt flips the best rows by a draw of their effects, given all models so
    far: the person's own and, with sharing, those of others that ψ allows."""

    REACH = 3
    """Candidate rows, as a multiple of the budget."""
    LEAST_CANDIDATES = 24
    SURE = 4.0
    """A reliable forecast this many standard deviations short of the other decision ends the search."""

    def __init__(self, person: RankedRows, tries: int) -> None:
        reach = max(self.LEAST_CANDIDATES, self.REACH * person.budget)
        self.candidates = [int(row) for row in person.order[:reach]]
        self.budget, self.rng = min(person.budget, len(person.order)), person.rng
        self.tries, self.pool_share = tries, tries // GuidedSearch.PATIENCE
        self.believed, self.gain_limit = person.predicted is not None, person.gain_limit
        self._first: float | None = None
        """The gain of the first set: the best one if effects are predicted reliably."""
        known = None if person.predicted is None else person.predicted[:reach]
        self.effects = Effects(self.candidates, self.budget, person.start, known)
        self._rank = {int(row): place for place, row in enumerate(person.order)}
        self._tried: set[FlipSet] = set()

    def next(self) -> FlipSet | None:
        over = self.done or len(self._tried) >= self.tries or self._out_of_reach()
        flips = None if over else self._proposal()
        self.done = flips is None
        if flips is not None:
            self._tried.add(flips)
        return flips

    def observe(self, sets: Sequence[FlipSet], gains: Sequence[float], work: Sequence[bool]) -> None:
        self.effects.observe(sets, gains)
        if self._first is not None:
            return
        own = [gain for flips, gain in zip(sets, gains, strict=True) if flips in self._tried]
        if own:
            self._first = own[0] - self.effects.start
            # With reliable predictions: stop if the best set, even stretched by `gain_limit`, falls short.
            if self.believed and self._first > 0 and self.effects.start + self.gain_limit * self._first < 0:
                self.done, self.pool_returns = True, max(0, self.pool_share - len(self._tried))

    def first_attempts(self) -> list[FlipSet]:
        return [flip_set(self.candidates[: self.budget])]

    def promise(self) -> float:
        """One draw of the gain of the next attempt, above 0 beyond the decision; before the first attempt, the present
        gain."""
        if not self._tried:
            return self.effects.start
        expected, spread = self.effects.forecast(self._best(self.effects.expected_effects()))
        return expected + spread * float(self.rng.standard_normal())

    def strongest_first(self, flips: FlipSet) -> list[int]:
        worth, place = self.effects.expected_effects(), self.effects.place
        behind = float(worth.min(initial=0.0))
        return sorted(flips, key=lambda row: (-worth[place[row]] if row in place else -behind, self._rank.get(row, -1)))

    def _proposal(self) -> FlipSet | None:
        """A set not tried before; None if the draws bring none."""
        if not self._tried:
            return self.first_attempts()[0]
        drawn = (self._best(self.effects.draw(self.rng)) for _ in range(DRAWS))
        # If beliefs are too firm to give a new set: a random one.
        anything = (flip_set(self.rng.choice(self.candidates, self.budget, replace=False)) for _ in range(DRAWS))
        return next((flips for flips in chain(drawn, anything) if flips not in self._tried), None)

    def _out_of_reach(self) -> bool:
        """Whether reliable predictions, after the first attempt, rule out the other decision."""
        if not self.believed or not self._tried:
            return False
        expected, spread = self.effects.forecast(self._best(self.effects.expected_effects()))
        return expected + self.SURE * spread < 0

    def propose_size(self, size: int) -> FlipSet | None:
        drawn = (self._best(self.effects.draw(self.rng), size) for _ in range(DRAWS))
        flips = next((flips for flips in drawn if flips not in self._tried), None)
        if flips:
            self._tried.add(flips)
        return flips

    def _best(self, worth: Vector, size: int | None = None) -> FlipSet:
        return flip_set(self.candidates[k] for k in np.argsort(-worth, kind="stable")[: size or self.budget])


class GuidedSearch(Strategy):
    """Tries sets that spend the whole budget, learns from every retraining, and shrinks sets that work.

    With a budget of one label it tries the flippable labels one by one, all of them if they are few. `tries`: mean
    attempts per person before shrinking; by default as many as Algorithm 1 takes, from `LEAST` to `MOST`. The most
    promising people get more attempts, up to `PATIENCE` times as many."""

    name = "guided"
    proves = True
    shares = True
    shrinks = True
    LEAST, MOST = 8, 64
    FEW = 2000
    PATIENCE = 8

    def __init__(self, tries: int | None = None, *, share: bool | None = None) -> None:
        super().__init__(share=share)
        if tries is not None and tries < 1:
            raise SettingError(f"tries={tries} must be at least 1.")
        self.tries = tries

    def ranking(self, model: Model) -> Ranking:
        return RankingMix.of(model)

    def plan(self, person: RankedRows) -> Plan:
        if person.budget == 1 or len(person.order) < 2:
            return FixedPlan(((int(row),) for row in person.order[: self.count(person.flippable, 1)]), person.order)
        tries = self.count(person.flippable, person.budget)
        if person.predicted is not None and self.tries is None:
            tries = self.LEAST  # little is left to learn
        return ThompsonPlan(person, self.PATIENCE * tries)

    def count(self, flippable: int, budget: int) -> int:
        if budget == 1:
            return min(flippable, self.tries or (flippable if flippable <= self.FEW else self.FEW // 10))
        return self.tries or max(self.LEAST, min(budget, flippable, self.MOST))

    def depth(self, flippable: int, budget: int) -> int:
        return min(flippable, max(self.FEW, ThompsonPlan.REACH * budget))

    def enumerates(self, flippable: int, budget: int) -> bool:
        return budget == 1 and self.count(flippable, 1) == flippable

    def expected_sets(self, flippable: Sequence[int], budget: int, members: int) -> float:
        """Most people are found, or given up, after the fewest attempts."""
        usual = self if self.tries or budget == 1 else GuidedSearch(self.LEAST)
        return Strategy.expected_sets(usual, flippable, budget, members)

"""Guided: learn from every retraining what each label does, and draw the next set from that."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Sequence
from itertools import chain
from typing import Any

import numpy as np
from scipy.linalg import lapack

from butfor.models.seam import FlipSet
from butfor.search.person import Confirm, Person, Search, Vector, flip_set
from butfor.search.published import one_by_one

MAX_CLAIMS = 8
"""The most sets of one person that a guided search confirms, since confirmation rarely fails."""
MIN_TRIES = 8
"""The fewest attempts after which a guided search gives somebody up."""
MAX_TRIES = 64
"""The most; between the two as many as Algorithm 1 takes."""
MAX_TRIED_ALONE = 2000
"""Flippable labels up to which all are tried one by one, with a budget of one label."""
CANDIDATES_PER_LABEL = 3
"""Rows that a search chooses from, as a multiple of the budget."""
MIN_CANDIDATES = 24
"""The fewest rows that a guided search chooses from."""
GIVE_UP_DEVIATIONS = 4.0
"""A reliable forecast this many standard deviations short of the other decision ends the search."""
MAX_DRAWS = 20
"""The most draws to find a set that was not tried before."""
SHRINK_TRIES_PER_LABEL = 16
"""The most attempts to shrink a set by single flips, as a multiple of its labels."""
MAX_SHRINK_TRIES = 400
"""The most such attempts in all."""
MAX_OTHER_SETS = 12
"""The most attempts with other sets that are smaller by one."""
MAX_PRUNED_SIZE = 64
"""The largest set whose flips are dropped one by one; beyond it that costs too much."""


def guided(person: Person, tries: int | None = None) -> Search:
    """Flip as many labels as the budget allows, learn from every retraining what each label does,
    and draw the next set from these beliefs (Thompson sampling); shrink what works. With a budget
    of one, try the labels one by one.

    `tries`: attempts after which somebody is given up who came no nearer to the other decision; by
    default as many as Algorithm 1 takes, and few if the ranking's predictions can be believed,
    since little is left to learn then."""
    if person.budget == 1 or len(person.order) < 2:
        return (yield from one_by_one(person, person.order[: tries or tried_alone(person)]))
    rows = [
        int(row)
        for row in person.order[: max(MIN_CANDIDATES, CANDIDATES_PER_LABEL * person.budget)]
    ]
    budget = min(person.budget, len(rows))
    believed = person.predicted is not None
    predicted = None if person.predicted is None else person.predicted[: len(rows)]
    effects = Effects(rows, budget, person.start, predicted)
    if tries is None:
        tries = MIN_TRIES
        if not believed:
            tries = max(MIN_TRIES, min(person.budget, person.flippable, MAX_TRIES))
    # A near miss gets up to 8 times as many attempts, 2 times if predictions are believed.
    least_left = 2 / 5 if believed else 1 / 16
    # The first set flips the top of the ranking: more flips move a decision further, and what works
    # is shrunk.
    flips: FlipSet | None = person.best(budget)
    tried = failed = 0
    while failed < MAX_CLAIMS:
        while not person.working:
            # Who comes nearer to the other decision gets more attempts.
            left = person.gains.closest / (person.start or -1e-9)
            allowed_tries = tries * np.clip(left, least_left, 1) ** -0.75
            if tried >= allowed_tries or flips is None:
                return None
            gain = yield flips
            tried += 1
            effects.learn(person)
            if person.working:
                break
            if believed:
                # Even the best set, stretched as far as the trial allows, falls short.
                expected, spread = effects.forecast(effects.best(effects.worth(), budget))
                stretched = person.start + person.gain_limit * (gain - person.start)
                if expected + GIVE_UP_DEVIATIONS * spread < 0:
                    return None
                if tried == 1 and gain > person.start and stretched < 0:
                    return None
            flips = effects.new_set(person, budget)
            if flips is None:  # beliefs are too firm to give one
                flips = _random_set(person, rows, budget)
        claim = yield from _shrink(person, effects)
        while not (yield Confirm(claim)):
            failed += 1
            # The engine is not exact near the boundary: back to a larger set, at last to the
            # clearest.
            larger = {
                flips: gain for flips, gain in person.working.items() if len(flips) > len(claim)
            }
            if failed >= MAX_CLAIMS or not larger:
                break
            if failed == MAX_CLAIMS - 1:
                claim = max(larger, key=lambda flips: larger[flips])
            else:
                smallest = min(larger, key=lambda flips: (len(flips), -larger[flips]))
                order = effects.strongest_first(smallest)
                shortest = yield from _halve(person, order, len(claim))
                claim = flip_set(shortest)
        else:
            return claim
    return None


def tried_alone(person: Person) -> int:
    """How many labels are tried one by one, with a budget of one label."""
    return person.flippable if person.flippable <= MAX_TRIED_ALONE else MAX_TRIED_ALONE // 10


def _random_set(person: Person, rows: list[int], size: int) -> FlipSet | None:
    """A set of these rows by chance that was not tried before; None if no draw brings one."""
    for _ in range(MAX_DRAWS):
        flips = flip_set(person.rng.choice(rows, size, replace=False))
        if flips not in person.gains:
            return flips
    return None


def _halve(person: Person, order: list[int], fails: int = 0) -> Generator[Any, Any, list[int]]:
    """The shortest prefix of `order` that works."""

    def tried(flips: FlipSet) -> Generator[Any, Any, None]:
        if flips not in person.gains:
            yield flips

    return (yield from shortest_prefix(order, tried, person.works, fails))


def shortest_prefix(
    order: list[int],
    tried: Callable[[FlipSet], Generator[Any, Any, None]],
    works: Callable[[FlipSet], bool],
    fails: int = 0,
) -> Generator[Any, Any, list[int]]:
    """The shortest prefix of `order` that works, by bisection; all of it works, and its first
    `fails` rows do not. `tried` has a set trained unless it was."""
    length = len(order)
    while length - fails > 1:
        middle = (fails + length) // 2
        flips = flip_set(order[:middle])
        yield from tried(flips)
        if works(flips):
            length = middle
        else:
            fails = middle
    return order[:length]


def _shrink(person: Person, effects: Effects) -> Generator[Any, Any, FlipSet]:
    """Drop flips of the smallest set that works, by halves from the weak end, then one by one. This
    shows which flips matter least, and halves are tried again in that order. Then try a dozen other
    sets that are smaller by one.

    In the end every set that drops a single flip was tried and does not work, unless the set is
    large or the attempts ran out."""
    kept = person.smallest()
    assert kept is not None
    left = min(SHRINK_TRIES_PER_LABEL * len(kept), MAX_SHRINK_TRIES) + MAX_OTHER_SETS
    others = MAX_OTHER_SETS
    order = effects.strongest_first(kept)
    while len(kept) > 1:
        shortest = yield from _halve(person, order)
        kept = flip_set(shortest)
        fewer: dict[int, FlipSet] = {}
        """By row: the set without it."""
        if 1 < len(kept) <= MAX_PRUNED_SIZE:
            fewer = {row: tuple(other for other in kept if other != row) for row in kept}
        new = [flips for flips in fewer.values() if flips not in person.gains][:left]
        if new:
            left -= len(new)
            yield new
        working = [flips for flips in fewer.values() if person.works(flips)]
        if working:
            # What each flip is worth is known now: the most needed first.
            rest = {row: person.gains.get(flips, 0.0) for row, flips in fewer.items()}
            kept = max(working, key=lambda flips: person.gains[flips])
            order = sorted(kept, key=lambda row: rest[row])
            continue
        effects.learn(person)
        smaller = None
        while smaller is None and others > 0 and left > 0 and len(kept) > 1:
            others -= 1
            flips = effects.new_set(person, len(kept) - 1)
            if flips is not None:
                left -= 1
                yield flips
                effects.learn(person)
                smaller = flips if person.works(flips) else None
        if smaller is None:
            break
        kept = smaller
        order = effects.strongest_first(smaller)
    best = person.smallest()
    return best if best is not None and len(best) < len(kept) else kept


class Effects:
    """Beliefs about the effect of each label on one person's decision, from all retrainings so far.
    `rows`: best ranked first; sets have up to `budget` of them.

    The model is linear: the logit moves by the sum of the flipped labels' effects, plus noise,
    because training is rough. The prior comes from the ranking: effects fall along it, by an
    unknown scale, and each label differs from that by its own amount. The posterior is a normal
    distribution over effects. The search draws from it (Thompson sampling), so labels that may be
    strong are tried in proportion to their probability.

    `start`: the gain of the unchanged data. `predicted [rows]`: the effects, if the ranking
    predicts them reliably."""

    SHIFT = 0
    """Position of a shift common to all retrainings: the unchanged model is itself one draw of
    training noise."""
    SCALE = 1
    """Position of the scale of the ranking's effects; the rows' own parameters follow."""
    DECAY_BUDGETS = 3.0
    """Ranks, as a multiple of the budget, over which the expected effect falls to 1/e."""
    ROW_DEVIATION = 0.5
    """The standard deviation of a row's effect, as a share of the effect expected from its rank."""
    PREDICTED_DEVIATION = 0.05
    """The same if a reliable ranking predicts the effects."""
    NOISE_SHARE = 0.15
    """The prior noise of training, as a share of the effect of a full set."""

    def __init__(
        self, rows: list[int], budget: int, start: float, predicted: Vector | None = None
    ) -> None:
        self.rows = rows
        self.start = start
        self._seen = 0
        self.place = {row: k for k, row in enumerate(rows)}
        self._sorted = np.argsort(rows)
        self._ascending = np.sort(rows)
        if predicted is None:
            deviation = self.ROW_DEVIATION
            self.expected = np.exp(-np.arange(len(rows)) / (self.DECAY_BUDGETS * budget))
        else:
            deviation = self.PREDICTED_DEVIATION
            self.expected = predicted / max(float(np.abs(predicted).max(initial=0.0)), 1e-12)
        # In units of one expected effect: noise variance over a row's own variance.
        ridge = (self.NOISE_SHARE * budget / deviation) ** 2
        self._precision = np.diag(np.r_[1e-3, 1e-3, np.full(len(rows), ridge)])
        self._moment = np.zeros(len(rows) + 2)
        self._squares = 0.0
        self._count = 0
        self._solved: tuple[Vector, Vector, float] | None = None
        self.observe([()], [start])

    def learn(self, person: Person) -> None:
        """Observe everything that the person was told since the last time, without trainings that
        diverged."""
        new = person.gains.since(self._seen)
        self._seen = person.gains.trained
        finite = {flips: gain for flips, gain in new.items() if not math.isnan(gain)}
        self.observe(list(finite), list(finite.values()))

    def observe(self, sets: Sequence[FlipSet], gains: Sequence[float]) -> None:
        """Models trained on these sets gave these gains."""
        if sets:
            features = self._features(sets)
            moved = np.array(gains) - self.start
            self._precision += features.T @ features
            self._moment += features.T @ moved
            self._squares += float(moved @ moved)
            self._count += len(moved)
            self._solved = None

    def _features(self, sets: Sequence[FlipSet]) -> Vector:
        """Of each set: 1 for the shift, the coefficient of the scale, and 1 for each of its
        rows."""
        features = np.zeros((len(sets), len(self._moment)))
        flipped = np.fromiter(chain.from_iterable(sets), np.int64)
        of_set = np.repeat(np.arange(len(sets)), [len(flips) for flips in sets])
        nearest = np.minimum(np.searchsorted(self._ascending, flipped), len(self.rows) - 1)
        candidate = self._ascending[nearest] == flipped
        features[of_set[candidate], 2 + self._sorted[nearest[candidate]]] = 1.0
        features[:, self.SHIFT] = 1.0
        features[:, self.SCALE] = features[:, 2:] @ self.expected
        return features

    def _posterior(self) -> tuple[Vector, Vector, float]:
        """Mean, Cholesky factor of the precision, and standard deviation of the noise."""
        if self._solved is None:
            factor = lapack.dpotrf(self._precision, lower=1)[0]
            mean = lapack.dpotrs(factor, self._moment, lower=1)[0]
            residual = max(self._squares - float(mean @ self._moment), 0.0)
            # One pseudo-observation with the usual noise of a full set: few observations must not
            # look exact.
            full_set = max(abs(float(mean[self.SCALE])) * self.expected.sum() / 3, 0.1)
            usual = self.NOISE_SHARE * full_set
            noise = float(np.sqrt((residual + usual**2) / (self._count + 1)))
            self._solved = (mean, factor, noise)
        return self._solved

    def worth(self, rng: np.random.Generator | None = None) -> Vector:
        """The expected effect of each row or, with a random generator, one draw of the rows'
        effects."""
        mean, factor, noise = self._posterior()
        effects = mean
        if rng is not None:
            drawn = rng.standard_normal(len(mean))
            effects = mean + noise * lapack.dtrtrs(factor, drawn, lower=1, trans=1)[0]
        # The scale is common to all rows: its variance would only blur comparisons between them.
        return np.asarray(mean[self.SCALE] * self.expected + effects[2:])

    def forecast(self, flips: FlipSet) -> tuple[float, float]:
        """The expected gain of a set and its standard deviation, with noise of training."""
        mean, factor, noise = self._posterior()
        (features,) = self._features([flips])
        unsure = lapack.dtrtrs(factor, features, lower=1)[0]
        gain = self.start + float(features @ mean)
        deviation = noise * float(np.sqrt(1 + unsure @ unsure))
        return gain, deviation

    def best(self, worth: Vector, size: int) -> FlipSet:
        """The `size` rows that are worth most."""
        return flip_set(self.rows[k] for k in np.argsort(-worth, kind="stable")[:size])

    def new_set(self, person: Person, size: int) -> FlipSet | None:
        """The best set by a draw, if it was not tried before; None if twenty draws bring none."""
        for _ in range(MAX_DRAWS):
            flips = self.best(self.worth(person.rng), size)
            if flips not in person.gains:
                return flips
        return None

    def strongest_first(self, flips: FlipSet) -> list[int]:
        """The rows of a set by their expected effects."""
        worth = self.worth()

        def weakness(row: int) -> float:
            return -worth[self.place[row]] if row in self.place else math.inf

        return sorted(flips, key=weakness)

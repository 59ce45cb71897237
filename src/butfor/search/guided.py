"""Guided: learn from every retraining what each label does, and draw the next set from that."""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from itertools import chain, islice
from typing import Any

import numpy as np
from scipy.linalg import lapack

from butfor.models.seam import FlipSet
from butfor.search.person import Confirm, Person, Search, Vector, flip_set
from butfor.search.published import one_by_one

CLAIMS = 8
"""The most sets of one person that a guided search confirms, since confirmation rarely fails."""
LEAST, MOST = 8, 64
"""A guided search gives somebody up after as many attempts as Algorithm 1 takes, counted from LEAST
to MOST."""
FEW = 2000
"""Flippable labels up to which all are tried one by one, with a budget of one label."""
REACH, LEAST_CANDIDATES = 3, 24
"""Rows that a search chooses from, as a multiple of the budget, and at least."""
SURE = 4.0
"""A reliable forecast this many standard deviations short of the other decision ends the search."""
DRAWS = 20
"""The most draws to find a set that was not tried before."""
EACH, AT_MOST, OTHERS = 16, 400, 12
"""The most attempts to shrink a set by single flips: for each of its labels, in all, and with other
sets."""
SMALL = 64
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
    rows = [int(row) for row in person.order[: max(LEAST_CANDIDATES, REACH * person.budget)]]
    budget = min(person.budget, len(rows))
    believed = person.predicted is not None
    effects = Effects(
        rows,
        budget,
        person.start,
        None if person.predicted is None else person.predicted[: len(rows)],
    )
    if tries is None:
        tries = LEAST if believed else max(LEAST, min(person.budget, person.flippable, MOST))
    # The first set flips the top of the ranking: more flips move a decision further, and what works
    # is shrunk.
    flips: FlipSet | None = person.best(budget)
    tried = failed = 0
    while failed < CLAIMS:
        while not person.working:
            # Who comes nearer to the other decision gets more attempts, up to eight times as many;
            # twice if believed.
            left = float(person.known.closest[person.number]) / (person.start or -1e-9)
            if (
                tried >= tries * np.clip(left, 2 / 5 if believed else 1 / 16, 1) ** -0.75
                or flips is None
            ):
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
                if expected + SURE * spread < 0 or (
                    tried == 1 and gain > person.start and stretched < 0
                ):
                    return None
            flips = effects.new_set(person, budget)
            if flips is None:  # beliefs are too firm to give one: a random one
                drawn = (
                    flip_set(person.rng.choice(rows, budget, replace=False)) for _ in range(DRAWS)
                )
                flips = next((flips for flips in drawn if flips not in person.gains), None)
        found = yield from _shrink(person, effects)
        while not (yield Confirm(found)):
            failed += 1
            # The engine is not exact near the boundary: back to a larger set, at last to the
            # clearest.
            larger = {
                flips: gain for flips, gain in person.working.items() if len(flips) > len(found)
            }
            if failed >= CLAIMS or not larger:
                break
            if failed == CLAIMS - 1:
                found = max(larger, key=lambda flips: larger[flips])
            else:
                smallest = min(larger, key=lambda flips: (len(flips), -larger[flips]))
                found = flip_set(
                    (yield from _halve(person, effects.strongest_first(smallest), len(found)))
                )
        else:
            return found
    return None


def tried_alone(person: Person) -> int:
    """How many labels are tried one by one, with a budget of one label."""
    return person.flippable if person.flippable <= FEW else FEW // 10


def _halve(person: Person, order: list[int], fails: int = 0) -> Generator[Any, Any, list[int]]:
    """The shortest prefix of `order` that works, by bisection; all of it works, and its first
    `fails` rows do not."""
    works = len(order)
    while works - fails > 1:
        middle = (fails + works) // 2
        half = flip_set(order[:middle])
        if half not in person.gains:
            yield half
        fails, works = (fails, middle) if person.works(half) else (middle, works)
    return order[:works]


def _shrink(person: Person, effects: Effects) -> Generator[Any, Any, FlipSet]:
    """Drop flips of the smallest set that works, by halves from the weak end, then one by one. This
    shows which flips matter least, and halves are tried again in that order. Then try a dozen other
    sets that are smaller by one.

    In the end every set that drops a single flip was tried and does not work, unless the set is
    large or the attempts ran out."""
    found = person.smallest()
    assert found is not None
    left, others = min(EACH * len(found), AT_MOST) + OTHERS, OTHERS
    order = effects.strongest_first(found)
    while len(found) > 1:
        found = flip_set((yield from _halve(person, order)))
        fewer = (
            {row: tuple(r for r in found if r != row) for row in found}
            if 1 < len(found) <= SMALL
            else {}
        )
        new = [flips for flips in fewer.values() if flips not in person.gains][:left]
        if new:
            left -= len(new)
            yield new
        working = [flips for flips in fewer.values() if person.works(flips)]
        if working:
            # What each flip is worth is known now: the most needed first.
            rest = {row: person.gains.get(flips, 0.0) for row, flips in fewer.items()}
            found = max(working, key=lambda flips: person.gains[flips])
            order = sorted(found, key=lambda row: rest[row])
            continue
        effects.learn(person)
        smaller = None
        while smaller is None and others > 0 and left > 0 and len(found) > 1:
            others -= 1
            flips = effects.new_set(person, len(found) - 1)
            if flips is not None:
                left -= 1
                yield flips
                effects.learn(person)
                smaller = flips if person.works(flips) else None
        if smaller is None:
            break
        found, order = smaller, effects.strongest_first(smaller)
    best = person.smallest()
    return best if best is not None and len(best) < len(found) else found


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

    SHIFT, SCALE = 0, 1
    """Positions of two parameters before those of the rows: a shift common to all retrainings (the
    unchanged model is itself one draw of training noise), and the scale of the ranking's
    effects."""
    FALL = 3.0
    """Ranks, as a multiple of the budget, over which the expected effect falls to 1/e."""
    OWN = 0.5
    """The standard deviation of a row's effect, as a share of the effect expected from its rank."""
    PREDICTED = 0.05
    """The same if a reliable ranking predicts the effects."""
    NOISE = 0.15
    """The prior noise of training, as a share of the effect of a full set."""

    def __init__(
        self, rows: list[int], budget: int, start: float, predicted: Vector | None = None
    ) -> None:
        self.rows, self.start, self._seen = rows, start, 0
        self.place = {row: k for k, row in enumerate(rows)}
        self._sorted, self._ascending = np.argsort(rows), np.sort(rows)
        if predicted is None:
            own, self.expected = self.OWN, np.exp(-np.arange(len(rows)) / (self.FALL * budget))
        else:
            own, self.expected = (
                self.PREDICTED,
                predicted / max(float(np.abs(predicted).max(initial=0.0)), 1e-12),
            )
        # In units of one expected effect: noise variance over a row's own variance.
        ridge = (self.NOISE * budget / own) ** 2
        self._precision = np.diag(np.r_[1e-3, 1e-3, np.full(len(rows), ridge)])
        self._moment = np.zeros(len(rows) + 2)
        self._squares, self._count = 0.0, 0
        self._solved: tuple[Vector, Vector, float] | None = None
        self.observe([()], [start])

    def learn(self, person: Person) -> None:
        """Observe everything that the person was told since the last time, without trainings that
        diverged."""
        sets, number = person.known.sets, person.number
        new = list(islice(reversed(sets.items()), len(sets) - self._seen))[::-1]
        told = {flips: float(gains[number]) for flips, (gains, told) in new if told[number]}
        gains = {flips: gain for flips, gain in told.items() if not math.isnan(gain)}
        self._seen = len(sets)
        self.observe(list(gains), list(gains.values()))

    def observe(self, sets: Sequence[FlipSet], gains: Sequence[float]) -> None:
        """Models trained on these sets gave these gains."""
        if sets:
            features, moved = self._features(sets), np.array(gains) - self.start
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
        at = np.minimum(np.searchsorted(self._ascending, flipped), len(self.rows) - 1)
        known = self._ascending[at] == flipped
        features[of_set[known], 2 + self._sorted[at[known]]] = 1.0
        features[:, self.SHIFT] = 1.0
        features[:, self.SCALE] = features[:, 2:] @ self.expected
        return features

    def _posterior(self) -> tuple[Vector, Vector, float]:
        """Mean, Cholesky factor of the precision, and standard deviation of the noise."""
        if self._solved is None:
            factor = lapack.dpotrf(self._precision, lower=1)[0]
            mean = lapack.dpotrs(factor, self._moment, lower=1)[0]
            left = max(self._squares - float(mean @ self._moment), 0.0)
            # One pseudo-observation with the usual noise of a full set: few observations must not
            # look exact.
            usual = self.NOISE * max(abs(float(mean[self.SCALE])) * self.expected.sum() / 3, 0.1)
            self._solved = mean, factor, float(np.sqrt((left + usual**2) / (self._count + 1)))
        return self._solved

    def worth(self, rng: np.random.Generator | None = None) -> Vector:
        """The expected effect of each row or, with a random generator, one draw of the rows'
        effects."""
        mean, factor, noise = self._posterior()
        own = mean
        if rng is not None:
            own = (
                mean
                + noise * lapack.dtrtrs(factor, rng.standard_normal(len(mean)), lower=1, trans=1)[0]
            )
        # The scale is common to all rows: its variance would only blur comparisons between them.
        return np.asarray(mean[self.SCALE] * self.expected + own[2:])

    def forecast(self, flips: FlipSet) -> tuple[float, float]:
        """The expected gain of a set and its standard deviation, with noise of training."""
        mean, factor, noise = self._posterior()
        (features,) = self._features([flips])
        unsure = lapack.dtrtrs(factor, features, lower=1)[0]
        return self.start + float(features @ mean), noise * float(np.sqrt(1 + unsure @ unsure))

    def best(self, worth: Vector, size: int) -> FlipSet:
        """The `size` rows that are worth most."""
        return flip_set(self.rows[k] for k in np.argsort(-worth, kind="stable")[:size])

    def new_set(self, person: Person, size: int) -> FlipSet | None:
        """The best set by a draw, if it was not tried before; None if twenty draws bring none."""
        drawn = (self.best(self.worth(person.rng), size) for _ in range(DRAWS))
        return next((flips for flips in drawn if flips not in person.gains), None)

    def strongest_first(self, flips: FlipSet) -> list[int]:
        """The rows of a set by their expected effects."""
        worth = self.worth()
        return sorted(
            flips, key=lambda row: -worth[self.place[row]] if row in self.place else math.inf
        )

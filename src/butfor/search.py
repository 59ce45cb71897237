"""The searches: which flip sets are trained for a person, one after the other.

A search is a generator. It yields questions and gets their answers; `schedule` trains the sets of
all people together.

    flip set, or a list of them    → the gain of each: the person's logit towards the other
                                     decision, above 0 if the decision changes; NaN if the training
                                     diverged
    Try(sets, members)             → gains of single members of an ensemble, `[sets × members]`
    Confirm(flips)                 → whether the model's own `fit` confirms that the set changes the
                                     decision
    Rank(flips)                    → the other rows, best first, ranked anew after these flips

All gains known so far are in `person.gains`, also those of sets that were trained for other people
and that ψ allows. A search returns the set that it found, or None. It need not know about limits or
Ctrl-C: the scheduler closes it, and confirms the person's smallest set that works.
"""

from __future__ import annotations

import inspect
import math
import operator
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, islice
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack

from butfor.errors import SettingError, nearest
from butfor.models.learner import FlipSet, Floats

Vector = NDArray[np.float64]


# --- questions and people -------------------------------------------------------------------------


class Try(NamedTuple):
    """Train these sets with the first `members` of an ensemble; None: all, averaged. `one`: a
    question about one set, whose answer is a number."""

    sets: Sequence[FlipSet]
    members: int | None = None
    one: bool = False


class Confirm(NamedTuple):
    """Train this set with the model's own `fit`."""

    flips: FlipSet


class Rank(NamedTuple):
    """Rank the person's labels again, after these flips."""

    flips: FlipSet


Search = Generator[Any, Any, FlipSet | None]


def flip_set(rows: Iterable[int]) -> FlipSet:
    """Positions as a flip set, sorted so that equal sets compare equal."""
    return tuple(sorted(operator.index(row) for row in rows))


class Known:
    """What all trained sets gave all people, stored once; each person sees what they were told."""

    def __init__(self, away: NDArray[np.floating[Any]]) -> None:
        self.away = np.asarray(away, np.float32)
        """For each person the direction towards the other decision, −1 or +1."""
        self.sets: dict[FlipSet, tuple[Floats, NDArray[np.bool_]]] = {}
        """Everybody's gains and who was told of them, both `[people]`, in the order in which sets
        were trained."""
        self.closest = np.full(len(self.away), np.nan, np.float32)
        """The best gain of any set, `[people]`."""
        self.working: list[dict[FlipSet, float]] = [{} for _ in self.away]
        """For each person the sets that change the decision."""

    def add(self, flips: FlipSet, logits: Floats) -> None:
        """A trained set, of which nobody is told yet."""
        gains = np.asarray(logits, np.float32) * self.away
        gains[(logits == 0) & (self.away < 0)] = np.finfo(
            np.float32
        ).tiny  # a logit of 0 decides for class 0
        self.sets[flips] = gains, np.zeros(len(gains), bool)

    def tell(self, flips: FlipSet, people: NDArray[np.bool_]) -> None:
        """These people may use the set."""
        gains, told = self.sets[flips]
        new = people & ~told
        told |= new
        if flips:
            self.closest[new] = np.fmax(self.closest[new], gains[new])
            for person in np.flatnonzero(new & (gains > 0)):
                self.working[person][flips] = float(gains[person])


class Gains(Mapping[FlipSet, float]):
    """One person's gains, in the order in which sets were trained. `own`: means over members that
    the person asked for one by one, who would fill the memory if all people's were kept."""

    def __init__(self, known: Known, person: int) -> None:
        self._known, self._person = known, person
        self.own: dict[FlipSet, float] = {}

    def __getitem__(self, flips: FlipSet) -> float:
        if flips in self.own:
            return self.own[flips]
        gains, told = self._known.sets[flips]
        if not told[self._person]:
            raise KeyError(flips)
        return float(gains[self._person])

    def __iter__(self) -> Iterator[FlipSet]:
        told = (flips for flips, (_, told) in self._known.sets.items() if told[self._person])
        return chain(told, (flips for flips in self.own if flips not in self._known.sets))

    def __len__(self) -> int:
        return sum(1 for _ in self)


@dataclass(eq=False)
class Person:
    """What a search knows about one person; the scheduler fills in the result.

    `order`: the rows that ψ allows, best first. `flippable`: how many rows ψ allows in all.
    `start`: the gain of the unchanged data, at most 0. `members`: of the ensemble. `predicted`:
    each row's effect in logits, if the ranking predicts it reliably; `gain_limit`: how many times
    the gain of the best set by these another set may have. `random_order`: the ranking is pure
    chance, so attempts are independent draws."""

    number: int
    """The position among the people who are audited together."""
    position: int
    """The position among all people asked about."""
    budget: int
    flippable: int
    start: float
    gains: Gains
    known: Known = field(repr=False)
    order: NDArray[np.integer[Any]] = field(default_factory=lambda: np.empty(0, np.int64))
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))
    members: int = 1
    random_order: bool = False
    ranks_again: bool = False
    """Whether `Rank` can be asked."""
    predicted: Vector | None = None
    gain_limit: float = math.inf
    margin: float = 0.0
    """The gain that a set should exceed."""
    spread: float | None = None
    """The standard deviation of the members, if they were looked at one by one."""

    rejected: set[FlipSet] = field(default_factory=set)
    """Sets that work by the engine but were not confirmed."""
    asked: list[tuple[FlipSet, float]] = field(default_factory=list)
    """Own sets and their gains, in the order asked."""
    first: FlipSet | None = None
    """The first set that worked and was not rejected."""
    tried: int = 0
    """Own sets asked until then."""
    found: FlipSet | None = None
    found_logit: float | None = None
    complete: bool = False

    @property
    def away(self) -> float:
        return float(self.known.away[self.number])

    def note(self, flips: FlipSet, gain: float) -> None:
        """A set of one's own, of which nobody else is told."""
        self.gains.own[flips] = gain
        self.known.closest[self.number] = np.fmax(self.known.closest[self.number], gain)
        if gain > 0:
            self.known.working[self.number][flips] = gain

    def best(self, k: int) -> FlipSet:
        """The k best-ranked labels."""
        return flip_set(self.order[:k])

    def works(self, flips: FlipSet) -> bool:
        """Whether the set changes the decision, by all that is known."""
        return flips in self.known.working[self.number] and flips not in self.rejected

    @property
    def working(self) -> dict[FlipSet, float]:
        """All sets that change the decision, and their gains."""
        return {
            flips: g
            for flips, g in self.known.working[self.number].items()
            if flips not in self.rejected
        }

    def smallest(self) -> FlipSet | None:
        """The smallest set whose gain exceeds the margin or, if there is none, the one with the
        largest gain."""
        working = self.working
        clear = [flips for flips, gain in working.items() if gain > self.margin]
        if clear:
            return min(clear, key=lambda flips: (len(flips), -working[flips]))
        return max(working, key=lambda flips: (working[flips], -len(flips)), default=None)


# --- published searches ---------------------------------------------------------------------------


def algorithm1(person: Person) -> Search:
    """Flip the best label and retrain, then the best two, and so on up to the budget m (Algorithm 1
    of the paper)."""
    for k in range(1, min(person.budget, len(person.order)) + 1):
        gain = yield person.best(k)
        if gain > 0 and (yield Confirm(person.best(k))):
            return person.best(k)
    return None


def singles(person: Person) -> Search:
    """The protocol for small data: flip the t-th ranked label alone, t up to a tenth of the
    flippable ones; under a random order, a label drawn at each t."""
    rows = range(min(person.flippable, max(1, person.flippable // 10)))
    drawn = (
        person.rng.choice(person.order) if person.random_order else person.order[t] for t in rows
    )
    return (yield from in_turn(flip_set([row]) for row in drawn))


def attempts(person: Person) -> Search:
    """The protocol for large data: ten sets for each k = 1 … m. The first flips the top k, the
    others k labels drawn from the top a·k, with the smallest a that allows more than ten choices;
    under a random order, all ten are drawn."""
    for k in range(1, min(person.budget, person.flippable) + 1):
        a = next(a for a in range(1, TEN + 2) if math.comb(a * k, k) > TEN)
        pool = person.order if person.random_order else person.order[: a * k]
        sets = [] if person.random_order else [person.best(k)]
        sets += [
            flip_set(person.rng.choice(pool, size=k, replace=False)) for _ in range(TEN - len(sets))
        ]
        for flips, gain in zip(sets, (yield sets), strict=True):
            if gain > 0 and (yield Confirm(flips)):
                return flips
    return None


TEN, TOGETHER = 10, 16
"""Sets for each k, and labels that are tried side by side, one each."""


def exhaustive(person: Person) -> Search:
    """Flip every label alone: if none works, no single label changes the decision."""
    if person.budget > 1:
        budget = f"the budget is {person.budget} labels. Use a budget of 1, or another strategy."
        raise SettingError(f"strategy 'exhaustive' tries every label alone, and {budget}")
    return (yield from _one_by_one(person, person.order))


def _one_by_one(person: Person, rows: NDArray[np.integer[Any]]) -> Search:
    """Flip each of these rows alone, until one works."""
    place = {int(row): k for k, row in enumerate(rows)}
    for first in range(0, len(rows), TOGETHER):
        yield [(int(row),) for row in rows[first : first + TOGETHER]]
        while person.working:
            flips = min(
                person.working, key=lambda flips: (len(flips), place.get(flips[0], len(place)))
            )
            if (yield Confirm(flips)):
                return flips
    return None


def in_turn(sets: Iterable[FlipSet]) -> Search:
    """Train these sets one after the other, until one is confirmed to change the decision."""
    for flips in sets:
        if (yield flips) > 0 and (yield Confirm(flips)):
            return flips
    return None


# --- guided ---------------------------------------------------------------------------------------

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
        return (yield from _one_by_one(person, person.order[: tries or _tried_alone(person)]))
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


def _tried_alone(person: Person) -> int:
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


# --- solid ----------------------------------------------------------------------------------------

MARGIN = 2.5
"""Standard deviations of the members that their mean gain must exceed."""
SCREEN = 4
"""Members that screen a set first."""
FAR = 1.5
"""Standard deviations short of the other decision at which screening ends a search."""
LEAST_FOR_SECOND = 8
"""The smallest budget for which a ranking at half of its labels adds information."""
SOLID_CLAIMS = 3
"""The most sets of one person that a solid search confirms, which rarely fails with many members.
"""
LEAST_TO_GUESS = 16
"""The fewest remaining sizes for which interpolation beats bisection."""
TOWARDS_MIDDLE = 0.05
"""How far an interpolated size moves towards the middle, as a share of the remaining sizes."""


def solid(person: Person, margin: float = MARGIN, second: bool | None = None) -> Search:
    """Find the fewest labels that change the decision under nearly every seed, from all members of
    an ensemble.

    A set works if the members' mean gain exceeds `margin` times their spread. Averaged over seeds,
    the top of a ranking is nearly as good as the result of a long search, so a person gets a few
    sets: the whole budget, then the shortest prefix that keeps the margin by bisection, then the
    same after ranking again at the person's own half-flipped labels (`second`; by default if the
    budget is large enough). If no set keeps the margin, the clearest one that changes the decision
    is kept; fresh seeds, which take no part here, show what it is worth."""
    if not margin >= 0:
        raise SettingError(
            f"margin={margin} must be a number from 0 up, in standard deviations of the members."
        )
    cap = min(person.budget, len(person.order))
    if cap == 0:
        return None
    answers: dict[FlipSet, Vector] = {}
    """For each set, the members' gains."""

    def train(flips: FlipSet, members: int | None = None) -> Generator[Any, Any, None]:
        (gains,) = yield Try([flips], members or person.members)
        answers[flips] = gains if np.isfinite(gains).all() else np.full(len(gains), -np.inf)
        # The spread barely depends on the flips, and one set gives a poor estimate: pooled over all
        # of them.
        variances = [
            each.var(ddof=1)
            for each in answers.values()
            if len(each) > 1 and np.isfinite(each).all()
        ]
        person.spread = float(np.sqrt(np.mean(variances))) if variances else 0.0
        person.margin = margin * person.spread

    def clearance(flips: FlipSet) -> float:
        """The gain of the ensemble, or of the members that screen, in standard deviations of the
        members."""
        gain = float(answers[flips].mean())
        if math.isfinite(gain) and len(answers[flips]) == person.members:
            gain = person.gains[flips] if flips else person.start
        return gain / person.spread if person.spread else math.inf if gain > 0 else -math.inf

    def shortest(order: NDArray[np.integer[Any]], best: FlipSet) -> Search:
        """The shortest prefix that keeps the margin, or `best` if none is shorter, in no more steps
        than bisection."""
        misses, steps = 0, (len(best) - 1).bit_length()
        while (between := len(best) - misses - 1) > 0:
            size = misses + max(1, round((between + 1) / 2))
            longest_miss = flip_set(order[:misses])
            if between >= LEAST_TO_GUESS:
                # The size at which the clearance reaches the margin by linear interpolation, moved
                # a little towards the middle so that both ends come nearer, and near enough to it
                # for bisection to finish in time.
                place = middle = misses + (between + 1) / 2
                low, high = (
                    clearance(longest_miss) if longest_miss in answers else np.nan,
                    clearance(best),
                )
                if np.isfinite([low, high]).all() and low < margin < high:
                    place = misses + (len(best) - misses) * (margin - low) / (high - low)
                place += np.sign(middle - place) * min(
                    abs(middle - place), TOWARDS_MIDDLE * between
                )
                reach = 2 ** (steps - 1) - 1
                least, most = (
                    max(misses + 1, len(best) - 1 - reach),
                    min(len(best) - 1, misses + 1 + reach),
                )
                size = min(max(round(place), least), most)
            flips = flip_set(order[:size])
            if len(answers.get(flips, ())) < person.members:
                yield from train(flips)
            misses, best = (misses, flips) if clearance(flips) >= margin else (size, best)
            steps -= 1
        return best

    yield from train(())
    full, best = person.best(cap), None
    if person.members > 2 * SCREEN:
        yield from train(full, SCREEN)
        if clearance(full) <= -FAR:
            return None
    yield from train(full)
    if clearance(full) <= -FAR:
        return None
    if clearance(full) >= margin:
        best = yield from shortest(person.order, full)
    again = person.budget >= LEAST_FOR_SECOND if second is None else second
    if again and person.ranks_again and cap > 1 and (best is None or len(best) > 1):
        half = person.order[: max(1, len(best or full) // 2)]
        order = np.concatenate([half, (yield Rank(flip_set(half)))])[: REACH * cap]
        if best is None:
            full = flip_set(order[:cap])
            yield from train(full)
            best = full if clearance(full) >= margin else None
        if best is not None:
            yield from shortest(order, best)
    for _ in range(SOLID_CLAIMS):
        flips = person.smallest()
        if flips is None:
            return None
        if (yield Confirm(flips)):
            return flips
    return None


# --- strategies by name ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Strategy:
    """A search, and what an audit must know about it.

    `shares`: people are told of models that were trained for others; published searches look at
    their own alone. `proves`: proven answers replace the search, and a trial chooses the default
    ranking. `enumerates`: it tries every label alone, if the budget is one. `own`: it is the user's
    own."""

    name: str
    search: Callable[[Person], Search]
    parameters: Mapping[str, Any] = field(default_factory=dict)
    shares: bool = False
    proves: bool = False
    enumerates: bool = False
    own: bool = False


STRATEGIES: dict[str, Strategy] = {
    strategy.name: strategy
    for strategy in (
        Strategy("solid", solid, proves=True),
        Strategy("guided", guided, shares=True, proves=True, enumerates=True),
        Strategy("algorithm1", algorithm1),
        Strategy("singles", singles),
        Strategy("attempts", attempts),
        Strategy("exhaustive", exhaustive, enumerates=True),
    )
}


def as_strategy(given: Any) -> Strategy:
    """A strategy by its name, or of a search of one's own: a generator function of a person."""
    if isinstance(given, Strategy):
        return given
    if isinstance(given, str):
        if given not in STRATEGIES:
            raise SettingError(f"There is no strategy '{given}'. {nearest(given, STRATEGIES)}")
        return STRATEGIES[given]
    function, parameters = (
        (given.func, given.keywords) if isinstance(given, partial) else (given, {})
    )
    if not inspect.isgeneratorfunction(function):
        raise SettingError(
            f"strategy={given!r} is neither a name nor a search: give a generator function of a "
            "person, or one of "
            f"{', '.join(map(repr, STRATEGIES))}."
        )
    for ours in STRATEGIES.values():
        if ours.search is function:
            return replace(ours, search=given, parameters=parameters)
    name = str(getattr(function, "__name__", "own"))
    name = f"own {name}" if name in (*STRATEGIES, RECORDED) else name
    return Strategy(name, given, parameters, shares=True, own=True)


RECORDED = "recorded"
"""The name of a search that retrains recorded sets."""
FOUND, NEAR = 0.4, 0.4
"""The usual shares of people with a find, and of people who come near the other decision."""


def usual_sets(strategy: str, person: Person) -> float:
    """How many sets a search usually has trained for a person, for a forecast."""
    size = max(1, min(person.budget, person.flippable))
    # most are screened by a few members alone; or found, or given up, after the fewest attempts
    usual = {
        "solid": min(1, SCREEN / person.members) + NEAR * (1 + 2 * math.log2(size)),
        "guided": LEAST + FOUND * min(size, SMALL) if person.budget > 1 else _tried_alone(person),
        "singles": person.flippable / 10,
        "attempts": TEN * size,
        "exhaustive": person.flippable,
    }
    return usual.get(strategy, size)


def recorded(sets: Mapping[int, Sequence[FlipSet]]) -> Strategy:
    """A search that retrains, for each position among the people, these sets in turn until one
    changes the decision."""
    return Strategy(RECORDED, lambda person: in_turn(sets.get(person.position, ())))


def budget_in_labels(budget: float, n: int) -> int:
    """A budget as a number of labels: numbers from 1 are counts, smaller ones shares, rounded
    up."""
    if isinstance(budget, bool) or not isinstance(budget, (int, float, np.integer, np.floating)):
        raise SettingError(
            f"budget={budget!r} is not a number; give a count of labels or a share such as 0.001."
        )
    if not 0 < budget < math.inf:
        raise SettingError(
            f"budget={budget} must be above 0: at least one label must be allowed to flip."
        )
    if budget < 1:
        return math.ceil(round(budget * n, 9))
    if budget != int(budget):
        raise SettingError(
            f"budget={budget} is neither a share below 1 nor a whole number of labels."
        )
    if budget > n:
        raise SettingError(
            f"budget={int(budget)} is more than the {n} training labels of the table."
        )
    return int(budget)

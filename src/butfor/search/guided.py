"""The guided search: which ranking leads (`Leaders`), what a person tries next (`Learned`), how much (`GuidedSearch`).

Several rankings may lead: for our network the exact training gradient, which looks ahead through training but can be
rough, and the published score, which is blind to training but local; for other models those that accept them. Which
one leads, or all of them averaged, is decided by a trial: for a few of the people, each flips its best labels, the
whole budget at once, and the one that moves them furthest is used for all. Predictions for single labels are compared
with retrainings too, so that a verdict can say how far to trust them. From then on every retraining teaches what labels
do (`effects`), so that a poor ranking costs attempts, not answers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from butfor.allowed import Allowed
from butfor.errors import SettingError
from butfor.learn.ensemble import EnsembleModel
from butfor.rank import Ranking, Scores, accepts, as_ranking, checked_scores
from butfor.rank.averaged import suited
from butfor.rank.combined import beaten
from butfor.rank.gradient import smoothness
from butfor.seam import FlipSet, Floats, Model, Table, away, person_keys
from butfor.search.effects import Effects
from butfor.search.plans import Listed, Plan, flip_set
from butfor.search.protocols import Protocol, Ranked

SAMPLE, FLIPS = 8, 12
"""People of the trial, and labels on which single predictions are compared with retrainings."""
POOR, TRUSTED = 0.2, 0.95
"""Mean rank correlation below which single predictions are called poor, and from which on they are taken at their word
where they come from a model without noise."""
MEAN = "both"
"""The name of all rankings averaged."""
BESIDE, BESIDE_AGAIN = 0.5, 0.25
"""What the published score counts beside the gradient averaged over the members of an ensemble; and beside the second,
taken at half-flipped labels. A single network's gradient is rougher: both count alike there."""
WORDS = {"gradient": "the gradient", "published": "the published ranking"}
"""Rankings that may lead, in words; the others by their name."""

Retrain = Callable[[Sequence[FlipSet]], Floats]
"""Flip sets → what the models trained on them say about the people, `[sets × people]`."""


class Leaders:
    """The mean of several rankings, by the share of rows each row beats, or one of them alone: see `leader`."""

    name = "guided"
    NOISELESS = "influence"
    """Of linear models, which end at a minimum: its predictions may be as good as a retraining."""
    OWN = (NOISELESS, "leaves")
    ANYONES = ("surrogate-signed", "distance")

    def __init__(self, parts: Mapping[str, Ranking], leader: str = MEAN, beside: float = 1.0) -> None:
        self.parts = dict(parts)
        self.leader = leader
        self.beside = beside
        """What each of the others counts beside the first."""
        self.trusted = False
        """Whether the leader's predictions, not only their order, can be believed."""
        self._subject: tuple[Model, Table] | None = None
        self._scored: dict[int, Scores] = {}
        """The first ranking's scores of the people asked about last, by `person_keys`, for this subject."""

    @classmethod
    def of(cls, model: Model) -> Leaders:
        """Those that accept the model."""
        ours = {"gradient": suited(as_ranking("gradient"), model), "published": suited(as_ranking("combined"), model)}
        if all(accepts(ranking, model) for ranking in ours.values()):
            return cls(ours, beside=BESIDE if isinstance(model, EnsembleModel) else 1.0)
        own = [name for name in ("gradient", *cls.OWN) if accepts(suited(as_ranking(name), model), model)][:1]
        return cls({name: suited(as_ranking(name), model) for name in (*own, *cls.ANYONES)})

    @property
    def candidates(self) -> list[str]:
        return [MEAN, *self.parts]

    @property
    def first(self) -> Ranking:
        """The one that knows most of this model, and takes longest."""
        return next(iter(self.parts.values()))

    def train_on(self, device: str) -> None:
        if hasattr(self.first, "train_on"):
            self.first.train_on(device)

    def sweep_by(self, spread: Any) -> None:
        if hasattr(self.first, "sweep_by"):
            self.first.sweep_by(spread)

    def trial(self, people: int) -> int:
        """How many flip sets `prepare` trains at the most."""
        return len(self.candidates) * min(people, SAMPLE) + FLIPS + 1

    def prepare(
        self, retrain: Retrain, model: Model, table: Table, people: pd.DataFrame, psi: Allowed, budget: int
    ) -> dict[str, Any]:
        """Hold the trial with the first of the people; what came out goes into the record. `retrain` answers about
        all of them."""
        sample, allowed = people.iloc[:SAMPLE], psi.of_people(slice(SAMPLE)).whole()
        sets = [
            flips
            for leader in self.candidates
            for flips in _best_sets(self._led_by(leader, model, table, sample), allowed, budget)
        ]
        logits = retrain(sets)[:, : len(sample)]
        before = model.logits(sample)
        own = logits.reshape(len(self.candidates), len(sample), len(sample)).diagonal(axis1=1, axis2=2)
        gains = np.nan_to_num((own - before) * away(before)).mean(axis=1)
        self.leader = self.candidates[int(np.argmax(gains))]
        singles = self._singles(retrain, model, table, sample)
        self.trusted = self.NOISELESS in self.parts and (singles["spearman"] or 0.0) >= TRUSTED
        if self.trusted:
            self.leader = self.NOISELESS
        return singles | {
            "people": len(sample),
            "leader": self.leader,
            "gains": {leader: round(float(gain), 4) for leader, gain in zip(self.candidates, gains, strict=True)},
        }

    def _singles(self, retrain: Retrain, model: Model, table: Table, sample: pd.DataFrame) -> dict[str, Any]:
        """How well the first ranking's predictions for single labels agree with retrainings, where it makes any."""
        if not getattr(self.first, "predicts", False):
            return {"spearman": None, "slope": None, "flips": 0, "poor": False}
        if isinstance(model, EnsembleModel):  # a dozen labels alone, in every member, would cost more than they tell
            return {"spearman": None, "slope": None, "flips": 0, "poor": False}
        predicted = self._first_scores(model, table, sample)
        singles = smoothness(lambda flips: retrain(flips)[:, : len(sample)], predicted, count=FLIPS).overall
        return {
            "spearman": round(singles.spearman, 3),
            "slope": round(singles.slope, 3),
            "flips": singles.flips,
            "poor": singles.spearman < POOR,
        }

    def predictions(self, model: Model, table: Table, people: pd.DataFrame) -> Scores | None:
        """Each label's effect on each person in logits, `[people × n]`, where that can be believed."""
        return self._first_scores(model, table, people) if self.trusted else None

    def score(self, model: Model, table: Table, people: pd.DataFrame) -> NDArray[np.float64]:
        return self._led_by(self.leader, model, table, people)

    @property
    def scores_again(self) -> bool:
        """Whether the first ranking can rank for labels other than those the model was trained on."""
        return hasattr(self.first, "score_at")

    def score_again(
        self, model: Model, table: Table, people: pd.DataFrame, flips: Sequence[FlipSet]
    ) -> NDArray[np.float64]:
        """Scores once each person's own flips are made: what the first ranking says there, and with a quarter of its
        weight what the others said before. Where it asks fewer members there than before, what it said before counts
        as much."""
        scores = beaten(self.first.score_at(model, table, people, flips))  # type: ignore[attr-defined]
        if self.first.asks_fewer_at_flips(model, table):  # type: ignore[attr-defined]
            scores = (scores + beaten(self._first_scores(model, table, people))) / 2
        others = [part for part in self.parts.values() if part is not self.first]
        for part in others:
            scores += BESIDE_AGAIN * beaten(part.score(model, table, people)) / len(others)
        return scores

    def _led_by(self, leader: str, model: Model, table: Table, people: pd.DataFrame) -> NDArray[np.float64]:
        names = list(self.parts) if leader == MEAN else [leader]
        scores, weights = [], []
        for name in names:
            part = self.parts[name]
            first = part is self.first
            scored = self._first_scores(model, table, people) if first else part.score(model, table, people)
            scores.append(beaten(scored))
            weights.append(1.0 if first else self.beside)
        return np.asarray(np.average(scores, axis=0, weights=weights))

    def _first_scores(self, model: Model, table: Table, people: pd.DataFrame) -> Scores:
        if self._subject is None or self._subject[0] is not model or self._subject[1] is not table:
            self._subject, self._scored = (model, table), {}
        keys = person_keys(model, people)
        missing = [k for k, key in enumerate(keys) if key not in self._scored]
        if missing:
            known = {key: self._scored[key] for key in keys if key in self._scored}  # no more than one block is kept
            scores = checked_scores(self.first, model, table, people.iloc[missing])
            self._scored = known | {keys[k]: score for k, score in zip(missing, scores, strict=True)}
        return np.array([self._scored[key] for key in keys])


def leader_words(figures: dict[str, Any]) -> str:
    """Who led a search, from the figures of its trial."""
    named = {name: WORDS.get(name, f"'{name}'") for name in figures.get("gains", WORDS) if name != MEAN}
    leader = figures["leader"]
    return f"{named[leader]} alone" if leader != MEAN else f"{' and '.join(named.values())} together"


def _best_sets(scores: NDArray[np.float64], psi: NDArray[np.bool_], budget: int) -> list[FlipSet]:
    """Each person's `budget` best rows of those that may be flipped."""
    order = np.argsort(np.where(psi, -scores, np.inf), axis=1, kind="stable")
    counts = np.minimum(budget, psi.sum(axis=1))
    return [flip_set(rows[:count]) for rows, count in zip(order, counts, strict=True)]


class Learned(Plan):
    """Spend the whole budget at once, and learn from every retraining which labels matter.

    The first attempt flips the top `budget` rows of the ranking together: more flips move a decision further,
    and a set that works is shrunk afterwards. Every further attempt flips the rows that are best by a draw from
    what is believed of their effects (see `effects`), after all networks seen so far: the person's own and,
    with sharing, anybody's that ψ allows.
    """

    REACH = 3
    """Candidate rows, as a multiple of the budget."""
    LEAST_CANDIDATES = 24
    SURE = 4.0
    """Standard deviations short of the other decision at which a believed forecast ends the search."""

    def __init__(
        self,
        order: NDArray[np.int64],
        budget: int,
        tries: int,
        rng: np.random.Generator,
        start: float = -1.0,
        predicted: NDArray[np.float64] | None = None,
    ) -> None:
        self.candidates = [int(row) for row in order[: max(self.LEAST_CANDIDATES, self.REACH * budget)]]
        self.budget = min(budget, len(order))
        self.tries = tries
        self.rng = rng
        self.believed = predicted is not None
        known = None if predicted is None else predicted[: len(self.candidates)]
        self.effects = Effects(self.candidates, self.budget, start, known)
        self._rank = {int(row): place for place, row in enumerate(order)}
        self._tried: set[FlipSet] = set()

    def next(self) -> FlipSet | None:
        over = self.done or len(self._tried) >= self.tries or self._hopeless()
        flips = None if over else self._proposal()
        if flips is None:
            self.done = True
            return None
        self._tried.add(flips)
        return flips

    def saw(self, flips: FlipSet, gain: float, works: bool) -> None:
        self.effects.saw(flips, gain)

    def opening(self) -> list[FlipSet]:
        return [flip_set(self.candidates[: self.budget])]

    def promise(self) -> float:
        """How near the next attempt may come to the other decision: one draw, above 0 beyond it. Before the first
        attempt, how near the person is now."""
        if not self._tried:
            return self.effects.start
        expected, spread = self.effects.forecast(self._best(self.effects.worth()))
        return expected + spread * float(self.rng.standard_normal())

    def strongest_first(self, flips: FlipSet) -> list[int]:
        worth, place = self.effects.worth(), self.effects.place
        behind = float(worth.min(initial=0.0))
        return sorted(flips, key=lambda row: (-worth[place[row]] if row in place else -behind, self._rank.get(row, -1)))

    def _proposal(self) -> FlipSet | None:
        """A set not tried before; None where the candidates allow no more."""
        if not self._tried:
            return flip_set(self.candidates[: self.budget])
        for _ in range(20):
            flips = self._best(self.effects.drawn(self.rng))
            if flips not in self._tried:
                return flips
        for _ in range(20):  # beliefs are too firm for anything new: any set at all
            flips = flip_set([int(row) for row in self.rng.choice(self.candidates, self.budget, replace=False)])
            if flips not in self._tried:
                return flips
        return None

    def _hopeless(self) -> bool:
        """After a first attempt with the best set by effects that can be believed, nothing may be left to hope for."""
        if not self.believed or not self._tried:
            return False
        expected, spread = self.effects.forecast(self._best(self.effects.worth()))
        return expected + self.SURE * spread < 0

    def of_size(self, size: int) -> FlipSet | None:
        for _ in range(20):
            flips = self._best(self.effects.drawn(self.rng), size)
            if flips not in self._tried:
                self._tried.add(flips)
                return flips
        return None

    def _best(self, worth: NDArray[np.float64], size: int | None = None) -> FlipSet:
        return flip_set([self.candidates[k] for k in np.argsort(-worth, kind="stable")[: size or self.budget]])


class GuidedSearch(Protocol):
    """The one to use: the whole budget at once, sets that learn from every retraining, and what works shrunk.

    With a budget of one label it tries the flippable labels one by one, all of them where they are few.
    `tries`: attempts per person on average before shrinking; by default as many as Algorithm 1 takes, at least
    `LEAST` and at most `MOST`. They are spent where they promise most: one person may take up to `PATIENCE` times as
    many."""

    name = "guided"
    proves = True
    shares = True
    shrinks = True
    LEAST, MOST = 8, 64
    FEW = 2000
    PATIENCE = 8

    def __init__(self, tries: int | None = None) -> None:
        if tries is not None and tries < 1:
            raise SettingError(f"tries={tries} must be at least 1.")
        self.tries = tries

    def ranking(self, model: Model) -> Ranking:
        return Leaders.of(model)

    def plan(self, person: Ranked) -> Plan:
        if person.budget == 1 or len(person.order) < 2:
            return Listed(((int(row),) for row in person.order[: self.most(person.flippable, 1)]), person.order)
        tries = self.most(person.flippable, person.budget)
        if person.predicted is not None and self.tries is None:
            tries = self.LEAST  # there is little left to learn
        return Learned(person.order, person.budget, self.PATIENCE * tries, person.rng, person.start, person.predicted)

    def most(self, flippable: int, budget: int) -> int:
        if budget == 1:
            return min(flippable, self.tries or (flippable if flippable <= self.FEW else self.FEW // 10))
        return self.tries or max(self.LEAST, min(budget, flippable, self.MOST))

    def depth(self, flippable: int, budget: int) -> int:
        return min(flippable, max(self.FEW, Learned.REACH * budget))

    def enumerates(self, flippable: int, budget: int) -> bool:
        return budget == 1 and self.most(flippable, 1) == flippable

    def pool(self, plans: Sequence[Plan]) -> int | None:
        tries = [plan.tries // self.PATIENCE for plan in plans if isinstance(plan, Learned)]
        return sum(tries) + len(plans) - len(tries) if tries else None

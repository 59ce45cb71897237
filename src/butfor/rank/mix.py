"""Which ranking leads a search: several of them averaged, or the one that moved decisions furthest in a trial.

For our network they are the exact training gradient, which looks ahead through training but can be rough, and the
published score, which is blind to training but local; for other models those that accept them. In the trial each
flips its best labels for a few of the people, the whole budget at once. Predictions for single labels are compared with
retrainings too, so that a verdict can say how far to trust them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from butfor.learn.capabilities import members_of, person_keys
from butfor.learn.protocols import Engine, FlipSet, Floats, Model, Table, flip_direction
from butfor.rank import Ranking, Scores, as_ranking, checked_scores
from butfor.rank.ranking import percentile
from butfor.rules import Allowed

SAMPLE, FLIPS = 8, 12
"""People of the trial, and labels on which single predictions are compared with retrainings."""
POOR, TRUSTED = 0.2, 0.95
"""Mean rank correlation below which single predictions are called poor, and from which on they are taken at their word
where they come from a model without noise."""
LEAST_FURTHER, DOUBLED = 1.25, 2.0
"""Where a set by believed predictions falls short, how much further any other may go: a quarter at the least, and twice
as much further as the sets of other rankings went in the trial."""
NOISELESS = "influence"
"""Of linear models, which end at a minimum: its predictions may be as good as a retraining."""
MEAN = "both"
"""The name of all rankings averaged."""
BESIDE, BESIDE_AGAIN = 0.5, 0.25
"""What the published score counts beside the gradient averaged over the members of an ensemble; and beside the second,
taken at half-flipped labels. A single network's gradient is rougher: both count alike there."""
WORDS = {"gradient": "the gradient", "published": "the published ranking"}
"""Rankings that may lead, in words; the others by their name."""

Retrain = Callable[[Sequence[FlipSet]], Floats]
"""Flip sets → what the models trained on them say about the people, `[sets × people]`."""


class RankingMix(Ranking):
    """The mean of several rankings, by the share of rows each row beats, or one of them alone: see `leader`."""

    name = "guided"

    def __init__(self, parts: Mapping[str, Ranking], leader: str = MEAN, beside: float = 1.0) -> None:
        self.parts = dict(parts)
        self.first = next(iter(self.parts.values()))
        """The one that knows most of this model, and takes longest."""
        self.scores_after_flips = self.first.scores_after_flips
        self.candidates = [MEAN, *self.parts]
        self.leader = leader
        self.beside = beside
        """What each of the others counts beside the first."""
        self.trusted = False
        """Whether the leader's predictions, not only their order, can be believed."""
        self.gain_limit = np.inf
        self._subject: tuple[Model, Table] | None = None
        self._scored: dict[int, Scores] = {}
        """The first ranking's scores of the people asked about last, by `person_keys`, for this subject."""

    @classmethod
    def of(cls, model: Model) -> RankingMix:
        """Those that accept the model."""
        ours = {"gradient": as_ranking("gradient"), "published": as_ranking("combined")}
        if all(ranking.ranks(model) for ranking in ours.values()):
            return cls(ours, beside=BESIDE if len(members_of(model)) > 1 else 1.0)
        own = [name for name in ("gradient", NOISELESS, "leaves") if as_ranking(name).ranks(model)][:1]
        return cls({name: as_ranking(name) for name in (*own, "surrogate-signed", "distance")})

    def train_on(self, engine: Engine) -> None:
        self.first.train_on(engine)

    def trial(self, people: int) -> int:
        return len(self.candidates) * min(people, SAMPLE) + FLIPS + 1

    def prepare(
        self, retrain: Retrain, model: Model, table: Table, people: pd.DataFrame, psi: Allowed, budget: int
    ) -> dict[str, Any]:
        sample, allowed = people.iloc[:SAMPLE], psi.of_people(slice(SAMPLE)).whole()
        sets = [
            flips
            for leader in self.candidates
            for flips in _best_sets(self._scores_by(leader, model, table, sample), allowed, budget)
        ]
        logits = retrain(sets)[:, : len(sample)]
        before = model.logits(sample)
        own = logits.reshape(len(self.candidates), len(sample), len(sample)).diagonal(axis1=1, axis2=2)
        moved = np.nan_to_num((own - before) * flip_direction(before))
        gains = moved.mean(axis=1)
        self.leader = self.candidates[int(np.argmax(gains))]
        singles = self._singles(retrain, model, table, sample)
        self.trusted = NOISELESS in self.parts and (singles["spearman"] or 0.0) >= TRUSTED
        if self.trusted:
            self.leader = NOISELESS
            self.gain_limit = _gain_limit(moved, moved[self.candidates.index(self.leader)])
        return singles | {
            "people": len(sample),
            "leader": self.leader,
            "gains": {leader: round(float(gain), 4) for leader, gain in zip(self.candidates, gains, strict=True)},
        }

    def _singles(self, retrain: Retrain, model: Model, table: Table, sample: pd.DataFrame) -> dict[str, Any]:
        """How well the first ranking's predictions for single labels agree with retrainings, where it makes any. Not
        of an ensemble: a dozen labels alone, in every member, would cost more than they tell."""
        if not self.first.predicts or len(members_of(model)) > 1:
            return {"spearman": None, "slope": None, "flips": 0, "poor": False}
        predicted = self._first_scores(model, table, sample)
        spearman, slope, flips = smoothness(lambda sets: retrain(sets)[:, : len(sample)], predicted, FLIPS)
        return {"spearman": round(spearman, 3), "slope": round(slope, 3), "flips": flips, "poor": spearman < POOR}

    def predictions(self, model: Model, table: Table, people: pd.DataFrame) -> Scores | None:
        return self._first_scores(model, table, people) if self.trusted else None

    def score(self, model: Model, table: Table, people: pd.DataFrame) -> NDArray[np.float64]:
        return self._scores_by(self.leader, model, table, people)

    def score_at(self, model: Model, table: Table, people: pd.DataFrame, flips: Sequence[FlipSet]) -> Scores:
        """Scores once each person's own flips are made: what the first ranking says there, and with a quarter of its
        weight what the others said before. Where it asks fewer members there than before, what it said before counts
        as much."""
        scores = percentile(self.first.score_at(model, table, people, flips))
        if self.first.uses_fewer_members_at_flips(model, table):
            scores = (scores + percentile(self._first_scores(model, table, people))) / 2
        others = list(self.parts.values())[1:]
        for part in others:
            scores += BESIDE_AGAIN * percentile(checked_scores(part, model, table, people)) / len(others)
        return scores

    def _scores_by(self, leader: str, model: Model, table: Table, people: pd.DataFrame) -> NDArray[np.float64]:
        parts = list(self.parts.values()) if leader == MEAN else [self.parts[leader]]
        asked = (model, table, people)
        scores = [self._first_scores(*asked) if part is self.first else checked_scores(part, *asked) for part in parts]
        weights = [1.0 if part is self.first else self.beside for part in parts]
        mean = np.empty((len(people), table.n))
        for k, own in enumerate(mean):
            own[:] = np.average([percentile(each[k : k + 1])[0] for each in scores], axis=0, weights=weights)
        return mean

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


def _gain_limit(moved: NDArray[np.floating], led: NDArray[np.floating]) -> float:
    """How many times the gain of the leading ranking's set any other may bring, after `moved [rankings × people]`."""
    ratios = moved[:, led > 0].max(axis=0, initial=0.0) / led[led > 0]
    return max(LEAST_FURTHER, 1 + DOUBLED * (float(ratios.max(initial=1.0)) - 1))


def smoothness(retrain: Retrain, scores: Scores, count: int) -> tuple[float, float, int]:
    """How predicted effects, `scores [people × n]` away from the present class, agree with those of retrainings with
    `count` sampled labels turned one at a time: see `agreement`; and the number of labels."""
    tried = sample_rows(scores, count)
    logits = retrain([(), *((int(row),) for row in tried)])
    real = ((logits[1:] - logits[0]) * flip_direction(logits[0])).T
    return *agreement(scores[:, tried], real), len(tried)


def sample_rows(predicted: Scores, count: int) -> NDArray[np.int64]:
    """Training rows to try, ascending: half those with the largest predicted effect `[people × n]` on anyone, where
    a search looks; half drawn from the others, where most rows are."""
    strongest = np.argsort(-np.abs(predicted).max(axis=0), kind="stable")
    count = min(count, len(strongest))
    top, others = strongest[: count // 2], np.sort(strongest[count // 2 :])
    drawn = np.random.default_rng(0).choice(others, count - count // 2, replace=False)
    return np.sort(np.concatenate([top, drawn]))


def agreement(predicted: Scores, real: Scores) -> tuple[float, float]:
    """Of effects `[people × flips]`: the mean of the people's rank correlations, since a search ranks for one person at
    a time, 0 where nothing varies; and the slope of the least-squares line real = slope · predicted."""
    from scipy.stats import spearmanr

    pairs = list(zip(predicted, real, strict=True))
    varied = [len(one) > 1 and np.ptp(one) > 0 and np.ptp(other) > 0 for one, other in pairs]
    ranked = [float(spearmanr(*pair).statistic) if varies else 0.0 for pair, varies in zip(pairs, varied, strict=True)]
    square = float((predicted.astype(np.float64) ** 2).sum())
    slope = float((predicted.astype(np.float64) * real).sum() / square) if square else 0.0
    return float(np.mean(ranked)) if ranked else 0.0, slope


def leader_words(leader: str, candidates: Iterable[str] = ()) -> str:
    """Who led a search, of those on trial."""
    named = {name: WORDS.get(name, f"'{name}'") for name in candidates or WORDS if name != MEAN}
    return f"{named[leader]} alone" if leader != MEAN else f"{' and '.join(named.values())} together"


def _best_sets(scores: NDArray[np.float64], psi: NDArray[np.bool_], budget: int) -> list[FlipSet]:
    """Each person's `budget` best rows of those that may be flipped."""
    order = np.argsort(np.where(psi, -scores, np.inf), axis=1, kind="stable")
    counts = np.minimum(budget, psi.sum(axis=1))
    return [tuple(sorted(int(row) for row in rows[:count])) for rows, count in zip(order, counts, strict=True)]

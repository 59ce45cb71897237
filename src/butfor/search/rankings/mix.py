"""The ranking that leads a search: the mean of several, or the one that moved decisions furthest in
a trial.

For our network these are the exact training gradient, which sees training but can be rough, and the
published score, which is local and does not see training; for other models the rankings that accept
them. In the trial each ranking flips its best labels for a few people, the whole budget at once.
Predictions for single labels are also compared with retraining, so that a verdict can say how far
to trust them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from butfor.models.seam import (
    Engine,
    FlipSet,
    Floats,
    Model,
    flip_direction,
    person_keys,
)
from butfor.search.rankings.named import as_ranking
from butfor.search.rankings.ranking import (
    Ranking,
    Scores,
    checked_scores,
    percentile,
)
from butfor.search.rules import Allowed
from butfor.table.table import Table

TRIAL_PEOPLE = 8
"""People in the trial."""
TRIAL_LABELS = 12
"""Labels whose predicted effect is compared with retraining."""
POOR_CORRELATION = 0.2
"""Below this mean rank correlation, predictions are called poor."""
TRUSTED_CORRELATION = 0.95
"""From this mean rank correlation on, predictions of a model without noise are believed."""
MIN_GAIN_LIMIT = 1.25
"""Any other set may go at least a quarter further than the best set by believed predictions."""
LEAD_FACTOR = 2.0
"""It may go further by this many times the lead that sets of other rankings had in the trial."""
NOISELESS_RANKING = "influence"
"""The ranking for linear models, which end at a minimum: its predictions may be as good as
retraining."""
MEAN = "both"
"""The name of the mean of all rankings."""
PUBLISHED_WEIGHT = 0.5
"""The weight of the published score beside the gradient averaged over an ensemble. Beside a single
network's gradient, which is rougher, it is 1."""
PUBLISHED_WEIGHT_AGAIN = 0.25
"""Its weight beside the second gradient, at half-flipped labels."""
WORDS = {"gradient": "the gradient", "published": "the published ranking"}
"""Rankings in words; the others go by their name."""

Retrain = Callable[[Sequence[FlipSet]], Floats]
"""Flip sets → logits of the people under the models trained on them, `[sets × people]`."""


class RankingMix(Ranking):
    """The mean percentile of several rankings, or one of them alone: the `leader`. `first` knows
    most about the model, and takes longest; each other counts `beside` times as much."""

    name = "guided"

    def __init__(
        self, parts: Mapping[str, Ranking], leader: str = MEAN, beside: float = 1.0
    ) -> None:
        self.parts = dict(parts)
        self.leader = leader
        self.beside = beside
        self.first: Any
        self.first, *self.others = self.parts.values()
        self.trusted = False
        """Whether the leader's predictions can be believed, not only their order."""
        self._scored: tuple[Any, Any, dict[int, Scores]] = None, None, {}
        """A model, a table, and the first ranking's scores of the last people there, by
        `person_keys`."""

    @classmethod
    def of(cls, model: Model) -> RankingMix:
        """The rankings that accept the model."""
        ours = {"gradient": as_ranking("gradient"), "published": as_ranking("combined")}
        if all(ranking.ranks(model) for ranking in ours.values()):
            return cls(ours, beside=PUBLISHED_WEIGHT if len(model.members) > 1 else 1.0)
        by_model = ("gradient", NOISELESS_RANKING, "leaves")
        accepted = [name for name in by_model if as_ranking(name).ranks(model)]
        names = (*accepted[:1], "surrogate-signed", "distance")
        return cls({name: as_ranking(name) for name in names})

    def train_on(self, engine: Engine) -> None:
        self.first.train_on(engine)

    def trial_sets(self, people: int) -> int:
        """The most flip sets that `trial` trains."""
        return (1 + len(self.parts)) * min(people, TRIAL_PEOPLE) + TRIAL_LABELS + 1

    def trial(
        self,
        retrain: Retrain,
        model: Model,
        table: Table,
        people: pd.DataFrame,
        psi: Allowed,
        budget: int,
    ) -> dict[str, Any]:
        """Choose the leader by the first people: who moves their decisions furthest."""
        sample = people.iloc[:TRIAL_PEOPLE]
        candidates = [MEAN, *self.parts]
        sets = list[FlipSet]()
        for leader in candidates:  # each person's best rows that ψ allows
            scores = self._scores_by(leader, model, table, sample)
            for score, allowed in zip(scores, psi.of_people(slice(TRIAL_PEOPLE)), strict=True):
                order = np.argsort(np.where(allowed, -score, np.inf), kind="stable")
                size = min(budget, int(allowed.sum()))
                sets.append(tuple(sorted(map(int, order[:size]))))
        logits = retrain(sets)[:, : len(sample)]
        before = model.logits(sample)
        # Each person's logit after their own sets, `[candidates × people]`.
        after = logits.reshape(len(candidates), len(sample), len(sample)).diagonal(axis1=1, axis2=2)
        moved = np.nan_to_num((after - before) * flip_direction(before))
        gains = moved.mean(axis=1)
        self.leader = candidates[int(np.argmax(gains))]
        spearman = None
        flips = 0
        # Not measured for an ensemble: retraining every member for a dozen labels would cost too
        # much.
        if self.first.predicts and len(model.members) == 1:
            predicted = self._first_scores(model, table, sample)
            spearman, flips = agreement(
                lambda some: retrain(some)[:, : len(sample)], predicted, TRIAL_LABELS
            )
        self.trusted = NOISELESS_RANKING in self.parts and (spearman or 0.0) >= TRUSTED_CORRELATION
        if self.trusted:
            self.leader = NOISELESS_RANKING
            led = moved[candidates.index(NOISELESS_RANKING)]
            # How far sets of other rankings went, as a multiple of what the leader's sets did.
            ratios = moved[:, led > 0].max(axis=0, initial=0.0) / led[led > 0]
            lead = float(ratios.max(initial=1.0)) - 1
            self.gain_limit = max(MIN_GAIN_LIMIT, 1 + LEAD_FACTOR * lead)
        rounded = [round(float(gain), 4) for gain in gains]
        return {
            "spearman": spearman,
            "flips": flips,
            "poor": spearman is not None and spearman < POOR_CORRELATION,
            "people": len(sample),
            "leader": self.leader,
            "gains": dict(zip(candidates, rounded, strict=True)),
        }

    def predictions(self, model: Model, table: Table, people: pd.DataFrame) -> Scores | None:
        return self._first_scores(model, table, people) if self.trusted else None

    def score(self, model: Model, table: Table, people: pd.DataFrame) -> NDArray[np.float64]:
        return self._scores_by(self.leader, model, table, people)

    @property
    def score_at(self) -> Any:
        return None if self.first.score_at is None else self._score_at

    def _score_at(
        self, model: Model, table: Table, people: pd.DataFrame, flips: Sequence[FlipSet]
    ) -> Scores:
        """Scores after each person's own flips: the first ranking there, and with a quarter of its
        weight the others without flips. If the gradient uses fewer members there, its scores
        without flips count as much."""
        scores = percentile(self.first.score_at(model, table, people, flips))
        members_there = self.first.members_at_flips(model, table)
        if len(members_there) < len(model.members[: self.first.member_limit]):
            scores = (scores + percentile(self._first_scores(model, table, people))) / 2
        for part in self.others:
            unflipped = percentile(checked_scores(part, model, table, people))
            scores += PUBLISHED_WEIGHT_AGAIN * unflipped / len(self.others)
        return scores

    def _scores_by(
        self, leader: str, model: Model, table: Table, people: pd.DataFrame
    ) -> NDArray[np.float64]:
        parts = list(self.parts.values()) if leader == MEAN else [self.parts[leader]]
        scores = []
        weights = []
        for part in parts:
            if part is self.first:
                scores.append(self._first_scores(model, table, people))
                weights.append(1.0)
            else:
                scores.append(checked_scores(part, model, table, people))
                weights.append(self.beside)
        mean = np.empty((len(people), table.n))
        # Person by person: a copy of all scores would double the memory.
        for k in range(len(people)):
            percentiles = [percentile(of_part[k : k + 1])[0] for of_part in scores]
            mean[k] = np.average(percentiles, axis=0, weights=weights)
        return mean

    def _first_scores(self, model: Model, table: Table, people: pd.DataFrame) -> Scores:
        """The first ranking's scores; those of people who were just ranked are known."""
        keys = person_keys(model, people)
        by_key = dict[int, Scores]()
        if self._scored[0] is model and self._scored[1] is table:
            by_key = {key: self._scored[2][key] for key in keys if key in self._scored[2]}
        missing = [k for k, key in enumerate(keys) if key not in by_key]
        if missing:
            scores = checked_scores(self.first, model, table, people.iloc[missing])
            by_key |= {keys[k]: score for k, score in zip(missing, scores, strict=True)}
            self._scored = (model, table, by_key)
        return np.array([by_key[key] for key in keys])


def agreement(retrain: Retrain, scores: Scores, count: int) -> tuple[float, int]:
    """How well predicted effects, `scores [people × n]` away from the present class, agree with
    retraining after `count` sampled labels are flipped one at a time: the mean rank correlation
    over people, since a search ranks for one person at a time (0 if nothing varies), and the number
    of labels. Half of them have the largest predicted effects on anyone, where a search looks; half
    are drawn from the others."""
    from scipy.stats import spearmanr

    strongest = np.argsort(-np.abs(scores).max(axis=0), kind="stable")
    count = min(count, len(strongest))
    others = np.sort(strongest[count // 2 :])
    drawn = np.random.default_rng(0).choice(others, count - count // 2, replace=False)
    tried = np.sort(np.concatenate([strongest[: count // 2], drawn]))
    logits = retrain([(), *((int(row),) for row in tried)])
    effects = ((logits[1:] - logits[0]) * flip_direction(logits[0])).T

    def correlation(predicted: Scores, real: Scores) -> float:
        varied = count > 1 and np.ptp(predicted) > 0 and np.ptp(real) > 0
        return float(spearmanr(predicted, real).statistic) if varied else 0.0

    correlations = list(map(correlation, scores[:, tried], effects))
    mean = round(float(np.mean(correlations)), 3) if correlations else 0.0
    return mean, count


def leader_words(leader: str, candidates: Iterable[str] = ()) -> str:
    """The leader of a search among the candidates, in words."""
    named = {name: WORDS.get(name, f"'{name}'") for name in candidates or WORDS if name != MEAN}
    if leader == MEAN:
        return f"{' and '.join(named.values())} together"
    return f"{named[leader]} alone"

"""A ranking of single models, averaged over the members of an ensemble.

One member's scores hold much of its own seed; their mean is about the labels. Where a member's scores can be wild (the
gradient of a rough training) an eighth of them at either end is left out of it. Scores that count away from the model's
decision are turned for the members that decide otherwise than the ensemble does: all of them count away from the
ensemble's decision.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from butfor.learn.protocols import Engine, FlipSet, Model, Table, away
from butfor.rank.ranking import Ranking, Scores

WILD = 8
"""Of so many members one at either end is left out where scores can be wild; of few members one as well."""


class Averaged(Ranking):
    """The mean, whole or trimmed, of what `ranking` says about each member; of as many as it says are `enough`."""

    def __init__(self, ranking: Ranking) -> None:
        self.ranking = ranking
        self.name, self.needs, self.predicts = ranking.name, ranking.needs, ranking.predicts
        self.rescores, self.rebuildable = ranking.rescores, ranking.rebuildable

    def accepts(self, model: Model) -> bool:
        return all(map(self.ranking.accepts, model.members))

    def score(self, model: Model, table: Table, people: pd.DataFrame) -> Scores:
        members, out = model.members[: self.ranking.enough], away(model.logits(people))
        turned = (
            scores * (away(member.logits(people)) * out)[:, None] if self.ranking.signed else scores
            for member, scores in zip(members, self.ranking.score_members(members, table, people), strict=True)
        )
        if self.ranking.rough:
            return trimmed_mean(np.array(list(turned)))
        total: NDArray[np.float64] = np.zeros((len(people), table.n))
        for scores in turned:
            total += scores
        return total / len(members)

    def total(self, model: Model, table: Table, people: pd.DataFrame, weights: Scores, out: int) -> Scores:
        members = model.members[: self.ranking.enough]
        found = np.array(list(self.ranking.total_members(members, table, people, weights, out)))
        return trimmed_mean(found) if self.ranking.rough else np.asarray(found.mean(axis=0))

    def score_at(self, model: Model, table: Table, people: pd.DataFrame, flips: Sequence[FlipSet]) -> Scores:
        return self.ranking.score_at(model, table, people, flips)

    def asks_fewer_at_flips(self, model: Model, table: Table) -> bool:
        return self.ranking.asks_fewer_at_flips(model, table)

    def train_on(self, engine: Engine) -> None:
        self.ranking.train_on(engine)


def trimmed_mean(scores: Scores) -> Scores:
    """Over the first axis, without the lowest and the highest; of three or four it is the median."""
    count = len(scores)
    if count < 3:
        return np.asarray(scores.mean(axis=0))
    out = max(1, count // WILD)
    inner = np.partition(scores, (out, count - out - 1), axis=0)[out : count - out]
    return np.asarray(inner.mean(axis=0))


def suited(ranking: Ranking, model: Model) -> Ranking:
    """The ranking as it is where it knows what to do with the model, else averaged over the model's members."""
    return Averaged(ranking) if len(model.members) > 1 and not ranking.accepts(model) else ranking

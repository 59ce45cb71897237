"""A ranking of single models, averaged over the members of an ensemble.

One member's scores hold much of its own seed; their mean is about the labels. Where a member's scores can be wild (the
gradient of a rough training) an eighth of them at either end is left out of it. Scores that count away from the model's
decision are turned for the members that decide otherwise than the ensemble does: all of them count away from the
ensemble's decision.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from butfor.learn.ensemble import EnsembleModel, models_of
from butfor.machine import available_cores, results
from butfor.rank.ranking import Ranking, Scores, accepts, checked_scores
from butfor.seam import Model, Table, away

WILD = 8
"""Of so many members one at either end is left out where scores can be wild; of few members one as well."""


PASSED_ON = ("train_on", "sweep_by", "score_at", "asks_fewer_at_flips", "function")


class Averaged(Ranking):
    """The mean, whole or trimmed, of what `ranking` says about each member; of as many as it says are `enough`."""

    def __init__(self, ranking: Ranking) -> None:
        self.ranking = ranking

    @property
    def name(self) -> str:  # type: ignore[override]
        return self.ranking.name

    @property
    def needs(self) -> str:
        return str(getattr(self.ranking, "needs", self.name))

    @property
    def predicts(self) -> bool:
        """Whether scores are predictions in units of logit: the mean's, as the mean logit is."""
        return bool(getattr(self.ranking, "predicts", False))

    def __getattr__(self, name: str) -> Any:
        if name in PASSED_ON:  # as far as the ranking has them
            return getattr(self.ranking, name)
        raise AttributeError(name)

    def accepts(self, model: Model) -> bool:
        return all(accepts(self.ranking, member) for member in models_of(model))

    def score(self, model: Model, table: Table, people: pd.DataFrame) -> Scores:
        members = models_of(model)[: getattr(self.ranking, "enough", None)]
        out = away(model.logits(people))
        at_once = getattr(self.ranking, "score_members", None)
        scored = at_once(members, table, people) if at_once is not None else self._scored(members, table, people)
        signed = getattr(self.ranking, "signed", False)
        turned = (
            scores * (away(member.logits(people)) * out)[:, None] if signed else scores
            for member, scores in zip(members, scored, strict=True)
        )
        if getattr(self.ranking, "rough", False):
            return trimmed_mean(np.array(list(turned)))
        total: NDArray[np.float64] = np.zeros((len(people), table.n))
        for scores in turned:
            total += scores
        return total / len(members)

    def _scored(self, members: Sequence[Model], table: Table, people: pd.DataFrame) -> Iterator[Scores]:
        """Each member's scores in turn, as many at work as there are cores."""

        def one(member: Model) -> Scores:
            return checked_scores(self.ranking, member, table, people)

        cores = min(available_cores(), len(members))
        if cores == 1:
            yield from map(one, members)
            return
        with ThreadPoolExecutor(cores) as pool:
            for first in range(0, len(members), cores):
                yield from results([pool.submit(one, member) for member in members[first : first + cores]])


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
    return Averaged(ranking) if isinstance(model, EnsembleModel) and not accepts(ranking, model) else ranking

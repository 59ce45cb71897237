"""Influence functions of linear models: what flipping a label does to the minimum that training ends at.

Logistic regression and ridge classifiers do stop at their minimum, so the first-order answer is exact for ridge and
Newton's step for logistic regression. A network stops early, long before one: its derivative is `gradient`.
"""

from __future__ import annotations

import pandas as pd

from butfor.learn.protocols import Model, Table, away
from butfor.machine import single_threaded
from butfor.rank.ranking import Ranking, Scores


class Influence(Ranking):
    """Predicted Δlogit away from the person's present class if label i were flipped."""

    name = "influence"
    needs = "logistic regression or ridge"
    predicts = True
    signed = True

    def accepts(self, model: Model) -> bool:
        return model.linear

    def score(self, model: Model, table: Table, people: pd.DataFrame) -> Scores:
        with single_threaded():
            effects = model.flip_effects(table, people)
        return effects * away(model.logits(people))[:, None]

    def total(self, model: Model, table: Table, people: pd.DataFrame, weights: Scores, out: int) -> Scores:
        with single_threaded():
            return model.flip_effects(table, people, weights) * out

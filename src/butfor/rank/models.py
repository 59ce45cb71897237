"""Rankings that look inside models other than our network: influence functions of linear models, leaves of trees."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from butfor.learn.protocols import Model, Table, away
from butfor.machine import single_threaded
from butfor.rank.ranking import Ranking, Scores


class Influence(Ranking):
    """Predicted Δlogit, away from the person's present class, if label i were flipped.

    Logistic regression and ridge classifiers stop at the minimum of their loss, so the first-order answer is exact for
    ridge and Newton's step for logistic regression. A network stops long before one: its derivative is `gradient`."""

    name = "influence"
    needs = "logistic regression or ridge"
    predicts = signed = True

    def accepts(self, model: Model) -> bool:
        return model.linear

    def score(self, model: Model, table: Table, people: pd.DataFrame) -> Scores:
        with single_threaded():
            effects = model.flip_effects(table, people)
        return effects * away(model.logits(people))[:, None]

    def total(self, model: Model, table: Table, people: pd.DataFrame, weights: Scores, out: int) -> Scores:
        with single_threaded():
            return model.flip_effects(table, people, weights) * out


class Leaves(Ranking):
    """Share of trees, from 0 to 1, in which person and row fall into the same leaf, whose value is made of the labels
    of the rows in it."""

    name = "leaves"
    needs = "a tree, a forest or boosted trees"

    def accepts(self, model: Model) -> bool:
        return model.trees

    def score(self, model: Model, table: Table, people: pd.DataFrame) -> NDArray[np.float32]:
        ours, theirs = model.leaves(people), model.leaves(table.X)
        shared = np.zeros((len(people), table.n), np.float32)
        for mine, others in zip(ours.T, theirs.T, strict=True):
            shared += mine[:, None] == others[None, :]
        return shared / ours.shape[1]

    def total(self, model: Model, table: Table, people: pd.DataFrame, weights: Scores, out: int) -> Scores:
        ours, theirs = model.leaves(people), model.leaves(table.X)
        total = np.zeros((len(weights), table.n))
        for mine, others in zip(ours.T, theirs.T, strict=True):
            names, places = np.unique(np.concatenate([mine, others]), return_inverse=True)
            for sums, weight in zip(total, weights, strict=True):
                sums += np.bincount(places[: len(mine)], weight, len(names))[places[len(mine) :]]
        return total / ours.shape[1]

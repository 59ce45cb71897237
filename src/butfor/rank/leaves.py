"""How often trees put the person and a training row into one leaf: for trees what `activation` is for networks.

A row in the person's leaf shares its fate there: the leaf's value is made of the labels of the rows in it.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from butfor.learn.protocols import Model, Table
from butfor.rank.ranking import Ranking, Scores


class Leaves(Ranking):
    """Share of trees, from 0 to 1, in which person and row fall into the same leaf."""

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

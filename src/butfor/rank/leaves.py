"""How often trees put the person and a training row into one leaf: for trees what `activation` is for networks.

A row in the person's leaf shares its fate there: the leaf's value is made of the labels of the rows in it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from butfor.learn.sklearn import SklearnModel
from butfor.seam import Model, Table


class Leaves:
    """Share of trees, from 0 to 1, in which person and row fall into the same leaf."""

    name = "leaves"
    needs = "a tree, a forest or boosted trees"

    def accepts(self, model: Model) -> bool:
        if not isinstance(model, SklearnModel):
            return False
        kind = type(model.final)
        return any(hasattr(kind, method) for method in ("apply", "staged_decision_function")) or (
            kind.__module__.split(".")[0] == "lightgbm"
        )

    def score(self, model: Model, table: Table, people: pd.DataFrame) -> NDArray[np.float32]:
        assert isinstance(model, SklearnModel)
        ours, theirs = leaves(model, people), leaves(model, table.X)
        shared = np.zeros((len(people), table.n), np.float32)
        for mine, others in zip(ours.T, theirs.T, strict=True):
            shared += mine[:, None] == others[None, :]
        return shared / ours.shape[1]


def leaves(model: SklearnModel, X: pd.DataFrame) -> NDArray[Any]:
    """Which leaf of each tree a row falls into, `[rows × trees]`."""
    trees, numbers = model.final, model.step_inputs(X)
    if type(trees).__module__.split(".")[0] == "lightgbm":
        return np.asarray(trees.predict(numbers, pred_leaf=True)).reshape(len(X), -1)
    if hasattr(trees, "apply"):
        return np.asarray(trees.apply(numbers)).reshape(len(X), -1)
    # Boosted histograms do not tell their leaves, but each tree's value: two leaves hardly ever have the same.
    stages = np.array([np.ravel(stage) for stage in trees.staged_decision_function(numbers)])
    values = np.diff(stages, axis=0, prepend=stages[:1] * 0)
    return np.round(values, 9).T

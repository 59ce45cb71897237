"""Rows and people as numbers, for rankings that measure in the feature space of whatever model.

Our network's inputs are its own encoding; a scikit-learn model's are what its last step sees. Where a model does not
say, the table is encoded here: numbers scaled, missing ones at the mean, categories one-hot, unseen ones all 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from butfor.learn.protocols import Floats, Model, Numbers, Table
from butfor.mlp.recipe import Network, Rows
from butfor.rank.ranking import Ranking, Scores


def numbers_of(model: Model, table: Table, people: pd.DataFrame) -> tuple[Numbers, Numbers]:
    """`[n × d]` of the training rows, `[people × d]` of the people."""
    seen = model.numbers(table, people)
    if seen is not None:
        return seen
    encoder = _encoder(table.X).fit(table.X)
    rows, asked = (np.asarray(encoder.transform(X), np.float64) for X in (table.X, people))
    return rows, asked


def _encoder(X: pd.DataFrame) -> Any:
    from sklearn.compose import make_column_transformer
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    numeric = [c for c in X.columns if pd.api.types.is_numeric_dtype(X[c].dtype)]
    others = [c for c in X.columns if c not in numeric]
    return make_column_transformer(
        (make_pipeline(SimpleImputer(), StandardScaler()), numeric),
        (OneHotEncoder(handle_unknown="ignore", sparse_output=False), others),
    )


class NetworkRanking(Ranking):
    """Of our network alone. Subclasses bring `score_network`, which sees the encoded rows and people."""

    needs = "a butfor.MLP"

    def accepts(self, model: Model) -> bool:
        return model.network is not None

    def score(self, model: Model, table: Table, people: pd.DataFrame) -> Scores:
        _, encoded = numbers_of(model, table, people)
        return self.score_network(model.network, model.rows, np.asarray(encoded, np.float32))

    def score_network(self, network: Network, rows: Rows, people: Floats) -> Scores:
        raise NotImplementedError

"""Rankings that look inside our network share what they accept and how they get there."""

from __future__ import annotations

import numpy as np
import pandas as pd

from butfor.learn.protocols import Floats, Model, Table
from butfor.mlp.recipe import Network, Rows
from butfor.rank.numbers import numbers_of
from butfor.rank.ranking import Ranking, Scores


class NetworkRanking(Ranking):
    """Subclasses bring `score_network`, which sees numbers: the network, the encoded rows, the encoded people."""

    needs = "a butfor.MLP"

    def accepts(self, model: Model) -> bool:
        return model.network is not None

    def score(self, model: Model, table: Table, people: pd.DataFrame) -> Scores:
        _, encoded = numbers_of(model, table, people)
        return self.score_network(model.network, model.rows, np.asarray(encoded, np.float32))

    def score_network(self, network: Network, rows: Rows, people: Floats) -> Scores:
        raise NotImplementedError

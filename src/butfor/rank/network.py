"""Rankings that look inside our network share what they accept and how they get there."""

from __future__ import annotations

import pandas as pd

from butfor.mlp.learner import NetworkModel
from butfor.mlp.recipe import Network, Rows
from butfor.rank.ranking import Scores
from butfor.seam import Floats, Model, Table


class NetworkRanking:
    """Subclasses bring `score_network`, which sees numbers: the network, the encoded rows, the encoded people."""

    name: str
    needs = "a butfor.MLP"

    def accepts(self, model: Model) -> bool:
        return isinstance(model, NetworkModel)

    def score(self, model: Model, table: Table, people: pd.DataFrame) -> Scores:
        assert isinstance(model, NetworkModel)
        return self.score_network(model.network, model.rows, model.encoded(people))

    def score_network(self, network: Network, rows: Rows, people: Floats) -> Scores:
        raise NotImplementedError

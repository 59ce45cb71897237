"""How alike the network's hidden neurons see the person and a training row.

Similarity is 1 − weighted Hamming distance between the two on/off patterns; neurons of the last
hidden layer weigh 1, each layer before it `decay` times the next (section 2 of the paper).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from butfor.errors import SettingError
from butfor.learn.protocols import Floats, Model
from butfor.mlp.recipe import Network, Rows
from butfor.rank.numbers import NetworkRanking


class Activation(NetworkRanking):
    """Share of (weighted) hidden neurons in the same state, from 0 to 1. `threshold` is the output above
    which a neuron counts as active; by default the one for the network's activation function."""

    name = "activation"
    needs = "a butfor.MLP with hidden layers"

    def __init__(self, decay: float = 0.5, threshold: float | None = None) -> None:
        if not 0 < decay <= 1:
            raise SettingError(f"decay={decay} must be above 0 and at most 1.")
        self.decay = decay
        self.threshold = threshold

    def accepts(self, model: Model) -> bool:
        return model.network is not None and bool(model.network.recipe.hidden)

    def score_network(self, network: Network, rows: Rows, people: Floats) -> NDArray[np.float32]:
        if not network.recipe.hidden:
            raise SettingError("A network without hidden layers has no activation pattern to rank by.")
        ours, theirs = self._signs(network, people), self._signs(network, rows.X)
        # With states as ±√w the dot product is (weight of equal neurons) − (weight of different ones).
        total = np.float32((ours[0] ** 2).sum())
        similarity = (ours @ theirs.T / total + 1) / 2
        return similarity.astype(np.float32)

    def _signs(self, network: Network, X: Floats) -> Floats:
        """±√weight per neuron, all layers side by side."""
        patterns = network.active(X, self.threshold)
        weights = [self.decay**depth for depth in reversed(range(len(patterns)))]
        signs = [np.sqrt(w) * (2 * b - 1.0) for w, b in zip(weights, patterns, strict=True)]
        return np.hstack(signs).astype(np.float32)

"""The local linear model of a network (section 2 of the paper).

For one x, a ReLU network is a linear function: keep only the weights between active neurons and
multiply the layers. For ReLU this reproduces f(x) exactly, up to rounding. For tanh and sigmoid
there is no such identity; treating neurons as on or off by a threshold is an approximation, and
the result says so in `exact`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from butfor.learn.protocols import Floats
from butfor.mlp.recipe import Network

THRESHOLDS = {"relu": 0.0, "tanh": 0.0, "sigmoid": 0.5}
"""A neuron is active where its output is above this: for all three, where its input is above 0."""


@dataclass(frozen=True, eq=False)
class LocalLinear:
    """`theta [rows × inputs]` and `bias [rows]`, one linear model per row; `exact` for ReLU only."""

    theta: NDArray[np.float64]
    bias: NDArray[np.float64]
    exact: bool

    def logits(self, X: Floats) -> NDArray[np.float64]:
        """θ·x + bias, row by row, for the rows the models were made for."""
        return np.einsum("rd,rd->r", self.theta, np.asarray(X, np.float64)) + self.bias


def active_neurons(network: Network, X: Floats, threshold: float | None = None) -> list[NDArray[np.bool_]]:
    """b(x): which hidden neurons are active, `[rows × width]` per layer."""
    limit = THRESHOLDS[network.activation] if threshold is None else threshold
    return [layer > limit for layer in network.hidden_layers(X)]


def linearize(network: Network, X: Floats, contrast: Floats | None = None) -> LocalLinear:
    """The local linear model at each row of `X [rows × inputs]`; of several outputs that of their sum, as `contrast
    [rows × outputs]` counts them."""
    counted = np.ones((len(X), 1)) if contrast is None else contrast.astype(np.float64)
    theta = counted @ network.weights[-1].astype(np.float64)
    bias = counted @ network.biases[-1].astype(np.float64)
    layers = list(zip(network.weights, network.biases, active_neurons(network, X), strict=False))
    for W, b, active in reversed(layers):
        theta *= active
        bias += theta @ b.astype(np.float64)
        theta = theta @ W.astype(np.float64)
    return LocalLinear(theta, bias, exact=network.activation == "relu")

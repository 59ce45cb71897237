"""Networks in stacks: forwards, gradients and Hessian products of S small networks at a time, as batched products.

Shapes as in `butfor.mlp.sweeps`, which walks whole trainings back with them; the first axis is always the network.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from butfor.mlp.onethread import ACTIVATION_FUNCTIONS
from butfor.mlp.unroll import TILE, Layers, bend, slope


def forward(layers: Layers, activation: str, X: Tensor) -> tuple[list[Tensor], Tensor]:
    """What goes into each layer, `[S × rows × in]`, and the logits, `[S × rows]`, of rows `X [S × rows × d]`."""
    inputs = [X]
    for W, b in layers[:-1]:
        inputs.append(ACTIVATION_FUNCTIONS[activation](torch.baddbmm(b[:, None], inputs[-1], W.mT)))
    W, b = layers[-1]
    return inputs, torch.baddbmm(b[:, None], inputs[-1], W.mT)[:, :, 0]


def logit_gradients(layers: Layers, activation: str, X: Tensor) -> Tensor:
    """∂logit/∂w of each row of `X [S × rows × d]`, `[S × rows × p]`."""
    inputs, logits = forward(layers, activation, X)
    delta, parts = torch.ones_like(logits)[:, :, None], []
    for (W, _), h in zip(reversed(layers), reversed(inputs), strict=True):
        parts += [delta, (delta[..., None] * h[:, :, None]).flatten(2)]
        if h is not X:
            delta = torch.bmm(delta, W) * slope(activation, h)
    return torch.cat(parts[::-1], dim=2)


def principal(vectors: Tensor, accuracy: float) -> Tensor:
    """An orthonormal basis `[S × P × width]` of combinations of P vectors, `vectors [S × P × p]`, such that what
    lies outside of them has at most `accuracy` of the vectors' norm: vectors ≈ basis · basisᵀ · vectors."""
    double = vectors.double()
    squares, basis = torch.linalg.eigh(double @ double.mT)
    left_out = squares.clamp(min=0).cumsum(1) <= accuracy**2 * squares.clamp(min=0).sum(1, keepdim=True)
    width = vectors.shape[1] - int(left_out.sum(1).min())
    return basis[:, :, vectors.shape[1] - width :].to(vectors.dtype)


class Curvature:
    """Each network's mean loss on its batch at one point, ready for Hessian products: what does not depend on the
    direction.

    `inputs[l] [S × B × in]` goes into layer l; `deltas[l] [S × B × out]` is ∂loss/∂(output of layer l)."""

    def __init__(self, layers: Layers, activation: str, X: Tensor, y: Tensor) -> None:
        self.layers, self.activation = layers, activation
        self.inputs, logits = forward(layers, activation, X)
        self.slopes = [slope(activation, h) for h in self.inputs[1:]]
        self.probability = torch.sigmoid(logits)[:, :, None]
        self.deltas = [(self.probability - y[:, :, None]) / X.shape[1]]
        self.pulls: list[Tensor] = []
        """∂loss/∂(output of hidden layer l's activation), `[S × B × width]`."""
        for (W, _), by_z in zip(layers[:0:-1], self.slopes[::-1], strict=True):
            self.pulls.insert(0, torch.bmm(self.deltas[0], W))
            self.deltas.insert(0, self.pulls[0] * by_z)

    def gradient(self) -> Tensor:
        """The derivative of the mean loss, `[S × p]`."""
        parts = []
        for h, delta in zip(self.inputs, self.deltas, strict=True):
            parts += [torch.bmm(delta.mT, h).flatten(1), delta.sum(1)]
        return torch.cat(parts, dim=1)

    def products(self, directions: Layers) -> tuple[Tensor, Tensor]:
        """J·direction `[S × B × P]` and H·direction `[S × P × p]` for P directions in network shape."""
        S, P = directions[0][1].shape[:2]
        B, widest = self.probability.shape[1], max(b.shape[1] for _, b in self.layers)
        sums = [
            (
                W.new_zeros(S, P * W.shape[1], W.shape[2]),
                W.new_zeros(S, W.shape[1], P * W.shape[2]),
                W.new_zeros(S, P * W.shape[1]),
            )
            for W, _ in self.layers
        ]
        laid = [
            (dW.permute(0, 3, 1, 2).flatten(2), dW.transpose(1, 2).flatten(2), db.reshape(S, 1, -1))
            for dW, db in directions
        ]
        rows = max(16, TILE[self.probability.device.type] // (S * P * widest))
        tangents = [self._tile(slice(first, first + rows), P, laid, sums) for first in range(0, B, rows)]
        parts = []
        for (W, _), (outer, inner, bias) in zip(self.layers, sums, strict=True):
            out, into = W.shape[1:]
            product = outer.view(S, P, out, into) + inner.view(S, out, P, into).transpose(1, 2)
            parts += [product.flatten(2), bias.view(S, P, out)]
        return torch.cat(tangents, dim=1), torch.cat(parts, dim=2)

    def _tile(
        self,
        tile: slice,
        P: int,
        directions: Sequence[tuple[Tensor, Tensor, Tensor]],
        sums: Sequence[tuple[Tensor, Tensor, Tensor]],
    ) -> Tensor:
        """Pearlmutter's R-operator on some rows: returns their J·direction `[S × rows × P]`, adds their part of
        H·direction to `sums`. Directions come as weights `[S × in × P·out]`, again as `[S × out × P·in]`, and biases.
        Tangents lie as `[S × rows × P × width]`: with one weight matrix for all directions that is a matrix of
        rows·P rows, with one input for all directions a matrix of P·width columns."""
        inputs = [h[:, tile] for h in self.inputs]
        S, R = inputs[0].shape[:2]
        tangents: list[Tensor] = []
        for layer, ((W, _), (dW, _, db)) in enumerate(zip(self.layers, directions, strict=True)):
            z = torch.baddbmm(db, inputs[layer], dW)
            if layer:
                z.view(S, R * P, -1).baddbmm_(tangents[-1].view(S, R * P, -1), W.mT)
            tangents.append(z.view(S, R, P, -1))
            if layer < len(self.slopes):
                tangents[-1] *= self.slopes[layer][:, tile, None]
        probability = self.probability[:, tile, None]
        by_delta = tangents[-1] * (probability * (1 - probability) / self.probability.shape[1])
        for layer in reversed(range(len(self.layers))):
            outer, inner, bias = sums[layer]
            outer.baddbmm_(by_delta.view(S, R, -1).mT, inputs[layer])
            bias += by_delta.view(S, R, -1).sum(1)
            if layer:
                W, dW, delta = self.layers[layer][0], directions[layer][1], self.deltas[layer][:, tile]
                h, dh = inputs[layer], tangents[layer - 1]
                inner.baddbmm_(delta.mT, dh.view(S, R, -1))
                by_h = torch.bmm(delta, dW)
                by_h.view(S, R * P, -1).baddbmm_(by_delta.view(S, R * P, -1), W)
                by_delta = by_h.view(S, R, P, -1).mul_(self.slopes[layer - 1][:, tile, None])
                if self.activation != "relu":
                    pull = self.pulls[layer - 1][:, tile] * bend(self.activation, h)
                    by_delta.addcmul_(dh, pull[:, :, None])
        return tangents[-1][..., 0]

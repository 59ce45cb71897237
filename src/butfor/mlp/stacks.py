"""L for many small networks side by side, as stacked tensors on any torch device.

S networks share rows and recipe and differ in seed and labels, so that one step of all of them is a few batched matrix
products. A network leaves the stack at the end of its last epoch.

Shapes: S networks, B rows of a batch, K outputs (1 with two classes, else one per class), P directions, p weights of a
network, packed in PyTorch's order. The first axis is always the network.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy, one_hot

from butfor import stopping
from butfor.learn.protocols import Floats
from butfor.mlp.recipe import BETA1, BETA2, EPSILON, Recipe, Rows, unpack
from butfor.mlp.reference import BACKWARD, batch_orders, packed_start

TILE = {"cpu": 2**17, "cuda": 2**26}
"""Numbers in one hidden layer of one tile of a Hessian product: on the CPU a tile should stay in the cache, on CUDA it
must fit in memory."""

Layers = list[tuple[Tensor, Tensor]]
"""Weights `[… × out × in]` and biases `[… × out]`, layer by layer."""
Positions = NDArray[np.int64]


class PerNetwork:
    """Tensors whose first axis is the network."""

    def of(self, which: Tensor | slice) -> Self:
        return type(self)(*(part[which] for part in vars(self).values()))


@dataclass(frozen=True)
class State(PerNetwork):
    """Weights and Adam's two moments before a step, each `[S × p]`."""

    w: Tensor
    m: Tensor
    v: Tensor


@dataclass(frozen=True)
class Data:
    """Rows and people as tensors on the device."""

    X: Tensor
    X_val: Tensor
    y_val: Tensor
    people: Tensor

    @classmethod
    def of(cls, rows: Rows, people: Floats, device: torch.device, dtype: torch.dtype = torch.float32) -> Data:
        """Arrays are copied only if they are read-only, of which torch warns, or need another type or device."""
        arrays = (rows.X, rows.X_val, rows.y_val, people)
        own = (array if array.flags.writeable else array.copy() for array in map(np.asarray, arrays))
        return cls(*(torch.from_numpy(array).to(device, dtype) for array in own))


@dataclass(frozen=True)
class Networks(PerNetwork):
    """S networks: the labels of each, `y [S × n]`, and the number of its batch order, `[S]`."""

    y: Tensor
    order: Tensor


class Stack:
    """Networks trained side by side on `labels [S × n]`, any real numbers.

    `kept [S]` and `ran [S]` are the epochs kept and run, `weights [S × p]` those kept (at first the initial ones),
    `losses [S × epochs + 1]` the validation losses.
    """

    def __init__(self, recipe: Recipe, data: Data, labels: NDArray[Any], seeds: Sequence[int]) -> None:
        self.recipe, self.data = recipe, data
        self.n, self.d = data.X.shape
        self.widths, self.p = recipe.widths(self.d), recipe.parameters(self.d)
        self.batch_size = recipe.batch_size or self.n
        self.batches = math.ceil(self.n / self.batch_size)
        each, order = np.unique(seeds, return_inverse=True)
        self.recipes = [replace(recipe, seed=int(seed)) for seed in each]
        self.networks = Networks(torch.from_numpy(labels).to(data.X), self.index(order))
        starts = torch.stack([packed_start(one, self.d) for one in self.recipes])
        self.weights = starts.to(data.X)[self.networks.order]
        self.orders: dict[int, Tensor] = {}
        self.losses = np.full((len(labels), recipe.max_epochs + 1), np.nan)
        self.losses[:, 0] = np.inf
        self.kept, self.ran = np.zeros(len(labels), np.int64), np.zeros(len(labels), np.int64)

    def train(self, record: Callable[[int, State], None] | None = None) -> Iterator[tuple[Positions, State]]:
        """Yields after each epoch the networks that took part in it and their state. `record` is called before every
        step; without it the batch orders of past epochs are dropped."""
        draws = [batch_orders(one, self.n) for one in self.recipes]
        state = State(self.weights.clone(), torch.zeros_like(self.weights), torch.zeros_like(self.weights))
        going, networks = np.arange(len(self.kept)), self.networks
        for epoch in range(1, self.recipe.max_epochs + 1):
            if self.recipe.batch_size is not None:
                drawn = torch.stack([next(draw) for draw in draws]).to(self.data.X.device)
                self.orders = {**(self.orders if record else {}), epoch - 1: drawn}
            for step in range((epoch - 1) * self.batches, epoch * self.batches):
                if record:
                    record(step, state)
                state = self.advance(step, state, networks)
            # The only transfer from the device in an epoch.
            losses = self._validation_losses(state.w).cpu().numpy()
            better = losses < self.losses[going, self.kept[going]]
            self.losses[going, epoch], self.ran[going], self.kept[going[better]] = losses, epoch, epoch
            self.weights[self.index(going[better])] = state.w[self.index(better.nonzero()[0])]
            yield going, state
            on = epoch - self.kept[going] < self.recipe.patience
            if not on.any():
                return
            if not on.all():
                at, going = self.index(on.nonzero()[0]), going[on]
                state, networks = state.of(at), networks.of(at)

    def advance(self, step: int, state: State, networks: Networks) -> State:
        """torch.optim.Adam's step, operation for operation."""
        stopping.check()
        X, y, _ = self.batch(step, networks)
        g = Curvature(self.layers(state.w), self.recipe.activation, X, y).gradient()
        m, v, rate, scale = self.adam(step, state, g)
        return State(torch.addcdiv(state.w, m, (v.sqrt() / scale).add_(EPSILON), value=-rate), m, v)

    def adam(self, step: int, state: State, g: Tensor) -> tuple[Tensor, Tensor, float, float]:
        """The moments after the step counted from 0, and Adam's α and s in it."""
        m, v = state.m.lerp(g, 1 - BETA1), (state.v * BETA2).addcmul_(g, g, value=1 - BETA2)
        return m, v, self.recipe.learning_rate / (1 - BETA1 ** (step + 1)), (1 - BETA2 ** (step + 1)) ** 0.5

    def batch(self, step: int, networks: Networks) -> tuple[Tensor, Tensor, Tensor | None]:
        """The step's rows `[S × B × d]`, their labels and their positions `[S × B]`; None: all rows."""
        S = len(networks.y)
        if self.recipe.batch_size is None:
            return self.data.X.expand(S, -1, -1), networks.y, None
        epoch, batch = divmod(step, self.batches)
        at = self.orders[epoch][:, batch * self.batch_size : (batch + 1) * self.batch_size]
        if len(at) == 1:
            return self.data.X[at[0]].expand(S, -1, -1), networks.y[:, at[0]], at.expand(S, -1)
        at = at[networks.order]
        return self.data.X[at], networks.y.gather(1, at), at

    def _validation_losses(self, w: Tensor) -> Tensor:
        X, y = self.validation(len(w))
        outputs = forward(self.layers(w), self.recipe.activation, X)[1]
        if self.recipe.outputs == 1:
            return binary_cross_entropy_with_logits(outputs[:, :, 0], y, reduction="none").mean(1)
        return cross_entropy(outputs.mT, y.long(), reduction="none").mean(1)

    def validation(self, S: int) -> tuple[Tensor, Tensor]:
        """The same validation rows for S networks, without a copy."""
        return self.data.X_val.expand(S, -1, -1), self.data.y_val.expand(S, -1)

    def layers(self, packed: Tensor) -> Layers:
        """Views of `packed [… × p]`."""
        return list(zip(*unpack(packed, self.widths), strict=True))

    def index(self, positions: NDArray[Any]) -> Tensor:
        return torch.from_numpy(np.asarray(positions, np.int64)).to(self.data.X.device)


def forward(layers: Layers, activation: str, X: Tensor) -> tuple[list[Tensor], Tensor]:
    """The inputs of each layer, `[S × rows × in]`, and the outputs, `[S × rows × K]`, for rows `X [S × rows × d]`."""
    inputs = [X]
    for W, b in layers[:-1]:
        inputs.append(getattr(torch, activation)(torch.baddbmm(b[:, None], inputs[-1], W.mT)))
    W, b = layers[-1]
    return inputs, torch.baddbmm(b[:, None], inputs[-1], W.mT)


def logit_gradients(layers: Layers, activation: str, X: Tensor, contrast: Tensor | None = None) -> Tensor:
    """∂logit/∂w of each row of `X [S × rows × d]`, `[S × rows × p]`; with several outputs, of their sum weighted by
    `contrast [S × rows × K]`."""
    inputs, outputs = forward(layers, activation, X)
    delta, parts = torch.ones_like(outputs) if contrast is None else contrast, []
    for (W, _), h in zip(reversed(layers), reversed(inputs), strict=True):
        parts += [delta, (delta[..., None] * h[:, :, None]).flatten(2)]
        if h is not X:
            delta = BACKWARD[activation](torch.bmm(delta, W), h)
    return torch.cat(parts[::-1], dim=2)


def hot(codes: Tensor, like: Tensor) -> Tensor:
    """Labels by number `[S × B]` as 0 and 1 per class, `[S × B × K]`."""
    return one_hot(codes.long(), like.shape[2]).to(like.dtype)


def slope(activation: str, h: Tensor) -> Tensor:
    """The activation's derivative, from its output."""
    if activation == "relu":
        return (h > 0).to(h.dtype)
    return 1 - h * h if activation == "tanh" else h * (1 - h)


def bend_ratio(activation: str, h: Tensor) -> Tensor:
    """The activation's second derivative divided by its first, from its output."""
    return -2 * h if activation == "tanh" else 1 - 2 * h


class Curvature:
    """Each network's mean loss on its batch at one point: the parts of Hessian products that do not depend on the
    direction.

    `inputs[l] [S × B × in]` goes into layer l; `deltas[l] [S × B × out]` is ∂loss/∂(output of layer l)."""

    def __init__(self, layers: Layers, activation: str, X: Tensor, y: Tensor) -> None:
        self.layers, self.activation = layers, activation
        self.inputs, outputs = forward(layers, activation, X)
        self.multiclass = outputs.shape[2] > 1
        self.probability = torch.softmax(outputs, dim=2) if self.multiclass else torch.sigmoid(outputs)
        targets = hot(y, outputs) if self.multiclass else y[:, :, None]
        self.deltas = [(self.probability - targets) / X.shape[1]]
        self.pulls: list[Tensor] = []
        """∂loss/∂(output of hidden layer l's activation), `[S × B × width]`."""
        for (W, _), h in zip(layers[:0:-1], self.inputs[:0:-1], strict=True):
            self.pulls.insert(0, torch.bmm(self.deltas[0], W))
            self.deltas.insert(0, BACKWARD[activation](self.pulls[0], h))

    @cached_property
    def slopes(self) -> list[Tensor]:
        return [slope(self.activation, h) for h in self.inputs[1:]]

    def gradient(self) -> Tensor:
        """The derivative of the mean loss, `[S × p]`."""
        parts = []
        for h, delta in zip(self.inputs, self.deltas, strict=True):
            parts += [torch.bmm(delta.mT, h).flatten(1), delta.sum(1)]
        return torch.cat(parts, dim=1)

    def products(self, directions: Layers, moves: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """J·direction `[S × B × P]` and H·direction `[S × P × p]` for P directions in network shape. With several
        outputs J is that of their sum weighted by `moves [S × B × K]`."""
        S, P = directions[0][1].shape[:2]
        B, widest = self.probability.shape[1], max(b.shape[1] for _, b in self.layers)
        sums, laid = [], []
        for layer, (dW, db) in enumerate(directions):
            out, into = dW.shape[2:]
            # Inputs of the first layer have no derivative.
            inner, back = (dW.new_zeros(S, out, P * into), dW.transpose(1, 2).flatten(2)) if layer else (None, None)
            sums.append((dW.new_zeros(S, P * out, into), inner, dW.new_zeros(S, P * out)))
            laid.append((dW.permute(0, 3, 1, 2).flatten(2), back, db.reshape(S, 1, -1)))
        rows = max(16, TILE[self.probability.device.type] // (S * P * widest))
        tangents = []
        for first in range(0, B, rows):
            tile = slice(first, first + rows)
            outputs = self._tile(tile, P, laid, sums)
            tangents.append(outputs[..., 0] if moves is None else (outputs * moves[:, tile, None]).sum(-1))
        parts = []
        for (W, _), (outer, inner, bias) in zip(self.layers, sums, strict=True):
            out, into = W.shape[1:]
            product = outer.view(S, P, out, into)
            if inner is not None:
                product = product + inner.view(S, out, P, into).transpose(1, 2)
            parts += [product.flatten(2), bias.view(S, P, out)]
        return torch.cat(tangents, dim=1), torch.cat(parts, dim=2)

    def _tile(
        self,
        tile: slice,
        P: int,
        directions: Sequence[tuple[Tensor, Any, Tensor]],
        sums: Sequence[tuple[Tensor, Any, Tensor]],
    ) -> Tensor:
        """Pearlmutter's R-operator on some rows: returns their J·direction `[S × rows × P × K]`, adds their part of
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
        if self.multiclass:
            mean = (probability * tangents[-1]).sum(-1, keepdim=True)
            by_delta = probability * (tangents[-1] - mean) / self.probability.shape[1]
        else:
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
                    pull = self.pulls[layer - 1][:, tile] * bend_ratio(self.activation, h)
                    by_delta.addcmul_(dh, pull[:, :, None])
        return tangents[-1]

"""Many small networks side by side as stacked tensors, on any torch device.

S networks share rows and recipe and differ in seed and labels, so that one step of all of them is a
few batched matrix products. A network leaves the stack at the end of its last epoch. Every product
is one matrix product per network, so the other networks of a stack take no part in a network's
sums; but a library may choose another kernel for another stack size, which changes the last bits,
and training amplifies that.

Shapes: S networks, B rows of a batch, K outputs (1 with two classes, else one per class), P
directions, p weights of a network, packed in PyTorch's order. The first axis is always the network.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy, one_hot

from .definition import BACKWARD, batch_orders, packed_start
from .recipe import (
    BETA1,
    BETA2,
    EPSILON,
    Check,
    Fits,
    Floats,
    Job,
    Recipe,
    Rows,
    count,
    one_thread,
    unpack,
)

LARGEST_STACK = {"cpu": 64, "cuda": 1024}
"""The most networks in a stack; more gain nothing and leave the caches."""
CPU_STACK_BYTES = 2**32
"""Bytes that a stack on the CPU may take."""
TILE_NUMBERS = {"cpu": 2**17, "cuda": 2**26}
"""Numbers in one hidden layer of one tile of a Hessian product: on the CPU a tile should stay in
the cache, on CUDA it must fit in memory."""

Layers = list[tuple[Tensor, Tensor]]
"""Weights `[… × out × in]` and biases `[… × out]`, layer by layer."""
Positions = NDArray[np.int64]
N = TypeVar("N", bound=tuple[Tensor, ...])


def train(job: Job, device: torch.device) -> Fits:
    """Train the job's networks, as many at once as fit."""
    fits = Fits.empty(job)
    size = stack_size(job, device)
    with stacking():
        data = Data.of(job.rows, job.people, device)
        for first in range(0, len(job.flip_sets), size):
            part = slice(first, first + size)
            labels = np.array([job.rows.labels(flips) for flips in job.flip_sets[part]])
            stack = Stack(job.recipe, job.rows, data, labels, job.seeds[part], job.check)
            left = len(labels)
            for going, _ in stack.train():
                job.advance(left - len(going))
                left = len(going)
            job.advance(left)
            people = data.people.expand(len(labels), -1, -1)
            outputs = forward(stack.layers(stack.weights), job.recipe.activation, people)[1]
            logits = outputs.flatten(1)
            losses = stack.losses[np.arange(len(labels)), stack.kept]
            fits.put(part, (logits.cpu().numpy(), stack.kept, stack.ran, losses))
    return fits


@contextmanager
def stacking() -> Iterator[None]:
    """One CPU thread, matrix products in full float32, no records for autograd."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        with one_thread(), torch.no_grad():
            yield
    finally:
        torch.set_float32_matmul_precision(before)


def free_memory(device: torch.device) -> int:
    if device.type == "cpu":
        return CPU_STACK_BYTES
    cached = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return int(torch.cuda.mem_get_info(device)[0]) + cached


def stack_size(job: Job, device: torch.device) -> int:
    """The number of networks that train at once, in half of the memory."""
    recipe = job.recipe
    rows = job.rows
    batch = min(recipe.batch_size or rows.n, rows.n)
    # Training keeps the rows, every hidden layer, its slope, its derivative and one more for the
    # present operation.
    training = batch * (rows.d + 3 * sum(recipe.hidden) + max(recipe.hidden, default=1) + 8)
    asking = max(len(rows.X_val), len(job.people)) * (2 * max(recipe.hidden, default=1) + 4)
    # Weights, gradient, two moments, the best so far, the results, and what Adam computes with.
    bytes_each = 4 * (max(training, asking) + 2 * rows.n + 10 * count(rows.widths(recipe)))
    fitting = (free_memory(device) // 2 - 4 * rows.X.size) // bytes_each
    if fitting < 1 and device.type == "cuda":
        raise RuntimeError(
            f"Training one network on {rows.n} rows takes about {bytes_each / 2**20:.0f} MiB, "
            f"more than {device.type} has free. Use a smaller batch_size, or device='cpu'."
        )
    return max(1, min(fitting, LARGEST_STACK[device.type]))


def of(tensors: N, which: Tensor | slice) -> N:
    """A tuple of tensors whose first axis is the network, for some networks."""
    return type(tensors)(*(part[which] for part in tensors))


class State(NamedTuple):
    """Weights and Adam's two moments before a step, each `[S × p]`."""

    w: Tensor
    m: Tensor
    v: Tensor


class Networks(NamedTuple):
    """S networks: the labels of each, `y [S × n]`, and the number of its batch order, `[S]`."""

    y: Tensor
    order: Tensor


class Data(NamedTuple):
    """Rows and people as tensors on the device."""

    X: Tensor
    X_val: Tensor
    y_val: Tensor
    people: Tensor

    @classmethod
    def of(
        cls, rows: Rows, people: Floats, device: torch.device, dtype: torch.dtype = torch.float32
    ) -> Data:
        """Arrays are copied only if they are read-only, of which torch warns, or need another type
        or device."""
        arrays = map(np.asarray, (rows.X, rows.X_val, rows.y_val, people))
        writeable = (array if array.flags.writeable else array.copy() for array in arrays)
        return cls(*(torch.from_numpy(array).to(device, dtype) for array in writeable))


class Stack:
    """Networks trained side by side on `labels [S × n]`, any real numbers.

    `kept [S]` and `ran [S]` are the epochs kept and run, `weights [S × p]` those kept (at first the
    initial ones), `losses [S × epochs + 1]` the validation losses."""

    def __init__(
        self,
        recipe: Recipe,
        rows: Rows,
        data: Data,
        labels: NDArray[Any],
        seeds: Sequence[int],
        check: Check,
    ) -> None:
        self.recipe = recipe
        self.data = data
        self.check = check
        self.n = rows.n
        self.widths = rows.widths(recipe)
        self.batch_size = recipe.batch_size or self.n
        self.batches = math.ceil(self.n / self.batch_size)
        distinct, order = np.unique(seeds, return_inverse=True)
        self.recipes = [replace(recipe, seed=int(seed)) for seed in distinct]
        self.networks = Networks(torch.from_numpy(labels).to(data.X), self.index(order))
        starts = torch.stack([packed_start(self.widths, one.seed) for one in self.recipes])
        self.weights = starts.to(data.X)[self.networks.order]
        self.orders: dict[int, Tensor] = {}
        self.losses = np.full((len(labels), recipe.max_epochs + 1), np.nan)
        self.losses[:, 0] = np.inf
        self.kept = np.zeros(len(labels), np.int64)
        self.ran = np.zeros(len(labels), np.int64)

    def train(self, keep_orders: bool = False) -> Iterator[tuple[Positions, State]]:
        """Yields after each epoch the networks that took part in it and their state."""
        draws = [batch_orders(one, self.n) for one in self.recipes]
        zeros = torch.zeros_like(self.weights)
        state = State(self.weights.clone(), zeros, zeros.clone())
        going = np.arange(len(self.kept))
        networks = self.networks
        for epoch in range(1, self.recipe.max_epochs + 1):
            if self.recipe.batch_size is not None:
                drawn = torch.stack([next(draw) for draw in draws]).to(self.data.X.device)
                if not keep_orders:
                    self.orders = {}
                self.orders[epoch] = drawn
            for batch in range(self.batches):
                state = self.advance(epoch, batch, state, networks)
            # The only transfer from the device in an epoch.
            losses = self._validation_losses(state.w).cpu().numpy()
            better = losses < self.losses[going, self.kept[going]]
            self.losses[going, epoch] = losses
            self.ran[going] = epoch
            self.kept[going[better]] = epoch
            self.weights[self.index(going[better])] = state.w[self.index(better.nonzero()[0])]
            yield going, state
            improving = epoch - self.kept[going] < self.recipe.patience
            if not improving.any():
                return
            if not improving.all():
                staying = self.index(improving.nonzero()[0])
                going = going[improving]
                state = of(state, staying)
                networks = of(networks, staying)

    def advance(self, epoch: int, batch: int, state: State, networks: Networks) -> State:
        """torch.optim.Adam's step, operation for operation."""
        self.check()
        X, y, _ = self.batch(epoch, batch, networks)
        g = Curvature(self.layers(state.w), self.recipe.activation, X, y).gradient()
        m, v, rate, scale = self.adam(epoch, batch, state, g)
        w = torch.addcdiv(state.w, m, (v.sqrt() / scale).add_(EPSILON), value=-rate)
        return State(w, m, v)

    def adam(
        self, epoch: int, batch: int, state: State, g: Tensor
    ) -> tuple[Tensor, Tensor, float, float]:
        """The moments after the step, and Adam's α and s in it."""
        step = (epoch - 1) * self.batches + batch + 1
        m = state.m.lerp(g, 1 - BETA1)
        v = (state.v * BETA2).addcmul_(g, g, value=1 - BETA2)
        rate = self.recipe.learning_rate / (1 - BETA1**step)
        scale = (1 - BETA2**step) ** 0.5
        return m, v, rate, scale

    def batch(
        self, epoch: int, batch: int, networks: Networks
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """The step's rows `[S × B × d]`, their labels and their positions `[S × B]`; None: all
        rows."""
        S = len(networks.y)
        if self.recipe.batch_size is None:
            return self.data.X.expand(S, -1, -1), networks.y, None
        rows = self.orders[epoch][:, batch * self.batch_size : (batch + 1) * self.batch_size]
        if len(rows) == 1:
            X = self.data.X[rows[0]].expand(S, -1, -1)
            return X, networks.y[:, rows[0]], rows.expand(S, -1)
        rows = rows[networks.order]
        return self.data.X[rows], networks.y.gather(1, rows), rows

    def _validation_losses(self, w: Tensor) -> Tensor:
        X, y = self.validation(len(w))
        outputs = forward(self.layers(w), self.recipe.activation, X)[1]
        if outputs.shape[2] == 1:
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
    """The inputs of each layer, `[S × rows × in]`, and the outputs, `[S × rows × K]`, for rows `X
    [S × rows × d]`."""
    inputs = [X]
    for W, b in layers[:-1]:
        inputs.append(getattr(torch, activation)(torch.baddbmm(b[:, None], inputs[-1], W.mT)))
    W, b = layers[-1]
    return inputs, torch.baddbmm(b[:, None], inputs[-1], W.mT)


def logit_gradients(
    layers: Layers, activation: str, X: Tensor, contrast: Tensor | None = None
) -> Tensor:
    """∂logit/∂w of each row of `X [S × rows × d]`, `[S × rows × p]`; with several outputs, of their
    sum weighted by `contrast [S × rows × K]`."""
    inputs, outputs = forward(layers, activation, X)
    delta = torch.ones_like(outputs) if contrast is None else contrast
    parts = []
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
    """Each network's mean loss on its batch at one point: the parts of Hessian products that do not
    depend on the direction.

    `inputs[l] [S × B × in]` goes into layer l; `deltas[l] [S × B × out]` is ∂loss/∂(output of layer
    l)."""

    def __init__(self, layers: Layers, activation: str, X: Tensor, y: Tensor) -> None:
        self.layers = layers
        self.activation = activation
        self.inputs, outputs = forward(layers, activation, X)
        several = outputs.shape[2] > 1
        self.probability = torch.softmax(outputs, dim=2) if several else torch.sigmoid(outputs)
        targets = hot(y, outputs) if several else y[:, :, None]
        self.deltas = [(self.probability - targets) / X.shape[1]]
        self.pulls: list[Tensor] = []
        """∂loss/∂(output of hidden layer l's activation), `[S × B × width]`."""
        for (W, _), h in zip(layers[:0:-1], self.inputs[:0:-1], strict=True):
            self.pulls.insert(0, torch.bmm(self.deltas[0], W))
            self.deltas.insert(0, BACKWARD[activation](self.pulls[0], h))

    def gradient(self) -> Tensor:
        """The derivative of the mean loss, `[S × p]`."""
        parts = []
        for h, delta in zip(self.inputs, self.deltas, strict=True):
            parts += [torch.bmm(delta.mT, h).flatten(1), delta.sum(1)]
        return torch.cat(parts, dim=1)

    def products(self, directions: Layers, moves: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """J·direction `[S × B × P]` and H·direction `[S × P × p]` for P directions in network
        shape. With several outputs J is that of their sum weighted by `moves [S × B × K]`."""
        S, P = directions[0][1].shape[:2]
        B = self.probability.shape[1]
        widest = max(b.shape[1] for _, b in self.layers)
        rows = max(16, TILE_NUMBERS[self.probability.device.type] // (S * P * widest))
        tangents = []
        total = torch.zeros(0)
        for first in range(0, B, rows):
            tile = slice(first, first + rows)
            outputs, product = self._tile(tile, directions)
            if moves is None:
                tangents.append(outputs[..., 0])
            else:
                tangents.append((outputs * moves[:, tile, None]).sum(-1))
            total = total.add_(product) if first else product
        return torch.cat(tangents, dim=1), total

    def _tile(self, tile: slice, directions: Layers) -> tuple[Tensor, Tensor]:
        """Pearlmutter's R-operator on some rows: their J·direction `[S × rows × P × K]` and their
        part of H·direction. Changes along the directions lie as `[S × rows × P × width]`."""
        inputs = [h[:, tile] for h in self.inputs]
        slopes = [slope(self.activation, h) for h in inputs[1:]]
        changes: list[Tensor] = []
        for layer, ((W, _), (dW, db)) in enumerate(zip(self.layers, directions, strict=True)):
            z = torch.einsum("sri,spoi->srpo", inputs[layer], dW).add_(db[:, None])
            if layer:
                z += torch.einsum("srpi,soi->srpo", changes[-1], W)
            changes.append(z.mul_(slopes[layer][:, :, None]) if layer < len(slopes) else z)
        probability = self.probability[:, tile, None]
        if probability.shape[3] > 1:
            mean = (probability * changes[-1]).sum(-1, keepdim=True)
            by_delta = probability * (changes[-1] - mean) / self.probability.shape[1]
        else:
            by_delta = changes[-1] * (probability * (1 - probability) / self.probability.shape[1])
        parts: list[Tensor] = []
        for layer in reversed(range(len(self.layers))):
            product = torch.einsum("srpo,sri->spoi", by_delta, inputs[layer])
            delta = self.deltas[layer][:, tile]
            bias = by_delta.sum(1)
            if layer:
                product += torch.einsum("sro,srpi->spoi", delta, changes[layer - 1])
                by_h = torch.einsum("sro,spoi->srpi", delta, directions[layer][0])
                by_h += torch.einsum("srpo,soi->srpi", by_delta, self.layers[layer][0])
                by_delta = by_h.mul_(slopes[layer - 1][:, :, None])
                if self.activation != "relu":
                    pull = self.pulls[layer - 1][:, tile] * bend_ratio(
                        self.activation, inputs[layer]
                    )
                    by_delta.addcmul_(changes[layer - 1], pull[:, :, None])
            parts = [product.flatten(2), bias, *parts]
        return changes[-1], torch.cat(parts, dim=2)

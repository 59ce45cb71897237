"""A training run kept so that it can be walked backwards: the derivative of what L returns by its labels.

Training is a program; this file differentiates it. Forwards it is L as `reference.py` defines it, operation by
operation, so that in float32 on the CPU every state is the reference's to the bit. Backwards every step of
Adam is undone by a vector–Jacobian product, for many adjoint vectors at once.

One step, with g the gradient of the batch's mean loss at w, and w, m, v, g ∈ ℝᵖ:

    m' = β₁m + (1−β₁)g      v' = β₂v + (1−β₂)g²      w' = w − α·m'/D,   D = √v'/s + ε

with α and s from Adam's bias corrections. Backwards, with λ the derivative of a logit by the state after the step:

    λ_m' ← λ_m' − (α/D)·λ_w'          λ_v' ← λ_v' + α·m'/(2D²·s·√v')·λ_w'
    λ_g  = (1−β₁)λ_m' + 2(1−β₂)g·λ_v'
    λ_w  = λ_w' + H(w)λ_g             λ_m = β₁λ_m'        λ_v = β₂λ_v'
    ∂/∂y_i ← ∂/∂y_i − (1/B)·J_i(w)·λ_g            for the rows i of the batch, J_i = ∂logit_i/∂w

The product J_i·λ_g is the forward half of the Hessian product, so the labels' derivative costs nothing more.
Which epoch's weights are kept is a choice, constant between the label values where it jumps: it is not
differentiated, and neither is a ReLU at its kink.

Shapes: P directions (one per person), B rows of a batch, p numbers in a network, packed in PyTorch's order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, linear

from butfor.errors import SettingError
from butfor.mlp.onethread import ACTIVATION_FUNCTIONS, one_thread
from butfor.mlp.recipe import BETA1, BETA2, EPSILON, Network, Recipe, Rows, unpack
from butfor.mlp.reference import batch_orders, packed_start
from butfor.mlp.stacked import float32_products
from butfor.seam import Floats

MEMORY_LIMIT = 2**30
"""Bytes of training states kept by default; a longer training is replayed in segments."""

TILE = {"cpu": 2**17, "cuda": 2**26}
"""Numbers in one hidden layer of one tile of a Hessian product: on the CPU a tile should stay in the cache,
on CUDA it should only fit in memory."""

MOST_DIRECTIONS = {"cpu": 32, "cuda": 4096}
"""Directions in one tile: more would only push the tile's sums out of the cache."""


Layers = list[tuple[Tensor, Tensor]]
"""Weights `[out × in]` and biases `[out]`, layer by layer; of P directions `[P × out × in]` and `[P × out]`."""

_loss = binary_cross_entropy_with_logits


class State(NamedTuple):
    """Weights and Adam's two moments before a step, each `[p]`."""

    w: Tensor
    m: Tensor
    v: Tensor


class Step(NamedTuple):
    """What one step's derivative needs: the state before it, its gradient, Adam's moments after it."""

    w: Tensor
    g: Tensor
    m: Tensor
    v: Tensor


class Tape:
    """States before every `stride`-th step. The stride doubles whenever more than `capacity` are kept, so that
    the memory stays bounded without knowing how long a training will be."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.stride = 1
        self.states: list[State] = []

    def record(self, step: int, state: State) -> None:
        if step % self.stride == 0:
            self.states.append(state)
        if len(self.states) > self.capacity:
            self.states = self.states[::2]
            self.stride *= 2

    def refuse_if_short(self, memory_limit: int, what: str, steps: int) -> None:
        """A segment must fit into the memory that its checkpoints have."""
        if self.stride > self.capacity:
            raise SettingError(
                f"memory_limit={memory_limit} bytes is too little to walk back {what} of {steps} steps; allow at least "
                f"{memory_limit * math.ceil(self.stride / self.capacity)}."
            )

    def segments(self, steps: int) -> Iterator[tuple[State, range]]:
        """Stretches of steps from the last one back, each with the state before its first step."""
        for k in reversed(range(math.ceil(steps / self.stride))):
            yield self.states[k], range(k * self.stride, min((k + 1) * self.stride, steps))


class Unrolled:
    """L run on `labels [n]`, which may be any real numbers, in `dtype` on `device`; ready to be walked back.

    `course[e] [p]` are the weights after epoch e (0: the initial ones), `validation_losses[e]` what they lose,
    `best_epoch` the kept one. At most about `memory_limit` bytes of training states are kept; beyond that
    they are recomputed from checkpoints.
    """

    def __init__(
        self,
        recipe: Recipe,
        rows: Rows,
        labels: NDArray[np.floating[Any]],
        *,
        device: str | torch.device = "cpu",
        dtype: torch.dtype = torch.float32,
        memory_limit: int = MEMORY_LIMIT,
    ) -> None:
        self.recipe, self.rows = recipe, rows
        self.device, self.dtype = torch.device(device), dtype
        self.widths = recipe.widths(rows.d)
        self.X, self.y = self._tensor(rows.X), self._tensor(labels)
        self.X_val, self.y_val = self._tensor(rows.X_val), self._tensor(rows.y_val)
        self.batch_size = recipe.batch_size or rows.n
        self.batches = math.ceil(rows.n / self.batch_size)
        self.orders: list[Tensor] = []
        self.tape = Tape(_capacity(recipe.parameters(rows.d), self.X.element_size(), memory_limit))
        with _quietly():
            self._train()
        self.tape.refuse_if_short(memory_limit, "a training", self.best_epoch * self.batches)

    # --- forwards -----------------------------------------------------------------------------------

    def _train(self) -> None:
        """L, as in the reference: same start, same batches, same stopping."""
        w = packed_start(self.recipe, self.rows.d).to(self.device, self.dtype, copy=True)
        state = State(w, torch.zeros_like(w), torch.zeros_like(w))
        self.course, self.validation_losses = [w], [math.inf]
        self.best_epoch = 0
        step = 0
        for epoch, order in enumerate(batch_orders(self.recipe, self.rows.n), start=1):
            self.orders.append(order.to(self.device))
            for _ in range(self.batches):
                self.tape.record(step, state)
                state, _ = self._advance(step, state)
                step += 1
            with torch.no_grad():
                self.validation_losses.append(self._validation_loss(self._layers(state.w)).item())
            self.course.append(state.w)
            if self.validation_losses[epoch] < self.validation_losses[self.best_epoch]:
                self.best_epoch = epoch
            if epoch - self.best_epoch >= self.recipe.patience or epoch >= self.recipe.max_epochs:
                break

    def _advance(self, step: int, state: State) -> tuple[State, Step]:
        """One step of training: the state after it, and its record. PyTorch's own operations, in its order."""
        X, y, _ = self._batch(step)
        g = self._gradient(state.w, lambda layers: _loss(self._logits(layers, X), y))
        with torch.no_grad():
            m = state.m.lerp(g, 1 - BETA1)
            v = (state.v * BETA2).addcmul_(g, g, value=1 - BETA2)
            rate, scale = self._corrections(step)
            w = torch.addcdiv(state.w, m, (v.sqrt() / scale).add_(EPSILON), value=-rate)
        return State(w, m, v), Step(state.w, g, m, v)

    def _gradient(self, packed: Tensor, loss: Callable[[Layers], Tensor]) -> Tensor:
        """The derivative of a loss by the network's numbers, `[p]`."""
        with torch.enable_grad():
            layers = [(W.requires_grad_(), b.requires_grad_()) for W, b in self._layers(packed)]
            parts = torch.autograd.grad(loss(layers), [tensor for pair in layers for tensor in pair])
        return torch.cat([part.reshape(-1) for part in parts])

    def _validation_loss(self, layers: Layers) -> Tensor:
        return _loss(self._logits(layers, self.X_val), self.y_val)

    def _corrections(self, step: int) -> tuple[float, float]:
        """Adam's α and s for the step counted from 0."""
        rate = self.recipe.learning_rate / (1 - BETA1 ** (step + 1))
        return rate, (1 - BETA2 ** (step + 1)) ** 0.5

    def _batch(self, step: int) -> tuple[Tensor, Tensor, Tensor]:
        """The step's rows, their labels and their positions."""
        epoch, batch = divmod(step, self.batches)
        order = self.orders[epoch]
        if self.recipe.batch_size is None:
            return self.X, self.y, order
        at = order[batch * self.batch_size : (batch + 1) * self.batch_size]
        return self.X[at], self.y[at], at

    def _layers(self, packed: Tensor) -> Layers:
        """Weights `[… × out × in]` and biases `[… × out]` as views of `packed [… × p]`."""
        layers: Layers = []
        at, lead = 0, packed.shape[:-1]
        for into, out in pairwise(self.widths):
            W = packed[..., at : at + out * into].reshape(*lead, out, into)
            at += out * into
            layers.append((W.detach(), packed[..., at : at + out].detach()))
            at += out
        return layers

    def _logits(self, layers: Layers, X: Tensor) -> Tensor:
        activation = ACTIVATION_FUNCTIONS[self.recipe.activation]
        for W, b in layers[:-1]:
            X = activation(linear(X, W, b))
        return linear(X, *layers[-1])[:, 0]

    def _tensor(self, array: NDArray[Any]) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(array)).to(self.device, self.dtype)

    # --- what came out ------------------------------------------------------------------------------

    @property
    def epochs(self) -> int:
        """How many epochs were run."""
        return len(self.course) - 1

    def logits(self, people: NDArray[Any], epoch: int | None = None) -> NDArray[Any]:
        """The logits after an epoch (default: the kept one), `[people]`, in this run's precision."""
        with _quietly(), torch.no_grad():
            layers = self._layers(self.course[self.best_epoch if epoch is None else epoch])
            result: NDArray[Any] = self._logits(layers, self._tensor(people)).cpu().numpy()
        return result

    def network(self) -> Network:
        """The kept network, in float32."""
        packed: Floats = self.course[self.best_epoch].to("cpu", torch.float32).numpy()
        weights, biases = unpack(packed, self.widths)
        return Network(
            weights, biases, self.recipe, self.best_epoch, self.epochs, self.validation_losses[self.best_epoch]
        )

    # --- backwards ----------------------------------------------------------------------------------

    def label_gradients(self, people: NDArray[Any], epochs: Sequence[int] = ()) -> tuple[NDArray[Any], NDArray[Any]]:
        """By the labels, through every step of the training: ∂logit(x)/∂y_i of the kept network `[people × n]`,
        and ∂(validation loss)/∂y_i after each of the epochs `[epochs × n]`."""
        with _quietly(), torch.no_grad():
            outcomes = {
                epoch: self._gradient(self.course[epoch], self._validation_loss)[None]
                for epoch in {*epochs, self.best_epoch}
            }
            by_logit = self._logit_gradients(self.course[self.best_epoch], self._tensor(people))
            outcomes[self.best_epoch] = torch.cat([by_logit, outcomes[self.best_epoch]])
            swept = self._sweep(outcomes)
        by_loss = [swept[epoch][-1] for epoch in epochs]
        return swept[self.best_epoch][:-1], np.reshape(by_loss, (len(epochs), self.rows.n))

    def _sweep(self, outcomes: dict[int, Tensor]) -> dict[int, NDArray[Any]]:
        """Walk back once. `outcomes[e] [k × p]` are derivatives of k outcomes by the weights after epoch e;
        the result holds their derivatives by the labels, `[k × n]`."""
        adjoint = Adjoint.zero(sum(map(len, outcomes.values())), self.course[0], self.rows.n)
        where: dict[int, slice] = {}
        begun = 0
        for start, steps in self.tape.segments(max(outcomes) * self.batches):
            for step, record in reversed(self._replayed(start, steps)):
                epoch, batch = divmod(step + 1, self.batches)
                if batch == 0 and epoch in outcomes:
                    where[epoch] = slice(begun, begun + len(outcomes[epoch]))
                    adjoint.w[where[epoch]] = outcomes[epoch]
                    begun = where[epoch].stop
                # Outcomes of earlier epochs have no derivative by a later state: they wait behind the others.
                self._step_back(step, record, adjoint.first(begun))
        by_label = adjoint.y.T.cpu().numpy()
        # The initial weights (epoch 0) depend on no label: their outcomes were never begun and are still 0.
        return {epoch: by_label[where.get(epoch, slice(begun, None))] for epoch in outcomes}

    def _replayed(self, state: State, steps: range) -> list[tuple[int, Step]]:
        records = []
        for step in steps:
            state, record = self._advance(step, state)
            records.append((step, record))
        return records

    def _step_back(self, step: int, record: Step, adjoint: Adjoint) -> None:
        """Turn the adjoint of the state after a step into that of the state before it."""
        rate, scale = self._corrections(step)
        root = record.v.sqrt()
        denominator = root / scale + EPSILON
        # Where v' is 0 the weight never had a gradient (a dead ReLU): nothing flows, though 1/√v' is infinite.
        by_v = torch.where(root > 0, rate * record.m / (2 * denominator**2 * scale * root), 0)
        adjoint.m.addcmul_(adjoint.w, -rate / denominator)
        adjoint.v.addcmul_(adjoint.w, by_v)
        by_g = (1 - BETA1) * adjoint.m + (2 * (1 - BETA2) * record.g) * adjoint.v
        adjoint.m *= BETA1
        adjoint.v *= BETA2
        X, y, at = self._batch(step)
        curvature = Curvature(self._layers(record.w), self.recipe.activation, X, y)
        most = MOST_DIRECTIONS[self.device.type]
        for first in range(0, len(by_g), most):
            some = slice(first, first + most)
            tangents, products = curvature.products(self._layers(by_g[some]))
            adjoint.w[some] += products
            # A batch holds no row twice, so that adding by position loses nothing.
            adjoint.y[at, some] -= tangents / len(X)

    def _logit_gradients(self, packed: Tensor, X: Tensor) -> Tensor:
        """∂logit/∂w of each row of X, `[rows × p]`."""
        layers = self._layers(packed)
        inputs = [X]
        for W, b in layers[:-1]:
            inputs.append(ACTIVATION_FUNCTIONS[self.recipe.activation](linear(inputs[-1], W, b)))
        delta, parts = X.new_ones(len(X), 1), []
        for (W, _), h in zip(reversed(layers), reversed(inputs), strict=True):
            parts += [delta, (delta[:, :, None] * h[:, None, :]).flatten(1)]
            if h is not X:
                delta = (delta @ W) * slope(self.recipe.activation, h)
        return torch.cat(parts[::-1], dim=1)


@dataclass
class Adjoint:
    """Derivatives of P logits by a state, `w, m, v [P × p]`, and by the labels so far, `y [n × P]`."""

    w: Tensor
    m: Tensor
    v: Tensor
    y: Tensor

    @classmethod
    def zero(cls, P: int, like: Tensor, n: int) -> Adjoint:
        w, m, v = (like.new_zeros(P, len(like)) for _ in range(3))
        return cls(w, m, v, like.new_zeros(n, P))

    def first(self, P: int) -> Adjoint:
        """A view of the first P."""
        return Adjoint(self.w[:P], self.m[:P], self.v[:P], self.y[:, :P])


class Curvature:
    """The batch's mean loss at one point, ready for Hessian products: what does not depend on the direction.

    `inputs[l] [B × in]` goes into layer l; `deltas[l] [B × out]` is ∂loss/∂(output of layer l)."""

    def __init__(self, layers: Layers, activation: str, X: Tensor, y: Tensor) -> None:
        self.layers, self.activation = layers, activation
        self.inputs = [X]
        for W, b in layers[:-1]:
            self.inputs.append(ACTIVATION_FUNCTIONS[activation](linear(self.inputs[-1], W, b)))
        self.slopes = [slope(activation, h) for h in self.inputs[1:]]
        probability = torch.sigmoid(linear(self.inputs[-1], *layers[-1]))
        self.bend = probability * (1 - probability) / len(X)
        self.deltas = [(probability - y[:, None]) / len(X)]
        self.pulls: list[Tensor] = []
        """∂loss/∂(output of hidden layer l's activation), `[B × width]`."""
        for (W, _), by_z in zip(layers[:0:-1], self.slopes[::-1], strict=True):
            self.pulls.insert(0, self.deltas[0] @ W)
            self.deltas.insert(0, self.pulls[0] * by_z)

    def products(self, directions: Layers) -> tuple[Tensor, Tensor]:
        """J·direction `[B × P]` and H·direction `[P × p]` for P directions in network shape."""
        P = len(directions[0][0])
        widest = max(len(b) for _, b in self.layers)
        sums = [
            (
                W.new_zeros(P * W.shape[0], W.shape[1]),
                W.new_zeros(W.shape[0], P * W.shape[1]),
                b.new_zeros(P * len(b)),
            )
            for W, b in self.layers
        ]
        rows = max(16, TILE[self.bend.device.type] // (P * widest))
        tangents = [
            self._tile(slice(first, first + rows), directions, sums) for first in range(0, len(self.bend), rows)
        ]
        parts = []
        for (W, b), (outer, inner, bias) in zip(self.layers, sums, strict=True):
            out, into = W.shape
            product = outer.view(P, out, into) + inner.view(out, P, into).transpose(0, 1)
            parts += [product.reshape(P, -1), bias.view(P, len(b))]
        return torch.cat(tangents), torch.cat(parts, dim=1)

    def _tile(
        self,
        tile: slice,
        directions: Layers,
        sums: list[tuple[Tensor, Tensor, Tensor]],
    ) -> Tensor:
        """Pearlmutter's R-operator on some rows: returns their J·direction `[rows × P]`, adds their part of
        H·direction to `sums`. Tangents lie as `[rows × P × width]`: with one weight matrix for all directions
        that is a matrix of rows·P rows, with one input for all directions a matrix of P·width columns."""
        inputs = [h[tile] for h in self.inputs]
        R, P = len(inputs[0]), len(directions[0][0])
        tangents: list[Tensor] = []
        for layer, ((W, _), (dW, db)) in enumerate(zip(self.layers, directions, strict=True)):
            z = torch.addmm(db.reshape(-1), inputs[layer], dW.reshape(P * len(W), -1).T)
            if layer:
                z.view(R * P, len(W)).addmm_(tangents[-1].view(R * P, -1), W.T)
            tangents.append(z.view(R, P, len(W)))
            if layer < len(self.slopes):
                tangents[-1] *= self.slopes[layer][tile, None]
        by_delta = tangents[-1] * self.bend[tile, None]
        for layer in reversed(range(len(self.layers))):
            W, dW = self.layers[layer][0], directions[layer][0]
            outer, inner, bias = sums[layer]
            outer.addmm_(by_delta.view(R, -1).T, inputs[layer])
            bias += by_delta.view(R, -1).sum(0)
            if layer:
                delta, h, dh = self.deltas[layer][tile], inputs[layer], tangents[layer - 1]
                inner.addmm_(delta.T, dh.view(R, -1))
                by_h = delta @ dW.transpose(0, 1).reshape(len(W), -1)
                by_h.view(R * P, -1).addmm_(by_delta.view(R * P, -1), W)
                by_delta = by_h.view(R, P, -1).mul_(self.slopes[layer - 1][tile, None])
                if self.activation != "relu":
                    by_delta.addcmul_(dh, (self.pulls[layer - 1][tile] * bend(self.activation, h))[:, None])
        return tangents[-1][:, :, 0]


def slope(activation: str, h: Tensor) -> Tensor:
    """The activation's derivative, from its output."""
    if activation == "relu":
        return (h > 0).to(h.dtype)
    return 1 - h * h if activation == "tanh" else h * (1 - h)


def bend(activation: str, h: Tensor) -> Tensor:
    """The activation's second derivative divided by its first, from its output."""
    return -2 * h if activation == "tanh" else 1 - 2 * h


def _capacity(p: int, number: int, memory_limit: int) -> int:
    """Steps whose records fit into half the limit: one half is for checkpoints, the other for a segment."""
    return max(1, memory_limit // (2 * len(Step._fields) * p * number))


@contextmanager
def _quietly() -> Iterator[None]:
    with one_thread(), float32_products():
        yield

"""The definition of a training: one network in plain PyTorch, float32 on one CPU thread.

The other engines start from its initial weights and follow its batch orders; they differ from it in the order of
floating-point sums, nothing else. It is written twice. `Loop` is PyTorch as everybody writes it: autograd and
`torch.optim.Adam`. A small network's training spends most of its time between operations, on autograd's records and
the optimiser's bookkeeping, so `Direct` calls the same operations in the same order on the same shapes, with the
derivative written out and Adam on all parameters as one vector: the same bits in a quarter to a half of the time.
Once for each shape a short training both ways shows whether they are; where one bit differs, the loop trains.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy, linear
from torch.optim.adam import adam

from .recipe import BETA1, BETA2, EPSILON, Network, Recipe, Rows, one_thread, unpack

BACKWARD: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "relu": lambda gradient, output: torch.ops.aten.threshold_backward(gradient, output, 0),
    "tanh": torch.ops.aten.tanh_backward,
    "sigmoid": torch.ops.aten.sigmoid_backward,
}
"""Gradient by an activation's output, and the output → gradient by its input: autograd's own operations."""
compared: MutableMapping[str, bool] = {}
"""What `same_bits` found, by shape. Whoever has a place for it may put a mapping here that outlives the process."""
COMPARED_EPOCHS, COMPARED_BATCHES = 3, 3
"""Of the short training: whole batches, a last shorter one, and the moments of several steps."""


def train_one(recipe: Recipe, rows: Rows, flips: Sequence[int] = ()) -> Network:
    """Train on the rows with the labels at `flips` flipped."""
    return train_as(Direct if same_bits(recipe, rows) else Loop, recipe, rows, flips)


def train_as(kind: type[Loop] | type[Direct], recipe: Recipe, rows: Rows, flips: Sequence[int] = ()) -> Network:
    """The course of a training: after each epoch the mean loss on the validation rows; the weights of the strictly
    lowest one are kept; after `patience` epochs without a new lowest it ends."""
    with one_thread(), torch.no_grad():
        X, y, X_val, y_val = map(torch.from_numpy, (rows.X, rows.labels(flips), rows.X_val, rows.y_val))
        f, size = kind(recipe, rows.widths(recipe)), recipe.batch_size or rows.n
        best_loss, best_epoch, best, epoch = float("inf"), 0, f.packed(), 0
        for epoch, order in enumerate(batch_orders(recipe, rows.n), start=1):
            if recipe.batch_size is None:  # the data itself: gathering it in order would only copy it
                f.step(X, y)
            elif kind is Loop:
                for batch in order.split(size):
                    f.step(X[batch], y[batch])
            else:
                gathered = X.index_select(0, order).split(size), y.index_select(0, order).split(size)
                for inputs, labels in zip(*gathered, strict=True):
                    f.step(inputs, labels)
            loss = mean_loss(f.outputs(X_val)[-1], y_val).item()
            if loss < best_loss:
                best_loss, best_epoch, best = loss, epoch, f.packed()
            if epoch - best_epoch >= recipe.patience or epoch >= recipe.max_epochs:
                break
    weights, biases = unpack(best.numpy(), rows.widths(recipe))
    return Network(tuple(weights), tuple(biases), recipe, best_epoch, epoch, best_loss)


def packed_start(widths: tuple[int, ...], seed: int) -> Tensor:
    """The initial weights in one vector: what `nn.Linear` draws after `torch.manual_seed(seed)`."""
    generator, parts = torch.Generator().manual_seed(seed), []
    for into, out in pairwise(widths):
        W, b = torch.empty(out, into), torch.empty(out)
        nn.init.kaiming_uniform_(W, a=math.sqrt(5), generator=generator)
        nn.init.uniform_(b, -1 / math.sqrt(into), 1 / math.sqrt(into), generator=generator)
        parts += [W.flatten(), b]
    return torch.cat(parts)


def batch_orders(recipe: Recipe, n: int) -> Iterator[Tensor]:
    """One order of the training rows per epoch, without end."""
    generator = torch.Generator().manual_seed(recipe.seed)
    while True:
        yield torch.arange(n) if recipe.batch_size is None else torch.randperm(n, generator=generator)


def mean_loss(outputs: Tensor, labels: Tensor) -> Tensor:
    """Mean binary cross-entropy of logits; with more than two classes, mean cross-entropy of the softmax."""
    if outputs.shape[1] == 1:
        return binary_cross_entropy_with_logits(outputs[:, 0], labels)
    return cross_entropy(outputs, labels.long())


class Loop:
    """Autograd, and `torch.optim.Adam` by the function that its `step` calls: the class itself imports PyTorch's
    compiler, which takes longer than the audit of one person."""

    def __init__(self, recipe: Recipe, widths: tuple[int, ...]) -> None:
        weights, biases = unpack(packed_start(widths, recipe.seed), widths)
        self.tensors = [part.clone().requires_grad_() for pair in zip(weights, biases, strict=True) for part in pair]
        self.means, self.squares = ([torch.zeros_like(part) for part in self.tensors] for _ in range(2))
        self.steps = [torch.tensor(0.0) for _ in self.tensors]
        self.activation, self.learning_rate = getattr(torch, recipe.activation), recipe.learning_rate

    def outputs(self, inputs: Tensor) -> list[Tensor]:
        h = inputs
        for layer in range(0, len(self.tensors), 2):
            h = linear(self.activation(h) if layer else h, *self.tensors[layer : layer + 2])
        return [h]

    def step(self, inputs: Tensor, labels: Tensor) -> None:
        with torch.enable_grad():
            gradients = torch.autograd.grad(mean_loss(self.outputs(inputs)[-1], labels), self.tensors)
        how: dict[str, Any] = {"foreach": False, "amsgrad": False, "weight_decay": 0.0, "maximize": False}
        how |= {"beta1": BETA1, "beta2": BETA2, "eps": EPSILON, "lr": self.learning_rate}
        adam(self.tensors, list(gradients), self.means, self.squares, [], self.steps, **how)

    def packed(self) -> Tensor:
        return torch.cat([part.detach().flatten() for part in self.tensors])


class Direct:
    """The same with weights, gradient and Adam's moments in one vector each."""

    def __init__(self, recipe: Recipe, widths: tuple[int, ...]) -> None:
        self.values = packed_start(widths, recipe.seed)
        self.gradient, self.first, self.second, self.scale = (torch.zeros_like(self.values) for _ in range(4))
        self.steps, self.learning_rate = 0, recipe.learning_rate
        self.activation, self.derivative = getattr(torch, recipe.activation), BACKWARD[recipe.activation]
        self.weights, self.biases = unpack(self.values, widths)
        self.transposed = [W.t() for W in self.weights]
        self.by_weights, self.by_biases = unpack(self.gradient, widths)

    def outputs(self, inputs: Tensor) -> list[Tensor]:
        """The inputs, every hidden layer's outputs, and the logits `[rows × outputs]`."""
        outputs = [inputs]
        for W, b in zip(self.transposed[:-1], self.biases[:-1], strict=True):
            outputs.append(self.activation(torch.addmm(b, outputs[-1], W)))
        return [*outputs, torch.addmm(self.biases[-1], outputs[-1], self.transposed[-1])]

    def step(self, inputs: Tensor, labels: Tensor) -> None:
        *layers, logits = self.outputs(inputs)
        if logits.shape[1] == 1:
            gradient = logits[:, 0].sigmoid().sub_(labels).div_(len(labels)).unsqueeze(1)
        else:
            likelihoods = logits.log_softmax(1)
            wanted = torch.zeros_like(logits).scatter_(1, labels.long().unsqueeze(1), -1 / len(labels))
            gradient = torch._log_softmax_backward_data(wanted, likelihoods, 1, logits.dtype)
        for layer in range(len(layers) - 1, -1, -1):
            torch.sum(gradient, 0, out=self.by_biases[layer])
            torch.mm(gradient.t(), layers[layer], out=self.by_weights[layer])
            if layer:
                gradient = self.derivative(torch.mm(gradient, self.weights[layer]), layers[layer])
        self.steps += 1
        self.first.lerp_(self.gradient, 1 - BETA1)
        self.second.mul_(BETA2).addcmul_(self.gradient, self.gradient, value=1 - BETA2)
        torch.sqrt(self.second, out=self.scale)
        self.scale.div_((1 - BETA2**self.steps) ** 0.5).add_(EPSILON)
        self.values.addcdiv_(self.first, self.scale, value=-(self.learning_rate / (1 - BETA1**self.steps)))

    def packed(self) -> Tensor:
        return self.values.clone()


def same_bits(recipe: Recipe, rows: Rows) -> bool:
    """Whether `Direct` is the loop to the bit, by a short training both ways. Only the shape determines which operation
    computes a product, so the answer holds for every table of the shape."""
    shape = repr((rows.widths(recipe), recipe.activation, recipe.batch_size, rows.n, len(rows.y_val)))
    if shape not in compared:
        size = recipe.batch_size or rows.n
        kept = min(rows.n, COMPARED_BATCHES * size + rows.n % size)  # some whole batches and the last, shorter one
        few, short = replace(rows, X=rows.X[:kept], y=rows.y[:kept]), replace(recipe, max_epochs=COMPARED_EPOCHS)
        ours, loop = (train_as(kind, short, few) for kind in (Direct, Loop))
        parts = zip(ours.weights + ours.biases, loop.weights + loop.biases, strict=True)
        compared[shape] = ours.best_epoch == loop.best_epoch and all(a.tobytes() == b.tobytes() for a, b in parts)
    return compared[shape]

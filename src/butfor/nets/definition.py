"""The definition of a training: one network in plain PyTorch, float32 on one CPU thread.

The other engines start from its initial weights and follow its batch orders; they differ from it in
the order of floating-point sums, nothing else. A small network's training spends most of its time
between operations, on autograd's records and the optimiser's bookkeeping. So PyTorch's operations
are called directly, in the order in which a training with autograd and `torch.optim.Adam` calls
them, with the derivative written out and Adam on all parameters as one vector: the same bits in a
quarter to a half of the time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

from .recipe import BETA1, BETA2, EPSILON, Network, Recipe, Rows, one_thread, unpack

BACKWARD: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "relu": lambda gradient, output: torch.ops.aten.threshold_backward(gradient, output, 0),
    "tanh": torch.ops.aten.tanh_backward,
    "sigmoid": torch.ops.aten.sigmoid_backward,
}
"""Gradient by an activation's output, and the output → gradient by its input: autograd's own
operations."""


def train_one(
    recipe: Recipe,
    rows: Rows,
    flips: Sequence[int] = (),
    steps: Callable[[Recipe, tuple[int, ...]], Any] | None = None,
) -> Network:
    """Train on the rows with the labels at `flips` flipped: after each epoch the mean loss on the
    validation rows; the weights of the strictly lowest one are kept; after `patience` epochs
    without a new lowest it ends. `steps`: what takes the steps, by default `Direct`."""
    with one_thread(), torch.no_grad():
        arrays = (rows.X, rows.labels(flips), rows.X_val, rows.y_val)
        X, y, X_val, y_val = map(torch.from_numpy, arrays)
        f = (steps or Direct)(recipe, rows.widths(recipe))
        size = recipe.batch_size or rows.n
        best_loss = float("inf")
        best_epoch = 0
        best = f.packed()
        epoch = 0
        for epoch, order in enumerate(batch_orders(recipe, rows.n), start=1):
            if recipe.batch_size is None:
                # The data itself: gathering it in order would only copy it.
                f.step(X, y)
            else:
                batches = X.index_select(0, order).split(size)
                labels = y.index_select(0, order).split(size)
                for batch, batch_labels in zip(batches, labels, strict=True):
                    f.step(batch, batch_labels)
            loss = mean_loss(f.outputs(X_val)[-1], y_val).item()
            if loss < best_loss:
                best_loss = loss
                best_epoch = epoch
                best = f.packed()
            if epoch - best_epoch >= recipe.patience or epoch >= recipe.max_epochs:
                break
    weights, biases = unpack(best.numpy(), rows.widths(recipe))
    return Network(tuple(weights), tuple(biases), recipe, best_epoch, epoch, best_loss)


def packed_start(widths: tuple[int, ...], seed: int) -> Tensor:
    """The initial weights in one vector: what `nn.Linear` draws after `torch.manual_seed(seed)`."""
    generator = torch.Generator().manual_seed(seed)
    parts = []
    for into, out in pairwise(widths):
        W = torch.empty(out, into)
        b = torch.empty(out)
        nn.init.kaiming_uniform_(W, a=math.sqrt(5), generator=generator)
        nn.init.uniform_(b, -1 / math.sqrt(into), 1 / math.sqrt(into), generator=generator)
        parts += [W.flatten(), b]
    return torch.cat(parts)


def batch_orders(recipe: Recipe, n: int) -> Iterator[Tensor]:
    """One order of the training rows per epoch, without end."""
    generator = torch.Generator().manual_seed(recipe.seed)
    while True:
        if recipe.batch_size is None:
            yield torch.arange(n)
        else:
            yield torch.randperm(n, generator=generator)


def mean_loss(outputs: Tensor, labels: Tensor) -> Tensor:
    """Mean binary cross-entropy of logits; with more than two classes, mean cross-entropy of the
    softmax."""
    if outputs.shape[1] == 1:
        return binary_cross_entropy_with_logits(outputs[:, 0], labels)
    return cross_entropy(outputs, labels.long())


class Direct:
    """A network in training: weights, gradient and Adam's moments in one vector each."""

    def __init__(self, recipe: Recipe, widths: tuple[int, ...]) -> None:
        self.values = packed_start(widths, recipe.seed)
        self.gradient, self.first, self.second, self.scale = (
            torch.zeros_like(self.values) for _ in range(4)
        )
        self.steps = 0
        self.learning_rate = recipe.learning_rate
        self.activation = getattr(torch, recipe.activation)
        self.derivative = BACKWARD[recipe.activation]
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
            codes = labels.long().unsqueeze(1)
            wanted = torch.zeros_like(logits).scatter_(1, codes, -1 / len(labels))
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
        rate = self.learning_rate / (1 - BETA1**self.steps)
        self.values.addcdiv_(self.first, self.scale, value=-rate)

    def packed(self) -> Tensor:
        return self.values.clone()

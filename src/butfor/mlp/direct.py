"""L with PyTorch's operations called directly: the reference's numbers to the bit, in less time.

A small network's training spends most of its time between operations: on autograd's records and the optimiser's
bookkeeping for each tensor. Here the same operations are called in the same order on the same shapes, the derivative is
written out, and Adam updates all parameters as one vector. Each process checks this once for each shape of network and
table, by a short training both ways; if one bit differs (another PyTorch, another processor), the reference trains.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from butfor.mlp import reference
from butfor.mlp.recipe import BETA1, BETA2, EPSILON, Network, Recipe, Rows, one_thread, pack, unpack
from butfor.mlp.reference import BACKWARD

CHECKED_EPOCHS = 3
CHECKED_BATCHES = 3
"""The short training covers whole batches, a last shorter one, and the moments of several steps."""

_same_bits: dict[tuple[object, ...], bool] = {}


def train(recipe: Recipe, rows: Rows, flips: Sequence[int] = ()) -> Network:
    """What `reference.train` returns."""
    if not _is_the_reference(recipe, rows):
        return reference.train(recipe, rows, flips)
    with one_thread(), torch.no_grad():
        return _train(recipe, rows, flips)


def _train(recipe: Recipe, rows: Rows, flips: Sequence[int]) -> Network:
    X, y = torch.from_numpy(rows.X), torch.from_numpy(rows.labels(flips))
    X_val, y_val = torch.from_numpy(rows.X_val), torch.from_numpy(rows.y_val)
    size = recipe.batch_size or rows.n
    f, loss = _Parameters(recipe, rows.d), reference.mean_loss(recipe)
    best_loss, best_epoch, best = float("inf"), 0, f.values.clone()
    epoch = 0
    for epoch, order in enumerate(reference.batch_orders(recipe, rows.n), start=1):
        # Gathered once an epoch; the full batch is the data itself.
        inputs, labels = (X, y) if recipe.batch_size is None else (X.index_select(0, order), y.index_select(0, order))
        for some_inputs, some_labels in zip(inputs.split(size), labels.split(size), strict=True):
            f.step(some_inputs, some_labels)
        validation_loss = loss(f.outputs(X_val)[-1], y_val).item()
        if validation_loss < best_loss:
            best_loss, best_epoch, best = validation_loss, epoch, f.values.clone()
        if epoch - best_epoch >= recipe.patience or epoch >= recipe.max_epochs:
            break
    return Network.from_packed(best.numpy(), recipe, rows.d, best_epoch, epoch, best_loss)


class _Parameters:
    """A network's weights in one vector, in PyTorch's order, with their gradient and Adam's moments."""

    def __init__(self, recipe: Recipe, inputs: int) -> None:
        self.values = reference.packed_start(recipe, inputs).clone()
        self.gradient, self.first, self.second, self.scale = (torch.zeros_like(self.values) for _ in range(4))
        self.steps = 0
        self.learning_rate = recipe.learning_rate
        self.activation, self.derivative = getattr(torch, recipe.activation), BACKWARD[recipe.activation]
        widths = recipe.widths(inputs)
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
        """One step of Adam on the batch's mean loss."""
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


def _is_the_reference(recipe: Recipe, rows: Rows) -> bool:
    """Compared once per process and shape: only the shape determines which operation computes a product."""
    shape = recipe.widths(rows.d), recipe.activation, recipe.batch_size, rows.n, len(rows.y_val)
    if shape not in _same_bits:
        short, few = replace(recipe, max_epochs=CHECKED_EPOCHS), _some_batches(recipe, rows)
        with one_thread(), torch.no_grad():
            found = _train(short, few, ())
        _same_bits[shape] = _bits(found) == _bits(reference.train(short, few))
    return _same_bits[shape]


def _some_batches(recipe: Recipe, rows: Rows) -> Rows:
    """A few whole batches and the last, shorter one."""
    size = recipe.batch_size or rows.n
    kept = min(rows.n, CHECKED_BATCHES * size + rows.n % size)
    return replace(rows, X=rows.X[:kept], y=rows.y[:kept])


def _bits(network: Network) -> tuple[bytes, int, int]:
    return pack(network).tobytes(), network.best_epoch, network.epochs

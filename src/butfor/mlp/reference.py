"""The definition of the learning algorithm L: one network in plain PyTorch.

All engines are tested against this file, and it confirms every find. It is float32 on one CPU thread and restores
torch's seed and threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy
from torch.optim.adam import adam

from butfor.machine import GENERATOR
from butfor.mlp.recipe import BETA1, BETA2, EPSILON, Network, Recipe, Rows, one_thread

ACTIVATION_MODULES: dict[str, type[nn.Module]] = {"relu": nn.ReLU, "tanh": nn.Tanh, "sigmoid": nn.Sigmoid}
BACKWARD: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "relu": lambda gradient, output: torch.ops.aten.threshold_backward(gradient, output, 0),
    "tanh": torch.ops.aten.tanh_backward,
    "sigmoid": torch.ops.aten.sigmoid_backward,
}
"""Gradient by an activation's output, and the output → gradient by its input: autograd's own operations."""

KEPT_STARTS, KEPT_PARAMETERS = 256, 2**16
"""The most initial networks that are cached, and the largest size of each: 64 MiB in all."""


def initial_network(recipe: Recipe, inputs: int) -> nn.Sequential:
    """Step 1: seed, then a stack of Linear layers with PyTorch's default initialisation."""
    layers: list[nn.Module] = []
    with GENERATOR, torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(recipe.seed)  # torch.manual_seed also keeps a traceback for GPUs
        for into, out in pairwise(recipe.widths(inputs)):
            layers += [nn.Linear(into, out), ACTIVATION_MODULES[recipe.activation]()]
    return nn.Sequential(*layers[:-1])


def packed_start(recipe: Recipe, inputs: int) -> Tensor:
    """The initial weights in one vector, cached and so read-only."""
    return (_kept_start if recipe.parameters(inputs) <= KEPT_PARAMETERS else _start)(recipe, inputs)


def _start(recipe: Recipe, inputs: int) -> Tensor:
    return torch.cat([tensor.flatten() for tensor in initial_network(recipe, inputs).state_dict().values()])


_kept_start = lru_cache(maxsize=KEPT_STARTS)(_start)


def batch_orders(recipe: Recipe, n: int) -> Iterator[Tensor]:
    """Step 2: one order of the training rows per epoch, without end."""
    generator = torch.Generator().manual_seed(recipe.seed)
    while True:
        yield torch.arange(n) if recipe.batch_size is None else torch.randperm(n, generator=generator)


def train(recipe: Recipe, rows: Rows, flips: Sequence[int] = ()) -> Network:
    """Train f = L(D') on the rows with the labels at `flips` flipped."""
    with one_thread():
        return _train(recipe, rows, flips)


def _train(recipe: Recipe, rows: Rows, flips: Sequence[int]) -> Network:
    X, y = torch.from_numpy(rows.X), torch.from_numpy(rows.labels(flips))
    X_val, y_val = torch.from_numpy(rows.X_val), torch.from_numpy(rows.y_val)
    f = initial_network(recipe, rows.d)
    loss = mean_loss(recipe)
    optimiser = Adam(f.parameters(), recipe.learning_rate)
    best_loss, best_epoch, best_weights = float("inf"), 0, _copy_weights(f)
    epoch = 0
    for epoch, order in enumerate(batch_orders(recipe, rows.n), start=1):
        for batch in order.split(recipe.batch_size or rows.n):
            # The full batch is the data itself: gathering it in order would only copy it.
            inputs, labels = (X, y) if recipe.batch_size is None else (X[batch], y[batch])
            optimiser.step(loss(f(inputs), labels))
        with torch.no_grad():
            validation_loss = loss(f(X_val), y_val).item()
        if validation_loss < best_loss:
            best_loss, best_epoch, best_weights = validation_loss, epoch, _copy_weights(f)
        if epoch - best_epoch >= recipe.patience or epoch >= recipe.max_epochs:
            break
    tensors = [tensor.numpy() for tensor in best_weights]
    return Network(tuple(tensors[0::2]), tuple(tensors[1::2]), recipe, best_epoch, epoch, best_loss)


class Adam:
    """`torch.optim.Adam` by the function that its `step` calls: the class itself imports PyTorch's compiler, which
    takes longer than the audit of one person."""

    def __init__(self, parameters: Iterable[Tensor], learning_rate: float) -> None:
        self._parameters = list(parameters)
        self._learning_rate = learning_rate
        self._means, self._squares = ([torch.zeros_like(p) for p in self._parameters] for _ in range(2))
        self._steps = [torch.tensor(0.0) for _ in self._parameters]

    def step(self, loss: Tensor) -> None:
        gradients = torch.autograd.grad(loss, self._parameters)
        with torch.no_grad():
            adam(
                self._parameters,
                list(gradients),
                self._means,
                self._squares,
                [],
                self._steps,
                foreach=False,
                amsgrad=False,
                beta1=BETA1,
                beta2=BETA2,
                lr=self._learning_rate,
                weight_decay=0.0,
                eps=EPSILON,
                maximize=False,
            )


def mean_loss(recipe: Recipe) -> Callable[[Tensor, Tensor], Tensor]:
    """Step 3: mean binary cross-entropy; with more than two classes, mean cross-entropy of the softmax."""
    if recipe.outputs == 1:
        return lambda outputs, labels: binary_cross_entropy_with_logits(outputs[:, 0], labels)
    return lambda outputs, labels: cross_entropy(outputs, labels.long())


def _copy_weights(f: nn.Sequential) -> list[Tensor]:
    """Copies of the weights and biases, layer by layer."""
    return [tensor.clone() for tensor in f.state_dict().values()]

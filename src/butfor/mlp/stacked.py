"""Many networks at once as stacked tensors, on any torch device.

K trainings of L share X, the initial weights and the order of the batches, and differ in a few
labels. So one step of all of them is a handful of batched matrix products: forward, backward and
Adam are written out by hand over tensors whose first axis is the network. A network that has
stopped early leaves the stack at the end of its epoch.

On CUDA, networks small enough for one streaming multiprocessor go to `butfor.mlp.onelaunch`
instead, where a single kernel launch trains them all.

Shapes: K networks, B rows in a batch, P numbers in a network, packed in PyTorch's order. Hidden
layers are feature-major, `[K × width × B]`, so that the one X of a step serves all networks.

Independence: every product is one matrix product per network, so the other networks in the stack
take no part in a network's sums. A library may still choose another kernel for another stack size,
and then the last bits differ; trainings amplify that. `onelaunch` is exact: bit for bit the same
whatever is trained beside it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from butfor.errors import EngineError, SettingError
from butfor.mlp import onelaunch
from butfor.mlp.learner import NetworkEngine
from butfor.mlp.onethread import one_thread
from butfor.mlp.recipe import BETA1, BETA2, EPSILON, Fits, Recipe, Rows
from butfor.mlp.reference import batch_orders, packed_start
from butfor.seam import FlipSet, Floats, Progress

Columns = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]
"""The fields of `Fits`, in their order."""

LARGEST_STACK = {"cpu": 64, "cuda": 1024}
"""Beyond this many, a stack gains nothing more and only leaves the caches."""


class StackedEngine(NetworkEngine):
    """Trains stacks of networks on `device`; see the module's docstring.

    `one_launch=False` keeps CUDA on the stacked tensors.
    """

    name = "stacked"

    def __init__(self, device: str = "cpu", one_launch: bool = True) -> None:
        self.device = present(device)
        self.one_launch = one_launch

    @property
    def width(self) -> int:
        return LARGEST_STACK[self.device.type]

    def fit_many(
        self,
        recipe: Recipe,
        rows: Rows,
        flip_sets: Sequence[FlipSet],
        people: Floats,
        progress: Progress | None = None,
        seeds: Sequence[int] | None = None,
        weights: bool = True,
    ) -> Fits:
        """`weights`: whether the networks themselves are wanted; bringing them from a GPU takes a while."""
        people = np.ascontiguousarray(people, dtype=np.float32)
        seeds = [recipe.seed] * len(flip_sets) if seeds is None else seeds
        recipes = [replace(recipe, seed=seed) for seed in dict.fromkeys(seeds)]
        if self.one_launch and flip_sets and onelaunch.can_train(recipe, rows, people, self.device):
            return _in_launches(recipes, rows, flip_sets, seeds, people, self.device, progress, weights)
        size = stack_size(recipe, rows, len(people), self.device)
        by_seed = [[k for k, seed in enumerate(seeds) if seed == one.seed] for one in recipes]
        with one_thread(), float32_products(), torch.no_grad():
            data = _Data.of(rows, people, self.device)
            stacks = [
                _train(one, data, [flip_sets[k] for k in places[first : first + size]], progress)
                for one, places in zip(recipes, by_seed, strict=True)
                for first in range(0, len(places), size)
            ]
        if not stacks:
            stacks = [_nothing(recipe, rows.d, len(people))]
        return _ordered(stacks, [k for places in by_seed for k in places])

    def answer_many(
        self, recipe: Recipe, rows: Rows, flip_sets: Sequence[FlipSet], people: Floats,
        progress: Progress | None = None, seeds: Sequence[int] | None = None,
    ) -> Floats:  # fmt: skip
        return self.fit_many(recipe, rows, flip_sets, people, progress, seeds, weights=False).answers


def _in_launches(
    recipes: Sequence[Recipe], rows: Rows, flip_sets: Sequence[FlipSet], seeds: Sequence[int], people: Floats,
    device: torch.device, progress: Progress | None, weights: bool,
) -> Fits:  # fmt: skip
    """One launch for all seeds whose batch orders fit on the device together: as a rule, one for everything."""
    size = onelaunch.most_seeds(recipes[0], rows.n)
    launches, places = [], []
    for first in range(0, len(recipes), size):
        some = recipes[first : first + size]
        place = {one.seed: k for k, one in enumerate(some)}
        at = [k for k, seed in enumerate(seeds) if seed in place]
        starts = torch.stack([packed_start(one, rows.d) for one in some])
        fits = onelaunch.fit_many(
            some, rows, [flip_sets[k] for k in at], [place[seeds[k]] for k in at], people, starts, device, progress,
            weights,
        )  # fmt: skip
        if len(recipes) <= size:
            return fits
        launches.append((fits.logits, fits.best_epoch, fits.epochs, fits.validation_loss, fits.weights))
        places += at
    return _ordered(launches, places)


def _ordered(stacks: Sequence[Columns], places: Sequence[int]) -> Fits:
    """What was trained in another order, as it was asked for: the k-th result belongs at `places[k]`."""
    back = np.argsort(np.array(places, dtype=np.int64), kind="stable")
    return Fits(*(np.concatenate(parts)[back] for parts in zip(*stacks, strict=True)))


def device_named(device: str) -> torch.device:
    """The torch device of that name, here or elsewhere."""
    try:
        found = torch.device(device)
    except (RuntimeError, TypeError):
        raise SettingError(f"device='{device}' is not a device: say 'cpu', 'cuda' or 'cuda:0'.") from None
    if found.type not in LARGEST_STACK:
        raise SettingError(f"device='{device}' is not supported: say 'cpu' or 'cuda'.")
    return found


def present(device: str) -> torch.device:
    """The torch device of that name, if it is there."""
    found = device_named(device)
    if found.type == "cuda" and (found.index or 0) >= torch.cuda.device_count():
        raise EngineError(
            f"device='{device}' is not there: PyTorch sees {torch.cuda.device_count()} CUDA GPUs. "
            "Use device='cpu', or install a CUDA build of PyTorch."
        )
    return found


@contextmanager
def float32_products() -> Iterator[None]:
    """Matrix products in full float32, whatever the process has set."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def free_memory(device: torch.device) -> int:
    """Bytes that a stack may still take."""
    if device.type == "cuda":
        cached = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return int(torch.cuda.mem_get_info(device)[0]) + cached
    meminfo = Path("/proc/meminfo")
    if meminfo.exists():
        return next(
            int(line.split()[1]) * 1024 for line in meminfo.read_text().splitlines() if line.startswith("MemAvailable")
        )
    if hasattr(os, "sysconf"):
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    return 2**32


def stack_size(recipe: Recipe, rows: Rows, people: int, device: torch.device) -> int:
    """How many networks to train at once in half of the free memory."""
    batch = min(recipe.batch_size or rows.n, rows.n)
    # Training keeps every hidden layer, its derivative and one more for the operation at work.
    training = batch * (2 * sum(recipe.hidden) + max(recipe.hidden, default=1) + 8)
    asking = max(len(rows.X_val), people) * (2 * max(recipe.hidden, default=1) + 4)
    # Weights, gradient, two moments, the best so far, the results, and what Adam computes with.
    bytes_each = 4 * (max(training, asking) + 2 * rows.n + 10 * recipe.parameters(rows.d))
    fitting = (free_memory(device) // 2 - 4 * rows.X.size) // bytes_each
    if fitting < 1:
        raise EngineError(
            f"Training one network on {rows.n} rows takes about {bytes_each / 2**20:.0f} MiB, more than "
            f"{device.type} has free. Use a smaller batch_size, or engine='fused'."
        )
    return min(fitting, LARGEST_STACK[device.type])


@dataclass(frozen=True)
class _Data:
    """`Rows` and people as tensors on the device."""

    X: Tensor
    y: Tensor
    X_val: Tensor
    y_val: Tensor
    people: Tensor

    @classmethod
    def of(cls, rows: Rows, people: Floats, device: torch.device) -> _Data:
        arrays = (rows.X, rows.y, rows.X_val, rows.y_val, people)
        return cls(*(torch.tensor(array, device=device) for array in arrays))

    def labels(self, flip_sets: Sequence[FlipSet]) -> Tensor:
        """`[K × n]`: y with each flip set turned."""
        y = self.y.repeat(len(flip_sets), 1)
        network = [k for k, flips in enumerate(flip_sets) for _ in flips]
        row = [i for flips in flip_sets for i in flips]
        y[network, row] = 1 - self.y[row]
        return y


class _Layers:
    """The layers' matrices and biases as views into packed `[K × P]` tensors."""

    def __init__(self, widths: tuple[int, ...], activation: str) -> None:
        self.widths = widths
        self.activation = activation

    def views(self, packed: Tensor) -> list[tuple[Tensor, Tensor]]:
        """`W [K × out × in]` and `b [K × out × 1]` of each layer."""
        layers, at = [], 0
        for into, out in pairwise(self.widths):
            W = packed[:, at : at + out * into].unflatten(1, (out, into))
            at += out * into
            layers.append((W, packed[:, at : at + out, None]))
            at += out
        return layers

    def forward(self, packed: Tensor, X: Tensor) -> list[Tensor]:
        """All layers' outputs for rows `X [B × d]`; the last is the logits `[K × 1 × B]`."""
        outputs = [X.T.expand(len(packed), -1, -1)]
        layers = self.views(packed)
        for layer, (W, b) in enumerate(layers):
            z = torch.baddbmm(b, W, outputs[-1])
            outputs.append(z if layer == len(layers) - 1 else self._act_(z))
        return outputs[1:]

    def backward(self, packed: Tensor, X: Tensor, outputs: list[Tensor], delta: Tensor, into: Tensor) -> None:
        """Write the gradient `[K × P]`, given the loss's derivative by the logits `[K × 1 × B]`."""
        inputs = [X.T.expand(len(packed), -1, -1), *outputs[:-1]]
        weights, gradients = self.views(packed), self.views(into)
        for layer in reversed(range(len(weights))):
            dW, db = gradients[layer]
            dW.copy_(torch.bmm(delta, inputs[layer].transpose(1, 2)))
            db.copy_(delta.sum(2, keepdim=True))
            if layer > 0:
                delta = self._derivative(torch.bmm(weights[layer][0].transpose(1, 2), delta), inputs[layer])

    def _act_(self, z: Tensor) -> Tensor:
        return {"relu": torch.relu_, "tanh": torch.tanh_, "sigmoid": torch.sigmoid_}[self.activation](z)

    def _derivative(self, delta: Tensor, h: Tensor) -> Tensor:
        if self.activation == "relu":
            return torch.ops.aten.threshold_backward(delta, h, 0)
        if self.activation == "tanh":
            return torch.ops.aten.tanh_backward(delta, h)
        return torch.ops.aten.sigmoid_backward(delta, h)


class _Adam:
    """torch.optim.Adam's arithmetic, operation for operation, on packed weights `[K × P]`."""

    def __init__(self, like: Tensor, learning_rate: float) -> None:
        self.mean = torch.zeros_like(like)
        self.square = torch.zeros_like(like)
        self.learning_rate = learning_rate
        self.steps = 0

    def step(self, weights: Tensor, gradient: Tensor) -> None:
        self.steps += 1
        self.mean.lerp_(gradient, 1 - BETA1)
        self.square.mul_(BETA2).addcmul_(gradient, gradient, value=1 - BETA2)
        scale = (1 - BETA2**self.steps) ** 0.5
        denominator = (self.square.sqrt() / scale).add_(EPSILON)
        weights.addcdiv_(self.mean, denominator, value=-self.learning_rate / (1 - BETA1**self.steps))

    def keep(self, going: Tensor) -> None:
        self.mean, self.square = self.mean[going], self.square[going]


def _train(recipe: Recipe, data: _Data, flip_sets: Sequence[FlipSet], progress: Progress | None) -> Columns:
    """Train one stack; `going` holds the places of the networks that have not stopped yet."""
    n, d = data.X.shape
    K, device = len(flip_sets), data.X.device
    layers = _Layers(recipe.widths(d), recipe.activation)
    weights = packed_start(recipe, d).to(device).repeat(K, 1)
    gradient, adam = torch.zeros_like(weights), _Adam(weights, recipe.learning_rate)
    y, going = data.labels(flip_sets), torch.arange(K)
    best_weights, best_loss = weights.clone(), torch.full((K,), torch.inf, device=device)
    best_epoch = torch.zeros(K, dtype=torch.int64, device=device)
    kept_weights, kept_loss, kept_epoch = best_weights.clone(), best_loss.clone(), best_epoch.clone()
    epochs = np.zeros(K, np.int64)

    for epoch, order in enumerate(batch_orders(recipe, n), start=1):
        for batch in order.to(device).split(recipe.batch_size or n):
            X_b, y_b = (data.X, y) if recipe.batch_size is None else (data.X[batch], y[:, batch])
            outputs = layers.forward(weights, X_b)
            delta = torch.sigmoid(outputs[-1]).sub_(y_b[:, None]).mul_(1 / len(X_b))
            layers.backward(weights, X_b, outputs, delta, into=gradient)
            adam.step(weights, gradient)
        loss = _validation_loss(layers.forward(weights, data.X_val)[-1][:, 0], data.y_val)
        better = loss < best_loss
        best_loss = torch.where(better, loss, best_loss)
        best_epoch = torch.where(better, epoch, best_epoch)
        best_weights = torch.where(better[:, None], weights, best_weights)
        # The only word from the device to the host in an epoch: who has stopped.
        stopped = (epoch - best_epoch >= recipe.patience).cpu() | (epoch >= recipe.max_epochs)
        if not stopped.any():
            continue
        leaving, on = stopped.nonzero()[:, 0], (~stopped).nonzero()[:, 0].to(device)
        places, gone = going[leaving].to(device), leaving.to(device)
        kept_weights[places], kept_loss[places] = best_weights[gone], best_loss[gone]
        kept_epoch[places], epochs[going[leaving].numpy()] = best_epoch[gone], epoch
        if progress:
            progress(len(leaving))
        going = going[~stopped]
        if len(going) == 0:
            break
        weights, gradient, y, best_loss = weights[on], gradient[on], y[on], best_loss[on]
        best_epoch, best_weights = best_epoch[on], best_weights[on]
        adam.keep(on)

    logits = layers.forward(kept_weights, data.people)[-1][:, 0]
    return (
        logits.cpu().numpy(), kept_epoch.cpu().numpy(), epochs,
        kept_loss.cpu().numpy(), kept_weights.cpu().numpy(),
    )  # fmt: skip


def _validation_loss(logits: Tensor, y_val: Tensor) -> Tensor:
    """Mean cross-entropy of each network, `[K]`."""
    return binary_cross_entropy_with_logits(logits, y_val.expand_as(logits), reduction="none").mean(1)


def _nothing(recipe: Recipe, inputs: int, people: int) -> Columns:
    return (
        np.zeros((0, people), np.float32), np.zeros(0, np.int64), np.zeros(0, np.int64),
        np.zeros(0, np.float32), np.zeros((0, recipe.parameters(inputs)), np.float32),
    )  # fmt: skip

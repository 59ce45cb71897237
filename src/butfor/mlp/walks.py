"""The training gradient in compiled code, on the CPU: one training with ReLU, kept so that it can be walked backwards.

The equations are those of `butfor.mlp.sweeps`, in another order of floating-point sums. A direction stays in a core's
caches from Adam's step to the Hessian product, and the first layer of one-hot rows reads only their entries. The state
before each epoch is kept. An epoch is replayed twice, in about √steps stretches of √steps steps, so memory grows with
the square root of its steps. A sweep depends only on its own training.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import torch

from butfor import stopping
from butfor.learn.protocols import Floats
from butfor.mlp import walk_kernels
from butfor.mlp.fused import Layout, Orders, aligned, prepare, table
from butfor.mlp.passes import TILE, Table
from butfor.mlp.recipe import Network, Recipe, Rows, one_thread
from butfor.mlp.reference import batch_orders, packed_start
from butfor.mlp.stacks import logit_gradients
from butfor.mlp.sweeps import GradientResult, Sweep, lowest
from butfor.mlp.walk_kernels import Walk

IN_PLACE: Orders = np.empty(0, np.int32)
NO_STATES: Floats = np.empty((0, 3, 0), np.float32)


class Training:
    """One network trained, with its states before every epoch."""

    def __init__(self, recipe: Recipe, rows: Rows, sweep: Sweep) -> None:
        prepare()
        self.recipe, self.rows = replace(recipe, seed=sweep.seed), rows
        self.layout, self.labels = Layout(recipe, rows.d), rows.labels(sweep.flips)
        self.room = self.layout.room(packed_start(self.recipe, rows.d).numpy())
        entries = rows.entries or (None, None)
        self.training = table(rows.X, self.labels, entries[0])
        self.validation = table(rows.X_val, rows.y_val, entries[1])
        self.batch = recipe.batch_size or rows.n
        self.batches = math.ceil(rows.n / self.batch)
        self.orders: list[Orders] = []
        self.states: list[Floats] = []
        """Weights and moments `[3 × parameters]` before each epoch and after the last."""
        self.losses, self.kept = [math.inf], 0
        self._train()

    def _train(self) -> None:
        nothing = new_walk(self.layout, 0, 0)
        for epoch, order in enumerate(batch_orders(self.recipe, self.rows.n), start=1):
            self.orders.append(order.numpy().astype(np.int32) if self.recipe.batch_size else IN_PLACE)
            self.states.append(self._replay(nothing, epoch, 0, self.batches, self.batches)[0])
            self.losses.append(self._run(walk_kernels.LOSS, nothing, self.validation))
            if self.losses[-1] < self.losses[self.kept]:
                self.kept = epoch
            if epoch - self.kept >= self.recipe.patience or epoch >= self.recipe.max_epochs:
                self.states.append(np.array([self.room.weights, self.room.mean, self.room.square]))
                return

    def _replay(self, walk: Walk, epoch: int, first: int, stop: int, every: int) -> Floats:
        """Train steps of an epoch from the state in `room`; returns the state before every `every`-th step,
        `[… × 3 × parameters]`."""
        stopping.check()
        states = np.empty((math.ceil((stop - first) / every), 3, len(self.room.weights)), np.float32)
        self._run(walk_kernels.TRAIN, walk, self.training, epoch, first, stop, every, states)
        return states

    def _run(
        self,
        do: int,
        walk: Walk,
        table: Table,
        epoch: int = 0,
        first: int = 0,
        stop: int = 0,
        every: int = 1,
        states: Floats = NO_STATES,
    ) -> float:
        order, before = (self.orders[epoch - 1], (epoch - 1) * self.batches) if epoch else (IN_PLACE, 0)
        pace = order, self.batch, self.recipe.learning_rate, before
        subject = self.layout.plan, self.room, walk, table
        return float(walk_kernels.walk_epoch(do, *subject, *pace, first, stop, every, states))

    def _return_to(self, state: Floats) -> None:
        self.room.weights[:], self.room.mean[:], self.room.square[:] = state

    def walk_back(self, people: Floats, epochs: int) -> GradientResult:
        """From the kept network's logits, and from the validation losses of the `epochs` lowest."""
        asked = lowest(np.array(self.losses), epochs)
        networks = [self._network(epoch) for epoch in asked]
        after = np.array([network.logits(people) for network in networks], np.float32).reshape(len(asked), len(people))
        by_labels = self._walk(people, asked)
        return GradientResult(
            moves=1 - 2 * self.labels,
            logits=after[0],
            gradient=by_labels[:, : len(people)].T,
            network=networks[0],
            epochs=tuple(asked),
            epoch_logits=after,
            validation_losses=np.array(self.losses)[asked],
            validation_gradients=by_labels[:, len(people) :].T,
        )

    def _network(self, epoch: int) -> Network:
        packed = self.states[epoch][0][self.layout.places]
        return Network.from_packed(packed, self.recipe, self.rows.d, epoch, len(self.orders), self.losses[epoch])

    def _walk(self, people: Floats, asked: list[int]) -> Floats:
        """Derivatives by the labels, `[n × people + epochs asked]`."""
        walk = new_walk(self.layout, self.rows.n, len(people) + len(asked))
        every = math.ceil(math.sqrt(self.batches))
        for epoch in range(max(asked), 0, -1):
            self._begin(walk, epoch, people, asked)
            self._return_to(self.states[epoch - 1])
            stretches = self._replay(walk, epoch, 0, self.batches, every)
            for first, state in reversed(list(zip(range(0, self.batches, every), stretches, strict=True))):
                self._return_to(state)
                stop = min(first + every, self.batches)
                states = self._replay(walk, epoch, first, stop, 1)
                self._run(walk_kernels.BACK, walk, self.training, epoch, first, stop, 1, states)
        return walk.by_labels

    def _begin(self, walk: Walk, epoch: int, people: Floats, asked: list[int]) -> None:
        """Add the outcomes that depend on the weights after this epoch."""
        if epoch == self.kept:
            walk.by_weights[: len(people), self.layout.places] = self._logit_gradients(people)
            walk.begun[: len(people)] = True
        if epoch in asked:
            at = len(people) + asked.index(epoch)
            self._return_to(self.states[epoch])
            self._run(walk_kernels.LOSS_GRADIENT, walk, self.validation)
            walk.by_weights[at], walk.begun[at] = self.room.gradient, True
            self.room.gradient[:] = 0

    def _logit_gradients(self, people: Floats) -> Floats:
        """∂logit/∂w of each person by the kept network, `[people × weights]` in PyTorch's order."""
        network = self._network(self.kept)
        with one_thread(), torch.no_grad():
            # A network per person, so that sums do not depend on the number of people.
            layers = [
                (torch.from_numpy(W).expand(len(people), -1, -1), torch.from_numpy(b).expand(len(people), -1))
                for W, b in zip(network.weights, network.biases, strict=True)
            ]
            found: Floats = logit_gradients(layers, "relu", torch.from_numpy(people)[:, None])[:, 0].numpy()
            return found


def new_walk(layout: Layout, n: int, outcomes: int) -> Walk:
    """The arrays for walking a training of `n` rows back from `outcomes`."""
    size, tile = layout.parameters, layout.tile
    weights, mean, square, gradient = (aligned(outcomes, size) for _ in range(4))
    labels, begun = np.zeros((n, outcomes), np.float32), np.zeros(outcomes, bool)
    shapes = (3, size), (layout.transposed,), (tile,), (tile,), (tile,), (5, TILE), (size,)
    return Walk(weights, mean, square, gradient, labels, begun, *[aligned(*shape) for shape in shapes])

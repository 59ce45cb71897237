"""The training gradient in compiled code, on the CPU: one training with ReLU, kept so that it can
be walked backwards.

The equations are those of `sweeps`, in another order of floating-point sums. A direction stays in a
core's caches from Adam's step to the Hessian product, and the first layer of one-hot rows reads
only their entries. The state before each epoch is kept. An epoch is replayed twice, in about √steps
stretches of √steps steps, so memory grows with the square root of its steps. A sweep depends only
on its own training.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from .compiled import BACK, LOSS, LOSS_GRADIENT, TILE, TRAIN, Table, Walk, walk_epoch
from .definition import batch_orders, packed_start
from .fused import Layout, Orders, aligned, prepare, tables
from .recipe import Check, Floats, Recipe, Rows, one_thread, unpack
from .stacks import forward, logit_gradients
from .sweeps import LabelGradient, Sweep, lowest

IN_PLACE: Orders = np.empty(0, np.int32)
NO_STATES: Floats = np.empty((0, 3, 0), np.float32)


class Training:
    """One network trained, with its states before every epoch."""

    def __init__(self, recipe: Recipe, rows: Rows, sweep: Sweep, check: Check) -> None:
        prepare()
        self.recipe, self.rows, self.check = replace(recipe, seed=sweep.seed), rows, check
        self.widths, self.layout, self.labels = (
            rows.widths(recipe),
            Layout(recipe, rows),
            rows.labels(sweep.flips),
        )
        self.room = self.layout.room(packed_start(self.widths, sweep.seed).numpy())
        self.training, self.validation = tables(rows, self.labels)
        self.batch = recipe.batch_size or rows.n
        self.batches = math.ceil(rows.n / self.batch)
        self.orders: list[Orders] = []
        self.states: list[Floats] = []
        """Weights and moments `[3 × parameters]` before each epoch and after the last."""
        self.losses, self.kept = [math.inf], 0
        nothing = self._new_walk(0, 0)
        for epoch, order in enumerate(batch_orders(self.recipe, rows.n), start=1):
            self.orders.append(order.numpy().astype(np.int32) if recipe.batch_size else IN_PLACE)
            self.states.append(self._replay(nothing, epoch, 0, self.batches, self.batches)[0])
            self.losses.append(self._run(LOSS, nothing, self.validation))
            if self.losses[-1] < self.losses[self.kept]:
                self.kept = epoch
            if epoch - self.kept >= recipe.patience or epoch >= recipe.max_epochs:
                break
        self.states.append(np.array([self.room.weights, self.room.mean, self.room.square]))

    def walk_back(self, people: Floats, epochs: int) -> LabelGradient:
        """From the kept network's logits, and from the validation losses of the `epochs` lowest."""
        asked, P = lowest(np.array(self.losses), epochs), len(people)
        with one_thread(), torch.no_grad():
            # A network per person, so that sums do not depend on the number of people.
            each = torch.from_numpy(np.array(people, np.float32))[:, None]
            layers = [
                [
                    (W.expand(P, -1, -1), b.expand(P, -1))
                    for W, b in zip(*unpack(packed, self.widths), strict=True)
                ]
                for packed in (
                    torch.from_numpy(self.states[epoch][0][self.layout.places]) for epoch in asked
                )
            ]
            after = torch.stack(
                [forward(those, "relu", each)[1][:, 0, 0] for those in layers]
            ).numpy()
            by_weights: Floats = logit_gradients(layers[0], "relu", each)[:, 0].numpy()
        walk, every = (
            self._new_walk(self.rows.n, P + len(asked)),
            math.ceil(math.sqrt(self.batches)),
        )
        for epoch in range(max(asked), 0, -1):
            # The outcomes that depend on the weights after this epoch.
            if epoch == self.kept:
                walk.by_weights[:P, self.layout.places], walk.begun[:P] = by_weights, True
            if epoch in asked:
                at = P + asked.index(epoch)
                self._return_to(self.states[epoch])
                self._run(LOSS_GRADIENT, walk, self.validation)
                walk.by_weights[at], walk.begun[at] = self.room.gradient, True
                self.room.gradient[:] = 0
            self._return_to(self.states[epoch - 1])
            stretches = self._replay(walk, epoch, 0, self.batches, every)
            for first, state in reversed(
                list(zip(range(0, self.batches, every), stretches, strict=True))
            ):
                self._return_to(state)
                stop = min(first + every, self.batches)
                states = self._replay(walk, epoch, first, stop, 1)
                self._run(BACK, walk, self.training, epoch, (first, stop, 1, states))
        by_labels, losses = walk.by_labels, np.array(self.losses)[asked]
        moves, by_person, by_loss = 1 - 2 * self.labels, by_labels[:, :P].T, by_labels[:, P:].T
        return LabelGradient(moves, after[0], by_person, tuple(asked), after, losses, by_loss)

    def _replay(self, walk: Walk, epoch: int, first: int, stop: int, every: int) -> Floats:
        """Train steps of an epoch from the state in `room`; returns the state before every
        `every`-th step, `[… × 3 × parameters]`."""
        self.check()
        states = np.empty(
            (math.ceil((stop - first) / every), 3, len(self.room.weights)), np.float32
        )
        self._run(TRAIN, walk, self.training, epoch, (first, stop, every, states))
        return states

    def _run(
        self, do: int, walk: Walk, table: Table, epoch: int = 0, stretch: Any = (0, 0, 1, NO_STATES)
    ) -> float:
        """`stretch`: first and last step, how many between two states, and the states."""
        order, before = (
            (self.orders[epoch - 1], (epoch - 1) * self.batches) if epoch else (IN_PLACE, 0)
        )
        pace = order, self.batch, self.recipe.learning_rate, before
        return float(walk_epoch(do, self.layout.plan, self.room, walk, table, *pace, *stretch))

    def _return_to(self, state: Floats) -> None:
        self.room.weights[:], self.room.mean[:], self.room.square[:] = state

    def _new_walk(self, n: int, outcomes: int) -> Walk:
        """The arrays for walking a training of `n` rows back from `outcomes`."""
        size, tile = self.layout.parameters, self.layout.tile
        weights, mean, square, gradient = (aligned(outcomes, size) for _ in range(4))
        labels, begun = np.zeros((n, outcomes), np.float32), np.zeros(outcomes, bool)
        shapes = (3, size), (self.layout.transposed,), (tile,), (tile,), (tile,), (5, TILE), (size,)
        return Walk(
            weights, mean, square, gradient, labels, begun, *[aligned(*shape) for shape in shapes]
        )

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
from .stacks import Layers, forward, logit_gradients
from .sweeps import LabelGradient, Sweep, lowest

IN_PLACE: Orders = np.empty(0, np.int32)
NO_STATES: Floats = np.empty((0, 3, 0), np.float32)


class Training:
    """One network trained, with its states before every epoch."""

    def __init__(self, recipe: Recipe, rows: Rows, sweep: Sweep, check: Check) -> None:
        prepare()
        self.recipe = replace(recipe, seed=sweep.seed)
        self.rows = rows
        self.check = check
        self.widths = rows.widths(recipe)
        self.layout = Layout(recipe, rows)
        self.labels = rows.labels(sweep.flips)
        self.room = self.layout.room(packed_start(self.widths, sweep.seed).numpy())
        self.training, self.validation = tables(rows, self.labels)
        self.batch = recipe.batch_size or rows.n
        self.batches = math.ceil(rows.n / self.batch)
        self.orders: list[Orders] = []
        self.states: list[Floats] = []
        """Weights and moments `[3 × parameters]` before each epoch and after the last."""
        self.losses = [math.inf]
        self.kept = 0
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
        asked = lowest(np.array(self.losses), epochs)
        P = len(people)
        with one_thread(), torch.no_grad():
            # A network per person, so that sums do not depend on the number of people.
            X = torch.from_numpy(np.array(people, np.float32))[:, None]
            logits = []
            for epoch in asked:
                outputs = forward(self._copies(epoch, P), "relu", X)[1]
                logits.append(outputs[:, 0, 0])
            after = torch.stack(logits).numpy()
            kept = self._copies(asked[0], P)
            by_weights: Floats = logit_gradients(kept, "relu", X)[:, 0].numpy()
        walk = self._new_walk(self.rows.n, P + len(asked))
        every = math.ceil(math.sqrt(self.batches))
        for epoch in range(max(asked), 0, -1):
            # The outcomes that depend on the weights after this epoch.
            if epoch == self.kept:
                walk.by_weights[:P, self.layout.places] = by_weights
                walk.begun[:P] = True
            if epoch in asked:
                outcome = P + asked.index(epoch)
                self._return_to(self.states[epoch])
                self._run(LOSS_GRADIENT, walk, self.validation)
                walk.by_weights[outcome] = self.room.gradient
                walk.begun[outcome] = True
                self.room.gradient[:] = 0
            self._return_to(self.states[epoch - 1])
            states_before = self._replay(walk, epoch, 0, self.batches, every)
            stretches = list(zip(range(0, self.batches, every), states_before, strict=True))
            for first, state in reversed(stretches):
                self._return_to(state)
                stop = min(first + every, self.batches)
                states = self._replay(walk, epoch, first, stop, 1)
                self._run(BACK, walk, self.training, epoch, (first, stop, 1, states))
        by_labels = walk.by_labels
        losses = np.array(self.losses)[asked]
        moves = 1 - 2 * self.labels
        by_person = by_labels[:, :P].T
        by_loss = by_labels[:, P:].T
        return LabelGradient(moves, after[0], by_person, tuple(asked), after, losses, by_loss)

    def _copies(self, epoch: int, count: int) -> Layers:
        """The network after an epoch, as so many networks side by side."""
        packed = torch.from_numpy(self.states[epoch][0][self.layout.places])
        weights, biases = unpack(packed, self.widths)
        return [
            (W.expand(count, -1, -1), b.expand(count, -1))
            for W, b in zip(weights, biases, strict=True)
        ]

    def _replay(self, walk: Walk, epoch: int, first: int, stop: int, every: int) -> Floats:
        """Train steps of an epoch from the state in `room`; returns the state before every
        `every`-th step, `[… × 3 × parameters]`."""
        self.check()
        count = math.ceil((stop - first) / every)
        states = np.empty((count, 3, len(self.room.weights)), np.float32)
        self._run(TRAIN, walk, self.training, epoch, (first, stop, every, states))
        return states

    def _run(
        self, do: int, walk: Walk, table: Table, epoch: int = 0, stretch: Any = (0, 0, 1, NO_STATES)
    ) -> float:
        """`stretch`: first and last step, how many between two states, and the states."""
        order = IN_PLACE
        steps_before = 0
        if epoch:
            order = self.orders[epoch - 1]
            steps_before = (epoch - 1) * self.batches
        pace = (order, self.batch, self.recipe.learning_rate, steps_before)
        return float(walk_epoch(do, self.layout.plan, self.room, walk, table, *pace, *stretch))

    def _return_to(self, state: Floats) -> None:
        self.room.weights[:], self.room.mean[:], self.room.square[:] = state

    def _new_walk(self, n: int, outcomes: int) -> Walk:
        """The arrays for walking a training of `n` rows back from `outcomes`."""
        size = self.layout.parameters
        tile = self.layout.tile
        weights, mean, square, gradient = (aligned(outcomes, size) for _ in range(4))
        labels = np.zeros((n, outcomes), np.float32)
        begun = np.zeros(outcomes, bool)
        return Walk(
            weights,
            mean,
            square,
            gradient,
            labels,
            begun,
            factors=aligned(3, size),
            transposed=aligned(self.layout.transposed),
            deltas=aligned(tile),
            tangents=aligned(tile),
            errors=aligned(tile),
            rows=aligned(5, TILE),
            zeros=aligned(size),
        )

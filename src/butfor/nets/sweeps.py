"""The exact training gradient: trainings kept so that they can be walked backwards, many networks
side by side.

Training is a program; this file differentiates it. One step of Adam, with g the gradient of the
batch's mean loss at w, and w, m, v, g ∈ ℝᵖ:

    m' = β₁m + (1−β₁)g      v' = β₂v + (1−β₂)g²      w' = w − α·m'/D,   D = √v'/s + ε

with α and s from Adam's bias corrections. Backwards, with λ the derivative of an outcome (a
person's logit after the kept epoch, or the validation loss after some epoch) by the state after the
step:

    λ_m' ← λ_m' − (α/D)·λ_w'          λ_v' ← λ_v' + α·m'/(2D²·s·√v')·λ_w'
    λ_g  = (1−β₁)λ_m' + 2(1−β₂)g·λ_v'
    λ_w  = λ_w' + H(w)λ_g             λ_m = β₁λ_m'        λ_v = β₂λ_v'
    ∂/∂y_i ← ∂/∂y_i − (1/B)·J_i(w)·λ_g            for the rows i of the batch, J_i = ∂logit_i/∂w

The product J_i·λ_g is the forward half of the Hessian product, so the derivative by labels is free.
With more than two classes y_i goes from 0 to 1 on the way from one label to another, and J_i is
that of the difference of their scores; a person's logit is the difference of the best scores of the
two sides. Which epoch is kept is constant between the label values where it jumps: that is not
differentiated, and neither is a ReLU at its kink.

The state after every epoch is kept, and an epoch's steps are trained again on the way back. A
network joins the walk at its latest epoch with an outcome. The networks are sorted by it, so that
those at work come first. Shapes as in `stacks`; each network has D directions, one per person and
one per validation loss.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .recipe import BETA1, BETA2, EPSILON, Check, FlipSet, Floats, Recipe, Rows, count
from .stacks import (
    Curvature,
    Data,
    Networks,
    Positions,
    Stack,
    State,
    forward,
    hot,
    logit_gradients,
    of,
    stacking,
)

Numbers = NDArray[np.floating[Any]]
CPU = torch.device("cpu")

BLOCK_BYTES = {"cpu": 2**30, "cuda": 2**34}
"""Bytes that a block of networks may take."""
MOST_NETWORKS = {"cpu": 16, "cuda": 4096}
"""The most networks in one block; more leave the caches."""
MOST_DIRECTIONS = {"cpu": 32, "cuda": 4096}
"""The most directions in one Hessian product; more push its sums out of the cache."""


@dataclass(frozen=True, eq=False)
class LabelGradient:
    """One training and its derivatives by the labels.

    The network kept has `logits [people]` and `gradient [people × n]` = ∂logit/∂y_i; a flip moves
    y_i by `moves [n]`. `epochs [E]` have the lowest validation losses, the kept one first:
    `epoch_logits [E × people]` are the logits after each, `validation_losses [E]` its loss, and
    `validation_gradients [E × n]` = ∂loss/∂y_i."""

    moves: Floats
    logits: Numbers
    gradient: Numbers
    epochs: tuple[int, ...]
    epoch_logits: Numbers
    validation_losses: Numbers
    validation_gradients: Numbers


class Sweep(NamedTuple):
    """One network, by its seed and flips, and the people whose logits are differentiated, by their
    positions."""

    seed: int
    flips: FlipSet
    people: Positions


def sweep_many(
    recipe: Recipe,
    rows: Rows,
    sweeps: Sequence[Sweep],
    people: Floats,
    epochs: int = 1,
    device: torch.device = CPU,
    check: Check = lambda: None,
    dtype: torch.dtype = torch.float32,
) -> list[LabelGradient]:
    """Train each sweep's network and differentiate its people's logits, and its `epochs` lowest
    validation losses, by every label."""
    results: dict[int, LabelGradient] = {}
    with stacking():
        data = Data.of(rows, people, device, dtype)
        for asked in {len(sweep.people) for sweep in sweeps}:
            alike = [k for k, sweep in enumerate(sweeps) if len(sweep.people) == asked]
            size = block_size(recipe, rows, data, asked + epochs)
            for part in (alike[first : first + size] for first in range(0, len(alike), size)):
                block = Block(recipe, rows, data, [sweeps[k] for k in part], check)
                results |= zip(part, block.walk_back(epochs), strict=True)
    return [results[k] for k in range(len(sweeps))]


def block_size(recipe: Recipe, rows: Rows, data: Data, directions: int) -> int:
    """The number of networks in a block. Memory is for the states after every epoch and before
    every step of one, the adjoints, and the hidden layers of a batch."""
    n = rows.n
    p = count(rows.widths(recipe))
    batch = min(recipe.batch_size or rows.n, rows.n)
    layers = max(batch, len(data.X_val)) * (rows.d + 6 * sum(recipe.hidden) + 8)
    states = 3 * p * (recipe.max_epochs + math.ceil(n / batch))
    kind = data.X.device.type
    each = data.X.element_size() * (layers + directions * (10 * p + 2 * n) + states)
    # With many directions a single network already fills the CPU's caches.
    most = MOST_NETWORKS[kind]
    if kind == "cpu":
        most = min(most, MOST_DIRECTIONS[kind] // directions)
    return max(1, min(BLOCK_BYTES[kind] // each, most))


class Adjoint(NamedTuple):
    """Derivatives of D outcomes of each network by its state, `w, m, v [S × D × p]`, and by its
    labels so far, `y [S × n × D]`."""

    w: Tensor
    m: Tensor
    v: Tensor
    y: Tensor


class Block(Stack):
    """Networks trained side by side and ready to be walked back. `states[e]` are those after epoch
    e of the networks `members[e]`, who took part in it."""

    def __init__(
        self, recipe: Recipe, rows: Rows, data: Data, sweeps: Sequence[Sweep], check: Check
    ) -> None:
        self.rows = rows
        self.sweeps = sweeps
        self.labels = np.array([rows.labels(sweep.flips) for sweep in sweeps])
        super().__init__(recipe, rows, data, self.labels, [sweep.seed for sweep in sweeps], check)
        self.new = None if rows.flipped is None else self.index(rows.flipped)
        start = self.weights.clone()
        self.states = [State(start, *torch.zeros(2, *start.shape).to(start))]
        self.members = [np.arange(len(sweeps))]
        for members, after in self.train(keep_orders=True):
            self.states.append(after)
            self.members.append(members)

    def walk_back(self, epochs: int) -> Iterator[LabelGradient]:
        """Differentiate the kept networks' logits and the `epochs` lowest validation losses."""
        considered = [lowest(losses, epochs) for losses in self.losses]
        # [S × E]: epochs, padded with -1
        self.asked = np.array([each + [-1] * (epochs - len(each)) for each in considered])
        self.last = self.asked.max(axis=1)
        self.order = np.argsort(-self.last, kind="stable")
        self.place = np.argsort(self.order)
        people = self.data.people[self.index(np.array([sweep.people for sweep in self.sweeps]))]
        contrast = self._contrast(people)
        layers = self.layers(self.weights)
        outcomes = logit_gradients(layers, self.recipe.activation, people, contrast)
        logits = self._epoch_logits(people, contrast)
        gradients = self._walk(outcomes).cpu().numpy()
        width = outcomes.shape[1]
        for s, kept in enumerate(considered):
            moves = np.ones_like(self.labels[s])
            if self.new is None:
                moves = 1 - 2 * self.labels[s]
            after = logits[s, : len(kept)]
            yield LabelGradient(
                moves=moves,
                logits=after[0],
                gradient=gradients[s, :width],
                epochs=tuple(kept),
                epoch_logits=after,
                validation_losses=self.losses[s, kept],
                validation_gradients=gradients[s, width:][: len(kept)],
            )

    def _contrast(self, people: Tensor) -> Tensor | None:
        """With more than two classes: the weight of each score in a person's logit, `[S × P ×
        K]`."""
        if self.rows.towards is None:
            return None
        scores = forward(self.layers(self.weights), self.recipe.activation, people)[1]
        towards = torch.from_numpy(self.rows.towards).to(scores.device)
        best = scores.masked_fill(~towards, -torch.inf).argmax(2)
        rival = scores.masked_fill(towards, -torch.inf).argmax(2)
        return hot(best, scores) - hot(rival, scores)

    def _state(self, epoch: int, networks: Positions) -> State:
        """These networks' states after an epoch."""
        return of(self.states[epoch], self.index(np.searchsorted(self.members[epoch], networks)))

    def _epoch_logits(self, people: Tensor, contrast: Tensor | None) -> Numbers:
        """The people's logits after each epoch with an outcome, `[S × E × P]`."""
        dtype = people.new_zeros(0).cpu().numpy().dtype
        logits: Numbers = np.zeros((*self.asked.shape, people.shape[1]), dtype)
        for epoch in np.unique(self.asked[self.asked >= 0]):
            networks, number = np.nonzero(self.asked == epoch)
            layers = self.layers(self._state(epoch, networks).w)
            which = self.index(networks)
            outputs = forward(layers, self.recipe.activation, people[which])[1]
            if contrast is None:
                after = outputs[:, :, 0]
            else:
                after = (outputs * contrast[which]).sum(2)
            logits[networks, number] = after.cpu().numpy()
        return logits

    def _walk(self, outcomes: Tensor) -> Tensor:
        """Derivatives by the labels `[S × D × n]`: of the logits, whose derivatives by the kept
        weights are `outcomes [S × P × p]`, then of the validation losses."""
        S, width = outcomes.shape[:2]
        D = width + self.asked.shape[1]
        w, m, v = (outcomes.new_zeros(S, D, outcomes.shape[2]) for _ in range(3))
        adjoint = Adjoint(w, m, v, outcomes.new_zeros(S, self.n, D))
        stack = of(self.networks, self.index(self.order))
        for epoch in range(int(self.last.max()), 0, -1):
            # The outcomes that depend on the weights after this epoch.
            keeping = np.flatnonzero(self.kept == epoch)
            asking, number = np.nonzero(self.asked == epoch)
            if len(keeping):
                w[self.index(self.place[keeping]), :width] = outcomes[self.index(keeping)]
            if len(asking):
                layers = self.layers(self._state(epoch, asking).w)
                X, y = self.validation(len(asking))
                by_loss = Curvature(layers, self.recipe.activation, X, y).gradient()
                w[self.index(self.place[asking]), self.index(width + number)] = by_loss
            working = slice(int((self.last >= epoch).sum()))
            networks = of(stack, working)
            back = of(adjoint, working)
            states = [self._state(epoch - 1, self.order[working])]
            for batch in range(self.batches - 1):
                states.append(self.advance(epoch, batch, states[-1], networks))
            for batch in reversed(range(self.batches)):
                self._step_back(epoch, batch, states[batch], networks, back)
        return adjoint.y.mT[self.index(self.place)]

    def _step_back(
        self, epoch: int, batch: int, state: State, stack: Networks, adjoint: Adjoint
    ) -> None:
        """From the adjoint of the state after a step to that of the state before it."""
        X, y, rows = self.batch(epoch, batch, stack)
        curvature = Curvature(self.layers(state.w), self.recipe.activation, X, y)
        g = curvature.gradient()
        m, v, rate, scale = self.adam(epoch, batch, state, g)
        root = v.sqrt()
        denominator = root / scale + EPSILON
        # If v' is 0, the weight never had a gradient (a dead ReLU): nothing flows, though 1/√v' is
        # infinite.
        by_v = torch.where(root > 0, rate * m / (2 * denominator**2 * scale * root), 0)
        adjoint.m.addcmul_(adjoint.w, (-rate / denominator)[:, None])
        adjoint.v.addcmul_(adjoint.w, by_v[:, None])
        by_g = ((2 * (1 - BETA2)) * g)[:, None] * adjoint.v
        by_g.add_(adjoint.m, alpha=1 - BETA1)
        adjoint.m.mul_(BETA1)
        adjoint.v.mul_(BETA2)
        moves = None
        if self.new is not None:  # the new label minus the old one of each row, one-hot
            new = self.new.expand(len(y), -1) if rows is None else self.new[rows]
            moves = hot(new, curvature.probability) - hot(y, curvature.probability)
        most = MOST_DIRECTIONS[g.device.type]
        for first in range(0, by_g.shape[1], most):
            self.check()
            some = slice(first, first + most)
            tangents, products = curvature.products(self.layers(by_g[:, some]), moves)
            adjoint.w[:, some] += products
            if rows is None:
                adjoint.y[:, :, some].sub_(tangents, alpha=1 / self.n)
            else:
                # A batch has no row twice, so adding by position is safe.
                network = torch.arange(len(rows), device=rows.device)[:, None]
                adjoint.y[network, rows, some] -= tangents / rows.shape[1]


def lowest(losses: Numbers, epochs: int) -> list[int]:
    """The epochs with the lowest validation losses, ties by the earliest; [0] if training
    diverged."""
    by_loss = np.argsort(losses, kind="stable")[:epochs]
    return [int(epoch) for epoch in by_loss if np.isfinite(losses[epoch])] or [0]

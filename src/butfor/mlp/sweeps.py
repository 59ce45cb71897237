"""The exact training gradient: trainings kept so that they can be walked backwards, many networks side by side.

Training is a program; this file differentiates it. One step of Adam, with g the gradient of the batch's mean loss at w,
and w, m, v, g ∈ ℝᵖ:

    m' = β₁m + (1−β₁)g      v' = β₂v + (1−β₂)g²      w' = w − α·m'/D,   D = √v'/s + ε

with α and s from Adam's bias corrections. Backwards, with λ the derivative of an outcome (a person's logit after the
kept epoch, or the validation loss after some epoch) by the state after the step:

    λ_m' ← λ_m' − (α/D)·λ_w'          λ_v' ← λ_v' + α·m'/(2D²·s·√v')·λ_w'
    λ_g  = (1−β₁)λ_m' + 2(1−β₂)g·λ_v'
    λ_w  = λ_w' + H(w)λ_g             λ_m = β₁λ_m'        λ_v = β₂λ_v'
    ∂/∂y_i ← ∂/∂y_i − (1/B)·J_i(w)·λ_g            for the rows i of the batch, J_i = ∂logit_i/∂w

The product J_i·λ_g is the forward half of the Hessian product, so the derivative by labels is free. With more than two
classes y_i goes from 0 to 1 on the way from one label to another, and J_i is that of the difference of their scores; a
person's logit is the difference of the two scores that the decision split compares. Which epoch is kept is constant
between the label values where it jumps: that is not differentiated, and neither is a ReLU at its kink.

A network joins the walk at its latest epoch with an outcome. The networks are sorted by it, so that those at work come
first. Shapes as in `butfor.mlp.stacks`; each network has D directions, one per person and one per validation loss.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from butfor import stopping
from butfor.errors import SettingError
from butfor.learn.protocols import FlipSet, Floats
from butfor.mlp.recipe import BETA1, BETA2, EPSILON, Network, Recipe, Rows, one_thread
from butfor.mlp.stacked import find_device, float32_products
from butfor.mlp.stacks import (
    Curvature,
    Data,
    Networks,
    PerNetwork,
    Positions,
    Stack,
    State,
    forward,
    hot,
    logit_gradients,
)

Numbers = NDArray[np.floating[Any]]

MEMORY_LIMIT = {"cpu": 2**30, "cuda": 2**34}
"""The default limit on the bytes of a block of networks."""
MOST_NETWORKS = {"cpu": 16, "cuda": 4096}
"""The most networks in one block; more leave the caches."""
PARTS = 3
"""Numbers of a state per parameter: the weight and two moments."""
MOST_DIRECTIONS = {"cpu": 32, "cuda": 4096}
"""The most directions in one Hessian product; more push its sums out of the cache."""


@dataclass(frozen=True, eq=False)
class GradientResult:
    """One training run and its derivatives by the labels.

    `network` was kept, with `logits [people]` and `gradient [people × n]` = ∂logit/∂y_i; a flip moves y_i by `moves
    [n]`. `epochs [E]` have the lowest validation losses, the kept one first: `epoch_logits [E × people]` are the logits
    after each, `validation_losses [E]` its loss, and `validation_gradients [E × n]` = ∂loss/∂y_i."""

    moves: Floats
    logits: Numbers
    gradient: Numbers
    network: Network
    epochs: tuple[int, ...]
    epoch_logits: Numbers
    validation_losses: Numbers
    validation_gradients: Numbers

    def chances(self, tolerance: float) -> Numbers:
        """The probability that each epoch is kept after label i is flipped, `[E × n]`: a softmax of the predicted
        validation losses, whose differences mean little below `tolerance`."""
        if len(self.epochs) == 1:
            return np.ones((1, len(self.moves)))
        losses = self.validation_losses[:, None] + self.moves * self.validation_gradients
        weights: Numbers = np.exp((losses.min(axis=0) - losses) / tolerance)
        return weights / weights.sum(axis=0)

    def flip_effects(self, tolerance: float) -> Numbers:
        """The predicted change of the logit if label i is flipped, `[people × n]`."""
        jumps = (self.epoch_logits - self.logits).T @ self.chances(tolerance)
        return jumps.astype(self.gradient.dtype) + self.moves * self.gradient


class Sweep(NamedTuple):
    """One network, by its seed and flips, and the people whose logits are differentiated, by their positions."""

    seed: int
    flips: FlipSet
    people: Positions


def sweep_many(
    recipe: Recipe,
    rows: Rows,
    sweeps: Sequence[Sweep],
    people: Floats,
    *,
    epochs: int = 1,
    device: str | torch.device = "cpu",
    dtype: torch.dtype = torch.float32,
    memory_limit: int | None = None,
) -> list[GradientResult]:
    """Train each sweep's network and differentiate its people's logits, and its `epochs` lowest validation losses, by
    every label. The recipe gives everything but the seed. Labels may be any real numbers."""
    if epochs < 1:
        raise SettingError(f"epochs={epochs} must be at least 1.")
    where = find_device(str(device))
    limit = MEMORY_LIMIT[where.type] if memory_limit is None else memory_limit
    results: dict[int, GradientResult] = {}
    with one_thread(), float32_products(), torch.no_grad():
        data = Data.of(rows, people, where, dtype)
        for places in _blocks(recipe, data, [len(sweep.people) + epochs for sweep in sweeps], limit):
            block = Block(recipe, data, rows, [sweeps[k] for k in places], limit)
            results |= zip(places, block.walk_back(epochs), strict=True)
    return [results[k] for k in range(len(sweeps))]


def _blocks(recipe: Recipe, data: Data, directions: Sequence[int], memory_limit: int) -> Iterator[list[int]]:
    """Positions of sweeps for each block, those with most directions first, so that little is padded."""
    left = sorted(range(len(directions)), key=lambda k: -directions[k])
    while left:
        size = _block_size(recipe, data, directions[left[0]], memory_limit)
        size = math.ceil(len(left) / math.ceil(len(left) / size))
        yield left[:size]
        left = left[size:]


def _block_size(recipe: Recipe, data: Data, directions: int, memory_limit: int) -> int:
    """The number of networks in a block. Half the limit is for checkpoints, enough to replay each step only once, the
    other half for the weights after each epoch, the adjoints, and the hidden layers of a batch."""
    n, d = data.X.shape
    p, batch = recipe.parameters(d), min(recipe.batch_size or n, n)
    steps = recipe.max_epochs * math.ceil(n / batch)
    layers = max(batch, len(data.X_val)) * (d + 6 * sum(recipe.hidden) + 8)
    working = layers + directions * (10 * p + 2 * n) + (recipe.max_epochs + 1) * p
    checkpoints = 2 * PARTS * p * math.ceil(math.sqrt(steps))
    fitting = memory_limit // (2 * data.X.element_size() * max(working, checkpoints))
    kind = data.X.device.type
    # With many directions a single network already fills the CPU's caches.
    most = min(MOST_NETWORKS[kind], MOST_DIRECTIONS[kind] // directions) if kind == "cpu" else MOST_NETWORKS[kind]
    return max(1, min(fitting, most))


@dataclass
class Adjoint(PerNetwork):
    """Derivatives of D outcomes of each network by its state, `w, m, v [S × D × p]`, and by its labels so far,
    `y [S × n × D]`."""

    w: Tensor
    m: Tensor
    v: Tensor
    y: Tensor


class Block(Stack):
    """Networks trained side by side and ready to be walked back.

    `course[e]` are the weights after epoch e (0: the initial ones) of the networks `members[e]`, those still in
    training then. `checkpoints` are the states before every `stride`-th step, in a quarter of the memory."""

    def __init__(self, recipe: Recipe, data: Data, rows: Rows, sweeps: Sequence[Sweep], memory_limit: int) -> None:
        self.sweeps, self.labels = sweeps, np.array([rows.labels(sweep.flips) for sweep in sweeps])
        super().__init__(recipe, data, self.labels, [sweep.seed for sweep in sweeps])
        self.decision_split = rows.decision_split
        if self.decision_split is not None:
            self.new = self.index(self.decision_split.new)
            self.towards = torch.from_numpy(self.decision_split.towards).to(data.X.device)
        all_states = recipe.max_epochs * self.batches * PARTS * self.p * data.X.element_size() * len(sweeps)
        self.stride, self.checkpoints = math.ceil(4 * all_states / memory_limit), list[State]()
        self.course, self.members = [self.weights.clone()], [np.arange(len(sweeps))]
        for members, after in self.train(self._record):
            self.course.append(after.w)
            self.members.append(members)

    def _record(self, step: int, state: State) -> None:
        if step % self.stride == 0:
            self.checkpoints.append(state)

    def walk_back(self, epochs: int) -> list[GradientResult]:
        """Differentiate the kept networks' logits and the `epochs` lowest validation losses."""
        considered = [lowest(losses, epochs) for losses in self.losses]
        # [S × E]: epochs, padded with -1
        self.asked = np.array([each + [-1] * (epochs - len(each)) for each in considered])
        self.last = self.asked.max(axis=1)
        self.order = np.argsort(-self.last, kind="stable")
        self.place = np.argsort(self.order)
        people = self._people()
        contrast = self._contrast(people)
        outcomes = logit_gradients(self.layers(self.weights), self.recipe.activation, people, contrast)
        logits = self._epoch_logits(people, contrast)
        gradients, width, weights = self._walk(outcomes).cpu().numpy(), outcomes.shape[1], self.weights.cpu().numpy()
        results = []
        for s, (sweep, each) in enumerate(zip(self.sweeps, considered, strict=True)):
            ended = self.kept[s], self.ran[s], self.losses[s, self.kept[s]]
            network = Network.from_packed(weights[s], replace(self.recipe, seed=sweep.seed), self.d, *ended)
            moves = 1 - 2 * self.labels[s] if self.decision_split is None else np.ones_like(self.labels[s])
            after, by_label = logits[s, : len(each), : len(sweep.people)], gradients[s, : len(sweep.people)]
            losses, by_loss = self.losses[s, each], gradients[s, width : width + len(each)]
            results.append(GradientResult(moves, after[0], by_label, network, tuple(each), after, losses, by_loss))
        return results

    def _people(self) -> Tensor:
        """Each network's people `[S × P × d]`, padded with the first of all."""
        at = np.zeros((len(self.sweeps), max(len(sweep.people) for sweep in self.sweeps)), np.int64)
        for row, sweep in zip(at, self.sweeps, strict=True):
            row[: len(sweep.people)] = sweep.people
        return self.data.people[self.index(at)]

    def _contrast(self, people: Tensor) -> Tensor | None:
        """With more than two classes: the weight of each score in a person's logit, `[S × P × K]`."""
        if self.decision_split is None:
            return None
        scores = forward(self.layers(self.weights), self.recipe.activation, people)[1]
        best, rival = (scores.masked_fill(out, -torch.inf).argmax(2) for out in (~self.towards, self.towards))
        return hot(best, scores) - hot(rival, scores)

    def _weights(self, epoch: int, networks: Positions) -> Tensor:
        """These networks' weights after an epoch, `[networks × p]`."""
        return self.course[epoch][self.index(np.searchsorted(self.members[epoch], networks))]

    def _epoch_logits(self, people: Tensor, contrast: Tensor | None) -> Numbers:
        """The people's logits after each epoch with an outcome, `[S × E × P]`."""
        logits: Numbers = np.zeros((*self.asked.shape, people.shape[1]), people.new_zeros(0).cpu().numpy().dtype)
        for epoch in np.unique(self.asked[self.asked >= 0]):
            networks, number = np.nonzero(self.asked == epoch)
            layers = self.layers(self._weights(epoch, networks))
            at = self.index(networks)
            after = forward(layers, self.recipe.activation, people[at])[1]
            after = after[:, :, 0] if contrast is None else (after * contrast[at]).sum(2)
            logits[networks, number] = after.cpu().numpy()
        return logits

    def _walk(self, outcomes: Tensor) -> Tensor:
        """Derivatives by the labels `[S × D × n]`: of the logits, whose derivatives by the kept weights are `outcomes
        [S × P × p]`, then of the validation losses."""
        S, D = len(outcomes), outcomes.shape[1] + self.asked.shape[1]
        w, m, v = (outcomes.new_zeros(S, D, self.p) for _ in range(3))
        adjoint, stack = Adjoint(w, m, v, outcomes.new_zeros(S, self.n, D)), self.networks.of(self.index(self.order))
        steps = range(int(self.last.max()) * self.batches)
        for first in reversed(steps[:: self.stride]):
            for step, state in reversed(self._replay(stack, steps[first : first + self.stride])):
                epoch, batch = divmod(step, self.batches)
                if batch == self.batches - 1:
                    self._begin(epoch + 1, outcomes, adjoint)
                working = slice(self._at_work(epoch + 1))
                self._step_back(step, state.of(working), stack.of(working), adjoint.of(working))
        return adjoint.y.mT[self.index(self.place)]

    def _at_work(self, epoch: int) -> int:
        """The number of networks, in the order of their last epochs, that are walked back in this epoch."""
        return int((self.last >= epoch).sum())

    def _replay(self, stack: Networks, steps: range) -> list[tuple[int, State]]:
        """The states before these steps of the networks at work, from the checkpoint before the first step."""
        epoch, start = steps.start // self.batches + 1, self.checkpoints[steps.start // self.stride]
        networks = self.order[: self._at_work(epoch)]
        states = [start.of(self.index(np.searchsorted(self.members[epoch], networks)))]
        for step in steps[:-1]:
            states.append(self.advance(step, states[-1], stack.of(slice(len(networks)))))
        return list(zip(steps, states, strict=True))

    def _begin(self, epoch: int, outcomes: Tensor, adjoint: Adjoint) -> None:
        """Add the outcomes that depend on the weights after this epoch."""
        keeping = np.flatnonzero(self.kept == epoch)
        width = outcomes.shape[1]
        if len(keeping):
            adjoint.w[self.index(self.place[keeping]), :width] = outcomes[self.index(keeping)]
        asking, number = np.nonzero(self.asked == epoch)
        if len(asking):
            layers = self.layers(self._weights(epoch, asking))
            by_loss = Curvature(layers, self.recipe.activation, *self.validation(len(asking))).gradient()
            adjoint.w[self.index(self.place[asking]), self.index(width + number)] = by_loss

    def _step_back(self, step: int, state: State, stack: Networks, adjoint: Adjoint) -> None:
        """From the adjoint of the state after a step to that of the state before it."""
        X, y, at = self.batch(step, stack)
        curvature = Curvature(self.layers(state.w), self.recipe.activation, X, y)
        g = curvature.gradient()
        m, v, rate, scale = self.adam(step, state, g)
        root = v.sqrt()
        denominator = root / scale + EPSILON
        # If v' is 0, the weight never had a gradient (a dead ReLU): nothing flows, though 1/√v' is infinite.
        by_v = torch.where(root > 0, rate * m / (2 * denominator**2 * scale * root), 0)
        adjoint.m.addcmul_(adjoint.w, (-rate / denominator)[:, None])
        adjoint.v.addcmul_(adjoint.w, by_v[:, None])
        by_g = ((2 * (1 - BETA2)) * g)[:, None] * adjoint.v
        by_g.add_(adjoint.m, alpha=1 - BETA1)
        adjoint.m *= BETA1
        adjoint.v *= BETA2
        moves = self._moves(y, at, curvature.probability)
        most = MOST_DIRECTIONS[g.device.type]
        for first in range(0, by_g.shape[1], most):
            stopping.check()
            some = slice(first, first + most)
            tangents, products = curvature.products(self.layers(by_g[:, some]), moves)
            adjoint.w[:, some] += products
            if at is None:
                adjoint.y[:, :, some].sub_(tangents, alpha=1 / self.n)
            else:
                # A batch has no row twice, so adding by position is safe.
                network = torch.arange(len(at), device=at.device)[:, None]
                adjoint.y[network, at, some] -= tangents / at.shape[1]

    def _moves(self, y: Tensor, at: Tensor | None, like: Tensor) -> Tensor | None:
        """With more than two classes: new label minus old label of each row of a batch, one-hot."""
        if self.decision_split is None:
            return None
        new = self.new.expand(len(y), -1) if at is None else self.new[at]
        return hot(new, like) - hot(y, like)


def lowest(losses: Numbers, epochs: int) -> list[int]:
    """The epochs with the lowest validation losses, ties by the earliest; [0] if training diverged."""
    by_loss = np.argsort(losses, kind="stable")[:epochs]
    return [int(epoch) for epoch in by_loss if np.isfinite(losses[epoch])] or [0]

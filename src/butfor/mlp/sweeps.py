"""Many training runs walked backwards side by side: `butfor.mlp.unroll` for networks of many seeds and flip sets.

One small network keeps no processor busy: its time goes into the calls between its products. So S networks that
share rows and recipe, and differ in seed and labels, take every step together, forwards and backwards, as batched
matrix products. The formulas are those of `unroll`. What differs between the networks is kept apart:

- Early stopping. Forwards a network leaves the stack at the end of the epoch in which it stops. Backwards it joins
  at the latest epoch of which something is asked: the networks are sorted by it, so that those at work are the first.
- Directions. The walk is linear in the adjoints, and an adjoint is 0 until its epoch is reached. So each network's
  directions are sorted by epoch as well, and those at work are the first.
- Accuracy. Being linear, the walk may also start from fewer vectors than there are people, if theirs are nearly
  combinations of these.

Shapes: S networks, P people or D directions of each, B rows of a batch, p numbers in a network, packed in PyTorch's
order. The first axis is always the network.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from threading import Event
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from butfor.errors import SettingError
from butfor.mlp.derivatives import GradientResult
from butfor.mlp.onethread import one_thread
from butfor.mlp.recipe import BETA1, BETA2, EPSILON, Network, Recipe, Rows, unpack
from butfor.mlp.reference import batch_orders, packed_start
from butfor.mlp.stacked import float32_products, present
from butfor.mlp.stacks import Curvature, forward, logit_gradients, principal
from butfor.mlp.unroll import MOST_DIRECTIONS, Layers, State, Tape
from butfor.seam import FlipSet, Floats, Progress

Numbers = NDArray[np.floating[Any]]
Positions = NDArray[np.int64]

MEMORY_LIMIT = {"cpu": 2**30, "cuda": 2**34}
"""Bytes that a block of networks may take by default, its training states and what it computes with."""

MOST_NETWORKS = {"cpu": 16, "cuda": 4096}
"""Networks in one block: more would only leave the caches."""


class Halted(Exception):
    """Somebody set `halt`: there is no result."""


class Sweep(NamedTuple):
    """One network, by its seed and the labels turned, and the people whose logits are differentiated: positions
    in the array of people."""

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
    accuracy: float = 0.0,
    device: str | torch.device = "cpu",
    dtype: torch.dtype = torch.float32,
    memory_limit: int | None = None,
    progress: Progress | None = None,
    halt: Event | None = None,
) -> list[GradientResult]:
    """Train each sweep's network and differentiate its people's logits by every label. The recipe gives everything
    but the seed.

    `epochs`: how many epochs' validation losses to differentiate; 0 for none, and then there are no
    `validation_gradients`. `accuracy`: the share (in the root of a sum of squares) of the people's ∂logit/∂w that
    may be left out to walk back fewer directions than people; 0 walks back every person's own. `halt`: once it is set,
    this ends with `Halted` between two steps.
    """
    if epochs < 0:
        raise SettingError(f"epochs={epochs} must not be below 0.")
    if not 0 <= accuracy < 1:
        raise SettingError(f"accuracy={accuracy} must be from 0 up and below 1.")
    where = present(str(device))
    limit = MEMORY_LIMIT[where.type] if memory_limit is None else memory_limit
    results: dict[int, GradientResult] = {}
    with one_thread(), float32_products(), torch.no_grad():
        data = Data.of(rows, people, where, dtype)
        for places in _blocks(recipe, data, [len(sweep.people) + epochs for sweep in sweeps], limit):
            block = Block(recipe, data, rows, [sweeps[k] for k in places], limit, halt)
            results |= zip(places, block.swept(epochs, accuracy), strict=True)
            if progress:
                progress(len(places))
    return [results[k] for k in range(len(sweeps))]


def _blocks(recipe: Recipe, data: Data, directions: Sequence[int], memory_limit: int) -> Iterator[list[int]]:
    """Positions of the sweeps to be done together, those with most directions first: few are padded."""
    left = sorted(range(len(directions)), key=lambda k: -directions[k])
    while left:
        size = _block_size(recipe, data, max(1, directions[left[0]]), memory_limit)
        size = math.ceil(len(left) / math.ceil(len(left) / size))
        yield left[:size]
        left = left[size:]


def _block_size(recipe: Recipe, data: Data, directions: int, memory_limit: int) -> int:
    """How many networks to take at once. Half the limit is for checkpoints, enough to replay each step only once;
    the other half for the weights after each epoch, the adjoints, and the hidden layers of a batch."""
    n, d = data.X.shape
    p, batch = recipe.parameters(d), min(recipe.batch_size or n, n)
    steps = recipe.max_epochs * math.ceil(n / batch)
    layers = max(batch, len(data.X_val)) * (d + 6 * sum(recipe.hidden) + 8)
    working = layers + directions * (10 * p + 2 * n) + (recipe.max_epochs + 1) * p
    # The stride between checkpoints is a power of two, and there must be as many of them as it is long.
    checkpoints = 2 * len(State._fields) * p * 2 ** math.ceil(math.log2(steps) / 2)
    fitting = memory_limit // (2 * data.X.element_size() * max(working, checkpoints))
    kind = data.X.device.type
    # With many directions a single network already fills the CPU's caches.
    most = min(MOST_NETWORKS[kind], MOST_DIRECTIONS[kind] // directions) if kind == "cpu" else MOST_NETWORKS[kind]
    return max(1, min(fitting, most))


@dataclass(frozen=True)
class Data:
    """Rows and people as tensors on the device."""

    X: Tensor
    X_val: Tensor
    y_val: Tensor
    people: Tensor

    @classmethod
    def of(cls, rows: Rows, people: Floats, device: torch.device, dtype: torch.dtype) -> Data:
        arrays = (rows.X, rows.X_val, rows.y_val, people)
        return cls(*(torch.tensor(np.asarray(array), device=device, dtype=dtype) for array in arrays))


@dataclass(frozen=True)
class Crew:
    """S networks: the labels each learns `y [S × n]`, and which of the block's batch orders it follows `[S]`."""

    y: Tensor
    order: Tensor

    def __getitem__(self, which: Tensor | slice) -> Crew:
        return Crew(self.y[which], self.order[which])


class Block:
    """Networks trained side by side and ready to be walked back.

    `course[e]` are the weights after epoch e (0: the initial ones) of the networks `members[e]`, those still in
    training then; `losses [S × epochs]` their validation losses; `kept [S]` and `ran [S]` the epochs kept and run."""

    def __init__(
        self, recipe: Recipe, data: Data, rows: Rows, sweeps: Sequence[Sweep], memory_limit: int,
        halt: Event | None = None,
    ) -> None:  # fmt: skip
        self.recipe, self.data, self.sweeps, self.halt = recipe, data, sweeps, halt
        self.n, self.d = data.X.shape
        self.widths, self.p = recipe.widths(self.d), recipe.parameters(self.d)
        self.batch_size = recipe.batch_size or self.n
        self.batches = math.ceil(self.n / self.batch_size)
        self.labels = [rows.labels(sweep.flips) for sweep in sweeps]
        state = len(State._fields) * self.p * data.X.element_size() * len(sweeps)
        self.tape = Tape(max(1, memory_limit // (4 * state)))
        self._train()
        self.tape.refuse_if_short(memory_limit, f"{len(sweeps)} trainings", int(self.kept.max()) * self.batches)

    # --- forwards -----------------------------------------------------------------------------------

    def _train(self) -> None:
        """L for each network: its own start, batches, labels and stopping."""
        S, last = len(self.sweeps), self.recipe.max_epochs
        seeds, order = np.unique([sweep.seed for sweep in self.sweeps], return_inverse=True)
        recipes = [replace(self.recipe, seed=int(seed)) for seed in seeds]
        self.crew = crew = Crew(self._tensor(np.array(self.labels)), self._index(order))
        w = torch.stack([packed_start(recipe, self.d) for recipe in recipes]).to(self.data.X)[crew.order]
        state = State(w, torch.zeros_like(w), torch.zeros_like(w))
        draws, self.orders = [batch_orders(recipe, self.n) for recipe in recipes], list[Tensor]()
        going = np.arange(S)
        self.course, self.members = [w], [going]
        self.losses = np.full((S, last + 1), np.nan)
        self.losses[:, 0] = np.inf
        self.kept, self.ran = np.zeros(S, np.int64), np.zeros(S, np.int64)
        for epoch in range(1, last + 1):
            if self.recipe.batch_size is not None:
                self.orders.append(torch.stack([next(draw) for draw in draws]).to(self.data.X.device))
            for step in range((epoch - 1) * self.batches, epoch * self.batches):
                self.tape.record(step, state)
                state = self._advance(step, state, crew)
            self.course.append(state.w)
            self.members.append(going)
            # The only word from the device in an epoch.
            self.losses[going, epoch] = self._validation_losses(state.w).cpu().numpy()
            better = self.losses[going, epoch] < self.losses[going, self.kept[going]]
            self.kept[going[better]], self.ran[going] = epoch, epoch
            on = epoch - self.kept[going] < self.recipe.patience
            if not on.any():
                break
            if not on.all():
                at, going = self._index(on.nonzero()[0]), going[on]
                state, crew = State(*(part[at] for part in state)), crew[at]

    def _go_on(self) -> None:
        if self.halt is not None and self.halt.is_set():
            raise Halted

    def _advance(self, step: int, state: State, crew: Crew) -> State:
        self._go_on()
        X, y, _ = self._batch(step, crew)
        g = Curvature(self._layers(state.w), self.recipe.activation, X, y).gradient()
        m, v = self._moments(state, g)
        rate, scale = self._corrections(step)
        return State(torch.addcdiv(state.w, m, (v.sqrt() / scale).add_(EPSILON), value=-rate), m, v)

    def _moments(self, state: State, g: Tensor) -> tuple[Tensor, Tensor]:
        return state.m.lerp(g, 1 - BETA1), (state.v * BETA2).addcmul_(g, g, value=1 - BETA2)

    def _corrections(self, step: int) -> tuple[float, float]:
        """Adam's α and s for the step counted from 0."""
        rate = self.recipe.learning_rate / (1 - BETA1 ** (step + 1))
        return rate, (1 - BETA2 ** (step + 1)) ** 0.5

    def _batch(self, step: int, crew: Crew) -> tuple[Tensor, Tensor, Tensor | None]:
        """The step's rows `[S × B × d]`, their labels and their positions `[S × B]`; None: all rows."""
        if self.recipe.batch_size is None:
            return self.data.X.expand(len(crew.y), -1, -1), crew.y, None
        epoch, batch = divmod(step, self.batches)
        at = self.orders[epoch][crew.order, batch * self.batch_size : (batch + 1) * self.batch_size]
        return self.data.X[at], crew.y.gather(1, at), at

    def _validation_losses(self, w: Tensor) -> Tensor:
        X, y = self._validation(len(w))
        logits = forward(self._layers(w), self.recipe.activation, X)[1]
        return binary_cross_entropy_with_logits(logits, y, reduction="none").mean(1)

    def _validation(self, S: int) -> tuple[Tensor, Tensor]:
        """The same validation rows for S networks, without a copy."""
        return self.data.X_val.expand(S, -1, -1), self.data.y_val.expand(S, -1)

    def _layers(self, packed: Tensor) -> Layers:
        """Weights `[… × out × in]` and biases `[… × out]` as views of `packed [… × p]`."""
        layers: Layers = []
        at = 0
        for into, out in pairwise(self.widths):
            W = packed[..., at : at + out * into].unflatten(-1, (out, into))
            at += out * into
            layers.append((W, packed[..., at : at + out]))
            at += out
        return layers

    def _tensor(self, array: NDArray[Any]) -> Tensor:
        return torch.from_numpy(array).to(self.data.X)

    def _index(self, positions: NDArray[Any]) -> Tensor:
        return torch.from_numpy(np.asarray(positions, np.int64)).to(self.data.X.device)

    def _weights(self, epoch: int, networks: Positions) -> Tensor:
        """These networks' weights after an epoch, `[networks × p]`."""
        return self.course[epoch][self._index(np.searchsorted(self.members[epoch], networks))]

    # --- what came out ------------------------------------------------------------------------------

    def swept(self, epochs: int, accuracy: float) -> list[GradientResult]:
        """Walk back from the kept networks' logits, and from the validation losses of the `epochs` lowest."""
        considered = [self._lowest(losses, max(1, epochs)) for losses in self.losses]
        people, present = self._people()
        kept = self._kept_weights()
        outcomes = logit_gradients(self._layers(kept), self.recipe.activation, people) * present[:, :, None]
        mixing = principal(outcomes, accuracy) if accuracy and outcomes.shape[1] else None
        if mixing is not None:
            outcomes = mixing.mT @ outcomes
        plan = Plan.of(self.kept, considered if epochs else [[] for _ in considered], outcomes.shape[1])
        by_label = self._walk(plan, outcomes)
        at = self._index(plan.logits[:, None] + np.arange(plan.width))
        by_logit = by_label.gather(1, at[:, :, None].expand(-1, -1, self.n))
        gradients = (by_logit if mixing is None else mixing @ by_logit).cpu().numpy()
        by_loss, logits, weights = by_label.cpu().numpy(), self._epoch_logits(considered, people), kept.cpu().numpy()
        return [
            GradientResult(
                labels=self.labels[s],
                logits=logits[s][0],
                gradient=gradients[s, : len(sweep.people)],
                network=self._network(s, weights[s]),
                epochs=tuple(considered[s]),
                epoch_logits=logits[s],
                validation_losses=self.losses[s, considered[s]],
                validation_gradients=by_loss[s, plan.losses[s]],
            )
            for s, sweep in enumerate(self.sweeps)
        ]

    def _lowest(self, losses: Numbers, epochs: int) -> list[int]:
        """The epochs with the lowest validation losses, of equal ones the first; 0 where training diverged."""
        by_loss = np.argsort(losses, kind="stable")[:epochs]
        return [int(epoch) for epoch in by_loss if np.isfinite(losses[epoch])] or [0]

    def _people(self) -> tuple[Tensor, Tensor]:
        """Each network's people `[S × P × d]`, and whether there are so many of them, 1 or 0 `[S × P]`."""
        counts = np.array([len(sweep.people) for sweep in self.sweeps])
        present = np.arange(counts.max()) < counts[:, None]
        at = np.zeros(present.shape, np.int64)
        at[present] = np.concatenate([np.asarray(sweep.people, np.int64) for sweep in self.sweeps])
        return self.data.people[self._index(at)], self._tensor(present)

    def _kept_weights(self) -> Tensor:
        kept = self.course[0].clone()
        for epoch in np.unique(self.kept):
            networks = np.flatnonzero(self.kept == epoch)
            kept[self._index(networks)] = self._weights(epoch, networks)
        return kept

    def _epoch_logits(self, considered: Sequence[list[int]], people: Tensor) -> list[Numbers]:
        """The people's logits after each of the epochs considered, `[epochs × people]` of each network."""
        logits: list[Any] = [[None] * len(epochs) for epochs in considered]
        for epoch, networks in _by_epoch(considered).items():
            w, X = self._weights(epoch, np.array(networks)), people[self._index(np.array(networks))]
            after = forward(self._layers(w), self.recipe.activation, X)[1].cpu().numpy()
            for s, each in zip(networks, after, strict=True):
                logits[s][considered[s].index(epoch)] = each[: len(self.sweeps[s].people)]
        return [np.array(each) for each in logits]

    def _network(self, s: int, packed: Numbers) -> Network:
        weights, biases = unpack(packed.astype(np.float32), self.widths)
        kept, ran = int(self.kept[s]), int(self.ran[s])
        recipe = replace(self.recipe, seed=self.sweeps[s].seed)
        return Network(weights, biases, recipe, kept, ran, float(self.losses[s, kept]))

    # --- backwards ----------------------------------------------------------------------------------

    def _walk(self, plan: Plan, outcomes: Tensor) -> Tensor:
        """Derivatives by the labels `[S × D × n]`: of the outcomes, whose derivatives by the kept weights are
        `outcomes [S × width × p]`, and of the validation losses, each in its place of the plan."""
        order = self._index(plan.order)
        adjoint, crew = Adjoint.zero(len(order), plan.depth, self.p, self.n, outcomes), self.crew[order]
        self.places: dict[int, Tensor] = {}
        for start, steps in self.tape.segments(int(plan.last.max()) * self.batches if plan.depth else 0):
            for step, state in reversed(self._replayed(plan, crew, start, steps)):
                epoch, batch = divmod(step, self.batches)
                if batch == self.batches - 1:
                    self._begin(plan, epoch + 1, outcomes, adjoint)
                S, D = plan.at_work[epoch + 1]
                self._step_back(step, State(*(part[:S] for part in state)), crew[:S], adjoint.first(S, D))
        by_label = torch.empty_like(adjoint.y.mT)
        by_label[order] = adjoint.y.mT
        return by_label

    def _replayed(self, plan: Plan, crew: Crew, state: State, steps: range) -> list[tuple[int, State]]:
        """The states before these steps, from the state before the first: of the networks at work by then."""
        epoch = steps.start // self.batches + 1
        networks = plan.order[: plan.at_work[epoch][0]]
        if epoch not in self.places:
            self.places[epoch] = self._index(np.searchsorted(self.members[epoch], networks))
        states = [State(*(part[self.places[epoch]] for part in state))]
        for step in steps[:-1]:
            states.append(self._advance(step, states[-1], crew[: len(networks)]))
        return list(zip(steps, states, strict=True))

    def _begin(self, plan: Plan, epoch: int, outcomes: Tensor, adjoint: Adjoint) -> None:
        """Enter what is asked of the weights after this epoch."""
        keeping = np.flatnonzero(self.kept == epoch)
        if len(keeping):
            numbers = self._index(plan.logits[keeping][:, None] + np.arange(plan.width))
            adjoint.w[self._index(plan.place[keeping])[:, None], numbers] = outcomes[self._index(keeping)]
        asking = plan.by_epoch.get(epoch, [])
        if asking:
            layers = self._layers(self._weights(epoch, np.array(asking)))
            by_loss = Curvature(layers, self.recipe.activation, *self._validation(len(asking))).gradient()
            numbers = self._index(np.array([plan.losses[s][plan.epochs[s].index(epoch)] for s in asking]))
            adjoint.w[self._index(plan.place[asking]), numbers] = by_loss

    def _step_back(self, step: int, state: State, crew: Crew, adjoint: Adjoint) -> None:
        """Turn the adjoint of the state after a step into that of the state before it."""
        X, y, at = self._batch(step, crew)
        curvature = Curvature(self._layers(state.w), self.recipe.activation, X, y)
        g = curvature.gradient()
        m, v = self._moments(state, g)
        rate, scale = self._corrections(step)
        root = v.sqrt()
        denominator = root / scale + EPSILON
        # Where v' is 0 the weight never had a gradient (a dead ReLU): nothing flows, though 1/√v' is infinite.
        by_v = torch.where(root > 0, rate * m / (2 * denominator**2 * scale * root), 0)
        adjoint.m.addcmul_(adjoint.w, (-rate / denominator)[:, None])
        adjoint.v.addcmul_(adjoint.w, by_v[:, None])
        by_g = ((2 * (1 - BETA2)) * g)[:, None] * adjoint.v
        by_g.add_(adjoint.m, alpha=1 - BETA1)
        adjoint.m *= BETA1
        adjoint.v *= BETA2
        most = MOST_DIRECTIONS[g.device.type]
        for first in range(0, by_g.shape[1], most):
            self._go_on()
            some = slice(first, first + most)
            tangents, products = curvature.products(self._layers(by_g[:, some]))
            adjoint.w[:, some] += products
            if at is None:
                adjoint.y[:, :, some].sub_(tangents, alpha=1 / self.n)
            else:
                # A batch holds no row twice, so that adding by position loses nothing.
                network = torch.arange(len(at), device=at.device)[:, None]
                adjoint.y[network, at, some] -= tangents / at.shape[1]


@dataclass(frozen=True, eq=False)
class Plan:
    """Which directions a block walks back, and when each begins.

    Network s has `width` directions for its people, from number `logits[s]` on, and one for each of `epochs[s]`,
    the epochs whose validation losses are asked for, with the numbers `losses[s]`: D = `depth` in all, those of
    later epochs first. `last[s]` is the latest epoch asked for; `order` sorts the networks by it, the latest first,
    and puts network s at `place[s]`."""

    kept: Positions
    epochs: Sequence[list[int]]
    width: int
    logits: Positions
    losses: Sequence[list[int]]
    last: Positions
    order: Positions

    @classmethod
    def of(cls, kept: Positions, epochs: Sequence[list[int]], width: int) -> Plan:
        logits = np.array([sum(epoch > k for epoch in each) for k, each in zip(kept, epochs, strict=True)], np.int64)
        losses = [
            [sum(other > epoch for other in each) + width * bool(epoch <= k) for epoch in each]
            for k, each in zip(kept, epochs, strict=True)
        ]
        last = np.array([max([k, *each]) for k, each in zip(kept, epochs, strict=True)], np.int64)
        return cls(kept, epochs, width, logits, losses, last, np.argsort(-last, kind="stable"))

    @cached_property
    def place(self) -> Positions:
        return np.argsort(self.order)

    @cached_property
    def depth(self) -> int:
        return self.width + max(map(len, self.epochs))

    @cached_property
    def by_epoch(self) -> dict[int, list[int]]:
        return _by_epoch(self.epochs)

    @cached_property
    def at_work(self) -> list[tuple[int, int]]:
        """How many networks, and how many directions of each, have begun when an epoch is walked back."""
        losses = np.full((len(self.kept), self.depth - self.width), -1)
        for row, each in zip(losses, self.epochs, strict=True):
            row[: len(each)] = each
        return [
            (
                int((self.last >= epoch).sum()),
                int((self.width * (self.kept >= epoch) + (losses >= epoch).sum(axis=1)).max()),
            )
            for epoch in range(int(self.last.max()) + 1)
        ]


def _by_epoch(epochs: Sequence[list[int]]) -> dict[int, list[int]]:
    """Which networks name an epoch, of each that is named."""
    networks: dict[int, list[int]] = {}
    for s, each in enumerate(epochs):
        for epoch in each:
            networks.setdefault(epoch, []).append(s)
    return networks


@dataclass
class Adjoint:
    """Derivatives of D outcomes of each network by its state, `w, m, v [S × D × p]`, and by its labels so far,
    `y [S × n × D]`."""

    w: Tensor
    m: Tensor
    v: Tensor
    y: Tensor

    @classmethod
    def zero(cls, S: int, D: int, p: int, n: int, like: Tensor) -> Adjoint:
        w, m, v = (like.new_zeros(S, D, p) for _ in range(3))
        return cls(w, m, v, like.new_zeros(S, n, D))

    def first(self, S: int, D: int) -> Adjoint:
        """A view of the first D outcomes of the first S networks."""
        return Adjoint(self.w[:S, :D], self.m[:S, :D], self.v[:S, :D], self.y[:S, :, :D])

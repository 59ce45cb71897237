"""The exact training gradient: how a person's logit moves with each training label, through training itself.

Training is a program, and `butfor.mlp.sweeps` differentiates it: Adam, batches and all. Two things are left to
first order. A flip moves its label by a whole 1. And early stopping chooses an epoch: its choice is constant until
it jumps, so the derivative misses it, though that jump is often the largest effect a single flip has. So the
validation losses are differentiated too. Of the epochs that came closest to being kept, each is weighed by how
likely it is kept once the label is turned, and what the logit was after that epoch is added, so weighed, to the
derivative at the kept epoch. `epochs=1` leaves this out: the bare derivative.

How far to trust the predictions is measured, not assumed: see `RankingMix`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Event
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from butfor.errors import SettingError
from butfor.learn.capabilities import Cluster, Differentiable, members_of, require
from butfor.learn.protocols import Engine, FlipSet, Floats, Model, Numbers, Table, flip_direction
from butfor.machine import available_cores, installed, results
from butfor.mlp.recipe import Recipe, Rows
from butfor.rank.ranking import NetworkRanking, percentile

if TYPE_CHECKING:
    from butfor.mlp.sweeps import GradientResult, Sweep

ENOUGH = 4
"""Members whose gradients are averaged on the CPU: with the published score beside it, more add little."""
LARGE = 10_000
"""Training rows from which on so few are enough everywhere for a sweep of each person's own."""
WORTH_COMPILING = 2**19
"""Numbers in the encoded training rows from which on compiled sweeps save more than they take to compile once."""
EFFECTS = 2**27
"""Predicted effects held at a time."""


@dataclass(frozen=True, eq=False)
class Walk:
    """What all sweeps of one ranking share."""

    recipe: Recipe
    rows: Rows
    people: Floats
    epochs: int
    tolerance: float
    device: str

    def effects(self, sweeps: Sequence[Sweep], halt: Event | None = None) -> list[Numbers]:
        """Per sweep the predicted changes of the logits if each label were turned, `[people × n]`."""
        return [each.flip_effects(self.tolerance) for each in self._swept(sweeps, halt)]

    def _swept(self, sweeps: Sequence[Sweep], halt: Event | None) -> Iterable[GradientResult]:
        if self.is_compiled:
            from butfor.mlp.walks import Training

            trained = (Training(self.recipe, self.rows, sweep, halt) for sweep in sweeps)
            people = (self.people[sweep.people] for sweep in sweeps)
            return (each.walk_back(asked, self.epochs) for each, asked in zip(trained, people, strict=True))
        from butfor.mlp.sweeps import sweep_many

        how: dict[str, Any] = {"epochs": self.epochs, "device": self.device, "halt": halt}
        return sweep_many(self.recipe, self.rows, sweeps, self.people, **how)

    @property
    def is_compiled(self) -> bool:
        """Whether compiled code sweeps: there is some for ReLU and one logit on the CPU."""
        recipe, large = self.recipe, self.rows.X.size >= WORTH_COMPILING
        compiled = bool(recipe.hidden) and recipe.activation == "relu" and recipe.outputs == 1
        return compiled and large and self.device == "cpu" and installed("numba")

    def effects_in_threads(self, parts: Sequence[Sequence[Sweep]]) -> list[list[Numbers]]:
        """The same for several lists of sweeps, a thread each. Whatever ends the waiting (Ctrl-C) ends the threads too,
        between two of their steps."""
        halt = Event()
        with ThreadPoolExecutor(len(parts)) as pool:
            try:
                return results([pool.submit(self.effects, part, halt) for part in parts])
            except BaseException:
                halt.set()
                raise


class Gradient(NetworkRanking):
    """The change of the person's logit, away from the present class, if label i were flipped: predicted to
    first order through the whole training (unit: logit).

    `epochs`: epochs considered for early stopping's choice; 1 holds the kept epoch fixed. `tolerance`: how far
    (in validation loss) a predicted difference between epochs must go before it is believed."""

    name = "gradient"
    predicts = signed = noisy = scores_after_flips = True

    def __init__(self, epochs: int = 8, tolerance: float = 5e-4) -> None:
        if epochs < 1:
            raise SettingError(f"epochs={epochs} must be at least 1.")
        if not tolerance > 0:
            raise SettingError(f"tolerance={tolerance} must be above 0.")
        self.epochs, self.tolerance, self._device = epochs, tolerance, "cpu"
        self._spread: Callable[..., list[Any]] | None = None

    def train_on(self, engine: Engine) -> None:
        """On the engine's device, and on its workers where it has some."""
        self._device = str(engine.device)
        self._spread = engine.spread if isinstance(engine, Cluster) else None

    @property
    def member_limit(self) -> int | None:
        return ENOUGH if self._device == "cpu" else None

    def score(self, model: Model, table: Table, people: pd.DataFrame) -> Numbers:
        return next(self.score_members([model], table, people))

    def score_members(self, members: Sequence[Model], table: Table, people: pd.DataFrame) -> Iterator[Numbers]:
        """The same for several networks that differ in their seed, side by side."""
        from butfor.mlp.sweeps import Sweep

        subjects = [require(member, Differentiable) for member in members]
        first = subjects[0]
        sweeps = [Sweep(each.network.recipe.seed, (), np.arange(len(people))) for each in subjects]
        swept = self._effects(first.network.recipe, first.rows, sweeps, first.encoded(people))
        for member, effects in zip(members, swept, strict=True):
            yield effects * flip_direction(member.logits(people))[:, None]

    def score_at(self, model: Model, table: Table, people: pd.DataFrame, flips: Sequence[FlipSet]) -> Numbers:
        """Scores for each person once their own `flips` are made: which further flips go on in the same direction, away
        from what `model` decides now. By the share of rows each row beats, the mean over the members of an ensemble."""
        from butfor.mlp.sweeps import Sweep

        members = [require(member, Differentiable) for member in self._members_at_flips(model, table)]
        sweeps = [
            Sweep(member.network.recipe.seed, flips[k], np.array([k])) for k in range(len(people)) for member in members
        ]
        total, out = np.zeros((len(people), table.n)), flip_direction(model.logits(people))
        recipe, rows, seen = members[0].network.recipe, members[0].rows, members[0].encoded(people)
        for sweep, effects in zip(sweeps, self._effects(recipe, rows, sweeps, seen), strict=True):
            k = int(sweep.people[0])
            total[k] += percentile(effects * out[k])[0]
        return total / len(members)

    def _members_at_flips(self, model: Model, table: Table) -> Sequence[Model]:
        return members_of(model)[: ENOUGH if table.n > LARGE else self.member_limit]

    def uses_fewer_members_at_flips(self, model: Model, table: Table) -> bool:
        return len(self._members_at_flips(model, table)) < len(members_of(model)[: self.member_limit])

    def _effects(self, recipe: Recipe, rows: Rows, sweeps: Sequence[Sweep], people: Floats) -> Iterator[Numbers]:
        """Predicted changes of the logits if each label were turned, sweep by sweep."""
        walk = Walk(recipe, rows, people, self.epochs, self.tolerance, self._device)
        size = max(1, EFFECTS // (rows.n * max(1, *(len(sweep.people) for sweep in sweeps))))
        for first in range(0, len(sweeps), size):
            yield from self._sweep(walk, sweeps[first : first + size])

    def _sweep(self, walk: Walk, sweeps: Sequence[Sweep]) -> list[Numbers]:
        """On the CPU's cores or a cluster's, or all at once on a GPU."""
        alone = self._device != "cpu" or len(sweeps) == 1
        # As many parts as there are cores here, also on a cluster: predictions must not depend on its size.
        count = 1 if alone else min(available_cores(), len(sweeps))
        parts = [sweeps[k::count] for k in range(count)]
        if self._spread is not None:
            done = self._spread(Walk.effects, walk, parts)
        elif count == 1:
            done = [walk.effects(sweeps)]
        else:
            done = walk.effects_in_threads(parts)
        return [done[k % count][k // count] for k in range(len(sweeps))]

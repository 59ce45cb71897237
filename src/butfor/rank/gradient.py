"""The exact training gradient: how a person's logit moves with each training label, through training itself.

`butfor.nets.sweeps` differentiates training as a program, with Adam and batches. Two things remain first-order. A flip
moves its label by a whole 1. And early stopping picks an epoch: the pick is constant until it jumps, so the derivative
misses the jump, which is often the largest effect of a flip. So validation losses are differentiated too. Each epoch
that came close to being kept gets the probability of being kept after the flip, and the mean of the epochs' logits with
these weights is added to the derivative at the kept epoch. `epochs=1` is the derivative alone.

`RankingMix` measures how far to trust the predictions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from butfor import stopping
from butfor.errors import SettingError
from butfor.machine import available_cores
from butfor.models.learner import Engine, FlipSet, Floats, Model, Numbers, Table, flip_direction
from butfor.nets import Recipe, Rows, label_gradient
from butfor.rank.ranking import NetworkRanking, percentile

if TYPE_CHECKING:
    from butfor.nets.sweeps import LabelGradient, Sweep

CPU_MEMBERS = 4
"""Members whose gradients are averaged on the CPU; beside the published score more add little."""
LARGE = 10_000
"""Above this many training rows, sweeps at a person's own flips use that few members on every device."""
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

    def effects(self, sweeps: Sequence[Sweep], threads: int = 1) -> list[Numbers]:
        """For each sweep the predicted change of the logits if label i is flipped, `[people × n]`."""
        from butfor.models.network import find_device, translated

        how: dict[str, Any] = {"epochs": self.epochs, "device": str(find_device(self.device)), "threads": threads}
        with translated():
            swept = label_gradient(self.recipe, self.rows, sweeps, self.people, check=stopping.check, **how)
            return [flip_effects(each, self.tolerance) for each in swept]


def flip_effects(swept: LabelGradient, tolerance: float) -> Numbers:
    """The predicted change of the logit if label i is flipped, `[people × n]`."""
    jumps = (swept.epoch_logits - swept.logits).T @ chances(swept, tolerance)
    return jumps.astype(swept.gradient.dtype) + swept.moves * swept.gradient


def chances(swept: LabelGradient, tolerance: float) -> Numbers:
    """The probability that each epoch is kept after label i is flipped, `[E × n]`: a softmax of the predicted
    validation losses, whose differences mean little below `tolerance`."""
    if len(swept.epochs) == 1:
        return np.ones((1, len(swept.moves)))
    losses = swept.validation_losses[:, None] + swept.moves * swept.validation_gradients
    weights: Numbers = np.exp((losses.min(axis=0) - losses) / tolerance)
    return weights / weights.sum(axis=0)


class Gradient(NetworkRanking):
    """The change of the person's logit, away from the present class, if label i is flipped: predicted to first order
    through the whole training (unit: logit).

    `epochs`: epochs that early stopping may pick; 1 holds the kept epoch fixed. `tolerance`: differences of validation
    losses below it mean little."""

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
        """Train on the engine's device and on its workers, if it has any."""
        self._device = str(engine.device)
        self._spread = engine.spread

    @property
    def member_limit(self) -> int | None:
        return CPU_MEMBERS if self._device == "cpu" else None

    def score(self, model: Model, table: Table, people: pd.DataFrame) -> Numbers:
        return next(self.score_members([model], table, people))

    def score_members(self, members: Sequence[Model], table: Table, people: pd.DataFrame) -> Iterator[Numbers]:
        """The same for networks that differ in their seed, side by side."""
        from butfor.nets.sweeps import Sweep

        subjects = [member.as_network for member in members]
        first = subjects[0]
        sweeps = [Sweep(each.network.recipe.seed, (), np.arange(len(people))) for each in subjects]
        swept = self._effects(first.network.recipe, first.rows, sweeps, first.encoded(people))
        for member, effects in zip(members, swept, strict=True):
            yield effects * flip_direction(member.logits(people))[:, None]

    def score_at(self, model: Model, table: Table, people: pd.DataFrame, flips: Sequence[FlipSet]) -> Numbers:
        """Scores after each person's own `flips`: further flips away from what `model` decides now. Percentiles, their
        mean over the members of an ensemble."""
        from butfor.nets.sweeps import Sweep

        members = [member.as_network for member in self._members_at_flips(model, table)]
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
        return model.members[: CPU_MEMBERS if table.n > LARGE else self.member_limit]

    def uses_fewer_members_at_flips(self, model: Model, table: Table) -> bool:
        return len(self._members_at_flips(model, table)) < len(model.members[: self.member_limit])

    def _effects(self, recipe: Recipe, rows: Rows, sweeps: Sequence[Sweep], people: Floats) -> Iterator[Numbers]:
        """Predicted changes of the logits if label i is flipped, sweep by sweep."""
        walk = Walk(recipe, rows, people, self.epochs, self.tolerance, self._device)
        size = max(1, EFFECTS // (rows.n * max(1, *(len(sweep.people) for sweep in sweeps))))
        for first in range(0, len(sweeps), size):
            yield from self._sweep(walk, sweeps[first : first + size])

    def _sweep(self, walk: Walk, sweeps: Sequence[Sweep]) -> list[Numbers]:
        """On the cores of the CPU or of a cluster, or all at once on a GPU."""
        # One part per core of this machine, also on a cluster: predictions must not depend on its size.
        count = min(available_cores(), len(sweeps))
        if self._spread is None:
            return walk.effects(sweeps, count)
        done = self._spread(Walk.effects, walk, [sweeps[k::count] for k in range(count)])
        return [done[k % count][k // count] for k in range(len(sweeps))]

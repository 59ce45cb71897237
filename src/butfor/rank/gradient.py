"""The exact training gradient: how a person's logit moves with each training label, through training itself.

`butfor.nets.sweeps` differentiates training as a program, with Adam and batches. Two things remain first-order. A flip
moves its label by a whole 1. And early stopping picks an epoch: the pick is constant until it jumps, so the derivative
misses the jump, which is often the largest effect of a flip. So validation losses are differentiated too. Each epoch
that came close to being kept gets the probability of being kept after the flip, and the mean of the epochs' logits with
these weights is added to the derivative at the kept epoch. `epochs=1` is the derivative alone.

`RankingMix` measures how far to trust the predictions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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


class Gradient(NetworkRanking):
    """The change of the person's logit, away from the present class, if label i is flipped: predicted to first order
    through the whole training (unit: logit).

    `epochs`: epochs that early stopping may pick; 1 holds the kept epoch fixed. `tolerance`: differences of validation
    losses below it mean little."""

    name = "gradient"
    predicts = signed = noisy = True

    def __init__(self, epochs: int = 8, tolerance: float = 5e-4) -> None:
        if epochs < 1:
            raise SettingError(f"epochs={epochs} must be at least 1.")
        if not tolerance > 0:
            raise SettingError(f"tolerance={tolerance} must be above 0.")
        self.epochs, self.tolerance = epochs, tolerance
        self.train_on(Engine())

    def train_on(self, engine: Engine) -> None:
        """Train on the engine's device and on its workers, if it has any."""
        self._device, self._spread = str(engine.device), engine.spread
        self.member_limit = CPU_MEMBERS if self._device == "cpu" else None

    def score(self, model: Model, table: Table, people: pd.DataFrame) -> Numbers:
        return next(self.score_members([model], table, people))

    def score_members(self, members: Sequence[Model], table: Table, people: pd.DataFrame) -> Iterator[Numbers]:
        """The same for networks that differ in their seed, side by side."""
        from butfor.nets.sweeps import Sweep

        sweeps = [Sweep(each.as_network.network.recipe.seed, (), np.arange(len(people))) for each in members]
        for member, effects in zip(members, self._effects(members[0], sweeps, people), strict=True):
            yield effects * flip_direction(member.logits(people))[:, None]

    def members_at_flips(self, model: Model, table: Table) -> Sequence[Model]:
        """The members of an ensemble that `score_at` uses."""
        return model.members[: CPU_MEMBERS if table.n > LARGE else self.member_limit]

    def score_at(self, model: Model, table: Table, people: pd.DataFrame, flips: Sequence[FlipSet]) -> Numbers:
        """Scores after each person's own `flips`: further flips away from what `model` decides now. Percentiles, their
        mean over the members of an ensemble."""
        from butfor.nets.sweeps import Sweep

        members = self.members_at_flips(model, table)
        seeds = [member.as_network.network.recipe.seed for member in members]
        sweeps = [Sweep(seed, flips[k], np.array([k])) for k in range(len(people)) for seed in seeds]
        total, out = np.zeros((len(people), table.n)), flip_direction(model.logits(people))
        for sweep, effects in zip(sweeps, self._effects(members[0], sweeps, people), strict=True):
            k = int(sweep.people[0])
            total[k] += percentile(effects * out[k])[0]
        return total / len(members)

    def _effects(self, model: Model, sweeps: Sequence[Sweep], people: pd.DataFrame) -> Iterator[Numbers]:
        """Predicted changes of the logits if label i is flipped, sweep by sweep, on all cores or on a cluster."""
        subject = model.as_network
        how = {"epochs": self.epochs, "device": self._device}
        walk = (subject.network.recipe, subject.rows, subject.encoded(people), self.tolerance, how)
        size = max(1, EFFECTS // (subject.rows.n * max(1, *(len(sweep.people) for sweep in sweeps))))
        for first in range(0, len(sweeps), size):
            some = sweeps[first : first + size]
            # One part per core of this machine, also on a cluster: predictions must not depend on its size.
            count = min(available_cores(), len(some))
            if self._spread is None:
                yield from swept_effects(walk, some, count)
            else:
                done = self._spread(swept_effects, walk, [some[k::count] for k in range(count)])
                yield from (done[k % count][k // count] for k in range(len(some)))


def swept_effects(
    walk: tuple[Recipe, Rows, Floats, float, dict[str, Any]], sweeps: Sequence[Sweep], threads: int = 1
) -> list[Numbers]:
    """For each sweep the predicted change of the logits if label i is flipped, `[people × n]`."""
    from butfor.models.network import find_device, translated

    recipe, rows, people, tolerance, how = walk
    how = how | {"device": str(find_device(how["device"])), "threads": threads}
    with translated():
        swept = label_gradient(recipe, rows, sweeps, people, check=stopping.check, **how)
        return [flip_effects(each, tolerance) for each in swept]


def flip_effects(swept: LabelGradient, tolerance: float) -> Numbers:
    """The predicted change of the logit if label i is flipped, `[people × n]`. Each epoch's chance to be kept after
    the flip is a softmax of the predicted validation losses, whose differences mean little below `tolerance`."""
    effects = swept.moves * swept.gradient
    if len(swept.epochs) == 1:
        return effects
    losses = swept.validation_losses[:, None] + swept.moves * swept.validation_gradients
    chances = np.exp((losses.min(axis=0) - losses) / tolerance)
    jumps = (swept.epoch_logits - swept.logits).T @ (chances / chances.sum(axis=0))
    return jumps.astype(swept.gradient.dtype) + effects

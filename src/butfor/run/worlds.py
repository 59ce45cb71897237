"""Whose decisions would change if a group's labels had been given by the others' standard: worlds.

Nobody knows which of a group's adverse labels are wrong, nor exactly how many: there is a shortfall with its error, and
a probability for each label. So the table is made again many times. Each world draws its shortfall from the estimate's
sampling distribution, flips every adverse label of the group with its probability at that shortfall, and is trained.
The share of worlds that decide favourably about a person is a probability.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from zlib import crc32

import numpy as np

from butfor.learn.protocols import FlipSet, Floats, Training
from butfor.search.trainer import Trainer
from butfor.standard.groups import Standards

WORLDS = 20
SEEDS = 2**31
"""Seeds of worlds, and of the trainings in them, are below this."""


@dataclass(frozen=True)
class DrawnWorld:
    """What a seed makes: by how much the group fell short, which labels that flips, and what is trained on them."""

    seed: int
    shortfall: float
    flips: FlipSet
    trainings: tuple[Training, ...]


def world_seeds(group: str, random_state: int = 0, count: int = WORLDS) -> list[int]:
    """The names of a group's worlds."""
    rng = np.random.default_rng([random_state, crc32(str(group).encode())])
    return [int(seed) for seed in rng.integers(SEEDS, size=count)]


def draw_world(standards: Standards, group: str, seed: int, members: int = 1, seeded: bool = False) -> DrawnWorld:
    """The world of this name: everything in it is drawn from its seed. Of a model that no seed changes there is one
    training; else `members` of them, under seeds that nothing else was trained with."""
    comparison = standards.of_group(group)
    assert comparison is not None
    rng = np.random.default_rng(seed)
    shortfall = float(rng.normal(comparison.difference, comparison.error or 0.0))
    luck = rng.random(len(standards.groups))
    flips = tuple(map(int, np.flatnonzero(luck < standards.wrong_at(group, shortfall))))
    seeds: list[int | None] = [int(each) for each in rng.integers(SEEDS, size=members)] if seeded else [None]
    return DrawnWorld(seed, shortfall, flips, tuple(Training(flips, each) for each in seeds))


def train_worlds(trainer: Trainer, worlds: Sequence[DrawnWorld]) -> Iterator[tuple[DrawnWorld, Floats]]:
    """Each world with what its model answers about the trainer's people; as many worlds side by side as the engine
    likes to train, so that whoever stops keeps those that are done."""
    each = max((len(world.trainings) for world in worlds), default=1)
    step = max(1, trainer.bound.at_once // each)
    for first in range(0, len(worlds), step):
        some = worlds[first : first + step]
        yield from zip(some, trainer.ask_together([world.trainings for world in some]), strict=True)

"""Whose decisions would change if a group's labels had been given by the others' standard: worlds.

Nobody knows which of a group's adverse labels are wrong, nor exactly how many: there is a shortfall with its error, and
a probability for each label. So the table is made again many times. Each world draws its shortfall from the estimate's
sampling distribution, flips every adverse label of the group with its probability at that shortfall, and is trained.
The share of worlds that decide favourably about a person is a probability.

Where a seed changes the model, a world is trained as often as the audited model has members, under fresh seeds of its
own, and decides by their mean. Fewer would take the noise of seeds for an effect of labels: with nothing flipped at
all, single networks of German accept 4.3 of the 58 people whom the mean of 16 refuses, means of 4 accept 1.7, means of
16 0.7. 20 worlds of 16 members are 320 trainings, 8 seconds of one core there. A single network that is audited as it
is has that noise in its own decisions, and in its worlds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from zlib import crc32

import numpy as np
import pandas as pd

from butfor.errors import Stopped
from butfor.learn.decision_split import decides_one
from butfor.learn.protocols import FlipSet, Floats, Table, Training
from butfor.result.record import plain
from butfor.result.worlds import OneStandard, PersonInWorlds, World
from butfor.run.trial import FlipTrial
from butfor.search.trainer import Trainer
from butfor.standard.groups import GroupStandard, Standards

WORLDS, LEAST = 20, 5
"""Worlds of a group, and how many there are however long a training takes."""
PATIENCE = 60.0
"""Seconds that a group's worlds may take; beyond there are fewer of them."""
SEEDS = 2**31
"""Seeds of worlds, and of the trainings in them, are below this."""


@dataclass(frozen=True)
class DrawnWorld:
    """What a seed makes: by how much the group fell short, which labels that flips, and what is trained on them."""

    seed: int
    shortfall: float
    flips: FlipSet
    trainings: tuple[Training, ...]
    validation_flips: FlipSet = ()
    """Positions among the validation rows: had their labels been given by one standard, too, training would stop
    elsewhere."""


def world_seeds(group: str, random_state: int = 0, count: int = WORLDS) -> list[int]:
    """The names of a group's worlds."""
    rng = np.random.default_rng([random_state, crc32(str(group).encode())])
    return [int(seed) for seed in rng.integers(SEEDS, size=count)]


def draw_world(standards: Standards, group: str, seed: int, members: int = 1, seeded: bool = False) -> DrawnWorld:
    """The world of this name: everything in it is drawn from its seed. Of a model that no seed changes there is one
    training; else there are `members`, under seeds that nothing else was trained with. Labels of validation rows
    are flipped likewise, where those rows were compared too."""
    comparison = standards.of_group(group)
    assert comparison is not None
    rng = np.random.default_rng(seed)
    shortfall = float(rng.normal(comparison.difference, comparison.error or 0.0))

    def drawn(rows: Standards) -> FlipSet:
        return tuple(map(int, np.flatnonzero(rng.random(len(rows.groups)) < rows.wrong_at(group, shortfall))))

    flips = drawn(standards)
    seeds: list[int | None] = [int(each) for each in rng.integers(SEEDS, size=members)] if seeded else [None]
    trainings = tuple(Training(flips, each) for each in seeds)
    return DrawnWorld(seed, shortfall, flips, trainings, drawn(standards.validation) if standards.validation else ())


def train_worlds(trainer: Trainer, worlds: Sequence[DrawnWorld]) -> Iterator[tuple[DrawnWorld, Floats]]:
    """Each world with what its model answers about the trainer's people; as many worlds side by side as the engine
    likes to train, so that whoever stops keeps those that are done. Worlds whose validation labels differ are trained
    one after the other."""
    if trainer.table.validation is not None and not trainer.table.multiclass:
        for world in worlds:
            table = with_validation_flips(trainer.table, world.validation_flips)
            yield world, trainer.on(table).ask_together([world.trainings])[0]
        return
    each = max((len(world.trainings) for world in worlds), default=1)
    step = max(1, trainer.bound.at_once // each)
    for first in range(0, len(worlds), step):
        some = worlds[first : first + step]
        yield from zip(some, trainer.ask_together([world.trainings for world in some]), strict=True)


def with_validation_flips(table: Table, flips: FlipSet) -> Table:
    """The table with other labels of these validation rows, by position."""
    if not flips or table.validation is None:
        return table
    X, y = table.validation
    codes = table.validation_codes.copy()
    codes[list(flips)] = 1 - codes[list(flips)]
    return replace(table, validation=(X, pd.Series(table.classes[codes], y.index, name=y.name)))


# --- of an audit --------------------------------------------------------------------------------------


def falling_short(standards: Standards) -> list[GroupStandard]:
    """The groups that worlds are made of."""
    return [c for c in standards.comparisons if c.attribute == standards.attribute and c.missing and c.differs]


def one_standard(
    standards: Standards, tried: FlipTrial, random_state: int = 0, fit_seconds: float = 0.0
) -> list[OneStandard]:
    """For every group that falls short by more than chance. `fit_seconds`: what the learner's own fit takes. When it is
    stopped, the worlds that are done count."""
    short = falling_short(standards)
    if not short:
        return []
    progress, members = tried.trainer.progress, tried.trainer.members
    count = _affordable(tried.trainer, fit_seconds)
    if count < WORLDS:
        progress.note(f"One standard for all: {count} worlds instead of {WORLDS}, since a training takes so long.")
    progress.phase("one standard for all", len(short) * count * members)
    found = []
    for comparison in short:
        one = in_worlds(standards, comparison, tried, world_seeds(comparison.group, random_state, count))
        done = len(one.worlds)
        if done or not one.refused:
            found.append(one)
        if one.refused and done < count:
            kept = "those that are done count" if done else "it is not told whose decisions change"
            progress.note(f"Stopped after {done} of {count} worlds of {comparison.name}: {kept}.")
            break
    return found


def in_worlds(standards: Standards, comparison: GroupStandard, tried: FlipTrial, seeds: Sequence[int]) -> OneStandard:
    """What the worlds of these names decide; when it is stopped, those that are done."""
    everyone, truth, table = tried.everyone, tried.truth, tried.trainer.table
    ours = tried.groups.get(comparison.group, np.zeros(len(everyone.people), bool))
    refused = decides_one(everyone.logits) != bool(tried.favourable)
    worlds, others = list[World](), np.zeros(len(refused), np.int64)
    if not (ours & refused).any():
        seeds = ()
    members, seeded = tried.trainer.members, tried.seeded
    drawn = [draw_world(standards, comparison.group, seed, members, seeded) for seed in seeds]
    try:
        for world, answers in train_worlds(tried.trainer, drawn):
            logits, decisions = table.margins(answers), table.decisions(answers)
            if not world.flips and not seeded:  # the audited model itself, to the last bit
                logits, decisions = everyone.logits, everyone.decisions
            changed = np.isfinite(logits) & (decides_one(logits) != decides_one(everyone.logits))
            others += changed
            worlds.append(
                World(
                    seed=world.seed,
                    shortfall=world.shortfall,
                    flips=len(world.flips),
                    turned=int((changed & refused & ours).sum()),
                    rates={group: tried.rate(logits, people) for group, people in tried.groups.items()},
                    accuracy=None if truth is None else float((decisions == truth).mean()),
                )
            )
    except Stopped:
        pass
    by_worlds = sorted(map(int, np.flatnonzero(others)), key=lambda k: (-others[k], k))
    return OneStandard(
        attribute=comparison.attribute,
        group=comparison.group,
        labels=table.n,
        asked=len(refused),
        people=int(ours.sum()),
        refused=int((ours & refused).sum()),
        adverse_now=tuple(map(int, np.flatnonzero(refused))),
        worlds=tuple(worlds),
        changed=tuple(
            PersonInWorlds(
                k, plain(everyone.people.index[k]), plain(everyone.groups[k]), bool(refused[k]), int(others[k])
            )
            for k in by_worlds
        ),
        rates={group: tried.rate(everyone.logits, people) for group, people in tried.groups.items()},
        accuracy=None if truth is None else float((everyone.decisions == truth).mean()),
        limited=table.cut is not None and not table.cut.fixed,
    )


def _affordable(trainer: Trainer, fit_seconds: float) -> int:
    """How many worlds there is time for."""
    if fit_seconds * trainer.members * WORLDS <= PATIENCE:
        return WORLDS
    each = trainer.members * trainer.seconds_each(fit_seconds)
    return int(np.clip(PATIENCE / each, LEAST, WORLDS))

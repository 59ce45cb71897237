"""Labels flipped together: whose decisions change, for reviews (`FlipTrial`) and for worlds.

Worlds answer whose decisions would change if a group's labels had been given by the others' standard: worlds.

Which of a group's adverse labels are wrong is unknown, and so is their exact number: there is a gap with its error, and
a probability for each label. So the labels are drawn many times. Each world draws its gap from the estimate's sampling
distribution, flips every adverse label of the group with its probability at that gap, and is trained. The share of
worlds that decide favourably about a person is a probability.

If a seed changes the model, a world is trained under as many fresh seeds as the audited model has members, and their
mean decides. With fewer, the noise of seeds would look like an effect of labels: without any flip, single networks of
German accept 4.3 of the 58 people whom the mean of 16 refuses, means of 4 accept 1.7, means of 16 0.7. 20 worlds of 16
members are 320 trainings, 8 seconds of one core there. A single audited network has that noise in its own decisions and
in its worlds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any
from zlib import crc32

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import ndtr

from butfor.decide import decides_one
from butfor.errors import Stopped
from butfor.fit import Fitted
from butfor.models.learner import FlipSet, Floats, Training
from butfor.progress import Progress
from butfor.result.fresh import FreshSeeds
from butfor.result.record import plain
from butfor.result.reviewed import ChangedDecision
from butfor.result.worlds import OneStandard, PersonInWorlds, World
from butfor.rules import Situation
from butfor.standard.groups import GroupStandard, Standards
from butfor.train import Trainer

WORLDS, LEAST = 20, 5
"""Worlds of a group, and the fewest if a training is slow."""
PATIENCE = 60.0
"""Seconds for a group's worlds; if they take longer, there are fewer."""
SEEDS = 2**31
"""Seeds of worlds and of their trainings are below this."""


# --- labels flipped together --------------------------------------------------------------------------


def changes_decision(logits: Floats, decision: int) -> NDArray[np.bool_]:
    """Whether each model decides differently; a training that diverged does not count."""
    return np.isfinite(logits) & (decides_one(logits) != bool(decision))


@dataclass(frozen=True, eq=False)
class FlipTrial:
    """Tries flip sets on people. `favourable` is the better decision; `truth` are their recorded labels by number, if
    known."""

    everyone: Situation
    truth: NDArray[np.int64] | None
    trainer: Trainer
    seeds: Sequence[int]
    seeded: bool
    favourable: int
    _fresh: dict[FlipSet, Floats] = field(default_factory=dict)

    @classmethod
    def of(cls, fitted: Fitted, everyone: Situation, truth: NDArray[np.int64] | None, trainer: Trainer) -> FlipTrial:
        return cls(everyone, truth, trainer, fitted.seeds, fitted.seeded, fitted.favourable)

    @classmethod
    def about(
        cls,
        fitted: Fitted,
        X: Any,
        y: Any,
        sensitive_features: Any,
        progress: Progress,
        new_labels: dict[int, int] | None = None,
    ) -> FlipTrial:
        """On the people X. With more than two labels, `new_labels` gives the label after a flip, by position."""
        everyone, truth = fitted.people(X, y, sensitive_features)
        table, decision = fitted.table, fitted.table.decision
        if new_labels and decision.new is not None:
            new = decision.new.copy()
            new[list(new_labels)] = list(new_labels.values())
            table = table.with_decision(replace(decision, new=new))
        engine, n_jobs = fitted.chosen_engine(progress), fitted.params.n_jobs
        trainer = Trainer(engine, fitted.learner, table, everyone.people, n_jobs=n_jobs, progress=progress)
        return cls.of(fitted, everyone, truth, trainer)

    def flip(self, flips: FlipSet) -> dict[str, Any]:
        """Fields of `Reviewed`."""
        after = self.confirmed(flips)
        truth, before = self.truth, self.everyone.logits
        return {
            "flips": flips,
            "labels": self.everyone.table.n,
            "changed": self._changed(after, self.fresh(flips)),
            "rates": {group: (self.rate(before, ours), self.rate(after, ours)) for group, ours in self.groups.items()},
            "accuracy": None
            if truth is None
            else (
                float((self.everyone.decisions == truth).mean()),
                float((self.trainer.confirmed_decisions(flips) == truth).mean()),
            ),
            "seeded": self.seeded,
        }

    def confirmed(self, flips: FlipSet) -> Floats:
        self.trainer.confirm([flips])
        return self.trainer.confirmed_logits(flips)

    def fresh(self, flips: FlipSet) -> Floats | None:
        """Logits of single models under fresh seeds, `[seeds × people]`; each is trained once."""
        if self.seeds and flips not in self._fresh:
            self._fresh[flips] = self.trainer.seed_logits([Training(flips, seed) for seed in self.seeds])
        return self._fresh.get(flips)

    @cached_property
    def groups(self) -> dict[str, NDArray[np.bool_]]:
        named = self.everyone.groups.astype(str)
        return {group: named == group for group in sorted(set(named))}

    def rate(self, logits: Floats, people: NDArray[np.bool_]) -> float:
        """The share of favourable decisions about these people."""
        return float((decides_one(logits[people]) == bool(self.favourable)).mean()) if people.any() else float("nan")

    def _changed(self, after: Floats, fresh: Floats | None) -> tuple[ChangedDecision, ...]:
        everyone, found = self.everyone, []
        turned = np.isfinite(after) & (decides_one(after) != decides_one(everyone.logits))
        for k in map(int, np.flatnonzero(turned)):
            seeds = None
            if fresh is not None and (base := self.fresh(())) is not None:
                decision = int(everyone.predictions[k])
                without, with_ = (changes_decision(logits[:, k], decision) for logits in (base, fresh))
                seeds = FreshSeeds.of(without, with_)
            row, group = plain(everyone.people.index[k]), plain(everyone.groups[k])
            found.append(ChangedDecision(k, row, group, float(everyone.logits[k]), float(after[k]), seeds))
        return tuple(found)


# --- worlds -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class DrawnWorld:
    """Drawn from one seed: the gap, the flipped labels and the trainings."""

    seed: int
    shortfall: float
    flips: FlipSet
    trainings: tuple[Training, ...]
    validation_flips: FlipSet = ()
    """Flipped validation rows, by position, since one standard would also change when training stops."""


def world_seeds(group: object, random_state: int = 0, count: int = WORLDS) -> list[int]:
    """The seeds of a group's worlds, by a name or number of the group."""
    rng = np.random.default_rng([random_state, crc32(str(group).encode())])
    return [int(seed) for seed in rng.integers(SEEDS, size=count)]


def draw_world(standards: Standards, group: str, seed: int, members: int = 1, seeded: bool = False) -> DrawnWorld:
    """The world of this seed. If seeds do not change the model it has one training, else `members` trainings under
    seeds used nowhere else. Labels of validation rows are flipped in the same way, if these rows were compared."""
    comparison = standards.of_group(group)
    assert comparison is not None
    rng = np.random.default_rng(seed)
    shortfall = float(rng.normal(comparison.difference, comparison.error or 0.0))

    def drawn(rows: Standards) -> FlipSet:
        return tuple(map(int, np.flatnonzero(_uniforms(rows, rng) < rows.wrong_at(group, shortfall))))

    flips = drawn(standards)
    seeds: list[int | None] = [int(each) for each in rng.integers(SEEDS, size=members)] if seeded else [None]
    trainings = tuple(Training(flips, each) for each in seeds)
    return DrawnWorld(seed, shortfall, flips, trainings, drawn(standards.validation) if standards.validation else ())


def _uniforms(rows: Standards, rng: np.random.Generator) -> NDArray[np.float64]:
    """A number from 0 to 1 per row; those of a cluster go together as far as its labels do."""
    if rows.cluster is None or not rows.correlation:
        return rng.random(len(rows.groups))
    shared = rng.standard_normal(int(rows.cluster.max()) + 1)[rows.cluster]
    apart = rng.standard_normal(len(shared))
    found: NDArray[np.float64] = ndtr(np.sqrt(rows.correlation) * shared + np.sqrt(1 - rows.correlation) * apart)
    return found


def train_worlds(trainer: Trainer, worlds: Sequence[DrawnWorld]) -> Iterator[tuple[DrawnWorld, Floats]]:
    """Each world with its model's logits for the trainer's people. Worlds are trained in blocks of the engine's size,
    so that a stop keeps those that are done; worlds with different validation labels are trained one after the
    other."""
    table = trainer.table
    if table.validation is not None and not table.multiclass:
        X, y = table.validation
        for world in worlds:
            codes = table.validation_codes.copy()
            codes[list(world.validation_flips)] = 1 - codes[list(world.validation_flips)]
            validation = (X, pd.Series(table.classes[codes], y.index, name=y.name))
            flipped = replace(table, validation=validation) if world.validation_flips else table
            yield world, trainer.on(flipped).ensemble_answers([world.trainings])[0]
        return
    each = max((len(world.trainings) for world in worlds), default=1)
    step = max(1, trainer.bound.width // each)
    for first in range(0, len(worlds), step):
        some = worlds[first : first + step]
        yield from zip(some, trainer.ensemble_answers([world.trainings for world in some]), strict=True)


# --- of an audit --------------------------------------------------------------------------------------


def falling_short(standards: Standards) -> list[GroupStandard]:
    """The groups that worlds are made of."""
    return [c for c in standards.comparisons if c.attribute == standards.attribute and c.missing and c.differs]


def one_standard(
    standards: Standards, tried: FlipTrial, random_state: int = 0, fit_seconds: float = 0.0
) -> list[OneStandard]:
    """One result per group with a gap beyond chance. `fit_seconds`: the seconds of the model's own `fit`. After a stop,
    the worlds that are done count."""
    short = falling_short(standards)
    if not short:
        return []
    progress, members = tried.trainer.progress, tried.trainer.members
    count = worlds_in_time(tried.trainer, fit_seconds)
    if count < WORLDS:
        progress.note(f"One standard for all: {count} worlds instead of {WORLDS}, since a training is slow.")
    progress.phase("one standard for all", len(short) * count * members)
    progress.expect(None)  # nothing comes after it: how far it is tells more than the forecast
    found = []
    for comparison in short:
        # By the group's first row: worlds are the same however groups are spelled.
        first_row = int(np.flatnonzero(standards.groups.astype(str) == comparison.group)[0])
        one = in_worlds(standards, comparison, tried, world_seeds(first_row, random_state, count))
        done = len(one.worlds)
        if done or not one.refused:
            found.append(one)
        if one.refused and done < count:
            kept = "those that are done count" if done else "changed decisions are not reported"
            progress.note(f"Stopped after {done} of {count} worlds of {comparison.name}: {kept}.")
            break
    return found


def in_worlds(standards: Standards, comparison: GroupStandard, tried: FlipTrial, seeds: Sequence[int]) -> OneStandard:
    """The decisions in these worlds; after a stop, in those that are done."""
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
        limited=table.decision.moves,
    )


def worlds_in_time(trainer: Trainer, fit_seconds: float) -> int:
    """The number of worlds that there is time for."""
    if fit_seconds * trainer.members * WORLDS <= PATIENCE:
        return WORLDS
    each = trainer.members * trainer.seconds_each(fit_seconds)
    return int(np.clip(PATIENCE / each, LEAST, WORLDS))

"""Labels flipped together: whose decisions change, for reviews (`FlipTrial`) and for worlds.

Worlds answer whose decisions would change if a group's labels had been given by the others'
standard.

Which of a group's adverse labels are wrong is unknown, and so is their exact number: there is a gap
with its error, and a probability for each label. So the labels are drawn many times. Each world
draws its gap from the estimate's sampling distribution, flips every adverse label of the group with
its probability at that gap, and is trained. The share of worlds that decide favourably about a
person is a probability.

If a seed changes the model, a world is trained under as many fresh seeds as the audited model has
members, and their mean decides. The seed alone changes decisions too: without any flip, single
networks of German accept 4.3 of the 58 people whom the mean of 16 refuses, means of 4 accept 1.7,
means of 16 0.7. So each world is compared with its control, the same trainings without flips
(`controls.py`). 20 worlds of 16 members and their controls are 640 trainings, 16 seconds of one
core there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import ndtr

from butfor.controls import SingleModels
from butfor.fit import Fitted
from butfor.models.engines import choose_engine
from butfor.models.seam import FlipSet, Floats, Training
from butfor.models.trainer import Trainer
from butfor.result.fresh import MIN_SOLID_SEEDS, FreshSeeds
from butfor.result.outcome import (
    NO_CONTROL,
    NO_TRAINING_ROWS,
    NOT_ASKED,
    NOT_FINISHED,
    STOPPED,
    TIME,
    Outcome,
)
from butfor.result.record import plain
from butfor.result.reviewed import ChangedDecision
from butfor.result.worlds import (
    FRESH,
    PAIRED,
    Control,
    OneStandard,
    PersonInWorlds,
    World,
)
from butfor.search.rules import Situation
from butfor.standard.groups import GroupStandard, Standards
from butfor.support.errors import Stopped
from butfor.support.progress import Progress
from butfor.table.decisions import changes_decision, decides_one

WORLDS_PER_GROUP = 20
MIN_WORLDS = 5
"""Where a training is slow."""
WORLDS_SECONDS = 60.0
"""For a group's worlds; if they take longer, there are fewer."""
SHARE_DECIMALS = 4
"""Of the share of controls that decide otherwise."""
SEED_LIMIT = 2**31
"""Seeds of worlds and of their trainings are below this."""


# --- labels flipped together ----------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class FlipTrial:
    """Tries flip sets on people. `truth` are their recorded labels by number, if known."""

    fitted: Fitted
    everyone: Situation
    truth: NDArray[np.int64] | None
    trainer: Trainer

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
        """On the people X. With more than two labels, `new_labels` gives the label after a flip, by
        position."""
        everyone, truth = fitted.people(X, y, sensitive_features)
        table = fitted.table
        sides = table.two_sides
        if new_labels and sides is not None:
            new = sides.new.copy()
            new[list(new_labels)] = list(new_labels.values())
            table = replace(table, two_sides=replace(sides, new=new))
        n_jobs = fitted.settings.n_jobs
        engine = choose_engine(fitted.settings.engine, fitted.learner, n_jobs, progress.note)
        trainer = Trainer(
            engine,
            fitted.learner,
            table,
            everyone.people,
            decision=fitted.decision,
            n_jobs=n_jobs,
            progress=progress,
        )
        return cls(fitted, everyone, truth, trainer)

    @cached_property
    def groups(self) -> dict[str, NDArray[np.bool_]]:
        named = self.everyone.groups.astype(str)
        return {group: named == group for group in sorted(set(named))}

    def members_of(self, group: str) -> NDArray[np.bool_]:
        """Which people are in the group."""
        return self.groups.get(group, np.zeros(len(self.everyone.people), bool))

    def rates(self, logits: Floats) -> dict[str, float]:
        """Per group, the share of favourable decisions."""
        favourable = decides_one(logits) == bool(self.fitted.favourable)
        return {group: float(favourable[people].mean()) for group, people in self.groups.items()}

    def accuracy(self, decisions: NDArray[np.int64]) -> float | None:
        return None if self.truth is None else float((decisions == self.truth).mean())

    def flip(self, flips: FlipSet) -> dict[str, Any]:
        """What these flips change for everyone, by the model's own `fit`: fields of `Reviewed`."""
        everyone = self.everyone
        trainer = self.trainer
        seeds = self.fitted.seeds
        decisions = everyone.predictions
        index = everyone.people.index
        groups = everyone.groups
        trainer.confirm([flips])
        before = everyone.logits
        after = trainer.confirmed_logits(flips)
        turned = np.flatnonzero(changes_decision(after, decisions)).tolist()
        fresh: dict[int, FreshSeeds] = {}
        if seeds and turned:
            both = [
                trainer.seed_logits([Training(each, seed) for seed in seeds])
                for each in ((), flips)
            ]
            for k in turned:
                without, with_ = (
                    changes_decision(logits[:, k], int(decisions[k])) for logits in both
                )
                fresh[k] = FreshSeeds.of(without, with_)
        was = self.rates(before)
        now = self.rates(after)
        accuracies = (
            self.accuracy(everyone.decisions),
            self.accuracy(trainer.decisions(trainer.confirmed[flips])),
        )
        return {
            "flips": flips,
            "labels": everyone.table.n,
            "changed": tuple(
                ChangedDecision(
                    k,
                    plain(index[k]),
                    plain(groups[k]),
                    float(before[k]),
                    float(after[k]),
                    fresh.get(k),
                )
                for k in turned
            ),
            "rates": {group: (was[group], now[group]) for group in was},
            "accuracy": None if self.truth is None else accuracies,
            "seeded": self.fitted.seeded,
        }


# --- worlds ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class DrawnWorld:
    """Drawn from one seed: the gap, the flipped labels and the trainings."""

    seed: int
    shortfall: float
    flips: FlipSet
    trainings: tuple[Training, ...]
    validation_flips: FlipSet = ()
    """Flipped validation rows, by position, since one standard would also change when training
    stops."""

    @property
    def control(self) -> tuple[Training, ...]:
        """The same trainings without flips."""
        return tuple(Training((), training.seed) for training in self.trainings)


def world_seeds(group: object, random_state: int = 0, count: int = WORLDS_PER_GROUP) -> list[int]:
    """The seeds of a group's worlds, by a name or number of the group."""
    rng = np.random.default_rng([random_state, crc32(str(group).encode())])
    return [int(seed) for seed in rng.integers(SEED_LIMIT, size=count)]


def draw_world(
    standards: Standards, group: str, seed: int, members: int = 1, seeded: bool = False
) -> DrawnWorld:
    """The world of this seed. If seeds do not change the model it has one training, else `members`
    trainings under seeds used nowhere else. Labels of validation rows are flipped in the same way,
    if these rows were compared."""
    comparison = standards.of_group(group)
    assert comparison is not None
    rng = np.random.default_rng(seed)
    shortfall = float(rng.normal(comparison.difference, comparison.error or 0.0))

    def drawn(rows: Standards) -> FlipSet:
        if rows.cluster is None or not rows.correlation:
            uniforms = rng.random(len(rows.groups))[rows.ranks]
        else:  # rows of a cluster go together as far as their labels do
            shared = rng.standard_normal(int(rows.cluster.max()) + 1)[rows.cluster]
            apart = rng.standard_normal(len(shared))[rows.ranks]
            uniforms = ndtr(
                np.sqrt(rows.correlation) * shared + np.sqrt(1 - rows.correlation) * apart
            )
        return tuple(map(int, np.flatnonzero(uniforms < rows.wrong_at(group, shortfall))))

    flips = drawn(standards)
    seeds: list[int | None] = (
        [int(each) for each in rng.integers(SEED_LIMIT, size=members)] if seeded else [None]
    )
    trainings = tuple(Training(flips, each) for each in seeds)
    return DrawnWorld(
        seed,
        shortfall,
        flips,
        trainings,
        drawn(standards.validation) if standards.validation else (),
    )


def train_worlds(
    trainer: Trainer, worlds: Sequence[DrawnWorld], paired: bool = False
) -> Iterator[tuple[DrawnWorld, Floats, Floats | None]]:
    """Each world with its model's answers about the trainer's people and, if `paired`, those of its
    control. Worlds are trained in blocks of the engine's size, so that a stop keeps those that are
    done; worlds with different validation labels are trained one after the other."""
    table = trainer.table
    if table.validation is None or table.multiclass:
        trainings = max((len(world.trainings) for world in worlds), default=1)
        step = max(1, trainer.bound.width // (2 * trainings if paired else trainings))
        for first in range(0, len(worlds), step):
            some = worlds[first : first + step]
            controls = [world.control for world in some] if paired else []
            answers = trainer.ensemble_answers([*(world.trainings for world in some), *controls])
            beside = answers[len(some) :] if paired else [None] * len(some)
            yield from zip(some, answers[: len(some)], beside, strict=True)
        return
    X, y = table.validation
    for world in worlds:
        its = trainer
        if world.validation_flips:
            codes = table.validation_codes.copy()
            codes[list(world.validation_flips)] = 1 - codes[list(world.validation_flips)]
            flipped = replace(
                table, validation=(X, pd.Series(table.classes[codes], y.index, name=y.name))
            )
            its = Trainer(
                trainer.engine,
                trainer.single,
                flipped,
                trainer.people,
                decision=trainer.decision,
                n_jobs=trainer.n_jobs,
                progress=trainer.progress,
                work=trainer.work,
            )
        answers = its.ensemble_answers([world.trainings])[0]
        control = trainer.ensemble_answers([world.control])[0] if paired else None
        yield world, answers, control


# --- of an audit ----------------------------------------------------------------------------------


class Plan(NamedTuple):
    """How many worlds a group gets in the time there is, and what stands beside them: the same
    trainings without flips (`PAIRED`), single models under fresh `seeds` (`FRESH`), or nothing, if
    no seed changes the model."""

    worlds: int
    control: Control | None = None
    seeds: tuple[int, ...] = ()

    def trainings(self, members: int, groups: int) -> int:
        beside = 2 if self.control == PAIRED else 1
        return groups * self.worlds * members * beside + len(self.seeds)


def plan_worlds(fitted: Fitted, trainer: Trainer) -> Plan:
    """What there is time for. There are no worlds if there is no control for them: too slow to be
    paired, and too few fresh seeds."""
    members = trainer.members
    seconds = fitted.fit_seconds
    wanted = WORLDS_PER_GROUP * members * (2 if fitted.seeded else 1)
    if seconds * wanted > WORLDS_SECONDS:
        seconds = trainer.seconds_each(seconds)
    if seconds * wanted <= WORLDS_SECONDS:
        return Plan(WORLDS_PER_GROUP, PAIRED if fitted.seeded else None)
    left = WORLDS_SECONDS - seconds * len(fitted.seeds)
    fewer = int(np.clip(left / (members * seconds), MIN_WORLDS, WORLDS_PER_GROUP))
    if not fitted.seeded:
        return Plan(fewer)
    if len(fitted.seeds) < MIN_SOLID_SEEDS:
        return Plan(0)
    return Plan(fewer, FRESH, tuple(fitted.seeds))


def falling_short(standards: Standards) -> list[GroupStandard]:
    """The groups that worlds are made of."""
    return [
        c
        for c in standards.comparisons
        if c.attribute == standards.attribute and c.missing and c.differs
    ]


def not_asked(standards: Standards, tried: FlipTrial, by_hand: bool) -> list[OneStandard]:
    """One result per group with a gap beyond chance, without worlds: time is up, or the audit was
    stopped."""
    outcome = Outcome(NOT_ASKED, STOPPED if by_hand else TIME)
    return [
        replace(as_it_is(comparison, tried), outcome=outcome)
        for comparison in falling_short(standards)
    ]


def one_standard(standards: Standards, tried: FlipTrial) -> list[OneStandard]:
    """One result per group with a gap beyond chance. After a stop, the worlds that are done
    count."""
    short = falling_short(standards)
    fitted = tried.fitted
    trainer = tried.trainer
    # By their labels: other groups are in further labelled rows alone.
    learned = set(standards.groups.astype(str))
    without_rows = Outcome(NOT_ASKED, NO_TRAINING_ROWS)
    results = [
        replace(as_it_is(c, tried), outcome=without_rows) for c in short if c.group not in learned
    ]
    short = [c for c in short if c.group in learned]
    if not short:
        return results
    progress = trainer.progress
    plan = plan_worlds(fitted, trainer)
    if 0 < plan.worlds < WORLDS_PER_GROUP:
        progress.note(
            f"One standard for all: {plan.worlds} worlds instead of {WORLDS_PER_GROUP}, since a "
            "training is slow."
        )
    progress.phase("one standard for all", plan.trainings(trainer.members, len(short)))
    single: SingleModels | None = None
    ended: Outcome | None = None
    try:
        single = SingleModels.of(trainer, plan.seeds) if plan.seeds else None
    except Stopped as stop:
        ended = Outcome(NOT_ASKED, STOPPED if stop.by_hand else TIME)
    if ended is None and fitted.seeded and plan.control != PAIRED and single is None:
        ended = Outcome(NOT_ASKED, NO_CONTROL)
    for comparison in short:
        now = as_it_is(comparison, tried)
        if ended is None and now.refused:
            # By the group's first row: worlds are the same however groups are spelled.
            first_row = int(
                standards.places[standards.groups.astype(str) == comparison.group].min()
            )
            seeds = world_seeds(first_row, fitted.settings.random_state, plan.worlds)
            now = in_worlds(standards, now, tried, seeds, plan.control, single)
            if now.unfinished:
                done = len(now.worlds)
                why = now.outcome.why if now.outcome else None
                kept = "those that are done count" if done else "changed decisions are not reported"
                progress.note(
                    f"Stopped after {done} of {plan.worlds} worlds of {comparison.name}: {kept}."
                )
                ended = Outcome(NOT_ASKED, why)
        elif now.refused:
            now = replace(now, outcome=ended)
        results.append(now)
    return results


def outcome_of(groups: Sequence[OneStandard]) -> Outcome:
    """What became of the question, by how many of the groups that fall short have all their
    worlds."""
    outcomes = [
        one.outcome for one in groups if one.outcome is not None and not one.outcome.answered
    ]
    if not outcomes:
        return Outcome()
    begun = any(one.worlds for one in groups) or len(outcomes) < len(groups)
    return Outcome(
        NOT_FINISHED if begun else NOT_ASKED,
        outcomes[0].why,
        len(groups) - len(outcomes),
        len(groups),
    )


def as_it_is(comparison: GroupStandard, tried: FlipTrial) -> OneStandard:
    """The decisions as they are, before any world."""
    everyone = tried.everyone
    ours = tried.members_of(comparison.group)
    refused = decides_one(everyone.logits) != bool(tried.fitted.favourable)
    return OneStandard(
        attribute=comparison.attribute,
        group=comparison.group,
        labels=tried.fitted.table.n,
        asked=len(refused),
        people=int(ours.sum()),
        refused=int((ours & refused).sum()),
        adverse_now=tuple(map(int, np.flatnonzero(refused))),
        worlds=(),
        changed=(),
        rates=tried.rates(everyone.logits),
        accuracy=tried.accuracy(everyone.decisions),
        limited=tried.fitted.decision.pool is not None,
        outcome=Outcome(),
    )


def in_worlds(
    standards: Standards,
    now: OneStandard,
    tried: FlipTrial,
    seeds: Sequence[int],
    control: Control | None = None,
    single: SingleModels | None = None,
) -> OneStandard:
    """The decisions in these worlds; after a stop, in those that are done. `single`: models under
    fresh seeds, for controls that are not paired."""
    everyone = tried.everyone
    trainer = tried.trainer
    seeded = tried.fitted.seeded
    ours = tried.members_of(now.group)
    refused = decides_one(everyone.logits) != bool(tried.fitted.favourable)
    towards = np.where(refused, 1, -1)
    """Of a changed decision: 1 if it becomes favourable, −1 if it becomes adverse."""
    worlds = list[World]()
    outcome = Outcome()
    others = np.zeros(len(refused), np.int64)
    by_seed = np.zeros(len(refused), np.int64)
    drawn = [draw_world(standards, now.group, seed, trainer.members, seeded) for seed in seeds]
    try:
        for world, answers, unflipped in train_worlds(trainer, drawn, control == PAIRED):
            logits = trainer.margins(answers)
            decisions = trainer.decisions(answers)
            if not world.flips and not seeded:  # the audited model itself, to the last bit
                logits = everyone.logits
                decisions = everyone.decisions
            changed = changes_decision(logits, everyone.predictions)
            others += changed
            gained = None
            if seeded:
                if unflipped is not None:
                    beside = trainer.margins(unflipped)
                else:
                    assert single is not None
                    beside = single.drawn(np.random.default_rng([world.seed, 1]), 1)[0]
                by_luck = changes_decision(beside, everyone.predictions)
                by_seed += by_luck
                gained = int((towards[ours] * (changed[ours].astype(int) - by_luck[ours])).sum())
            worlds.append(
                World(
                    seed=world.seed,
                    shortfall=world.shortfall,
                    flips=len(world.flips),
                    turned=int((changed & refused & ours).sum()),
                    rates=tried.rates(logits),
                    accuracy=tried.accuracy(decisions),
                    gained=gained,
                )
            )
    except Stopped as stop:
        outcome = Outcome(NOT_FINISHED, STOPPED if stop.by_hand else TIME, len(worlds), len(seeds))
    by_luck_alone = by_seed / max(1, len(worlds))
    if single is not None:
        ones = single.decides_one(tried.fitted.settings.random_state)
        by_luck_alone = np.where(decides_one(everyone.logits), 1 - ones, ones)
    by_luck_alone = by_luck_alone.round(SHARE_DECIMALS)
    shown = np.flatnonzero((others > 0) | (seeded & (by_luck_alone > 0))) if worlds else ()
    index = everyone.people.index
    groups = everyone.groups
    people = [
        PersonInWorlds(
            k,
            plain(index[k]),
            plain(groups[k]),
            bool(refused[k]),
            int(others[k]),
            float(by_luck_alone[k]) if seeded else None,
        )
        for k in map(int, shown)
    ]
    found = replace(now, worlds=tuple(worlds), outcome=outcome, control=control if worlds else None)
    return replace(
        found, changed=tuple(sorted(people, key=lambda person: (-found.moved(person), person.case)))
    )

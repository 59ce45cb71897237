"""Checks of a find: decisions of models under fresh seeds, and side effects on other people.

The engine trains these models; the documentation measures how well it agrees with the definition.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from butfor.decide import decides_one
from butfor.models.learner import FlipSet, Floats, Training
from butfor.result.fresh import Collateral, FreshSeeds
from butfor.train import Trainer


@dataclass(frozen=True, eq=False)
class Find:
    """A flip set that was found: the person, and the decision without it."""

    person: int
    flips: FlipSet
    prediction: int


def logits_without_flips(trainer: Trainer, seeds: Sequence[int], people: Sequence[int]) -> dict[int, Floats]:
    """Per person, the logit under each fresh seed without flips."""
    logits = trainer.seed_logits([Training((), seed) for seed in seeds])
    return {person: logits[:, person] for person in people}


def check_finds(
    trainer: Trainer, looks: Sequence[Sequence[int]], finds: Sequence[Find], without: Mapping[int, Floats]
) -> Iterator[tuple[int, FreshSeeds]]:
    """Every find under fresh seeds, person by person, so that a stop keeps what is done. `looks`: seeds that are tried
    one list after the other, by finds that are still open. `without`: each person's logits without flips under all
    seeds."""
    known: dict[int, Floats] = {find.person: np.empty(0, np.float32) for find in finds}
    most = sum(map(len, looks))
    for seeds in filter(len, looks):
        sets, left = list(dict.fromkeys(find.flips for find in finds)), list[Find]()
        step = max(1, 4 * trainer.bound.at_once // len(seeds))
        trainer.progress.phase("fresh seeds", len(seeds) * len(sets))
        for first in range(0, len(sets), step):
            some = sets[first : first + step]
            trainings = [Training(flips, seed) for flips in some for seed in seeds]
            logits = trainer.seed_logits(trainings).reshape(len(some), len(seeds), -1)
            for find in (find for find in finds if find.flips in some):
                new = logits[some.index(find.flips), :, find.person]
                known[find.person] = np.append(known[find.person], new)
                both = without[find.person][: len(known[find.person])], known[find.person]
                before, after = (changes_decision(each, find.prediction) for each in both)
                fresh = FreshSeeds.of(before, after, both)
                left += [find] * fresh.open_until(most)
                yield find.person, fresh
        finds = left


def changes_decision(logits: Floats, decision: int) -> NDArray[np.bool_]:
    """Whether each seed's model decides differently; a training that diverged does not count."""
    return np.isfinite(logits) & (decides_one(logits) != bool(decision))


def side_effects(
    trainer: Trainer, labels: NDArray[np.int64] | None, finds: Sequence[Find], positions: Sequence[int]
) -> list[Collateral]:
    """The effect of each flip set on all people of the trainer; find k belongs to the person at `positions[k]`.
    `labels`: their recorded labels by number, if known."""
    sets = list(dict.fromkeys([(), *(find.flips for find in finds)]))
    decisions = trainer.decisions(sets)
    results = []
    for find, position in zip(finds, positions, strict=True):
        before, after = decisions[0], decisions[sets.index(find.flips)]
        changed = before != after
        accuracies = (None, None) if labels is None else tuple(float((d == labels).mean()) for d in (before, after))
        results.append(Collateral(len(before) - 1, int(changed.sum() - changed[position]), *accuracies))
    return results

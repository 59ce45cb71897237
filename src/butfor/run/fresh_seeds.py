"""Believe it? What fresh seeds and everybody else have to say about a find.

All of it is trained by the fast engines, whose agreement with the definition is measured in the documentation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from butfor.learn.decision_split import decides_one
from butfor.learn.protocols import FlipSet, Floats, Training
from butfor.result.fresh import Collateral, FreshSeeds
from butfor.search.trainer import Trainer


@dataclass(frozen=True, eq=False)
class Found:
    """A counterfactual dataset to be judged: whose it is, and the decision before it."""

    person: int
    flips: FlipSet
    prediction: int


def base_logits(trainer: Trainer, seeds: Sequence[int], people: Sequence[int]) -> dict[int, Floats]:
    """Per person, what each fresh seed's model says on the unchanged data."""
    logits = trainer.ask([Training((), seed) for seed in seeds])
    return {person: logits[:, person] for person in people}


def judge(
    trainer: Trainer, seeds: Sequence[int], found: Sequence[Found], base: Mapping[int, Floats]
) -> Iterator[tuple[int, FreshSeeds]]:
    """Every find on fresh seeds, person by person as they are done, so that whoever stops keeps what there is."""
    sets = list(dict.fromkeys(find.flips for find in found))
    step = max(1, 4 * trainer.bound.at_once // len(seeds))
    for first in range(0, len(sets), step):
        some = sets[first : first + step]
        trainings = [Training(flips, seed) for flips in some for seed in seeds]
        logits = trainer.ask(trainings).reshape(len(some), len(seeds), -1)
        for find in found:
            if find.flips in some:
                without, with_ = base[find.person], logits[some.index(find.flips), :, find.person]
                before, after = (decides_otherwise(each, find.prediction) for each in (without, with_))
                yield find.person, FreshSeeds.of(before, after, (without, with_))


def decides_otherwise(logits: Floats, decision: int) -> NDArray[np.bool_]:
    """Whether each seed's model decides otherwise; a training that diverged decides nothing."""
    return np.isfinite(logits) & (decides_one(logits) != bool(decision))


def collaterals(
    trainer: Trainer, labels: NDArray[np.int64] | None, found: Sequence[Found], positions: Sequence[int]
) -> list[Collateral]:
    """What each flip set does to the trainer's people, whose own labels are known by number or not at all; found person
    k stands at `positions[k]` among them."""
    sets = list(dict.fromkeys([(), *(find.flips for find in found)]))
    decisions = trainer.decided(sets)
    results = []
    for find, position in zip(found, positions, strict=True):
        before, after = decisions[0], decisions[sets.index(find.flips)]
        changed = before != after
        accuracies = (None, None) if labels is None else tuple(float((d == labels).mean()) for d in (before, after))
        results.append(Collateral(len(before) - 1, int(changed.sum() - changed[position]), *accuracies))
    return results

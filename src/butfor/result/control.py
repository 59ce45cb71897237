"""Believe it? What fresh seeds and everybody else have to say about a find.

All of it is trained by the fast engines, whose agreement with the definition is measured in the documentation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from butfor.progress import Watcher
from butfor.result.fresh import FreshSeeds
from butfor.seam import Bound, FlipSet, Floats, Training
from butfor.search.trainer import Trainer


@dataclass(frozen=True, eq=False)
class Found:
    """A counterfactual dataset to be controlled: whose it is, and the decision before it."""

    person: int
    flips: FlipSet
    prediction: int


def base_logits(train: Bound, seeds: Sequence[int], people: Sequence[int], watch: Watcher) -> dict[int, Floats]:
    """Per person, what each fresh seed's model says on the unchanged data."""
    logits = train([Training((), seed) for seed in seeds], watch.trained)
    return {person: logits[:, person] for person in people}


def judge(
    trainer: Trainer, seeds: Sequence[int], found: Sequence[Found], base: Mapping[int, Floats], watch: Watcher,
) -> Iterator[tuple[int, FreshSeeds]]:  # fmt: skip
    """Every find on fresh seeds, person by person as they are done, so that whoever stops keeps what there is."""
    sets = list(dict.fromkeys(f.flips for f in found))
    step = max(1, 4 * trainer.at_once // len(seeds))
    watch.left(len(sets) * len(seeds))
    for first in range(0, len(sets), step):
        some = sets[first : first + step]
        trainings = [Training(flips, seed) for flips in some for seed in seeds]
        logits = trainer.asked(trainings, watch.trained).reshape(len(some), len(seeds), -1)
        for f in found:
            if f.flips in some:
                without, with_ = base[f.person], logits[some.index(f.flips), :, f.person]
                before, after = otherwise(without, f.prediction), otherwise(with_, f.prediction)
                yield f.person, FreshSeeds.of(before, after, seeds[0], logits=(without, with_))


def otherwise(logits: Floats, decision: int) -> NDArray[np.bool_]:
    """Whether each seed's model decides otherwise; a training that diverged decides nothing."""
    return np.isfinite(logits) & ((logits > 0) != bool(decision))


@dataclass(frozen=True)
class Collateral:
    """What D' does to the other people of the test table; accuracies where their labels are known."""

    others: int
    changed: int
    accuracy_before: float | None = None
    accuracy_after: float | None = None

    @property
    def sentence(self) -> str:
        text = f"{self.changed} of {self.others} other test people are decided otherwise too"
        if self.accuracy_before is None or self.accuracy_after is None:
            return f"{text}."
        return f"{text}; test accuracy {100 * self.accuracy_before:.1f} % → {100 * self.accuracy_after:.1f} %."

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, record: dict[str, Any]) -> Collateral:
        return cls(**record)


def collaterals(
    decide: Callable[[Sequence[FlipSet]], Floats], labels: NDArray[np.bool_] | None, found: Sequence[Found],
    positions: Sequence[int],
) -> list[Collateral]:  # fmt: skip
    """What each flip set does to the people that `decide` gives logits of, `[sets × people]`; found person k stands at
    `positions[k]` among them."""
    sets = list(dict.fromkeys([(), *(f.flips for f in found)]))
    decisions = decide(sets) > 0
    results = []
    for f, position in zip(found, positions, strict=True):
        before, after = decisions[0], decisions[sets.index(f.flips)]
        changed = before != after
        accuracies = (None, None) if labels is None else tuple(float((d == labels).mean()) for d in (before, after))
        results.append(Collateral(len(before) - 1, int(changed.sum() - changed[position]), *accuracies))
    return results

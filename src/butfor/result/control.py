"""Believe it? Training noise alone flips some predictions; these controls say how much of a verdict is noise.

Seed control: with other seeds, how often does the *unchanged* data already give the other decision, and how
often does the counterfactual dataset? Collateral: what else does D' change? All of it is trained by the fast
engines, whose agreement with the reference is measured in the documentation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from butfor.progress import Watcher
from butfor.seam import Bound, FlipSet, Floats, Training

ALPHA = 0.05
"""A verdict is fragile where chance alone explains its seed counts at this level."""


@dataclass(frozen=True)
class SeedControl:
    """Paired counts over other seeds: who decides otherwise with the flips, and who without any flip.

    `p_value`: one-sided exact (McNemar) test on the seeds where the two differ; small means that the flips,
    not the seed, turn the decision."""

    seeds: int
    with_flips: int
    without_flips: int
    only_with_flips: int
    only_without_flips: int

    @property
    def p_value(self) -> float:
        from scipy.stats import binomtest

        discordant = self.only_with_flips + self.only_without_flips
        return float(binomtest(self.only_with_flips, discordant, alternative="greater").pvalue) if discordant else 1.0

    @property
    def fragile(self) -> bool:
        """The effect is no larger than seed noise."""
        return self.p_value > ALPHA

    @property
    def sentence(self) -> str:
        words = (
            f"Holds in {self.with_flips} of {self.seeds} other seeds; without any flip {self.without_flips} of "
            f"{self.seeds} decide so"
        )
        end = "no more than seed noise: fragile" if self.fragile else "more than seed noise"
        return f"{words} (p = {self.p_value:.2g}, {end})."

    def to_dict(self) -> dict[str, Any]:
        return asdict(self) | {"p_value": self.p_value, "fragile": self.fragile}

    @classmethod
    def from_dict(cls, record: dict[str, Any]) -> SeedControl:
        return cls(**{k: v for k, v in record.items() if k not in ("p_value", "fragile")})


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


@dataclass(frozen=True, eq=False)
class Found:
    """A counterfactual dataset to be controlled: whose it is, and the decision before it."""

    person: int
    flips: FlipSet
    prediction: int


def seed_controls(train: Bound, first: int, found: Sequence[Found], seeds: int, watch: Watcher) -> list[SeedControl]:
    """Retrain the unchanged data and every distinct flip set with each of `seeds` seeds from `first` on, all of them
    in one go."""
    sets = list(dict.fromkeys([(), *(f.flips for f in found)]))
    place = {flips: k for k, flips in enumerate(sets)}
    trainings = [Training(flips, first + s) for s in range(seeds) for flips in sets]
    logits = train(trainings, watch.trained).reshape(seeds, len(sets), -1)
    controls = []
    for f in found:
        without, with_ = (_decides_otherwise(logits[:, place[flips], f.person], f) for flips in ((), f.flips))
        controls.append(_counts(without, with_))
    return controls


def _decides_otherwise(logits: Floats, found: Found) -> NDArray[np.bool_]:
    """Per seed; a training that diverged decides nothing."""
    return np.isfinite(logits) & ((logits > 0) != bool(found.prediction))


def _counts(without: NDArray[np.bool_], with_: NDArray[np.bool_]) -> SeedControl:
    return SeedControl(
        seeds=len(without),
        with_flips=int(with_.sum()),
        without_flips=int(without.sum()),
        only_with_flips=int((with_ & ~without).sum()),
        only_without_flips=int((without & ~with_).sum()),
    )


def collaterals(
    train: Bound, labels: Floats | None, found: Sequence[Found], positions: Sequence[int], watch: Watcher
) -> list[Collateral]:
    """What each flip set does to the people that `train` asks about, among whom found person k stands at
    `positions[k]`."""
    sets = list(dict.fromkeys([(), *(f.flips for f in found)]))
    decisions = train([Training(flips) for flips in sets], watch.trained) > 0
    results = []
    for f, position in zip(found, positions, strict=True):
        before, after = decisions[0], decisions[sets.index(f.flips)]
        changed = before != after
        accuracies = (None, None) if labels is None else tuple(float((d == labels).mean()) for d in (before, after))
        results.append(Collateral(len(before) - 1, int(changed.sum() - changed[position]), *accuracies))
    return results

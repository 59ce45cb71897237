"""Believe it? Training noise alone flips some predictions; these controls say how much of a verdict is noise.

Seed control: with other seeds, how often does the *unchanged* data already give the other decision, and how
often does the counterfactual dataset? Collateral: what else does D' change? All of it is trained by the fast
engines, whose agreement with the reference is measured in the documentation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from math import comb
from typing import Any

import numpy as np
from numpy.typing import NDArray

from butfor.learn.recipe import Engine, FlipSet, Floats, Recipe, Rows
from butfor.progress import Watcher

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
        discordant = self.only_with_flips + self.only_without_flips
        tail = sum(comb(discordant, k) for k in range(self.only_with_flips, discordant + 1))
        return float(tail / 2**discordant)

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


def seed_controls(
    engine: Engine, recipe: Recipe, rows: Rows, people: Floats, found: Sequence[Found], seeds: int, watch: Watcher
) -> list[SeedControl]:
    """Retrain the unchanged data and every distinct flip set with each of `seeds` other seeds."""
    sets = list(dict.fromkeys([(), *(f.flips for f in found)]))
    place = {flips: k for k, flips in enumerate(sets)}
    other = np.zeros((2, seeds, len(found)), dtype=bool)  # without, with
    for s in range(seeds):
        logits = engine.fit_many(replace(recipe, seed=recipe.seed + 1 + s), rows, sets, people, watch.trained).logits
        for k, f in enumerate(found):
            for changed, flips in enumerate(((), f.flips)):
                other[changed, s, k] = (logits[place[flips], f.person] > 0) != bool(f.prediction)
    return [_counts(other[0, :, k], other[1, :, k]) for k in range(len(found))]


def _counts(without: NDArray[np.bool_], with_: NDArray[np.bool_]) -> SeedControl:
    return SeedControl(
        seeds=len(without),
        with_flips=int(with_.sum()),
        without_flips=int(without.sum()),
        only_with_flips=int((with_ & ~without).sum()),
        only_without_flips=int((without & ~with_).sum()),
    )


def collaterals(
    engine: Engine, recipe: Recipe, rows: Rows, table: Floats, labels: Floats | None, found: Sequence[Found],
    positions: Sequence[int], watch: Watcher,
) -> list[Collateral]:  # fmt: skip
    """What each flip set does to the encoded test `table`, in which found person k stands at `positions[k]`."""
    sets = list(dict.fromkeys([(), *(f.flips for f in found)]))
    decisions = engine.fit_many(recipe, rows, sets, table, watch.trained).logits > 0
    results = []
    for f, position in zip(found, positions, strict=True):
        before, after = decisions[0], decisions[sets.index(f.flips)]
        changed = before != after
        accuracies = (None, None) if labels is None else tuple(float((d == labels).mean()) for d in (before, after))
        results.append(Collateral(len(table) - 1, int(changed.sum() - changed[position]), *accuracies))
    return results

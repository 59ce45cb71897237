"""Fresh seeds: how a find stands on trainings that took no part in any search or choice.

`hold` is the share of single models, one per fresh seed, that decide otherwise about the person with the flips made,
`base` the share that does so on the unchanged data. Five words say what the counts show (their meanings: `SOLIDITY` of
words.py). More seeds sharpen a word. They seldom turn one into its opposite: whatever the counts leave open is
undecided.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np
from numpy.typing import NDArray

SOLID, LEANING, SEED_BOUND, UNDECIDED, NOT_CHECKED = "solid", "leaning", "seed-bound", "undecided", "not checked"
WORDS = (SOLID, LEANING, SEED_BOUND, UNDECIDED, NOT_CHECKED)
COUNTS = ("with_flips", "without_flips", "only_with_flips", "only_without_flips")

SURE = 0.95
"""Of one-sided bounds; intervals leave out half of the rest on either side, as is usual."""
HOLDS = 0.9
"""What the bound of `hold` must reach to be called solid."""
CLOSE = 0.1
"""A person about whom more than this share of fresh seeds decides otherwise on unchanged data is a close call."""
USUAL = 59
"""Seeds asked where nobody says how many; of so many, 58 must hold to be solid."""
LEAST = math.ceil(math.log(1 - SURE) / math.log(HOLDS))
"""With fewer (29), not even a find that holds under all of them reaches the bound of a solid one."""
MOST = 10_000
"""Nobody is advised to try more seeds than this."""


@dataclass(frozen=True)
class FreshSeeds:
    """Counts over fresh seeds, paired: who decides otherwise with the flips, without any flip, only so or only so."""

    seeds: int
    with_flips: int
    without_flips: int
    only_with_flips: int
    only_without_flips: int
    logits: tuple[tuple[float | None, ...], tuple[float | None, ...]] | None = None
    """What each seed's model says, without the flips and with them, rounded; None where its training diverged."""

    @classmethod
    def of(
        cls,
        without: NDArray[np.bool_],
        with_: NDArray[np.bool_],
        logits: tuple[NDArray[np.floating], NDArray[np.floating]] | None = None,
    ) -> FreshSeeds:
        """From what each seed's model decided: otherwise or not, without the flips and with them."""
        return cls(
            seeds=len(without),
            with_flips=int(with_.sum()),
            without_flips=int(without.sum()),
            only_with_flips=int((with_ & ~without).sum()),
            only_without_flips=int((without & ~with_).sum()),
            logits=(_rounded(logits[0]), _rounded(logits[1])) if logits else None,
        )

    @property
    def hold(self) -> float:
        return self.with_flips / self.seeds

    @property
    def base(self) -> float:
        return self.without_flips / self.seeds

    @property
    def effect(self) -> float:
        return self.hold - self.base

    @cached_property
    def hold_interval(self) -> tuple[float, float]:
        return exact_interval(self.with_flips, self.seeds)

    @cached_property
    def base_interval(self) -> tuple[float, float]:
        return exact_interval(self.without_flips, self.seeds)

    @cached_property
    def effect_interval(self) -> tuple[float, float]:
        return paired_interval(self.only_with_flips, self.only_without_flips, self.seeds)

    @cached_property
    def word(self) -> str:
        """Solid, leaning, seed-bound or undecided."""
        least = lower_bound(self.with_flips, self.seeds)
        if least >= HOLDS and self.base < 0.5:
            return SOLID
        low, high = self.effect_interval
        if low <= 0:  # the effect may be nothing: settled only where it cannot be large either
            return SEED_BOUND if high < 0.5 else UNDECIDED
        if self.hold > 0.5 and least > self.base:
            return LEANING
        most = 1 - lower_bound(self.seeds - self.with_flips, self.seeds)
        return SEED_BOUND if most < 0.5 else UNDECIDED

    @cached_property
    def would_do(self) -> int | None:
        """How many seeds would settle it if the shares stay what they are; None where no reasonable number would, and
        the usual number is tried already."""
        times = 2
        while times * self.seeds <= MOST:
            if times * self.seeds >= USUAL and self._times(times).word != UNDECIDED:
                return times * self.seeds
            times = math.ceil(1.2 * times)
        return USUAL if self.seeds < USUAL else None

    def _times(self, times: int) -> FreshSeeds:
        """The same shares among so many times the seeds."""
        return FreshSeeds(*(times * getattr(self, name) for name in ("seeds", *COUNTS)))

    @property
    def sentence(self) -> str:
        """ "Solid: with these flips 59 of 59 models trained under fresh seeds decide this way; without them, 5 do." """
        said = (
            f"{self.word.capitalize()}: with these flips {self.with_flips} of {self.seeds} models trained under fresh "
            f"seeds decide this way; without them, {self.without_flips or 'none'} do{'es' * (self.without_flips < 2)}."
        )
        if self.word != UNDECIDED:
            return said
        if self.would_do is None:
            return f"{said} The share is too near to one half for any reasonable number of seeds to tell."
        return f"{said} That is too few to tell; about {self.would_do} seeds would do."


@dataclass(frozen=True)
class Collateral:
    """What D' does to the other people of the test table; accuracies where their labels are known."""

    others: int
    changed: int
    accuracy_before: float | None = None
    accuracy_after: float | None = None

    @property
    def sentence(self) -> str:
        text = f"These flips change {self.changed} of {self.others} other test decisions"
        if self.accuracy_before is None or self.accuracy_after is None:
            return f"{text}."
        return f"{text}; test accuracy {100 * self.accuracy_before:.1f} % → {100 * self.accuracy_after:.1f} %."


def _rounded(logits: NDArray[np.floating]) -> tuple[float | None, ...]:
    return tuple(round(float(logit), 3) if math.isfinite(logit) else None for logit in logits)


@cache
def exact_interval(count: int, n: int) -> tuple[float, float]:
    """The 95 % Clopper–Pearson interval of a share."""
    from scipy.stats import binomtest

    interval = binomtest(count, n).proportion_ci(confidence_level=SURE, method="exact")
    return float(interval.low), float(interval.high)


@cache
def lower_bound(count: int, n: int) -> float:
    """The one-sided 95 % (Clopper–Pearson) bound that a share reaches at least."""
    from scipy.stats import beta

    return float(beta.ppf(1 - SURE, count, n - count + 1)) if count else 0.0


@cache
def paired_interval(only_with: int, only_without: int, n: int) -> tuple[float, float]:
    """The 95 % interval of the difference of two shares of the same n seeds, from those where the two differ.

    Tango's (Statistics in Medicine 17, 1998): all differences that the score test does not reject. It keeps its level
    with few seeds and where the two never differ, where simpler ones do not."""
    from scipy.stats import norm

    z, seen = float(norm.ppf((1 + SURE) / 2)), (only_with - only_without) / n
    return _edge(only_with, only_without, n, -z, seen), _edge(only_with, only_without, n, z, seen)


def _edge(b: int, c: int, n: int, z: float, seen: float) -> float:
    """Where the score statistic of b against c becomes z: bisection from the difference seen to the end."""
    inside, outside = seen, math.copysign(1.0, z)
    for _ in range(50):
        middle = (inside + outside) / 2
        inside, outside = (middle, outside) if abs(_score(b, c, n, middle)) < abs(z) else (inside, middle)
    return inside


def _score(b: int, c: int, n: int, difference: float) -> float:
    """The score statistic against a difference of two paired shares, with b only the one, c only the other."""
    first = -b - c + (2 * n - b + c) * difference
    second = -c * difference * (1 - difference)
    only_c = (math.sqrt(max(first**2 - 8 * n * second, 0.0)) - first) / (4 * n)
    variance = n * (2 * only_c + difference * (1 - difference))
    away = b - c - n * difference
    return away / math.sqrt(variance) if variance > 0 else math.copysign(math.inf, away) if away else 0.0


@cache
def wilson(count: int, n: int, unknown: int = 0) -> tuple[float, float]:
    """The 95 % Wilson score interval of a share; everything is possible where n is 0. `unknown`: how many more there
    may be, of whom nothing is known."""
    from scipy.stats import binomtest

    if n == 0:
        return 0.0, 1.0
    low, high = (binomtest(each, n).proportion_ci(method="wilson") for each in (count, count + unknown))
    return float(low.low), float(high.high)

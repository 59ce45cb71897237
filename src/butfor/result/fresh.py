"""Fresh seeds: whether a find holds in models that took no part in the search.

One model is trained per fresh seed. `hold` is the share of models that change the decision with the
flips, `base` the share that do so without them. Five words say what the counts show (`SOLIDITY` in
words.py). If the counts leave it open, the find is undecided.

Seeds come in two looks. After `FIRST_LOOK_SEEDS`, a find without a failure is solid, and one that
can no longer become solid gets its word. The others, and those that are undecided, go on to all
seeds. How many failures a solid find may have then is chosen so that a find whose flips change 9 in
10 models is called solid with a probability of 5 % at most, both looks together.
"""

from __future__ import annotations

import math
from dataclasses import astuple, dataclass
from functools import cache, cached_property

import numpy as np
from numpy.typing import NDArray

from butfor.result.record import within
from butfor.support.errors import plural
from butfor.words.figures import share

SOLID = "solid"
LEANING = "leaning"
SEED_BOUND = "seed-bound"
UNDECIDED = "undecided"
NOT_CHECKED = "not checked"
SOLIDITIES = (SOLID, LEANING, SEED_BOUND, UNDECIDED, NOT_CHECKED)

CONFIDENCE = 0.95
"""Confidence of one-sided bounds and of intervals."""
SOLID_SHARE = 0.9
"""A find is solid if the lower bound of `hold` reaches this."""
CLOSE_CALL_SHARE = 0.1
"""A decision is a close call if more than this share of fresh seeds changes it without any flip."""
FIRST_LOOK_SEEDS = 30
"""Fresh seeds of the first look."""
DEFAULT_SEEDS = 59
"""The default number of fresh seeds; a find is solid if all of the first 30 hold, or 58 of 59."""
MIN_SOLID_SEEDS = math.ceil(math.log(1 - CONFIDENCE) / math.log(SOLID_SHARE))
"""With fewer seeds (29), even a find that holds under all of them is not solid."""
MOST_SEEDS = 10_000
"""The most seeds that are recommended."""


@dataclass(frozen=True)
class FreshSeeds:
    """How many fresh seeds change the decision: with the flips, without them, and in only one of
    the two cases."""

    seeds: int
    with_flips: int
    without_flips: int
    only_with_flips: int
    only_without_flips: int
    logits: tuple[tuple[float | None, ...], tuple[float | None, ...]] | None = None
    """Each seed's logit without the flips and with them, rounded; None if the training diverged."""

    def __post_init__(self) -> None:
        within(self, seeds=(1, 2**31))

    @classmethod
    def of(
        cls,
        without: NDArray[np.bool_],
        with_: NDArray[np.bool_],
        logits: tuple[NDArray[np.floating], NDArray[np.floating]] | None = None,
    ) -> FreshSeeds:
        """From whether each seed changes the decision, without the flips and with them."""
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
        """The share of fresh seeds that change the decision with the flips."""
        return self.with_flips / self.seeds

    @property
    def base(self) -> float:
        """The share that change it without them."""
        return self.without_flips / self.seeds

    @cached_property
    def word(self) -> str:
        """Solid, leaning, seed-bound or undecided."""
        if may_be_solid(self.seeds - self.with_flips, self.seeds) and self.base < 0.5:
            return SOLID
        low, high = paired_interval(self.only_with_flips, self.only_without_flips, self.seeds)
        if low <= 0:  # the effect may be 0: seed-bound only if it cannot be large either
            return SEED_BOUND if high < 0.5 else UNDECIDED
        least, most = interval_of(self.with_flips, self.seeds, 2 * CONFIDENCE - 1)
        if self.hold > 0.5 and least > self.base:
            return LEANING
        return SEED_BOUND if most < 0.5 else UNDECIDED

    def open_until(self, seeds: int) -> bool:
        """Whether so many seeds may still make it solid, or settle an undecided one."""
        failures = self.seeds - self.with_flips
        return self.word != SOLID and (self.word == UNDECIDED or may_be_solid(failures, seeds))

    @cached_property
    def would_do(self) -> int | None:
        """How many seeds would settle it if the shares stay the same; None if no reasonable number
        would."""
        times = 2
        while times * self.seeds <= MOST_SEEDS:
            more = FreshSeeds(*(times * count for count in astuple(self)[:5]))
            if more.seeds >= DEFAULT_SEEDS and more.word != UNDECIDED:
                return more.seeds
            times = math.ceil(1.2 * times)
        return DEFAULT_SEEDS if self.seeds < DEFAULT_SEEDS else None

    @property
    def sentence(self) -> str:
        """ "Solid: with these flips 30 of 30 models trained under fresh seeds decide this way;
        without them, 5 do." """
        without = "none does"
        if self.without_flips:
            without = plural(self.without_flips, "does", "do")
        counts = (
            f"{self.word.capitalize()}: with these flips {self.with_flips} of {self.seeds} models "
            f"trained under fresh seeds decide this way; without them, {without}."
        )
        if self.word != UNDECIDED:
            return counts
        if self.would_do is None:
            return (
                f"{counts} The share is too close to one half for any reasonable number of seeds "
                "to tell."
            )
        return f"{counts} That is too few to tell; about {self.would_do} seeds would do."


def _rounded(logits: NDArray[np.floating]) -> tuple[float | None, ...]:
    """Logits as a record holds them; None if the training diverged."""
    return tuple(round(float(logit), 3) if math.isfinite(logit) else None for logit in logits)


def solidity(fresh: FreshSeeds | None, seeded: bool) -> str:
    """Solid, leaning, seed-bound, undecided or not checked. `seeded`: whether a seed changes the
    model."""
    if fresh:
        return fresh.word
    return NOT_CHECKED if seeded else SOLID


@dataclass(frozen=True)
class Collateral:
    """How many other test decisions the flips change; accuracies if the labels are known."""

    others: int
    changed: int
    accuracy_before: float | None = None
    accuracy_after: float | None = None

    @property
    def sentence(self) -> str:
        text = f"These flips change {self.changed} of {self.others} other test decisions"
        if self.accuracy_before is None or self.accuracy_after is None:
            return f"{text}."
        return (
            f"{text}; test accuracy {share(self.accuracy_before)} → {share(self.accuracy_after)}."
        )


@cache
def interval_of(
    count: int, n: int, sure: float = CONFIDENCE, method: str = "exact"
) -> tuple[float, float]:
    """The interval of a share: Clopper and Pearson's or, with `method="wilson"`, Wilson's; 0 to 1
    if n is 0. Both ends of the 90 % interval are one-sided 95 % bounds."""
    from scipy.stats import binomtest

    low, high = binomtest(count, n).proportion_ci(sure, method) if n else (0, 1)
    return float(low), float(high)


@cache
def may_be_solid(failures: int, seeds: int) -> bool:
    """Whether a find is solid with so many failures among so many fresh seeds: a find that holds in
    exactly `SOLID_SHARE` of all models passes with a probability of 5 % at most, without a failure
    in the first look or with at most so many in both."""
    from scipy.special import bdtr

    error = float(bdtr(failures, seeds, 1 - SOLID_SHARE))
    later = seeds - FIRST_LOOK_SEEDS
    if later > 0:
        at_once = SOLID_SHARE**FIRST_LOOK_SEEDS
        error = (
            at_once + error - at_once * float(bdtr(min(failures, later), later, 1 - SOLID_SHARE))
        )
    return error <= 1 - CONFIDENCE


@cache
def paired_interval(only_with: int, only_without: int, n: int) -> tuple[float, float]:
    """The 95 % interval of the difference of two shares of the same n seeds, from the seeds that
    differ.

    Tango's (Statistics in Medicine 17, 1998): all differences that the score test does not reject.
    Unlike simpler intervals it keeps its level with few seeds, and if no seed differs."""
    from scipy.optimize import bisect
    from scipy.stats import norm

    b = only_with
    c = only_without
    z = float(norm.ppf((1 + CONFIDENCE) / 2))

    def beyond(difference: float) -> float:
        """The score test's statistic for this difference, less its critical value."""
        first = -b - c + (2 * n - b + c) * difference
        second = -c * difference * (1 - difference)
        only_c = (math.sqrt(max(first**2 - 8 * n * second, 0.0)) - first) / (4 * n)
        variance = n * (2 * only_c + difference * (1 - difference))
        away = abs(b - c - n * difference)
        score = math.inf if away else 0.0
        if variance > 0:
            score = away / math.sqrt(variance)
        return score - z

    def end(limit: float) -> float:
        """Where the interval ends on the side of a limit."""
        return observed if observed == limit else float(bisect(beyond, observed, limit))

    observed = (b - c) / n
    return end(-1.0), end(1.0)

"""Are groups really different? Shares, compared with what chance and the rule ψ alone would give.

ψ lets labels of the person's own group be flipped, so groups of other sizes and other labels have other shares by
construction. Three comparisons stand beside the difference: Fisher's exact test, which asks whether so few people could
differ so much by chance; the same among people equally near to the decision boundary; and, where it was asked for, the
audit again with the protected attribute shuffled, which asks whether the attribute has anything to do with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

STRATA = 3
"""Bands of equal size by distance from the boundary, within which people are compared."""
DRAWS = 4999
LEVEL = 0.05


@dataclass(frozen=True)
class Shuffles:
    """The audit again with the protected attribute shuffled: the gap between groups as it is and in every shuffle."""

    gap: float
    shuffled: tuple[float, ...]

    @property
    def p_value(self) -> float:
        """The share of all gaps, the real one among them, that are as large."""
        return (1 + self._as_large) / (1 + len(self.shuffled))

    @property
    def _as_large(self) -> int:
        return sum(gap >= self.gap - 1e-12 for gap in self.shuffled)

    @property
    def sentence(self) -> str:
        times, runs = self._as_large, len(self.shuffled)
        shown = f"{points(self.gap)} apart; shuffled, {points(float(np.median(self.shuffled)))} in the median"
        return (
            f"By who is turned by the first set of the whole budget, groups are up to {shown}, and as far in {times} "
            f"of {runs} shuffles (p = {self.p_value:.2g})."
        )


@dataclass(frozen=True)
class Comparison:
    """The two groups whose shares are furthest apart. `pairs`: how many pairs of groups they were chosen from, by
    which p-values are multiplied. `like_*`: among people of like distance from the boundary; None where no band has
    people of both groups."""

    most: str
    least: str
    difference: float
    pairs: int
    p_value: float
    like_difference: float | None
    like_p_value: float | None
    shuffles: Shuffles | None = None

    @property
    def sentence(self) -> str:
        """What the comparison shows; no more than it does."""
        gap = f"'{self.most}' and '{self.least}' differ by {points(self.difference)} (Fisher's exact p = "
        gap += f"{self.p_value:.2g}"
        like = ""
        if self.like_difference is not None:
            like = f"; among people equally near to the boundary by {points(self.like_difference)}, p = "
            like += f"{self.like_p_value:.2g}"
        return f"{gap}{like}). {self.conclusion}"

    @property
    def conclusion(self) -> str:
        if self.p_value > LEVEL:
            shuffled = f" {self.shuffles.sentence}" if self.shuffles else ""
            return f"With this many people that may be chance.{shuffled}"
        if self.shuffles is None:
            return (
                "That is more than chance, but groups of other sizes and labels differ anyway: whether the attribute "
                "itself has to do with it only shuffling it can tell (--shuffles 19)."
            )
        how = "as" if self.shuffles.p_value > LEVEL else "more than"
        return f"{self.shuffles.sentence} So groups differ {how} groups of these sizes do anyway."


def compare(
    groups: Sequence[Any], turned: NDArray[np.bool_], margins: NDArray[np.float64], shuffles: Shuffles | None = None
) -> Comparison | None:
    """From each person's group, whether their decision was turned, and how far from the boundary they are; None where
    there are no two groups."""
    names = sorted(set(map(str, groups)))
    if len(names) < 2:
        return None
    of = np.array(list(map(str, groups)), dtype=object)
    shares = {name: float(turned[of == name].mean()) for name in names}
    most, least = max(names, key=lambda n: shares[n]), min(names, key=lambda n: shares[n])
    if most == least:
        most, least = names[0], names[1]
    pairs = len(list(combinations(names, 2)))
    two = np.isin(of, [most, least])
    first, hit = of[two] == most, turned[two]
    like = _like(first, hit, margins[two])
    return Comparison(
        most=most,
        least=least,
        difference=shares[most] - shares[least],
        pairs=pairs,
        p_value=min(1.0, pairs * fisher(first, hit)),
        like_difference=like[0] if like else None,
        like_p_value=min(1.0, pairs * like[1]) if like else None,
        shuffles=shuffles,
    )


def fisher(first: NDArray[np.bool_], hit: NDArray[np.bool_]) -> float:
    """Fisher's exact test of two groups' shares, two-sided."""
    from scipy.stats import fisher_exact

    table = [[int((hit & group).sum()), int((~hit & group).sum())] for group in (first, ~first)]
    return float(fisher_exact(table)[1])


def _like(first: NDArray[np.bool_], hit: NDArray[np.bool_], margins: NDArray[np.float64]) -> tuple[float, float] | None:
    """The difference within bands of like margin, and how often groups shuffled within bands differ as much."""
    band = np.digitize(margins, np.quantile(margins, np.linspace(0, 1, STRATA + 1)[1:-1]))
    bands = [np.flatnonzero(band == k) for k in range(STRATA)]
    bands = [at for at in bands if first[at].any() and not first[at].all()]
    if not bands:
        return None
    theirs = np.array([first[at].sum() for at in bands])
    others = np.array([len(at) for at in bands]) - theirs
    weights = theirs * others / (theirs + others)
    hits = np.array([hit[at].sum() for at in bands])
    if not hits.any():
        return 0.0, 1.0

    def differences(taken: NDArray[np.int64]) -> NDArray[np.float64]:
        return np.average(taken / theirs - (hits - taken) / others, axis=-1, weights=weights)

    seen = float(differences(np.array([np.count_nonzero(hit[at] & first[at]) for at in bands])))
    # Who is shuffled within a band draws so many of its hits without putting them back.
    shuffled = np.random.default_rng(0).hypergeometric(hits, theirs + others - hits, theirs, (DRAWS, len(bands)))
    extreme = int((np.abs(differences(shuffled)) >= abs(seen) - 1e-12).sum())
    return seen, (1 + extreme) / (1 + DRAWS)


def points(share: float) -> str:
    return f"{100 * share:.1f} points".replace("-", "−")

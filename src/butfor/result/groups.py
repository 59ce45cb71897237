"""Groups beside each other: how good the model is for each, and whether their shares of finds really differ.

ψ lets labels of the person's own group be flipped, so groups of other sizes and other labels have other shares by
construction. Two comparisons stand beside the difference: Fisher's exact test, which asks whether so few people could
differ so much by chance; and, where it was asked for, the audit again with the protected attribute shuffled, which asks
whether the attribute has anything to do with it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import comb
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from butfor.data.check import Concern
from butfor.result.record import percent, stored

Codes = NDArray[np.int64]
Mask = NDArray[np.bool_]
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
        shown = f"{points(self.gap)} apart; shuffled, {points(float(np.median(self.shuffled)))} in the median"
        return (
            f"By who is turned by the first set of the whole budget, groups are up to {shown}, and as far in "
            f"{self._as_large} of {len(self.shuffled)} shuffles (p = {self.p_value:.2g})."
        )


@dataclass(frozen=True)
class Comparison:
    """The two groups whose shares are furthest apart. `pairs`: how many pairs of groups they were chosen from, by
    which the p-value is multiplied."""

    most: str
    least: str
    difference: float
    pairs: int
    p_value: float
    shuffles: Shuffles | None = None

    @property
    def sentence(self) -> str:
        """What the comparison shows; no more than it does."""
        return (
            f"'{self.most}' and '{self.least}' differ by {points(self.difference)} (Fisher's exact p = "
            f"{self.p_value:.2g}). {self._conclusion}"
        )

    @property
    def _conclusion(self) -> str:
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


def compare(groups: Sequence[Any], turned: Mask, shuffles: Shuffles | None = None) -> Comparison | None:
    """From each person's group and whether their decision was turned; None where there are no two groups."""
    from scipy.stats import fisher_exact

    hits: dict[str, list[bool]] = {name: [] for name in sorted(set(map(str, groups)))}
    for group, hit in zip(groups, turned, strict=True):
        hits[str(group)].append(bool(hit))
    if len(hits) < 2:
        return None
    shares = {name: sum(some) / len(some) for name, some in hits.items()}
    most, least = max(shares, key=lambda name: shares[name]), min(shares, key=lambda name: shares[name])
    if most == least:
        most, least = list(hits)[:2]
    table = [[sum(hits[name]), len(hits[name]) - sum(hits[name])] for name in (most, least)]
    pairs = comb(len(hits), 2)
    p_value = min(1.0, pairs * float(fisher_exact(table)[1]))
    return Comparison(most, least, shares[most] - shares[least], pairs, p_value, shuffles)


@dataclass(frozen=True)
class GroupRates:
    """Of a group's people the share labelled and the share decided `positive`, and the share decided wrongly: of all,
    of those labelled otherwise and of those labelled so. None where there are none, or no label is `positive`."""

    group: str
    people: int
    base_rate: float | None
    selection_rate: float | None
    error_rate: float | None
    false_positive_rate: float | None
    false_negative_rate: float | None


@dataclass(frozen=True)
class Performance:
    """How good the model is where labels are known: of `people` the share decided rightly, that of the commoner
    training label alone, and the rates of each group."""

    people: int
    accuracy: float
    majority: float
    positive: str
    sensitive: str
    by_group: tuple[GroupRates, ...]

    @classmethod
    def of(
        cls,
        groups: pd.Series,
        truth: Codes,
        decided: Codes,
        commoner: int,
        sides: Callable[[Codes], Mask],
        positive: str | None,
        order: Sequence[Any],
    ) -> Performance:
        """From people's groups, their labels and decisions by number, and the commonest label of the training rows.
        `sides` says which of them count as `positive`; where that is None, none do. `order`: how the groups are
        listed."""

        def share(hits: Mask) -> float | None:
            return float(hits.mean()) if len(hits) else None

        rates = []
        for group in map(str, order):
            ours = (groups.astype(str) == group).to_numpy()
            label, said, wrong = sides(truth)[ours], sides(decided)[ours], (truth != decided)[ours]
            errors = share(wrong), share(said[~label]), share(~said[label])
            known = (
                (share(label), share(said), *errors) if positive is not None else (None, None, errors[0], None, None)
            )
            rates.append(GroupRates(group, int(ours.sum()), *known))
        return cls(
            people=len(truth),
            accuracy=float((truth == decided).mean()),
            majority=float((truth == commoner).mean()),
            positive=positive or "",
            sensitive=str(groups.name),
            by_group=tuple(rates),
        )

    @property
    def rates(self) -> pd.DataFrame:
        """One row per group."""
        return (
            pd.DataFrame(stored(self.by_group))
            .set_index("group")
            .rename_axis(self.sensitive)
            .astype(float)
            .astype({"people": int})
        )

    @property
    def sentence(self) -> str:
        return (
            f"The model decides rightly about {percent(self.accuracy)} of {self.people} people whose label is known; "
            f"always the commoner label would about {percent(self.majority)}."
        )

    @property
    def concern(self) -> Concern | None:
        """That the model is no better than the commoner label, where it is not."""
        if self.accuracy > self.majority:
            return None
        return Concern(
            "majority",
            (),
            f"The model is right about {percent(self.accuracy)} of {self.people} people, no more than the commoner "
            f"label alone ({percent(self.majority)}): what turns its decisions says little about the labels.",
        )

    def to_dict(self) -> dict[str, Any]:
        """As a record holds it."""
        return dict(stored(self))


def points(share: float, sign: str = "") -> str:
    """Percentage points; with the sign "+" also of what is above 0."""
    return f"{100 * share:{sign}.1f} points".replace("-", "−")

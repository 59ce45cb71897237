"""Labels that are worth a review, and what to expect of one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from butfor.result.person import Cell

MOST_RECORDED = 1000
"""Labels that a record holds, the most valuable first."""
TO_REVIEW = 100
"""Labels to review where nobody says how many, and those that a page speaks of."""
CALIBRATED = "doubts brought into line with how many labels the groups fall short, as if that were spread evenly"
NOT_CALIBRATED = (
    "the sum of their doubts, which is not calibrated: no adverse label is named, and labels that nobody would call "
    "wrong are doubted too"
)


@dataclass(frozen=True)
class LabelValue:
    """One training label: its doubt, what a review of it is worth, and how likely it is wrong, where that can be
    told."""

    position: int
    row: Cell
    group: Cell
    label: str
    doubt: float
    value: float
    wrong: float | None = None


def expected_wrong(labels: Sequence[LabelValue]) -> list[float]:
    """Of the first 1, 2, … labels, how many are likely to be wrong."""
    return list(accumulate(each.doubt if each.wrong is None else each.wrong for each in labels))


def expectation(labels: Sequence[LabelValue]) -> str:
    """In a sentence, before anybody reviews them."""
    expected = expected_wrong(labels)
    if not expected:
        return ""
    how = NOT_CALIBRATED if labels[0].wrong is None else CALIBRATED
    parts = [k for k in (len(expected) // 4, len(expected) // 2) if k]
    curve = "; ".join(f"of the first {k}, {expected[k - 1]:.0f}" for k in parts)
    return (
        f"Of these {len(expected)} labels about {expected[-1]:.0f} are likely to be wrong"
        f"{f' ({curve})' if curve else ''}: {how}."
    )

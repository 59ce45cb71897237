"""Training labels to review, and labels flipped together by a review."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import accumulate

from butfor.errors import plural
from butfor.result.fresh import NOT_CHECKED, SOLID, FreshSeeds
from butfor.result.person import Cell

LEVEL = 0.05
"""Significance level of tests."""
MOST_RECORDED = 1000
"""The most labels in a record, in the order of review."""
TO_REVIEW = 100
"""The most labels to review by default."""
LITTLE = 0.5
"""If fewer labels than this are likely to be wrong, a review has little to find."""
CALIBRATED = "the sum of their probabilities of being wrong"
NOT_CALIBRATED = "the sum of their doubts, which is too high: name the adverse label (--adverse) for probabilities"
Counts = tuple[int, int]
"""A count, and out of how many."""


# --- to review ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TrainingLabel:
    """One training label: its doubt and, if an adverse label is named, the probability that it is wrong."""

    position: int
    row: Cell
    group: Cell
    label: str
    doubt: float
    wrong: float | None = None


def expected_wrong(labels: Sequence[TrainingLabel]) -> list[float]:
    """How many of the first 1, 2, … labels are likely to be wrong."""
    return list(accumulate(each.doubt if each.wrong is None else each.wrong for each in labels))


def how_many_to_review(labels: Sequence[TrainingLabel]) -> int:
    """The default: labels that may be wrong, at most 100."""
    likely = sum(each.wrong is None or each.wrong > 0 for each in labels) or len(labels)
    return max(1, min(TO_REVIEW, likely))


def worth_a_review(labels: Sequence[TrainingLabel]) -> bool:
    """Whether one of the first labels is likely to be wrong, or nobody knows."""
    first = labels[:TO_REVIEW]
    return bool(first) and (first[0].wrong is None or expected_wrong(first)[-1] >= LITTLE)


def expectation(labels: Sequence[TrainingLabel]) -> str:
    """How many of these labels are likely to be wrong, in a sentence."""
    expected = expected_wrong(labels)
    if not expected:
        return ""
    how = NOT_CALIBRATED if labels[0].wrong is None else CALIBRATED
    parts = [k for k in (len(expected) // 4, len(expected) // 2) if k]
    n, curve = len(expected), "; ".join(f"of the first {k}, {expected[k - 1]:.0f}" for k in parts)
    return (
        f"About {plural(expected[-1], f'of these {n} labels is', f'of these {n} labels are')} likely to be wrong"
        f"{f' ({curve})' if curve else ''}: {how}."
    )


# --- flipped together -------------------------------------------------------------------------------


@dataclass(frozen=True)
class ChangedDecision:
    """A person whose decision changes once the labels are flipped."""

    case: int
    row: Cell
    group: Cell
    logit: float
    counterfactual_logit: float
    fresh: FreshSeeds | None = None


@dataclass(frozen=True, kw_only=True, repr=False)
class FlipOutcome:
    """Labels flipped together, of all `labels`, and whose decisions change.

    `rates`: per group, the share of favourable decisions before and after; `accuracy` likewise, if labels are known.
    `seeded`: whether a seed changes the model."""

    flips: tuple[int, ...]
    labels: int
    changed: tuple[ChangedDecision, ...]
    rates: dict[str, tuple[float, float]]
    seeded: bool
    accuracy: tuple[float, float] | None = None

    @property
    def sentence(self) -> str:
        raise NotImplementedError

    def __repr__(self) -> str:
        return self.sentence

    def _repr_html_(self) -> str:
        return f"<p>{escape(self.sentence)}</p>"

    def solidity_of(self, person: ChangedDecision) -> str:
        """Solid, leaning, … as for a find."""
        if person.fresh:
            return person.fresh.word
        return NOT_CHECKED if self.seeded else SOLID

    def solid_clause(self, people: tuple[ChangedDecision, ...]) -> str:
        """How many of these decisions change under any seed tried, for the end of a sentence."""
        if not people or not self.seeded or not all(person.fresh for person in people):
            return ""
        return f", {sum(self.solidity_of(person) == SOLID for person in people)} of them under any seed tried"

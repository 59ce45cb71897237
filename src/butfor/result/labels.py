"""Training labels: those to review, and those flipped together, to close a gap or by a review."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import accumulate

from butfor.result.fresh import NOT_CHECKED, SOLID, FreshSeeds
from butfor.result.groups import points
from butfor.result.person import Cell

LEVEL = 0.05
"""Of tests."""
MOST_RECORDED = 1000
"""Labels that a record holds, in the order of review."""
TO_REVIEW = 100
"""Labels to review where nobody says how many, and those that a page speaks of."""
LITTLE = 0.5
"""With fewer labels likely to be wrong than this, a review has little to find."""
CALIBRATED = "the sum of their probabilities of being wrong"
NOT_CALIBRATED = "the sum of their doubts, which is too high: name the adverse label (--adverse) for probabilities"
Counts = tuple[int, int]
"""So many, of how many."""


# --- to review ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TrainingLabel:
    """One training label: its doubt and, where an adverse label is named, how likely it is wrong."""

    position: int
    row: Cell
    group: Cell
    label: str
    doubt: float
    wrong: float | None = None


def expected_wrong(labels: Sequence[TrainingLabel]) -> list[float]:
    """Of the first 1, 2, … labels, how many are likely to be wrong."""
    return list(accumulate(each.doubt if each.wrong is None else each.wrong for each in labels))


def how_many_to_review(labels: Sequence[TrainingLabel]) -> int:
    """Without a wish: those that may be wrong, at most 100 and at most half of them, so that decoys are left."""
    likely = sum(each.wrong is None or each.wrong > 0 for each in labels) or len(labels)
    return max(1, min(TO_REVIEW, likely, len(labels) // 2))


def worth_a_review(labels: Sequence[TrainingLabel]) -> bool:
    """Whether a label of the first ones is likely to be wrong, or that is not known."""
    first = labels[:TO_REVIEW]
    return bool(first) and (first[0].wrong is None or expected_wrong(first)[-1] >= LITTLE)


def expectation(labels: Sequence[TrainingLabel]) -> str:
    """In a sentence, before anybody reviews them."""
    expected = expected_wrong(labels)
    if not expected:
        return ""
    how = NOT_CALIBRATED if labels[0].wrong is None else CALIBRATED
    parts = [k for k in (len(expected) // 4, len(expected) // 2) if k]
    curve = "; ".join(f"of the first {k}, {expected[k - 1]:.0f}" for k in parts)
    return (
        f"About {expected[-1]:.0f} of these {len(expected)} labels are likely to be wrong"
        f"{f' ({curve})' if curve else ''}: {how}."
    )


# --- flipped together -------------------------------------------------------------------------------


@dataclass(frozen=True)
class ChangedDecision:
    """A person about whom the decision changes once the labels are flipped."""

    case: int
    row: Cell
    group: Cell
    logit: float
    counterfactual_logit: float
    fresh: FreshSeeds | None = None


@dataclass(frozen=True, kw_only=True, repr=False)
class FlipOutcome:
    """Labels flipped together, of all `labels`, and whose decisions change.

    `rates`: per group, the share of favourable decisions before and after; `accuracy` likewise, where labels are known.
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
        """Solid, leaning, … as for any find."""
        if person.fresh:
            return person.fresh.word
        return NOT_CHECKED if self.seeded else SOLID

    def solid_clause(self, people: tuple[ChangedDecision, ...]) -> str:
        """How many of these decisions change under any seed tried, for the end of a sentence."""
        if not people or not self.seeded or not all(person.fresh for person in people):
            return ""
        return f", {sum(self.solidity_of(person) == SOLID for person in people)} of them under any seed tried"


@dataclass(frozen=True, kw_only=True, repr=False)
class ClosedGap(FlipOutcome):
    """The fewest doubted labels, in the order of review, that bring two groups' rates together.

    `groups`: the one with the lower rate, and the other. `gap`: between them before and after; below 0 where the flips
    turn it around. Where it is not `closed`, that is after all `doubted` labels, or after as many as overshoot.
    `members` and `fresh`: how many single models have it closed too."""

    by: str
    groups: tuple[str, str]
    within: float
    gap: tuple[float, float]
    closed: bool
    doubted: int
    members: Counts
    fresh: Counts | None = None

    @property
    def overshoots(self) -> bool:
        """Whether the fewest labels that would do turn the gap around by more than is allowed."""
        return self.gap[1] < -self.within

    @property
    def sentence(self) -> str:
        (low, high), (before, after) = self.groups, map(points, self.gap)
        what = f"The {self.by} rates of '{low}' and '{high}' are {before} apart"
        if self.overshoots:
            return (
                f"{what}. Flipping doubted labels does not bring them within {points(self.within)}: "
                f"{len(self.flips)} of the {self.doubted} of '{low}' reverse the gap to {after}, and one fewer leaves "
                "it open."
            )
        if not self.closed and not self.doubted:
            return f"{what}. No adverse label of '{low}' is doubtful, so none was flipped."
        if not self.closed:
            return (
                f"{what}. Flipping all {self.doubted} doubted labels of '{low}' does not close the gap: {after} remain."
            )
        if not self.flips:
            return f"{what}: there is no gap to close."
        counts = ((self.members, "members"), (self.fresh or (0, 0), "fresh seeds"))
        alone = " and ".join(f"{closed} of {models} {who}" for (closed, models), who in counts if models > 1)
        return (
            f"{what}. Flipping {len(self.flips)} of {self.doubted} doubted labels of '{low}' closes the gap to {after} "
            f"and changes {len(self.changed)} decisions{self.solid_clause(self.changed)}."
            + (f" {alone} alone close it too." if alone else "")
        )

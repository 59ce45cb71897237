"""Training labels: those worth a review, and those flipped together: for one standard, or to close a gap."""

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
"""Labels that a record holds, the most valuable first."""
TO_REVIEW = 100
"""Labels to review where nobody says how many, and those that a page speaks of."""
CALIBRATED = "doubts brought into line with how many labels the groups fall short, as if that were spread evenly"
NOT_CALIBRATED = (
    "the sum of their doubts, which is not calibrated: no adverse label is named, and labels that nobody would call "
    "wrong are doubted too"
)
Counts = tuple[int, int]
"""So many, of how many."""


# --- worth a review ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class LabelValue:
    """One training label: its doubt, what a review of it is worth, and how likely it is wrong, where that is known."""

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
        return f", {sum(self.solidity_of(person) == SOLID for person in people)} of them whatever the seed"


@dataclass(frozen=True, kw_only=True, repr=False)
class OneStandard(FlipOutcome):
    """M doubted adverse labels of one group. `people`: how many of those asked about are of the group."""

    attribute: str
    group: str
    people: int

    @property
    def of_group(self) -> tuple[ChangedDecision, ...]:
        return tuple(person for person in self.changed if str(person.group) == self.group)

    @property
    def sentence(self) -> str:
        """ "Had the labels where afam = yes been given by the standard of the others (28 of 1428 labels), …" """
        ours, others = self.of_group, len(self.changed) - len(self.of_group)
        return (
            f"Had the labels where {self.attribute} = {self.group} been given by the standard of the others "
            f"({len(self.flips)} of {self.labels} labels), {len(ours)} of {self.people} decisions about them would be "
            f"otherwise{self.solid_clause(ours)}{f', and {others} about others' if others else ''}."
        )


@dataclass(frozen=True, kw_only=True, repr=False)
class ClosedGap(FlipOutcome):
    """The fewest doubted labels, in order of their value, that bring two groups' rates together.

    `groups`: the one with the lower rate, and the other. `gap`: between them before and after; where it is not
    `closed`, after all `doubted` labels. `members` and `fresh`: how many single models have it closed too."""

    by: str
    groups: tuple[str, str]
    within: float
    gap: tuple[float, float]
    closed: bool
    doubted: int
    members: Counts
    fresh: Counts | None = None

    @property
    def sentence(self) -> str:
        (low, high), (before, after) = self.groups, map(points, self.gap)
        what = f"The {self.by} rates of '{low}' and '{high}' are {before} apart"
        if not self.closed:
            return (
                f"{what}. Not within the doubted labels: with all {self.doubted} of '{low}' flipped they are {after} "
                "apart."
            )
        if not self.flips:
            return f"{what}: there is no gap to close."
        counts = ((self.members, "members"), (self.fresh or (0, 0), "fresh seeds"))
        alone = " and ".join(f"{closed} of {models} {who}" for (closed, models), who in counts if models > 1)
        return (
            f"{what}; {len(self.flips)} doubted labels of '{low}', of {self.doubted}, close the gap to {after} when "
            f"they are flipped: {len(self.changed)} people are decided otherwise{self.solid_clause(self.changed)}."
            + (f" Alone, {alone} have it closed too." if alone else "")
        )

"""Training labels: those to review, and those flipped together: to close a gap, by a review."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import accumulate

from butfor.result.fresh import NOT_CHECKED, SOLID, FreshSeeds
from butfor.result.groups import points
from butfor.result.person import Cell
from butfor.result.record import percent
from butfor.standard.groups import GroupStandard

LEVEL = 0.05
"""Of tests."""
MOST_RECORDED = 1000
"""Labels that a record holds, in the order of review."""
TO_REVIEW = 100
"""Labels to review where nobody says how many, and those that a page speaks of."""
CALIBRATED = "the sum of their probabilities of being wrong"
NOT_CALIBRATED = (
    "the sum of their doubts, which is not calibrated: no adverse label is named, and labels that nobody would call "
    "wrong are doubted too"
)
Counts = tuple[int, int]
"""So many, of how many."""


# --- to review ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LabelValue:
    """One training label: its doubt and, where an adverse label is named, how likely it is wrong."""

    position: int
    row: Cell
    group: Cell
    label: str
    doubt: float
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
                f"{len(self.flips)} of '{low}', of {self.doubted}, turn the gap around to {after}, and one fewer leave "
                "it open."
            )
        if not self.closed and not self.doubted:
            return f"{what}. No adverse label of '{low}' is doubted, so none was flipped."
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


@dataclass(frozen=True, kw_only=True, repr=False)
class Reviewed(FlipOutcome):
    """One round of a review: `flips` are its corrections. `answered` and `corrected` are of all rounds so far. `chosen`
    labels and `decoys` disagreed with, of how many; `keystones`: of the chosen ones, those in somebody's flip set.
    `expected`: how many of the chosen ones were likely to be wrong, and whether that was calibrated. `before` and
    `after`: each group beside the others' standard. `corrected_to`: with more than two labels, what the corrected ones
    are now."""

    favourable: str
    answered: tuple[int, ...]
    corrected: tuple[int, ...]
    chosen: Counts
    decoys: Counts
    keystones: Counts
    unsure: int
    expected: tuple[float, bool]
    before: tuple[GroupStandard, ...] = ()
    after: tuple[GroupStandard, ...] = ()
    corrected_to: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        people = f"{len(self.changed)} people are" if len(self.changed) != 1 else "1 person is"
        return (
            f"With {len(self.flips)} of {self.labels} labels corrected, {people} decided otherwise"
            f"{self.solid_clause(self.changed)}."
        )

    @property
    def answers(self) -> list[str]:
        """What the answers say, a sentence each."""
        (hit, asked), (wrong, decoys), (expected, calibrated) = self.chosen, self.decoys, self.expected
        of_decoys = f" and of {wrong} of {decoys} decoys" if decoys else ""
        lines = [
            f"Reviewers disagree with the recorded label of {hit} of {asked} labels{of_decoys}.",
            disagreement(self.chosen, self.decoys),
        ]
        if asked:
            how = "calibrated" if calibrated else "the sum of doubts, not calibrated"
            lines.append(f"About {expected:.0f} of the {asked} labels were expected to be wrong ({how}).")
        if self.keystones[1]:
            lines.append("Of those in somebody's flip set: {} of {}.".format(*self.keystones))
        if self.unsure:
            lines.append(
                f"Reviewers could not tell about {self.unsure} of the labels and decoys; these stay as they were."
            )
        return lines

    @property
    def lines(self) -> list[str]:
        """All that changed, a sentence each."""
        rates = [(f"{group}: ", f" decided '{self.favourable}'", pair) for group, pair in self.rates.items()]
        rates += [("Right about the test labels: ", "", self.accuracy)] if self.accuracy else []
        shares = [f"{what}{100 * was:.1f} %{how} before, {100 * now:.1f} % after." for what, how, (was, now) in rates]
        standards = [
            f"{name}: {was} by the standard of the others before, {now} after." for name, was, now in self.differences
        ]
        return [*self.answers, *shares, *standards]

    @property
    def differences(self) -> list[tuple[str, str, str]]:
        """Per group, its difference to the others' standard before and after, in points."""
        after = {c.name: c.difference for c in self.after}
        return [(c.name, points(c.difference, "+"), points(after[c.name], "+")) for c in self.before if c.name in after]


def disagreement(chosen: Counts, decoys: Counts) -> str:
    """Fisher's exact test, one-sided: could labels be disagreed with so much more often than decoys by chance?"""
    from scipy.stats import fisher_exact

    if not chosen[1] or not decoys[1]:
        return "Without answers on both the chosen labels and decoys there is nothing to compare."
    p = float(fisher_exact([[hit, n - hit] for hit, n in (chosen, decoys)], alternative="greater")[1])
    shares = f"{percent(chosen[0] / chosen[1])} against {percent(decoys[0] / decoys[1])} of decoys"
    verdict = (
        "the chosen labels are disagreed with more often than labels like them" if p <= LEVEL else "that may be chance"
    )
    return f"Disagreed with: {shares}; {verdict} (Fisher's exact test, p = {p:.2g})."

"""Labels flipped together, and who is decided otherwise: one standard for all, a review's corrections, a closed gap."""

from __future__ import annotations

from dataclasses import dataclass

from butfor.result.fresh import NOT_CHECKED, SOLID, FreshSeeds
from butfor.result.person import Cell


@dataclass(frozen=True)
class Turned:
    """A person whom the model decides otherwise about, once the labels are flipped."""

    case: int
    row: Cell
    group: Cell
    logit: float
    counterfactual_logit: float
    fresh: FreshSeeds | None = None


@dataclass(frozen=True, kw_only=True)
class Flipped:
    """Labels flipped together, of all `labels`, and what becomes of it.

    `rates`: per group, the share of favourable decisions before and after; `accuracy` likewise, where labels are known.
    `seeded`: whether a seed changes the model."""

    flips: tuple[int, ...]
    labels: int
    turned: tuple[Turned, ...]
    rates: dict[str, tuple[float, float]]
    seeded: bool
    accuracy: tuple[float, float] | None = None

    def word(self, person: Turned) -> str:
        """Solid, leaning, … as for any find."""
        if person.fresh:
            return person.fresh.word
        return NOT_CHECKED if self.seeded else SOLID

    def surely(self, people: tuple[Turned, ...]) -> str:
        """How many of these people are decided otherwise whatever the seed, for the end of a sentence."""
        if not people or not self.seeded or not all(person.fresh for person in people):
            return ""
        return f", {sum(self.word(person) == SOLID for person in people)} of them whatever the seed"


@dataclass(frozen=True, kw_only=True)
class OneStandard(Flipped):
    """M doubted adverse labels of one group. `people`: how many of those asked about are of the group."""

    attribute: str
    group: str
    people: int

    @property
    def of_group(self) -> tuple[Turned, ...]:
        return tuple(person for person in self.turned if str(person.group) == self.group)

    @property
    def sentence(self) -> str:
        """ "Had the labels where afam = yes been given by the standard of the others (28 of 1428 labels), …" """
        ours, others = self.of_group, len(self.turned) - len(self.of_group)
        text = (
            f"Had the labels where {self.attribute} = {self.group} been given by the standard of the others "
            f"({len(self.flips)} of {self.labels} labels), {len(ours)} of {self.people} decisions about them would be "
            f"otherwise{self.surely(ours)}"
        )
        return f"{text}, and {others} about others." if others else f"{text}."


@dataclass(frozen=True, kw_only=True)
class ClosedGap(Flipped):
    """The fewest doubted labels, in order of their value, that bring two groups' rates together.

    `groups`: the one with the lower rate, and the other. `gap`: between them before and after; where it is not
    `closed`, after all `doubted` labels. `members` and `fresh`: how many single models have it closed too, of how
    many."""

    by: str
    groups: tuple[str, str]
    within: float
    gap: tuple[float, float]
    closed: bool
    doubted: int
    members: tuple[int, int]
    fresh: tuple[int, int] | None = None

    @property
    def sentence(self) -> str:
        low, high = self.groups
        before, after = (f"{100 * gap:.1f} points".replace("-", "−") for gap in self.gap)
        what = f"The {self.by} rates of '{low}' and '{high}' are {before} apart"
        if self.closed and not self.flips:
            return f"{what}: there is no gap to close."
        if not self.closed:
            return (
                f"{what}. Not within the doubted labels: with all {self.doubted} of '{low}' flipped they are {after} "
                "apart."
            )
        counts = ((self.members, "members"), (self.fresh or (0, 0), "fresh seeds"))
        alone = " and ".join(f"{closed} of {models} {what}" for (closed, models), what in counts if models > 1)
        return (
            f"{what}; {len(self.flips)} doubted labels of '{low}', of {self.doubted}, close the gap to {after} when "
            f"they are flipped: {len(self.turned)} people are decided otherwise{self.surely(self.turned)}."
            + (f" Alone, {alone} have it closed too." if alone else "")
        )

"""What a comparison found about one group, in figures and in sentences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from butfor.standard.sentences import (
    NOTHING,
    gap_sentence,
    missing_column_sentence,
    often,
    p_in_words,
    points,
    rates_sentence,
)
from butfor.standard.slices import Slice

BINS = np.linspace(0, 1, 21)
"""Of the doubts that are counted for charts."""
SIGNIFICANT = 0.05


@dataclass(frozen=True)
class Overlap:
    """How far the others resemble the group: `comparable` of its rows have people like them among the others, and the
    `others` count as `effective_others`. If overlap is `poor`: the difference among the comparable rows."""

    comparable: int
    others: int
    effective_others: float
    poor: bool
    difference: float | None = None
    interval: tuple[float, float] | None = None


@dataclass(frozen=True)
class SecondOpinion:
    """The same difference by cross-fitted AIPW, its interval, and whether the two disagree by more than chance."""

    difference: float
    interval: tuple[float, float] | None
    disagrees: bool


@dataclass(frozen=True)
class GroupStandard:
    """One group beside comparable people of other groups, or of the reference group; shares are of the favourable
    label. `expected` is the share that comparable people get, `difference` that less the recorded share, after
    subtracting `centre`, what the method finds where nobody is held to another standard."""

    attribute: str
    group: str
    rows: int
    recorded: float
    expected: float
    difference: float
    centre: float = 0.0
    interval: tuple[float, float] | None = None
    """95 %; None without draws."""
    bounds: tuple[float, float] | None = None
    """95 % for all groups at once; None without draws."""
    error: float | None = None
    """The standard error of the difference; None without draws."""
    p: float | None = None
    p_adjusted: float | None = None
    """Adjusted for all groups shown."""
    raw_gap: float = 0.0
    """The others' recorded share less the group's: `explained` by the columns + `difference`."""
    explained: float = 0.0
    reference: str | None = None
    """The group it is compared with; None: all others."""
    effective_rows: float | None = None
    """With weights: how many rows of equal weight say as much."""
    overlap: Overlap | None = None
    second_opinion: SecondOpinion | None = None
    robustness_value: float | None = None
    strongest_column: str | None = None
    strongest_move: float | None = None
    """How far leaving it out moves the difference."""
    missing_values: tuple[str, ...] = ()
    """A sentence per column that lacks values clearly more or less often than among the others."""
    doubts: tuple[int, ...] = field(default=(), repr=False)
    """How many of its adverse labels have a doubt in each of `BINS`."""
    draws: int = 0
    """Drawn tables behind the interval and the p-values."""

    @property
    def name(self) -> str:
        return f"{self.attribute} = {self.group}"

    @property
    def missing(self) -> int:
        """How many favourable labels the group lacks, by the others' standard."""
        return max(0, round(self.rows * self.difference))

    @property
    def times_strongest(self) -> float | None:
        """How many times as far as the strongest recorded column a missing one would have to move the difference."""
        return None if self.strongest_move is None else abs(self.difference / self.strongest_move)

    @property
    def differs(self) -> bool:
        """Whether the gap is more than chance, adjusted for all groups shown, and the second opinion agrees."""
        agreed = self.second_opinion is None or not self.second_opinion.disagrees
        return self.p_adjusted is not None and self.p_adjusted < SIGNIFICANT and agreed

    @property
    def others(self) -> str:
        return "other groups" if self.reference is None else f"{self.attribute} = {self.reference}"

    def sentence(self, favourable: str) -> str:
        """ "People with afam = yes were labelled 'no' 6.3 points less often than comparable people in …" """
        p = None if self.p_adjusted is None else p_in_words(self.p_adjusted, self.draws)
        return gap_sentence(self.name, favourable, self.others, self.difference, self.interval, p)

    def details(self) -> list[str]:
        """One line each: rates and what the columns explain, a missing column, overlap, the second opinion."""
        rates = rates_sentence(self.name, self.others, self.recorded, self.expected, self.raw_gap, self.explained)
        lines = [rates, self.on_a_missing_column, self.on_overlap, self.on_second_opinion]
        if self.effective_rows is not None:
            lines.append(f"With their weights, the {self.rows} rows count as {self.effective_rows:.0f}.")
        return [line for line in (*lines, *self.missing_values) if line]

    @property
    def on_a_missing_column(self) -> str:
        chance = self.p_adjusted is not None and self.p_adjusted >= SIGNIFICANT
        if chance or abs(self.difference) < NOTHING:
            return ""
        return missing_column_sentence(
            self.strongest_column, self.strongest_move, self.times_strongest, self.robustness_value
        )

    @property
    def on_overlap(self) -> str:
        o = self.overlap
        if o is None:
            return ""
        said = (
            f"{o.comparable} of {self.rows} rows have comparable people in {self.others}; weighted to resemble the "
            f"group, those {o.others} people count as {o.effective_others:.0f}."
        )
        if o.poor and o.difference is not None:
            said += f" That is little. Among the comparable rows: {often(o.difference, o.interval)}."
        return said

    @property
    def on_second_opinion(self) -> str:
        s = self.second_opinion
        if s is None:
            return ""
        said = f"Second opinion (AIPW): {often(s.difference, s.interval)}."
        return f"{said} The two estimates disagree, so neither counts as a finding." if s.disagrees else said


def where(slices: Sequence[Slice], c: GroupStandard) -> list[str]:
    """A sentence on the first slice of a group that is called; nothing where none is."""
    called = [s.sentence for s in slices if s.called and (s.attribute, s.group) == (c.attribute, c.group)]
    return called[:1]


def answer_of(comparisons: Sequence[GroupStandard], favourable: str) -> str:
    """In one sentence: who is held to another standard."""
    short = [c for c in comparisons if c.differs and c.missing]
    if len(short) == 1:
        return short[0].sentence(favourable)
    if short:
        by = ", ".join(f"{c.name} by {points(c.difference)}" for c in short)
        others = "other groups" if short[0].reference is None else "the reference group"
        return f"Labelled '{favourable}' less often than comparable people in {others}: {by}."
    if not any(c.interval for c in comparisons):
        return "Without draws nobody can say which gaps are more than chance."
    return f"No group was labelled '{favourable}' less often than comparable people by more than chance."


def if_real(comparisons: Sequence[GroupStandard]) -> str:
    """What labels that are likely wrong are, where no group falls short by more than chance; else nothing."""
    lacking = [c for c in comparisons if c.missing]
    if not lacking or any(c.differs and c.missing for c in comparisons):
        return ""
    most = max(lacking, key=lambda c: c.missing)
    if len(lacking) > 1 and len({c.attribute for c in lacking}) == 1:  # groups of one attribute share no row
        gaps = "; ".join(f"{c.name}: about {c.missing} of {c.rows}" for c in lacking)
        return f"These gaps may be chance. If they are real, labels are wrong ({gaps}); a review can tell."
    p = f" (p = {most.p_adjusted:.2g} over all groups)" if most.p_adjusted is not None else ""
    return (
        f"The gap of {most.name} may be chance{p}. If it is real, about {most.missing} of the group's {most.rows} "
        "labels are wrong; a review can tell."
    )

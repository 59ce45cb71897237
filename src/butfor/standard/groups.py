"""What a comparison of standards found: per group, per column and per label, in figures and in
sentences.

The terminal, the pages and `print` take their sentences about groups from here, so that all of them
say the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from butfor.standard.explain import (
    MOST_KEPT_SLICES,
    MOST_VALUES,
    ColumnMove,
    Slice,
)
from butfor.standard.inputs import (
    BOOSTING_ROWS,
    LARGE_TABLE_ROWS,
    Floats,
    Mask,
)
from butfor.standard.null import (
    MIN_ROWS,
    SIGNIFICANCE_LEVEL,
    error_of_p,
    is_close,
)
from butfor.standard.wrong import with_sum
from butfor.support.errors import SettingError, listed, plural
from butfor.support.files import save
from butfor.words.figures import (
    SMALLEST_SHOWN_GAP,
    Interval,
    interval_in_words,
    number,
    often,
    p_in_words,
    points,
    share,
)
from butfor.words.names import LABEL_JOINT, PLAIN, Names

ASSUMPTION = (
    "This compares labels that somebody gave. It assumes that people of different groups with the "
    "same recorded columns should get the same label, and misleads if a legitimate reason is not "
    "recorded or a recorded column is itself biased. If nobody gave the label (a death, a "
    "default), no label is wrong: gaps are differences in outcomes."
)
ON_COLUMNS = (
    "These moves do not add up, and they depend on which columns remain. Explained does not mean "
    "justified: a column may itself come from unequal treatment."
)
BINS = np.linspace(0, 1, 21)
"""Of the doubts that are counted for charts."""
NEAR_SIGNIFICANCE = 0.1
"""Adjusted p of a group that is not called but gets a sentence of its own."""
METHOD_ERROR = 0.004
"""How far the method itself is off, as a standard deviation, however many rows there are (`python
-m benchmarks.coverage --rows 50000 --share 0.03`)."""
SMALLEST_GAP = 0.008
"""The smallest gap that can be told from that."""
MOST_NAMED_GROUPS = 4
"""The most groups in a list."""


@dataclass(frozen=True)
class LeftOut:
    """A group that is not compared. `reason`: "rows", it has too few; "others", those it would be
    compared with have too few; "alike", those all have one label. `rows`: how many there are, of
    the group or of the others, and `effective_rows`, how many rows of equal weight say as much."""

    attribute: str
    group: str
    reason: Literal["rows", "others", "alike"]
    rows: int
    effective_rows: float | None = None

    @property
    def sentence(self) -> str:
        """ "sex = x is not compared: 27 rows, and a comparison needs 30." """
        return f"{self.attribute} = {self.group} is not compared: {self.why()}."

    def why(self, others: str = "the other groups together have ", needs: bool = True) -> str:
        """ "27 rows, and a comparison needs 30"."""
        whose = "" if self.reason == "rows" else others
        if self.reason == "alike":
            return f"{whose}the same label everywhere"
        rows = f"{self.rows} rows"
        if self.effective_rows is not None and self.rows >= MIN_ROWS:
            rows += f" that say as much as {self.effective_rows:.0f} of equal weight"
        return whose + rows + (f", and a comparison needs {MIN_ROWS}" if needs else "")


@dataclass(frozen=True)
class Overlap:
    """How far the others resemble the group: `comparable` of its rows have people like them among
    the others, and the `others` count as `effective_others`. Overlap is `poor` where either is
    little."""

    comparable: int
    others: int
    effective_others: float
    poor: bool

    def too_little(self, rows: int) -> bool:
        """Whether a group of so many rows cannot be compared: fewer than half of its rows, or fewer
        than 30, have comparable people, or those count for fewer than 30."""
        return self.comparable < max(MIN_ROWS, rows / 2) or self.effective_others < MIN_ROWS

    def why(self, rows: int) -> str:
        """ "47 of 332 rows have comparable people; the 900 others count for 12"."""
        have = f"{self.comparable} of {plural(rows, 'row has', 'rows have')} comparable people"
        return f"{have}; the {self.others} others count for {self.effective_others:.0f}"


@dataclass(frozen=True)
class SecondOpinion:
    """The same difference by cross-fitted AIPW, its interval, and whether the two disagree by more
    than chance."""

    difference: float
    interval: Interval | None
    disagrees: bool


@dataclass(frozen=True)
class GroupStandard:
    """One group beside comparable people of other groups, or of the reference group; shares are of
    the favourable label. `expected` is the share that comparable people get, `difference` that less
    the recorded share, after subtracting `centre`, what the method finds where nobody is held to
    another standard."""

    attribute: str
    group: str
    rows: int
    recorded: float
    expected: float
    difference: float
    centre: float = 0.0
    interval: Interval | None = None
    """95 %; None without draws."""
    bounds: Interval | None = None
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
        """How many times as far as the strongest recorded column a missing one would have to move
        the difference."""
        return None if self.strongest_move is None else abs(self.difference / self.strongest_move)

    @property
    def beyond_chance(self) -> bool:
        """Whether p, adjusted for all groups shown, is below 0.05."""
        return self.p_adjusted is not None and self.p_adjusted < SIGNIFICANCE_LEVEL

    def p_in_words(self, explained: bool = True) -> str:
        """ "= 0.03", "= 0.047 ± 0.007: close to the line"; "–" without draws."""
        p = self.p_adjusted
        if p is None:
            return "–"
        error = error_of_p(p, self.draws) if is_close(p, self.draws) else None
        return p_in_words(p, self.draws, explained, error)

    @property
    def not_comparable(self) -> bool:
        """Whether hardly anybody among the others is comparable: its gap says nothing, whatever its
        p."""
        return self.overlap is not None and self.overlap.too_little(self.rows)

    @property
    def differs(self) -> bool:
        """Whether the group is called: it is comparable, the gap is more than chance, and the
        second opinion supports it. It does unless it disagrees; or if it does so in size alone,
        since the spread of two honest methods shrinks as a table grows, and what they differ by
        does not."""
        if self.not_comparable:
            return False
        s = self.second_opinion
        if s is None or not s.disagrees:
            return self.beyond_chance
        low, high = s.interval or (-np.inf, np.inf)
        return self.beyond_chance and (low > 0 if self.difference > 0 else high < 0)

    @property
    def short(self) -> bool:
        """Whether it is called and falls short."""
        return self.differs and self.missing > 0

    @property
    def disputed(self) -> bool:
        """Whether it is not called because of the second opinion alone."""
        return self.beyond_chance and not self.differs and not self.not_comparable

    def sentence(self, favourable: str | Sequence[str], names: Names = PLAIN) -> str:
        """ "People with afam = yes were labelled 'no' 6.3 points less often than comparable people
        in …" """
        s = self.second_opinion
        turned = self.difference < 0
        who = names.people_in(self.attribute, self.group)
        details = []
        if self.interval:
            details.append(f"95 % interval {interval_in_words(self.interval, turned)}")
        if s is not None and s.disagrees and self.differs:
            details.append(f"second opinion {number(abs(s.difference))}")
        if self.p_adjusted is not None:
            details.append(f"adjusted p {self.p_in_words()}")
        than = "as" if abs(self.difference) < SMALLEST_SHOWN_GAP else "than"
        figure = (
            f"{who[:1].upper()}{who[1:]} {names.were(favourable)} {often(self.difference)} {than} "
            f"{names.comparable(self.attribute, self.reference)}"
        )
        if details:
            figure += f" ({'; '.join(details)})"
        if self.overlap is not None and self.not_comparable:
            return f"{figure}. That says nothing: {self.overlap.why(self.rows)}."
        if self.differs and abs(self.difference) < SMALLEST_GAP:
            return (
                f"{figure}. The method itself is off by about {points(METHOD_ERROR)}: a gap this "
                "small may be that."
            )
        if s is not None and self.disputed:
            return (
                f"{figure}. It is not called, because the second opinion disagrees: "
                f"{often(s.difference, s.interval)}."
            )
        if self.p_adjusted is None or self.beyond_chance:
            return f"{figure}."
        wrong = plural(
            self.missing,
            f"of the group's {self.rows} labels is",
            f"of the group's {self.rows} labels are",
        )
        real = f" If it is real, about {wrong} wrong; a review can tell." if self.missing else ""
        return f"{figure}. That may be chance.{real}"

    def details(self, names: Names = PLAIN) -> list[str]:
        """One line each: rates and what the columns explain, a missing column, overlap, the second
        opinion."""
        raw = self.raw_gap
        explained = self.explained
        o = self.overlap
        s = self.second_opinion
        comparable = names.comparable(self.attribute, self.reference)
        others = comparable.removeprefix("comparable ")
        rates = (
            f"{names.group(self.attribute, self.group)}: favourable rate {share(self.recorded)}, "
            f"comparable {names.noun} {share(self.expected)}, all {others} "
            f"{share(self.recorded + raw)}."
        )
        if abs(raw) >= SMALLEST_SHOWN_GAP and explained * raw < 0:
            rates += (
                f" Given the recorded columns, the gap is {points(abs(explained))} wider than the "
                "raw one."
            )
        elif abs(raw) >= SMALLEST_SHOWN_GAP and abs(explained) > abs(raw):
            rates += f" The recorded columns explain more than the raw gap of {points(abs(raw))}."
        elif abs(raw) >= SMALLEST_SHOWN_GAP:
            rates += (
                f" The recorded columns explain {number(abs(explained))} of the {points(abs(raw))}."
            )
        lines = [rates]
        has_gap = abs(self.difference) >= SMALLEST_SHOWN_GAP
        if has_gap and (self.beyond_chance or self.p_adjusted is None):
            # What a column that is not in the table would have to do to remove the gap.
            needed = []
            recorded = ""
            if self.strongest_move is not None and abs(self.strongest_move) >= SMALLEST_SHOWN_GAP:
                column = names.column(self.strongest_column)
                move = points(abs(self.strongest_move))
                recorded = f"Leaving out {column} moves the gap by {move}. "
                needed.append(
                    f"move it {self.times_strongest:.1f} times as far (a comparison, not a bound)"
                )
            elif self.robustness_value:
                recorded = "No recorded column clearly narrows the gap. "
            if self.robustness_value is not None:
                value = (
                    f"{100 * self.robustness_value:.1f} % of the remaining variation of both "
                    "label and group"
                )
                needed.append(f"explain {value} (robustness value)")
            if needed:
                lines.append(
                    f"{recorded}To remove the gap, a missing column would have to "
                    f"{', or '.join(needed)}."
                )
        if o is not None:
            lines.append(
                f"{o.comparable} of {plural(self.rows, 'row has', 'rows have')} {comparable}. "
                f"Weighted to resemble the group, the {o.others} {others} say as much as "
                f"{o.effective_others:.0f} would.{' That is little.' if o.poor else ''}"
            )
        if s is not None:
            lines.append(f"Second opinion (AIPW): {often(s.difference, s.interval)}.")
            if s.disagrees:
                so = ""
                if self.disputed:
                    so = ", so the gap is not called"
                elif self.differs:
                    so = "; both exclude zero, and the interval of the gap covers both"
                lines[-1] += f" The two estimates differ by more than chance{so}."
        if self.effective_rows is not None:
            rows = f"{self.rows} rows say as much as {self.effective_rows:.0f} of equal weight."
            lines.append(f"Because their weights differ, the group's {rows}")
        return lines


@dataclass(frozen=True, eq=False, repr=False)
class Compared:
    """Figures about groups, and what they say; in memory `Standards`, in a record as they are."""

    attribute: str
    sides: tuple[tuple[str, ...], tuple[str, ...]]
    """The adverse labels, and the favourable ones."""
    model: str
    draws: int
    left_out: tuple[LeftOut, ...]
    comparisons: tuple[GroupStandard, ...]
    moves: tuple[ColumnMove, ...] = ()
    clusters: int | None = None
    parts: tuple[Slice, ...] = ()
    """Slices of the groups, those first where a group most likely falls short; a record keeps the
    first."""
    undermined: tuple[str, ...] | None = None
    """A sentence on each column that alone tells the label or a group, so that the comparison says
    little; None where that is not known."""
    names = PLAIN
    """The reader's words, which a record holds once for all its parts."""

    @property
    def adverse(self) -> str:
        return LABEL_JOINT.join(self.sides[0])

    @property
    def favourable(self) -> str:
        return LABEL_JOINT.join(self.sides[1])

    @property
    def answer(self) -> str:
        """What undermines the verdict, then the verdict: who is held to another standard and, if
        nobody is, who cannot be compared."""
        if self.undermined:
            return f"{' '.join(self.undermined)} As the table stands: {self._verdict}"
        return self._verdict

    @property
    def _verdict(self) -> str:
        """Who is held to another standard and, if nobody is, who cannot be compared."""
        short = [c for c in self.comparisons if c.short]
        if len(short) == 1:
            return short[0].sentence(self.sides[1], self.names)
        who = self.names.noun
        were = self.names.were(self.sides[1])
        if short:
            gaps = ", ".join(f"{self.name_of(c)} by {points(c.difference)}" for c in short)
            than = f"comparable {who}"
            if short[0].reference is not None:
                than += " in the reference group"
            return (
                f"{who.capitalize()} in {len(short)} groups {were} less often than {than}: {gaps}."
            )
        if all(c.not_comparable for c in self.comparisons):
            return f"{self.not_compared} No group can be compared.".strip()
        if not any(c.interval for c in self.comparisons):
            unknown = "Without draws nobody can say which gaps are more than chance."
            return f"{self._not_comparable} {unknown}".strip()
        none = f"{self.not_compared} No other group" if self.not_compared else "No group"
        disputed = [c for c in self.comparisons if c.disputed and c.missing]
        if disputed:
            gaps = _and_more([f"{self.name_of(c)} ({points(c.difference)})" for c in disputed])
            return (
                f"{none} is called: two estimates disagree whether {gaps} {were} less often than "
                f"comparable {who}."
            )
        was = were.replace("were ", "was ")
        verdict = f"{none} {was} less often than comparable {who} by more than chance"
        differing = [c for c in self.comparisons if c.differs]
        gaps = _and_more([f"{self.name_of(c)} {often(c.difference)}" for c in differing])
        return f"{verdict}; {gaps}." if gaps else f"{verdict}."

    def name_of(self, c: GroupStandard) -> str:
        """ "Hispanic", "race = hispanic"."""
        return self.names.group(c.attribute, c.group)

    @property
    def not_compared(self) -> str:
        """Which groups cannot be compared and why; empty if all groups can: "Not compared: race = a
        (27 rows), race = b (23 rows); at least 30 are needed."""
        return " ".join(filter(None, (self._not_comparable, self._left_out)))

    @property
    def _not_comparable(self) -> str:
        named = {
            self.name_of(c): c.overlap.why(c.rows)
            for c in self.comparisons
            if c.overlap and c.not_comparable
        }
        return not_comparable_in_words(named)

    @property
    def _left_out(self) -> str:
        if not self.left_out:
            return ""
        reasons = [
            f"{self.names.group(left.attribute, left.group)} ({left.why(needs=False)})"
            for left in self.left_out
        ]
        few = any(left.reason != "alike" for left in self.left_out)
        needed = f"; at least {MIN_ROWS} are needed" if few else ""
        return f"Not compared: {_and_more(reasons)}{needed}."

    @property
    def notable(self) -> list[GroupStandard]:
        """The groups with a sentence of their own: those that fall short, disputed ones, favoured
        ones, those that lack labels with p near 0.05 or with a slice that stands out; without draws
        all."""
        comparable = [c for c in self.comparisons if not c.not_comparable]
        called = [c for c in comparable if c.differs]
        by_chance = [
            c for c in comparable if c.missing and c.p_adjusted is not None and not c.beyond_chance
        ]
        near = [c for c in by_chance if (c.p_adjusted or 0) < NEAR_SIGNIFICANCE or self.where(c)]
        return [
            *(c for c in called if c.short),
            *(c for c in self.comparisons if c.disputed),
            *(c for c in called if not c.short),
            *near[:MOST_NAMED_GROUPS],
            *(c for c in comparable if c.p_adjusted is None),
        ]

    @property
    def detailed(self) -> list[GroupStandard]:
        """The groups whose details are shown: those that fall short or, if none does, those that
        matter."""
        return [c for c in self.notable if c.short] or self.notable

    def where(self, c: GroupStandard) -> list[str]:
        """A sentence on the first slice of a group that stands out; nothing if none does."""
        for s in self.parts:
            if s.stands_out and (s.attribute, s.group) == (c.attribute, c.group):
                return [s.sentence(self.names)]
        return []

    @property
    def may_be_chance(self) -> str:
        """The other groups that lack labels, whose gaps are not more than chance: a review may find
        some there."""
        gaps = []
        for c in sorted(self.comparisons, key=lambda c: c.p_adjusted or 0):
            by_chance = c.p_adjusted is not None and c.missing and not c.beyond_chance
            if not by_chance or c.not_comparable:
                continue
            if c.attribute == self.attribute and c not in self.notable:
                wrong = plural(c.missing, f"of {c.rows} labels is", f"of {c.rows} labels are")
                gaps.append(
                    f"{self.name_of(c)} ({often(c.difference)}, adjusted p {c.p_in_words()}; if "
                    f"real, about {wrong} wrong)"
                )
        return f"May be chance: {_and_more(gaps)}." if gaps else ""

    @property
    def little_overlap(self) -> str:
        """The other groups of which few rows have comparable people; empty if there are none."""
        named = {
            self.name_of(c): c.overlap.why(c.rows)
            for c in self.comparisons
            if c.overlap and c.overlap.poor and not c.not_comparable and c not in self.detailed
        }
        return little_overlap_in_words(named)

    def said(self) -> list[tuple[str, list[str]]]:
        """Each paragraph with what is behind it: the answer, who cannot be compared, a sentence on
        each group that matters and on where its gap is, and groups with little overlap."""
        paragraphs = [(self.answer, list[str]())]
        if self.not_compared not in self.answer:
            paragraphs.append((self.not_compared, []))
        for c in self.notable:
            sentences = [c.sentence(self.sides[1], self.names), *self.where(c)]
            new = [sentence for sentence in sentences if sentence not in self.answer]
            behind = c.details(self.names) if c in self.detailed else []
            paragraphs.append((" ".join(new), behind))
        paragraphs.append((self.may_be_chance, []))
        paragraphs.append((self.little_overlap, []))
        return [paragraph for paragraph in paragraphs if any(paragraph)]

    def summary(self) -> list[str]:
        """The same without what is behind it."""
        return [paragraph for paragraph, _ in self.said() if paragraph]

    def __repr__(self) -> str:
        return "\n".join(self.summary())


def not_comparable_in_words(named: Mapping[str, str]) -> str:
    """Groups and why they are not comparable; empty without any: "Not comparable: race = c (47 of
    332 rows have …)."""
    if not named:
        return ""
    least = f"half of the rows and at least {MIN_ROWS}"
    needed = f"It takes comparable people for {least}, and others who count for {MIN_ROWS}."
    reasons = [f"{name} ({why})" for name, why in named.items()]
    return f"Not comparable: {_and_more(reasons)}. {needed}"


def little_overlap_in_words(named: Mapping[str, str]) -> str:
    """Groups and how many of their rows have comparable people; empty without any."""
    if not named:
        return ""
    reasons = [f"{name} ({why})" for name, why in named.items()]
    return f"Little overlap: {_and_more(reasons)}."


def _and_more(items: Sequence[str]) -> str:
    """ "a, b and 2 more groups"."""
    named = ", ".join(items[:MOST_NAMED_GROUPS])
    more = len(items) - MOST_NAMED_GROUPS
    return f"{named} and {plural(more, 'more group')}" if more > 0 else named


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Standards(Compared):
    """Every group of a table beside comparable people of the others. `answer` is the verdict,
    `summary()` adds a sentence per group that matters, and `print` also shows what is behind the
    gaps and what to keep in mind.

    `doubt [rows]` is the probability of the label that a row does not have, by the standard of the
    other groups; no number where the row's group was not compared. `suspect [rows]`: how likely an
    adverse label is to be wrong, before the group's shortfall says how many are."""

    groups: NDArray[np.object_]
    is_favourable: Mask
    doubt: Floats
    suspect: Floats
    index: pd.Index
    places: NDArray[np.int64]
    """Each row's place in the comparison's own order, which no order of the table changes."""
    not_sliced: tuple[str, ...] = ()
    """Columns with too many values for slices."""
    proxies: tuple[str, ...] = ()
    """A sentence on columns that determine a group."""
    interrupted: bool = False
    cut_short: bool = False
    """Whether the draws ended early, by hand or by a limit of time."""
    cluster: NDArray[np.int64] | None = None
    """Each row's cluster, as a number from 0."""
    weight: Floats | None = None
    """Each row's weight; only ratios count."""
    correlation: float = 0.0
    """Of the labels' latent scores within a cluster."""
    validation: Standards | None = None
    """The same with the doubts of the rows that steer a network's early stopping, where they were
    compared too."""
    names: Names = PLAIN
    table: str | None = None
    """The table's name, for the page."""

    @property
    def unfinished(self) -> bool:
        """Whether Ctrl-C or a limit of time ended the draws early."""
        return self.interrupted or self.cut_short

    @cached_property
    def by_group(self) -> pd.DataFrame:
        """One row per group: rows, recorded and expected share, difference, its interval, p-values
        (below what draws can show by the normal approximation), labels lacked, raw gap and what
        explains it, robustness value."""
        names = (
            "attribute group rows recorded expected difference low high p p_adjusted missing "
            "raw_gap explained robustness_value strongest_column times_strongest"
        )
        rows = []
        for c in self.comparisons:
            low, high = c.interval or (np.nan, np.nan)
            more = {
                "low": low,
                "high": high,
                "missing": c.missing,
                "times_strongest": c.times_strongest,
            }
            rows.append(vars(c) | more)
        return pd.DataFrame(rows, columns=names.split()).set_index(["attribute", "group"])

    @cached_property
    def columns(self) -> pd.DataFrame:
        """Per group and column: how the difference moves when it is left out, and the standard
        error of that move; the largest first."""
        names = [column.name for column in fields(ColumnMove)]
        frame = pd.DataFrame([vars(m) for m in self.moves], columns=names)
        frame = frame.sort_values("move", key=np.abs, ascending=False, kind="stable")
        frame = frame.set_index(["attribute", "group", "column"])
        return frame.sort_index(level=[0, 1], sort_remaining=False, kind="stable")

    @cached_property
    def slices(self) -> pd.DataFrame:
        """Per group and value of a column, or quarter of a number: rows, recorded and expected
        share, difference with its interval, difference elsewhere, excess over what the group's own
        shortfall makes there, its z, whether it is called, and the share of the shortfall that is
        there. First where a group most likely falls short."""
        names = [column.name for column in fields(Slice)]
        return pd.DataFrame([vars(s) for s in self.parts], columns=names)

    def of_group(self, group: Any) -> GroupStandard | None:
        """The comparison of one group of rows; None where it was left out."""
        return next((c for c in self._ours if c.group == str(group)), None)

    def of_rows(self, rows: NDArray[np.int64]) -> Standards:
        """The same comparison with the doubts of these rows alone; what is scaled to rows goes by
        them from now on."""
        by_row = [
            "groups",
            "is_favourable",
            "doubt",
            "suspect",
            "index",
            "places",
            "cluster",
            "weight",
        ]
        arrays = {name: getattr(self, name) for name in by_row}
        some = {name: array[rows] for name, array in arrays.items() if array is not None}
        return replace(self, **some)

    @property
    def ranks(self) -> NDArray[np.int64]:
        """Each row's rank among these rows in the comparison's own order: random numbers go by
        it."""
        return np.argsort(np.argsort(self.places, kind="stable"), kind="stable")

    @property
    def _ours(self) -> list[GroupStandard]:
        """The groups that rows belong to."""
        return [c for c in self.comparisons if c.attribute == self.attribute]

    @cached_property
    def wrong(self) -> Floats:
        """How likely each label is wrong `[rows]`: above 0 only for adverse labels of called groups
        that fall short; no number where the row's group is not called. See `WRONG`. Folds go by
        position, so that another order of the rows moves these probabilities slightly."""
        return self._as_estimated([c for c in self._ours if c.differs])

    @cached_property
    def wrong_if_real(self) -> Floats:
        """The same for the groups that are not called, were their gaps real `[rows]`; no number
        where the row's group is called or cannot be compared. Where nothing is wrong, these gaps
        are chance and so are the probabilities."""
        return self._as_estimated([c for c in self._ours if not c.differs and not c.not_comparable])

    def _as_estimated(self, comparisons: Sequence[GroupStandard]) -> Floats:
        """How likely each label of these groups is wrong, were their gaps as estimated; no number
        for other rows."""
        wrong = np.full(len(self.doubt), np.nan)
        groups = self.groups.astype(str)
        for c in comparisons:
            inside = groups == c.group
            wrong[inside] = self.wrong_at(c.group, c.difference)[inside]
        return wrong

    @cached_property
    def order(self) -> NDArray[np.int64]:
        """The rows that were compared, by position, in the order in which to look at their labels.

        Adverse labels come first: those of called groups that fall short, the most likely wrong
        first; then group by group, the one that lacks most labels first. Ties, and so all labels of
        groups that lack none, go by doubt."""
        lacked = np.zeros(len(self.doubt))
        groups = self.groups.astype(str)
        for c in self._ours:
            # Called groups that fall short are one list: probabilities of being wrong are
            # comparable between them.
            lacked[groups == c.group] = np.inf if c.short else c.difference * c.rows
        likely = np.where(np.isnan(self.wrong), self.wrong_if_real, self.wrong)
        lacked[self.is_favourable] = -np.inf
        order = np.lexsort((-self.doubt, -np.nan_to_num(likely), -lacked))
        compared: NDArray[np.int64] = order[~np.isnan(self.doubt[order])]
        return compared

    def wrong_at(self, group: Any, difference: float) -> Floats:
        """How likely each label would be wrong `[rows]` were the group's difference this large: 0
        for the labels of other groups. The sum is `difference` times the group's rows, each by its
        weight, as far as its adverse labels allow."""
        comparison = self.of_group(group)
        if comparison is None:
            raise SettingError(
                f"'{group}' was not compared; {listed(c.name for c in self.comparisons)} were."
            )
        inside = self.groups.astype(str) == comparison.group
        wrong = np.zeros(len(inside))
        adverse = inside & ~self.is_favourable
        weight = np.ones(len(inside)) if self.weight is None else self.weight
        total = difference * float(weight[inside].sum())
        wrong[adverse] = with_sum(self.suspect[adverse], total, weight[adverse])
        return wrong

    def to_frame(self) -> pd.DataFrame:
        """One row per label: the label, the group, its doubt, how likely it is wrong (of called
        groups), how likely it would be wrong if the gap were real (of the others), and its rank
        (see `order`)."""
        names = np.where(self.is_favourable, self.favourable, self.adverse)
        rank = pd.array([pd.NA] * len(names), dtype="Int64")
        rank[self.order] = range(1, len(self.order) + 1)
        columns = {
            "label": names,
            "group": self.groups,
            "doubt": self.doubt,
            "wrong": self.wrong,
            "wrong_if_real": self.wrong_if_real,
            "rank": rank,
        }
        return pd.DataFrame(columns, index=self.index)

    def notes(self) -> list[str]:
        """What to know when reading it."""
        notes = [proxy for proxy in self.proxies if proxy not in (self.undermined or ())]
        notes.append(ASSUMPTION)
        if self.clusters is None:
            notes.append(
                "Every row counts as a decision of its own. If several are about one person or "
                "household, name the column that joins them (--cluster; in Python cluster=)."
            )
        else:
            notes.append(
                f"The rows form {self.clusters} clusters. Intervals say how far the gap would "
                "differ in other clusters of this kind, such as other households or other adverts."
            )
        if any(c.error is not None and c.error < METHOD_ERROR for c in self.comparisons):
            notes.append(
                "On this many rows the method's own error is larger than chance: a gap below "
                f"{points(SMALLEST_GAP)} cannot be told from it."
            )
        if len(self.doubt) > LARGE_TABLE_ROWS:
            notes.append(
                f"With more than {LARGE_TABLE_ROWS} rows, the boosting learns from a random "
                f"sample of {BOOSTING_ROWS}."
            )
        if self.not_sliced:
            notes.append(
                f"No slices by {listed(self.not_sliced)}: more than {MOST_VALUES} different values."
            )
        values = [c for c in self.comparisons if c.attribute == self.attribute]
        if len(values) > 2 and any(c.differs and c.reference is None for c in values):
            notes.append(
                "Each group is compared with all others together, and some of those differ too. "
                "To compare with one group alone, name a reference group."
            )
        return notes

    @property
    def lines(self) -> list[str]:
        """The summary, what is behind it, and what to know when reading it."""
        lines = [line for paragraph, behind in self.said() for line in (paragraph, *behind)]
        return [line for line in lines if line] + self.notes()

    def __repr__(self) -> str:
        return "\n".join(self.lines)

    def _repr_html_(self) -> str:
        summary = "".join(f"<p>{escape(sentence)}</p>" for sentence in self.summary())
        table = self.by_group.to_html(float_format="{:.3f}".format, na_rep="–")
        notes = "".join(f"<p><small>{escape(note)}</small></p>" for note in self.notes())
        return summary + table + notes

    def to_dict(self) -> dict[str, Any]:
        """For a record; doubts per row are in `to_frame`."""
        names = [
            "attribute",
            "adverse",
            "favourable",
            "sides",
            "model",
            "draws",
            "clusters",
            "undermined",
        ]
        content = {name: getattr(self, name) for name in names}
        words = self.names.to_dict()
        if words:
            content["names"] = words
        return content | {
            "left_out": [asdict(each) for each in self.left_out],
            "groups": [asdict(c) for c in self.comparisons],
            "columns": [asdict(m) for m in self.moves],
            "slices": [asdict(s) for s in self.parts[:MOST_KEPT_SLICES]],
            "notes": self.notes(),
        }

    def to_json(self, path: str | Path | None = None) -> Any:
        """The record as JSON text or, given a `path`, the path it was written to."""
        from butfor.report import page

        return save(page.standard_record(self), path)

    def to_html(self, path: str | Path | None = None) -> Any:
        """The page of `butfor standard` as text or, given a `path`, the path it was written to."""
        from butfor.report import page

        return save(page.render("standard.html", t=self, names=self.names), path)

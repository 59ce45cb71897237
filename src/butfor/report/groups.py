"""What a report says about groups: tables of labels, decisions and people audited, and the comparison of groups.

Impact ratios follow New York's Local Law 144: a group's selection rate divided by the highest one, by attribute and for
combinations of attributes. Unknown values are counted separately, and the highest rate is that of a group with at least
2 % of the people.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pandas as pd
from markupsafe import Markup

from butfor.encode import MISSING
from butfor.report import charts
from butfor.report.summary import LONGEST
from butfor.report.text import short, shown
from butfor.result.population import SMALL_GROUP, Population
from butfor.standard.groups import Compared, GroupStandard
from butfor.words import interval_in_words, number, often, p_in_words

FOUR_FIFTHS = 0.8
SMALL_SHARE = 0.02
"""A group with a smaller share of the people does not count for the highest rate."""
MOST_COLUMNS = 6
"""The most columns in a chart of what explains a gap."""
MOST_SLICES = 8
"""The most slices in a group's table."""

Table = tuple[list[str], list[tuple[Any, ...]]]
"""Headings and rows."""


@dataclass(frozen=True)
class Impact:
    """One group: its people, the rate of favourable decisions, and that rate divided by the highest one."""

    attribute: str
    group: str
    people: int
    share: float
    rate: float
    ratio: float | None

    @property
    def remark(self) -> str:
        if self.group == MISSING:
            return "unknown"
        if self.share < SMALL_SHARE:
            return "under 2 % of the people"
        return "below four fifths" if self.below else ""

    @property
    def below(self) -> bool:
        """Whether the ratio is below four fifths, for a known group that is large enough."""
        few = self.group == MISSING or self.share < SMALL_SHARE
        return not few and self.ratio is not None and self.ratio < FOUR_FIFTHS


def close_calls(p: Population) -> int | None:
    """The number of close calls, found or not; None if unknown."""
    known = [v for v in p.eligible if v.base is not None]
    return sum(bool(v.close_call) for v in known) if known else None


def impacts(p: Population) -> list[Impact]:
    """By attribute, then for their combinations. Empty if the favourable decision is unknown."""
    run = p.run
    if not run.favourable:
        return []
    counts, found = _selected(p), list[Impact]()
    for place, attribute in enumerate(run.attributes if len(run.attributes) > 1 else ()):
        values = [run.groups[group][place] for group in counts.index]
        found += _ratios(attribute, counts.groupby(values, sort=False).sum())
    return found + _ratios(run.sensitive, counts)


def _selected(p: Population) -> pd.DataFrame:
    """Per group, the number of people and of favourable decisions: of everybody whose label is known or, without
    labels, of those examined."""
    favourable, known = p.run.favourable, p.run.performance
    if known:
        rates = [(g.group, g.people, g.selection_rate or 0.0) for g in known.by_group if g.people]
        same = favourable == known.positive
        counts = {group: (people, people * (rate if same else 1 - rate)) for group, people, rate in rates}
    else:
        favoured = next(side for side in p.run.sides if " or ".join(side) == favourable)
        decided = {str(group): [v.prediction in favoured for v in p if v.group == group] for group in p.groups}
        counts = {group: (len(each), sum(each)) for group, each in decided.items() if each}
    return pd.DataFrame.from_dict(counts, orient="index", columns=["people", "selected"])


def _ratios(attribute: str, counts: pd.DataFrame) -> list[Impact]:
    shares, rates = counts["people"] / counts["people"].sum(), counts["selected"] / counts["people"]
    known = counts.index != MISSING
    highest = rates[(shares >= SMALL_SHARE) & known].max()
    ratios = [rate / highest if highest > 0 and group != MISSING else None for group, rate in rates.items()]
    rows = zip(counts.index, counts["people"], shares, rates, ratios, strict=True)
    return [Impact(attribute, group, int(people), share, rate, ratio) for group, people, share, rate, ratio in rows]


def labels_table(found: Compared) -> Table:
    """How each group is labelled beside comparable people, over all labelled rows."""
    heads = ["Group", "Rows", f"Labelled '{short(found.favourable, 40)}'", "Comparable people", "Gap", "Adjusted p"]
    rows = []
    for c in found.comparisons:
        p = "–" if c.p_adjusted is None else p_in_words(c.p_adjusted, found.draws, explained=False).removeprefix("= ")
        gap, name = often(c.difference, c.interval), short(c.name, LONGEST)
        rows.append((name, c.rows, rate(c.recorded), rate(c.expected), gap, p))
    return heads, rows


def decisions_table(p: Population) -> Table:
    """Decisions about each group and their errors: of everybody whose label is known or, without labels, of those
    examined."""
    favourable, known = short(p.run.favourable, 40), p.run.performance
    errors = {str(g.group): g for g in known.by_group} if known else {}
    heads = ["Group", "People", f"Decided '{favourable}'", "Impact ratio"]
    wrong = known is not None and short(known.positive, 40)
    heads += ["Wrong decisions", f"Wrongly '{wrong}'", f"Wrongly not '{wrong}'"] if wrong else []
    rows = []
    for each in impacts(p):
        cells = [f"{short(each.attribute, 40)} = {short(each.group, LONGEST)}", each.people, rate(each.rate)]
        ratio = "–" if each.ratio is None else f"{each.ratio:.2f}"
        text = f"{ratio} ({each.remark})" if each.remark else ratio
        cells.append(Markup("<mark>{}</mark>").format(text) if each.below else text)
        g = errors.get(each.group) if each.attribute == p.run.sensitive else None
        shares = (g.error_rate, g.false_positive_rate, g.false_negative_rate) if g else (None, None, None)
        rows.append((*cells, *map(rate, shares if wrong else ())))
    return heads, rows


def audited_table(p: Population) -> Table:
    """Per group: how many people were examined and audited, and how many decisions hinge on few labels, with a share if
    the group is large enough."""
    frame, sure = p.by_group, p.checked
    columns = [
        ("Group", [f"{short(p.run.sensitive, 40)} = {shown(group, LONGEST)}" for group in frame.index]),
        ("Examined", list(frame["people"])),
    ]
    if any(v.switch_changes is not None for v in p):
        columns.append((f"Change when {short(p.run.sensitive, 30)} is switched", list(frame["switch_changes"])))
    columns.append(("Audited", list(frame["eligible"])))
    names = ("solid", "share_solid", "solid_low", "solid_high") if sure else ("found", "share", "low", "high")
    found = []
    for audited, count, share, low, high in frame[["eligible", *names]].itertuples(index=False):
        enough = f": {rate(share)} ({100 * low:.0f} to {100 * high:.0f})" if audited >= SMALL_GROUP else ""
        found.append(f"{count} of {audited}{enough}" if audited else "–")
    columns.append(("Hinge on few labels (95 % interval)", found))
    if close_calls(p) is not None and p.run.seeded:
        columns.append(("Close calls", ["–" if calls != calls else f"{calls:.0f}" for calls in frame["close_calls"]]))
    return [head for head, _ in columns], list(zip(*(cells for _, cells in columns), strict=True))


def rate(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.1f} %"


def explaining(found: Compared, groups: Iterable[GroupStandard]) -> list[tuple[str, Markup]]:
    """A chart per group: how its gap moves without the columns that move it furthest."""
    largest = sorted(found.moves, key=lambda move: -abs(move.move))
    moves = [(c, [m for m in largest if (m.attribute, m.group) == (c.attribute, c.group)]) for c in groups]
    return [(c.name, charts.column_moves(m[:MOST_COLUMNS], c.difference).svg()) for c, m in moves if m]


def slices_table(found: Compared, c: GroupStandard) -> Table:
    """The slices of a group that stand out: shares, gap and interval, how much more than elsewhere, and the share of
    the group's shortfall."""
    heads = ["Slice", "Rows", "Recorded", "Comparable people", "Points less (95 % interval)", "More than elsewhere"]
    rows = [
        (short(s.name, 60), s.rows, rate(s.recorded), rate(s.expected))
        + (f"{number(s.difference)} ({interval_in_words((s.low, s.high))})", number(s.difference - s.elsewhere))
        + ("all" if s.share == 1 else f"{100 * (s.share or 0):.0f} %",)
        for s in found.parts
        if s.stands_out and (s.attribute, s.group) == (c.attribute, c.group)
    ]
    return [*heads, "Of the shortfall"], list(rows[:MOST_SLICES])

"""What a report says of groups: one table of them, their standards, selection rates and impact ratios.

Impact ratios are as New York's Local Law 144 has them: a group's selection rate divided by the highest one, by
attribute and for combinations of attributes. Unknown values are counted apart, and a group of less than 2 % of the
people sets no standard.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
from markupsafe import Markup

from butfor.encode import MISSING
from butfor.report import charts
from butfor.report.summary import LONGEST
from butfor.report.text import short, shown
from butfor.result.population import Population
from butfor.result.run import RecordedStandards
from butfor.standard.groups import GroupStandard, Standards, interval_in_words, number, points, where
from butfor.standard.slices import Slice

FOUR_FIFTHS = 0.8
SMALL_SHARE = 0.02
"""Of all people: a smaller group sets no standard."""
MOST_COLUMNS = 8
"""Columns of a chart of what explains a gap."""
MOST_SLICES = 8
"""Slices of a group in its table."""


@dataclass(frozen=True)
class Impact:
    """One group: how many people, the share decided favourably, and that divided by the highest group's."""

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
        return "below four fifths" if self.ratio is not None and self.ratio < FOUR_FIFTHS else ""

    @property
    def row(self) -> tuple[Any, ...]:
        """For reading."""
        ratio = "–" if self.ratio is None else f"{self.ratio:.2f}"
        ratio = Markup("<mark>{}</mark>").format(ratio) if self.remark == "below four fifths" else ratio
        names = short(self.attribute, 40), short(self.group, 60)
        return *names, self.people, rate(self.share), rate(self.rate), ratio, self.remark


def close_calls(p: Population) -> int | None:
    """How many close calls there are, found or not; None where that is not known."""
    known = [v for v in p.eligible if v.base is not None]
    return sum(bool(v.close_call) for v in known) if known else None


def impacts(p: Population) -> list[Impact]:
    """By attribute and, where there are several, for their combinations, these last; none where nobody knows which
    decision people would rather have."""
    run = p.run
    if not run.favourable:
        return []
    counts, found = _selected(p), list[Impact]()
    for place, attribute in enumerate(run.attributes if len(run.attributes) > 1 else ()):
        values = [run.groups[group][place] for group in counts.index]
        found += _ratios(attribute, counts.groupby(values, sort=False).sum())
    return found + _ratios(run.sensitive, counts)


def _selected(p: Population) -> pd.DataFrame:
    """Per group, how many people there are and how many are decided favourably: of everybody whose label is known, else
    of those asked about."""
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


def groups_of(p: Population) -> dict[str, Any]:
    """One table of the groups: headings and rows."""
    frame, favourable, attribute = p.by_group, p.run.favourable, p.run.sensitive
    names = [str(group) for group in frame.index]
    columns = [(attribute, [shown(group, LONGEST) for group in frame.index]), ("People", list(frame["people"]))]
    if favourable and names:
        rates = {i.group: i for i in impacts(p) if i.attribute == attribute}
        known = [rates.get(name) for name in names]
        ratios = [f"{i.ratio:.2f}{' ⚠' * bool(i.remark)}" if i and i.ratio is not None else "–" for i in known]
        columns += [
            (f"Decided '{short(favourable, 40)}'", [rate(i.rate if i else None) for i in known]),
            ("Impact ratio", ratios),
        ]
    wrong = {g.group: g.error_rate for g in p.performance.by_group} if p.performance else {}
    columns += [("Decided wrongly", [rate(wrong.get(name)) for name in names])] if wrong else []
    below = {c.group: _difference(c) for c in p.standards if c.attribute == attribute}
    columns += [("Gap to comparable people", [below.get(name, "–") for name in names])] if below else []
    shares = ("solid", "share_solid", "solid_low", "solid_high") if p.checked else ("found", "share", "low", "high")
    found, intervals = [], []
    for eligible, count, share, low, high in frame[["eligible", *shares]].itertuples(index=False):
        found.append(f"{count} ({rate(share)})" if eligible else "–")
        intervals.append(f"{100 * low:.1f} – {rate(high)}" if eligible else "–")
    columns += [("Eligible", list(frame["eligible"])), ("Few labels change the decision", found)]
    columns.append(("95 % interval", intervals))
    if close_calls(p) is not None:
        columns.append(("Close calls", ["–" if calls != calls else f"{calls:.0f}" for calls in frame["close_calls"]]))
    if any(v.switch_changes is not None for v in p):
        columns.append(("Changed by a switch", list(frame["switch_changes"])))
    return {"heads": [head for head, _ in columns], "rows": list(zip(*(cells for _, cells in columns), strict=True))}


def rate(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.1f} %"


def _difference(c: GroupStandard) -> str:
    gap = f"{points(abs(c.difference))} {'less' if c.difference >= 0 else 'more'}"
    return gap if c.interval is None else f"{gap} ({interval_in_words(c.interval, c.difference < 0)})"


def _slices(slices: Sequence[Slice], comparisons: Sequence[GroupStandard]) -> list[tuple[str, list[tuple[Any, ...]]]]:
    """Of groups that fall short, and of those with a slice that is called: the first slices, a table each."""
    found = []
    for c in comparisons:
        own = [s for s in slices if (s.attribute, s.group) == (c.attribute, c.group)]
        if own and ((c.differs and c.missing) or where(own, c)):
            found.append((c.name, [_slice(s) for s in own[:MOST_SLICES]]))
    return found


def _slice(s: Slice) -> tuple[Any, ...]:
    """For reading: slice, rows, shares, gap and interval, how much more than elsewhere, whether it is called."""
    more, lacking = number(s.difference - s.elsewhere), "–" if s.share is None else f"{100 * s.share:.0f} %"
    gap = f"{number(s.difference)} ({interval_in_words((s.low, s.high))})"
    names = Markup("<strong>{}</strong>").format(short(s.name, 60)) if s.called else short(s.name, 60)
    verdict = "more than chance" if s.called else ""
    return names, s.rows, rate(s.recorded), rate(s.expected), gap, more, lacking, verdict


def standards(found: RecordedStandards | Standards) -> dict[str, Any]:
    """What a template shows of a comparison of standards."""
    comparisons = found.comparisons
    notes = found.notes if isinstance(found, RecordedStandards) else found.notes()
    largest = sorted(found.moves, key=lambda move: -abs(move.move))
    moves = [(c, [m for m in largest if (m.attribute, m.group) == (c.attribute, c.group)]) for c in comparisons]
    return {
        "groups": [(c.sentence(found.favourable), [*c.details(), *where(found.parts, c)]) for c in comparisons],
        "left_out": found.left_out,
        "notes": notes,
        "model": found.model,
        "columns": [(c.name, charts.column_moves(m[:MOST_COLUMNS], c.difference).svg()) for c, m in moves if m],
        "differs": [c.name for c in comparisons if c.differs],
        "headlines": [(c.name, [*where(found.parts, c), *c.details()]) for c in comparisons if c.differs and c.missing],
        "slices": _slices(found.parts, comparisons),
        "chart": charts.differences(comparisons).svg(),
        "doubts": [(c.name, charts.doubts(c).svg()) for c in comparisons if sum(c.doubts)],
    }

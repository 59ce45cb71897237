"""The comparison of standards on a page: a sentence and two charts from what a record holds of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from butfor.report.drawing import Drawing
from butfor.report.text import short, shown
from butfor.result.labels import LabelValue, expected_wrong
from butfor.result.population import Population
from butfor.result.record import read_as
from butfor.result.verdict import Verdict
from butfor.standard.groups import ASSUMPTION, BINS, GroupStandard

LEFT, RIGHT, ROW, HIGH = 190.0, 620.0, 34.0, 140.0
"""Where charts begin and end, the height of a group's row and of a chart of doubts, in pixels."""
STEPS = (1, 2, 5, 10, 20, 50)
"""Points between two numbers at an axis."""


def standards(recorded: Mapping[str, Any]) -> dict[str, Any]:
    """What a template shows of a record's comparison of standards."""
    comparisons = read_as(recorded["groups"], list[GroupStandard])
    charted = [c for c in comparisons if sum(c.doubts)]
    return {
        "sentences": [c.sentence(recorded["favourable"]) for c in comparisons],
        "left_out": list(recorded["left_out"]),
        "assumption": ASSUMPTION,
        "model": recorded["model"],
        "shuffles": recorded["shuffles"],
        "differs": [c.name for c in comparisons if c.differs],
        "chart": differences(comparisons).svg("Difference to the others' standard per group, in points"),
        "doubts": [(c.name, doubts(c).svg(f"Doubt about the adverse labels of {c.name}")) for c in charted],
    }


def one_standard(p: Population, addressed: Sequence[tuple[Verdict, str]]) -> list[dict[str, Any]]:
    """Per group that falls short: the sentence, how rates move, and everybody turned with the address of more."""
    addresses = {v.case: address for v, address in addressed}
    return [
        {
            "name": f"{one.attribute} = {short(one.group, 40)}",
            "sentence": one.sentence,
            "rates": [(short(group, 60), *map(percent, rates)) for group, rates in one.rates.items()],
            "accuracy": [percent(share) for share in one.accuracy or ()],
            "turned": [
                (f"{person.case}", shown(person.group), one.word(person), addresses.get(person.case, ""))
                for person in one.turned
            ],
        }
        for one in p.one_standard
    ]


def percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def differences(comparisons: Sequence[GroupStandard]) -> Drawing:
    """A row per group: the difference with its interval, on the range that chance makes."""
    bottom = 8 + ROW * len(comparisons)
    drawing = Drawing(RIGHT + 30, bottom + 36)
    reach = [value for c in comparisons for value in (c.difference, *(c.interval or ()), *(c.by_chance or ()))]
    limit = max(1.0, 108 * max(map(abs, reach)))

    def x(points: float) -> float:
        return LEFT + (RIGHT - LEFT) * (points + limit) / (2 * limit)

    drawing.line([(x(0), 8), (x(0), bottom)], "muted", dash=(3, 3))
    for k, c in enumerate(comparisons):
        y = 8 + ROW * (k + 0.5)
        if c.by_chance and c.interval:
            drawing.line([(x(100 * at), y) for at in c.by_chance], "line", 12)
            drawing.line([(x(100 * at), y) for at in c.interval], "person", 2)
        drawing.marks([(x(100 * c.difference), y)], "o", 9, "flip" if c.differs else "person", fill=True)
        drawing.text(LEFT - 10, y, short(c.name, 32), 10, "right")
    drawing.line([(LEFT, bottom), (RIGHT, bottom)], "line")
    step = next((step for step in STEPS if limit / step <= 4), STEPS[-1])
    for tick in range(-int(limit // step) * step, int(limit) + 1, step):
        drawing.text(x(tick), bottom + 11, f"{tick:+d}".replace("-", "−") if tick else "0", 9, "center", colour="muted")
    said = "points of the favourable label that the group is short of (right) or beyond (left)"
    drawing.text((LEFT + RIGHT) / 2, bottom + 27, said, 9, "center", colour="muted")
    return drawing


def yield_curve(labels: Sequence[LabelValue]) -> Drawing:
    """How many of the first k labels are likely to be wrong, for every k."""
    expected, left = expected_wrong(labels), 60.0
    drawing, most, count = Drawing(RIGHT + 30, HIGH + 40), max(1.0, expected[-1]), len(expected)
    points = [
        (left + (RIGHT - left) * k / count, HIGH - (HIGH - 12) * each / most) for k, each in enumerate([0.0, *expected])
    ]
    drawing.line([*points, (RIGHT, HIGH)], "flip", fill=True, opacity=0.25)
    drawing.line(points, "flip", 2)
    drawing.line([(left, 12), (left, HIGH), (RIGHT, HIGH)], "line")
    for share in (0.25, 0.5, 0.75, 1):
        at = left + (RIGHT - left) * share
        drawing.text(at, HIGH + 11, f"{round(count * share)}", 9, "center", colour="muted")
    drawing.text((left + RIGHT) / 2, HIGH + 27, "labels reviewed", 9, "center", colour="muted")
    drawing.text(left - 5, 12, f"{most:.0f}", 9, "right", colour="muted")
    return drawing


def doubts(c: GroupStandard) -> Drawing:
    """How many adverse labels have which doubt, beside the mean over shuffled tables."""
    drawing, most, left = Drawing(RIGHT + 30, HIGH + 40), max([1.0, *c.doubts, *c.shuffled_doubts]), 60.0

    def steps(counts: Sequence[float]) -> list[tuple[float, float]]:
        corners = [(BINS[k + side], count) for k, count in enumerate(counts) for side in (0, 1)]
        return [(left + (RIGHT - left) * at, HIGH - (HIGH - 12) * count / most) for at, count in corners]

    drawing.line([(left, HIGH), *steps(c.doubts), (RIGHT, HIGH)], "flip", fill=True, opacity=0.35)
    if c.shuffled_doubts:
        drawing.line(steps(c.shuffled_doubts), "ink", 1.5, dash=(4, 3))
    drawing.line([(left, 12), (left, HIGH), (RIGHT, HIGH)], "line")
    for tick in (0, 0.25, 0.5, 0.75, 1):
        drawing.text(left + (RIGHT - left) * tick, HIGH + 11, f"{tick:g}", 9, "center", colour="muted")
    drawing.text((left + RIGHT) / 2, HIGH + 27, "doubt", 9, "center", colour="muted")
    drawing.text(left - 5, 12, f"{most:.0f}", 9, "right", colour="muted")
    return drawing

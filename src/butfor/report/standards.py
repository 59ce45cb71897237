"""The comparison of standards on a page: a sentence and two charts from what a record holds of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from butfor.report.drawing import Drawing, Frame, nice_ticks, whole_ticks
from butfor.report.text import short
from butfor.standard.compare import ASSUMPTION, BINS, Comparison

LABELS, RIGHT, ROW = 190.0, 620.0, 34.0
"""Where names of groups end, where charts end, and the height of a group's row, in pixels."""


def standards(recorded: Mapping[str, Any]) -> dict[str, Any]:
    """What a template shows of a record's comparison of standards."""
    comparisons = [Comparison.of(group) for group in recorded["groups"]]
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


def differences(comparisons: Sequence[Comparison]) -> Drawing:
    """A row per group: the difference with its interval, on the range that chance makes."""
    drawing = Drawing(RIGHT + 30, 44 + ROW * len(comparisons))
    reach = [0.01]
    for c in comparisons:
        reach += [abs(100 * at) for at in (c.difference, *(c.interval or ()), *(c.by_chance or ()))]
    limit = 1.08 * max(reach)
    frame = Frame(drawing, (LABELS, 8, RIGHT, 8 + ROW * len(comparisons)), (-limit, limit), (0, len(comparisons)))
    for k, c in enumerate(comparisons):
        y = len(comparisons) - k - 0.5
        if c.by_chance and c.interval:
            (low, high), (left, right) = c.by_chance, c.interval
            drawing.line([frame.at(100 * low, y), frame.at(100 * high, y)], "line", 12)
            drawing.line([frame.at(100 * left, y), frame.at(100 * right, y)], "person", 2)
        drawing.marks([frame.at(100 * c.difference, y)], "o", 9, "flip" if c.differs else "person", fill=True)
        drawing.text(LABELS - 10, frame.at(0, y)[1], short(c.name, 32), 10, "right")
    drawing.line([frame.at(0, 0), frame.at(0, len(comparisons))], "muted", dash=(3, 3))
    ticks = nice_ticks(-limit, limit)
    names = [f"{tick:+g}".replace("-", "−") if tick else "0" for tick in ticks]
    frame.x_axis(ticks, names, "points of the favourable label that the group is short of (right) or beyond (left)")
    return drawing


def doubts(c: Comparison) -> Drawing:
    """How many adverse labels have which doubt, beside the mean over shuffled tables."""
    drawing = Drawing(RIGHT + 30, 190)
    most = max([1, *c.doubts, *c.shuffled_doubts])
    frame = Frame(drawing, (60, 12, RIGHT, 150), (0, 1), (0, 1.05 * most))
    edges = [float(edge) for edge in BINS]
    counts = [*map(float, c.doubts), float(c.doubts[-1])]
    frame.band(edges, [0.0] * len(edges), counts, "flip", 0.35)
    if c.shuffled_doubts:
        drawing.line(frame.steps(edges, [*c.shuffled_doubts, c.shuffled_doubts[-1]]), "ink", 1.5, dash=(4, 3))
    frame.x_axis([0, 0.25, 0.5, 0.75, 1], ["0", "0.25", "0.5", "0.75", "1"], "doubt")
    ticks = whole_ticks(int(most), 4)
    frame.y_axis(ticks, [str(tick) for tick in ticks])
    return drawing

"""The charts of the report, as drawings: the page shows their SVG, a notebook their matplotlib figure."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd

from butfor.report.drawing import Drawing, Point
from butfor.report.text import short, without_middle
from butfor.result.population import ALL, Population
from butfor.result.record import signed
from butfor.result.verdict import Verdict

WIDTH = 620
"""Pixels."""
PAST = 1.08
"""How far the last step of a curve is drawn out."""
MOST_CURVES = 6
"""Groups with a curve of their own: the largest."""
FAR_OUT = 2.0
"""Times the size that nine in ten logits keep within: where the picture of logits ends."""
GOLDEN = 0.618034
"""Its multiples spread marks evenly, and the same way every time."""
DASHES = [
    ("person", (12, 4)),
    ("flip", (12, 4, 2, 4)),
    ("muted", (6, 4)),
    ("person", (2, 2)),
    ("flip", (4, 2)),
    ("muted", (12, 2, 2, 2)),
]
"""Groups are known by their dashes and the name at the end of the line; colour only repeats it."""


def seed_logits(verdict: Verdict) -> Drawing | None:
    """The logit of each fresh seed's model, without the flips (dots) and with them (squares), and the medians. The few
    far out lie at the edge. None where there are none."""
    rows = verdict.fresh.logits if verdict.fresh else None
    sizes = [abs(logit) for row in rows or () for logit in row if logit is not None]
    if not rows or not sizes:
        return None
    reach = max(min(max(sizes), FAR_OUT * float(np.quantile(sizes, 0.9))), 1e-6)
    drawing = Drawing(WIDTH, 132)
    first, second = (short(name, 30) for name in verdict.label_names)
    drawing.text(8, 8, f"← decides '{first}'", 10)
    drawing.text(612, 8, f"decides '{second}' →", 10, "right")
    looks = (("No flip", "o", "person"), ("With the flips", "s", "flip"))
    for k, ((name, shape, colour), logits) in enumerate(zip(looks, rows, strict=True)):
        top = 30 + 46 * k
        drawing.line([(14, top + 9), (606, top + 9)], "line")
        known = [logit for logit in logits if logit is not None]
        if not known:
            continue
        middle = float(np.median(known))
        *places, upright = (310 + 296 * max(-1.0, min(1.0, logit / reach)) for logit in (*known, middle))
        drawing.marks([(x, top + 18 * (j * GOLDEN % 1)) for j, x in enumerate(places)], shape, 6, colour, fill=True)
        drawing.line([(upright, top - 4), (upright, top + 22)], "ink", 2.5)
        drawing.text(8, top + 30, f"{name}: median {signed(middle)}", 10)
    drawing.line([(310, 20), (310, 120)], "ink", 1.4)
    drawing.text(310, 126, "0, the boundary", 9, "center", colour="muted")
    drawing.text(8, 126, signed(-reach), 9, colour="muted")
    drawing.text(612, 126, signed(reach), 9, "right", colour="muted")
    return drawing


def distance_curve(population: Population) -> Drawing | None:
    """How many labels it takes: for everyone and per group the share of decisions that k labels turn, with everyone's
    interval. None where no decision was turned, or the budget is one label."""
    curves = turned_by(population)
    if not curves["share"].any() or curves["labels"].max() < 2:
        return None
    budget = int(curves["labels"].max())
    people = curves.groupby("group")["people"].first().drop(ALL)
    groups = list(people.nlargest(MOST_CURVES).index) if len(people) > 1 else []
    top = min(1.0, 1.05 * max(curves["high"][curves["group"] == ALL].max(), curves["share"].max()))
    left, right, upper, lower = 56, WIDTH - 150, 24, 228

    def at(labels: float, share: float) -> Point:
        return left + (right - left) * labels / (PAST * budget), lower - (lower - upper) * min(share, top) / top

    def steps(group: str, column: str) -> list[Point]:
        """A line that keeps each height up to the next number of labels."""
        curve = curves[curves["group"] == group]
        heights = [0.0, *curve[column]]
        ends = [*curve["labels"], PAST * budget]
        starts = [0, *curve["labels"]]
        return [at(x, share) for pair, share in zip(zip(starts, ends, strict=True), heights, strict=True) for x in pair]

    drawing = Drawing(WIDTH, 270)
    area = [*steps(ALL, "low")[2:], *reversed(steps(ALL, "high")[2:])]
    drawing.line(area, "ink", fill=True, opacity=0.1)
    ends = []
    for name, (colour, dash) in zip((*groups, ALL), (*DASHES[: len(groups)], ("ink", ())), strict=True):
        line = steps(name, "share")
        drawing.line(line, colour, 2, dash=dash)
        share = curves["share"][curves["group"] == name].iloc[-1]
        ends.append((line[-1][1], f"{without_middle(name, 18)} {100 * share:.0f} %", colour))
    for y, (_, text, colour) in zip(_apart([end[0] for end in ends], 14), ends, strict=True):
        drawing.text(WIDTH - 142, y, text, 9, colour=colour)
    drawing.line([(left, upper), (left, lower), (right, lower)], "line")
    step = math.ceil(budget / 12)
    for labels in sorted({1, *range(step, budget + 1, step)}):
        drawing.text(at(labels, 0)[0], lower + 11, str(labels), 9, "center", colour="muted")
    gap = next(share for share in (0.01, 0.02, 0.05, 0.1, 0.2) if top / share <= 5)
    for share in np.arange(0, top + 1e-9, gap):
        drawing.text(left - 5, at(0, share)[1], f"{100 * share:.3g} %", 9, "right", colour="muted")
    drawing.text(
        (left + right) / 2, lower + 27, "training labels flipped together, at most", 9, "center", colour="muted"
    )
    drawing.text(50, 10, "decisions turned", 9, colour="muted")
    return drawing


def turned_by(population: Population) -> pd.DataFrame:
    """`population.distance_curve()` of groups with anybody eligible."""
    curve = population.distance_curve()
    return curve[curve["people"] > 0].reset_index(drop=True)


def _apart(places: Sequence[float], least: float) -> list[float]:
    """The places moved up where two are nearer than `least`."""
    moved, ceiling = list(places), np.inf
    for at in sorted(range(len(moved)), key=lambda at: -moved[at]):
        moved[at] = ceiling = min(moved[at], ceiling - least)
    return moved

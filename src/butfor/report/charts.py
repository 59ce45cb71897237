"""The charts of the report, as drawings: the page shows their SVG, a notebook their matplotlib figure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd

from butfor.report.drawing import Drawing, Frame, nice_ticks, whole_ticks
from butfor.report.parallel import parallel_coordinates
from butfor.report.text import label_names, pulled, short, told_apart
from butfor.result.groups import Curves
from butfor.result.population import ALL, Population
from butfor.result.record import signed
from butfor.result.verdict import Verdict

__all__ = [
    "distance_curve",
    "group_shares",
    "logit_bar",
    "parallel_coordinates",
    "pulls",
    "seed_logits",
    "shuffled_curves",
]

WIDTH = 620
"""Pixels, of every chart but the small bar."""
PAST = 1.08
"""How far the last step of a curve is drawn out."""
MOST_CURVES, PANELS = 6, 3
"""Groups with a curve of their own (the largest), and side by side."""
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


def logit_bar(verdict: Verdict) -> Drawing:
    """The logit before (ring) and after (square), or the closest one reached (cross), around the boundary at 0."""
    drawing = Drawing(400, 34)
    after = verdict.counterfactual_logit if verdict.found else verdict.closest_logit
    reach = max(abs(verdict.logit), abs(after or 0.0), 1e-6)
    before = (200 + 190 * verdict.logit / reach, 17.0)
    drawing.line([(4, 17), (396, 17)], "line")
    drawing.line([(200, 5), (200, 29)], "ink", 1.5)
    if after is not None:
        place = (200 + 190 * after / reach, 17.0)
        drawing.line([before, place], "muted", 1.5)
        drawing.marks([place], "s" if verdict.found else "x", 9, "flip", fill=verdict.found)
    drawing.marks([before], "o", 11, "person")
    return drawing


def seed_logits(verdict: Verdict) -> Drawing | None:
    """The logit of each fresh seed's model, without the flips (dots) and with them (squares), and the medians. The few
    far out lie at the edge. None where there are none."""
    rows = verdict.fresh.logits if verdict.fresh else None
    sizes = [abs(logit) for row in rows or () for logit in row if logit is not None]
    if not rows or not sizes:
        return None
    reach = max(min(max(sizes), FAR_OUT * float(np.quantile(sizes, 0.9))), 1e-6)
    drawing = Drawing(WIDTH, 132)
    _directions(drawing, verdict, 8, 612, 8)
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


def _directions(drawing: Drawing, verdict: Verdict, left: float, right: float, y: float) -> None:
    first, second = (short(name, 30) for name in label_names(verdict))
    drawing.text(left, y, f"← decides '{first}'", 10)
    drawing.text(right, y, f"decides '{second}' →", 10, "right")


def pulls(verdict: Verdict) -> Drawing:
    """What pulls this decision which way: to the right towards the second label, to the left towards the first."""
    bars = pulled(verdict)
    bottom = 34 + 21 * len(bars)
    drawing = Drawing(WIDTH, bottom + 38)
    # Room beyond the longest bar for its number; both sides alike, so that 0 is in the middle.
    reach = 1.3 * max([1e-3, *(abs(bar.pull) for bar in bars)])
    frame = Frame(drawing, (244, 34, WIDTH - 24, bottom), (-reach, reach), (len(bars), 0))
    names = [short(name, 18) for name in label_names(verdict)]
    # From 0 outwards: so the two cannot meet, however long the labels' names.
    for side, sign, text in (("right", -1, f"← towards '{names[0]}'"), ("left", 1, f"towards '{names[1]}' →")):
        drawing.text(frame.at(0.03 * sign * reach, 0)[0], 18, text, 9, side)
    for k, bar in enumerate(bars):
        colour, sign = ("flip", -1) if bar.pull < 0 else ("person", 1)
        (start, middle), (end, _) = frame.at(0, k + 0.5), frame.at(bar.pull, k + 0.5)
        corners = [(start, middle - 7), (end, middle - 7), (end, middle + 7), (start, middle + 7), (start, middle - 7)]
        drawing.line(corners, colour, 1.2, fill=bar.single)
        drawing.text(238, middle, bar.name, 9, "right")
        drawing.text(end + 5 * sign, middle, signed(bar.pull), 9, "right" if sign < 0 else "left")
    ticks = nice_ticks(-reach, reach)
    drawing.line([frame.at(0, 0), frame.at(0, len(bars))], "ink", 1.4)
    title = f"pull on the logit; all bars together: {signed(verdict.logit)}"
    frame.x_axis(ticks, [f"{tick:g}".replace("-", "−") for tick in ticks], title)
    return drawing


def group_shares(population: Population) -> Drawing:
    """Per protected group, the share of eligible people with a solid find (dot) and its interval, and as a ring the
    share with any; where nothing was checked under fresh seeds, the share with any and its interval."""
    rows = list(population.by_group.iterrows()) if len(population) else []
    bottom = 26 + 34 * max(1, len(rows))
    drawing = Drawing(WIDTH, bottom + 44)
    number, share, low, high = (
        ("solid", "share_solid", "solid_low", "solid_high") if population.checked else ("found", "share", "low", "high")
    )
    top = max([max(values[high], values["share"]) for _, values in rows if values["eligible"]], default=1.0)
    frame = Frame(drawing, (190, 14, WIDTH - 80, bottom), (0, min(1.0, 1.1 * top)), (max(1, len(rows)), 0))
    named = told_apart((group for group, _ in rows), 26)
    for k, (group, values) in enumerate(rows):
        y = frame.at(0, k + 0.5)[1]
        drawing.text(180, y, named(group), 10, "right")
        drawing.text(WIDTH - 72, y, f"{int(values[number])} of {int(values['eligible'])}", 10)
        if values["eligible"]:
            drawing.line([frame.at(values[low], k + 0.5), frame.at(values[high], k + 0.5)], "person", 2)
            drawing.marks([frame.at(values[share], k + 0.5)], "o", 8, "person", fill=True)
            if population.checked:
                drawing.marks([frame.at(values["share"], k + 0.5)], "o", 13, "ink", width=1.5)
    ticks = nice_ticks(*frame.x_range)
    frame.x_axis(ticks, _percents(ticks), f"{number} among the eligible, with 95 % interval")
    return drawing


def distance_curve(population: Population) -> Drawing | None:
    """How many labels it takes: for everyone and per group the share of decisions that k labels turn, with its
    interval. Where anything is proven, a band up to the share that is not proven to need more than k. None where no
    decision was turned, or the budget is one label."""
    curves = turned_by(population)
    if not curves["share"].any() or curves["labels"].max() < 2:
        return None
    everyone = curves[curves["group"] == ALL]
    sizes = {name: people for name, people in zip(curves["group"], curves["people"], strict=True) if name != ALL}
    groups = sorted(sizes, key=lambda name: -sizes[name])[:MOST_CURVES] if len(sizes) > 1 else []
    budget, open_ = int(curves["labels"].max()), bool(left_open(population))
    last = curves[curves["labels"] == budget].set_index("group")
    top = min(1.0, 1.05 * max(everyone["high"].max(), last["share"].max(), last["proven"][ALL] if open_ else 0.0))
    drawing = Drawing(WIDTH, 270)
    frame = Frame(drawing, (56, 24, WIDTH - 150, 228), (0, PAST * budget), (0, top))
    ends = []
    if open_:
        labels, found, proven = _steps(everyone, "share", "proven")
        frame.band(labels, found, proven, "line", 0.5)
        drawing.line(frame.steps(labels, proven), "ink", 1.2, dash=(1.2, 2.4))
        ends.append((proven[-1], f"left open {100 * proven[-1]:.0f} %", "ink"))
    labels, low, high = _steps(everyone, "low", "high")
    frame.band(labels[1:], low[1:], high[1:], "ink", 0.1)
    named = told_apart((*groups, ALL), 18)
    for name, (colour, dash) in zip((*groups, ALL), (*DASHES[: len(groups)], ("ink", ())), strict=True):
        labels, share = _steps(curves[curves["group"] == name], "share")
        drawing.line(frame.steps(labels, share), colour, 2, dash=dash)
        ends.append((share[-1], f"{named(name)} {100 * share[-1]:.0f} %", colour))
    places = _apart([frame.at(0, end)[1] for end, *_ in ends], 14)
    for y, (_, text, colour) in zip(places, ends, strict=True):
        drawing.text(WIDTH - 142, y, text, 9, colour=colour)
    _curve_axes(frame, budget, 12, "training labels flipped together, at most")
    drawing.text(50, 10, "decisions turned", 9, colour="muted")
    return drawing


def shuffled_curves(curves: Curves) -> Drawing | None:
    """Per group, a panel: the share of decisions that so many labels turn as it is (line), and the range of the same
    with the protected attribute shuffled (band). None where no decision is turned in either."""
    groups = list(curves.real)[:MOST_CURVES]
    bands = {group: band for group in groups if (band := curves.band(group))}
    top = max([0.0, *(max(curves.real[g]) for g in groups), *(max(high) for _, high in bands.values())])
    if not top or len(curves.sizes) < 2:
        return None
    wide, named = (WIDTH - 56) / min(PANELS, len(groups)), told_apart(groups, 26)
    drawing = Drawing(WIDTH, 200 * -(-len(groups) // PANELS))
    x = [0, *curves.sizes, PAST * curves.sizes[-1]]
    for k, group in enumerate(groups):
        row, column = divmod(k, PANELS)
        left, upper = 52 + wide * column, 200 * row + 26
        frame = Frame(drawing, (left, upper, left + wide - 22, upper + 130), (0, x[-1]), (0, min(1.0, 1.08 * top)))
        if group in bands:
            low, high = ([0.0, *shares, shares[-1]] for shares in bands[group])
            frame.band(x, low, high, "muted", 0.3)
        real = curves.real[group]
        drawing.line(frame.steps(x, [0.0, *real, real[-1]]), "person", 2)
        drawing.text(left, upper - 12, named(group), 10)
        _curve_axes(frame, curves.sizes[-1], 5, "labels, at most", named=not column)
    return drawing


def _curve_axes(frame: Frame, budget: int, most: int, title: str, named: bool = True) -> None:
    labels, shares = whole_ticks(budget, most), nice_ticks(*frame.y_range, 5)
    frame.x_axis(labels, list(map(str, labels)), title)
    frame.y_axis(shares if named else [], _percents(shares) if named else [])


def _percents(shares: Iterable[float]) -> list[str]:
    return [f"{100 * share:.3g} %" for share in shares]


def turned_by(population: Population) -> pd.DataFrame:
    """`population.distance_curve()` of groups with anybody eligible."""
    curve = population.distance_curve()
    return curve[curve["people"] > 0].reset_index(drop=True)


def left_open(population: Population) -> bool | None:
    """Whether more decisions might be turned than were, by what is proven; None where nothing is."""
    if not any(v.at_least is not None for v in population.eligible):
        return None
    curve = turned_by(population)
    return bool((curve["proven"] > curve["share"])[curve["group"] == ALL].any())


def _steps(curve: pd.DataFrame, *columns: str) -> list[list[float]]:
    """Labels and columns of a curve as the corners of its steps: from nothing at 0 labels to a little past the last."""
    rest = [[0.0, *curve[column], curve[column].iloc[-1]] for column in columns]
    return [[0.0, *curve["labels"], PAST * curve["labels"].iloc[-1]], *rest]


def _apart(places: Sequence[float], least: float) -> list[float]:
    """The places moved up where two are nearer than `least`."""
    moved, ceiling = list(places), np.inf
    for at in sorted(range(len(moved)), key=lambda at: -moved[at]):
        moved[at] = ceiling = min(moved[at], ceiling - least)
    return moved

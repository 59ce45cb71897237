"""The figures of the paper, drawn from our results in the report's style.

Rankings are told apart by place and name, not by colour alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from butfor.report.charts import GOLDEN_RATIO, Drawing, Point
from butfor.support.errors import plural
from butfor.table.embedded import load_dataset
from butfor.table.table import Table
from evaluation import parallel
from evaluation.results import PersonResult, Result
from evaluation.tables import NAMES, ranks_in, regions, title_of

WIDTH = 620
"""Pixels."""
LOOKS: tuple[tuple[str, tuple[float, ...]], ...] = (
    ("flip", ()),
    ("muted", (2.4, 3.2)),
    ("person", (8, 4)),
)
"""Method solid, second dotted, third dashed."""
LEAST_BOX = 4
"""Fewer people than this are shown by their marks alone."""
STEPS = ((1, 1), (2, 2), (3, 5), (6, 10), (11, 20), (21, 50), (51, None))
"""Attempts that share one shade of a heat bar."""


# --- who is found by which ranking ----------------------------------------------------------------


def venn(
    results: Sequence[Result], ranks: Sequence[str] = ("combined", "chance", "distance")
) -> Drawing:
    """One diagram per data set: how many people exactly these rankings find (first seed). Circles
    are of one size: the numbers count."""
    chosen = [result for result in results if set(ranks) <= set(result.rankings())]
    columns, cell = 3, 226
    drawing = Drawing(WIDTH, cell * max(1, math.ceil(len(chosen) / columns)))
    for k, result in enumerate(chosen):
        _draw_venn(
            drawing, result, ranks, (WIDTH / columns * (k % columns + 0.5), cell * (k // columns))
        )
    return drawing


def _draw_venn(drawing: Drawing, result: Result, ranks: Sequence[str], at: Point) -> None:
    """A diagram whose top is in the middle at a point."""
    middle = at[0], at[1] + 118
    centres = [(middle[0] + 31 * math.cos(a), middle[1] - 31 * math.sin(a)) for a in _ANGLES]
    counts = regions(result.first, ranks)
    for centre, (colour, dash) in zip(centres, LOOKS, strict=True):
        turns = np.linspace(0, 2 * math.pi, 73)
        ring = [
            (centre[0] + 54 * math.cos(turn), centre[1] + 54 * math.sin(turn)) for turn in turns
        ]
        drawing.area(ring, colour, 0.1)
        drawing.line(ring, colour, 1.6, dash)
    for number in range(1, 8):
        inside = [k for k in range(3) if number >> k & 1]
        x, y = (
            sum(centres[k][axis] for k in inside) / len(inside) - middle[axis] for axis in (0, 1)
        )
        push = (1.75, 2.35, 1)[len(inside) - 1]
        count = counts.get(frozenset(ranks[k] for k in inside), 0)
        size, colour = 13 if len(inside) == 1 else 12, "ink" if count else "muted"
        drawing.text(middle[0] + push * x, middle[1] + push * y, str(count), size, "center", colour)
    drawing.text(at[0], at[1] + 12, title_of(result), 11, "center", bold=True)
    for (x, y, side), rank, (colour, _) in zip(_LABELS, ranks, LOOKS, strict=True):
        total = len(result.first.rankings[rank].found)
        drawing.text(at[0] + x, at[1] + y, f"{NAMES.get(rank, rank)} {total}", 10, side, colour)


_ANGLES = (math.pi / 2, math.pi * 7 / 6, math.pi * 11 / 6)
_LABELS = ((0, 26, "center"), (-94, 204, "left"), (94, 204, "right"))


# --- at which attempt -----------------------------------------------------------------------------


def heat_bars(
    results: Sequence[Result], ranks: Sequence[str] = ("combined", "surrogate", "activation")
) -> Drawing:
    """Per data set and ranking one bar of all people found, cut by the attempt that found them: the
    darker, the earlier."""
    bars = [(result, rank) for result in results for rank in ranks_in([result], ranks)]
    left, pitch, y, last = 192, 26, 60.0, ""
    most = max([1, *(len(result.first.rankings[rank].found) for result, rank in bars)])
    scale = (WIDTH - 40 - left) / most
    groups = len({result.dataset for result, _ in bars})
    drawing = Drawing(WIDTH, y + pitch * max(1, len(bars)) + 12 * groups + 34)
    for result, rank in bars:
        y += 12 if last not in ("", result.dataset) else 0
        if last != result.dataset:
            label = result.dataset + (" (sample)" if result.sample else "")
            drawing.text(8, y, label, 10, bold=True)
        drawing.text(left - 6, y, NAMES.get(rank, rank), 9.5, "right")
        _draw_bar(drawing, result, rank, (left, y), scale)
        y, last = y + pitch, result.dataset
    drawing.line([(left, y), (WIDTH - 40, y)], "line")
    step = max(1, int(_round_step(most, 6)))
    for count in range(0, most + 1, step):
        drawing.tick(left + scale * count, y + 11, str(count))
    drawing.tick((left + WIDTH - 40) / 2, y + 27, "people found (first seed)")
    drawing.tick(150, 19, "found at attempt", "left")
    for shade, (first, end) in enumerate(STEPS):
        x = 240 + 54 * shade
        drawing.area(_box(x, x + 12, 19, 6), "flip", _opacity(shade))
        drawing.tick(
            x + 16,
            19,
            f"{first}" if first == end else f"{first}–{end}" if end else f"{first}+",
            "left",
        )
    return drawing


def _draw_bar(drawing: Drawing, result: Result, rank: str, at: Point, scale: float) -> None:
    attempts = [p.attempt for p in result.first.rankings[rank].people if p.attempt is not None]
    x, y = at
    for shade, (first, last) in enumerate(STEPS):
        count = sum(first <= t and (last is None or t <= last) for t in attempts)
        if count:
            end = x + scale * count
            drawing.area(_box(x, end, y, 9.6), "flip", _opacity(shade))
            drawing.line([(end, y - 9.6), (end, y + 9.6)], "paper")
            drawing.text((x + end) / 2, y, str(count), 8.5, "center")
            x = end
    if not attempts:
        drawing.text(x + 4, y, "none found", 8.5, colour="muted")


def _opacity(shade: int) -> float:
    return 0.85 - 0.75 * shade / (len(STEPS) - 1)


def _round_step(span: float, most: int) -> float:
    """Between ticks of an axis, so that there are at most so many."""
    size = 10 ** math.floor(math.log10(max(span, 1e-9) / most))
    return next(size * digit for digit in (1, 2, 5, 10) if span / (size * digit) <= most)


def _box(left: float, right: float, y: float, half: float) -> list[Point]:
    return [(left, y - half), (right, y - half), (right, y + half), (left, y + half)]


# --- how near to the boundary ---------------------------------------------------------------------


def boundary(
    results: Sequence[Result], ranks: Sequence[str] = ("combined", "chance", "distance")
) -> Drawing:
    """The logits before any flip of the people each ranking finds (first seed): a mark each, over a
    box. Each data set has its own scale."""
    panels = [(result, ranks_in([result], ranks)) for result in results]
    heights = [34 + 38 * max(1, len(present)) + 30 for _, present in panels]
    drawing = Drawing(WIDTH, sum(heights) or 60)
    for k, (result, present) in enumerate(panels):
        _draw_logits(drawing, result, present, sum(heights[:k]))
    return drawing


def _draw_logits(drawing: Drawing, result: Result, ranks: Sequence[str], top: float) -> None:
    found = {
        rank: sorted(p.logit for p in result.first.rankings[rank].people if p.found)
        for rank in ranks
    }
    known = [0.0, *(logit for logits in found.values() for logit in logits)]
    margin = 0.06 * (max(known) - min(known)) or 1.0
    low, high = min(known) - margin, max(known) + margin
    bottom = top + 34 + 38 * max(1, len(ranks))

    def x(logit: float) -> float:
        return 140 + (WIDTH - 160) * (logit - low) / (high - low)

    drawing.text(8, top + 16, title_of(result), 10.5, bold=True)
    drawing.line([(x(0), top + 26), (x(0), bottom)], "ink", 1.4)
    for k, (rank, logits) in enumerate(found.items()):
        y = top + 50 + 38 * k
        drawing.text(134, y, f"{NAMES.get(rank, rank)} ({len(logits)})", 9.5, "right")
        if not logits:
            drawing.text(146, y, "none found", 8.5, colour="muted")
        places = [
            (x(logit), y - 14 + 10 * (j * GOLDEN_RATIO % 1)) for j, logit in enumerate(logits)
        ]
        drawing.marks(places, "circle", 3.5, LOOKS[k % len(LOOKS)][0])
        if len(logits) >= LEAST_BOX:
            least, first, middle, third, most = map(x, np.percentile(logits, [0, 25, 50, 75, 100]))
            drawing.line([(least, y + 8), (first, y + 8)], "ink", 1.2)
            drawing.line([(third, y + 8), (most, y + 8)], "ink", 1.2)
            drawing.line([*_box(first, third, y + 8, 4), (first, y + 4)], "ink", 1.2)
            drawing.line([(middle, y + 4), (middle, y + 12)], "ink", 2.8)
    drawing.line([(140, bottom), (WIDTH - 20, bottom)], "line")
    step = _round_step(high - low, 8)
    for tick in np.arange(math.ceil(low / step), math.floor(high / step) + 1):
        drawing.tick(x(tick * step), bottom + 11, f"{tick * step:g}".replace("-", "−"))


# --- one person -----------------------------------------------------------------------------------


def pictured(
    result: Result,
    case: int,
    ranks: Sequence[str] = ("combined", "chance", "distance"),
    data_home: Path | None = None,
) -> Drawing | None:
    """Parallel coordinates: the person beside the rows that each ranking flips. None where the case
    is not among the eligible people; a ranking that found nothing is named as such in the
    legend."""
    found = {
        rank: person for rank in ranks if (person := person_of(result, case, rank)) is not None
    }
    if not found:
        return None
    data = load_dataset(result.dataset, result.setting.split_seed, data_home=data_home)
    columns = list(data.X_train.columns)
    flipped = [(k, row) for k, person in enumerate(found.values()) for row in person.positions]
    own, *lines = [
        data.X_test.iloc[case].tolist(),
        *(data.X_train.iloc[row].tolist() for _, row in flipped),
    ]
    head = 30 + 20 * len(found)
    drawing = Drawing(WIDTH, head + parallel.PITCH * (len(columns) + 0.2))
    training = Table(data.X_train, data.y_train, (data.X_val, data.y_val))
    axes = parallel.axes_of(training, columns, [own, *lines])
    heights = parallel.draw_axes(drawing, axes, head)
    for (k, _), values in zip(flipped, lines, strict=True):
        _draw_row(
            drawing,
            k,
            [(a.at(value), y) for a, value, y in zip(axes, values, heights, strict=True)],
        )
    parallel.draw_person(
        drawing, [(a.at(value), y) for a, value, y in zip(axes, own, heights, strict=True)]
    )
    parallel.draw_person(drawing, [(14, 14), (44, 14)])
    drawing.text(56, 14, f"{title_of(result)}, person {case}", 10, bold=True)
    for k, (rank, person) in enumerate(found.items()):
        y = 36 + 20 * k
        words = (
            f"{plural(len(person.positions), 'label')} flipped" if person.found else "nothing found"
        )
        if person.found:
            _draw_row(drawing, k, [(14, y), (44, y)])
        drawing.text(56, y, f"{NAMES.get(rank, rank)}: {words}", 9.5)
    return drawing


def _draw_row(drawing: Drawing, k: int, places: Sequence[tuple[float, float]]) -> None:
    """A flipped row of the ranking k; the third's colour would be the person's own."""
    colour, dash = (("flip", ()), ("muted", (2, 3)), ("ink", (6, 3)))[k % 3]
    drawing.line(places, colour, 1.3, dash=dash)
    drawing.marks(places, ("square", "diamond", "cross")[k % 3], 4.5, colour, fill=k % 3 < 2)


def person_of(result: Result, case: int, rank: str) -> PersonResult | None:
    """A person under one ranking (first seed), or None where either was not run."""
    ranking = result.first.rankings.get(rank)
    return (
        next((person for person in ranking.people if person.case == case), None)
        if ranking
        else None
    )

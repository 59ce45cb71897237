"""The figures of the paper, drawn from our results, as matplotlib figures in the report's style.

Object API only, colours of the light theme; the page turns them into its variables. Rankings are told
apart by place and name, not by colour alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from butfor.data import load_dataset
from butfor.learn.protocols import Table
from butfor.report.charts import LIGHT, WIDTH, Drawing
from butfor.report.text import plural
from evaluation import parallel
from evaluation.results import PersonResult, Result
from evaluation.tables import NAMES, ranks_in, regions, title_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LOOKS: tuple[dict[str, Any], ...] = (
    {"color": LIGHT["flip"], "ls": "-"},
    {"color": LIGHT["muted"], "ls": (0, (1.5, 2))},
    {"color": LIGHT["person"], "ls": (0, (5, 2.5))},
)
"""Method solid, second dotted, third dashed."""
LEAST_BOX = 4
"""Fewer people than this are shown by their marks alone."""
STEPS = ((1, 1), (2, 2), (3, 5), (6, 10), (11, 20), (21, 50), (51, None))
"""Attempts that share one shade of a heat bar."""


def venn(results: Sequence[Result], ranks: Sequence[str] = ("combined", "chance", "distance")) -> Figure:
    """One diagram per data set: how many people exactly these rankings find (first seed). Circles are of
    one size: the numbers count."""
    from matplotlib.figure import Figure

    chosen = [result for result in results if set(ranks) <= set(result.rankings())]
    columns, cell = 3, 226
    lines = max(1, math.ceil(len(chosen) / columns))
    figure = Figure(figsize=(WIDTH / 72, lines * cell / 72), dpi=72)
    for k, result in enumerate(chosen):
        left, top = (k % columns) / columns, 1 - (k // columns) / lines
        axes = figure.add_axes((left, top - 1 / lines, 1 / columns, 1 / lines))
        axes.set_axis_off()
        axes.set_xlim(0, WIDTH / columns)
        axes.set_ylim(cell, 0)
        _draw_venn(axes, result, ranks)
    return figure


def _draw_venn(axes: Axes, result: Result, ranks: Sequence[str]) -> None:
    from matplotlib.patches import Circle

    middle, radius = (WIDTH / 6, 118.0), 54.0
    centres = [(middle[0] + 31 * math.cos(a), middle[1] - 31 * math.sin(a)) for a in _ANGLES]
    counted = regions(result.first, ranks)
    for centre, look in zip(centres, LOOKS, strict=True):
        axes.add_patch(Circle(centre, radius, facecolor=look["color"], alpha=0.1, edgecolor="none"))
        axes.add_patch(Circle(centre, radius, facecolor="none", edgecolor=look["color"], lw=1.6, ls=look["ls"]))
    for at in range(1, 8):
        inside = [k for k in range(3) if at >> k & 1]
        x = sum(centres[k][0] for k in inside) / len(inside) - middle[0]
        y = sum(centres[k][1] for k in inside) / len(inside) - middle[1]
        push = (1.75, 2.35, 1)[len(inside) - 1]
        count = counted.get(frozenset(ranks[k] for k in inside), 0)
        place = (middle[0] + push * x, middle[1] + push * y)
        ink = LIGHT["ink"] if count else LIGHT["muted"]
        _note(axes, *place, str(count), ha="center", size=13 if len(inside) == 1 else 12, color=ink)
    _note(axes, middle[0], 12, title_of(result), ha="center", size=11, weight="bold")
    for (x, y, side), rank, look in zip(_LABELS, ranks, LOOKS, strict=True):
        total = len(result.first.rankings[rank].found)
        text = f"{NAMES.get(rank, rank)} {total}"
        _note(axes, middle[0] + x, y, text, ha=side, size=10, color=look["color"])


_ANGLES = (math.pi / 2, math.pi * 7 / 6, math.pi * 11 / 6)
_LABELS = ((0, 26, "center"), (-94, 204, "left"), (94, 204, "right"))


def heat_bars(results: Sequence[Result], ranks: Sequence[str] = ("combined", "surrogate", "activation")) -> Figure:
    """Per data set and ranking one bar of all people found, cut by the attempt that found them: the
    darker, the earlier."""
    bars = [(result, rank) for result in results for rank in ranks_in([result], ranks)]
    pitch, head = 26, 46
    groups = len({result.dataset for result, _ in bars})
    height = head + pitch * max(1, len(bars)) + 12 * groups + 34
    figure, axes = _axes(height, (192, head, WIDTH - 40, height - 34))
    axes.spines["left"].set_visible(False)
    axes.set_yticks([])
    y, most, last = 0.0, 1, None
    for result, rank in bars:
        y += 0.46 if last not in (None, result.dataset) else 0
        name = NAMES.get(rank, rank)
        _note(axes, -0.015, y, name, transform=axes.get_yaxis_transform(), ha="right", size=9.5)
        if last != result.dataset:
            label = result.dataset + (" (sample)" if result.sample else "")
            _note(axes, -0.48, y, label, transform=axes.get_yaxis_transform(), ha="left", size=10, weight="bold")
        most = max(most, _draw_bar(axes, result, rank, y))
        y, last = y + 1, result.dataset
    axes.set_xlim(0, most * 1.02)
    axes.set_ylim(max(y, 1) - 0.45, -0.6)
    axes.set_xlabel("people found (first seed)", color=LIGHT["muted"], size=9)
    _shade_legend(figure, height)
    return figure


def _draw_bar(axes: Axes, result: Result, rank: str, y: float) -> int:
    attempts = [p.attempt for p in result.first.rankings[rank].people if p.attempt is not None]
    left = 0
    for step, (first, last) in enumerate(STEPS):
        count = sum(first <= t and (last is None or t <= last) for t in attempts)
        if count:
            axes.barh(y, count, left=left, height=0.74, color=LIGHT["flip"], alpha=_shade(step), lw=0)
            axes.plot([left + count] * 2, [y - 0.37, y + 0.37], color=LIGHT["paper"], lw=1)
            _note(axes, left + count / 2, y, str(count), ha="center", size=8.5)
        left += count
    if not left:
        _note(axes, 0, y, " none found", ha="left", size=8.5, color=LIGHT["muted"])
    return left


def _shade(step: int) -> float:
    return 0.85 - 0.75 * step / (len(STEPS) - 1)


def _shade_legend(figure: Figure, height: int) -> None:
    axes = figure.add_axes((0, 1 - 34 / height, 1, 30 / height))
    axes.set_axis_off()
    axes.set_xlim(0, WIDTH)
    axes.set_ylim(30, 0)
    _note(axes, 150, 15, "found at attempt", ha="left", color=LIGHT["muted"])
    for step, (first, last) in enumerate(STEPS):
        x = 240 + 54 * step
        axes.barh(15, 12, left=x, height=12, color=LIGHT["flip"], alpha=_shade(step), lw=0)
        text = f"{first}" if first == last else f"{first}–{last}" if last else f"{first}+"
        _note(axes, x + 16, 15, text, ha="left", size=8.5, color=LIGHT["muted"])


def boundary(results: Sequence[Result], ranks: Sequence[str] = ("combined", "chance", "distance")) -> Figure:
    """The logits before any flip of the people each ranking finds (first seed): a mark each, over a box.
    Each data set has its own scale."""
    from matplotlib.figure import Figure

    panels = [(result, ranks_in([result], ranks)) for result in results]
    heights = [34 + 38 * max(1, len(present)) + 30 for _, present in panels] or [60]
    figure = Figure(figsize=(WIDTH / 72, sum(heights) / 72), dpi=72)
    top = 0
    for (result, present), height in zip(panels, heights, strict=False):
        box = (140 / WIDTH, 1 - (top + height - 30) / sum(heights), (WIDTH - 160) / WIDTH, (height - 56) / sum(heights))
        axes = figure.add_axes(box)
        _draw_boundary(axes, result, present)
        top += height
    return figure


def _draw_boundary(axes: Axes, result: Result, ranks: Sequence[str]) -> None:
    axes.set_facecolor("none")
    axes.tick_params(left=False, bottom=False, labelsize=8.5, labelcolor=LIGHT["muted"])
    for side, spine in axes.spines.items():
        spine.set_visible(side == "bottom")
        spine.set_color(LIGHT["line"])
    axes.set_yticks([])
    axes.set_ylim(len(ranks) - 0.45, -0.55)
    across = axes.get_yaxis_transform()
    _note(axes, -0.29, -0.55, title_of(result), transform=across, ha="left", va="bottom", size=10.5, weight="bold")
    seen = [0.0]
    for k, rank in enumerate(ranks):
        found = [p.logit for p in result.first.rankings[rank].people if p.found]
        _note(axes, -0.015, k, f"{NAMES.get(rank, rank)} ({len(found)})", transform=across, ha="right", size=9.5)
        seen += found
        if not found:
            _note(axes, 0.01, k, "none found", transform=across, ha="left", size=8.5, color=LIGHT["muted"])
            continue
        # Multiples of the golden ratio spread the marks evenly, and the same way every time.
        spread = 0.26 * ((np.arange(len(found)) * 0.618034) % 1) - 0.36
        colour = LOOKS[k % len(LOOKS)]["color"]
        axes.plot(np.sort(found), k + spread, ls="none", marker="o", mfc="none", mec=colour, markersize=3.5)
        if len(found) >= LEAST_BOX:
            _box(axes, found, k + 0.2)
    margin = 0.06 * (max(seen) - min(seen)) or 1.0
    axes.set_xlim(min(seen) - margin, max(seen) + margin)
    _boundary(axes.axvline)


def pictured(
    result: Result,
    case: int,
    ranks: Sequence[str] = ("combined", "chance", "distance"),
    data_home: Path | None = None,
) -> Figure | None:
    """Parallel coordinates: the person beside the rows that each ranking flips. None where the case is not
    among the eligible people; a ranking that found nothing is named as such in the legend."""
    found = {rank: person for rank in ranks if (person := person_of(result, case, rank)) is not None}
    if not found:
        return None
    data = load_dataset(result.dataset, result.setting.split_seed, data_home=data_home)
    columns = list(data.X_train.columns)
    flipped = [(k, row) for k, person in enumerate(found.values()) for row in person.positions]
    own, *lines = [data.X_test.iloc[case].tolist(), *(data.X_train.iloc[row].tolist() for _, row in flipped)]
    head = 30 + 20 * len(found)
    drawing = Drawing(WIDTH, head + parallel.PITCH * (len(columns) + 0.2))
    training = Table(data.X_train, data.y_train, (data.X_val, data.y_val))
    axes = parallel.axes_of(training, columns, [own, *lines])
    heights = parallel.draw_axes(drawing, axes, head)
    for (k, _), values in zip(flipped, lines, strict=True):
        _draw_row(drawing, k, [(a.at(value), y) for a, value, y in zip(axes, values, heights, strict=True)])
    parallel.draw_person(drawing, [(a.at(value), y) for a, value, y in zip(axes, own, heights, strict=True)])
    parallel.draw_person(drawing, [(14, 14), (44, 14)])
    drawing.text(56, 14, f"{title_of(result)}, person {case}", 10, bold=True)
    for k, (rank, person) in enumerate(found.items()):
        y = 36 + 20 * k
        words = f"{plural(len(person.positions), 'label')} flipped" if person.found else "nothing found"
        if person.found:
            _draw_row(drawing, k, [(14, y), (44, y)])
        drawing.text(56, y, f"{NAMES.get(rank, rank)}: {words}", 9.5)
    return drawing.figure()


def _draw_row(drawing: Drawing, k: int, places: Sequence[tuple[float, float]]) -> None:
    """A flipped row of the ranking k; the third's colour would be the person's own."""
    colour, dash = (("flip", ()), ("muted", (2, 3)), ("ink", (6, 3)))[k % 3]
    drawing.line(places, colour, 1.3, dash=dash)
    drawing.marks(places, "sDx"[k % 3], 4.5, colour, fill=k % 3 < 2)


def person_of(result: Result, case: int, rank: str) -> PersonResult | None:
    """A person under one ranking (first seed), or None where either was not run."""
    ranking = result.first.rankings.get(rank)
    return next((person for person in ranking.people if person.case == case), None) if ranking else None


def _axes(height: int, box: tuple[int, int, int, int]) -> tuple[Figure, Axes]:
    """A figure of `height` pixels with axes in `box` (left, top, right, bottom), quiet and without ticks."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH / 72, height / 72), dpi=72)
    left, top, right, bottom = box
    size = (left / WIDTH, 1 - bottom / height, (right - left) / WIDTH, (bottom - top) / height)
    axes = figure.add_axes(size)
    _quiet(axes)
    return figure, axes


def _quiet(axes: Axes) -> None:
    axes.set_facecolor("none")
    axes.tick_params(left=False, bottom=False, labelsize=9, labelcolor=LIGHT["muted"])
    for side, spine in axes.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(LIGHT["line"])


def _boundary(line: Any) -> None:
    line(0, color=LIGHT["ink"], lw=1.4, zorder=1.5)


def _box(axes: Axes, logits: Any, y: float) -> None:
    """A box from quartile to quartile with the median, whiskers to the ends, as one broken line."""
    low, first, middle, third, high = np.percentile(logits, [0, 25, 50, 75, 100])
    up, down, gap = y - 0.11, y + 0.11, float("nan")
    x = [low, first, gap, third, high, gap, first, first, third, third, first]
    axes.plot(x, [y, y, gap, y, y, gap, up, down, down, up, up], color=LIGHT["ink"], lw=1.2, clip_on=False)
    axes.plot([middle, middle], [up, down], color=LIGHT["ink"], lw=2.8, clip_on=False)


def _note(axes: Axes, x: float, y: float, text: str, **style: Any) -> None:
    look: dict[str, Any] = {"size": 9, "color": LIGHT["ink"], "va": "center", "parse_math": False}
    axes.text(x, y, text, **look | style)

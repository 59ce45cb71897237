"""The charts of the report, as SVG, in pixels.

Colours are names of `THEME`. In a page they are CSS variables, so that charts follow its light or
dark theme.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup, escape

from butfor.report.people import Listed, cut_of, scores
from butfor.report.text import short, without_middle
from butfor.result.verdict import Verdict
from butfor.standard.explain import ColumnMove
from butfor.standard.groups import GroupStandard
from butfor.support.files import save
from butfor.table.groups import in_order
from butfor.words.figures import (
    SMALLEST_SHOWN_GAP,
    often,
    points,
    signed,
)
from butfor.words.names import Names

THEME = {
    "ink": ("#1c2530", "#e8ebf0"),
    "muted": ("#596575", "#a3adba"),
    "line": ("#ccd3db", "#414b58"),
    "paper": ("#ffffff", "#14181e"),
    "panel": ("#f4f6f8", "#1d232b"),
    "person": ("#0b5a9e", "#74b7f0"),
    "flip": ("#ad410b", "#f5a26b"),
    "mark": ("#fdebdd", "#43291a"),
}
"""Every colour of the report by name: in the light and in the dark theme."""
CHART_PIXELS = 360
"""Width of a chart, which a phone shows as large as it is drawn."""
BAR_PIXELS = 900
"""Width of a bar that fills the page."""
CELL_PIXELS = 260
"""Width of a chart in a table's cell."""
SWATCH_PIXELS = 14
"""Width and height of a mark in a legend."""
MOST_LANES = 8
"""The most groups with a row of dots, the largest."""
MOST_BAR_PARTS = 4
"""The most columns in a bar."""
MOST_LISTED_COLUMNS = 6
"""The most columns in a list."""
EDGE_FACTOR = 2.0
"""A chart of logits ends at this multiple of their 90 % quantile."""
GOLDEN_RATIO = 0.618034
"""Multiples of it spread marks evenly and reproducibly."""

Point = tuple[float, float]
Part = tuple[str, float, str, float]
"""A part of a gap: its name, its share, its colour and opacity."""
MARKS = {
    "circle": "m-{r} 0a{r} {r} 0 1 0 {d} 0a{r} {r} 0 1 0-{d} 0",
    "square": "m-{r}-{r}h{d}v{d}h-{d}z",
    "diamond": "m0-{r}l{r} {r}l-{r} {r}l-{r}-{r}z",
    "cross": "m-{r}-{r}l{d} {d}m0-{d}l-{d} {d}",
}
"""SVG paths from a mark's centre; r is half its width, d its width."""


class Drawing:
    """Shapes as SVG elements, with texts on top. Notebooks show it."""

    def __init__(self, width: float, height: float, title: str = "") -> None:
        self.width = width
        self.height = height
        self.title = title
        self.shapes: list[str] = []
        self.texts: list[str] = []

    def line(
        self,
        points: Sequence[Point],
        colour: str = "ink",
        width: float = 1.0,
        dash: Sequence[float] = (),
    ) -> None:
        dashed = f' stroke-dasharray="{" ".join(map(str, dash))}"' if dash else ""
        look = f'fill="none" stroke="var(--bf-{colour})" stroke-width="{width:g}"{dashed}'
        self.shapes.append(f'<polyline points="{_places(points)}" {look}/>')

    def area(self, points: Sequence[Point], colour: str, opacity: float) -> None:
        look = f'fill="var(--bf-{colour})" fill-opacity="{opacity:g}"'
        self.shapes.append(f'<polygon points="{_places(points)}" {look}/>')

    def marks(
        self, points: Iterable[Point], shape: str, size: float, colour: str, fill: bool = False
    ) -> None:
        """Marks of one shape (see `MARKS`), `size` pixels wide; places that are NaN are left
        out."""
        mark = MARKS[shape].format(r=f"{size / 2:g}", d=f"{size:g}")
        path = "".join(f"M{x:.1f} {y:.1f}{mark}" for x, y in points if not math.isnan(x))
        paint = f'fill="none" stroke="var(--bf-{colour})" stroke-width="2"'
        if fill:
            paint = f'fill="var(--bf-{colour})"'
        self.shapes.append(f'<path d="{path}" {paint}/>')

    def text(
        self,
        x: float,
        y: float,
        text: str,
        size: float = 12,
        side: str = "left",
        colour: str = "ink",
        bold: bool = False,
    ) -> None:
        """A text at (x, y), vertically centred; `side`: which of its sides is at x."""
        anchor = {"left": "start", "center": "middle", "right": "end"}[side]
        place = f'x="{x:.1f}" y="{y + 0.35 * size:.1f}" font-size="{size:g}" text-anchor="{anchor}"'
        look = f'fill="var(--bf-{colour})" font-weight="{700 if bold else 400}"'
        self.texts.append(f"<text {place} {look}>{escape(text)}</text>")

    def tick(self, x: float, y: float, text: str, side: str = "center") -> None:
        self.text(x, y, text, 11.2, side, "muted")

    def svg(self, more: str = "", ground: str = "") -> Markup:
        """An ``<svg>`` element for a page, with its title for screen readers."""
        paper = (
            f'viewBox="0 0 {self.width:g} {self.height:g}" width="{self.width:g}" role="img"{more}'
        )
        shapes = "".join([ground, *self.shapes, *self.texts])
        return Markup(f"<svg {paper}><title>{escape(self.title)}</title>{shapes}</svg>")

    def to_svg(self, path: str | Path | None = None) -> Any:
        """The text of a file in the light theme or, given a `path`, the path it was written to."""
        ground = f'<rect width="{self.width:g}" height="{self.height:g}" fill="var(--bf-paper)"/>'
        ground += "<style>text{paint-order:stroke;stroke:var(--bf-paper);stroke-width:3px}</style>"
        drawn = self.svg(' xmlns="http://www.w3.org/2000/svg" font-family="sans-serif"', ground)
        light = re.sub(r"var\(--bf-(\w+)\)", lambda name: THEME[name[1]][0], drawn)
        return save(light, path)

    _repr_svg_ = to_svg


def _places(points: Sequence[Point]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)


def _reach(logits: Sequence[float]) -> float:
    """Where a chart of logits ends; what lies further out is drawn at the edge."""
    sizes = np.abs(logits)
    return max(min(float(sizes.max()), EDGE_FACTOR * float(np.quantile(sizes, 0.9))), 1e-6)


# --- one person, and many -------------------------------------------------------------------------


def seed_logits(verdict: Verdict) -> Drawing | None:
    """The logit of each fresh seed's model without the flips (dots) and with them (squares), with
    medians. None if there are no logits."""
    rows = verdict.fresh.logits if verdict.fresh else None
    logits_of_rows = [[logit for logit in row if logit is not None] for row in rows or ()]
    if not any(logits_of_rows):
        return None
    run = verdict.run
    middle = CHART_PIXELS / 2
    right = CHART_PIXELS - 14
    reach = _reach([logit for logits in logits_of_rows for logit in logits])
    title = f"{run.measure.capitalize()}s over the fresh seeds, without and with the flips"
    drawing = Drawing(CHART_PIXELS, 140, title)
    first, second = (short(name, 24) for name in verdict.label_names)
    drawing.text(8, 8, f"← '{first}'")
    drawing.text(CHART_PIXELS - 8, 8, f"'{second}' →", side="right")
    looks = (30, "No flip", "circle", "person"), (78, "With the flips", "square", "flip")
    for (top, name, shape, colour), logits in zip(looks, logits_of_rows, strict=True):
        drawing.line([(14, top + 9), (right, top + 9)], "line")
        if logits:
            median = float(np.median(logits))
            *places, upright = np.interp([*logits, median], (-reach, reach), (14, right))
            marks = [(x, top + 18 * (j * GOLDEN_RATIO % 1)) for j, x in enumerate(places)]
            drawing.marks(marks, shape, 6, colour, fill=True)
            drawing.line([(upright, top - 4), (upright, top + 22)], "ink", 2.5)
            drawing.text(8, top + 30, f"{name}: median {run.measured(median)}")
    drawing.line([(middle, 20), (middle, 126)], "ink", 1.4)
    cut = "0" if run.cut_moves or run.measure == "margin" else run.measured(0.0)
    drawing.tick(middle, 134, f"{cut}, the cut")
    drawing.tick(8, 134, run.measured(-reach), "left")
    drawing.tick(CHART_PIXELS - 8, 134, run.measured(reach), "right")
    return drawing


def people_dots(people: Sequence[Listed], names: Names, width: float) -> Drawing | None:
    """A row of dots per group on the score's axis: everybody examined, with marks for those whose
    decision hinges on few labels or probably changes under one standard. None with more than two
    labels."""
    examined = [(one, one.verdict) for one in people if one.verdict]
    if not examined or examined[0][1].decision is not None:
        return None
    run = examined[0][1].run
    narrow = width < 600
    left = 12 if narrow else 170
    row = 58 if narrow else 42
    top = 14
    lanes = _lanes([v for _, v in examined])
    high = _reach([scores(v)[0] for _, v in examined]) if run.measure == "margin" else 1.0
    low = -high if run.measure == "margin" else 0.0
    bottom = top + row * len(lanes)
    height = bottom + (100 if narrow else 60)
    title = f"{run.measure.capitalize()} of {len(examined)} people by group"
    drawing = Drawing(width, height, title)

    def x(value: float) -> float:
        return float(np.interp(value, (low, high), (left, width - 14)))

    looks = {
        "others": ("muted", "circle", 5, True),
        "hinges on few labels": ("person", "square", 8, True),
    }
    if any(one.in_most for one, _ in examined):
        looks["probably changes under one standard"] = ("flip", "diamond", 13, False)
    for k, group in enumerate(lanes):
        middle = top + row * (k + 0.5) + (8 if narrow else 0)
        name = names.group(run.sensitive, group)
        longest = 40 if narrow else 26
        if len(name) > longest:
            name = without_middle(names.value(run.sensitive, group), longest)
        drawing.text(2, middle - (25 if narrow else 0), name, size=12.5, bold=True)
        drawing.line([(left, middle), (width - 14, middle)], "line")
        places = [list[Point]() for _ in looks]
        for j, (one, v) in enumerate((one, v) for one, v in examined if str(v.group) == group):
            place = (x(scores(v)[0]), middle + 26 * ((j * GOLDEN_RATIO % 1) - 0.5))
            places[v.found].append(place)
            if one.in_most:
                places[2].append(place)
        for (colour, shape, size, fill), marks in zip(looks.values(), places, strict=True):
            drawing.marks(marks, shape, size, colour, fill)
    across, down = (0, 18) if narrow else (150, 0)
    for k, (meaning, (colour, shape, size, fill)) in enumerate(looks.items()):
        x0 = left + across * k
        y0 = bottom + 52 + down * k
        drawing.marks([(x0 + 6, y0)], shape, size, colour, fill)
        drawing.tick(x0 + 18, y0, meaning, "left")
    cut = cut_of(examined[0][1])
    drawing.line([(x(cut), top - 8), (x(cut), bottom + 4)], "ink", 1.6, dash=(5, 3))
    cut_name = "cut 0" if low else f"cut {cut:.2f}"
    drawing.text(x(cut), bottom + 14, cut_name, 11.5, "center", bold=True)
    higher = run.measure == "score" or run.favourable == run.label_names[1]
    side = "higher is" if higher else "lower is"
    drawing.tick(left, bottom + 31, f"{run.measure} ({side} better for the person)", "left")
    for end, anchor in ((low, "left"), (high, "right")):
        drawing.tick(x(end), bottom + 14, f"{end:g}" if not low else signed(end), anchor)
    return drawing


def _lanes(verdicts: Sequence[Verdict]) -> list[str]:
    """The groups with a row of dots, in order: the largest."""
    sizes = Counter(str(v.group) for v in verdicts)
    largest = {group for group, _ in sizes.most_common(MOST_LANES)}
    groups = in_order((v.group for v in verdicts), verdicts[0].run.sensitive_bands)
    return [str(group) for group in groups if str(group) in largest]


# --- groups: marks in the cells of tables, and bars -----------------------------------------------


def swatch(shape: str, colour: str, fill: bool = True, opacity: float = 1.0) -> Markup:
    """A mark for a legend; "bar" is a piece of a bar."""
    drawing = Drawing(SWATCH_PIXELS, SWATCH_PIXELS)
    low = 1
    high = SWATCH_PIXELS - 1
    if shape == "bar":
        drawing.area([(low, low), (high, low), (high, high), (low, high)], colour, opacity)
    else:
        drawing.marks([(SWATCH_PIXELS / 2, SWATCH_PIXELS / 2)], shape, 9, colour, fill)
    return drawing.svg()


def rates_scale(comparisons: Sequence[GroupStandard]) -> tuple[float, float]:
    """Tens of per cent around all recorded and expected shares."""
    shares = [share for c in comparisons for share in (c.recorded, c.expected)]
    low = math.floor(10 * min(shares)) / 10
    high = math.ceil(10 * max(shares)) / 10
    return (low, high) if high > low else (max(0.0, low - 0.1), min(1.0, high + 0.1))


def rates_mark(c: GroupStandard, scale: tuple[float, float]) -> Markup:
    """The recorded share of a group (circle) and that of comparable people (diamond) on one
    line."""
    drawing = Drawing(CELL_PIXELS, 24)
    colour = "flip" if c.differs else "person"
    drawing.title = f"{points(c.recorded)} recorded, {points(c.expected)} of comparable people"
    recorded, expected = np.interp((c.recorded, c.expected), scale, (10, CELL_PIXELS - 10))
    drawing.line([(4, 12), (CELL_PIXELS - 4, 12)], "line")
    drawing.line([(recorded, 12), (expected, 12)], colour, 3)
    drawing.marks([(expected, 12)], "diamond", 12, "person")
    drawing.marks([(recorded, 12)], "circle", 11, colour, fill=True)
    return drawing.svg()


def around_zero(
    value: float, ends: Sequence[float], reach: float, title: str, called: bool = False
) -> Markup:
    """A value and the ends of its interval around 0 in the middle, as a table's cell; `reach` is
    near its sides."""
    drawing = Drawing(CELL_PIXELS, 24, title)
    place, *line = np.interp([value, *ends], (-reach, reach), (10, CELL_PIXELS - 10))
    drawing.line([(CELL_PIXELS / 2, 0), (CELL_PIXELS / 2, 24)], "muted", dash=(3, 3))
    if line:
        drawing.line([(x, 12) for x in line], "person", 2)
    drawing.marks([(place, 12)], "circle", 11, "flip" if called else "person", fill=True)
    return drawing.svg()


def gap_mark(c: GroupStandard, reach: float) -> Markup:
    """The gap and its interval, around no gap; less often is left."""
    ends = [-end for end in c.interval or ()]
    return around_zero(-c.difference, ends, reach, often(c.difference, c.interval), c.differs)


def gap_reach(comparisons: Sequence[GroupStandard]) -> float:
    """How far the gaps and their intervals go from 0."""
    sizes = [0.005]
    for c in comparisons:
        sizes += [abs(value) for value in (c.difference, *(c.interval or ()))]
    return max(sizes)


def column_moves(
    moves: Sequence[ColumnMove], c: GroupStandard, name: Callable[[object], str] = str
) -> list[tuple[str, Markup, str]]:
    """Per column that moves a group's gap furthest, its name, and a mark and words for how much
    larger (right) or smaller the gap is without it, with the 95 % interval."""
    # If the difference is below 0, a larger gap is a lower difference.
    side = 1 if c.difference >= 0 else -1
    of_group = [m for m in moves if (m.attribute, m.group) == (c.attribute, c.group)]
    furthest = sorted(of_group, key=lambda m: -abs(m.move))[:MOST_LISTED_COLUMNS]
    rows = []
    reach = max((0.005, *(abs(m.move) + 1.96 * m.error for m in furthest)))
    for m in furthest:
        move = side * m.move
        in_words = f"{points(abs(m.move))} {'larger' if move >= 0 else 'smaller'}"
        ends = [move - 1.96 * m.error, move + 1.96 * m.error]
        rows.append((name(m.column), around_zero(move, ends, reach, in_words), in_words))
    return rows


def gap_parts(
    moves: Sequence[ColumnMove], c: GroupStandard, name: Callable[[object], str] = str
) -> list[Part]:
    """The raw gap in parts that add up: what columns explain, the largest first and the others
    together, and what they do not. A column's part is how far the gap moves without it."""
    side = 1 if c.explained >= 0 else -1
    of_group = [m for m in moves if (m.attribute, m.group) == (c.attribute, c.group)]
    explaining = [m for m in of_group if side * m.move > m.error]
    parts = list[Part]()
    left = c.explained
    for m in sorted(explaining, key=lambda m: -side * m.move):
        if len(parts) < MOST_BAR_PARTS and side * m.move <= side * left:
            parts.append((name(m.column), m.move, "person", 0.95 - 0.2 * len(parts)))
            left -= m.move
    if abs(left) >= SMALLEST_SHOWN_GAP:
        rest = "other columns together" if parts else "all columns together"
        parts.append((rest, left, "person", 0.2))
    return [*parts, ("not explained", c.difference, "flip", 0.9)]


def gap_scale(groups: Sequence[Sequence[Part]]) -> tuple[float, float]:
    """How far the bars of several groups reach."""
    lows = [sum(min(0.0, part[1]) for part in parts) for parts in groups]
    highs = [sum(max(0.0, part[1]) for part in parts) for parts in groups]
    return min(lows), max(highs)


def gap_bar(parts: Sequence[Part], scale: tuple[float, float]) -> Markup:
    """The parts side by side, those above 0 to the right and those below to the left; a line marks
    their sum."""
    title = "; ".join(f"{name}: {points(value)}" for name, value, _, _ in parts)
    drawing = Drawing(BAR_PIXELS, 30, title)
    ends = [0.0, 0.0]
    for _, value, colour, opacity in parts:
        start = ends[value < 0]
        ends[value < 0] = start + value
        a, b = np.interp((start, start + value), scale, (4, BAR_PIXELS - 4))
        drawing.area([(a, 6), (b, 6), (b, 24), (a, 24)], colour, opacity)
        drawing.line([(b, 6), (b, 24)], "paper", 1.5)
    zero, total = np.interp((0, sum(ends)), scale, (4, BAR_PIXELS - 4))
    drawing.line([(zero, 0), (zero, 30)], "muted", 1.5)
    drawing.line([(total, 0), (total, 30)], "ink", 2.5)
    return drawing.svg()

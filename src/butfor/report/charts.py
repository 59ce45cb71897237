"""The charts of the report, as SVG, in pixels.

Colours are names of `THEME`; in a page they are its CSS variables, so that a chart is light or dark as the page is.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np
from markupsafe import Markup, escape

from butfor.report.text import short, without_middle
from butfor.result.labels import TrainingLabel, expected_wrong
from butfor.result.population import ALL, Population
from butfor.result.record import save
from butfor.result.verdict import Verdict
from butfor.standard.explain import ColumnMove
from butfor.standard.groups import BINS, GroupStandard

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
"""Every colour of the report by name: on light and on dark ground."""
ANCHORS = {"left": "start", "center": "middle", "right": "end"}

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

Point = tuple[float, float]
MARKS = {
    "circle": "m-{r} 0a{r} {r} 0 1 0 {d} 0a{r} {r} 0 1 0-{d} 0",
    "square": "m-{r}-{r}h{d}v{d}h-{d}z",
    "diamond": "m0-{r}l{r} {r}l-{r} {r}l-{r}-{r}z",
    "cross": "m-{r}-{r}l{d} {d}m0-{d}l-{d} {d}",
}
"""From a mark's middle, as the path of SVG; r: half its width, d: all of it."""


class Drawing:
    """Shapes on paper of so many pixels, as SVG elements; texts lie on top. A notebook shows it."""

    def __init__(self, width: float, height: float, title: str = "") -> None:
        self.width, self.height, self.title = width, height, title
        self.shapes: list[str] = []
        self.texts: list[str] = []

    def line(
        self, points: Sequence[Point], colour: str = "ink", width: float = 1.0, dash: Sequence[float] = ()
    ) -> None:
        look = f'fill="none" stroke="var(--bf-{colour})" stroke-width="{width:g}"{_dashed(dash)}'
        self.shapes.append(f'<polyline points="{_places(points)}" {look}/>')

    def area(self, points: Sequence[Point], colour: str, opacity: float) -> None:
        look = f'fill="var(--bf-{colour})" fill-opacity="{opacity:g}"'
        self.shapes.append(f'<polygon points="{_places(points)}" {look}/>')

    def circle(self, centre: Point, radius: float, colour: str, opacity: float, dash: Sequence[float] = ()) -> None:
        """A disc of this opacity within a ring."""
        paint = f'fill="var(--bf-{colour})" fill-opacity="{opacity:g}" stroke="var(--bf-{colour})" stroke-width="1.6"'
        self.shapes.append(f'<circle cx="{centre[0]:g}" cy="{centre[1]:g}" r="{radius:g}" {paint}{_dashed(dash)}/>')

    def marks(self, points: Iterable[Point], shape: str, size: float, colour: str, fill: bool = False) -> None:
        """Marks of one look (see `MARKS`), `size` pixels across; none where a place is not a number."""
        mark = MARKS[shape].format(r=f"{size / 2:g}", d=f"{size:g}")
        path = "".join(f"M{x:.1f} {y:.1f}{mark}" for x, y in points if not math.isnan(x))
        paint = f'fill="var(--bf-{colour})"' if fill else f'fill="none" stroke="var(--bf-{colour})" stroke-width="2"'
        self.shapes.append(f'<path d="{path}" {paint}/>')

    def text(
        self,
        x: float,
        y: float,
        text: str,
        size: float = 9,
        side: str = "left",
        colour: str = "ink",
        bold: bool = False,
    ) -> None:
        """A text whose middle line is at (x, y); `side` is where x lies of it."""
        at = f'x="{x:.1f}" y="{y + 0.35 * size:.1f}" font-size="{size:g}" text-anchor="{ANCHORS[side]}"'
        look = f'fill="var(--bf-{colour})" font-weight="{700 if bold else 400}"'
        self.texts.append(f"<text {at} {look}>{escape(text)}</text>")

    def tick(self, x: float, y: float, text: str, side: str = "center") -> None:
        self.text(x, y, text, 9, side, "muted")

    def svg(self) -> Markup:
        """An ``<svg>`` element of a page, with its title for screen readers."""
        return self._element("", "")

    def to_svg(self, path: str | Path | None = None) -> str:
        """The text of a file, in the colours of the light theme; also written to `path` where one is given."""
        paper = f'<rect width="{self.width:g}" height="{self.height:g}" fill="var(--bf-paper)"/>'
        paper += "<style>text{paint-order:stroke;stroke:var(--bf-paper);stroke-width:3px}</style>"
        whole = self._element(' xmlns="http://www.w3.org/2000/svg" font-family="sans-serif"', paper)
        return save(re.sub(r"var\(--bf-(\w+)\)", lambda found: THEME[found[1]][0], whole), path)

    _repr_svg_ = to_svg

    def _element(self, more: str, ground: str) -> Markup:
        paper = f'viewBox="0 0 {self.width:g} {self.height:g}" width="{self.width:g}" role="img"{more}'
        shapes = "".join([ground, *self.shapes, *self.texts])
        return Markup(f"<svg {paper}><title>{escape(self.title)}</title>{shapes}</svg>")


def _dashed(dash: Sequence[float]) -> str:
    return f' stroke-dasharray="{" ".join(map(str, dash))}"' if dash else ""


def _places(points: Sequence[Point]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)


# --- one person, and many ---------------------------------------------------------------------------


def seed_logits(verdict: Verdict) -> Drawing | None:
    """The logit of each fresh seed's model, without the flips (dots) and with them (squares), and the medians. The few
    far out lie at the edge. None where there are none."""
    rows = verdict.fresh.logits if verdict.fresh else None
    sizes = [abs(logit) for row in rows or () for logit in row if logit is not None]
    if not rows or not sizes:
        return None
    reach = max(min(max(sizes), FAR_OUT * float(np.quantile(sizes, 0.9))), 1e-6)
    run = verdict.run
    said = run.measured
    boundary = "0, the cut" if run.cut_moves or run.measure == "margin" else f"{said(0.0)}, the cut"
    drawing = Drawing(WIDTH, 132, f"{run.measure.capitalize()}s over the fresh seeds, without and with the flips")
    first, second = (short(name, 30) for name in verdict.label_names)
    drawing.text(8, 8, f"← decides '{first}'", 10)
    drawing.text(612, 8, f"decides '{second}' →", 10, "right")
    looks = (("No flip", "circle", "person"), ("With the flips", "square", "flip"))
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
        drawing.text(8, top + 30, f"{name}: median {said(middle)}", 10)
    drawing.line([(310, 20), (310, 120)], "ink", 1.4)
    drawing.tick(310, 126, boundary)
    drawing.tick(8, 126, said(-reach), "left")
    drawing.tick(612, 126, said(reach), "right")
    return drawing


def distance_curve(population: Population) -> Drawing | None:
    """How many labels it takes: for everyone and per group the share of decisions that k labels turn, with everyone's
    interval. None where no decision was turned, or the budget is one label."""
    curves = population.distance_curve()
    curves = curves[curves["people"] > 0]
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
        labels, shares = np.repeat([0, *curve["labels"], PAST * budget], 2)[1:-1], np.repeat([0, *curve[column]], 2)
        return list(map(at, labels, shares))

    drawing = Drawing(WIDTH, 270)
    drawing.area([*steps(ALL, "low")[2:], *reversed(steps(ALL, "high")[2:])], "ink", 0.1)
    ends = []
    for name, (colour, dash) in zip((*groups, ALL), (*DASHES[: len(groups)], ("ink", ())), strict=True):
        line = steps(name, "share")
        drawing.line(line, colour, 2, dash=dash)
        share = curves["share"][curves["group"] == name].iloc[-1]
        ends.append((line[-1][1], f"{without_middle(name, 18)} {100 * share:.0f} %", colour))
    drawing.title = (
        f"Share of decisions turned by up to {budget} labels: {'; '.join(text for _, text, _ in reversed(ends))}"
    )
    for y, (_, text, colour) in zip(_spread([end[0] for end in ends], 14), ends, strict=True):
        drawing.text(WIDTH - 142, y, text, 9, colour=colour)
    drawing.line([(left, upper), (left, lower), (right, lower)], "line")
    step = math.ceil(budget / 12)
    for labels in sorted({1, *range(step, budget + 1, step)}):
        drawing.tick(at(labels, 0)[0], lower + 11, str(labels))
    gap = next(share for share in (0.01, 0.02, 0.05, 0.1, 0.2) if top / share <= 5)
    for share in np.arange(0, top + 1e-9, gap):
        drawing.tick(left - 5, at(0, share)[1], f"{100 * share:.3g} %", "right")
    drawing.tick((left + right) / 2, lower + 27, "training labels flipped together, at most")
    drawing.tick(50, 10, "decisions turned", "left")
    return drawing


def _spread(places: Sequence[float], least: float) -> list[float]:
    """The places moved up where two are nearer than `least`."""
    moved, ceiling = list(places), np.inf
    for at in sorted(range(len(moved)), key=lambda at: -moved[at]):
        moved[at] = ceiling = min(moved[at], ceiling - least)
    return moved


# --- standards and doubts ---------------------------------------------------------------------------


def differences(comparisons: Sequence[GroupStandard], beside: Sequence[GroupStandard] = ()) -> Drawing:
    """A row per group: the difference with its interval, on a scale that a chart `beside` it shares."""
    left, row = 190.0, 34.0
    bottom = 8 + row * len(comparisons)
    drawing = Drawing(WIDTH + 30, bottom + 36, "Gap to comparable people of other groups, in points")
    reach = [value for c in (*comparisons, *beside) for value in (c.difference, *(c.interval or ()))]
    limit = max(1.0, 108 * max(map(abs, reach)))

    def x(points: float) -> float:
        return left + (WIDTH - left) * (points + limit) / (2 * limit)

    drawing.line([(x(0), 8), (x(0), bottom)], "muted", dash=(3, 3))
    for k, c in enumerate(comparisons):
        y = 8 + row * (k + 0.5)
        if c.interval:
            drawing.line([(x(100 * at), y) for at in c.interval], "person", 2)
        drawing.marks([(x(100 * c.difference), y)], "circle", 9, "flip" if c.differs else "person", fill=True)
        drawing.text(left - 10, y, short(c.name, 32), 10, "right")
    drawing.line([(left, bottom), (WIDTH, bottom)], "line")
    step = next((step for step in (1, 2, 5, 10, 20) if limit / step <= 4), 50)
    for tick in range(-int(limit // step) * step, int(limit) + 1, step):
        drawing.tick(x(tick), bottom + 11, f"{abs(tick)} {'less' if tick > 0 else 'more'}" if tick else "0")
    axis = "points less (right) or more (left) often labelled favourably than comparable people"
    drawing.tick((left + WIDTH) / 2, bottom + 27, axis)
    return drawing


def column_moves(moves: Sequence[ColumnMove], difference: float) -> Drawing:
    """A row per column: by how much the gap of one group is larger or smaller without it, with the 95 % interval. Of a
    group that is ahead, whose `difference` is below 0, the gap is larger where the difference falls further."""
    left, row = 220.0, 26.0
    bottom = 8 + row * len(moves)
    drawing = Drawing(WIDTH + 30, bottom + 36, "How the gap changes when a column is left out, in points")
    limit = max(0.5, 108 * max(abs(m.move) + 1.96 * m.error for m in moves))

    def x(points: float) -> float:
        return left + (WIDTH - left) * (points + limit) / (2 * limit)

    drawing.line([(x(0), 8), (x(0), bottom)], "muted", dash=(3, 3))
    for k, m in enumerate(moves):
        y, move = 8 + row * (k + 0.5), m.move if difference >= 0 else -m.move
        drawing.line([(x(100 * (move + side * 1.96 * m.error)), y) for side in (-1, 1)], "person", 2)
        drawing.marks([(x(100 * move), y)], "circle", 8, "person", fill=True)
        drawing.text(left - 10, y, short(m.column, 38), 10, "right")
    drawing.line([(left, bottom), (WIDTH, bottom)], "line")
    for share in (-0.5, 0.0, 0.5):
        tick = share * 2 * limit * 0.8
        drawing.tick(x(tick), bottom + 11, f"{abs(tick):.1f} {'larger' if tick > 0 else 'smaller'}" if tick else "0")
    drawing.tick((left + WIDTH) / 2, bottom + 27, "points by which the gap is larger or smaller without the column")
    return drawing


def yield_curve(labels: Sequence[TrainingLabel]) -> Drawing:
    """How many of the first k labels are likely to be wrong, for every k."""
    expected = [0.0, *expected_wrong(labels)]
    count = len(expected) - 1
    ticks = {share: f"{round(count * share)}" for share in (0.25, 0.5, 0.75, 1)}
    drawing, at = _framed(
        max(1.0, expected[-1]), ticks, "labels reviewed", "Labels likely to be wrong against labels reviewed"
    )
    points = [at(k / count, each) for k, each in enumerate(expected)]
    drawing.area([*points, at(1, 0)], "flip", 0.25)
    drawing.line(points, "flip", 2)
    return drawing


def doubts(c: GroupStandard) -> Drawing:
    """How many adverse labels have which doubt."""
    ticks = {share: f"{share:g}" for share in (0, 0.25, 0.5, 0.75, 1)}
    drawing, at = _framed(max([1.0, *c.doubts]), ticks, "doubt", f"Doubt about the adverse labels of {c.name}")

    def steps(counts: Sequence[float]) -> list[Point]:
        return [at(BINS[k + side], count) for k, count in enumerate(counts) for side in (0, 1)]

    drawing.area([at(0, 0), *steps(c.doubts), at(1, 0)], "flip", 0.35)
    return drawing


def _framed(
    most: float, ticks: dict[float, str], axis: str, title: str
) -> tuple[Drawing, Callable[[float, float], Point]]:
    """An empty chart of heights up to `most`, and where a share of its width at a height lies."""
    left, high = 60.0, 140.0
    drawing = Drawing(WIDTH + 30, high + 40, title)

    def at(share: float, height: float) -> Point:
        return left + (WIDTH - left) * share, high - (high - 12) * height / most

    drawing.line([at(0, most), at(0, 0), at(1, 0)], "line")
    for share, text in ticks.items():
        drawing.tick(at(share, 0)[0], high + 11, text)
    drawing.tick((left + WIDTH) / 2, high + 27, axis)
    drawing.tick(left - 5, 12, f"{most:.0f}", "right")
    return drawing, at

"""A chart as shapes in pixels, drawn once and shown twice: as SVG in the page's colours, as a matplotlib figure.

Colours are names of `THEME`; in SVG they are the page's CSS variables, so that a chart is light or dark as the page is.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Any

from markupsafe import Markup, escape

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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
LIGHT = {name: light for name, (light, _) in THEME.items()}

Point = tuple[float, float]
ANCHORS = {"left": "", "center": ' text-anchor="middle"', "right": ' text-anchor="end"'}
BASELINE = 0.35
"""How far below its middle a text's line lies, in heights of its letters."""


@dataclass(frozen=True)
class Lines:
    """Lines or, where `fill`, areas of one look. A point that is not a number breaks a line."""

    lines: Sequence[Sequence[Point]]
    colour: str = "ink"
    width: float = 1.0
    dash: Sequence[float] = ()
    fill: bool = False
    opacity: float = 1.0


@dataclass(frozen=True)
class Marks:
    """Marks of one look: "o" rings or dots, "s" squares, "D" diamonds, "x" crosses, `size` pixels across."""

    points: Sequence[Point]
    shape: str = "o"
    size: float = 8.0
    colour: str = "ink"
    fill: bool = False
    width: float = 2.0


@dataclass(frozen=True)
class Text:
    """A text whose middle line is at (x, y); `side` is where x lies of it."""

    x: float
    y: float
    text: str
    size: float = 9.0
    side: str = "left"
    colour: str = "ink"
    bold: bool = False


@dataclass
class Drawing:
    """Shapes on paper of so many pixels; texts lie on top."""

    width: float
    height: float
    shapes: list[Lines | Marks] = field(default_factory=list)
    texts: list[Text] = field(default_factory=list)

    def line(self, points: Sequence[Point], colour: str = "ink", width: float = 1.0, **look: Any) -> None:
        self.shapes.append(Lines([points], colour, width, **look))

    def lines(self, lines: Sequence[Sequence[Point]], colour: str = "ink", width: float = 1.0, **look: Any) -> None:
        self.shapes.append(Lines(lines, colour, width, **look))

    def marks(self, points: Iterable[Point], shape: str, size: float, colour: str, **look: Any) -> None:
        self.shapes.append(Marks([p for p in points if not math.isnan(p[0])], shape, size, colour, **look))

    def text(self, x: float, y: float, text: str, size: float = 9.0, side: str = "left", **look: Any) -> None:
        self.texts.append(Text(x, y, text, size, side, **look))

    def svg(self, title: str) -> Markup:
        """An ``<svg>`` element, with `title` for screen readers."""
        shapes = "".join(_svg_lines(s) if isinstance(s, Lines) else _svg_marks(s) for s in self.shapes)
        return Markup(
            f'<svg viewBox="0 0 {_number(self.width)} {_number(self.height)}" width="{_number(self.width)}" role="img">'
            f"<title>{escape(title)}</title>{shapes}{_svg_texts(self.texts)}</svg>"
        )

    def figure(self) -> Figure:
        """A matplotlib figure, made without pyplot; in the light theme's colours."""
        from matplotlib.figure import Figure

        figure = Figure(figsize=(self.width / 72, self.height / 72), dpi=72)
        axes = figure.add_axes((0, 0, 1, 1))
        axes.set_axis_off()
        axes.set_xlim(0, self.width)
        axes.set_ylim(self.height, 0)
        for shape in self.shapes:
            colour = LIGHT[shape.colour]
            if isinstance(shape, Marks):
                x, y = zip(*shape.points, strict=True) if shape.points else ((), ())
                face = colour if shape.fill else "none"
                look: dict[str, Any] = {"marker": shape.shape, "ms": shape.size, "mec": colour, "mew": shape.width}
                axes.plot(x, y, ls="none", mfc=face, clip_on=False, **look)
                continue
            for line in shape.lines:
                x, y = zip(*line, strict=True)
                if shape.fill:
                    axes.fill(x, y, color=colour, alpha=shape.opacity, lw=0)
                else:
                    dashes: Any = (0, [length / shape.width for length in shape.dash]) if shape.dash else "-"
                    axes.plot(x, y, color=colour, lw=shape.width, ls=dashes, alpha=shape.opacity, clip_on=False)
        for t in self.texts:
            weight = "bold" if t.bold else "normal"
            look = {"ha": t.side, "va": "center_baseline", "size": t.size, "color": LIGHT[t.colour], "weight": weight}
            axes.text(t.x, t.y, t.text, parse_math=False, **look)
        return figure


@dataclass(frozen=True)
class Frame:
    """Axes in a box (left, top, right, bottom) of a drawing, over ranges of x and y; y points up."""

    drawing: Drawing
    box: tuple[float, float, float, float]
    x_range: tuple[float, float]
    y_range: tuple[float, float]

    def at(self, x: float, y: float) -> Point:
        left, top, right, bottom = self.box
        (x0, x1), (y0, y1) = self.x_range, self.y_range
        return left + (right - left) * (x - x0) / (x1 - x0), bottom - (bottom - top) * (y - y0) / (y1 - y0)

    def steps(self, x: Sequence[float], y: Sequence[float]) -> list[Point]:
        """A line that keeps each height up to the next x."""
        corners = [self.at(x[0], y[0])]
        for k in range(1, len(x)):
            corners += [self.at(x[k], y[k - 1]), self.at(x[k], y[k])]
        return corners

    def band(self, x: Sequence[float], low: Sequence[float], high: Sequence[float], colour: str, op: float) -> None:
        """The area between two lines of steps, cut where it leaves the box."""
        top = [min(h, self.y_range[1]) for h in high]
        area = [*self.steps(x, [min(at, self.y_range[1]) for at in low]), *reversed(self.steps(x, top))]
        self.drawing.line(area, colour, fill=True, opacity=op)

    def x_axis(self, ticks: Sequence[float], names: Sequence[str], title: str) -> None:
        left, _, right, bottom = self.box
        self.drawing.line([(left, bottom), (right, bottom)], "line")
        for tick, name in zip(ticks, names, strict=True):
            self.drawing.text(self.at(tick, 0)[0], bottom + 11, name, 9, "center", colour="muted")
        self.drawing.text((left + right) / 2, bottom + 27, title, 9, "center", colour="muted")

    def y_axis(self, ticks: Sequence[float], names: Sequence[str]) -> None:
        left, top, _, bottom = self.box
        self.drawing.line([(left, top), (left, bottom)], "line")
        for tick, name in zip(ticks, names, strict=True):
            self.drawing.text(left - 5, self.at(0, tick)[1], name, 9, "right", colour="muted")


def nice_ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Round numbers from `low` to `high`, at most so many steps."""
    step = 10 ** math.floor(math.log10((high - low) / most))
    step = next(step * k for k in (1, 2, 5, 10, 20) if (high - low) / (step * k) <= most)
    return [step * k for k in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]


def whole_ticks(last: int, most: int = 12) -> list[int]:
    step = max(1, -(-last // most))
    return [k for k in range(1, last + 1) if k == 1 or k % step == 0]


def _svg_lines(shape: Lines) -> str:
    path = "".join(_path(line) for line in shape.lines)
    colour = f"var(--bf-{shape.colour})"
    if shape.fill:
        return f'<path d="{path}z" fill="{colour}" fill-opacity="{shape.opacity:g}"/>'
    look = f' stroke-width="{_number(shape.width)}"' if shape.width != 1 else ""
    look += f' stroke-dasharray="{" ".join(map(_number, shape.dash))}"' if shape.dash else ""
    return f'<path d="{path}" fill="none" stroke="{colour}"{look}/>'


def _path(line: Sequence[Point]) -> str:
    """Rounded to tenths of a pixel, level and upright pieces in short."""
    path, pen, last = "", "M", ("", "")
    for x, y in line:
        if math.isnan(x):
            pen = "M"
            continue
        here = _number(x), _number(y)
        if pen == "M":
            path += f"M{here[0]} {here[1]}"
        elif here[1] == last[1]:
            path += f"H{here[0]}"
        else:
            path += f"V{here[1]}" if here[0] == last[0] else f"L{here[0]} {here[1]}"
        pen, last = "L", here
    return path


def _svg_marks(marks: Marks) -> str:
    half, size, colour = _number(marks.size / 2), _number(marks.size), f"var(--bf-{marks.colour})"
    arc = f"a{half} {half} 0 1 0"
    pieces = {
        "o": (-1, 0, f"{arc} {size} 0{arc}-{size} 0"),
        "s": (-1, -1, f"h{size}v{size}h-{size}z"),
        "D": (0, -1, f"l{half} {half}l-{half} {half}l-{half}-{half}z"),
        "x": (-1, -1, f"l{size} {size}m0-{size}l-{size} {size}"),
    }
    dx, dy, piece = pieces[marks.shape]
    reach = marks.size / 2
    path = "".join(f"M{_number(x + dx * reach)} {_number(y + dy * reach)}{piece}" for x, y in marks.points)
    look = f'fill="{colour}"' if marks.fill else f'fill="none" stroke="{colour}" stroke-width="{_number(marks.width)}"'
    return f'<path d="{path}" {look}/>' if path else ""


def _svg_texts(texts: Sequence[Text]) -> str:
    """Texts of one look in one group."""

    def look(t: Text) -> tuple[float, str, str, bool]:
        return t.size, t.side, t.colour, t.bold

    drawn = ""
    for (size, side, colour, bold), some in groupby(sorted(texts, key=look), key=look):
        weight = ' font-weight="700"' if bold else ""
        drawn += f'<g font-size="{_number(size)}" fill="var(--bf-{colour})"{weight}{ANCHORS[side]}>'
        drawn += "".join(
            f'<text x="{_number(t.x)}" y="{_number(t.y + BASELINE * size)}">{escape(t.text)}</text>' for t in some
        )
        drawn += "</g>"
    return drawn


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")

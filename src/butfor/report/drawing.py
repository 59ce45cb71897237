"""A chart as shapes in pixels, drawn once and shown twice: as SVG in the page's colours, as a matplotlib figure.

Colours are names of `THEME`; in SVG they are the page's CSS variables, so that a chart is light or dark as the page is.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
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
ANCHORS = {"left": "start", "center": "middle", "right": "end"}
BASELINE = 0.35
"""How far below its middle a text's line lies, in heights of its letters."""


@dataclass(frozen=True)
class Line:
    """A line or, where `fill`, an area."""

    points: Sequence[Point]
    colour: str = "ink"
    width: float = 1.0
    dash: Sequence[float] = ()
    fill: bool = False
    opacity: float = 1.0


@dataclass(frozen=True)
class Marks:
    """Marks of one look, `size` pixels across: "o" rings or dots, "s" squares; a figure knows matplotlib's others."""

    points: Sequence[Point]
    shape: str = "o"
    size: float = 8.0
    colour: str = "ink"
    fill: bool = False


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
    shapes: list[Line | Marks] = field(default_factory=list)
    texts: list[Text] = field(default_factory=list)

    def line(self, points: Sequence[Point], colour: str = "ink", width: float = 1.0, **look: Any) -> None:
        self.shapes.append(Line(points, colour, width, **look))

    def marks(self, points: Iterable[Point], shape: str, size: float, colour: str, **look: Any) -> None:
        self.shapes.append(Marks([p for p in points if not math.isnan(p[0])], shape, size, colour, **look))

    def text(self, x: float, y: float, text: str, size: float = 9.0, side: str = "left", **look: Any) -> None:
        self.texts.append(Text(x, y, text, size, side, **look))

    def svg(self, title: str) -> Markup:
        """An ``<svg>`` element, with `title` for screen readers."""
        shapes = "".join(_svg_line(s) if isinstance(s, Line) else _svg_marks(s) for s in self.shapes)
        texts = "".join(map(_svg_text, self.texts))
        return Markup(
            f'<svg viewBox="0 0 {self.width} {self.height}" width="{self.width}" role="img">'
            f"<title>{escape(title)}</title>{shapes}{texts}</svg>"
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
            x, y = zip(*shape.points, strict=True) if shape.points else ((), ())
            if isinstance(shape, Marks):
                face = colour if shape.fill else "none"
                axes.plot(x, y, ls="none", marker=shape.shape, ms=shape.size, mec=colour, mew=2, mfc=face)
            elif shape.fill:
                axes.fill(x, y, color=colour, alpha=shape.opacity, lw=0)
            else:
                dashes: Any = (0, [length / shape.width for length in shape.dash]) if shape.dash else "-"
                axes.plot(x, y, color=colour, lw=shape.width, ls=dashes)
        for t in self.texts:
            look: dict[str, Any] = {"ha": t.side, "va": "center_baseline", "size": t.size, "color": LIGHT[t.colour]}
            axes.text(t.x, t.y, t.text, parse_math=False, weight="bold" if t.bold else "normal", **look)
        return figure


def _svg_line(line: Line) -> str:
    points, colour = " ".join(f"{x:.1f},{y:.1f}" for x, y in line.points), f"var(--bf-{line.colour})"
    if line.fill:
        return f'<polygon points="{points}" fill="{colour}" fill-opacity="{line.opacity:g}"/>'
    dash = f' stroke-dasharray="{" ".join(map(str, line.dash))}"' if line.dash else ""
    return f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="{line.width:g}"{dash}/>'


def _svg_marks(marks: Marks) -> str:
    half, size, colour = marks.size / 2, marks.size, f"var(--bf-{marks.colour})"
    arc = f"a{half:g} {half:g} 0 1 0"
    dy, piece = {"o": (0.0, f"{arc} {size:g} 0{arc}-{size:g} 0"), "s": (half, f"h{size:g}v{size:g}h-{size:g}z")}[
        marks.shape
    ]
    path = "".join(f"M{x - half:.1f} {y - dy:.1f}{piece}" for x, y in marks.points)
    look = f'fill="{colour}"' if marks.fill else f'fill="none" stroke="{colour}" stroke-width="2"'
    return f'<path d="{path}" {look}/>'


def _svg_text(t: Text) -> str:
    weight = ' font-weight="700"' if t.bold else ""
    return (
        f'<text x="{t.x:.1f}" y="{t.y + BASELINE * t.size:.1f}" font-size="{t.size:g}" text-anchor="{ANCHORS[t.side]}" '
        f'fill="var(--bf-{t.colour})"{weight}>{escape(t.text)}</text>'
    )

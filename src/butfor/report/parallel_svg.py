"""Parallel coordinates straight into SVG: what `parallel.parallel_coordinates` draws, without matplotlib.

A page about two hundred people has a hundred of these charts, and drawing a figure takes a fifth of a second. Colours
are the page's CSS variables, as in `svg.inline_svg`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from math import isnan

from markupsafe import Markup, escape

from butfor.report.parallel import (
    FLIP_KEY,
    KEY_HEIGHT,
    LEFT,
    PERSON_KEY,
    RIGHT,
    WIDTH,
    Layout,
    Words,
    legend,
    names,
)
from butfor.result.verdict import Verdict

ANCHORS = {"left": "", "center": ' text-anchor="middle"', "right": ' text-anchor="end"'}
BASELINE = 0.35
"""How far below its middle a text's line lies, in heights of its letters."""
RING, SQUARE = 5.0, 2.25


def parallel_svg(verdict: Verdict, title: str) -> Markup:
    """The chart as an ``<svg>`` element with `title` for screen readers."""
    layout = Layout.of(verdict)
    person, *flips = layout.people
    lines = [_flip_line(places, layout.heights, layout.flip_width) for places in reversed(flips)]
    if flips:
        lines.append(_flip_line(FLIP_KEY, [KEY_HEIGHT] * 2, 1.2))
    lines += [_person_line(person, layout.heights), _person_line(PERSON_KEY, [KEY_HEIGHT] * 2)]
    texts = [*names(layout.columns, layout.scales, layout.heights, layout.differing), *legend(verdict)]
    return Markup(
        f'<svg viewBox="0 0 {WIDTH} {layout.height}" width="{WIDTH}" role="img"><title>{escape(title)}</title>'
        f'<path d="{_rules(layout)}" stroke="var(--bf-line)"/>{"".join(lines)}{_written(texts)}</svg>'
    )


def _rules(layout: Layout) -> str:
    return "".join(
        f"M{LEFT} {_number(y)}H{RIGHT}" + "".join(f"M{_number(tick)} {_number(y - 3)}v6" for tick in scale.ticks)
        for scale, y in zip(layout.scales, layout.heights, strict=True)
    )


def _flip_line(x: Sequence[float], y: Sequence[float], width: float) -> str:
    side = _number(2 * SQUARE)
    squares = "".join(f"M{_number(a - SQUARE)} {_number(b - SQUARE)}h{side}v{side}h-{side}z" for a, b in _present(x, y))
    return (
        f'<path d="{_joined(x, y)}" fill="none" stroke="var(--bf-flip)" stroke-width="{width}" '
        f'stroke-dasharray="{_number(4 * width)} {_number(3 * width)}"/><path d="{squares}" fill="var(--bf-flip)"/>'
    )


def _person_line(x: Sequence[float], y: Sequence[float]) -> str:
    half = f"a{_number(RING)} {_number(RING)} 0 1 0"
    ring = f"{half} {_number(2 * RING)} 0{half}-{_number(2 * RING)} 0"
    rings = "".join(f"M{_number(a - RING)} {_number(b)}{ring}" for a, b in _present(x, y))
    return f'<path d="{_joined(x, y)}{rings}" fill="none" stroke="var(--bf-person)" stroke-width="2"/>'


def _present(x: Sequence[float], y: Sequence[float]) -> Iterable[tuple[float, float]]:
    return ((a, b) for a, b in zip(x, y, strict=True) if not isnan(a))


def _joined(x: Sequence[float], y: Sequence[float]) -> str:
    """A line through the places, broken where one is missing."""
    path, pen = "", "M"
    for a, b in zip(x, y, strict=True):
        if isnan(a):
            pen = "M"
            continue
        path += f"{pen}{_number(a)} {_number(b)}"
        pen = "L"
    return path


def _written(texts: Sequence[Words]) -> str:
    """Texts in groups of one look."""
    drawn = ""
    for (size, side, ink, weight), some in groupby(texts, key=lambda w: (w.size, w.side, w.ink, w.weight)):
        bold = ' font-weight="700"' if weight == "bold" else ""
        drawn += f'<g font-size="{_number(size)}" fill="var(--bf-{ink})"{bold}{ANCHORS[side]}>'
        drawn += "".join(
            f'<text x="{_number(w.x)}" y="{_number(w.y + BASELINE * size)}">{escape(w.text)}</text>' for w in some
        )
        drawn += "</g>"
    return drawn


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")

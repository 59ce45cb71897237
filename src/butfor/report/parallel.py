"""Parallel coordinates: the person beside the flipped rows, one axis per column of the raw table.

The axes lie on top of each other: column names read without turning the head, sixty columns need only more paper, and
the chart fits a telephone. Where a few training rows lie far out, an axis ends before them; where the training rows are
not at hand, such values stand in their order, evenly spaced. `axes_words` says so.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any
from weakref import WeakKeyDictionary

import pandas as pd

from butfor.errors import listed
from butfor.learn.protocols import Table
from butfor.report.drawing import Drawing, Point
from butfor.report.text import columns_of, differs, is_number, missing, plural, short, shown
from butfor.result.verdict import Verdict

# All in pixels at 72 dots per inch.
WIDTH, TOP, PITCH = 620, 52, 30
LEFT, RIGHT, INSET = 172, 606, 30
LETTER = 4.9
"""Width of a letter of a value's name in matplotlib's own, wide font; a browser's is narrower."""
MOST_NAMES, MOST_TICKS = 7, 40
"""Categorical axes with more values name only those that are shown, or mark none."""
OUTERMOST, FAR_OUT = 0.01, 2.0
"""An axis leaves out this share of training rows on a side where they reach out this many times the rest's range."""
FAR_APART = 10.0
"""Times the range of all other values, from which on one of them leaves only their order to be shown."""
CROWD = 6
"""More lines than this are drawn thinner."""


@dataclass(frozen=True)
class Axis:
    """Where a column's values lie, and the names under them as (x, text, side). `kind`: "cut" where it ends before the
    outermost values, "ranks" where only their order counts."""

    column: str
    differs: bool
    places: dict[Any, float]
    ticks: Sequence[float]
    names: Sequence[tuple[float, str, str]]
    kind: str = ""

    def at(self, value: Any) -> float:
        return self.places.get(value, float("nan"))


def parallel_coordinates(verdict: Verdict, flips: int | None = None) -> Drawing:
    """The person (solid line, rings) beside the flipped training rows (dashed lines, squares), at most so many."""
    rows = verdict.flips.iloc[:flips].to_dict("records")
    columns = columns_of(verdict)
    axes = axes_of(verdict.training, columns, _lines(verdict, flips))
    drawing = Drawing(WIDTH, TOP + PITCH * len(columns))
    heights = draw_axes(drawing, axes, TOP - 0.2 * PITCH)
    thin = 1.2 if len(rows) < CROWD else 0.6
    for row in reversed(rows):
        places = [(axis.at(row[column]), y) for axis, column, y in zip(axes, columns, heights, strict=True)]
        drawing.line(places, "flip", thin, dash=(4 * thin, 3 * thin))
        drawing.marks(places, "s", 4.5, "flip", fill=True)
    own = verdict.person
    draw_person(drawing, [(axis.at(own[c]), y) for axis, c, y in zip(axes, columns, heights, strict=True)])
    draw_person(drawing, [(14, 14), (44, 14)])
    drawing.text(56, 14, short(verdict.who, 30), 9.5)
    if rows:
        drawing.line([(234, 14), (264, 14)], "flip", 1.2, dash=(4.8, 3.6))
        drawing.marks([(234, 14), (264, 14)], "s", 4.5, "flip", fill=True)
        drawing.text(276, 14, f"{plural(len(verdict.flips), 'flipped training row')}", 9.5)
        drawing.text(RIGHT, 14, "≠ differs from the person", 9.5, "right")
    return drawing


def draw_person(drawing: Drawing, places: Sequence[Point]) -> None:
    drawing.line(places, "person", 2)
    drawing.marks(places, "o", 10, "person")


def draw_axes(drawing: Drawing, axes: Sequence[Axis], top: float) -> list[float]:
    """The axes below `top`, with the names of columns and values; their heights."""
    heights = [top + PITCH * (k + 0.5) for k in range(len(axes))]
    rules: list[list[Point]] = []
    for axis, y in zip(axes, heights, strict=True):
        rules += [[(LEFT, y), (RIGHT, y)], *([(x, y - 3), (x, y + 3)] for x in axis.ticks)]
        colour = "ink" if axis.differs else "muted"
        name = f"≠ {short(axis.column, 22)}" if axis.differs else short(axis.column, 26)
        drawing.text(LEFT - 14, y, name, 9.5, "right", colour=colour, bold=axis.differs)
        for x, text, side in axis.names:
            drawing.text(x, y + 12, text, 8, side, colour=colour)
    drawing.lines(rules, "line")
    return heights


def axes_of(training: Table | None, columns: Sequence[Hashable], lines: Sequence[Sequence[Any]]) -> list[Axis]:
    """An axis per column for the person's line and those of rows; over the training rows' range where they are at
    hand."""
    return [_axis(training, column, values) for column, *values in zip(columns, *lines, strict=True)]


def _lines(verdict: Verdict, flips: int | None = None) -> list[list[Any]]:
    """The values of the person and of the flipped rows, by column."""
    columns = columns_of(verdict)
    rows = verdict.flips.iloc[:flips].to_dict("records")
    return [[verdict.person[c] for c in columns], *([row[c] for c in columns] for row in rows)]


def axes_words(verdict: Verdict) -> str:
    """Which axes of the chart do not show all values to scale; empty where all do."""
    axes = axes_of(verdict.training, columns_of(verdict), _lines(verdict))
    cut, ranks = ([short(a.column, 40) for a in axes if a.kind == kind] for kind in ("cut", "ranks"))
    words = ""
    if cut:
        words += (
            f" A few training rows lie far out in {listed(cut)}: that axis ends at the mark ≤ or ≥, which leaves out "
            "one row in a hundred on that side; values beyond lie at the end."
        )
    if ranks:
        words += f" One value lies far out in {listed(ranks)}: that axis shows the order of values only."
    return words


@dataclass(frozen=True)
class Known:
    """What the training rows say about a column: of a number the least, the largest and between them where all but the
    outermost lie; otherwise its values."""

    range: tuple[float, float, float, float] | None = None
    values: Sequence[Any] = ()


_KNOWN: WeakKeyDictionary[Table, dict[Hashable, Known]] = WeakKeyDictionary()
"""Looked up once for all people of a table."""


def _known(table: Table, column: Hashable) -> Known:
    found = _KNOWN.setdefault(table, {})
    if column not in found:
        found[column] = _known_of(table.X[column])
    return found[column]


def _known_of(cells: pd.Series) -> Known:
    if pd.api.types.is_numeric_dtype(cells) and not pd.api.types.is_bool_dtype(cells):
        low, first, last, high = cells.astype(float).quantile([0, OUTERMOST, 1 - OUTERMOST, 1])
        return Known((low, first, last, high)) if cells.notna().any() else Known()
    if isinstance(cells.dtype, pd.CategoricalDtype) and cells.dtype.ordered:
        return Known(values=tuple(cells.dtype.categories))
    return Known(values=sorted(pd.unique(cells.dropna().astype(object)), key=_order))


def _order(value: Any) -> tuple[bool, float, str]:
    return (False, float(value), "") if is_number(value) else (True, 0.0, str(value))


def _axis(training: Table | None, column: Hashable, values: Sequence[Any]) -> Axis:
    known = _known(training, column) if training and column in training.X else Known()
    present = [v for v in values if not missing(v)]
    head = shown(column), any(differs(values[0], v) for v in values[1:])
    if present and not known.values and all(is_number(v) for v in present):
        return Axis(*head, *(_among(present, known.range) if known.range else _numeric(present)))
    every = list(dict.fromkeys([*known.values, *sorted(present, key=_order)]))
    return Axis(*head, *_categorical(present, every))


def _numeric(values: Sequence[Any]) -> tuple[Any, ...]:
    """From the least to the largest; in equal steps where one of them lies far from all others."""
    every = sorted({float(v) for v in values})
    steps = [high - low for low, high in pairwise(every)]
    if len(every) > 2 and max(steps) > FAR_APART * (sum(steps) - max(steps)):
        step = (RIGHT - LEFT) / (len(every) - 1)
        places = {v: LEFT + step * every.index(float(v)) for v in values}
        return places, (LEFT, RIGHT), _ends(shown(every[0]), shown(every[-1])), "ranks"
    return _spanned(values, every[0], every[-1])


def _among(values: Sequence[Any], known: tuple[float, float, float, float]) -> tuple[Any, ...]:
    """Over the range of the training rows, or short of it on a side where a few of them lie far out."""
    least, first, last, largest = known
    low, high = min([least, *map(float, values)]), max([largest, *map(float, values)])
    far = FAR_OUT * (last - first)
    start, end = (first if first - low > far > 0 else low), (last if high - last > far > 0 else high)
    return _spanned(values, start, end, start > low, end < high)


def _spanned(values: Sequence[Any], low: float, high: float, before: bool = False, after: bool = False) -> Any:
    """An axis from `low` to `high`; `before` and `after` say that there is more on that side."""
    span = high - low
    if not span:
        middle = (LEFT + RIGHT) / 2
        return dict.fromkeys(values, middle), (), ((middle, shown(low), "center"),)
    places = {v: LEFT + (RIGHT - LEFT) * min(max((float(v) - low) / span, 0.0), 1.0) for v in values}
    ends = _ends(f"≤ {shown(low)}" if before else shown(low), f"≥ {shown(high)}" if after else shown(high))
    return places, (LEFT, RIGHT), ends, "cut" if before or after else ""


def _ends(low: str, high: str) -> tuple[tuple[float, str, str], ...]:
    return (LEFT, low, "left"), (RIGHT, high, "right")


def _categorical(values: Sequence[Any], every: Sequence[Any]) -> tuple[Any, ...]:
    step = (RIGHT - LEFT - 2 * INSET) / max(1, len(every) - 1)
    start = LEFT + INSET if len(every) > 1 else (LEFT + RIGHT) / 2
    places = {value: start + step * k for k, value in enumerate(every)}
    named = every if len(every) <= MOST_NAMES else [v for v in every if v in values]
    ticks = tuple(places.values()) if len(every) <= MOST_TICKS else ()
    return places, ticks, _names([(places[v], shown(v)) for v in named])


def _names(places: Sequence[tuple[float, str]]) -> list[tuple[float, str, str]]:
    """Names under their places, each cut to the room its neighbours leave; without room, no name."""
    names = []
    for k, (x, text) in enumerate(places):
        left = (x - places[k - 1][0]) / 2 if k else x - LEFT
        right = (places[k + 1][0] - x) / 2 if k + 1 < len(places) else RIGHT - x
        letters = int((left + right) / LETTER) - 1
        if len(text) * LETTER / 2 <= min(left, right):
            names.append((x, text, "center"))
        elif letters >= 3:  # too long to be centred: it starts, or ends, where its room does
            at, side = (x - left, "left") if left < right else (x + right, "right") if right < left else (x, "center")
            names.append((at, short(text, letters), side))
    return names

"""Parallel coordinates: a person beside flipped rows, one axis per column of the raw table.

The axes lie on top of each other: column names read without turning the head, and sixty columns
need only more paper. Where a few training rows lie far out, an axis ends before them.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
import pandas as pd

from butfor.report.charts import Drawing, Point
from butfor.report.text import missing, short, shown
from butfor.table.table import Table

# All in pixels at 72 dots per inch.
PITCH = 30
LEFT, RIGHT, INSET = 172, 606, 30
LETTER = 4.9
"""Width of a letter of a value's name."""
MOST_NAMES, MOST_TICKS = 7, 40
"""Categorical axes with more values name only those that are shown, or mark none."""
OUTERMOST, FAR_OUT = 0.01, 2.0
"""An axis leaves out this share of training rows on a side where they reach out this many times the
rest's range."""


@dataclass(frozen=True)
class Axis:
    """Where a column's values lie, and the names under them as (x, text, side)."""

    column: str
    differs: bool
    places: dict[Any, float]
    ticks: Sequence[float]
    names: Sequence[tuple[float, str, str]]

    def at(self, value: Any) -> float:
        return self.places.get(value, float("nan"))


def draw_person(drawing: Drawing, places: Sequence[Point]) -> None:
    drawing.line(places, "person", 2)
    drawing.marks(places, "circle", 10, "person")


def draw_axes(drawing: Drawing, axes: Sequence[Axis], top: float) -> list[float]:
    """The axes below `top`, with the names of columns and values; their heights."""
    heights = [top + PITCH * (k + 0.5) for k in range(len(axes))]
    for axis, y in zip(axes, heights, strict=True):
        drawing.line([(LEFT, y), (RIGHT, y)], "line")
        for x in axis.ticks:
            drawing.line([(x, y - 3), (x, y + 3)], "line")
        colour = "ink" if axis.differs else "muted"
        name = f"≠ {short(axis.column, 22)}" if axis.differs else short(axis.column, 26)
        drawing.text(LEFT - 14, y, name, 9.5, "right", colour=colour, bold=axis.differs)
        for x, text, side in axis.names:
            drawing.text(x, y + 12, text, 8, side, colour=colour)
    return heights


def axes_of(
    training: Table, columns: Sequence[Hashable], lines: Sequence[Sequence[Any]]
) -> list[Axis]:
    """An axis per column, over the training rows' range, for the person's line and those of
    rows."""
    return [
        _axis(training, column, values) for column, *values in zip(columns, *lines, strict=True)
    ]


@dataclass(frozen=True)
class Known:
    """What the training rows say about a column: of a number the least, the largest and between
    them where all but the outermost lie; otherwise its values."""

    range: tuple[float, float, float, float] | None = None
    values: Sequence[Any] = ()


def _known_of(cells: pd.Series) -> Known:
    if pd.api.types.is_numeric_dtype(cells) and not pd.api.types.is_bool_dtype(cells):
        low, first, last, high = cells.astype(float).quantile([0, OUTERMOST, 1 - OUTERMOST, 1])
        return Known((low, first, last, high)) if cells.notna().any() else Known()
    if isinstance(cells.dtype, pd.CategoricalDtype) and cells.dtype.ordered:
        return Known(values=tuple(cells.dtype.categories))
    return Known(values=sorted(pd.unique(cells.dropna().astype(object)), key=_order))


def _order(value: Any) -> tuple[bool, float, str]:
    return (False, float(value), "") if _is_number(value) else (True, 0.0, str(value))


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, (bool, np.bool_))


def _axis(training: Table, column: Hashable, values: Sequence[Any]) -> Axis:
    known = _known_of(training.X[column])
    present = [v for v in values if not missing(v)]
    head = shown(column), any(shown(v) != shown(values[0]) for v in values[1:])
    if known.range:
        return Axis(*head, *_among(present, known.range))
    every = list(dict.fromkeys([*known.values, *sorted(present, key=_order)]))
    return Axis(*head, *_categorical(present, every))


def _among(values: Sequence[Any], known: tuple[float, float, float, float]) -> tuple[Any, ...]:
    """Over the range of the training rows, or short of it on a side where a few of them lie far
    out."""
    least, first, last, largest = known
    low, high = min([least, *map(float, values)]), max([largest, *map(float, values)])
    far = FAR_OUT * (last - first)
    start, end = (
        (first if first - low > far > 0 else low),
        (last if high - last > far > 0 else high),
    )
    return _spanned(values, start, end, start > low, end < high)


def _spanned(
    values: Sequence[Any], low: float, high: float, before: bool = False, after: bool = False
) -> Any:
    """An axis from `low` to `high`; `before` and `after` say that there is more on that side."""
    span = high - low
    if not span:
        middle = (LEFT + RIGHT) / 2
        return dict.fromkeys(values, middle), (), ((middle, shown(low), "center"),)
    places = {
        v: LEFT + (RIGHT - LEFT) * min(max((float(v) - low) / span, 0.0), 1.0) for v in values
    }
    ends = _ends(
        f"≤ {shown(low)}" if before else shown(low), f"≥ {shown(high)}" if after else shown(high)
    )
    return places, (LEFT, RIGHT), ends


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
    """Names under their places, each cut to the room its neighbours leave; without room, no
    name."""
    names = []
    for k, (x, text) in enumerate(places):
        left = (x - places[k - 1][0]) / 2 if k else x - LEFT
        right = (places[k + 1][0] - x) / 2 if k + 1 < len(places) else RIGHT - x
        letters = int((left + right) / LETTER) - 1
        if len(text) * LETTER / 2 <= min(left, right):
            names.append((x, text, "center"))
        elif letters >= 3:  # too long to be centred: it starts, or ends, where its room does
            at, side = (
                (x - left, "left")
                if left < right
                else (x + right, "right")
                if right < left
                else (x, "center")
            )
            names.append((at, short(text, letters), side))
    return names

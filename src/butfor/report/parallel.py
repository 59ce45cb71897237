"""Parallel coordinates: the person beside the flipped rows, one axis per column of the raw table.

The axes lie on top of each other instead of side by side: column names then read without turning the
head, sixty columns need only more paper, and the chart fits a telephone.

One salary of a million would squeeze all others into a corner of their axis. Where a few training rows lie that far out
the axis ends before them, and where the training rows are not at hand the values stand in their order, evenly spaced;
`axes_words` says so.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import pandas as pd

from butfor.report.svg import LIGHT
from butfor.report.values import columns_of, differs, is_number, missing, short, shown
from butfor.result.verdict import Verdict
from butfor.seam import Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# All in pixels at 72 dots per inch.
WIDTH, TOP, PITCH = 620, 52, 30
LEFT, RIGHT, INSET = 172, 606, 30
LETTER = 4.9
"""Width of a letter of a value's name in matplotlib's own, wide font; a browser's is narrower."""
MOST_NAMES = 7
"""Categorical axes with more values name only those that the person or a flipped row has."""
MOST_TICKS = 40
OUTERMOST, FAR_OUT = 0.01, 2.0
"""An axis leaves out this share of training rows on a side where they reach out this many times the rest's range."""
FAR_APART = 10.0
"""Times the range of all other values, from which on one of them leaves only their order to be shown."""
CROWD = 6
"""More lines than this are drawn thinner."""
_TEXT: dict[str, Any] = {"parse_math": False, "va": "center_baseline", "clip_on": False, "zorder": 4}


@dataclass(frozen=True)
class Scale:
    """One axis: where values lie on it, and the names to write under it as (x, text, alignment)."""

    places: dict[Any, float]
    ticks: tuple[float, ...]
    names: tuple[tuple[float, str, str], ...]
    kind: str = ""
    """"cut" where it ends before the outermost values, "ranks" where only their order counts."""

    def at(self, value: Any) -> float:
        return self.places.get(value, float("nan"))


@dataclass(frozen=True)
class Words:
    """A text of the chart: `side` is where (x, y) lies of it."""

    size: float
    side: str
    ink: str
    weight: str
    x: float
    y: float
    text: str


@dataclass(frozen=True)
class Layout:
    """Where everything lies. `people` has a place per axis, the person's first; a missing value's is not a number."""

    columns: Sequence[Hashable]
    heights: Sequence[float]
    scales: Sequence[Scale]
    differing: Sequence[bool]
    people: Sequence[Sequence[float]]

    @classmethod
    def of(cls, verdict: Verdict) -> Layout:
        columns = columns_of(verdict)
        people = [[verdict.person[c] for c in columns]]
        people += [[row[c] for c in columns if c in row] for row in verdict.flips.to_dict("records")]
        by_column = list(zip(*people, strict=True))
        scales = [_scale(verdict, column, values) for column, values in zip(columns, by_column, strict=True)]
        return cls(
            columns,
            [TOP + PITCH * (k + 0.3) for k in range(len(columns))],
            scales,
            [any(differs(values[0], v) for v in values[1:]) for values in by_column],
            [[scale.at(value) for scale, value in zip(scales, values, strict=True)] for values in people],
        )

    @property
    def height(self) -> int:
        return TOP + PITCH * len(self.columns)

    @property
    def flip_width(self) -> float:
        return 1.2 if len(self.people) <= CROWD else 0.6


def parallel_coordinates(verdict: Verdict) -> Figure:
    """The person (solid line, rings) beside the flipped training rows (dashed lines, squares).

    Numeric axes span the training rows' range where the verdict still has them, else the values shown."""
    from matplotlib.figure import Figure

    layout = Layout.of(verdict)
    figure = Figure(figsize=(WIDTH / 72, layout.height / 72), dpi=72)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    axes.set_xlim(0, WIDTH)
    axes.set_ylim(layout.height, 0)
    _draw_names(axes, layout.columns, layout.scales, layout.heights, layout.differing)
    _draw_rules(axes, layout.scales, layout.heights)
    for places in reversed(layout.people[1:]):
        _flip_line(axes, places, layout.heights, layout.flip_width)
    _person_line(axes, layout.people[0], layout.heights)
    _draw_legend(axes, verdict)
    return figure


def _scale(verdict: Verdict, column: Hashable, values: Sequence[Any]) -> Scale:
    """How a column is laid out, from the values shown and, where there are any, the training rows'."""
    known = _known(verdict.training, column) if verdict.training and column in verdict.training.X else None
    present = [v for v in values if not missing(v)]
    numeric = all(is_number(v) for v in present) if known is None else known.numeric
    if numeric and present:
        return _numeric_among(present, known.range) if known is not None and known.range else _numeric(present)
    if known is not None and known.ordered:
        return _categorical(present, known.values)
    return _categorical(present, sorted({*(known.values if known else ()), *present}, key=_order))


@dataclass(frozen=True)
class Known:
    """What the training rows say about a column: `range` is its least and largest number and, between them, where all
    but the outermost lie; `values` are a categorical one's."""

    numeric: bool
    range: tuple[float, float, float, float] | None = None
    values: tuple[Any, ...] = ()
    ordered: bool = False

    @classmethod
    def of(cls, column: pd.Series) -> Known:
        if pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column):
            numbers = column.dropna().astype(float)
            if numbers.empty:
                return cls(True)
            first, last = (float(numbers.quantile(q)) for q in (OUTERMOST, 1 - OUTERMOST))
            return cls(True, (float(numbers.min()), first, last, float(numbers.max())))
        if isinstance(column.dtype, pd.CategoricalDtype) and column.dtype.ordered:
            return cls(False, values=tuple(column.dtype.categories), ordered=True)
        return cls(False, values=tuple(pd.unique(column.dropna().astype(object))))


_KNOWN: WeakKeyDictionary[Table, dict[Hashable, Known]] = WeakKeyDictionary()


def _known(table: Table, column: Hashable) -> Known:
    """Looked up once for all people of a table."""
    found = _KNOWN.setdefault(table, {})
    if column not in found:
        found[column] = Known.of(table.X[column])
    return found[column]


def _order(value: Any) -> tuple[bool, float, str]:
    return (False, float(value), "") if is_number(value) else (True, 0.0, str(value))


def _numeric(values: Sequence[Any]) -> Scale:
    """From the least to the largest; in equal steps where one of them lies far from all others."""
    every = sorted({float(v) for v in values})
    steps = [high - low for low, high in pairwise(every)]
    if len(every) > 2 and max(steps) > FAR_APART * (sum(steps) - max(steps)):
        step = (RIGHT - LEFT) / (len(every) - 1)
        places = {v: LEFT + step * every.index(float(v)) for v in values}
        return Scale(places, (LEFT, RIGHT), _ends(shown(every[0]), shown(every[-1])), "ranks")
    return _spanned(values, every[0], every[-1])


def _numeric_among(values: Sequence[Any], known: tuple[float, float, float, float]) -> Scale:
    """Over the range of the training rows, or short of it on a side where a few of them lie far out."""
    least, first, last, largest = known
    low, high = min([least, *map(float, values)]), max([largest, *map(float, values)])
    far = FAR_OUT * (last - first)
    start, end = (first if first - low > far > 0 else low), (last if high - last > far > 0 else high)
    return _spanned(values, start, end, start > low, end < high)


def _spanned(values: Sequence[Any], low: float, high: float, before: bool = False, beyond: bool = False) -> Scale:
    """An axis from `low` to `high`; `before` and `beyond` say that there is more on that side."""
    span = high - low
    places = {v: LEFT + (RIGHT - LEFT) * (min(max((float(v) - low) / span, 0.0), 1.0) if span else 0.5) for v in values}
    if not span:
        return Scale(places, (), ((places[values[0]], shown(low), "center"),))
    ends = _ends(f"≤ {shown(low)}" if before else shown(low), f"≥ {shown(high)}" if beyond else shown(high))
    return Scale(places, (LEFT, RIGHT), ends, "cut" if before or beyond else "")


def _ends(low: str, high: str) -> tuple[tuple[float, str, str], ...]:
    return (LEFT, low, "left"), (RIGHT, high, "right")


def axes_words(verdict: Verdict) -> str:
    """Which axes of the chart do not show all values to scale; empty where all do."""
    kinds: dict[str, list[str]] = {"cut": [], "ranks": []}
    flips = verdict.flips.to_dict("list")
    for column in columns_of(verdict):
        kind = _scale(verdict, column, [verdict.person[column], *flips.get(column, [])]).kind
        if kind:
            kinds[kind].append(f"'{short(shown(column), 40)}'")
    told = ""
    if kinds["cut"]:
        told += (
            f" Because a few training rows lie far out, the {_axes_of(kinds['cut'])} at the mark ≤ or ≥, which leaves "
            "out one row in a hundred on that side; values beyond lie at the end."
        )
    if kinds["ranks"]:
        told += f" Because one value lies far out, the {_axes_of(kinds['ranks'], 'show')} the order of values only."
    return told


def _axes_of(columns: Sequence[str], verb: str = "end") -> str:
    several = len(columns) > 1
    return f"ax{'es' if several else 'is'} of {_listed(columns)} {verb}{'' if several else 's'}"


def _listed(names: Sequence[str], most: int = 5) -> str:
    first = list(names[:most]) + ([f"{len(names) - most} more"] if len(names) > most else [])
    return first[0] if len(first) == 1 else f"{', '.join(first[:-1])} and {first[-1]}"


def _categorical(values: Sequence[Any], known: Sequence[Any]) -> Scale:
    every = list(dict.fromkeys([*known, *values]))
    step = (RIGHT - LEFT - 2 * INSET) / max(1, len(every) - 1)
    start = LEFT + INSET if len(every) > 1 else (LEFT + RIGHT) / 2
    places = {value: start + step * k for k, value in enumerate(every)}
    named = every if len(every) <= MOST_NAMES else [v for v in every if v in values]
    ticks = tuple(places.values()) if len(every) <= MOST_TICKS else ()
    return Scale(places, ticks, tuple(_names([(places[v], shown(v)) for v in named])))


def _names(places: Sequence[tuple[float, str]]) -> list[tuple[float, str, str]]:
    """Names under their places, each cut to the room its neighbours leave; without room, no name."""
    names = []
    for k, (x, text) in enumerate(places):
        left = (x - places[k - 1][0]) / 2 if k else x - LEFT
        right = (places[k + 1][0] - x) / 2 if k + 1 < len(places) else RIGHT - x
        half = len(text) * LETTER / 2
        # A name too long to be centred starts, or ends, where its room does.
        if half <= min(left, right):
            names.append((x, text, "center"))
        elif (letters := int((left + right) / LETTER) - 1) >= 3:
            at, side = (x - left, "left") if left < right else (x + right, "right")
            if half <= max(left, right) or abs(left - right) > 1:
                names.append((at, short(text, letters), side))
            else:
                names.append((x, short(text, letters), "center"))
    return names


def _draw_names(
    axes: Axes,
    columns: Sequence[Hashable],
    scales: Sequence[Scale],
    heights: Sequence[float],
    differing: Sequence[bool],
) -> None:
    """Column names left of the axes and value names under them."""
    for w in names(columns, scales, heights, differing):
        axes.text(w.x, w.y, w.text, ha=w.side, size=w.size, color=LIGHT[w.ink], weight=w.weight, **_TEXT)


def names(
    columns: Sequence[Hashable], scales: Sequence[Scale], heights: Sequence[float], differing: Sequence[bool]
) -> list[Words]:
    """What stands beside and under the axes, texts of one look together: in SVG they share one style."""
    texts: list[Words] = []
    for column, scale, y, differ in zip(columns, scales, heights, differing, strict=True):
        ink, weight = ("ink", "bold") if differ else ("muted", "normal")
        label = f"≠ {short(shown(column), 22)}" if differ else short(shown(column), 26)
        texts.append(Words(9.5, "right", ink, weight, LEFT - 14, y, label))
        texts += [Words(8, side, ink, "normal", x, y + 12, text) for x, text, side in scale.names]
    return sorted(texts, key=lambda w: (w.size, w.side, w.ink, w.weight))


def _draw_rules(axes: Axes, scales: Sequence[Scale], heights: Sequence[float]) -> None:
    """All axes and ticks as one broken line: in SVG one path instead of a hundred."""
    gap = float("nan")
    x: list[float] = []
    y: list[float] = []
    for scale, at in zip(scales, heights, strict=True):
        x += [LEFT, RIGHT, gap]
        y += [at, at, gap]
        for tick in scale.ticks:
            x += [tick, tick, gap]
            y += [at - 3, at + 3, gap]
    axes.plot(x, y, color=LIGHT["line"], lw=1, clip_on=False, zorder=1)


def _person_line(axes: Axes, x: Sequence[float], y: Sequence[float]) -> None:
    axes.plot(
        x,
        y,
        color=LIGHT["person"],
        lw=2,
        marker="o",
        markersize=10,
        mfc="none",
        mew=2,
        clip_on=False,
        zorder=3,
    )


def _flip_line(axes: Axes, x: Sequence[float], y: Sequence[float], width: float) -> None:
    marker: dict[str, Any] = {"marker": "s", "markersize": 4.5}
    axes.plot(x, y, color=LIGHT["flip"], lw=width, ls=(0, (4, 3)), clip_on=False, zorder=2, **marker)


def _draw_legend(axes: Axes, verdict: Verdict) -> None:
    _person_line(axes, PERSON_KEY, [KEY_HEIGHT] * 2)
    if len(verdict.flips):
        _flip_line(axes, FLIP_KEY, [KEY_HEIGHT] * 2, 1.2)
    for w in legend(verdict):
        axes.text(w.x, w.y, w.text, ha=w.side, size=w.size, color=LIGHT[w.ink], **_TEXT)


KEY_HEIGHT, PERSON_KEY, FLIP_KEY = 14, (14, 44), (234, 264)


def legend(verdict: Verdict) -> list[Words]:
    """What the two kinds of lines are, beside a piece of each."""
    count = len(verdict.flips)
    told = [(56.0, "left", short(verdict.who, 30))]
    if count:
        rows = f"flipped training row{'s' * (count != 1)} ({count})"
        told += [(276.0, "left", rows), (float(RIGHT), "right", "≠ differs from the person")]
    return [Words(9.5, side, "ink", "normal", x, KEY_HEIGHT, text) for x, side, text in told]

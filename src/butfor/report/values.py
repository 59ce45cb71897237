"""Values as a reader sees them, and the person beside the flipped rows."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
import pandas as pd

from butfor.result.record import AFTER, BEFORE
from butfor.result.verdict import Verdict

MISSING = "missing"
LONGEST, WHOLE = 300, 10_000
"""Characters of a value that a page shows (the JSON record has all of them), and by which two are told apart."""
MOST_PULLS, LONGEST_PULL = 12, 38
"""Columns of the chart of pulls with a bar of their own, and the characters that name one."""


def shown(value: Any, longest: int = LONGEST) -> str:
    """A value as text: numbers without floating-point dust, control characters and overlength gone."""
    if missing(value):
        return MISSING
    if isinstance(value, (bool, np.bool_)):
        return str(bool(value))
    return _number(value) if isinstance(value, Real) else short(str(value), longest)


def told_apart(values: Iterable[Any], longest: int) -> Callable[[Any], str]:
    """How to show each of these values in so many characters: names that would be cut to the same lose their middle,
    and where that does not tell them apart either, they are counted."""
    whole = list(dict.fromkeys(shown(value, WHOLE) for value in values))
    names = {text: short(text, longest) for text in whole}
    for cut in (lambda text, _: _ends(text, longest), lambda text, k: f"{short(text, longest - 5)} ({k})"):
        alike = Counter(names.values())
        same = [text for text in whole if alike[names[text]] > 1]
        names |= {text: cut(text, k) for k, text in enumerate(same, 1)}
    return lambda value: names.get(text := shown(value, WHOLE)) or short(text, longest)


def _ends(text: str, longest: int) -> str:
    """The beginning and the end of a text that is too long."""
    line = short(text, WHOLE)
    half = (longest - 1) // 2
    return line if len(line) <= longest else f"{line[: longest - 1 - half].rstrip()}…{line[-half:].lstrip()}"


def short(text: str, longest: int) -> str:
    """Text on one line, cut with an ellipsis where it is longer than `longest` characters."""
    # Neither XML nor a chart label can hold control characters or lone surrogates.
    line = re.sub(r"[\s\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]+", " ", text).strip()
    return line if len(line) <= longest else line[: max(1, longest - 1)].rstrip() + "…"


def missing(value: Any) -> bool:
    return value is None or (pd.api.types.is_scalar(value) and bool(pd.isna(value)))


def differs(one: Any, other: Any) -> bool:
    """Whether two cells say different things; two missing ones do not."""
    if missing(one) or missing(other):
        return missing(one) != missing(other)
    try:
        return not bool(one == other)
    except (TypeError, ValueError):  # containers and mixed types compare to something that has no truth value
        return str(one) != str(other)


def is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, (bool, np.bool_))


@dataclass(frozen=True)
class Cell:
    text: str
    differs: bool = False


@dataclass(frozen=True)
class Line:
    """One column of the raw table: the person's value, and the flipped rows' values."""

    column: str
    person: str
    flips: tuple[Cell, ...]

    @property
    def differs(self) -> bool:
        return any(cell.differs for cell in self.flips)


@dataclass(frozen=True)
class Flip:
    """A flipped training row's heading."""

    row: str
    before: str
    after: str


@dataclass(frozen=True)
class Comparison:
    lines: tuple[Line, ...]
    flips: tuple[Flip, ...]
    unshown: int
    """Flipped rows left out for space."""
    agreeing: int
    """Columns left out for space, those in which everybody agrees first."""


@dataclass(frozen=True)
class Pull:
    """A bar of the chart of pulls: what pulls at the logit, and how much."""

    name: str
    pull: float
    single: bool = True
    """One column of the table, not the sum of several or the bias."""


def pulled(verdict: Verdict) -> list[Pull]:
    """The columns that pull this decision most, the strongest first, then all others as one, then the bias."""
    given = verdict.pulls or {}
    bias = list(given)[-1:]
    # A pipeline names what its steps make of the columns: such a name has no value in the table.
    person = {str(column): value for column, value in verdict.person.items()}
    order = [name for name in verdict.local_weights().index if name not in bias]
    first, rest = order[:MOST_PULLS], order[MOST_PULLS:]
    bars = []
    for name in first:
        # A short value leaves its room to the name; a long one takes half.
        value = f" = {shown(person[name])}" if name in person else ""
        column = short(name, max(LONGEST_PULL // 2, LONGEST_PULL - len(value)))
        bars.append(Pull(short(column + value, LONGEST_PULL), given[name]))
    if rest:
        others = f"{len(rest)} other column{'s' * (len(rest) != 1)}"
        bars.append(Pull(others, sum(given[name] for name in rest), single=False))
    return bars + [Pull("bias", given[name], single=False) for name in bias]


def columns_of(verdict: Verdict) -> list[Any]:
    """The columns that the person and the training rows share, in the training table's order."""
    of_rows = [c for c in verdict.flips.columns if c not in (BEFORE, AFTER)]
    return [c for c in of_rows if c in verdict.person.index] or list(verdict.person.index)


def comparison(
    verdict: Verdict, flips: int | None = None, lines: int | None = None, longest: int = LONGEST
) -> Comparison:
    """The person beside the flipped rows; at most `flips` of them, and at most `lines` columns."""
    if flips == 0 and lines == 0:
        return Comparison((), (), len(verdict.flips), len(columns_of(verdict)))
    rows = verdict.flips.iloc[:flips]
    person, theirs = verdict.person.to_dict(), rows.to_dict("list") if len(rows) else {}
    every = []
    for column in columns_of(verdict):
        own = person[column]
        cells = tuple(Cell(shown(value, longest), differs(own, value)) for value in theirs.get(column, []))
        every.append(Line(shown(column, longest), shown(own, longest), cells))
    headings = tuple(
        Flip(shown(row, longest), shown(before, longest), shown(after, longest))
        for row, before, after in zip(rows.index, rows[BEFORE], rows[AFTER], strict=True)
    )
    first = sorted(range(len(every)), key=lambda k: (not every[k].differs, k))[:lines]
    kept = tuple(every[k] for k in sorted(first))
    return Comparison(kept, headings, len(verdict.flips) - len(rows), len(every) - len(kept))


def _number(value: Real) -> str:
    number = float(value)
    if not math.isfinite(number):
        return "∞" if number > 0 else "−∞"
    if number.is_integer() and abs(number) < 1e15:
        return str(int(number)).replace("-", "−")
    if 1 <= abs(number) < 1e15:
        # About six digits, but never fewer than two decimals: amounts of money keep theirs.
        decimals = max(2, 6 - len(str(int(abs(number)))))
        return f"{number:.{decimals}f}".rstrip("0").rstrip(".").replace("-", "−")
    return f"{number:.6g}".replace("-", "−")

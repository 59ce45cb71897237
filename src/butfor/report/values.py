"""Values as a reader sees them, and the person beside the flipped rows."""

from __future__ import annotations

import math
import re
from collections.abc import Hashable
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
import pandas as pd

from butfor.verdict import AFTER, BEFORE, Verdict

MISSING = "missing"
LONGEST = 300
"""Characters of a value that a page shows; the JSON record has all of them."""


def shown(value: Any, longest: int = LONGEST) -> str:
    """A value as text: numbers without floating-point dust, control characters and overlength gone."""
    if missing(value):
        return MISSING
    if isinstance(value, (bool, np.bool_)):
        return str(bool(value))
    return _number(value) if isinstance(value, Real) else short(str(value), longest)


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
    differing: int
    """In how many columns it differs from the person."""


@dataclass(frozen=True)
class Comparison:
    lines: tuple[Line, ...]
    flips: tuple[Flip, ...]
    unshown: int = 0
    """Flipped rows left out for space."""


def columns_of(verdict: Verdict) -> list[Hashable]:
    """The columns that the person and the training rows share, in the training table's order."""
    of_rows = [c for c in verdict.flips.columns if c not in (BEFORE, AFTER)]
    return [c for c in of_rows if c in verdict.person.index] or list(verdict.person.index)


def comparison(verdict: Verdict, most: int | None = None, longest: int = LONGEST) -> Comparison:
    """The person beside the flipped rows, of which at most `most` are shown."""
    rows = verdict.flips.iloc[:most]
    lines = []
    for column in columns_of(verdict):
        own = verdict.person[column]
        theirs = rows[column] if column in rows.columns else []
        cells = tuple(Cell(shown(value, longest), differs(own, value)) for value in theirs)
        lines.append(Line(shown(column, longest), shown(own, longest), cells))
    flips = tuple(
        Flip(shown(row), shown(before), shown(after), sum(line.flips[k].differs for line in lines))
        for k, (row, before, after) in enumerate(zip(rows.index, rows[BEFORE], rows[AFTER], strict=True))
    )
    return Comparison(tuple(lines), flips, len(verdict.flips) - len(rows))


def _number(value: Real) -> str:
    number = float(value)
    if not math.isfinite(number):
        return "∞" if number > 0 else "−∞"
    if number.is_integer() and abs(number) < 1e15:
        return str(int(number)).replace("-", "−")
    if 1e-4 <= abs(number) < 1e15:
        # Six significant digits, but never fewer than the whole-number part has.
        digits = max(6, len(str(int(abs(number)))))
        return np.format_float_positional(number, precision=digits, fractional=False, trim="-").replace(
            "-", "−"
        )
    return f"{number:.4g}".replace("-", "−")

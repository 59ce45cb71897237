"""Values, labels and counts as text."""

from __future__ import annotations

import re
from numbers import Real
from typing import Any

import numpy as np
import pandas as pd

MISSING = "missing"
LONGEST_VALUE = 300
"""The most characters of a value on a page; the record has all of them."""


def shown(value: Any, longest: int = LONGEST_VALUE) -> str:
    """A value as text: numbers rounded, control characters removed, at most `longest`
    characters."""
    if missing(value):
        return MISSING
    if isinstance(value, (bool, np.bool_)):
        return str(bool(value))
    return plain_number(value) if isinstance(value, Real) else short(str(value), longest)


def without_middle(value: Any, longest: int) -> str:
    """A value in at most `longest` characters: if it is longer, its beginning and end."""
    text = shown(value, 10_000)
    if len(text) <= longest:
        return text
    half = (longest - 1) // 2
    return f"{text[: longest - 1 - half].rstrip()}…{text[-half:].lstrip()}"


def short(text: str, longest: int) -> str:
    """Text on one line, in at most `longest` characters."""
    # Neither XML nor a chart label can hold control characters or lone surrogates.
    line = re.sub(r"[\s\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]+", " ", text).strip()
    return line if len(line) <= longest else line[: max(1, longest - 1)].rstrip() + "…"


def missing(value: Any) -> bool:
    return value is None or (pd.api.types.is_scalar(value) and bool(pd.isna(value)))


def plain_number(value: Real | float) -> str:
    """A number in about six digits, but never fewer than two decimals: amounts of money keep
    theirs."""
    number = float(value) or 0.0  # no -0
    text = f"{number:.6g}".replace("inf", "∞")
    if 1 <= abs(number) < 1e15:
        decimals = max(2, 6 - len(str(int(abs(number)))))
        text = f"{number:.{decimals}f}".rstrip("0").rstrip(".")
    return text.replace("-", "−")

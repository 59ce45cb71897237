"""What a column may hold: numbers, texts, truth values. Dates and decimals become numbers, so that what is found
replays from its record; whatever else no record can hold is refused with its column."""

from __future__ import annotations

import datetime
import decimal
import re
from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd

from butfor.encode import NO_NUMBER
from butfor.errors import TableError, listed

Note = Callable[[str], None]

SINGLE = (str, bytes, bool, int, float, np.generic, decimal.Decimal, datetime.date)
NO_DTYPE = ("period", "interval", "complex", "Sparse", "timedelta", "duration")
MOST_CLASSES = 50
"""Values that a label may have."""
TURN = "turn it into numbers or text, or leave the column out"
ISO_DATE = re.compile(r"\d{4}-\d\d-\d\d([ T]\d\d:\d\d(:\d\d(\.\d+)?)?)?")
DAY = pd.Timedelta(days=1)
NUMBERS: dict[str, tuple[str, Callable[[pd.Series], pd.Series]]] = {
    "decimal": ("decimals: they count as floating-point numbers", lambda values: values.map(float)),
    "date": ("dates: they count as days since 1970-01-01", lambda values: _moments(values) / DAY),  # type: ignore[operator]
}
"""By what a column holds: what is said of it, and how it becomes numbers."""


def check_cells(frame: pd.DataFrame) -> None:
    """Refuse cells larger than a single value, raw bytes, whole numbers beyond 64 bits and types that nothing here
    knows."""
    for place, column in enumerate(frame.columns):
        values = frame.iloc[:, place]
        if str(values.dtype).startswith(NO_DTYPE):
            raise TableError(f"Column '{column}' is of type {values.dtype}; {TURN}.")
        if values.dtype not in (object, np.uint64):
            continue
        present = values.dropna()
        strange = {kind for kind in set(map(type, present)) if not issubclass(kind, SINGLE) or kind is bytes}
        if strange:
            words = listed(sorted(kind.__name__ for kind in strange))
            raise TableError(f"Column '{column}' holds {words} instead of numbers or text; {TURN}.")
        for row, value in present.items():
            if isinstance(value, (int, np.uint64)) and not -(2**63) <= value < 2**63:
                raise TableError(
                    f"Column '{column}', row {row} holds a whole number of {len(str(value))} digits, and 64 bits "
                    f"hold none beyond 2^63: {NO_NUMBER}."
                )


def as_numbers(frame: pd.DataFrame, columns: Sequence[str], note: Note) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """The frame with such columns as numbers, and those that hold dates."""
    changed: dict[str, pd.Series] = {}
    dates = []
    for column in columns:
        kind = _kind(frame[column])
        if kind not in NUMBERS:
            continue
        said, convert = NUMBERS[kind]
        try:
            changed[column] = _counted(frame[column], convert)
        except (ValueError, TypeError, OverflowError):
            if pd.api.types.infer_dtype(frame[column].dropna()) == "string":  # such as 2024-02-30
                continue
            raise TableError(
                f"Column '{column}' holds dates that cannot be counted in days: mend or drop it."
            ) from None
        dates += [column] * (kind == "date")
        note(f"Column '{column}' holds {said}.")
    return frame.assign(**changed), tuple(dates)


def as_dates(days: pd.Series) -> pd.Series:
    """Days since 1970-01-01 as the dates they were, in text."""
    moments = pd.to_datetime(days, unit="D").dt.round("s")
    known = moments.dropna()
    whole = bool((known == known.dt.normalize()).all())
    return moments.dt.strftime("%Y-%m-%d" if whole else "%Y-%m-%d %H:%M:%S")


def _kind(values: pd.Series) -> str:
    """A key of NUMBERS, or another word."""
    if pd.api.types.is_datetime64_any_dtype(values.dtype):
        return "date"
    if isinstance(values.dtype, np.dtype) and values.dtype.kind in "iufb":
        return "plain"
    present = values.dropna()
    kind = pd.api.types.infer_dtype(present) if len(present) else "empty"
    if kind == "string":
        return "date" if all(map(ISO_DATE.fullmatch, present)) else kind
    return "date" if kind == "datetime" else kind


def _counted(values: pd.Series, convert: Callable[[pd.Series], pd.Series]) -> pd.Series:
    """The values as numbers, whole ones where all of them are; missing ones stay missing."""
    numbers, present = np.full(len(values), np.nan), values.notna().to_numpy()
    numbers[present] = convert(values[present]).to_numpy(np.float64)
    dated = present.all() and convert is NUMBERS["date"][1] and not (numbers % 1).any()
    return pd.Series(numbers.astype(np.int64) if dated else numbers, values.index)


def _moments(values: pd.Series) -> pd.Series:
    """Time since 1970-01-01."""
    return pd.to_datetime(values, format="ISO8601", utc=True).dt.tz_localize(None) - pd.Timestamp(0)

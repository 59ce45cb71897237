"""Columns of kinds that a record has no word for: decimals, times of day and durations become numbers, so that what is
found replays from its record; raw bytes and dates beyond all calendars are refused."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd

from butfor.errors import TableError

NUMBERS: dict[str, tuple[str, Callable[[pd.Series], pd.Series]]] = {
    "decimal": ("decimals: they count as floating-point numbers", lambda values: values.map(float)),
    "time": (
        "times of day: they count as seconds since midnight",
        lambda values: values.map(lambda t: 3600 * t.hour + 60 * t.minute + t.second + t.microsecond / 1e6),
    ),
    "timedelta": ("durations: they count as days", lambda values: pd.to_timedelta(values) / pd.Timedelta(days=1)),
}
"""By pandas' word for a column: what is said of it, and how it becomes numbers."""
REFUSED = {
    "bytes": "raw bytes, which are neither numbers nor text: decode or drop it",
    "date": "dates that cannot be counted in days: mend or drop it",
    "datetime": "dates that cannot be counted in days: mend or drop it",
}


def kind_of(values: pd.Series) -> str:
    """Pandas' word for what a column holds, missing values aside."""
    if pd.api.types.is_timedelta64_dtype(values.dtype):
        return "timedelta"
    present = values.dropna()
    return pd.api.types.infer_dtype(present) if values.dtype == object and len(present) else "plain"


def as_numbers(
    frame: pd.DataFrame, inputs: Sequence[str], others: Sequence[str], note: Callable[[str], None]
) -> pd.DataFrame:
    """The frame with such columns among `inputs` as numbers. Among those and `others`, what no record can hold is
    refused."""
    for column in dict.fromkeys([*inputs, *others]):
        kind = kind_of(frame[column])
        if kind == "bytes" or (kind in REFUSED and column in inputs):
            raise TableError(f"Column '{column}' holds {REFUSED[kind]}.")
        if kind in NUMBERS and column in inputs:
            said, convert = NUMBERS[kind]
            numbers, present = np.full(len(frame), np.nan), frame[column].notna().to_numpy()
            numbers[present] = convert(frame[column][present]).to_numpy(np.float64)
            frame = frame.assign(**{column: numbers})
            note(f"Column '{column}' holds {said}.")
    return frame

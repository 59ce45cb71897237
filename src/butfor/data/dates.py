"""Dates as days since 1970-01-01 and decimals as floating-point numbers, so that finds can be replayed from their
record; and days as dates again, for people to read."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from butfor.columns import DATES
from butfor.errors import TableError

ISO_DATE = re.compile(r"\d{4}-\d\d-\d\d([ T]\d\d:\d\d(:\d\d(\.\d+)?)?)?")


def as_numbers(frame: pd.DataFrame, columns: Iterable[Any], note: Callable[[str], None]) -> pd.DataFrame:
    """The frame with dates and decimals as numbers; its `attrs` name the columns that held dates."""
    frame, dates = frame.copy(deep=False), []
    for column in columns:
        values = frame[column]
        kind = pd.api.types.infer_dtype(values)
        text = kind == "string"
        if kind == "decimal":
            frame[column] = values.map(float, na_action="ignore").astype(np.float64)
            note(f"Column '{column}' holds decimals: they count as floating-point numbers.")
        elif kind in ("date", "datetime", "datetime64") or (text and all(map(ISO_DATE.fullmatch, values.dropna()))):
            try:
                frame[column] = _days(values)
            except (ValueError, TypeError, OverflowError):
                if text:  # such as 2024-02-30
                    continue
                raise TableError(
                    f"Column '{column}' holds dates that cannot be counted in days: correct or drop it."
                ) from None
            dates.append(column)
            note(f"Column '{column}' holds dates: they count as days since 1970-01-01.")
    frame.attrs[DATES] = (*frame.attrs.get(DATES, ()), *dates)
    return frame


def days_in(values: pd.Series) -> NDArray[np.float64] | NDArray[np.int64]:
    """The dates of a column that held dates where the model was trained, as days since 1970-01-01."""
    try:
        return _days(values)
    except (ValueError, TypeError, OverflowError):
        raise TableError(f"Column '{values.name}' held dates in the training rows, and holds others here.") from None


def _days(values: pd.Series) -> NDArray[np.float64] | NDArray[np.int64]:
    """Whole days as whole numbers; missing values stay missing."""
    days, present = np.full(len(values), np.nan), values.notna().to_numpy()
    moments = pd.to_datetime(values[present], format="ISO8601", utc=True).dt.tz_localize(None)
    days[present] = (moments - pd.Timestamp(0)) / pd.Timedelta(days=1)
    return days.astype(np.int64) if present.all() and not (days % 1).any() else days


def date_of(days: float) -> str:
    """One of these days as text, with its time where it has one."""
    moment = (pd.Timestamp(0) + pd.Timedelta(days=days)).round("ms")
    return moment.isoformat(sep=" ").removesuffix(" 00:00:00")

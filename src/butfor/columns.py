"""What every table must be before it is encoded: named columns, cells with single values, and numbers to compute with.

Each function returns what was asked for, or raises a `TableError` that names the column and the first row.
"""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Hashable, Iterable
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from butfor.errors import TableError, listed, plural

DATES, ASIDE = "dates", "aside"
"""What `attrs` of training rows name: columns of dates that were turned into days, and columns of the user's table that
are not learned from."""
LARGEST = 1e154
"""The square of a larger number is infinite."""
EXACT = 2**53
"""Up to here, different whole numbers are different floating-point numbers."""
NO_NUMBER = "leave the column out (--drop, or --id for an identifier), or make it text"
RESCALE = "use another unit for the column, or correct it"
SINGLE = (str, bool, int, float, np.generic, decimal.Decimal, datetime.date)
NO_DTYPE = ("period", "interval", "complex", "Sparse", "timedelta", "duration")


def check_frame(frame: pd.DataFrame) -> None:
    """Refuse a table whose columns have no names of their own, and cells that no record can hold: nested values, raw
    bytes, whole numbers beyond 64 bits, unknown types."""
    refuse_duplicates(frame.columns)
    alike = frame.columns[pd.Index(frame.columns.map(str)).duplicated(keep=False)]
    if len(alike):
        raise TableError(f"Columns {', '.join(map(repr, alike))} have the same name once written as text; rename one.")
    for column, values in frame.items():
        if isinstance(column, tuple):
            raise TableError(f"Column {column!r} has a tuple as its name; name every column by a text or a number.")
        turn = "turn it into numbers or text, or leave the column out"
        if str(values.dtype).startswith(NO_DTYPE):
            raise TableError(f"Column '{column}' has type {values.dtype}; {turn}.")
        if values.dtype not in (object, np.uint64):
            continue
        present = values.dropna()
        strange = {kind.__name__ for kind in set(map(type, present)) if not issubclass(kind, SINGLE)}
        if strange:
            raise TableError(f"Column '{column}' holds {listed(sorted(strange))} instead of numbers or text; {turn}.")
        beyond = [isinstance(value, (int, np.uint64)) and not -(2**63) <= value < 2**63 for value in present]
        refuse_rows(present, np.array(beyond, bool), "holds a whole number too large for 64 bits", NO_NUMBER)


def is_numeric(values: pd.Series) -> bool:
    """Whether a column holds numbers; booleans are categories."""
    return pd.api.types.is_numeric_dtype(values.dtype) and not pd.api.types.is_bool_dtype(values.dtype)


def same_columns(frame: pd.DataFrame, columns: list[Hashable]) -> pd.DataFrame:
    """The table with the training columns, in their order."""
    refuse_missing_columns(frame, columns)
    known = set(columns)
    extra = [c for c in frame.columns if c not in known]
    if extra:
        raise TableError(f"Column {listed(extra)} is not in the training table; drop it.")
    return frame if list(frame.columns) == columns else frame[columns]


def refuse_missing_columns(frame: pd.DataFrame, columns: Iterable[Hashable]) -> None:
    """Raise an error if a column of the training table is missing."""
    missing = [c for c in columns if c not in frame.columns]
    if missing:
        raise TableError(f"Column {listed(missing)} is missing; the training table has it.")


def refuse_duplicates(columns: pd.Index) -> None:
    """Raise an error if two columns have the same name."""
    twice = columns[columns.duplicated()]
    if len(twice):
        raise TableError(f"Column {listed(twice.unique())} occurs more than once; rename or drop one.")


def refuse_missing(frame: pd.DataFrame, remedy: str = "fill it in or drop the row") -> None:
    """Raise an error that names every column with a missing value and its first such row."""
    places = [_place(frame[c], frame[c].isna().to_numpy()) for c in frame.columns if frame[c].isna().any()]
    if places:
        raise TableError(f"{', '.join(places)} is missing a value: {remedy}.")


def numbers_in(values: pd.Series) -> NDArray[np.float64]:
    """The column as numbers, NaN for missing ones. It refuses infinite numbers, numbers whose squares are infinite, and
    whole numbers that would become equal."""
    if isinstance(values.dtype, np.dtype) and values.dtype.kind in "iuf":
        numbers = values.to_numpy(np.float64)
    else:
        numbers = pd.to_numeric(values.astype(object), errors="coerce").to_numpy(dtype=np.float64)
        strange = np.isnan(numbers) & values.notna().to_numpy()
        refuse_rows(values, strange, "holds {value!r}, which is not a number", "correct it or drop the row")
    large = np.abs(numbers) >= EXACT
    whole = pd.api.types.is_integer_dtype(values.dtype)
    if whole and large.any() and values.nunique() > len(np.unique(numbers[~np.isnan(numbers)])):
        refuse_rows(values, large, "holds {value}; whole numbers beyond 2^53 cannot be told apart", NO_NUMBER)
    refuse_rows(values, np.isinf(numbers), "holds an infinite value", "replace it or drop the row")
    refuse_rows(values, np.abs(numbers) > LARGEST, "holds {value}, too large to compute with", RESCALE)
    return numbers


def as_whole_numbers(values: pd.Series) -> pd.Series:
    """A column as it would be read without missing values: pandas reads whole numbers with gaps as floats."""
    gaps = values.isna()
    if not gaps.any() or not pd.api.types.is_float_dtype(values.dtype) or (values[~gaps] % 1).any():
        return values
    return values.astype(object).where(gaps, values.fillna(0).astype(np.int64).astype(object))


def clusters_in(values: Any) -> NDArray[np.int64]:
    """Each row's cluster as a number from 0; a row without a value is a cluster of its own."""
    column = pd.Series(values, dtype=object)
    codes, found = pd.factorize(column.astype(str).where(column.notna(), None))
    codes = codes.astype(np.int64)
    alone = codes < 0
    codes[alone] = len(found) + np.arange(alone.sum())
    return codes


def refuse_rows(values: pd.Series, bad: NDArray[np.bool_], what: str, remedy: str) -> None:
    """Raise an error if there are bad rows."""
    if bad.any():
        problem = what.format(value=values.iloc[int(np.flatnonzero(bad)[0])])
        raise TableError(f"{_place(values, bad)} {problem}: {remedy}.")


def _place(values: pd.Series, bad: NDArray[np.bool_]) -> str:
    """The first bad row in words, and how many more there are."""
    more = int(bad.sum()) - 1
    also = f" (and {plural(more, 'more row')})" if more else ""
    return f"Column '{values.name}', row {values.index[int(np.flatnonzero(bad)[0])]}{also}"

"""What every table must be before it is encoded: named columns, cells with single values, and
numbers to compute with.

Who checks what, once: `as_table` every table that a user hands over or names, `numbers_in` columns
of numbers; `data.labels` the label's values, `data.sensitive` groups, `data.table` files and
options, `validate` what stands beside the rows, `encode` what cannot be scaled. Each raises a
`TableError` that names the column and the first row.
"""

from __future__ import annotations

import datetime
import decimal
import re
from collections.abc import Callable, Hashable, Iterable
from contextlib import suppress
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from butfor.support.errors import (
    TableError,
    brief,
    listed,
    plural,
    shortened,
)

LARGEST = 1e154
"""The square of a larger number is infinite."""
EXACT = 2**53
"""Up to here, different whole numbers are different floating-point numbers."""
MOSTLY_DIFFERENT = 0.95
LEAST_DIFFERENT = 20
"""A column of text whose values differ in this share of at least so many rows is an identifier or
free text, which the check of a table says."""
NO_NUMBER = "leave the column out (--drop, or --id for an identifier), or make it text"
SINGLE = (str, bool, int, float, np.bool_, np.number, np.datetime64, decimal.Decimal, datetime.date)
ISO_DATE = re.compile(r"\d{4}-\d\d-\d\d([ T]\d\d:\d\d(:\d\d(\.\d+)?)?)?")
WHOLE = re.compile(r"[-+]?\d+\.0*")
"""A whole number with a fraction, as text."""
NO_CELL = (
    *(
        "list",
        "large_list",
        "fixed_size_list",
        "struct",
        "map",
        "union",
        "sparse_union",
        "dense_union",
    ),
    *("binary", "large_binary", "fixed_size_binary", "time32", "time64", "month_day_nano"),
)
"""Types of Arrow whose cells are no single values, or values that no table of text holds."""
NO_DTYPE = ("period", "interval", "complex", "Sparse", "timedelta", "duration", *NO_CELL)


def as_table(X: Any) -> pd.DataFrame:
    """A copy of a table of pandas, polars or pyarrow as a pandas table (rows of the others are
    numbered from 0), with rows, columns that have names of their own, and cells that a record can
    hold."""
    frame = in_pandas(X)
    if not isinstance(frame, pd.DataFrame):
        raise TableError(
            "An audit needs a table with named columns (a pandas or polars DataFrame, or a "
            f"pyarrow Table), not {brief(X)}."
        )
    for count, what in zip(frame.shape, ("rows", "columns"), strict=True):
        if not count:
            raise TableError(f"The table has no {what}.")
    written = pd.Index(list(map(str, frame.columns)))
    odd = written.duplicated(keep=False) | [isinstance(column, tuple) for column in frame.columns]
    if odd.any():
        named = ", ".join(dict.fromkeys(map(repr, frame.columns[odd])))
        raise TableError(
            f"Column {named} needs a name of its own, a text or a number that differs from other "
            "columns' names also when written as text: rename or drop one."
        )
    turn = "turn it into numbers or text, or leave the column out"
    plain = dict[Hashable, pd.Series]()
    for column, values in frame.items():
        if str(values.dtype).startswith(NO_DTYPE):
            raise TableError(f"Column '{column}' has type {shortened(values.dtype)}; {turn}.")
        if values.dtype not in (object, np.uint64):
            continue
        strange = strange_kinds(values)
        if strange:
            raise TableError(
                f"Column '{column}' holds {listed(strange)} instead of numbers or text; {turn}."
            )
        cells = plain_cells(values)
        if cells is not values:
            plain[column] = cells
        present = values.dropna()
        beyond = [
            isinstance(value, (int, np.uint64)) and not -(2**63) <= value < 2**63
            for value in present
        ]
        refuse_rows(
            present, np.array(beyond, bool), "holds a whole number too large for 64 bits", NO_NUMBER
        )
    if plain:
        frame = frame.copy(deep=False)
        for column, cells in plain.items():
            frame[column] = cells
    return own(frame)


def own(given: Any) -> Any:
    """A copy of what a user handed over, so that what the user changes later changes no answer. A
    shallow copy of a table is enough where pandas copies on write; lists, arrays and series are
    small."""
    if isinstance(given, pd.DataFrame):
        return given.copy(deep=not _copies_on_write())
    if isinstance(given, (pd.Series, np.ndarray, list)):
        return given.copy()
    return given


def _copies_on_write() -> bool:
    """Whether writing to a table leaves its shallow copies alone: from pandas 3 on always, before
    if it was set."""
    return int(pd.__version__.partition(".")[0]) >= 3 or pd.options.mode.copy_on_write is True


def strange_kinds(values: pd.Series) -> list[str]:
    """The names of the types of cells of objects that are no single values: lists, bytes,
    structures."""
    kinds = set(map(type, values.dropna()))
    return sorted({kind.__name__ for kind in kinds if not issubclass(kind, SINGLE)})


def plain_cells(values: pd.Series) -> pd.Series:
    """A column of objects with values of Python in place of numpy's, as numbers if all are; any
    other as it is. Not all of pandas knows half-precision numbers."""
    if not any(issubclass(kind, np.generic) for kind in set(map(type, values))):
        return values

    def plain(value: Any) -> Any:
        if isinstance(value, np.floating):
            return float(value)
        if isinstance(value, np.datetime64):
            return pd.Timestamp(value)
        return value.item() if isinstance(value, np.generic) else value

    cells = pd.Series(
        [plain(value) for value in values], values.index, dtype=object, name=values.name
    )
    return cells.infer_objects()


def in_pandas(given: Any) -> Any:
    """A table or column of polars or pyarrow in pandas; anything else as it is."""
    if given is None or isinstance(
        given, (pd.DataFrame, pd.Series, np.ndarray, list, tuple, dict, str)
    ):
        return given
    import narwhals as nw

    native = nw.from_native(given, allow_series=True, pass_through=True)
    native = native.collect() if isinstance(native, nw.LazyFrame) else native
    return native.to_pandas() if isinstance(native, (nw.DataFrame, nw.Series)) else native


def beside(given: Any, X: pd.DataFrame) -> Any:
    """What stands beside the rows of X in pandas, with the index of X. A column of pyarrow has no
    name: it is called after the column of X that it equals."""
    values = in_pandas(given)
    if values is given:
        return values
    if not isinstance(values, (pd.Series, pd.DataFrame)) or len(values) != len(X):
        return values
    values = values.set_axis(X.index)
    if isinstance(values, pd.Series) and values.name in (None, ""):
        values.name = next((name for name, column in X.items() if column.equals(values)), None)
    return values


def refuse_misaligned(given: Any, X: pd.DataFrame, what: str, name: str) -> None:
    """Raise an error if there is not one value per row of X, or if what has an index has another
    one."""
    if len(given) != len(X):
        raise TableError(f"The table has {len(X)} rows but there are {len(given)} {what}.")
    if isinstance(given, (pd.Series, pd.DataFrame)) and not given.index.equals(X.index):
        same_rows = set(given.index) == set(X.index)
        other = "the same rows in another order" if same_rows else "different rows"
        raise TableError(
            f"The index of the {what} does not match the table's: {other}. Align them "
            f"({name}.loc[X.index]), or pass a plain array in the order of the table."
        )


def is_numeric(values: pd.Series) -> bool:
    """Whether a column holds numbers; booleans are categories."""
    return pd.api.types.is_numeric_dtype(values.dtype) and not pd.api.types.is_bool_dtype(
        values.dtype
    )


def same_columns(frame: pd.DataFrame, columns: list[Hashable]) -> pd.DataFrame:
    """The table with the training columns, in their order."""
    missing = [column for column in columns if column not in frame.columns]
    if missing:
        raise TableError(f"The table lacks {listed(missing)}, which the training table has.")
    training = set(columns)
    extra = [column for column in frame.columns if column not in training]
    if extra:
        raise TableError(f"Column {listed(extra)} is not in the training table; drop it.")
    return frame if list(frame.columns) == columns else frame[columns]


def refuse_missing(frame: pd.DataFrame, remedy: str = "fill it in or drop the row") -> None:
    """Raise an error that names every column with a missing value and its first such row."""
    places = [
        _place(frame[c], frame[c].isna().to_numpy()) for c in frame.columns if frame[c].isna().any()
    ]
    if places:
        raise TableError(f"{', '.join(places)} is missing a value: {remedy}.")


def numbers_in(values: pd.Series) -> NDArray[np.float64]:
    """The column as numbers, NaN for missing ones. It refuses infinite numbers, numbers whose
    squares are infinite, and whole numbers that would become equal."""
    if isinstance(values.dtype, np.dtype) and values.dtype.kind in "iuf":
        numbers = values.to_numpy(np.float64)
    else:
        numbers = pd.to_numeric(values.astype(object), errors="coerce").to_numpy(dtype=np.float64)
        strange = np.isnan(numbers) & values.notna().to_numpy()
        refuse_rows(
            values, strange, "holds {value!r}, which is not a number", "correct it or drop the row"
        )
    large = np.abs(numbers) >= EXACT
    whole = pd.api.types.is_integer_dtype(values.dtype)
    if whole and large.any() and values.nunique() > len(np.unique(numbers[~np.isnan(numbers)])):
        refuse_rows(
            values,
            large,
            "holds {value}; whole numbers beyond 2^53 cannot be told apart",
            NO_NUMBER,
        )
    refuse_rows(values, np.isinf(numbers), "holds an infinite value", "replace it or drop the row")
    unit = "use another unit for the column, or correct it"
    refuse_rows(values, np.abs(numbers) > LARGEST, "holds {value}, too large to compute with", unit)
    return numbers


def as_numbers(
    frame: pd.DataFrame, columns: Iterable[Any], note: Callable[[str], None]
) -> tuple[pd.DataFrame, tuple[Hashable, ...]]:
    """The frame with dates as days since 1970-01-01 and decimals as floating-point numbers, so that
    finds can be replayed from their record; and the columns that held dates."""
    frame = frame.copy(deep=False)
    dates = list[Hashable]()
    for column in columns:
        values = frame[column]
        if pd.api.types.infer_dtype(values) == "decimal":
            frame[column] = values.map(float, na_action="ignore").astype(np.float64)
            note(f"Column '{column}' holds decimals: they count as floating-point numbers.")
            continue
        days = dates_in(values)
        if days is not None:
            frame[column] = days
            dates.append(column)
            note(f"Column '{column}' holds dates: they count as days since 1970-01-01.")
    return frame, tuple(dates)


def dates_in(values: pd.Series) -> NDArray[np.float64] | NDArray[np.int64] | None:
    """The days of a column that holds dates, by its type or as text such as 2024-02-29; None of any
    other column."""
    kind = pd.api.types.infer_dtype(values)
    if kind in ("date", "datetime", "datetime64"):
        return days_in(values)
    if kind == "string" and all(map(ISO_DATE.fullmatch, values.dropna())):
        with suppress(TableError):  # such as 2024-02-30
            return days_in(values)
    return None


def days_in(values: pd.Series) -> NDArray[np.float64] | NDArray[np.int64]:
    """The dates of a column as days since 1970-01-01, whole ones as whole numbers; missing values
    stay missing."""
    days = np.full(len(values), np.nan)
    present = values.notna().to_numpy()
    try:
        moments = pd.to_datetime(values[present], format="ISO8601", utc=True).dt.tz_localize(None)
        days[present] = (moments - pd.Timestamp(0)) / pd.Timedelta(days=1)
    except (ValueError, TypeError, OverflowError):
        raise TableError(
            f"Column '{values.name}' holds dates, but also a value that is none or cannot be "
            "counted in days: correct it or drop the column."
        ) from None
    return days.astype(np.int64) if present.all() and not (days % 1).any() else days


def date_of(days: float) -> str:
    """One of these days as text, with its time where it has one."""
    moment = (pd.Timestamp(0) + pd.Timedelta(days=days)).round("ms")
    return moment.isoformat(sep=" ").removesuffix(" 00:00:00")


def spelled(value: Any) -> str:
    """One spelling of a value, however its column stores it: "0" of 0, 0.0 and "0.0"."""
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        return str(int(value))
    if isinstance(value, (float, np.floating, decimal.Decimal)):
        return str(int(value)) if float(value).is_integer() else str(value)
    text = str(value).strip()
    return str(int(float(text))) if WHOLE.fullmatch(text) and abs(float(text)) < EXACT else text


def as_whole_numbers(values: pd.Series) -> pd.Series:
    """A column as it would be read without missing values: pandas reads whole numbers with gaps as
    floats."""
    gaps = values.isna()
    if not gaps.any() or not pd.api.types.is_float_dtype(values.dtype) or (values[~gaps] % 1).any():
        return values
    return values.astype(object).where(gaps, values.fillna(0).astype(np.int64).astype(object))


def clusters_in(values: Any) -> NDArray[np.int64]:
    """Each row's cluster as a number from 0; a row without a value is a cluster of its own."""
    column = pd.Series(values, dtype=object)
    names = column.map(spelled, na_action="ignore").where(column.notna(), None)
    codes, different = pd.factorize(names)
    codes = codes.astype(np.int64)
    alone = codes < 0
    codes[alone] = len(different) + np.arange(alone.sum())
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

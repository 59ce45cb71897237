"""Reads a file into a frame: text, Parquet, Feather or Excel. Notes say what was changed.

Sizes are checked before a file is loaded, so that no device, pipe or archive keeps the reader busy. Dates and decimals
become numbers, so that finds can be replayed from their record.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import re
import sys
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from butfor.data.catalogue import DATASETS
from butfor.errors import ButforError, TableError, listed, nearest

Note = Callable[[str], None]

STANDARD_INPUT = "-"
DATES, ASIDE = "dates", "aside"
"""What `attrs` of training rows name: columns of dates that were turned into days, and columns of the user's table that
are not learned from."""
FILES = {".parquet": "parquet", ".pq": "parquet", ".feather": "feather", ".xlsx": "excel"}
"""Binary files by the ending of their names."""
SIGNATURES = {
    b"PK\x03\x04": "an Excel file or another zip archive: rename it to .xlsx, or unpack it",
    b"\xd0\xcf\x11\xe0": "an old Excel file: save it as .xlsx or as CSV",
    b"PAR1": "a Parquet file: rename it to .parquet",
    b"ARROW1": "a Feather file: rename it to .feather",
}
"""How other files begin, and what they are."""
MOST_BYTES = 2 * 1024**3
MOST_COLUMNS = 10_000
ISO_DATE = re.compile(r"\d{4}-\d\d-\d\d([ T]\d\d:\d\d(:\d\d(\.\d+)?)?)?")
NUMBERS = {
    "decimal": "decimals: they count as floating-point numbers",
    "date": "dates: they count as days since 1970-01-01",
}
"""What becomes a number, and the note about it."""


def read_file(path: str | Path, note: Note = lambda line: None) -> pd.DataFrame:
    """A file as a frame, rows numbered from 0: CSV (comma, semicolon or tab, also .gz; "-" is standard input), Parquet,
    Feather or Excel."""
    name = title(path)
    refuse_absent(path)
    kind = FILES.get(Path(path).suffix.lower(), "text")
    try:
        frame = _read_text(path, note) if kind == "text" else _read_binary(Path(path), kind, note)
    except ImportError as error:
        extra = "excel" if kind == "excel" else "parquet"
        raise TableError(
            f"Reading '{name}' needs a package that is not installed: pip install \"butfor[{extra}]\"."
        ) from error
    except ButforError:
        raise
    except Exception as error:  # readers of damaged files raise many kinds of exception
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise TableError(
            f"'{name}' cannot be read as a table ({reason}); give a CSV, Parquet, Feather or Excel file."
        ) from error
    _refuse_shape(frame.shape[1], name)
    return frame


def refuse_absent(path: str | Path) -> None:
    """Raise an error if the file does not exist or is not a regular file."""
    if str(path) == STANDARD_INPUT:
        return
    if not Path(path).exists():
        known = nearest(path, DATASETS, "Give a CSV, Parquet, Feather or Excel file, or one of")
        raise TableError(f"There is no file '{path}'. {known}")
    if any("\ud800" <= character <= "\udfff" for character in str(path)):
        raise TableError(f"The name of '{path}' is not UTF-8 and cannot be recorded; rename the file.")
    if not Path(path).is_file():
        raise TableError(
            f"'{path}' is a directory, a device or a pipe; name a file, or - for a CSV from standard input."
        )
    _refuse_large(Path(path).stat().st_size, str(path))


def _refuse_large(size: int, name: str, times: int = 1) -> None:
    limit = times * MOST_BYTES
    if size > limit:
        raise TableError(f"'{name}' is larger than the limit of {limit / 1024**3:.1f} GB; give fewer rows or columns.")


def _refuse_shape(columns: int, name: str) -> None:
    if columns > MOST_COLUMNS:
        raise TableError(f"'{name}' has {columns} columns, above the limit of {MOST_COLUMNS}; give fewer.")
    if columns < 2:
        raise TableError(
            f"'{name}' is not a table: it has {columns} column(s). A CSV needs a header line and columns separated by "
            "comma, semicolon or tab."
        )


# --- Parquet, Feather, Excel ----------------------------------------------------------------------------


def _read_binary(path: Path, kind: str, note: Note) -> pd.DataFrame:
    name = str(path)
    if kind == "excel":
        with zipfile.ZipFile(path) as packed:
            _refuse_large(sum(part.file_size for part in packed.infolist()), name, 4)
        with pd.ExcelFile(path, engine="openpyxl") as book:
            if len(book.sheet_names) > 1:
                note(f"'{path}': reading sheet '{book.sheet_names[0]}', the first of {len(book.sheet_names)}.")
            header = list(pd.read_excel(book, header=None, nrows=1).dropna(axis=1).to_numpy().ravel())
            frame = pd.read_excel(book)
    else:
        if kind == "parquet":
            from pyarrow.parquet import read_metadata

            about = read_metadata(path)
            _refuse_shape(about.num_columns, name)
            _refuse_large(about.num_rows * about.num_columns * 8, name, 4)
        frame = (pd.read_parquet if kind == "parquet" else pd.read_feather)(path)
        header = list(frame.columns)
    _refuse_duplicates(map(str, header), name)
    frame = frame.reset_index(drop=True).rename(columns=str)
    return frame.assign(**{c: _plain_types(frame[c]) for c in frame.columns})


def _plain_types(values: pd.Series) -> pd.Series:
    """Columns of pandas' nullable types with plain types, whose missing values a record can hold."""
    if not pd.api.types.is_extension_array_dtype(values.dtype):
        return values
    if pd.api.types.is_bool_dtype(values.dtype):
        return values.astype(object).where(values.notna(), np.nan) if values.isna().any() else values.astype(bool)
    if not pd.api.types.is_numeric_dtype(values.dtype):
        return values
    return values.astype(np.float64) if values.isna().any() else pd.Series(values.to_numpy(), values.index)


# --- text -----------------------------------------------------------------------------------------------


def _read_text(path: str | Path, note: Note) -> pd.DataFrame:
    name = title(path)
    if str(path) != STANDARD_INPUT:
        content = Path(path).read_bytes()
    elif sys.stdin is None:
        raise TableError("Standard input is closed; name a file.")
    else:
        content = _read_within_limit(sys.stdin.buffer, name)
    if content.startswith(b"\x1f\x8b"):
        with gzip.open(io.BytesIO(content)) as packed:
            content = _read_within_limit(packed, name)
    _refuse_binary(content, name)
    text = _decode(content, name, note)
    first_line = text.lstrip().partition("\n")[0]
    separator = max(",;\t", key=re.sub(r'"[^"]*"', "", first_line).count)
    header = _check_lines(text, separator, name)
    _refuse_duplicates(header, name)
    if not header[0].strip():
        note(f"The first column of '{name}' has no name; it is called 'Unnamed: 0' (--drop or --id removes it).")
    return pd.read_csv(io.StringIO(text), sep=separator, skipinitialspace=True, low_memory=False, index_col=False)


def _refuse_binary(content: bytes, name: str) -> None:
    """Raise an error about a binary file with the name of a text file."""
    for start, what in SIGNATURES.items():
        if content.startswith(start):
            raise TableError(f"'{name}' is not text but {what}.")


def _read_within_limit(stream: BinaryIO | gzip.GzipFile, name: str) -> bytes:
    """The content of a stream, up to the limit."""
    content = stream.read(MOST_BYTES + 1)
    _refuse_large(len(content), name)
    return content


def _decode(content: bytes, name: str, note: Note) -> str:
    """A text file's content: UTF-8, UTF-16 if it is marked so, otherwise a Windows encoding."""
    wide = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    for encoding in ["utf-16"] if wide else ["utf-8-sig", "cp1252", "latin-1"]:
        try:
            text = content.decode(encoding)
        except UnicodeDecodeError:
            continue
        if "\0" in text:
            raise ValueError("it holds binary data")
        if encoding != "utf-8-sig":
            note(f"'{name}' is not UTF-8; it was read as {encoding}.")
        return text
    raise ValueError("it starts like UTF-16 but is not")


def _check_lines(text: str, separator: str, name: str) -> list[str]:
    """The values of the first line, after checking that every line has the same number: pandas would shift longer lines
    and fill shorter ones."""
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=separator, skipinitialspace=True, strict=True)
    header: list[str] = []
    before = 0
    try:
        for values in rows:
            _refuse_swallowed(values, len(header or values), separator, rows.line_num, name)
            if not header:
                header = values if any(values) else []
                if header:
                    _refuse_shape(len(header), name)
            elif len(values) != len(header) and (len(values) > 1 or any(map(str.strip, values))):
                raise TableError(
                    f"Line {rows.line_num} of '{name}' has {len(values)} value{'s' * (len(values) != 1)}, but the "
                    f"header names {len(header)} columns: correct the line, or the header if a name is missing."
                )
            before = rows.line_num
    except csv.Error as error:
        unclosed = f": the quotation mark in line {before + 1} is never closed" if "end of data" in str(error) else ""
        raise TableError(
            f"Line {rows.line_num} of '{name}' cannot be read ({error}){unclosed}; correct the line."
        ) from error
    _refuse_shape(len(header), name)
    return header


def _refuse_swallowed(values: list[str], columns: int, separator: str, line: int, name: str) -> None:
    """Raise an error if a quotation mark that is closed lines later turned several rows into one value."""
    for place, value in enumerate(values, start=1):
        breaks = value.count("\n") or value.count("\r")
        if breaks and value.count(separator) >= columns - 1:
            raise TableError(
                f"The quotation mark in line {line - breaks} of '{name}', value {place}, is closed only in line "
                f"{line}, so the rows between would be one value: close it, or double it if it is part of the text."
            )


def _refuse_duplicates(header: Iterable[str], name: str) -> None:
    names = pd.Series([column.strip() for column in header if column.strip()], dtype=object)
    twice = names[names.duplicated()].unique()
    if len(twice):
        raise TableError(
            f"The header of '{name}' names column {listed(twice)} more than once; rename or drop one. If the first "
            "line is data, write a line of names above it."
        )


def title(path: str | Path) -> str:
    """The name of a file in messages."""
    return "standard input" if str(path) == STANDARD_INPUT else str(path)


# --- dates and decimals ---------------------------------------------------------------------------------


def as_numbers(frame: pd.DataFrame, columns: Iterable[Any], note: Note) -> pd.DataFrame:
    """The frame with dates and decimals as numbers; its `attrs` name the columns that held dates."""
    frame, dates = frame.copy(deep=False), []
    for column in columns:
        kind = written = pd.api.types.infer_dtype(frame[column])
        dated = kind == "string" and all(map(ISO_DATE.fullmatch, frame[column].dropna()))
        if dated or kind in ("datetime", "datetime64"):
            kind = "date"
        if kind not in NUMBERS:
            continue
        try:
            frame[column] = _as_number(frame[column], kind)
        except (ValueError, TypeError, OverflowError):
            if written == "string":  # such as 2024-02-30
                continue
            raise TableError(
                f"Column '{column}' holds dates that cannot be counted in days: correct or drop it."
            ) from None
        dates += [column] * (kind == "date")
        note(f"Column '{column}' holds {NUMBERS[kind]}.")
    frame.attrs[DATES] = (*frame.attrs.get(DATES, ()), *dates)
    return frame


def days_in(values: pd.Series) -> NDArray[np.float64] | NDArray[np.int64]:
    """The dates of a column that held dates where the model was trained, as days since 1970-01-01."""
    try:
        return _as_number(values, "date")
    except (ValueError, TypeError, OverflowError):
        raise TableError(f"Column '{values.name}' held dates in the training rows, and holds others here.") from None


def date_of(days: float) -> str:
    """One of these days as text, with its time where it has one."""
    moment = (pd.Timestamp(0) + pd.Timedelta(days=days)).round("ms")
    return moment.isoformat(sep=" ").removesuffix(" 00:00:00")


def _as_number(values: pd.Series, kind: str) -> NDArray[np.float64] | NDArray[np.int64]:
    """The values as numbers, whole days as whole numbers; missing values stay missing."""
    numbers, present = np.full(len(values), np.nan), values.notna().to_numpy()
    if kind == "decimal":
        numbers[present] = values[present].map(float)
        return numbers
    moments = pd.to_datetime(values[present], format="ISO8601", utc=True).dt.tz_localize(None)
    numbers[present] = (moments - pd.Timestamp(0)) / pd.Timedelta(days=1)
    return numbers.astype(np.int64) if present.all() and not (numbers % 1).any() else numbers


def as_dates(days: pd.Series) -> pd.Series:
    """Days since 1970-01-01 as dates, in text."""
    moments = pd.to_datetime(days, unit="D").dt.round("s")
    known = moments.dropna()
    whole = bool((known == known.dt.normalize()).all())
    return moments.dt.strftime("%Y-%m-%d" if whole else "%Y-%m-%d %H:%M:%S")

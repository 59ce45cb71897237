"""Reads a file into a frame: text, Parquet, Feather or Excel. Notes say how it was read.

What is no table is refused with a sentence: a path that names no file, a file beyond the size limit, a binary file with
the name of a text file, a header that names a column twice, and lines that do not fit the header, which pandas would
shift or fill.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import re
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

from butfor.data.load import DATASETS
from butfor.errors import ButforError, TableError, listed, nearest

Note = Callable[[str], None]

STANDARD_INPUT = "-"
FILES = {".parquet": "parquet", ".pq": "parquet", ".feather": "parquet", ".xlsx": "excel"}
"""Binary files by the ending of their names, and the extra that reads them."""
MOST_BYTES = 2 * 1024**3
MOST_COLUMNS = 10_000


def read_file(path: str | Path, note: Note = lambda line: None) -> pd.DataFrame:
    """A file as a frame, rows numbered from 0: CSV (comma, semicolon or tab, also .gz; "-" is standard input), Parquet,
    Feather or Excel."""
    refuse_absent(path)
    name, ending = title(path), Path(path).suffix.lower()
    try:
        return _read_binary(Path(path), ending, note) if ending in FILES else _read_text(path, note)
    except ImportError as error:
        raise TableError(
            f"Reading '{name}' needs a package that is not installed: pip install \"butfor[{FILES[ending]}]\"."
        ) from error
    except ButforError:
        raise
    except Exception as error:  # readers of damaged files raise many kinds of exception
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise TableError(
            f"'{name}' cannot be read as a table ({reason}); give a CSV, Parquet, Feather or Excel file whose name "
            "ends in .csv, .parquet, .feather or .xlsx."
        ) from error


def refuse_absent(path: str | Path) -> None:
    """Raise an error if the file does not exist, is not a regular file, or is too large."""
    if str(path) == STANDARD_INPUT:
        return
    if not Path(path).exists():
        known = nearest(path, DATASETS, "Give a CSV, Parquet, Feather or Excel file, or one of")
        raise TableError(f"There is no file '{path}'. {known}")
    recordable = str(path).encode(errors="ignore").decode() == str(path)  # a name that is not UTF-8 is not
    if not recordable or not Path(path).is_file():
        raise TableError(
            f"'{path}' is a directory, a device or a pipe, or its name cannot be recorded; name a file, or - for a CSV "
            "from standard input."
        )
    _refuse_large(Path(path).stat().st_size, str(path))


def _refuse_large(size: int, name: str) -> None:
    if size > MOST_BYTES:
        raise TableError(
            f"'{name}' is larger than the limit of {MOST_BYTES / 1024**3:.1f} GB; give fewer rows or columns."
        )


def _check_header(header: list[str], name: str) -> None:
    if len(header) > MOST_COLUMNS:
        raise TableError(f"'{name}' has {len(header)} columns, above the limit of {MOST_COLUMNS}; give fewer.")
    if len(header) < 2:
        raise TableError(
            f"'{name}' is not a table: it has {len(header)} column(s). A CSV needs a header line and columns separated "
            "by comma, semicolon or tab."
        )
    names = pd.Series([column.strip() for column in header if column.strip()], dtype=object)
    twice = names[names.duplicated()].unique()
    if len(twice):
        raise TableError(
            f"The header of '{name}' names column {listed(twice)} more than once; rename or drop one. If the first "
            "line is data, write a line of names above it."
        )


def _read_binary(path: Path, ending: str, note: Note) -> pd.DataFrame:
    if ending == ".xlsx":
        with zipfile.ZipFile(path) as packed:
            _refuse_large(sum(part.file_size for part in packed.infolist()), str(path))
        with pd.ExcelFile(path, engine="openpyxl") as book:
            if len(book.sheet_names) > 1:
                note(f"'{path}': reading sheet '{book.sheet_names[0]}', the first of {len(book.sheet_names)}.")
            header = list(pd.read_excel(book, header=None, nrows=1).dropna(axis=1).to_numpy().ravel())
            frame = pd.read_excel(book)
    else:
        frame = (pd.read_feather if ending == ".feather" else pd.read_parquet)(path)
        header = list(frame.columns)
    _check_header(list(map(str, header)), str(path))
    frame = frame.reset_index(drop=True).rename(columns=str)
    for column, values in frame.items():  # pandas' nullable numbers: a record cannot hold their missing values
        if pd.api.types.is_extension_array_dtype(values.dtype) and pd.api.types.is_numeric_dtype(values.dtype):
            frame[column] = values.astype(object).where(values.notna(), np.nan).infer_objects()
    return frame


def _read_text(path: str | Path, note: Note) -> pd.DataFrame:
    name = title(path)
    content = sys.stdin.buffer.read(MOST_BYTES + 1) if str(path) == STANDARD_INPUT else Path(path).read_bytes()
    if content.startswith(b"\x1f\x8b"):
        with gzip.open(io.BytesIO(content)) as packed:
            content = packed.read(MOST_BYTES + 1)
    _refuse_large(len(content), name)
    wide = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    try:
        encoding = "utf-16" if wide else "utf-8-sig"
        text = content.decode(encoding)
    except UnicodeDecodeError:
        encoding = "cp1252"
        text = content.decode(encoding)
    if "\0" in text:
        raise ValueError("it holds binary data")
    if encoding != "utf-8-sig":
        note(f"'{name}' is not UTF-8; it was read as {encoding}.")
    first_line = text.lstrip().partition("\n")[0]
    separator = max(",;\t", key=re.sub(r'"[^"]*"', "", first_line).count)

    # pandas shifts or fills lines that do not fit the header, so every line is counted first.
    lines = csv.reader(io.StringIO(text, newline=""), delimiter=separator, skipinitialspace=True, strict=True)
    header, line = list[str](), 0
    try:
        for values in lines:
            first, line = line + 1, lines.line_num
            broken = (value for value in values if line > first and ("\n" in value or "\r" in value))
            if any(value.count(separator) >= len(header or values) - 1 for value in broken):
                raise TableError(
                    f"A quotation mark in line {first} of '{name}' is closed only in line {line}, so the rows between "
                    "would be one value: close it, or double it if it is part of the text."
                )
            if not header and any(values):
                header = values
                _check_header(header, name)
            elif header and len(values) != len(header) and (len(values) > 1 or any(map(str.strip, values))):
                raise TableError(
                    f"Line {line} of '{name}' has {len(values)} value{'s' * (len(values) != 1)}, but the header names "
                    f"{len(header)} columns: correct the line, or the header if a name is missing."
                )
    except csv.Error as error:
        unclosed = f": the quotation mark in line {line + 1} is never closed" if "end of data" in str(error) else ""
        raise TableError(
            f"Line {lines.line_num} of '{name}' cannot be read ({error}){unclosed}; correct the line."
        ) from error
    _check_header(header, name)
    if not header[0].strip():
        note(f"The first column of '{name}' has no name; it is called 'Unnamed: 0' (--drop or --id removes it).")
    return pd.read_csv(io.StringIO(text), sep=separator, skipinitialspace=True, low_memory=False, index_col=False)


def title(path: str | Path) -> str:
    """The name of a file in messages."""
    return "standard input" if str(path) == STANDARD_INPUT else str(path)

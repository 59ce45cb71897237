"""A file as a frame: text of many kinds, Parquet, Feather, Excel. What was done to it is noted in a sentence."""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from butfor.data.bounds import (
    refuse_large,
    refuse_long_lines,
    refuse_nested,
    refuse_no_file,
    refuse_swallowed,
    standard_input,
    unzipped,
)
from butfor.data.catalogue import DATASETS
from butfor.errors import SettingError, TableError, listed

STANDARD_INPUT = "-"
FILES = {".parquet": "parquet", ".pq": "parquet", ".feather": "feather", ".xlsx": "excel"}
"""Files that are not text, by how their names end."""

Note = Callable[[str], None]


def read_file(path: str | Path, note: Note | None = None, names: Sequence[str] | None = None) -> pd.DataFrame:
    """A file as a frame, rows numbered from 0: CSV (comma, semicolon or tab, also .gz; "-" is standard input), Parquet,
    Feather or Excel. `names`: of the columns of a CSV whose first line is a row like any other; none of them: they are
    numbered."""
    note, name = note or silent, called(path)
    refuse_absent(path)
    kind = FILES.get(Path(path).suffix.lower(), "text")
    try:
        if kind != "text" and names is not None:
            raise SettingError(f"--names is for CSV files without a line of names; leave it out for '{name}'.")
        frame = _read_text(path, note, names) if kind == "text" else _read_binary(Path(path), kind, note)
    except ImportError as error:
        extra = "excel" if kind == "excel" else "parquet"
        raise TableError(
            f"Reading '{name}' needs a package that is not installed: pip install \"butfor[{extra}]\"."
        ) from error
    except (TableError, SettingError):
        raise
    except Exception as error:  # readers of foreign bytes raise whatever they stumble over
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise TableError(
            f"'{name}' is not a table that can be read ({reason}); give a CSV, Parquet, Feather or Excel file."
        ) from error
    if frame.shape[1] < 2:
        raise TableError(_no_table(name, frame.shape[1]))
    return frame


def _read_binary(path: Path, kind: str, note: Note) -> pd.DataFrame:
    refuse_large(path, kind)
    if kind != "excel":
        frame = (pd.read_parquet if kind == "parquet" else pd.read_feather)(path)
        _refuse_twice(map(str, frame.columns), str(path))
    else:
        with pd.ExcelFile(path, engine="openpyxl") as book:
            if len(book.sheet_names) > 1:
                note(f"'{path}': reading sheet '{book.sheet_names[0]}', the first of {len(book.sheet_names)}.")
            header = pd.read_excel(book, header=None, nrows=1)
            _refuse_twice(map(str, header.dropna(axis=1).to_numpy().ravel()), str(path))
            frame = pd.read_excel(book)
    frame = frame.reset_index(drop=True).rename(columns=str)
    refuse_nested(frame, str(path))
    return frame.assign(**{c: _without_na(frame[c]) for c in frame.columns})


def _without_na(values: pd.Series) -> pd.Series:
    """Columns of pandas' nullable types as a text file has them, whose missing values a record can hold."""
    if not pd.api.types.is_extension_array_dtype(values.dtype):
        return values
    if pd.api.types.is_bool_dtype(values.dtype):
        return values.astype(object).where(values.notna(), np.nan) if values.isna().any() else values.astype(bool)
    if not pd.api.types.is_numeric_dtype(values.dtype):
        return values
    return values.astype(np.float64) if values.isna().any() else pd.Series(values.to_numpy(), values.index)


def _read_text(path: str | Path, note: Note, names: Sequence[str] | None = None) -> pd.DataFrame:
    name = called(path)
    content = standard_input(name) if str(path) == STANDARD_INPUT else Path(path).read_bytes()
    text = _decoded(content, name, note)
    refuse_long_lines(text, name)
    separator = _separator(text)
    header = _check_lines(text, separator, name, names)
    if names is not None:
        return pd.read_csv(
            io.StringIO(text), sep=separator, skipinitialspace=True, low_memory=False, index_col=False, header=None,
            names=header,
        )  # fmt: skip
    if not header[0].strip():
        note(
            f"The first column of '{name}' has no name; it is called 'Unnamed: 0' (leave it out with --drop, or --id)."
        )
    return pd.read_csv(io.StringIO(text), sep=separator, skipinitialspace=True, low_memory=False, index_col=False)


def _decoded(content: bytes, name: str, note: Note) -> str:
    """A text file's content: UTF-8, UTF-16 where it says so itself, else what Windows writes."""
    if content.startswith(b"\x1f\x8b"):
        content = unzipped(content, name)
    wide = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    for encoding in ("utf-16",) if wide else ("utf-8-sig", "cp1252", "latin-1"):
        try:
            text = content.decode(encoding)
            break
        except UnicodeDecodeError:
            if wide:
                raise
    if "\0" in text:
        raise ValueError("it holds binary data")
    if encoding != "utf-8-sig":
        note(f"'{name}' is not in UTF-8; it was read as {encoding}.")
    return text


def _separator(text: str) -> str:
    header = text.lstrip().partition("\n")[0]
    return max(",;\t", key=re.sub(r'"[^"]*"', "", header).count)


def _check_lines(text: str, separator: str, name: str, names: Sequence[str] | None = None) -> list[str]:
    """The header, once every line is known to have as many values as it: pandas would shift the columns of longer ones
    and fill up shorter ones. `names` stand in for a header that the file does not have."""
    lines = csv.reader(io.StringIO(text, newline=""), delimiter=separator, skipinitialspace=True, strict=True)
    header: list[str] = []
    for values in _rows_of(lines, name):
        refuse_swallowed(values, len(header or values), separator, lines.line_num, name)
        if not header:
            header = values if any(values) else []
            if len(header) == 1:
                raise TableError(_no_table(name, 1))
            if names and header and len(names) != len(header):
                raise SettingError(f"--names has {len(names)} names, but '{name}' has {len(header)} columns.")
        elif len(values) != len(header) and (len(values) > 1 or any(map(str.strip, values))):
            plural = "s" * (len(values) != 1)
            raise TableError(
                f"Line {lines.line_num} of '{name}' has {len(values)} value{plural}, but the header names "
                f"{len(header)} columns: mend the line, or the header if it lacks a name."
            )
    if not header:
        raise TableError(_no_table(name, 0))
    if names is not None:
        header = list(names) or [f"column {k}" for k in range(1, len(header) + 1)]
        twice = sorted({column for column in header if header.count(column) > 1})
        if twice:
            raise SettingError(f"--names has {listed(twice)} more than once.")
        return header
    _refuse_twice(header, name)
    return header


def _rows_of(lines: Any, name: str) -> Iterator[list[str]]:
    """The rows of a CSV reader; what it cannot read is told with its line."""
    before = 0
    try:
        for values in lines:
            before = lines.line_num
            yield values
    except csv.Error as error:
        unclosed = f": the quotation mark in line {before + 1} is never closed" if "end of data" in str(error) else ""
        raise TableError(
            f"Line {lines.line_num} of '{name}' cannot be read ({error}){unclosed}; mend the line."
        ) from error


def _refuse_twice(header: Iterable[str], name: str) -> None:
    names = [column.strip() for column in header if column.strip()]
    twice = [column for column in dict.fromkeys(names) if names.count(column) > 1]
    if twice:
        raise TableError(
            f"The header of '{name}' names column {listed(twice)} more than once; rename or drop one, or give "
            "the names with --names if the first line is a row like any other."
        )


def refuse_absent(path: str | Path) -> None:
    """An error where there is no such file."""
    if str(path) == STANDARD_INPUT:
        return
    if not Path(path).exists():
        raise TableError(f"There is no file '{path}'. Give a CSV or Parquet file, or one of {', '.join(DATASETS)}.")
    refuse_no_file(path)


def _no_table(name: str, columns: int) -> str:
    return (
        f"'{name}' is not a table: it has {columns} column(s). A CSV needs a header line and "
        "columns separated by comma, semicolon or tab."
    )


def called(path: str | Path) -> str:
    """What a file is called in messages."""
    return "standard input" if str(path) == STANDARD_INPUT else str(path)


def silent(line: str) -> None:
    """Nobody listens."""

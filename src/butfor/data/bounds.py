"""What may be read as a table at all: a file of a size that fits, its cells numbers, texts, truth values or dates.

Everything here is known before a file is taken into memory, or while it is: no device, pipe or archive can keep a
reader busy without end.
"""

from __future__ import annotations

import datetime
import decimal
import stat
import sys
import zipfile
import zlib
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pandas as pd

from butfor.errors import TableError, listed

MOST_BYTES = 2 * 1024**3
MOST_COLUMNS = 10_000
LONGEST_LINE = 1_000_000
PIECE = 1024**2
PLAIN = (
    str, bytes, bool, int, float, np.generic, decimal.Decimal, datetime.date, datetime.datetime, datetime.time,
    datetime.timedelta,
)  # fmt: skip

SMALLER = "give fewer rows or columns"


def refuse_no_file(path: str | Path) -> None:
    """An error where a path that exists is no file that can be read through, or has a name that no record can hold."""
    try:
        str(path).encode("utf-8")
    except UnicodeEncodeError:
        raise TableError(
            f"The name of '{path}' is not UTF-8, so that no record can hold it; rename the file."
        ) from None
    about = Path(path).stat()
    kinds = {stat.S_ISDIR: "a directory", stat.S_ISFIFO: "a pipe", stat.S_ISSOCK: "a socket"}
    if not stat.S_ISREG(about.st_mode):
        kind = next((word for test, word in kinds.items() if test(about.st_mode)), "a device")
        remedy = (
            "name the CSV or Parquet file inside it"
            if kind == "a directory"
            else "name a file, or - to read a CSV from standard input"
        )
        raise TableError(f"'{path}' is {kind}; {remedy}.")
    if about.st_size > MOST_BYTES:
        raise TableError(f"'{path}' has {about.st_size / 1024**3:.1f} GB, above the limit of {_limit()}; {SMALLER}.")


def all_bytes(stream: BinaryIO, name: str) -> bytes:
    """What a stream holds, up to the limit."""
    pieces, size = [], 0
    while piece := stream.read(PIECE):
        size += len(piece)
        if size > MOST_BYTES:
            raise TableError(f"'{name}' has more than {_limit()}; {SMALLER}.")
        pieces.append(piece)
    return b"".join(pieces)


def unzipped(content: bytes, name: str) -> bytes:
    """What a gzip file holds, also of several parts, up to the limit."""
    pieces, size = [], 0
    while content:
        unpack = zlib.decompressobj(wbits=31)
        while not unpack.eof:
            piece = unpack.decompress(content, PIECE)
            content = unpack.unconsumed_tail
            size += len(piece)
            if size > MOST_BYTES:
                raise TableError(f"'{name}' unpacks to more than {_limit()}; {SMALLER}.")
            if not piece and not content and not unpack.eof:
                raise ValueError("it ends in the middle")
            pieces.append(piece)
        content = unpack.unused_data.lstrip(b"\0")
    return b"".join(pieces)


def refuse_large(path: Path, kind: str) -> None:
    """An error where a Parquet, Feather or Excel file is small but would not be in memory."""
    if kind == "excel":
        with zipfile.ZipFile(path) as book:
            size = sum(part.file_size for part in book.infolist())
    elif kind == "parquet":
        from pyarrow.parquet import ParquetFile

        with ParquetFile(path) as file:
            about = file.metadata
            size = about.num_rows * max(1, about.num_columns) * 8
            _refuse_wide(about.num_columns, str(path))
    else:
        return
    if size > 4 * MOST_BYTES:
        raise TableError(f"'{path}' unpacks to {size / 1024**3:.0f} GB, above the limit of {_limit(4)}; {SMALLER}.")


def refuse_long_lines(text: str, name: str) -> None:
    """An error that names the first line nobody can have meant."""
    start = number = 0
    while start < len(text):
        number += 1
        stop = text.find("\n", start)
        stop = len(text) if stop < 0 else stop
        if stop - start > LONGEST_LINE:
            raise TableError(
                f"Line {number} of '{name}' has {stop - start} characters, above the limit of {LONGEST_LINE}: is it a "
                "table of one person per line?"
            )
        start = stop + 1


def refuse_swallowed(values: list[str], columns: int, separator: str, line: int, name: str) -> None:
    """An error where a quotation mark that is never closed, or only lines later, has made several rows one value."""
    if len(values) > MOST_COLUMNS:
        _refuse_wide(len(values), name)
    for place, value in enumerate(values):
        breaks = value.count("\n") or value.count("\r")
        if breaks and value.count(separator) >= columns - 1:
            raise TableError(
                f"The quotation mark in line {line - breaks} of '{name}', value {place + 1}, is closed only in line "
                f"{line}, and the rows between them would be one value: close it, or double it where it is meant."
            )


def refuse_nested(frame: pd.DataFrame, name: str) -> None:
    """An error where cells hold anything larger than a single value, or columns are of a type nothing here knows."""
    for place, column in enumerate(frame.columns):
        values = frame.iloc[:, place]
        if str(values.dtype).startswith(("period", "interval", "complex", "Sparse")):
            raise TableError(f"Column '{column}' of '{name}' is of type {values.dtype}; {_TURN}.")
        if values.dtype != object:
            continue
        strange = {type(value) for value in values[values.notna()] if not isinstance(value, PLAIN)}
        if strange:
            words = listed(sorted(kind.__name__ for kind in strange))
            raise TableError(f"Column '{column}' of '{name}' holds {words} instead of single values; {_TURN}.")


_TURN = "turn it into numbers or text, or leave the column out of the file"


def _refuse_wide(columns: int, name: str) -> None:
    if columns > MOST_COLUMNS:
        raise TableError(f"'{name}' has {columns} columns, above the limit of {MOST_COLUMNS}; give fewer.")


def _limit(times: int = 1) -> str:
    return f"{times * MOST_BYTES / 1024**3:.0f} GB"


def standard_input(name: str) -> bytes:
    """What comes in through a pipe."""
    if sys.stdin is None:
        raise TableError("There is no standard input to read a table from; name a file.")
    return all_bytes(sys.stdin.buffer, name)

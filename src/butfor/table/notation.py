"""Numbers and dates as people write them: 1.234,50, 12 %, 29.02.2024.

Nothing is guessed: 1.234 is a thousand in one country and one in another. A column that looks like
numbers or dates in another notation is recognised, and the sentence about it names the options that
read it, `--decimal` and `--day-first`. Until one is given, every value is a category of its own and
nobody has comparable people, so groups are not compared.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from butfor.support.errors import (
    SettingError,
    TableError,
    listed,
    plural,
    shortened,
)
from butfor.table.columns import is_numeric

MIN_TEXTS = 20
"""So many different texts that are numbers are a number, not codes."""
DECIMALS = (",", ".")
DAY_FIRST = "day-first"
WRITTEN = re.compile(
    r"[-+−]?[$€£]? ?(\d+,\d+|(?!0)\d{1,3}([,.' ]\d{3})+([,.]\d+)?|\d+([,.]\d+)? ?[%$€£])"
    r"|(0?[1-9]|[12]\d|3[01])([./-])(0?[1-9]|[12]\d|3[01])\6(\d\d)?\d\d"
)
"""1234,5, 1.234,50, 1,234, 12.5 %, 29.02.2024 or 2/29/2024."""
SPACES = " \u00a0\u202f'\u2019"
"""Between thousands, besides the sign that is not the decimal one."""
DATE = re.compile(r"(\d{1,2})([./-])(\d{1,2})\2(\d{4}|\d\d)(?:[ T](\d\d:\d\d(?::\d\d)?))?")
FIRST_YEAR_OF_1900 = 69
"""Years of two digits from here on are those of 19xx, as in POSIX."""
WRITE = "Write numbers as 1234.5 and dates as 2024-02-29"
MAX_SHOWN = 5


def number_in(decimal: str) -> re.Pattern[str]:
    """A number with this decimal sign; thousands may be apart by the other sign, a space or an
    apostrophe."""
    sign = re.escape(decimal)
    other = re.escape("." if decimal == "," else ",")
    whole = rf"\d{{1,3}}(?P<apart>[{other}{SPACES}])\d{{3}}(?:(?P=apart)\d{{3}})*|\d+"
    number = rf"(?P<number>(?:{whole})(?:{sign}\d+)?(?:[eE][-+]?\d+)?)"
    return re.compile(rf"(?P<sign>[-+−]?)[$€£]?[ \u00a0]?{number}[ \u00a0]?[%$€£]?")


NUMBERS = {decimal: number_in(decimal) for decimal in DECIMALS}


def number_of(text: str, decimal: str) -> float | None:
    """The number that a text means; None if it is none. A sign of a currency or per cent is left
    out."""
    read = NUMBERS[decimal].fullmatch(text.strip())
    if read is None:
        return None
    digits = re.sub(rf"[{SPACES}{'.' if decimal == ',' else ','}]", "", read["number"]).replace(
        decimal, "."
    )
    return float(f"{read['sign'].replace('−', '-')}{digits}")


def date_of_text(text: str) -> str | None:
    """A date with the day first, as 2024-02-29, with its time; None if it is none."""
    read = DATE.fullmatch(text.strip())
    if read is None:
        return None
    year = int(read[4])
    if len(read[4]) == 2:
        year += 2000 if year < FIRST_YEAR_OF_1900 else 1900
    date = f"{year:04d}-{int(read[3]):02d}-{int(read[1]):02d}"
    if pd.isna(pd.to_datetime(date, format="%Y-%m-%d", errors="coerce")):
        return None
    return date if read[5] is None else f"{date} {read[5]}"


def check_decimal(decimal: Any) -> None:
    if decimal is not None and decimal not in DECIMALS:
        raise SettingError(f"decimal={decimal!r} is neither ',' nor '.'.")


def read_notation(frame: pd.DataFrame, decimal: str | None, day_first: bool) -> pd.DataFrame:
    """The table with columns of text read as numbers with this decimal sign (None: they stay), and
    as dates with the day first, as 2024-02-29. A column with a value that cannot be read stays as
    it is; `unread` says what it holds."""
    check_decimal(decimal)
    ways = [*([] if decimal is None else [decimal]), *([DAY_FIRST] if day_first else [])]
    frame = frame.copy(deep=False)
    for place in range(frame.shape[1] if ways else 0):
        values = frame.iloc[:, place]
        if is_numeric(values) or pd.api.types.is_bool_dtype(values.dtype):
            continue
        different = pd.unique(values.dropna())
        if not any(isinstance(value, str) for value in different):
            continue
        for way in ways:
            meaning = {value: _read(value, way) for value in different}
            if None not in meaning.values():
                cells = values.astype(object).map(meaning)
                if way != DAY_FIRST:
                    cells = _whole(cells)
                frame.isetitem(place, cells.to_numpy())
                break
    return frame


def _read(value: Any, way: str) -> Any:
    """A cell as a number with the decimal sign `way`, or as a date with the day first; None if it
    cannot be read so."""
    if isinstance(value, str):
        return date_of_text(value) if way == DAY_FIRST else number_of(value, way)
    number = isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
    return value if number and way != DAY_FIRST else None


def _whole(cells: pd.Series) -> pd.Series:
    """Numbers as pandas reads them: whole ones are whole numbers unless a value is missing."""
    numbers = cells.astype(np.float64)
    whole = numbers.notna().all() and not (numbers % 1).any() and (numbers.abs() < 2**53).all()
    return numbers.astype(np.int64) if whole else numbers


# --- recognised -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Unread:
    """A column of numbers or dates in another notation. `options`: those that read most of its
    values; `strange`: what else it holds, in words, empty if nothing."""

    example: str
    options: tuple[str, ...]
    strange: str

    @property
    def holds(self) -> str:
        """ "text such as '1.234,50', but also 2 spellings in 9 cells that are none: 'k.A.' in 8,
        '?' in 1"."""
        also = f", but also {self.strange}" if self.strange else ""
        return f"text such as '{shortened(self.example, 30)}'{also}"

    @property
    def remedy(self) -> str:
        """What to do about it, a sentence."""
        empty = "leave the other cells empty" if self.strange else ""
        if not self.options:
            return f"{WRITE}{f', and {empty}' if empty else ''}."
        whichever = ", whichever is meant," if len(self.options) > 1 else ""
        return (
            f"Give {' or '.join(self.options)}{whichever} {f'and {empty} ' if empty else ''}to "
            "have it read."
        )


def unread(values: pd.Series) -> Unread | None:
    """What a column of at least twenty different texts holds if most of them are numbers or dates
    in another notation; None of any other column."""
    if is_numeric(values):
        return None
    different = [value for value in pd.unique(values.dropna()) if isinstance(value, str)]
    written = [text for text in different if WRITTEN.fullmatch(text.strip())]
    if len(different) < MIN_TEXTS or len(written) <= len(different) / 2:
        return None
    read = {
        way: [text for text in different if _read(text, way) is not None]
        for way in (*DECIMALS, DAY_FIRST)
    }
    most = max(map(len, read.values()))
    ways = [way for way, texts in read.items() if len(texts) == most and most > len(different) / 2]
    readable = set(read[ways[0]] if ways else written)
    strange = values[values.notna() & ~values.isin(readable)]
    options = tuple(f"--{DAY_FIRST}" if way == DAY_FIRST else f"--decimal {way}" for way in ways)
    example = next((text for text in written if text in readable), written[0])
    return Unread(example, options, unreadable(strange.value_counts()) if len(strange) else "")


def unreadable(counts: pd.Series) -> str:
    """Every spelling that is no number or date, in words: how many there are, and in how many
    cells. `counts`: by spelling, the most frequent first."""
    shown = ", ".join(
        f"'{shortened(text, 30)}' in {count}" for text, count in counts.head(MAX_SHOWN).items()
    )
    more = f" and {len(counts) - MAX_SHOWN} more" if len(counts) > MAX_SHOWN else ""
    are = "is" if len(counts) == 1 else "are"
    spellings = plural(len(counts), "spelling")
    cells = plural(counts.sum(), "cell")
    return f"{spellings} in {cells} that {are} none: {shown}{more}"


def refuse_unread(X: pd.DataFrame) -> None:
    """Raise an error if columns hold numbers or dates in another notation: with a category for
    every value nobody has comparable people."""
    columns = dict[Any, Unread]()
    for name in X.columns:
        about = unread(X[name])
        if about is not None:
            columns[name] = about
    if not columns:
        return
    remedies = dict.fromkeys(about.remedy for about in columns.values())
    if all(len(about.options) == 1 and not about.strange for about in columns.values()):
        options = sorted({option for about in columns.values() for option in about.options})
        them = "it" if len(columns) == 1 else "them"
        remedies = {f"Give {' and '.join(options)} to have {them} read.": None}
    subject = f"Column {listed(columns)} holds"
    if len(columns) > 1:
        subject = f"Columns {listed(columns)} hold"
    raise TableError(
        f"{subject} numbers or dates in another notation, {next(iter(columns.values())).holds}: "
        f"with a category for every value nobody is comparable. {' '.join(remedies)}"
    )

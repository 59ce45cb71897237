"""The list of people: a row each, ready to be sorted and filtered, and small enough for ten thousand of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup, escape

from butfor.report.values import short, shown, told_apart
from butfor.report.words import CLOSE_SIGN, SIGN, SOLIDITY_SIGN
from butfor.result.record import signed
from butfor.result.verdict import Verdict

LONGEST = 40
"""Characters of a value in the list."""
APART = ", "
"""Between the words of one cell."""
ROOM = 1_800_000
"""Bytes that the list of an index may take, so that the whole stays below 2 MB."""


@dataclass(frozen=True)
class Column:
    name: str
    cell: Callable[[Verdict], str]


@dataclass(frozen=True)
class Roster:
    """The list as HTML: its heading, its rows, and what did not fit."""

    columns: tuple[str, ...]
    rows: Markup
    listed: int
    dropped: tuple[str, ...] = ()


def roster(
    people: Sequence[tuple[Verdict, str]], sensitive: str, room: float = float("inf"), least: bool = False
) -> Roster:
    """The list of people, each with the address of more about them, or none. Where there is no room, the last columns
    go first, then the last people; `least` leaves them out from the start."""
    group = told_apart((verdict.group for verdict, _ in people), LONGEST)
    columns = columns_of_people(sensitive, group)[: LEAST_COLUMNS if least else None]
    cells = [_cells(columns, verdict, address) for verdict, address in people]
    kept = len(columns)
    while kept > LEAST_COLUMNS and sum(len(_row(row[:kept])) + 1 for row in cells) > room:
        kept -= 1
    rows, spent = [], 0
    for row in cells:
        text = _row(row[:kept])
        spent += len(text) + 1
        if spent > room:
            break
        rows.append(text.decode())
    headings = tuple(column.name for column in columns)
    return Roster(headings[:kept], Markup("\n".join(rows)), len(rows), headings[kept:])


def _cells(columns: Sequence[Column], verdict: Verdict, address: str) -> list[str]:
    first, *others = (str(escape(column.cell(verdict))) for column in columns)
    return [f'<a href="{escape(address)}">{first}</a>' if address else first, *others]


def _row(cells: Sequence[str]) -> bytes:
    """A row without the end tags that HTML lets one leave out."""
    return f"<tr><th>{'<td>'.join(cells)}".encode()


LEAST_COLUMNS = 7
"""Person, id, group, decision, result, solidity and distance stay."""


def columns_of_people(sensitive: str, group: Callable[[Any], str]) -> list[Column]:
    """In the order of their weight. The style and the script know them by their places. `group`: how to show one."""
    return [
        Column("Person", lambda v: str(v.case) if v.case is not None else f"row {shown(v.row, LONGEST)}"),
        Column("Id", lambda v: shown(v.row, LONGEST)),
        Column(short(sensitive, LONGEST), lambda v: group(v.group)),
        Column("Decision", lambda v: short(v.prediction, LONGEST)),
        Column("Result", _result),
        Column("Solidity", _solidity),
        Column("Distance", lambda v: _count(v.distance)),
        Column("Flips", lambda v: _count(len(v.positions) if v.found else None)),
        Column("Logit", lambda v: signed(v.logit)),
        Column("After, or closest", _after),
        Column("Attempts", lambda v: _count(v.attempts or None)),
    ]


def _result(verdict: Verdict) -> str:
    unfinished = "" if verdict.complete else f"{APART}⚠ incomplete"
    return f"{SIGN[verdict.status]} {verdict.status.replace('_', ' ')}{unfinished}"


def _solidity(verdict: Verdict) -> str:
    words = [f"{SOLIDITY_SIGN[verdict.solidity]} {verdict.solidity}"] if verdict.solidity else []
    return APART.join([*words, *([f"{CLOSE_SIGN} close call"] if verdict.close_call else [])])


def _after(verdict: Verdict) -> str:
    after = verdict.counterfactual_logit if verdict.found else verdict.closest_logit
    return "" if after is None else signed(after)


def _count(number: int | None) -> str:
    return "" if number is None else str(number)

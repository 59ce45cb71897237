"""The list of people: a row each, ready to be sorted and filtered, and small enough for ten thousand of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup, escape

from butfor.report.text import short, shown, told_apart
from butfor.result.record import signed
from butfor.result.verdict import Verdict
from butfor.result.words import CLOSE_CALL, SOLIDITY, STATUS

LONGEST = 40
"""Characters of a value in the list."""
ROOM = 1_800_000
"""Bytes that the list of an index may take, so that the whole stays below 2 MB."""
LEAST_COLUMNS = 7
"""Person, id, group, decision, result, solidity and distance stay."""


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
    about = ("Person", "Id", short(sensitive, LONGEST), "Decision", "Result", "Solidity", "Distance", "Flips", "Logit")
    heads = (*about, "After, or closest", "Attempts")[: LEAST_COLUMNS if least else None]
    group = told_apart((verdict.group for verdict, _ in people), LONGEST)
    cells = [_cells(verdict, address, group) for verdict, address in people]
    kept = len(heads)
    while kept > LEAST_COLUMNS and sum(len(_row(row[:kept])) + 1 for row in cells) > room:
        kept -= 1
    rows, spent = [], 0
    for row in cells:
        text = _row(row[:kept])
        spent += len(text) + 1
        if spent > room:
            break
        rows.append(text.decode())
    return Roster(heads[:kept], Markup("\n".join(rows)), len(rows), heads[kept:])


def _row(cells: Sequence[str]) -> bytes:
    """A row without the end tags that HTML lets one leave out."""
    return f"<tr><th>{'<td>'.join(cells)}".encode()


def _cells(v: Verdict, address: str, group: Callable[[Any], str]) -> list[str]:
    """In the order of their weight. The style and the script know columns by their places."""
    after = v.counterfactual_logit if v.found else v.closest_logit
    words = [f"{SOLIDITY[v.solidity].sign} {v.solidity}"] if v.solidity else []
    words += [f"{CLOSE_CALL.sign} close call"] if v.close_call else []
    cells = [
        str(v.case) if v.case is not None else f"row {shown(v.row, LONGEST)}",
        shown(v.row, LONGEST),
        group(v.group),
        short(v.prediction, LONGEST),
        f"{STATUS[v.status].sign} {v.status.replace('_', ' ')}{'' if v.complete else ', ⚠ incomplete'}",
        ", ".join(words),
        _count(v.distance),
        _count(len(v.positions) if v.found else None),
        signed(v.logit),
        "" if after is None else signed(after),
        _count(v.attempts or None),
    ]
    first, *others = (str(escape(cell)) for cell in cells)
    return [f'<a href="{escape(address)}">{first}</a>' if address else first, *others]


def _count(number: int | None) -> str:
    return "" if number is None else str(number)


def anchors(verdicts: Sequence[Verdict]) -> list[str]:
    """One id per person: its case number, and a counter where that does not tell people apart."""
    seen: Counter[str] = Counter()
    named = []
    for verdict in verdicts:
        name = f"case-{verdict.case}" if verdict.case is not None else "person"
        seen[name] += 1
        alone = seen[name] == 1 and verdict.case is not None
        named.append(name if alone else f"{name}{'-' if verdict.case is None else '.'}{seen[name]}")
    return named

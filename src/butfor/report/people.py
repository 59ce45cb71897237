"""The list of people: a row each, ready to be sorted and filtered, and small enough for ten thousand of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from markupsafe import Markup, escape

from butfor.report.text import shown, without_middle
from butfor.result.record import signed
from butfor.result.verdict import Verdict
from butfor.result.words import CLOSE_CALL, SOLIDITY, STATUS

LONGEST = 40
"""Characters of a value in the list."""
ABOUT = ("Decision", "Result", "Solidity", "Distance", "Flips", "Logit", "After, or closest", "Attempts")


def roster(people: Sequence[tuple[Verdict, str]], sensitive: str) -> tuple[tuple[str, ...], Markup]:
    """The headings and the rows of the list of people, each with the address of more about them. Rows are without the
    end tags that HTML lets one leave out."""
    rows = (f"<tr><th>{'<td>'.join(_cells(verdict, address))}" for verdict, address in people)
    return ("Person", "Id", shown(sensitive, LONGEST), *ABOUT), Markup("\n".join(rows))


def _cells(v: Verdict, address: str) -> list[str]:
    """In the order of their weight. The style and the script know columns by their places."""
    after = v.counterfactual_logit if v.found else v.closest_logit
    words = [f"{SOLIDITY[v.solidity].sign} {v.solidity}"] if v.solidity else []
    words += [f"{CLOSE_CALL.sign} close call"] if v.close_call else []
    cells = [
        str(v.case) if v.case is not None else f"row {shown(v.row, LONGEST)}",
        shown(v.row, LONGEST),
        without_middle(v.group, LONGEST),
        shown(v.prediction, LONGEST),
        f"{STATUS[v.status].sign} {v.status.replace('_', ' ')}{'' if v.complete else ', ⚠ incomplete'}",
        ", ".join(words),
        _count(v.distance),
        _count(len(v.positions) if v.found else None),
        signed(v.logit),
        "" if after is None else signed(after),
        _count(v.attempts or None),
    ]
    first, *others = (str(escape(cell)) for cell in cells)
    return [f'<a href="{escape(address)}">{first}</a>', *others]


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

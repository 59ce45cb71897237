"""The reviewer's page: one HTML file that asks one task at a time and writes the answers as CSV.

It contains only what the reviewer may see, and nothing that tells the kinds of tasks apart. It loads nothing and sends
nothing.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Sequence
from typing import Any

import pandas as pd

from butfor.data.labels import EQUALS
from butfor.files import harmless
from butfor.report.text import missing, plain_number, short

MOST_NAMED, LONGEST = 5, 80
"""The most labels that the question names, and the most characters of a name."""


def question(column: str | None, labels: Sequence[str], adverse: Collection[str] = ()) -> str:
    """The question in the table's words: "deny: yes (unfavourable) or no (favourable)?". `column`: the label's, if it
    has a name. `adverse`: the labels that people would rather not have, if known."""
    known = {label: "unfavourable" if label in adverse else "favourable" for label in labels if adverse}
    values = [short(label.removeprefix(f"{column}{EQUALS}"), LONGEST) for label in labels]
    told = [f"{value} ({known[label]})" if known else value for label, value in zip(labels, values, strict=True)]
    choice = (
        f"{', '.join(told[:-1])} or {told[-1]}?" if len(labels) <= MOST_NAMED else f"which of {len(labels)} labels?"
    )
    name = short(column or "", LONGEST)
    return f"{name}: {choice}" if name else choice[0].upper() + choice[1:]


def what_to_look_at(file_column: str | None) -> str:
    """What reviewers judge by; the same on the page and in the instructions."""
    if file_column is None:
        return "Judge every person only by what is shown; do not look anybody up."
    return (
        f"Look up every person's original file: '{short(file_column, LONGEST)}' names it. Judge by that file. It may "
        "tell the person's group, so this review is not blind to the group."
    )


def reviewer_page(
    shown: pd.DataFrame, asked: str, labels: Sequence[str], unsure: str, file_column: str | None = None
) -> str:
    """The page. `shown`: one row per task, by id. `unsure`: the answer of a reviewer who cannot tell."""
    from butfor.report.page import own_parts, render

    columns = [shown.iloc[:, k].astype(object) for k in range(shown.shape[1])]
    tasks = [[str(number), *map(_text, values)] for number, *values in zip(shown.index, *columns, strict=True)]
    data: dict[str, Any] = {
        "question": asked,
        "look": what_to_look_at(file_column),
        "labels": list(labels),
        "written": list(map(harmless, labels)),  # in a file that a spreadsheet may open
        "unsure": unsure,
        "columns": list(map(str, shown.columns)),
        "tasks": tasks,
    }
    # Browsers store answers under this name, so that reviews do not mix.
    data["review"] = hashlib.sha256(json.dumps(data).encode()).hexdigest()[:32]
    return render("reviewer.html", data=data, **own_parts("reviewer.css", "reviewer.js"))


def _text(value: Any) -> str | None:
    """A value as text, numbers rounded; None if it is missing."""
    if missing(value):
        return None
    if isinstance(value, float):
        return plain_number(value).replace("−", "-")
    return str(value).removesuffix(" 00:00:00") if isinstance(value, pd.Timestamp) else str(value)

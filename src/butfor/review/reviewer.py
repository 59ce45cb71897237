"""What the reviewer gets, and the key beside it.

tasks/review.html          a page that asks one task at a time and saves the answers
tasks/tasks.csv            one row per label, and an empty column to fill in
tasks/tasks.json           the same for Label Studio, with
tasks/label_config.xml     the project's labelling interface
tasks/instructions.txt     what to do, in a few lines
tasks.key.json             beside the folder: each task's row, recorded label and kind

The page loads nothing and sends nothing. No file tells the kinds of tasks apart.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pandas as pd

from butfor.errors import SettingError
from butfor.files import RESULTS, as_csv, harmless, save_all
from butfor.report.text import missing, plain_number, short
from butfor.result.record import plain, with_checksum
from butfor.review.tasks import CANNOT_TELL, ID, LABEL, LONGEST, Review

SECRET = {"note": "Not for the reviewer: each task's training row, recorded label, and why it is asked."}
INSTRUCTIONS = """\
Which label is right for this person? {}

Open review.html in a browser: it asks about one person at a time. When you are done, press "Save answers" and return
the file answers.csv.

Or fill in tasks.csv, one row per person. Write into its column 'label' the label that is right:

    {}

If you cannot tell, write 'cannot tell'. Do not change the column 'id': it names the review and the task.

{}

Or use Label Studio: create a project, paste label_config.xml as its labelling interface, import tasks.json, and export
the answers as JSON.
"""


def write_review(
    review: Review, folder: Path, key: Path | None = None, overwrite: bool = False
) -> tuple[list[Path], Path]:
    """Write the reviewer's files into `folder` and the key beside it, all or none. Returns the files and the key.
    Existing files, which may be somebody's work, are replaced only with `overwrite`."""
    folder = folder.resolve()
    key = key_of(folder) if key is None else key.resolve()
    if folder == key.parent or folder in key.parents:
        raise SettingError(
            f"--key {key} is in the reviewer's folder, and the reviewer must not see it; put it elsewhere."
        )
    secret = [name for name in RESULTS if name != "tasks.csv" and (folder / name).exists()]
    if secret:
        raise SettingError(
            f"'{folder}' contains {secret[0]}, which the reviewer must not see: name another folder for the tasks."
        )
    names, file_column = review.key.label_names, review.key.file_column
    look = f"{what_to_look_at(file_column)} Take the tasks in any order."
    # Columns of the table that have a name of ours are renamed, and an empty column is to be filled in.
    taken = {c: f"{c} (of the table)" for c in review.shown.columns if str(c) in (ID, LABEL)}
    to_fill = review.shown.rename(columns=taken).assign(**{LABEL: ""})
    studio = [
        {"data": {ID: str(number), "row": {str(c): None if pd.isna(v) else plain(v) for c, v in row.items()}}}
        for number, row in review.shown.astype(object).iterrows()
    ]
    shown = {
        folder / "tasks.csv": as_csv(to_fill),
        folder / "tasks.json": json.dumps(studio, indent=1, ensure_ascii=False),
        folder / "label_config.xml": label_config(review.question, names),
        folder / "instructions.txt": INSTRUCTIONS.format(review.question, "\n    ".join(names), look),
        folder / "review.html": reviewer_page(review.shown, review.question, names, file_column),
    }
    there = [path for path in (*shown, key) if path.exists()]
    if there and not overwrite:
        raise SettingError(
            f"'{there[0]}' exists and may belong to a review under way: name another folder, or replace it with "
            "--overwrite."
        )
    save_all(shown | {key: json.dumps(with_checksum(SECRET | asdict(review.key)), indent=1, ensure_ascii=False)})
    return list(shown), key


def key_of(folder: Path) -> Path:
    """The default place of the key: beside the folder."""
    return folder.with_name(f"{folder.name}.key.json")


def what_to_look_at(file_column: str | None) -> str:
    """What reviewers judge by; the same on the page and in the instructions."""
    if file_column is None:
        return "Judge every person only by what is shown; do not look anybody up."
    return (
        f"Look up every person's original file: '{short(file_column, LONGEST)}' names it. Judge by that file. It may "
        "tell the person's group, so this review is not blind to the group."
    )


def reviewer_page(shown: pd.DataFrame, asked: str, labels: Sequence[str], file_column: str | None = None) -> str:
    """The page. `shown`: one row per task, by id."""
    from butfor.report.page import own_parts, render

    columns = [shown.iloc[:, k].astype(object) for k in range(shown.shape[1])]
    tasks = [[str(number), *map(_text, values)] for number, *values in zip(shown.index, *columns, strict=True)]
    data: dict[str, Any] = {
        "question": asked,
        "look": what_to_look_at(file_column),
        "labels": list(labels),
        "written": list(map(harmless, labels)),  # in a file that a spreadsheet may open
        "unsure": CANNOT_TELL,
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


def label_config(asked: str, names: Sequence[str]) -> str:
    """Label Studio's labelling interface: the question, the row and the choices."""
    view = ElementTree.Element("View")
    ElementTree.SubElement(view, "Header", value=f"Which label is right for this person? {asked}")
    ElementTree.SubElement(view, "Table", name="row", value="$row")
    choices = ElementTree.SubElement(view, "Choices", name=LABEL, toName="row", choice="single")
    for name in (*names, CANNOT_TELL):
        ElementTree.SubElement(choices, "Choice", value=name)
    ElementTree.indent(view)
    return ElementTree.tostring(view, encoding="unicode") + "\n"

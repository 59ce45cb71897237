"""Writes the files of a review: those for the reviewer, and the key beside them.

tasks/review.html          a page that asks one task at a time and saves the answers
tasks/tasks.csv            one row per label, and an empty column to fill in
tasks/tasks.json           the same for Label Studio, with
tasks/label_config.xml     the project's labelling interface
tasks/instructions.txt     what to do, in a few lines
tasks.key.json             beside the folder: each task's row, recorded label and kind
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pandas as pd

from butfor.errors import SettingError
from butfor.files import RESULTS, as_csv, results_folder, save_all
from butfor.result.record import plain, with_checksum
from butfor.review.reviewer_page import reviewer_page, what_to_look_at
from butfor.review.tasks import CANNOT_TELL, ID, LABEL, Review


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
    shown = {
        folder / "tasks.csv": as_csv(_with_column_to_fill(review.shown)),
        folder / "tasks.json": json.dumps(studio_tasks(review.shown), indent=1, ensure_ascii=False),
        folder / "label_config.xml": label_config(review.question, names),
        folder / "instructions.txt": INSTRUCTIONS.format(review.question, "\n    ".join(names), look),
        folder / "review.html": reviewer_page(review.shown, review.question, names, CANNOT_TELL, file_column),
    }
    there = [path for path in (*shown, key) if path.exists()]
    if there and not overwrite:
        raise SettingError(
            f"'{there[0]}' exists and may belong to a review under way: name another folder, or replace it with "
            "--overwrite."
        )
    with results_folder(folder), results_folder(key.parent):
        save_all(shown | {key: json.dumps(with_checksum(SECRET | asdict(review.key)), indent=1, ensure_ascii=False)})
    return list(shown), key


def key_of(folder: Path) -> Path:
    """The default place of the key: beside the folder."""
    return folder.with_name(f"{folder.name}.key.json")


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


def _with_column_to_fill(shown: pd.DataFrame) -> pd.DataFrame:
    """The table's columns, renamed if they have a name of ours, and an empty column."""
    taken = {c: f"{c} (of the table)" for c in shown.columns if str(c) in (ID, LABEL)}
    return shown.rename(columns=taken).assign(**{LABEL: ""})


def studio_tasks(shown: pd.DataFrame) -> list[dict[str, Any]]:
    """Tasks as Label Studio imports them; `row` is shown as a table of names and values."""
    rows: list[tuple[Hashable, pd.Series]] = list(shown.astype(object).iterrows())
    return [
        {"data": {ID: plain(number), "row": {str(c): None if pd.isna(v) else plain(v) for c, v in values.items()}}}
        for number, values in rows
    ]


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

"""The files of a review: a folder for the reviewer, and beside it what the reviewer must not see.

tasks/tasks.csv            one row per label, and an empty column to fill in
tasks/tasks.json           the same for Label Studio, with
tasks/label_config.xml     the project's labelling interface
tasks/instructions.txt     what to do, in a few lines
tasks.key.json             which task is which row, its recorded label, chosen or decoy
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pandas as pd

from butfor.errors import ReplayError, SettingError
from butfor.files import make_folder, save_table, save_text
from butfor.result.record import plain
from butfor.tasks.select import CANNOT_TELL, ID, LABEL, Review, Task


def write_review(review: Review, folder: Path, key: Path | None = None) -> tuple[list[Path], Path]:
    """Write what the reviewer gets into `folder` and the key next to it; returns the files and the key. What is there
    already is not written over: it may be somebody's work."""
    folder = folder.resolve()
    key = key_of(folder) if key is None else key.resolve()
    if folder == key.parent or folder in key.parents:
        raise SettingError(f"--key {key} lies in the folder for the reviewer, who must not see it; put it elsewhere.")
    shown = [folder / name for name in ("tasks.csv", "tasks.json", "label_config.xml", "instructions.txt")]
    there = [path for path in (*shown, key) if path.exists()]
    if there:
        raise SettingError(f"'{there[0]}' is there already and may belong to a review under way; name another folder.")
    make_folder(folder)
    tasks, studio, config, instructions = shown
    save_table(tasks, _with_column_to_fill(review.shown))
    save_text(studio, json.dumps(studio_tasks(review.shown), indent=1, ensure_ascii=False))
    save_text(config, label_config(review.label_names))
    save_text(instructions, INSTRUCTIONS.format("\n    ".join(review.label_names)))
    make_folder(key.parent)
    save_text(key, json.dumps(key_record(review), indent=1, ensure_ascii=False))
    return shown, key


def key_of(folder: Path) -> Path:
    """Where the key of a folder of tasks lies unless told otherwise: next to it."""
    return folder.with_name(f"{folder.name}.key.json")


def key_for(answers: Path) -> Path:
    """The key of answers whose reader names none: that of their folder, or the one beside them."""
    folder = answers.resolve().parent
    beside = folder / "tasks.key.json"
    return beside if beside.exists() and not key_of(folder).exists() else key_of(folder)


INSTRUCTIONS = """\
Each row of tasks.csv describes one person. Please write into its column 'label' which label you hold to be right:

    {}

Write 'cannot tell' where you cannot. Judge every row by itself, in any order; do not look the person up.
The numbers in the column 'id' mean nothing; leave them as they are.

With Label Studio: create a project, paste label_config.xml as its labelling interface, import tasks.json, and export
the answers as JSON.
"""


def _with_column_to_fill(shown: pd.DataFrame) -> pd.DataFrame:
    """The table's own columns, renamed where they are called like one of ours, and an empty one."""
    taken = {c: f"{c} (of the table)" for c in shown.columns if str(c) in (ID, LABEL)}
    return shown.rename(columns=taken).assign(**{LABEL: ""})


def studio_tasks(shown: pd.DataFrame) -> list[dict[str, Any]]:
    """Tasks as Label Studio imports them; `row` is shown as a table of names and values."""
    rows: list[tuple[Hashable, pd.Series]] = list(shown.astype(object).iterrows())
    return [
        {"data": {ID: plain(number), "row": {str(c): None if pd.isna(v) else plain(v) for c, v in values.items()}}}
        for number, values in rows
    ]


def label_config(names: Sequence[str]) -> str:
    """Label Studio's labelling interface: the row, and what to choose from."""
    view = ElementTree.Element("View")
    ElementTree.SubElement(view, "Header", value="Which label is right for this person?")
    ElementTree.SubElement(view, "Table", name="row", value="$row")
    choices = ElementTree.SubElement(view, "Choices", name=LABEL, toName="row", choice="single")
    for name in (*names, CANNOT_TELL):
        ElementTree.SubElement(choices, "Choice", value=name)
    ElementTree.indent(view)
    return ElementTree.tostring(view, encoding="unicode") + "\n"


def key_record(review: Review) -> dict[str, Any]:
    return {
        "note": "Not for the reviewer: which task is which training row, its recorded label, and if it is a decoy.",
        "audit_sha256": review.audit_sha256,
        "seed": review.seed,
        "label_names": list(review.label_names),
        "tasks": [asdict(task) | {"decoy": task.decoy} for task in review.tasks],
    }


def read_key(path: Path, audit_sha256: str) -> dict[int, Task]:
    """The tasks that a key names, by id; refused where it belongs to another audit."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        belongs = record["audit_sha256"] == audit_sha256
        tasks = [Task(**{name: value for name, value in task.items() if name != "decoy"}) for task in record["tasks"]]
    except OSError as error:
        raise ReplayError(
            f"The key '{path}' cannot be read ({error.strerror}); name the file that was written next to the tasks "
            "with --key."
        ) from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ReplayError(f"'{path}' is not the key of a review ({error!r}).") from error
    if not belongs:
        raise ReplayError(f"The key '{path}' belongs to another audit: this file is not the one its tasks came from.")
    return {task.id: task for task in tasks}

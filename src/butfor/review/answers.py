"""What reviewers answered, and what it says about the labels that decisions hinge on."""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from butfor.errors import TableError
from butfor.result.groups import LEVEL
from butfor.result.record import percent
from butfor.review.select import ID, LABEL, Task

COLUMNS = ["row", "position", "recorded", "reviewed", "people", "kind"]


@dataclass(frozen=True)
class Outcome:
    """Tasks with their answers; those without an answer were not reviewed."""

    tasks: tuple[Task, ...]
    answers: dict[int, str]

    def reviewed(self, decoys: bool) -> list[Task]:
        return [task for task in self.tasks if task.decoy == decoys and task.id in self.answers]

    def changed(self, decoys: bool) -> list[Task]:
        """Those whose label the reviewer would change, most people's first."""
        changed = [task for task in self.reviewed(decoys) if self.answers[task.id] != task.label]
        return sorted(changed, key=lambda task: (-task.people, task.position))

    @property
    def p_value(self) -> float | None:
        """Fisher's exact test, one-sided: could keystones be disagreed with so much more often than decoys by chance?
        None where either were not reviewed."""
        from scipy.stats import fisher_exact

        counts = [(len(self.changed(decoys)), len(self.reviewed(decoys))) for decoys in (False, True)]
        if any(reviewed == 0 for _, reviewed in counts):
            return None
        return float(fisher_exact([[hit, n - hit] for hit, n in counts], alternative="greater")[1])

    @property
    def sentence(self) -> str:
        counts = []
        for decoys, word in ((False, "keystones"), (True, "decoys")):
            hit, n = len(self.changed(decoys)), len(self.reviewed(decoys))
            counts.append(f"of {hit} of {n} {word}{f' ({percent(hit / n)})' if n else ''}")
        left = len(self.tasks) - len(self.answers)
        rest = f" {left} of {len(self.tasks)} tasks were not reviewed." if left else ""
        return f"Reviewers disagree with the recorded label {' and '.join(counts)}. {self._test}{rest}"

    @property
    def _test(self) -> str:
        if self.p_value is None:
            return "Without answers on both there is nothing to compare."
        more = "Labels that decisions hinge on are disagreed with more often than labels like them."
        chance = "With this many answers that may be chance."
        shown = f"Fisher's exact test, one-sided: p = {self.p_value:.2g}."
        return f"{shown} {chance if self.p_value > LEVEL else more}"

    @property
    def lines(self) -> list[str]:
        """One per keystone whose label the reviewer would change."""
        return [
            f"row {task.row}: '{task.label}' → '{self.answers[task.id]}' (in the flip "
            f"{'set of 1 person' if task.people == 1 else f'sets of {task.people} people'})"
            for task in self.changed(decoys=False)
        ]

    def corrections(self) -> pd.DataFrame:
        """The labels the reviewer would change, keystones first: a wrong label is wrong on a decoy too."""
        rows = [
            [task.row, task.position, task.label, self.answers[task.id], task.people, kind]
            for decoys, kind in ((False, "keystone"), (True, "decoy"))
            for task in self.changed(decoys)
        ]
        return pd.DataFrame(rows, columns=COLUMNS)


def read_answers(path: Path, tasks: Mapping[int, Task], names: tuple[str, str]) -> Outcome:
    """The answers in a filled-in tasks.csv, or in Label Studio's JSON export."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise TableError(f"The answers '{path}' cannot be read ({reason}).") from error
    given = _of_label_studio(text, path) if text.lstrip().startswith(("[", "{")) else _of_csv(text, path)
    answers: dict[int, str] = {}
    seen: dict[int, str] = {}
    for where, number, label in given:
        task = int(number) if number.isdecimal() else -1
        if task not in tasks:
            raise TableError(f"{path}, {where}: there is no task '{number}' in the key; are these another review's?")
        if task in seen:
            raise TableError(f"{path}, {where}: task {task} is answered already, in {seen[task]}; keep one answer.")
        seen[task] = where
        if label and label not in names:
            raise TableError(
                f"{path}, {where} (task {task}): '{label}' is not a label; write '{names[0]}' or '{names[1]}', or "
                "leave it empty."
            )
        if label:
            answers[task] = label
    return Outcome(tuple(tasks.values()), answers)


def _of_csv(text: str, path: Path) -> Iterator[tuple[str, str, str]]:
    """Line, id and label of every row; separated by comma, semicolon or tab, as spreadsheets save it."""
    header = text.split("\n", 1)[0]
    reader = csv.DictReader(io.StringIO(text, newline=""), delimiter=max(",;\t", key=header.count))
    missing = [name for name in (ID, LABEL) if name not in (reader.fieldnames or [])]
    if missing:
        raise TableError(f"The answers '{path}' have no column '{missing[0]}'; fill in tasks.csv and leave its header.")
    try:
        for row in reader:
            number, label = ((row[name] or "").strip() for name in (ID, LABEL))
            if number or label:
                yield f"line {reader.line_num}", number, label
    except csv.Error as error:
        raise TableError(f"The answers '{path}' are not a CSV file ({error}).") from error


def _of_label_studio(text: str, path: Path) -> Iterator[tuple[str, str, str]]:
    """Entry, id and label of every exported task. Of several reviewers' answers the most frequent one counts; where
    there is none, the task is not reviewed."""
    try:
        exported = json.loads(text)
        for k, entry in enumerate(exported):
            number = str(entry["data"][ID])
            chosen = Counter(choice for annotation in entry["annotations"] for choice in _choices(annotation))
            first, second = (chosen.most_common(2) + [("", 0), ("", 0)])[:2]
            yield f"entry {k + 1}", number, first[0].strip() if first[1] > second[1] else ""
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise TableError(
            f"The answers '{path}' are not an export of Label Studio ({error!r}); export with the format JSON."
        ) from error


def _choices(annotation: dict[str, Any]) -> list[str]:
    """What one reviewer chose; nothing where the task was skipped."""
    if annotation.get("was_cancelled"):
        return []
    return [str(choice) for result in annotation["result"] for choice in result["value"].get("choices", [])]

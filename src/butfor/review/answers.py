"""What reviewers answered, checked: every task has an answer, and every answer is a label or "cannot tell"."""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from butfor.data.labels import label_number
from butfor.errors import SettingError, TableError, listed
from butfor.review.tasks import CANNOT_TELL, ID, LABEL, Review, Task

COLUMNS = ["row", "position", "recorded", "reviewed", "doubt", "wrong", "people", "kind"]


@dataclass(frozen=True)
class Outcome:
    """Tasks with their answers; `CANNOT_TELL` is one of them."""

    tasks: tuple[Task, ...]
    answers: dict[int, str]

    def told(self, decoys: bool) -> list[Task]:
        """Those about which a reviewer could tell."""
        return [task for task in self.tasks if task.decoy == decoys and task.id not in self.unsure]

    def changed(self, decoys: bool) -> list[Task]:
        """Those whose label the reviewer would change, in the order of review."""
        changed = [task for task in self.told(decoys) if self.answers[task.id] != task.label]
        return sorted(changed, key=lambda task: (-(task.wrong or 0), -(task.doubt or 0), task.position))

    def counts(self, decoys: bool, keystones: bool = False) -> tuple[int, int]:
        """How many are disagreed with, of how many; of `keystones` alone, those in somebody's flip set."""
        some = [
            [task for task in tasks if task.people or not keystones]
            for tasks in (self.changed(decoys), self.told(decoys))
        ]
        return len(some[0]), len(some[1])

    @cached_property
    def unsure(self) -> frozenset[int]:
        """Ids of tasks about which no reviewer could tell."""
        return frozenset(task.id for task in self.tasks if self.answers[task.id] == CANNOT_TELL)

    @property
    def positions(self) -> frozenset[int]:
        """Of all training rows that were asked about."""
        return frozenset(task.position for task in self.tasks)

    @property
    def made(self) -> dict[int, str]:
        """The labels to correct, by position, and what they become: a wrong label is wrong on a decoy too."""
        return {task.position: self.answers[task.id] for decoys in (False, True) for task in self.changed(decoys)}

    @property
    def corrected(self) -> tuple[int, ...]:
        return tuple(sorted(self.made))

    @property
    def expected(self) -> tuple[float, bool]:
        """How many of the chosen labels that were told were likely to be wrong, and whether that was calibrated."""
        chosen = self.told(decoys=False)
        calibrated = all(task.wrong is not None for task in chosen)
        likely = (task.wrong if calibrated else task.doubt for task in chosen)
        return float(sum(each or 0.0 for each in likely)), calibrated

    def corrections(self) -> pd.DataFrame:
        """The labels the reviewer would change, the chosen ones first."""
        rows = [
            [task.row, task.position, task.label, self.answers[task.id], task.doubt, task.wrong, task.people, kind]
            for decoys, kind in ((False, "chosen"), (True, "decoy"))
            for task in self.changed(decoys)
        ]
        return pd.DataFrame(rows, columns=COLUMNS)


def check_answers(answers: Mapping[int, Any] | Outcome, review: Review | None, names: Sequence[str]) -> Outcome:
    """Answers that were given in Python, checked."""
    if isinstance(answers, Outcome):
        return answers
    if review is None:
        raise SettingError("These answers have no tasks: call review_tasks() first.")
    given = ((f"answers[{number}]", str(number), str(label)) for number, label in dict(answers).items())
    return _checked(given, {task.id: task for task in review.tasks}, names, "The answers")


def read_answers(path: Path, tasks: Mapping[int, Task], names: Sequence[str]) -> Outcome:
    """The answers in a filled-in tasks.csv, or in Label Studio's JSON export."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise TableError(f"The answers '{path}' cannot be read ({reason}).") from error
    given = _of_label_studio(text, path) if text.lstrip().startswith(("[", "{")) else _of_csv(text, path)
    return _checked(given, tasks, names, str(path))


def _checked(
    given: Iterable[tuple[str, str, str]], tasks: Mapping[int, Task], names: Sequence[str], path: str
) -> Outcome:
    """The answers, each to a task, none missing, all of them labels; refused otherwise."""
    answers: dict[int, str] = {}
    seen: dict[int, str] = {}
    for where, number, label in given:
        task = int(number) if number.isdecimal() else -1
        if task not in tasks:
            raise TableError(f"{path}, {where}: there is no task '{number}' in the key; are these another review's?")
        if task in seen:
            raise TableError(f"{path}, {where}: task {task} is answered already, in {seen[task]}; keep one answer.")
        seen[task] = where
        if label == CANNOT_TELL:
            answers[task] = label
        elif label:
            try:
                answers[task] = names[label_number(label, names)]
            except SettingError:
                raise TableError(
                    f"{path}, {where} (task {task}): '{label}' is not a label; write {listed(names, 50)} or "
                    f"'{CANNOT_TELL}'."
                ) from None
    open_ = [task for task in tasks if task not in answers]
    if open_:
        where = f" ({seen[open_[0]]})" if open_[0] in seen else ""
        raise TableError(
            f"{path}: {len(open_)} of {len(tasks)} tasks have no answer, the first is task {open_[0]}{where}. Write a "
            f"label or '{CANNOT_TELL}' for each."
        )
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
    """Entry, id and label of every exported task. Of several reviewers' answers the most frequent one counts; a tie and
    a task that was skipped cannot be told, one that nobody opened is not reviewed."""
    try:
        exported = json.loads(text)
        for k, entry in enumerate(exported):
            number = str(entry["data"][ID])
            chosen = Counter(choice for annotation in entry["annotations"] for choice in _choices(annotation))
            first, second = (chosen.most_common(2) + [("", 0), ("", 0)])[:2]
            tied = CANNOT_TELL if entry["annotations"] else ""
            yield f"entry {k + 1}", number, first[0].strip() if first[1] > second[1] else tied
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise TableError(
            f"The answers '{path}' are not an export of Label Studio ({error!r}); export with the format JSON."
        ) from error


def _choices(annotation: dict[str, Any]) -> list[str]:
    """What one reviewer chose; nothing where the task was skipped."""
    if annotation.get("was_cancelled"):
        return []
    return [str(choice) for result in annotation["result"] for choice in result["value"].get("choices", [])]

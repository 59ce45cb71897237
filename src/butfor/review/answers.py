"""Reads what reviewers answered: every task has an answer, and it is a label or "cannot tell"."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.metrics import cohen_kappa_score

from butfor.result.reviewed import Evidence
from butfor.review.tasks import (
    ANSWER,
    CANNOT_TELL,
    CLEAR,
    ERRS,
    ID,
    LABEL,
    REVIEWED,
    Key,
    Review,
    Task,
)
from butfor.support.errors import (
    SettingError,
    TableError,
    listed,
    plural,
)
from butfor.support.files import harmless, real, text_of
from butfor.table.columns import spelled
from butfor.table.labels import EQUALS

LONGEST = 40
"""The most characters of an id or an answer in a message."""
FAR = 3
"""Standard deviations beyond which changes are many more than expected."""
ANNOTATION = "annotation_id"
"""A column that every CSV export of Label Studio has."""
SKIPPED = "was_cancelled"
"""The column of such an export that is true where the annotator skipped the task."""
Answers = Mapping[str, str]
"""By task id."""
Given = Iterable[tuple[str, str, str]]
"""Place, id and label of every answer."""


@dataclass(frozen=True)
class Outcome:
    """The tasks, and the answers of one reviewer or several."""

    key: Key
    reviewers: tuple[Answers, ...]

    def answer(self, task: Task) -> str:
        """The label that all reviewers give, or `CANNOT_TELL`."""
        given = {answers[task.id] for answers in self.reviewers}
        return given.pop() if len(given) == 1 else CANNOT_TELL

    @property
    def corrections(self) -> list[tuple[Task, str]]:
        """Labels to correct and the right ones, of the group and of the controls alike; the most
        likely wrong first. Clear cases are not corrected: there the reviewer is more likely to be
        wrong."""
        tasks = sorted(
            self.key.tasks, key=lambda task: (-task.likely_wrong, -(task.doubt or 0), task.position)
        )
        given = [(task, self.answer(task)) for task in tasks if task.kind != CLEAR]
        return [(task, label) for task, label in given if label not in (task.label, CANNOT_TELL)]

    @property
    def evidence(self) -> Evidence:
        """What the answers show. An answer counts as a change if it is on the other side:
        favourable or adverse."""
        key = self.key
        tasks = self.key.tasks
        everybody = self.reviewers

        def counts(
            some: Iterable[Task], reviewers: Sequence[Answers] = everybody
        ) -> tuple[int, int]:
            """Of the tasks about which no reviewer is unsure, how many all of them change; and how
            many these are."""
            given = [
                (task.label in key.adverse, [answers[task.id] for answers in reviewers])
                for task in some
            ]
            judged = [(was, answers) for was, answers in given if CANNOT_TELL not in answers]
            return sum(
                all((a in key.adverse) != was for a in answers) for was, answers in judged
            ), len(judged)

        sure = {task.position: task for task in tasks if counts([task])[1]}
        judged = [task for task in sure.values() if task.kind == REVIEWED]
        pairs = [(task, sure[task.control]) for task in judged if task.control in sure]
        wrong = np.array([task.likely_wrong for task in judged])
        usual = ERRS + (1 - 2 * ERRS) * wrong  # how likely a careful reviewer changes each label
        several = len(everybody) > 1
        alike = sum(len({answers[task.id] for answers in everybody}) == 1 for task in tasks)
        return Evidence(
            group=key.group,
            others=key.others,
            strata=tuple(
                (
                    counts([label for label, _ in pairs if label.favoured == side]),
                    counts([control for _, control in pairs if control.favoured == side]),
                )
                for side in (False, True)
            ),
            alone=counts([task for task in judged if task.control not in sure]),
            errors=tuple(
                counts([task for task in tasks if task.kind == CLEAR], [answers])
                for answers in everybody
            ),
            tasks=len(tasks),
            unsure=sum(self.answer(task) == CANNOT_TELL for task in tasks),
            expected=float(wrong.sum()),
            most=float(usual.sum() + FAR * math.sqrt(usual @ (1 - usual))),
            agreed=(alike, len(tasks)) if several else None,
            kappa=cohens_kappa(everybody) if several else None,
            file_column=key.file_column,
        )


def cohens_kappa(reviewers: Sequence[Answers]) -> float | None:
    """Agreement beyond chance, as the mean over pairs of reviewers; "cannot tell" counts as an
    answer. None if everybody always gives the same answer, so that chance would agree too."""
    pairs = list(
        combinations([[answers[task] for task in reviewers[0]] for answers in reviewers], 2)
    )
    if any(len({*one, *other}) == 1 for one, other in pairs):
        return None
    return float(np.mean([cohen_kappa_score(one, other) for one, other in pairs]))


def check_answers(
    answers: Mapping[str, Any] | Sequence[Mapping[str, Any]],
    review: Review | None,
    *,
    apply_anyway: bool = False,
) -> Outcome:
    """Check answers given in Python by one or several reviewers."""
    if review is None:
        raise SettingError("These answers have no tasks: call review_tasks() first.")
    several = list(answers) if isinstance(answers, (list, tuple)) else [answers]
    if not several:
        raise TableError(
            "There are no answers: give a dictionary from task ids to labels, or a list of them."
        )
    read = []
    for k, one in enumerate(several):
        where = "The answers" if len(several) == 1 else f"The answers of reviewer {k + 1}"
        if not isinstance(one, (Mapping, pd.Series)):
            raise TableError(
                f"{where} must be a dictionary from task ids to labels, not {type(one).__name__}."
            )
        given = (
            (f"answers[{str(task)[:LONGEST]!r}]", str(task), str(label))
            for task, label in one.items()
        )
        read.append(_checked(given, review.key, where))
    outcome = Outcome(review.key, tuple(read))
    nothing = outcome.evidence.shows_nothing
    if nothing and not apply_anyway:
        raise TableError(
            f"{nothing} No label is corrected; apply_anyway=True corrects them anyway."
        )
    return outcome


def read_answers(paths: Sequence[Path], key: Key) -> Outcome:
    """The answers from filled-in copies of tasks.csv or Label Studio's CSV exports, one file per
    reviewer."""
    if len({real(path) for path in paths}) < len(paths):
        raise SettingError("answers names the same file twice; give one file per reviewer.")
    read = []
    for path in paths:
        text = text_of(
            path,
            "The answers",
            "Give tasks.csv filled in (saved as CSV UTF-8), or Label Studio's CSV export.",
        )
        if text.lstrip().startswith(("[", "{")):
            raise TableError(
                f"The answers '{path}' are JSON, which is no longer read: export them from Label "
                "Studio as CSV."
            )
        read.append(_checked(_of_csv(text, path), key, str(path)))
    return Outcome(key, tuple(read))


def _checked(given: Given, key: Key, path: str) -> Answers:
    """The answers; an error if one is missing, belongs to no task or is no label."""
    tasks = [task.id for task in key.tasks]
    answers = dict[str, str]()
    seen = dict[str, str]()
    for where, task, text in given:
        if task not in tasks:
            raise TableError(
                f"{path}, {where}: this review has no task '{task[:LONGEST]}'; its ids begin with "
                f"{tasks[0].partition('-')[0]}. Use the answers that were given for this review."
            )
        if task in seen:
            raise TableError(
                f"{path}, {where}: task {task} has an answer already, in {seen[task]}; keep one "
                "of them."
            )
        seen[task] = where
        if text.strip():
            label = _meant(text, key.label_names)
            if label is None:
                raise TableError(
                    f"{path}, {where} (task {task}): '{text.strip()[:LONGEST]}' is not a label; "
                    f"write {listed(key.label_names, 50)} or '{CANNOT_TELL}'."
                )
            answers[task] = label
    if missing := [task for task in tasks if task not in answers]:
        where = f" ({seen[missing[0]]})" if missing[0] in seen else ""
        of = f"of {plural(len(tasks), 'task')}"
        raise TableError(
            f"{path}: {plural(len(missing), f'{of} has', f'{of} have')} no answer; the first is "
            f"task {missing[0]}{where}. Write a label or '{CANNOT_TELL}' for each."
        )
    return answers


def _meant(text: str, names: Sequence[str]) -> str | None:
    """The label that an answer means: as the table spells it (some end in a space), as our CSV
    files do, without spaces around it, without its column ("no" of "deny = no"), in other capitals,
    or as a spreadsheet writes a number ("1.0"). None if that is no label, or several."""
    alone = text.strip()
    short = {name: name.rpartition(EQUALS)[2] for name in (*names, CANNOT_TELL)}
    for meant in (
        lambda name: text in (name, harmless(name)),
        lambda name: alone in (name.strip(), short[name]),
        lambda name: alone.casefold() in (name.casefold(), short[name].casefold()),
        lambda name: spelled(alone) == spelled(short[name]),
    ):
        if labels := list(filter(meant, short)):
            return labels[0] if len(labels) == 1 else None
    return None


def _of_csv(text: str, path: Path) -> Given:
    """Line, id and label of every row; separated by comma, semicolon or tab, as spreadsheets do."""

    def header(separator: str) -> list[str]:
        return next(csv.reader(io.StringIO(text, newline=""), delimiter=separator), [])

    def has_answers(columns: Collection[str]) -> bool:
        return ID in columns and (LABEL in columns or ANNOTATION in columns)

    try:
        separator = next((mark for mark in ",;\t" if has_answers(header(mark))), ",")
        columns = header(separator)
        label_studio = ANNOTATION in columns
        label_column = ANSWER if label_studio and ANSWER in columns else LABEL
        for name in (ID, label_column):
            if (count := columns.count(name)) != 1:
                has = f"{count} columns" if count else "no column"
                raise TableError(
                    f"The answers '{path}' have {has} '{name}'; fill in tasks.csv and keep its "
                    "header."
                )
        reader = csv.DictReader(io.StringIO(text, newline=""), delimiter=separator)
        if label_studio:
            yield from _of_annotations(reader, label_column)
            return
        for row in reader:
            number = (row[ID] or "").strip()
            label = row[LABEL] or ""
            if number or label.strip():
                yield f"line {reader.line_num}", number, label
    except csv.Error as error:
        raise TableError(f"The answers '{path}' are not a CSV file ({error}).") from error


def _of_annotations(reader: csv.DictReader[str], label_column: str) -> Given:
    """Line, id and label of every task of Label Studio's CSV export, which has a row per
    annotation. Several annotations of a task count if they agree; if not, and for a skipped task,
    the answer is "cannot tell"."""
    first_lines = dict[str, int]()
    labels = dict[str, set[str]]()
    for row in reader:
        task = (row[ID] or "").strip()
        first_lines.setdefault(task, reader.line_num)
        chosen = labels.setdefault(task, set())
        label = row[label_column] or ""
        skipped = (row.get(SKIPPED) or "").strip().casefold() == "true"
        if label.strip() and not skipped:
            chosen.add(label)
    for task, chosen in labels.items():
        label = next(iter(chosen)) if len(chosen) == 1 else CANNOT_TELL
        yield f"line {first_lines[task]}", task, label

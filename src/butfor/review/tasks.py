"""The tasks of a review: adverse labels of a group, their controls (see `review.controls`), and clear cases.

Tasks show the row's values and nothing that tells one kind from another. The key does, and the reviewer must not see
it.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from math import floor, isfinite, log10
from numbers import Integral
from typing import Any

import numpy as np
import pandas as pd

from butfor.columns import DATES
from butfor.data.dates import as_dates
from butfor.data.read import read_file
from butfor.data.sensitive import Sensitive
from butfor.errors import ReplayError, SettingError, TableError, as_recorded, listed, nearest
from butfor.fit import Fitted
from butfor.labels import under_review
from butfor.machine import check_random_state, single_threaded
from butfor.models.learner import Table
from butfor.result.labels import LEVEL, TrainingLabel, expectation, how_many_to_review
from butfor.result.population import Population
from butfor.result.record import checksum, plain
from butfor.result.reviewed import chance, guesses, several
from butfor.result.run import Run
from butfor.review.controls import likelihoods, matched
from butfor.review.rebuild import load_rows, protected
from butfor.review.reviewer_page import question
from butfor.standard.groups import GroupStandard
from butfor.standard.inputs import Floats, Mask

ID, LABEL = "id", "label"
"""The columns that tasks add to the table."""
CANNOT_TELL = "cannot tell"
"""The answer of a reviewer who cannot decide."""
CONSONANTS = "BCDFGHJKLMNPQRSTVWXZ"
"""Letters of ids: they form no words, and spreadsheets do not read them as dates or numbers."""
REVIEWED, CONTROL, CLEAR = "label", "control", "clear case"
"""Kinds of tasks."""
UNDOUBTED = 0.1
"""A clear case has at most this doubt by the standard of those whom the group is compared with."""
LEAST_CLEAR = 20
"""Clear cases are a fifth of the tasks, or this many where there are."""
ERRS, LIKELY, SIMULATED = 0.1, 0.8, 500
"""The reviewer for whom the power is simulated errs so often; the power to aim for; simulated reviews."""


@dataclass(frozen=True)
class Task:
    """One label to review, as in the key."""

    id: str
    """The review's code and a random number: "KTRBD-4821"."""
    position: int
    """Position among the training rows."""
    row: Any
    """The row's name in the index; for a CSV file its number, from 0."""
    label: str
    """The recorded one."""
    kind: str
    control: int | None = None
    """The position of a label's control, if it has one."""
    favoured: bool = False
    """Whether the standard of those whom the group is compared with would make it favourable."""
    people: int = 0
    """The number of people whose flip set includes it."""
    doubt: float | None = None
    wrong: float | None = None
    """Of a label under review: see `TrainingLabel`."""


@dataclass(frozen=True)
class Key:
    """What the answers are read with."""

    audit_sha256: str
    seed: int
    label_names: tuple[str, ...]
    adverse: tuple[str, ...]
    group: str
    """The group under review, "sex = female"; of several, all."""
    others: str
    """Whose labels are the controls."""
    file_column: str | None
    tasks: tuple[Task, ...]
    """In the order shown."""

    @property
    def code(self) -> str:
        """Five letters that identify a review by its audit, seed and tasks; the next round has another code."""
        text = json.dumps(asdict(replace(self, tasks=tuple(replace(task, id="") for task in self.tasks))))
        number = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
        return "".join(CONSONANTS[number // len(CONSONANTS) ** k % len(CONSONANTS)] for k in range(5))


@dataclass(frozen=True)
class Review:
    key: Key
    shown: pd.DataFrame
    """The table for the reviewer: one row per task, by id."""
    labels: tuple[TrainingLabel, ...]
    """The labels under review, the most likely wrong first."""
    question: str
    """The question to the reviewer, in the table's words."""
    power: float
    """How likely a reviewer who errs one time in ten shows something, if as many labels are wrong as expected."""
    would_do: int | None
    """The fewest labels with which that is likely; None if no number of them makes it so."""

    @property
    def tasks(self) -> tuple[Task, ...]:
        return self.key.tasks

    @property
    def lines(self) -> list[str]:
        """What the tasks contain and what to expect, a sentence each; not for the reviewer."""
        kinds, name = Counter(task.kind for task in self.tasks), " or ".join(map(repr, self.key.adverse))
        clear = Counter(task.label in self.key.adverse for task in self.tasks if task.kind == CLEAR)
        lines = [
            f"{several(len(self.tasks), 'task')}, shuffled: {several(kinds[REVIEWED], 'label')} {name} of "
            f"{self.key.group}, {several(kinds[CONTROL], 'control')} (the same label of {self.key.others}, as likely "
            f"to be favourable) and {several(kinds[CLEAR], 'clear case')} (doubt at most {UNDOUBTED})."
        ]
        if alone := kinds[REVIEWED] - kinds[CONTROL]:
            lines.append(
                f"{alone} of the labels {'has' if alone == 1 else 'have'} no control: reviewed, but no evidence."
            )
        absent = [word for word, adverse in (("an adverse", True), ("a favourable", False)) if not clear[adverse]]
        if absent:
            unknown = "" if clear else ", so the reviewer's error will not be known"
            lines.append(f"There are no clear cases with {' or '.join(absent)} label{unknown}.")
        return [*lines, expectation(self.labels), self.prospect]

    @property
    def prospect(self) -> str:
        """How likely the review is to show something, and how many labels would make it likely."""
        said = f"If so, a reviewer who errs one time in ten will show it with probability {self.power:.2f}"
        if self.power >= LIKELY:
            return f"{said}."
        if self.would_do is None:
            return f"{said}; no number of labels makes that {LIKELY:.1f}."
        return f"{said}; with --labels {self.would_do} it is {LIKELY:.1f}."

    @property
    def hopeless(self) -> bool:
        """Whether no number of labels makes it likely that the review shows something."""
        return self.power < LIKELY and self.would_do is None


@dataclass(frozen=True, eq=False)
class ReviewRows:
    """The training rows and their groups, the labels' names and which are adverse, the identity of the audit, and the
    positions of labels reviewed before."""

    table: Table
    sensitive: Sensitive
    label_names: tuple[str, ...]
    adverse: tuple[str, ...]
    audit: str
    answered: Collection[int] = ()
    files: pd.Series | None = None
    """The name of each row's original file, if reviewers look at it."""


def review_tasks(
    fitted: Fitted,
    values: Sequence[TrainingLabel],
    comparisons: Iterable[GroupStandard],
    population: Population | None = None,
    *,
    file_column: Any = None,
    **choice: Any,
) -> Review:
    """The tasks of an audit in Python; `review_of` makes those of a record."""
    if population is not None and population.run.data.sha256 != fitted.data_hash:
        raise SettingError(
            "The population belongs to another table: give the one that explain_all of this audit returned."
        )
    rows = ReviewRows(
        fitted.table,
        fitted.sensitive,
        fitted.label_names,
        fitted.adverse_names,
        fitted.data_hash if population is None else checksum(population.to_dict()),
        answered=fitted.answered,
        files=None if file_column is None else files_in(fitted.table.X, file_column),
    )
    return make_review(values, comparisons, rows, population.flip_counts if population else Counter(), **choice)


def review_of(population: Population, *, file_column: str | None = None, **choice: Any) -> Review:
    """The tasks of an audit, or of a corrected table, from its record."""
    if not population.labels:
        raise SettingError(
            "The record names no label to review: it is about one person, the audit was stopped, or the groups cannot "
            "be compared. Audit more people, or name a protected attribute with larger groups."
        )
    rows = rows_of(population.run, checksum(population.to_dict()), file_column)
    return make_review(population.labels, population.standards, rows, population.flip_counts, **choice)


def rows_of(run: Run, audit: str = "", file_column: str | None = None) -> ReviewRows:
    """The training rows of a run and their groups. `audit`: the record's checksum."""
    table, data = load_rows(run)
    with as_recorded("The record's run block does not give its training rows"):
        X, _, kept, *_ = table.whole or (table.X, table.y, np.arange(table.n))
        sensitive = Sensitive.of(protected(run, X, data), X, run.sensitive_bands or None)
    files = None
    if file_column is not None:
        whole = table.X.rename_axis(run.data.identifier)
        if file_column not in (*whole.columns, run.data.identifier) and run.data.label is not None:
            whole = read_file(str(run.data.table))  # the column was not learned from
            whole = whole if run.data.identifier is None else whole.set_index(run.data.identifier)
        files = files_in(whole, file_column).loc[table.X.index]
    answered = run.reviewed.answered if run.reviewed else ()
    sensitive = replace(sensitive, values=sensitive.values[kept])
    return ReviewRows(table, sensitive, run.label_names, run.adverse, audit, answered, files)


def files_in(X: pd.DataFrame, column: Any) -> pd.Series:
    """A column of the table, or the names of its rows, by which original files are found."""
    if column not in X.columns and column != X.index.name:
        known = [*X.columns, *filter(None, [X.index.name])]
        raise TableError(f"--file-column: there is no column '{column}'. {nearest(column, known, 'The table has')}")
    return X[column] if column in X.columns else X.index.to_series()


def make_review(
    values: Sequence[TrainingLabel],
    comparisons: Iterable[GroupStandard],
    rows: ReviewRows,
    people: Counter[int],
    *,
    labels: int | None = None,
    hide: Sequence[str] = (),
    seed: int = 0,
) -> Review:
    """The tasks: the first `labels` of those to review, their controls, and clear cases. `hide` names columns not to
    show, besides the protected ones. `people`: how many people's flip sets include each label."""
    if not rows.adverse:
        raise SettingError(
            "A review compares the adverse labels of two groups: name the adverse label (--adverse; in Python "
            "fit(adverse=…)) and audit again."
        )
    if CANNOT_TELL in rows.label_names:
        raise SettingError(f"The label '{CANNOT_TELL}' is also an answer of reviewers; rename the label.")
    rng, table, groups = np.random.default_rng(check_random_state(seed)), rows.table, rows.sensitive.values.astype(str)
    recorded = np.array(rows.label_names, dtype=object)[table.codes]
    hide = [hide] if isinstance(hide, str) else hide
    if unknown := [name for name in hide if name not in map(str, table.X.columns)]:
        known = nearest(unknown[0], table.X.columns, "The table has")
        raise TableError(f"--hide: there is no column {listed(unknown)}. {known}")
    unseen = {*hide, *map(str, rows.sensitive.columns)}
    shown = table.X.drop(columns=[column for column in table.X.columns if str(column) in unseen])
    if not shown.shape[1]:
        raise SettingError("--hide leaves no column to show.")
    seen = set[int]()
    for k, each in enumerate(values):
        twice = each.position in seen
        seen.add(each.position)
        if twice or not (0 <= each.position < table.n and recorded[each.position] == each.label):
            why = "occurs twice" if twice else f"has no label '{each.label}' in the table"
            raise ReplayError(f"Invalid record: labels[{k}], training row {each.position}, {why}.")

    # Whose labels: of the groups that fall short, the most likely wrong first.
    compared_with = under_review(comparisons, rows.sensitive.name, groups)
    values = [each for each in values if str(each.group) in compared_with]
    if not values:
        raise SettingError("There is no label to review: none is in doubt, or all were reviewed.")
    labels = how_many_to_review(values) if labels is None else labels
    if not isinstance(labels, Integral) or isinstance(labels, bool) or not 1 <= labels <= len(values):
        names = listed(f"{rows.sensitive.name} = {name}" for name in compared_with)
        raise SettingError(f"--labels {labels} must be from 1 to {len(values)}: so many labels of {names} are left.")

    # Their controls: of those whom the groups are compared with.
    favourable = ~np.isin(recorded, rows.adverse)
    references = set(compared_with.values())
    others = ~np.isin(groups, list(compared_with)) if "" in references else np.isin(groups, list(references))
    free = ~np.isin(np.arange(table.n), list(rows.answered))
    with single_threaded():
        likely, favoured = likelihoods(table.X.drop(columns=list(rows.sensitive.columns)), favourable, others)
    candidates, order = np.flatnonzero(others & ~favourable & free), [each.position for each in values]
    chosen = {each.position: each for each in values[: int(labels)]}
    controls = matched(likely, list(chosen), candidates)

    # Clear cases of both labels, a quarter as many as these.
    doubt = np.where(favourable, 1 - likely[:, 1], likely[:, 1])
    taken = [*chosen, *controls.values()]
    half, clear = max(LEAST_CLEAR, round(len(taken) / 4)) // 2, list[int]()
    for side in (favourable, ~favourable):
        undoubted = np.setdiff1d(np.flatnonzero(free & side & (doubt <= UNDOUBTED)), taken)
        clear += rng.permutation(undoubted)[:half].tolist()

    kinds = dict.fromkeys(chosen, REVIEWED) | dict.fromkeys(controls.values(), CONTROL) | dict.fromkeys(clear, CLEAR)
    tasks = [
        Task(
            id="",
            position=at,
            row=plain(table.X.index[at]),
            label=str(recorded[at]),
            kind=kinds[at],
            control=controls.get(at),
            favoured=bool(favoured[at]),
            people=people[at],
            doubt=chosen[at].doubt if at in chosen else round(float(doubt[at]), 4),
            wrong=chosen[at].wrong if at in chosen else None,
        )
        for at in rng.permutation(list(kinds)).tolist()
    ]
    name, by = rows.sensitive.name, list(references - {""})
    key = Key(
        audit_sha256=rows.audit,
        seed=int(seed),
        label_names=rows.label_names,
        adverse=rows.adverse,
        group=" or ".join(f"{name} = {group}" for group in compared_with),
        others=f"{name} = {by[0]}" if by else "other groups",
        file_column=None if rows.files is None else str(rows.files.name),
        tasks=tuple(tasks),
    )
    # Ids have four digits or more, so that row numbers are not taken for them.
    code, numbers = key.code, 1000 + rng.choice(9 * max(1000, 10 * len(tasks)), size=len(tasks), replace=False)
    key = replace(key, tasks=tuple(replace(t, id=f"{code}-{k}") for t, k in zip(tasks, numbers, strict=True)))

    positions = [task.position for task in tasks]
    shown = shown.iloc[positions].apply(_rounded)
    shown = shown.assign(
        **{column: as_dates(shown[column]) for column in table.X.attrs.get(DATES, ()) if column in shown}
    )
    if rows.files is not None and rows.files.name not in shown:
        shown.insert(0, rows.files.name, rows.files.iloc[positions].to_numpy())
    shown.index = pd.Index([task.id for task in key.tasks], name=ID)

    # The power, and with how many labels it would do.
    def power(count: int) -> float:
        pairs = controls if count == labels else matched(likely, order[:count], candidates)
        wrong = np.array([values[k].wrong or 0.0 for k in range(count) if order[k] in pairs])
        own, other = (favoured[[*some]] for some in (([at for at in order[:count] if at in pairs]), pairs.values()))
        return simulated_power(wrong, own, other, len(clear))

    own, would_do = power(int(labels)), None
    if own < LIKELY:
        steps = [count for count in (*range(20, 200, 20), *range(200, 1001, 100)) if count < len(values)]
        would_do = next((count for count in [*steps, len(values)] if power(count) >= LIKELY), None)
    column = table.y.name if isinstance(table.y.name, str) else None
    asked = question(column, rows.label_names, rows.adverse)
    return Review(key, shown, tuple(chosen.values()), asked, own, would_do)


def simulated_power(wrong: Floats, own: Mask, other: Mask, clear: int) -> float:
    """How often the answers of a reviewer who errs one time in ten show something. Of the labels with a control:
    `wrong`, how likely each is wrong, and whether the others' standard favours it (`own`) and its control (`other`);
    `clear`: the number of clear cases."""
    rng, found = np.random.default_rng(0), 0
    for _ in range(SIMULATED if len(wrong) else 0):
        changed, also = rng.random(len(wrong)) < ERRS + (1 - 2 * ERRS) * wrong, rng.random(len(wrong)) < ERRS
        strata = [
            ((int(changed[own == side].sum()), int((own == side).sum())),
             (int(also[other == side].sum()), int((other == side).sum())))
            for side in (False, True)
        ]  # fmt: skip
        found += chance(strata) <= LEVEL and not guesses(int(rng.binomial(clear, ERRS)), clear)
    return found / SIMULATED


def _rounded(values: pd.Series) -> pd.Series:
    """Floats to seven significant digits and at least two decimals: 0.30000000000000004 is shown as 0.3."""

    def rounded(value: float) -> float:
        return round(float(value), max(2, 6 - floor(log10(abs(value))))) if value and isfinite(value) else value

    return values.map(rounded, na_action="ignore") if pd.api.types.is_float_dtype(values.dtype) else values

"""The tasks of a review: adverse labels of a group, their controls, and clear cases.

A label's control is an adverse label of another group that is as likely to be favourable. Likely by two models at once,
so that a reviewer who only follows the columns changes both alike; both models are asked about rows that they have not
learned from. Tasks show the row's values and nothing that tells one kind from another. The key does, and the reviewer
must not see it.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, replace
from math import floor, isfinite, log10
from numbers import Integral
from typing import Any

import numpy as np
import pandas as pd
from scipy.spatial import cKDTree

from butfor.columns import DATES, date_of
from butfor.data.labels import EQUALS
from butfor.data.sensitive import Sensitive
from butfor.data.table import read_file
from butfor.errors import SettingError, TableError, nearest, plural
from butfor.fit import Fitted
from butfor.labels import under_review
from butfor.machine import check_random_state, single_threaded
from butfor.models.learner import Table
from butfor.report.text import short
from butfor.result.population import Population
from butfor.result.record import checksum, plain
from butfor.result.reviewed import LEVEL, TrainingLabel, chance, expectation, guesses, how_many_to_review
from butfor.review.rebuild import load_rows, protected
from butfor.standard.groups import GroupStandard
from butfor.standard.inputs import Floats, Mask
from butfor.standard.logistic import design_of, fit_logistic, predict_logistic
from butfor.standard.model import TwoModels
from butfor.standard.second_opinion import FOLDS, folds_of

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
CALIPER = 0.05
"""A label and its control differ by at most this in each of the two probabilities."""
ERRS, LIKELY, SIMULATED = 0.1, 0.8, 500
"""The reviewer for whom the power is simulated errs so often; the power to aim for; simulated reviews."""
MOST_NAMED, LONGEST = 5, 80
"""The most labels that the question names, and the most characters of a name."""


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
            f"{plural(len(self.tasks), 'task')}, shuffled: {plural(kinds[REVIEWED], 'label')} {name} of "
            f"{self.key.group}, {plural(kinds[CONTROL], 'control')} (the same label of {self.key.others}, as likely "
            f"to be favourable) and {plural(kinds[CLEAR], 'clear case')} (doubt at most {UNDOUBTED})."
        ]
        if alone := kinds[REVIEWED] - kinds[CONTROL]:
            lines.append(
                f"{alone} of the labels {'has' if alone == 1 else 'have'} no control: reviewed, but no evidence."
            )
        absent = [word for word, adverse in (("an adverse", True), ("a favourable", False)) if not clear[adverse]]
        if absent:
            unknown = "" if clear else ", so the reviewer's error will not be known"
            lines.append(f"There are no clear cases with {' or '.join(absent)} label{unknown}.")
        prospect = f"If so, a reviewer who errs one time in ten will show it with probability {self.power:.2f}"
        if self.hopeless:
            prospect += f"; no number of labels makes that {LIKELY:.1f}"
        elif self.power < LIKELY:
            prospect += f"; with --labels {self.would_do} it is {LIKELY:.1f}"
        return [*lines, expectation(self.labels), f"{prospect}."]

    @property
    def hopeless(self) -> bool:
        """Whether no number of labels makes it likely that the review shows something."""
        return self.power < LIKELY and self.would_do is None


def review_tasks(
    fitted: Fitted,
    to_review: Sequence[TrainingLabel],
    comparisons: Sequence[GroupStandard],
    population: Population | None = None,
    *,
    file_column: Any = None,
    **choice: Any,
) -> Review:
    """The tasks of an audit in Python."""
    if population is not None and population.run.data.sha256 != fitted.data_hash:
        raise SettingError(
            "The population belongs to another table: give the one that explain_all of this audit returned."
        )
    return make_review(
        fitted.table,
        fitted.sensitive,
        label_names=fitted.label_names,
        adverse=fitted.adverse_names,
        to_review=to_review,
        comparisons=comparisons,
        audit=fitted.data_hash if population is None else checksum(population.to_dict()),
        flip_counts=population.flip_counts if population else Counter(),
        answered=fitted.answered,
        files=None if file_column is None else _files(fitted.table.X, file_column),
        **choice,
    )


def review_of(population: Population, *, file_column: str | None = None, **choice: Any) -> Review:
    """The tasks of an audit, or of a corrected table, from its record."""
    if not population.labels:
        raise SettingError(
            "The record names no label to review: it is about one person, the audit was stopped, or the groups cannot "
            "be compared. Audit more people, or name a protected attribute with larger groups."
        )
    run = population.run
    table, data = load_rows(run)
    X, _, kept, *_ = table.whole or (table.X, table.y, np.arange(table.n))
    groups = protected(run, X, data)
    if groups is None:
        raise SettingError("The record does not include the protected attribute: make the tasks in Python.")
    sensitive = Sensitive.of(groups, X, run.sensitive_bands or None)
    files = None
    if file_column is not None:
        whole = table.X.rename_axis(run.data.identifier)
        if file_column not in (*whole.columns, run.data.identifier) and run.data.label is not None:
            whole = read_file(str(run.data.table))  # the column was not learned from
            whole = whole if run.data.identifier is None else whole.set_index(run.data.identifier)
        files = _files(whole, file_column).loc[table.X.index]
    return make_review(
        table,
        replace(sensitive, values=sensitive.values[kept]),
        label_names=run.label_names,
        adverse=run.adverse,
        to_review=population.labels,
        comparisons=population.standards,
        audit=checksum(population.to_dict()),
        flip_counts=population.flip_counts,
        answered=run.reviewed.answered if run.reviewed else (),
        files=files,
        **choice,
    )


def _files(X: pd.DataFrame, column: Any) -> pd.Series:
    """A column of the table, or the names of its rows, by which original files are found."""
    if column not in X.columns and column != X.index.name:
        known = [*X.columns, *filter(None, [X.index.name])]
        raise TableError(f"file_column={column!r}: there is no such column. {nearest(column, known, 'The table has')}")
    return X[column] if column in X.columns else X.index.to_series()


def make_review(
    table: Table,
    sensitive: Sensitive,
    *,
    label_names: tuple[str, ...],
    adverse: tuple[str, ...],
    to_review: Sequence[TrainingLabel],
    comparisons: Sequence[GroupStandard],
    audit: str,
    flip_counts: Counter[int],
    answered: Collection[int],
    files: pd.Series | None,
    labels: int | None = None,
    hide: Sequence[str] = (),
    random_state: int = 0,
) -> Review:
    """The tasks: the first `labels` of those `to_review`, their controls, and clear cases.

    `audit` is the audit's identity. `flip_counts`: per label, the people whose flip set includes it. `answered`:
    positions of labels that were reviewed before. `files`: the name of each row's file, if reviewers look at it. `hide`
    names columns not to show, besides the protected ones."""
    attribute, groups = sensitive.name, sensitive.values.astype(str)
    if not adverse:
        raise SettingError(
            "A review compares the adverse labels of two groups: name the adverse label (--adverse; in Python "
            "fit(adverse=…)) and audit again."
        )
    if CANNOT_TELL in label_names:
        raise SettingError(f"The label '{CANNOT_TELL}' is also an answer of reviewers; rename the label.")
    hide = [hide] if isinstance(hide, str) else hide
    if unknown := [name for name in hide if name not in map(str, table.X.columns)]:
        known = nearest(unknown[0], table.X.columns, "The table has")
        raise TableError(f"hide={unknown[0]!r}: there is no such column. {known}")
    unseen = {*hide, *map(str, sensitive.columns)}
    shown = table.X[[column for column in table.X.columns if str(column) not in unseen]]
    if not shown.shape[1]:
        raise SettingError("hide leaves no column to show.")
    rng = np.random.default_rng(check_random_state(random_state))

    # Whose labels: of the groups that fall short, the most likely wrong first.
    compared_with = under_review(comparisons, attribute, groups)
    reviewable = [label for label in to_review if str(label.group) in compared_with]
    if not reviewable:
        raise SettingError("There is no label to review: none is in doubt, or all were reviewed.")
    labels = how_many_to_review(reviewable) if labels is None else labels
    if not isinstance(labels, Integral) or isinstance(labels, bool) or not 1 <= labels <= len(reviewable):
        left = " or ".join(f"{attribute} = {group}" for group in compared_with)
        raise SettingError(f"labels={labels} must be from 1 to {len(reviewable)}, the labels of {left} that are left.")

    # Their controls: of those whom the groups are compared with.
    references = set(compared_with.values()) - {""}
    others = np.isin(groups, list(references)) if references else ~np.isin(groups, list(compared_with))
    recorded = np.array(label_names, dtype=object)[table.codes]
    favourable = ~np.isin(recorded, adverse)
    free = ~np.isin(np.arange(table.n), list(answered))
    with single_threaded():
        likely, favoured = likelihoods(table.X.drop(columns=list(sensitive.columns)), favourable, others)
    candidates, order = np.flatnonzero(others & ~favourable & free), [label.position for label in reviewable]
    chosen = {label.position: label for label in reviewable[: int(labels)]}
    controls = matched(likely, list(chosen), candidates)

    # Clear cases of both labels, a quarter as many as these.
    doubt = np.where(favourable, 1 - likely[:, 1], likely[:, 1])
    taken = [*chosen, *controls.values()]
    half, clear = max(LEAST_CLEAR, round(len(taken) / 4)) // 2, list[int]()
    for side in (favourable, ~favourable):
        undoubted = np.setdiff1d(np.flatnonzero(free & side & (doubt <= UNDOUBTED)), taken)
        clear += rng.permutation(undoubted)[:half].tolist()

    # The tasks in shuffled order, and the key. Ids have four digits or more: they do not look like row numbers.
    kinds = dict.fromkeys(chosen, REVIEWED) | dict.fromkeys(controls.values(), CONTROL) | dict.fromkeys(clear, CLEAR)
    positions = rng.permutation(list(kinds)).tolist()
    key = Key(
        audit_sha256=audit,
        seed=int(random_state),
        label_names=label_names,
        adverse=adverse,
        group=" or ".join(f"{attribute} = {group}" for group in compared_with),
        others=f"{attribute} = {min(references)}" if references else "other groups",
        file_column=None if files is None else str(files.name),
        tasks=tuple(
            Task(
                id="",
                position=position,
                row=plain(table.X.index[position]),
                label=str(recorded[position]),
                kind=kinds[position],
                control=controls.get(position),
                favoured=bool(favoured[position]),
                people=flip_counts[position],
                doubt=chosen[position].doubt if position in chosen else round(float(doubt[position]), 4),
                wrong=chosen[position].wrong if position in chosen else None,
            )
            for position in positions
        ),
    )
    code, numbers = key.code, 1000 + rng.choice(9 * max(1000, 10 * len(kinds)), size=len(kinds), replace=False)
    ids = [f"{code}-{number}" for number in numbers]
    key = replace(key, tasks=tuple(replace(task, id=name) for task, name in zip(key.tasks, ids, strict=True)))

    # What the reviewer sees.
    shown = shown.iloc[positions].apply(_rounded)
    dates = [column for column in table.X.attrs.get(DATES, ()) if column in shown]
    shown = shown.assign(**{column: shown[column].map(date_of, na_action="ignore") for column in dates})
    if files is not None and files.name not in shown:
        shown.insert(0, files.name, files.iloc[positions].to_numpy())
    shown.index = pd.Index(ids, name=ID)
    column = table.y.name if isinstance(table.y.name, str) else None

    # How likely the review shows something, and with how many labels it would.
    def power(count: int) -> float:
        pairs = matched(likely, order[:count], candidates)
        ours = [label for label in reviewable[:count] if label.position in pairs]
        wrong = np.array([label.wrong or 0.0 for label in ours])
        own = favoured[[label.position for label in ours]]
        return simulated_power(wrong, own, favoured[list(pairs.values())], len(clear))

    likely_shown, would_do = power(int(labels)), None
    if likely_shown < LIKELY:
        steps = [count for count in (*range(20, 200, 20), *range(200, 1001, 100)) if count < len(reviewable)]
        would_do = next((count for count in [*steps, len(reviewable)] if power(count) >= LIKELY), None)
    asked = question(column, label_names, adverse)
    return Review(key, shown, tuple(chosen.values()), asked, likely_shown, would_do)


def likelihoods(X: pd.DataFrame, favourable: Mask, others: Mask) -> tuple[Floats, Mask]:
    """Each row's probability of the favourable label `[rows × 2]`: by a logistic regression of all rows, and by the
    standard of the rows `others`. And whom that standard favours when it has learned from all of them: a reviewer who
    follows it agrees with the controls' labels more often than with others. X has no protected column."""
    model, folds, labels = TwoModels.of(X), folds_of(len(X), None, 0), favourable.astype(np.float64)
    found = np.empty((len(X), 2))
    for fold in range(FOLDS):
        ask, learn = np.flatnonzero(folds == fold), np.flatnonzero(folds != fold)
        fitted = fit_logistic(design_of(model.inputs[learn]), labels[None, learn])
        found[ask, 0] = predict_logistic(model.inputs[ask], fitted)[0]
        learn = learn[others[learn]]
        found[ask, 1] = model.predict(learn, ask, labels[None, learn], None)[0]
    learn = np.flatnonzero(others)
    return found, model.predict(learn, np.arange(len(X)), labels[None, learn], None)[0] > 0.5


def matched(likely: Floats, labels: Sequence[int], candidates: Sequence[int]) -> dict[int, int]:
    """Label to control, by position; the nearest pairs first, and each control used once. A label without one is left
    out."""
    controls: dict[int, int] = {}
    nearest = np.arange(1, min(len(labels), len(candidates)) + 1)
    if not len(nearest):
        return controls
    tree = cKDTree(likely[candidates])
    distance, place = tree.query(likely[labels], nearest, p=np.inf, distance_upper_bound=CALIPER)
    used = set[int]()
    for pair in np.argsort(distance, axis=None, kind="stable")[: np.isfinite(distance).sum()]:
        label, control = labels[pair // len(nearest)], int(candidates[place.flat[pair]])
        if label not in controls and control not in used:
            controls[label] = control
            used.add(control)
    return controls


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


def _rounded(values: pd.Series) -> pd.Series:
    """Floats to seven significant digits and at least two decimals: 0.30000000000000004 is shown as 0.3."""

    def rounded(value: float) -> float:
        return round(float(value), max(2, 6 - floor(log10(abs(value))))) if value and isfinite(value) else value

    return values.map(rounded, na_action="ignore") if pd.api.types.is_float_dtype(values.dtype) else values

"""The tasks of a review: adverse labels of a group, their controls, and clear cases; and the files
for the reviewer.

A label's control is an adverse label of another group that is as likely to be favourable. Likely by
two models at once, so that a reviewer who only follows the columns changes both alike; both models
are asked about rows that they have not learned from. Tasks show the row's values and nothing that
tells one kind from another. The key does, and the reviewer must not see it.

tasks/review.html          a page that asks one task at a time and saves the answers, offline
tasks/tasks.csv            one row per label, and an empty column to fill in
tasks/instructions.txt     what to do, in a few lines
tasks.key.json             beside the folder: each task's row, recorded label and kind
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from butfor.report.text import missing, plain_number, short
from butfor.result.population import Population
from butfor.result.record import (
    CHECKSUM,
    checksum,
    plain,
    unread_fields,
    with_checksum,
)
from butfor.result.reviewed import (
    SIGNIFICANCE_LEVEL,
    TrainingLabel,
    chance,
    expectation,
    guesses,
    how_many_to_review,
    under_review,
)  # fmt: skip
from butfor.result.run import Run
from butfor.review.replay import load_rows, protected
from butfor.standard.inputs import Floats, Mask, Rows
from butfor.standard.logistic import design_of, fit_logistic, predict_logistic
from butfor.standard.model import TwoModels
from butfor.standard.second_opinion import FOLDS, folds_of
from butfor.support.checks import check_random_state
from butfor.support.errors import (
    ReplayError,
    SettingError,
    TableError,
    nearest,
    plural,
    shortened,
)
from butfor.support.files import (
    as_csv,
    claimed,
    harmless,
    real,
    save_all,
    text_of,
)
from butfor.support.threads import single_threaded
from butfor.table.columns import date_of
from butfor.table.groups import Sensitive
from butfor.table.labels import EQUALS
from butfor.table.table import Table
from butfor.words.names import Names

ID = "id"
LABEL = "label"
"""The columns that tasks add to the table."""
ANSWER = "answer"
"""The column of Label Studio's CSV export that holds the answer: its own `label` is the empty one
of tasks.csv."""
CANNOT_TELL = "cannot tell"
"""The answer of a reviewer who cannot decide."""
REVIEW_SIZES = (*range(20, 200, 20), *range(200, 1001, 100))
"""Numbers of labels that are tried when a review may show too little."""
CONSONANTS = "BCDFGHJKLMNPQRSTVWXZ"
"""Letters of ids: they form no words, and spreadsheets do not read them as dates or numbers."""
REVIEWED = "label"
CONTROL = "control"
CLEAR = "clear case"
"""Kinds of tasks."""
UNDOUBTED = 0.1
"""A clear case has at most this doubt by the standard of those whom the group is compared with."""
LEAST_CLEAR = 20
"""Clear cases are a fifth of the tasks, or this many where there are."""
CALIPER = 0.05
"""A label and its control differ by at most this in each of the two probabilities."""
ERRS = 0.1
LIKELY = 0.8
SIMULATED = 500
"""The reviewer for whom the power is simulated errs so often; the power to aim for; simulated
reviews."""
MOST_NAMED = 5
LONGEST = 80
"""The most labels that the question names, and the most characters of a name."""


@dataclass(frozen=True)
class Task:
    """One label to review, as in the key. `id`: the review's code and a random number,
    "KTRBD-4821". `position` among the training rows, and the `row`'s name in the index; for a CSV
    file its number, from 0. `label`: the recorded one. `control`: the position of its control, if
    it has one. `favoured`: whether the standard of those whom the group is compared with would make
    it favourable. `people`: how many people's flip sets include it. `doubt`, `wrong` and
    `wrong_if_real` as in `TrainingLabel`, the last two of labels under review."""

    id: str
    position: int
    row: Any
    label: str
    kind: str
    control: int | None = None
    favoured: bool = False
    people: int = 0
    doubt: float | None = None
    wrong: float | None = None
    wrong_if_real: float | None = None

    @property
    def likely_wrong(self) -> float:
        """`wrong` or, where the group is not called, `wrong_if_real`; 0 of controls and clear
        cases."""
        return (self.wrong_if_real if self.wrong is None else self.wrong) or 0.0


@dataclass(frozen=True)
class Key:
    """What the answers are read with: the `group` under review ("sex = female"; of several, all),
    the `others` whose labels are the controls, and the tasks in the order shown."""

    audit_sha256: str
    label_names: tuple[str, ...]
    adverse: tuple[str, ...]
    group: str
    others: str
    file_column: str | None
    tasks: tuple[Task, ...]


@dataclass(frozen=True)
class Review:
    """`shown` is the table for the reviewer, one row per task, by id, and `question` what it asks.
    `labels` are those under review, the most likely wrong first. `power`: how likely a reviewer who
    errs one time in ten shows something, if as many labels are wrong as expected. `would_do`: the
    fewest labels with which that is likely; None if no number of them makes it so."""

    key: Key
    shown: pd.DataFrame
    labels: tuple[TrainingLabel, ...]
    question: str
    power: float
    would_do: int | None
    names: Names
    """The reader's words."""

    @property
    def tasks(self) -> tuple[Task, ...]:
        return self.key.tasks

    @property
    def hopeless(self) -> bool:
        """Whether no number of labels makes it likely that the review shows something."""
        return self.power < LIKELY and self.would_do is None

    @property
    def lines(self) -> list[str]:
        """What the tasks contain and what to expect, a sentence each; not for the reviewer."""
        kinds = Counter(task.kind for task in self.tasks)
        name = self.names.label(self.key.adverse)
        clear = {task.label in self.key.adverse for task in self.tasks if task.kind == CLEAR}
        lines = [
            f"{plural(len(self.tasks), 'task')}, shuffled: {plural(kinds[REVIEWED], 'label')} "
            f"{name} of {self.key.group}, {plural(kinds[CONTROL], 'control')} (the same label of "
            f"{self.key.others}, as likely to be favourable) and "
            f"{plural(kinds[CLEAR], 'clear case')} (doubt at most {UNDOUBTED})."
        ]
        if alone := kinds[REVIEWED] - kinds[CONTROL]:
            lines.append(
                f"{alone} of the labels {'has' if alone == 1 else 'have'} no control: reviewed, "
                "but no evidence."
            )
        if absent := [
            word
            for word, side in (("an adverse", True), ("a favourable", False))
            if side not in clear
        ]:
            follows = "the reviewer's error is measured on the others alone"
            if not clear:
                follows = "the reviewer's error will not be known, nor who answers at random"
            lines.append(
                f"There are no clear cases with {' or '.join(absent)} label, so {follows}."
            )
        able = "who errs one time in ten"
        if self.key.file_column is None:
            able = "who sees each person's file and errs one time in ten"
            lines.append(
                "These tasks show columns alone, by which a label and its control are as likely "
                "to be favourable: whoever goes by them changes both alike, and the review can "
                "show little. Name the column with each person's file (--file-column; in Python "
                "file_column=)."
            )
        prospect = f"If so, a reviewer {able} will show it with probability {self.power:.2f}"
        if self.hopeless:
            prospect += f"; no number of labels makes that {LIKELY:.1f}"
        elif self.power < LIKELY:
            prospect += f"; with --labels {self.would_do} it is {LIKELY:.1f}"
        return [*lines, expectation(self.labels), f"{prospect}."]


# --- which labels, and which controls -------------------------------------------------------------


def review_of(population: Population, *, file_column: str | None = None, **choice: Any) -> Review:
    """The tasks of an audit, or of a corrected table, from its record. `file_column`: a column of
    the file that names the original files, also one that is not learned from. `choice` as for
    `make_review`."""
    if not population.labels:
        raise SettingError(
            "The record names no label to review: it is about one person, the audit was stopped, "
            "or the groups cannot be compared. Audit more people, or name a protected attribute "
            "with larger groups."
        )
    run = population.run
    table, data = load_rows(run, beside=file_column)
    rows = table.as_handed_over
    sensitive = Sensitive.of(
        protected(run, rows.X, data), rows.X, run.sensitive_bands or None, data.roles.dates
    )
    sensitive = replace(sensitive, values=sensitive.values[rows.kept])
    files = None if data.beside is None else data.beside.iloc[rows.kept]
    answered = run.reviewed.answered if run.reviewed else ()
    return make_review(
        population,
        table,
        sensitive,
        answered,
        dates=data.roles.dates,
        files=files,
        **choice,
    )


def files_in(X: pd.DataFrame, column: Any) -> pd.Series:
    """The column of a table, or its index, that names the original files."""
    rows = X if X.index.name in (None, *X.columns) else X.reset_index()
    _refuse_unknown("file_column", column, list(rows.columns))
    return rows[column]


def _refuse_unknown(option: str, column: Any, columns: Sequence[Any]) -> None:
    if column not in columns:
        raise TableError(
            f"{option}={column!r}: there is no such column. "
            f"{nearest(column, columns, 'The table has')}"
        )


def make_review(
    population: Population,
    table: Table,
    sensitive: Sensitive,
    answered: Collection[int],
    *,
    dates: Collection[Hashable],
    labels: int | None = None,
    hide: Sequence[str] = (),
    files: pd.Series | None = None,
    random_state: int = 0,
    record: str | None = None,
) -> Review:
    """The tasks: the first `labels` of the population's labels to review, their controls, and clear
    cases.

    `answered`: positions of labels that were reviewed before. `dates`: columns of days since
    1970-01-01. `hide` names columns not to show,
    besides the protected ones. `files`: by training row, the name of the original file, if
    reviewers look at it. `record`: the checksum of the file that the population was read from, by
    which its answers will know it."""
    run = population.run
    check_labels(run)
    rows_shown = columns_to_show(table, sensitive, hide)
    rng = np.random.default_rng(check_random_state(random_state))

    # Whose labels: of the groups that fall short, the most likely wrong first.
    compared_with = {} if run.standard is None else under_review(run.standard, sensitive.name)
    reviewable = population.to_review
    count = checked_count(labels, reviewable, run, sensitive.name, compared_with)
    chosen = {label.position: label for label in reviewable[:count]}

    # Their controls: of those whom the groups are compared with.
    pool = pool_of(table, sensitive, run, compared_with, answered)
    controls = pool.controls_of(list(chosen))

    # Clear cases of both labels, a quarter as many as these.
    kinds = dict.fromkeys(chosen, REVIEWED) | dict.fromkeys(controls.values(), CONTROL)
    clear = pool.clear_cases(kinds, rng)
    kinds |= dict.fromkeys(clear, CLEAR)

    # The tasks in shuffled order. Ids have four digits or more: they do not look like row numbers.
    positions = rng.permutation(list(kinds)).tolist()
    audit = checksum(population.to_dict()) if record is None else record
    code = code_of(audit, int(random_state), positions)
    numbers = 1000 + rng.choice(9 * max(1000, 10 * len(kinds)), size=len(kinds), replace=False)
    tasks = tuple(
        task_of(
            f"{code}-{number}",
            position,
            kinds[position],
            chosen.get(position),
            controls.get(position),
            population,
            table,
            pool,
        )
        for position, number in zip(positions, numbers, strict=True)
    )
    references = references_in(compared_with)
    others = "other groups"
    if references:
        others = called(run, sensitive.name, min(references))
    key = Key(
        audit_sha256=audit,
        label_names=run.label_names,
        adverse=run.adverse,
        group=" or ".join(called(run, sensitive.name, group) for group in compared_with),
        others=others,
        file_column=None if files is None else str(files.name),
        tasks=tasks,
    )
    shown = as_shown(rows_shown.iloc[positions], dates, run.names)
    if files is not None and files.name not in shown:
        shown.insert(0, files.name, files.iloc[positions].to_numpy())
    shown.index = pd.Index([task.id for task in tasks], name=ID)

    # How likely the review shows something, and with how many labels it would.
    likely_shown = pool.power(reviewable[:count], len(clear))
    would_do = None
    if likely_shown < LIKELY:
        would_do = enough_labels(pool, reviewable, len(clear))
    label_name = table.y.name if isinstance(table.y.name, str) else None
    asked = question(label_name, run.label_names, run.adverse)
    return Review(key, shown, tuple(chosen.values()), asked, likely_shown, would_do, run.names)


def check_labels(run: Run) -> None:
    """Raise an error if the labels cannot be reviewed."""
    if not run.adverse:
        raise SettingError(
            "A review compares the adverse labels of two groups: name the adverse label "
            "(--adverse; in Python fit(adverse=…)) and audit again."
        )
    if CANNOT_TELL in run.label_names:
        raise SettingError(
            f"The label '{CANNOT_TELL}' is also an answer of reviewers; rename the label."
        )


def columns_to_show(table: Table, sensitive: Sensitive, hide: Sequence[str]) -> pd.DataFrame:
    """The training rows without protected columns and those to hide."""
    hidden = [hide] if isinstance(hide, str) else hide
    for name in hidden:
        _refuse_unknown("hide", name, list(map(str, table.X.columns)))
    unseen = {*hidden, *map(str, sensitive.columns)}
    shown = table.X[[column for column in table.X.columns if str(column) not in unseen]]
    if not shown.shape[1]:
        raise SettingError("hide leaves no column to show.")
    return shown


def called(run: Run, attribute: str, group: str) -> str:
    """ "sex = female" or, with names, "Black applicants"."""
    return run.names.people_in(attribute, group).removeprefix(f"{run.names.noun} with ")


def checked_count(
    labels: Any,
    reviewable: Sequence[TrainingLabel],
    run: Run,
    attribute: str,
    compared_with: Mapping[str, str],
) -> int:
    """How many labels to review: as asked or, without a number, as many as are usual."""
    if not reviewable:
        raise SettingError("There is no label to review: none is in doubt, or all were reviewed.")
    if labels is None:
        return how_many_to_review(reviewable)
    whole = isinstance(labels, Integral) and not isinstance(labels, bool)
    if not whole or not 1 <= labels <= len(reviewable):
        left = " or ".join(called(run, attribute, group) for group in compared_with)
        raise SettingError(
            f"labels={labels} must be from 1 to {len(reviewable)}, the labels of {left} that are "
            "left."
        )
    return int(labels)


def references_in(compared_with: Mapping[str, str]) -> set[str]:
    """The reference groups that the groups under review are compared with; none if with all
    others."""
    return set(compared_with.values()) - {""}


@dataclass(frozen=True, eq=False)
class Pool:
    """The rows that controls and clear cases are taken from, and how likely each is favourable."""

    recorded: NDArray[np.object_]
    """Each row's label."""
    favourable: Mask
    free: Mask
    """Which labels were not reviewed before."""
    likely: Floats
    """The probability of the favourable label, by two models `[rows × 2]`."""
    favoured: Mask
    """Whom the standard of the others favours when it has learned from all of them."""
    candidates: Rows
    """Positions of adverse labels of others, which may be controls."""

    @cached_property
    def doubt(self) -> Floats:
        """The probability of the other label, by the others' standard."""
        return np.where(self.favourable, 1 - self.likely[:, 1], self.likely[:, 1])

    def controls_of(self, positions: Sequence[int]) -> dict[int, int]:
        return matched(self.likely, positions, self.candidates)

    def clear_cases(self, taken: Mapping[int, str], rng: np.random.Generator) -> list[int]:
        """Positions of undoubted labels of both sides, a quarter as many as are taken."""
        half = max(LEAST_CLEAR, round(len(taken) / 4)) // 2
        free = self.free.copy()
        free[list(taken)] = False
        undoubted = free & (self.doubt <= UNDOUBTED)
        cases: list[int] = []
        for side in (self.favourable, ~self.favourable):
            cases += rng.permutation(np.flatnonzero(undoubted & side))[:half].tolist()
        return cases

    def power(self, labels: Sequence[TrainingLabel], clear: int) -> float:
        """How likely a review of these labels, with so many clear cases, shows something."""
        pairs = self.controls_of([label.position for label in labels])
        with_control = [label for label in labels if label.position in pairs]
        wrong = np.array([label.likely_wrong or 0.0 for label in with_control])
        own = self.favoured[[label.position for label in with_control]]
        return simulated_power(wrong, own, self.favoured[list(pairs.values())], clear)


def pool_of(
    table: Table,
    sensitive: Sensitive,
    run: Run,
    compared_with: Mapping[str, str],
    answered: Collection[int],
) -> Pool:
    groups = sensitive.values.astype(str)
    references = references_in(compared_with)
    if references:
        others = np.isin(groups, list(references))
    else:
        others = ~np.isin(groups, list(compared_with))
    recorded = np.array(run.label_names, dtype=object)[table.codes]
    favourable = ~np.isin(recorded, run.adverse)
    free = ~np.isin(np.arange(table.n), list(answered))
    inputs = table.X.drop(columns=list(sensitive.columns))
    with single_threaded():
        likely, favoured = likelihoods(inputs, favourable, others)
    candidates = np.flatnonzero(others & ~favourable & free)
    return Pool(recorded, favourable, free, likely, favoured, candidates)


def code_of(audit: str, random_state: int, positions: Sequence[int]) -> str:
    """Letters that tell a review from others, such as the next round."""
    digest = hashlib.sha256(json.dumps([audit, random_state, positions]).encode()).digest()
    return "".join(CONSONANTS[byte % len(CONSONANTS)] for byte in digest[:5])


def task_of(
    name: str,
    position: int,
    kind: str,
    reviewed: TrainingLabel | None,
    control: int | None,
    population: Population,
    table: Table,
    pool: Pool,
) -> Task:
    """The task about one training row. `reviewed`: what the audit says of its label, if that is
    under review."""
    doubt = round(float(pool.doubt[position]), 4) if reviewed is None else reviewed.doubt
    return Task(
        id=name,
        position=position,
        row=plain(table.X.index[position]),
        label=str(pool.recorded[position]),
        kind=kind,
        control=control,
        favoured=bool(pool.favoured[position]),
        people=population.flip_counts[position],
        doubt=doubt,
        wrong=None if reviewed is None else reviewed.wrong,
        wrong_if_real=None if reviewed is None else reviewed.wrong_if_real,
    )


def as_shown(rows: pd.DataFrame, dates: Collection[Hashable], names: Names) -> pd.DataFrame:
    """What the reviewer sees: dates as dates, and 0.30000000000000004 as 0.3, in seven digits or at
    least two decimals."""
    shown = rows.copy()
    for column in shown.columns:
        if column in dates:
            shown[column] = shown[column].map(date_of, na_action="ignore")
        elif pd.api.types.is_float_dtype(shown[column].dtype):
            shown[column] = shown[column].map(readable, na_action="ignore")
    words = [names.column(column) for column in shown.columns]
    if len(set(words)) == len(words):
        shown.columns = pd.Index(words)
    return shown


def readable(value: float) -> float:
    return float(f"{value:.7g}") if abs(value) < 1e5 else round(float(value), 2)


def enough_labels(pool: Pool, reviewable: Sequence[TrainingLabel], clear: int) -> int | None:
    """With how many labels a review would probably show something; None if not even with all."""
    counts = [count for count in REVIEW_SIZES if count < len(reviewable)]
    for count in [*counts, len(reviewable)]:
        if pool.power(reviewable[:count], clear) >= LIKELY:
            return count
    return None


def likelihoods(X: pd.DataFrame, favourable: Mask, others: Mask) -> tuple[Floats, Mask]:
    """Each row's probability of the favourable label `[rows × 2]`: by a logistic regression of all
    rows, and by the standard of the rows `others`. And whom that standard favours when it has
    learned from all of them: a reviewer who follows it agrees with the controls' labels more often
    than with others. X has no protected column."""
    model = TwoModels.of(X)
    folds = folds_of(len(X), None, 0)
    labels = favourable.astype(np.float64)
    found = np.empty((len(X), 2))
    for fold in range(FOLDS):
        ask = np.flatnonzero(folds == fold)
        learn = np.flatnonzero(folds != fold)
        fitted = fit_logistic(design_of(model.inputs[learn]), labels[None, learn])
        found[ask, 0] = predict_logistic(model.inputs[ask], fitted)[0]
        learn = learn[others[learn]]
        found[ask, 1] = model.predict(learn, ask, labels[None, learn], None)[0]
    learn = np.flatnonzero(others)
    return found, model.predict(learn, np.arange(len(X)), labels[None, learn], None)[0] > 0.5


def matched(
    likely: Floats, labels: Sequence[int], candidates: Sequence[int] | Rows
) -> dict[int, int]:
    """Label to control, by position; the nearest pairs first, and each control used once. A label
    without one is left out."""
    controls: dict[int, int] = {}
    nearest = np.arange(1, min(len(labels), len(candidates)) + 1)
    if not len(nearest):
        return controls
    tree = cKDTree(likely[candidates])
    distance, place = tree.query(likely[labels], nearest, p=np.inf, distance_upper_bound=CALIPER)
    used = set[int]()
    for pair in np.argsort(distance, axis=None, kind="stable")[: np.isfinite(distance).sum()]:
        label = labels[pair // len(nearest)]
        control = int(candidates[place.flat[pair]])
        if label not in controls and control not in used:
            controls[label] = control
            used.add(control)
    return controls


def simulated_power(wrong: Floats, own: Mask, other: Mask, clear: int) -> float:
    """How often the answers of a reviewer who errs one time in ten show something. Of the labels
    with a control: `wrong`, how likely each is wrong, and whether the others' standard favours it
    (`own`) and its control (`other`); `clear`: the number of clear cases."""
    rng = np.random.default_rng(0)
    found = 0
    for _ in range(SIMULATED if len(wrong) else 0):
        changed = rng.random(len(wrong)) < ERRS + (1 - 2 * ERRS) * wrong
        also = rng.random(len(wrong)) < ERRS
        strata = [
            ((int(changed[own == side].sum()), int((own == side).sum())),
             (int(also[other == side].sum()), int((other == side).sum())))
            for side in (False, True)
        ]  # fmt: skip
        found += chance(strata) <= SIGNIFICANCE_LEVEL and not guesses(
            int(rng.binomial(clear, ERRS)), clear
        )
    return found / SIMULATED


def question(column: str | None, labels: Sequence[str], adverse: Collection[str] = ()) -> str:
    """The question in the table's words: "deny: yes (unfavourable) or no (favourable)?". `column`:
    the label's, if it has a name. `adverse`: the labels that people would rather not have, if
    known."""
    told = []
    for label in labels:
        side = f" ({'unfavourable' if label in adverse else 'favourable'})" if adverse else ""
        told.append(f"{short(label.removeprefix(f'{column}{EQUALS}'), LONGEST)}{side}")
    choice = (
        f"{', '.join(told[:-1])} or {told[-1]}?"
        if len(labels) <= MOST_NAMED
        else f"which of {len(labels)} labels?"
    )
    name = short(column or "", LONGEST)
    return f"{name}: {choice}" if name else choice[0].upper() + choice[1:]


# --- the reviewer's files -------------------------------------------------------------------------

SECRET = {
    "note": "Not for the reviewer: each task's training row, recorded label, and why it is asked."
}
INSTRUCTIONS = """\
Which label is right for this person? {}

Open review.html in a browser: it asks about one person at a time. When you are done, press "Save answers" and return
the file answers.csv.

Or fill in tasks.csv, one row per person. Write into its column 'label' the label that is right:

    {}

If you cannot tell, write 'cannot tell'. Do not change the column 'id': it names the review and the task.

{} Take the tasks in any order.
"""  # noqa: E501 (the reader's editor wraps it)


def key_of(folder: Path) -> Path:
    """The default place of the key: beside the folder."""
    return folder.with_name(f"{folder.name}.key.json")


def write_review(
    review: Review, folder: Path, key: Path | None = None, overwrite: bool = False
) -> tuple[list[Path], Path]:
    """Write the reviewer's files into `folder` and the key beside it, all or none. Returns the
    files and the key. Existing files, which may be somebody's work, are replaced only with
    `overwrite`."""
    folder = real(folder)
    key = key_of(folder) if key is None else real(key)
    if folder in key.parents:
        raise SettingError(
            f"--key {key} is in the reviewer's folder, and the reviewer must not see it; put it "
            "elsewhere."
        )
    names = review.key.label_names
    shown = review.shown

    # Columns of the table that have a name of ours are renamed, and an empty column is to be filled
    # in.
    ours = (ID, LABEL, ANSWER)
    taken = {column: f"{column} (of the table)" for column in shown.columns if str(column) in ours}
    look = what_to_look_at(review.key.file_column)
    texts = {
        folder / "tasks.csv": as_csv(shown.rename(columns=taken).assign(**{LABEL: ""})),
        folder / "instructions.txt": INSTRUCTIONS.format(
            review.question, "\n    ".join(names), look
        ),
        folder / "review.html": reviewer_page(
            shown, review.question, names, review.key.file_column
        ),
        key: json.dumps(with_checksum(SECRET | asdict(review.key)), indent=1, ensure_ascii=False),
    }
    with claimed(folder):
        if not overwrite and (there := [path for path in texts if path.exists()]):
            raise SettingError(
                f"'{there[0]}' exists and may belong to a review under way: name another folder, "
                "or replace it with --overwrite."
            )
        save_all(texts)
    return [path for path in texts if path != key], key


def read_key(path: Path | None, answers: Sequence[Path], record: str, run: Run) -> Key:
    """The key of a review, by default beside the folder of the answers or in it; an error if it
    does not belong to the record with this checksum and this run, or was changed."""
    import msgspec

    folders = [real(file).parent for file in answers]
    places = [place for folder in folders for place in (key_of(folder), folder / "tasks.key.json")]
    path = path or next((place for place in places if place.exists()), places[0])
    text = text_of(path, "The key", "Name the file that was written beside the tasks: --key FILE.")
    try:
        content = msgspec.json.decode(text)
        key = msgspec.convert(content, Key)
    except (ValueError, RecursionError) as error:
        raise ReplayError(f"'{path}' is not the key of a review ({error}).") from None
    if key.audit_sha256 != record:
        raise ReplayError(
            f"The key '{path}' belongs to another audit: its tasks came from another file."
        )
    if content.get(CHECKSUM) != checksum(content):
        raise ReplayError(f"The key '{path}' was changed since butfor wrote it. Use the original.")
    told = {name: value for name, value in content.items() if name not in (CHECKSUM, *SECRET)}
    unknown = next(unread_fields(told, msgspec.to_builtins(key)), "")
    if problem := f"there is no field {unknown}" if unknown else _not_of(run, key):
        raise ReplayError(
            f"The key '{path}' is not that of this review: {shortened(problem, 200)}. Use the "
            "original."
        )
    return key


def _not_of(run: Run, key: Key) -> str:
    """Why a key cannot be that of a review of this run; empty if it can."""
    if (key.label_names, key.adverse) != (run.label_names, run.adverse):
        return "its labels, or which of them are adverse, are not those of the record"
    if not key.tasks:
        return "it has no tasks"
    for name in ("id", "position"):
        if len({getattr(task, name) for task in key.tasks}) < len(key.tasks):
            return f"two tasks have one {name}"
    controls = {task.position for task in key.tasks if task.kind == CONTROL}
    for task in key.tasks:
        if not 0 <= task.position < run.data.training_rows:
            return (
                f"task {task.id} is about position {task.position}, and there are "
                f"{run.data.training_rows} rows"
            )
        if task.label not in run.label_names or task.kind not in (REVIEWED, CONTROL, CLEAR):
            return f"task {task.id} has the label '{task.label}' and is a '{task.kind}'"
        if task.control is not None and task.control not in controls:
            return f"the control of task {task.id} is no task"
        if task.people < 0 or not all(
            0 <= share <= 1 for share in (task.doubt or 0, task.wrong or 0)
        ):
            return f"task {task.id} has a probability or a count that cannot be"
    return ""


def what_to_look_at(file_column: str | None) -> str:
    """What reviewers judge by; the same on the page and in the instructions."""
    if file_column is None:
        return "Judge every person only by what is shown; do not look anybody up."
    return (
        f"Look up every person's original file: '{short(file_column, LONGEST)}' names it. Judge "
        "by that file. It may tell the person's group, so this review is not blind to the group."
    )


def reviewer_page(
    shown: pd.DataFrame, asked: str, labels: Sequence[str], file_column: str | None = None
) -> str:
    """The page. `shown`: one row per task, by id."""
    from butfor.report.page import own_parts, render

    def text(value: Any) -> str | None:
        if missing(value):
            return None
        shown = plain_number(value).replace("−", "-") if isinstance(value, float) else str(value)
        return shown.removesuffix(" 00:00:00") if isinstance(value, pd.Timestamp) else shown

    columns = [shown.iloc[:, k].astype(object) for k in range(shown.shape[1])]
    data: dict[str, Any] = {
        "question": asked,
        "look": what_to_look_at(file_column),
        "labels": list(labels),
        "written": list(map(harmless, labels)),  # in a file that a spreadsheet may open
        "unsure": CANNOT_TELL,
        "columns": list(map(str, shown.columns)),
        "tasks": [
            [str(id), *map(text, values)] for id, *values in zip(shown.index, *columns, strict=True)
        ],
    }
    # Browsers store answers under this name, so that reviews do not mix.
    data["review"] = hashlib.sha256(json.dumps(data).encode()).hexdigest()[:32]
    return render(
        "reviewer.html", data=data, **own_parts("reviewer.js", "style.css", "reviewer.css")
    )

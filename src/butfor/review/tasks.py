"""Review, blind: the labels whose review is worth most, among labels like them that nobody doubts.

Every chosen label comes with a decoy: a row in no flip set whose doubt is low, of the same recorded label and, as far
as there are any, of the same group. The tasks show the row's values and nothing that tells chosen labels from decoys;
the key, which does, stays with whoever asked. Disagreement on chosen labels means something only beside disagreement on
decoys.

tasks/tasks.csv            one row per label, and an empty column to fill in
tasks/tasks.json           the same for Label Studio, with
tasks/label_config.xml     the project's labelling interface
tasks/instructions.txt     what to do, in a few lines
tasks.key.json             beside the reviewer's folder: which task is which row, its recorded label, chosen or decoy
"""

from __future__ import annotations

import json
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from butfor.data.read import as_dates
from butfor.errors import ReplayError, SettingError, TableError, listed, nearest
from butfor.files import make_folder, save_table, save_text
from butfor.learn.protocols import Table
from butfor.result.labels import TO_REVIEW, LabelValue, expectation
from butfor.result.population import Population
from butfor.result.record import checksum, plain
from butfor.run.fitted import Fitted

ID, LABEL = "id", "label"
"""The columns that tasks add to the table's own."""
CANNOT_TELL = "cannot tell"
"""What a reviewer may answer beside the labels."""


@dataclass(frozen=True)
class Task:
    """One label to review, as the key knows it."""

    id: int
    position: int
    """Among the training rows."""
    row: Any
    """The row's index label; for a CSV file its number there, from 0."""
    label: str
    """The recorded one."""
    people: int
    """How many people's flip sets it is in: a keystone where it is in any."""
    doubt: float | None = None
    wrong: float | None = None
    """Of a chosen label: see `LabelValue`."""
    beside: int | None = None
    """Of a decoy: the task of the label it was chosen for."""
    same_group: bool = True
    """Of a decoy: whether it has that label's group."""

    @property
    def decoy(self) -> bool:
        return self.beside is not None


@dataclass(frozen=True)
class Review:
    tasks: tuple[Task, ...]
    """In the order in which they are shown."""
    shown: pd.DataFrame
    """What the reviewer sees: one row per task, by its id."""
    labels: tuple[LabelValue, ...]
    """Those that were chosen, the most valuable first."""
    label_names: tuple[str, ...]
    audit_sha256: str
    seed: int

    @property
    def decoys(self) -> list[Task]:
        return [task for task in self.tasks if task.decoy]

    @property
    def sentence(self) -> str:
        """What the tasks hold; for whoever keeps the key."""
        chosen, decoys = len(self.labels), len(self.decoys)
        other = sum(not task.same_group for task in self.decoys)
        group = f" ({other} of them of another group)" if other else " and group"
        short = f" There were no more such rows: {chosen - decoys} labels have no decoy."
        return (
            f"{len(self.tasks)} labels to review, shuffled: {chosen} whose review is worth most, and {decoys} decoys, "
            f"hardly doubted labels of the same kind{group}.{short if decoys < chosen else ''}"
        )

    @property
    def expectation(self) -> str:
        """How many are likely to be wrong."""
        return expectation(self.labels)


@dataclass(frozen=True, eq=False)
class ReviewRows:
    """The training rows, their groups, the doubt of each label, the protected columns, which no reviewer sees, those
    that hold dates, and the positions of labels that were reviewed before."""

    table: Table
    groups: NDArray[np.object_]
    doubt: NDArray[np.float64]
    label_names: tuple[str, ...]
    protected: Sequence[Hashable] = ()
    dates: tuple[str, ...] = ()
    answered: Collection[int] = ()

    @cached_property
    def labels(self) -> NDArray[np.object_]:
        return np.array(self.label_names, dtype=object)[self.table.codes]


def review_tasks(
    fitted: Fitted,
    values: Sequence[LabelValue],
    population: Population | None = None,
    *,
    labels: int = TO_REVIEW,
    hide: Sequence[str] = (),
    seed: int = 0,
) -> Review:
    """The tasks of an audit in Python; `review.rebuild.review_of` makes those of a record."""
    rows = ReviewRows(
        fitted.table,
        fitted.sensitive.values,
        fitted.doubt,
        fitted.label_names,
        fitted.sensitive.columns,
        answered=fitted.answered,
    )
    return make_review(values, rows, population, labels=labels, hide=hide, seed=seed)


def make_review(
    values: Sequence[LabelValue],
    rows: ReviewRows,
    population: Population | None = None,
    *,
    labels: int = TO_REVIEW,
    hide: Sequence[str] = (),
    seed: int = 0,
) -> Review:
    """The tasks: the first so many `labels` of those with a value, and decoys. `hide` names columns that are not shown,
    beside the protected ones."""
    if labels < 1:
        raise SettingError(f"--labels {labels}: at least one label must be reviewed.")
    if not values:
        raise SettingError("There is no label to review: none is doubted, or all of them were reviewed.")
    if CANNOT_TELL in rows.label_names:
        raise SettingError(f"A label is called '{CANNOT_TELL}', as reviewers say it; call it otherwise.")
    chosen, table = {each.position: each for each in values[:labels]}, rows.table
    rng = np.random.default_rng(seed)
    label_of = matched(list(chosen), _unsuspected(rows, chosen, population), rows.labels, rows.groups, rng)
    order = [*chosen, *label_of]
    ids = dict(zip(order, map(int, _numbers(len(order), rng)), strict=True))
    people = population.flip_counts if population is not None else {}
    tasks = [
        Task(
            id=ids[at],
            position=at,
            row=plain(table.X.index[at]),
            label=str(rows.labels[at]),
            people=people.get(at, 0),
            doubt=chosen[at].doubt if at in chosen else None,
            wrong=chosen[at].wrong if at in chosen else None,
            beside=ids.get(label_of.get(at, -1)),
            same_group=rows.groups[at] == rows.groups[label_of.get(at, at)],
        )
        for at in order
    ]
    shuffled = tuple(tasks[k] for k in rng.permutation(len(tasks)))
    shown = table.X.drop(columns=_hidden(rows, hide)).iloc[[task.position for task in shuffled]]
    shown = shown.assign(**{column: as_dates(shown[column]) for column in rows.dates if column in shown})
    shown.index = pd.Index([task.id for task in shuffled], name=ID)
    sha256 = checksum(population.to_dict()) if population is not None else ""
    return Review(shuffled, shown, tuple(chosen.values()), rows.label_names, sha256, seed)


def matched(
    chosen: Sequence[int],
    unsuspected: NDArray[np.int64],
    labels: NDArray[np.object_],
    groups: NDArray[np.object_],
    rng: np.random.Generator,
) -> dict[int, int]:
    """Decoys, drawn without replacement, each with its chosen label: of the same label and group where there are enough
    such rows, then of the same label, then none."""
    rows, decoys = [int(row) for row in rng.permutation(unsuspected)], dict[int, int]()
    for kind in (list(zip(labels, groups, strict=True)), list(labels)):
        alike: dict[Any, list[int]] = {}
        for row in rows:
            if row not in decoys:
                alike.setdefault(kind[row], []).append(row)
        alone = [at for at in chosen if at not in decoys.values()]
        for at in alone:
            if alike.get(kind[at]):
                decoys[alike[kind[at]].pop()] = at
    return decoys


def _unsuspected(rows: ReviewRows, chosen: Mapping[int, Any], population: Population | None) -> NDArray[np.int64]:
    """Rows that may be decoys: not chosen, not reviewed before, in no flip set of anybody, and doubted less than half
    of the rows of their label and group are."""
    finds = population.found if population is not None else []
    touched = {at for v in finds for at in v.positions}
    touched |= {*chosen, *rows.answered}
    doubts = pd.Series(rows.doubt)
    usual = doubts.groupby([rows.labels, rows.groups.astype(str)]).transform("median")
    low = (doubts <= usual).to_numpy()
    return np.array([at for at in np.flatnonzero(low) if int(at) not in touched], dtype=np.int64)


def _hidden(rows: ReviewRows, hide: Sequence[str]) -> list[Any]:
    X, protected = rows.table.X, set(map(str, rows.protected))
    unknown = [name for name in hide if name not in map(str, X.columns)]
    if unknown:
        known = nearest(unknown[0], X.columns, "The table has")
        raise TableError(f"--hide: there is no column {listed(unknown)}. {known}")
    hidden = [column for column in X.columns if str(column) in protected or str(column) in hide]
    if len(hidden) == X.shape[1]:
        raise SettingError("--hide leaves nothing to show to the reviewer.")
    return hidden


def _numbers(count: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Ids that say nothing, four digits or more: no row number of a spreadsheet or a labelling tool passes for one."""
    return 1000 + rng.choice(9 * max(1000, 10 * count), size=count, replace=False)


# --- files --------------------------------------------------------------------------------------------


def write_review(
    review: Review, folder: Path, key: Path | None = None, overwrite: bool = False
) -> tuple[list[Path], Path]:
    """Write what the reviewer gets into `folder` and the key next to it; returns the files and the key. What is there
    already may be somebody's work: it is replaced only with `overwrite`."""
    folder = folder.resolve()
    key = key_of(folder) if key is None else key.resolve()
    if folder == key.parent or folder in key.parents:
        raise SettingError(f"--key {key} lies in the folder for the reviewer, who must not see it; put it elsewhere.")
    shown = [folder / name for name in ("tasks.csv", "tasks.json", "label_config.xml", "instructions.txt")]
    there = [path for path in (*shown, key) if path.exists()]
    if there and not overwrite:
        raise SettingError(
            f"'{there[0]}' is there already and may belong to a review under way: name another folder, or replace it "
            "with --overwrite."
        )
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

"""Review, blind: the labels whose review is worth most, among labels like them that nobody doubts.

Every chosen label comes with a decoy: a row in no flip set whose doubt is low, of the same recorded label and, as far
as there are any, of the same group. The tasks show the row's values and nothing that tells chosen labels from decoys;
the key, which does, stays with whoever asked. Disagreement on chosen labels means something only beside disagreement on
decoys.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from butfor.data.kinds import as_dates
from butfor.errors import SettingError, TableError, listed
from butfor.learn.protocols import Table
from butfor.result.labels import TO_REVIEW, LabelValue, expectation
from butfor.result.population import Population
from butfor.result.record import checksum, plain

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
    value: float | None = None
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

    @cached_property
    def by_id(self) -> dict[int, Task]:
        return {task.id: task for task in self.tasks}

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
class Rows:
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


def make_review(
    values: Sequence[LabelValue],
    rows: Rows,
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
    people = population.hinging if population is not None else {}
    tasks = [
        Task(
            id=ids[at],
            position=at,
            row=plain(table.X.index[at]),
            label=str(rows.labels[at]),
            people=people.get(at, 0),
            doubt=chosen[at].doubt if at in chosen else None,
            value=chosen[at].value if at in chosen else None,
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


def _unsuspected(rows: Rows, chosen: Mapping[int, Any], population: Population | None) -> NDArray[np.int64]:
    """Rows that may be decoys: not chosen, not reviewed before, in no flip set of anybody, and doubted less than half
    of the rows of their label and group are."""
    finds = population.found if population is not None else []
    touched = {at for v in finds for flips in (v.positions, *v.alternatives) for at in flips}
    touched |= {*chosen, *rows.answered}
    doubts = pd.Series(rows.doubt)
    usual = doubts.groupby([rows.labels, rows.groups.astype(str)]).transform("median")
    low = (doubts <= usual).to_numpy()
    return np.array([at for at in np.flatnonzero(low) if int(at) not in touched], dtype=np.int64)


def _hidden(rows: Rows, hide: Sequence[str]) -> list[Any]:
    X, protected = rows.table.X, set(map(str, rows.protected))
    unknown = [name for name in hide if name not in map(str, X.columns)]
    if unknown:
        raise TableError(f"--hide: there is no column {listed(unknown)}; the table has {listed(X.columns, 30)}.")
    hidden = [column for column in X.columns if str(column) in protected or str(column) in hide]
    if len(hidden) == X.shape[1]:
        raise SettingError("--hide leaves nothing to show to the reviewer.")
    return hidden


def _numbers(count: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Ids that say nothing, four digits or more: no row number of a spreadsheet or a labelling tool passes for one."""
    return 1000 + rng.choice(9 * max(1000, 10 * count), size=count, replace=False)

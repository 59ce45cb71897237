"""Review, blind: the labels that decisions hinge on, among labels like them that nothing hinges on.

Every keystone, a training row in a person's flip set, comes with a decoy: a row in no flip set, of the same recorded
label and, as far as there are any, of the same group. The tasks show the row's values and nothing that tells keystones
from decoys; the key, which does, stays with whoever asked. Disagreement on keystones means something only beside
disagreement on decoys.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from butfor.data.kinds import as_dates
from butfor.data.sensitive import Sensitive
from butfor.errors import ReplayError, SettingError, TableError, listed
from butfor.learn.protocols import Table
from butfor.result.population import Population
from butfor.result.record import checksum, plain
from butfor.run.reload import loaded

ID, LABEL = "id", "label"
"""The columns that tasks add to the table's own."""


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
    """How many people's flip sets it is in; 0 for a decoy."""
    beside: int | None = None
    """Of a decoy: the task of the keystone it was chosen for."""
    same_group: bool = True
    """Of a decoy: whether it has its keystone's group."""

    @property
    def decoy(self) -> bool:
        return self.beside is not None


@dataclass(frozen=True)
class Review:
    tasks: tuple[Task, ...]
    """In the order in which they are shown."""
    shown: pd.DataFrame
    """What the reviewer sees: one row per task, by its id."""
    label_names: tuple[str, str]
    audit_sha256: str
    seed: int

    @property
    def keystones(self) -> list[Task]:
        return [task for task in self.tasks if not task.decoy]

    @property
    def decoys(self) -> list[Task]:
        return [task for task in self.tasks if task.decoy]

    @property
    def sentence(self) -> str:
        """What the tasks hold; for whoever keeps the key."""
        keystones, decoys = len(self.keystones), len(self.decoys)
        other = sum(not task.same_group for task in self.decoys)
        group = f", {other} of them of another group" if other else " and group"
        short = f" There were no more rows of the same label: {keystones - decoys} keystones have no decoy."
        return (
            f"{len(self.tasks)} labels to review: {keystones} that decisions hinge on and {decoys} decoys of the same "
            f"recorded label{group}, shuffled.{short if decoys < keystones else ''}"
        )


def make_review(
    population: Population, *, every: bool = False, most: int | None = None, hide: Sequence[str] = (), seed: int = 0
) -> Review:
    """The tasks of an audit: the flip sets of its solid finds, or of `every` find; the `most` of these rows that are in
    most people's sets. `hide` names columns that are not shown, beside the protected ones."""
    people = hinging(population, every)
    if not people:
        raise SettingError(_nothing(population, every))
    if most is not None and most < 1:
        raise SettingError(f"--most {most}: at least one label must be reviewed.")
    table, groups, dates = _training(population.run)
    rng = np.random.default_rng(seed)
    names = population[0].label_names
    labels = np.array(names, dtype=object)[table.zero_one.astype(int)]
    keystones = sorted(people, key=lambda position: (-people[position], position))[:most]
    keystone_of = matched(keystones, _untouched(population, table.n), labels, groups, rng)
    order = [*keystones, *keystone_of]
    ids = dict(zip(order, map(int, _numbers(len(order), rng)), strict=True))
    tasks = [
        Task(
            id=ids[at],
            position=at,
            row=plain(table.X.index[at]),
            label=str(labels[at]),
            people=0 if at in keystone_of else people[at],
            beside=ids.get(keystone_of.get(at, -1)),
            same_group=groups is None or groups[at] == groups[keystone_of.get(at, at)],
        )
        for at in order
    ]
    shuffled = tuple(tasks[k] for k in rng.permutation(len(tasks)))
    shown = table.X.drop(columns=_hidden(population.run, table.X, hide)).iloc[[task.position for task in shuffled]]
    shown = shown.assign(**{column: as_dates(shown[column]) for column in dates if column in shown})
    shown.index = pd.Index([task.id for task in shuffled], name=ID)
    return Review(shuffled, shown, names, checksum(population.to_dict()), seed)


def hinging(population: Population, every: bool = False) -> Counter[int]:
    """Training rows by position, and how many people's flip sets they are in: of solid finds, or of `every` find."""
    finds = population.found if every else population.solid
    return Counter(position for verdict in finds for position in verdict.positions)


def matched(
    keystones: Sequence[int],
    untouched: NDArray[np.int64],
    labels: NDArray[np.object_],
    groups: NDArray[np.object_] | None,
    rng: np.random.Generator,
) -> dict[int, int]:
    """Decoys, drawn without replacement from `untouched`, each with its keystone: of the same label and group where
    there are enough such rows, then of the same label, then none."""
    rows, decoys = [int(row) for row in rng.permutation(untouched)], dict[int, int]()
    kinds = [list(labels)] if groups is None else [list(zip(labels, groups, strict=True)), list(labels)]
    for kind in kinds:
        alike: dict[Any, list[int]] = {}
        for row in rows:
            if row not in decoys:
                alike.setdefault(kind[row], []).append(row)
        alone = [keystone for keystone in keystones if keystone not in decoys.values()]
        for keystone in alone:
            if alike.get(kind[keystone]):
                decoys[alike[kind[keystone]].pop()] = keystone
    return decoys


def _training(run: Mapping[str, Any]) -> tuple[Table, NDArray[np.object_] | None, tuple[str, ...]]:
    """The training rows of a run, their groups where it tells them, and the columns that hold dates."""
    try:
        table, beside, data = loaded(run)
        columns = _protected(run, table.X)
        given = columns if columns else beside
        return table, None if given is None else Sensitive.of(given, table.X).values, data.dates
    except (KeyError, TypeError, AttributeError) as error:
        raise ReplayError(f"The record's run block does not bring back its training rows ({error!r}).") from error


def _protected(run: Mapping[str, Any], X: pd.DataFrame) -> list[Any]:
    named = set(map(str, run.get("sensitive_columns", [run["sensitive"]])))
    return [column for column in X.columns if str(column) in named]


def _hidden(run: Mapping[str, Any], X: pd.DataFrame, hide: Sequence[str]) -> list[Any]:
    unknown = [name for name in hide if name not in map(str, X.columns)]
    if unknown:
        raise TableError(f"--hide: there is no column {listed(unknown)}; the table has {listed(X.columns, 30)}.")
    hidden = [*_protected(run, X), *(column for column in X.columns if str(column) in hide)]
    if len(set(hidden)) == X.shape[1]:
        raise SettingError("--hide leaves nothing to show to the reviewer.")
    return hidden


def _untouched(population: Population, rows: int) -> NDArray[np.int64]:
    """Rows in no flip set at all, be it of a find that is not solid, or an alternative."""
    sets = [flips for v in population.found for flips in (v.positions, *v.alternatives)]
    touched = {position for flips in sets for position in flips}
    if any(not 0 <= position < rows for position in touched):
        raise ReplayError(f"The record flips a training row that is not there: the table has rows 0 to {rows - 1}.")
    return np.array([row for row in range(rows) if row not in touched], dtype=np.int64)


def _numbers(count: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Ids that say nothing, four digits or more: no row number of a spreadsheet or a labelling tool passes for one."""
    return 1000 + rng.choice(9 * max(1000, 10 * count), size=count, replace=False)


def _nothing(population: Population, every: bool) -> str:
    if not population.found:
        return "The audit found no counterfactual dataset: there is no label to review."
    if every:
        return "No find of the audit flips any label."
    unchecked = f" ({population.doubt})" if population.doubt else ""
    return (
        f"None of the {len(population.found)} finds is solid{unchecked}; --all reviews the labels of every find, of "
        "which the decisions may hinge on the seed instead."
    )

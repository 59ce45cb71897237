"""Review, blind: the labels most likely to be wrong, among labels that hardly anybody would doubt.

Every chosen label comes with a decoy (see `review.decoys`). The tasks show the row's values and nothing that tells
chosen labels from decoys; the key, which does, stays with whoever asked.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from numbers import Integral
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from butfor.data.read import as_dates
from butfor.errors import ReplayError, SettingError, TableError, listed, nearest
from butfor.learn.protocols import Table
from butfor.machine import check_random_state
from butfor.result.labels import LITTLE, TO_REVIEW, TrainingLabel, expectation, expected_wrong
from butfor.result.population import Population
from butfor.result.record import checksum, plain
from butfor.review.decoys import UNDOUBTED, choose_decoys
from butfor.review.reviewer_page import question
from butfor.run.fitted import Fitted
from butfor.run.verdicts import adverse_labels

ID, LABEL = "id", "label"
"""The columns that tasks add to the table's own."""
CANNOT_TELL = "cannot tell"
"""What a reviewer may answer beside the labels."""
CONSONANTS = "BCDFGHJKLMNPQRSTVWXZ"
"""Of ids: no word comes of them, and no spreadsheet takes them for a date or a number."""
LEAST_DECOYS = 6
"""With fewer, not even a reviewer who never errs is told from one who guesses."""


@dataclass(frozen=True)
class Task:
    """One label to review, as the key knows it."""

    id: str
    """The review's code and a random number: "KTRBD-4821"."""
    position: int
    """Among the training rows."""
    row: Any
    """The row's index label; for a CSV file its number there, from 0."""
    label: str
    """The recorded one."""
    decoy: bool
    people: int
    """How many people's flip sets it is in: a keystone where it is in any."""
    doubt: float | None = None
    wrong: float | None = None
    """Of a chosen label: see `TrainingLabel`."""


@dataclass(frozen=True)
class Review:
    tasks: tuple[Task, ...]
    """In the order in which they are shown."""
    shown: pd.DataFrame
    """What the reviewer sees: one row per task, by its id."""
    labels: tuple[TrainingLabel, ...]
    """Those that were chosen, the likeliest to be wrong first."""
    label_names: tuple[str, ...]
    audit_sha256: str
    seed: int
    likely: tuple[int, float]
    """Labels (the first 100 or, where more were chosen, those), and how many of them are likely to be wrong."""
    column: str | None = None
    """The label's, where it has a name."""
    adverse: tuple[str, ...] = ()
    """The labels that people would rather not have, where that is known."""

    @property
    def decoys(self) -> list[Task]:
        return [task for task in self.tasks if task.decoy]

    @property
    def question(self) -> str:
        """What the reviewer is asked, in the table's words."""
        return question(self.column, self.label_names, self.adverse)

    @property
    def sentence(self) -> str:
        """What the tasks hold; for whoever keeps the key."""
        kinds = Counter(task.label for task in self.decoys)
        split = ", ".join(f"{count} '{label}'" for label, count in kinds.most_common())
        doubts = [task.doubt for task in self.decoys if task.doubt is not None]
        most = f" (doubt at most {max(doubts):.2f}; {split})" if doubts else ""
        alike = sum(kinds[label] for label in {each.label for each in self.labels})
        few = f" {alike or 'None'} of the decoys have such a label: answers will show nothing. Change --labels."
        return (
            f"{len(self.tasks)} tasks, shuffled: {len(self.labels)} labels to review and {len(self.decoys)} decoys, "
            f"labels that are {'hardly' if max(doubts, default=0) <= UNDOUBTED else 'least'} in doubt{most}."
            f"{few if alike < LEAST_DECOYS else ''}"
        )

    @property
    def expectation(self) -> str:
        """How many are likely to be wrong."""
        return expectation(self.labels)

    @property
    def finds_little(self) -> str:
        """That hardly any label is likely to be wrong, in a sentence; empty where that is not so, or not known."""
        first, likely = self.likely
        if self.labels[0].wrong is None or likely >= LITTLE:
            return ""
        return f"A review has little to find: about 0 of the first {first} labels are likely to be wrong."


@dataclass(frozen=True, eq=False)
class ReviewRows:
    """The training rows, their groups, the doubt of each label, the labels' names and which are adverse, the protected
    columns, which no reviewer sees, those that hold dates, the positions of labels that were reviewed before, and what
    tells one audit from another."""

    table: Table
    groups: NDArray[np.object_]
    doubt: NDArray[np.float64]
    label_names: tuple[str, ...]
    audit: str
    protected: Sequence[Hashable] = ()
    dates: tuple[str, ...] = ()
    answered: Collection[int] = ()
    adverse: tuple[str, ...] = ()

    @cached_property
    def labels(self) -> NDArray[np.object_]:
        return np.array(self.label_names, dtype=object)[self.table.codes]


def review_tasks(
    fitted: Fitted,
    values: Sequence[TrainingLabel],
    population: Population | None = None,
    *,
    labels: int | None = None,
    hide: Sequence[str] = (),
    seed: int = 0,
) -> Review:
    """The tasks of an audit in Python; `review.rebuild.review_of` makes those of a record."""
    if population is not None and population.run.data.sha256 != fitted.data_hash:
        raise SettingError("The population is of another table: give the one that explain_all of this audit returned.")
    rows = ReviewRows(
        fitted.table,
        fitted.sensitive.values,
        fitted.doubt,
        fitted.label_names,
        fitted.data_hash if population is None else checksum(population.to_dict()),
        fitted.sensitive.columns,
        answered=fitted.answered,
        adverse=adverse_labels(fitted),
    )
    return make_review(values, rows, population, labels=labels, hide=hide, seed=seed)


def make_review(
    values: Sequence[TrainingLabel],
    rows: ReviewRows,
    population: Population | None = None,
    *,
    labels: int | None = None,
    hide: Sequence[str] = (),
    seed: int = 0,
) -> Review:
    """The tasks: the first so many `labels` of those to review, and decoys. Without a number, those that may be wrong,
    at most 100 and at most half of them, so that decoys are left. `hide` names columns that are not shown, beside the
    protected ones."""
    if labels is None:
        likely = sum(each.wrong is None or each.wrong > 0 for each in values) or len(values)
        labels = max(1, min(TO_REVIEW, likely, len(values) // 2))
    if not isinstance(labels, Integral) or isinstance(labels, bool) or labels < 1:
        raise SettingError(f"--labels {labels}: at least one label must be reviewed.")
    if not values:
        raise SettingError("There is no label to review: none is doubted, or all of them were reviewed.")
    if CANNOT_TELL in rows.label_names:
        raise SettingError(f"A label is called '{CANNOT_TELL}', as reviewers say it; call it otherwise.")
    rng, table = np.random.default_rng(check_random_state(seed)), rows.table
    _refuse_other_rows(values, rows)
    chosen = {each.position: each for each in values[: int(labels)]}
    hidden = _hidden(rows, [hide] if isinstance(hide, str) else hide)
    people = population.flip_counts if population is not None else Counter[int]()
    may = ~np.isin(np.arange(table.n), [*chosen, *rows.answered, *people])
    order = [*chosen, *choose_decoys(list(chosen), may, rows.labels, rows.groups.astype(str), rows.doubt, rng)]
    order = [order[k] for k in rng.permutation(len(order))]
    code = review_code(rows.audit, seed, order)
    tasks = tuple(
        Task(
            id=f"{code}-{number}",
            position=at,
            row=plain(table.X.index[at]),
            label=str(rows.labels[at]),
            decoy=at not in chosen,
            people=people[at],
            doubt=round(float(rows.doubt[at]), 4),
            wrong=chosen[at].wrong if at in chosen else None,
        )
        for at, number in zip(order, _numbers(len(order), rng), strict=True)
    )
    shown = table.X.drop(columns=hidden).iloc[order]
    shown = shown.assign(**{column: as_dates(shown[column]) for column in rows.dates if column in shown})
    shown.index = pd.Index([task.id for task in tasks], name=ID)
    expected = expected_wrong(values[: max(len(chosen), TO_REVIEW)])
    return Review(
        tasks,
        shown,
        tuple(chosen.values()),
        rows.label_names,
        rows.audit,
        seed,
        (len(expected), expected[-1]),
        table.y.name if isinstance(table.y.name, str) else None,
        rows.adverse,
    )


def review_code(audit: str, seed: int, positions: Iterable[int]) -> str:
    """Five letters that tell a review from others: by its audit, its seed, and its tasks' rows. A next round starts
    from another record, and has another code."""
    text = json.dumps([audit, int(seed), [int(at) for at in positions]])
    number = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
    return "".join(CONSONANTS[number // len(CONSONANTS) ** k % len(CONSONANTS)] for k in range(5))


def _refuse_other_rows(values: Sequence[TrainingLabel], rows: ReviewRows) -> None:
    """A record that somebody changed may name labels that the table does not have."""
    seen: set[int] = set()
    for k, each in enumerate(values):
        there = 0 <= each.position < rows.table.n and rows.labels[each.position] == each.label
        if not there or each.position in seen:
            why = "occurs twice" if each.position in seen else f"has no label '{each.label}' in the table"
            raise ReplayError(f"Invalid record: labels[{k}], training row {each.position}, {why}.")
        seen.add(each.position)


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

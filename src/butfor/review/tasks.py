"""A blind review: the labels most likely to be wrong, mixed with decoys.

Every chosen label comes with a decoy (see `review.decoys`). The tasks show the row's values and nothing that tells
chosen labels from decoys. The key does, and the reviewer must not see it.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import floor, isfinite, log10
from numbers import Integral
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from butfor.data.read import DATES, as_dates
from butfor.errors import ReplayError, SettingError, TableError, listed, nearest
from butfor.learn.protocols import Table
from butfor.machine import check_random_state
from butfor.result.labels import LITTLE, TO_REVIEW, TrainingLabel, expectation, expected_wrong, how_many_to_review
from butfor.result.population import Population
from butfor.result.record import checksum, plain
from butfor.review.decoys import UNDOUBTED, choose_decoys
from butfor.review.reviewer_page import question
from butfor.run.fitted import Fitted
from butfor.run.verdicts import adverse_labels

ID, LABEL = "id", "label"
"""The columns that tasks add to the table."""
CANNOT_TELL = "cannot tell"
"""The answer of a reviewer who cannot decide."""
CONSONANTS = "BCDFGHJKLMNPQRSTVWXZ"
"""Letters of ids: they form no words, and spreadsheets do not read them as dates or numbers."""
LEAST_DECOYS = 6
"""With fewer decoys, a perfect reviewer cannot be told from one who guesses."""


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
    decoy: bool
    people: int
    """The number of people whose flip set includes it."""
    doubt: float | None = None
    wrong: float | None = None
    """Of a chosen label: see `TrainingLabel`."""


@dataclass(frozen=True)
class Review:
    tasks: tuple[Task, ...]
    """In the order shown."""
    shown: pd.DataFrame
    """The table for the reviewer: one row per task, by id."""
    labels: tuple[TrainingLabel, ...]
    """The chosen labels, the most likely wrong first."""
    rows: ReviewRows
    seed: int
    likely: tuple[int, float]
    """A number of labels (the first 100, or the chosen ones if more), and how many of them are likely to be wrong."""

    @property
    def decoys(self) -> list[Task]:
        return [task for task in self.tasks if task.decoy]

    @property
    def question(self) -> str:
        """The question to the reviewer, in the table's words."""
        column = self.rows.table.y.name
        return question(column if isinstance(column, str) else None, self.rows.label_names, self.rows.adverse)

    @property
    def sentence(self) -> str:
        """What the tasks contain; not for the reviewer."""
        kinds = Counter(task.label for task in self.decoys)
        split = ", ".join(f"{count} '{label}'" for label, count in kinds.most_common())
        doubts = [task.doubt for task in self.decoys if task.doubt is not None]
        most = f" (doubt at most {max(doubts):.2f}; {split})" if doubts else ""
        alike = sum(kinds[label] for label in {each.label for each in self.labels})
        few = f" {alike or 'None'} of the decoys have such a label, so answers will show nothing. Change --labels."
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
        """A sentence if hardly any label is likely to be wrong, else empty."""
        first, likely = self.likely
        if self.labels[0].wrong is None or likely >= LITTLE:
            return ""
        return f"A review has little to find: about 0 of the first {first} labels are likely to be wrong."


@dataclass(frozen=True, eq=False)
class ReviewRows:
    """The training rows, their groups and doubts, the labels' names and which are adverse, the protected columns, which
    no reviewer sees, the columns with dates, the positions of labels reviewed before, and the identity of the audit."""

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
        raise SettingError(
            "The population belongs to another table: give the one that explain_all of this audit returned."
        )
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
    """The tasks: the first `labels` of those to review, and decoys. `hide` names columns not to show, besides the
    protected ones."""
    if labels is None:
        labels = how_many_to_review(values)
    if not isinstance(labels, Integral) or isinstance(labels, bool) or labels < 1:
        raise SettingError(f"--labels {labels} must be at least 1.")
    if not values:
        raise SettingError("There is no label to review: none is in doubt, or all were reviewed.")
    if CANNOT_TELL in rows.label_names:
        raise SettingError(f"The label '{CANNOT_TELL}' is also an answer of reviewers; rename the label.")
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
    shown = table.X.drop(columns=hidden).iloc[order].apply(_rounded)
    dates = rows.table.X.attrs.get(DATES, ())
    shown = shown.assign(**{column: as_dates(shown[column]) for column in dates if column in shown})
    shown.index = pd.Index([task.id for task in tasks], name=ID)
    expected = expected_wrong(values[: max(len(chosen), TO_REVIEW)])
    return Review(tasks, shown, tuple(chosen.values()), rows, seed, (len(expected), expected[-1]))


def review_code(audit: str, seed: int, positions: Iterable[int]) -> str:
    """Five letters that identify a review by its audit, seed and rows; the next round has another code."""
    text = json.dumps([audit, int(seed), [int(at) for at in positions]])
    number = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
    return "".join(CONSONANTS[number // len(CONSONANTS) ** k % len(CONSONANTS)] for k in range(5))


def _rounded(values: pd.Series) -> pd.Series:
    """Floats to seven significant digits and at least two decimals: 0.30000000000000004 is shown as 0.3."""

    def rounded(value: float) -> float:
        return round(float(value), max(2, 6 - floor(log10(abs(value))))) if value and isfinite(value) else value

    return values.map(rounded, na_action="ignore") if pd.api.types.is_float_dtype(values.dtype) else values


def _refuse_other_rows(values: Sequence[TrainingLabel], rows: ReviewRows) -> None:
    """Raise an error if the record names labels that the table does not have."""
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
        raise SettingError("--hide leaves no column to show.")
    return hidden


def _numbers(count: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Random ids of four digits or more, so that row numbers are not taken for ids."""
    return 1000 + rng.choice(9 * max(1000, 10 * count), size=count, replace=False)

"""A look at a table before anything is trained: what makes an audit of it say less than it seems to.

Each concern names the columns it is about. It looks at training rows, and at the people asked about only for whether
they are among them. What is normal in a table of few, coarse columns (rows that are equal by coincidence) or of fine
ones (numbers that are all different) is no concern.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from butfor.data.kinds import check_cells
from butfor.encode import is_numeric
from butfor.errors import TableError, listed

LEAST_ROWS = 20
"""Fewer rows can have any property by chance."""
TELLING = 0.05
"""A column tells the label where guessing from it alone makes so few of the majority guess's errors."""
LEAST_RARER = 5
"""Rows of the rarer label, at least, without which a column cannot be said to tell it."""
BINS = 50
APART = 3.0
"""A mark for "missing" is so many times larger than any number of the column."""
MARKS = [float(digit * length) for digit in "6789" for length in range(2 if digit == "9" else 3, 13)]
"""One digit again and again: 99, 999, 999999, 666."""
TWINS, LEAST_TWINS = 0.01, 2
"""People who are training rows beyond coincidence, of all and at least; fewer are no concern."""
MOSTLY_DIFFERENT = 0.95
MANY_WHOLE = 1000
"""So many whole numbers, all different, are no coincidence."""

Codes = NDArray[np.int64]


@dataclass(frozen=True)
class Concern:
    """Something about a table, or about a model of it, that an audit's reader should know. Prints as its sentence."""

    kind: str
    """"copy", "telling", "identifier", "constant", "sentinel", "text numbers", "duplicates" or "majority"."""
    columns: tuple[str, ...]
    sentence: str

    def __str__(self) -> str:
        return self.sentence

    def to_dict(self) -> dict[str, Any]:
        return asdict(self) | {"columns": list(self.columns)}


def check_table(X: pd.DataFrame, y: Any, X_test: pd.DataFrame | None = None) -> list[Concern]:
    """What is odd about these training rows X and their labels y, and about the people X_test beside them.

    Copies of the label and columns that tell it almost alone; identifiers; constant columns; numbers that stand for
    "missing", such as 999999; numbers read as text because of a few cells; people who are training rows. An empty list
    where there is nothing to say, which does not mean that the table is right."""
    if len(X) != len(y):
        raise TableError(f"The table has {len(X)} rows and there are {len(y)} labels; give one per row.")
    check_cells(X)
    if len(X) < LEAST_ROWS:
        return []
    labels = pd.factorize(np.asarray(y, dtype=object), sort=False)[0]
    columns = {str(name): _Column.of(X[name]) for name in X.columns}
    found = list(_telling(columns, labels))
    told = {name for concern in found for name in concern.columns}
    found += _identifiers({name: column for name, column in columns.items() if name not in told})
    found += _constant(columns)
    found += _sentinels(columns)
    found += _text_numbers(columns)
    if X_test is not None:
        found += check_people(X, X_test)
    return found


@dataclass(frozen=True, eq=False)
class _Column:
    values: pd.Series
    codes: Codes
    """Which of the different values each row has; −1 where it is missing."""
    different: pd.Index
    numeric: bool

    @classmethod
    def of(cls, values: pd.Series) -> _Column:
        codes, different = pd.factorize(values, sort=False)
        return cls(values, codes, pd.Index(different), is_numeric(values))

    @property
    def present(self) -> int:
        return int((self.codes >= 0).sum())


# --- the label ------------------------------------------------------------------------------------------


def _telling(columns: dict[str, _Column], labels: Codes) -> Iterator[Concern]:
    counts = np.bincount(labels)
    if len(counts) != 2 or counts.min() < LEAST_RARER:
        return
    rarer = int(counts.min())
    for name, column in columns.items():
        if len(column.different) < 2:
            continue
        errors = _errors(column, labels)
        if errors == 0 and len(column.different) == 2 and column.present == len(labels):
            yield Concern(
                "copy",
                (name,),
                f"Column '{name}' is a copy of the label under other names: the model has nothing else to learn. Leave "
                "it out (--drop).",
            )
        elif errors <= TELLING * rarer:
            yield Concern(
                "telling",
                (name,),
                f"Column '{name}' alone tells the label of {_percent(1 - errors / len(labels))} of the training rows "
                f"(the commoner label alone: {_percent(1 - rarer / len(labels))}). Was it known before the decision? "
                "If not, leave it out (--drop).",
            )


def _errors(column: _Column, labels: Codes) -> int:
    """Errors of the best guess of the label from this column alone: by its values, or by bins or one cut point."""
    if not column.numeric or len(column.different) <= BINS:
        return _errors_by_value(column.codes + 1, labels)
    numbers = pd.to_numeric(column.values, errors="coerce").to_numpy(np.float64, na_value=np.nan)
    order = np.argsort(numbers, kind="stable")
    below = np.cumsum(labels[order])
    places = np.arange(1, len(labels) + 1)
    ends = np.flatnonzero(np.diff(numbers[order], append=np.inf) != 0)  # a cut point lies between different numbers
    wrong = below[ends] + (len(labels) - places[ends]) - (below[-1] - below[ends])  # 0 below the cut, 1 above
    by_cut = int(min(wrong.min(), (len(labels) - wrong).min()))
    rank = np.empty(len(labels), dtype=np.int64)
    rank[order] = np.searchsorted(numbers[order], numbers[order], side="left")
    return min(by_cut, _errors_by_value(rank * BINS // len(labels), labels))


def _errors_by_value(codes: Codes, labels: Codes) -> int:
    """Errors when each row's label is guessed from the other rows of its value: the commoner one among them, and of all
    rows where they are even or none."""
    ones = np.bincount(codes, weights=labels)[codes] - labels
    others = np.bincount(codes)[codes] - 1
    usual = int(2 * labels.sum() > len(labels))
    guess = np.where(2 * ones == others, usual, 2 * ones > others)
    return int((guess != labels).sum())


# --- columns by themselves ------------------------------------------------------------------------------


def _identifiers(columns: dict[str, _Column]) -> Iterator[Concern]:
    for name, column in columns.items():
        present, different = column.present, len(column.different)
        if present < LEAST_ROWS:
            continue
        alone = different == present
        if column.numeric:
            if not alone or not _counts_rows(column):
                continue
        elif different < MOSTLY_DIFFERENT * present:
            continue
        words = "a different value in every row" if alone else f"{different} different values in {present} rows"
        yield Concern(
            "identifier",
            (name,),
            f"Column '{name}' has {words}, as an identifier has: nothing about other people can be learned from it. "
            "Leave it out (--drop), or name the rows by it (--id).",
        )


def _counts_rows(column: _Column) -> bool:
    """Whether whole numbers that are all different are numbers of rows: very many, without large gaps, or in order."""
    numbers = column.values.dropna().sort_index() if _ordered(column.values.index) else column.values.dropna()
    values = numbers.to_numpy(dtype=np.float64)
    if (values % 1).any():
        return False
    dense = values.max() / 4 - values.min() / 4 < len(values)  # the difference itself may overflow
    in_order = bool((values[1:] > values[:-1]).all() or (values[1:] < values[:-1]).all())
    return len(values) >= MANY_WHOLE or dense or in_order


def _ordered(index: pd.Index) -> bool:
    return pd.api.types.is_integer_dtype(index.dtype)


def _constant(columns: dict[str, _Column]) -> Iterator[Concern]:
    empty = [name for name, column in columns.items() if not column.present]
    same = [name for name, column in columns.items() if len(column.different) == 1 and (column.codes == 0).all()]
    for names, what in ((same, "the same value in every training row"), (empty, "no value in any training row")):
        if names:
            subject = f"Columns {listed(names)} have" if len(names) > 1 else f"Column {listed(names)} has"
            yield Concern("constant", tuple(names), f"{subject} {what}: nothing can be learned from that.")


def _sentinels(columns: dict[str, _Column]) -> Iterator[Concern]:
    for name, column in columns.items():
        if not column.numeric or len(column.different) < 3:
            continue
        numbers = np.sort(column.different.to_numpy(dtype=np.float64))
        for mark in _marks(numbers):
            count = int((column.codes == np.flatnonzero(column.different == mark)[0]).sum())
            rows = f"{count} training row{'s' * (count != 1)}"
            yield Concern(
                "sentinel",
                (name,),
                f"Column '{name}' holds {mark:.12g} in {rows}, which looks like a mark for a missing value (other "
                f"values: {_span(numbers, mark)}). The model takes it for a number; if it is none, leave such cells "
                "empty.",
            )


def _marks(numbers: NDArray[np.float64]) -> list[float]:
    """Those among a column's different numbers that look like marks: 999 or 666 far beyond all others, and a single
    negative number such as −1 or −99 among many that are not negative."""
    repeated = np.isin(np.trunc(np.abs(numbers)), MARKS)  # 999999.4 is one, too
    rest = np.abs(numbers[~repeated])
    far = numbers[repeated & (np.abs(numbers) / APART >= max(1.0, rest.max(initial=0)))] if len(rest) >= 2 else []
    negative = numbers[numbers < 0]
    lone = len(negative) == 1 and -negative[0] in (1, 9, 99, 999, 9999) and len(numbers) > 8
    return list(dict.fromkeys([float(n) for n in (*far, *(negative if lone else ()))]))


def _span(numbers: NDArray[np.float64], mark: float) -> str:
    others = numbers[numbers != mark]
    return f"{others.min():.6g} to {others.max():.6g}"


def _text_numbers(columns: dict[str, _Column]) -> Iterator[Concern]:
    """Numbers that are read as categories, because a few cells hold something else."""
    for name, column in columns.items():
        if column.numeric or len(column.different) < 20 or not isinstance(column.different[0], str):
            continue
        strange = pd.to_numeric(pd.Series(column.different.astype(object)), errors="coerce").isna().to_numpy()
        share = np.bincount(column.codes[column.codes >= 0], minlength=len(strange))[strange].sum() / column.present
        if strange.any() and strange.sum() <= 5 and share <= 0.5:
            yield Concern(
                "text numbers",
                (name,),
                f"Column '{name}' holds numbers and {listed(column.different[strange])}, so that every number counts "
                "as a category of its own. Leave those cells empty, and it is read as numbers.",
            )


# --- people who are training rows -----------------------------------------------------------------------


def check_people(X: pd.DataFrame, people: pd.DataFrame) -> list[Concern]:
    """Whether people are copies of training rows, more than by coincidence: someone who equals a training row because
    the columns are coarse also has others around that differ in this or in that column alone."""
    shared = [name for name in X.columns if name in people.columns]
    if not shared or len(X) < LEAST_ROWS or len(people) < LEAST_TWINS:
        return []
    theirs = _hashed(pd.concat([X[shared], people[shared]], ignore_index=True))
    rows, asked = theirs[: len(X)], theirs[len(X) :]
    whole, wanted = rows.sum(axis=1, dtype=np.uint64), asked.sum(axis=1, dtype=np.uint64)
    twins = np.isin(wanted, whole)
    if not twins.any():
        return []
    ways = np.zeros(int(twins.sum()), dtype=np.int64)
    equal = _count(wanted[twins], whole)
    for k in range(len(shared)):
        ways += _count((wanted - asked[:, k])[twins], whole - rows[:, k]) > equal
    # One way may be the column that tells all people apart. Where there is only one column, twins say nothing.
    alone = int((ways < 2).sum()) if len(shared) > 1 else 0
    if alone < max(LEAST_TWINS, TWINS * len(people)):
        return []
    return [
        Concern(
            "duplicates",
            (),
            f"{int(twins.sum())} of the {len(people)} people asked about equal a training row in every column: the "
            "model has seen them. Leave double rows out of the file, or keep them on one side of the split.",
        )
    ]


def _count(wanted: NDArray[np.uint64], among: NDArray[np.uint64]) -> Codes:
    """How often each number occurs among the others."""
    ordered = np.sort(among)
    return np.searchsorted(ordered, wanted, side="right") - np.searchsorted(ordered, wanted, side="left")


def _hashed(frame: pd.DataFrame) -> NDArray[np.uint64]:
    """A number for every cell `[rows × columns]`, the same for the same value of the same column."""
    hashed = np.empty(frame.shape, dtype=np.uint64)
    for k, name in enumerate(frame.columns):
        codes = pd.factorize(frame[name], use_na_sentinel=False)[0].astype(np.uint64)
        draws = np.random.default_rng(k).integers(0, 2**64, int(codes.max()) + 1, dtype=np.uint64)
        hashed[:, k] = draws[codes]
    return hashed


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"

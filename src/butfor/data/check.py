"""Checks a table before anything is trained: columns to leave out, marks for missing values, people who are training
rows.

A column that determines the protected attribute, such as a first name or the dummy variable of another race, leaves no
comparable people: nobody in another group has the same columns. Each concern names its columns. Rows that are equal
because the columns are coarse, and measurements that are all different, are normal and no concern.
"""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from butfor.columns import NO_NUMBER, is_numeric
from butfor.data.sensitive import Sensitive
from butfor.errors import TableError, listed

SINGLE = (str, bool, int, float, np.generic, decimal.Decimal, datetime.date)
NO_DTYPE = ("period", "interval", "complex", "Sparse", "timedelta", "duration")
TURN = "turn it into numbers or text, or leave the column out"
LEAST_ROWS = 20
"""With fewer rows, such patterns arise by chance."""
TELLING = 0.05
"""A column gives the label away if guessing from it makes at most this share of the majority guess's errors."""
LEAST_RARER = 5
"""The rarer label needs this many rows before a column can be said to give it away."""
EXCEPTIONS = 0.02
"""A column determines a group if guessing from it who is a member makes at most this share of the errors that guessing
the same for everybody makes."""
MOST_PAIRS = 1000
"""With more pairs of columns of two values, pairs are not looked at."""
BINS = 50
APART = 3.0
"""A mark for "missing" is this many times larger than any other number of the column."""
MARKS = [float(digit * length) for digit in "6789" for length in range(2 if digit == "9" else 3, 13)]
"""One repeated digit: 99, 999, 999999, 666."""
TWINS, LEAST_TWINS = 0.01, 2
"""People who are training rows beyond coincidence: the least share and number that is a concern."""
MOSTLY_DIFFERENT = 0.95
MANY_WHOLE = 1000
"""This many whole numbers that all differ are no coincidence."""

Codes = NDArray[np.int64]


def check_cells(frame: pd.DataFrame) -> None:
    """Refuse nested values, raw bytes, whole numbers beyond 64 bits and unknown types: no record can hold them."""
    for place, column in enumerate(frame.columns):
        values = frame.iloc[:, place]
        if str(values.dtype).startswith(NO_DTYPE):
            raise TableError(f"Column '{column}' has type {values.dtype}; {TURN}.")
        if values.dtype not in (object, np.uint64):
            continue
        present = values.dropna()
        strange = {kind.__name__ for kind in set(map(type, present)) if not issubclass(kind, SINGLE)}
        if strange:
            raise TableError(f"Column '{column}' holds {listed(sorted(strange))} instead of numbers or text; {TURN}.")
        for row, value in present.items():
            if isinstance(value, (int, np.uint64)) and not -(2**63) <= value < 2**63:
                raise TableError(
                    f"Column '{column}', row {row} holds a whole number of {len(str(value))} digits, too large for "
                    f"64 bits: {NO_NUMBER}."
                )


@dataclass(frozen=True)
class Concern:
    """Something that readers of an audit should know about its table or model. Prints as a sentence."""

    kind: str
    """"copy", "telling", "identifier", "constant", "sentinel", "text numbers", "proxy", "duplicates" or
    "majority"."""
    columns: tuple[str, ...]
    sentence: str

    def __str__(self) -> str:
        return self.sentence

    def to_dict(self) -> dict[str, Any]:
        return asdict(self) | {"columns": list(self.columns)}


def check_table(X: pd.DataFrame, y: Any, X_test: pd.DataFrame | None = None) -> list[Concern]:
    """Check a table before an audit.

    Parameters
    ----------
    X : pandas.DataFrame
        The training rows.
    y : array
        Their labels.
    X_test : pandas.DataFrame, optional
        The people to be audited.

    Returns
    -------
    list of Concern
        Copies of the label and columns that almost give it away; identifiers; constant columns; numbers that stand for
        "missing", such as 999999; numbers read as text because of a few cells; people who are training rows. An empty
        list does not mean that the table is right.

    Examples
    --------
    >>> import butfor
    >>> data = butfor.load_dataset("german")
    >>> leaky = data.X_train.assign(repaid=data.y_train)
    >>> [concern.columns for concern in butfor.check_table(leaky, data.y_train)]
    [('repaid',)]
    """
    if len(X) != len(y):
        raise TableError(f"The table has {len(X)} rows and there are {len(y)} labels; give one per row.")
    check_cells(X)
    if len(X) < LEAST_ROWS:
        return []
    labels = pd.factorize(np.asarray(y, dtype=object), sort=False)[0]
    columns = [_Column(X[name]) for name in X.columns]

    def each(check: Callable[..., Iterator[tuple[str, str]]], some: Iterable[_Column], *how: Any) -> list[Concern]:
        said = [(column.name, *one) for column in some for one in check(column, *how)]
        return [Concern(kind, (name,), f"Column '{name}' {sentence}") for name, kind, sentence in said]

    telling = each(_telling, columns, labels)
    told = {name for concern in telling for name in concern.columns}
    return [
        *telling,
        *each(_identifier, [column for column in columns if column.name not in told]),
        *_constant(columns),
        *each(_sentinels, columns),
        *each(_text_numbers, columns),
        *([] if X_test is None else check_people(X, X_test)),
    ]


def concerns_of(X: pd.DataFrame, y: Any, sensitive: Sensitive, X_test: pd.DataFrame | None = None) -> list[Concern]:
    """Everything that would mislead an audit or a comparison of this table."""
    return [*check_table(X, y, X_test), *check_groups(X, sensitive)]


class _Column:
    """`codes`: which of the `different` values each row has; −1 if it is missing."""

    def __init__(self, values: pd.Series) -> None:
        self.name, self.values, self.numeric = str(values.name), values, is_numeric(values)
        codes, different = pd.factorize(values, sort=False)
        self.codes: Codes = codes
        self.different = pd.Index(different)
        self.present = int((codes >= 0).sum())


# --- what is odd about a column: its kind, and the sentence's end ----------------------------------------


def _telling(column: _Column, labels: Codes) -> Iterator[tuple[str, str]]:
    counts = np.bincount(labels)
    if len(counts) != 2 or counts.min() < LEAST_RARER or len(column.different) < 2:
        return
    rarer, errors = int(counts.min()), _errors(column, labels)
    if errors == 0 and len(column.different) == 2 and column.present == len(labels):
        yield (
            "copy",
            "is a copy of the label, so the model learns nothing else. Leave it out (--drop).",
        )
    elif errors <= TELLING * rarer:
        right, usual = (f"{100 * (1 - wrong / len(labels)):.1f} %" for wrong in (errors, rarer))
        yield (
            "telling",
            f"alone predicts the label of {right} of the rows (always the commoner label: {usual}). Was it "
            "known before the decision? If not, leave it out (--drop).",
        )


def _errors(column: _Column, labels: Codes) -> int:
    """Errors of the best guess of the label from this column alone, by value, bin or one cut point."""
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
    """Errors when each row's label is guessed as the commoner label of the other rows with its value or, if there are
    none or a tie, of all rows."""
    ones = np.bincount(codes, weights=labels)[codes] - labels
    others = np.bincount(codes)[codes] - 1
    usual = int(2 * labels.sum() > len(labels))
    guess = np.where(2 * ones == others, usual, 2 * ones > others)
    return int((guess != labels).sum())


def _identifier(column: _Column) -> Iterator[tuple[str, str]]:
    present, different = column.present, len(column.different)
    alone = different == present
    odd = alone and _counts_rows(column.values.dropna()) if column.numeric else different >= MOSTLY_DIFFERENT * present
    if present >= LEAST_ROWS and odd:
        words = "a different value in every row" if alone else f"{different} different values in {present} rows"
        yield (
            "identifier",
            f"has {words}, like an identifier, which says nothing about other people. Leave it out (--drop), or name "
            "the rows by it (--id).",
        )


def _counts_rows(values: pd.Series) -> bool:
    """Whether whole numbers that all differ count rows: very many, without large gaps, or in order."""
    ordered = values.sort_index() if pd.api.types.is_integer_dtype(values.index.dtype) else values
    numbers = ordered.astype(np.float64)
    dense = numbers.max() / 4 - numbers.min() / 4 < len(numbers)  # the difference itself may overflow
    in_order = numbers.is_monotonic_increasing or numbers.is_monotonic_decreasing
    return not (numbers % 1).any() and (len(numbers) >= MANY_WHOLE or dense or in_order)


def _constant(columns: list[_Column]) -> Iterator[Concern]:
    empty = [column.name for column in columns if not column.present]
    same = [column.name for column in columns if len(column.different) == 1 and (column.codes == 0).all()]
    for names, what in ((same, "the same value in every row"), (empty, "no value in any row")):
        if names:
            subject = f"Columns {listed(names)} have" if len(names) > 1 else f"Column {listed(names)} has"
            yield Concern("constant", tuple(names), f"{subject} {what}, which carries no information.")


def _sentinels(column: _Column) -> Iterator[tuple[str, str]]:
    """999 or 666 far beyond all other numbers, or a single negative value such as −1 or −99."""
    if not column.numeric or len(column.different) < 3:
        return
    numbers = np.sort(column.different.to_numpy(dtype=np.float64))
    repeated = np.isin(np.trunc(np.abs(numbers)), MARKS)  # 999999.4 is one, too
    rest, negative = np.abs(numbers[~repeated]), numbers[numbers < 0]
    far = numbers[repeated & (np.abs(numbers) / APART >= max(1.0, rest.max(initial=0)))] if len(rest) >= 2 else []
    lone = len(negative) == 1 and -negative[0] in (1, 9, 99, 999, 9999) and len(numbers) > 8
    for mark in dict.fromkeys([*far, *(negative if lone else ())]):
        count = int((column.codes == np.flatnonzero(column.different == mark)[0]).sum())
        others = numbers[numbers != mark]
        yield (
            "sentinel",
            f"holds {mark:.12g} in {count} row{'s' * (count != 1)}, which looks like a mark for a missing "
            f"value (other values: {others.min():.6g} to {others.max():.6g}). The model reads it as a number; if it is "
            "a mark, leave these cells empty.",
        )


def _text_numbers(column: _Column) -> Iterator[tuple[str, str]]:
    """Numbers that are read as categories because a few cells hold text."""
    if column.numeric or len(column.different) < 20 or not isinstance(column.different[0], str):
        return
    strange = pd.to_numeric(pd.Series(column.different.astype(object)), errors="coerce").isna().to_numpy()
    share = np.bincount(column.codes[column.codes >= 0], minlength=len(strange))[strange].sum() / column.present
    if strange.any() and strange.sum() <= 5 and share <= 0.5:
        yield (
            "text numbers",
            f"holds numbers and {listed(column.different[strange])}, so every number counts as its own category. Leave "
            "those cells empty to have it read as numbers.",
        )


# --- columns that determine the protected attribute -----------------------------------------------------


def check_groups(X: pd.DataFrame, sensitive: Sensitive) -> list[Concern]:
    """A concern if columns of X determine a group: single ones (text, or a number with two values) or, if there is
    none, two columns of two values together."""
    codes = {name: _codes(X[name]) for name in X.columns if name not in sensitive.columns}
    few = {name: found for name, found in codes.items() if found.max() < 2 or not is_numeric(X[name])}
    attributes = [_codes(pd.Series(part.values.astype(str))) for part in sensitive.each]
    single = [name for name, found in few.items() if any(_determine(found, groups) for groups in attributes)]
    if single:
        subject = f"Columns {listed(single)} tell" if len(single) > 1 else f"Column {listed(single)} tells"
        return [_concern(single, subject, sensitive.name)]
    two_valued = {name: found for name, found in few.items() if found.max() == 1}
    few_pairs = len(two_valued) * (len(two_valued) - 1) <= 2 * MOST_PAIRS
    for first, second in combinations(two_valued, 2) if few_pairs else ():
        together = 2 * two_valued[first] + two_valued[second]
        if any(_determine(together, groups) for groups in attributes):
            return [_concern([first, second], f"Columns '{first}' and '{second}' together tell", sensitive.name)]
    return []


def _concern(columns: Sequence[object], subject: str, attribute: str) -> Concern:
    names = ",".join(map(str, columns))
    sentence = (
        f"{subject} the groups of '{attribute}' apart: hardly anybody in another group has the same values, so there "
        f"are no comparable people. Leave {'it' if len(columns) == 1 else 'them'} out: --drop {names}."
    )
    return Concern("proxy", tuple(map(str, columns)), sentence)


def _codes(values: pd.Series) -> Codes:
    """Each row's value as a number from 0; missing is a value."""
    return pd.factorize(values, use_na_sentinel=False)[0].astype(np.int64)


def _determine(codes: Codes, groups: Codes) -> bool:
    """Whether a value tells of any group who is a member, nearly without exception. Each row is guessed from the other
    rows with its value, so that a value of one row tells nothing."""
    width = int(groups.max()) + 1
    cells = np.bincount(codes * width + groups, minlength=(int(codes.max()) + 1) * width)
    members: NDArray[np.int64] = cells.reshape(-1, width)
    rows = members.sum(axis=1, keepdims=True)
    missed = members * (2 * (members - 1) <= rows - 1)
    taken = (rows - members) * (2 * members >= rows - 1)
    rarer = np.minimum(members.sum(axis=0), rows.sum() - members.sum(axis=0))
    return bool(((rarer >= LEAST_ROWS) & ((missed + taken).sum(axis=0) <= EXCEPTIONS * rarer)).any())


# --- people who are training rows -----------------------------------------------------------------------


def check_people(X: pd.DataFrame, people: pd.DataFrame) -> list[Concern]:
    """Whether more people equal training rows than by coincidence. Where the columns are coarse, a person who equals a
    training row also has near twins that differ in one column."""
    shared = [name for name in X.columns if name in people.columns]
    if len(shared) < 2 or len(X) < LEAST_ROWS or len(people) < LEAST_TWINS:
        return []  # with one column alone, twins say nothing
    theirs = _hashed(pd.concat([X[shared], people[shared]], ignore_index=True))
    rows, asked = theirs[: len(X)], theirs[len(X) :]
    whole, wanted = rows.sum(axis=1, dtype=np.uint64), asked.sum(axis=1, dtype=np.uint64)
    twins = np.isin(wanted, whole)
    ways, equal = np.zeros(int(twins.sum()), dtype=np.int64), _count(wanted[twins], whole)
    for k in range(len(shared) if twins.any() else 0):
        ways += _count((wanted - asked[:, k])[twins], whole - rows[:, k]) > equal
    # One way may be the column that tells all people apart.
    if int((ways < 2).sum()) < max(LEAST_TWINS, TWINS * len(people)):
        return []
    sentence = (
        f"{int(twins.sum())} of the {len(people)} test people equal a training row in every column, so the model "
        "has seen them. Remove duplicate rows from the file, or keep them on one side of the split."
    )
    return [Concern("duplicates", (), sentence)]


def _count(wanted: NDArray[np.uint64], among: NDArray[np.uint64]) -> Codes:
    """How often each number occurs among the others."""
    ordered = np.sort(among)
    return np.searchsorted(ordered, wanted, side="right") - np.searchsorted(ordered, wanted, side="left")


def _hashed(frame: pd.DataFrame) -> NDArray[np.uint64]:
    """A hash per cell, `[rows × columns]`."""
    hashed = np.empty(frame.shape, dtype=np.uint64)
    for k, name in enumerate(frame.columns):
        codes = pd.factorize(frame[name], use_na_sentinel=False)[0].astype(np.uint64)
        hashed[:, k] = np.random.default_rng(k).integers(0, 2**64, int(codes.max()) + 1, dtype=np.uint64)[codes]
    return hashed

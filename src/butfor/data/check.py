"""What would mislead readers of an audit: columns to leave out, marks for missing values, people who are training rows.

A column that determines the protected attribute, such as a first name or the dummy variable of another race, leaves no
comparable people: nobody in another group has the same columns. Each concern names its columns. Rows that are equal
because the columns are coarse, and measurements that are all different, are normal and no concern.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from butfor.columns import check_frame, is_numeric
from butfor.data.sensitive import Sensitive
from butfor.errors import TableError, listed, plural

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
    check_frame(X)
    if len(X) < LEAST_ROWS:
        return []
    labels = pd.factorize(np.asarray(y, dtype=object), sort=False)[0]
    counts, rows = np.bincount(labels), len(labels)
    rarer = int(counts.min()) if len(counts) == 2 else 0
    telling, naming, marking, texts = [list[tuple[str, str, str]]() for _ in range(4)]
    constant, empty = list[str](), list[str]()
    for column in X.columns:
        name, values = str(column), X[column]
        codes, found = pd.factorize(values, sort=False)  # −1 for missing values
        different, present, numeric = pd.Index(found), int((codes >= 0).sum()), is_numeric(values)

        if not present:
            empty.append(name)
        elif len(different) == 1 and present == rows:
            constant.append(name)

        told = len(telling)
        if rarer >= LEAST_RARER and len(different) > 1:
            errors = _errors(values, codes, numeric and len(different) > BINS, labels)
            if errors == 0 and len(different) == 2 and present == rows:
                said = "is a copy of the label, so the model learns nothing else. Leave it out (--drop)."
                telling.append(("copy", name, said))
            elif errors <= TELLING * rarer:
                right, usual = (f"{100 * (1 - wrong / rows):.1f} %" for wrong in (errors, rarer))
                said = (
                    f"alone predicts the label of {right} of the rows (always the commoner label: {usual}). Was it "
                    "known before the decision? If not, leave it out (--drop)."
                )
                telling.append(("telling", name, said))

        if len(telling) == told and present >= LEAST_ROWS:
            alone, mostly = len(different) == present, len(different) >= MOSTLY_DIFFERENT * present
            if alone and _counts_rows(values.dropna()) if numeric else mostly:
                words = (
                    "a different value in every row"
                    if alone
                    else f"{len(different)} different values in {present} rows"
                )
                said = (
                    f"has {words}, like an identifier, which says nothing about other people. Leave it out (--drop), "
                    "or name the rows by it (--id)."
                )
                naming.append(("identifier", name, said))

        if numeric and len(different) >= 3:  # 999 or 666 far beyond all other numbers, or a single −1 or −99
            numbers = np.sort(different.to_numpy(dtype=np.float64))
            repeated = np.isin(np.trunc(np.abs(numbers)), MARKS)  # 999999.4 is one, too
            rest, negative = np.abs(numbers[~repeated]), numbers[numbers < 0]
            far = repeated & (np.abs(numbers) / APART >= max(1.0, rest.max(initial=0))) & (len(rest) >= 2)
            lone = len(negative) == 1 and -negative[0] in (1, 9, 99, 999, 9999) and len(numbers) > 8
            for mark in dict.fromkeys([*numbers[far], *(negative if lone else ())]):
                count = int((codes == np.flatnonzero(different == mark)[0]).sum())
                others = numbers[numbers != mark]
                said = (
                    f"holds {mark:.12g} in {plural(count, 'row')}, which looks like a mark for a missing value (other "
                    f"values: {others.min():.6g} to {others.max():.6g}). The model reads it as a number; if it is a "
                    "mark, leave these cells empty."
                )
                marking.append(("sentinel", name, said))

        if not numeric and len(different) >= 20 and isinstance(different[0], str):
            strange = pd.to_numeric(pd.Series(different.astype(object)), errors="coerce").isna().to_numpy()
            cells = np.bincount(codes[codes >= 0], minlength=len(strange))[strange].sum()
            if 1 <= strange.sum() <= 5 and cells / present <= 0.5:
                said = (
                    f"holds numbers and {listed(different[strange])}, so every number counts as its own category. "
                    "Leave those cells empty to have it read as numbers."
                )
                texts.append(("text numbers", name, said))

    concerns = [Concern(kind, (name,), f"Column '{name}' {said}") for kind, name, said in [*telling, *naming]]
    for names, what in ((constant, "the same value in every row"), (empty, "no value in any row")):
        if names:
            subject = f"Columns {listed(names)} have" if len(names) > 1 else f"Column {listed(names)} has"
            concerns.append(Concern("constant", tuple(names), f"{subject} {what}, which carries no information."))
    concerns += [Concern(kind, (name,), f"Column '{name}' {said}") for kind, name, said in [*marking, *texts]]
    return concerns if X_test is None else concerns + check_people(X, X_test)


def concerns_of(X: pd.DataFrame, y: Any, sensitive: Sensitive, X_test: pd.DataFrame | None = None) -> list[Concern]:
    """Everything that would mislead an audit or a comparison of this table."""
    return [*check_table(X, y, X_test), *check_groups(X, sensitive)]


def _errors(values: pd.Series, codes: Codes, measured: bool, labels: Codes) -> int:
    """Errors of the best guess of the label from this column alone: by value or, if it is `measured`, by bin or one cut
    point."""
    if not measured:
        return _errors_by_value(codes + 1, labels)
    numbers = pd.to_numeric(values, errors="coerce").to_numpy(np.float64, na_value=np.nan)
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


def _counts_rows(values: pd.Series) -> bool:
    """Whether whole numbers that all differ count rows: very many, without large gaps, or in order."""
    ordered = values.sort_index() if pd.api.types.is_integer_dtype(values.index.dtype) else values
    numbers = ordered.astype(np.float64)
    dense = numbers.max() / 4 - numbers.min() / 4 < len(numbers)  # the difference itself may overflow
    in_order = numbers.is_monotonic_increasing or numbers.is_monotonic_decreasing
    return not (numbers % 1).any() and (len(numbers) >= MANY_WHOLE or dense or in_order)


def check_groups(X: pd.DataFrame, sensitive: Sensitive) -> list[Concern]:
    """A concern if columns of X determine a group: single ones (text, or a number with two values) or, if there is
    none, two columns of two values together."""
    codes = {name: _codes(X[name]) for name in X.columns if name not in sensitive.columns}
    few = {name: found for name, found in codes.items() if found.max() < 2 or not is_numeric(X[name])}
    attributes = [_codes(pd.Series(part.values.astype(str))) for part in sensitive.each]
    telling = [name for name, found in few.items() if any(_determine(found, groups) for groups in attributes)]
    subject = f"Columns {listed(telling)} tell" if len(telling) > 1 else f"Column {listed(telling)} tells"
    two_valued = {name: found for name, found in few.items() if found.max() == 1}
    few_pairs = len(two_valued) * (len(two_valued) - 1) <= 2 * MOST_PAIRS
    for first, second in combinations(two_valued, 2) if few_pairs and not telling else ():
        together = 2 * two_valued[first] + two_valued[second]
        if any(_determine(together, groups) for groups in attributes):
            telling, subject = [first, second], f"Columns '{first}' and '{second}' together tell"
            break
    if not telling:
        return []
    columns = tuple(map(str, telling))
    sentence = (
        f"{subject} the groups of '{sensitive.name}' apart: hardly anybody in another group has the same values, so "
        f"there are no comparable people. Leave {'it' if len(columns) == 1 else 'them'} out: --drop "
        f"{','.join(columns)}."
    )
    return [Concern("proxy", columns, sentence)]


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


def check_people(X: pd.DataFrame, people: pd.DataFrame) -> list[Concern]:
    """Whether more people equal training rows than by coincidence. Where the columns are coarse, a person who equals a
    training row also has near twins that differ in one column."""
    shared = [name for name in X.columns if name in people.columns]
    if len(shared) < 2 or len(X) < LEAST_ROWS or len(people) < LEAST_TWINS:
        return []  # with one column alone, twins say nothing
    both = pd.concat([X[shared], people[shared]], ignore_index=True)
    hashes = np.empty(both.shape, dtype=np.uint64)  # of a row: the sum of its cells' hashes
    for k, name in enumerate(shared):
        codes = _codes(both[name])
        hashes[:, k] = np.random.default_rng(k).integers(0, 2**64, int(codes.max()) + 1, dtype=np.uint64)[codes]
    rows, asked = hashes[: len(X)], hashes[len(X) :]
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

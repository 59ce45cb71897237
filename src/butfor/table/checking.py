"""What would mislead readers of an audit: columns to leave out, marks for missing values, people
who are training rows.

A column that determines the protected attribute, such as a first name or the dummy variable of
another race, leaves no comparable people: nobody in another group has the same columns. Each
concern names its columns. Rows that are equal because the columns are coarse, and measurements that
are all different, are normal and no concern.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, combinations
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from butfor.support.errors import TableError, listed, plural
from butfor.table.columns import MOSTLY_DIFFERENT, as_table, is_numeric
from butfor.table.groups import Sensitive
from butfor.table.labels import as_values, refuse_infinite
from butfor.table.notation import MIN_TEXTS, unread, unreadable

MIN_ROWS = 20
"""With fewer rows, such patterns arise by chance."""
MAX_TELLING_ERRORS = 0.05
"""A column gives the label away if guessing from it makes at most this share of the majority
guess's errors."""
MIN_RARER_ROWS = 5
"""The rarer label needs this many rows before a column can be said to give it away."""
MAX_EXCEPTIONS = 0.02
"""A column determines a group if guessing from it who is a member makes at most this share of the
errors that guessing the same for everybody makes."""
MAX_PAIRS = 1000
"""With more pairs of columns of two values, pairs are not looked at."""
MAX_LOOKED_UP_VALUES = 50
"""A number with more different values gives the label away by a cut point, others by their values.
"""
MARK_FACTOR = 3.0
"""A mark for "missing" is this many times larger than any other number of the column."""
SENTINELS = [
    float(digit * length) for digit in "6789" for length in range(2 if digit == "9" else 3, 13)
]
"""One repeated digit: 99, 999, 999999, 666."""
MIN_TWIN_SHARE = 0.01
MIN_TWINS = 2
"""People who are training rows beyond coincidence: the least share and number that is a concern."""
MAX_WEIGHT_SHARE = 0.1
"""A row with more of its group's weight is a concern."""
ROUNDING_TOLERANCE = 0.005
"""Probabilities may be rounded to this much."""
UNDERMINING = ("copy", "telling", "proxy")
"""Concerns about columns with which a comparison of groups says little."""
PROSE_WORDS = 3
"""Values that are longer, on average, are free text, not identifiers."""
MIN_WHOLE_NUMBERS = 1000
"""This many whole numbers that all differ are no coincidence."""
SENTENCES = {
    "copy": "{column} is a copy of the label, so the model learns nothing else. Leave it out "
    "(--drop).",
    "telling": "{column} alone predicts the label of {right} of the rows (always the commoner "
    "label: {usual}). Was it "
    "known before the decision? If not, leave it out (--drop).",
    "identifier": "{column} has {values}, like an identifier, which says nothing about other "
    "people. Leave it out "
    "(--drop), or name the rows by it (--id).",
    "constant": "{column} the same value in every row, which carries no information.",
    "empty": "{column} no value in any row, which carries no information.",
    "sentinel": "{column} holds {mark} in {rows}, which looks like a mark for a missing value "
    "(other values: {least} "
    "to {most}). The model reads it as a number; if it is a mark, leave these cells empty.",
    "text numbers": "{column} holds numbers, but also {texts}, so every number counts as its own "
    "category. Leave those "
    "cells empty to have it read as numbers.",
    "probabilities": "{column} sum to 1 in every row, like the probabilities of groups. If they "
    "are, they tell the "
    "groups apart, and hardly anybody in another group is comparable. Leave them out: --drop "
    "{drop}.",
    "written": "{column} holds {texts}, so every value counts as its own category. {remedy}",
    "text": "{column} holds free text, {values}. Unless your model reads text, every value is its "
    "own category: leave "
    "it out (--drop).",
}
"""What is said of columns, in this order."""

Codes = NDArray[np.int64]


@dataclass(frozen=True)
class Concern:
    """Something that readers of an audit should know about its table or model. Prints as a
    sentence."""

    kind: str
    """"copy", "telling", "written", "text", "identifier", "constant", "sentinel", "text numbers",
    "probabilities", "proxy", "duplicates", "overlap", "little overlap" or "weight"."""
    columns: tuple[str, ...]
    sentence: str

    def __str__(self) -> str:
        return self.sentence


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
        Copies of the label and columns that almost give it away; identifiers; constant columns;
        numbers that stand for "missing", such as 999999; numbers read as text because of a few
        cells; columns that sum to 1 like probabilities of groups; people who are training rows. An
        empty list does not mean that the table is right.

    Examples
    --------
    >>> import butfor
    >>> data = butfor.load_dataset("german")
    >>> leaky = data.X_train.assign(repaid=data.y_train)
    >>> [concern.columns for concern in butfor.check_table(leaky, data.y_train)]
    [('repaid',)]
    """
    X = as_table(X)
    labels = as_values(y, "labels")
    if len(X) != len(labels):
        raise TableError(
            f"The table has {len(X)} rows and there are {len(labels)} labels; give one per row."
        )
    refuse_infinite(labels, "labels")
    labelled = labels.notna().to_numpy()
    if not labelled.any():
        raise TableError("All labels are missing: check that they are of the right column.")
    people = None if X_test is None else as_table(X_test)
    return concerns_of(X[labelled], labels[labelled], None, people)


def concerns_of(
    X: pd.DataFrame, y: Any, sensitive: Sensitive | None, X_test: pd.DataFrame | None = None
) -> list[Concern]:
    """Everything that would mislead an audit or a comparison of a table that was checked before."""
    protected = () if sensitive is None else sensitive.columns
    by_kind: dict[str, list[Concern]] = {kind: [] for kind in SENTENCES}
    for concern in concerns_about_columns(X, y):
        by_kind[concern.kind].append(concern)
    for kind in ("constant", "empty"):
        by_kind[kind] = in_one_sentence(kind, by_kind[kind])
    by_kind["probabilities"] = check_probabilities(X, protected)
    of_people = [] if X_test is None else check_people(X, X_test)
    of_groups = [] if sensitive is None else check_groups(X, sensitive)
    return [*chain(*by_kind.values()), *of_people, *of_groups]


def in_one_sentence(kind: str, concerns: list[Concern]) -> list[Concern]:
    """One concern for all columns of this kind."""
    names = [concern.columns[0] for concern in concerns]
    if not names:
        return []
    verb = "have" if len(names) > 1 else "has"
    noun = "Columns" if len(names) > 1 else "Column"
    sentence = SENTENCES[kind].format(column=f"{noun} {listed(names)} {verb}")
    return [Concern("constant", tuple(names), sentence)]


# --- one column -----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class LabelCodes:
    """The labels of a table by number, and how many rows have the rarer of two."""

    codes: NDArray[np.int64]
    rarer: int
    """0 if there are not two labels."""

    @classmethod
    def of(cls, y: Any) -> LabelCodes:
        codes = pd.factorize(np.asarray(y, dtype=object), sort=False)[0]
        counts = np.bincount(codes)
        return cls(codes, int(counts.min()) if len(counts) == 2 else 0)


@dataclass(frozen=True, eq=False)
class Column:
    """A column, and what every detector looks at."""

    name: Any
    values: pd.Series
    labels: LabelCodes
    numeric: bool
    codes: NDArray[np.int64]
    """Each value by number, −1 where it is missing."""
    different: pd.Index
    """The values, each once."""
    present: int
    """How many cells hold a value."""

    @classmethod
    def of(cls, values: pd.Series, labels: LabelCodes) -> Column:
        codes, distinct = pd.factorize(values, sort=False)
        present = int((codes >= 0).sum())
        different = pd.Index(distinct)
        return cls(values.name, values, labels, is_numeric(values), codes, different, present)

    @property
    def rows(self) -> int:
        return len(self.values)

    @cached_property
    def written(self) -> Any:
        """What numbers or dates in another notation it holds; nothing if it holds none."""
        return unread(self.values)

    def concern(self, kind: str, **about: Any) -> Concern:
        sentence = SENTENCES[kind].format(column=f"Column '{self.name}'", **about)
        return Concern(kind, (str(self.name),), sentence)


Detector = Callable[[Column], Iterator[Concern]]


def says_nothing(column: Column) -> Iterator[Concern]:
    """One value everywhere, or none."""
    if len(column.different) < 2 and column.present in (0, column.rows):
        yield column.concern("constant" if column.present else "empty")


def says_too_much(column: Column) -> Iterator[Concern]:
    """It tells the label, is in another notation, or tells the rows apart: the first that holds."""
    rows = column.rows
    rarer = column.labels.rarer
    # Guesses of the label from this column alone.
    wrong = rows
    if rarer >= MIN_RARER_ROWS and len(column.different) > 1:
        measured = column.numeric and len(column.different) > MAX_LOOKED_UP_VALUES
        wrong = _errors(column.values, column.codes + 1, measured, column.labels.codes)
    if wrong == 0 and len(column.different) == 2 and column.present == rows:
        yield column.concern("copy")
    elif wrong <= MAX_TELLING_ERRORS * rarer:
        right = f"{100 * (1 - wrong / rows):.1f} %"
        usual = f"{100 * (1 - rarer / rows):.1f} %"
        yield column.concern("telling", right=right, usual=usual)
    elif column.written:
        yield column.concern("written", texts=column.written.holds, remedy=column.written.remedy)
    elif column.present >= MIN_ROWS and _names_rows(
        column.values, len(column.different), column.present
    ):
        how_many = f"{len(column.different)} different values in {column.present} rows"
        if len(column.different) == column.present:
            how_many = "a different value in every row"
        kind = "text" if _is_prose(column.different) else "identifier"
        yield column.concern(kind, values=how_many)


def marks_the_unknown(column: Column) -> Iterator[Concern]:
    """999 or 666 far beyond all other numbers, or a single −1 or −99."""
    if not column.numeric or len(column.different) < 3:
        return
    numbers = np.sort(column.different.to_numpy(dtype=np.float64))
    # 999999.4 is one, too.
    repeated = np.isin(np.trunc(np.abs(numbers)), SENTINELS)
    rest = np.abs(numbers[~repeated])
    beyond = np.abs(numbers) / MARK_FACTOR >= max(1.0, rest.max(initial=0))
    marks = numbers[repeated & beyond & (len(rest) >= 2)].tolist()
    negative = numbers[numbers < 0]
    if len(negative) == 1 and -negative[0] in (1, 9, 99, 999, 9999) and len(numbers) > 8:
        marks += negative.tolist()
    for mark in dict.fromkeys(marks):
        count = int((column.codes == np.flatnonzero(column.different == mark)[0]).sum())
        others = numbers[numbers != mark]
        yield column.concern(
            "sentinel",
            mark=f"{mark:.12g}",
            rows=plural(count, "row"),
            least=f"{others[0]:.6g}",
            most=f"{others[-1]:.6g}",
        )


def has_text_among_numbers(column: Column) -> Iterator[Concern]:
    """Some cells of a column of numbers cannot be read as numbers."""
    strange = [] if column.written else strange_among_numbers(column.values)
    if strange:
        texts = unreadable(column.values[column.values.isin(strange)].value_counts())
        yield column.concern("text numbers", texts=texts)


DETECTORS: tuple[Detector, ...] = (
    says_nothing,
    says_too_much,
    marks_the_unknown,
    has_text_among_numbers,
)


def concerns_about_columns(X: pd.DataFrame, y: Any) -> Iterator[Concern]:
    """What each detector says about each column; nothing about tables of a few rows."""
    if len(X) < MIN_ROWS:
        return
    labels = LabelCodes.of(y)
    for name in X.columns:
        column = Column.of(X[name], labels)
        for detector in DETECTORS:
            yield from detector(column)


def _names_rows(values: pd.Series, different: int, present: int) -> bool:
    """Whether a column with so many different values in so many cells tells the rows apart: whole
    numbers that count them, or texts of which nearly all differ."""
    if is_numeric(values):
        return different == present and _counts_rows(values.dropna())
    return different >= MOSTLY_DIFFERENT * present


def weight_concerns(weight: NDArray[np.float64] | None, sensitive: Sensitive) -> list[Concern]:
    """Rows that are more than a tenth of their group's weight: a comparison of the group hangs on
    such a row."""
    concerns = list[Concern]()
    if weight is None:
        return concerns
    for part in sensitive.each:
        groups = part.values.astype(str)
        for group in np.unique(groups):
            weights = weight[groups == group]
            largest = weights.max()
            if len(weights) < MIN_ROWS or largest <= MAX_WEIGHT_SHARE * weights.sum():
                continue
            sentence = (
                f"One row has {100 * largest / weights.sum():.0f} % of the weight of {part.name} "
                f"= {group}, so the group's figures hang on it."
            )
            if largest in SENTINELS:
                sentence += (
                    f" {largest:.12g} looks like a mark for an unknown weight: give the row its "
                    "own or drop it."
                )
            concerns.append(Concern("weight", (part.name,), sentence))
    return concerns


def undermining(concerns: Iterable[Concern]) -> tuple[str, ...]:
    """What is said first of a comparison of groups: columns that alone tell the label or a
    group."""
    return tuple(concern.sentence for concern in concerns if concern.kind in UNDERMINING)


def check_probabilities(X: pd.DataFrame, protected: Collection[Hashable] = ()) -> list[Concern]:
    """A concern about columns of numbers from 0 to 1, one after the other, that sum to 1 in each
    row, as probabilities of groups do. Columns of 0 and 1 alone are no probabilities."""
    shares = dict[Hashable, NDArray[np.float64]]()
    for name in X.columns if len(X) >= MIN_ROWS else ():
        if is_numeric(X[name]) and X[name].nunique() > 2 and X[name].dropna().between(0, 1).all():
            shares[name] = X[name].to_numpy(np.float64, na_value=np.nan)
    concerns = list[Concern]()
    left = list(shares)
    while left:
        together = _sum_to_one([shares[name] for name in left])
        if together:
            columns = left[:together]
            drop = [str(name) for name in columns if name not in protected]
            sentence = SENTENCES["probabilities"].format(
                column=f"Columns {listed(columns)}", drop=",".join(drop)
            )
            concerns.append(Concern("probabilities", tuple(map(str, columns)), sentence))
        left = left[together or 1 :]
    return concerns


def _sum_to_one(shares: Sequence[NDArray[np.float64]]) -> int:
    """How many of the first columns sum to 1 in each row without a missing value; 0 if none do."""
    total = np.zeros(len(shares[0]))
    for count, share in enumerate(shares, 1):
        total = total + share
        off = total[~np.isnan(total)] - 1
        if len(off) < MIN_ROWS or off.max() > ROUNDING_TOLERANCE * len(shares):
            return 0
        if count > 1 and np.abs(off).max() <= ROUNDING_TOLERANCE * count:
            return count
    return 0


def strange_among_numbers(values: pd.Series) -> list[str]:
    """The texts, such as "?", that make a column of many different numbers text: less than half of
    its spellings and of its cells; none in any other column."""
    if is_numeric(values):
        return []
    different = pd.Index(values.dropna().unique())
    if len(different) < MIN_TEXTS or not isinstance(different[0], str):
        return []
    strange = different[
        pd.to_numeric(pd.Series(different.astype(object)), errors="coerce").isna().to_numpy()
    ]
    few = (
        1 <= len(strange) < len(different) / 2
        and values.isin(strange).sum() <= values.notna().sum() / 2
    )
    return list(strange) if few else []


def _is_prose(different: pd.Index) -> bool:
    """Whether texts are sentences: several words on average."""
    texts = [value for value in different if isinstance(value, str)]
    return bool(texts) and sum(len(text.split()) for text in texts) > PROSE_WORDS * len(texts)


def _errors(values: pd.Series, codes: Codes, measured: bool, labels: Codes) -> int:
    """Errors of the best cut point of a `measured` number; of others, errors when each row's label
    is guessed as the commoner label of the other rows with its value or, if there are none or a
    tie, of all rows."""
    if measured:
        numbers = values.to_numpy(np.float64, na_value=np.nan)
        order = np.argsort(numbers, kind="stable")
        below = np.cumsum(labels[order])
        # A cut lies between different numbers.
        ends = np.flatnonzero(np.diff(numbers[order], append=np.inf) != 0)
        wrong = 2 * below[ends] + len(labels) - 1 - ends - below[-1]  # 0 below the cut, 1 above
        return int(min(wrong.min(), (len(labels) - wrong).min()))
    ones = np.bincount(codes, weights=labels)[codes] - labels
    others = np.bincount(codes)[codes] - 1
    usual = int(2 * labels.sum() > len(labels))
    guess = np.where(2 * ones == others, usual, 2 * ones > others)
    return int((guess != labels).sum())


def _counts_rows(values: pd.Series) -> bool:
    """Whether whole numbers that all differ count rows: very many, without large gaps, or in
    order."""
    ordered = values.sort_index() if pd.api.types.is_integer_dtype(values.index.dtype) else values
    numbers = ordered.astype(np.float64)
    quarter = numbers.max() / 4 - numbers.min() / 4  # the difference itself may overflow
    dense = quarter < len(numbers)
    in_order = numbers.is_monotonic_increasing or numbers.is_monotonic_decreasing
    return not (numbers % 1).any() and (len(numbers) >= MIN_WHOLE_NUMBERS or dense or in_order)


def check_groups(X: pd.DataFrame, sensitive: Sensitive) -> list[Concern]:
    """A concern if columns of X determine a group: single ones (text, or a number with two values)
    or, if there is none, two columns of two values together."""
    codes = {name: _codes(X[name]) for name in X.columns if name not in sensitive.columns}
    few = {
        name: column
        for name, column in codes.items()
        if column.max() < 2 or not is_numeric(X[name])
    }
    attributes = [_codes(pd.Series(part.values.astype(str))) for part in sensitive.each]

    def determine(column: Codes) -> bool:
        """Whether a value tells of any group who is a member, nearly without exception. Each row is
        guessed from the other rows with its value, so that a value of one row tells nothing."""
        for groups in attributes:
            width = int(groups.max()) + 1
            cells = np.bincount(column * width + groups, minlength=(int(column.max()) + 1) * width)
            members: NDArray[np.int64] = cells.reshape(-1, width)
            rows = members.sum(axis=1, keepdims=True)
            missed = members * (2 * (members - 1) <= rows - 1)
            taken = (rows - members) * (2 * members >= rows - 1)
            rarer = np.minimum(members.sum(axis=0), rows.sum() - members.sum(axis=0))
            few_errors = (missed + taken).sum(axis=0) <= MAX_EXCEPTIONS * rarer
            if ((rarer >= MIN_ROWS) & few_errors).any():
                return True
        return False

    telling = [name for name, column in few.items() if determine(column)]
    subject = f"Columns {listed(telling)} tell"
    if not telling:
        two = {name: column for name, column in few.items() if column.max() == 1}
        pairs = combinations(two, 2) if len(two) * (len(two) - 1) <= 2 * MAX_PAIRS else ()
        telling = next(
            ([one, other] for one, other in pairs if determine(2 * two[one] + two[other])), []
        )
        subject = f"Columns {listed(telling)} together tell"
    if not telling:
        return []
    them = "them"
    if len(telling) == 1:
        subject = f"Column {listed(telling)} tells"
        them = "it"
    columns = tuple(map(str, telling))
    sentence = (
        f"{subject} the groups of '{sensitive.name}' apart: hardly anybody in another group has "
        f"the same values, so there are no comparable people. Leave {them} out: --drop "
        f"{','.join(columns)}."
    )
    return [Concern("proxy", columns, sentence)]


def _codes(values: pd.Series) -> Codes:
    """Each row's value as a number from 0; missing is a value."""
    return pd.factorize(values, use_na_sentinel=False)[0].astype(np.int64)


def check_people(X: pd.DataFrame, people: pd.DataFrame) -> list[Concern]:
    """Whether more people equal training rows than by coincidence. Where the columns are coarse, a
    person who equals a training row also has near twins that differ in one column."""
    shared = [name for name in X.columns if name in people.columns]
    if len(shared) < 2 or len(X) < MIN_ROWS or len(people) < MIN_TWINS:
        return []  # with one column alone, twins say nothing
    n = len(X)
    both = pd.concat([X[shared], people[shared]], ignore_index=True)
    cells = np.empty(both.shape, dtype=np.uint64)  # hashes: that of a row is their sum
    for k, name in enumerate(shared):
        codes = _codes(both[name])
        cells[:, k] = np.random.default_rng(k).integers(
            0, 2**64, int(codes.max()) + 1, dtype=np.uint64
        )[codes]
    whole = cells.sum(axis=1, dtype=np.uint64)
    twins = n + np.flatnonzero(np.isin(whole[n:], whole[:n]))

    def alike(hashes: NDArray[np.uint64]) -> NDArray[np.int64]:
        """How many training rows have a twin's hash."""
        return np.asarray(pd.Series(hashes[:n]).value_counts().reindex(hashes[twins]), np.int64)

    equal = alike(whole)
    ways = np.zeros(len(twins), np.int64)
    for k in range(len(shared)):
        ways += alike(whole - cells[:, k]) > equal
    # One way may be the column that tells all people apart.
    if int((ways < 2).sum()) < max(MIN_TWINS, MIN_TWIN_SHARE * len(people)):
        return []
    sentence = (
        f"{len(twins)} of the {len(people)} test people equal a training row in every column, so "
        "the model has seen them. Remove duplicate rows from the file, or keep them on one side "
        "of the split."
    )
    return [Concern("duplicates", (), sentence)]

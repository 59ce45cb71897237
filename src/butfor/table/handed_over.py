"""Checks rows, labels, weights, clusters and people given in Python against the table that they
belong to."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from contextlib import suppress
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from butfor.support.errors import (
    SettingError,
    TableError,
    brief,
    listed,
    nearest,
    plural,
)
from butfor.table.columns import (
    as_table,
    as_whole_numbers,
    beside,
    days_in,
    in_pandas,
    is_numeric,
    own,
    refuse_misaligned,
    same_columns,
)
from butfor.table.groups import Sensitive
from butfor.table.labels import as_values, refuse_infinite
from butfor.table.roles import Roles
from butfor.table.table import Table

LARGEST_WEIGHT = 1e100
"""Sums of the squares of larger ones are infinite."""
LARGEST_WEIGHT_RATIO = 1e12
"""The mean weight may be this many times a row's weight."""


def as_labels(X: pd.DataFrame, y: Any, what: str = "labels", *, gaps: bool = False) -> pd.Series:
    """A copy of one label per row of X, in its order; a y without an index is matched by position.
    `gaps`: some may lack one."""
    series = as_values(y, what)
    indexed = isinstance(y, (pd.Series, pd.DataFrame))
    refuse_misaligned(series if indexed else series.to_numpy(), X, what, "y")
    series = own(series if indexed else series.set_axis(X.index))
    missing = series.isna().to_numpy()
    if missing.any() and not gaps:
        one = what.removesuffix("s")
        raise TableError(
            f"The {one} of row {series.index[missing][0]} is missing; fill it in or drop the row."
        )
    return series


def labelled(
    X: Any, y: Any, *about: Any, note: Callable[[str], None], what: str = "labels"
) -> tuple[pd.DataFrame, pd.Series, list[Any]]:
    """Copies of the rows that have a label, of their labels, and of their part of each thing that
    stands beside the rows; a note counts the other rows."""
    X = as_table(X)
    y = as_labels(X, y, what, gaps=True)
    refuse_infinite(y, what)
    has_label = y.notna().to_numpy()
    things = [beside(thing, X) for thing in about]
    if has_label.all():
        return X, y, list(map(own, things))
    if not has_label.any():
        raise TableError(f"All {what} are missing: check that they are of the right column.")

    def of_labelled(thing: Any) -> Any:
        if isinstance(thing, (str, type(None))) or not np.ndim(thing) or len(thing) != len(X):
            return thing  # not one value per row
        if isinstance(thing, (pd.Series, pd.DataFrame)):
            return thing[has_label]
        return np.asarray(thing, object)[has_label]

    note(f"{plural((~has_label).sum(), 'row')} without a label left out.")
    labels = as_whole_numbers(y)[has_label].infer_objects()
    return X[has_label], labels, list(map(of_labelled, things))


def numbered(table: Table, y: pd.Series, whose: str) -> NDArray[np.int64]:
    """Labels by number; an error about those that no training row has."""
    unknown = set(y.unique()) - set(table.classes)
    if unknown:
        raise TableError(
            f"The labels of {whose} include {listed(unknown)}, which no training row has."
        )
    return table.numbers_of(y)


def as_weights(
    X: pd.DataFrame, weight: Any, sensitive: Sensitive | None = None
) -> NDArray[np.float64] | None:
    """One weight per row, finite and at least 0, none 10^12 times smaller than their mean unless it
    is 0, and in every group one above 0."""
    if weight is None:
        return None
    series = as_labels(X, weight, "weights")
    numbers = pd.to_numeric(series, errors="coerce").to_numpy(dtype=np.float64)
    bad = ~(np.isfinite(numbers) & (numbers >= 0) & (numbers <= LARGEST_WEIGHT))
    if bad.any():
        raise TableError(
            f"sample_weight must be finite numbers, at least 0 and at most {LARGEST_WEIGHT:g}; "
            f"that of row {series.index[bad][0]} is {series[bad].iloc[0]}. Correct it, or drop "
            "the row."
        )
    small = (numbers > 0) & (numbers < numbers.mean() / LARGEST_WEIGHT_RATIO)
    if small.any():
        raise TableError(
            f"sample_weight of row {series.index[small][0]} is {numbers[small][0]:g}, more than "
            f"10^12 times smaller than the mean of {numbers.mean():g}: no model can compute with "
            "both. Correct it, or give it the weight 0."
        )
    for part in sensitive.each if sensitive else ():
        for group in np.unique(part.values.astype(str)):
            if not numbers[part.values.astype(str) == group].any():
                raise TableError(
                    f"sample_weight is 0 in every row of {part.name} = {group}, so nothing is "
                    "known about them: drop these rows, or give them weights."
                )
    return numbers


def as_clusters(X: pd.DataFrame, given: Any) -> tuple[pd.DataFrame, NDArray[np.object_] | None]:
    """The table without the column that says which rows belong together, and its values or those
    given beside it."""
    if given is None:
        return X, None
    column = isinstance(given, Hashable) and given in X.columns
    if isinstance(given, str) and not column:
        raise SettingError(f"cluster: there is no column '{given}'. {nearest(given, X.columns)}")
    values = np.array(X[given] if column else given, dtype=object).ravel()
    for each in (values, given) if isinstance(given, (pd.Series, pd.DataFrame)) else (values,):
        refuse_misaligned(each, X, "values of cluster", "cluster")
    return X.drop(columns=[given]) if column else X, values


def like_training(
    people: pd.DataFrame, X: pd.DataFrame, sensitive: Sensitive, roles: Roles
) -> pd.DataFrame:
    """People with the columns of the training rows X, in their order, dates as days and protected
    values as the training rows have them; the column of clusters may be there too."""
    if roles.cluster is not None and roles.cluster in people.columns:
        people = people.drop(columns=[roles.cluster])
    people = same_columns(people, list(X.columns))
    texts = [column for column in roles.dates if not is_numeric(people[column])]
    changed: dict[Any, Any] = {column: days_in(people[column]) for column in texts}
    for column in sensitive.columns:
        if column not in changed:
            given = people[column]
            values = sensitive.as_in_training(given, X[column])
            if values is not given:
                changed[column] = values
    return people.assign(**changed) if changed else people


def as_person(person: Any, X: pd.DataFrame) -> pd.DataFrame:
    """One person: a table of one row, or a Series, whose values get the types of the table's
    columns if that changes no value. A row of polars or pyarrow has no index, so its row is
    unknown."""
    if not isinstance(person, pd.Series):
        frame = in_pandas(person)
        if not isinstance(frame, pd.DataFrame) or len(frame) != 1:
            raise TableError(
                "explain takes one person, a table of one row (X.iloc[[36]]), not "
                f"{brief(person)}. For several people use explain_all."
            )
        return frame if frame is person else frame.set_axis(pd.Index([None], dtype=object))
    return typed_like(person.to_frame().T, X)


def typed_like(people: pd.DataFrame, X: pd.DataFrame) -> pd.DataFrame:
    """People whose columns have the types of the table's columns where that changes no value."""
    people = people.infer_objects()
    for column in people.columns.intersection(X.columns):
        with suppress(ValueError, TypeError, OverflowError):
            typed = people[column].astype(X[column].dtype)
            same = [
                (given == value or (pd.isna(given) and pd.isna(value)))
                and isinstance(given, str) == isinstance(value, str)
                for given, value in zip(people[column], typed, strict=True)
            ]
            if all(same):
                people[column] = typed
    return people


def as_positions(cases: Any, people: int) -> list[int]:
    """Positions of people in a table, each once, from whole numbers or a boolean mask."""
    several = isinstance(cases, Iterable) and not isinstance(cases, (str, bytes))
    positions = np.asarray(list(cases) if several else cases)
    if positions.dtype == bool and positions.shape == (people,):
        positions = np.flatnonzero(positions)
    whole = np.issubdtype(positions.dtype, np.integer)
    if positions.ndim != 1 or (len(positions) and not whole):
        raise SettingError(
            f"cases={brief(cases)}: give positions in the table, such as range(20) or [3, 8]."
        )
    outside = [case for case in positions.tolist() if not 0 <= case < people]
    if outside:
        raise SettingError(
            f"There is no person {outside[0]}: the people of the table are 0 to {people - 1}."
        )
    return [int(case) for case in dict.fromkeys(positions.tolist())]

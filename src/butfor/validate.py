"""Checks tables and columns given in Python and turns them into pandas; narwhals reads polars and pyarrow."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from butfor.columns import ASIDE, DATES, as_whole_numbers, check_frame, is_numeric, same_columns
from butfor.data.dates import days_in
from butfor.data.sensitive import Sensitive
from butfor.errors import SettingError, TableError, brief, listed, nearest
from butfor.models.learner import Learner, Table, set_rows_aside

LARGEST_WEIGHT = 1e100
"""Sums of the squares of larger ones are infinite."""


def as_table(X: Any) -> pd.DataFrame:
    """A pandas table with named columns; rows of other libraries are numbered from 0."""
    frame = X if isinstance(X, pd.DataFrame) else _foreign(X, series=False)
    if frame is None:
        raise TableError(
            "An audit needs a table with named columns (a pandas or polars DataFrame, or a pyarrow Table), not "
            f"{brief(X)}."
        )
    for count, what in zip(frame.shape, ("rows", "columns"), strict=True):
        if not count:
            raise TableError(f"The table has no {what}.")
    check_frame(frame)
    return frame


def as_labels(X: pd.DataFrame, y: Any, what: str = "labels", *, gaps: bool = False) -> pd.Series:
    """One label per row of X, in its order; a y without an index is matched by position. `gaps`: some may lack one."""
    if isinstance(y, pd.DataFrame) and y.shape[1] == 1:
        y = y.iloc[:, 0]
    series = y if isinstance(y, pd.Series) else _foreign(y, series=True)
    if series is None:
        series = pd.Series(np.asarray(y).ravel() if np.ndim(y) else np.asarray([y]))
    if len(series) != len(X):
        raise TableError(f"The table has {len(X)} rows but there are {len(series)} {what}.")
    if isinstance(y, pd.Series):
        if not y.index.equals(X.index):
            other = "the same rows in another order" if set(y.index) == set(X.index) else "different rows"
            raise TableError(
                f"The index of the {what} does not match the table's: {other}. Align them (y.loc[X.index]), or pass "
                "a plain array in the order of the table."
            )
    else:
        series = pd.Series(series.to_numpy(), index=X.index, name=series.name)
    missing = series.isna().to_numpy()
    if missing.any() and not gaps:
        one = what.removesuffix("s")
        raise TableError(f"The {one} of row {series.index[missing][0]} is missing; fill it in or drop the row.")
    return series


def labelled(
    X: Any, y: Any, *beside: Any, note: Callable[[str], None], what: str = "labels"
) -> tuple[pd.DataFrame, pd.Series, list[Any]]:
    """The rows that have a label, their labels, and their part of each thing that stands beside the rows; a note counts
    the other rows."""
    X = as_table(X)
    y = as_labels(X, y, what, gaps=True)
    known = y.notna().to_numpy()
    if known.all():
        return X, y, list(beside)
    if not known.any():
        raise TableError(f"All {what} are missing.")

    def some(given: Any) -> Any:
        if isinstance(given, (pd.Series, pd.DataFrame)):
            return given[known] if len(given) == len(known) else given
        per_row = not isinstance(given, (str, type(None))) and np.ndim(given) and len(given) == len(known)
        return np.asarray(given, dtype=object)[known] if per_row else given

    left_out = int((~known).sum())
    note(f"{left_out} row{'s' * (left_out > 1)} without a label left out.")
    return X[known], as_whole_numbers(y)[known].infer_objects(), [some(each) for each in beside]


def numbered(table: Table, y: pd.Series, whose: str) -> NDArray[np.int64]:
    """Labels by number; an error about those that no training row has."""
    if unknown := set(y.unique()) - set(table.classes):
        raise TableError(f"The labels of {whose} include {listed(unknown)}, which no training row has.")
    return table.numbers_of(y)


def as_weights(X: pd.DataFrame, weight: Any, sensitive: Sensitive | None = None) -> NDArray[np.float64] | None:
    """One weight per row, finite and at least 0, and in every group one above 0."""
    if weight is None:
        return None
    series = as_labels(X, weight, "weights")
    try:
        numbers = series.to_numpy(dtype=np.float64)
    except (ValueError, TypeError):
        raise TableError("sample_weight must be numbers.") from None
    bad = ~(np.isfinite(numbers) & (numbers >= 0) & (numbers <= LARGEST_WEIGHT))
    if bad.any():
        raise TableError(
            f"sample_weight must be finite numbers, at least 0 and at most {LARGEST_WEIGHT:g}; that of row "
            f"{series.index[bad][0]} is {numbers[bad][0]:g}. Correct it, or drop the row."
        )
    if not numbers.any():
        raise TableError("sample_weight is 0 in every row; give at least some rows a weight.")
    for part in sensitive.each if sensitive else ():
        for group in np.unique(part.values.astype(str)):
            if not numbers[part.values.astype(str) == group].any():
                raise TableError(
                    f"sample_weight is 0 in every row of {part.name} = {group}, so nothing is known about them: drop "
                    "these rows, or give them weights."
                )
    return numbers


def as_clusters(X: pd.DataFrame, given: Any) -> tuple[pd.DataFrame, NDArray[np.object_] | None]:
    """The table without the column that says which rows belong together, and its values or those given beside it."""
    if given is None:
        return X, None
    column = isinstance(given, Hashable) and given in X.columns
    if isinstance(given, str) and not column:
        raise SettingError(f"cluster: there is no column '{given}'. {nearest(given, X.columns)}")
    if isinstance(given, pd.Series) and not given.index.equals(X.index):
        raise TableError("The index of cluster differs from that of X. Align it: cluster.loc[X.index].")
    values = np.asarray(X[given] if column else given, dtype=object).ravel()
    if len(values) != len(X):
        raise TableError(f"cluster holds {len(values)} values, but the table has {len(X)} rows.")
    return X.drop(columns=[given]) if column else X, values


def like_training(people: pd.DataFrame, X: pd.DataFrame) -> pd.DataFrame:
    """People with the training columns, in their order, dates as days; the column of clusters may be there too."""
    aside = [column for column in X.attrs.get(ASIDE, ()) if column in people.columns]
    people = same_columns(people.drop(columns=aside) if aside else people, list(X.columns))
    texts = [column for column in X.attrs.get(DATES, ()) if not is_numeric(people[column])]
    people = people.copy(deep=False) if texts else people
    for column in texts:
        people[column] = days_in(people[column])
    return people


def as_person(person: Any, X: pd.DataFrame) -> pd.DataFrame:
    """One person: a table of one row, or a Series, whose values get the types of the table's columns if that changes
    no value. A row of polars or pyarrow has no index, so its row is unknown."""
    if not isinstance(person, pd.Series):
        frame = person if isinstance(person, pd.DataFrame) else _foreign(person, series=False)
        if frame is None or len(frame) != 1:
            raise TableError(
                f"explain takes one person, a table of one row (X.iloc[[36]]), not {brief(person)}. "
                "For several people use explain_all."
            )
        return frame if frame is person else frame.set_axis(pd.Index([None], dtype=object))
    row = person.to_frame().T.infer_objects()
    for column in row.columns.intersection(X.columns):
        given = row[column]
        try:
            typed = given.astype(X[column].dtype)
            same = bool((typed.isna() == given.isna()).all() and (typed == given)[given.notna()].all())
        except (ValueError, TypeError, OverflowError):
            continue
        if same and isinstance(given.iloc[0], str) == isinstance(typed.iloc[0], str):
            row[column] = typed
    return row


def _foreign(given: Any, *, series: bool) -> Any:
    """Another library's table or column in pandas; None if narwhals does not know it."""
    if given is None or isinstance(given, (np.ndarray, list, tuple, dict, str)):
        return None
    import narwhals as nw

    try:
        if series:
            return nw.from_native(given, series_only=True).to_pandas()
        native = nw.from_native(given)
        eager = native.collect() if isinstance(native, nw.LazyFrame) else native
        return eager.to_pandas()
    except TypeError:
        return None


def as_positions(cases: Any, people: int) -> list[int]:
    """Positions of people in a table, each once, from whole numbers or a boolean mask."""
    given = np.asarray(list(cases) if isinstance(cases, Iterable) and not isinstance(cases, (str, bytes)) else cases)
    if given.dtype == bool and given.shape == (people,):
        return [int(case) for case in np.flatnonzero(given)]
    if given.ndim != 1 or (len(given) and not np.issubdtype(given.dtype, np.integer)):
        raise SettingError(f"cases={brief(cases)}: give positions in the table, such as range(20) or [3, 8].")
    outside = [int(case) for case in given if not 0 <= case < people]
    if outside:
        raise SettingError(f"There is no person {outside[0]}: the people of the table are 0 to {people - 1}.")
    return [int(case) for case in dict.fromkeys(given.tolist())]


def training_table(
    learner: Learner,
    X: pd.DataFrame,
    y: pd.Series,
    validation: tuple[Any, Any] | None,
    weight: NDArray[np.float64] | None,
    cluster: NDArray[np.object_] | None,
    note: Callable[[str], None],
) -> tuple[Table, NDArray[np.int64]]:
    """The training table, and the positions of its rows in X."""
    everything = np.arange(len(X))
    if learner.split is None:
        if validation is not None:
            raise SettingError(f"{learner.name} takes no validation rows: leave validation out, or add them to X.")
        return Table(X, y, weight=weight, cluster=cluster), everything
    if weight is not None:
        note(f"{learner.name} takes no weights: they serve the comparison of groups alone.")
    if validation is not None:
        X_val, y_val, _ = labelled(*validation, note=note, what="validation labels")
        table = Table(X, y, (like_training(X_val, X), y_val), weight, cluster=cluster)
        numbered(table, y_val, "the validation rows")
        return table, everything
    table = set_rows_aside(learner, Table(X, y, weight=weight, cluster=cluster))
    assert table.whole is not None
    return table, table.whole[2]

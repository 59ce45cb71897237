"""Labels by name, value and number."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from butfor.support.errors import (
    SettingError,
    TableError,
    listed,
    nearest,
    plural,
)
from butfor.table.columns import (
    NO_CELL,
    in_pandas,
    plain_cells,
    strange_kinds,
)

MAX_CLASSES = 50
"""Values that a label may have."""
EQUALS = " = "
SAYS_NOTHING = ("yes", "no", "y", "n", "true", "false", "t", "f", "0", "1")
"""Values that nobody understands without their column."""


def as_values(given: Any, what: str) -> pd.Series:
    """What was given as labels (or as `what`), one after the other: numbers, texts, booleans or
    dates that can be compared and counted. Values of numpy inside a column of objects become
    Python's, half precision double."""
    y = in_pandas(
        given.iloc[:, 0] if isinstance(given, pd.DataFrame) and given.shape[1] == 1 else given
    )
    # As objects: an array of texts would turn a missing value among them into the text "nan".
    values = y if isinstance(y, (pd.Series, np.ndarray)) else np.asarray(y, dtype=object)
    fields = getattr(values.dtype, "names", None)
    if fields:
        raise TableError(
            f"The {what} are a structured array of {listed(fields)}: give one of its fields."
        )
    series = (
        values if isinstance(values, pd.Series) else pd.Series(np.ravel(values)).infer_objects()
    )
    if series.dtype == object:
        series = plain_cells(series)
        strange = strange_kinds(series)
    else:
        # "|S3" are bytes, "|V3" raw memory
        strange = (
            [str(series.dtype)] if str(series.dtype).startswith(("complex", "|", *NO_CELL)) else []
        )
    if strange:
        raise TableError(
            f"The {what} hold {listed(strange)}; give one number, text, boolean or date per row."
        )
    return series.astype(np.float64) if series.dtype == np.float16 else series


def refuse_infinite(labels: pd.Series, what: str) -> None:
    """Raise an error that names the first infinite label."""
    infinite = [isinstance(value, (float, np.floating)) and math.isinf(value) for value in labels]
    if any(infinite):
        more = sum(infinite) - 1
        also = f" (and {plural(more, 'more row')})" if more else ""
        row = labels.index[infinite][0]
        raise TableError(
            f"The {what.removesuffix('s')} of row {row}{also} is infinite: correct it or drop the "
            "row."
        )


def label_values(y: NDArray[Any], column: Any = None, twice: bool = True) -> NDArray[Any]:
    """The label values in sorted order; an error if there are too few or too many. `twice`: of
    three and more, each must occur in two rows, for a model to learn it."""
    whose = "The labels have" if column is None else f"Label column '{column}' has"
    kinds = list[str]()
    if y.dtype == object:
        kinds = sorted({kind.__name__.removesuffix("_") for kind in set(map(type, y))})
    try:
        if "bool" in kinds and len(kinds) > 1:
            raise TypeError  # Python compares True with 1, scikit-learn does not
        codes, different = pd.factorize(y)
        order = np.argsort(different)
    except TypeError as error:
        raise TableError(
            f"The labels mix types that cannot be compared ({listed(kinds)}); use one type."
        ) from error
    classes = np.asarray(different, y.dtype)[order]
    counts = np.bincount(codes)[order]
    if len(classes) == 1:
        raise TableError(
            f"{whose} only one class ('{classes[0]}'), so there is nothing to decide. Check that "
            "the label column is the right one."
        )
    if len(classes) > MAX_CLASSES:
        remedy = "Group them, or name another label."
        if isinstance(classes[0], (int, float, np.number)):
            remedy = (
                f"Make two labels of the numbers by comparing them: {column or 'y'} >= "
                f"{np.median(y):g}."
            )
        raise TableError(
            f"{whose} {len(classes)} values ({listed(classes)}); at most {MAX_CLASSES} are "
            f"possible. {remedy}"
        )
    refuse_alike(classes, f"{whose} the values")
    if twice and len(classes) > 2 and counts.min() == 1:
        raise TableError(
            f"{whose} {len(classes)} values, and '{classes[counts.argmin()]}' occurs in one row "
            "only: correct it, or drop the row."
        )
    return classes


def refuse_alike(values: Iterable[Any], whose: str) -> None:
    """Raise an error if two texts differ in nothing but spaces around them or capital letters."""
    seen = dict[str, str]()
    for text in (value for value in values if isinstance(value, str)):
        other = seen.setdefault(text.strip().lower(), text)
        if other != text:
            raise TableError(
                f"{whose} '{other}' and '{text}', which differ only in spaces or capitals: make "
                "them one."
            )


def label_names(
    classes: Iterable[Any], column: Any = None, known: Sequence[str] = ()
) -> tuple[str, ...]:
    """Names of labels: those `known` by number or, of other labels, a text names itself; numbers,
    booleans and texts such as "yes" follow their column ("approved = yes")."""
    values = list(classes)
    if known and set(values) <= set(range(len(known))):
        return tuple(str(known[int(value)]) for value in values)
    alone = all(isinstance(one, str) and one.strip().lower() not in SAYS_NOTHING for one in values)
    named = isinstance(column, str) and column
    return tuple(f"{column}{EQUALS}{one}" if named and not alone else str(one) for one in values)


def label_numbers(given: Any, names: Sequence[str], classes: Iterable[Any]) -> list[int]:
    """The numbers of the adverse labels, of which there may be one or several; an error if none is
    left over."""
    several = list(given) if isinstance(given, (list, tuple, set, np.ndarray)) else [given]
    numbers = sorted({label_number(one, names, classes) for one in several})
    if len(numbers) == len(names):
        raise SettingError(
            f"adverse names all labels ({listed(names)}); leave out the favourable ones."
        )
    return numbers


def label_number(
    given: Any, names: Sequence[str], classes: Iterable[Any] = (), option: str = "adverse"
) -> int:
    """The number of a label given by its name ("approved = True"), the end of its name ("True") or
    its value."""
    values = [name.rpartition(EQUALS)[2] for name in names]
    for known in (list(names), values, [str(one) for one in classes]):
        if known.count(str(given)) > 1:
            raise SettingError(
                f"{option}: '{given}' could be any of {listed(names)}; write the whole label."
            )
        if str(given) in known:
            return known.index(str(given))
    raise SettingError(
        f"{option}: there is no label '{given}'. {nearest(given, values, 'The labels are')}"
    )

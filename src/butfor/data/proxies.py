"""Columns that determine the protected attribute, such as a first name or the dummy variable of another race.

Nobody in another group then has the same columns, so that a comparison with comparable people compares with nobody.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from butfor.columns import is_numeric
from butfor.data.check import LEAST_ROWS, Codes, Concern
from butfor.data.sensitive import Sensitive
from butfor.errors import listed

EXCEPTIONS = 0.02
"""A column determines a group if guessing from it who is a member makes at most this share of the errors that guessing
the same for everybody makes."""


def check_groups(X: pd.DataFrame, sensitive: Sensitive) -> list[Concern]:
    """A concern if columns of X determine a group: single ones (text, or a number with two values) or, if there is
    none, two columns of two values together."""
    codes = {name: _codes(X[name]) for name in X.columns if name not in sensitive.columns}
    few = {name: found for name, found in codes.items() if found.max() < 2 or not is_numeric(X[name])}
    attributes = _attributes(sensitive)
    single = [name for name, found in few.items() if any(_determine(found, groups) for groups in attributes)]
    if single:
        subject = f"Columns {listed(single)} tell" if len(single) > 1 else f"Column {listed(single)} tells"
        return [_concern(single, subject, sensitive.name)]
    two_valued = {name: found for name, found in few.items() if found.max() == 1}
    for first, second in combinations(two_valued, 2):
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


def _attributes(sensitive: Sensitive) -> list[Codes]:
    """Each row's group as a number: by all protected columns together and, of several, by each alone."""
    groups = sensitive.values.astype(str)
    parts = [
        pd.Series(groups).map({group: values[k] for group, values in sensitive.combinations.items()})
        for k in range(len(sensitive.attributes) if sensitive.combinations else 0)
    ]
    return [_codes(part) for part in (pd.Series(groups), *parts)]


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

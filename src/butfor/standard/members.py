"""Who is compared with whom: groups and their others, the reference group, rows that belong together."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from butfor.data.sensitive import Sensitive
from butfor.errors import SettingError, TableError, nearest
from butfor.standard.inputs import Mask, Rows

LEAST_ROWS = 30
"""A smaller group, or fewer others, say too little."""
NOT_COMPARED = " is not compared: "
"""Between a group and the reason, in the sentences about groups that are left out."""
MISSING_APART = 0.05
"""A column that lacks values in a group more often, or less, by this share of its rows is mentioned."""


class Group(NamedTuple):
    """Rows of one group, by position, and those it is compared with: all others, or the reference group's."""

    attribute: str
    value: str
    rows: Rows
    others: Rows
    reference: str | None


def attributes_of(sensitive: Sensitive, X: pd.DataFrame, beside: Any = None) -> list[Sensitive]:
    """The attribute whose groups rows belong to, last; before it, where it joins several columns of X or of a table
    beside it, each of them."""
    named: dict[Any, Any] = {name: name for name in sensitive.columns}
    if sensitive.blind and isinstance(beside, pd.DataFrame):
        named = {name: beside[name] for name in beside.columns}
    if len(named) < 2:
        return [sensitive]
    cuts = {name: {cut: at for cut, at in sensitive.cuts.items() if cut == str(name)} for name in named}
    return [*(Sensitive.of(values, X, cuts[name]) for name, values in named.items()), sensitive]


def table_order(X: pd.DataFrame) -> Rows:
    """The order of a table whose rows are numbered, however it was split; draws go by it."""
    numbered = X.index.is_unique and X.index.inferred_type == "integer"
    return np.asarray(X.index.argsort() if numbered else np.arange(len(X)), np.int64)


def groups_of(attributes: Sequence[Sensitive], favourable: Mask, reference: Any) -> tuple[list[Group], list[str]]:
    """The groups that can be compared, and a sentence on each that cannot."""
    references = _references(reference, attributes)
    groups: list[Group] = []
    left_out = []
    for attribute in attributes:
        values = attribute.values.astype(str)
        found = sorted(set(map(str, values)))
        if len(found) == 1:
            raise SettingError(f"'{attribute.name}' has only one value, '{found[0]}': there is nobody to compare with.")
        if all(len(set(favourable[values == value])) == 1 for value in found):
            raise TableError(
                f"'{attribute.name}' determines every label: it is the label, or made from it. Name another attribute."
            )
        compared_with = references.get(attribute.name)
        for value in found:
            inside = values == value
            others = ~inside if compared_with is None else values == compared_with
            if value == compared_with:
                if reason := _too_little(inside, favourable):
                    raise TableError(f"The reference group {attribute.name} = {value} cannot be used: {reason}.")
            elif reason := _too_little(inside) or _too_little(others, favourable, "the other groups together have "):
                left_out.append(f"{attribute.name} = {value}{NOT_COMPARED}{reason}.")
            else:  # a combination that is all of a group says what the group would
                rows = np.flatnonzero(inside)
                groups = [group for group in groups if not np.array_equal(group.rows, rows)]
                groups.append(Group(attribute.name, value, rows, np.flatnonzero(others), compared_with))
    return groups, left_out


def _too_little(rows: Mask, favourable: Mask | None = None, whose: str = "") -> str:
    if rows.sum() < LEAST_ROWS:
        return f"{whose}{rows.sum()} rows, and a comparison needs {LEAST_ROWS}"
    alike = favourable is not None and len(set(favourable[rows])) == 1
    return f"{whose}the same label everywhere" if alike else ""


def _references(given: Any, attributes: Sequence[Sensitive]) -> dict[str, str]:
    """Attribute to reference group, of the attributes that have one; of combinations, where all of them have."""
    if given is None:
        return {}
    wanted = list(map(str, given if isinstance(given, (list, tuple, set)) else [given]))
    found: dict[str, str] = {}
    for value in wanted:
        has_it = [a.name for a in attributes if value in set(map(str, a.values))]
        if not has_it:
            known = sorted({str(v) for a in attributes for v in a.values})
            raise SettingError(f"reference: there is no group '{value}'. {nearest(value, known, 'The groups are')}")
        found |= dict.fromkeys(has_it, value)
    whole, single = attributes[-1], attributes[:-1]
    if single and all(a.name in found for a in single):
        joint = Sensitive.JOINT.join(found[a.name] for a in single)
        if joint in set(map(str, whole.values)):
            found.setdefault(whole.name, joint)
    return found


def codes_of(attribute: Sensitive) -> Rows:
    """Each row's group as a number from 0."""
    return np.unique(attribute.values.astype(str), return_inverse=True)[1].astype(np.int64)


def clusters_of(given: Any, X: pd.DataFrame) -> tuple[Rows | None, list[Hashable]]:
    """Each row's cluster as a number from 0, None where rows are independent; and the column of X that tells it."""
    if given is None:
        return None, []
    column = isinstance(given, Hashable) and given in X.columns
    if isinstance(given, str) and not column:
        raise SettingError(f"cluster: there is no column '{given}'. {nearest(given, X.columns)}")
    values = pd.Series(X[given].to_numpy() if column else np.asarray(given).ravel(), dtype=object)
    if len(values) != len(X):
        raise TableError(f"cluster holds {len(values)} values, but the table has {len(X)} rows.")
    if isinstance(given, pd.Series) and not given.index.equals(X.index):
        raise TableError("The index of cluster differs from that of X. Align it: cluster.loc[X.index].")
    codes, found = pd.factorize(values.astype(str).where(values.notna(), None))
    codes = codes.astype(np.int64)
    alone = codes < 0  # a row without a value is a cluster of its own
    codes[alone] = len(found) + np.arange(alone.sum())
    return codes, [given] if column else []


def missing_values(inputs: pd.DataFrame, group: Group) -> tuple[str, ...]:
    """A sentence per column that lacks values in the group clearly more often, or less, than among the others."""
    said = []
    for column in inputs.columns[inputs.isna().any()]:
        absent = inputs[column].isna().to_numpy()
        own, other = float(absent[group.rows].mean()), float(absent[group.others].mean())
        if abs(own - other) >= MISSING_APART:
            said.append(
                f"{column} is missing in {100 * own:.0f} % of these rows and {100 * other:.0f} % of the others."
            )
    return tuple(said)

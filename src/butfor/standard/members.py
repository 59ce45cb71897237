"""Who is compared with whom: groups and their others, the reference group, rows that belong together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from butfor.data.sensitive import Sensitive
from butfor.errors import SettingError, TableError, listed, nearest
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


def table_order(X: pd.DataFrame) -> Rows:
    """The order of a table whose rows are numbered, however it was split; draws go by it."""
    numbered = X.index.is_unique and X.index.inferred_type == "integer"
    return np.asarray(X.index.argsort() if numbered else np.arange(len(X)), np.int64)


def groups_of(attributes: Sequence[Sensitive], favourable: Mask, reference: Any) -> tuple[list[Group], list[str]]:
    """The groups that can be compared, and a sentence on each that cannot."""
    references = references_of(reference, attributes)
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


def references_of(given: Any, attributes: Sequence[Sensitive]) -> dict[str, str]:
    """Attribute to reference group. `given`: a group, several, or a mapping from attribute to group. Combinations are
    compared with the combination of all attributes' references."""
    known = {attribute.name: set(map(str, attribute.values)) for attribute in attributes}
    if isinstance(given, Mapping):
        found = {str(name): str(group) for name, group in given.items()}
    else:
        found = {}
        for group in [] if given is None else map(str, given if isinstance(given, (list, tuple, set)) else [given]):
            names = [name for name, groups in known.items() if group in groups]
            if not names:
                groups = sorted(set().union(*known.values()))
                raise SettingError(
                    f"reference: there is no group '{group}'. {nearest(group, groups, 'The groups are')}"
                )
            if len(names) > 1:
                raise SettingError(
                    f"reference: '{group}' is a group of {listed(names)}; say of which: "
                    f"reference={{'{names[0]}': '{group}'}}."
                )
            if found.setdefault(names[0], group) != group:
                raise SettingError(
                    f"reference names '{found[names[0]]}' and '{group}', both groups of '{names[0]}'; name one of them."
                )
    for name, group in found.items():
        if name not in known:
            raise SettingError(
                f"reference: there is no attribute '{name}'. {nearest(name, known, 'The attributes are')}"
            )
        if group not in known[name]:
            raise SettingError(
                f"reference: '{name}' has no group '{group}'. {nearest(group, sorted(known[name]), 'The groups are')}"
            )
    whole, single = attributes[-1].name, [attribute.name for attribute in attributes[:-1]]
    if single and whole not in found and all(name in found for name in single):
        joint = Sensitive.JOINT.join(found[name] for name in single)
        found |= {whole: joint} if joint in known[whole] else {}
    return found


def codes_of(attribute: Sensitive) -> Rows:
    """Each row's group as a number from 0."""
    return np.unique(attribute.values.astype(str), return_inverse=True)[1].astype(np.int64)


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

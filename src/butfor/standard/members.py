"""Who is compared with whom: groups and their others, or the reference group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from butfor.data.sensitive import Sensitive
from butfor.errors import SettingError, TableError, listed, nearest
from butfor.standard.inference import Drawn
from butfor.standard.inputs import Floats, Mask, Rows
from butfor.standard.second_opinion import EVERYBODY, Opinion, Part
from butfor.standard.slices import LEAST_ROWS, Means

NOT_COMPARED = " is not compared: "
"""Between a group and the reason, in the sentences about groups that are left out."""


@dataclass(eq=False)
class Group:
    """Rows of one group, by position, and those it is compared with: all others, or the reference group's. The rest is
    what a comparison measures of it, step by step."""

    attribute: str
    value: str
    rows: Rows
    others: Rows
    reference: str | None
    opinion: Opinion | None = None
    part: Part = EVERYBODY
    """Of the others, those that models of drawn labels learn from."""
    means: Means = field(init=False)
    probabilities: Floats = field(init=False)
    """Of the favourable label, by the others' standard `[rows]`."""
    outcomes: Floats = field(init=False)
    """What AIPW expects `[rows of group and others]`."""
    recorded: Floats = field(init=False)
    """Shares of the favourable label by the others' standard: in each of `means`, then by AIPW."""
    apart: Floats | float = 0.0
    """How much higher these shares are, on labels without noise, by models of all others than by those of `part`."""
    moves: Sequence[tuple[str, float, float]] = ()
    suspect: Floats = field(init=False)
    """How likely the rows' adverse labels are wrong, before the gap says how many are."""
    drawn: list[Floats] = field(default_factory=list)
    """The same shares on drawn tables `[shares × tables]`, some tables at a time."""
    figures: list[Drawn] = field(init=False)
    """One per share."""


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
    if not groups:
        raise TableError(f"No group can be compared. {' '.join(left_out)}")
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
    pairs = list(given.items()) if isinstance(given, Mapping) else []
    if given is not None and not isinstance(given, Mapping):
        for group in map(str, given if isinstance(given, (list, tuple, set)) else [given]):
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
            pairs.append((names[0], group))
    found: dict[str, str] = {}
    for name, group in ((str(name), str(group)) for name, group in pairs):
        if name not in known:
            raise SettingError(
                f"reference: there is no attribute '{name}'. {nearest(name, known, 'The attributes are')}"
            )
        if group not in known[name]:
            raise SettingError(
                f"reference: '{name}' has no group '{group}'. {nearest(group, sorted(known[name]), 'The groups are')}"
            )
        if found.setdefault(name, group) != group:
            raise SettingError(
                f"reference names '{found[name]}' and '{group}', both groups of '{name}'; name one of them."
            )
    whole, single = attributes[-1].name, [attribute.name for attribute in attributes[:-1]]
    if single and whole not in found and all(name in found for name in single):
        joint = Sensitive.JOINT.join(found[name] for name in single)
        found |= {whole: joint} if joint in known[whole] else {}
    return found

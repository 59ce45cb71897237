"""Labels by name, value and number."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from butfor.errors import SettingError, listed, nearest

MOST_CLASSES = 50
"""Values that a label may have."""
EQUALS = " = "
SAYS_NOTHING = ("yes", "no", "y", "n", "true", "false", "t", "f", "0", "1")
"""Values that nobody understands without their column."""


def label_names(classes: Iterable[Any], column: Any = None) -> tuple[str, ...]:
    """Names of labels: a text names itself; numbers, booleans and texts such as "yes" follow their column ("approved =
    yes")."""
    values = list(classes)
    alone = all(isinstance(one, str) and one.strip().lower() not in SAYS_NOTHING for one in values)
    return tuple(map(str, values) if alone or column in (None, "") else (f"{column}{EQUALS}{one}" for one in values))


def label_number(given: Any, names: Sequence[str], classes: Iterable[Any] = (), option: str = "adverse") -> int:
    """The number of a label given by its name ("approved = True"), the end of its name ("True") or its value."""
    values = [name.rpartition(EQUALS)[2] for name in names]
    for known in (list(names), values, [str(one) for one in classes]):
        if known.count(str(given)) > 1:
            raise SettingError(f"{option}: '{given}' could be any of {listed(names)}; write the whole label.")
        if str(given) in known:
            return known.index(str(given))
    raise SettingError(f"{option}: there is no label '{given}'. {nearest(given, values, 'The labels are')}")

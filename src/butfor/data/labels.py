"""Labels by name, value and number."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from butfor.errors import SettingError, listed, nearest

MOST_CLASSES = 50
"""Values that a label may have."""
EQUALS = " = "


def label_names(classes: Iterable[Any], column: Any = None) -> tuple[str, ...]:
    """Names of labels: a text names itself, any other value follows its column ("approved = True")."""
    unnamed = column is None or column == ""
    return tuple(str(one) if unnamed or isinstance(one, str) else f"{column}{EQUALS}{one}" for one in classes)


def label_number(given: Any, names: Sequence[str], classes: Iterable[Any] = (), option: str = "adverse") -> int:
    """The number of a label given by its name ("approved = True"), the end of its name ("True") or its value."""
    values = [name.rpartition(EQUALS)[2] for name in names]
    for known in (list(names), values, [str(one) for one in classes]):
        if known.count(str(given)) > 1:
            raise SettingError(f"{option}: '{given}' could be any of {listed(names)}; write the whole label.")
        if str(given) in known:
            return known.index(str(given))
    raise SettingError(f"{option}: there is no label '{given}'. {nearest(given, values, 'The labels are')}")

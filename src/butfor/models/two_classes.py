"""The two label values of a classifier of ours."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from butfor.support.errors import TableError, listed
from butfor.table.labels import label_values


def two_classes(y: NDArray[Any]) -> NDArray[Any]:
    """The two label values in sorted order."""
    values = label_values(y)
    if len(values) > 2:
        raise TableError(
            f"Only binary classification is supported: the labels have {len(values)} values "
            f"({listed(values)}). Group them into two."
        )
    return values

"""What the columns of a table are for, and what is known about it besides its cells.

Reading a file makes `Roles`, and so does a table that is handed over in Python. Between
`butfor.load_dataset` and `LabelAudit.fit` the rows are in the user's hands: there, and nowhere
else, pandas' `attrs` carry what a user would not repeat. `told` writes them and `of_user` reads
them; pandas keeps `attrs` through some operations and loses them in others, so no other code
depends on them.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

ORIGIN = "origin"
DATES = "dates"
LABEL_NAMES = "label_names"


@dataclass(frozen=True)
class Roles:
    """The columns of a table by what they are for; None where there is no such column, because
    nothing of the kind is known or its values stand beside the table."""

    inputs: tuple[Hashable, ...] = ()
    """The columns that are learned from."""
    protected: tuple[Hashable, ...] = ()
    """The protected columns, which may be among the inputs."""
    label: Hashable | None = None
    identifier: Hashable | None = None
    cluster: Hashable | None = None
    weight: Hashable | None = None
    dates: tuple[Hashable, ...] = ()
    """Columns of dates, which hold days since 1970-01-01."""
    origin: Mapping[str, Any] = field(default_factory=lambda: {"table": None})
    """Where the table came from: the fields of `Data` in a record that say how to read it again."""
    label_names: tuple[str, ...] = ()
    """The names of the labels in sorted order of the labels; empty if they have none."""

    @property
    def read_from(self) -> tuple[Hashable, ...]:
        """The inputs and the protected columns, each once."""
        return tuple(dict.fromkeys([*self.inputs, *self.protected]))

    @classmethod
    def of_user(cls, X: Any, y: Any) -> Roles:
        """What a table and labels that a user hands over tell by their `attrs`."""
        of_rows = X.attrs if isinstance(X, pd.DataFrame) else {}
        of_labels = y.attrs if isinstance(y, (pd.DataFrame, pd.Series)) else {}
        return cls(
            dates=tuple(of_rows.get(DATES, ())),
            origin=dict(of_rows.get(ORIGIN) or {"table": None}),
            label_names=tuple(of_labels.get(LABEL_NAMES, ())),
        )

    def told(self, X: pd.DataFrame, y: pd.Series) -> tuple[pd.DataFrame, pd.Series]:
        """Copies of rows and labels for the user, whose `attrs` tell these roles."""
        rows = X.copy()
        labels = y.copy()
        rows.attrs = {ORIGIN: dict(self.origin), DATES: self.dates}
        labels.attrs = {LABEL_NAMES: self.label_names}
        return rows, labels

"""A table as numbers, encoded once for all trainings: an encoder looks at no label, so all flip sets share it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import clone

from butfor.encode import TableEncoder
from butfor.seam import Table


class EncodedTable:
    """The training rows as numbers, and the encoder, fitted on them alone, for people."""

    def __init__(self, encoder: TableEncoder, table: Table) -> None:
        self.table = table
        self.encoder: TableEncoder = clone(encoder).fit(table.X)
        self.X: NDArray[Any] = self.encoder.transform(table.X)
        self._last: tuple[pd.DataFrame, NDArray[Any]] | None = None

    def people(self, people: pd.DataFrame) -> NDArray[np.float32]:
        """People as numbers; those asked about last are remembered."""
        if people is self.table.X:
            return self.X
        if self._last is None or self._last[0] is not people:
            self._last = people, self.encoder.transform(people)
        return self._last[1]

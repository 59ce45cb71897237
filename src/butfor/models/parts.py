"""Partition ensembles: copies of a classifier that learned one part of the rows each, and vote."""

from __future__ import annotations

from typing import Any

import pandas as pd

from butfor.models.estimator import EstimatorModel
from butfor.models.partition import PartitionEnsemble


class PartsModel(EstimatorModel):
    """A fitted `PartitionEnsemble`."""

    def part_votes(
        self, rows: pd.DataFrame, people: pd.DataFrame
    ) -> tuple[PartitionEnsemble, Any, Any]:
        """The ensemble, and both tables as it sees them."""
        return self.estimator, self.step_inputs(rows), self.step_inputs(people)

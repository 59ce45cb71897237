"""Rows that decide when a learner stops training: given, or set aside."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from butfor.models.seam import Learner
from butfor.support.errors import SettingError
from butfor.table.groups import Sensitive
from butfor.table.handed_over import labelled, like_training, numbered
from butfor.table.roles import Roles
from butfor.table.table import SetAside, Table


def training_table(
    learner: Learner,
    X: pd.DataFrame,
    y: pd.Series,
    validation: tuple[Any, Any] | None,
    weight: NDArray[np.float64] | None,
    cluster: NDArray[np.object_] | None,
    sensitive: Sensitive,
    roles: Roles,
    note: Callable[[str], None],
) -> tuple[Table, NDArray[np.int64]]:
    """The training table, and the positions of its rows in X."""
    table = Table(X, y, weight=weight, cluster=cluster)
    if learner.split is None:
        if validation is not None:
            raise SettingError(
                f"{learner.name} takes no validation rows: leave validation out, or add them to X."
            )
        return table, np.arange(len(X))
    if weight is not None:
        note(f"{learner.name} takes no weights: they serve the comparison of groups alone.")
    if validation is None:
        table = set_rows_aside(learner, table)
        return table, table.as_handed_over.kept
    X_val, y_val, _ = labelled(*validation, note=note, what="validation labels")
    numbered(table, y_val, "the validation rows")
    X_val = like_training(X_val, X, sensitive, roles)
    return replace(table, validation=(X_val, y_val)), np.arange(len(X))


def set_rows_aside(learner: Learner, table: Table) -> Table:
    """The table with a share of its rows set aside for validation."""
    if learner.split is None:
        raise SettingError(f"{learner.name} takes no validation rows.")
    kept, aside = learner.split(table.codes)
    return Table(
        table.X.iloc[kept],
        table.y.iloc[kept],
        validation=(table.X.iloc[aside], table.y.iloc[aside]),
        weight=None if table.weight is None else table.weight[kept],
        whole=SetAside(table.X, table.y, kept, aside, table.weight, table.cluster),
        cluster=None if table.cluster is None else table.cluster[kept],
    )

"""The audit that a record names, made once more: its table, its learner and its rules, the model trained again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from butfor.audit import LabelAudit
from butfor.data import Dataset
from butfor.learn.learners import given_learner, learner_of
from butfor.learn.protocols import Table
from butfor.progress import Watcher
from butfor.run.reload import as_recorded


def rebuilt(
    run: Mapping[str, Any],
    training: Table,
    data: Dataset | None,
    model: Any = None,
    *,
    watch: Watcher | None = None,
    **settings: Any,
) -> LabelAudit:
    """The audit of a run on the training rows. `model` stands in for one that the record cannot bring back; rules that
    it cannot bring back let everything through."""
    with as_recorded("run.learner cannot be made again"):
        learner = learner_of(run["learner"]) if model is None else given_learner(model, run["learner"])
    known, lost = not without_groups(run, data), {line.split(":")[0] for line in run.get("not_rebuildable", [])}
    kept = [name for name in ("phi", "psi") if known and name not in lost]
    rules: dict[str, Any] = {"phi": "everyone", "psi": "everything"} | {name: run[name] for name in kept}
    audit = LabelAudit(learner.single, members=len(learner.seeds), budget=run["budget"], **rules, **settings)
    X, y = training.whole[:2] if training.whole else (training.X, training.y)
    columns = [c for c in X.columns if str(c) in map(str, run.get("sensitive_columns", []))]
    beside: Any = columns if columns or data is None or data.groups is None else data.groups["train"]
    if isinstance(beside, pd.DataFrame) and len(beside) > len(X):  # corrected rows, without those set aside
        beside = beside.loc[X.index]
    with as_recorded("run.learner cannot be trained again"):
        return audit.fit(
            X,
            y,
            sensitive_features=beside if known else np.zeros(len(X)),
            sensitive_bands=run.get("sensitive_bands") or None,
            sample_weight=training.weight,
            validation=None if training.whole else training.validation,
            adverse=run.get("adverse") if known else None,
            label_names=[str(name) for name in run["label_names"]],
            watch=watch,
        )


def without_groups(run: Mapping[str, Any], data: Dataset | None) -> bool:
    """Whether the protected attribute cannot be brought back: it stood beside the table."""
    return not run.get("sensitive_columns") and (data is None or data.groups is None)


def audit_of(
    run: Mapping[str, Any], training: Table, data: Dataset | None, model: Any = None, watch: Watcher | None = None
) -> LabelAudit:
    """The audit of a run as it was made; what a review answered and corrected is known to it."""
    settings = {"fresh_seeds": run["fresh_seeds"], "random_state": run.get("random_state", 0)}
    audit = rebuilt(run, training, data, model, watch=watch, **settings)
    reviewed = run.get("reviewed") or {}
    audit.answered_ = frozenset(reviewed.get("answered", ()))
    audit.corrected_ = tuple(reviewed.get("corrected", ()))
    return audit

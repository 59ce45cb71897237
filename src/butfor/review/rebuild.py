"""From a record back to its training rows, and to an audit whose model is trained again."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd

from butfor.data import Dataset
from butfor.data.table import load_table
from butfor.decide import USUAL
from butfor.errors import ReplayError, as_recorded, listed
from butfor.fit import Fitted, fit
from butfor.models.ensemble import member_seeds, single_learner
from butfor.models.learner import Table, set_rows_aside
from butfor.models.learners import learner_for_replay, learner_of
from butfor.progress import Progress
from butfor.provenance import data_hash
from butfor.result.run import Run

GROUPS = "groups"
"""What a record lacks if the protected attribute stood beside the table."""


def load_rows(run: Run) -> tuple[Table, Dataset]:
    """The training rows, and the whole data set."""
    if run.data.table is None:
        raise ReplayError(
            f"The record names no file or embedded data set, because {run.data.source}: give a file with the same rows "
            "('butfor replay --data'), or replay the Verdict that explain returned, or butfor.replay(record, audit=…)."
        )
    if beside := {"sample_weight", "cluster"} & run.lost:
        raise ReplayError(
            f"The record does not include {listed(sorted(beside))}; replay the Verdict that explain returned."
        )
    with as_recorded("run.data cannot be loaded"):
        data = load_table(run.data.table, **run.data.loading)
    weight = None if data.weight is None else data.weight["train"].to_numpy()
    cluster = None if data.cluster is None else data.cluster["train"].to_numpy()
    training = Table(data.X_train, data.y_train, weight=weight, cluster=cluster)
    with as_recorded("run.learner cannot be made again"):
        if run.data.set_aside:
            training = set_rows_aside(single_learner(learner_of(run.learner)), training)
        elif run.data.validated:
            training = replace(training, validation=(data.X_val, data.y_val))
    if data_hash(training) != run.data.sha256:
        raise ReplayError(f"'{run.data.table}' is not the table of the record: its training rows are different.")
    if run.reviewed is not None:
        with as_recorded("Invalid record: run.reviewed.corrected does not fit the table"):
            labels = [run.label_names.index(name) for name in run.reviewed.corrected_to]
            training = training.with_labels(run.reviewed.corrected, labels or None)
    return training, data


def with_moved_files(run: Run, **files: str | None) -> Run:
    """The run with other paths for its files (`data`, `test`, `validation`); their rows must be the same."""
    moved: dict[str, Any] = {}
    for name, file in files.items():
        if file is not None:
            if run.data.label is None or (name != "data" and getattr(run.data, name) is None):
                raise ReplayError(f"The record names no such file; leave out --{name} {file}.")
            moved["table" if name == "data" else name] = file
    return replace(run, data=replace(run.data, **moved))


def protected(run: Run, X: pd.DataFrame, data: Dataset | None) -> Any:
    """The protected columns of X or, if they stand beside it, their values; None if a record does not include them."""
    names = set(map(str, run.sensitive_columns))
    columns = [column for column in X.columns if str(column) in names]
    if columns or data is None or data.groups is None:
        return columns or None
    groups = data.groups["train"]
    return groups if len(groups) == len(X) else groups.loc[X.index]  # without those set aside


def lost_of(run: Run, data: Dataset | None) -> set[str]:
    """What the record cannot restore: as it says itself, and groups that stood beside the table."""
    unknown = not run.sensitive_columns and (data is None or data.groups is None)
    return run.lost | ({GROUPS} if unknown else set())


def fitted_again(
    run: Run,
    training: Table,
    data: Dataset | None,
    model: Any = None,
    *,
    progress: Progress | None = None,
    **settings: Any,
) -> Fitted:
    """The audit of a run on the training rows, with the labels that a review corrected. `model` replaces one that the
    record cannot restore; rules that it cannot restore allow everything."""
    with as_recorded("run.learner cannot be made again"):
        learner = learner_of(run.learner) if model is None else learner_for_replay(model, run.learner, run.random_state)
    lost = lost_of(run, data)
    params: dict[str, Any] = {
        "model": single_learner(learner),
        "members": len(member_seeds(learner)),
        "threshold": USUAL if run.threshold is None or run.threshold.given is None else run.threshold.given,
        "budget": run.budget,
        "phi": "everyone" if {"phi", GROUPS} & lost else run.phi,
        "psi": "everything" if {"psi", GROUPS} & lost else run.psi,
        "fresh_seeds": run.fresh_seeds,
        "random_state": run.random_state,
        "engine": "auto",
        "n_jobs": -1,
        **dict.fromkeys(("encoder", "rank", "strategy", "ledger")),
    }
    X, y, weight, cluster = training.X, training.y, training.weight, training.cluster
    if training.whole:
        X, y, _, _, weight, cluster = training.whole
    # The other rows took part in the comparison of groups if so many rows did, and compete for places.
    labelled = data is not None and run.data.labelled == training.n + len(data.X_val) + len(data.X_test)
    pool = training.decision.pool
    if run.threshold is not None and data is not None and not training.decision.has_cut:
        pool = data.X_test
    with as_recorded("run.learner cannot be trained again"):
        fitted = fit(
            SimpleNamespace(**params | settings),
            X,
            y,
            sensitive_features=np.zeros(len(X)) if GROUPS in lost else protected(run, X, data),
            sensitive_bands=run.sensitive_bands or None,
            sample_weight=weight,
            cluster=cluster,
            validation=None if training.whole else training.validation,
            adverse=run.adverse or None,
            reference=None if GROUPS in lost else run.reference,
            also_labelled=data.not_trained_on if data is not None and labelled and GROUPS not in lost else (),
            pool=pool,
            label_names=run.label_names,
            progress=progress or Progress(),
        )
    if run.reviewed is None:
        return fitted
    return replace(fitted, answered=frozenset(run.reviewed.answered), corrected=run.reviewed.corrected)

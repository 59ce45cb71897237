"""Rebuilds from a record: its table, its people, the audit with its model trained again, and the rows to review."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd

from butfor.columns import DATES
from butfor.data import Dataset
from butfor.data.dates import days_in
from butfor.data.read import read_file
from butfor.data.sensitive import Sensitive
from butfor.data.table import load_table
from butfor.decide import USUAL
from butfor.errors import ButforError, ReplayError, SettingError, as_recorded
from butfor.fit import Fitted, fit
from butfor.models.ensemble import member_seeds, single_learner
from butfor.models.learner import Table, set_rows_aside
from butfor.models.learners import learner_for_replay, learner_of
from butfor.progress import Progress
from butfor.provenance import data_hash
from butfor.result.population import Population
from butfor.result.record import brief, checksum
from butfor.result.run import Run
from butfor.result.verdict import Verdict
from butfor.review.tasks import Review, ReviewRows, files_in, make_review

# --- the table ----------------------------------------------------------------------------------------


def load_rows(run: Run) -> tuple[Table, Dataset]:
    """The training rows, and the whole data set."""
    if run.data.table is None:
        raise ReplayError(
            f"The record names no file or embedded data set, because {run.data.source}: give a file with the same rows "
            "('butfor replay --data'), or replay it from the Verdict that explain returned."
        )
    try:
        with as_recorded("run.data cannot be loaded"):
            data = load_table(run.data.table, **run.data.loading)
    except ButforError as error:
        raise ReplayError(f"The record's data cannot be loaded: {error}") from error
    for given, known, column in (
        ("sample_weight", run.data.weighted, run.data.weight),
        ("cluster", run.data.clustered, run.data.cluster),
    ):
        if known and column is None:
            raise ReplayError(
                f"The record was made with {given}, which it does not include; replay it from the Verdict."
            )
    weight = None if data.weight is None else data.weight["train"].to_numpy()
    cluster = None if data.cluster is None else data.cluster["train"].to_numpy()
    training = Table(data.X_train, data.y_train, weight=weight, cluster=cluster)
    if run.data.set_aside:
        with as_recorded("run.learner cannot be made again"):
            training = set_rows_aside(single_learner(learner_of(run.learner)), training)
    elif run.data.validated:
        training = replace(training, validation=(data.X_val, data.y_val))
    if data_hash(training) != run.data.sha256:
        raise ReplayError(f"'{run.data.table}' is not the table of the record: its training rows are different.")
    if run.reviewed:
        training = training.with_labels(run.reviewed.corrected, _corrected_to(run, training.n))
    return training, data


def _corrected_to(run: Run, rows: int) -> list[int] | None:
    """The corrected labels by number; None if there are two labels, so that each became the other."""
    assert run.reviewed is not None
    corrected, names = run.reviewed.corrected, run.reviewed.corrected_to
    for place, positions in (("corrected", corrected), ("answered", run.reviewed.answered)):
        if len(set(positions)) < len(positions) or not all(0 <= at < rows for at in positions):
            raise ReplayError(
                f"Invalid record: run.reviewed.{place} names rows twice, or rows that the table does not have."
            )
    if names and (len(names) != len(corrected) or not set(names) <= set(run.label_names)):
        raise ReplayError("Invalid record: run.reviewed.corrected_to must be a label for each corrected row.")
    return [run.label_names.index(name) for name in names] or None


def with_moved_files(run: Run, **files: str | None) -> Run:
    """The run with other paths for its files (`data`, `test`, `validation`); their rows must be the same."""
    moved, data = {name: file for name, file in files.items() if file is not None}, run.data
    for name, file in moved.items():
        if data.label is None:
            what = f"of the embedded set '{data.table}'" if data.table else "of a table given in Python"
            raise ReplayError(f"--{name} {file}: the record is {what}, not of a file; leave out --{name}.")
        if name != "data" and getattr(data, name) is None:
            raise ReplayError(f"--{name} {file}: the record names no {name} file; leave out --{name}.")
    there: dict[str, Any] = {"table" if name == "data" else name: file for name, file in moved.items()}
    return replace(run, data=replace(data, **there))


def recorded_person(verdict: Verdict, table: pd.DataFrame) -> pd.DataFrame:
    """The recorded person as a table of one row with the types of the training columns."""
    columns = {}
    for c in table.columns:
        if str(c) not in verdict.values:
            raise ReplayError(f"The record of {verdict.who} lacks column '{c}'.")
        value = verdict.values[str(c)]
        if c in table.attrs.get(DATES, ()) and isinstance(value, str):
            value = days_in(pd.Series([value], name=c))[0]
        given = pd.Series([_as_in_training(value, table[c])], index=[verdict.row])
        try:
            columns[c] = given.astype(table[c].dtype)
        except (ValueError, TypeError, OverflowError):
            if value is not None:
                raise ReplayError(
                    f"Invalid record: values.{c} is {brief(value)}, but the table's column holds {table[c].dtype}."
                ) from None
            columns[c] = given
    return pd.DataFrame(columns, columns=table.columns)


def _as_in_training(value: Any, column: pd.Series) -> Any:
    """A recorded value with the type of its column."""
    if value is None:
        return np.nan
    if isinstance(column.dtype, pd.CategoricalDtype):
        return {str(category): category for category in column.cat.categories}.get(str(value), value)
    if column.dtype == object and isinstance(value, str) and not (column == value).any():
        return {str(each): each for each in column.dropna() if not isinstance(each, str)}.get(value, value)
    return value


# --- the audit ----------------------------------------------------------------------------------------


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
        recorded, seed = run.learner, run.random_state
        learner = learner_of(recorded) if model is None else learner_for_replay(model, recorded, seed)
    known = not without_groups(run, data)
    phi, psi = (known and name not in run.lost for name in ("phi", "psi"))
    rules: dict[str, Any] = {"phi": run.phi if phi else "everyone", "psi": run.psi if psi else "everything"}
    members = len(member_seeds(learner))
    threshold = USUAL if run.threshold is None or run.threshold.given is None else run.threshold.given
    usual = {"fresh_seeds": 59, "engine": "auto", "n_jobs": -1, "ledger": None, "random_state": 0}
    search = {"encoder": None, "rank": None, "strategy": None, "budget": run.budget}
    asked = SimpleNamespace(
        model=single_learner(learner), members=members, threshold=threshold, **search, **rules, **usual | settings
    )
    given = (training.X, training.y, None, None, training.weight, training.cluster)
    X, y, _, _, weight, cluster = training.whole or given
    with as_recorded("run.learner cannot be trained again"):
        fitted = fit(
            asked,
            X,
            y,
            sensitive_features=_protected(run, X, data) if known else np.zeros(len(X)),
            sensitive_bands=run.sensitive_bands or None,
            sample_weight=weight,
            cluster=cluster,
            validation=None if training.whole else training.validation,
            adverse=run.adverse or None,
            reference=run.reference if known else None,
            also_labelled=_also_labelled(run, training, data) if known else (),
            pool=_pool(run, training, data),
            label_names=run.label_names,
            progress=progress,
        )
    if run.reviewed is None:
        return fitted
    return replace(fitted, answered=frozenset(run.reviewed.answered), corrected=run.reviewed.corrected)


def _also_labelled(run: Run, training: Table, data: Dataset | None) -> tuple[Any, ...]:
    """The rows of the data set that were not trained on, if they took part in the comparison of groups."""
    if data is None or run.data.labelled != training.n + len(data.X_val) + len(data.X_test):
        return ()
    return data.not_trained_on


def _pool(run: Run, training: Table, data: Dataset | None) -> pd.DataFrame | None:
    """The people who compete for places: those of the table's cut, or the test rows."""
    if run.threshold is None or training.decision.has_cut:
        return training.decision.pool
    if data is None and run.threshold.share is not None:
        raise ReplayError(
            f"The record's threshold is the {run.threshold.given} of {run.threshold.pool} people, whom it does not "
            "include: replay it from the Verdict that explain returned, or with the audit itself."
        )
    return None if data is None else data.X_test


def _protected(run: Run, X: pd.DataFrame, data: Dataset | None) -> Any:
    """The protected columns of X or, if they stand beside it, their values."""
    named = set(map(str, run.sensitive_columns))
    columns = [column for column in X.columns if str(column) in named]
    if columns or data is None or data.groups is None:
        return columns
    groups = data.groups["train"]
    return groups if len(groups) == len(X) else groups.loc[X.index]  # without those set aside


def without_groups(run: Run, data: Dataset | None) -> bool:
    """Whether the protected attribute cannot be restored, since it stood beside the table."""
    return not run.sensitive_columns and (data is None or data.groups is None)


# --- the rows to review -------------------------------------------------------------------------------


def review_of(population: Population, *, file_column: str | None = None, **choice: Any) -> Review:
    """The tasks of an audit, or of a corrected table, from its record."""
    if not population.labels:
        raise SettingError(
            "The record names no label to review: it is about one person, the audit was stopped, or the groups cannot "
            "be compared. Audit more people, or name a protected attribute with larger groups."
        )
    rows = rows_of(population.run, checksum(population.to_dict()), file_column)
    return make_review(population.labels, population.standards, rows, population.flip_counts, **choice)


def rows_of(run: Run, audit: str = "", file_column: str | None = None) -> ReviewRows:
    """The training rows of a run and their groups. `audit`: the record's checksum."""
    table, data = load_rows(run)
    with as_recorded("The record's run block does not give its training rows"):
        X, _, kept, *_ = table.whole or (table.X, table.y, np.arange(table.n))
        sensitive = Sensitive.of(_protected(run, X, data), X, run.sensitive_bands or None)
    files = None
    if file_column is not None:
        whole = table.X.rename_axis(run.data.identifier)
        if file_column not in (*whole.columns, run.data.identifier) and run.data.label is not None:
            whole = read_file(str(run.data.table))  # the column was not learned from
            whole = whole if run.data.identifier is None else whole.set_index(run.data.identifier)
        files = files_in(whole, file_column).loc[table.X.index]
    answered = run.reviewed.answered if run.reviewed else ()
    sensitive = replace(sensitive, values=sensitive.values[kept])
    return ReviewRows(table, sensitive, run.label_names, run.adverse, audit, answered, files)

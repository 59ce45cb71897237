"""The data that a record names, loaded again: the training rows, the protected attribute beside them, the person."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from butfor.data import Dataset
from butfor.data.table import load_table
from butfor.errors import ButforError, ReplayError
from butfor.learn.learners import learner_of
from butfor.learn.protocols import Table
from butfor.provenance import data_hash, given_how
from butfor.result.record import brief
from butfor.result.verdict import Verdict

FIGURES = ("sha256", "training_rows", "set_aside", "validated", "weighted")
"""What a record says of its data beyond where it came from."""


def loaded(run: Mapping[str, Any]) -> tuple[Table, pd.DataFrame | None, Dataset]:
    """The training rows, the protected attribute beside them, and the whole data set."""
    origin = {name: value for name, value in run["data"].items() if name not in FIGURES}
    table, given = origin.pop("table"), given_how(origin)
    origin.pop("given", None)  # how it came then; by now there is a file
    if table is None:
        raise ReplayError(
            f"The record does not name a file or an embedded data set, because {given}: give a file of the same rows "
            "('butfor replay --data'), or replay it from the Verdict that explain returned."
        )
    unknown = sorted(set(origin) - set(inspect.signature(load_table).parameters))
    if unknown:
        raise ReplayError(f"The record is bent: run.data.{unknown[0]} is nothing that this version of butfor knows.")
    try:
        data = load_table(table, **origin)
    except ButforError as error:
        raise ReplayError(f"The record's data cannot be loaded: {error}") from error
    if run["data"].get("weighted"):
        raise ReplayError(
            "The record was made with sample_weight, which it does not carry; replay it from the Verdict."
        )
    training = Table(data.X_train, data.y_train)
    if run["data"].get("set_aside"):
        with as_recorded("run.learner cannot be made again"):
            training = learner_of(run["learner"]).single.set_aside(training)
    elif run["data"].get("validated", True):
        training = replace(training, validation=(data.X_val, data.y_val))
    kept = training.whole[2] if training.whole else None
    if data_hash(training) != run["data"]["sha256"]:
        raise ReplayError(f"'{table}' is not the table of the record: its training rows have changed since.")
    reviewed = run.get("reviewed")
    if reviewed:
        names = [str(name) for name in run["label_names"]]
        labels = [names.index(label) for label in reviewed.get("corrected_to", ())]
        training = training.corrected(reviewed["corrected"], labels or None)
    groups = data.groups["train"] if data.groups else None
    if groups is not None and kept is not None:
        groups = groups.iloc[kept]
    return training, groups, data


def elsewhere(run: Mapping[str, Any], **files: str | None) -> dict[str, Any]:
    """The run of an audit whose files (`data`, `test`, `validation`) lie somewhere else by now; that they are the same
    their rows must show."""
    moved, data = {name: file for name, file in files.items() if file is not None}, run["data"]
    for name, file in moved.items():
        if "label" not in data:
            what = f"of the embedded set '{data['table']}'" if data["table"] else "of a table given in Python"
            raise ReplayError(f"--{name} {file}: the record is {what}, not of a file; leave --{name} out.")
        if name != "data" and data.get(name) is None:
            raise ReplayError(f"--{name} {file}: the record names no {name} file; leave --{name} out.")
    there = {"table" if name == "data" else name: file for name, file in moved.items()}
    return {**run, "data": data | there}


def recorded_person(verdict: Verdict, table: pd.DataFrame) -> pd.DataFrame:
    """The recorded person as a one-row table with the training columns' types."""
    missing = [c for c in table.columns if str(c) not in verdict.values]
    if missing:
        raise ReplayError(f"The record of {verdict.who} lacks column '{missing[0]}'.")
    columns = {}
    for c in table.columns:
        value = verdict.values[str(c)]
        given = pd.Series([_as_in_training(value, table[c])], index=[verdict.row])
        try:
            columns[c] = given.astype(table[c].dtype)
        except (ValueError, TypeError, OverflowError):
            if value is not None:
                raise ReplayError(
                    f"The record is bent: values.{c} is {brief(value)}, but the table's column holds {table[c].dtype}."
                ) from None
            columns[c] = given
    return pd.DataFrame(columns, columns=table.columns)


def _as_in_training(value: Any, column: pd.Series) -> Any:
    """A recorded value as the column has it: missing ones, and what JSON knows by its text alone."""
    if value is None:
        return np.nan
    if isinstance(column.dtype, pd.CategoricalDtype):
        return {str(category): category for category in column.cat.categories}.get(str(value), value)
    if column.dtype == object and isinstance(value, str):
        known = column.dropna()
        foreign = {str(each): each for each in known if not isinstance(each, str)}
        return value if (known == value).any() else foreign.get(value, value)
    return value


@contextmanager
def as_recorded(what: str) -> Iterator[None]:
    """Whatever goes wrong with a learner that a file describes is the file's fault: a sentence that says where."""
    try:
        yield
    except ButforError:
        raise
    except KeyError as error:
        raise ReplayError(f"{what}: it lacks {error}.") from error
    except Exception as error:
        reason = str(error).strip().splitlines()[0][:200] if str(error).strip() else type(error).__name__
        raise ReplayError(f"{what} ({type(error).__name__}: {reason}).") from error

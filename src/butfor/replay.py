"""Run a recorded verdict again: load the data it names, train with the reference, compare."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from butfor.encode import TableEncoder
from butfor.errors import ButforError, ReplayError
from butfor.learn.recipe import Floats, Recipe, Rows
from butfor.learn.reference import train
from butfor.provenance import data_hash
from butfor.verdict import Training, check_schema, signed


@dataclass(frozen=True)
class Replay:
    """What came out of running a record again. `agrees`: the same predictions, before and after."""

    case: int | None
    agrees: bool
    sentence: str
    logit: float
    counterfactual_logit: float | None

    def __repr__(self) -> str:
        return self.sentence

    def __bool__(self) -> bool:
        return self.agrees


def replay(record: dict[str, Any], training: Training | None = None) -> Replay:
    """Retrain from a verdict's record. `training` stands in for data that the record cannot name."""
    check_schema(record)
    return _Stage(record["run"], training).check(record)


def replay_all(records: Sequence[dict[str, Any]]) -> Iterator[Replay]:
    """Replay many records; those of one run share its data and its first training."""
    stages: dict[str, _Stage] = {}
    for record in records:
        check_schema(record)
        run = record["run"]
        key = json.dumps([run["data"], run["encoder"], run["learner"]], sort_keys=True)
        if key not in stages:
            stages[key] = _Stage(run)
        yield stages[key].check(record)


class _Stage:
    """The data, the encoder and the trained f of one run."""

    def __init__(self, run: dict[str, Any], training: Training | None = None) -> None:
        training = training or training_of(run)
        self.table = training.X
        self.encoder = encoder_of(run).fit(training.X)
        y, y_val = (_zero_one(labels) for labels in (training.y, training.validation[1]))
        X, X_val = (self.encoder.transform(table) for table in (training.X, training.validation[0]))
        self.rows = Rows(X, y, X_val, y_val)
        self.recipe = Recipe.from_dict(run["learner"])
        self.network = train(self.recipe, self.rows)
        self.label_names: list[str] = run["label_names"]

    def check(self, record: dict[str, Any]) -> Replay:
        person = self.encoder.transform(_person(record, self.table))
        before = float(self.network.logits(person)[0])
        positions = [flip["position"] for flip in record["flips"]]
        after = None
        if record["status"] == "found":
            after = float(train(self.recipe, self.rows, positions).logits(person)[0])
        agrees = (self._name(before), self._name(after)) == (
            record["prediction"], record["counterfactual_prediction"],
        )  # fmt: skip
        course = f"'{self._name(before)}' at logit {signed(before)}"
        if after is not None:
            plural = "s" * (len(positions) != 1)
            course += f" → '{self._name(after)}' at {signed(after)} with {len(positions)} label{plural} flipped"
        who = f"row {record['row']}" if record["case"] is None else f"person {record['case']}"
        word = "agree" if agrees else "DISAGREE"
        return Replay(record["case"], agrees, f"{who}: {word} ({course})", before, after)

    def _name(self, logit: float | None) -> str | None:
        return None if logit is None else self.label_names[int(logit > 0)]


def training_of(run: dict[str, Any]) -> Training:
    """The training rows a run block names, checked against its hash."""
    from butfor.tables import load_table

    origin = dict(run["data"])
    expected, _ = origin.pop("sha256"), origin.pop("training_rows")
    table = origin.pop("table")
    if table is None:
        raise ReplayError(
            "The record does not name a file or an embedded data set, because the table was given in Python: "
            "replay it from the Verdict that explain returned, or audit the table from a file."
        )
    try:
        data = load_table(table, **origin)
    except ButforError as error:
        raise ReplayError(f"The record's data cannot be loaded: {error}") from error
    training = Training(data.X_train, data.y_train, (data.X_val, data.y_val))
    if data_hash(training) != expected:
        raise ReplayError(f"'{table}' is not the table of the record: its training rows have changed since.")
    return training


def encoder_of(run: dict[str, Any]) -> TableEncoder:
    return TableEncoder(**run["encoder"])


def _person(record: dict[str, Any], table: pd.DataFrame) -> pd.DataFrame:
    """The recorded person as a one-row table with the training columns' types."""
    missing = [c for c in table.columns if str(c) not in record["person"]]
    if missing:
        raise ReplayError(f"The record of person {record['case']} lacks column '{missing[0]}'.")
    values = {c: [record["person"][str(c)]] for c in table.columns}
    return pd.DataFrame(values, index=[record["row"]])


def _zero_one(labels: pd.Series) -> Floats:
    """Labels as 0/1 floats, the larger of the two values being 1."""
    return (labels.to_numpy() == np.unique(labels.to_numpy())[-1]).astype(np.float32)

"""Run a recorded verdict again: load the data it names, train with the reference, compare."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pandas as pd

from butfor.errors import ButforError, ReplayError
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
    from butfor.learn.recipe import Recipe, Rows
    from butfor.learn.reference import train

    check_schema(record)
    run = record["run"]
    training = training or training_of(run)
    encoder = encoder_of(run).fit(training.X)
    person = encoder.transform(_person(record, training.X))
    y, y_val = (_zero_one(labels) for labels in (training.y, training.validation[1]))
    rows = Rows(encoder.transform(training.X), y, encoder.transform(training.validation[0]), y_val)
    recipe = Recipe.from_dict(run["learner"])
    before = float(train(recipe, rows).logits(person)[0])
    names = run["label_names"]
    positions = [flip["position"] for flip in record["flips"]]
    after = float(train(recipe, rows, positions).logits(person)[0]) if record["status"] == "found" else None

    def named(logit: float | None) -> str | None:
        return None if logit is None else names[int(logit > 0)]

    agrees = named(before) == record["prediction"] and named(after) == record["counterfactual_prediction"]
    course = f"'{named(before)}' at logit {signed(before)}"
    if after is not None:
        course += f" → '{named(after)}' at {signed(after)} with {len(positions)} label(s) flipped"
    word = "agree" if agrees else "DISAGREE"
    who = f"row {record['row']}" if record["case"] is None else f"person {record['case']}"
    return Replay(record["case"], agrees, f"{who}: {word} ({course})", before, after)


def training_of(run: dict[str, Any]) -> Training:
    """The training rows a run block names, checked against its hash."""
    from butfor.audit import data_hash
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


def encoder_of(run: dict[str, Any]) -> Any:
    from butfor.encode import TableEncoder

    return TableEncoder(**run["encoder"])


def _person(record: dict[str, Any], table: pd.DataFrame) -> pd.DataFrame:
    """The recorded person as a one-row table with the training columns' types."""
    missing = [c for c in table.columns if str(c) not in record["person"]]
    if missing:
        raise ReplayError(f"The record of person {record['case']} lacks column '{missing[0]}'.")
    values = {c: [record["person"][str(c)]] for c in table.columns}
    return pd.DataFrame(values, index=[record["row"]])


def _zero_one(labels: pd.Series) -> Any:
    """Labels as 0/1 floats, the larger of the two values being 1."""
    import numpy as np

    return (labels.to_numpy() == np.unique(labels.to_numpy())[-1]).astype(np.float32)

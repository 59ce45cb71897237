"""Run a recorded verdict again: load the data it names, train with the learner's own fit, compare."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

import numpy as np
import pandas as pd

from butfor.data.table import load_table
from butfor.errors import ButforError, ReplayError
from butfor.learn.ensemble import members_of, together
from butfor.learn.joblib_engine import JoblibEngine
from butfor.learn.learners import given_learner, learner_of, set_aside
from butfor.prove import prove
from butfor.provenance import data_hash, given_how
from butfor.result.record import check_schema, learner_record, signed
from butfor.rules import as_psi, flippable
from butfor.seam import FlipSet, Learner, Table, Training
from butfor.situation import Sensitive, Situation


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


def replay(record: dict[str, Any], training: Table | None = None, model: Any = None) -> Replay:
    """Retrain from a verdict's record. `training` and `model` stand in for a table and a model that the record cannot
    bring back."""
    check_schema(record)
    return next(_Scene(record["run"], training, model).check([record]))


AT_ONCE = 8
"""Records whose trainings are spread over the cores together, before the next line is printed."""


def replay_all(records: Sequence[dict[str, Any]], model: Any = None) -> Iterator[Replay]:
    """Replay many records; those of one run share its data and its first training."""
    scenes: dict[str, _Scene] = {}
    for record in records:
        check_schema(record)
    keys = [json.dumps([r["run"]["data"], learner_record(r["run"])], sort_keys=True) for r in records]
    for key, same in groupby(zip(keys, records, strict=True), key=lambda pair: pair[0]):
        of_run = [record for _, record in same]
        if key not in scenes:
            scenes[key] = _Scene(of_run[0]["run"], None, model)
        for first in range(0, len(of_run), AT_ONCE):
            yield from scenes[key].check(of_run[first : first + AT_ONCE])


class _Scene:
    """The data, the learner and the trained f of one run."""

    def __init__(self, run: dict[str, Any], training: Table | None, model: Any) -> None:
        record = learner_record(run)
        self.learner: Learner = learner_of(record) if model is None else given_learner(model, record)
        self.run = run
        self.table, groups = (training, None) if training else training_and_groups(run)
        self.f = self.learner.fit(self.table, self.table.labels())
        self.sensitive = _sensitive(run, self.table, groups)
        self.label_names: list[str] = run["label_names"]

    def check(self, records: Sequence[dict[str, Any]]) -> Iterator[Replay]:
        """Retrain what was found in these records, side by side, and compare."""
        people = [_person(record, self.table.X) for record in records]
        found = [k for k, record in enumerate(records) if record["status"] == "found"]
        after = self._retrained([_positions(records[k]) for k in found], [people[k] for k in found])
        logits = dict(zip(found, after, strict=True))
        for k, (record, person) in enumerate(zip(records, people, strict=True)):
            yield self._compared(record, person, logits.get(k))

    def _retrained(self, flips: Sequence[FlipSet], people: Sequence[pd.DataFrame]) -> list[float]:
        """What the learner trained on each flip set, every member by its own `fit`, says about its person."""
        learner, seeds = members_of(self.learner)
        if not flips:
            return []
        ask = JoblibEngine().bind(learner, self.table, pd.concat(people))
        trainings = [Training(one, seed) for one in flips for seed in seeds]
        logits = ask(trainings).reshape(len(flips), len(seeds), -1)
        return [float(together(logits[k, :, k])) for k in range(len(flips))]

    def _compared(self, record: dict[str, Any], person: pd.DataFrame, after: float | None) -> Replay:
        before = float(self.f.logits(person)[0])
        positions = _positions(record)
        agrees = (self._name(before), self._name(after)) == (
            record["prediction"], record["counterfactual_prediction"],
        )  # fmt: skip
        course = f"'{self._name(before)}' at logit {signed(before)}"
        if after is not None:
            plural = "s" * (len(positions) != 1)
            course += f" → '{self._name(after)}' at {signed(after)} with {len(positions)} label{plural} flipped"
        proven = self._proven(record, person)
        if proven is not None:
            agrees = agrees and proven == record["at_least"]
            course += f"; proven: at least {proven} label{'s' * (proven != 1)}"
        who = f"row {record['row']}" if record["case"] is None else f"person {record['case']}"
        word = "agree" if agrees else "DISAGREE"
        return Replay(record["case"], agrees, f"{who}: {word} ({course})", before, after)

    def _proven(self, record: dict[str, Any], person: pd.DataFrame) -> int | None:
        """What is proven now about someone of whom the record says that something is; None where it cannot be checked:
        without a prover's proof, or where the record does not bring back ψ or the groups."""
        lost = [line.split(":")[0] for line in self.run.get("not_rebuildable", [])]
        if record.get("proof") is None or self.sensitive is None or "psi" in lost:
            return None
        groups = np.array([record["group"]], dtype=object)
        training = self.f.logits(self.table.X)
        names = (self.label_names[0], self.label_names[1])
        situation = Situation(self.f, self.table, person, self.sensitive, groups, names, training)
        brackets = prove(self.learner, situation, flippable(as_psi(self.run["psi"]), situation))
        return brackets[0].at_least if brackets else None

    def _name(self, logit: float | None) -> str | None:
        return None if logit is None else self.label_names[int(logit > 0)]


def _positions(record: dict[str, Any]) -> FlipSet:
    return tuple(flip["position"] for flip in record["flips"])


def training_of(run: dict[str, Any]) -> Table:
    """The training rows a run block names, checked against its hash."""
    return training_and_groups(run)[0]


def training_and_groups(run: dict[str, Any]) -> tuple[Table, pd.DataFrame | None]:
    """The same, and the protected attribute where it stands beside them."""
    origin = dict(run["data"])
    expected, table = origin.pop("sha256"), origin.pop("table")
    for figure in ("training_rows", "set_aside", "validated", "weighted"):
        origin.pop(figure, None)
    if table is None:
        raise ReplayError(
            f"The record does not name a file or an embedded data set, because {given_how(origin)}: replay it from the "
            "Verdict that explain returned, or audit the table from a file."
        )
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
        training = set_aside(training, members_of(learner_of(learner_record(run)))[0])[0]
    elif run["data"].get("validated", True):
        training = replace(training, validation=(data.X_val, data.y_val))
    if data_hash(training) != expected:
        raise ReplayError(f"'{table}' is not the table of the record: its training rows have changed since.")
    groups = data.groups["train"] if data.groups else None
    if groups is not None and training.whole is not None:
        groups = groups.iloc[training.whole[2]]
    return training, groups


def _sensitive(run: dict[str, Any], table: Table, groups: pd.DataFrame | None) -> Sensitive | None:
    """The protected attribute, as far as the record brings it back."""
    columns = [c for c in table.X.columns if str(c) in map(str, run.get("sensitive_columns", []))]
    if not columns and groups is None:
        return None
    return Sensitive.of(columns or groups, table.X, run.get("sensitive_bands") or None, automatic=False)


def _person(record: dict[str, Any], table: pd.DataFrame) -> pd.DataFrame:
    """The recorded person as a one-row table with the training columns' types."""
    missing = [c for c in table.columns if str(c) not in record["person"]]
    if missing:
        raise ReplayError(f"The record of person {record['case']} lacks column '{missing[0]}'.")
    values = {c: [_as_in_training(record["person"][str(c)], table[c])] for c in table.columns}
    person = pd.DataFrame(values, index=[record["row"]])
    try:
        return person.astype(table.dtypes)
    except (ValueError, TypeError):
        return person


def _as_in_training(value: Any, column: pd.Series) -> Any:
    """A recorded value as the column has it: missing ones, and categories that JSON knows by their text alone."""
    if value is None:
        return np.nan
    if isinstance(column.dtype, pd.CategoricalDtype):
        return {str(category): category for category in column.cat.categories}.get(str(value), value)
    return value

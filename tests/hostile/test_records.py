"""Records that somebody bent, altered or made up: one sentence that names the field, and no agreement."""

from __future__ import annotations

import copy
import datetime
import decimal
import json
import math
import os
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from butfor.cli import main
from butfor.errors import ReplayError
from butfor.result.population import Population
from butfor.result.record import opened, with_checksum
from butfor.result.run import Agreement, Data, Run
from butfor.result.verdict import Person, Record
from recorded import audited, run


def small_table(rows: int = 90) -> pd.DataFrame:
    rng = np.random.default_rng(3)
    income, age = rng.normal(50, 15, rows).round(1), rng.integers(18, 70, rows)
    sex, job = rng.choice(["f", "m"], rows), rng.choice(["clerk", "nurse", "none"], rows)
    score = 0.06 * (income - 50) + 0.4 * (sex == "m") + rng.normal(0, 0.7, rows)
    granted = np.where(score > 0, "yes", "no")
    return pd.DataFrame({"income": income, "age": age, "sex": sex, "job": job, "granted": granted})


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("records")
    small_table().to_csv(folder / "loans.csv", index=False)
    return folder


def record_of(folder: Path, *options: str) -> dict[str, Any]:
    """An audit's record, a find first."""
    table = (str(folder / "loans.csv"), "--label", "granted", "--sensitive", "sex", "--overwrite")
    record = json.loads(audited(folder / "out", *table, *options).read_text())
    record["people"].sort(key=lambda person: "flip_set" not in person)
    return with_checksum(record)


@pytest.fixture(scope="module")
def genuine(folder) -> dict[str, Any]:
    """A ridge classifier's: finds, proofs that there is none, and people who are not eligible."""
    record = record_of(folder, "--model", "ridge", "--budget", "2", "--phi", "predicted(no)", "--cases", "0:9")
    assert {v.status for v in Population.from_dict(record)} == {"found", "proven_none", "not_eligible"}
    return record


@pytest.fixture(scope="module")
def network(folder) -> dict[str, Any]:
    """A tiny network's: members, fresh seeds, side effects."""
    options = ("--set", "hidden=3", "--set", "epochs=4", "--members", "2", "--fresh-seeds", "4", "--budget", "6")
    record = record_of(folder, *options, "--cases", "0:6", "--engine", "joblib")
    assert any("fresh" in p and "collateral" in p for p in record["people"])
    return record


def at(record: Any, path: tuple[Any, ...]) -> Any:
    for step in path:
        record = record[step]
    return record


def changed(record: Any, path: tuple[Any, ...], value: Any) -> Any:
    """A copy of the record in which another value, or nothing, stands at the path."""
    record = copy.deepcopy(record)
    at(record, path[:-1])[path[-1]] = value
    if value == "ABSENT":
        del at(record, path[:-1])[path[-1]]
    return record


def outcome(capsys, command: str, record: dict[str, Any], folder: Path, *options: str) -> tuple[int, str, str]:
    path = folder / "audit.json"
    path.write_text(json.dumps(record), encoding="utf-8")
    code, out, err = run(capsys, command, path, *options)
    assert "Traceback" not in out + err
    return code, out, err


def refused(content: str | dict[str, Any], folder: Path, *named: str) -> None:
    """One sentence that names the field, also to a replay, which reads what was changed. All go through this door."""
    (folder / "audit.json").write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    with pytest.raises(ReplayError) as error:
        opened(folder / "audit.json", allow_changes=True).read(Record)
    said = str(error.value)
    assert [name for name in named if name not in said] == [], said
    assert len(said.splitlines()) == 1


def test_a_genuine_record_agrees(genuine, network, capsys, tmp_path):
    for record in (genuine, network):
        code, out, _ = outcome(capsys, "replay", record, tmp_path)
        assert code == 0, out
        assert "DISAGREE" not in out
        assert "checksum" in out
        assert outcome(capsys, "gate", record, tmp_path, "--max-switch", "100%")[0] == 0
    code, out, _ = outcome(capsys, "gate", network, tmp_path, "--max-close-calls", "100%")
    assert code == 4
    assert "4 fresh seeds are too few to tell close calls, 29 at least" in out
    code, out, _ = outcome(capsys, "replay", network, tmp_path, "--fresh-seeds")
    assert code == 0, out
    assert "of 4 fresh seeds" in out


def test_a_record_says_everything_once_and_is_understood_without_this_library(genuine, network):
    for record in (genuine, network):
        assert set(record) == {"schema_version", "run", "people", "labels", "checksum"}
        again = Population.from_dict(record)
        assert with_checksum(again.to_dict()) == record
        assert opened(json.dumps(record, sort_keys=True, indent=7)).unchanged, "spaces and order are no change"
        assert len({id(v.run) for v in again}) == 1
        assert type(again[0]).from_json(again[0].to_json()) == again[0]
        assert not {"run", "budget", "label_names"} & set().union(*record["people"])
        assert record["run"]["seeded"] == (record is network)
        for person, v in zip(record["people"], again, strict=True):
            assert (person["status"], person["solidity"]) == (v.status, v.solidity)
            assert (person["decision_before"], person["decision_after"]) == (v.prediction, v.counterfactual_prediction)


# --- absent and bent ------------------------------------------------------------------------------------

PERSON, FLIP = ("people", 0), ("people", 0, "flip_set", 0)
NEEDED = [
    (*path, each.name)
    for path, part in {PERSON: Person, ("run",): Run, ("run", "data"): Data}.items()
    for each in fields(part)
    if each.default is each.default_factory is MISSING
]
EVERY = [(*PERSON, f.name) for f in fields(Person)] + [("run", f.name) for f in fields(Run)]
BENT = [
    *((*path, "ABSENT") for path in (*NEEDED, ("schema_version",), ("run",), ("people",))),
    *((*path, [[{}]]) for path in (*EVERY, ("run",), ("people",), ("checksum",))),
    *((*PERSON, "case", value) for value in (True, "0", 1.5, -1)),
    *((*PERSON, "logit", value) for value in ("0.5", True, None)),
    *((*PERSON, "course", value) for value in ([[1]], [[1, "x"]])),
    *((*PERSON, name, value) for name, value in (("complete", 1), ("fresh", {}), ("collateral", {"others": 1}))),
    *((*PERSON, name, value) for name, value in (("values", {"income": []}), ("pulls", {"income": "up"}))),
    *((*PERSON, name, value) for name, value in (("switch_changes", 0), ("flip_set", [3]), ("at_least", "2"))),
    *((*FLIP, name, value) for name, value in (("position", 2.0), ("position", None), ("label", 0))),
    *(("run", "data", "split_seed", value) for value in (-1, 2**40)),
    *(("run", name, value) for name, value in (("random_state", 2**32), ("budget", 0), ("fresh_seeds", -1))),
    *(("run", "label_names", value) for value in ([], ["no"], ["no", "no"])),
]
UNKNOWN = [(("budgets",), "budgets"), (("run", "data", "x y"), "run.data.x y"), ((*PERSON, "a"), "people[0].a")]


def test_a_field_that_is_absent_bent_or_unknown_is_named(genuine, capsys, tmp_path):
    for *path, value in BENT:
        record = changed(genuine, path, value)
        sealed = record if path == ["checksum"] else with_checksum(record)
        refused(sealed, tmp_path, path[-1] if len(path) < 5 else "people[0].flip_set[0]")
    for path, name in UNKNOWN:
        refused(with_checksum(changed(genuine, path, 1)), tmp_path, f"there is no field {name}.")
    record = with_checksum(changed(genuine, (*FLIP, "position"), "3"))
    code, out, err = outcome(capsys, "replay", record, tmp_path)
    assert (code, out) == (2, "")
    assert err == "Error: Invalid record: people[0].flip_set[0].position must be int, not str.\n"


NO_RECORD = {
    "": "not JSON",
    "nonsense": "not JSON",
    "[1]": "schema_version",
    "{}": "schema_version",
    '{"schema_version": 6}': "missing",
    '{"schema_version": true}': "schema_version",
    '{"schema_version": 6.0}': "schema_version",
    '{"schema_version": 99}': "schema_version 99",
    '{"schema_version": 5, "people": []}': "reads 6: run the audit again",
    "[" * 100_000: "recursion",
    '{"a":' * 100_000 + "1" + "}" * 100_000: "recursion",
    '{"schema_version": ' + "9" * 5000 + "}": "not JSON",
    '{"schema_version": 6, "people": 3, "run": {}}': "people must be array, not int",
    "\0" * 50: "not JSON",
    '{"schema_version": 6, "redacted": "public"}': "--public",
}


def test_what_is_no_record_gets_one_sentence(genuine, capsys, tmp_path):
    for content, sentence in NO_RECORD.items():
        refused(content, tmp_path, sentence)
    record = changed(genuine, (*PERSON, "logit"), "HERE")
    for word in ("NaN", "-Infinity", "1e999", '"\\ud800"'):
        refused(json.dumps(record).replace('"HERE"', word), tmp_path, "not JSON")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "bytes").write_bytes(b"\xff\xfe{\x00")
    for name in ("folder", "pipe", "bytes", "absent", "/dev/zero"):
        assert main(["replay", str(tmp_path / name)]) == 2
        assert len(capsys.readouterr().err.strip().splitlines()) == 1
    record = with_checksum(changed(genuine, ("run", "data", "table"), "x" * 5000))
    for command, options in (("replay", ()), ("review", ("--out", str(tmp_path / "tasks")))):
        code, _, err = outcome(capsys, command, record, tmp_path, *options)
        assert (code, len(err.splitlines())) == (2, 1)
        assert len(err) < 400, "a long name is cut"


# --- altered --------------------------------------------------------------------------------------------

RUNS = [
    (("data", "split_seed"), 7),
    (("learner",), {}),
    *(((name,), value) for name, value in (("psi", "nonsense("), ("phi", "everyone"), ("sensitive", "job"))),
    *(((name,), value) for name, value in (("sensitive_columns", ["job"]), ("blind", True))),
    (("label_names",), ["yes", "no"]),
]


@pytest.mark.parametrize(("path", "value"), RUNS, ids=str)
def test_an_altered_run_never_agrees(genuine, capsys, tmp_path, path, value):
    """Even if its checksum was made again by someone who knows how."""
    code, out, err = outcome(capsys, "replay", with_checksum(changed(genuine, ("run", *path), value)), tmp_path)
    assert code in (1, 2), out
    assert "DISAGREE" in out if code == 1 else len(err.strip().splitlines()) == 1


def test_what_is_not_trained_is_sealed(genuine, capsys, tmp_path):
    record = changed(genuine, (*PERSON, "attempts"), 99)
    code, out, _ = outcome(capsys, "replay", record, tmp_path)
    assert code == 1
    assert "its checksum DISAGREES" in out
    for command, options in (("gate", ("--max-solid", "99%")), ("review", ("--out", str(tmp_path / "t")))):
        code, _, err = outcome(capsys, command, record, tmp_path, *options)
        assert code == 2
        assert "was changed since" in err


def leaves(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    if isinstance(value, (dict, list)) and value:
        items = value.items() if isinstance(value, dict) else enumerate(value)
        return [leaf for name, item in items for leaf in leaves(item, (*path, name))]
    return [path]


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_whatever_is_changed_is_refused_by_those_who_do_not_retrain(genuine, data):
    path = data.draw(st.sampled_from(leaves(genuine)))
    path = path[: data.draw(st.integers(1, len(path)))]
    value = data.draw(st.none() | st.booleans() | st.integers() | st.text() | st.lists(st.integers(), max_size=2))
    if json.dumps(at(genuine, path)) != json.dumps(value):
        with pytest.raises(ReplayError):
            Population.from_json(json.dumps(changed(genuine, path, value)))


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_whatever_a_record_says_it_gets_an_answer_or_a_sentence(genuine, capsys, tmp_path, data):
    """Even if its checksum was made again: of other types, absent, or out of range."""
    path = data.draw(st.sampled_from([leaf for leaf in leaves(genuine) if leaf[0] == "run" or leaf[:2] == PERSON]))
    value = data.draw(
        st.sampled_from(["ABSENT", None, True, -1, 0, 2**40, -0.5, 1e308, "", "x" * 5000, "a\0b", [], {}])
    )
    record = with_checksum(changed(genuine, path, value))
    for command, options in (
        ("replay", ()),
        ("gate", ("--max-gap", "2", "--max-solid", "5%", "--max-switch", "1%")),
        ("review", ("--out", str(tmp_path / "tasks"), "--overwrite", "--anyway", "--labels", "4")),
    ):
        code, _, err = outcome(capsys, command, record, tmp_path, *options)
        assert code in (0, 1, 2, 4)
        assert code != 2 or (len(err.splitlines()) == 1 and len(err) < 1000)


def test_what_is_written_is_strict_json(genuine, tmp_path):
    trial = Agreement(spearman=np.float64("nan"), flips=0, poor=False, leader="x")
    population = Population.from_json(json.dumps(genuine)).with_run(agreement=trial, seconds=math.inf)
    text = population.to_json(tmp_path / "a.json").read_text(encoding="utf-8")
    assert "NaN" not in text
    assert "Infinity" not in text
    run = Population.from_json(tmp_path / "a.json").run
    assert (run.agreement.spearman, run.seconds) == (None, None)


def test_columns_that_json_has_no_word_for_replay(capsys, tmp_path):
    """What Parquet holds: days, times and decimals."""
    table = small_table()
    ages = [None if k % 11 == 5 else int(k) for k in table["age"]]
    table["since"] = [k and datetime.date(2020, 1, 1) + datetime.timedelta(days=k) for k in ages]
    table["at"] = [datetime.datetime(2020, 1, 1, 3) + datetime.timedelta(hours=int(k)) for k in table["age"]]
    table["age"] = [k and decimal.Decimal(k) / 4 for k in ages]
    table.to_parquet(tmp_path / "t.parquet")
    given = ["audit", str(tmp_path / "t.parquet"), "--label", "granted", "--sensitive", "sex", "--model", "logistic"]
    assert main([*given, "--budget", "3", "--cases", "0:12", "--out", str(tmp_path / "o")]) == 0
    assert "Column 'age' holds" in " ".join(capsys.readouterr().err.split())
    assert main(["replay", str(tmp_path / "o" / "audit.json")]) == 0
    assert "0 of 0" not in capsys.readouterr().out

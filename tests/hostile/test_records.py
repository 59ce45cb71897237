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
from butfor.result.verdict import Person


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


def audited(folder: Path, name: str, *options: str) -> dict[str, Any]:
    arguments = ["audit", str(folder / "loans.csv"), "--label", "granted", "--sensitive", "sex", "--quiet"]
    assert main([*arguments, *options, "--out", str(folder / name)]) == 0
    return json.loads((folder / name / "audit.json").read_text())


@pytest.fixture(scope="module")
def genuine(folder) -> dict[str, Any]:
    """A ridge classifier's: finds, proofs that there is none, and people who are not eligible."""
    record = audited(folder, "ridge", "--model", "ridge", "--budget", "2", "--phi", "predicted(no)", "--cases", "0:9")
    assert {v.status for v in Population.from_dict(record)} == {"found", "proven_none", "not_eligible"}
    return record


@pytest.fixture(scope="module")
def network(folder) -> dict[str, Any]:
    """A tiny network's: members, fresh seeds, side effects."""
    options = ("--set", "hidden=3", "--set", "epochs=4", "--members", "2", "--fresh-seeds", "4", "--budget", "6")
    record = audited(folder, "mlp", *options, "--cases", "0:6", "--engine", "joblib")
    assert any("fresh" in p and "collateral" in p for p in record["people"])
    return record


def put(record: Any, path: tuple[Any, ...], value: Any) -> None:
    for step in path[:-1]:
        record = record[step]
    record[path[-1]] = value


def at(record: Any, path: tuple[Any, ...]) -> Any:
    for step in path:
        record = record[step]
    return record


def place_of_find(record: dict[str, Any]) -> int:
    return next(k for k, person in enumerate(record["people"]) if "flip_set" in person)


def spelled(path: tuple[Any, ...]) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).lstrip(".")


def outcome(capsys, command: str, content: str | dict[str, Any], folder: Path, *options: str) -> tuple[int, str, str]:
    path = folder / "audit.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    code = main([command, str(path), *options])
    printed = capsys.readouterr()
    assert "Traceback" not in printed.out + printed.err
    return code, printed.out, printed.err


def refused(capsys, content: str | dict[str, Any], folder: Path, *named: str) -> None:
    """Exit code 2, and one sentence that names the field; everything that reads a record goes through one door."""
    code, out, err = outcome(capsys, "replay", content, folder)
    assert (code, out) == (2, ""), err
    assert len(err.strip().splitlines()) == 1, err
    assert err.startswith("Error: ")
    for name in named:
        assert name in err, err
    with pytest.raises(ReplayError):
        Population.from_json(folder / "audit.json")


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


def test_a_record_says_everything_once(genuine, network):
    for record in (genuine, network):
        assert set(record) == {"schema_version", "run", "people", "labels", "checksum"}
        again = Population.from_dict(record)
        assert with_checksum(again.to_dict()) == record
        assert opened(json.dumps(record, sort_keys=True, indent=7)).unchanged, "spaces and order are no change"
        assert len({id(v.run) for v in again}) == 1
        one = again[0]
        assert type(one).from_json(one.to_json()) == one
        assert not {"run", "budget", "label_names"} & set().union(*record["people"])


def test_a_record_is_understood_without_this_library(genuine, network):
    for record in (genuine, network):
        for person, v in zip(record["people"], Population.from_dict(record), strict=True):
            assert (person["status"], person["solidity"]) == (v.status, v.solidity)
            assert (person["decision_before"], person["decision_after"]) == (v.prediction, v.counterfactual_prediction)
        assert record["run"]["seeded"] == (record is network)


# --- absent and bent ------------------------------------------------------------------------------------

PERSON, FLIP = ("people", 0), ("people", 0, "flip_set", 0)
NEEDED = [
    (*path, each.name)
    for path, part in {PERSON: Person, ("run",): Run, ("run", "data"): Data}.items()
    for each in fields(part)
    if each.default is each.default_factory is MISSING
]
EVERY = [(*PERSON, f.name) for f in fields(Person)] + [("run", f.name) for f in fields(Run)]
BENT = {
    "": [(*path, "ABSENT") for path in (*NEEDED, ("schema_version",), ("run",), ("people",))],
    "of another type": [(*path, [[{}]]) for path in (*EVERY, ("run",), ("people",), ("checksum",))],
    "of a person": [
        *((*PERSON, "case", value) for value in (True, "0", 1.5, -1)),
        *((*PERSON, "logit", value) for value in ("0.5", True, None)),
        *((*PERSON, "course", value) for value in ([[1]], [[1, "x"]])),
        *((*PERSON, name, value) for name, value in (("complete", 1), ("fresh", {}), ("collateral", {"others": 1}))),
        *((*PERSON, name, value) for name, value in (("values", {"income": []}), ("pulls", {"income": "up"}))),
        *((*PERSON, name, value) for name, value in (("switch_changes", 0), ("flip_set", [3]), ("at_least", "2"))),
        *((*FLIP, name, value) for name, value in (("position", 2.0), ("position", None), ("label", 0))),
    ],
    "out of range": [
        *(("run", "data", "split_seed", value) for value in (-1, 2**40)),
        *(("run", name, value) for name, value in (("random_state", 2**32), ("budget", 0), ("fresh_seeds", -1))),
        *(("run", "label_names", value) for value in ([], ["no"], ["no", "no"])),
    ],
}


@pytest.mark.parametrize("kind", BENT)
def test_a_field_that_is_absent_or_bent_is_named(genuine, capsys, tmp_path, kind):
    place = place_of_find(genuine)
    people = [genuine["people"][place], *genuine["people"][:place], *genuine["people"][place + 1 :]]
    for *path, value in BENT[kind]:
        record = copy.deepcopy(genuine | {"people": people})
        if value == "ABSENT":
            del at(record, path[:-1])[path[-1]]
        else:
            put(record, path, value)
        sealed = record if path == ["checksum"] else with_checksum(record)
        refused(capsys, sealed, tmp_path, path[-1] if len(path) < 5 else "people[0].flip_set[0]")


def test_sentences_name_the_place_and_what_must_be_there(genuine, capsys, tmp_path):
    record, place = copy.deepcopy(genuine), place_of_find(genuine)
    record["people"][place]["flip_set"][0]["position"] = "3"
    told = f"people[{place}].flip_set[0].position must be int, not str."
    refused(capsys, with_checksum(record), tmp_path, told)


@pytest.mark.parametrize(
    "path", [("budgets",), ("run", "budgets"), ("run", "data", "x y"), (*PERSON, "a")], ids=spelled
)
def test_a_field_that_nobody_knows_is_named(genuine, capsys, tmp_path, path):
    record = copy.deepcopy(genuine)
    put(record, path, 1)
    refused(capsys, with_checksum(record), tmp_path, f"there is no field {spelled(path)}.")


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
    "[" * 100_000: "nests",
    '{"a":' * 100_000 + "1" + "}" * 100_000: "nests",
    '{"schema_version": ' + "9" * 5000 + "}": "not JSON",
    '{"schema_version": 6, "people": 3, "run": {}}': "people must be array, not int",
    "\0" * 50: "not JSON",
    '{"schema_version": 6, "redacted": "public"}': "--public",
}


def test_what_is_no_record_gets_one_sentence(genuine, capsys, tmp_path):
    for content, sentence in NO_RECORD.items():
        refused(capsys, content, tmp_path, sentence)
    record = copy.deepcopy(genuine)
    put(record, ("people", 0, "logit"), "HERE")
    for word in ("NaN", "-Infinity", "1e999", '"\\ud800"'):
        refused(capsys, json.dumps(record).replace('"HERE"', word), tmp_path, "not JSON")


def test_files_that_are_no_files_are_refused(capsys, tmp_path):
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "bytes").write_bytes(b"\xff\xfe{\x00")
    for name in ("folder", "pipe", "bytes", "absent", "/dev/zero"):
        assert main(["replay", str(tmp_path / name)]) == 2
        assert len(capsys.readouterr().err.strip().splitlines()) == 1


def test_a_long_name_of_a_table_is_cut(genuine, capsys, tmp_path):
    record = copy.deepcopy(genuine)
    record["run"]["data"]["table"] = "x" * 5000
    for command, options in (("replay", ()), ("review", ("--out", str(tmp_path / "tasks")))):
        code, _, err = outcome(capsys, command, with_checksum(record), tmp_path, *options)
        assert (code, len(err.splitlines())) == (2, 1)
        assert len(err) < 400


# --- altered, and with_checksum again by someone who knows how --------------------------------------------------


RUNS = [
    (("data", "split_seed"), 7),
    (("learner",), {}),
    *(((name,), value) for name, value in (("psi", "nonsense("), ("phi", "everyone"), ("sensitive", "job"))),
    *(((name,), value) for name, value in (("sensitive_columns", ["job"]), ("blind", True))),
    (("label_names",), ["yes", "no"]),
]


@pytest.mark.parametrize(("path", "value"), RUNS, ids=str)
def test_an_altered_run_never_agrees(genuine, capsys, tmp_path, path, value):
    record = copy.deepcopy(genuine)
    put(record["run"], path, value)
    code, out, err = outcome(capsys, "replay", with_checksum(record), tmp_path)
    assert code in (1, 2), out
    assert "DISAGREE" in out if code == 1 else len(err.strip().splitlines()) == 1


# --- altered, and not with_checksum -----------------------------------------------------------------------------


@pytest.mark.parametrize("path", [("run", "seconds"), ("run", "command"), ("people", 0, "attempts")], ids=spelled)
def test_what_is_not_trained_is_sealed(genuine, capsys, tmp_path, path):
    record = copy.deepcopy(genuine)
    record["people"].sort(key=lambda person: "attempts" not in person)
    record = with_checksum(record)
    old = at(record, path)
    put(record, path, {"attempts": 99, "seconds": 99.5}.get(path[-1], f"{old} "))
    code, out, _ = outcome(capsys, "replay", record, tmp_path)
    assert code == 1
    assert "its checksum DISAGREES" in out
    for command, options in (("gate", ("--max-solid", "99%")), ("review", ("--out", str(tmp_path / "t")))):
        code, _, err = outcome(capsys, command, record, tmp_path, *options)
        assert code == 2
        assert "was changed since" in err
    with pytest.raises(ReplayError, match="was changed since"):
        Population.from_json(json.dumps(record))


def leaves(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    if isinstance(value, (dict, list)) and value:
        items = value.items() if isinstance(value, dict) else enumerate(value)
        return [leaf for name, item in items for leaf in leaves(item, (*path, name))]
    return [path]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_whatever_is_changed_is_refused_by_those_who_do_not_retrain(genuine, tmp_path, data):
    record = copy.deepcopy(genuine)
    path = data.draw(st.sampled_from(leaves(genuine)))
    cut = data.draw(st.integers(1, len(path)))
    anything = st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    )
    value = data.draw(anything)
    if json.dumps(at(genuine, path[:cut])) == json.dumps(value):
        return
    put(record, path[:cut], value)
    (tmp_path / "a.json").write_text(json.dumps(record))
    with pytest.raises(ReplayError):
        Population.from_json(tmp_path / "a.json")


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_whatever_a_record_says_it_gets_an_answer_or_a_sentence(genuine, capsys, tmp_path, data):
    """Even if its checksum was made again: of other types, absent, or out of range."""
    record = copy.deepcopy(genuine)
    path = data.draw(
        st.sampled_from([leaf for leaf in leaves(genuine) if leaf[0] == "run" or leaf[:2] == ("people", 0)])
    )
    value = data.draw(
        st.sampled_from(["absent", None, True, -1, 0, 2**40, -0.5, 1e308, "", "x" * 5000, "a\0b", [], {}])
    )
    put(record, path, value)
    if value == "absent":
        parent = at(record, path[:-1])
        parent.pop(path[-1])
    for command, options in (
        ("replay", ()),
        ("gate", ("--max-gap", "2", "--max-solid", "5%", "--max-switch", "1%")),
        ("review", ("--out", str(tmp_path / "tasks"), "--overwrite", "--anyway", "--labels", "4")),
    ):
        code, _, err = outcome(capsys, command, with_checksum(record), tmp_path, *options)
        assert code in (0, 1, 2, 4)
        assert code != 2 or (len(err.splitlines()) == 1 and len(err) < 1000)


def test_what_is_written_is_strict_json(genuine, tmp_path):
    population = Population.from_json(json.dumps(genuine))
    trial = Agreement(spearman=np.float64("nan"), flips=0, poor=False, leader="x")
    population = population.with_run(agreement=trial, seconds=math.inf)
    text = population.to_json(tmp_path / "a.json").read_text(encoding="utf-8")
    assert "NaN" not in text
    assert "Infinity" not in text
    run = Population.from_json(tmp_path / "a.json").run
    assert (run.agreement.spearman, run.seconds) == (None, None)


# --- what Parquet holds ----------------------------------------------------------------------------------

KINDS = {
    "date": lambda k: datetime.date(2020, 1, 1) + datetime.timedelta(days=k),
    "datetime": lambda k: datetime.datetime(2020, 1, 1, 3) + datetime.timedelta(hours=k),
    "decimal": lambda k: decimal.Decimal(k) / 4,
}


@pytest.mark.parametrize("kind", KINDS)
def test_columns_that_json_has_no_word_for_replay(capsys, tmp_path, kind):
    holes = kind in ("date", "decimal")
    table = small_table()
    table["age"] = [None if holes and k % 11 == 5 else KINDS[kind](int(k)) for k in table["age"]]
    table.to_parquet(tmp_path / "t.parquet")
    given = ["audit", str(tmp_path / "t.parquet"), "--label", "granted", "--sensitive", "sex", "--model", "logistic"]
    assert main([*given, "--budget", "3", "--cases", "0:12", "--out", str(tmp_path / "o")]) == 0
    assert "Column 'age' holds" in " ".join(capsys.readouterr().err.split())
    assert main(["replay", str(tmp_path / "o" / "audit.json")]) == 0
    assert "0 of 0" not in capsys.readouterr().out

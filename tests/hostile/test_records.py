"""Records that somebody bent, altered or made up: one sentence that names the field, and no agreement."""

from __future__ import annotations

import copy
import datetime
import decimal
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import butfor
from butfor.cli import main
from butfor.errors import ReplayError
from butfor.follow.audited import read_audit
from butfor.result import groups
from butfor.result.population import Population
from butfor.result.record import open_record, read_record, sealed
from butfor.result.shape import POPULATION, POPULATION_SINCE, RUN, VERDICT, VERDICT_SINCE
from butfor.result.whole import summary_differences


def small_table(rows: int = 90) -> pd.DataFrame:
    rng = np.random.default_rng(3)
    income, age = rng.normal(50, 15, rows).round(1), rng.integers(18, 70, rows)
    sex, job = rng.choice(["f", "m"], rows), rng.choice(["clerk", "nurse", "none"], rows)
    score = 0.06 * (income - 50) + 0.4 * (sex == "m") + rng.normal(0, 0.7, rows)
    granted = np.where(score > 0, "yes", "no")
    return pd.DataFrame({"income": income, "age": age, "sex": sex, "job": job, "granted": granted})


@pytest.fixture(scope="module", autouse=True)
def quick_comparisons():
    """Group comparisons draw thousands of shuffles; here they are beside the point."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(groups, "DRAWS", 9)
        yield


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
    assert {p["status"] for p in record["people"]} == {"found", "proven_none", "not_eligible"}
    return record


@pytest.fixture(scope="module")
def network(folder) -> dict[str, Any]:
    """A tiny network's: members, fresh seeds, side effects, alternatives."""
    options = ("--hidden", "3", "--epochs", "4", "--members", "2", "--fresh-seeds", "4", "--budget", "6")
    record = audited(folder, "mlp", *options, "--cases", "0:6", "--alternatives", "1", "--engine", "joblib")
    assert any(p["fresh"] and p["alternatives"] and p["collateral"] for p in record["people"])
    return record


def test_what_differs_in_a_summary_is_named_to_the_letter(genuine):
    record = json.loads(json.dumps(genuine))
    record["by_group"][1]["found"] += 1
    record["sentence"] = record["sentence"][:-9] + "the same."
    told = list(summary_differences(record))
    found = record["by_group"][1]["found"]
    assert f"by_group[1].found is {found}, but by the verdicts it is {found - 1}" in told
    sentences = next(one for one in told if one.startswith("sentence is"))
    assert "the same." in sentences
    assert sentences.count("'") == 4, "both quotations are closed"


def put(record: Any, path: tuple[Any, ...], value: Any) -> None:
    for step in path[:-1]:
        record = record[step]
    record[path[-1]] = value


def at(record: Any, path: tuple[Any, ...]) -> Any:
    for step in path:
        record = record[step]
    return record


def place_of(record: dict[str, Any], status: str) -> int:
    return next(k for k, person in enumerate(record["people"]) if person["status"] == status)


def outcome(capsys, command: str, content: str | dict[str, Any], folder: Path, *options: str) -> tuple[int, str, str]:
    path = folder / "audit.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    code = main([command, str(path), *options])
    printed = capsys.readouterr()
    assert "Traceback" not in printed.out + printed.err
    return code, printed.out, printed.err


def refused(capsys, content: str | dict[str, Any], folder: Path, *named: str) -> None:
    """By everything that reads a record: exit code 2, and one sentence that names the field."""
    for command, options in (
        ("replay", ()),
        ("gate", ("--max-solid", "99%")),
        ("review", ("--out", str(folder / "t"))),
    ):
        code, out, err = outcome(capsys, command, content, folder, *options)
        assert (code, out) == (2, ""), (command, err)
        assert len(err.strip().splitlines()) == 1, err
        assert err.startswith("Error: ")
        for name in named:
            assert name in err, (command, err)


def test_a_genuine_record_agrees(genuine, network, capsys, tmp_path):
    for record in (genuine, network):
        code, out, _ = outcome(capsys, "replay", record, tmp_path)
        assert code == 0, out
        assert "DISAGREE" not in out
        assert "checksum" in out
        assert outcome(capsys, "gate", record, tmp_path, "--max-switch", "100%")[0] == 0
    assert outcome(capsys, "gate", genuine, tmp_path, "--max-close-calls", "100%")[0] == 0
    code, out, _ = outcome(capsys, "gate", network, tmp_path, "--max-close-calls", "100%")
    assert code == 1
    assert "4 fresh seeds are too few to tell close calls, 29 at least" in out
    code, out, _ = outcome(capsys, "replay", network, tmp_path, "--fresh-seeds")
    assert code == 0, out
    assert "of 4 fresh seeds" in out


def test_spaces_and_order_are_no_change(genuine, capsys, tmp_path):
    code, out, _ = outcome(capsys, "replay", json.dumps(genuine, sort_keys=True, indent=7), tmp_path)
    assert code == 0, out


# --- absent ---------------------------------------------------------------------------------------------

PERSON = [("people", 0, name) for name in (*VERDICT, *VERDICT_SINCE, "run")]
BLOCK = [("run", name) for name in RUN] + [("run", "data", name) for name in ("table", "sha256")]
TOP = [(name,) for name in ("schema_version", "checksum", "run", *POPULATION, *POPULATION_SINCE)]
FLIP = [("flips", 0, name) for name in ("row", "position", "label_before", "label_after", "values")]


def spelled(path: tuple[Any, ...]) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).lstrip(".")


@pytest.mark.parametrize("path", [*PERSON, *BLOCK, *TOP], ids=spelled)
def test_an_absent_field_is_named(genuine, capsys, tmp_path, path):
    record = copy.deepcopy(genuine)
    del at(record, path[:-1])[path[-1]]
    refused(capsys, record, tmp_path, path[-1])


@pytest.mark.parametrize("path", FLIP, ids=spelled)
def test_an_absent_field_of_a_flip_is_named(genuine, capsys, tmp_path, path):
    record, place = copy.deepcopy(genuine), place_of(genuine, "found")
    del record["people"][place]["flips"][0][path[-1]]
    refused(capsys, sealed(record), tmp_path, f"people[{place}].{spelled(path)}")


# --- bent -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", [*PERSON, *BLOCK, *TOP], ids=spelled)
def test_a_field_of_another_type_is_named(genuine, capsys, tmp_path, path):
    """A list in a list fits nowhere."""
    record = copy.deepcopy(genuine)
    put(record, path, [[{}]])
    refused(capsys, record if path == ("checksum",) else sealed(record), tmp_path, path[-1])


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("case",), -1), (("case",), True), (("case",), "0"), (("case",), 1.5), (("case",), 10**30), (("case",), 99),
        (("row",), {}), (("row",), [1]), (("status",), "fair"), (("status",), "FOUND"), (("status",), None),
        (("status",), 1), (("prediction",), None), (("prediction",), 0), (("logit",), "0.5"), (("logit",), True),
        (("logit",), None), (("counterfactual_logit",), "0.5"), (("counterfactual_logit",), False),
        (("budget",), 0), (("budget",), -2), (("budget",), 2.0), (("budget",), "2"), (("budget",), None),
        (("attempts",), -1), (("attempts",), True), (("confirmed",), 1), (("confirmed",), "true"),
        (("flippable",), -1), (("flippable",), "all"), (("training_rows",), 0), (("training_rows",), -5),
        (("training_rows",), "54"), (("shared",), 0), (("complete",), None), (("minimal",), "no"),
        (("first_size",), -1), (("alternatives",), [[-1]]), (("alternatives",), [[1, 1]]),
        (("alternatives",), [[10**9]]),
        (("alternatives",), [["1"]]), (("alternatives",), [1]), (("at_least",), -1), (("at_least",), "2"),
        (("at_least",), 1.5), (("proof",), 3), (("exact",), 1), (("base",), 1.5), (("base",), -0.1),
        (("close_call",), "no"), (("clearance",), "wide"), (("fresh",), {}), (("fresh",), 4), (("fresh",), [4]),
        (("collateral",), {"others": 1}), (("collateral",), 7), (("person",), []), (("person",), {"income": []}),
        (("course",), [1]), (("course",), [[1]]), (("course",), [[1, "x"]]), (("course",), [[-1, 0.5]]),
        (("course",), [[1.5, 0.5]]), (("pulls",), {"income": "up"}), (("pulls",), [1]), (("switch_changes",), 0),
        (("flips",), {}), (("flips",), [3]), (("flips", 0, "position"), -1), (("flips", 0, "position"), 54),
        (("flips", 0, "position"), 10**12), (("flips", 0, "position"), True), (("flips", 0, "position"), "3"),
        (("flips", 0, "position"), 2.0), (("flips", 0, "position"), None), (("flips", 0, "position"), [3]),
        (("flips", 0, "row"), {}), (("flips", 0, "values"), []), (("flips", 0, "values"), {"income": {}}),
        (("flips", 0, "label_before"), 0), (("flips", 0, "label_after"), None), (("run",), []), (("run",), None),
        (("run", "data"), 5), (("run", "label_names"), ["no"]), (("run", "label_names"), "no"), (("run", "psi"), 5),
    ],
    ids=lambda value: spelled(value) if isinstance(value, tuple) else json.dumps(value)[:20],
)  # fmt: skip
def test_a_bent_value_is_named(genuine, capsys, tmp_path, path, value):
    record, place = copy.deepcopy(genuine), place_of(genuine, "found")
    put(record["people"][place], path, value)
    if path == ("case",) and value == 99:  # a person who is not there, whom only the table knows
        code, _, err = outcome(capsys, "replay", sealed(record), tmp_path)
        assert (code, "case is 99" in err) == (2, True)
        return
    refused(capsys, sealed(record), tmp_path, f"people[{place}].{spelled(path)}")


def test_a_row_flipped_twice_is_named(genuine, capsys, tmp_path):
    record, place = copy.deepcopy(genuine), place_of(genuine, "found")
    flips = record["people"][place]["flips"]
    flips.append(copy.deepcopy(flips[0]))
    refused(capsys, sealed(record), tmp_path, f"people[{place}].flips[{len(flips) - 1}].position", "a second time")


@pytest.mark.parametrize("word", ["NaN", "Infinity", "-Infinity", "1e999"])
@pytest.mark.parametrize("path", [("people", 0, "logit"), ("run", "seconds"), ("people", 0, "person", "income")])
def test_numbers_that_are_none_are_named(genuine, capsys, tmp_path, path, word):
    record = copy.deepcopy(genuine)
    put(record, path, "HERE")
    refused(capsys, json.dumps(record).replace('"HERE"', word), tmp_path, spelled(path), "finite")


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("", "not JSON"), ("nonsense", "not JSON"), ("[1]", "schema_version"), ("{}", "schema_version"),
        ("{", "not JSON"),
        ('{"schema_version": 3}', "missing"), ('{"schema_version": true}', "schema_version"),
        ('{"schema_version": "3"}', "schema_version"), ('{"schema_version": 99}', "schema_version 99"),
        ('{"schema_version": 3.0}', "schema_version"), ('{"schema_version": null}', "schema_version"),
        ('{"schema_version": 3, "schema_version": 2}', "'schema_version' twice"), ("[" * 100_000, "nests"),
        ('{"a":' * 5000 + "1" + "}" * 5000, "nests"),
        ('{"schema_version": 3, "x": ' + "[" * 200 + "]" * 200 + "}", "nests"),
        ('{"schema_version": ' + "9" * 5000 + "}", "cannot be read"),
        ('{"schema_version": 3, "\\ud800": 1}', "no text"),
        ('{"schema_version": 3, "x": "\\ud800"}', "x must be"),
        ('{"schema_version": 3, "x": 1' + "0" * 30 + "}", "64 bits"),
        ('{"schema_version": 2, "people": 3, "run": {}}', "interrupted"), ("\0" * 50, "not JSON"),
        ('{"schema_version": 2, "people": 3, "run": {}, "interrupted": false}', "people"),
        ('{"schema_version": 2, "people": [3], "run": {}, "interrupted": false}', "people[0]"),
        ('{"schema_version": 2, "people": [{}], "run": {}, "interrupted": false}', "people[0].run"),
    ],
    ids=range(24),
)  # fmt: skip
def test_what_is_no_record_gets_one_sentence(capsys, tmp_path, content, sentence):
    refused(capsys, content, tmp_path, sentence)


def test_files_that_are_no_files_are_refused(genuine, capsys, tmp_path, monkeypatch):
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "bytes").write_bytes(b"\xff\xfe{\x00")
    for name in ("folder", "pipe", "bytes", "absent", "/dev/zero"):
        assert main(["replay", str(tmp_path / name)]) == 2
        assert len(capsys.readouterr().err.strip().splitlines()) == 1
    monkeypatch.setattr("butfor.result.record.LARGEST_FILE", 1000)
    refused(capsys, genuine, tmp_path, "bytes, too many")


# --- altered, and sealed again by someone who knows how --------------------------------------------------

FOUND = [
    ("row", 7), ("prediction", "yes"), ("counterfactual_prediction", "no"), ("counterfactual_prediction", None),
    ("logit", -5.0), ("logit", 0.3), ("counterfactual_logit", 5.0), ("counterfactual_logit", -0.3),
    ("counterfactual_logit", None), ("budget", 1), ("budget", 3), ("flippable", 1), ("flippable", 12),
    ("training_rows", 55), ("training_rows", 5000), ("group", "x"), ("group", None), ("sensitive", "job"),
    ("rank", "distance"), ("protocol", "exhaustive"), ("confirmed", False), ("solidity", "leaning"),
    ("solidity", None), ("distance", None), ("distance", 9), ("at_least", None), ("at_least", 0), ("at_least", 40),
    ("at_most", 9), ("at_most", None), ("exact", False), ("proof", None), ("proof", "trust me"), ("close_call", True),
    ("status", "not_found"), ("status", "proven_none"), ("status", "not_eligible"), ("table", "other.csv"),
    ("switch_changes", None), ("pulls", None), ("pulls", {"income": 1.0}), ("flips", []), ("case", 0),
]  # fmt: skip


def altered(capsys, folder: Path, record: dict[str, Any], field: str) -> None:
    """Replay says that it disagrees, and where."""
    code, out, err = outcome(capsys, "replay", sealed(record), folder)
    assert code == 1, out + err
    assert "DISAGREE" in out
    assert field in out
    assert "its checksum DISAGREES" not in out


@pytest.mark.parametrize(("field", "value"), FOUND, ids=str)
def test_an_altered_find_disagrees(genuine, capsys, tmp_path, field, value):
    record, place = copy.deepcopy(genuine), place_of(genuine, "found")
    person = record["people"][place]
    if field == "case":
        value = next(p["case"] for p in record["people"] if p["case"] != person["case"])
    if person[field] == value:
        value = "yes" if value == "no" else "no" if value == "yes" else not value
    person[field] = value
    altered(capsys, tmp_path, record, "verdicts about person" if field == "case" else field)


@pytest.mark.parametrize("column", ["income", "age", "sex", "job"])
@pytest.mark.parametrize("where", ["person", "flip"])
def test_altered_values_disagree(genuine, capsys, tmp_path, column, where):
    record, place = copy.deepcopy(genuine), place_of(genuine, "found")
    person = record["people"][place]
    shown = person["person"] if where == "person" else person["flips"][0]["values"]
    shown[column] = shown[column] + 1 if not isinstance(shown[column], str) else "other"
    altered(capsys, tmp_path, record, f"{'person' if where == 'person' else 'flips[0].values'}.{column}")


@pytest.mark.parametrize("how", ["row", "swapped", "both", "position", "dropped", "added", "column"])
def test_altered_flips_disagree(genuine, capsys, tmp_path, how):
    record, place = copy.deepcopy(genuine), place_of(genuine, "found")
    flips = record["people"][place]["flips"]
    flip = flips[0]
    if how == "row":
        flip["row"] += 1
    elif how == "swapped":
        flip["label_before"], flip["label_after"] = flip["label_after"], flip["label_before"]
    elif how == "both":
        flip["label_before"] = flip["label_after"]
    elif how == "position":
        flip["position"] = (flip["position"] + 1) % 54
    elif how == "dropped":
        flips.pop()
    elif how == "column":
        flip["values"].pop("age")
    else:
        flips.append(copy.deepcopy(flip) | {"position": (flip["position"] + 1) % 54})
    altered(capsys, tmp_path, record, "flips")


@pytest.mark.parametrize("status", ["found", "not_found", "not_eligible", "proven_none"])
def test_statuses_are_not_believed(genuine, capsys, tmp_path, status):
    """Whatever a verdict is declared to be, with all that goes with it changed alike."""
    for place in (place_of(genuine, s) for s in ("found", "proven_none", "not_eligible")):
        record = copy.deepcopy(genuine)
        person = record["people"][place]
        if person["status"] == status:
            continue
        finder = genuine["people"][place_of(genuine, "found")]
        nothing = {
            "flips": [], "counterfactual_prediction": None, "counterfactual_logit": None, "confirmed": False,
            "minimal": False, "first_size": 0, "solidity": None, "distance": None, "at_most": None, "exact": False,
            "collateral": None, "shared": False,
        }  # fmt: skip
        if status == "found":
            made_up = {name: copy.deepcopy(finder[name]) for name in (*nothing, "at_least", "proof", "attempts")}
            names = person["run"]["label_names"]
            made_up["counterfactual_prediction"] = names[1 - names.index(person["prediction"])]
            made_up["counterfactual_logit"] = -person["logit"]
            person |= made_up
        else:
            person |= nothing
        if status == "not_eligible":
            person |= {
                "attempts": 0,
                "closest_logit": None,
                "course": [],
                "at_least": None,
                "proof": None,
                "base": None,
            }
        if status == "not_found" and person["at_least"] is None:
            person |= {"at_least": 1, "proof": finder["proof"]}
        if status == "proven_none":
            person |= {"at_least": 50, "proof": finder["proof"]}
        person["status"] = status
        record = Population.from_dict(record).to_dict()  # the summary follows
        code, out, _ = outcome(capsys, "replay", sealed(record), tmp_path)
        assert code == 1, (place, out)
        assert "DISAGREE" in out


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("asked", 5), ("eligible", 3), ("found", 0), ("found", 99), ("one_shot", 77), ("sentence", "All is fair."),
        ("direct", ""), ("warnings", ["nothing"]), ("by_group", []), ("comparison", None), ("solidity", {"solid": 0}),
    ],
)  # fmt: skip
def test_an_altered_summary_disagrees(genuine, capsys, tmp_path, field, value):
    altered(capsys, tmp_path, copy.deepcopy(genuine) | {field: value}, field)
    refused_only(capsys, sealed(copy.deepcopy(genuine) | {field: value}), tmp_path, field)


def refused_only(capsys, record: dict[str, Any], folder: Path, field: str) -> None:
    """By what does not retrain."""
    code, out, err = outcome(capsys, "gate", record, folder, "--max-solid", "99%")
    assert (code, out) == (2, "")
    assert field in err
    assert len(err.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("label_names",), ["bad", "good"]), (("label_names",), ["yes", "no"]), (("budget",), 5),
        (("psi",), "everything"),
        (("phi",), "everyone"), (("psi",), "no_such_rule"), (("psi",), "same_group & ("), (("seeded",), True),
        (("data", "training_rows"), 55), (("data", "sha256"), "00"), (("data", "label"), "job"),
        (("data", "sensitive"), "job"), (("data", "split_seed"), 1), (("data", "drop"), ["age"]),
        (("data", "table"), "absent.csv"), (("data", "table"), None), (("data", "nonsense"), 1),
        (("learner",), {}), (("learner",), {"kind": "nonsense"}), (("learner", "estimator"), {}),
        (("learner", "estimator"), {"class": "os:system", "params": {}}),
        (("learner", "estimator"), {"class": "sklearn.linear_model:RidgeClassifier", "params": {"alpha": "x"}}),
        (("learner", "estimator"), {"class": "sklearn.linear_model:RidgeClassifier", "params": {"nonsense": 1}}),
        (("learner", "estimator"), {"class": "sklearn.dummy:DummyClassifier", "params": {}}),
        (("sensitive_columns",), ["job"]), (("sensitive",), "job"), (("rank",), "chance"), (("butfor",), "9.9"),
        (("data", "missing"), "nonsense"), (("data", "positive"), "no"), (("data", "test"), "absent.csv"),
    ],
    ids=str,
)  # fmt: skip
def test_an_altered_run_never_agrees(genuine, capsys, tmp_path, path, value):
    record = copy.deepcopy(genuine)
    blocks = [record["run"], *(person["run"] for person in record["people"])]
    for block in blocks if path != ("butfor",) else blocks[:1]:
        put(block, path, value)
    code, out, err = outcome(capsys, "replay", sealed(record), tmp_path)
    assert code in (1, 2), out
    assert "DISAGREE" in out if code == 1 else len(err.strip().splitlines()) == 1


COUNTS = [
    "seeds",
    "with_flips",
    "without_flips",
    "only_with_flips",
    "only_without_flips",
    "hold",
    "base",
    "effect",
    "first",
]


@pytest.mark.parametrize("name", COUNTS)
def test_altered_counts_over_seeds_contradict_each_other(network, capsys, tmp_path, name):
    record = copy.deepcopy(network)
    fresh = next(p["fresh"] for p in record["people"] if p["fresh"])
    old = fresh[name]
    fresh[name] = old + 0.3 * (-1 if old > 0.5 else 1) if isinstance(old, float) else old + 1
    refused_only(capsys, sealed(record), tmp_path, "fresh")


def test_counts_that_add_up_but_are_not_so_are_found_by_training_them(network, capsys, tmp_path):
    record = copy.deepcopy(network)
    person = next(p for p in record["people"] if p["fresh"])
    held = 4 if person["fresh"]["with_flips"] <= 1 else 0
    counts = butfor.result.fresh.FreshSeeds(4, held, 0, held, 0, person["fresh"]["first"])
    person |= {"fresh": counts.to_dict(), "base": 0.0}
    record = sealed(Population.from_dict(record).to_dict())
    code, out, _ = outcome(capsys, "replay", record, tmp_path, "--fresh-seeds")
    assert code == 1
    assert "fresh.with_flips" in out


def test_an_alternative_that_does_not_turn_the_decision_disagrees(network, capsys, tmp_path):
    record = copy.deepcopy(network)
    place = next(k for k, p in enumerate(record["people"]) if p["alternatives"])
    person = record["people"][place]
    taken = {flip["position"] for flip in person["flips"]}
    person["alternatives"] = [[next(k for k in range(54) if k not in taken)]]
    altered(capsys, tmp_path, record, "alternatives[0]")


# --- altered, and not sealed -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path", [("run", "seconds"), ("run", "command"), ("run", "engine"), ("people", 0, "reason"), ("interrupted",),
             ("people", 0, "minimal"), ("people", 0, "attempts"), ("people", 0, "course"), ("run", "versions")],
    ids=spelled,
)  # fmt: skip
def test_what_is_not_trained_is_sealed(genuine, capsys, tmp_path, path):
    record = copy.deepcopy(genuine)
    old = at(record, path)
    new = {bool: lambda: not old, str: lambda: f"{old} ", list: lambda: [*old, [1, 0.5]], dict: dict}
    put(record, path, new.get(type(old), lambda: old + 1)())
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


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
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
        read_audit(tmp_path / "a.json")


# --- older ones ------------------------------------------------------------------------------------------


def test_a_record_without_a_checksum_replays_and_says_so(genuine, capsys, tmp_path):
    record = copy.deepcopy(genuine)
    del record["checksum"]
    for each in (record, *record["people"]):
        each["schema_version"] = 2
    code, out, _ = outcome(capsys, "replay", record, tmp_path)
    assert code == 0, out
    assert "has no checksum" in out


def test_what_is_written_is_strict_json(genuine, tmp_path):
    population = Population.from_json(json.dumps(genuine))
    population.run["agreement"] = {"spearman": float("nan"), "slope": np.float64("inf")}
    text = population.to_json(tmp_path / "a.json")
    assert "NaN" not in text
    assert "Infinity" not in text
    assert read_record(tmp_path / "a.json")["run"]["agreement"] == {"spearman": None, "slope": None}
    assert open_record(text).sealed


# --- what Parquet holds ----------------------------------------------------------------------------------

KINDS = {
    "date": lambda k: datetime.date(2020, 1, 1) + datetime.timedelta(days=k),
    "datetime": lambda k: datetime.datetime(2020, 1, 1, 3) + datetime.timedelta(hours=k),
    "time": lambda k: datetime.time(k % 24, k % 60, 1),
    "decimal": lambda k: decimal.Decimal(k) / 4,
    "timedelta": lambda k: datetime.timedelta(hours=k),
}


@pytest.mark.parametrize("holes", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_columns_that_json_has_no_word_for_replay(capsys, tmp_path, kind, holes):
    table = small_table()
    table["age"] = [None if holes and k % 11 == 5 else KINDS[kind](int(k)) for k in table["age"]]
    table.to_parquet(tmp_path / "t.parquet")
    given = ["audit", str(tmp_path / "t.parquet"), "--label", "granted", "--sensitive", "sex", "--model", "logistic"]
    assert main([*given, "--budget", "3", "--cases", "0:12", "--out", str(tmp_path / "o")]) == 0
    assert "Column 'age' holds" in " ".join(capsys.readouterr().err.split())
    assert main(["replay", str(tmp_path / "o" / "audit.json")]) == 0
    assert "0 of 0" not in capsys.readouterr().out


@pytest.mark.parametrize("column", ["age", "sex", "granted"])
def test_bytes_are_refused(capsys, tmp_path, column):
    table = small_table()
    table[column] = [str(value).encode() for value in table[column]]
    table.to_parquet(tmp_path / "t.parquet")
    assert main(["audit", str(tmp_path / "t.parquet"), "--label", "granted", "--sensitive", "sex"]) == 2
    assert f"Column '{column}' holds raw bytes" in capsys.readouterr().err

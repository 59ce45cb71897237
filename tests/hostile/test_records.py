"""Records that somebody bent, altered or made up: one sentence that names the field, and no
agreement."""

import copy
import json
import math
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from butfor import replay
from butfor.cli import main
from butfor.errors import ReplayError
from butfor.result.population import Population
from butfor.result.record import opened, with_checksum
from butfor.result.run import Agreement, Data, Run
from butfor.result.verdict import Person, Record
from hostile.harness import people, saved, strict_json
from recorded import audited, run


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> list[dict[str, Any]]:
    """The records of a ridge classifier, with finds, proofs that there is none and people who are
    not eligible, and of a tiny network, with members, fresh seeds and side effects; a find comes
    first."""
    folder, records = tmp_path_factory.mktemp("records"), []
    table = saved(folder, people(90))
    columns = (str(table), "--label", "granted", "--sensitive", "sex", "--overwrite")
    small = (
        "--set",
        "hidden=3",
        "--set",
        "epochs=30",
        "--members",
        "2",
        "--fresh-seeds",
        "4",
        "--engine",
        "joblib",
    )
    for options in (
        ("--model", "ridge", "--budget", "2", "--phi", "predicted(no)", "--cases", "0:9"),
        (*small, "--budget", "10", "--cases", "0:6"),
    ):
        record = json.loads(audited(folder / "out", *columns, *options).read_text())
        record["run"]["data"]["table"] = str(table)  # copies stand elsewhere
        record["people"].sort(key=lambda person: "flip_set" not in person)
        records.append(with_checksum(record))
    assert {v.status for v in Population.from_dict(records[0])} == {
        "found",
        "proven_none",
        "not_eligible",
    }
    assert any("fresh" in p and "collateral" in p for p in records[1]["people"])
    return records


@pytest.fixture(scope="module")
def genuine(made) -> dict[str, Any]:
    return made[0]


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


def outcome(
    capsys, command: str, record: dict[str, Any], folder: Path, *options: str
) -> tuple[int, str, str]:
    (folder / "audit.json").write_text(json.dumps(record), encoding="utf-8")
    code, out, err = run(capsys, command, folder / "audit.json", *options)
    assert "Traceback" not in out + err
    return code, out, err


def refused(content: str | dict[str, Any], folder: Path, *named: str) -> None:
    """One sentence that names the field, also to a replay, which reads what was changed. All go
    through this door."""
    (folder / "audit.json").write_text(
        content if isinstance(content, str) else json.dumps(content), encoding="utf-8"
    )
    with pytest.raises(ReplayError) as error:
        opened(folder / "audit.json", allow_changes=True).read(Record)
    said = str(error.value)
    assert [name for name in named if name not in said] == [], said
    assert len(said.splitlines()) == 1


def test_a_genuine_record_agrees_and_says_everything_once_without_this_library(
    made, capsys, tmp_path
):
    for record in made:
        code, out, _ = outcome(capsys, "replay", record, tmp_path)
        assert (code, "DISAGREE" in out, "checksum" in out) == (0, False, True), out
        few = sum(person.get("left_out") is None for person in record["people"]) < 30
        assert outcome(capsys, "gate", record, tmp_path, "--max-solid", "100%")[0] == (
            4 if few else 0
        )
        assert set(record) == {"schema_version", "run", "people", "labels", "checksum"}
        again = Population.from_dict(record)
        assert with_checksum(again.to_dict()) == record
        assert opened(json.dumps(record, sort_keys=True, indent=7)).unchanged, (
            "spaces and order are no change"
        )
        assert type(again[0]).from_json(again[0].to_json()) == again[0]
        assert record["run"]["seeded"] == (record is made[1])
        for person, v in zip(record["people"], again, strict=True):
            assert (person["status"], person["solidity"]) == (v.status, v.solidity)
            assert (person["decision_before"], person["decision_after"]) == (
                v.prediction,
                v.counterfactual_prediction,
            )


# --- absent and bent ------------------------------------------------------------------------------

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
    *(
        (*PERSON, *bent)
        for bent in (("case", True), ("case", -1), ("logit", "0.5"), ("course", [[1, "x"]]))
    ),
    *(
        (*PERSON, *bent)
        for bent in (("collateral", {"others": 1}), ("values", {"x": []}), ("flip_set", [3]))
    ),
    *((*FLIP, *bent) for bent in (("position", 2.0), ("label", 0))),
    *(
        ("run", *bent)
        for bent in (("random_state", 2**32), ("budget", 0), ("data", "split_seed", -1))
    ),
    *(("run", "label_names", names) for names in (["no"], ["no", "no"])),
]
UNKNOWN = [
    (("budgets",), "budgets"),
    (("run", "data", "x y"), "run.data.x y"),
    ((*PERSON, "flipset"), "people[0].flipset"),
]


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
    "{}": "schema_version",
    '{"schema_version": 7}': "missing",
    '{"schema_version": true}': "schema_version",
    '{"schema_version": 99}': "schema_version 99",
    '{"schema_version": 6, "people": []}': "reads 7: run the audit again",
    "[" * 100_000: "recursion",
    '{"schema_version": ' + "9" * 5000 + "}": "not JSON",
    "\0" * 50: "not JSON",
    '{"schema_version": 7, "redacted": "public"}': "--public",
}


def test_what_is_no_record_gets_one_sentence(genuine, capsys, tmp_path):
    for content, sentence in NO_RECORD.items():
        refused(content, tmp_path, sentence)
    record = changed(genuine, (*PERSON, "logit"), "HERE")
    for word in ("NaN", "-Infinity", "1e999", '"\\ud800"'):
        refused(json.dumps(record).replace('"HERE"', word), tmp_path, "not JSON")
    for thing in (None, 3, [record]):
        with pytest.raises(ReplayError, match=f"A {type(thing).__name__} is not a record"):
            replay(thing)
    (tmp_path / "bytes").write_bytes(b"\xff\xfe{\x00")
    code, _, err = run(capsys, "replay", tmp_path / "bytes")
    assert (code, len(err.splitlines())) == (2, 1)
    record = with_checksum(changed(genuine, ("run", "data", "table"), "x" * 5000))
    for command, options in (("replay", ()), ("review", ("--out", str(tmp_path / "tasks")))):
        code, _, err = outcome(capsys, command, record, tmp_path, *options)
        assert (code, len(err.splitlines())) == (2, 1)
        assert len(err) < 400, "a long name is cut"


# --- altered --------------------------------------------------------------------------------------

RUNS: dict[str, Any] = {
    "learner": {}, "psi": "nonsense(", "phi": "everyone", "sensitive": "debts", "sensitive_columns": ["debts"],
    "blind": True, "label_names": ["yes", "no"],
}  # fmt: skip


def test_what_is_altered_never_agrees_and_what_is_not_trained_is_sealed(genuine, capsys, tmp_path):
    altered = [(("run", name), value) for name, value in RUNS.items()] + [
        (("run", "data", "split_seed"), 7)
    ]
    for path, value in altered:  # even if its checksum was made again by someone who knows how
        code, out, err = outcome(
            capsys, "replay", with_checksum(changed(genuine, path, value)), tmp_path
        )
        assert code in (1, 2), (path, out)
        assert "DISAGREE" in out if code == 1 else len(err.strip().splitlines()) == 1, path
    record = changed(genuine, (*PERSON, "attempts"), 99)
    code, out, _ = outcome(capsys, "replay", record, tmp_path)
    assert (code, "its checksum DISAGREES" in out) == (1, True)
    for command, options in (
        ("gate", ("--max-solid", "99%")),
        ("review", ("--out", str(tmp_path / "t"))),
    ):
        code, _, err = outcome(capsys, command, record, tmp_path, *options)
        assert (code, "was changed since" in err) == (2, True)


FRESH, GROUP = ("people", 0, "fresh"), ("run", "standard", "comparisons", 0)
TESTED = [  # in an audit with fresh seeds, even if its checksum was made again
    ((*FRESH, "with_flips"), 5, "people[0].fresh.with_flips is 5, above the 4 seeds"),
    ((*FRESH, "without_flips"), -1, "people[0].fresh.without_flips is -1, but must be a count"),
    ((*FRESH, "only_with_flips"), 5, "people[0].fresh.only_with_flips"),
    ((*FRESH, "seeds"), 90, "people[0].fresh.seeds is 90, but the run has 4 fresh seeds"),
    (("run", "fresh_seeds"), 0, "is 4, but the run has 0 fresh seeds"),
    (
        (*PERSON, "collateral", "changed"),
        10**6,
        "people[0].collateral.changed is 1000000, above the",
    ),
    ((*FLIP, "position"), 10**6, "people[0].flip_set[0].position is 1000000, but there are"),
    ((*PERSON, "flippable"), -1, "people[0].flippable is -1"),
]
CANNOT_BE = [  # in one that compares groups
    ((*GROUP, "bounds"), [0.5, -0.5], "comparisons[0].bounds is reversed"),
    ((*GROUP, "bounds"), [1.5, 1.6], "comparisons[0].bounds, 1.5 to 1.6, leave out the difference"),
    ((*GROUP, "interval"), [0.5, -0.5], "comparisons[0].interval is reversed"),
    ((*GROUP, "p_adjusted"), 1.5, "comparisons[0].p_adjusted is 1.5, but must be from 0 to 1"),
    ((*GROUP, "recorded"), -0.1, "comparisons[0].recorded is -0.1"),
    ((*GROUP, "difference"), 7, "comparisons[0].difference is 7.0"),
    ((*GROUP, "rows"), -5, "comparisons[0].rows is -5"),
    (("labels", 0, "wrong"), 1.5, "labels[0].wrong is 1.5"),
    (("labels", 0, "doubt"), -1, "labels[0].doubt is -1.0"),
    (("labels", 0, "position"), 10**6, "labels[0].position is 1000000"),
    (("run", "performance", "accuracy"), 1.5, "run.performance.accuracy is 1.5"),
    (("run", "decision", "favoured"), 10**6, "run.decision.favoured is 1000000, above the"),
]
STANDARD = [  # in a comparison of groups
    (("nonsense",), 1, "there is no field nonsense"),
    (("groups", 0, "oops"), 1, "there is no field groups[0].oops"),
    (("groups", 0, "bounds"), [0.5, -0.5], "groups[0].bounds is reversed"),
    (("groups", 0, "bounds"), [1.5, 1.6], "leave out the difference"),
    (("groups", 0, "p"), -1, "groups[0].p is -1"),
    (("draws",), -1, "draws is -1"),
    (("sides",), [[], []], "sides must name labels"),
]
KEY = [  # in the key of a review
    (("tasks",), [], "it has no tasks"),
    (("adverse",), ["granted = yes"], "which of them are adverse"),
    (("label_names",), ["x", "y"], "its labels"),
    (("tasks", 0, "wrong"), 7, "a probability or a count that cannot be"),
    (("tasks", 0, "position"), -1, "is about position -1"),
    (("tasks", 0, "position"), 10**6, "is about position 1000000"),
    (("tasks", 0, "label"), "maybe", "has the label 'maybe'"),
    (("tasks", 0, "kind"), "other", "is a 'other'"),
    (("tasks", 0, "control"), 10**6, "is no task"),
    (("tasks", 0, "oops"), 1, "there is no field tasks[0].oops"),
]


@pytest.fixture(scope="module")
def compared(tmp_path_factory) -> tuple[dict[str, Any], Path]:
    """An audit that compares groups, and a folder with a standard.json and with tasks of a review
    of that audit."""
    folder = tmp_path_factory.mktemp("compared")
    columns = (
        str(saved(folder, people(130))),
        "--label",
        "granted",
        "--sensitive",
        "sex",
        "--adverse",
        "no",
    )
    path = audited(
        folder / "audit", *columns, "--model", "logistic", "--members", "1", "--cases", "0:8"
    )
    assert (
        main(["standard", *columns, "--draws", "3", "--out", str(folder / "standard"), "--quiet"])
        == 0
    )
    assert (
        main(["review", str(path), "--out", str(folder / "tasks"), "--labels", "4", "--anyway"])
        == 0
    )
    return json.loads(path.read_text()), folder


def test_what_cannot_be_is_refused_even_if_it_was_sealed_again(made, compared, capsys, tmp_path):
    record, folder = compared
    assert outcome(capsys, "gate", record, tmp_path, "--max-gap", "100")[0] in (0, 4)
    tested = changed(
        made[1], ("people",), sorted(made[1]["people"], key=lambda person: "fresh" not in person)
    )
    cases = [(tested, *row) for row in TESTED] + [(record, *row) for row in CANNOT_BE]
    for record, path, value, said in cases:
        edited = with_checksum(changed(record, path, value))
        for command, options in (
            ("gate", ("--max-gap", "2")),
            ("review", ("--out", str(tmp_path / "t"))),
        ):
            code, _, err = outcome(capsys, command, edited, tmp_path, *options)
            assert (code, said in err, len(err.splitlines())) == (2, True, 1), (path, err)
    code, _, err = outcome(capsys, "replay", edited, tmp_path)
    assert (code, said in err) == (2, True)
    standard = json.loads((folder / "standard" / "standard.json").read_text())
    assert outcome(capsys, "gate", standard, tmp_path, "--max-gap", "100")[0] in (0, 4)
    for path, value, said in STANDARD:
        code, _, err = outcome(
            capsys,
            "gate",
            with_checksum(changed(standard, path, value)),
            tmp_path,
            "--max-gap",
            "2",
        )
        assert (code, said in err) == (2, True), (path, err)
    code, out, _ = outcome(
        capsys,
        "gate",
        with_checksum(changed(standard, ("groups",), [])),
        tmp_path,
        "--max-gap",
        "2",
    )
    assert (code, "compares no group" in out) == (4, True)


def test_a_key_that_was_sealed_again_is_compared_with_the_record(compared, capsys, tmp_path):
    _, folder = compared
    key, edited = json.loads((folder / "tasks.key.json").read_text()), tmp_path / "key.json"
    answers = tmp_path / "answers.csv"
    lines = [f"{task['id']},{task['label']}" for task in key["tasks"]]
    answers.write_text("\n".join(["id,label", *lines]))
    question = ("review", folder / "audit" / "audit.json", "--answers", answers, "--key")
    assert run(capsys, *question, folder / "tasks.key.json")[0] == 1
    for path, value, said in KEY:
        edited.write_text(json.dumps(with_checksum(changed(key, path, value))))
        code, out, err = run(capsys, *question, edited)
        assert (code, out, said in err, len(err.splitlines())) == (2, "", True, 1), (path, err)


def leaves(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    if isinstance(value, (dict, list)) and value:
        items = value.items() if isinstance(value, dict) else enumerate(value)
        return [leaf for name, item in items for leaf in leaves(item, (*path, name))]
    return [path]


@settings(
    max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_whatever_a_record_says_it_gets_an_answer_or_a_sentence(genuine, capsys, tmp_path, data):
    """Even if its checksum was made again: of other types, absent, or out of range."""
    path = data.draw(
        st.sampled_from(
            [leaf for leaf in leaves(genuine) if leaf[0] == "run" or leaf[:2] == PERSON]
        )
    )
    value = data.draw(
        st.sampled_from(
            ["ABSENT", None, True, -1, 0, 2**40, -0.5, 1e308, "", "x" * 5000, "a\0b", [], {}]
        )
    )
    record = with_checksum(changed(genuine, path, value))
    for command, options in (
        ("replay", ()),
        ("gate", ("--max-gap", "2", "--max-solid", "5%")),
        ("review", ("--out", str(tmp_path / "tasks"), "--overwrite", "--anyway", "--labels", "4")),
    ):
        code, _, err = outcome(capsys, command, record, tmp_path, *options)
        assert code in (0, 1, 2, 4)
        assert code != 2 or (len(err.splitlines()) == 1 and len(err) < 1000)


def test_what_is_written_is_strict_json(genuine, tmp_path):
    trial = Agreement(spearman=np.float64("nan"), flips=0, poor=False, leader="x")
    population = Population.from_json(json.dumps(genuine)).with_run(
        agreement=trial, seconds=math.inf
    )
    run = strict_json(population.to_json(tmp_path / "a.json").read_text(encoding="utf-8"))["run"]
    assert (run["agreement"]["spearman"], run["seconds"]) == (None, None)

"""Answers, keys and records of a review that somebody bent, or that belong to something else: one sentence, and nothing
is written."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

import butfor
from butfor import files
from butfor.audit import NotFittedError
from butfor.data.labels import label_number
from butfor.errors import SettingError, TableError
from butfor.result.record import with_checksum
from butfor.review.answers import read_answers
from hostile.harness import attempt, people, saved
from recorded import LABELS, TABLE, key_with, sealed

ODD = "a;b;c;d"
"""A column name that a guess of the separator stumbles over."""
DEEP = "[" * 100_000


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """An audit, a folder of tasks and its key, and the answers of somebody who agrees with every label."""
    folder = tmp_path_factory.mktemp("reviews")
    table = saved(folder, people(240).rename(columns={"debts": ODD}))
    options = ("--label", "granted", "--sensitive", "sex", "--adverse", "no", "--model", "logistic", "--cases", "0:3")
    assert attempt("audit", table, *options, "--out", folder / "audit", "--quiet").code == 0
    review = ("--labels", 20, "--out", folder / "tasks", "--anyway")
    assert attempt("review", folder / "audit" / "audit.json", *review).code == 0
    key = {task["id"]: task["label"] for task in json.loads((folder / "tasks.key.json").read_text())["tasks"]}
    frame = pd.read_csv(folder / "tasks" / "tasks.csv", dtype=str, keep_default_na=False)
    frame.assign(label=frame["id"].map(key)).to_csv(folder / "answers.csv", index=False)
    return folder


def close(folder: Path, tmp_path: Path, answers: Path | None = None, key: Path | None = None):
    """`butfor review --answers`, which has to refuse what it is given."""
    given = ("--answers", answers or folder / "answers.csv", "--key", key or folder / "tasks.key.json")
    before = set(tmp_path.rglob("*"))
    ending = attempt("review", folder / "audit" / "audit.json", *given, "--out", tmp_path / "after")
    assert ending.code == 2, ending
    assert set(tmp_path.rglob("*")) == before
    return ending


def test_our_own_tasks_can_be_read_whatever_a_column_is_called(folder, tmp_path):
    assert ODD in (folder / "tasks" / "tasks.csv").read_text().splitlines()[0]
    key = sealed(folder / "tasks")
    rows = list(csv.reader((folder / "answers.csv").read_text().splitlines()))
    for separator in ",;\t":
        with (tmp_path / "answers.csv").open("w", newline="") as file:
            csv.writer(file, delimiter=separator).writerows(rows)
        answers = read_answers([tmp_path / "answers.csv"], key).reviewers[0]
        assert answers == {task.id: task.label for task in key.tasks}


# --- answers -------------------------------------------------------------------------------------------


def exported(choices: Any, task: Any = "X-1") -> str:
    result = [{"from_name": "label", "type": "choices", "value": {"choices": choices}}]
    return json.dumps([{"data": {"id": task}, "annotations": [{"result": result}]}])


@pytest.mark.parametrize(
    "content",
    [
        "", "\n\n", "id", "id,label", ",", "no columns at all", "id,label,label\n1,yes,no\n", "id,id,label\n1,2,yes\n",
        f"id,label\n{'7' * 5000},yes\n", f"id,label\n{'x' * 200_000},yes\n", f"{'x' * 200_000},label\n", '"id,label\n',
        "id,label\n\x00,yes\n", b"\xff\xfei\x00d\x00", b"\x89PNG\r\n\x1a\n\x00", b"PK\x03\x04" + bytes(200),
        DEEP, DEEP + "]" * 100_000, '{"a":' * 100_000, "[1]", "{}", "[", "[null]", '{"id": 3}', '[{"data": {}}]',
        '[{"data": {"id": 1}, "annotations": [{}]}]', '[{"data": {"id": 1}, "annotations": 3}]', f"[{'9' * 5000}]",
        exported("yes"), exported(["yes", "no"]), exported([1]), exported({"yes": 1}), exported(["yes"], [1]),
    ],
)  # fmt: skip
def test_answers_that_are_none_are_refused(folder, tmp_path, content):
    path = tmp_path / "given"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    close(folder, tmp_path, path)


def test_what_is_no_file_is_refused_and_never_waited_for(folder, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path, tmp_path / "none.csv", Path("/dev/zero")):
        close(folder, tmp_path, answers=path)
        close(folder, tmp_path, key=path)
    with (tmp_path / "huge").open("wb") as file:
        file.truncate(10**10)  # takes no room on the disk
    assert "larger than 100 MB" in close(folder, tmp_path, tmp_path / "huge").err


def test_a_label_that_may_be_two_is_refused():
    assert label_number("x = 1", ("x = 1", "y = 1")) == 0
    with pytest.raises(SettingError, match="'1' could be any of 'x = 1', 'y = 1'"):
        label_number("1", ("x = 1", "y = 1"))


def test_a_label_that_may_be_two_is_no_answer(tmp_path):
    (tmp_path / "answers.csv").write_text("id,label\nK-0,1\n")
    with pytest.raises(TableError, match="'1' is not a label; write 'x = 1', 'y = 1' or 'cannot tell'"):
        read_answers([tmp_path / "answers.csv"], key_with(["x = 1"], ("x = 1", "y = 1")))


# --- keys ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", "no", "3", DEEP, '{"a":' * 100_000, '{"audit_sha256": "x", "tasks": [{"a": 1}]}', "[1]"]
)
def test_a_key_that_is_none_is_refused(folder, tmp_path, content):
    (tmp_path / "key.json").write_text(content)
    close(folder, tmp_path, key=tmp_path / "key.json")


def _tasks(change: Callable[[int, dict], None]) -> Callable[[dict], None]:
    def changed(key: dict) -> None:
        for k, task in enumerate(key["tasks"]):
            change(k, task)

    return changed


OTHER = {"granted = yes": "granted = no", "granted = no": "granted = yes"}
BENT: dict[str, Callable[[dict], Any]] = {
    "positions that are no rows": _tasks(lambda k, task: task.update(position=10**6 + k)),
    "positions below 0": _tasks(lambda k, task: task.update(position=-1 - k)),
    "positions all alike": _tasks(lambda k, task: task.update(position=0)),
    "positions as text": _tasks(lambda k, task: task.update(position=str(task["position"]))),
    "positions beyond any row": _tasks(lambda k, task: task.update(position=2**70)),
    "positions exchanged": lambda key: key["tasks"][0].update(position=key["tasks"][1]["position"]),
    "labels altered": _tasks(lambda k, task: task.update(label=OTHER[task["label"]])),
    "labels unknown": _tasks(lambda k, task: task.update(label="maybe")),
    "ids all alike": _tasks(lambda k, task: task.update(id="X-1")),
    "ids that are numbers": _tasks(lambda k, task: task.update(id=k)),
    "kinds exchanged": _tasks(lambda k, task: task.update(kind="label" if task["kind"] == "control" else "control")),
    "controls exchanged": _tasks(lambda k, task: task.update(control=None if task["control"] is None else 0)),
    "another group": lambda key: key.update(group="sex = nobody"),
    "other adverse labels": lambda key: key.update(adverse=["granted = yes"]),
    "no tasks": lambda key: key["tasks"].clear(),
    "a task less": lambda key: key["tasks"].pop(),
    "a task twice": lambda key: key["tasks"].append(key["tasks"][0]),
    "another seed": lambda key: key.update(seed=7),
    "other labels": lambda key: key.update(label_names=["no", "maybe"]),
    "another audit": lambda key: key.update(audit_sha256="sha256:0"),
}


@pytest.mark.parametrize("bent", BENT)
@pytest.mark.parametrize("seal", [with_checksum, dict], ids=["sealed", "not sealed"])
def test_a_key_that_somebody_changed_is_refused(folder, tmp_path, bent, seal):
    key = json.loads((folder / "tasks.key.json").read_text())
    BENT[bent](key)
    (tmp_path / "key.json").write_text(json.dumps(seal(key)))
    assert "key" in close(folder, tmp_path, key=tmp_path / "key.json").err


# --- records -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"position": 10**6}, "The record's tasks cannot be made"),
        ({"position": -1}, "labels[1].position is -1, but must be from 0"),
    ],
)
def test_a_record_that_names_other_rows_is_refused(folder, tmp_path, change, sentence):
    record = json.loads((folder / "audit" / "audit.json").read_text())
    record["labels"][1] = record["labels"][1] | change
    (tmp_path / "audit.json").write_text(json.dumps(with_checksum(record)))
    ending = attempt("review", tmp_path / "audit.json", "--out", tmp_path / "tasks", "--anyway")
    assert ending.code == 2
    assert sentence in ending.err
    assert list(tmp_path.iterdir()) == [tmp_path / "audit.json"]


@pytest.mark.parametrize(
    "change", [{"corrected": [10**6]}, {"corrected": [3], "corrected_to": ["maybe"]}, {"answered": ["x"]}]
)
def test_an_earlier_round_that_names_other_rows_is_refused(folder, tmp_path, change):
    record = json.loads((folder / "audit" / "audit.json").read_text())
    evidence = {"group": "a", "others": "b", "strata": [], "alone": [0, 0], "errors": []}
    evidence |= {"tasks": 0, "unsure": 0, "expected": 0, "most": 0}
    flipped = {"flips": [], "labels": 1, "changed": [], "rates": {}, "seeded": False, "favourable": "yes"}
    record["run"]["reviewed"] = flipped | {"evidence": evidence, "answered": [], "corrected": []} | change
    (tmp_path / "review.json").write_text(json.dumps(with_checksum(record)))
    ending = attempt("review", tmp_path / "review.json", "--out", tmp_path / "tasks", "--anyway")
    assert ending.code == 2
    assert "Invalid record: run.reviewed." in ending.err
    assert list(tmp_path.iterdir()) == [tmp_path / "review.json"]


# --- places and options ----------------------------------------------------------------------------------


def content(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("overwrite", [[], ["--overwrite"]])
@pytest.mark.parametrize("place", ["audit", "tasks", "audit/../audit"])
def test_a_folder_that_this_review_reads_from_is_not_written_into(folder, overwrite, place):
    before, record = content(folder), folder / "audit" / "audit.json"
    (folder / "tasks" / "answers.csv").write_text((folder / "answers.csv").read_text())
    answers = ("--answers", folder / "tasks" / "answers.csv", "--anyway")
    try:
        assert attempt("review", record, *answers, "--out", folder / place, *overwrite).code == 2
        if place != "tasks":
            assert attempt("review", record, "--anyway", "--out", folder / place, *overwrite).code == 2
    finally:
        (folder / "tasks" / "answers.csv").unlink()
    assert content(folder) == before


@pytest.mark.parametrize(
    "options",
    [
        ("--random-state", -1), ("--random-state", 2**40), ("--random-state", "x"), ("--labels", -1), ("--labels", 0),
        ("--labels", 10**30), ("--labels", "nan"), ("--hide", "\x1b[31m"), ("--hide", f"x,{ODD}"),
        ("--key", "/dev/full/x"), ("--out", "/dev/null/x"), ("--out", "/proc/x"),
    ],
)  # fmt: skip
def test_options_that_cannot_be_are_refused(folder, tmp_path, options):
    given = ("--anyway", "--out", tmp_path / "tasks", *options)
    assert attempt("review", folder / "audit" / "audit.json", *given).code == 2
    assert not list(tmp_path.iterdir())


def fitted() -> butfor.LabelAudit:
    audit = butfor.LabelAudit(LogisticRegression(), budget=2, fresh_seeds=0)
    return audit.fit(TABLE, LABELS, sensitive_features="group", adverse="no")


def test_in_python_bad_questions_get_a_sentence():
    for ask in (lambda a: a.review_tasks(), lambda a: a.after_review({}, TABLE)):
        with pytest.raises(NotFittedError, match="not fitted yet"):
            ask(butfor.LabelAudit(LogisticRegression()))
    audit = fitted()
    for given in ({"random_state": -1}, {"random_state": 1.5}, {"labels": 0}, {"labels": "9"}, {"labels": 2.5}):
        with pytest.raises(SettingError):
            audit.review_tasks(**given)
    for hide in (["nowhere"], "nowhere", ["income", "debts"]):
        with pytest.raises((SettingError, TableError)):
            audit.review_tasks(hide=hide)
    other = butfor.LabelAudit(LogisticRegression(), budget=2, fresh_seeds=0)
    other.fit(TABLE[:300], LABELS[:300], sensitive_features="group")
    with pytest.raises(SettingError, match="to another table"):
        audit.review_tasks(other.explain_all(TABLE[:3]))
    first = audit.review_tasks(labels=9)
    audit.review_tasks(labels=9, random_state=1)
    with pytest.raises(TableError, match="Use the answers that were given for this review"):
        audit.after_review({task.id: task.label for task in first.tasks}, TABLE)


# --- the end before the end ------------------------------------------------------------------------------


@pytest.mark.parametrize("call", ["fsync", "replace"])
@pytest.mark.parametrize("after", range(3))
def test_a_review_that_is_interrupted_while_it_is_written_leaves_all_files_or_none(tmp_path, monkeypatch, call, after):
    real, calls = getattr(os, call), []

    def interrupted(*given: Any) -> None:
        real(*given)
        calls.append(given)
        if len(calls) == after + 1:
            raise KeyboardInterrupt

    monkeypatch.setattr(files.os, call, interrupted)
    with pytest.raises(KeyboardInterrupt), files.results_folder(tmp_path / "a" / "b"):
        files.save_all({tmp_path / "a" / "b" / name: "text" for name in "xyz"})
    left = sorted(path.name for path in tmp_path.rglob("*"))
    assert left == (["a", "b", "x", "y", "z"] if call == "replace" else [])


@pytest.mark.system
@pytest.mark.parametrize(("number", "share"), [(signal.SIGINT, 0.5), (signal.SIGTERM, 0.8)])
def test_told_to_stop_it_leaves_nothing(folder, tmp_path, number, share):
    given = ["--answers", folder / "answers.csv", "--key", folder / "tasks.key.json", "--anyway", "--out"]
    words = [sys.executable, "-m", "butfor", "review", folder / "audit" / "audit.json", *given]
    begun = time.monotonic()
    assert subprocess.run([*words, tmp_path / "whole"], capture_output=True, check=False).returncode == 0
    took = time.monotonic() - begun
    process = subprocess.Popen([*words, tmp_path / "out"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    time.sleep(share * took)
    process.send_signal(number)
    _, err = process.communicate(timeout=300)
    assert b"Traceback" not in err
    if process.returncode != 0:  # it was faster this time
        assert process.returncode == 130
        assert not (tmp_path / "out").exists()

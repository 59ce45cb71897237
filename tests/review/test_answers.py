"""What reviewers answered: filled-in tables and Label Studio's export, or a sentence on why they cannot be used."""

import csv
import json
from pathlib import Path

import pandas as pd
import pytest

from butfor.review.answers import read_answers
from butfor.review.tasks import Task
from recorded import OTHER, answered, fill_in, key_of, run


def annotation(label: str, cancelled: bool = False) -> dict:
    result = [{"from_name": "label", "to_name": "row", "type": "choices", "value": {"choices": [label]}}]
    return {"id": 7, "was_cancelled": cancelled, "result": result}


def test_label_studio_gives_the_same(german_file, tasks, tmp_path, capsys):
    answers = answered(tasks, 9, 2)
    _, wanted, _ = run(capsys, "review", german_file, "--answers", fill_in(tasks, answers))
    assert "of 9 of 30 labels" in wanted
    exported = json.loads((tasks / "tasks.json").read_text())
    for k, task in enumerate(exported):
        label = answers[task["data"]["id"]]
        task |= {"id": 1 + k, "annotations": [annotation(label), annotation(OTHER[label], cancelled=True)]}
    path = tmp_path / "export.json"  # beside tasks.key.json
    path.write_text(json.dumps(exported))
    code, out, _ = run(capsys, "review", german_file, "--answers", path)
    assert code == 0
    assert out == wanted
    # Of three reviewers two count; of two who differ, and of one who skipped it, it cannot be told.
    label = answers[exported[0]["data"]["id"]]
    exported[0]["annotations"] = [annotation(label), annotation(OTHER[label]), annotation(label)]
    exported[1]["annotations"] = [annotation(label), annotation(OTHER[label])]
    exported[2]["annotations"] = [annotation(label, cancelled=True)]
    key = {task["id"]: task for task in key_of(tasks)}
    path.write_text(json.dumps(exported))
    outcome = read_answers(path, {number: _task(task) for number, task in key.items()}, tuple(OTHER))
    assert {outcome.answers[exported[k]["data"]["id"]] for k in (1, 2)} == {"cannot tell"}
    assert outcome.answers[exported[0]["data"]["id"]] == label
    exported[3]["annotations"] = []
    path.write_text(json.dumps(exported))
    assert "1 of 60 tasks have no answer" in run(capsys, "review", german_file, "--answers", path)[2]


def _task(recorded: dict) -> Task:
    return Task(**{name: value for name, value in recorded.items() if name != "decoy"})


def edited(tasks: Path, change) -> Path:
    with (tasks / "tasks.csv").open(newline="", encoding="utf-8-sig") as file:
        rows = list(csv.reader(file))
    change(rows)
    with (tasks / "tasks.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)
    return tasks / "tasks.csv"


def _label(value):
    return lambda rows: rows[3].__setitem__(-1, value)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (_label("maybe"), "line 4 (task {id}): 'maybe' is not a label; write 'bad credit', 'good credit' or 'cannot"),
        (_label("Bad credit"), "'Bad credit' is not a label"),
        (_label(""), "1 of 60 tasks have no answer, the first is task {id} (line 4). Write a label or 'cannot tell'"),
        (lambda rows: rows.pop(3), "1 of 60 tasks have no answer, the first is task {id}. Write"),
        (lambda rows: rows[3].__setitem__(0, "17"), "line 4: there is no task '17' in the key"),
        (lambda rows: rows[3].__setitem__(0, "x"), "there is no task 'x'"),
        (lambda rows: rows.append(rows[3]), "task {id} is answered already, in line 4"),
        (lambda rows: rows[0].__setitem__(0, "number"), "no column 'id'"),
        (lambda rows: rows[0].__setitem__(-1, "verdict"), "no column 'label'"),
        (lambda rows: rows.clear(), "no column 'id'"),
    ],
)
def test_bad_answers_get_one_sentence_and_change_nothing(german_file, tasks, tmp_path, capsys, change, sentence):
    fill_in(tasks, answered(tasks, 9, 2))
    number = pd.read_csv(tasks / "tasks.csv")["id"][2]
    filled = edited(tasks, change)
    code, out, err = run(capsys, "review", german_file, "--answers", filled, "--out", tmp_path / "after")
    assert code == 2
    assert sentence.format(id=number) in err
    assert len(err.splitlines()) == 1
    assert not out
    assert not (tmp_path / "after").exists()


@pytest.mark.parametrize(
    "content", ["[1]", '[{"data": {}}]', "[", '{"id": 3}', '[{"data": {"id": 1}, "annotations": [{}]}]', b"\xff\xfe,"]
)
def test_a_bad_export_gets_one_sentence(german_file, tasks, tmp_path, capsys, content):
    path = tmp_path / "export.json"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    code, _, err = run(capsys, "review", german_file, "--answers", path)
    assert code == 2
    assert len(err.splitlines()) == 1


def test_a_key_of_another_audit_or_none_is_refused(german_file, salary_file, tasks, tmp_path, capsys):
    filled, key = fill_in(tasks, answered(tasks, 0, 0)), tasks.with_name("tasks.key.json")
    code, _, err = run(capsys, "review", salary_file, "--answers", filled)
    assert code == 2
    assert "belongs to another audit" in err
    for content in ("[]", "{}", "no", '{"audit_sha256": "x", "tasks": [{"a": 1}]}'):
        (tmp_path / "odd.json").write_text(content)
        code, _, err = run(capsys, "review", german_file, "--answers", filled, "--key", tmp_path / "odd.json")
        assert code == 2
        assert "is not the key of a review" in err
    code, _, err = run(capsys, "review", german_file, "--answers", tmp_path / "none.csv", "--key", key)
    assert code == 2
    assert "cannot be read" in err
    key.rename(tmp_path / "elsewhere.json")
    code, _, err = run(capsys, "review", german_file, "--answers", filled)
    assert code == 2
    assert "--key" in err
    assert run(capsys, "review", german_file, "--answers", filled, "--key", tmp_path / "elsewhere.json")[0] == 0

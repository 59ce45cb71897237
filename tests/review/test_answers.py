"""What reviewers answered: filled-in tables and Label Studio's export, or a sentence on why they cannot be used."""

import csv
import json
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import cohen_kappa_score

from butfor.errors import TableError
from butfor.review.answers import _checked, cohens_kappa, read_answers
from recorded import OTHER, answered, fill_in, key_of, key_with, of_kind, run, sealed


def annotation(label: str, cancelled: bool = False) -> dict:
    result = [{"from_name": "label", "to_name": "row", "type": "choices", "value": {"choices": [label]}}]
    return {"id": 7, "was_cancelled": cancelled, "result": result}


def test_label_studio_gives_the_same(german_file, tasks, tmp_path, capsys):
    answers = answered(tasks, 12, 1)
    _, wanted, _ = run(capsys, "review", german_file, "--answers", fill_in(tasks, answers))
    assert f"The reviewer changed 12 of {len(of_kind(tasks, 'control'))} labels of sex = female" in wanted
    exported = json.loads((tasks / "tasks.json").read_text())
    for k, task in enumerate(exported):
        label = answers[task["data"]["id"]]
        task |= {"id": 1 + k, "annotations": [annotation(label), annotation(OTHER[label], cancelled=True)]}
    path = tmp_path / "export.json"  # beside tasks.key.json
    path.write_text(json.dumps(exported))
    code, out, _ = run(capsys, "review", german_file, "--answers", path)
    assert code == 0
    assert out == wanted
    # Reviewers who differ leave it as it is, and so does one who skipped it.
    label = answers[exported[0]["data"]["id"]]
    exported[0]["annotations"] = [annotation(label), annotation(label)]
    exported[1]["annotations"] = [annotation(label), annotation(OTHER[label]), annotation(label)]
    exported[2]["annotations"] = [annotation(label, cancelled=True)]
    path.write_text(json.dumps(exported))
    given = read_answers([path], sealed(tasks)).reviewers[0]
    assert {given[exported[k]["data"]["id"]] for k in (1, 2)} == {"cannot tell"}
    assert given[exported[0]["data"]["id"]] == label
    exported[3]["annotations"] = []
    path.write_text(json.dumps(exported))
    assert f"1 of {len(exported)} tasks has no answer" in run(capsys, "review", german_file, "--answers", path)[2]


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
        (_label("Bad-credit"), "'Bad-credit' is not a label"),
        (_label(""), "tasks has no answer; the first is task {id} (line 4). Write a label or 'cannot tell'"),
        (lambda rows: rows.pop(3), "tasks has no answer; the first is task {id}. Write"),
        (
            lambda rows: rows[3].__setitem__(0, "17"),
            "line 4: this review has no task '17'; its ids begin",
        ),
        (lambda rows: rows[3].__setitem__(0, "x"), "this review has no task 'x'"),
        (lambda rows: rows.append(rows[3]), "task {id} has an answer already, in line 4"),
        (lambda rows: rows[0].__setitem__(0, "number"), "no column 'id'"),
        (lambda rows: rows[0].__setitem__(-1, "verdict"), "no column 'label'"),
        (lambda rows: rows.clear(), "no column 'id'"),
        (lambda rows: [row.append(row[-1]) for row in rows], "have 2 columns 'label'"),
        (lambda rows: rows[3].__setitem__(0, "7" * 5000), "this review has no task '7777"),
        (lambda rows: rows[3].__setitem__(1, "x" * 200_000), "are not a CSV file (field larger than"),
        (lambda rows: rows[0].__setitem__(1, "x" * 200_000), "are not a CSV file (field larger than"),
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


def test_capitals_do_not_matter_where_one_label_is_meant():

    def read(given: str, names: tuple[str, ...]) -> str:
        return _checked([("line 2", "K-0", given)], key_with(names[:1], names), "tasks.csv")["K-0"]

    names = ("deny = no", "deny = yes")
    assert [read(given, names) for given in ("YES", "Deny = No", "no ", "Cannot Tell")] == [
        "deny = yes",
        "deny = no",
        "deny = no",
        "cannot tell",
    ]
    assert read("b", ("b", "B")) == "b"
    assert read("Cannot Tell", ("Cannot Tell", "yes")) == "Cannot Tell"
    with pytest.raises(TableError, match="'Ab' is not a label"):
        read("Ab", ("ab", "AB"))


def test_a_key_of_another_audit_or_none_is_refused(german_file, salary_file, tasks, tmp_path, capsys):
    filled, key = fill_in(tasks, answered(tasks, 0, 0)), tasks.with_name("tasks.key.json")
    code, _, err = run(capsys, "review", salary_file, "--answers", filled)
    assert code == 2
    assert "belongs to another audit" in err
    key.rename(tmp_path / "elsewhere.json")
    code, _, err = run(capsys, "review", german_file, "--answers", filled)
    assert code == 2
    assert "--key" in err
    assert run(capsys, "review", german_file, "--answers", filled, "--key", tmp_path / "elsewhere.json")[0] == 1


def test_answers_to_another_review_of_the_same_audit_are_refused(german_file, tasks, tmp_path, capsys):
    """Another seed, another number of labels: other ids, though rows are the same."""
    filled, codes = fill_in(tasks, answered(tasks, 9, 2)), {key_of(tasks)[0]["id"][:5]}
    for k, options in enumerate((("--random-state", 4, "--labels", 30, "--anyway"), ("--labels", 29, "--anyway"))):
        other = tmp_path / str(k) / "tasks"
        assert run(capsys, "review", german_file, "--out", other, *options)[0] == 0
        codes |= {key_of(other)[0]["id"][:5]}
        key = other.with_name("tasks.key.json")
        code, out, err = run(capsys, "review", german_file, "--answers", filled, "--key", key, "--out", tmp_path / "x")
        assert (code, out) == (2, "")
        assert "Use the answers that were given for this review." in err
    assert len(codes) == 3
    assert not (tmp_path / "x").exists()


def test_two_reviewers_correct_what_they_agree_on_in_both_groups(german_file, tasks, capsys):
    one, other = answered(tasks, 14, 2, 1), answered(tasks, 12, 1)
    unsure = of_kind(tasks, "label")[0]
    other[unsure["id"]] = "cannot tell"
    files = [fill_in(tasks, answers, name=name) for name, answers in (("a.csv", one), ("b.csv", other))]
    outcome = read_answers(files, sealed(tasks))
    n = len(one)
    assert sum(one[task] == other[task] for task in one) == n - 5
    assert outcome.evidence.kappa == pytest.approx(cohen_kappa_score(list(one.values()), list(other.values())))
    changed = {t["position"] for t in key_of(tasks) if one[t["id"]] == other[t["id"]] != t["label"]}
    assert set(outcome.made) == changed
    assert len(changed) == 11 + 1
    code, out, _ = run(capsys, "review", german_file, "--answers", files[0], "--answers", files[1])
    assert code == 0
    pairs = len(of_kind(tasks, "control")) - 1
    assert f"The reviewers changed 11 of {pairs} labels of sex = female" in out
    assert f"and 1 of {pairs} controls" in out or f"and 0 of {pairs} controls" in out
    clear = len(of_kind(tasks, "clear case"))
    assert f"Reviewer error on clear cases: reviewer 1 {100 / clear:.1f} %, 1 of {clear}" in out
    assert f"same answer to {n - 5} of {n} tasks (Cohen's κ" in out
    assert run(capsys, "review", german_file, "--answers", files[0], "--answers", files[0])[0] == 2


def test_kappa_is_that_of_scikit_learn_and_unknown_where_chance_agrees():
    rng = np.random.default_rng(0)
    some = [dict(enumerate(rng.choice(["a", "b", "cannot tell"], 50))) for _ in range(3)]
    pairs = [cohen_kappa_score(list(a.values()), list(b.values())) for a, b in combinations(some, 2)]
    assert cohens_kappa(some) == pytest.approx(np.mean(pairs))
    assert cohens_kappa([{1: "a", 2: "a"}] * 2) is None

"""`butfor standard` as a user meets it."""

import json

import pandas as pd
import pytest

from butfor.cli import main
from conftest import odd_table


@pytest.fixture
def loans(tmp_path):
    path = tmp_path / "loans.csv"
    odd_table(600).to_csv(path, index=False)
    return path


def run(capsys, *arguments):
    code = main([str(a) for a in arguments])
    printed = capsys.readouterr()
    return code, printed.out, printed.err


QUESTION = ("--label", "granted", "--sensitive", "protected group?", "--n-jobs", 1)


def test_it_prints_a_line_per_group_and_writes_page_and_labels(capsys, loans, tmp_path):
    out = tmp_path / "out"
    code, printed, _ = run(capsys, "standard", loans, *QUESTION, "--adverse", False, "--shuffles", 19, "--out", out)
    assert code == 0
    assert "protected group? = αλφα: " in printed
    assert "by the standard of the others" in printed
    assert "with the attribute shuffled" in printed
    assert "This assumes" in printed
    labels = pd.read_csv(out / "labels.csv")
    assert list(labels) == ["row", "label", "group", "doubt", "rank"]
    assert sorted(labels["row"]) == list(range(600))
    assert sorted(labels["rank"]) == list(range(1, 601))
    page = (out / "standard.html").read_text()
    assert page.count("<svg") == 4  # all groups together, and the doubts of each
    assert "&lt;none&gt;" in page
    assert "<none>" not in page
    record = json.loads((out / "standard.json").read_text())
    assert len(record["groups"][0]["shuffled"]) == 19


def test_json_and_nothing_else(capsys, loans):
    code, printed, said = run(capsys, "standard", loans, *QUESTION, "--adverse", False, "--shuffles", 0, "--json")
    assert (code, said) == (0, "")
    assert json.loads(printed)["favourable"] == "granted = True"


def test_an_embedded_set_knows_its_adverse_label(capsys):
    code, printed, _ = run(capsys, "standard", "german", "--shuffles", 0, "--n-jobs", 1, "--quiet")
    assert code == 0
    assert "sex = female: 64.8 % 'good credit'" in printed


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ((), "Say with --adverse which label people would rather not have: 'granted = False', 'granted = True'."),
        (("--adverse", "true"), "--adverse: there is no label 'true'. Did you mean 'True'?"),
        (("--adverse", "False", "--random-state", -1), "'--random-state': -1 is not in the range"),
        (("--adverse", "False", "--model", "sklearn.svm:LinearSVC"), "fit and predict_proba"),
        (("--adverse", "False", "--shuffles", -2), "shuffles=-2 must be"),
    ],
)
def test_bad_input_gets_a_sentence(capsys, loans, words, sentence):
    code, printed, said = run(capsys, "standard", loans, *QUESTION, *words, "--quiet")
    assert (code, printed) == (2, "")
    assert sentence in said
    assert len(said.splitlines()) == 1

"""`butfor standard` as a user meets it."""

import json
import re

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
    code, printed, _ = run(capsys, "standard", loans, *QUESTION, "--adverse", False, "--draws", 19, "--out", out)
    assert code == 0
    for group in ("αλφα", "b & c", "<none>"):
        line = next(line for line in printed.splitlines() if line.startswith(f"protected group? = {group} "))
        assert re.search(r" [\d.]+ (less|more) \(−?\d+ to −?\d+\) ", line)
    assert "labelled 'granted = True'" in printed
    assert "It assumes" in printed
    labels = pd.read_csv(out / "labels.csv")
    assert list(labels) == ["row", "label", "group", "doubt", "wrong", "rank"]
    assert sorted(labels["row"]) == list(range(600))
    assert sorted(labels["rank"]) == list(range(1, 601))
    page = (out / "standard.html").read_text()
    assert page.count("<svg") == 7  # all groups together, and of each its doubts and its columns
    assert "&lt;none&gt;" in page
    assert "<none>" not in page
    record = json.loads((out / "standard.json").read_text())
    assert record["draws"] == 19
    assert [group["group"] for group in record["groups"]] == ["<none>", "b & c", "αλφα"]


def test_json_and_nothing_else(capsys, loans):
    code, printed, said = run(capsys, "standard", loans, *QUESTION, "--adverse", False, "--draws", 0, "--json")
    assert (code, said) == (0, "")
    assert json.loads(printed)["favourable"] == "granted = True"


def test_an_embedded_set_knows_its_adverse_label(capsys):
    code, printed, _ = run(capsys, "standard", "german", "--draws", 0, "--n-jobs", 1, "--quiet")
    assert code == 0
    assert re.search(r"sex = female +310 +64.8 % +5.3 less", printed)
    assert "Without draws" in printed


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ((), "Name the label that people do not want with --adverse: 'granted = False', 'granted = True'."),
        (("--adverse", "true"), "--adverse: there is no label 'true'. Did you mean 'True'?"),
        (("--adverse", "False", "--random-state", -1), "'--random-state': -1 is not in the range"),
        (("--adverse", "False", "--model", "sklearn.svm:LinearSVC"), "fit and predict_proba"),
        (("--adverse", "False", "--draws", -2), "draws=-2 must be"),
    ],
)
def test_bad_input_gets_a_sentence(capsys, loans, words, sentence):
    code, printed, said = run(capsys, "standard", loans, *QUESTION, *words, "--quiet")
    assert (code, printed) == (2, "")
    assert sentence in said
    assert len(said.splitlines()) == 1

"""`--threshold`: where the line is drawn, as a user meets it."""

import json
import re
import tomllib

import numpy as np
import pandas as pd
import pytest

from butfor.cli import main

GERMAN = ("audit", "german", "--model", "logistic", "--cases", "0:6", "--budget", "6")


@pytest.fixture
def rare(tmp_path):
    """A table in which one person in twelve is called back, whatever the columns say."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"years": rng.normal(size=400).round(2), "sex": rng.choice(["f", "m"], 400)})
    table["call"] = np.where(rng.random(400) < 1 / 12, "yes", "no")
    path = tmp_path / "calls.csv"
    table.to_csv(path, index=False)
    return path


def run(capsys, *arguments: object) -> tuple[int, str, str]:
    code = main([str(a) for a in arguments])
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def test_a_fixed_threshold_is_named_recorded_repeated_and_replayed(capsys, tmp_path):
    out_dir = tmp_path / "report"
    code, out, _ = run(capsys, *GERMAN, "--threshold", "0.8", "--out", out_dir)
    assert code == 0
    assert "Decided 'good credit' at a probability of 0.80 or more: " in out
    assert "of 200 people." in out
    record = json.loads((out_dir / "audit.json").read_text())
    assert record["run"]["decision"]["given"] == 0.8
    assert record["run"]["decision"]["people"] == 200
    assert tomllib.loads((out_dir / "audit.toml").read_text())["threshold"] == "0.8"
    assert "--threshold 0.8" in record["run"]["command"]
    found = pd.read_csv(out_dir / "people.csv").query("status == 'found'")
    assert len(found)
    for row in found.itertuples():
        assert (row.score >= 0.8) == (row.prediction == "good credit")
        assert (row.counterfactual_score >= 0.8) == (row.counterfactual_prediction == "good credit")
    page = (out_dir / "report.html").read_text()
    assert ", cut 0.80" in page
    assert "at a probability of 0.80 or more" in page
    assert '<th scope="col">Score</th>' in page
    code, out, _ = run(capsys, "replay", out_dir / "audit.json")
    assert code == 0
    assert "at score 0." in out
    code, out, _ = run(capsys, "gate", out_dir / "audit.json", "--max-solid", "100%")
    assert code == 0
    assert out.startswith("Decided 'good credit' at a probability of 0.80 or more")


def test_places_are_those_of_all_test_rows(capsys, tmp_path):
    code, out, _ = run(capsys, *GERMAN, "--threshold", "top 60%", "--out", tmp_path / "report")
    assert code == 0
    assert "Decided 'good credit': the best 60 % of 200 people, 120 of them, at a probability of 0." in out
    record = json.loads((tmp_path / "report" / "audit.json").read_text())
    assert record["run"]["decision"]["pool"] == 200
    assert record["run"]["decision"]["accepted"] == 120
    finds = [person for person in record["people"] if person["status"] == "found"]
    assert finds
    assert all(person["counterfactual_cut"] != person["cut"] for person in finds)
    page = (tmp_path / "report" / "report.html").read_text()
    assert "from the cut" in page
    assert run(capsys, "replay", tmp_path / "report" / "audit.json")[0] == 0
    again = run(capsys, "audit", "--config", tmp_path / "report" / "audit.toml", "german", "--json")[1]
    assert json.loads(again)["people"] == record["people"]


def test_one_person_is_told_the_score_and_the_cut(capsys):
    code, out, _ = run(capsys, "audit", "german", "--model", "logistic", "--cases", "0", "--threshold", "0.8")
    assert code == 0
    assert "score 0." in out
    assert "cut 0.80" in out
    assert "logit" not in out.split("\n")[0]


def test_everybody_decided_alike_is_said_first(capsys, rare, tmp_path):
    given = ("audit", rare, "--label", "call", "--sensitive", "sex", "--model", "logistic", "--out", tmp_path / "r")
    code, out, _ = run(capsys, *given, "--adverse", "no")
    said = "At 0.5 this model decides 'call = no' about all 80 people. Of the training labels, "
    assert code == 0
    assert out.startswith(said)
    option = out.split("`")[1]
    assert option.startswith("--threshold 'top ")
    page = (tmp_path / "r" / "report.html").read_text()
    assert "Everybody gets the same decision." in page
    code, out, _ = run(capsys, "gate", tmp_path / "r" / "audit.json", "--max-solid", "5%")
    share = option.split("'")[1]
    code, out, err = run(capsys, *given, "--adverse", "no", "--threshold", share, "--overwrite", "--cases", "0:8")
    assert code == 0
    assert "this model decides" not in out + err
    assert "Decided 'call = yes': the best " in out


def test_below_ten_audited_people_another_threshold_is_advised(capsys, tmp_path):
    rng = np.random.default_rng(1)
    known = rng.random(1000) < 0.02
    table = pd.DataFrame({"known": known.astype(int), "sex": rng.choice(["f", "m"], 1000)})
    table["rearrest"] = np.where(rng.random(1000) < np.where(known, 0.95, 0.15), "yes", "no")
    table.to_csv(tmp_path / "released.csv", index=False)
    given = ("audit", tmp_path / "released.csv", "--label", "rearrest", "--sensitive", "sex", "--model", "logistic")
    code, out, _ = run(capsys, *given, "--adverse", "yes", "--budget", "2", "--out", tmp_path / "r")
    assert code == 0
    found = re.match(
        r"Only (\d) people are audited\. At 0\.5 this model decides 'rearrest = no' about 9\d % of 200 people\. Of the "
        r"training labels, 8\d % are 'rearrest = no': try `--threshold 'top (8\d)%'`\.",
        out,
    )
    assert found
    assert "Hardly anybody is audited." in (tmp_path / "r" / "report.html").read_text()
    code, out, _ = run(capsys, *given, "--adverse", "yes", "--budget", "2", "--threshold", f"top {found[2]}%")
    assert code == 0
    assert "audited. " not in out.split("\n")[0], "enough people are"


def test_with_no_adverse_label_it_is_said_in_terms_of_the_labels(capsys, rare):
    code, out, _ = run(
        capsys, "audit", rare, "--label", "call", "--sensitive", "sex", "--model", "logistic", "--cases", "0:4"
    )
    assert code == 0
    assert out.startswith("At 0.5 this model decides 'call = no' about all 80 people. Of the training labels, ")


@pytest.mark.parametrize(
    "given", ["0", "1", "1.5", "20", "-0.2", "nan", "inf", "", "high", "top", "top 0%", "top 120%"]
)
def test_what_is_no_threshold_gets_a_sentence(capsys, given):
    code, out, err = run(capsys, *GERMAN, f"--threshold={given}")
    assert code == 2
    assert not out
    assert err.splitlines()[-1].startswith("Error: --threshold ")


def test_20_is_taken_for_a_share_that_was_meant(capsys):
    assert "'top 20%'" in run(capsys, *GERMAN, "--threshold", "20")[2]


def test_a_share_of_nobody(capsys):
    code, _, err = run(capsys, "audit", "salary", "--model", "logistic", "--threshold", "top 1%")
    assert code == 2
    assert "of 11 people is nobody" in err


def test_a_model_without_probabilities_takes_places_only(capsys):
    ridge = ("audit", "german", "--model", "ridge", "--cases", "0:4")
    code, _, err = run(capsys, *ridge, "--threshold", "0.8")
    assert code == 2
    assert "no probabilities" in err
    assert "--threshold 'top 20%'" in err
    code, out, _ = run(capsys, *ridge, "--threshold", "top 60%")
    assert code == 0
    assert "the best 60 % of 200 people, 120 of them." in out


def test_more_than_two_labels_have_no_threshold(capsys, tmp_path):
    rng = np.random.default_rng(1)
    table = pd.DataFrame({"a": rng.normal(size=90), "sex": rng.choice(["f", "m"], 90), "grade": [*"abc"] * 30})
    table.to_csv(tmp_path / "grades.csv", index=False)
    given = ("audit", tmp_path / "grades.csv", "--label", "grade", "--sensitive", "sex", "--model", "logistic")
    code, _, err = run(capsys, *given, "--threshold", "0.8")
    assert code == 2
    assert "with 3 labels" in err

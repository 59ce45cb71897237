"""Columns that tell the groups apart are named; columns that merely go with them are not."""

import json

import numpy as np
import pandas as pd
import pytest

import butfor
from butfor.cli import main
from butfor.data.check import check_groups
from butfor.data.sensitive import Sensitive

FIRST_NAMES = {"a": ["Anne", "Greg", "Emily"], "b": ["Aisha", "Jamal"]}


def applicants(rows=600, seed=0):
    rng = np.random.default_rng(seed)
    group = rng.choice(["a", "b"], rows, p=[0.7, 0.3])
    table = pd.DataFrame(
        {"group": group, "income": rng.normal(size=rows).round(2), "town": rng.choice(["n", "s"], rows)}
    )
    return table.assign(granted=np.where(table["income"] + rng.normal(size=rows) > 0, "yes", "no"))


def told(X, sensitive="group"):
    return [concern.columns for concern in check_groups(X, Sensitive.of(sensitive, X))]


@pytest.mark.parametrize("name", ["salary", "student", "german", "compas", "default", "adult"])
def test_the_published_tables_have_none(name):
    data = butfor.load_dataset(name)
    assert told(data.X_train, data.sensitive) == []


def test_a_name_and_a_dummy_variable_tell_the_group():
    X, rng = applicants(), np.random.default_rng(1)
    names = np.array([rng.choice(FIRST_NAMES[group]) for group in X["group"]])
    assert told(X.assign(first=names)) == [("first",)]
    dummy = (X["group"] == "b").astype(int)
    assert told(X.assign(b=dummy, first=names)) == [("b", "first")]
    slip = dummy.copy()
    slip[:2] = 1 - slip[:2]
    assert told(X.assign(b=slip)) == [("b",)]
    slip[:30] = 1 - slip[:30]
    assert told(X.assign(b=slip)) == []


def test_a_number_of_many_values_and_an_identifier_tell_nothing_here():
    X = applicants()
    assert told(X.assign(ref=[f"A{k}" for k in range(len(X))])) == []
    assert told(X.assign(score=X["income"] + 100 * (X["group"] == "b"))) == []


def test_two_dummy_variables_of_other_groups_tell_it_together():
    race = np.random.default_rng(2).choice(["white", "black", "hispanic"], 900, p=[0.8, 0.12, 0.08])
    X = pd.DataFrame({name: (race == name).astype(int) for name in ("white", "black", "hispanic")})
    X["income"] = np.arange(900) % 17
    assert told(X, "black") == [("white", "hispanic")]
    assert told(X, ["black", "hispanic"]) == [("white",)]


def test_it_is_said_in_the_terminal_and_on_the_page(capsys, tmp_path):
    table = applicants().assign(member=lambda t: np.where(t["group"] == "b", "yes", "no"))
    table.to_csv(tmp_path / "t.csv", index=False)
    sentence = (
        "Column 'member' tells the groups of 'group' apart: hardly anybody in another group has the same values, so "
        "there are no comparable people. Leave it out: --drop member."
    )
    columns = [str(tmp_path / "t.csv"), "--label", "granted", "--adverse", "no", "--sensitive", "group"]
    assert main(["standard", *columns, "--draws", "0", "--n-jobs", "1", "--out", str(tmp_path / "s")]) == 0
    assert capsys.readouterr().out.count(sentence) == 1
    assert (tmp_path / "s" / "standard.html").read_text().replace("&#39;", "'").count(sentence) == 1
    cheap = ["--model", "logistic", "--budget", "1", "--cases", "0:2", "--json"]
    assert main(["audit", *columns, *cheap]) == 0
    printed = capsys.readouterr()
    assert printed.err.count(f"Note: {sentence}") == 1
    assert sentence in [concern["sentence"] for concern in json.loads(printed.out)["run"]["concerns"]]
    assert main(["check-table", *columns, "--strict"]) == 2
    assert sentence in capsys.readouterr().out
    assert main(["audit", *columns, *cheap, "--set", "strict=true"]) == 2
    assert sentence in capsys.readouterr().err
    assert main(["standard", *columns, "--drop", "member", "--draws", "0", "--n-jobs", "1"]) == 0
    assert "tells the groups" not in capsys.readouterr().out

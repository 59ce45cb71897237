"""What a table becomes: its parts, its labels, what is missing, who is named, and what an audit
then says of it."""

import json
import shlex

import numpy as np
import pandas as pd
import pytest

import butfor
from applicants import COLUMNS, LOGISTIC, NETWORK, applicants, audited, holed, loaded, saved
from butfor.errors import SettingError
from butfor.result.population import Population
from butfor.table.labels import label_names, label_number
from butfor.table.reading import default_setup, load_table
from recorded import run


def sizes(data) -> tuple[int, ...]:
    return len(data.X_train), len(data.X_val), len(data.X_test)


def test_files_of_their_own_are_not_split(tmp_path):
    table, (train, val, test) = (
        applicants(200),
        (tmp_path / f"{name}.csv" for name in ("train", "val", "test")),
    )
    for path, rows in (
        (train, table[:120]),
        (val, table[120:160]),
        (test, table[160:][table.columns[::-1]]),
    ):
        saved(rows, path)
    assert sizes(loaded(train)) == (72, 24, 24)
    assert sizes(loaded(train, validation=val)) == (96, 40, 24)
    assert sizes(loaded(train, test=test, hold_out=False)) == (120, 0, 40)
    assert sizes(loaded(train, test=test, validation=val)) == (120, 40, 40)
    assert sizes(loaded(train, whole=True)) == (120, 0, 0)
    data = loaded(train, test=test)
    assert sizes(data) == (90, 30, 40)
    assert list(data.X_test.columns) == list(data.X_train.columns)
    assert data.X_test["ref"].to_dict() == {k: f"A{160 + k}" for k in range(40)}


def test_another_file_is_read_as_the_training_file_is(tmp_path):
    """Truth values with holes, and codes that look like numbers in one file only."""
    table = applicants()
    saved(
        table.assign(member=[True, False] * 60, code=["7", "x"] * 60, debts=1.5),
        tmp_path / "train.csv",
    )
    saved(
        table.assign(member=[True, None] * 60, code=[7, None] * 60, debts="2"),
        tmp_path / "test.csv",
    )
    data = loaded(tmp_path / "train.csv", test=tmp_path / "test.csv")
    assert data.X_test["member"].isna().sum() == 60
    encoder = butfor.TableEncoder().fit(data.X_train[["member"]])
    assert encoder.transform(data.X_test[["member"]])[:2].tolist() == [[0, 1], [0, 0]]
    assert data.X_test["code"].dropna().unique().tolist() == ["7"]
    assert data.X_test["debts"].unique().tolist() == [2]


def test_groups_of_a_test_file_are_those_of_the_training_file(capsys, tmp_path):
    table = applicants().assign(sex=lambda t: (t["sex"] == "m").astype(int))
    train = saved(table.assign(code=table["sex"].map({0: "n", 1: "1"})), tmp_path / "train.csv")
    odd = table.assign(
        sex=table["sex"].astype(float).where(table.index != 5),
        code=table["sex"].map({0: "0", 1: "1.0"}),
    )
    test = saved(odd, tmp_path / "test.csv")
    record, _ = audited(capsys, train, *LOGISTIC, "--adverse", "no", "--test", test)
    assert {c["group"] for c in record["run"]["standard"]["comparisons"]} == {"0", "1"}
    assert {str(person["group"]) for person in record["people"]} == {"0", "1", "missing"}
    read = loaded(train, test=test, sensitive="code")
    assert set(read.X_test["code"]) == {"0", "1"}


def test_rows_of_one_cluster_stay_together_and_rows_without_a_label_or_with_holes_are_left_out(
    tmp_path,
):
    table, notes = applicants().assign(home=lambda t: t.index // 3, weight=range(1, 121)), []
    table["granted"] = (table["granted"] == "yes").astype(float).where(table.index > 2)
    table.loc[5, "home"] = None  # a cluster of its own
    path = saved(table, tmp_path / "t.csv")
    data = loaded(path, cluster="home", weight="weight", drop=["ref"], note=notes.append)
    assert list(data.X_train.columns) == ["income", "job", "sex"]
    homes = [set(data.cluster[part].dropna()) for part in ("train", "val", "test")]
    assert sum(map(len, homes)) == len(set.union(*homes)) == 39
    assert (data.weight["train"] == data.X_train.index + 1).all()
    assert notes == ["3 rows without a label in 'granted' left out."]
    assert data.label_names == ("granted = 0", "granted = 1")
    table.loc[10:14, "income"] = None
    data = loaded(saved(table, path), missing="drop", drop=["ref", "home"], note=notes.append)
    assert "5 rows with missing values left out ('income' in 5)." in notes
    rows = sorted([*data.X_train.index, *data.X_val.index, *data.X_test.index])
    assert rows == [k for k in range(3, 120) if not 10 <= k <= 14]


def test_labels_have_names(tmp_path):
    names = label_names(np.array([False, True]), "approved")
    assert [
        label_number(given, names) for given in ("approved = True", "True", True, np.True_)
    ] == [1] * 4
    assert label_number(7, ("bad credit", "good credit"), [3, 7]) == 1
    for given, said in (("TRUE", "Did you mean 'True'"), ("x", "The labels are 'False', 'True'")):
        with pytest.raises(SettingError, match=rf"^towards: there is no label '{given}'\. {said}"):
            label_number(given, names, option="towards")
    with pytest.raises(SettingError, match="could be any of"):
        label_number("no", ("a = no", "b = no"))
    path = saved(applicants(), tmp_path / "t.csv")
    assert loaded(path, label="income>= 5e1").label_names == ("income<5e1", "income>=5e1")
    assert (
        loaded(path, label="income<50").y_train.mean()
        == (loaded(path).X_train["income"] >= 50).mean()
    )


def test_large_tables_are_trained_in_batches():
    batches = {50: 8, 600: None, 8192: None, 8193: 1024, 1_000_000: 1024}
    assert {n: default_setup(n).batch_size for n in batches} == batches


# --- what an audit says of it ---------------------------------------------------------------------


@pytest.mark.parametrize(("model", "encoding"), [(LOGISTIC, "ordinal"), (NETWORK, "embed")])
def test_holes_marks_and_unknown_and_rare_values_are_said_and_the_audit_comes_again(
    capsys, tmp_path, model, encoding
):
    table = holed(200).assign(town=[f"t{k % 11}" for k in range(200)])
    table.loc[160:163, "job"] = "pilot"
    table.loc[:6, "job"], table.loc[9, "sex"] = "?", "Unknown"
    train, val, test = (tmp_path / f"{name}.csv" for name in ("train", "val", "test"))
    for path, rows in ((train, table[:120]), (val, table[120:160]), (test, table[160:])):
        saved(rows, path)
    files = ["--test", test, *(["--set", f"validation={val}"] if model is NETWORK else [])]
    options = [*model, *files, "--set", f"encoding={encoding}", "--set", "max-categories=6"]
    record, said = audited(capsys, train, *options)
    counts = (
        (table if model is NETWORK else table.drop(range(120, 160))).isna().sum()
    )  # one takes validation rows
    marks = (
        "'?' in 7 cells of 'job'; 'Unknown' in 1 cell of 'sex': this counts as a value of its own."
    )
    assert said.count(marks) == 1
    assert "120 training rows" in said
    assert "of 40 test people" in said
    for line in (
        marks,
        f"Missing values: 'income' in {counts['income']} rows, 'job' in {counts['job']} rows",
        "'job' in 4 rows. They count as",
        "'town' has 11 different values: the 5",
    ):
        assert line in " ".join(record["run"]["remarks"])
    assert record["people"][0]["values"]["job"] == "pilot"
    assert any(None in person["values"].values() for person in record["people"])
    (tmp_path / "audit.json").write_text(json.dumps(record))
    found = sum("flip_set" in person for person in record["people"])
    code, out, _ = run(capsys, "replay", tmp_path / "audit.json")
    assert (code, f"{found} of {found} counterfactual datasets agree" in out) == (0, found > 0)
    again = json.loads(
        run(capsys, *shlex.split(record["run"]["command"])[1:], "--json", "--quiet")[1]
    )
    for each in (record, again):
        each["run"].pop("seconds")
        each.pop("checksum")
    assert again == record
    code, _, err = run(capsys, "audit", train, *COLUMNS, *options, "--set", "unknown=refuse")
    assert (code, "which no training row has" in err) == (2, True)


def test_models_that_take_missing_numbers_get_them_and_a_missing_protected_attribute_is_a_group(
    capsys, tmp_path
):
    table = holed(60).drop(columns=["job", "ref"])
    table["sex"] = table["sex"].map({"f": 0, "m": 1}).where(table.index % 4 > 0)
    options = [*LOGISTIC[:-1], "boosting", "--cases", "0:12", "--budget", "1", "--phi", "everyone"]
    record, said = audited(capsys, saved(table, tmp_path / "t.csv"), *options)
    assert (
        "Missing values of 'income', 'sex' go to HistGradientBoostingClassifier unchanged." in said
    )
    assert record["run"]["learner"]["encoder"] is None
    assert "missing" in Population.from_dict(record).by_group.index


def test_an_identifier_names_the_rows(capsys, tmp_path):
    """And only those with the adverse decision are audited, with standards compared over all
    labelled rows."""
    table, out = applicants(), tmp_path / "out"
    options = ("--id", "ref", *LOGISTIC, "--adverse", "no", "--cases", "0:12", "--out", out)
    assert (
        run(capsys, "audit", saved(table, tmp_path / "t.csv"), *COLUMNS, *options, "--quiet")[0]
        == 0
    )
    record = json.loads((out / "audit.json").read_text())
    for person in record["people"]:
        assert table.set_index("ref").loc[person["row"], "income"] == person["values"]["income"]
        assert set(person["values"]) == {"income", "job", "sex"}
    assert record["run"]["phi"] == "stable_under_switch & predicted('granted = no')"
    assert {verdict.prediction for verdict in Population.from_dict(record).eligible} == {
        "granted = no"
    }
    compared = record["run"]["standard"]["comparisons"]
    assert {group["group"]: group["rows"] for group in compared} == dict(
        table["sex"].value_counts()
    )
    people = pd.read_csv(out / "people.csv")
    assert people["row"].tolist() == [person["row"] for person in record["people"]]
    assert set(pd.read_csv(out / "keystones.csv")["row"]) <= set(table["ref"])
    assert run(capsys, "replay", out / "audit.json")[0] == 0


def test_a_dropped_protected_attribute_forms_groups_and_a_line_says_so(tmp_path):
    for source, how in (
        (saved(applicants(), tmp_path / "t.csv"), {"label": "granted"}),
        ("german", {}),
    ):
        notes: list[str] = []
        data = load_table(source, sensitive="sex", drop=["sex"], note=notes.append, **how)
        assert "sex" not in data.X_train
        assert data.groups["test"]["sex"].nunique() == 2
        assert "Groups are formed by 'sex', which the model does not see." in notes

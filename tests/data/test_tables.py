"""Tables as people have them: holes, odd files, test rows apart. Read rightly or refused in a sentence, never wrong."""

import gzip
import importlib.util
import io
import json
import shlex
import sys
import zipfile

import numpy as np
import pandas as pd
import pytest

import butfor
from butfor.cli import main
from butfor.data.dates import as_dates
from butfor.data.read import read_file
from butfor.data.table import load_table
from butfor.errors import SettingError, TableError
from butfor.result.population import Population
from butfor.result.record import with_checksum

CHEAP = ("--members", "1", "--fresh-seeds", "0", "--budget", "2", "--cases", "0:6")
LOGISTIC = (*CHEAP, "--model", "logistic")
NETWORK = (*CHEAP, "--set", "hidden=4", "--set", "epochs=5", "--set", "batch-size=8")


def applicants(rows: int = 120, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    income = rng.normal(50, 10, rows).round(1)
    job = rng.choice(["cook", "nurse", "judge"], rows)
    sex = rng.choice(["f", "m"], rows)
    score = 0.1 * (income - 50) + (job == "judge") + rng.normal(0, 0.7, rows)
    return pd.DataFrame(
        {"ref": [f"A{k}" for k in range(rows)], "income": income, "job": job, "sex": sex,
         "granted": np.where(score > 0.3, "yes", "no")}
    )  # fmt: skip


def holed(rows: int = 120) -> pd.DataFrame:
    """Values missing in every column that is learned from."""
    table = applicants(rows)
    rng = np.random.default_rng(1)
    for column in ("income", "job", "sex"):
        table[column] = table[column].where(rng.random(rows) > 0.1)
    return table


def saved(table: pd.DataFrame, path, **how):
    table.to_csv(path, index=False, **how)
    return path


def run(capsys, path, *options, columns=("--label", "granted", "--sensitive", "sex", "--drop", "ref")):
    code = main([str(a) for a in ("audit", path, *columns, *options)])
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def audited(capsys, path, *options, **columns) -> tuple[dict, str]:
    code, out, err = run(capsys, path, *options, "--json", **columns)
    assert code == 0, err
    return json.loads(out), " ".join(err.split())


def loaded(path, **how):
    return load_table(path, **{"label": "granted", "sensitive": "sex"} | how)


def again(capsys, record: dict, tmp_path) -> None:
    """The record's own command gives the same record, and what was found replays."""
    main([*shlex.split(record["run"]["command"])[1:], "--json"])
    second = json.loads(capsys.readouterr().out)
    for each in (record, second):
        each.pop("checksum")
        for run_block in (each["run"],):
            run_block.pop("seconds")
    assert second == record
    found = sum("flip_set" in person for person in record["people"])
    assert found > 0
    (tmp_path / "audit.json").write_text(json.dumps(with_checksum(record)))
    assert main(["replay", str(tmp_path / "audit.json")]) == 0
    assert f"{found} of {found} counterfactual datasets agree" in capsys.readouterr().out


# --- lines and headers -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda lines: [lines[0], *(f"9,{line}" for line in lines[1:])], "Line 2 of 't.csv' has 6 values"),
        (lambda lines: [*lines[:7], lines[7] + ",x", *lines[8:]], "Line 8 of 't.csv' has 6 values, but the header"),
        (lambda lines: [*lines[:9], "A8,55.0", *lines[9:]], "Line 10 of 't.csv' has 2 values, but the header names 5"),
        (lambda lines: [*lines, "Total"], "Line 122 of 't.csv' has 1 value, but"),
        (lambda lines: [lines[0], "", *lines[1:3], lines[3] + ",", *lines[4:]], "Line 5 of 't.csv'"),
        (lambda lines: [lines[0].replace("job", "sex"), *lines[1:]], "names column 'sex' more than once"),
        (lambda lines: ["<html><body>", *lines[1:]], "is not a table"),
        (lambda lines: [], "is not a table"),
        (lambda lines: ["", " "], "is not a table"),
        (lambda lines: lines[:1], "The table has 0 rows"),
    ],
)  # fmt: skip
def test_a_file_whose_lines_do_not_fit_its_header_is_refused(capsys, tmp_path, monkeypatch, change, said):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text("\n".join(change(applicants().to_csv(index=False).splitlines())))
    code, out, err = run(capsys, "t.csv", "--quiet")
    assert (code, out) == (2, "")
    assert said in err
    assert len(err.strip().splitlines()) == 1


def test_blank_lines_quotes_and_commas_inside_them_are_no_trouble(tmp_path):
    table = applicants().assign(job=lambda t: t["job"] + ', "head"\nof staff')
    text = table.to_csv(index=False).replace("\nA7,", "\n\nA7,").replace("\nA9,", "\n  \nA9,")
    (tmp_path / "t.csv").write_text(text + "\n\n")
    pd.testing.assert_frame_equal(read_file(tmp_path / "t.csv"), table)


def test_a_first_column_without_a_name_is_mentioned(tmp_path):
    said = []
    applicants().to_csv(tmp_path / "t.csv")
    assert read_file(tmp_path / "t.csv", said.append).columns[0] == "Unnamed: 0"
    assert "has no name" in said[0]


# --- missing values --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("model", "encoding"), [(LOGISTIC, "onehot"), (LOGISTIC, "ordinal"), (NETWORK, "embed")])
def test_a_table_with_holes_is_audited_and_replays(capsys, tmp_path, model, encoding):
    path = saved(holed(), tmp_path / "t.csv")
    options = [*model, "--set", f"encoding={encoding}", "--budget", "8", "--cases", "0:8", "--psi", "everything"]
    record, said = audited(capsys, path, *options)
    counts = holed().isna().sum()
    if model is LOGISTIC:  # the validation rows are not used
        data = loaded(path, drop=["ref"])
        counts = pd.concat([data.X_train, data.X_test]).isna().sum()
    assert f"Missing values: 'income' in {counts['income']} rows, 'job' in {counts['job']} rows" in said
    assert "missing" in {person["group"] for person in record["people"]}
    assert any(None in person["values"].values() for person in record["people"])
    again(capsys, record, tmp_path)


def test_a_hole_in_the_test_rows_alone(capsys, tmp_path):
    table = applicants()
    test = loaded(saved(table, tmp_path / "t.csv"), drop=["ref"]).X_test.index
    for column in ("income", "job", "sex"):
        table.loc[test[:4], column] = None
    path = saved(table, tmp_path / "t.csv")
    for options in (LOGISTIC, NETWORK):
        record, _ = audited(capsys, path, *options, "--budget", "8", "--psi", "everything")
        assert [person["group"] for person in record["people"][:4]] == ["missing"] * 4
        assert [person["values"]["income"] for person in record["people"][:4]] == [None] * 4
        again(capsys, record, tmp_path)
    blind, _ = audited(
        capsys, path, *LOGISTIC, columns=("--label", "granted", "--sensitive", "sex", "--drop", "sex,ref")
    )
    assert blind["people"][0]["group"] == "missing"


def test_one_person_with_holes_in_python():
    table = applicants()
    X, y = table[["income", "job", "sex"]], table["granted"]
    audit = butfor.LabelAudit(butfor.MLP((4,), max_epochs=5), members=1, fresh_seeds=0, budget=2)
    audit.fit(X[:100], y[:100], sensitive_features="sex")
    for nothing in (None, np.nan):
        verdict = audit.explain(X.iloc[[110]].assign(income=np.nan, job=nothing, sex=nothing))
        assert verdict.group == "missing"
        assert audit.explain(pd.Series({"income": nothing, "job": nothing, "sex": nothing})).logit == verdict.logit
    assert butfor.replay(verdict).agrees


def test_marks_for_missing_values_are_counted_and_stay_values(capsys, tmp_path):
    table = applicants()
    table.loc[:6, "job"], table.loc[9, "sex"] = "?", "Unknown"
    record, said = audited(capsys, saved(table, tmp_path / "t.csv"), *LOGISTIC)
    line = "'?' in 7 cells of 'job'; 'Unknown' in 1 cell of 'sex': this counts as a value of its own. If it means"
    assert said.count(line) == 1
    assert any(line in remark for remark in record["run"]["remarks"])
    notes: list[str] = []
    assert "?" in set(loaded(tmp_path / "t.csv", note=notes.append).X_train["job"])
    assert [note.startswith("'?' in 7 cells") for note in notes] == [True]


def test_a_dropped_protected_attribute_forms_groups_and_a_line_says_so(tmp_path):
    for source, how in ((saved(applicants(), tmp_path / "t.csv"), {"label": "granted"}), ("german", {})):
        notes: list[str] = []
        data = load_table(source, sensitive="sex", drop=["sex"], note=notes.append, **how)
        assert "sex" not in data.X_train
        assert "Groups are formed by 'sex', which the model does not see." in notes


def test_missing_values_refused_all_at_once(capsys, tmp_path):
    path = saved(holed(), tmp_path / "t.csv")
    code, _, err = run(capsys, path, *LOGISTIC, "--missing", "refuse", "--quiet")
    assert code == 2
    for column in ("income", "job", "sex"):
        assert f"Column '{column}', row " in err
    assert "'ref'" not in err
    assert "--missing drop" in err


def test_rows_with_missing_values_left_out(capsys, tmp_path):
    path = saved(holed(), tmp_path / "t.csv")
    record, said = audited(capsys, path, *LOGISTIC, "--missing", "drop", "--budget", "8", "--psi", "everything")
    left = holed().dropna()
    assert f"{120 - len(left)} rows with missing values left out ('income' in " in said
    assert record["run"]["data"]["training_rows"] == len(loaded(saved(left, tmp_path / "left.csv")).X_train)
    assert {person["row"] for person in record["people"]} <= set(left.index)
    again(capsys, record, tmp_path)


def test_rows_without_a_label_are_left_out_and_counted(capsys, tmp_path):
    table = applicants().assign(granted=lambda t: (t["granted"] == "yes").astype(float).where(t.index > 2))
    said = []
    data = loaded(saved(table, tmp_path / "t.csv"), note=said.append)
    assert said == ["3 rows without a label in 'granted' left out."]
    assert data.label_names == ("granted = 0", "granted = 1")
    rows = pd.concat([data.X_train, data.X_val, data.X_test])
    assert sorted(rows.index) == list(range(3, 120))
    record, _ = audited(capsys, tmp_path / "t.csv", *LOGISTIC, "--adverse", "0", "--budget", "8", "--psi", "everything")
    again(capsys, record, tmp_path)


def test_a_missing_protected_attribute_is_a_group(capsys, tmp_path):
    path = saved(holed(), tmp_path / "t.csv")
    for columns in (
        ("--label", "granted", "--sensitive", "sex"),
        ("--label", "granted", "--sensitive", "sex", "--drop", "sex"),
        ("--label", "granted", "--sensitive", "sex,job", "--drop", "ref"),
    ):
        record, _ = audited(capsys, path, *LOGISTIC, "--cases", "0:24", columns=columns)
        groups = {str(person["group"]) for person in record["people"]}
        assert any("missing" in group for group in groups), columns
        assert Population.from_json(json.dumps(record)).by_group.index.is_unique
    assert run(capsys, path, *LOGISTIC, "--cases", "0:24", "--out", tmp_path / "out", "--quiet")[0] == 0
    assert "missing" in set(pd.read_csv(tmp_path / "out" / "people.csv")["group"])
    assert "missing" in (tmp_path / "out" / "report.html").read_text()


def test_numbers_alone_with_holes(capsys, tmp_path):
    """scikit-learn's logistic regression takes no missing values and gets them encoded; its boosting takes them."""
    table = holed().drop(columns="job").assign(sex=lambda t: t["sex"].map({"f": 0, "m": 1}))
    path = saved(table, tmp_path / "t.csv")
    record, said = audited(capsys, path, *LOGISTIC)
    assert record["run"]["learner"]["encoder"]["params"]["missing"] == "own"
    assert "Missing values: 'income' in" in said
    record, said = audited(capsys, path, *CHEAP, "--model", "boosting", "--cases", "0:2")
    assert record["run"]["learner"]["encoder"] is None
    assert "Missing values of 'income', 'sex' go to HistGradientBoostingClassifier unchanged." in said


# --- unknown and rare categories -------------------------------------------------------------------------


def rare(tmp_path, value="pilot"):
    """A table whose first three test rows have a job that no other row has."""
    table = applicants()
    test = loaded(saved(table, tmp_path / "t.csv"), drop=["ref"]).X_test.index
    table.loc[test[:3], "job"] = value
    return saved(table, tmp_path / "t.csv")


@pytest.mark.parametrize("encoding", ["onehot", "ordinal"])
def test_a_category_that_no_training_row_has(capsys, tmp_path, encoding):
    path = rare(tmp_path)
    options = ["--set", f"encoding={encoding}", "--budget", "8", "--psi", "everything"]
    record, said = audited(capsys, path, *NETWORK, *options)
    assert "Values that no training row has: 'job' in 3 rows" in said
    assert record["people"][0]["values"]["job"] == "pilot"
    again(capsys, record, tmp_path)
    code, _, err = run(capsys, path, *NETWORK, *options, "--set", "unknown=refuse", "--quiet")
    assert code == 2
    assert "holds 'pilot', which no training row has" in err


def test_rare_categories_are_grouped(capsys, tmp_path):
    table = applicants().assign(town=lambda t: "t" + (t.index % 11).astype(str))
    path = saved(table, tmp_path / "t.csv")
    record, said = audited(capsys, path, *LOGISTIC, "--set", "max-categories=4", "--budget", "8", "--psi", "everything")
    assert "'town' has 11 different values: the 3 most frequent are kept" in said
    assert record["run"]["learner"]["encoder"]["params"]["max_categories"] == 4
    again(capsys, record, tmp_path)
    code, _, err = run(capsys, path, *LOGISTIC, "--set", "max-categories=1", "--quiet")
    assert code == 2
    assert "max_categories=1 must be" in err


def test_a_hundred_categories_are_enough(capsys, tmp_path):
    path = saved(applicants(300), tmp_path / "t.csv")
    _, said = audited(capsys, path, *LOGISTIC, columns=("--label", "granted", "--sensitive", "sex"))
    assert "'ref' has 180 different values: the 99 most frequent are kept, the others count as 'other'." in said


# --- files -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("encoding", "said"),
    [
        ("utf-8", ""),
        ("utf-8-sig", ""),
        ("utf-16", "'t.csv' is not UTF-8; it was read as utf-16."),
        ("latin-1", "'t.csv' is not UTF-8; it was read as cp1252."),
    ],
)
@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_encodings_and_separators(tmp_path, monkeypatch, encoding, said, separator):
    monkeypatch.chdir(tmp_path)
    table = applicants().rename(columns={"job": "métier"})
    saved(table, "t.csv", sep=separator, encoding=encoding)
    notes = []
    pd.testing.assert_frame_equal(read_file("t.csv", notes.append), table)
    assert notes == [said] * bool(said)


def test_a_separator_inside_a_quoted_name_does_not_count(tmp_path):
    table = applicants().rename(columns={"job": "job, as of 1, 2, 3, 4, 5 years ago"})
    saved(table, tmp_path / "t.csv", sep=";", quoting=1)
    pd.testing.assert_frame_equal(read_file(tmp_path / "t.csv"), table)


def test_packed_text_and_standard_input(capsys, tmp_path, monkeypatch):
    table = applicants()
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(table.to_csv(index=False).encode()))
    pd.testing.assert_frame_equal(read_file(tmp_path / "t.csv.gz"), table)
    packed, _ = audited(capsys, tmp_path / "t.csv.gz", *LOGISTIC)

    piped = io.TextIOWrapper(io.BytesIO(table.to_csv(index=False).encode()))
    monkeypatch.setattr(sys, "stdin", piped)
    record, said = audited(capsys, "-", *LOGISTIC)
    assert "standard input: 72 training rows" in said
    assert [p["logit"] for p in record["people"]] == [p["logit"] for p in packed["people"]]
    assert record["run"]["data"]["table"] is None
    assert record["run"]["not_rebuildable"] == ["data: the table came from standard input"]
    assert shlex.split(record["run"]["command"])[2] == "-"
    (tmp_path / "audit.json").write_text(json.dumps(record))
    assert main(["replay", str(tmp_path / "audit.json"), "--data", str(tmp_path / "t.csv.gz")]) == 0


def test_feather_and_parquet_with_types_of_their_own(capsys, tmp_path):
    table = applicants().assign(
        debts=pd.array([None, *range(119)], dtype="Int64"), member=pd.array([True, None] * 60, dtype="boolean"),
        job=lambda t: t["job"].astype("category"),
    )  # fmt: skip
    table.to_feather(tmp_path / "t.feather")
    table.to_parquet(tmp_path / "t.parquet")
    for name in ("t.feather", "t.parquet"):
        record, said = audited(capsys, tmp_path / name, *LOGISTIC, "--budget", "8", "--psi", "everything")
        data = loaded(tmp_path / name, drop=["ref"])
        used = pd.concat([data.X_train, data.X_test])
        assert used["member"].isna().sum() > 40
        assert f"'member' in {used['member'].isna().sum()} rows" in said
        again(capsys, record, tmp_path)


@pytest.mark.skipif(importlib.util.find_spec("openpyxl") is None, reason="openpyxl is an extra")
def test_excel(tmp_path):
    table, notes = applicants(), []
    with pd.ExcelWriter(tmp_path / "t.xlsx") as book:
        table.to_excel(book, sheet_name="people", index=False)
        table.head(3).to_excel(book, sheet_name="more", index=False)
    pd.testing.assert_frame_equal(read_file(tmp_path / "t.xlsx", notes.append), table)
    assert "sheet 'people', the first of 2" in notes[0]
    pd.DataFrame([["a", "a"], [1, 2]]).to_excel(tmp_path / "twice.xlsx", index=False, header=False)
    with pytest.raises(TableError, match="names column 'a' more than once"):
        read_file(tmp_path / "twice.xlsx")
    (tmp_path / "t.xlsx").rename(tmp_path / "t.csv")
    with pytest.raises(TableError, match=r"t\.csv' is not text but an Excel file or another zip archive: rename it"):
        read_file(tmp_path / "t.csv")
    (tmp_path / "fake.xlsx").write_text("no workbook")
    with pytest.raises(TableError, match="cannot be read as a table"):
        read_file(tmp_path / "fake.xlsx")


@pytest.mark.parametrize(
    ("name", "package", "extra"), [("t.xlsx", "openpyxl", "excel"), ("t.feather", "pyarrow", "parquet")]
)
def test_a_reader_that_is_not_installed_is_named_with_its_pip_line(tmp_path, monkeypatch, name, package, extra):
    monkeypatch.setitem(sys.modules, package, None)
    with zipfile.ZipFile(tmp_path / name, "w") as book:  # what an Excel file is
        book.writestr("xl/workbook.xml", "<workbook/>")
    with pytest.raises(TableError, match=rf'pip install "butfor\[{extra}\]"'):
        read_file(tmp_path / name)


@pytest.mark.parametrize(
    "content", [b"\x1f\x8b nothing packed", b"\xff\xfe\x00\xd8\x00", b"a,b\n\0,1\n", b"\x89PNG\0\0"]
)
def test_what_is_no_text_is_refused(tmp_path, content):
    (tmp_path / "t.csv").write_bytes(content)
    with pytest.raises(TableError, match="cannot be read as a table"):
        read_file(tmp_path / "t.csv")


def test_dates_become_days(capsys, tmp_path):
    days = pd.date_range("2019-12-30", periods=120)
    table = applicants().assign(
        born=days.strftime("%Y-%m-%d"), seen=days.strftime("%Y-%m-%d 12:00"), odd="2024-02-30", born_on=days.date
    )
    table.loc[0, "seen"] = None
    said = []
    data = loaded(saved(table.drop(columns="born_on"), tmp_path / "t.csv"), note=said.append)
    assert said == [f"Column '{c}' holds dates: they count as days since 1970-01-01." for c in ("born", "seen")]
    rows = pd.concat([data.X_train, data.X_val, data.X_test]).sort_index()
    assert rows["born"].tolist() == list(range(18260, 18380))
    assert rows["seen"].iloc[1] == 18261.5
    assert np.isnan(rows["seen"].iloc[0])
    assert rows["odd"].iloc[0] == "2024-02-30"
    table.assign(seen=days).to_parquet(tmp_path / "t.parquet")
    typed = loaded(tmp_path / "t.parquet").X_train
    assert typed["born_on"].tolist() == typed["born"].tolist() == typed["seen"].tolist()
    adverse = ("--adverse", "no", "--budget", "8", "--psi", "everything")
    record, _ = audited(capsys, tmp_path / "t.csv", *LOGISTIC, *adverse)
    again(capsys, record, tmp_path)
    shown = as_dates(rows["born"].iloc[:2]), as_dates(rows["seen"].iloc[:2])
    assert [one.iloc[1] for one in shown] == ["2019-12-31", "2019-12-31 12:00:00"]
    assert data.dates == ("born", "seen")
    assert main(["review", str(tmp_path / "audit.json"), "--out", str(tmp_path / "tasks"), "--anyway"]) == 0
    assert pd.read_csv(tmp_path / "tasks" / "tasks.csv")["born"].str.fullmatch(r"20[12]\d-\d\d-\d\d").all()


# --- files for the parts ---------------------------------------------------------------------------------


@pytest.fixture
def parts(tmp_path):
    table = holed(200)
    for name, rows in (("train", table[:120]), ("val", table[120:160]), ("test", table[160:])):
        saved(rows[rows.columns[::-1]] if name == "test" else rows, tmp_path / f"{name}.csv")
    return tmp_path


def test_test_and_validation_files(parts):
    train, val, test = (parts / f"{name}.csv" for name in ("train", "val", "test"))

    def sizes(**how):
        data = loaded(train, **how)
        return len(data.X_train), len(data.X_val), len(data.X_test)

    assert sizes(test=test, validation=val) == (120, 40, 40)
    assert sizes(test=test) == (90, 30, 40)
    assert sizes(test=test, hold_out=False) == (120, 0, 40)
    assert sizes(validation=val) == (96, 40, 24)
    assert sizes() == (72, 24, 24)
    data = loaded(train, test=test)
    assert list(data.X_test.columns) == list(data.X_train.columns)
    assert list(data.X_test.index) == list(range(40))
    assert data.X_test["ref"].tolist() == [f"A{k}" for k in range(160, 200)]


@pytest.mark.parametrize("model", [LOGISTIC, NETWORK])
def test_an_audit_of_people_in_a_file_of_their_own_replays(capsys, parts, model):
    files = ["--test", parts / "test.csv", *(["--set", f"validation={parts}/val.csv"] if model is NETWORK else [])]
    options = [*model, *files, "--budget", "8", "--cases", "0:6", "--psi", "everything"]
    record, said = audited(capsys, parts / "train.csv", *options)
    assert "120 training rows" in said
    assert "of 40 test people" in said
    assert "validation rows of the split" not in said
    assert record["people"][0]["values"]["income"] == pytest.approx(holed(200)["income"][160])
    again(capsys, record, parts)


def test_files_that_do_not_go_together_are_refused(parts):
    train, test = parts / "train.csv", pd.read_csv(parts / "test.csv")

    def refusal(table, **how) -> str:
        saved(table, parts / "other.csv")
        with pytest.raises(TableError) as caught:
            loaded(train, test=parts / "other.csv", **how)
        return str(caught.value)

    assert "other.csv' lacks column 'job'" in refusal(test.drop(columns="job"))
    assert "other.csv' has besides column 'shoe'" in refusal(test.assign(shoe=1))
    said = "other.csv' differs from the training file: Column 'income', row 0 (and 39 more rows) holds 'lots'"
    assert said in refusal(test.assign(income="lots"))
    assert "No training row has the label 'granted = perhaps'" in refusal(test.assign(granted="perhaps"))
    assert "no rows that can be used" in refusal(test.assign(granted=None))
    assert "no rows that can be used" in refusal(test.head(0))
    with pytest.raises(TableError, match=r"There is no file '.*nosuch.csv'"):
        loaded(train, test=parts / "nosuch.csv")


def test_truth_values_with_holes_in_one_file(parts):
    train, test = pd.read_csv(parts / "train.csv"), pd.read_csv(parts / "test.csv")
    saved(train.assign(member=[True, False] * 60), parts / "train.csv")
    saved(test.assign(member=[True, None] * 20), parts / "test.csv")
    data = loaded(parts / "train.csv", test=parts / "test.csv")
    assert data.X_test["member"].isna().sum() == 20
    encoder = butfor.TableEncoder().fit(data.X_train[["member"]])
    assert encoder.transform(data.X_test[["member"]])[:2].tolist() == [[0, 1], [0, 0]]


def test_codes_that_look_like_numbers_in_one_file(parts):
    train, test = pd.read_csv(parts / "train.csv"), pd.read_csv(parts / "test.csv")
    saved(train.assign(job=["7", "x"] * 60), parts / "train.csv")
    saved(test.assign(job=[7, None] * 20), parts / "test.csv")
    data = loaded(parts / "train.csv", test=parts / "test.csv")
    assert data.X_test["job"].dropna().unique().tolist() == ["7"]


# --- identifiers, kept columns, adverse decisions --------------------------------------------------------


def test_an_identifier_names_the_rows(capsys, tmp_path):
    path = saved(applicants(), tmp_path / "t.csv")
    columns = ("--label", "granted", "--sensitive", "sex", "--id", "ref")
    options = [*LOGISTIC, "--budget", "8", "--psi", "everything"]
    record, _ = audited(capsys, path, *options, columns=columns)
    for person in record["people"]:
        assert applicants().set_index("ref").loc[person["row"], "income"] == person["values"]["income"]
        assert "ref" not in person["values"]
    again(capsys, record, tmp_path)
    assert run(capsys, path, *options, "--out", tmp_path / "out", "--quiet", columns=columns)[0] == 0
    assert list(pd.read_csv(tmp_path / "out" / "people.csv")["row"]) == [p["row"] for p in record["people"]]
    assert set(pd.read_csv(tmp_path / "out" / "keystones.csv")["row"]) <= set(applicants()["ref"])


def test_an_identifier_must_be_one(tmp_path):
    table = applicants()
    saved(table.assign(ref=table["ref"].where(table.index != 5, "A4")), tmp_path / "twice.csv")
    with pytest.raises(TableError, match="--id 'ref': 'A4' occurs 2 times"):
        loaded(tmp_path / "twice.csv", identifier="ref")
    saved(table.assign(ref=table["ref"].where(table.index != 5)), tmp_path / "holed.csv")
    with pytest.raises(TableError, match="Column 'ref', row 5 is missing a value"):
        loaded(tmp_path / "holed.csv", identifier="ref")
    with pytest.raises(TableError, match="--id: there is no column 'reference'"):
        loaded(tmp_path / "holed.csv", identifier="reference")
    saved(table, tmp_path / "t.csv")
    with pytest.raises(TableError, match="--id 'ref': 'A0' occurs 2 times"):
        loaded(tmp_path / "t.csv", test=tmp_path / "t.csv", identifier="ref")


def test_kept_columns_are_shown_and_not_learned_from(capsys, tmp_path):
    path = saved(applicants().assign(status="new"), tmp_path / "t.csv")
    columns = ("--label", "granted", "--sensitive", "sex", "--set", "keep=ref,status")
    record, _ = audited(capsys, path, *LOGISTIC, "--budget", "8", "--psi", "everything", columns=columns)
    assert set(record["people"][0]["values"]) == {"income", "job", "sex"}
    again(capsys, record, tmp_path)
    assert run(capsys, path, *LOGISTIC, "--out", tmp_path / "out", "--quiet", columns=columns)[0] == 0
    people = pd.read_csv(tmp_path / "out" / "people.csv")
    assert people["ref"].tolist() == [f"A{row}" for row in people["row"]]
    assert people["status (kept)"].tolist() == ["new"] * 6
    with pytest.raises(TableError, match="--keep: there is no column 'shoe'"):
        loaded(path, keep=["shoe"])


def test_only_those_with_the_adverse_decision(capsys, tmp_path):
    path = saved(applicants(), tmp_path / "t.csv")
    options = [*LOGISTIC, "--cases", "0:12", "--budget", "6", "--psi", "everything"]
    record, _ = audited(capsys, path, *options, "--adverse", "no")
    assert record["run"]["phi"] == "stable_under_switch & predicted('granted = no')"
    asked = {v.prediction for v in Population.from_dict(record).eligible}
    assert asked == {"granted = no"}
    again(capsys, record, tmp_path)
    record, _ = audited(capsys, path, *options, "--adverse", "no", "--phi", "everyone | in_group(sex, f)")
    assert record["run"]["phi"] == "everyone | in_group(sex, f)"
    code, _, err = run(capsys, path, *options, "--adverse", "perhaps", "--quiet")
    assert code == 2
    assert "--adverse: there is no label 'perhaps'. The labels are 'no', 'yes'." in err


def test_where_an_adverse_decision_is_named_standards_are_compared(capsys, tmp_path, all_draws):
    path = saved(applicants(), tmp_path / "t.csv")
    record, _ = audited(capsys, path, *LOGISTIC, "--adverse", "no", "--cases", "0:2")
    assert record["run"]["standard"]["draws"] == 99
    rows = {group["group"]: group["rows"] for group in record["run"]["standard"]["comparisons"]}
    assert rows == dict(applicants()["sex"].value_counts())  # of all labelled rows
    assert all(group["interval"] for group in record["run"]["standard"]["comparisons"])


def test_embedded_sets_have_their_own_rows():
    for option in ({"test": "x.csv"}, {"identifier": "age"}, {"keep": ["age"]}):
        with pytest.raises(SettingError, match=r"leave out --(test|id|keep)"):
            load_table("german", **option)
    with pytest.raises(SettingError, match="--missing guess is not one of own, refuse, drop"):
        load_table("german", missing="guess")


def test_records_without_the_new_words_still_load(tmp_path):
    path = saved(applicants(), tmp_path / "t.csv")
    old = {"label": "granted", "sensitive": "sex", "drop": ["ref"], "split_seed": 0}
    data = load_table(path, **old)
    assert load_table(path, **old | {"missing": "own"}).X_train.equals(data.X_train)
    pd.testing.assert_frame_equal(data.X_train, pd.read_csv(path)[["income", "job", "sex"]].loc[data.X_train.index])


def test_a_file_without_names_is_refused(tmp_path, capsys):
    rng = np.random.default_rng(0)
    people = zip(rng.normal(0, 1, 90), rng.choice(["f", "m"], 90), strict=True)
    lines = [f"{a:.2f}, Not in universe, {s}, Not in universe, {'yes' if a > 0 else 'no'}" for a, s in people]
    (tmp_path / "bare.csv").write_text("\n".join(lines))
    assert main(["check-table", str(tmp_path / "bare.csv"), "--label", "label", "--sensitive", "sex"]) == 2
    assert "If the first line is data, write a line of names above it." in capsys.readouterr().err

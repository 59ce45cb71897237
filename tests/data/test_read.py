"""Files as people have them become the table that was meant, and a note says how they were read."""

import gzip
import importlib.util
import io
import json
import sys
import zipfile

import numpy as np
import pandas as pd
import pytest

from applicants import LOGISTIC, applicants, audited, comes_again, loaded, saved
from butfor.cli import main
from butfor.data.read import read_file
from butfor.errors import TableError


@pytest.mark.parametrize("separator", [",", ";", "\t"])
@pytest.mark.parametrize(
    ("encoding", "said"), [("utf-8", ""), ("utf-8-sig", ""), ("utf-16", "as utf-16"), ("latin-1", "as cp1252")]
)
def test_encodings_and_separators(tmp_path, encoding, said, separator):
    table = applicants().rename(columns={"job": "métier, as of 1, 2, 3, 4, 5; 6 years ago"})
    notes = []
    path = saved(table, tmp_path / "t.csv", sep=separator, encoding=encoding, quoting=1)
    pd.testing.assert_frame_equal(read_file(path, notes.append), table)
    assert len(notes) == bool(said)
    assert all(said in note for note in notes)


def test_blank_lines_quotes_and_a_first_column_without_a_name_are_no_trouble(tmp_path):
    table = applicants().assign(job=lambda t: t["job"] + ', "head"\nof staff')
    text = table.to_csv(index=False).replace("\nA7,", "\n\nA7,").replace("\nA9,", "\n  \nA9,")
    (tmp_path / "t.csv").write_text(text + "\n\n")
    pd.testing.assert_frame_equal(read_file(tmp_path / "t.csv"), table)
    notes = []
    table.to_csv(tmp_path / "t.csv")
    assert read_file(tmp_path / "t.csv", notes.append).columns[0] == "Unnamed: 0"
    assert "has no name" in notes[0]


def test_packed_text_and_standard_input(capsys, tmp_path, monkeypatch):
    table = applicants()
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(table.to_csv(index=False).encode()))
    pd.testing.assert_frame_equal(read_file(tmp_path / "t.csv.gz"), table)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(table.to_csv(index=False).encode())))
    record, said = audited(capsys, "-", *LOGISTIC)
    assert "standard input: 72 training rows" in said
    assert record["run"]["data"]["table"] is None
    assert record["run"]["not_rebuildable"] == ["data: the table came from standard input"]
    (tmp_path / "audit.json").write_text(json.dumps(record))
    assert main(["replay", str(tmp_path / "audit.json"), "--data", str(tmp_path / "t.csv.gz")]) == 0


def test_feather_and_parquet_with_types_of_their_own(capsys, tmp_path):
    table = applicants().assign(
        debts=pd.array([None, *range(119)], dtype="Int64"), member=pd.array([True, None] * 60, dtype="boolean"),
        visits=pd.array(range(120), dtype="Int64"), owner=pd.array([True, False] * 60, dtype="boolean"),
        job=lambda t: t["job"].astype("category"),
    )  # fmt: skip
    table.to_feather(tmp_path / "t.feather")
    table.to_parquet(tmp_path / "t.parquet")
    frame = read_file(tmp_path / "t.feather")
    pd.testing.assert_frame_equal(frame, read_file(tmp_path / "t.parquet"))
    assert [str(frame[c].dtype) for c in ("debts", "member", "visits", "owner")] == [
        "float64",
        "object",
        "int64",
        "bool",
    ]
    record, said = audited(capsys, tmp_path / "t.parquet", *LOGISTIC)
    data = loaded(tmp_path / "t.parquet")
    assert f"'member' in {pd.concat([data.X_train, data.X_test])['member'].isna().sum()} rows" in said
    comes_again(capsys, record, tmp_path)


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


@pytest.mark.parametrize(("name", "package"), [("t.xlsx", "openpyxl"), ("t.feather", "pyarrow")])
def test_a_reader_that_is_not_installed_is_named_with_its_pip_line(tmp_path, monkeypatch, name, package):
    monkeypatch.setitem(sys.modules, package, None)
    with zipfile.ZipFile(tmp_path / name, "w") as book:  # what an Excel file is
        book.writestr("xl/workbook.xml", "<workbook/>")
    with pytest.raises(TableError, match=r'pip install "butfor\[(excel|parquet)\]"'):
        read_file(tmp_path / name)


def test_dates_become_days_and_are_shown_as_dates(capsys, tmp_path):
    days = pd.date_range("2019-12-30", periods=120)
    table = applicants().assign(born=days.strftime("%Y-%m-%d"), seen=days.strftime("%Y-%m-%d 12:00"), odd="2024-02-30")
    table.loc[0, "seen"] = None
    notes = []
    data = loaded(saved(table, tmp_path / "t.csv"), note=notes.append)
    assert notes == [f"Column '{c}' holds dates: they count as days since 1970-01-01." for c in ("born", "seen")]
    assert data.dates == ("born", "seen")
    rows = pd.concat([data.X_train, data.X_val, data.X_test]).sort_index()
    assert rows["born"].tolist() == list(range(18260, 18380))
    assert (rows["seen"].iloc[1], rows["odd"].iloc[0]) == (18261.5, "2024-02-30")
    assert np.isnan(rows["seen"].iloc[0])
    table.assign(seen=days, odd=days.date).to_parquet(tmp_path / "t.parquet")
    typed = loaded(tmp_path / "t.parquet").X_train
    assert typed["odd"].tolist() == typed["born"].tolist() == typed["seen"].tolist()
    record, _ = audited(capsys, tmp_path / "t.csv", *LOGISTIC, "--adverse", "no")
    comes_again(capsys, record, tmp_path)
    assert main(["review", str(tmp_path / "audit.json"), "--out", str(tmp_path / "tasks"), "--anyway"]) == 0
    tasks = pd.read_csv(tmp_path / "tasks" / "tasks.csv")
    assert tasks["born"].str.fullmatch(r"20[12]\d-\d\d-\d\d").all()
    assert tasks["seen"].dropna().str.fullmatch(r"20[12]\d-\d\d-\d\d 12:00:00").all()

"""Files as people have them become the table that was meant, with a note on how they were read."""

import decimal
import gzip
import importlib.util
import io
import json
import sys
import zipfile

import numpy as np
import pandas as pd
import pytest

from applicants import COLUMNS, LOGISTIC, applicants, loaded, saved
from butfor.cli import main
from butfor.errors import TableError
from butfor.table.reading import read_file
from recorded import run


@pytest.mark.parametrize(
    ("encoding", "separator", "said"),
    [
        ("utf-8", ",", ""),
        ("utf-8-sig", ";", ""),
        ("utf-16", "\t", "as utf-16"),
        ("latin-1", ";", "as cp1252"),
    ],
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
    table.rename(columns="{}  ".format).to_csv(tmp_path / "t.csv", index=False)
    pd.testing.assert_frame_equal(read_file(tmp_path / "t.csv"), table)
    for separator in ";,\t":  # as Excel may begin a file
        (tmp_path / "t.csv").write_text(
            f"sep={separator}\n{table.to_csv(index=False, sep=separator)}"
        )
        with pytest.raises(TableError, match="its first line names only 'sep='"):
            read_file(tmp_path / "t.csv")
    assert "1 column without a name, called 'Unnamed: 0'" in notes[0]


def test_packed_text_and_standard_input(capsys, tmp_path, monkeypatch):
    table = applicants()
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(table.to_csv(index=False).encode()))
    pd.testing.assert_frame_equal(read_file(tmp_path / "t.csv.gz"), table)
    monkeypatch.setattr(
        sys, "stdin", io.TextIOWrapper(io.BytesIO(table.to_csv(index=False).encode()))
    )
    code, _, said = run(capsys, "audit", "-", *COLUMNS, *LOGISTIC, "--out", tmp_path / "out")
    assert code == 0
    assert "standard input: 72 training rows" in " ".join(said.split())
    record = json.loads((tmp_path / "out" / "audit.json").read_text())["run"]
    assert record["data"]["table"] is None
    assert record["not_rebuildable"] == ["data: the table came from standard input"]
    assert (
        main(["replay", str(tmp_path / "out" / "audit.json"), "--data", str(tmp_path / "t.csv.gz")])
        == 0
    )


def test_types_of_other_formats_and_dates_as_days_that_are_shown_as_dates(capsys, tmp_path):
    days = pd.date_range("2019-12-30", periods=120)
    table = applicants().assign(
        debts=pd.array([None, *range(119)], dtype="Int64"), member=pd.array([True, None] * 60, dtype="boolean"),
        visits=pd.array(range(120), dtype="Int64"), owner=pd.array([True, False] * 60, dtype="boolean"),
        job=lambda t: t["job"].astype("category"), born=days.strftime("%Y-%m-%d"), odd="2024-02-30",
        seen=(days + pd.Timedelta(hours=12)).where(days > days[0]), made=days.date,
        rate=[None, *(decimal.Decimal(k) / 4 for k in range(119))],
    )  # fmt: skip
    table.to_feather(tmp_path / "t.feather")
    table.to_parquet(tmp_path / "t.parquet")
    frame, notes = read_file(tmp_path / "t.feather"), []
    pd.testing.assert_frame_equal(frame, read_file(tmp_path / "t.parquet"))
    table.set_index("ref").to_parquet(tmp_path / "named.parquet")
    pd.testing.assert_frame_equal(frame, read_file(tmp_path / "named.parquet"))
    dtypes = [str(frame[c].dtype) for c in ("debts", "member", "visits", "owner")]
    assert dtypes == ["float64", "object", "int64", "bool"]
    for path in (tmp_path / "t.parquet", saved(table, tmp_path / "t.csv")):
        data = loaded(path, note=notes.append)
        rows = pd.concat([data.X_train, data.X_val, data.X_test]).sort_index()
        assert rows["born"].tolist() == rows["made"].tolist() == list(range(18260, 18380))
        assert (rows["seen"].iloc[1], rows["odd"].iloc[0]) == (18261.5, "2024-02-30")
        assert np.isnan(rows["seen"].iloc[0])
        assert data.dates == ("born", "seen", "made")
    assert (
        sum(note.endswith("holds dates: they count as days since 1970-01-01.") for note in notes)
        == 6
    )
    out = tmp_path / "out"
    code, _, said = run(
        capsys,
        "audit",
        tmp_path / "t.parquet",
        *COLUMNS,
        *LOGISTIC,
        "--adverse",
        "no",
        "--out",
        out,
    )
    assert code == 0
    assert "'member' in " in said
    assert "Column 'rate' holds" in " ".join(said.split())
    assert main(["replay", str(out / "audit.json")]) == 0
    assert "0 of 0" not in capsys.readouterr().out
    assert (
        main(["review", str(out / "audit.json"), "--out", str(tmp_path / "tasks"), "--anyway"]) == 0
    )
    tasks = pd.read_csv(tmp_path / "tasks" / "tasks.csv")
    assert tasks["born"].str.fullmatch(r"20[12]\d-\d\d-\d\d").all()
    assert tasks["seen"].dropna().str.fullmatch(r"20[12]\d-\d\d-\d\d 12:00:00").all()


@pytest.mark.skipif(importlib.util.find_spec("openpyxl") is None, reason="openpyxl is an extra")
def test_excel(tmp_path):
    table, notes = applicants(), []
    with pd.ExcelWriter(tmp_path / "t.xlsx") as book:
        table.to_excel(book, sheet_name="people", index=False)
        table.head(3).to_excel(book, sheet_name="more", index=False)
    pd.testing.assert_frame_equal(read_file(tmp_path / "t.xlsx", notes.append), table)
    assert "sheet 'people', the first of 2" in notes[0]
    table.to_excel(tmp_path / "t.xlsx")
    assert read_file(tmp_path / "t.xlsx", notes.append).columns[0] == "Unnamed: 0"
    assert "1 column without a name, called 'Unnamed: 0'" in notes[1]
    table.to_excel(tmp_path / "t.xlsx", startrow=1)
    with pytest.raises(TableError, match="its first line names no column"):
        read_file(tmp_path / "t.xlsx")
    pd.DataFrame([["a", "a"], [1, 2]]).to_excel(tmp_path / "twice.xlsx", index=False, header=False)
    with pytest.raises(TableError, match="names column 'a' more than once"):
        read_file(tmp_path / "twice.xlsx")


@pytest.mark.parametrize(("name", "package"), [("t.xlsx", "openpyxl"), ("t.feather", "pyarrow")])
def test_a_reader_that_is_not_installed_is_named_with_its_pip_line(
    tmp_path, monkeypatch, name, package
):
    monkeypatch.setitem(sys.modules, package, None)
    with zipfile.ZipFile(tmp_path / name, "w") as book:  # what an Excel file is
        book.writestr("xl/workbook.xml", "<workbook/>")
    with pytest.raises(TableError, match=r'pip install "butfor\[(excel|parquet)\]"'):
        read_file(tmp_path / name)

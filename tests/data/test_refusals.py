"""Tables that cannot be used are refused in one sentence that names the column, the row and the remedy."""

import numpy as np
import pandas as pd
import pytest

from applicants import applicants, holed
from recorded import run

TEXT = applicants().to_csv(index=False).splitlines()
T = applicants()
# Files by name: text, bytes or a table.
FILES = {
    "t": T,
    "holed": holed(),
    "few": T.head(19),
    "shifted": [TEXT[0], *(f"9,{line}" for line in TEXT[1:])],
    "short line": [*TEXT[:9], "A8,55.0", *TEXT[9:]],
    "unclosed": [*TEXT[:5], TEXT[5].replace("A4", '"A4'), *TEXT[6:]],
    "closed late": [*TEXT[:5], TEXT[5].replace("A4", '"A4'), TEXT[6], TEXT[7].replace("A6", 'A6"'), *TEXT[8:]],
    "twice": [TEXT[0].replace("job", "sex"), *TEXT[1:]],
    "header": TEXT[:1],
    "no header": [f"{k % 7}.5, Not in universe, f, Not in universe, yes" for k in range(90)],
    "half utf-16": b"\xff\xfe\x00\xd8\x00",
    "lone label": T.assign(granted=T["granted"].where(T.index != 3, "perhaps")),
    "numbers": T.assign(granted=T.index),
    "twins": T.assign(ref=T["ref"].where(T.index != 5, "A4")),
    "no id": T.assign(ref=T["ref"].where(T.index != 5)),
    "many groups": T.assign(sex=T["ref"].str[-2:]),
    "enormous": T.assign(income=T["income"].where(T.index != 3, 1e200)),
    "family": T.assign(home=T.index % 12, weight=1.0),
    "joined": T.assign(sex=np.where(T.index % 3, "a", "a · b"), job=np.where(T.index % 2, "b · c", "c")),
    "other/no job": T.drop(columns="job"),
    "other/shoe": T.assign(shoe=1),
    "other/text": T.assign(income="lots"),
    "other/label": T.assign(granted="perhaps"),
    "other/unlabelled": T.assign(granted=None),
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("tables")
    (made / "other").mkdir()
    for name, content in FILES.items():
        if isinstance(content, pd.DataFrame):
            content = content.to_csv(index=False).encode()
        elif isinstance(content, list):
            content = "\n".join(content).encode()
        (made / f"{name}.csv").write_bytes(content)
    (made / "fake.xlsx").write_text("no workbook")
    return made


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("shifted", "", "Line 2 of 'shifted.csv' has 6 values, but the header names 5"),
        ("short line", "", "Line 10 of 'short line.csv' has 2 values, but the header names 5"),
        ("unclosed", "", "the quotation mark in line 6 is never closed"),
        ("closed late", "", "A quotation mark in line 6 of 'closed late.csv' is closed only in line 8"),
        ("twice", "", "names column 'sex' more than once"),
        ("header", "", "The table has no rows"),
        ("no header", "", "If the first line is data, write a line of names above it."),
        ("half utf-16", "", "cannot be read as a table"),
        ("fake.xlsx", "", "cannot be read as a table"),
        ("few", "", "The table has 19 rows; at least 20 are needed"),
        ("holed", "--missing refuse", "Column 'income', row |Column 'job', row |Column 'sex', row |--missing drop"),
        ("lone label", "", "'perhaps' occurs in one row only"),
        ("numbers", "", 'granted >= '),
        ("t", "--id reference", "there is no column 'reference'"),
        ("twins", "--id ref", "'A4' occurs 2 times"),
        ("no id", "--id ref", "Column 'ref', row 5 is missing a value"),
        ("t", "--drop ref,income,job,sex", "leaves no column to learn from"),
        ("family", "--cluster home", "The table has 12 clusters; at least 20"),
        ("many groups", "", "different values, too many for a protected attribute"),
        ("joined", "--sensitive sex,job", "two groups would have the same name"),
        ("enormous", "", "too large to compute with"),
        ("t", "--test|other/no job.csv", "other/no job.csv' lacks column 'job'"),
        ("t", "--test|other/shoe.csv", "other/shoe.csv' has besides column 'shoe'"),
        ("t", "--test|other/text.csv", "differs from the training file: Column 'income', row 0 (and 119 more rows)"),
        ("t", "--test|other/label.csv", "No training row has the label 'granted = perhaps'"),
        ("t", "--test|other/unlabelled.csv", "no rows that can be used"),
        ("t", "--test nosuch.csv", "There is no file 'nosuch.csv'"),
        ("german", "--id age --test t.csv", "leave out --test and --id"),
        ("german", "--drop sex,age --sensitive sex,job", "drop all of the protected columns or none"),
        ("german", "--sensitive sexx", "Did you mean 'sex'?"),
    ],
)  # fmt: skip
def test_one_sentence_and_nothing_else(capsys, folder, monkeypatch, name, options, said):
    monkeypatch.chdir(folder)
    own = () if name == "german" else ("--label", "granted", "--sensitive", "sex")
    where = f"{name}.csv" if name in FILES else name
    code, out, err = run(capsys, "check-table", where, *own, *options.split("|" if "|" in options else None))
    assert (code, out) == (2, "")
    for words in said.split("|"):
        assert words in err
    assert len(err.strip().splitlines()) == 1

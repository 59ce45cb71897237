"""Tables with the faults of real ones (the Boston mortgage file, the KDD census), audited from the command line as they
are: no code, no cleaning."""

import json

import numpy as np
import pandas as pd
import pytest

from butfor.cli import main
from butfor.data.check import check_table
from butfor.data.table import load_table

COLUMNS = ("--label", "zugesagt", "--sensitive", "race", "--id", "Antrag")
CHEAP = ("--fresh-seeds", "0", "--budget", "3", "--cases", "0:8", "--psi", "everything")


def mortgages(rows: int = 260) -> pd.DataFrame:
    """Codes for "not available" among the numbers (999999.4, 666), holes, 0/1 columns with gaps, a number of the row, a
    wide category, one value once, dates, a column that says what was decided, empty and constant ones."""
    rng = np.random.default_rng(4)
    income, debt = rng.lognormal(4, 0.5, rows).round(1), rng.integers(5, 70, rows).astype(float)
    race = rng.choice(["white", "black", "hispanic"], rows, p=[0.7, 0.2, 0.1]).astype(object)
    good = 0.03 * (income - 55) - 0.05 * (debt - 40) + rng.normal(0, 0.8, rows) > -0.4
    table = pd.DataFrame(
        {
            "Antrag": [f"M-{k:05d}" for k in range(rows)],
            "income": income,
            "liquid": np.where(rng.random(rows) < 0.02, 999999.4, (income * 3).round()),
            "guide": np.where(rng.random(rows) < 0.03, 666, rng.integers(0, 2, rows)),
            "debt": debt,
            "terms": rng.choice([180.0, 240.0, 360.0], rows),
            "married": rng.choice([0.0, 1.0], rows),
            "race": race,
            "Straße": [f"Weg {k}" for k in rng.integers(0, 110, rows)],
            "filed": pd.Timestamp("1990-01-01") + pd.to_timedelta(rng.integers(0, 700, rows), unit="D"),
            "lawyer": "no",
            "note": np.nan,
            "letter": np.where(good, "sent", "refusal sent"),
            "zugesagt": np.where(good, "ja", "nein"),
        }
    )
    for column in ("income", "terms", "married", "race", "Straße"):
        table[column] = table[column].where(rng.random(rows) > 0.04)
    table.loc[7, "zugesagt"] = None
    table["lawyer"] = table["lawyer"].astype(object)
    return table


def census(rows: int = 600) -> pd.DataFrame:
    """Many wide categories, "?" for what is not known, numbers that are 0 for nearly everyone, rows that are equal."""
    rng = np.random.default_rng(5)
    age = rng.integers(0, 90, rows)
    worker = age > 15
    table = pd.DataFrame({"age": age, "sex": rng.choice([" Male", " Female"], rows)})
    for k in range(12):
        values = np.array(["Not in universe", *(f"{k}-{j}" for j in range(10 + 8 * k))])
        table[f"c{k}"] = values[np.where(worker, rng.integers(0, len(values), rows), 0)]
    table["migration"] = np.where(rng.random(rows) < 0.5, "?", "Nonmover")
    table["gain"] = np.where(rng.random(rows) < 0.04, rng.integers(100, 9999, rows), 0)
    rich = worker & (0.03 * (age - 40) + 0.0004 * table["gain"] + rng.normal(0, 1, rows) > 1)
    return table.assign(income=np.where(rich, "50000+.", "- 50000."))


@pytest.mark.parametrize(
    ("how", "model"),
    [
        ({"encoding": "utf-8-sig"}, "logistic"),
        ({"encoding": "utf-16"}, "knn"),
        ({"encoding": "latin-1", "sep": ";"}, "logistic"),
    ],
)
def test_a_mortgage_file_as_it_comes(capsys, tmp_path, how, model):
    mortgages().to_csv(tmp_path / "raw.csv", index=False, **how)
    out = tmp_path / "out"
    options = [
        *COLUMNS,
        *CHEAP,
        "--model",
        model,
        "--adverse",
        "nein",
        "--set",
        "max-retrainings=40",
        "--out",
        str(out),
    ]
    assert main(["audit", str(tmp_path / "raw.csv"), *options]) == 0
    said = " ".join(capsys.readouterr().err.split())
    for line in (
        "Column 'letter' is a copy of the label",
        "Column 'liquid' holds 999999.4 in",
        "Column 'guide' holds 666 in",
        "Column 'lawyer' has the same value",
        "Column 'note' has no value",
        "Column 'filed' holds dates",
        "1 row without a label in 'zugesagt' left out.",
        "Missing values: ",
        "Values that no training row has: 'Straße' in ",
    ):
        assert line in said, line
    record = json.loads((out / "audit.json").read_text())
    assert {person["row"][:2] for person in record["people"]} == {"M-"}
    assert "1 row without a label in 'zugesagt' left out." in record["run"]["remarks"]
    kinds = [concern["kind"] for concern in record["run"]["concerns"]]
    assert sorted(kinds) == ["constant", "constant", "copy", "sentinel", "sentinel"]
    assert main(["replay", str(out / "audit.json")]) == 0


def test_the_same_file_cleaned_passes_a_strict_look(capsys, tmp_path):
    table = mortgages().drop(columns=["letter", "lawyer", "note"])
    table["liquid"] = table["liquid"].where(table["liquid"] < 999999)
    table["guide"] = table["guide"].where(table["guide"] < 666)
    table.to_csv(tmp_path / "clean.csv", index=False)
    assert main(["check-table", str(tmp_path / "clean.csv"), *COLUMNS, "--strict"]) == 0
    mortgages().to_csv(tmp_path / "raw.csv", index=False)
    assert main(["check-table", str(tmp_path / "raw.csv"), *COLUMNS, "--strict"]) == 2


def test_a_census_as_it_comes(capsys, tmp_path):
    census().to_csv(tmp_path / "census.csv", index=False)
    out = tmp_path / "out"
    where = [str(tmp_path / "census.csv"), "--label", "income", "--sensitive", "age", "--set", "max-categories=20"]
    assert main(["audit", *where, *CHEAP, "--model", "logistic", "--out", str(out)]) == 0
    said = " ".join(capsys.readouterr().err.split())
    assert "'age' is a number, cut into bands" in said
    assert "'c11' has " in said
    record = json.loads((out / "audit.json").read_text())
    assert [c["kind"] for c in record["run"]["concerns"] if c["kind"] != "majority"] == []
    assert main(["replay", str(out / "audit.json")]) == 0


def test_rows_that_are_equal_by_nature_are_no_leak(tmp_path):
    """Children have nothing but an age and a sex in a census: hundreds are equal."""
    census(3000).to_csv(tmp_path / "census.csv", index=False)
    data = load_table(tmp_path / "census.csv", label="income", sensitive="sex")
    twins = data.X_test.merge(data.X_train.drop_duplicates(), how="inner")
    assert len(twins) > 0.05 * len(data.X_test)
    assert check_table(data.X_train, data.y_train, data.X_test) == []

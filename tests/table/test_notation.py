"""Numbers and dates in other notations: recognised with the option that reads them, and read with
it."""

import numpy as np
import pandas as pd
import pytest

import butfor
from butfor.table.notation import (
    date_of_text,
    number_of,
    read_notation,
    unread,
)
from butfor.table.reading import load_table, read_file
from hostile.harness import attempt

NUMBERS = [  # with a comma, with a point
    ("1.234,50", 1234.5, None),
    ("1,234.50", None, 1234.5),
    ("1.234", 1234.0, 1.234),
    ("1,234", 1.234, 1234.0),
    ("12,5 %", 12.5, None),
    ("3 000 €", 3000.0, 3000.0),
    ("€ 3'000", 3000.0, 3000.0),
    ("-1.000.000,5", -1000000.5, None),
    ("\u2212\u00a05", -5.0, -5.0),
    ("1.5.2024", None, None),
    ("1.23.456", None, None),
    ("k.A.", None, None),
    ("", None, None),
]
DATES = [
    ("29.02.2024", "2024-02-29"),
    ("1/2/24", "2024-02-01"),
    ("31-12-99", "1999-12-31"),
    ("29.02.2024 14:30", "2024-02-29 14:30"),
    ("29.02.2023", None),
    ("2/29/2024", None),
    ("1.2/2024", None),
]
ROWS = 60


def german(rows: int = ROWS) -> pd.DataFrame:
    """Applications as a German spreadsheet has them, and a text of the clerk's."""
    rng = np.random.default_rng(0)
    income = rng.normal(3000, 800, rows).clip(1001).round(2)
    sex = np.resize(["m", "w"], rows)
    applied = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 365, rows), unit="D")
    return pd.DataFrame(
        {
            "einkommen": [
                f"{v:,.2f}".replace(",", "X").replace(".", ",").replace("X", ".") for v in income
            ],
            "antrag": applied.strftime("%d.%m.%Y"),
            "kinder": rng.integers(0, 4, rows),
            "geschlecht": sex,
            "bewilligt": np.where(income > 3000, "ja", "nein"),
        }
    )


COLUMNS = ("--label", "bewilligt", "--sensitive", "geschlecht")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("tables")
    table = german()
    table.to_csv(made / "de.csv", sep=";", index=False)
    table.to_excel(made / "de.xlsx", index=False)
    table.loc[:8, "einkommen"] = ["k.A."] * 6 + ["unbekannt"] * 2 + ["?"]
    table.to_csv(made / "gaps.csv", sep=";", index=False)
    return made


def test_a_text_is_a_number_or_a_date_in_one_notation_alone():
    for text, comma, point in NUMBERS:
        assert (number_of(text, ","), number_of(text, ".")) == (comma, point), text
    for text, date in DATES:
        assert date_of_text(text) == date, text


def test_a_german_table_says_the_same_as_its_numbers_whether_csv_or_excel(folder):
    tables = [
        read_file(folder / name, decimal=",", day_first=True) for name in ("de.csv", "de.xlsx")
    ]
    for table in tables:
        assert table["einkommen"].dtype == np.float64
        assert table["kinder"].dtype == np.int64
        assert table["antrag"].str.fullmatch(r"2024-\d\d-\d\d").all()
        assert (table["einkommen"] > 3000).equals(table["bewilligt"] == "ja")
    pd.testing.assert_frame_equal(*tables)
    as_it_is = read_file(folder / "de.csv")
    assert not pd.api.types.is_numeric_dtype(as_it_is["einkommen"])
    half = read_notation(pd.DataFrame({"x": ["1,5", 2, 3.5, None]}), ",", False)["x"]
    assert half.tolist()[:3] == [1.5, 2, 3.5]
    assert read_notation(pd.DataFrame({"x": ["1,5", "k.A."]}), ",", True)["x"].tolist() == [
        "1,5",
        "k.A.",
    ]


RECOGNISED = [
    ([f"{k}.{k:03d},50" for k in range(1, 30)], "--decimal ,"),
    ([f"{k},{k:03d}.50" for k in range(1, 30)], "--decimal ."),
    ([f"{k},{k:03d}" for k in range(100, 130)], "--decimal , or --decimal ., whichever is meant,"),
    ([f"{k % 28 + 1}.{k % 12 + 1}.2024" for k in range(60)], "--day-first"),
    (
        [f"{k % 12 + 1}/{k + 13}/2024" for k in range(15)] * 2
        + [f"1/{k + 13}/2023" for k in range(15)],
        "Write numbers",
    ),
]


def test_the_sentence_names_the_options_that_read_the_column_and_counts_all_other_spellings():
    for texts, said in RECOGNISED:
        about = unread(pd.Series(texts))
        assert said in about.remedy, texts[0]
        assert not about.strange
    assert unread(pd.Series([f"A{k}" for k in range(40)])) is None
    about = unread(pd.Series([*RECOGNISED[0][0], *["k.A."] * 7, *["?"] * 2, "ca. 3000"]))
    assert (
        "3 spellings in 10 cells that are none: 'k.A.' in 7, '?' in 2, 'ca. 3000' in 1"
        in about.holds
    )
    few = pd.DataFrame({"x": [*map(str, range(40)), "?", "?", *[f"n/a {k}" for k in range(7)]]})
    said = [str(each) for each in butfor.check_table(few, np.arange(49) % 2)]
    assert any("8 spellings in 9 cells" in line and "and 3 more" in line for line in said), said


def test_until_the_option_is_given_nobody_is_called_comparable(folder):
    for name in ("de.csv", "de.xlsx"):
        ending = attempt(
            "standard", folder / name, *COLUMNS, "--adverse", "nein", "--draws", 0, "--quiet"
        )
        assert (
            ending.code,
            "Give --day-first and --decimal , to have them read." in ending.err,
        ) == (2, True)
    ending = attempt(
        "standard",
        folder / "gaps.csv",
        *COLUMNS,
        "--adverse",
        "nein",
        "--draws",
        0,
        "--drop",
        "antrag",
    )
    assert (
        "3 spellings in 9 cells that are none: 'k.A.' in 6, 'unbekannt' in 2, '?' in 1"
        in ending.err
    )
    question = (
        *COLUMNS,
        "--adverse",
        "nein",
        "--model",
        "logistic",
        "--members",
        1,
        "--cases",
        "0:3",
    )
    ending = attempt("audit", folder / "de.csv", *question)
    assert "groups are not compared" in ending.err
    assert "comparable people" not in ending.out
    out = folder / "out"
    read = ("--decimal", ",", "--day-first")
    assert attempt("audit", folder / "de.csv", *question, *read, "--out", out, "--quiet").code == 0
    assert "butfor audit" in (record := (out / "audit.json").read_text())
    assert "--decimal , --day-first" in record
    assert attempt("replay", out / "audit.json").code == 0
    assert "day-first = true" in (out / "audit.toml").read_text()


def test_free_text_is_named_once(folder):
    table = german().assign(notiz=[f"hat seit {k} Jahren eine neue Arbeit" for k in range(ROWS)])
    table.to_csv(folder / "notes.csv", sep=";", index=False)
    read = (
        "--decimal",
        ",",
        "--day-first",
        "--model",
        "logistic",
        "--members",
        1,
        "--cases",
        "0:2",
    )
    ending = attempt("audit", folder / "notes.csv", *COLUMNS, *read)
    assert ending.code == 0
    assert ending.err.count("notiz") == 1, ending.err
    assert "Column 'notiz' holds free text" in ending.err


def test_options_of_notation_are_checked(folder):
    assert "'en'" in attempt("audit", folder / "de.csv", *COLUMNS, "--decimal", "en").err
    assert "leave out --decimal" in attempt("audit", "german", "--decimal", ",").err
    with pytest.raises(butfor.errors.SettingError, match="is neither ',' nor"):
        load_table(folder / "de.csv", label="bewilligt", sensitive="geschlecht", decimal=";")

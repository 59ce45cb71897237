"""Files that are no table, cells that are no single value and numbers of any size: they are refused
at once with their place, or mean what they say; nothing becomes a zero, a NaN or a merged value in
silence."""

import datetime
import gzip
import io
import itertools
import os
import re
import zipfile

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

import butfor
from butfor import TableEncoder
from butfor.table import reading as table
from hostile.harness import QUICK, attempt, audit, people, saved

STRANGE = {
    "lists": [[1, 2]] * 60,
    "structs": [{"a": 1}] * 60,
    "bytes": [b"\xff\x00"] * 60,
    "times": [datetime.time(k % 24) for k in range(60)],
    "durations": pd.to_timedelta(range(60), unit="h"),
}
FINE = {
    "moments": pd.date_range("2024-01-01", periods=60, tz="Europe/Berlin"),
    "texts": pd.array(["a", None] * 30, dtype="string"),
    "narrow": np.arange(60, dtype=np.int8),
    "half": np.arange(60, dtype=np.float16),
    "unsigned": np.arange(60, dtype=np.uint64),
}


def test_cells_that_are_no_single_value_are_refused_with_their_column_and_others_work(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    for name, values in STRANGE.items():
        people().assign(odd=values).to_parquet(tmp_path / "t.parquet")
        ending = audit(tmp_path / "t.parquet")
        assert (ending.code, "'odd'" in ending.err) == (2, True), name
    people().assign(**FINE).to_parquet(tmp_path / "t.parquet")
    ending = audit(tmp_path / "t.parquet")
    assert ending.code == 0
    assert set(FINE) <= set(ending.record["people"][0]["values"])
    for metadata in (b"", b"{", b"null", b'{"index_columns": ["gone"]}', b"\xff\xfe"):
        table = pa.Table.from_pandas(people()).replace_schema_metadata({b"pandas": metadata})
        pq.write_table(table, tmp_path / "t.parquet")
        assert audit(tmp_path / "t.parquet").code in (0, 2)


def test_damaged_files_of_arrow_are_refused_or_read_and_never_end_the_process(tmp_path):
    import pyarrow.feather as feather

    path, rng = tmp_path / "t.feather", np.random.default_rng(0)
    table = people(90).assign(
        kind=pd.Categorical(["a", "b"] * 45), day=pd.date_range("2024-01-01", periods=90)
    )
    feather.write_feather(table, path, compression="uncompressed")
    whole, refusals = path.read_bytes(), 0
    for places in rng.integers(8, len(whole) - 8, (40, 9)):
        damaged = bytearray(whole)
        for place in places:
            damaged[place] = rng.integers(256)
        path.write_bytes(damaged)
        ending = attempt("check-table", path, "--label", "granted", "--sensitive", "sex")
        refusals += ending.code == 2
    assert refusals > 20


half = np.float16
LABELS = {  # what is said of such labels, or nothing: they work
    "infinite, and a gap": ([np.inf, np.nan, *[0.0, 1.0] * 49], "The label of row 0 is infinite"),
    "half precision": (np.resize([0, 1], 100).astype(half), ""),
    "half precision with a gap": (np.array([np.nan, *[0, 1] * 49, 1], half), ""),
    "half precision as objects": (pd.Series([half(0), half(1)] * 50, dtype=object), ""),
    "structured": (
        np.array([(k % 2, 0.5) for k in range(100)], [("a", int), ("b", float)]),
        "structured array of 'a'",
    ),
    "structured as objects": (
        pd.Series([{"a": k % 2} for k in range(100)]),
        "The labels hold 'dict'",
    ),
    "bytes": (np.resize([b"a", b"b"], 100), "The labels hold '|S1'"),
    "lists of Arrow": ("list", "The labels hold 'list<"),
    "nothing": ([None] * 100, "All labels are missing"),
}
COLUMNS_OF = {
    "half precision as objects": (pd.Series(list(map(half, range(100))), dtype=object), ""),
    "lists of Arrow": ("list", "Column 'x' has type list<"),
    "structured as objects": (
        pd.Series(list(np.zeros(100, [("a", int)])), dtype=object),
        "Column 'x' holds 'void' instead of numbers or text",
    ),
    "bytes of numpy": (
        pd.Series([np.bytes_(b"a")] * 100, dtype=object),
        "Column 'x' holds 'bytes_'",
    ),
}


def test_labels_and_cells_of_any_type_work_or_are_named():
    import pyarrow as pa

    lists = pd.Series([[k % 2] for k in range(100)], dtype=pd.ArrowDtype(pa.list_(pa.int64())))
    table, usual = people(100), np.resize([0, 1], 100)
    cases = [("label", name, *row) for name, row in LABELS.items()]
    cases += [("column", name, *row) for name, row in COLUMNS_OF.items()]
    for where, name, values, said in cases:
        given = lists if isinstance(values, str) else values
        X = table[["x", "sex", "debts"]].assign(**({"x": given} if where == "column" else {}))
        y = given if where == "label" else usual
        bad = {"adverse": "1" if "gap" in name or where == "column" else "1.0"}
        audit = butfor.LabelAudit(LogisticRegression(), members=1, fresh_seeds=0, budget=2)
        doors = [
            lambda: audit.fit(X, y, sensitive_features="sex"),  # noqa: B023
            lambda: butfor.check_table(X, y),  # noqa: B023
            lambda: butfor.compare_standards(X, y, sensitive_features="sex", draws=0, **bad),  # noqa: B023
        ]
        for door in doors:
            if said:
                with pytest.raises(butfor.errors.TableError, match=re.escape(said)):
                    door()
            else:
                door()


def test_a_wide_table_and_a_long_label_are_refused_before_the_work(tmp_path):
    wide = pd.DataFrame([range(10_001)] * 3).rename(columns=lambda k: f"c{k}")
    ending = audit(saved(tmp_path, wide))
    assert (ending.code, "has 10001 columns, and at most 10000" in ending.err) == (2, True)
    for label in (
        f"{' ' * 20_000}x",
        f"x {'>' * 20_000}",
        f"x>={'1' * 20_000}x",
        f"{'>=1' * 7000}",
    ):
        ending = attempt(
            "audit", saved(tmp_path), "--label", label, "--sensitive", "sex", "--quiet", limit=20
        )
        assert (ending.code, len(ending.err) < 1100) == (2, True)
    assert (
        attempt(
            "audit", saved(tmp_path), "--label", "x >= 50", "--sensitive", "sex", *QUICK["logistic"]
        ).code
        == 0
    )
    empty = people().assign(granted=None)
    empty.to_excel(tmp_path / "empty.xlsx", index=False)
    for place in (tmp_path / "empty.xlsx", saved(tmp_path, empty)):
        assert "Column 'granted', the label, is empty in every row." in audit(place).err


NO_TABLES = [
    b"", b"\0" * 1000, b"\xff" * 1000, b"PAR1" * 100, b"PK\x03\x04" + b"\0" * 100, b"\x1f\x8b" + b"\0" * 50, b"\n\n\n",
    b"ARROW1\0\0" * 20, b"{}", b"\xef\xbb\xbf", b"\xff\xfe\x00", b",,,\n,,,\n", b"a,b\n1,2\n", b"\x1f\x8b\x08",
]  # fmt: skip


def test_bytes_and_places_that_are_no_table_are_refused_at_once(tmp_path):
    for name in ("t.csv", "t.parquet", "t.feather", "t.xlsx"):
        for content in NO_TABLES:
            (tmp_path / name).write_bytes(content)
            assert audit(tmp_path / name).code == 2, (name, content)
    os.mkfifo(tmp_path / "pipe.csv")
    for place in ("/dev/zero", "/dev/null", "/dev/full", "/", "/proc", tmp_path / "pipe.csv"):
        assert audit(place, limit=20).code == 2, place
    for option in (("--test", tmp_path / "pipe.csv"), ("--set", f"validation={tmp_path}/pipe.csv")):
        assert audit(saved(tmp_path), *option, limit=20).code == 2
    for place in ("/dev/zero", "/dev/null", "/", "/nowhere.json", tmp_path / "pipe.csv"):
        for command in (["replay"], ["gate", "--max-solid", "5%"], ["review", "--out", "x"]):
            assert attempt(command[0], place, *command[1:], limit=20).code == 2, (command, place)


def test_a_line_of_two_megabytes_and_more_than_the_limit_also_unpacked_are_refused(
    tmp_path, monkeypatch
):
    usual, long = people().to_csv(index=False), 2_000_000
    for text in (
        "n" * long + f",{usual}",
        "a," * 1_000_000 + usual,
        usual + "9" * long,
        f'{usual}1,"{"m" * long}",1,yes\n',
    ):
        (tmp_path / "t.csv").write_text(text)
        assert audit(tmp_path / "t.csv", limit=60).code == 2
    monkeypatch.setattr(table, "MAX_BYTES", 100_000)
    text = "a,b\n" * 1_000_000
    (tmp_path / "t.csv").write_text(text)
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(text.encode()))
    book = io.BytesIO()
    with zipfile.ZipFile(book, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("xl/workbook.xml", b"0" * 10_000_000)
    (tmp_path / "t.xlsx").write_bytes(book.getvalue())
    for name in ("t.csv", "t.csv.gz", "t.xlsx"):
        assert "limit" in (err := audit(tmp_path / name).err) or "more than" in err
    assert audit("-", stdin=text.encode()).code == 2


# --- numbers of any size --------------------------------------------------------------------------


def test_a_column_of_any_magnitude_is_scaled_alike():
    numbers = np.random.default_rng(0).normal(size=50).round(2)
    for numeric, power in itertools.product(("standard", "minmax"), (-150, -30, 15, 150)):
        frames = [pd.DataFrame({"x": numbers * scale}) for scale in (1, 10.0**power)]
        scaled = [
            TableEncoder(numeric=numeric, dtype="float64").fit_transform(frame) for frame in frames
        ]
        assert np.allclose(*scaled, atol=1e-9)
        assert len(np.unique(scaled[1])) > 30


def test_numbers_that_cannot_be_computed_with_are_refused_with_their_row_also_among_test_people(
    tmp_path,
):
    for value in (2**63, 2**64, 2**80, "9" * 400):
        table = saved(
            tmp_path, people().assign(account=[value if k % 7 == 1 else k % 5 for k in range(60)])
        )
        ending = audit(table, "--set", "split-seed=0", model="mlp")
        assert (ending.code, "Column 'account', row 1" in ending.err) == (2, True), ending.err
    assert audit(table, "--drop", "account").code == 0
    for value in ("1e20", "-1e308", "inf", "-Infinity"):
        new = people(seed=1).astype({"x": object})
        new.loc[3, "x"] = value
        ending = audit(saved(tmp_path), "--test", saved(tmp_path, new, "new.csv"), model="mlp")
        assert (ending.code, "row 3" in ending.err) == (2, True), ending.err


def test_whole_numbers_of_any_size_may_name_the_rows_or_stay_different(tmp_path):
    assert audit(saved(tmp_path, people().assign(account=range(0, 60 * 2**20, 2**20)))).code == 0
    assert (
        audit(saved(tmp_path, people().assign(account=[f"n{2**80 + k}" for k in range(60)]))).code
        == 0
    )
    named = people().assign(account=[f"{2**80 + k}" for k in range(60)])
    assert audit(saved(tmp_path, named), "--id", "account").code == 0
    table = people().set_axis(pd.Index([10**400 + k for k in range(60)], dtype=object))
    blind = butfor.LabelAudit(LogisticRegression(), budget=20)
    blind.fit(table[["x", "debts"]], table["granted"], sensitive_features=table["sex"])
    population = blind.explain_all(
        table[["x", "debts"]], sensitive_features=table["sex"], cases=range(20)
    )
    found = butfor.Population.from_json(population.to_json()).found
    assert found
    assert butfor.replay(found[0], audit=blind).agrees

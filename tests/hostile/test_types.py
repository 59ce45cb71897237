"""Files that are no table, and cells that are no single value: refused at once, whatever their size."""

import datetime
import decimal
import gzip
import io
import os
import zipfile

import numpy as np
import pandas as pd

from butfor.data import table
from hostile.harness import attempt, audit, people, saved

STRANGE = {
    "lists": [[1, 2]] * 60,
    "structs": [{"a": 1}] * 60,
    "arrays": [np.arange(3)] * 60,
    "bytes": [b"\xff\x00"] * 60,
    "some lists": [None, [1]] * 30,
    "times": [datetime.time(k % 24) for k in range(60)],
    "durations": pd.to_timedelta(range(60), unit="h"),
}
FINE = {
    "decimals": [decimal.Decimal(k) / 10 for k in range(60)],
    "dates": [datetime.date(2024, 1, 1 + k % 28) for k in range(60)],
    "moments": pd.date_range("2024-01-01", periods=60, tz="Europe/Berlin"),
    "truth with gaps": [True, None] * 30,
    "nullable": pd.array([1, None] * 30, dtype="Int64"),
    "texts": pd.array(["a", None] * 30, dtype="string"),
    "categories": pd.Categorical(["a", "b"] * 30),
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


def test_a_line_of_two_megabytes_and_more_than_the_limit_also_unpacked_are_refused(tmp_path, monkeypatch):
    usual, long = people().to_csv(index=False), 2_000_000
    for text in (
        "n" * long + f",{usual}",
        "a," * 1_000_000 + usual,
        usual + "9" * long,
        f'{usual}1,"{"m" * long}",1,yes\n',
    ):
        (tmp_path / "t.csv").write_text(text)
        assert audit(tmp_path / "t.csv", limit=60).code == 2
    monkeypatch.setattr(table, "MOST_BYTES", 100_000)
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

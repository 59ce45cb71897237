"""Files that are no table, and cells that are no single value: refused at once, whatever their size."""

import datetime
import decimal
import gzip
import io
import os
import sys
import time
import zipfile

import numpy as np
import pandas as pd
import pytest

from butfor.data import read
from hostile.harness import attempt, audit, people, saved

STRANGE = {
    "lists": [[1, 2]] * 60,
    "empty lists": [[]] * 60,
    "structs": [{"a": 1}] * 60,
    "arrays": [np.arange(3)] * 60,
    "bytes": [b"\xff\x00"] * 60,
    "some lists": [None, [1]] * 30,
    "periods": pd.period_range("2020-01", periods=60, freq="M"),
    "intervals": pd.interval_range(0, 60),
    "times": [datetime.time(k % 24) for k in range(60)],
    "durations": pd.to_timedelta(range(60), unit="h"),
}
FINE = {
    "decimals": [decimal.Decimal(k) / 10 for k in range(60)],
    "dates": [datetime.date(2024, 1, 1 + k % 28) for k in range(60)],
    "moments": pd.date_range("2024-01-01", periods=60, tz="Europe/Berlin"),
    "truth": [True, False] * 30,
    "truth with gaps": [True, None] * 30,
    "nullable": pd.array([1, None] * 30, dtype="Int64"),
    "texts": pd.array(["a", None] * 30, dtype="string"),
    "categories": pd.Categorical(["a", "b"] * 30),
    "narrow": np.arange(60, dtype=np.int8),
    "half": np.arange(60, dtype=np.float16),
    "unsigned": np.arange(60, dtype=np.uint64),
}


@pytest.mark.parametrize("ending", ["parquet", "feather"])
@pytest.mark.parametrize("values", STRANGE.values(), ids=STRANGE)
def test_cells_that_are_no_single_value_are_refused_with_their_column(tmp_path, values, ending):
    path = tmp_path / f"t.{ending}"
    table = people().assign(odd=values)
    try:
        (table.to_parquet if ending == "parquet" else table.to_feather)(path)
    except (ValueError, TypeError, NotImplementedError):
        pytest.skip("pyarrow does not write these")
    result = audit(path)
    assert result.code == 2
    assert "'odd'" in result.err


@pytest.mark.parametrize("values", FINE.values(), ids=FINE)
def test_single_values_of_other_types_work(tmp_path, values):
    path = tmp_path / "t.parquet"
    people().assign(odd=values).to_parquet(path)
    assert audit(path).code == 0


def test_a_map_is_refused_with_its_column(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.Table.from_pandas(people())
    maps = pa.array([[("a", 1)]] * 60, type=pa.map_(pa.string(), pa.int64()))
    pq.write_table(table.append_column("odd", maps), tmp_path / "t.parquet")
    assert "'odd'" in audit(tmp_path / "t.parquet").err


@pytest.mark.parametrize(
    "metadata",
    [b"", b"{", b"null", b"[]", b'{"index_columns": ["gone"]}', b'{"columns": 3}', b"\xff\xfe", b"{}" * 1000],
)
def test_odd_pandas_metadata_is_refused_or_overlooked(tmp_path, metadata):
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.Table.from_pandas(people()).replace_schema_metadata({b"pandas": metadata})
    pq.write_table(table, tmp_path / "t.parquet")
    assert audit(tmp_path / "t.parquet").code in (0, 2)


@pytest.mark.parametrize("name", ["t.csv", "t.parquet", "t.feather", "t.xlsx"])
@pytest.mark.parametrize(
    "content",
    [b"", b"\0" * 1000, b"\xff" * 1000, b"PAR1", b"PAR1" * 100, b"PK\x03\x04" + b"\0" * 100, b"\x1f\x8b" + b"\0" * 50,
     b"\n\n\n", b"ARROW1\0\0" * 20, b"{}", b"\xef\xbb\xbf", b"\xff\xfe\x00", b",,,\n,,,\n", b"a,b\n1,2\n",
     b"\x1f\x8b\x08"],
    ids=range(15),
)  # fmt: skip
def test_bytes_that_are_no_table_are_refused(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    assert audit(tmp_path / name).code == 2


@pytest.mark.parametrize(
    "device", ["/dev/zero", "/dev/null", "/dev/full", "/dev/urandom", "/dev/tty", "/", "/proc", "/dev/stdin"]
)
def test_what_is_no_file_is_refused_at_once(device):
    if not os.path.exists(device):
        pytest.skip("not here")
    started = time.process_time()  # a busy machine does not hasten this clock
    assert audit(device).code == 2
    assert time.process_time() - started < 5


def test_a_pipe_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "t.csv")
    assert audit(tmp_path / "t.csv").code == 2


@pytest.mark.parametrize("option", ["--test", "--validation"])
def test_a_pipe_of_people_is_refused_at_once(tmp_path, option):
    os.mkfifo(tmp_path / "new.csv")
    assert audit(saved(tmp_path), option, tmp_path / "new.csv").code == 2


@pytest.mark.skipif(sys.platform == "darwin", reason="file names there are UTF-8")
@pytest.mark.parametrize("name", [b"\xff.csv", b"t\xe9.csv", b"\xc3\x28.parquet"])
def test_a_file_name_that_is_not_utf8_is_refused(tmp_path, name):
    path = os.fsdecode(os.fsencode(tmp_path) + b"/" + name)
    people().to_csv(path, index=False)
    assert audit(path).code == 2


@pytest.mark.parametrize("where", ["header", "row", "quoted", "columns"])
def test_a_line_of_two_megabytes_is_refused_at_once(tmp_path, where):
    path = saved(tmp_path)
    text = path.read_text()
    long = {"header": "n" * 2_000_000 + ",", "row": "", "quoted": "", "columns": "a," * 1_000_000}[where]
    text = long + text
    if where in ("row", "quoted"):
        text += "9" * 2_000_000 if where == "row" else '1,"' + "m" * 2_000_000 + '",1,yes\n'
    path.write_text(text)
    started = time.process_time()
    assert audit(path).code == 2
    assert time.process_time() - started < 10


def test_more_than_the_limit_is_not_read(tmp_path, monkeypatch):
    monkeypatch.setattr(read, "MOST_BYTES", 500)
    assert "limit" in audit(saved(tmp_path)).err
    text = saved(tmp_path).read_bytes()
    assert audit("-", stdin=text).code == 2
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(b"a,b\n" * 100_000)[:400])
    assert audit(tmp_path / "t.csv.gz").code == 2


def test_archives_that_unpack_without_end_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(read, "MOST_BYTES", 100_000)
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(b"a,b\n" * 1_000_000))
    assert "limit" in audit(tmp_path / "t.csv.gz").err or "more than" in audit(tmp_path / "t.csv.gz").err
    book = io.BytesIO()
    with zipfile.ZipFile(book, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("xl/workbook.xml", b"0" * 10_000_000)
    (tmp_path / "t.xlsx").write_bytes(book.getvalue())
    assert "limit" in audit(tmp_path / "t.xlsx").err


def test_gzip_of_several_parts_works(tmp_path):
    text = saved(tmp_path).read_bytes()
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(text[:200]) + gzip.compress(text[200:]))
    assert audit(tmp_path / "t.csv.gz").code == 0


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252", "latin-1"])
def test_text_of_any_usual_encoding_works(tmp_path, encoding):
    path = tmp_path / "t.csv"
    people().replace({"sex": {"f": "für"}}).to_csv(path, index=False, encoding=encoding)
    assert audit(path).code == 0


def test_standard_input_works_and_an_empty_one_is_refused(tmp_path):
    assert audit("-", stdin=saved(tmp_path).read_bytes()).code == 0
    assert audit("-").code == 2


@pytest.mark.parametrize("file", ["/dev/zero", "/dev/null", "/", "/nowhere.json"])
@pytest.mark.parametrize("command", [["replay"], ["gate", "--max-solid", "5%"], ["review", "--out", "x"]])
def test_no_record_is_no_record(file, command):
    assert attempt(command[0], file, *command[1:], limit=20).code == 2

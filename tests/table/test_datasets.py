"""The seven data sets come out as published, from the published bytes alone; Bank is fetched from a
server."""

import dataclasses
import gzip
import hashlib
import io
import math
import os
import zipfile
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

import butfor
from butfor import TableEncoder
from butfor.errors import DatasetError, SettingError
from butfor.table.embedded import (
    DATASETS,
    SPECS,
    Dataset,
    catalogue_frame,
    load_dataset,
)

FILES = Path(butfor.__file__).parent / "table" / "files"
BANK = SPECS["bank"]
FILE = next(iter(BANK.files))
# Training, validation and test rows; width with embeddings, budget, share of class 1; and the
# sha256 of all rows and labels in the order of the split, which were compared with the original
# files cell by cell.
PUBLISHED = {
    "salary": ((30, 11, 11), 5, 1, 0.37, "3daabb16dfe16ab5"),
    "student": ((389, 130, 130), 36, 1, 0.85, "951445973eb4f501"),
    "german": ((600, 200, 200), 36, 1, 0.70, "3f25055f8f2fd419"),
    "compas": ((3702, 1235, 1235), 13, 4, 0.46, "0f80d5c1334f544f"),
    "default": ((18000, 6000, 6000), 27, 18, 0.22, "e1d291e0f31eec10"),
    "bank": ((18292, 6098, 6098), 35, 19, 0.13, "2eb486b1eef3401f"),
    "adult": ((27132, 9045, 9045), 28, 28, 0.25, "4e5db7783b156e15"),
}


@cache
def load(name: str) -> Dataset:
    """A set; Bank, which may not be shipped, from BUTFOR_DATA or from shared/data beside the
    repository."""
    if name != "bank":
        return load_dataset(name)
    places = [os.environ.get("BUTFOR_DATA") or ".", Path(__file__).parents[3] / "shared" / "data"]
    home = [place for place in places if list(Path(place).glob(f"{FILE}*"))]
    return (
        load_dataset(name, data_home=home[0])
        if home
        else pytest.skip(f"no {FILE}; set BUTFOR_DATA to its place")
    )


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_set_comes_out_as_published(name):
    data, (sizes, width, budget, balance, digest) = load(name), PUBLISHED[name]
    parts = [(data.X_train, data.y_train), (data.X_val, data.y_val), (data.X_test, data.y_test)]
    X, y = (pd.concat(each) for each in zip(*parts, strict=True))
    assert hashlib.sha256(X.assign(label=y).to_csv().encode()).hexdigest()[:16] == digest
    assert tuple(len(part) for part, _ in parts) == sizes
    assert data.setup.budget == budget == math.ceil(0.001 * sizes[0])
    assert y.mean() == pytest.approx(balance, abs=0.005)
    encoder = TableEncoder("embed").fit(data.X_train)
    assert encoder.transform(data.X_test).shape == (sizes[2], width)
    assert all(part.index.equals(labels.index) for part, labels in parts)
    assert all(labels.attrs["label_names"] == data.label_names for _, labels in parts)
    assert f"{sizes[0]}/{sizes[1]}/{sizes[2]} rows" in repr(data)


def test_rows_tell_their_origin_at_the_public_door_alone():
    """What pandas' `attrs` tell is read from the rows that the user hands over, and from no copy."""
    data = load("german")
    forgotten = data.X_train.copy(), data.y_train.copy()
    for rows in forgotten:
        rows.attrs = {}
    runs = []
    for X, y in ((data.X_train, data.y_train), forgotten):
        audit = butfor.LabelAudit(LogisticRegression(), budget=1, n_jobs=1)
        audit.fit(X, y, sensitive_features="sex")
        audit.table_.X.attrs = {"origin": {"table": "another"}, "dates": ("age",)}
        audit.table_.y.attrs = {"label_names": ("x", "y")}
        runs.append(audit.explain_all(data.X_test, cases=[0]).run)
    assert [run.data.table for run in runs] == ["german", None]
    assert [run.label_names for run in runs] == [data.label_names, ("credit = 0", "credit = 1")]


def test_the_split_follows_random_state_and_coded_columns_declare_the_values_of_all_rows():
    published, other = load("german"), load_dataset("german", random_state=np.int64(7))
    assert published.X_test.index.equals(load_dataset("german", 0).X_test.index)
    assert not published.X_test.index.equals(other.X_test.index)
    assert list(load("default").X_test["EDUCATION"].cat.categories) == [0, 1, 2, 3, 4, 5, 6]
    assert list(load("default").X_val["MARRIAGE"].cat.categories) == [0, 1, 2, 3]


def test_shipped_files_are_few_and_accounted_for_and_name_nobody():
    assert tuple(PUBLISHED) == DATASETS
    assert sum(path.stat().st_size for path in FILES.iterdir()) <= 3_000_000
    provenance = (FILES / "PROVENANCE.md").read_text(encoding="utf-8")
    for spec in SPECS.values():
        assert spec.licence
        assert all(
            words in provenance
            for name, digests in spec.files.items()
            for words in (name, *digests)
        )
    assert not list(FILES.glob("bank*"))
    columns = pd.read_csv(FILES / "compas-scores-two-years.csv.gz", nrows=1).columns
    assert not {"name", "first", "last", "dob", "id"} & set(columns)


def accept(monkeypatch, name, content, **about):
    """Let made-up bytes pass as the published file of that set."""
    files = {next(iter(SPECS[name].files)): [hashlib.sha256(content).hexdigest()]}
    monkeypatch.setitem(SPECS, name, dataclasses.replace(SPECS[name], files=files, **about))


def test_named_directories_come_first(monkeypatch, tmp_path):
    home, fallback = tmp_path / "home", tmp_path / "fallback"
    home.mkdir()
    fallback.mkdir()
    changed = (
        pd.read_csv(FILES / "salary.csv").eval("Year = Year + 100").to_csv(index=False).encode()
    )
    (fallback / "salary.csv.gz").write_bytes(gzip.compress(changed))
    accept(monkeypatch, "salary", changed)
    monkeypatch.setenv("BUTFOR_DATA", str(fallback))
    # An empty data_home falls through to BUTFOR_DATA; what it lacks as well comes from the package.
    assert load_dataset("salary", data_home=home).X_train["Year"].min() >= 100
    assert len(load_dataset("german", data_home=home).X_train) == 600


@pytest.mark.parametrize(
    ("name", "content", "given", "error", "said"),
    [
        ("German", None, {}, DatasetError, "no data set 'German'. Did you mean 'german'?"),
        (5, None, {}, DatasetError, "no data set '5'. Choose one of 'salary', "),
        ("salary", (FILES / "salary.csv").read_bytes().replace(b"36350", b"16350"), {}, DatasetError, "or remove it"),
        ("german", (FILES / "german.data.gz").read_bytes()[:6000], {}, DatasetError, "data.gz cannot be read"),
        ("german", b"no gzip", {}, DatasetError, "replace it"),
        ("salary", None, {"data_home": "nowhere"}, DatasetError, "data_home=nowhere is not a "
                                                                 "directory"),
        ("salary", None, {"random_state": -1}, SettingError, "a whole number from 0"),
    ],
)  # fmt: skip
def test_other_names_bytes_folders_and_seeds_are_refused(
    monkeypatch, tmp_path, name, content, given, error, said
):
    if content is not None:
        (tmp_path / {"german": "german.data.gz", "salary": "salary.csv"}[name]).write_bytes(content)
        monkeypatch.setenv("BUTFOR_DATA", str(tmp_path))
    with pytest.raises(error) as caught:
        load_dataset(name, **given)
    assert said in str(caught.value)


# --- Bank's download, from an archive in a folder -------------------------------------------------


def zipped(**files: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def published(content: bytes) -> bytes:
    """An archive as it is published, with shadows of macOS beside the file."""
    folder = {f"__MACOSX/bank-additional/._{FILE}": b"", f"bank-additional/{FILE}": content}
    return zipped(
        **{
            "bank.zip": zipped(**{"bank.csv": b"a;b\n1;2\n"}),
            "bank-additional.zip": zipped(**folder),
        }
    )


# A made-up table of Bank's shape; none of it is Bank's.
ROWS = (
    f"{20 + i};services;{('married', 'single')[i % 2]};high.school;{('no', 'yes')[i == 0]};no;no;cellular;may;"
    f"mon;{100 + i};1;5;0;failure;0.5;50;-10;2;1000;{('no', 'yes')[i % 3 == 0]}"
    for i in range(60)
)
CONTENT = "\n".join([";".join([*BANK.columns.split(), "y"]), *ROWS]).encode()


def test_banks_first_use_downloads_the_next_reads_the_cache_and_all_else_is_refused(
    monkeypatch, tmp_path
):
    monkeypatch.delenv("BUTFOR_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    archive, cache = tmp_path / "bank.zip", tmp_path / "cache"
    accept(monkeypatch, "bank", CONTENT, url=archive.as_uri())
    frame = catalogue_frame().set_index("name")
    assert list(frame.index) == list(DATASETS)
    for name, (sizes, width, budget, balance, _) in PUBLISHED.items():
        row = frame.loc[name]
        assert (row["train"], row["val"], row["test"], row["rows"]) == (*sizes, sum(sizes))
        assert (row["inputs"], row["budget"], row["embedded"]) == (width, budget, name != "bank")
        assert row["label_balance"] == (
            None if name == "bank" else pytest.approx(balance, abs=0.005)
        )
    for said, answer in {
        "No such file": None,
        "not a zip file": published(CONTENT)[:900],
        "There is no item named 'bank-additional.zip'": zipped(other=b""),
        "its sha256 differs": published(CONTENT + b"\n"),
    }.items():
        if answer is not None:
            archive.write_bytes(answer)
        with pytest.raises(DatasetError, match=said) as refused:
            load_dataset("bank")
        for words in (
            archive.as_uri(),
            f"{FILE}.gz",
            str(cache),
            "network and try again",
            "DATA=/",
        ):
            assert words in str(refused.value)
        assert not cache.exists()
    archive.write_bytes(published(CONTENT))
    cache.write_text("no folder")
    with pytest.raises(DatasetError, match="Not a directory"):
        load_dataset("bank")
    cache.unlink()
    data = load_dataset("bank")
    archive.unlink()
    assert (len(data.X_train), len(data.X_val), len(data.X_test)) == (36, 12, 12)
    assert set(data.X_train["marital"]) == {"married", "not married"}
    assert load_dataset("bank").X_test.equals(data.X_test)
    kept = cache / "butfor" / FILE
    assert list(kept.parent.iterdir()) == [kept]
    kept.write_bytes(CONTENT[:-5])
    with pytest.raises(DatasetError, match=rf"{FILE} cannot be read .* remove it"):
        load_dataset("bank")

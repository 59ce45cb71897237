"""The seven data sets come out as published, and only from the published bytes."""

from __future__ import annotations

import dataclasses
import gzip
import hashlib
import io
import math
import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from pandas.api.types import is_numeric_dtype, is_string_dtype

import butfor.data
from butfor.data import DATASETS, SPECS, Dataset, catalogue_frame, load_dataset
from butfor.errors import DatasetError, SettingError

FILES = Path(butfor.data.__file__).with_name("files")
BANK = "bank-additional-full.csv"

# train/val/test, width with embeddings, budget, share of class 1
PUBLISHED = {
    "salary": ((30, 11, 11), 5, 1, 0.37),
    "student": ((389, 130, 130), 36, 1, 0.85),
    "german": ((600, 200, 200), 36, 1, 0.70),
    "compas": ((3702, 1235, 1235), 13, 4, 0.46),
    "default": ((18000, 6000, 6000), 27, 18, 0.22),
    "bank": ((18292, 6098, 6098), 35, 19, 0.13),
    "adult": ((27132, 9045, 9045), 28, 28, 0.25),
}
SHIPPED = [name for name in PUBLISHED if name != "bank"]


def bank_home() -> Path:
    """A directory with Bank, which is not part of the repository: BUTFOR_DATA, or shared/data beside it."""
    candidates = [Path(__file__).parents[3] / "shared" / "data"]
    if os.environ.get("BUTFOR_DATA"):
        candidates.insert(0, Path(os.environ["BUTFOR_DATA"]))
    for place in candidates:
        if (place / BANK).is_file() or (place / f"{BANK}.gz").is_file():
            return place
    pytest.skip(f"{BANK} may not be shipped; set BUTFOR_DATA to a directory that holds it to run this")


@cache
def load(name: str, home: Path | None = None) -> Dataset:
    return load_dataset(name, data_home=home)


@pytest.fixture(params=DATASETS)
def data(request: pytest.FixtureRequest) -> Dataset:
    return load(request.param, bank_home() if request.param == "bank" else None)


def rows_of(data: Dataset) -> pd.DataFrame:
    return pd.concat([data.X_train, data.X_val, data.X_test])


def labels_of(data: Dataset) -> pd.Series:
    return pd.concat([data.y_train, data.y_val, data.y_test])


def raw(name: str, **how: object) -> pd.DataFrame:
    return pd.read_csv(FILES / name, keep_default_na=False, **how)  # type: ignore[call-overload]


def test_names() -> None:
    assert tuple(PUBLISHED) == DATASETS


def test_published_numbers(data: Dataset) -> None:
    sizes, width, budget, balance = PUBLISHED[data.name]
    X, y = rows_of(data), labels_of(data)
    assert (len(data.X_train), len(data.X_val), len(data.X_test)) == sizes
    embedded = sum(1 if is_numeric_dtype(X[c]) else (X[c].nunique() + 1) // 2 for c in X)
    assert embedded == width
    assert data.setup.budget == budget == math.ceil(0.001 * sizes[0])
    assert y.mean() == pytest.approx(balance, abs=0.005)
    assert data.setup.max_epochs == (100 if data.name in ("salary", "student", "german") else 200)
    assert len(data.setup.hidden) == 2


def test_parts_fit_together(data: Dataset) -> None:
    X = rows_of(data)
    assert X.index.is_unique
    assert X.index.min() >= 0
    assert data.sensitive in X
    assert X[data.sensitive].nunique() == 2
    for part, y in ((data.X_train, data.y_train), (data.X_val, data.y_val), (data.X_test, data.y_test)):
        assert part.index.equals(y.index)
        assert y.dtype == np.int64
        assert set(y) == {0, 1}
        assert y.name not in part
        assert y.attrs["label_names"] == data.label_names
        assert list(part.columns) == list(X.columns)
    assert data.licence


def test_values_are_readable(data: Dataset) -> None:
    X = rows_of(data)
    assert not X.isna().any(axis=None)
    for name in X:
        values = {str(value).strip() for value in X[name].unique()}
        assert not values & {"?", "unknown", "N/A", ""}, name
        coded = name in ("SEX", "EDUCATION", "MARRIAGE", "default")
        assert isinstance(X[name].dtype, pd.CategoricalDtype) == coded, name
        assert coded or is_numeric_dtype(X[name]) or is_string_dtype(X[name]), name


def test_coded_columns_declare_the_values_of_all_rows() -> None:
    default = load("default")
    assert list(default.X_train["SEX"].cat.categories) == [1, 2]
    assert list(default.X_test["EDUCATION"].cat.categories) == [0, 1, 2, 3, 4, 5, 6]
    assert list(default.X_val["MARRIAGE"].cat.categories) == [0, 1, 2, 3]
    assert list(load("bank", bank_home()).X_test["default"].cat.categories) == ["no", "yes"]


def test_repr_says_what_it_holds() -> None:
    text = repr(load("german"))
    assert text == (
        "<Dataset 'german': 600/200/200 rows (train/val/test) × 20 columns, sensitive 'sex', "
        "labels 'bad credit', 'good credit'>"
    )


def test_salary_rows() -> None:
    data, source = load("salary"), raw("salary.csv")
    X = rows_of(data)
    pd.testing.assert_frame_equal(X, source.loc[X.index, list(X.columns)])
    assert (labels_of(data) == (source["Salary"] >= 25_000).loc[X.index]).all()


def test_student_rows() -> None:
    data, source = load("student"), raw("student-por.csv.gz", sep=";")
    X = rows_of(data)
    assert list(X.columns) == [name for name in source if name not in ("G1", "G2", "G3")]
    pd.testing.assert_frame_equal(X, source.loc[X.index, list(X.columns)])
    assert (labels_of(data) == (source["G3"] >= 10).loc[X.index]).all()


def test_german_rows() -> None:
    data, source = load("german"), raw("german.data.gz", sep=" ", header=None)
    X = rows_of(data)
    source = source.loc[X.index]
    assert (X["amount"] == source[4]).all()
    assert ((X["sex"] == "female") == source[8].isin(["A92", "A95"])).all()
    assert ((X["status"] == "below 0 DM") == (source[0] == "A11")).all()
    assert (labels_of(data) == (source[20] == 1)).all()
    for position, name in enumerate(X):
        # One word per code: nothing is merged but the marital half of personal_status.
        pairs = pd.crosstab(X[name], source[position]).gt(0)
        assert (pairs.sum(axis=0) == 1).all(), name
        assert name == "sex" or (pairs.sum(axis=1) == 1).all(), name


def test_compas_rows() -> None:
    data, source = load("compas"), raw("compas-scores-two-years.csv.gz")
    X = rows_of(data)
    days = pd.to_numeric(source["days_b_screening_arrest"], errors="coerce")
    assert (days.loc[X.index].abs() <= 30).all()
    source = source.loc[X.index]
    same = [name for name in X if name != "race"]
    pd.testing.assert_frame_equal(X[same], source[same])
    assert ((X["race"] == "White") == (source["race"] == "Caucasian")).all()
    assert set(X["race"]) == {"White", "non-White"}
    assert (labels_of(data) == source["two_year_recid"]).all()


def test_default_rows() -> None:
    data, source = load("default"), raw("default_of_credit_card_clients.csv.gz")
    X = rows_of(data)
    assert "ID" not in X
    assert (X.astype("int64") == source.loc[X.index, list(X.columns)]).all(axis=None)
    assert (labels_of(data) == source["default payment next month"].loc[X.index]).all()


def test_adult_rows_are_counted_through_test_then_data() -> None:
    data = load("adult")
    test = raw("adult.test.gz", header=None, skiprows=1, skipinitialspace=True)
    rest = raw("adult.data.gz", header=None, skipinitialspace=True)
    X = rows_of(data)
    source = pd.concat([test, rest], ignore_index=True)
    assert len(source) == 16281 + 32561
    complete = (source != "?").all(axis=1)
    assert sorted(X.index) == list(source.index[complete])
    source = source.loc[X.index]
    for name, position in (("age", 0), ("workclass", 1), ("education-num", 4), ("hours-per-week", 12)):
        assert (X[name] == source[position]).all(), name
    assert ((X["native-country"] == "United-States") == (source[13] == "United-States")).all()
    assert set(X["native-country"]) == {"United-States", "other"}
    assert (labels_of(data) == source[14].str.contains(">50K")).all()


def test_bank_rows() -> None:
    home = bank_home()
    data = load("bank", home)
    path = next(path for path in (home / BANK, home / f"{BANK}.gz") if path.is_file())
    source = pd.read_csv(path, sep=";", keep_default_na=False)
    X = rows_of(data)
    source = source.loc[X.index]
    assert not (source == "unknown").any(axis=None)
    assert (X["duration"] == source["duration"]).all()
    assert ((X["marital"] == "married") == (source["marital"] == "married")).all()
    assert set(X["marital"]) == {"married", "not married"}
    assert (labels_of(data) == (source["y"] == "yes")).all()


def test_the_split_follows_random_state() -> None:
    published, other = load("german"), load_dataset("german", random_state=7)
    assert published.X_test.index.equals(load_dataset("german", 0).X_test.index)
    assert not published.X_test.index.equals(other.X_test.index)
    assert set(rows_of(published).index) == set(rows_of(other).index)
    assert load_dataset("salary").X_test.index.equals(load_dataset("salary", np.int64(28)).X_test.index)


def test_loading_twice_shares_nothing() -> None:
    first = load_dataset("salary")
    first.X_train.iloc[0, 0] = 99
    assert load_dataset("salary").X_train.iloc[0, 0] != 99


@pytest.mark.parametrize("value", [-1, 1.5, "0", True, 2**32])
def test_random_state_is_refused(value: object) -> None:
    with pytest.raises(SettingError, match=r"random_state=.*whole number from 0"):
        load_dataset("salary", value)  # type: ignore[arg-type]


def test_unknown_names() -> None:
    with pytest.raises(DatasetError, match=r"no data set 'German'\. Did you mean 'german'\?"):
        load_dataset("German")
    with pytest.raises(DatasetError, match="'adult'"):
        load_dataset("zzz")
    with pytest.raises(DatasetError, match="no data set '5'"):
        load_dataset(5)  # type: ignore[arg-type]


def test_shipped_files_are_few_and_accounted_for() -> None:
    assert sum(path.stat().st_size for path in FILES.iterdir()) <= 3_000_000
    provenance = (FILES / "PROVENANCE.md").read_text(encoding="utf-8")
    for spec in SPECS.values():
        for name, digests in spec.files.items():
            assert name in provenance
            assert all(digest in provenance for digest in digests)
    assert not list(FILES.glob("bank*"))


def test_compas_ships_without_names_or_dates_of_birth() -> None:
    columns = raw("compas-scores-two-years.csv.gz", nrows=1).columns
    assert len(columns) == 16
    assert not {"name", "first", "last", "dob", "id"} & set(columns)


def accept(monkeypatch: pytest.MonkeyPatch, name: str, content: bytes) -> None:
    """Let made-up bytes pass as the published file of that set."""
    spec = SPECS[name]
    files = {next(iter(spec.files)): (hashlib.sha256(content).hexdigest(),)}
    monkeypatch.setitem(SPECS, name, dataclasses.replace(spec, files=files))


def test_the_full_compas_file_gives_the_same_table(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    expected = load("compas").X_train
    wide = raw("compas-scores-two-years.csv.gz")
    wide.insert(0, "name", "some | body")
    # ProPublica's file repeats these two columns further right.
    wide = pd.concat([wide, wide[["decile_score", "priors_count"]] + 1], axis=1)
    content = wide.to_csv(index=False).encode()
    accept(monkeypatch, "compas", content)
    (tmp_path / "compas-scores-two-years.csv").write_bytes(content)
    pd.testing.assert_frame_equal(load_dataset("compas", data_home=tmp_path).X_train, expected)


def test_named_directories_come_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    home, fallback = tmp_path / "home", tmp_path / "fallback"
    for place in (home, fallback):
        place.mkdir()
    changed = raw("salary.csv")
    changed["Year"] += 100
    content = changed.to_csv(index=False).encode()
    (fallback / "salary.csv.gz").write_bytes(gzip.compress(content))
    accept(monkeypatch, "salary", content)

    monkeypatch.setenv("BUTFOR_DATA", str(fallback))
    assert load_dataset("salary").X_train["Year"].min() >= 100
    # An empty data_home falls through to BUTFOR_DATA; a file there wins over it.
    assert load_dataset("salary", data_home=home).X_train["Year"].min() >= 100
    (home / "salary.csv").write_bytes(b"something else")
    with pytest.raises(DatasetError, match="home"):
        load_dataset("salary", data_home=str(home))
    # A set that the directory lacks comes from the package.
    assert len(load_dataset("german").X_train) == 600


def test_an_altered_file_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "salary.csv"
    path.write_bytes((FILES / "salary.csv").read_bytes().replace(b"36350", b"16350"))
    monkeypatch.setenv("BUTFOR_DATA", str(tmp_path))
    with pytest.raises(DatasetError, match=r"salary\.csv is not the published .*replace it.*or remove it"):
        load_dataset("salary")


def test_a_broken_gz_is_refused(tmp_path: Path) -> None:
    whole = (FILES / "german.data.gz").read_bytes()
    for content in (whole[: len(whole) // 2], b"no gzip at all"):
        (tmp_path / "german.data.gz").write_bytes(content)
        with pytest.raises(DatasetError, match=r"german\.data\.gz cannot be read .*replace it"):
            load_dataset("german", data_home=tmp_path)


def test_a_named_directory_must_exist(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match=r"data_home=.*nowhere is not a directory"):
        load_dataset("salary", data_home=tmp_path / "nowhere")
    monkeypatch.setenv("BUTFOR_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(DatasetError, match=r"BUTFOR_DATA=.*nowhere is not a directory"):
        load_dataset("salary")
    monkeypatch.setenv("BUTFOR_DATA", "")
    assert len(load_dataset("salary").X_train) == 30


def test_catalogue_frame(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("BUTFOR_DATA", raising=False)
    monkeypatch.setattr("butfor.data.load.cache_directory", lambda: tmp_path)
    frame = catalogue_frame().set_index("name")
    assert list(frame.index) == list(DATASETS)
    for name, (sizes, width, budget, balance) in PUBLISHED.items():
        row = frame.loc[name]
        assert (row["train"], row["val"], row["test"]) == sizes
        assert row["rows"] == sum(sizes)
        assert (row["inputs"], row["budget"]) == (width, budget)
        assert row["embedded"] == (name != "bank")
        assert row["licence"]
        if name == "bank":
            assert row["label_balance"] is None
        else:
            assert row["label_balance"] == pytest.approx(balance, abs=0.005)
    assert not list(tmp_path.iterdir())


def test_catalogue_frame_knows_bank_where_it_is() -> None:
    frame = catalogue_frame(bank_home()).set_index("name")
    assert frame.loc["bank", "label_balance"] == pytest.approx(0.1266, abs=1e-4)


@pytest.mark.system
def test_importing_is_light() -> None:
    code = "import sys, butfor.data; print({'sklearn', 'rich', 'torch', 'urllib.request'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_original_files_may_be_plain(tmp_path: Path) -> None:
    with gzip.open(FILES / "german.data.gz") as packed, open(tmp_path / "german.data", "wb") as plain:
        shutil.copyfileobj(packed, plain)
    again = load_dataset("german", data_home=tmp_path)
    pd.testing.assert_frame_equal(again.X_test, load("german").X_test)
    buffer = io.StringIO()
    again.X_test.to_csv(buffer)
    assert "A11" not in buffer.getvalue()


def test_a_large_table_of_ones_own_is_trained_in_batches():
    from butfor.data.table import default_setup

    sizes = {50: 8, 600: None, 8192: None, 8193: 1024, 1_000_000: 1024}
    assert {n: default_setup(n).batch_size for n in sizes} == sizes

"""A data set by name: raw tables, split as published.

Original files are looked for in `data_home`, then in the directory that the environment variable
BUTFOR_DATA names, then in the package; Bank, which may not be shipped, then in the user's cache and
at last on the web. Whatever is found must be the published file, to the last bit.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Collection
from dataclasses import dataclass
from numbers import Integral
from pathlib import Path, PurePosixPath

import pandas as pd

from butfor.data.catalogue import SHIPPED, SPECS, Setup, SourceFile, Spec, spec_named
from butfor.errors import DatasetError, SettingError, listed

TIMEOUT = 30.0
"""Seconds without a byte from the server after which a download is given up."""
MOST_BYTES = 256 * 1024**2
"""Far above any archive meant here; stops an endless answer or a zip bomb."""


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """One data set as published: three tables of raw values and their 0/1 labels.

    Rows keep their position in the source file as index. Each label series carries the names of its
    two values in ``attrs["label_names"]``.
    """

    X_train: pd.DataFrame
    y_train: pd.Series
    X_val: pd.DataFrame
    y_val: pd.Series
    X_test: pd.DataFrame
    y_test: pd.Series
    name: str
    sensitive: str | list[str]
    label_names: tuple[str, ...]
    setup: Setup
    source: str
    licence: str
    groups: dict[str, pd.DataFrame] | None = None
    """The protected attribute of the "train", "val" and "test" rows where it is not a column of theirs."""
    kept: pd.DataFrame | None = None
    """The test rows' columns that are not learned from but shown beside the answers."""
    adverse: str | None = None
    """The label that people would rather not have, where it is known."""
    dates: tuple[str, ...] = ()
    """Columns that hold dates, as days since 1970-01-01."""

    def __repr__(self) -> str:
        sizes = "/".join(str(len(part)) for part in (self.X_train, self.X_val, self.X_test))
        return (
            f"<Dataset '{self.name}': {sizes} rows (train/val/test) × {self.X_train.shape[1]} columns, "
            f"sensitive '{self.sensitive}', labels {listed(self.label_names)}>"
        )


def load_dataset(name: str, random_state: int | None = None, *, data_home: str | Path | None = None) -> Dataset:
    """One of the seven published data sets, split 60/20/20 as published.

    `random_state` decides the split; None takes the published one where it is known, else 0.
    `data_home` names a directory with original files (plain or .gz) that is looked at first.
    """
    from sklearn.model_selection import train_test_split

    spec = spec_named(name)
    seed = _seed(spec.setup.random_state if random_state is None else random_state)
    places = _places(spec, data_home)
    X, y = _table(spec, [_obtain(file, spec, places) for file in spec.files])

    rest, test = train_test_split(range(len(X)), test_size=0.2, random_state=seed)
    train, val = train_test_split(rest, test_size=0.25, random_state=seed)

    def labels(rows: list[int]) -> pd.Series:
        part = y.iloc[rows].copy()
        part.attrs["label_names"] = spec.label_names
        return part

    def inputs(rows: list[int]) -> pd.DataFrame:
        part = X.iloc[rows].copy()
        part.attrs["origin"] = {"table": spec.name, "split_seed": seed}  # what a verdict is replayed from
        return part

    return Dataset(
        X_train=inputs(train),
        y_train=labels(train),
        X_val=inputs(val),
        y_val=labels(val),
        X_test=inputs(test),
        y_test=labels(test),
        name=spec.name,
        sensitive=spec.sensitive,
        label_names=spec.label_names,
        setup=spec.setup,
        source=spec.source,
        licence=spec.licence,
        adverse=spec.label_names[spec.adverse],
    )


def catalogue_frame(data_home: str | Path | None = None) -> pd.DataFrame:
    """The seven sets, one row each, with what is published about them; downloads nothing.

    ``label_balance`` is the share of class 1 among all rows, None where the files are not at hand.
    """
    rows = []
    for spec in SPECS.values():
        places = _places(spec, data_home)
        contents = [content for file in spec.files if (content := _find(file, places)) is not None]
        balance = None if len(contents) < len(spec.files) else float(_table(spec, contents)[1].mean())
        train, val, test = spec.sizes
        rows.append(
            {
                "name": spec.name,
                "rows": train + val + test,
                "train": train,
                "val": val,
                "test": test,
                "inputs": spec.inputs,
                "sensitive": spec.sensitive,
                "budget": spec.setup.budget,
                "label_balance": balance,
                "embedded": spec.embedded,
                "licence": spec.licence,
            }
        )
    frame = pd.DataFrame(rows)
    # As objects, so that "not at hand" stays None instead of becoming a number that is not one.
    return frame.assign(label_balance=pd.Series([row["label_balance"] for row in rows], dtype=object))


def _seed(random_state: int) -> int:
    whole = isinstance(random_state, Integral) and not isinstance(random_state, bool)
    if not whole or not 0 <= random_state < 2**32:
        raise SettingError(
            f"random_state={random_state!r} must be a whole number from 0 to {2**32 - 1}, "
            "or None for the published split."
        )
    return int(random_state)


def _table(spec: Spec, contents: list[bytes]) -> tuple[pd.DataFrame, pd.Series]:
    """All rows of the published table and their labels, indexed by position in the source files."""
    raw = pd.concat([_parse(spec, content) for content in contents], ignore_index=True)
    kept = spec.tidy(raw)
    X = kept[list(spec.columns)].copy()
    for column in spec.coded:
        X[column] = pd.Categorical(X[column], categories=sorted(X[column].unique()))
    y = spec.label(raw.loc[kept.index]).astype("int64").rename(spec.label_column)
    return X, y


def _parse(spec: Spec, content: bytes) -> pd.DataFrame:
    return pd.read_csv(
        io.BytesIO(content),
        sep=spec.separator,
        header=0 if spec.header is None else None,
        names=spec.header,
        skipinitialspace=True,
        # Only an empty cell is missing: 'N/A' and '?' are values that the row filters ask about.
        keep_default_na=False,
        na_values=[""],
        comment=spec.remark,
        # Types are decided on whole columns, not chunk by chunk.
        low_memory=False,
    )


def _places(spec: Spec, data_home: str | Path | None) -> list[Path]:
    """The directories on this machine where a set's original files are looked for, in order."""
    named = {"data_home": data_home, "BUTFOR_DATA": os.environ.get("BUTFOR_DATA") or None}
    places = []
    for origin, directory in named.items():
        if directory is None:
            continue
        place = Path(directory).expanduser()
        if not place.is_dir():
            raise DatasetError(
                f"{origin}={directory} is not a directory; name one that holds original data files, or leave it out."
            )
        places.append(place)
    return [*places, SHIPPED if spec.embedded else cache_directory()]


def _find(file: SourceFile, places: list[Path]) -> bytes | None:
    """The verified bytes of a file from the first place that has it, None if no place has."""
    for place in places:
        for path in (place / file.name, place / f"{file.name}.gz"):
            if path.is_file():
                return _verified(path, file)
    return None


def _obtain(file: SourceFile, spec: Spec, places: list[Path]) -> bytes:
    """The verified bytes of a file, downloaded where no place has it."""
    content = _find(file, places)
    if content is not None:
        return content
    looked = ", ".join(str(place) for place in places)
    if spec.url is None:
        raise DatasetError(f"{file.name} is missing from the installed package (looked in {looked}); reinstall butfor.")
    try:
        path = fetch(file.name, file.sha256, spec.url, cache_directory())
    except DatasetError as error:
        raise DatasetError(
            f"The data set '{spec.name}' is not here and could not be fetched. Tried: {file.name} or "
            f"{file.name}.gz in {looked}; then {spec.url}: {error}. Either connect this machine to the "
            f"network and try again, or download that archive by hand, unpack {file.name} into a "
            f"directory and set BUTFOR_DATA=/that/directory."
        ) from error
    return _verified(path, file)


def _verified(path: Path, file: SourceFile) -> bytes:
    try:
        content = path.read_bytes()
        if path.suffix == ".gz":
            content = gzip.decompress(content)
    except (OSError, EOFError, zlib.error) as error:
        raise DatasetError(f"{path} cannot be read ({error}); replace it with the original, or remove it.") from error
    if hashlib.sha256(content).hexdigest() not in file.sha256:
        raise DatasetError(
            f"{path} is not the published {file.name} (its sha256 differs); "
            "replace it with the original, or remove it to have it looked for elsewhere."
        )
    return content


# --- on the web: nothing reaches the disk before its sha256 is right, and the file appears there in one step ------


def cache_directory() -> Path:
    """Where the operating system keeps what can be fetched again, subfolder ``butfor``."""
    if sys.platform == "win32":
        root = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
    elif sys.platform == "darwin":
        root = Path.home() / "Library" / "Caches"
    else:
        root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "butfor"


def fetch(member: str, sha256: Collection[str], url: str, folder: Path, timeout: float = TIMEOUT) -> Path:
    """Download the archive at `url` and put its file `member` into `folder`, verified and atomically.

    The archive may hold the file inside further zip archives. Any failure is a `DatasetError` whose text is the reason
    alone, for the caller's sentence; `folder` then holds what it held before."""
    archive = _download(url, timeout)
    try:
        content = _unpack(archive, member)
    except DatasetError:
        raise
    except Exception as error:  # damaged bytes make zipfile raise a dozen kinds of exception
        raise DatasetError(f"what came is not an intact zip archive ({error})") from error
    if content is None:
        raise DatasetError(f"the archive holds no file {member}")
    if hashlib.sha256(content).hexdigest() not in sha256:
        raise DatasetError(f"{member} in the archive is not the published file (its sha256 differs)")
    path = folder / member
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{member}.", dir=folder) as unfinished:
            Path(unfinished, member).write_bytes(content)
            os.replace(Path(unfinished, member), path)
    except OSError as error:
        raise DatasetError(f"{path} cannot be written ({error})") from error
    return path


def _download(url: str, timeout: float) -> bytes:
    from http.client import HTTPException
    from urllib.request import Request, urlopen

    if sys.stderr.isatty():
        sys.stderr.write(f"Downloading {url}\n")
    try:
        with urlopen(Request(url, headers={"User-Agent": "butfor"}), timeout=timeout) as answer:
            archive: bytes = answer.read(MOST_BYTES + 1)
    except (OSError, HTTPException, ValueError) as error:
        raise DatasetError(str(error) or type(error).__name__) from error
    if len(archive) > MOST_BYTES:
        raise DatasetError("the server sent far more than the archive's size")
    return archive


def _unpack(archive: bytes, member: str) -> bytes | None:
    """The bytes of `member` in a zip archive or in the zip archives inside it, None if it is not there."""
    with zipfile.ZipFile(io.BytesIO(archive)) as opened:
        for entry in opened.infolist():
            # The whole name: archives made on macOS carry a shadow '._name' beside each file.
            name = PurePosixPath(entry.filename).name
            if name != member and not name.endswith(".zip"):
                continue
            if entry.file_size > MOST_BYTES:
                raise DatasetError(f"{entry.filename} in the archive is far too large")
            content = opened.read(entry)
            found = content if name == member else _unpack(content, member)
            if found is not None:
                return found
    return None

"""The seven data sets of the published evaluation, by name: raw tables, split as published.

`catalogue.toml` says what they are. Original files are looked for in `data_home`, in the directory
of the environment variable BUTFOR_DATA, and in the package. Bank may not be shipped; it is then
looked for in the user's cache and on the web. Every file must equal the published one, to the last
bit.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import tomllib
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from butfor.support.checks import check_random_state
from butfor.support.errors import DatasetError, listed, nearest
from butfor.table.roles import Roles

HERE = Path(__file__).parent
TRAIN = "train"
VAL = "val"
TEST = "test"
TIMEOUT_SECONDS = 30.0
"""A download fails after this many seconds without a byte."""
MAX_BYTES = 256 * 1024**2
"""Far above the size of any archive used here; stops an endless answer."""

Positions = NDArray[np.int64]


@dataclass(frozen=True)
class Setup:
    """How a set was trained in the published evaluation. `batch_size=None` means one full batch;
    `numeric` is how numbers were scaled."""

    hidden: tuple[int, ...]
    max_epochs: int
    budget: int
    batch_size: int | None = None
    random_state: int = 0
    numeric: str = "standard"


@dataclass(frozen=True)
class Spec:
    """One data set, from its original files to the published table; `catalogue.toml` describes the
    fields."""

    name: str
    files: dict[str, list[str]]
    columns: str
    sensitive: str
    label_column: str
    label: str
    label_names: tuple[str, ...]
    adverse: int
    setup: Setup
    sizes: tuple[int, ...]
    inputs: int
    licence: str
    names: str = ""
    reading: dict[str, Any] = field(default_factory=dict)
    rows: str = ""
    mark: str = ""
    words: str = ""
    groups: dict[str, list[str]] = field(default_factory=dict)
    coded: Sequence[str] = ()
    url: str = ""
    inside: Sequence[str] = ()
    caution: str = ""

    def table(self, contents: list[bytes]) -> tuple[pd.DataFrame, pd.Series]:
        """All rows of the published table and their labels by number, indexed by position in the
        original files."""
        # The row filters need 'N/A' and '?' as values; types come from whole columns, not from
        # chunks.
        how: dict[str, Any] = {"keep_default_na": False, "na_values": [""], "low_memory": False}
        how |= {"skipinitialspace": True, "names": self.names.split() or None} | self.reading
        raw = pd.concat(
            [pd.read_csv(io.BytesIO(content), **how) for content in contents], ignore_index=True
        )
        kept = raw.query(self.rows, engine="python") if self.rows else raw
        if self.mark:
            kept = kept[(kept != self.mark).all(axis=1)]
        y = kept.eval(self.label, engine="python").astype("int64").rename(self.label_column)
        X = kept[self.columns.split()].copy()
        if self.words:
            words = pd.read_csv(HERE / "files" / self.words, keep_default_na=False)
            for column, rows in words.groupby("column"):
                X[column] = X[column].map(dict(zip(rows["code"], rows["word"], strict=True)))
        for column, (value, name, others) in self.groups.items():
            X[column] = (X[column] == value).map({True: name, False: others})
        for column in self.coded:
            X[column] = pd.Categorical(X[column], categories=sorted(X[column].unique()))
        return X, y


def _spec(name: str, about: dict[str, Any]) -> Spec:
    setup = Setup(**about["setup"] | {"hidden": tuple(about["setup"]["hidden"])})
    return Spec(
        name,
        **about | {"setup": setup} | {key: tuple(about[key]) for key in ("label_names", "sizes")},
    )


CATALOGUE = tomllib.loads((HERE / "catalogue.toml").read_text(encoding="utf-8"))
SPECS = {name: _spec(name, about) for name, about in CATALOGUE.items()}
DATASETS: tuple[str, ...] = tuple(SPECS)


def spec_named(name: str) -> Spec:
    """The entry of that name, or an error with the nearest names."""
    if name not in DATASETS:
        raise DatasetError(f"There is no data set '{name}'. {nearest(name, DATASETS)}")
    return SPECS[name]


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """Training, validation and test rows with raw values, and their labels by number.

    The index is the position in the source file. ``attrs["label_names"]`` of a label series names
    its values; ``attrs["origin"]`` of a table says where it came from. Both tell what `roles` say.
    """

    X_train: pd.DataFrame
    y_train: pd.Series
    X_val: pd.DataFrame
    y_val: pd.Series
    X_test: pd.DataFrame
    y_test: pd.Series
    name: str
    roles: Roles
    setup: Setup
    licence: str = ""
    groups: dict[str, pd.DataFrame] | None = None
    """The protected attribute of the "train", "val" and "test" rows, if it is not a column."""
    adverse: str | None = None
    """The label that people would rather not have, if known."""
    cluster: dict[str, pd.Series] | None = None
    weight: dict[str, pd.Series] | None = None
    """What says which rows belong together, and how much each counts, of the "train", "val" and
    "test" rows."""
    beside: pd.Series | None = None
    """A column of the training rows that was asked for by name, whether or not anything is learned
    from it."""

    @property
    def sensitive(self) -> str | list[str]:
        """The protected column, or a list of several."""
        columns = [str(column) for column in self.roles.protected]
        return columns[0] if len(columns) == 1 else columns

    @property
    def label_names(self) -> tuple[str, ...]:
        return self.roles.label_names

    @property
    def dates(self) -> tuple[str, ...]:
        """Columns that hold dates, as days since 1970-01-01."""
        return tuple(map(str, self.roles.dates))

    @classmethod
    def of(
        cls,
        frame: pd.DataFrame,
        y: pd.Series,
        parts: Mapping[str, Positions],
        roles: Roles,
        *,
        name: str,
        setup: Setup,
        licence: str = "",
        adverse: str | None = None,
        beside: pd.Series | None = None,
    ) -> Dataset:
        """A data set of the rows of a frame and their labels by number. `parts` are the positions
        of its training, validation and test rows."""

        def by_part(columns: Any) -> dict[str, Any]:
            return {part: frame[columns].iloc[rows] for part, rows in parts.items()}

        inputs = by_part(list(roles.inputs))
        pairs = {part: roles.told(X, y.iloc[parts[part]]) for part, X in inputs.items()}
        protected = list(roles.protected)
        return cls(
            *pairs[TRAIN],
            *pairs[VAL],
            *pairs[TEST],
            name=name,
            roles=roles,
            setup=setup,
            licence=licence,
            groups=None if protected[0] in roles.inputs else by_part(protected),
            adverse=adverse,
            cluster=None if roles.cluster is None else by_part(roles.cluster),
            weight=None if roles.weight is None else by_part(roles.weight),
            beside=beside,
        )

    def rows_of(self, *parts: str) -> tuple[Any, ...]:
        """The rows of these parts: X, y, and their groups, clusters and weights, each None if there
        are none."""

        def joined(by_part: Mapping[str, Any] | None) -> Any:
            return None if by_part is None else pd.concat([by_part[part] for part in parts])

        X = pd.concat([getattr(self, f"X_{part}") for part in parts])
        y = pd.concat([getattr(self, f"y_{part}") for part in parts])
        return (
            *self.roles.told(X, y),
            joined(self.groups),
            joined(self.cluster),
            joined(self.weight),
        )

    def with_columns(self, drop: Sequence[str], protected: Sequence[str], asked: Any) -> Dataset:
        """The same rows without the columns `drop`, and with other protected columns; `asked` are
        the fields of the origin that say so."""
        roles = replace(
            self.roles,
            inputs=tuple(column for column in self.roles.inputs if column not in drop),
            protected=tuple(protected),
            origin={**self.roles.origin, **asked},
        )
        changed: dict[str, Any] = {}
        groups: dict[str, pd.DataFrame] = {}
        for part in (TRAIN, VAL, TEST):
            rows = getattr(self, f"X_{part}")
            X, y = roles.told(rows[list(roles.inputs)], getattr(self, f"y_{part}"))
            changed |= {f"X_{part}": X, f"y_{part}": y}
            groups[part] = rows[list(protected)]
        beside = groups if protected[0] in drop else None
        return replace(self, **changed, roles=roles, groups=beside)

    def __repr__(self) -> str:
        sizes = "/".join(str(len(part)) for part in (self.X_train, self.X_val, self.X_test))
        return (
            f"<Dataset '{self.name}': {sizes} rows (train/val/test) × {self.X_train.shape[1]} "
            f"columns, sensitive '{self.sensitive}', labels {listed(self.label_names)}>"
        )


def load_dataset(
    name: str, random_state: int | None = None, *, data_home: str | Path | None = None
) -> Dataset:
    """Load one of the seven data sets of the paper, split 60/20/20 as published.

    Parameters
    ----------
    name : str
        One of `butfor.DATASETS`.
    random_state : int or None, default=None
        Seed of the split. None takes the published one, or 0 if that is unknown.
    data_home : path, optional
        A directory with original files (plain or .gz), which is searched first.

    Returns
    -------
    Dataset
        `X_train`, `y_train`, `X_val`, `y_val`, `X_test`, `y_test`, the name of the protected column
        `sensitive`, and `label_names`.

    Examples
    --------
    >>> import butfor
    >>> data = butfor.load_dataset("german")
    >>> len(data.X_train), data.sensitive, data.label_names
    (600, 'sex', ('bad credit', 'good credit'))
    """
    spec = spec_named(name)
    seed = spec.setup.random_state if random_state is None else random_state
    check_random_state(seed)
    X, y = spec.table([_original(file, spec, data_home) for file in spec.files])
    return Dataset.of(
        X,
        y,
        split(np.arange(len(X)), int(seed)),
        Roles(
            inputs=tuple(X.columns),
            protected=(spec.sensitive,),
            label=spec.label_column,
            origin={"table": spec.name, "split_seed": int(seed)},
            label_names=spec.label_names,
        ),
        name=spec.name,
        setup=spec.setup,
        licence=spec.licence,
        adverse=spec.label_names[spec.adverse],
    )


def split(
    rows: Positions,
    seed: int,
    test: Positions | None = None,
    val: Positions | None = None,
    clusters: Positions | None = None,
) -> dict[str, Any]:
    """Training, validation and test rows, 60/20/20, for those that are not given. `clusters`: each
    row's, as a number; then it is the clusters that are split."""
    from sklearn.model_selection import train_test_split

    def apart(rows: Positions, share: float) -> list[Positions]:
        if clusters is None:
            return list(train_test_split(rows, test_size=share, random_state=seed))
        kept, _ = train_test_split(np.unique(clusters[rows]), test_size=share, random_state=seed)
        inside = np.isin(clusters[rows], kept)
        return [rows[inside], rows[~inside]]

    if test is None:
        rows, test = apart(rows, 0.2)
    if val is None:
        rows, val = apart(rows, 0.25)
    return {TRAIN: rows, VAL: val, TEST: test}


def catalogue_frame() -> pd.DataFrame:
    """The seven data sets, one row each; downloads nothing.

    ``label_balance`` is the share of class 1 among all rows, None if the files are not on this
    machine.
    """
    columns = [
        *("name", "rows", TRAIN, VAL, TEST),
        *("inputs", "sensitive", "budget", "label_balance", "embedded", "licence"),
    ]
    rows = []
    for spec in SPECS.values():
        contents = [_original(file, spec, None, fetch=False) for file in spec.files]
        balance = spec.table(contents)[1].mean() if all(contents) else None
        about = (
            spec.inputs,
            spec.sensitive,
            spec.setup.budget,
            balance,
            not spec.url,
            spec.licence,
        )
        rows.append((spec.name, sum(spec.sizes), *spec.sizes, *about))
    # As objects, so that None stays None and does not become NaN.
    return pd.DataFrame(rows, columns=columns, dtype=object)


# --- original files -------------------------------------------------------------------------------


def _original(file: str, spec: Spec, data_home: str | Path | None, *, fetch: bool = True) -> bytes:
    """The published bytes of a file: from `data_home`, from BUTFOR_DATA, from the package or, of a
    set that may not be shipped, from the user's cache or the web; empty if it would have to be
    fetched and is not to be."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "butfor"
    places = []
    for origin, named in (("data_home", data_home), ("BUTFOR_DATA", os.environ.get("BUTFOR_DATA"))):
        if named and not Path(named).expanduser().is_dir():
            raise DatasetError(
                f"{origin}={named} is not a directory; name one with the original data files, or "
                "leave it out."
            )
        places += [Path(named).expanduser()] if named else []
    places.append(cache if spec.url else HERE / "files")

    def published(content: bytes) -> bytes:
        if hashlib.sha256(content).hexdigest() not in spec.files[file]:
            raise ValueError("its sha256 differs")
        return content

    for path in [place / name for place in places for name in (file, f"{file}.gz")]:
        try:
            if path.is_file():
                return published(
                    gzip.decompress(path.read_bytes())
                    if path.suffix == ".gz"
                    else path.read_bytes()
                )
        except Exception as error:  # damaged archives raise several kinds
            raise DatasetError(
                f"{path} cannot be read as the published {file} ({error}); replace it with the "
                "original, or remove it to search elsewhere."
            ) from error
    looked = ", ".join(map(str, places))
    if not spec.url:
        raise DatasetError(
            f"{file} is missing from the installed package (looked in {looked}); reinstall butfor."
        )
    if not fetch:
        return b""
    from urllib.request import Request, urlopen

    try:
        with urlopen(
            Request(spec.url, headers={"User-Agent": "butfor"}), timeout=TIMEOUT_SECONDS
        ) as answer:
            content = answer.read(MAX_BYTES)
        for member in spec.inside:
            with zipfile.ZipFile(io.BytesIO(content)) as archive:
                content = archive.read(member)
        content = published(content)
        cache.mkdir(parents=True, exist_ok=True)
        draft = cache / f".{file}.{os.getpid()}.part"  # a file under its own name is whole
        draft.write_bytes(content)
        draft.replace(cache / file)
    except (
        Exception
    ) as error:  # no network, no archive, a full disk: zipfile alone raises a dozen kinds
        raise DatasetError(
            f"The data set '{spec.name}' is not on this machine and could not be downloaded. "
            f"Tried {file} or {file}.gz in {looked}; then {spec.url}: "
            f"{str(error) or type(error).__name__}. Either connect this machine to the network "
            f"and try again, or download that archive by hand, unpack {file} into a directory and "
            "set BUTFOR_DATA=/that/directory."
        ) from error
    return content

"""A table by name or from a file, split into training, validation and test rows.

An embedded name gives the published split; a CSV or Parquet file is split 60/20/20 the same way.
Either way the rows remember where they came from, so that a verdict can be run again from its record.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from butfor.data import DATASETS, Dataset, Setup, load_dataset
from butfor.errors import SettingError, TableError, listed

LEAST_ROWS = 20


def load_table(
    source: str | Path,
    *,
    label: str | None = None,
    positive: str | None = None,
    sensitive: str | None = None,
    drop: Sequence[str] = (),
    split_seed: int | None = None,
) -> Dataset:
    """The table `source` names, split. A file needs `label` and `sensitive`; an embedded set has its own."""
    if str(source) in DATASETS:
        fixed = [f"--{name}" for name, value in (("label", label), ("positive", positive)) if value is not None]
        if fixed:
            raise SettingError(
                f"'{source}' is an embedded data set with its published label: leave out {' and '.join(fixed)}."
            )
        data = load_dataset(str(source), random_state=split_seed)
        return data if sensitive is None and not drop else _otherwise(data, sensitive, drop)
    if label is None or sensitive is None:
        missing = [f"--{n}" for n, v in (("label", label), ("sensitive", sensitive)) if v is None]
        if not Path(source).exists():
            raise TableError(_no_such_file(source))
        raise SettingError(f"For a table of your own give {' and '.join(missing)} (a column's name).")
    frame = read_file(source)
    data = split_frame(
        frame,
        label=label,
        positive=positive,
        sensitive=_several(sensitive, frame),
        drop=drop,
        seed=split_seed or 0,
        name=str(source),
    )
    origin = {
        "table": str(source), "label": label, "positive": positive, "sensitive": sensitive,
        "drop": list(drop), "split_seed": split_seed or 0,
    }  # fmt: skip
    return _remember(data, origin)


def _otherwise(data: Dataset, sensitive: str | None, drop: Sequence[str]) -> Dataset:
    """An embedded set with other protected columns, or with columns that are not learned from."""
    parts = {"train": data.X_train, "val": data.X_val, "test": data.X_test}
    named = data.sensitive if sensitive is None else _several(sensitive, data.X_train)
    protected = _protected(data.X_train, named, drop)
    unseen = protected[0] in drop
    kept = {f"X_{part}": X.drop(columns=list(drop)) for part, X in parts.items()}
    if not kept["X_train"].shape[1]:
        raise SettingError("--drop leaves no column to learn from.")
    fewer: dict[str, Any] = kept
    changed = replace(
        data, **fewer, sensitive=protected[0] if len(protected) == 1 else protected,
        groups={part: X[protected] for part, X in parts.items()} if unseen else None,
    )  # fmt: skip
    origin = {"table": data.name, "split_seed": data.X_train.attrs["origin"]["split_seed"]}
    return _remember(changed, origin | {"sensitive": sensitive, "drop": list(drop)})


def _protected(frame: pd.DataFrame, sensitive: str | Sequence[str], drop: Sequence[str]) -> list[str]:
    """The protected columns, all of them there, and either all or none of them dropped."""
    protected = [sensitive] if isinstance(sensitive, str) else list(sensitive)
    for option, columns in (("--sensitive", protected), ("--drop", list(drop))):
        absent = [c for c in columns if c not in frame.columns]
        if absent:
            raise TableError(
                f"{option}: there is no column {listed(absent)}; the table has {listed(frame.columns, 30)}."
            )
    unseen = [c for c in protected if c in drop]
    if unseen and len(unseen) < len(protected):
        raise SettingError(f"--drop {listed(unseen)}: of several protected columns drop all or none.")
    return protected


def read_file(path: str | Path) -> pd.DataFrame:
    """A CSV (comma, semicolon or tab) or Parquet file as a frame; rows are numbered from 0."""
    path = Path(path)
    if not path.exists():
        raise TableError(_no_such_file(path))
    if path.is_dir():
        raise TableError(f"'{path}' is a directory; name the CSV or Parquet file inside it.")
    try:
        if path.suffix in (".parquet", ".pq"):
            frame = pd.read_parquet(path).reset_index(drop=True)
        else:
            frame = pd.read_csv(path, sep=_separator(path), skipinitialspace=True, low_memory=False)
    except ImportError as error:
        raise TableError(
            f"Reading '{path}' needs a Parquet reader that is not installed: pip install \"butfor[parquet]\"."
        ) from error
    except (
        ValueError,
        OSError,
        UnicodeError,
    ) as error:  # pandas' and pyarrow's parser errors are ValueErrors
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise TableError(f"'{path}' is not a table that can be read ({reason}); give a CSV or Parquet file.") from error
    if frame.shape[1] < 2:
        raise TableError(
            f"'{path}' is not a table: it has {frame.shape[1]} column(s). A CSV needs a header line and "
            "columns separated by comma, semicolon or tab."
        )
    return frame


def split_frame(
    frame: pd.DataFrame,
    *,
    label: str,
    sensitive: str | Sequence[str],
    positive: str | None = None,
    drop: Sequence[str] = (),
    seed: int = 0,
    name: str = "table",
) -> Dataset:
    """A frame as a `Dataset`: label column apart, 60/20/20, as the published sets are split."""
    from sklearn.model_selection import train_test_split

    if label not in frame.columns:
        raise TableError(f"--label: there is no column '{label}'; the table has {listed(frame.columns, 30)}.")
    protected = _protected(frame, sensitive, drop)
    if label in protected:
        raise SettingError(f"--sensitive '{label}' is the label; name the column with the protected attribute.")
    if len(frame) < LEAST_ROWS:
        raise TableError(f"The table has {len(frame)} rows; at least {LEAST_ROWS} are needed to split it 60/20/20.")
    y, label_names = _labels(frame[label], positive)
    X = frame.drop(columns=[label, *drop])
    if not X.shape[1]:
        raise SettingError("--drop leaves no column to learn from.")
    rest, test = train_test_split(np.arange(len(X)), test_size=0.2, random_state=seed)
    train, val = train_test_split(rest, test_size=0.25, random_state=seed)
    places = (("train", train), ("val", val), ("test", test))
    parts = {
        f"{kind}_{part}": values.iloc[rows].copy() for part, rows in places for kind, values in (("X", X), ("y", y))
    }
    groups = {part: frame[protected].iloc[rows] for part, rows in places} if protected[0] in drop else None
    return Dataset(
        **parts, name=name, sensitive=protected[0] if len(protected) == 1 else protected, groups=groups,
        label_names=label_names,
        setup=default_setup(len(train), seed), source=name, licence="",
    )  # fmt: skip


def _several(names: str, frame: pd.DataFrame) -> str | list[str]:
    """A column's name, which may have commas in it, or several separated by commas."""
    return names if names in frame.columns else [c.strip() for c in names.split(",") if c.strip()] or names


def default_setup(n: int, seed: int = 0) -> Setup:
    """Training settings that suit a table of n training rows: the published ones for that size."""
    tiny = n < 100
    return Setup(
        hidden=(4, 4) if tiny else (32, 32),
        max_epochs=100 if n < 2000 else 200,
        budget=max(1, -(-n // 1000)),
        batch_size=8 if tiny else None,
        random_state=seed,
    )


def _labels(values: pd.Series, positive: str | None) -> tuple[pd.Series, tuple[str, str]]:
    """0/1 labels and the two labels' names."""
    if values.isna().any():
        row = values.index[values.isna().to_numpy()][0]
        raise TableError(f"Label column '{values.name}', row {row} is missing a value: fill it in or drop the row.")
    found = sorted(pd.unique(values.astype(object)), key=lambda v: (type(v).__name__, v))
    if len(found) != 2:
        only = "one value only" if len(found) == 1 else f"{len(found)} different values"
        raise TableError(
            f"Label column '{values.name}' has {only} ({listed(found)}); a label needs exactly two. "
            "Group them into two in the file, or name another column with --label."
        )
    if positive is not None:
        matching = [v for v in found if str(v) == positive]
        if not matching:
            raise TableError(f"--positive '{positive}' is not a value of '{values.name}', which has {listed(found)}.")
        found.sort(key=lambda v: v == matching[0])
    names = tuple(v if isinstance(v, str) else f"{values.name} = {v}" for v in found)
    y = (values.astype(object) == found[1]).astype(np.int64)
    return y.rename(values.name), (names[0], names[1])


def _remember(data: Dataset, origin: dict[str, Any]) -> Dataset:
    """Where the rows came from, kept on the tables themselves, where an audit finds it."""
    for X in (data.X_train, data.X_val, data.X_test):
        X.attrs["origin"] = origin
    for y in (data.y_train, data.y_val, data.y_test):
        y.attrs["label_names"] = data.label_names
    return data


def _separator(path: Path) -> str:
    with path.open(encoding="utf-8-sig") as file:
        header = file.readline()
    if "\0" in header:
        raise ValueError("it holds binary data")
    return max(",;\t", key=header.count)


def _no_such_file(path: str | Path) -> str:
    return f"There is no file '{path}'. Give a CSV or Parquet file, or one of {', '.join(DATASETS)}."

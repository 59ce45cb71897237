"""A table by name or from files, split into training, validation and test rows.

An embedded data set has its published split. A file is split 60/20/20 in the same way, unless validation or test rows
have their own files. The rows remember where they came from, so that a verdict can be replayed from its record. Notes
say what was changed on the way.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from butfor.columns import as_whole_numbers, clusters_in, is_numeric, numbers_in, refuse_missing
from butfor.data.catalogue import DATASETS, SPECS, Setup
from butfor.data.check import check_cells
from butfor.data.labels import MOST_CLASSES, label_names
from butfor.data.load import TEST, TRAIN, VAL, Dataset, Positions, load_dataset, split
from butfor.data.read import DATES, STANDARD_INPUT, Note, as_numbers, read_file, refuse_absent, title
from butfor.encode import OWN, REFUSE
from butfor.errors import SettingError, TableError, listed, nearest

LEAST_ROWS = LEAST_CLUSTERS = 20
COMPARISON = re.compile(r"(.+?)\s*(>=|<=|>|<)\s*([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)")
OTHERWISE = {">=": "<", "<": ">=", "<=": ">", ">": "<="}
DROP = "drop"
MARKS = ("?", "-", "--", ".", "n.a.", "unknown")
"""Cells that hold only this, in any case, often stand for a missing value."""


def load_table(
    source: str | Path,
    *,
    label: str | None = None,
    sensitive: str | None = None,
    drop: Sequence[str] = (),
    split_seed: int | None = None,
    missing: str = OWN,
    test: str | Path | None = None,
    validation: str | Path | None = None,
    hold_out: bool = True,
    identifier: str | None = None,
    keep: Sequence[str] = (),
    cluster: str | None = None,
    weight: str | None = None,
    whole: bool = False,
    note: Note = lambda line: None,
) -> Dataset:
    """The table at `source`, split or, if it is to stay `whole`, all as training rows. A file needs `label` and
    `sensitive`; an embedded set has its own.

    `label` may be "score>=70", which makes two labels of a number. `missing`: "own" leaves missing values to the model
    or its encoder, "refuse" raises an error, "drop" leaves out their rows; rows without a label are always left out.
    `test` and `validation` are files with the same columns. With a test file but no validation file, `hold_out` says
    whether to split off validation rows. `identifier` is the column that names the rows; columns in `keep` are shown
    but not learned from. `cluster` names the column whose rows of one value stay on one side of the split, `weight`
    that of weights; neither is learned from. `note` gets a sentence about each change."""
    if missing not in (OWN, REFUSE, DROP):
        raise SettingError(f"--missing {missing} is not one of {OWN}, {REFUSE}, {DROP}.")
    given: dict[str, Any] = {"label": label, "test": test and str(test)}
    given |= {"validation": validation and str(validation), "identifier": identifier, "keep": list(keep)}
    given |= {"cluster": cluster, "weight": weight}
    if str(source) in DATASETS:
        fixed = [f"--{'id' if name == 'identifier' else name}" for name, value in given.items() if value]
        if fixed:
            raise SettingError(
                f"'{source}' is an embedded data set with its published label, rows and split: leave out "
                f"{' and '.join(fixed)}."
            )
        data = load_dataset(str(source), random_state=split_seed)
        if caution := SPECS[data.name].caution:
            note(caution)
        return data if sensitive is None and not drop else _with_columns(data, sensitive, drop, note)
    if label is None or sensitive is None:
        absent = [f"--{n}" for n, v in (("label", label), ("sensitive", sensitive)) if v is None]
        refuse_absent(source)
        raise SettingError(f"For your own table give {' and '.join(absent)} (a column's name).")
    files = {part: file for part, file in ((TRAIN, source), (VAL, validation), (TEST, test)) if file is not None}
    frame, parts = _one_frame({part: read_file(file, note) for part, file in files.items()}, files)
    frame, label = _compared(frame, label)
    named = {"--label": label, "--id": identifier, "--cluster": cluster, "--weight": weight}
    aside = {option: [column] for option, column in named.items() if column is not None}
    _check_columns(frame, {**aside, "--keep": keep})
    protected = _protected(frame, sensitive, [*drop, *keep], note)
    if label in drop:
        raise SettingError(f"--drop '{label}' is the label, which is never learned from; leave it out of --drop.")
    if label in protected:
        raise SettingError(f"--sensitive '{label}' is the label; name the column with the protected attribute.")
    for option, column in (("--cluster", cluster), ("--weight", weight)):
        if column is not None and column in (label, *protected):
            raise SettingError(f"{option} '{column}' is the label or the protected attribute; name another column.")
    inputs = [c for c in frame.columns if c not in {*drop, *keep, *named.values()}]
    if not inputs:
        raise SettingError("--drop leaves no column to learn from.")
    learned_or_protected = list(dict.fromkeys([*inputs, *protected]))
    kept = [column for name, column in named.items() if column and name != "--id"]
    check_cells(frame[list(dict.fromkeys([*learned_or_protected, *keep, *kept]))])
    frame = as_numbers(frame, inputs, note)
    for column in inputs:
        if is_numeric(frame[column]):
            numbers_in(frame[column])  # raises an error about numbers that no model can take
    if marks := _marks(frame[learned_or_protected]):
        note(marks)
    usable = _usable(frame, label, learned_or_protected, missing, note)
    labels, frame, parts = as_whole_numbers(frame[label])[usable], frame[usable], parts[usable]
    if identifier is not None:
        labels.index = frame.index = pd.Index(_identifiers(frame[identifier]))
    seed = split_seed or 0
    clusters = None if cluster is None else clusters_in(frame[cluster])
    if weight is not None:
        refuse_missing(frame[[weight]], "every row needs a weight (--weight)")
        frame = frame.assign(**{weight: numbers_in(frame[weight])})
    everything = {TRAIN: np.arange(len(frame)), VAL: np.arange(0), TEST: np.arange(0)}
    rows = everything if whole else _split(parts, files, seed, hold_out, clusters)
    y, names = _labels(labels)
    unseen = [name for number, name in enumerate(names) if not (y.iloc[rows[TRAIN]] == number).any()]
    if unseen:
        raise TableError(
            f"No training row has the label '{unseen[0]}' of other rows; correct it, group it with another label, or "
            "drop these rows."
        )
    origin = {"table": str(source), "sensitive": sensitive, "drop": list(drop), "split_seed": seed, "missing": missing}
    if str(source) == STANDARD_INPUT:
        origin |= {"table": None, "given": title(source)}
    return Dataset.of(
        frame[inputs],
        y,
        rows,
        given | origin | {"hold_out": hold_out},
        name=title(source),
        sensitive=protected[0] if len(protected) == 1 else protected,
        groups=None if protected[0] in inputs else {part: frame[protected].iloc[at] for part, at in rows.items()},
        label_names=names,
        setup=default_setup(len(rows[TRAIN]), seed),
        kept=frame[list(keep)].iloc[rows[TEST]] if keep else None,
        dates=frame.attrs[DATES],
        cluster=None if cluster is None else {part: frame[cluster].iloc[at] for part, at in rows.items()},
        weight=None if weight is None else {part: frame[weight].iloc[at] for part, at in rows.items()},
    )


def _with_columns(data: Dataset, sensitive: str | None, drop: Sequence[str], note: Note) -> Dataset:
    """An embedded set with other protected columns, or with columns that are not learned from."""
    parts = {TRAIN: data.X_train, VAL: data.X_val, TEST: data.X_test}
    protected = _protected(data.X_train, sensitive or str(data.sensitive), drop, note)
    kept: dict[str, Any] = {f"X_{part}": X.drop(columns=list(drop)) for part, X in parts.items()}
    if not kept["X_train"].shape[1]:
        raise SettingError("--drop leaves no column to learn from.")
    for X in kept.values():
        X.attrs["origin"] = X.attrs["origin"] | {"sensitive": sensitive, "drop": list(drop)}
    groups = {part: X[protected] for part, X in parts.items()} if protected[0] in drop else None
    return replace(data, **kept, sensitive=protected[0] if len(protected) == 1 else protected, groups=groups)


# --- columns and rows -----------------------------------------------------------------------------------


def _protected(frame: pd.DataFrame, names: str, drop: Sequence[str], note: Note) -> list[str]:
    """The protected columns: one, whose name may contain commas, or several separated by commas; all or none of them
    dropped."""
    protected = [names] if names in frame.columns else [c.strip() for c in names.split(",") if c.strip()] or [names]
    _check_columns(frame, {"--sensitive": protected, "--drop": drop})
    unseen = [c for c in protected if c in drop]
    if unseen and len(unseen) < len(protected):
        raise SettingError(f"--drop {listed(unseen)}: drop all of the protected columns or none.")
    if unseen:
        note(f"Groups are formed by {listed(unseen)}, which the model does not see.")
    return protected


def _compared(frame: pd.DataFrame, label: str) -> tuple[pd.DataFrame, str]:
    """The frame and its label column; of "score>=70" the column score becomes two labels, with that name."""
    read = None if label in frame.columns else COMPARISON.fullmatch(label.strip())
    if read is None or read[1] not in frame.columns:
        return frame, label
    column, sign, limit = read.groups()
    numbers, at = pd.Series(numbers_in(frame[column]), frame.index), float(limit)
    holds = {">=": numbers >= at, "<=": numbers <= at, ">": numbers > at, "<": numbers < at}[sign]
    labels = np.where(holds, f"{column}{sign}{limit}", f"{column}{OTHERWISE[sign]}{limit}")
    name = f"{column}{sign}{limit}"
    frame = frame.rename(columns={column: name})
    return frame.assign(**{name: pd.Series(labels, frame.index, dtype=object).where(numbers.notna())}), name


def _check_columns(frame: pd.DataFrame, named: dict[str, Sequence[str]]) -> None:
    for option, columns in named.items():
        absent = [c for c in columns if c not in frame.columns]
        if absent:
            known = nearest(absent[0], frame.columns, "The table has")
            raise TableError(f"{option}: there is no column {listed(absent)}. {known}")


def _one_frame(frames: dict[str, pd.DataFrame], files: dict[str, str | Path]) -> tuple[pd.DataFrame, NDArray[np.str_]]:
    """The rows of all files in one frame, numbered as in their files, and the part that each row belongs to."""
    first = frames[TRAIN]
    for part in list(frames)[1:]:
        name, frame = title(files[part]), frames[part]
        for what, ours, theirs in (("lacks", first, frame), ("has besides", frame, first)):
            lone = [c for c in ours.columns if c not in theirs.columns]
            if lone:
                raise TableError(
                    f"'{name}' {what} column {listed(lone)}; it must have the columns of the training file."
                )
        frames[part] = frame.assign(**{c: _like_training(frame[c], first[c], name) for c in first.columns})[
            first.columns
        ]
    parts = np.repeat(list(frames), [len(frame) for frame in frames.values()])
    return first if len(frames) == 1 else pd.concat(list(frames.values())), parts


def _like_training(values: pd.Series, training: pd.Series, name: str) -> pd.Series:
    """A column of another file with the type of the training file's column, numbers or text."""
    numeric = is_numeric(training)
    if numeric == is_numeric(values) or values.isna().all() or training.isna().all():
        return values
    if numeric:
        try:
            return pd.Series(numbers_in(values), values.index)
        except TableError as error:
            raise TableError(f"'{name}' differs from the training file: {error}") from None
    if any(not isinstance(value, str) for value in training.dropna().unique()[:1]):
        return values
    text = [f"{v:g}" if isinstance(v, float) and v.is_integer() else str(v) for v in values]
    return pd.Series(text, values.index, name=values.name).where(values.notna())


def _usable(frame: pd.DataFrame, label: str, columns: list[str], missing: str, note: Note) -> NDArray[np.bool_]:
    """The rows to keep: those with a label and, if rows with missing values are dropped, without any."""
    if missing == REFUSE:
        refuse_missing(frame[[label, *columns]], "fill it in, or use --missing own or --missing drop")
    labelled = frame[label].notna().to_numpy()
    if not labelled.all():
        note(f"{_count(int((~labelled).sum()))} without a label in '{label}' left out.")
    if missing != DROP:
        return labelled
    empty = frame[columns].isna()
    whole = ~empty.any(axis=1).to_numpy()
    if not whole[labelled].all():
        holes = ", ".join(f"'{column}' in {count}" for column, count in empty.sum().items() if count)
        note(f"{_count(int((~whole[labelled]).sum()))} with missing values left out ({holes}).")
    return labelled & whole


def _marks(frame: pd.DataFrame) -> str:
    """A sentence on cells that look like marks for missing values; empty if there are none."""
    found = []
    for column in frame.columns:
        if not is_numeric(frame[column]):
            counts = frame[column].value_counts()
            found += [
                f"'{value}' in {count} cell{'s' * (count != 1)} of '{column}'"
                for value, count in counts.items()
                if str(value).strip().lower() in MARKS
            ]
    if not found:
        return ""
    return f"{'; '.join(found)}: this counts as a value of its own. If it means missing, leave these cells empty."


def _count(count: int) -> str:
    return "1 row" if count == 1 else f"{count} rows"


def _identifiers(values: pd.Series) -> list[Any]:
    """The names of the rows, each different."""
    refuse_missing(values.to_frame(), "an identifier (--id) needs one in every row")
    if values.dtype in (object, np.uint64):  # no record holds numbers beyond 64 bits, but they may serve as names
        values = values.map(str)
    twice = values[values.duplicated()]
    if len(twice):
        raise TableError(
            f"--id '{values.name}': '{twice.iloc[0]}' occurs {int((values == twice.iloc[0]).sum())} times; an "
            "identifier must be different in every row."
        )
    return values.tolist()


def _split(
    parts: NDArray[np.str_], files: Iterable[str], seed: int, hold_out: bool, clusters: Positions | None
) -> dict[str, Positions]:
    """The positions of training, validation and test rows: split like the published sets, unless they have their own
    files."""
    given = {part: np.flatnonzero(parts == part) for part in files}
    rows = given.pop(TRAIN)
    if len(rows) < LEAST_ROWS:
        raise TableError(f"The table has {_count(len(rows))}; at least {LEAST_ROWS} are needed to split it 60/20/20.")
    for part, found in given.items():
        if not len(found):
            raise TableError(f"The {'test' if part == TEST else 'validation'} file has no rows that can be used.")
    if clusters is not None and (count := len(np.unique(clusters[rows]))) < LEAST_CLUSTERS:
        raise TableError(
            f"--cluster joins the rows into {count} clusters; at least {LEAST_CLUSTERS} are needed to split them "
            "60/20/20."
        )
    held = hold_out or TEST not in given
    return split(rows, seed, given.get(TEST), given.get(VAL, None if held else rows[:0]), clusters)


MOST_AT_ONCE, BATCH = 8192, 1024
"""Up to this many training rows are one batch; larger tables use batches of this size."""


def default_setup(n: int, seed: int = 0) -> Setup:
    """Training settings for n training rows: the published ones for that size, but with batches if there are many rows,
    since one full batch takes many more passes for models that are no better."""
    tiny, large = n < 100, n > MOST_AT_ONCE
    return Setup(
        hidden=(4, 4) if tiny else (32, 32),
        max_epochs=100 if n < 2000 else 200,
        budget=max(1, -(-n // 1000)),
        batch_size=8 if tiny else BATCH if large else None,
        random_state=seed,
    )


def _labels(values: pd.Series) -> tuple[pd.Series, tuple[str, ...]]:
    """Labels by number, and their names."""
    found = sorted(pd.unique(values.astype(object)), key=lambda v: (type(v).__name__, v))
    if not 2 <= len(found) <= MOST_CLASSES:
        only = "one value only" if len(found) == 1 else f"{len(found)} different values"
        group = "Group them in the file"
        if is_numeric(values) and len(found) > 1:
            group = f'Compare the numbers (--label "{values.name}>={values.median():g}")'
        raise TableError(
            f"Label column '{values.name}' has {only} ({listed(found)}); a label needs at least two and at most "
            f"{MOST_CLASSES}. {group}, or name another column with --label."
        )
    counts = values.astype(object).value_counts()
    if len(found) > 2 and counts.min() == 1:
        raise TableError(
            f"Label column '{values.name}' has {len(found)} different values, and '{counts.idxmin()}' occurs in one "
            f"row only, row {values.index[values.astype(object) == counts.idxmin()][0]}: correct it, or drop the row."
        )
    y = values.astype(object).map({value: number for number, value in enumerate(found)}).astype(np.int64)
    return y, label_names(found, values.name)

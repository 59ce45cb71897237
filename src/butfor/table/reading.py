"""A table by name or from files, read, checked and split into training, validation and test rows.

An embedded data set has its published split. A file is split 60/20/20 in the same way, unless
validation or test rows have their own files. The rows remember where they came from, so that a
verdict can be replayed from its record. Notes say what was changed on the way.

What is no table is refused with a sentence: a path that names no file, a file beyond the size
limit, a binary file with the name of a text file, a header that names a column twice, and lines
that do not fit the header, which pandas would shift or fill.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import operator
import re
import sys
import warnings
import zipfile
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from butfor.support.errors import (
    ButforError,
    SettingError,
    TableError,
    first_line,
    listed,
    nearest,
    plural,
)
from butfor.table.checking import strange_among_numbers
from butfor.table.columns import (
    as_numbers,
    as_table,
    as_whole_numbers,
    clusters_in,
    is_numeric,
    numbers_in,
    refuse_missing,
    spelled,
)
from butfor.table.embedded import (
    DATASETS,
    SPECS,
    TEST,
    TRAIN,
    VAL,
    Dataset,
    Setup,
    load_dataset,
    split,
)
from butfor.table.encoding import OWN, REFUSE
from butfor.table.labels import label_names, label_values
from butfor.table.notation import check_decimal, read_notation
from butfor.table.roles import Roles

Note = Callable[[str], None]

STANDARD_INPUT = "-"
FILES = {".parquet": "parquet", ".pq": "parquet", ".feather": "parquet", ".xlsx": "excel"}
"""Binary files by the ending of their names, and the extra that reads them."""
MAX_BYTES = 2 * 1024**3
MAX_COLUMNS = 10_000
"""Models work with products of all pairs of columns, which are 800 MB of so many."""
MIN_ROWS = 20
LABEL_LIMIT = re.compile(r"[-+]?(?:\d++\.?\d*+|\.\d++)(?:[eE][-+]?\d++)?")
"""The number of a label such as "score>=70"."""
SIGNS = {
    ">=": (operator.ge, "<"),
    "<=": (operator.le, ">"),
    "<": (operator.lt, ">="),
    ">": (operator.gt, "<="),
}
"""What a sign compares, and the sign of all other rows."""
DROP = "drop"
MARKS = ("?", "-", "--", ".", "n.a.", "unknown")
"""Cells that hold only this, in any case, often stand for a missing value."""
FULL_BATCH_ROWS = 8192
"""Up to this many training rows are one batch."""
BATCH_ROWS = 1024
"""Larger tables use batches of this size."""


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
    cluster: str | None = None,
    weight: str | None = None,
    decimal: str | None = None,
    day_first: bool = False,
    whole: bool = False,
    beside: str | None = None,
    note: Note = lambda line: None,
) -> Dataset:
    """The table at `source`, split or, if it is to stay `whole`, all as training rows. A file needs
    `label` and `sensitive`; an embedded set has its own.

    `label` may be "score>=70", which makes two labels of a number. `missing`: "own" leaves missing
    values to the model or its encoder, "refuse" raises an error, "drop" leaves out their rows; rows
    without a label are always left out. `test` and `validation` are files with the same columns.
    With a test file but no validation file, `hold_out` says whether to split off validation rows.
    `identifier` is the column that names the rows, `cluster` the one whose rows of one value stay
    on one side of the split, `weight` that of weights; none is learned from. `decimal` is the
    decimal sign of numbers that are written as text, "," or "."; `day_first` reads text such as
    29.02.2024 as dates. `beside` is a column that reviewers are shown, whatever else it is; only
    the label cannot be. `note` gets a sentence about each change."""
    if missing not in (OWN, REFUSE, DROP):
        raise SettingError(f"--missing {missing} is not one of {OWN}, {REFUSE}, {DROP}.")
    given: dict[str, Any] = {"label": label, "test": test and str(test)}
    given |= {"validation": validation and str(validation), "identifier": identifier}
    given |= {"cluster": cluster, "weight": weight, "decimal": decimal, "day_first": day_first}
    if str(source) in DATASETS:
        options = {name: f"--{name.replace('_', '-')}" for name in given} | {"identifier": "--id"}
        fixed = [options[name] for name, value in given.items() if value]
        if fixed:
            raise SettingError(
                f"'{source}' is an embedded data set with its published label, rows and split: "
                f"leave out {' and '.join(fixed)}."
            )
        return _embedded(str(source), split_seed, sensitive, drop, beside, note)
    if label is None or sensitive is None:
        absent = [
            option
            for option, name in (("--label", label), ("--sensitive", sensitive))
            if name is None
        ]
        refuse_absent(source)
        raise SettingError(f"For your own table give {' and '.join(absent)} (a column's name).")

    files = {
        part: file
        for part, file in ((TRAIN, source), (VAL, validation), (TEST, test))
        if file is not None
    }
    frame, parts = _rows_of(files, note, decimal, day_first)
    frame, label = _with_label(frame, label)
    seed = split_seed or 0
    origin = given | {
        "table": str(source),
        "sensitive": sensitive,
        "drop": list(drop),
        "split_seed": seed,
        "missing": missing,
        "hold_out": hold_out,
    }
    if str(source) == STANDARD_INPUT:
        origin |= {"table": None, "given": title(source)}
    named = Roles(label=label, identifier=identifier, cluster=cluster, weight=weight, origin=origin)
    roles = _roles(frame, named, sensitive, drop, beside, note)
    frame, dates = _checked_cells(frame, roles, note)
    usable = _usable(frame, roles, missing, note)
    frame = frame[usable].assign(**{label: as_whole_numbers(frame[label])[usable]})
    parts = parts[usable]
    if identifier is not None:
        frame.index = _identifiers(frame[identifier])
    if weight is not None:
        frame[weight] = numbers_in(frame[weight])
    rows = {TRAIN: np.arange(len(frame)), VAL: np.arange(0), TEST: np.arange(0)}
    if not whole:
        clusters = None if cluster is None else clusters_in(frame[cluster])
        rows = _split(parts, list(files), clusters, seed, hold_out)
    y, label_names = _numbered_labels(frame[label], rows[TRAIN])
    return Dataset.of(
        frame,
        y,
        rows,
        replace(roles, dates=dates, label_names=label_names),
        name=title(source),
        setup=default_setup(len(rows[TRAIN]), seed),
        beside=None if beside is None else as_whole_numbers(frame[beside].iloc[rows[TRAIN]]),
    )


def _rows_of(
    files: Mapping[str, str | Path], note: Note, decimal: str | None, day_first: bool
) -> tuple[pd.DataFrame, NDArray[np.str_]]:
    """The rows of all files in one frame, numbered as in their files, and the part that each row
    belongs to."""
    frames = {
        part: read_file(file, note, decimal=decimal, day_first=day_first)
        for part, file in files.items()
    }
    parts = np.repeat(list(frames), [len(rows) for rows in frames.values()])
    training = frames.pop(TRAIN)
    others = [_alike(rows, training, title(files[part])) for part, rows in frames.items()]
    return pd.concat([training, *others]), parts


def _with_label(frame: pd.DataFrame, label: str) -> tuple[pd.DataFrame, str]:
    """The frame with the label as a column, and its name: of "score >= 70", the column score
    becomes two labels."""
    compared = None if label in frame.columns else _compared(label)
    if compared is None or compared[0] not in frame.columns:
        return frame, label
    column, sign, limit = compared
    compare, otherwise = SIGNS[sign]
    numbers = numbers_in(frame[column])
    name = f"{column}{sign}{limit}"
    two = np.where(compare(numbers, float(limit)), name, f"{column}{otherwise}{limit}")
    frame = frame.rename(columns={column: name})
    frame[name] = pd.Series(two, frame.index, dtype=object).where(~np.isnan(numbers))
    return frame, name


def _roles(
    frame: pd.DataFrame,
    columns: Roles,
    sensitive: str,
    drop: Sequence[str],
    beside: str | None,
    note: Note,
) -> Roles:
    """The roles of all columns, from those that have a name of their own in an option."""
    options = {
        "--label": columns.label,
        "--id": columns.identifier,
        "--cluster": columns.cluster,
        "--weight": columns.weight,
        "--file-column": beside,
    }
    for option, name in options.items():
        _refuse_unknown(frame, option, [] if name is None else [name])
    protected = _protected(frame, sensitive, drop, note)
    if beside == columns.label:
        raise SettingError(
            f"--file-column '{beside}' is the label; name the column with the reviewers' files."
        )
    if columns.label in protected:
        raise SettingError(
            f"--sensitive '{columns.label}' is the label; name the column with the protected "
            "attribute."
        )
    unseen = {*drop, columns.label, columns.identifier, columns.cluster, columns.weight}
    inputs = [column for column in frame.columns if column not in unseen]
    if not inputs:
        raise SettingError("--drop leaves no column to learn from.")
    return replace(columns, inputs=tuple(inputs), protected=tuple(protected))


def _checked_cells(
    frame: pd.DataFrame, roles: Roles, note: Note
) -> tuple[pd.DataFrame, tuple[Hashable, ...]]:
    """The frame with inputs to compute with, and the columns that hold dates."""
    recorded = [roles.label, roles.cluster, roles.weight]
    cells = [*roles.read_from, *(column for column in recorded if column is not None)]
    as_table(frame[list(dict.fromkeys(cells))])
    frame, dates = as_numbers(frame, roles.inputs, note)
    for column in roles.inputs:
        if is_numeric(frame[column]):
            numbers_in(frame[column])  # raises an error about numbers that no model can take
    marks = list[str]()
    for column in [roles.label, *roles.read_from]:
        values = frame[column]
        if is_numeric(values) or strange_among_numbers(values):  # the latter are a concern
            continue
        marks += [
            f"'{value}' in {plural(count, 'cell')} of '{column}'"
            for value, count in values.value_counts().items()
            if str(value).strip().lower() in MARKS
        ]
    if marks:
        note(
            f"{'; '.join(marks)}: this counts as a value of its own. If it means missing, leave "
            "these cells empty."
        )
    return frame, dates


def _usable(frame: pd.DataFrame, roles: Roles, missing: str, note: Note) -> NDArray[np.bool_]:
    """Which rows can be used: those with a label and, if rows with missing values are dropped,
    without any."""
    label = roles.label
    if missing == REFUSE:
        refuse_missing(
            frame[[label, *roles.read_from]], "fill it in, or use --missing own or --missing drop"
        )
    usable = frame[label].notna().to_numpy()
    if not usable.any():
        raise TableError(
            f"Column '{label}', the label, is empty in every row. If these are formulas of an "
            "Excel file, they were saved without their values: open the file in a spreadsheet "
            "program and save it again."
        )
    if not usable.all():
        note(f"{plural((~usable).sum(), 'row')} without a label in '{label}' left out.")
    if missing != DROP:
        return usable
    gaps = frame[list(roles.read_from)].isna()
    lost = usable & gaps.any(axis=1).to_numpy()
    if lost.any():
        columns_with = ", ".join(
            f"'{column}' in {count}" for column, count in gaps.sum().items() if count
        )
        note(f"{plural(lost.sum(), 'row')} with missing values left out ({columns_with}).")
    return usable & ~lost


def _identifiers(values: pd.Series) -> pd.Index:
    """The names of the rows, all different. No record holds numbers beyond 64 bits, but they may
    serve as names."""
    refuse_missing(values.to_frame(), "an identifier (--id) needs one in every row")
    names = values.map(str) if values.dtype in (object, np.uint64) else values
    repeated = names[names.duplicated()]
    if len(repeated):
        raise TableError(
            f"--id '{values.name}': '{repeated.iloc[0]}' occurs "
            f"{(names == repeated.iloc[0]).sum()} times; an identifier must be different in every "
            "row."
        )
    return pd.Index(names.tolist())


def _split(
    parts: NDArray[np.str_],
    files: Sequence[str],
    clusters: NDArray[np.int64] | None,
    seed: int,
    hold_out: bool,
) -> dict[str, Any]:
    """The positions of training, validation and test rows: split like the published sets, unless
    they have their own `files`. `parts`: the file of each row."""
    in_file = {part: np.flatnonzero(parts == part) for part in files}
    train = in_file.pop(TRAIN)
    count = len(train) if clusters is None else len(np.unique(clusters[train]))
    if count < MIN_ROWS:
        what = "row" if clusters is None else "cluster"
        raise TableError(
            f"The table has {plural(count, what)}; at least {MIN_ROWS} are needed to split it "
            "60/20/20."
        )
    for part, rows in in_file.items():
        if not len(rows):
            kind = "test" if part == TEST else "validation"
            raise TableError(f"The {kind} file has no rows that can be used.")
    validation = in_file.get(VAL)
    if validation is None and TEST in in_file and not hold_out:
        validation = train[:0]
    return split(train, seed, in_file.get(TEST), validation, clusters)


def _numbered_labels(
    labels: pd.Series, training: NDArray[np.int64]
) -> tuple[pd.Series, tuple[str, ...]]:
    """The labels by number, and their names; each occurs in a training row."""
    classes = label_values(labels.to_numpy(), str(labels.name))
    numbers = {value: number for number, value in enumerate(classes)}
    y = labels.astype(object).map(numbers).astype(np.int64)
    names = label_names(classes, labels.name)
    present = set(y.iloc[training])
    unseen = [name for number, name in enumerate(names) if number not in present]
    if unseen:
        raise TableError(
            f"No training row has the label '{unseen[0]}' of other rows; correct it, group it "
            "with another label, or drop these rows."
        )
    return y, names


def _embedded(
    name: str,
    seed: int | None,
    sensitive: str | None,
    drop: Sequence[str],
    beside: str | None,
    note: Note,
) -> Dataset:
    """An embedded set, perhaps with other protected columns, or with columns that are not learned
    from."""
    data = load_dataset(name, random_state=seed)
    if beside is not None:
        _refuse_unknown(data.X_train, "--file-column", [beside])
        data = replace(data, beside=data.X_train[beside])
    if SPECS[name].caution:
        note(SPECS[name].caution)
    if sensitive is None and not drop:
        return data
    protected = _protected(data.X_train, sensitive or str(data.sensitive), drop, note)
    return data.with_columns(drop, protected, {"sensitive": sensitive, "drop": list(drop)})


def _compared(label: str) -> tuple[str, str, str] | None:
    """The column, the sign and the limit of a label such as "score >= 70"; None of any other
    label."""
    for sign in SIGNS:  # those of two characters come before their first one alone
        column, found, limit = label.rpartition(sign)
        if found and LABEL_LIMIT.fullmatch(limit.strip()):
            return column.strip(), sign, limit.strip()
    return None


def _refuse_unknown(frame: pd.DataFrame, option: str, columns: Sequence[Hashable]) -> None:
    absent = [column for column in columns if column not in frame.columns]
    if absent:
        present = nearest(absent[0], frame.columns, "The table has")
        raise TableError(f"{option}: there is no column {listed(absent)}. {present}")


def _protected(frame: pd.DataFrame, sensitive: str, drop: Sequence[str], note: Note) -> list[str]:
    """The protected columns. The model learns from all of them or from none, which a note says."""
    protected = [sensitive]
    if sensitive not in frame.columns:
        protected = [column for column in map(str.strip, sensitive.split(",")) if column]
    _refuse_unknown(frame, "--sensitive", protected or [sensitive])
    _refuse_unknown(frame, "--drop", drop)
    unseen = [c for c in protected if c in drop]
    if unseen and len(unseen) < len(protected):
        raise SettingError(f"--drop {listed(unseen)}: drop all of the protected columns or none.")
    if unseen:
        note(f"Groups are formed by {listed(unseen)}, which the model does not see.")
    return protected


def _alike(frame: pd.DataFrame, training: pd.DataFrame, name: str) -> pd.DataFrame:
    """The rows of another file with the columns of the training file, in their order and of their
    kind, numbers or text."""
    for what, ours, theirs in (("lacks", training, frame), ("has besides", frame, training)):
        lone = [column for column in ours.columns if column not in theirs.columns]
        if lone:
            raise TableError(
                f"'{name}' {what} column {listed(lone)}; it must have the columns of the training "
                "file."
            )
    frame = frame[training.columns].copy(deep=False)
    for column, of_training in training.items():
        values = frame[column]
        numeric = is_numeric(of_training)
        if numeric == is_numeric(values) or values.isna().all() or of_training.isna().all():
            continue
        if numeric:
            try:
                frame[column] = numbers_in(values)
            except TableError as error:
                raise TableError(f"'{name}' differs from the training file: {error}") from None
        elif isinstance(of_training.dropna().iloc[0], str):
            frame[column] = values.map(spelled, na_action="ignore")
    return frame


def default_setup(n: int, seed: int = 0) -> Setup:
    """Training settings for n training rows: the published ones for that size, but with batches if
    there are many rows, since one full batch takes many more passes for models that are no
    better."""
    tiny = n < 100
    batch_size = BATCH_ROWS if n > FULL_BATCH_ROWS else None
    return Setup(
        hidden=(4, 4) if tiny else (32, 32),
        max_epochs=100 if n < 2000 else 200,
        budget=max(1, -(-n // 1000)),
        batch_size=8 if tiny else batch_size,
        random_state=seed,
    )


# --- files ----------------------------------------------------------------------------------------


def read_file(
    path: str | Path,
    note: Note = lambda line: None,
    *,
    decimal: str | None = None,
    day_first: bool = False,
) -> pd.DataFrame:
    """A file as a frame, rows numbered from 0: CSV (comma, semicolon or tab, also .gz; "-" is
    standard input), Parquet, Feather or Excel. `decimal` and `day_first` say how its text is read,
    see `read_notation`."""
    check_decimal(decimal)
    refuse_absent(path)
    name = title(path)
    ending = Path(path).suffix.lower()
    try:
        if ending in FILES:
            frame = _read_binary(Path(path), ending, note)
        else:
            # With a decimal sign every cell is text first: 1.234 may be a thousand.
            frame = _read_text(path, note, as_text=decimal is not None)
        frame = frame.rename(columns=lambda column: column.strip() or column)
        return read_notation(frame, decimal, day_first)
    except ImportError as error:
        raise TableError(
            f"Reading '{name}' needs a package that is not installed: pip install "
            f'"butfor[{FILES[ending]}]".'
        ) from error
    except ButforError:
        raise
    except Exception as error:  # readers of damaged files raise many kinds of exception
        raise TableError(
            f"'{name}' cannot be read as a table ({first_line(error)}); give a CSV, Parquet, "
            "Feather or Excel file whose name ends in .csv, .parquet, .feather or .xlsx."
        ) from error


def refuse_absent(path: str | Path) -> None:
    """Raise an error if the file does not exist, is not a regular file, or is too large."""
    if str(path) == STANDARD_INPUT:
        return
    if not Path(path).exists():
        known = nearest(path, DATASETS, "Give a CSV, Parquet, Feather or Excel file, or one of")
        raise TableError(f"There is no file '{path}'. {known}")
    recordable = str(path).encode(errors="ignore").decode() == str(
        path
    )  # a name that is not UTF-8 is not
    if not recordable or not Path(path).is_file():
        raise TableError(
            f"'{path}' is a directory, a device or a pipe, or its name cannot be recorded; name a "
            "file, or - for a CSV from standard input."
        )
    _refuse_large(Path(path).stat().st_size, str(path))


def _refuse_large(size: int, name: str) -> None:
    if size > MAX_BYTES:
        raise TableError(
            f"'{name}' is larger than the limit of {MAX_BYTES / 1024**3:.1f} GB; give fewer rows "
            "or columns."
        )


def _check_header(header: list[str], name: str, note: Note) -> None:
    """Refuse a first line that is no line of names, or names too many columns, before the others
    are read; note columns without a name, which pandas gives one."""
    if len(header) > MAX_COLUMNS:
        raise TableError(
            f"'{name}' has {len(header)} columns, and at most {MAX_COLUMNS} can be worked with: "
            "leave out those that had no part in the decisions, or combine them."
        )
    named = pd.Series([column.strip() for column in header if column.strip()], dtype=object)
    if len(named) < 2:
        raise TableError(
            f"'{name}' is not a table: its first line names "
            f"{f'only {listed(named)}' if len(named) else 'no column'}. Begin with a line of all "
            "column names; in a CSV separate columns by comma, semicolon or tab."
        )
    twice = named[named.duplicated()].unique()
    if len(twice):
        raise TableError(
            f"The header of '{name}' names column {listed(twice)} more than once; rename or drop "
            "one. If the first line is data, write a line of names above it."
        )
    blank = [f"Unnamed: {place}" for place, column in enumerate(header) if not column.strip()]
    if blank:
        called = f"called {listed(blank)}; --drop leaves a column out"
        note(f"'{name}' has {plural(len(blank), 'column')} without a name, {called}.")


def _read_binary(path: Path, ending: str, note: Note) -> pd.DataFrame:
    if ending == ".xlsx":
        with zipfile.ZipFile(path) as packed:
            _refuse_large(sum(part.file_size for part in packed.infolist()), str(path))
        with pd.ExcelFile(path, engine="openpyxl") as book:
            if len(book.sheet_names) > 1:
                note(
                    f"'{path}': reading sheet '{book.sheet_names[0]}', the first of "
                    f"{len(book.sheet_names)}."
                )
            header = (
                pd.read_excel(book, header=None, nrows=1, dtype=object)
                .fillna("")
                .to_numpy()
                .ravel()
            )
            frame = pd.read_excel(book)
    else:
        frame = _read_arrow(path, ending)
        frame = frame.reset_index(
            drop=not any(frame.index.names)
        )  # a named index is a column of the table
        header = frame.columns.to_numpy()
    _check_header(list(map(str, header)), str(path), note)
    frame = frame.rename(columns=str)
    for column, values in frame.items():
        kind = values.dtype
        # pandas' nullable numbers: a record cannot hold their missing values
        if pd.api.types.is_extension_array_dtype(kind) and pd.api.types.is_numeric_dtype(kind):
            frame[column] = values.astype(object).where(values.notna(), np.nan).infer_objects()
    return frame


def _read_arrow(path: Path, ending: str) -> pd.DataFrame:
    """A Parquet or Feather file. All lengths, places and texts of it are checked before pandas
    takes them as they are: those of a damaged file lead out of the memory."""
    from pyarrow import feather, parquet

    if ending == ".feather":
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore", FutureWarning
            )  # in favour of what cannot read the first version
            table = feather.read_table(path)
    else:
        table = parquet.read_table(path)
    table.validate(full=True)
    frame: pd.DataFrame = table.to_pandas()
    return frame


def _read_text(path: str | Path, note: Note, *, as_text: bool = False) -> pd.DataFrame:
    """A CSV; `as_text`: all of its cells as text, missing ones apart."""
    name = title(path)
    if str(path) == STANDARD_INPUT:
        content = sys.stdin.buffer.read(MAX_BYTES + 1)
    else:
        content = Path(path).read_bytes()
    if content.startswith(b"\x1f\x8b"):
        with gzip.open(io.BytesIO(content)) as packed:
            content = packed.read(MAX_BYTES + 1)
    _refuse_large(len(content), name)
    wide = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    for encoding in ("utf-16",) if wide else ("utf-8-sig", "cp1252"):
        with suppress(UnicodeDecodeError):
            text = content.decode(encoding)
            break
    else:
        raise ValueError("it is not text in UTF-8, UTF-16 or Windows-1252: save it as UTF-8")
    if "\0" in text:
        raise ValueError("it is not a text file")
    if encoding != "utf-8-sig":
        note(f"'{name}' is not UTF-8; it was read as {encoding}.")
    header = text.lstrip().partition("\n")[0]
    separator = max(",;\t", key=re.sub(r'"[^"]*"', "", header).count)

    # pandas shifts or fills lines that do not fit the header, so every line is counted first.
    lines = csv.reader(
        io.StringIO(text, newline=""), delimiter=separator, skipinitialspace=True, strict=True
    )
    line = 0
    try:
        header = next(
            (line for line in lines if len(line) > 1 or any(line)), list[str]()
        )  # as pandas, no blank line
        _check_header(header, name, note)
        line = lines.line_num
        for values in lines:
            first = line + 1
            line = lines.line_num
            broken = (
                value for value in values if line > first and ("\n" in value or "\r" in value)
            )
            if any(value.count(separator) >= len(header) - 1 for value in broken):
                raise TableError(
                    f"A quotation mark in line {first} of '{name}' is closed only in line {line}, "
                    "so the rows between would be one value: close it, or double it if it is part "
                    "of the text."
                )
            if len(values) != len(header) and (len(values) > 1 or any(map(str.strip, values))):
                raise TableError(
                    f"Line {line} of '{name}' has {len(values)} value{'s' * (len(values) != 1)}, "
                    f"but the header names {len(header)} columns: correct the line, or the header "
                    "if a name is missing."
                )
    except csv.Error as error:
        unclosed = ""
        if "end of data" in str(error):
            unclosed = f": the quotation mark in line {line + 1} is never closed"
        raise TableError(
            f"Line {lines.line_num} of '{name}' cannot be read ({error}){unclosed}; correct the "
            "line."
        ) from error
    how: dict[str, Any] = {
        "sep": separator,
        "skipinitialspace": True,
        "low_memory": False,
        "index_col": False,
    }
    return pd.read_csv(io.StringIO(text), dtype=str if as_text else None, **how)


def title(path: str | Path) -> str:
    """The name of a file in messages."""
    return "standard input" if str(path) == STANDARD_INPUT else str(path)

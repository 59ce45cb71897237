"""The hash of the data that a result came from."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from butfor.support.errors import ReplayError
from butfor.table.table import Table

CSV = "csv"
TYPED = "typed"
"""Rules of a data hash. "csv" (records of 0.5): of the rows as CSV text, in which a number and its
text are the same. "typed": of the values with their types and categories."""


def data_hash(table: Table, rule: str = TYPED) -> str:
    """sha256 of the training and validation rows, their labels, weights and clusters, by a rule
    that a record names."""
    if rule == TYPED:
        return _typed_hash(table)
    if rule != CSV:
        raise ReplayError(
            f"The record's hash of the data is by the rule '{rule[:40]}', and this version knows "
            f"'{CSV}' and '{TYPED}': install the version of butfor that wrote the record."
        )
    digest = hashlib.sha256()
    for part in (table.X, table.y, *(table.validation or ())):
        digest.update(part.to_csv(index=True).encode())
    if table.weight is not None:
        digest.update(table.weight.tobytes())
    if table.cluster is not None:
        digest.update(repr(table.cluster.tolist()).encode())
    return digest.hexdigest()


def _typed_hash(table: Table) -> str:
    digest = hashlib.sha256()
    for part in (table.X, table.y, *(table.validation or ())):
        for content in typed(part):
            digest.update(content)
    # A cluster has the same name whether an array of numbers or one of objects holds it.
    cluster = None if table.cluster is None else np.asarray(table.cluster, object)
    for name, beside in (("weight", table.weight), ("cluster", cluster)):
        if beside is not None:
            digest.update(name.encode())
            digest.update(b"".join(_typed_values(pd.Series(beside))))
    return digest.hexdigest()


def typed(rows: pd.DataFrame | pd.Series) -> Iterator[bytes]:
    """The columns of a table and its index as bytes that tell 1, 1.0, True and "1" apart, and one
    list of categories from another. They are the same whatever version of pandas or numpy holds the
    values."""
    frame = rows.to_frame("") if isinstance(rows, pd.Series) else rows
    index = frame.index.to_frame(index=False)
    columns = [*((f"index {k}", index.iloc[:, k]) for k in range(index.shape[1])), *frame.items()]
    yield _json([len(frame), len(columns)])
    for name, values in columns:
        yield _json(_cell(name))
        yield from _typed_values(values)


def _typed_values(values: pd.Series) -> Iterator[bytes]:
    kind = values.dtype
    if isinstance(kind, pd.CategoricalDtype):
        yield _json(["category", bool(kind.ordered)])
        yield from _typed_values(pd.Series(kind.categories))
        yield values.cat.codes.to_numpy().astype("<i8").tobytes()
    elif isinstance(kind, np.dtype) and kind.kind in "biuf":
        numbers = values.to_numpy(copy=True)
        if kind.kind == "f":
            numbers[np.isnan(numbers)] = np.nan  # of which there are several
        yield _json([kind.name])
        yield numbers.astype(kind.newbyteorder("<")).tobytes()
    elif pd.api.types.infer_dtype(values) == "string":  # whatever type holds the texts
        codes, texts = pd.factorize(values)
        yield _json(["text", *map(str, texts)])
        yield codes.astype("<i8").tobytes()
    else:  # each different cell once; as objects, 1 and True would be one
        cells = [json.dumps(_cell(value)) for value in values.astype(object)]
        codes, different = pd.factorize(np.array(cells, dtype=object))
        yield _json([_name_of(kind), *different])
        yield codes.astype("<i8").tobytes()


def _name_of(kind: Any) -> str:
    """Dates have another unit in each version of pandas, which their cells do not show; texts
    another type."""
    if pd.api.types.is_datetime64_any_dtype(kind):
        return "dates"
    return "object" if isinstance(kind, pd.StringDtype) else str(kind)


def _cell(value: Any) -> list[str]:
    """The type and the text of a value; all missing values are one."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or value is pd.NA or value is pd.NaT or value != value:
        return ["missing"]
    return [type(value).__name__, str(value)]


def _json(content: Any) -> bytes:
    return json.dumps(content).encode()

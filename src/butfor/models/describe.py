"""Estimators as JSON: class, parameters, and the same for every estimator inside. No pickles.

Reading a record imports only packages of `TRUSTED`, since a record from somebody else must not run code.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from butfor.errors import ReplayError
from butfor.machine import load

TRUSTED = ("sklearn", "butfor", "xgboost", "lightgbm")
CLASS, TUPLE, PAIRS, NUMBER, DTYPE, OPAQUE = "class", "tuple", "pairs", "number", "dtype", "opaque"
"""Marks for values that JSON does not have: estimators, tuples, dictionaries with other keys than text, numbers that
are not finite, numpy's types, and what cannot be rebuilt."""
PLAIN = ("sklearn.compose", "sklearn.model_selection")
"""Modules of scikit-learn with parameter objects that are not estimators: column selectors, splitters."""


def describe(value: Any) -> Any:
    """A parameter's value as JSON."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, BaseEstimator):
        kind = type(value)
        parameters = {name: describe(v) for name, v in value.get_params(deep=False).items()}
        return {CLASS: f"{kind.__module__}:{kind.__qualname__}", "params": parameters}
    if isinstance(value, float) and not math.isfinite(value):
        return {NUMBER: str(value)}
    if isinstance(value, (str, int, float, bool, type(None))):
        return value
    if isinstance(value, type) and issubclass(value, np.generic):
        return {DTYPE: value.__name__}
    if isinstance(value, tuple):
        return {TUPLE: [describe(v) for v in value]}
    if isinstance(value, (list, np.ndarray)):
        return [describe(v) for v in value]
    if isinstance(value, dict):
        return {PAIRS: [[describe(name), describe(v)] for name, v in value.items()]}
    if _is_plain(type(value)):
        names = [name for name in inspect.signature(type(value)).parameters if hasattr(value, name)]
        path = f"{type(value).__module__}:{type(value).__qualname__}"
        return {CLASS: path, "params": {name: describe(getattr(value, name)) for name in names}}
    module = getattr(value, "__module__", type(value).__module__)
    return {OPAQUE: f"{module}.{getattr(value, '__qualname__', type(value).__qualname__)}"}


def rebuild(record: Any) -> Any:
    """The value that was described."""
    if isinstance(record, list):
        return [rebuild(v) for v in record]
    if not isinstance(record, dict):
        return record
    if CLASS in record:
        kind = _class(record[CLASS])
        return kind(**{name: rebuild(v) for name, v in record["params"].items()})
    if TUPLE in record:
        return tuple(rebuild(v) for v in record[TUPLE])
    if NUMBER in record:
        return float(record[NUMBER])
    if DTYPE in record:
        return np.dtype(record[DTYPE]).type
    if PAIRS in record:
        return {rebuild(name): rebuild(v) for name, v in record[PAIRS]}
    raise ReplayError(
        f"The record's model contains {record.get(OPAQUE, record)}, which a record cannot store; replay it with the "
        "model itself (--model package.module:name, or in Python replay(..., model=...))."
    )


def missing_parts(record: Any, where: str = "model") -> Iterator[str]:
    """The parts of a description that cannot be rebuilt, in words."""
    if isinstance(record, dict):
        if OPAQUE in record:
            yield f"{where}: {record[OPAQUE]}"
        if CLASS in record and record[CLASS].split(".")[0].split(":")[0] not in TRUSTED:
            yield f"{where}: {record[CLASS]} is not of {', '.join(TRUSTED)}"
        for name, value in record.get("params", {}).items():
            yield from missing_parts(value, f"{where}.{name}")
        for value in [*record.get(TUPLE, []), *record.get(PAIRS, [])]:
            yield from missing_parts(value, where)
    elif isinstance(record, list):
        for value in record:
            yield from missing_parts(value, where)


def _is_plain(kind: type) -> bool:
    return kind.__module__.startswith(PLAIN) and not issubclass(kind, BaseException)


def _class(path: str) -> Any:
    if path.partition(":")[0].split(".")[0] not in TRUSTED:
        raise ReplayError(
            f"The record's model is {path}, and a record may not load such code; name it yourself: "
            "--model package.module:name, or in Python replay(..., model=...)."
        )
    try:
        found = load(path)
    except (ImportError, AttributeError) as error:
        raise ReplayError(f"The record's model is {path}, which is not installed here ({error}).") from error
    if not (isinstance(found, type) and (issubclass(found, BaseEstimator) or _is_plain(found))):
        raise ReplayError(f"The record's model is {path}, which is not an estimator.")
    return found

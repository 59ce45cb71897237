"""An estimator as JSON: its class, its parameters, and the same for every estimator inside; no
pickles.

Reading a record imports only packages of `TRUSTED`, since a record from somebody else must not run
code.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from butfor.support.errors import ReplayError
from butfor.support.optional import load

TRUSTED = ("sklearn", "butfor", "xgboost", "lightgbm")
CLASS = "class"
TUPLE = "tuple"
PAIRS = "pairs"
NUMBER = "number"
DTYPE = "dtype"
OPAQUE = "opaque"
"""Marks for values that JSON does not have: estimators, tuples, dictionaries with other keys than
text, numbers that are not finite, numpy's types, and what cannot be rebuilt."""
PLAIN = ("sklearn.compose", "sklearn.model_selection")
"""Modules of scikit-learn with parameter objects that are not estimators: column selectors,
splitters."""
NAMES_IN_RECORDS = {
    "butfor.table.encoding:TableEncoder": "butfor.encode:TableEncoder",
    "butfor.models.partition:PartitionEnsemble": "butfor.models.robust:PartitionEnsemble",
    "butfor.models.thresholded:ThresholdedRegressor": "butfor.models.robust:ThresholdedRegressor",
}
"""Classes of ours that moved, and the names that records know them by."""
REMEDY = "--model package.module:name, or in Python replay(..., model=...)"


def describe(value: Any) -> Any:
    """A parameter's value as JSON."""
    if isinstance(value, np.generic):
        value = value.item()
    kind = type(value)
    parameters: dict[str, Any] | None = None
    if isinstance(value, BaseEstimator):
        parameters = value.get_params(deep=False)
    elif kind.__module__.startswith(PLAIN):
        parameters = {
            name: getattr(value, name)
            for name in inspect.signature(kind).parameters
            if hasattr(value, name)
        }
    if parameters is not None:
        described = {name: describe(parameter) for name, parameter in parameters.items()}
        place = f"{kind.__module__}:{kind.__qualname__}"
        return {CLASS: NAMES_IN_RECORDS.get(place, place), "params": described}
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
    named = value if hasattr(value, "__qualname__") else kind
    return {OPAQUE: f"{getattr(value, '__module__', kind.__module__)}.{named.__qualname__}"}


def rebuild(record: Any) -> Any:
    """The value that was described. A record may load classes of estimators from trusted packages,
    and no other code."""
    if isinstance(record, list):
        return [rebuild(v) for v in record]
    if not isinstance(record, dict):
        return record
    if CLASS in record:
        path = record[CLASS]
        places = {name: place for place, name in NAMES_IN_RECORDS.items()}
        try:
            named = load(places.get(path) or path) if _trusted(path) else None
        except (ImportError, AttributeError) as error:
            raise ReplayError(
                f"The record's model is {path}, which is not installed here ({error})."
            ) from error
        if isinstance(named, type) and (
            issubclass(named, BaseEstimator) or named.__module__.startswith(PLAIN)
        ):
            return named(**{name: rebuild(v) for name, v in record["params"].items()})
        raise ReplayError(
            f"The record's model is {path}, and a record may not load such code; name it "
            f"yourself: {REMEDY}."
        )
    if TUPLE in record:
        return tuple(rebuild(v) for v in record[TUPLE])
    if NUMBER in record:
        return float(record[NUMBER])
    if DTYPE in record:
        return np.dtype(record[DTYPE]).type
    if PAIRS in record:
        return {rebuild(name): rebuild(v) for name, v in record[PAIRS]}
    raise ReplayError(
        f"The record's model contains {record.get(OPAQUE, record)}, which a record cannot store; "
        f"replay it with the model itself ({REMEDY})."
    )


def _trusted(path: str) -> bool:
    return path.partition(":")[0].split(".")[0] in TRUSTED


def missing_parts(record: Any, where: str = "model") -> Iterator[str]:
    """The parts of a description that cannot be rebuilt, in words."""
    if isinstance(record, list):
        for value in record:
            yield from missing_parts(value, where)
    elif isinstance(record, dict):
        if OPAQUE in record:
            yield f"{where}: {record[OPAQUE]}"
        if CLASS in record and not _trusted(record[CLASS]):
            yield f"{where}: {record[CLASS]} is not of {', '.join(TRUSTED)}"
        for name, value in record.get("params", {}).items():
            yield from missing_parts(value, f"{where}.{name}")
        yield from missing_parts([*record.get(TUPLE, []), *record.get(PAIRS, [])], where)

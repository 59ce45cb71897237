"""What is known of a scikit-learn estimator: its parts, how its margin depends on labels, and
itself as JSON.

As JSON it is its class, its parameters, and the same for every estimator inside; no pickles.
Reading a record imports only packages of `TRUSTED`, since a record from somebody else must not run
code.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, is_classifier
from sklearn.compose import ColumnTransformer
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge, RidgeClassifier
from sklearn.pipeline import Pipeline, make_pipeline

from butfor.models.robust import ThresholdedRegressor
from butfor.support.errors import ReplayError
from butfor.support.optional import load

LABEL_BLIND = {
    *(
        "StandardScaler",
        "MinMaxScaler",
        "MaxAbsScaler",
        "RobustScaler",
        "OneHotEncoder",
        "OrdinalEncoder",
    ),
    *("SimpleImputer", "PolynomialFeatures", "TableEncoder", "VarianceThreshold"),
}
"""Preprocessing that does not use labels, so that it is the same for all flip sets."""
DIRECT = ("auto", "cholesky", "svd")
"""Solvers of ridge that reach the exact minimum."""


def steps_of(estimator: Any) -> list[Any]:
    """The steps of a pipeline and of pipelines in it; of any other estimator, itself alone."""
    if type(estimator) is not Pipeline:
        return [estimator]
    return [
        part
        for _, step in estimator.steps
        if step not in (None, "passthrough")
        for part in steps_of(step)
    ]


def joined(steps: list[Any]) -> Any:
    """A pipeline of these steps, or the only one."""
    return steps[0] if len(steps) == 1 else make_pipeline(*steps)


def parts(estimator: Any) -> list[Any]:
    """An estimator and all its parameters."""
    return [estimator, *estimator.get_params(deep=True).values()]


def packages(estimator: Any) -> set[str]:
    """The libraries of an estimator and its parts."""
    return {
        base.__module__.split(".")[0] for part in parts(estimator) for base in type(part).__mro__
    }


def preprocesses(estimator: Any) -> bool:
    """Whether it contains a transformer, so that it can take a raw table. A classifier that can
    also transform, such as discriminant analysis or voting, does not count."""

    def transforms(part: Any) -> bool:
        return hasattr(part, "transform") and not (
            isinstance(part, BaseEstimator) and is_classifier(part)
        )

    return any(
        isinstance(part, Pipeline) or (hasattr(part, "fit") and transforms(part))
        for part in parts(estimator)
    )


def uses_no_label(step: Any) -> bool:
    """Whether a transformer is known to ignore labels."""
    if isinstance(step, ColumnTransformer):
        return all(map(uses_no_label, [*(part[1] for part in step.transformers), step.remainder]))
    if type(step) is Pipeline:
        return all(map(uses_no_label, steps_of(step)))
    if isinstance(step, str):
        return step in ("passthrough", "drop")
    # Classes of the same name in other libraries may use labels: feature_engine's OrdinalEncoder
    # does.
    return (
        type(step).__module__.split(".")[0] in ("sklearn", "butfor")
        and type(step).__name__ in LABEL_BLIND
    )


def is_logistic(final: Any) -> bool:
    """A logistic regression with the usual penalty."""
    usual = type(final) is LogisticRegression and final.l1_ratio in (None, 0)
    return usual and getattr(final, "penalty", None) not in ("l1", "elasticnet")


def linear_in_labels(estimator: Any) -> bool:
    """Whether the margin is a sum over the labels with weights that do not depend on labels: then a
    flip moves it by the same amount under any other flips."""
    *before, final = steps_of(estimator)
    if type(final) is ThresholdedRegressor:
        *inside, final = steps_of(final.new_regressor())
        before += inside
        linear = type(final) in (LinearRegression, Ridge, KernelRidge)
    else:
        linear = type(final) is RidgeClassifier and final.class_weight is None
    direct = getattr(final, "solver", "auto") in DIRECT and not getattr(final, "positive", False)
    return linear and direct and all(map(uses_no_label, before))


# --- as JSON --------------------------------------------------------------------------------------

TRUSTED = ("sklearn", "butfor", "xgboost", "lightgbm")
CLASS, TUPLE, PAIRS, NUMBER, DTYPE, OPAQUE = "class", "tuple", "pairs", "number", "dtype", "opaque"
"""Marks for values that JSON does not have: estimators, tuples, dictionaries with other keys than
text, numbers that are not finite, numpy's types, and what cannot be rebuilt."""
PLAIN = ("sklearn.compose", "sklearn.model_selection")
"""Modules of scikit-learn with parameter objects that are not estimators: column selectors,
splitters."""
NAMES_IN_RECORDS = {"butfor.table.encoding:TableEncoder": "butfor.encode:TableEncoder"}
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
        given = {name: describe(v) for name, v in parameters.items()}
        name = f"{kind.__module__}:{kind.__qualname__}"
        return {CLASS: NAMES_IN_RECORDS.get(name, name), "params": given}
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
        "replay it with the "
        f"model itself ({REMEDY})."
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

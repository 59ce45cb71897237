"""The steps of a pipeline, the parts of an estimator, and which of them look at labels."""

from __future__ import annotations

from typing import Any

from sklearn.base import BaseEstimator, is_classifier
from sklearn.compose import ColumnTransformer
from sklearn.feature_selection import VarianceThreshold
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import (
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    RobustScaler,
    StandardScaler,
)

from butfor.table.encoding import TableEncoder

LABEL_BLIND = (
    StandardScaler,
    MinMaxScaler,
    MaxAbsScaler,
    RobustScaler,
    OneHotEncoder,
    OrdinalEncoder,
    SimpleImputer,
    PolynomialFeatures,
    TableEncoder,
    VarianceThreshold,
)
"""Preprocessing that does not use labels, so that it is the same for all flip sets."""


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
    """Whether a transformer is known to ignore labels; its class is one of `LABEL_BLIND`, since
    subclasses and other libraries' classes of that name may use them."""
    if isinstance(step, ColumnTransformer):
        transformers = [part[1] for part in step.transformers]
        return all(map(uses_no_label, [*transformers, step.remainder]))
    if type(step) is Pipeline:
        return all(map(uses_no_label, steps_of(step)))
    if isinstance(step, str):
        return step in ("passthrough", "drop")
    return type(step) in LABEL_BLIND

"""What pulls a decision which way: each column's share of the logit, by the model's own local linear form.

A ReLU network is, around one person, exactly linear (section 2 of the paper); logistic regression and ridge are linear
everywhere. So the logit is a sum: weight × input of every encoded column, and a bias. Summed over the encoded
columns that a raw one became, that is the column's pull.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline

from butfor.learn.ensemble import EnsembleModel
from butfor.learn.sklearn import SklearnModel
from butfor.mlp.learner import NetworkModel
from butfor.mlp.linearize import linearize
from butfor.seam import Model

BIAS = "(bias)"


def pulls(model: Model, people: pd.DataFrame) -> list[dict[str, float]] | None:
    """Per person, column → pull in units of logit, with the bias last; None where the model has no such form. An
    ensemble's are the mean of its members', as its logit is."""
    if isinstance(model, EnsembleModel):
        members = [pulls(member, people) for member in model.models]
        return _means([each for each in members if each is not None]) if all(members) else None
    if isinstance(model, NetworkModel):
        encoded = model.encoded(people)
        local = linearize(model.network, encoded)
        if not local.exact:
            return None
        return _named(model.encoder.by_column(local.theta * encoded), local.bias, list(people.columns))
    if isinstance(model, SklearnModel):
        return _linear(model, people)
    return None


def _linear(model: SklearnModel, people: pd.DataFrame) -> list[dict[str, float]] | None:
    coefficients = getattr(model.final, "coef_", None)
    if coefficients is None or np.size(coefficients) == 0 or not hasattr(model.final, "decision_function"):
        return None
    inputs = model.inputs(people)
    if inputs is None or np.ravel(coefficients).shape != (inputs.shape[1],):
        return None
    terms = inputs * np.ravel(coefficients)
    bias = np.full(len(people), float(np.ravel(model.final.intercept_)[0]))
    if isinstance(model.estimator, Pipeline) and len(model.estimator.steps) > 1:
        if isinstance(model.estimator.steps[-1][1], Pipeline):
            return None
        try:
            return _named(terms, bias, list(model.estimator[:-1].get_feature_names_out()))
        except (AttributeError, ValueError):
            return None
    by_column = terms if model.data is None else model.data.encoder.by_column(terms)
    return _named(by_column, bias, list(people.columns))


def _named(terms: NDArray[np.float64], bias: NDArray[np.float64], columns: list[object]) -> list[dict[str, float]]:
    names = [*map(str, columns), BIAS]
    table = np.column_stack([terms, bias])
    return [{name: float(pull) for name, pull in zip(names, row, strict=True)} for row in table]


def _means(members: list[list[dict[str, float]]]) -> list[dict[str, float]]:
    return [
        {name: float(np.mean([pull[name] for pull in person])) for name in person[0]}
        for person in zip(*members, strict=True)
    ]

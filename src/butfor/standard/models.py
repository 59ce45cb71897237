"""What a standard is: a probability of the favourable label, learned from some rows and asked about others.

The table is encoded once, before any row is set apart; encoding looks at no label.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline

from butfor.encode import TableEncoder
from butfor.errors import LearnerError, SettingError
from butfor.standard.groups import Floats, Mask

MANY_INPUTS = 1000
"""Beyond this the Hessian of a logistic regression costs more than it saves."""


class Standard(Protocol):
    """Learned from the rows of one mask, it gives probabilities of the favourable label to those of another."""

    name: str

    def probabilities(self, learn: Mask, ask: Mask, favourable: Mask, weight: Floats | None) -> Floats: ...


class TwoModels:
    """The mean of a logistic regression's and a histogram boosting's probabilities."""

    name = "the mean of a logistic regression and a histogram boosting"

    def __init__(self, X: pd.DataFrame) -> None:
        self.inputs = TableEncoder("onehot", dtype="float64").fit_transform(X)
        places = TableEncoder("ordinal", "raw", dtype="float64").fit(X)
        self.places = places.transform(X)
        categorical = np.zeros(self.places.shape[1], bool)
        for block in places.blocks_.values():
            categorical[block.columns] = block.codes is not None
        solver = "newton-cholesky" if self.inputs.shape[1] <= MANY_INPUTS else "lbfgs"
        self.linear = LogisticRegression(solver=solver, max_iter=1000)
        self.boosting = HistGradientBoostingClassifier(
            max_iter=50, max_leaf_nodes=8, categorical_features=categorical, random_state=0
        )

    def probabilities(self, learn: Mask, ask: Mask, favourable: Mask, weight: Floats | None) -> Floats:
        fitted = _fitted(clone(self.linear), self.inputs[learn], favourable[learn], weight, learn)
        by_linear = _favourable(fitted, self.inputs[ask])
        fitted = _fitted(clone(self.boosting), self.places[learn], favourable[learn], weight, learn)
        return (by_linear + _favourable(fitted, self.places[ask])) / 2


class GivenModel:
    """A classifier of the user's own: a pipeline gets the table as it is, any other classifier the encoded one."""

    def __init__(self, model: Any, X: pd.DataFrame) -> None:
        if not hasattr(model, "predict_proba") or not hasattr(model, "fit"):
            raise SettingError(
                f"standard={type(model).__name__}: a standard is a classifier with fit and predict_proba, or a "
                "pipeline that ends in one."
            )
        self.model, self.name = model, type(model[-1] if isinstance(model, Pipeline) else model).__name__
        self.rows = X if isinstance(model, Pipeline) else TableEncoder("onehot", dtype="float64").fit_transform(X)

    def probabilities(self, learn: Mask, ask: Mask, favourable: Mask, weight: Floats | None) -> Floats:
        try:
            fitted = _fitted(clone(self.model), self.rows[learn], favourable[learn], weight, learn)
            found = _favourable(fitted, self.rows[ask])
        except Exception as error:  # the model is the user's own
            raise LearnerError(f"The standard, {self.name}, cannot be trained: {error}") from error
        if not np.isfinite(found).all():
            raise LearnerError(f"The standard, {self.name}, gives probabilities that are no numbers.")
        return found


def as_standard(given: Any, X: pd.DataFrame) -> Standard:
    return TwoModels(X) if given is None else GivenModel(given, X)


def _fitted(model: Any, rows: Any, favourable: Mask, weight: Floats | None, learn: Mask) -> Any:
    return model.fit(rows, favourable) if weight is None else model.fit(rows, favourable, sample_weight=weight[learn])


def _favourable(fitted: Any, rows: Any) -> Floats:
    return np.asarray(fitted.predict_proba(rows)[:, 1], np.float64)

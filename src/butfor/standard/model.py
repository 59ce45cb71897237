"""The standard: a model of some rows that gives others a probability of the favourable label.

The default is the mean of a logistic regression and a boosting. Tables drawn for the null differ in
their labels alone: rows are encoded once, and many tables are fitted side by side.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from scipy.sparse import csr_array, vstack
from sklearn.base import clone
from sklearn.pipeline import Pipeline

from butfor.standard import inputs as large_tables
from butfor.standard.boosting import Boosting, Questions, fit_boosting
from butfor.standard.inputs import (
    ROWS_AT_ONCE,
    Floats,
    Inputs,
    Mask,
    Rows,
    beside,
    dense,
    thin,
)
from butfor.standard.logistic import design_of, fit_logistic, predict_logistic
from butfor.support import stopping
from butfor.support.errors import LearnerError, SettingError
from butfor.table.encoding import TableEncoder

MAX_ONEHOT_INPUTS = 1000
"""Where one-hot columns would be more, each column keeps only its most frequent values."""
MAX_CATEGORIES = 20
"""How many it keeps then; the rest share one."""


@dataclass(frozen=True, eq=False)
class TwoModels:
    """The mean of a logistic regression and a boosting of yes-or-no questions, of one encoded
    table. Of more rows than `LARGE_TABLE_ROWS` the boosting learns from a sample, the same of
    recorded and of drawn tables."""

    inputs: Inputs
    """One-hot, numbers scaled, `[rows × inputs]`."""
    questions: Questions
    columns: dict[Hashable, slice]
    """The inputs that a column of the table became."""
    name: str = "the mean of a logistic regression and a gradient boosting"

    @classmethod
    def of(cls, X: pd.DataFrame) -> TwoModels:
        encoder = TableEncoder("onehot", dtype="float64").fit(X)
        if encoder.n_features_out_ > MAX_ONEHOT_INPUTS:
            encoder = TableEncoder("onehot", dtype="float64", max_categories=MAX_CATEGORIES)
            encoder.fit(X)
        if len(X) <= large_tables.LARGE_TABLE_ROWS:
            inputs = encoder.transform(X)
        else:
            parts = []
            for begin in range(0, len(X), ROWS_AT_ONCE):
                part = X.iloc[begin : begin + ROWS_AT_ONCE]
                parts.append(csr_array(encoder.transform(part)))
            inputs = vstack(parts, format="csr")
        columns = {name: block.columns for name, block in encoder.blocks_.items()}
        return cls(inputs, Questions.of(inputs), columns)

    def with_inputs(self, extra: Floats) -> TwoModels:
        """The table with more inputs, after its own."""
        ours = self.questions
        more = Questions.of(extra)
        about = np.append(ours.about, more.about + self.inputs.shape[1])
        questions = Questions(about, np.append(ours.cuts, more.cuts))
        return replace(self, inputs=beside(self.inputs, extra), questions=questions)

    def fit(self, learn: Rows, labels: Floats, weight: Floats | None) -> Callable[[Inputs], Floats]:
        """What gives rows with all inputs their probabilities `[tables × rows]`; `labels [tables ×
        learned rows]`."""
        fitted = fit_logistic(design_of(self.inputs[learn]), labels, weight)
        boosted = self._boost(learn, labels, weight)
        return lambda rows: 0.5 * predict_logistic(rows, fitted) + 0.5 * boosted.predict(rows)

    def predict(
        self, learn: Rows, ask: Rows, labels: Floats, weight: Floats | None = None
    ) -> Floats:
        """Probabilities `[tables × asked rows]`; `labels [tables × learned rows]` and their
        weights. Rows are given by position."""
        return self.fit(learn, labels, weight)(self.inputs[ask])

    def cross_predict(
        self, rows: Rows, labels: Floats, folds: Rows, learn: Rows, weight: Floats
    ) -> Floats:
        """Of one table, `labels [rows]`: each row's probability by models of rows of the other
        folds, those among `learn`, by position, with the `weight` of each."""
        count = int(folds.max()) + 1
        outside = folds[learn] != np.arange(count)[:, None]  # folds × learned rows
        tables = np.repeat(labels[None, learn], count, axis=0)
        boosted = fit_boosting(self.questions, self.inputs[rows[learn]], tables, outside * weight)
        probabilities = np.empty(len(rows))
        for fold in range(count):
            inside = folds == fold
            learned = learn[outside[fold]]
            design = design_of(self.inputs[rows[learned]])
            fitted = fit_logistic(design, labels[None, learned], weight[outside[fold]])
            asked = self.inputs[rows[inside]]
            by_logistic = predict_logistic(asked, fitted)[0]
            by_boosting = boosted.predict(asked, fold)[0]
            probabilities[inside] = 0.5 * by_logistic + 0.5 * by_boosting
        return probabilities

    def predict_without(
        self,
        gone: Mask,
        fits: Sequence[Floats],
        learn: Rows,
        ask: Rows,
        labels: Floats,
        weight: Floats,
    ) -> Floats:
        """Of one table, `labels [learned rows]`: probabilities `[models × asked rows]` by models
        that lack the inputs `gone [models × inputs]`; `fits` are the coefficients of their logistic
        regressions."""
        asked = dense(self.inputs[ask])
        tables = np.broadcast_to(labels, (len(gone), len(labels)))
        boosted = self._boost(learn, tables, weight, gone[:, self.questions.about])
        probabilities = 0.5 * boosted.predict(asked)
        for p, out, fitted in zip(probabilities, gone, fits, strict=True):
            remaining = np.ascontiguousarray(asked[:, ~out])
            p += 0.5 * predict_logistic(remaining, fitted[None])[0]
        return probabilities

    def _boost(
        self, learn: Rows, labels: Floats, weight: Floats | None, barred: Mask | None = None
    ) -> Boosting:
        if not isinstance(self.inputs, np.ndarray):
            some = thin(len(learn), large_tables.BOOSTING_ROWS)
            learn = learn[some]
            labels = labels[:, some]
            weight = None if weight is None else weight[some]
        return fit_boosting(self.questions, self.inputs[learn], labels, weight, barred)


class OwnModel:
    """A classifier of the user's, by the same methods, of the encoded table."""

    def __init__(self, given: Any, inputs: Inputs) -> None:
        if not (hasattr(given, "predict_proba") and hasattr(given, "fit")):
            raise SettingError(
                f"standard={type(given).__name__}: a standard is a classifier with fit and "
                "predict_proba."
            )
        self.given = given
        self.inputs = inputs
        self.name = type(given).__name__

    def predict(self, learn: Rows, ask: Rows, labels: Floats, weight: Floats) -> Floats:
        return np.array([self._fit(self.inputs, learn, ask, table, weight) for table in labels])

    def cross_predict(
        self, rows: Rows, labels: Floats, folds: Rows, learn: Rows, weight: Floats
    ) -> Floats:
        probabilities = np.empty(len(rows))
        for fold in np.unique(folds):
            outside = folds[learn] != fold
            ask = folds == fold
            learned = learn[outside]
            probabilities[ask] = self._fit(
                self.inputs, rows[learned], rows[ask], labels[learned], weight[outside]
            )
        return probabilities

    def predict_without(
        self,
        gone: Mask,
        fits: Sequence[Floats],
        learn: Rows,
        ask: Rows,
        labels: Floats,
        weight: Floats,
    ) -> Floats:
        return np.array(
            [self._fit(self.inputs[:, ~out], learn, ask, labels, weight) for out in gone]
        )

    def _fit(
        self, inputs: Inputs, learn: Rows, ask: Rows, labels: Floats, weight: Floats
    ) -> Floats:
        stopping.check()
        if len(set(labels)) == 1 or not inputs.shape[1]:  # a drawn table may lack a rare label
            return np.full(len(ask), np.average(labels, weights=weight))
        weights = {}
        if not (weight == 1).all():  # an estimator need not take any
            step = f"{self.given.steps[-1][0]}__" if isinstance(self.given, Pipeline) else ""
            weights = {f"{step}sample_weight": weight}
        try:
            fitted = clone(self.given).fit(dense(inputs[learn]), labels > 0.5, **weights)
            both_sides = fitted.predict_proba(dense(inputs[ask]))
            probabilities = np.asarray(both_sides[:, 1], dtype=np.float64)
        except MemoryError:
            raise
        except Exception as error:  # the model is the user's own
            raise LearnerError(f"The standard, {self.name}, cannot be trained: {error}") from error
        if not np.isfinite(probabilities).all():
            raise LearnerError(
                f"The standard, {self.name}, gives probabilities that are not numbers."
            )
        return probabilities


@dataclass(frozen=True, eq=False)
class Records:
    """A table of labelled decisions, as every step of a comparison sees it."""

    encoded: TwoModels
    model: TwoModels | OwnModel
    """The standard."""
    labels: Floats
    """1 is favourable."""
    weight: Floats
    """1 on average."""
    clusters: Rows | None
    folds: Rows
    """Of cross-fitting."""

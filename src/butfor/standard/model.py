"""The standard: a model of some rows that gives others a probability of the favourable label.

The default is the mean of a logistic regression and a boosting. Tables drawn for the null differ in their labels alone:
rows are encoded once, and many tables are fitted side by side.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.pipeline import Pipeline

from butfor.encode import TableEncoder
from butfor.errors import LearnerError, SettingError
from butfor.standard.boosting import Asked, answers_to_questions, predict_boosting
from butfor.standard.logistic import fit_logistic, predict_logistic

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
Rows = NDArray[np.int64]
Columns = Sequence[Hashable]

MANY_INPUTS, FEWER_CATEGORIES = 1000, 20
"""Where one-hot columns would be more, each column keeps its most frequent values and the rest share one."""


class Standard(Protocol):
    """Learns from rows, by position, and predicts others."""

    @property
    def name(self) -> str: ...

    @property
    def threads(self) -> bool:
        """Whether threads can share the work: Python itself does little of it."""

    def predict(self, learn: Rows, ask: Rows, labels: Floats, weight: Floats | None) -> Floats:
        """Probabilities `[tables × asked rows]`; `labels [tables × learned rows]`."""

    def predict_without(
        self, left_out: Sequence[Columns], learn: Rows, ask: Rows, labels: Floats, weight: Floats | None
    ) -> Floats:
        """Of one table, `labels [learned rows]`: probabilities `[sets of columns left out × asked rows]`."""


@dataclass(frozen=True, eq=False)
class TwoModels:
    """The mean of a logistic regression and a boosting of yes-or-no questions, of one encoded table."""

    inputs: Floats
    """One-hot, numbers scaled, `[rows × inputs]`."""
    answers: NDArray[np.float32]
    about: Rows
    """Which input each question is about."""
    columns: dict[Hashable, slice]
    """The inputs that a column of the table became."""
    name: str = "the mean of a logistic regression and a gradient boosting"
    threads: bool = True

    @classmethod
    def of(cls, X: pd.DataFrame) -> TwoModels:
        encoder = TableEncoder("onehot", dtype="float64").fit(X)
        if encoder.n_features_out_ > MANY_INPUTS:
            encoder = TableEncoder("onehot", dtype="float64", max_categories=FEWER_CATEGORIES).fit(X)
        inputs = encoder.transform(X)
        return cls(inputs, *answers_to_questions(inputs), {c: b.columns for c, b in encoder.blocks_.items()})

    def with_inputs(self, extra: Floats) -> TwoModels:
        """The table with more inputs, after its own."""
        answers, about = answers_to_questions(extra)
        return replace(
            self,
            inputs=np.column_stack([self.inputs, extra]),
            answers=np.column_stack([self.answers, answers]),
            about=np.append(self.about, about + self.inputs.shape[1]),
        )

    def rows(self, at: Rows) -> TwoModels:
        """The table with these rows, some of them perhaps several times."""
        return replace(self, inputs=self.inputs[at], answers=self.answers[at])

    def cross_predict(self, rows: Rows, labels: Floats, folds: Rows, weight: Floats | None) -> Floats:
        """Of one table, `labels [rows]`: each row's probability by models of the other folds' rows."""
        count = int(folds.max()) + 1
        outside = folds != np.arange(count)[:, None]  # folds × rows
        weights = outside * (1.0 if weight is None else weight[rows])
        asked = Asked.of(self.answers[rows], self.answers[rows])
        boosted = predict_boosting(asked, np.repeat(labels[None], count, axis=0), weights)[folds, np.arange(len(rows))]
        linear = np.empty(len(rows))
        for fold in range(count):
            inside = folds == fold
            fitted = fit_logistic(self.inputs[rows[~inside]], labels[None, ~inside], weights[fold, ~inside])
            linear[inside] = predict_logistic(self.inputs[rows[inside]], fitted)[0]
        return 0.5 * linear + 0.5 * boosted

    def predict(self, learn: Rows, ask: Rows, labels: Floats, weight: Floats | None) -> Floats:
        weight = None if weight is None else weight[learn]
        linear = predict_logistic(self.inputs[ask], fit_logistic(self.inputs[learn], labels, weight))
        asked = Asked.of(self.answers[learn], self.answers[ask])
        return 0.5 * linear + 0.5 * predict_boosting(asked, labels, weight)

    def predict_without(
        self, left_out: Sequence[Columns], learn: Rows, ask: Rows, labels: Floats, weight: Floats | None
    ) -> Floats:
        weight = None if weight is None else weight[learn]
        gone = np.array([self.inputs_of(columns) for columns in left_out])
        whole = fit_logistic(self.inputs[learn], labels[None], weight)[0]
        linear = []
        for inputs in gone:
            kept = self.inputs[:, ~inputs]
            fitted = fit_logistic(kept[learn], labels[None], weight, whole[np.append(True, ~inputs)])
            linear.append(predict_logistic(kept[ask], fitted)[0])
        asked = Asked.of(self.answers[learn], self.answers[ask])
        tables = np.repeat(labels[None], len(gone), axis=0)
        return 0.5 * np.array(linear) + 0.5 * predict_boosting(asked, tables, weight, barred=gone[:, self.about])

    def inputs_of(self, columns: Columns) -> Mask:
        found = np.zeros(self.inputs.shape[1], bool)
        for column in columns:
            found[self.columns[column]] = True
        return found


@dataclass(frozen=True, eq=False)
class OwnModel:
    """A classifier of the user's: a pipeline gets the table as it is, any other the encoded one."""

    given: Any
    table: pd.DataFrame
    encoded: TwoModels
    threads: bool = False

    @property
    def name(self) -> str:
        return type(self.given[-1] if isinstance(self.given, Pipeline) else self.given).__name__

    def predict(self, learn: Rows, ask: Rows, labels: Floats, weight: Floats | None) -> Floats:
        rows = self.table if isinstance(self.given, Pipeline) else self.encoded.inputs
        return np.array([self._fit(rows, learn, ask, each, weight) for each in labels])

    def predict_without(
        self, left_out: Sequence[Columns], learn: Rows, ask: Rows, labels: Floats, weight: Floats | None
    ) -> Floats:
        """A pipeline may ask for every column: those left out get one value for everybody."""
        found = []
        for columns in left_out:
            if isinstance(self.given, Pipeline):
                rows: Any = self.table.copy()
                for column in columns:
                    rows[column] = rows[column].iloc[np.zeros(len(rows), int)].to_numpy()
                rows = rows.astype(self.table.dtypes)
            else:
                rows = self.encoded.inputs[:, ~self.encoded.inputs_of(columns)]
            found.append(self._fit(rows, learn, ask, labels, weight))
        return np.array(found)

    def _fit(self, rows: Any, learn: Rows, ask: Rows, labels: Floats, weight: Floats | None) -> Floats:
        if len(set(labels)) == 1 or not rows.shape[1]:  # a drawn table may lack a rare label
            return np.full(len(ask), np.average(labels, weights=None if weight is None else weight[learn]))
        at = rows.iloc if isinstance(rows, pd.DataFrame) else rows
        weighted = {} if weight is None else {"sample_weight": weight[learn]}
        if weighted and isinstance(self.given, Pipeline):
            weighted = {f"{self.given.steps[-1][0]}__sample_weight": weight[learn]}  # type: ignore[index]
        try:
            fitted = clone(self.given).fit(at[learn], labels > 0.5, **weighted)
            found = np.asarray(fitted.predict_proba(at[ask])[:, 1], dtype=np.float64)
        except MemoryError:
            raise
        except Exception as error:  # the model is the user's own
            raise LearnerError(f"The standard, {self.name}, cannot be trained: {error}") from error
        if not np.isfinite(found).all():
            raise LearnerError(f"The standard, {self.name}, gives probabilities that are no numbers.")
        return found


def standard_of(given: Any, table: pd.DataFrame, encoded: TwoModels) -> Standard:
    """The default where nothing is given, else the user's classifier."""
    if given is None:
        return encoded
    if not (hasattr(given, "predict_proba") and hasattr(given, "fit")):
        raise SettingError(
            f"standard={type(given).__name__}: a standard is a classifier with fit and predict_proba, or a "
            "pipeline that ends in one."
        )
    return OwnModel(given, table, encoded)

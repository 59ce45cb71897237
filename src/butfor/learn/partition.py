"""PartitionEnsemble: a learner that is provably steady against wrong labels.

Rows are assigned to parts by a hash of their inputs, never of labels; one copy of a classifier is trained per part; the
majority of the copies decides. A flipped label touches one part, hence at most one vote, so a decision with a lead of
many votes stands against many flips, whatever they are. What it costs is that every copy learns from few rows.
"""

from __future__ import annotations

import warnings
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils.validation import check_is_fitted

from butfor.errors import SettingError, TableError
from butfor.learn.protocols import two_classes

ENOUGH_ROWS = 70
"""Rows of a part from which on a copy learns both classes without being told to."""
LEAST_ASKED = 20
"""People about whom a model that learned anything does not say the same."""


class PartitionEnsemble(ClassifierMixin, BaseEstimator):
    """A majority vote of copies of `estimator`, each trained on one of `parts` parts of the rows.

    Parameters
    ----------
    estimator : any classifier. None: a logistic regression, with balanced classes where a part has fewer than 70 rows,
        since copies that learn from few rows else all vote for the larger class, and certify nothing worth knowing.
        One that stops early does the same: `certify` warns where all decisions are the same.
    parts : an odd number leaves no ties; a tie goes to the first class.

    After `fit`, `part_of_ [rows]` says which of the `parts_` parts each training row went to, `copies_` holds the
    copies. What is preprocessed inside `estimator` is fitted on its part alone; an encoder before the ensemble on all
    rows.
    """

    def __init__(self, estimator: Any = None, parts: int = 11) -> None:
        self.estimator = estimator
        self.parts = parts

    def fit(self, X: Any, y: Any) -> PartitionEnsemble:
        if self.parts < 1:
            raise SettingError(f"parts={self.parts} must be at least 1.")
        y = np.asarray(y)
        self.classes_ = two_classes(y)
        self.parts_ = self.parts
        self.part_of_ = part_of(X, self.parts_)
        if len(np.unique(self.part_of_)) < self.parts_:
            raise TableError(
                f"{len(y)} rows do not fill {self.parts_} parts: some have no row at all. Use fewer parts."
            )
        coded = (y == self.classes_[1]).astype(np.int64)
        self.copies_ = [self._copy(X, coded, np.flatnonzero(self.part_of_ == part)) for part in range(self.parts_)]
        self.n_features_in_ = X.shape[1]
        return self

    def votes(self, X: Any) -> NDArray[np.int64]:
        """Each copy's decision, 0 or 1, `[rows × parts]`."""
        check_is_fitted(self)
        return np.column_stack([decisions(copy, X) for copy in self.copies_])

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """The lead of the second class, from −1 to 1; a tie counts for the first."""
        votes = self.votes(X)
        lead = 2 * votes.sum(axis=1) - self.parts_
        return np.where(lead == 0, -0.5 / self.parts_, lead / self.parts_)

    def predict(self, X: Any) -> NDArray[Any]:
        return self.classes_[(self.decision_function(X) > 0).astype(np.int64)]

    def certify(self, X: Any) -> NDArray[np.int64]:
        """Against how many flipped labels each decision is proven to stand, wherever they are."""
        votes = self.votes(X)
        decided = (votes.sum(axis=1) > self.parts_ / 2).astype(np.int64)
        if len(decided) >= LEAST_ASKED and len(np.unique(decided)) == 1:
            warnings.warn(
                f"The vote of {self.parts_} copies says '{self.classes_[decided[0]]}' about all {len(decided)} people: "
                "where nothing was learned, what it certifies is empty. See its balanced accuracy; use fewer parts, "
                "or copies that learn from few rows.",
                stacklevel=2,
            )
        return np.array([self.votes_to_turn(v, d) - 1 for v, d in zip(votes, decided, strict=True)])

    def votes_to_turn(self, votes: NDArray[np.int64], decided: int) -> int:
        """How many copies must change sides for the decision to turn."""
        half = self.parts_ // 2
        ones = int(votes.sum())
        return ones - half if decided == 1 else half + 1 - ones

    def single_flips(self, X: Any, y: NDArray[Any], people: Any) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
        """One small training per row: whether flipping its label turns its part's vote about a person, and the part's
        margin then, above 0 for the second class; both `[rows × people]`."""
        coded, before = np.asarray(y).astype(np.int64), self.votes(people)
        turns = np.zeros((len(coded), len(before)), bool)
        margins = np.zeros(turns.shape)
        for row in range(len(coded)):
            copy = self.retrained(X, coded, (row,))
            turns[row] = decisions(copy, people) != before[:, self.part_of_[row]]
            margins[row] = copy_margins(copy, people)
        return turns, margins

    def retrained(self, X: Any, y: NDArray[Any], flips: Sequence[int]) -> Any:
        """The copy of the part that holds these rows, with their labels turned."""
        check_is_fitted(self)
        inside = np.flatnonzero(self.part_of_ == self.part_of_[flips[0]])
        coded = np.asarray(y).astype(np.int64).copy()
        coded[list(flips)] = 1 - coded[list(flips)]
        return self._copy(X, coded, inside)

    def _copy(self, X: Any, y: NDArray[np.int64], inside: NDArray[np.int64]) -> Any:
        """The copy of a part; where its rows have one class only, that class."""
        labels = y[inside]
        if (labels == labels[0]).all():
            return int(labels[0])
        return self.blank().fit(_rows(X, inside), labels)

    def blank(self) -> Any:
        """A copy, not yet trained."""
        if self.estimator is not None:
            return clone(self.estimator)
        from sklearn.linear_model import LogisticRegression

        if len(self.part_of_) // self.parts_ >= ENOUGH_ROWS:
            return LogisticRegression(solver="newton-cholesky", C=3.0)
        return LogisticRegression(solver="newton-cholesky", C=0.5, class_weight="balanced")


def part_of(X: Any, parts: int) -> NDArray[np.int64]:
    """The part of each row, by a hash of its inputs: equal rows go together, and no label has a say."""
    if isinstance(X, pd.DataFrame):
        return (pd.util.hash_pandas_object(X, index=False).to_numpy() % np.uint64(parts)).astype(np.int64)
    dense = np.ascontiguousarray(X.toarray() if hasattr(X, "toarray") else X)
    return np.array([zlib.crc32(row.tobytes()) % parts for row in dense], dtype=np.int64)


def decisions(copy: Any, X: Any) -> NDArray[np.int64]:
    if isinstance(copy, int):
        return np.full(len(X) if not hasattr(X, "shape") else X.shape[0], copy, np.int64)
    return np.asarray(copy.predict(X), dtype=np.int64)


def copy_margins(copy: Any, X: Any) -> NDArray[np.float64]:
    if isinstance(copy, int):
        return np.full(X.shape[0], 2.0 * copy - 1, np.float64)
    if hasattr(copy, "decision_function"):
        return np.asarray(copy.decision_function(X), np.float64)
    if hasattr(copy, "predict_proba"):
        return np.asarray(copy.predict_proba(X), np.float64)[:, -1] - 0.5
    return np.asarray(2.0 * decisions(copy, X) - 1, np.float64)


def _rows(X: Any, inside: NDArray[np.int64]) -> Any:
    return X.iloc[inside] if isinstance(X, pd.DataFrame) else X[inside]

"""`PartitionEnsemble`: a vote of copies of a classifier, provably robust to wrong labels.

A hash of a row's inputs, never of its label, assigns it to a part; one copy of a classifier is
trained per part, and the majority decides. A flipped label touches one part and so at most one
vote: a decision with a large lead withstands many flips. The price is that every copy learns from
few rows.
"""

from __future__ import annotations

import warnings
import zlib
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import RidgeClassifier
from sklearn.utils.validation import check_is_fitted

from butfor.models.two_classes import two_classes
from butfor.support.errors import SettingError, TableError

MIN_PEOPLE = 20
"""Number of people for whom a model that learned anything does not always decide the same."""


class PartitionEnsemble(ClassifierMixin, BaseEstimator):
    """A majority vote of copies of a classifier, each trained on one part of the rows; provably
    robust to wrong labels.

    Preprocessing inside `estimator` is fitted on its part alone, an encoder before the ensemble on
    all rows.

    Parameters
    ----------
    estimator : estimator or None, default=None
        The classifier to copy. None is a ridge classifier, whose copies have exact proofs. Copies
        that learn from few rows may all vote for the larger class, which proves nothing; `certify`
        warns if all decisions are the same.
    parts : int, default=11
        The number of parts. An odd number avoids ties, which go to the first class.

    Attributes
    ----------
    part_of_ : array of shape (rows,)
        The part of each training row.
    copies_ : list
        The fitted copies.
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
        self.part_of_ = part_of(X, self.parts)
        if len(np.unique(self.part_of_)) < self.parts_:
            raise TableError(
                f"{len(y)} rows are too few for {self.parts} parts: some have no row. Use fewer "
                "parts."
            )
        coded = (y == self.classes_[1]).astype(np.int64)
        self.copies_ = []
        for part in range(self.parts_):
            inside = np.flatnonzero(self.part_of_ == part)
            rows = X.iloc[inside] if isinstance(X, pd.DataFrame) else X[inside]
            copy = self.new_copy() if len(np.unique(coded[inside])) > 1 else DummyClassifier()
            self.copies_.append(copy.fit(rows, coded[inside]))
        self.n_features_in_ = X.shape[1]
        return self

    def new_copy(self) -> Any:
        return RidgeClassifier() if self.estimator is None else clone(self.estimator)

    def votes(self, X: Any) -> NDArray[np.int64]:
        """Each copy's decision, 0 or 1, `[rows × parts]`."""
        check_is_fitted(self)
        return np.column_stack([np.asarray(copy.predict(X), np.int64) for copy in self.copies_])

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """The lead of the second class, from −1 to 1; a tie counts for the first."""
        lead = 2 * self.votes(X).sum(axis=1) - self.parts_
        return np.where(lead == 0, -0.5 / self.parts_, lead / self.parts_)

    def predict(self, X: Any) -> NDArray[Any]:
        return self.classes_[(self.decision_function(X) > 0).astype(np.int64)]

    def certify(self, X: Any) -> NDArray[np.int64]:
        """The number of flipped labels that each decision is proven to withstand, `[rows]`."""
        votes = self.votes(X)
        decided = (votes.sum(axis=1) > self.parts_ / 2).astype(np.int64)
        if len(decided) >= MIN_PEOPLE and len(np.unique(decided)) == 1:
            warnings.warn(
                f"The vote of {self.parts_} copies decides '{self.classes_[decided[0]]}' for all "
                f"{len(decided)} people. If the copies learned nothing, the certificates mean "
                "nothing: check the balanced accuracy, and use fewer parts, or copies that learn "
                "from few rows.",
                stacklevel=2,
            )
        return np.array([self.votes_needed(v, d) - 1 for v, d in zip(votes, decided, strict=True)])

    def votes_needed(self, votes: NDArray[np.int64], decided: int) -> int:
        """How many copies must change their vote to change the decision."""
        half = self.parts_ // 2
        ones = int(votes.sum())
        return ones - half if decided == 1 else half + 1 - ones


def part_of(X: Any, parts: int) -> NDArray[np.int64]:
    """The part of each row, by a hash of its inputs: equal rows share a part, and labels play no
    role."""
    if isinstance(X, pd.DataFrame):
        hashes = pd.util.hash_pandas_object(X, index=False).to_numpy()
        return (hashes % np.uint64(parts)).astype(np.int64)
    dense = np.ascontiguousarray(X.toarray() if hasattr(X, "toarray") else X)
    return np.array([zlib.crc32(row.tobytes()) % parts for row in dense], dtype=np.int64)

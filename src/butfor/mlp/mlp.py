"""MLP: our network as a scikit-learn classifier."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.model_selection import train_test_split
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from butfor.errors import SettingError, TableError, listed
from butfor.learn.protocols import Floats, MakesLearner, label_values
from butfor.mlp.recipe import Network, Recipe, Rows


class MLP(ClassifierMixin, BaseEstimator, MakesLearner):
    """A small feed-forward network; training is reproducible to the last bit.

    Adam on mean binary cross-entropy, or with more than two classes on mean cross-entropy of the softmax; early
    stopping on the best validation loss. After `fit`, `network_` has the weights, `classes_` the labels (a positive
    logit means the second of two), `best_epoch_` the epoch whose weights were kept.

    Parameters
    ----------
    hidden : tuple of int, default=(32, 32)
        Widths of the hidden layers; () is logistic regression.
    activation : {"relu", "tanh", "sigmoid"}, default="relu"
        The activation function after each hidden layer.
    learning_rate : float, default=0.005
        Adam's step size.
    max_epochs : int, default=200
        The most epochs.
    patience : int, default=10
        Training stops after this many epochs without a new lowest validation loss.
    batch_size : int or None, default=128
        Rows per step; None is one batch of all rows.
    validation_fraction : float, default=0.25
        The share of the rows set aside, stratified, if `fit` gets no validation rows.
    random_state : int or None, default=0
        Seed of the initial weights and of the batch order.
    """

    made_by = "butfor.mlp.learner:MLPLearner"

    def __init__(
        self,
        hidden: tuple[int, ...] = (32, 32),
        activation: str = "relu",
        learning_rate: float = 0.005,
        max_epochs: int = 200,
        patience: int = 10,
        batch_size: int | None = 128,
        validation_fraction: float = 0.25,
        random_state: int | None = 0,
    ) -> None:
        self.hidden = hidden
        self.activation = activation
        self.learning_rate = learning_rate
        self.max_epochs = max_epochs
        self.patience = patience
        self.batch_size = batch_size
        self.validation_fraction = validation_fraction
        self.random_state = random_state

    def recipe(self) -> Recipe:
        """The settings for the training engines."""
        settings = self.activation, self.learning_rate, self.max_epochs, self.patience, self.batch_size
        return Recipe(tuple(self.hidden), *settings, seed=_seed(self.random_state))

    def fit(self, X: ArrayLike, y: ArrayLike, validation: tuple[ArrayLike, ArrayLike] | None = None) -> MLP:
        """Train on rows `X [n × d]` with labels `y [n]`."""
        recipe = self.recipe()
        encoded, given = validate_data(self, X, y, dtype=np.float32)
        check_classification_targets(given)
        self.classes_ = label_values(given)
        recipe = replace(recipe, outputs=len(self.classes_) if len(self.classes_) > 2 else 1)
        labels = np.searchsorted(self.classes_, given).astype(np.float32)
        if validation is None:
            kept, aside = split_off(labels, self.validation_fraction, recipe.seed)
            rows = Rows(encoded[kept], labels[kept], encoded[aside], labels[aside])
        else:
            rows = Rows(encoded, labels, *self._check_validation(*validation))
        from butfor.mlp.direct import train

        self.network_: Network = train(recipe, rows)
        self.best_epoch_ = self.network_.best_epoch
        return self

    def decision_function(self, X: ArrayLike) -> Floats:
        """Logits `[rows]`; above 0 means `classes_[1]`. With more than two classes scores `[rows × classes]`."""
        check_is_fitted(self)
        return self.network_.logits(validate_data(self, X, dtype=np.float32, reset=False))

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        check_is_fitted(self)
        return self.classes_[self.network_.predict(validate_data(self, X, dtype=np.float32, reset=False))]

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """Probabilities `[rows × classes]`, in the order of `classes_`."""
        from scipy.special import expit, softmax

        logits = self.decision_function(X).astype(np.float64)
        if logits.ndim == 2:
            return np.asarray(softmax(logits, axis=1))
        return np.column_stack([1 - expit(logits), expit(logits)])

    def _check_validation(self, X: ArrayLike, y: ArrayLike) -> tuple[Floats, Floats]:
        X_val: Floats = check_array(X, dtype=np.float32, input_name="validation rows")
        y_val = np.asarray(y)
        if X_val.shape[1] != self.n_features_in_:
            raise TableError(
                f"The validation rows have {X_val.shape[1]} columns, the training rows {self.n_features_in_}."
            )
        if y_val.shape != (len(X_val),):
            raise TableError(f"{len(X_val)} validation rows but {y_val.size} validation labels.")
        unknown = np.setdiff1d(y_val, self.classes_)
        if unknown.size:
            raise TableError(f"The validation labels include {listed(unknown)}, which no training row has.")
        return X_val, np.searchsorted(self.classes_, y_val).astype(np.float32)


def split_off(y: NDArray[Any], fraction: float, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Positions of training rows and of a stratified share of validation rows, by the labels' numbers."""
    if not 0 < fraction < 1:
        raise SettingError(f"validation_fraction={fraction} must lie between 0 and 1.")
    counts = np.bincount(y.astype(np.int64), minlength=2)
    if min(counts) < 2 or len(y) * min(fraction, 1 - fraction) < len(counts):
        raise TableError(
            f"n_samples={len(y)} with {listed(counts)} of the classes is too few to set validation rows aside: give "
            "validation rows, or at least two rows of each class."
        )
    kept, aside = train_test_split(np.arange(len(y)), test_size=fraction, stratify=y, random_state=seed)
    return kept, aside


def _seed(random_state: Any) -> int:
    """A whole number is the seed; anything else that scikit-learn accepts draws one."""
    if isinstance(random_state, (int, np.integer)):
        return int(random_state)
    return int(check_random_state(random_state).randint(2**31))

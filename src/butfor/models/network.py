"""The network of the paper: the scikit-learn estimator `MLP`, its learner, and its fast engines.

`butfor.nets` trains the networks and knows arrays only; here tables become arrays, its errors
become ours, and its checks ask whether the work should stop."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import asdict, replace
from importlib.util import find_spec
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, softmax
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.model_selection import train_test_split
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, check_X_y, validate_data

from butfor.models.abilities import Pull
from butfor.models.seam import (
    MEMBERS,
    Advance,
    Bound,
    Engine,
    FlipSet,
    Floats,
    Learner,
    MakesLearner,
    Model,
    TableCache,
    Training,
    named_pulls,
)
from butfor.nets import (
    Fits,
    Network,
    Recipe,
    Rows,
    fit_many,
    train_one,
)
from butfor.nets.recipe import LAST_SEED
from butfor.support import stopping
from butfor.support.compiling import compiling
from butfor.support.cores import check_n_jobs
from butfor.support.errors import (
    EngineError,
    LearnerError,
    SettingError,
    TableError,
    listed,
)
from butfor.table.encoding import EncodedTable, TableEncoder
from butfor.table.labels import label_values
from butfor.table.table import Table

MAX_ROWS = 20_000
"""With more training rows an ensemble has half the members."""
NETWORKS_AT_ONCE = {"cpu": 64, "cuda": 1024}
"""Networks that stacked tensors train side by side."""


@contextmanager
def translated() -> Iterator[None]:
    """Errors of `butfor.nets` as ours."""
    try:
        yield
    except (ValueError, RuntimeError) as error:
        if type(error) is ValueError:
            raise SettingError(str(error)) from None
        if type(error) is RuntimeError:
            raise EngineError(str(error)) from None
        raise


def find_device(name: str) -> Any:
    """The torch device of that name; an error if it is not available."""
    try:
        device = torch.device(name)
    except (RuntimeError, TypeError):
        device = torch.device("meta")  # which is none that trains
    if device.type not in NETWORKS_AT_ONCE:
        raise SettingError(f"device='{name}' is not supported: say 'cpu', 'cuda' or 'cuda:0'.")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise EngineError(
            f"device='{name}' is not available: PyTorch sees {torch.cuda.device_count()} CUDA "
            "GPUs. Use device='cpu', or install a CUDA build of PyTorch."
        )
    return device


class MLP(ClassifierMixin, BaseEstimator, MakesLearner):
    """A small feed-forward network; training is reproducible to the last bit.

    Adam on mean binary cross-entropy, or with more than two classes on mean cross-entropy of the
    softmax; early stopping on the best validation loss. After `fit`, `network_` has the weights,
    `classes_` the labels (a positive logit means the second of two), `best_epoch_` the epoch whose
    weights were kept.

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
        settings = (
            self.activation,
            self.learning_rate,
            self.max_epochs,
            self.patience,
            self.batch_size,
        )
        seed = self.random_state  # anything but a whole number that scikit-learn accepts draws one
        if not isinstance(seed, (int, np.integer)):
            seed = check_random_state(seed).randint(2**31)
        if not 0 <= seed < LAST_SEED:
            raise SettingError(
                f"random_state={seed} must be a whole number from 0 to {LAST_SEED - 1}."
            )
        with translated():
            return Recipe(tuple(self.hidden), *settings, seed=int(seed))

    def fit(
        self, X: ArrayLike, y: ArrayLike, validation: tuple[ArrayLike, ArrayLike] | None = None
    ) -> MLP:
        """Train on rows `X [n × d]` with labels `y [n]`."""
        recipe = self.recipe()
        encoded, targets = validate_data(self, X, y, dtype=np.float32)
        check_classification_targets(targets)
        self.classes_ = label_values(targets)
        labels = np.searchsorted(self.classes_, targets).astype(np.float32)
        if validation is None:
            kept, aside = split_off(labels, self.validation_fraction, recipe.seed)
            rows = Rows(
                encoded[kept],
                labels[kept],
                encoded[aside],
                labels[aside],
                classes=len(self.classes_),
            )
        else:
            X_val, y_val = check_X_y(*validation, dtype=np.float32)
            if X_val.shape[1] != self.n_features_in_:
                raise TableError(
                    f"The validation rows have {X_val.shape[1]} columns, the training rows "
                    f"{self.n_features_in_}."
                )
            unknown = np.setdiff1d(y_val, self.classes_)
            if unknown.size:
                raise TableError(
                    f"The validation labels include {listed(unknown)}, which no training row has."
                )
            validation_labels = np.searchsorted(self.classes_, y_val).astype(np.float32)
            rows = Rows(encoded, labels, X_val, validation_labels, classes=len(self.classes_))
        with translated():
            self.network_: Network = train_one(recipe, rows)
        self.best_epoch_ = self.network_.best_epoch
        return self

    def decision_function(self, X: ArrayLike) -> Floats:
        """Logits `[rows]`; above 0 means `classes_[1]`. With more than two classes scores `[rows ×
        classes]`."""
        check_is_fitted(self)
        return self.network_.logits(validate_data(self, X, dtype=np.float32, reset=False))

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        check_is_fitted(self)
        return self.classes_[
            self.network_.predict(validate_data(self, X, dtype=np.float32, reset=False))
        ]

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """Probabilities `[rows × classes]`, in the order of `classes_`."""
        logits = self.decision_function(X).astype(np.float64)
        if logits.ndim == 2:
            return np.asarray(softmax(logits, axis=1))
        return np.column_stack([1 - expit(logits), expit(logits)])


def split_off(
    y: NDArray[Any], fraction: float, seed: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Positions of training rows and of a stratified share of validation rows, by the labels'
    numbers."""
    if not 0 < fraction < 1:
        raise SettingError(f"validation_fraction={fraction} must lie between 0 and 1.")
    counts = np.bincount(y.astype(np.int64), minlength=2)
    if min(counts) < 2 or len(y) * min(fraction, 1 - fraction) < len(counts):
        raise TableError(
            f"n_samples={len(y)} with {listed(counts)} of the classes is too few to set "
            "validation rows aside: give validation rows, or at least two rows of each class."
        )
    kept, aside = train_test_split(
        np.arange(len(y)), test_size=fraction, stratify=y, random_state=seed
    )
    return kept, aside


class MLPLearner(Learner):
    """The encoder is fitted on the training rows without labels, so all flip sets share it."""

    kind = "mlp"
    name = "MLP"
    seeded = reproducible = True

    def __init__(self, model: MLP, encoder: Any = None) -> None:
        if encoder is not None and not isinstance(encoder, TableEncoder):
            raise SettingError(f"encoder={encoder!r}: MLP needs a TableEncoder.")
        self.recipe = model.recipe()
        self.own_seed = self.recipe.seed
        self.validation_fraction = model.validation_fraction
        self.encoder = clone(encoder) if encoder is not None else TableEncoder()
        self._cache = TableCache()

    def split(self, labels: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        return split_off(labels, self.validation_fraction, self.recipe.seed)

    def fit(self, table: Table, labels: Floats) -> NetworkModel:
        """The network of the definition."""
        rows = replace(self.rows(table), y=labels)
        with translated():
            network = train_one(self.recipe, rows)
        if not network.best_epoch:
            raise LearnerError(
                "Training diverged: no epoch had a finite validation loss "
                f"(learning_rate={self.recipe.learning_rate:g}, numeric='{self.encoder.numeric}'). "
                "Lower the learning rate, or scale the numeric columns."
            )
        return network_model(network, rows, self.encoded(table))

    def work(self, table: Table) -> float:
        return 4.0 * table.n * self.recipe.max_epochs

    def pack(self, model: NetworkModel) -> Network:
        return model.network

    def unpack(self, packed: Network, table: Table) -> NetworkModel:
        return network_model(packed, self.rows(table), self.encoded(table))

    def usual_members(self, table: Table) -> int:
        return MEMBERS if table.n <= MAX_ROWS else MEMBERS // 2

    def reseeded(self, seed: int) -> MLPLearner:
        other = copy(self)
        other.recipe = replace(self.recipe, seed=seed)
        other.own_seed = seed
        return other

    def record(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "recipe": asdict(self.recipe) | {"hidden": list(self.recipe.hidden)},
            "encoder": self.encoder.get_params(),
            "validation_fraction": self.validation_fraction,
        }

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> MLPLearner:
        settings = record["recipe"] | {"validation_fraction": record["validation_fraction"]}
        seed = settings.pop("seed")
        hidden = tuple(settings.pop("hidden"))
        return cls(MLP(hidden, random_state=seed, **settings), TableEncoder(**record["encoder"]))

    def encoded(self, table: Table) -> EncodedTable:
        """The table as numbers, encoded once."""
        return self._cache.get(table, self.encoder)

    def rows(self, table: Table) -> Rows:
        """The encoded rows with their labels."""
        data = self.encoded(table)
        if data.X_val is None:
            raise SettingError(
                "An MLP needs validation rows to stop early: give some, or let the audit set rows "
                "aside."
            )
        validation_labels = table.validation_codes.astype(np.float32)
        sides = table.two_sides
        return Rows(
            data.X,
            table.labels(),
            data.X_val,
            validation_labels,
            len(table.classes),
            None if sides is None else sides.new,
            None if sides is None else sides.ones,
        )


class NetworkModel(Model):
    """A trained network with its encoder. `rows` has the labels it was trained on."""

    table_encoder: TableEncoder

    def __init__(self, network: Network, rows: Rows, data: EncodedTable) -> None:
        self.network = network
        self.rows = rows
        self.table_encoder = data.encoder
        self._data = data

    @property
    def as_network(self) -> NetworkModel:
        return self

    def logits(self, people: pd.DataFrame) -> Floats:
        return self.network.logits(self.encoded(people))

    scores = logits

    def encoded(self, people: pd.DataFrame) -> Floats:
        return self._data.people(people)


class ReluModel(NetworkModel):
    """A network of ReLUs. Around a row it is a linear function (section 2 of the paper)."""

    def pulls(self, people: pd.DataFrame, contrast: Floats | None = None) -> list[Pull]:
        """Keep the weights between active neurons and multiply the layers. Then θ·x + bias is the
        logit of a row or, with several outputs, their sum weighted by `contrast [people ×
        outputs]`."""
        X = self.encoded(people)
        network = self.network
        counted = np.ones((len(X), 1)) if contrast is None else contrast.astype(np.float64)
        theta = counted @ network.weights[-1].astype(np.float64)
        bias = counted @ network.biases[-1].astype(np.float64)
        hidden = zip(network.weights, network.biases, network.layers(X)[:-1], strict=False)
        for W, b, h in reversed(list(hidden)):
            theta *= h > 0
            bias += theta @ b.astype(np.float64)
            theta = theta @ W.astype(np.float64)
        return named_pulls(self.table_encoder.by_column(theta * X), bias, list(people.columns))


def network_model(network: Network, rows: Rows, data: EncodedTable) -> NetworkModel:
    """The model of a trained network."""
    kind = ReluModel if network.activation == "relu" else NetworkModel
    return kind(network, rows, data)


class NetworkEngine(Engine):
    """Trains the definition's networks up to the order of floating-point sums: on the CPU in
    compiled code, `n_jobs` at a time (default: one per core); on CUDA by one kernel launch; or, if
    `stacked`, as stacked tensors."""

    def __init__(
        self, device: str = "cpu", n_jobs: int | None = None, stacked: bool = False
    ) -> None:
        self.device = find_device(device)
        fused = self.device.type == "cpu" and not stacked
        if fused and find_spec("numba") is None:
            raise EngineError(
                'The network needs numba, which is not installed: pip install "butfor[net]".'
            )
        self.name = "fused" if fused else "stacked"
        self.width = check_n_jobs(n_jobs) if fused else NETWORKS_AT_ONCE[self.device.type]
        self.how = {
            "device": str(self.device),
            "stacked": stacked,
            "threads": self.width if fused else None,
        }

    def fit_many(
        self, recipe: Recipe, rows: Rows, flip_sets: Sequence[FlipSet], people: Floats, **more: Any
    ) -> Fits:
        """Train one network per flip set, with its own of the `seeds` or the recipe's."""
        if self.name == "fused":
            from butfor.nets import fused

            if not fused.is_prepared():
                with compiling():
                    fused.prepare()
        how: dict[str, Any] = (
            {"seeds": [recipe.seed] * len(flip_sets), "check": stopping.check} | more | self.how
        )
        with translated():
            return fit_many(recipe, rows, flip_sets, people=people, **how)

    def bind(self, learner: Learner, table: Table, people: pd.DataFrame) -> Bound | None:
        if not isinstance(learner, MLPLearner):
            return None
        recipe = learner.recipe
        rows = learner.rows(table)
        asked = np.array(learner.encoded(table).people(people))

        def train(trainings: Sequence[Training], advance: Advance | None = None) -> Floats:
            seeds = [recipe.seed if seed is None else seed for _, seed in trainings]
            flip_sets = [flips for flips, _ in trainings]
            told = {} if advance is None else {"advance": advance}
            return self.fit_many(recipe, rows, flip_sets, asked, seeds=seeds, **told).answers

        return Bound(train, self.name, device=self.device, width=self.width)

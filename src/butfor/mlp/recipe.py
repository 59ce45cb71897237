"""Inputs and outputs of the learning algorithm L.

`Recipe` has L's settings, `Rows` the numbers it learns from, a *flip set* the positions of flipped labels. `Network` is
one trained f, `Job` the input of an engine, and `Fits` its output.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from butfor.errors import SettingError
from butfor.learn.decision_split import DecisionSplit, decides_one
from butfor.learn.protocols import Advance, FlipSet, Floats

ACTIVATIONS = ("relu", "tanh", "sigmoid")
"""torch's names."""
THRESHOLDS = {"relu": 0.0, "tanh": 0.0, "sigmoid": 0.5}
"""A neuron is active if its output is above this, which means that its input is above 0."""
MOST_LAYERS, MOST_NEURONS, MOST_EPOCHS = 20, 4096, 1_000_000
"""Larger values are a typing error: an answer takes thousands of trainings."""
LAST_SEED = 2**62
ZEROS_PER_ENTRY = 3
"""Rows with at least this many inputs per input that is not 0 are faster by their entries."""
BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8
"""torch.optim.Adam's defaults, which L keeps."""


@dataclass(frozen=True)
class Recipe:
    """The settings of L. `batch_size=None` means one batch, in the data's order."""

    hidden: tuple[int, ...] = (32, 32)
    activation: str = "relu"
    learning_rate: float = 0.005
    max_epochs: int = 200
    patience: int = 10
    batch_size: int | None = 128
    seed: int = 0
    outputs: int = 1
    """1 for a logit; with more than two classes, one score per class."""

    def __post_init__(self) -> None:
        if any(width < 1 for width in self.hidden):
            raise SettingError(f"hidden={_brief(self.hidden)}: every layer needs at least one neuron.")
        if len(self.hidden) > MOST_LAYERS or any(width > MOST_NEURONS for width in self.hidden):
            raise SettingError(
                f"hidden={_brief(self.hidden)}: at most {MOST_LAYERS} layers of at most {MOST_NEURONS} neurons."
            )
        if self.activation not in ACTIVATIONS:
            raise SettingError(f"activation='{self.activation}' is not one of {', '.join(ACTIVATIONS)}.")
        if not self.learning_rate > 0:
            raise SettingError(f"learning_rate={self.learning_rate} must be above 0.")
        for name in ("max_epochs", "patience"):
            if getattr(self, name) < 1:
                raise SettingError(f"{name}={getattr(self, name)} must be at least 1.")
        if self.max_epochs > MOST_EPOCHS:
            raise SettingError(f"max_epochs={self.max_epochs} must be at most {MOST_EPOCHS}.")
        if self.batch_size is not None and not 1 <= self.batch_size < 2**31:
            raise SettingError(
                f"batch_size={self.batch_size} must be at least 1 and at most {2**31 - 1}, or None for full batch."
            )
        if not 0 <= self.seed < LAST_SEED:
            raise SettingError(f"seed={self.seed} must be a whole number from 0 to {LAST_SEED - 1}.")

    def widths(self, inputs: int) -> tuple[int, ...]:
        """Neurons per layer from the inputs to the logit or the scores."""
        return (inputs, *self.hidden, self.outputs)

    def parameters(self, inputs: int) -> int:
        """How many numbers one network has."""
        return sum(out * (into + 1) for into, out in pairwise(self.widths(inputs)))

    def to_dict(self) -> dict[str, Any]:
        settings = asdict(self) | {"hidden": list(self.hidden)}
        del settings["outputs"]
        return settings

    @classmethod
    def from_dict(cls, record: dict[str, Any]) -> Recipe:
        return cls(**record | {"hidden": tuple(record["hidden"])})


class Entries(NamedTuple):
    """Rows by the inputs that are not 0, in their order."""

    starts: NDArray[np.int64]
    """The first entry of each row, and the end of the last."""
    places: NDArray[np.int32]
    """The position of each entry among the inputs, from 0."""
    values: Floats

    @classmethod
    def of(cls, X: Floats) -> Entries:
        from scipy.sparse import csr_array

        rows = csr_array(X)
        return cls(rows.indptr.astype(np.int64), rows.indices.astype(np.int32), rows.data.astype(np.float32))


@dataclass(frozen=True, eq=False)
class Rows:
    """Encoded training rows `X [n × d]`, labels `y [n]` by number, and validation rows. With more than two classes
    `decision_split` has the labels after a flip."""

    X: Floats
    y: Floats
    X_val: Floats
    y_val: Floats
    decision_split: DecisionSplit | None = None

    def __post_init__(self) -> None:
        for name in ("X", "y", "X_val", "y_val"):
            object.__setattr__(self, name, np.ascontiguousarray(getattr(self, name), dtype=np.float32))

    @property
    def n(self) -> int:
        return int(self.X.shape[0])

    @property
    def d(self) -> int:
        return int(self.X.shape[1])

    @cached_property
    def entries(self) -> tuple[Entries, Entries] | None:
        """Training and validation rows by their entries, if that is faster than whole rows: one-hot columns."""
        if np.count_nonzero(self.X) * ZEROS_PER_ENTRY > self.X.size:
            return None
        return Entries.of(self.X), Entries.of(self.X_val)

    def labels(self, flips: Sequence[int] = ()) -> Floats:
        """y with the labels at these positions flipped."""
        y, at = self.y.copy(), list(flips)
        y[at] = 1 - y[at] if self.decision_split is None else self.decision_split.new[at]
        return y


@dataclass(frozen=True, eq=False)
class Network:
    """One trained f: `weights[l] [out × in]`, `biases[l] [out]`, and the course of its training."""

    weights: tuple[Floats, ...]
    biases: tuple[Floats, ...]
    recipe: Recipe
    best_epoch: int
    epochs: int
    validation_loss: float

    @classmethod
    def from_packed(
        cls, packed: Floats, recipe: Recipe, inputs: int, best_epoch: int, epochs: int, validation_loss: float
    ) -> Network:
        """From numbers packed in PyTorch's order, which are copied."""
        weights, biases = unpack(np.array(packed, np.float32), recipe.widths(inputs))
        return cls(tuple(weights), tuple(biases), recipe, int(best_epoch), int(epochs), float(validation_loss))

    @property
    def activation(self) -> str:
        return self.recipe.activation

    def logits(self, X: Floats) -> Floats:
        """f before the sigmoid, `[rows]`, above 0 for class 1. With more than two classes f before the softmax, `[rows
        × classes]`, highest for the decision."""
        outputs = self.layers(X)[-1]
        return outputs[:, 0] if self.recipe.outputs == 1 else outputs

    def predict(self, X: Floats) -> NDArray[np.int64]:
        logits = self.logits(X)
        return decides_one(logits).astype(np.int64) if logits.ndim == 1 else logits.argmax(axis=1)

    def layers(self, X: Floats) -> list[Floats]:
        """The outputs of every layer for rows `X`, `[rows × width]` each."""
        import torch
        from torch.nn.functional import linear

        outputs = []
        with one_thread(), torch.no_grad():
            h = torch.from_numpy(np.array(X, dtype=np.float32, order="C"))
            for layer, (W, b) in enumerate(zip(self.weights, self.biases, strict=True)):
                h = linear(h, torch.from_numpy(W), torch.from_numpy(b))
                if layer < len(self.weights) - 1:
                    h = getattr(torch, self.activation)(h)
                outputs.append(h.numpy())
        return outputs

    def active(self, X: Floats, threshold: float | None = None) -> list[NDArray[np.bool_]]:
        """b(x): which hidden neurons are active, `[rows × width]` per layer."""
        limit = THRESHOLDS[self.activation] if threshold is None else threshold
        return [layer > limit for layer in self.layers(X)[:-1]]

    def local_linear_model(
        self, X: Floats, contrast: Floats | None = None
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Around a row a ReLU network is a linear function (section 2 of the paper): keep the weights between active
        neurons and multiply the layers. θ `[rows × inputs]` and bias `[rows]`, with θ·x + bias the logit of each row of
        `X`; with several outputs, their sum weighted by `contrast [rows × outputs]`."""
        counted = np.ones((len(X), 1)) if contrast is None else contrast.astype(np.float64)
        theta = counted @ self.weights[-1].astype(np.float64)
        bias = counted @ self.biases[-1].astype(np.float64)
        for W, b, active in reversed(list(zip(self.weights, self.biases, self.active(X), strict=False))):
            theta *= active
            bias += theta @ b.astype(np.float64)
            theta = theta @ W.astype(np.float64)
        return theta, bias


@dataclass(frozen=True, eq=False)
class Job:
    """Networks to train, one per flip set and seed, and the people whose logits are wanted."""

    recipe: Recipe
    rows: Rows
    flip_sets: Sequence[FlipSet]
    seeds: Sequence[int]
    people: Floats
    advance: Advance | None = None

    def part(self, which: slice) -> Job:
        return replace(self, flip_sets=self.flip_sets[which], seeds=self.seeds[which])


@dataclass(frozen=True, eq=False)
class Fits:
    """K trained networks: `logits [K × people]` (with more than two classes `[K × people · classes]`), the kept epoch,
    and the weights `[K × parameters]` packed in PyTorch's order (W₁ row by row, b₁, W₂, …)."""

    logits: Floats
    best_epoch: NDArray[np.int64]
    epochs: NDArray[np.int64]
    validation_loss: Floats
    weights: Floats

    @classmethod
    def empty(cls, networks: int, people: int, parameters: int) -> Fits:
        """Arrays to fill in."""
        epochs, ran = np.zeros(networks, np.int64), np.zeros(networks, np.int64)
        logits, losses = np.empty((networks, people), np.float32), np.empty(networks, np.float32)
        return cls(logits, epochs, ran, losses, np.empty((networks, parameters), np.float32))

    def put(self, at: int | slice, *fields: Any) -> None:
        """Fill in the fields of some networks."""
        for name, value in zip(self.__dataclass_fields__, fields, strict=True):
            getattr(self, name)[at] = value

    @property
    def answers(self) -> Floats:
        """The logits; NaN if no epoch was kept, because training diverged."""
        return np.where((self.best_epoch > 0)[:, None], self.logits, np.float32(np.nan))


@contextmanager
def one_thread() -> Iterator[None]:
    """One intra-op thread, without oneDNN. On several threads small networks train 20 to 50 times slower, and not
    bitwise alike. Where torch passes every product to oneDNN (ARM), the call takes longer than the product."""
    import torch

    threads, onednn = torch.get_num_threads(), torch.backends.mkldnn.enabled
    torch.set_num_threads(1)
    torch.backends.mkldnn.enabled = False  # type: ignore[assignment]
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        torch.backends.mkldnn.enabled = onednn


def _brief(hidden: tuple[int, ...]) -> str:
    shown = ",".join(map(str, hidden[:5]))
    return f"{shown}, … ({len(hidden)} layers)" if len(hidden) > 5 else shown


def unpack(packed: Any, widths: Sequence[int]) -> tuple[list[Any], list[Any]]:
    """Weight matrices `[… × out × in]` and bias vectors `[… × out]` inside numbers or a tensor `[… × parameters]`."""
    weights, biases, at = [], [], 0
    for into, out in pairwise(widths):
        weights.append(packed[..., at : at + out * into].reshape(*packed.shape[:-1], out, into))
        at += out * into
        biases.append(packed[..., at : at + out])
        at += out
    return weights, biases


def pack(network: Network) -> Floats:
    """The inverse of `unpack`."""
    parts = [a.ravel() for pair in zip(network.weights, network.biases, strict=True) for a in pair]
    return np.concatenate(parts).astype(np.float32)

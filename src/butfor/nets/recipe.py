"""What a training takes and gives: the settings, the rows with their labels, and a trained
network."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
FlipSet = tuple[int, ...]
"""Positions of training rows whose labels are flipped, ascending, each once."""
Check = Callable[[], object]
"""Called between pieces of work, by the thread that asked for it; it may raise anything, which ends
the work."""
Advance = Callable[[int], object]
"""Called with the number of trainings that just finished."""

ACTIVATIONS = ("relu", "tanh", "sigmoid")  # torch's names
# Larger values are a typing error: an answer takes thousands of trainings.
MOST_LAYERS = 20
MOST_NEURONS = 4096
MOST_EPOCHS = 1_000_000
LAST_SEED = 2**62
# torch.optim.Adam's defaults.
BETA1 = 0.9
BETA2 = 0.999
EPSILON = 1e-8


@dataclass(frozen=True)
class Recipe:
    """The settings of a training. `batch_size=None` means one batch, in the data's order. `seed` is
    that of a training for which no other is named."""

    hidden: tuple[int, ...] = (32, 32)
    activation: str = "relu"
    learning_rate: float = 0.005
    max_epochs: int = 200
    patience: int = 10
    batch_size: int | None = 128
    seed: int = 0

    def __post_init__(self) -> None:
        shown = ",".join(map(str, self.hidden[:5]))
        if len(self.hidden) > 5:
            shown += f", … ({len(self.hidden)} layers)"
        if any(width < 1 for width in self.hidden):
            raise ValueError(f"hidden={shown}: every layer needs at least one neuron.")
        if len(self.hidden) > MOST_LAYERS or any(width > MOST_NEURONS for width in self.hidden):
            raise ValueError(
                f"hidden={shown}: at most {MOST_LAYERS} layers of at most {MOST_NEURONS} neurons."
            )
        if self.activation not in ACTIVATIONS:
            raise ValueError(
                f"activation='{self.activation}' is not one of {', '.join(ACTIVATIONS)}."
            )
        if not self.learning_rate > 0:
            raise ValueError(f"learning_rate={self.learning_rate} must be above 0.")
        for name in ("max_epochs", "patience"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)} must be at least 1.")
        if self.max_epochs > MOST_EPOCHS:
            raise ValueError(f"max_epochs={self.max_epochs} must be at most {MOST_EPOCHS}.")
        size = self.batch_size
        if size is not None and not 1 <= size < 2**31:
            raise ValueError(
                f"batch_size={size} must be at least 1 and at most {2**31 - 1}, or None for full "
                "batch."
            )
        if not 0 <= self.seed < LAST_SEED:
            raise ValueError(f"seed={self.seed} must be a whole number from 0 to {LAST_SEED - 1}.")


@dataclass(frozen=True, eq=False)
class Rows:
    """Training rows `X [n × d]` with labels `y [n]` by number, and validation rows, of so many
    `classes`.

    `flipped [n]` is each label after a flip, by default 1 − y. With more than two classes `towards
    [classes]` says which count as the other decision: a person's logit is the best of their scores
    less the best of the others."""

    X: Floats
    y: Floats
    X_val: Floats
    y_val: Floats
    classes: int = 2
    flipped: NDArray[Any] | None = None
    towards: NDArray[np.bool_] | None = None

    def __post_init__(self) -> None:
        for name in ("X", "y", "X_val", "y_val"):
            array = np.ascontiguousarray(getattr(self, name), dtype=np.float32)
            object.__setattr__(self, name, array)

    @property
    def n(self) -> int:
        return int(self.X.shape[0])

    @property
    def d(self) -> int:
        return int(self.X.shape[1])

    @property
    def outputs(self) -> int:
        """Numbers that a network gives per person: a logit or, with more than two classes, a score
        for each."""
        return 1 if self.classes == 2 else self.classes

    def widths(self, recipe: Recipe) -> tuple[int, ...]:
        """Neurons per layer, from the inputs to the logit or the scores."""
        return (self.d, *recipe.hidden, self.outputs)

    def labels(self, flips: Sequence[int] = ()) -> Floats:
        """y with the labels at these positions flipped."""
        y = self.y.copy()
        rows = list(flips)
        y[rows] = 1 - y[rows] if self.flipped is None else self.flipped[rows]
        return y

    def check(self, flip_sets: Sequence[FlipSet], people: Floats) -> None:
        """Refuse what does not fit together: compiled code does not check its bounds."""
        for k, flips in enumerate(flip_sets):
            bad = [position for position in flips if not 0 <= position < self.n]
            if bad:
                raise ValueError(
                    f"Flip set {k} names training row {bad[0]}; the rows are numbered 0 to "
                    f"{self.n - 1}."
                )
        if not self.d == self.X_val.shape[1] == people.shape[1]:
            raise ValueError(
                f"Training rows have {self.d} columns, validation rows {self.X_val.shape[1]} and "
                f"people {people.shape[1]}; encode all three alike."
            )
        if len(self.y) != self.n or len(self.y_val) != len(self.X_val):
            raise ValueError(
                "There must be one label for every training row and every validation row."
            )


@dataclass(frozen=True, eq=False)
class Job:
    """Networks to train, one per flip set and seed, and the people whose logits are wanted."""

    recipe: Recipe
    rows: Rows
    flip_sets: Sequence[FlipSet]
    seeds: Sequence[int]
    people: Floats
    check: Check = lambda: None
    advance: Advance = lambda finished: None


class Fits(NamedTuple):
    """K trained networks: `logits [K × people]` (with more than two classes `[K × people ·
    classes]`), the epochs kept and run, and the lowest validation losses, `[K]` each."""

    logits: Floats
    best_epoch: NDArray[np.int64]
    epochs: NDArray[np.int64]
    validation_loss: Floats

    @classmethod
    def empty(cls, job: Job) -> Fits:
        """Arrays to fill in."""
        K = len(job.flip_sets)
        return cls(
            logits=np.empty((K, len(job.people) * job.rows.outputs), np.float32),
            best_epoch=np.zeros(K, np.int64),
            epochs=np.zeros(K, np.int64),
            validation_loss=np.empty(K, np.float32),
        )

    def put(self, part: slice, fields: Sequence[NDArray[Any]]) -> None:
        """Fill in the fields of a part of the networks."""
        for name, values in zip(self._fields, fields, strict=True):
            getattr(self, name)[part] = values

    @property
    def answers(self) -> Floats:
        """The logits; NaN if no epoch was kept, because training diverged."""
        return np.where((self.best_epoch > 0)[:, None], self.logits, np.float32(np.nan))


@dataclass(frozen=True, eq=False)
class Network:
    """One trained network: `weights[l] [out × in]`, `biases[l] [out]`, and the course of its
    training."""

    weights: tuple[Floats, ...]
    biases: tuple[Floats, ...]
    recipe: Recipe
    best_epoch: int
    epochs: int
    validation_loss: float

    @property
    def activation(self) -> str:
        return self.recipe.activation

    def logits(self, X: Floats) -> Floats:
        """Before the sigmoid, `[rows]`, above 0 for class 1. With more than two classes before the
        softmax, `[rows × classes]`, highest for the decision."""
        outputs = self.layers(X)[-1]
        return outputs[:, 0] if outputs.shape[1] == 1 else outputs

    def predict(self, X: Floats) -> NDArray[np.int64]:
        logits = self.logits(X)
        return (logits > 0).astype(np.int64) if logits.ndim == 1 else logits.argmax(axis=1)

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


@contextmanager
def one_thread() -> Iterator[None]:
    """One intra-op thread, without oneDNN. On several threads small networks train 20 to 50 times
    slower, and not bitwise alike. Where torch passes every product to oneDNN (ARM), the call takes
    longer than the product."""
    import torch

    threads = torch.get_num_threads()
    onednn = torch.backends.mkldnn.enabled
    torch.set_num_threads(1)
    torch.backends.mkldnn.enabled = False  # type: ignore[assignment]
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        torch.backends.mkldnn.enabled = onednn


def count(widths: Sequence[int]) -> int:
    """How many numbers a network of these widths has."""
    return sum(out * (into + 1) for into, out in pairwise(widths))


def unpack(packed: Any, widths: Sequence[int]) -> tuple[list[Any], list[Any]]:
    """Weight matrices `[… × out × in]` and bias vectors `[… × out]` inside numbers `[… × count]`,
    packed in PyTorch's order: W₁ row by row, b₁, W₂, …"""
    weights = []
    biases = []
    begin = 0
    for into, out in pairwise(widths):
        end = begin + out * into
        weights.append(packed[..., begin:end].reshape(*packed.shape[:-1], out, into))
        biases.append(packed[..., end : end + out])
        begin = end + out
    return weights, biases

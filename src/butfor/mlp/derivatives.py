"""What a differentiated training run gives back: the derivatives of logits and validation losses by the labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from butfor.mlp.recipe import Network
from butfor.seam import Floats

Numbers = NDArray[np.floating[Any]]


@dataclass(frozen=True, eq=False)
class GradientResult:
    """One training run and its derivatives by the labels.

    `labels [n]` were trained on and `network` was kept; `logits [people]` are its own and `gradient [people × n]`
    is ∂logit/∂y_i. Of the epochs with the lowest validation losses, the kept one first: which they are,
    `epochs [E]`; the logits after each, `epoch_logits [E × people]`; its validation loss, `validation_losses [E]`,
    and ∂loss/∂y_i, `validation_gradients [E × n]`.
    """

    labels: Floats
    logits: Numbers
    gradient: Numbers
    network: Network
    epochs: tuple[int, ...]
    epoch_logits: Numbers
    validation_losses: Numbers
    validation_gradients: Numbers

    @property
    def best_epoch(self) -> int:
        return self.epochs[0]

    def chances(self, tolerance: float) -> Numbers:
        """How likely each epoch is the kept one once label i is turned, `[E × n]`: from the predicted validation
        losses, whose differences mean little below `tolerance`."""
        if len(self.epochs) == 1:
            return np.ones((1, len(self.labels)))
        losses = self.validation_losses[:, None] + (1 - 2 * self.labels) * self.validation_gradients
        weights: Numbers = np.exp((losses.min(axis=0) - losses) / tolerance)
        return weights / weights.sum(axis=0)

    def flip_effects(self, tolerance: float) -> Numbers:
        """The predicted change of the logit if label i were turned, `[people × n]`."""
        jumps = (self.epoch_logits - self.logits).T @ self.chances(tolerance)
        return jumps.astype(self.gradient.dtype) + (1 - 2 * self.labels) * self.gradient

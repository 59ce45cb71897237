"""With more than two labels, splits the decisions into two sides, so that all other code sees two.

A model of k classes gives every person k scores, and the highest decides. A split turns them into one margin, above 0
exactly if the decision is one of the classes `towards`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


def decides_one(logits: Any) -> Any:
    """Whether logits decide for class 1 or, with more than two, for a class `towards`."""
    return logits > 0


@dataclass(frozen=True, eq=False)
class DecisionSplit:
    """`towards [classes]`: the decisions that count as the other one. `new [rows]`: each training row's label after a
    flip, by number. `decided`: the present class of the audited people, if they share one."""

    towards: NDArray[np.bool_]
    new: NDArray[np.int64]
    decided: int | None = None

    @classmethod
    def away_from(cls, decided: int, new: int, classes: int, rows: int) -> DecisionSplit:
        """Any other decision; flips give the label `new`."""
        return cls(np.arange(classes) != decided, np.full(rows, new), decided)

    @classmethod
    def of(cls, decided: int, new: int, classes: int, rows: int) -> DecisionSplit:
        """Only the decision `new`; flips give its label."""
        return cls(np.arange(classes) == new, np.full(rows, new), decided)

    @classmethod
    def between(cls, towards: NDArray[np.bool_], codes: NDArray[np.int64], scores: NDArray[Any]) -> DecisionSplit:
        """Two sides of the labels; a flip gives a row labelled `codes [rows]` the label of the other side with the
        highest of the model's `scores [rows × classes]`."""
        below, above = (np.where(side, scores, -np.inf).argmax(axis=1) for side in (~towards, towards))
        return cls(towards, np.where(towards[codes], below, above))

    def margins(self, scores: NDArray[Any]) -> NDArray[np.float32]:
        """`[… × classes]` → `[…]`: the best score of the classes `towards` less the best of the others."""
        towards, others = scores[..., self.towards], scores[..., ~self.towards]
        return np.asarray(towards.max(axis=-1) - others.max(axis=-1), np.float32)

    def contrast(self, scores: NDArray[Any]) -> NDArray[np.float32]:
        """The weight of each score in the margin, `[… × classes]`: 1 for the best of the classes `towards`, −1 for the
        best of the others."""
        best = np.where(self.towards, scores, -np.inf).argmax(axis=-1)
        rival = np.where(self.towards, -np.inf, scores).argmax(axis=-1)
        one_hot = np.eye(scores.shape[-1], dtype=np.float32)
        return np.asarray(one_hot[best] - one_hot[rival])

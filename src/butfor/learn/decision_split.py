"""More than two labels: some decisions against the others, so that everything behind the seam sees two.

A model of k classes gives every person k scores; the class with the highest one is decided. A question draws a line
through the classes: its margin is above 0 exactly where one of the classes `towards` it is decided. Nothing else turns
scores into a logit, and nothing else draws the line through logits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


def decides_one(logits: Any) -> Any:
    """Whether a logit, or each of many, decides for class 1 or, of more than two, towards the question."""
    return logits > 0


@dataclass(frozen=True, eq=False)
class DecisionSplit:
    """`towards [classes]`: the decisions that count as the other one. `new [rows]`: the label, by its number, that a
    flip gives each training row. `decided`: the class that those who are asked about have now, where it is one."""

    towards: NDArray[np.bool_]
    new: NDArray[np.int64]
    decided: int | None = None

    @classmethod
    def away_from(cls, decided: int, new: int, classes: int, rows: int) -> DecisionSplit:
        """Any other decision than the present one; flips give the label `new`."""
        return cls(np.arange(classes) != decided, np.full(rows, new), decided)

    @classmethod
    def of(cls, decided: int, new: int, classes: int, rows: int) -> DecisionSplit:
        """This one decision, whose label flips give."""
        return cls(np.arange(classes) == new, np.full(rows, new), decided)

    @classmethod
    def between(cls, towards: NDArray[np.bool_], codes: NDArray[np.int64], scores: NDArray[Any]) -> DecisionSplit:
        """Two sides of the labels; a flip gives each row, labelled `codes [rows]`, the label of the other side that the
        model gives the highest of its `scores [rows × classes]`."""
        below, above = (np.where(side, scores, -np.inf).argmax(axis=1) for side in (~towards, towards))
        return cls(towards, np.where(towards[codes], below, above))

    def margins(self, scores: NDArray[Any]) -> NDArray[np.float32]:
        """`[… × classes]` → `[…]`: the best score towards it less the best of the others."""
        towards, others = scores[..., self.towards], scores[..., ~self.towards]
        return np.asarray(towards.max(axis=-1) - others.max(axis=-1), np.float32)

    def contrast(self, scores: NDArray[Any]) -> NDArray[np.float32]:
        """How each score counts for the margin here, `[… × classes]`: 1 for the best towards it, −1 for the best of the
        others."""
        best = np.where(self.towards, scores, -np.inf).argmax(axis=-1)
        rival = np.where(self.towards, -np.inf, scores).argmax(axis=-1)
        one_hot = np.eye(scores.shape[-1], dtype=np.float32)
        return np.asarray(one_hot[best] - one_hot[rival])

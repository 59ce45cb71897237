"""More than two labels as two sides, so that all other code asks one question: which side?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Margins = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Sides:
    """Of more than two labels, `ones [classes]` count as 1 and all others as 0. A flip gives row i
    the label `new[i]`, by number. `decided` is the present decision of the people asked about, if
    they share one."""

    ones: NDArray[np.bool_]
    new: NDArray[np.int64]
    decided: int | None = None

    @classmethod
    def away_from(
        cls, decided: int, new: int, classes: int, rows: int, only: bool = False
    ) -> Sides:
        """Any other decision or `only` the decision `new`; flips give the label `new`."""
        numbers = np.arange(classes)
        ones = numbers == new if only else numbers != decided
        return cls(ones, np.full(rows, new), decided)

    @classmethod
    def between(
        cls, ones: NDArray[np.bool_], codes: NDArray[np.int64], scores: NDArray[Any]
    ) -> Sides:
        """A flip gives a row labelled `codes [rows]` the label of the other side with the highest
        of the model's `scores [rows × classes]`."""
        best_zero = np.where(~ones, scores, -np.inf).argmax(axis=1)
        best_one = np.where(ones, scores, -np.inf).argmax(axis=1)
        return cls(ones, np.where(ones[codes], best_zero, best_one))

    def margins(self, answers: NDArray[Any]) -> Margins:
        """The best score of the labels that count as 1 less the best of the others, `[… ×
        people]`, from scores `[… × people · classes]`."""
        scores = self._by_class(answers)
        best = scores[..., self.ones].max(axis=-1)
        others = scores[..., ~self.ones].max(axis=-1)
        return np.asarray(best - others, np.float32)

    def decisions(self, answers: NDArray[Any]) -> NDArray[np.int64]:
        """The label with the highest score, by number, `[… × people]`."""
        return np.asarray(self._by_class(answers).argmax(axis=-1), np.int64)

    def contrast(self, scores: NDArray[Any]) -> Margins:
        """The weight of each score in the margin, `[… × classes]`: 1 for the best of the labels
        that count as 1, −1 for the best of the others."""
        best = np.where(self.ones, scores, -np.inf).argmax(axis=-1)
        rival = np.where(self.ones, -np.inf, scores).argmax(axis=-1)
        one_hot = np.eye(scores.shape[-1], dtype=np.float32)
        return np.asarray(one_hot[best] - one_hot[rival])

    def _by_class(self, answers: NDArray[Any]) -> NDArray[Any]:
        return answers.reshape(*answers.shape[:-1], -1, len(self.ones))

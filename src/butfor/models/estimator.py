"""The model of any fitted estimator: its margin, its scores, its decisions, and what it sees.

A fitted model's margin is `decision_function` or, without one, the logit of `predict_proba` (its
logarithm with more than two classes); the decision is always that of `predict`. With a cut, answers
are the log-odds of `predict_proba` (without it, the decision function), and comparing them with the
cut decides.

Kinds of estimators that can tell more derive from `EstimatorModel`, each in a file of its own;
`kinds.py` says which estimator is of which kind.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import expit

from butfor.models.seam import Floats, Model
from butfor.models.steps import preprocesses, steps_of
from butfor.support.errors import ButforError, LearnerError, first_line
from butfor.table.decisions import CLIP, ONE_HALF, Decision, log_odds
from butfor.table.encoding import EncodedTable, TableEncoder

Array = NDArray[np.float64]

PROBABILITY_TOLERANCE = 1e-9
"""A decision function whose logistic value is this near to the probability is the log-odds."""
LOG_ODDS_TOLERANCE = 1e-6
"""The same for logits that are shown as probabilities."""


class EstimatorModel(Model):
    """A fitted `estimator`, perhaps after steps that are the same for all labels: `front` holds the
    table after them. `values`: its label for each class. `decision`: if it has a cut, that
    decides."""

    def __init__(
        self,
        estimator: Any,
        front: EncodedTable | None,
        values: NDArray[Any],
        decision: Decision = ONE_HALF,
    ) -> None:
        self.estimator = estimator
        self.front = front
        self.values = values
        self.decision = decision
        self.steps = [*([] if front is None else steps_of(front.encoder)), *steps_of(estimator)]
        self.final = self.steps[-1]
        if isinstance(self.steps[0], TableEncoder):
            self.table_encoder = self.steps[0]

    # --- answers ---

    def logits(self, people: pd.DataFrame) -> Floats:
        return self._answers(people, self._logits)

    def scores(self, people: pd.DataFrame) -> Floats:
        return self._answers(people, self._scores)

    def _answers(self, people: pd.DataFrame, answer: Callable[[Any], Floats]) -> Floats:
        """What `answer` makes of the last step's inputs."""
        if not len(people):
            return np.empty(0, np.float32)
        try:
            return answer(self.step_inputs(people))
        except ButforError:
            raise
        except Exception as error:  # the model's own code may raise anything
            name = type(self.final).__name__
            raise LearnerError(
                f"{name} could not decide about these people: {reason_of(error)}"
            ) from error

    def _logits(self, inputs: Any) -> Floats:
        """On the side that the estimator itself decides for or, with a cut, that comparing its
        probability with the cut gives. With a cut they are log-odds of class 1, or the decision
        function if there are no probabilities."""
        cut = self.decision
        label = self.values[cut.label]
        if not cut.has_cut:
            return cut.agreeing(self._margin(inputs), self._predictions(inputs) == label)
        if not cut.by_probability:
            return self._margin(inputs).astype(np.float32)
        probabilities = np.asarray(self.final.predict_proba(inputs))
        score = probabilities[:, self.final.classes_ == label].sum(axis=1)
        margin = cut.sign * log_odds(score.astype(np.float64))
        if hasattr(self.final, "decision_function"):  # more digits, if it is the log-odds
            finer = self._margin(inputs)
            agrees = np.abs(expit(cut.sign * finer) - score) <= PROBABILITY_TOLERANCE
            margin = np.where(agrees, finer, margin)
        if cut.at is None:
            return np.asarray(margin, np.float32)
        return cut.agreeing(margin, score >= cut.at)

    def _scores(self, inputs: Any) -> Floats:
        """`[people × classes]`, in which the decided class alone is highest, also in a tie; a class
        without labels gets the lowest score."""
        columns = np.searchsorted(self.values, self.final.classes_)
        scored = None
        if hasattr(self.final, "decision_function"):
            scored = np.asarray(self.final.decision_function(inputs), np.float64)
            if scored.ndim == 1:
                scored = np.column_stack([-scored / 2, scored / 2])
        if scored is None or scored.shape[1] != len(columns):
            scored = self._log_probabilities(inputs)
        of_all = np.repeat(scored.min(axis=1, keepdims=True) - 1, len(self.values), axis=1)
        of_all[:, columns] = scored
        decided = self._predictions(inputs)[:, None] == self.values
        scores = of_all.astype(np.float32)
        rivals = np.where(decided, -np.inf, of_all).astype(np.float32).max(axis=1)
        low = decided & (scores <= rivals[:, None])
        scores[low] = np.nextafter(rivals, np.float32(np.inf))[low.any(axis=1)]
        return scores

    def _log_probabilities(self, inputs: Any) -> Array:
        """`[people × classes]`: by the model itself where it computes them, since `predict_proba`
        rounds the smallest to 0. A class whose probability is 0 comes after those of which it is
        not, and not above `CLIP`."""
        with np.errstate(divide="ignore", invalid="ignore"):
            if hasattr(self.final, "predict_log_proba"):
                logs = np.asarray(self.final.predict_log_proba(inputs), np.float64)
            else:
                logs = np.log(np.asarray(self.final.predict_proba(inputs), np.float64))
        impossible = np.isneginf(logs)
        lowest = np.where(impossible, 0.0, logs).min(axis=1, keepdims=True)
        return np.where(impossible, np.minimum(np.log(CLIP), lowest - 1), logs)

    def gives_log_odds(self, people: pd.DataFrame) -> bool:
        if not hasattr(self.final, "predict_proba"):
            return False
        inputs = self.step_inputs(people)
        by_margin = expit(self._margin(inputs))
        probabilities = self.final.predict_proba(inputs)[:, -1]
        return np.allclose(by_margin, probabilities, rtol=0, atol=LOG_ODDS_TOLERANCE)

    def _predictions(self, inputs: Any) -> NDArray[Any]:
        """The estimator's own decisions."""
        predicted = np.asarray(self.final.predict(inputs)).ravel()
        strange = np.setdiff1d(predicted, getattr(self.final, "classes_", predicted))
        if len(strange):
            raise ValueError(f"it predicts '{strange[0]}', which is not a label")
        return predicted

    def _margin(self, inputs: Any) -> Array:
        """The decision function, or the logit of the probability."""
        if hasattr(self.final, "decision_function"):
            margin = np.asarray(self.final.decision_function(inputs), np.float64)
        else:
            margin = log_odds(np.asarray(self.final.predict_proba(inputs), np.float64))
        return margin if margin.ndim == 1 else margin[:, -1]

    # --- what it sees ---

    def step_inputs(self, X: pd.DataFrame) -> Any:
        """Raw rows as the last step gets them."""
        encoded = X if self.front is None else self.front.people(X)
        if self.estimator is self.final:
            return encoded
        return self.estimator[:-1].transform(encoded)

    def encoded(self, rows: pd.DataFrame) -> Array | None:
        """The same as numbers, `[rows × inputs]`; None if they are not numbers or the last step has
        a transformer."""
        if preprocesses(self.final):
            return None
        inputs = self.step_inputs(rows)
        dense = inputs.toarray() if hasattr(inputs, "toarray") else inputs
        try:
            numbers = np.asarray(dense, dtype=np.float64)
        except (ValueError, TypeError):
            return None
        return numbers if numbers.ndim == 2 and np.isfinite(numbers).all() else None


def reason_of(error: Exception) -> str:
    """What an estimator says of itself, and what to do if it computes in half of the digits that it
    was given."""
    reason = first_line(error)
    names_double = re.search(r"(?i)\b(double|float64)\b", reason)
    names_single = re.search(r"(?i)\bfloat(32)?\b", reason)
    if not (names_double and names_single):
        return reason
    cast = "sklearn.preprocessing.FunctionTransformer(numpy.float32)"
    return (
        f"{reason.rstrip('.')}. It computes with float32 and the step before it gives float64: "
        f"put {cast} between"
    )

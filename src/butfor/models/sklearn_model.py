"""A fitted scikit-learn estimator as a model: its margin, and what it can tell about labels, leaves and columns.

The margin is `decision_function` or, without one, the logit of `predict_proba` (its logarithm with more than two
classes); the decision is always that of `predict`. With a cut, answers are the log-odds of `predict_proba` (without it,
the decision function), and comparing them with the cut decides.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.model_selection import TunedThresholdClassifierCV
from sklearn.pipeline import Pipeline

from butfor.decide import CLIP, ONE_HALF, Decision, decides_one, log_odds
from butfor.encode import EncodedTable
from butfor.errors import LearnerError
from butfor.machine import single_threaded
from butfor.models import linear
from butfor.models.estimators import ThresholdedRegressor
from butfor.models.learner import Floats, Model, Table, named_pulls
from butfor.models.linear import Array
from butfor.models.steps import (
    by_neighbours,
    is_logistic,
    last_step,
    linear_in_labels,
    preprocesses,
    sees_no_label,
    solved_directly,
)

BLOCK = 256
"""The most people per call of a model of neighbours, on one thread: with more, scikit-learn breaks ties differently."""
SAME = 1e-9
"""A decision function whose logistic value is this near to the probability is the log-odds."""
SMALLEST = np.finfo(np.float32).tiny

Answer = Callable[[Any, Any], Floats]
"""Deciding estimator and its input → logits or scores that agree with its decisions."""


class SklearnModel(Model):
    """A fitted estimator, after our encoder if `data` is not None. `values`: its label for each class. `shared`: a
    pipeline's steps before the last, if other models share them. `decision`: if it has a cut, that decides."""

    def __init__(
        self,
        estimator: Any,
        data: EncodedTable | None,
        values: NDArray[Any],
        shared: EncodedTable | None = None,
        decision: Decision = ONE_HALF,
    ) -> None:
        self.estimator, self.data, self.values, self.shared, self.decision = estimator, data, values, shared, decision
        if data is not None:
            self.table_encoder = data.encoder
        final = self.final
        if type(final) is ThresholdedRegressor:
            linear = linear_in_labels(estimator)
        else:
            linear = (is_logistic(final) or type(final).__name__ == "RidgeClassifier") and self.separable
        if linear:
            self.flip_effects = self._flip_effects
        if hasattr(type(final), "apply") or hasattr(type(final), "staged_decision_function") or is_lightgbm(final):
            self.leaves = self._leaves
        votes = type(final).__name__ == "KNeighborsClassifier" and final.weights in ("uniform", "distance")
        if votes and self.separable and sees_no_label(estimator):
            self.neighbours = self._neighbours
        if type(estimator).__name__ == "PartitionEnsemble":
            self.part_votes = self._part_votes

    @property
    def final(self) -> Any:
        return last_step(self.estimator)

    def logits(self, people: pd.DataFrame) -> Floats:
        return self._in_blocks(people, self.logits_by)

    def scores(self, people: pd.DataFrame) -> Floats:
        return self._in_blocks(people, self._highest_scores)

    def _in_blocks(self, people: pd.DataFrame, answer: Answer) -> Floats:
        if not len(people):
            return np.empty(0, np.float32)
        if not by_neighbours(self.estimator):
            return self._answers(people, answer)
        with single_threaded():
            blocks = (self._answers(people.iloc[some], answer) for some in _blocks(len(people)))
            return np.concatenate(list(blocks))

    def _answers(self, people: pd.DataFrame, answer: Answer) -> Floats:
        given = self._to_estimator(people)
        try:
            return answer(*self._last_step(given))
        except Exception as error:
            name = type(self.final).__name__
            raise LearnerError(f"{name} could not decide about these people: {first_line(error)}") from error

    def logits_by(self, decider: Any, given: Any) -> Floats:
        """The logits of any fitted estimator for its input, computed as for this model."""
        if self.decision.has_cut:
            return cut_answers(self.decision, decider, given, self.values)
        return with_sign(_margin(decider, given), _predictions(decider, given) == self.values[1])

    def _highest_scores(self, decider: Any, given: Any) -> Floats:
        return with_highest(self._scores(decider, given), _predictions(decider, given) == self.values[:, None])

    def gives_log_odds(self, people: pd.DataFrame) -> bool:
        decider, given = self._last_step(self._to_estimator(people))
        if not hasattr(decider, "predict_proba"):
            return False
        return np.allclose(expit(_margin(decider, given)), decider.predict_proba(given)[:, -1], rtol=0, atol=1e-6)

    @property
    def separable(self) -> bool:
        """Whether the inputs of the last step are known: after a pipeline's steps, but not inside other estimators."""
        return isinstance(self.estimator, Pipeline) or not preprocesses(self.estimator)

    @property
    def exact(self) -> bool:  # type: ignore[override]
        return linear_in_labels(self.estimator) and solved_directly(self.estimator)

    def _leaves(self, rows: pd.DataFrame) -> NDArray[Any]:
        trees, given = self.final, self.step_inputs(rows)
        if is_lightgbm(trees):
            return np.asarray(trees.predict(given, pred_leaf=True)).reshape(len(rows), -1)
        if hasattr(trees, "apply"):
            return np.asarray(trees.apply(given)).reshape(len(rows), -1)
        # Boosted histograms give each tree's value, not its leaf; two leaves rarely have the same value.
        stages = np.array([stage.reshape(len(rows), -1) for stage in trees.staged_decision_function(given)])
        steps = np.round(np.diff(stages, axis=0, prepend=stages[:1] * 0), 9)
        return steps.transpose(1, 0, 2).reshape(len(rows), -1)

    def step_inputs(self, X: pd.DataFrame) -> Any:
        """Raw rows as the last step gets them."""
        estimator, given = self._last_step(self._to_estimator(X))
        while isinstance(estimator, Pipeline):
            given = estimator[:-1].transform(given) if len(estimator.steps) > 1 else given
            estimator = estimator.steps[-1][1]
        return given

    def numbers(self, X: pd.DataFrame) -> NDArray[np.float64] | None:
        """The same as numbers, `[rows × inputs]`; None if they are not numbers."""
        if not self.separable:
            return None
        given = self.step_inputs(X)
        try:
            numbers = np.asarray(given.toarray() if hasattr(given, "toarray") else given, dtype=np.float64)
        except (ValueError, TypeError):
            return None
        return numbers if numbers.ndim == 2 and np.isfinite(numbers).all() else None

    def as_numbers(self, table: Table, people: pd.DataFrame) -> tuple[Array, Array] | None:
        rows, asked = self.numbers(table.X), self.numbers(people)
        return None if rows is None or asked is None else (rows, asked)

    def _flip_effects(self, table: Table, people: pd.DataFrame, contrast: Floats | None = None) -> NDArray[np.float64]:
        if type(self.final) is ThresholdedRegressor:
            places = _blocks(len(people)) if by_neighbours(self.estimator) else [slice(None)]
            return np.concatenate([self._share_of_labels(table, people.iloc[some]) for some in places])
        seen = self.as_numbers(table, people)
        assert seen is not None
        rows, asked = seen
        if contrast is not None:
            return linear.multiclass_effects(self.final, rows, asked, table, contrast)
        return linear.flip_effects(self.final, rows, asked, table)

    def _share_of_labels(self, table: Table, people: pd.DataFrame) -> NDArray[np.float64]:
        shares = self.final.share_of_labels(self.step_inputs(table.X), self.step_inputs(people), table.weight)
        return np.asarray(shares * (1 - 2 * table.zero_one))

    def _neighbours(self, people: pd.DataFrame) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        with single_threaded():
            asked = [self.final.kneighbors(self.step_inputs(people.iloc[some])) for some in _blocks(len(people))]
        distances, rows = (np.concatenate(parts) for parts in zip(*asked, strict=True))
        if self.final.weights == "uniform":
            return rows, np.ones_like(distances)
        with np.errstate(divide="ignore"):
            weights = 1 / distances
        here = np.isinf(weights)  # if neighbours are at distance 0, only they count
        return rows, np.where(here.any(axis=1, keepdims=True), here.astype(float), weights)

    def _part_votes(self, rows: pd.DataFrame, people: pd.DataFrame) -> tuple[Any, Any, Any]:
        return self.estimator, self.step_inputs(rows), self.step_inputs(people)

    def pulls(self, people: pd.DataFrame, contrast: Floats | None = None) -> list[dict[str, float]] | None:
        coefficients = getattr(self.final, "coef_", None)
        if coefficients is None or np.size(coefficients) == 0 or not hasattr(self.final, "decision_function"):
            return None
        inputs, counted = self.numbers(people), np.ones((1, 1)) if contrast is None else contrast
        if inputs is None or np.atleast_2d(coefficients).shape != (counted.shape[1], inputs.shape[1]):
            return None
        terms = inputs * (counted @ np.atleast_2d(coefficients))
        bias = np.broadcast_to(counted @ np.broadcast_to(self.final.intercept_, counted.shape[1]), len(people))
        if isinstance(self.estimator, Pipeline) and len(self.estimator.steps) > 1:
            if isinstance(self.estimator.steps[-1][1], Pipeline):
                return None
            try:
                return named_pulls(terms, bias, list(self.estimator[:-1].get_feature_names_out()))
            except (AttributeError, ValueError):
                return None
        return named_pulls(
            terms if self.data is None else self.table_encoder.by_column(terms), bias, list(people.columns)
        )

    def _to_estimator(self, X: pd.DataFrame) -> Any:
        """The estimator's input: the raw table, or our encoding of it."""
        return X if self.data is None else self.data.people(X)

    def _last_step(self, given: Any) -> tuple[Any, Any]:
        """The deciding estimator and its input: a pipeline's last step, so that people go through the others once."""
        if type(self.estimator) is not Pipeline or len(self.estimator.steps) < 2:
            return self.estimator, given
        before = self.estimator[:-1].transform if self.shared is None else self.shared.people
        return self.estimator.steps[-1][1], before(given)

    def _scores(self, decider: Any, given: Any) -> NDArray[np.float64]:
        """`[people × classes]`; a class without labels gets the lowest score."""
        known = np.searchsorted(self.values, decider.classes_)
        if hasattr(decider, "decision_function"):
            found = np.asarray(decider.decision_function(given), np.float64)
            found = np.column_stack([-found / 2, found / 2]) if found.ndim == 1 else found
        if not hasattr(decider, "decision_function") or found.shape[1] != len(known):
            found = np.log(np.clip(np.asarray(decider.predict_proba(given), np.float64), CLIP, 1))
        scores = np.repeat(found.min(axis=1, keepdims=True) - 1, len(self.values), axis=1)
        scores[:, known] = found
        return scores


def is_lightgbm(final: Any) -> bool:
    return type(final).__module__.split(".")[0] == "lightgbm"


def _predictions(decider: Any, given: Any) -> NDArray[Any]:
    """The estimator's own decisions."""
    said = np.asarray(decider.predict(given)).ravel()
    strange = np.setdiff1d(said, getattr(decider, "classes_", said))
    if len(strange):
        raise ValueError(f"it predicts '{strange[0]}', which is not a label")
    return said


def _margin(decider: Any, given: Any) -> NDArray[np.float64]:
    if isinstance(last_step(decider), TunedThresholdClassifierCV):
        while isinstance(decider, Pipeline):
            decider, given = decider.steps[-1][1], decider[:-1].transform(given)
        cut = _tuned_cut(decider)
        answers = cut_answers(cut, decider.estimator_, given, decider.classes_)
        return cut.margins(answers).astype(np.float64)
    if hasattr(decider, "decision_function"):
        return _decision(decider, given)
    return np.asarray(log_odds(np.asarray(decider.predict_proba(given), np.float64)[:, -1]))


def _decision(decider: Any, given: Any) -> NDArray[np.float64]:
    margin = np.asarray(decider.decision_function(given), np.float64)
    return margin if margin.ndim == 1 else margin[:, -1]


def _tuned_cut(tuned: Any) -> Decision:
    """The threshold that a classifier tuned in its own `fit`."""
    label = tuned._curve_scorer._get_pos_label()
    by_probability = tuned.response_method != "decision_function" and hasattr(tuned.estimator_, "predict_proba")
    return Decision(None, 0 if label == tuned.classes_[0] else 1, float(tuned.best_threshold_), by_probability)


def cut_answers(cut: Decision, decider: Any, given: Any, values: NDArray[Any]) -> Floats:
    """Log-odds of class 1, or the decision function if the cut is on it or there are no probabilities; moved to the
    side of a fixed cut that scikit-learn decides for. `values`: the estimator's label for each class."""
    label, two = values[cut.label], len(decider.classes_) == 2
    if cut.by_probability:
        shares, known = np.asarray(decider.predict_proba(given)), np.flatnonzero(decider.classes_ == label)
        score = shares[:, known[0]] if len(known) else np.zeros(len(shares))
        answers = cut.sign * np.asarray(log_odds(score.astype(np.float64)))
        if two and hasattr(decider, "decision_function"):  # more digits, if it is the log-odds
            margin = _decision(decider, given)
            answers = np.where(np.abs(expit(cut.sign * margin) - score) <= SAME, margin, answers)
    else:
        answers = _decision(decider, given)
        score = cut.sign * answers
    return answers.astype(np.float32) if cut.at is None else cut.agreeing(answers, score >= cut.at)


def with_sign(margin: NDArray[np.float64], decided: NDArray[np.bool_]) -> Floats:
    """The margin as logits, above 0 exactly if the estimator decides class 1: its threshold may lie elsewhere, and
    numbers too small for float32 must not become 0."""
    logits = margin.astype(np.float32)
    logits[decided & ~decides_one(logits)] = SMALLEST
    logits[~decided & decides_one(logits)] = 0.0
    return np.where(np.isnan(margin), np.float32(np.nan), logits)


def with_highest(scores: NDArray[np.float64], decided: NDArray[np.bool_]) -> Floats:
    """Scores `[people × classes]` in which the decided class, `decided [classes × people]`, alone is highest, also in a
    tie."""
    found, others = scores.astype(np.float32), np.where(decided.T, -np.inf, scores).astype(np.float32).max(axis=1)
    low = decided.T & (found <= others[:, None])
    found[low] = np.nextafter(others, np.float32(np.inf))[low.any(axis=1)]
    return found


def _blocks(people: int) -> list[slice]:
    return [slice(k, k + BLOCK) for k in range(0, people, BLOCK)]


def first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).strip().splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__

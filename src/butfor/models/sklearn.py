"""Any scikit-learn classifier or pipeline as a learner: cloned, never changed; its own `fit` is the definition of L.

Steps of a pipeline that do not use labels are fitted once, since they are the same for all labels. A fitted model's
margin is `decision_function` or, without one, the logit of `predict_proba` (its logarithm with more than two classes);
the decision is always that of `predict`. With a cut, answers are the log-odds of `predict_proba` (without it, the
decision function), and comparing them with the cut decides.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import ExitStack, nullcontext
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api.types import is_numeric_dtype
from scipy.special import expit
from sklearn import get_config
from sklearn.base import BaseEstimator, clone, is_classifier, is_regressor
from sklearn.model_selection import TunedThresholdClassifierCV
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import has_fit_parameter

from butfor.decide import CLIP, ONE_HALF, SMALLEST, Decision, decides_one, log_odds
from butfor.encode import EncodedTable, TableEncoder
from butfor.errors import ButforError, LearnerError, SettingError
from butfor.machine import GENERATOR, single_threaded
from butfor.models import linear
from butfor.models.estimators import (
    by_neighbours,
    describe,
    is_logistic,
    last_step,
    linear_in_labels,
    missing_parts,
    packages,
    preprocesses,
    rebuild,
    sees_no_label,
    solved_directly,
    without_threshold,
    work_of_fit,
)
from butfor.models.learner import Floats, Learner, Model, Table, TableCache, named_pulls
from butfor.models.linear import Array
from butfor.models.robust import PartitionEnsemble, ThresholdedRegressor

NUMBERED_LABELS = ("xgboost", "skorch")
"""Libraries whose classifiers need labels 0, 1, …"""
RAW = "passthrough"
"""Instead of an encoder: the estimator gets the raw table."""
BLOCK = 256
"""The most people per call of a model of neighbours, on one thread: with more, scikit-learn breaks ties differently."""
SAME = 1e-9
"""A decision function whose logistic value is this near to the probability is the log-odds."""

Answer = Callable[[Any, Any], Floats]
"""Deciding estimator and its input → logits or scores that agree with its decisions."""


class SklearnLearner(Learner):
    """`given`: the user's estimator; `estimator`: what is trained, without a fixed threshold around it, which becomes
    the table's cut. `encoder`: comes before the estimator. None: only if the estimator has no preprocessing and the
    table has columns that are not numbers. "passthrough": never."""

    kind = "sklearn"

    def __init__(self, estimator: Any, encoder: TableEncoder | str | None = None, seed: int | None = None) -> None:
        check_classifier(estimator)
        if not (encoder is None or encoder == RAW or isinstance(encoder, TableEncoder)):
            raise SettingError(
                f"encoder={encoder!r} is neither a TableEncoder nor '{RAW}'. Put other preprocessing into a pipeline "
                "with the model."
            )
        self.given, self.torch_seed = clone(estimator), None
        if "skorch" in packages(estimator):  # a torch module has no random_state: torch is seeded around each `fit`
            self.torch_seed = seed or 0
            loud = {name: value for name, value in self.given.get_params().items() if name.endswith("verbose")}
            self.given.set_params(**{name: type(value)(0) for name, value in loud.items()})  # a line per epoch
        self.estimator, self._threshold = without_threshold(self.given)
        self.encoder = clone(encoder) if isinstance(encoder, BaseEstimator) else encoder
        self._cache = TableCache()
        self.has_probabilities = hasattr(self.estimator, "predict_proba")

    @property
    def name(self) -> str:
        inner = last_step(self.estimator)
        return f"{type(inner).__name__} (pipeline)" if inner is not self.estimator else type(inner).__name__

    @property
    def seeded(self) -> bool:
        return self.torch_seed is not None or bool(self._random_states())

    @property
    def own_seed(self) -> int:
        """The largest seed in use; other seeds are counted from it."""
        used = [seed for seed in self._random_states().values() if isinstance(seed, int)]
        return max([*used, self.torch_seed or 0])

    def _random_states(self) -> dict[str, Any]:
        """Parameters that hold a seed, in the estimator and its parts."""
        return {name: value for name, value in self.given.get_params().items() if is_seed(name)}

    def reseeded(self, seed: int) -> SklearnLearner:
        again = clone(self.given).set_params(**dict.fromkeys(self._random_states(), seed))
        other = SklearnLearner(again, self.encoder, seed)
        other._cache = self._cache
        return other

    def fit(self, table: Table, labels: Floats) -> SklearnModel:
        estimator, values = clone(self.estimator), self.values(table)
        y = values[labels.astype(np.int64)]
        try:
            front, shared = self._front(table)
            learns = estimator.steps[-1][1] if shared else estimator
            with ExitStack() as seeds:
                if self.torch_seed is not None:
                    import torch

                    seeds.enter_context(GENERATOR)
                    seeds.enter_context(torch.random.fork_rng(devices=[]))
                    torch.manual_seed(self.torch_seed)
                learns.fit(table.X if front is None else front.X, y, **self._weights(table, learns))
            if shared and front is not None:
                estimator.steps[:-1] = front.encoder.steps
            if not hasattr(estimator, "decision_function") and not hasattr(estimator, "predict_proba"):
                raise LearnerError(
                    f"{self.name} has neither decision_function nor predict_proba, so the distance to the other "
                    "decision is unknown. Wrap it in sklearn.calibration.CalibratedClassifierCV, or set its option for "
                    "probabilities."
                )
            if table.multiclass and getattr(last_step(estimator), "decision_function_shape", None) == "ovo":
                raise LearnerError(f"{self.name} scores pairs of classes; set decision_function_shape='ovr'.")
            return SklearnModel(estimator, front, shared, values, table.decision)
        except ButforError:
            raise
        except Exception as error:  # the model's own code may raise anything
            raise LearnerError(f"{self.name} could not be trained on this table: {first_line(error)}") from error

    def _front(self, table: Table) -> tuple[EncodedTable | None, bool]:
        """The table after what comes before the last step and is the same for all trainings, made once: an encoder; or,
        then the flag is True, the other steps of a pipeline, if they use no labels and do not write into their inputs.
        None where there is neither."""
        estimator, torch = self.estimator, self.torch_seed is not None
        encoder: Any = self.encoder
        numeric = not torch and all(map(is_numeric_dtype, table.X.dtypes))
        if encoder is None and not numeric and not preprocesses(estimator):
            encoder = TableEncoder(dtype="float32" if torch else "float64")
        shared = not isinstance(encoder, TableEncoder)
        if shared:
            if type(estimator) is not Pipeline or len(estimator.steps) < 2 or not sees_no_label(estimator):
                return None, False
            if any("copy" in name and value is False for name, value in estimator.get_params().items()):
                return None, False
            encoder = estimator[:-1]
        front: EncodedTable = self._cache.get(table, lambda: EncodedTable(encoder, table.X))
        return front, shared

    def _weights(self, table: Table, estimator: Any) -> dict[str, Any]:
        if table.weight is None:
            return {}
        if not has_fit_parameter(last_step(estimator), "sample_weight"):
            raise LearnerError(f"{self.name} takes no sample_weight; leave it out.")
        steps = ""
        # With scikit-learn's metadata routing a pipeline knows itself which steps asked for weights.
        while isinstance(estimator, Pipeline) and not get_config()["enable_metadata_routing"]:
            steps, estimator = f"{steps}{estimator.steps[-1][0]}__", estimator.steps[-1][1]
        return {f"{steps}sample_weight": table.weight}

    def values(self, table: Table) -> NDArray[Any]:
        """The labels that the estimator gets: the user's own, since class weights may name them; their numbers if the
        labels are boolean or the library needs numbers."""
        coded = table.classes.dtype == bool or any(root in NUMBERED_LABELS for root in packages(self.estimator))
        return np.arange(len(table.classes)) if coded else table.classes

    def own_cut(self, table: Table) -> Decision | None:
        own = self._threshold
        if own is None:
            return None
        if table.multiclass:
            raise SettingError("FixedThresholdClassifier needs two labels, and there are more; leave it out.")
        if own.pos_label is not None and own.pos_label not in list(table.classes):
            raise SettingError(f"pos_label={own.pos_label!r} of FixedThresholdClassifier is not a label of the table.")
        by_probability = own.response_method != "decision_function" and self.has_probabilities
        if own.response_method == "predict_proba" and not by_probability:
            raise LearnerError(f"{self.name} has no predict_proba, which its FixedThresholdClassifier is set to use.")
        usual = 0.5 if by_probability else 0.0
        label = 0 if own.pos_label == table.classes[0] else 1
        return Decision(None, label, usual if own.threshold == "auto" else float(own.threshold), by_probability)

    def work(self, table: Table) -> float | None:
        return work_of_fit(self.estimator, table.X.size)

    def pack(self, model: Any) -> Any:
        return model.estimator

    def unpack(self, packed: Any, table: Table) -> SklearnModel:
        return SklearnModel(packed, *self._front(table), self.values(table), table.decision)

    def record(self) -> dict[str, Any]:
        by_logit = f"the logit of predict_proba, clipped at {CLIP:g}"
        return {
            "kind": self.kind,
            "estimator": describe(self.given),
            "encoder": describe(self.encoder),
            "torch_seed": self.torch_seed,
            "margin": "decision_function" if hasattr(self.estimator, "decision_function") else by_logit,
        }

    def record_gaps(self) -> list[str]:
        record = self.record()
        return [*missing_parts(record["estimator"]), *missing_parts(record["encoder"], "encoder")]

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> SklearnLearner:
        return cls(rebuild(record["estimator"]), rebuild(record["encoder"]), record["torch_seed"])


def check_classifier(estimator: Any) -> None:
    name = type(estimator).__name__
    if isinstance(estimator, type):
        raise LearnerError(f"{estimator.__name__} is a class; give an instance, {estimator.__name__}().")
    if not hasattr(estimator, "fit") or not hasattr(estimator, "get_params"):
        torch = sys.modules.get("torch")
        if torch is not None and isinstance(estimator, torch.nn.Module):
            raise LearnerError(
                f"{name} is a torch module without a training procedure; wrap it in "
                "skorch.NeuralNetClassifier, or use butfor.MLP."
            )
        raise LearnerError(f"model={estimator!r} is neither a scikit-learn classifier nor a learner (butfor.Learner).")
    try:
        decides = is_classifier(estimator)
    except Exception as error:
        raise LearnerError(f"{name} does not say what kind of estimator it is: {first_line(error)}") from error
    if not decides:
        sentence = f"{name} is not a classifier; an audit needs decisions between classes."
        if isinstance(estimator, BaseEstimator) and is_regressor(estimator):
            sentence += f" For a regression on 0 and 1 use butfor.ThresholdedRegressor({name}(…))."
        raise LearnerError(sentence)
    if isinstance(last_step(estimator), TunedThresholdClassifierCV):
        raise LearnerError(
            f"{name} would tune its threshold anew in every training. Tune it once, and audit the classifier inside "
            "with threshold=tuned.best_threshold_."
        )


def is_seed(parameter: str) -> bool:
    return parameter == "random_state" or parameter.endswith("__random_state")


# --- a fitted estimator -------------------------------------------------------------------------------


class SklearnModel(Model):
    """A fitted estimator, after our encoder `front` or, if `shared`, with a pipeline's steps before the last in it.
    `values`: its label for each class. `decision`: if it has a cut, that decides."""

    def __init__(
        self,
        estimator: Any,
        front: EncodedTable | None,
        shared: bool,
        values: NDArray[Any],
        decision: Decision = ONE_HALF,
    ) -> None:
        self.estimator, self.front, self.shared = estimator, front, shared
        self.values, self.decision, self.final = values, decision, last_step(estimator)
        if front is not None and not shared:
            self.table_encoder = front.encoder
        final = self.final
        self.exact = linear_in_labels(estimator) and solved_directly(estimator)
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
        if type(estimator) is PartitionEnsemble:
            self.part_votes = self._part_votes

    # --- answers ---

    def logits(self, people: pd.DataFrame) -> Floats:
        return self._answers(people, self.logits_by)

    def scores(self, people: pd.DataFrame) -> Floats:
        return self._answers(people, self._scores)

    def _answers(self, people: pd.DataFrame, answer: Answer) -> Floats:
        if not len(people):
            return np.empty(0, np.float32)
        near = by_neighbours(self.estimator)
        if near and len(people) > BLOCK:
            return np.concatenate([self._answers(some, answer) for some in _blocks(people)])
        try:
            with single_threaded() if near else nullcontext():
                return answer(*self._decider(people))
        except ButforError:
            raise
        except Exception as error:
            name = type(self.final).__name__
            raise LearnerError(f"{name} could not decide about these people: {first_line(error)}") from error

    def _decider(self, X: pd.DataFrame) -> tuple[Any, Any]:
        """The deciding estimator and its input: a pipeline's last step, so that people go through the others once."""
        given = X if self.front is None else self.front.people(X)
        if self.shared:
            return self.estimator.steps[-1][1], given
        if type(self.estimator) is not Pipeline or len(self.estimator.steps) < 2:
            return self.estimator, given
        return self.estimator.steps[-1][1], self.estimator[:-1].transform(given)

    def logits_by(self, decider: Any, given: Any) -> Floats:
        """The logits of any fitted estimator for its input, computed as for this model: above 0 exactly if it decides
        class 1. Its threshold may lie elsewhere, and numbers too small for float32 must not become 0."""
        if self.decision.has_cut:
            return cut_answers(self.decision, decider, given, self.values)
        margin, decided = _margin(decider, given), _predictions(decider, given) == self.values[1]
        logits = margin.astype(np.float32)
        logits[decided & ~decides_one(logits)] = SMALLEST
        logits[~decided & decides_one(logits)] = 0.0
        return np.where(np.isnan(margin), np.float32(np.nan), logits)

    def _scores(self, decider: Any, given: Any) -> Floats:
        """`[people × classes]`, in which the decided class alone is highest, also in a tie; a class without labels gets
        the lowest score."""
        known = np.searchsorted(self.values, decider.classes_)
        if hasattr(decider, "decision_function"):
            scored = np.asarray(decider.decision_function(given), np.float64)
            scored = np.column_stack([-scored / 2, scored / 2]) if scored.ndim == 1 else scored
        if not hasattr(decider, "decision_function") or scored.shape[1] != len(known):
            scored = np.log(np.clip(np.asarray(decider.predict_proba(given), np.float64), CLIP, 1))
        every = np.repeat(scored.min(axis=1, keepdims=True) - 1, len(self.values), axis=1)
        every[:, known] = scored
        decided = _predictions(decider, given)[:, None] == self.values
        scores, others = every.astype(np.float32), np.where(decided, -np.inf, every).astype(np.float32).max(axis=1)
        low = decided & (scores <= others[:, None])
        scores[low] = np.nextafter(others, np.float32(np.inf))[low.any(axis=1)]
        return scores

    def gives_log_odds(self, people: pd.DataFrame) -> bool:
        decider, given = self._decider(people)
        if not hasattr(decider, "predict_proba"):
            return False
        return np.allclose(expit(_margin(decider, given)), decider.predict_proba(given)[:, -1], rtol=0, atol=1e-6)

    # --- what it sees ---

    @property
    def separable(self) -> bool:
        """Whether the inputs of the last step are known: after a pipeline's steps, but not inside other estimators."""
        return isinstance(self.estimator, Pipeline) or not preprocesses(self.estimator)

    def step_inputs(self, X: pd.DataFrame) -> Any:
        """Raw rows as the last step gets them."""
        estimator, given = self._decider(X)
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

    # --- what only some models can tell ---

    def _flip_effects(self, table: Table, people: pd.DataFrame, contrast: Floats | None = None) -> NDArray[np.float64]:
        if type(self.final) is ThresholdedRegressor:
            rows, asked = self.step_inputs(table.X), self.step_inputs(people)
            shares: Array = self.final.share_of_labels(rows, asked, table.weight)
            return shares * (1 - 2 * table.zero_one)
        seen = self.as_numbers(table, people)
        assert seen is not None
        return linear.flip_effects(self.final, *seen, table, contrast)

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

    def _neighbours(self, people: pd.DataFrame) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        with single_threaded():
            asked = [self.final.kneighbors(self.step_inputs(some)) for some in _blocks(people)]
        distances, rows = (np.concatenate(each) for each in zip(*asked, strict=True))
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
        if not isinstance(self.estimator, Pipeline) or len(self.estimator.steps) < 2:
            terms = terms if self.table_encoder is None else self.table_encoder.by_column(terms)
            return named_pulls(terms, bias, list(people.columns))
        if isinstance(self.estimator.steps[-1][1], Pipeline):
            return None
        try:
            return named_pulls(terms, bias, list(self.estimator[:-1].get_feature_names_out()))
        except (AttributeError, ValueError):
            return None


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
    """The decision function, or the logit of the probability."""
    if not hasattr(decider, "decision_function"):
        return np.asarray(log_odds(np.asarray(decider.predict_proba(given), np.float64)[:, -1]))
    margin = np.asarray(decider.decision_function(given), np.float64)
    return margin if margin.ndim == 1 else margin[:, -1]


def cut_answers(cut: Decision, decider: Any, given: Any, values: NDArray[Any]) -> Floats:
    """Log-odds of class 1, or the decision function if the cut is on it or there are no probabilities; moved to the
    side of a fixed cut that scikit-learn decides for. `values`: the estimator's label for each class."""
    label, two = values[cut.label], len(decider.classes_) == 2
    if cut.by_probability:
        shares, known = np.asarray(decider.predict_proba(given)), np.flatnonzero(decider.classes_ == label)
        score = shares[:, known[0]] if len(known) else np.zeros(len(shares))
        answers = cut.sign * np.asarray(log_odds(score.astype(np.float64)))
        if two and hasattr(decider, "decision_function"):  # more digits, if it is the log-odds
            margin = _margin(decider, given)
            answers = np.where(np.abs(expit(cut.sign * margin) - score) <= SAME, margin, answers)
    else:
        answers = _margin(decider, given)
        score = cut.sign * answers
    return answers.astype(np.float32) if cut.at is None else cut.agreeing(answers, score >= cut.at)


def _blocks(people: pd.DataFrame) -> list[pd.DataFrame]:
    return [people.iloc[k : k + BLOCK] for k in range(0, len(people), BLOCK)]


def first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).strip().splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__

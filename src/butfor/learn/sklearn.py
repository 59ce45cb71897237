"""Any scikit-learn classifier or Pipeline as a learner: cloned, never touched; its own `fit` is the definition of L.
Steps of a pipeline that look at no label are fitted once: their own `fit` would give the same for all labels.

What is needed of it is asked for once, at the start: classes, a margin, the same answers twice. The margin is
`decision_function`, else the logit of `predict_proba`, of more than two classes its logarithm; the decision is always
what `predict` says.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api.types import is_numeric_dtype
from sklearn.base import BaseEstimator, clone, is_classifier, is_regressor
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import has_fit_parameter

from butfor.encode import EncodedTable, TableEncoder
from butfor.errors import ButforError, LearnerError, SettingError
from butfor.learn import describe, linear
from butfor.learn.decision_split import decides_one
from butfor.learn.estimators import ThresholdedRegressor
from butfor.learn.linear import Array
from butfor.learn.protocols import Floats, Learner, Model, Numbers, Remembered, Table, named_pulls
from butfor.learn.steps import (
    by_neighbours,
    has_linear_engine,
    is_logistic,
    last_step,
    linear_in_labels,
    packages,
    preprocesses,
    sees_no_label,
    solved_directly,
)
from butfor.machine import GENERATOR, single_threaded

TOGETHER = 256
"""People that a model of neighbours is asked about at once, by one thread: with more, scikit-learn breaks ties in
another way."""
CLIP = 1e-9
"""Probabilities closer than this to 0 or 1 are taken as this close: their logit would be infinite."""
SMALLEST = np.finfo(np.float32).tiny
CODED = ("xgboost", "skorch")
"""Libraries whose classifiers take numbers from 0 on alone."""
RAW = "passthrough"
"""Instead of an encoder: hand the raw table to the estimator whatever its columns are."""

Measure = Callable[[Any, Any], NDArray[np.float64]]
"""What decides, what it is given → a margin or scores."""
Answers = Callable[[NDArray[np.float64], NDArray[Any]], Floats]
"""Those and the decisions → logits or scores that agree with the decisions."""


class SklearnLearner(Learner):
    """`encoder`: goes in front of the estimator. None: only where the estimator brings no preprocessing of its own
    and the table has columns that are not numbers. "passthrough": never."""

    kind = "sklearn"

    def __init__(self, estimator: Any, encoder: TableEncoder | str | None = None, seed: int | None = None) -> None:
        _check(estimator)
        if not (encoder is None or encoder == RAW or isinstance(encoder, TableEncoder)):
            raise SettingError(
                f"encoder={encoder!r} is neither a TableEncoder nor '{RAW}'; other preprocessing goes into a pipeline "
                "with the model."
            )
        self.estimator = clone(estimator)
        self.encoder = clone(encoder) if isinstance(encoder, BaseEstimator) else encoder
        self._remembered = Remembered()
        # A torch module has no random_state of its own: torch's generator is seeded around each `fit`.
        self.torch_seed = (0 if seed is None else seed) if "skorch" in packages(estimator) else None
        if self.torch_seed is not None:  # skorch prints a line per epoch unless it is told not to
            told = self.estimator.get_params()
            quiet = {name: type(told[name])(0) for name in told if name.split("__")[-1] == "verbose"}
            self.estimator.set_params(**quiet)

    @property
    def name(self) -> str:
        inner = last_step(self.estimator)
        return f"{type(inner).__name__} (pipeline)" if inner is not self.estimator else type(inner).__name__

    @property
    def seeded(self) -> bool:
        return self.torch_seed is not None or bool(self._random_states())

    @property
    def margin(self) -> str:  # type: ignore[override]
        if hasattr(self.estimator, "decision_function"):
            return "decision_function"
        return f"the logit of predict_proba, clipped at {CLIP:g}"

    @property
    def engines(self) -> tuple[str, ...]:
        return ("linear", "joblib") if has_linear_engine(self.estimator) else ("joblib",)

    @property
    def identified(self) -> bool:  # type: ignore[override]
        return not self.gaps()

    def gaps(self) -> list[str]:
        record = self.record()
        return [*describe.gaps(record["estimator"]), *describe.gaps(record["encoder"], "encoder")]

    def fit(self, table: Table, labels: Floats) -> SklearnModel:
        estimator, data = clone(self.estimator), self._encoded(table)
        X, y = table.X if data is None else data.X, self.values(table)[labels.astype(np.int64)]
        try:
            shared = self._shared(table)
            with self._seeds():
                if shared is None:
                    estimator.fit(X, y, **self._weights(table))
                else:
                    estimator.steps[:-1] = shared.encoder.steps
                    weights = {name.split("__", 1)[1]: weight for name, weight in self._weights(table).items()}
                    estimator.steps[-1][1].fit(shared.X, y, **weights)
            if not hasattr(estimator, "decision_function") and not hasattr(estimator, "predict_proba"):
                raise LearnerError(
                    f"{self.name} has neither decision_function nor predict_proba, so nobody can say how near it is to "
                    "the other decision; wrap it in sklearn.calibration.CalibratedClassifierCV, or set what gives it "
                    "probabilities."
                )
            if table.multiclass and getattr(last_step(estimator), "decision_function_shape", None) == "ovo":
                raise LearnerError(f"{self.name} scores pairs of classes; set decision_function_shape='ovr'.")
            return SklearnModel(estimator, data, self.values(table), shared)
        except ButforError:
            raise
        except Exception as error:  # whatever the model's own code raises is said with its place
            raise LearnerError(f"{self.name} could not be trained on this table: {_first_line(error)}") from error

    def values(self, table: Table) -> NDArray[Any]:
        """The labels as the estimator gets them: the user's own, since class weights may name them, where it takes them
        and they are no truth values; else their numbers."""
        coded = table.classes.dtype == bool or any(root in CODED for root in packages(self.estimator))
        return np.arange(len(table.classes)) if coded else table.classes

    @property
    def own_seed(self) -> int:  # type: ignore[override]
        """The largest seed in use; other seeds are counted from there."""
        given = self.estimator.get_params()
        used = [given[name] for name in self._random_states() if isinstance(given[name], int)]
        return max([*used, self.torch_seed or 0])

    def light(self, model: Any) -> Any:
        return model.estimator

    def restored(self, light: Any, table: Table) -> SklearnModel:
        return SklearnModel(light, self._encoded(table), self.values(table), self._shared(table))

    def reseeded(self, seed: int) -> SklearnLearner:
        other = SklearnLearner(self.estimator, self.encoder, None if self.torch_seed is None else seed)
        other.estimator.set_params(**dict.fromkeys(self._random_states(), seed))
        other._remembered = self._remembered
        return other

    def record(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "estimator": describe.describe(self.estimator),
            "encoder": describe.describe(self.encoder),
            "torch_seed": self.torch_seed,
            "margin": self.margin,
        }

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> SklearnLearner:
        return cls(describe.rebuild(record["estimator"]), describe.rebuild(record["encoder"]), record["torch_seed"])

    def remedy(self) -> str:
        unset = [name for name, value in self.estimator.get_params().items() if _is_seed(name) and value is None]
        if unset:
            return f"Give it a fixed seed: {', '.join(f'{name}=0' for name in unset[:3])}."
        return "Fix whatever it draws: audits compare trainings that differ in nothing but the labels."

    def _encoded(self, table: Table) -> EncodedTable | None:
        """The table behind the encoder, where there is to be one; encoded once."""
        encoder, torch = self.encoder, self.torch_seed is not None
        numeric = not torch and all(map(is_numeric_dtype, table.X.dtypes))
        if encoder is None and not numeric and not preprocesses(self.estimator):
            encoder = TableEncoder(dtype="float32" if torch else "float64")
        if not isinstance(encoder, TableEncoder):
            return None
        encoded: EncodedTable = self._remembered.of(table, lambda: EncodedTable(encoder, table.X))
        return encoded

    def _shared(self, table: Table) -> EncodedTable | None:
        """The table behind a pipeline's steps before the last, where no label has a say in them: then they are the same
        for all trainings. What might write into its inputs gets its own."""
        estimator, encoded = self.estimator, isinstance(self.encoder, TableEncoder)
        if encoded or type(estimator) is not Pipeline or len(estimator.steps) < 2 or not sees_no_label(estimator):
            return None
        if any("copy" in name and value is False for name, value in estimator.get_params().items()):
            return None
        made: EncodedTable = self._remembered.of(table, lambda: EncodedTable(estimator[:-1], table.X))
        return made

    def _weights(self, table: Table) -> dict[str, Any]:
        if table.weight is None:
            return {}
        if not has_fit_parameter(last_step(self.estimator), "sample_weight"):
            raise LearnerError(f"{self.name} takes no sample_weight; leave it out.")
        name, estimator = "sample_weight", self.estimator
        while isinstance(estimator, Pipeline):
            name, estimator = f"{estimator.steps[-1][0]}__{name}", estimator.steps[-1][1]
        return {name: table.weight}

    def _random_states(self) -> list[str]:
        """Parameters that hold a seed, in the estimator and in what it is made of."""
        return [name for name in self.estimator.get_params() if _is_seed(name)]

    @contextmanager
    def _seeds(self) -> Iterator[None]:
        if self.torch_seed is None:
            yield
            return
        import torch

        with GENERATOR, torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.torch_seed)
            yield


class SklearnModel(Model):
    """A fitted estimator, behind an encoder of ours where `data` is not None. `values`: what it says for each class.
    `shared`: a pipeline's steps before the last, where they are those of other models too."""

    def __init__(
        self, estimator: Any, data: EncodedTable | None, values: NDArray[Any], shared: EncodedTable | None = None
    ) -> None:
        self.estimator, self.data, self.values, self.shared = estimator, data, values, shared
        self.encoder = None if data is None else data.encoder

    @property
    def final(self) -> Any:
        return last_step(self.estimator)

    def logits(self, people: pd.DataFrame) -> Floats:
        return self._asked(people, lambda margin, said: with_sign(margin, said == self.values[1]), _margin)

    def scores(self, people: pd.DataFrame) -> Floats:
        return self._asked(
            people, lambda scores, said: with_highest(scores, said == self.values[:, None]), self._scores
        )

    def _asked(self, people: pd.DataFrame, answers: Answers, measure: Measure) -> Floats:
        """`answers` from what is measured of the people, and what the estimator says of them."""
        if not len(people):
            return np.empty(0, np.float32)
        if not by_neighbours(self.estimator):
            return self._answers(people, answers, measure)
        with single_threaded():
            blocks = (self._answers(people.iloc[some], answers, measure) for some in _blocks(len(people)))
            return np.concatenate(list(blocks))

    def _answers(self, people: pd.DataFrame, answers: Answers, measure: Measure) -> Floats:
        given = self._given(people)
        try:
            decider, given = self._last(given)
            said = np.asarray(decider.predict(given)).ravel()
            strange = np.setdiff1d(said, getattr(decider, "classes_", said))
            if len(strange):
                raise ValueError(f"it says '{strange[0]}', which is no label")
            return answers(measure(decider, given), said)
        except Exception as error:
            name = type(self.final).__name__
            raise LearnerError(f"{name} could not decide about these people: {_first_line(error)}") from error

    @property
    def separable(self) -> bool:
        """Whether what the last step sees can be told: a pipeline's steps can, other preprocessing cannot."""
        return isinstance(self.estimator, Pipeline) or not preprocesses(self.estimator)

    @property
    def linear(self) -> bool:  # type: ignore[override]
        """Where its inputs are known, and for regressions whose predictions are sums over the labels."""
        if type(self.final) is ThresholdedRegressor:
            return linear_in_labels(self.estimator)
        return (is_logistic(self.final) or type(self.final).__name__ == "RidgeClassifier") and self.separable

    @property
    def proof(self) -> str | None:  # type: ignore[override]
        final = self.final
        if linear_in_labels(self.estimator) and solved_directly(self.estimator):
            return "sum of the labels"
        if type(final).__name__ == "KNeighborsClassifier" and final.weights in ("uniform", "distance"):
            return "neighbours" if self.separable and sees_no_label(self.estimator) else None
        return "parts" if type(self.estimator).__name__ == "PartitionEnsemble" else None

    @property
    def trees(self) -> bool:  # type: ignore[override]
        kind = type(self.final)
        tells = hasattr(kind, "apply") or hasattr(kind, "staged_decision_function")
        return tells or kind.__module__.split(".")[0] == "lightgbm"

    def leaves(self, rows: pd.DataFrame) -> NDArray[Any]:
        trees, given = self.final, self.step_inputs(rows)
        if type(trees).__module__.split(".")[0] == "lightgbm":
            return np.asarray(trees.predict(given, pred_leaf=True)).reshape(len(rows), -1)
        if hasattr(trees, "apply"):
            return np.asarray(trees.apply(given)).reshape(len(rows), -1)
        # Boosted histograms do not tell their leaves, but each tree's value: two leaves hardly ever have the same.
        stages = np.array([stage.reshape(len(rows), -1) for stage in trees.staged_decision_function(given)])
        steps = np.round(np.diff(stages, axis=0, prepend=stages[:1] * 0), 9)
        return steps.transpose(1, 0, 2).reshape(len(rows), -1)

    def step_inputs(self, X: pd.DataFrame) -> Any:
        """What the last step sees of raw rows."""
        estimator, given = self._last(self._given(X))
        while isinstance(estimator, Pipeline):
            given = estimator[:-1].transform(given) if len(estimator.steps) > 1 else given
            estimator = estimator.steps[-1][1]
        return given

    def inputs(self, X: pd.DataFrame) -> NDArray[np.float64] | None:
        """The same as numbers, `[rows × inputs]`; None where they are not."""
        if not self.separable:
            return None
        given = self.step_inputs(X)
        try:
            numbers = np.asarray(given.toarray() if hasattr(given, "toarray") else given, dtype=np.float64)
        except (ValueError, TypeError):
            return None
        return numbers if numbers.ndim == 2 and np.isfinite(numbers).all() else None

    def numbers(self, table: Table, people: pd.DataFrame) -> tuple[Array, Array] | None:
        rows, asked = self.inputs(table.X), self.inputs(people)
        return None if rows is None or asked is None else (rows, asked)

    def flip_effects(
        self, table: Table, people: pd.DataFrame, weights: Numbers | None = None, contrast: Floats | None = None
    ) -> NDArray[np.float64]:
        if type(self.final) is ThresholdedRegressor:
            whole = weights is None and not by_neighbours(self.estimator)
            places = [slice(None)] if whole else _blocks(len(people))
            blocks = (self._share_of_labels(table, people.iloc[some]) for some in places)
            if weights is None:
                return np.concatenate(list(blocks))
            return np.sum([weights[:, some] @ block for some, block in zip(places, blocks, strict=True)], axis=0)
        seen = self.numbers(table, people)
        assert seen is not None
        rows, asked = seen
        if contrast is not None:
            return linear.many_effects(self.final, rows, asked, table, contrast, weights)
        return linear.flip_effects(self.final, rows, asked if weights is None else weights @ asked, table)

    def _share_of_labels(self, table: Table, people: pd.DataFrame) -> NDArray[np.float64]:
        shares = self.final.share_of_labels(self.step_inputs(table.X), self.step_inputs(people), table.weight)
        return np.asarray(shares * (1 - 2 * table.zero_one))

    def neighbours(self, people: pd.DataFrame) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        with single_threaded():
            asked = [self.final.kneighbors(self.step_inputs(people.iloc[some])) for some in _blocks(len(people))]
        distances, rows = (np.concatenate(parts) for parts in zip(*asked, strict=True))
        if self.final.weights == "uniform":
            return rows, np.ones_like(distances)
        with np.errstate(divide="ignore"):
            weights = 1 / distances
        here = np.isinf(weights)  # where a neighbour is at the very place, only such count
        return rows, np.where(here.any(axis=1, keepdims=True), here.astype(float), weights)

    def parts(self, rows: pd.DataFrame, people: pd.DataFrame) -> tuple[Any, Any, Any]:
        return self.estimator, self.step_inputs(rows), self.step_inputs(people)

    def pulls(self, people: pd.DataFrame, contrast: Floats | None = None) -> list[dict[str, float]] | None:
        coefficients = getattr(self.final, "coef_", None)
        if coefficients is None or np.size(coefficients) == 0 or not hasattr(self.final, "decision_function"):
            return None
        inputs, counted = self.inputs(people), np.ones((1, 1)) if contrast is None else contrast
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
        return named_pulls(terms if self.encoder is None else self.encoder.by_column(terms), bias, list(people.columns))

    def _given(self, X: pd.DataFrame) -> Any:
        """What the estimator is handed: the raw table, or our encoding of it."""
        return X if self.data is None else self.data.people(X)

    def _last(self, given: Any) -> tuple[Any, Any]:
        """What decides and what it sees: of a pipeline the last step, so that people go through the others once."""
        if type(self.estimator) is not Pipeline or len(self.estimator.steps) < 2:
            return self.estimator, given
        before = self.estimator[:-1].transform if self.shared is None else self.shared.people
        return self.estimator.steps[-1][1], before(given)

    def _scores(self, decider: Any, given: Any) -> NDArray[np.float64]:
        """`[people × classes]`; a class that no label has any longer comes last."""
        known = np.searchsorted(self.values, decider.classes_)
        if hasattr(decider, "decision_function"):
            found = np.asarray(decider.decision_function(given), np.float64)
            found = np.column_stack([-found / 2, found / 2]) if found.ndim == 1 else found
        if not hasattr(decider, "decision_function") or found.shape[1] != len(known):
            found = np.log(np.clip(np.asarray(decider.predict_proba(given), np.float64), CLIP, 1))
        scores = np.repeat(found.min(axis=1, keepdims=True) - 1, len(self.values), axis=1)
        scores[:, known] = found
        return scores


def _margin(decider: Any, given: Any) -> NDArray[np.float64]:
    threshold = _threshold(decider)
    if hasattr(decider, "decision_function") and (threshold is None or not hasattr(decider, "predict_proba")):
        margin = np.asarray(decider.decision_function(given), np.float64)
        return (margin if margin.ndim == 1 else margin[:, -1]) - (threshold or 0.0)
    shares = np.asarray(decider.predict_proba(given), np.float64)[:, -1]
    return _logit(shares) - (0.0 if threshold is None else _logit(threshold))


def with_sign(margin: NDArray[np.float64], decided: NDArray[np.bool_]) -> Floats:
    """The margin as logits, above 0 exactly where class 1 is decided: an estimator may draw the line elsewhere, and
    what is smaller than float32 knows must not become a 0."""
    logits = margin.astype(np.float32)
    logits[decided & ~decides_one(logits)] = SMALLEST
    logits[~decided & decides_one(logits)] = 0.0
    return np.where(np.isnan(margin), np.float32(np.nan), logits)


def with_highest(scores: NDArray[np.float64], decided: NDArray[np.bool_]) -> Floats:
    """Scores `[people × classes]` whose highest is that of the class decided, `decided [classes × people]`, and of no
    other: in a tie too the estimator decides for one."""
    found, others = scores.astype(np.float32), np.where(decided.T, -np.inf, scores).astype(np.float32).max(axis=1)
    low = decided.T & (found <= others[:, None])
    found[low] = np.nextafter(others, np.float32(np.inf))[low.any(axis=1)]
    return found


def _logit(share: Any) -> Any:
    clipped = np.clip(share, CLIP, 1 - CLIP)
    return np.log(clipped) - np.log1p(-clipped)


def _threshold(estimator: Any) -> float | None:
    """Where an estimator that was given or tuned a threshold of its own draws the line."""
    from sklearn.model_selection import FixedThresholdClassifier, TunedThresholdClassifierCV

    last = last_step(estimator)
    if not isinstance(last, (FixedThresholdClassifier, TunedThresholdClassifierCV)):
        return None
    threshold = getattr(last, "best_threshold_", getattr(last, "threshold", None))
    return float(threshold) if isinstance(threshold, (int, float)) else None


def _check(estimator: Any) -> None:
    name = type(estimator).__name__
    if isinstance(estimator, type):
        raise LearnerError(f"{estimator.__name__} is a class; give an instance, {estimator.__name__}().")
    if not hasattr(estimator, "fit") or not hasattr(estimator, "get_params"):
        torch = sys.modules.get("torch")
        if torch is not None and isinstance(estimator, torch.nn.Module):
            raise LearnerError(
                f"{name} is a torch module, which does not say how it is trained; wrap it in "
                "skorch.NeuralNetClassifier, or use butfor.MLP."
            )
        raise LearnerError(f"model={estimator!r} is neither a scikit-learn classifier nor a learner (butfor.Learner).")
    try:
        decides = is_classifier(estimator)
    except Exception as error:
        raise LearnerError(f"{name} does not say what kind of estimator it is: {_first_line(error)}") from error
    if not decides:
        sentence = f"{name} is not a classifier; an audit is about decisions between classes."
        if isinstance(estimator, BaseEstimator) and is_regressor(estimator):
            sentence += f" A regression on 0 and 1 decides as butfor.ThresholdedRegressor({name}(…))."
        raise LearnerError(sentence)


def _is_seed(parameter: str) -> bool:
    return parameter == "random_state" or parameter.endswith("__random_state")


def _blocks(people: int) -> list[slice]:
    return [slice(k, k + TOGETHER) for k in range(0, people, TOGETHER)]


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).strip().splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__

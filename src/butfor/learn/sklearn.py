"""Any scikit-learn classifier or Pipeline as a learner: cloned, never touched; its own `fit` is the definition of L.

What is needed of it is asked for once, at the start: two classes, a margin, the same answers twice. The margin is
`decision_function`, else the logit of `predict_proba`; the decision is always what `predict` says.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone, is_classifier, is_regressor
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import has_fit_parameter

from butfor.encode import TableEncoder
from butfor.encoded import EncodedTable
from butfor.errors import ButforError, LearnerError, SettingError
from butfor.learn import blueprint
from butfor.machine import GENERATOR, single_threaded
from butfor.seam import Floats, Table

TOGETHER = 256
"""People that a model of neighbours is asked about at once, by one thread: with more, scikit-learn breaks ties in
another way."""
CLIP = 1e-9
"""Probabilities closer than this to 0 or 1 are taken as this close: their logit would be infinite."""
SMALLEST = np.finfo(np.float32).tiny
CODED = ("xgboost", "skorch")
"""Libraries whose classifiers take 0 and 1 alone."""
LABEL_BLIND = (
    "StandardScaler", "MinMaxScaler", "MaxAbsScaler", "RobustScaler", "OneHotEncoder", "OrdinalEncoder",
    "SimpleImputer", "PolynomialFeatures", "TableEncoder", "VarianceThreshold",
)  # fmt: skip
"""Preprocessing that looks at no label, so that it is the same for all flip sets."""
RAW = "passthrough"
"""Instead of an encoder: hand the raw table to the estimator whatever its columns are."""


class SklearnLearner:
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
        self._data: EncodedTable | None = None
        self.name = _named(estimator)
        self.torch_seed = (0 if seed is None else seed) if _uses_torch(estimator) else None
        if self.torch_seed is not None:  # skorch prints a line per epoch unless it is told not to
            told = self.estimator.get_params()
            quiet = {name: type(told[name])(0) for name in told if name.split("__")[-1] == "verbose"}
            self.estimator.set_params(**quiet)
        """A torch module has no random_state of its own: torch's generator is seeded around each `fit`."""

    @property
    def seeded(self) -> bool:
        return self.torch_seed is not None or bool(self._random_states())

    @property
    def margin(self) -> str:
        """Where the margin comes from, in words."""
        if hasattr(self.estimator, "decision_function"):
            return "decision_function"
        return f"the logit of predict_proba, clipped at {CLIP:g}"

    @property
    def takes_weights(self) -> bool:
        return has_fit_parameter(last_step(self.estimator), "sample_weight")

    def fit(self, table: Table, labels: Floats) -> SklearnModel:
        estimator, data = clone(self.estimator), self._encoded(table)
        X = table.X if data is None else data.X
        try:
            with self._seeds():
                estimator.fit(X, self.values(table)[labels.astype(np.int64)], **self._weights(table))
            if not hasattr(estimator, "decision_function") and not hasattr(estimator, "predict_proba"):
                raise LearnerError(
                    f"{self.name} has neither decision_function nor predict_proba, so nobody can say how near it is to "
                    "the other decision; wrap it in sklearn.calibration.CalibratedClassifierCV, or set what gives it "
                    "probabilities."
                )
            return SklearnModel(estimator, data, self.values(table)[1])
        except ButforError:
            raise
        except Exception as error:  # whatever the model's own code raises is said with its place
            raise LearnerError(f"{self.name} could not be trained on this table: {_first_line(error)}") from error

    def values(self, table: Table) -> NDArray[Any]:
        """The two labels as the estimator gets them: the user's own, since class weights may name them; 0 and 1 where
        they are truth values, or where the library takes nothing else."""
        coded = table.classes.dtype == bool or any(root in CODED for root in _packages(self.estimator))
        return np.array([0, 1]) if coded else table.classes

    @property
    def own_seed(self) -> int:
        """The largest seed in use; other seeds are counted from there."""
        given = self.estimator.get_params()
        used = [given[name] for name in self._random_states() if isinstance(given[name], int)]
        return max([*used, self.torch_seed or 0])

    @staticmethod
    def light(model: SklearnModel) -> Any:
        """What a model needs to travel between processes that both have the table."""
        return model.estimator

    def restored(self, estimator: Any, table: Table) -> SklearnModel:
        return SklearnModel(estimator, self._encoded(table), self.values(table)[1])

    def reseeded(self, seed: int) -> SklearnLearner:
        other = SklearnLearner(self.estimator, self.encoder, None if self.torch_seed is None else seed)
        other.estimator.set_params(**dict.fromkeys(self._random_states(), seed))
        other._data = self._data
        return other

    def record(self) -> dict[str, Any]:
        encoder = blueprint.describe(self.encoder) if isinstance(self.encoder, BaseEstimator) else self.encoder
        return {
            "kind": self.kind, "estimator": blueprint.describe(self.estimator), "encoder": encoder,
            "torch_seed": self.torch_seed, "margin": self.margin,
        }  # fmt: skip

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> SklearnLearner:
        encoder = record["encoder"]
        encoder = blueprint.rebuild(encoder) if isinstance(encoder, dict) else encoder
        return cls(blueprint.rebuild(record["estimator"]), encoder, record["torch_seed"])

    def remedy(self) -> str:
        """What to change where `fit` gives other answers each time."""
        unset = [name for name, value in self.estimator.get_params().items() if _is_seed(name) and value is None]
        if unset:
            return f"Give it a fixed seed: {', '.join(f'{name}=0' for name in unset[:3])}."
        return "Fix whatever it draws: audits compare trainings that differ in nothing but the labels."

    def _encoded(self, table: Table) -> EncodedTable | None:
        """The table behind the encoder, where there is to be one; encoded once."""
        encoder, torch = self.encoder, self.torch_seed is not None
        if (
            encoder is None
            and not _preprocesses(self.estimator)
            and (torch or not all(map(_is_number, table.X.dtypes)))
        ):
            encoder = TableEncoder(dtype="float32" if torch else "float64")
        if not isinstance(encoder, TableEncoder):
            return None
        if self._data is None or self._data.table is not table:
            self._data = EncodedTable(encoder, table)
        return self._data

    def _weights(self, table: Table) -> dict[str, Any]:
        if table.weight is None:
            return {}
        if not self.takes_weights:
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


@dataclass(frozen=True, eq=False)
class SklearnModel:
    """A fitted estimator, behind an encoder of ours where `data` is not None."""

    estimator: Any
    data: EncodedTable | None = None
    positive: Any = 1
    """What `predict` says for class 1."""

    @property
    def final(self) -> Any:
        """What decides: the last step of a pipeline."""
        return last_step(self.estimator)

    def logits(self, people: pd.DataFrame) -> Floats:
        if not len(people):
            return np.empty(0, np.float32)
        if not by_neighbours(self.estimator):
            return self._logits(people)
        blocks = [people.iloc[k : k + TOGETHER] for k in range(0, len(people), TOGETHER)]
        with single_threaded():
            return np.concatenate([self._logits(block) for block in blocks])

    def _logits(self, people: pd.DataFrame) -> Floats:
        given = self._given(people)
        try:
            said = np.asarray(self.estimator.predict(given)).ravel()
            strange = np.setdiff1d(said, getattr(self.estimator, "classes_", said))
            if len(strange):
                raise ValueError(f"it says '{strange[0]}', which is neither label")
            return with_sign(self._margin(given), said == self.positive)
        except Exception as error:
            name = type(self.final).__name__
            raise LearnerError(f"{name} could not decide about these people: {_first_line(error)}") from error

    @property
    def separable(self) -> bool:
        """Whether what the last step sees can be told: a pipeline's steps can, other preprocessing cannot."""
        return isinstance(self.estimator, Pipeline) or not _preprocesses(self.estimator)

    def step_inputs(self, X: pd.DataFrame) -> Any:
        """What the last step sees of raw rows."""
        given, estimator = self._given(X), self.estimator
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

    def _given(self, X: pd.DataFrame) -> Any:
        """What the estimator is handed: the raw table, or our encoding of it."""
        return X if self.data is None else self.data.people(X)

    def _margin(self, given: Any) -> NDArray[np.float64]:
        threshold = _threshold(self.estimator)
        if hasattr(self.estimator, "decision_function") and (
            threshold is None or not hasattr(self.estimator, "predict_proba")
        ):
            margin = np.asarray(self.estimator.decision_function(given), np.float64)
            return (margin if margin.ndim == 1 else margin[:, -1]) - (threshold or 0.0)
        shares = np.asarray(self.estimator.predict_proba(given), np.float64)[:, -1]
        return _logit(shares) - (0.0 if threshold is None else _logit(threshold))


def with_sign(margin: NDArray[np.float64], decided: NDArray[np.bool_]) -> Floats:
    """The margin as logits, above 0 exactly where class 1 is decided: an estimator may draw the line elsewhere, and
    what is smaller than float32 knows must not become a 0."""
    logits = margin.astype(np.float32)
    logits[decided & ~(logits > 0)] = SMALLEST
    logits[~decided & ~(logits <= 0)] = 0.0
    return np.where(np.isnan(margin), np.float32(np.nan), logits)


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
        if "torch" in sys.modules and isinstance(estimator, sys.modules["torch"].nn.Module):
            raise LearnerError(
                f"{name} is a torch module, which does not say how it is trained; wrap it in "
                "skorch.NeuralNetClassifier, or use butfor.MLP."
            )
        raise LearnerError(
            f"model={estimator!r} is neither a scikit-learn classifier nor a learner (fit, reseeded, record)."
        )
    try:
        decides = is_classifier(estimator)
    except Exception as error:
        raise LearnerError(f"{name} does not say what kind of estimator it is: {_first_line(error)}") from error
    if not decides:
        wrap = (
            f" A regression on 0 and 1 decides as butfor.ThresholdedRegressor({name}(…))."
            if _regresses(estimator)
            else ""
        )
        raise LearnerError(f"{name} is not a classifier; an audit is about decisions between two classes.{wrap}")


def _regresses(estimator: Any) -> bool:
    return isinstance(estimator, BaseEstimator) and is_regressor(estimator)


def last_step(estimator: Any) -> Any:
    """What decides: the last step of a pipeline, or the estimator itself."""
    while isinstance(estimator, Pipeline):
        estimator = estimator.steps[-1][1]
    return estimator


def by_neighbours(fitted: Any) -> bool:
    """Whether a fitted model goes by the nearest training rows."""
    final = last_step(fitted)
    return type(last_step(getattr(final, "regressor_", final))).__module__.startswith("sklearn.neighbors")


def _named(estimator: Any) -> str:
    inner = last_step(estimator)
    name = type(inner).__name__
    return f"{name} (pipeline)" if inner is not estimator else name


def _preprocesses(estimator: Any) -> bool:
    """Whether it contains a transformer, so that it knows what to do with a raw table."""
    parts = [estimator, *estimator.get_params(deep=True).values()]
    return any(
        isinstance(part, Pipeline) or (hasattr(part, "transform") and hasattr(part, "fit") and not _decides(part))
        for part in parts
    )


def _decides(part: Any) -> bool:
    """A classifier that can transform besides, such as a discriminant analysis or a vote, is no preprocessing."""
    return isinstance(part, BaseEstimator) and is_classifier(part)


def _uses_torch(estimator: Any) -> bool:
    return "skorch" in _packages(estimator)


def _packages(estimator: Any) -> set[str]:
    """The libraries that an estimator and what it is made of come from."""
    parts = [estimator, *estimator.get_params(deep=True).values()]
    return {base.__module__.split(".")[0] for part in parts for base in type(part).__mro__}


def _is_seed(parameter: str) -> bool:
    return parameter == "random_state" or parameter.endswith("__random_state")


def _is_number(dtype: Any) -> bool:
    return pd.api.types.is_numeric_dtype(dtype) and not isinstance(dtype, pd.CategoricalDtype)


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).strip().splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__


def sees_no_label(estimator: Any) -> bool:
    """Whether everything before the last step is the same whatever the labels are."""
    return all(map(_label_blind, _steps(estimator)[:-1]))


def _steps(estimator: Any) -> list[Any]:
    return [step for _, step in estimator.steps] if isinstance(estimator, Pipeline) else [estimator]


def _label_blind(step: Any) -> bool:
    if isinstance(step, (Pipeline, ColumnTransformer)):
        parts = [part[1] for part in (step.steps if isinstance(step, Pipeline) else step.transformers)]
        if isinstance(step, ColumnTransformer):
            parts.append(step.remainder)
        return all(map(_label_blind, parts))
    known = isinstance(step, BaseEstimator) and type(step).__name__ in LABEL_BLIND
    return step in ("passthrough", "drop") if isinstance(step, str) else known or step is None

"""Any scikit-learn classifier or pipeline as a learner: cloned, never changed; its own `fit` is the definition of L.

Steps of a pipeline that do not use labels are fitted once, since they are the same for all labels.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pandas.api.types import is_numeric_dtype
from sklearn import get_config
from sklearn.base import BaseEstimator, clone, is_classifier, is_regressor
from sklearn.model_selection import TunedThresholdClassifierCV
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import has_fit_parameter

from butfor.decide import CLIP, Decision
from butfor.encode import EncodedTable, TableEncoder
from butfor.errors import ButforError, LearnerError, SettingError
from butfor.machine import GENERATOR
from butfor.models import describe
from butfor.models.learner import Floats, Learner, Table, TableCache
from butfor.models.sklearn_model import SklearnModel, first_line
from butfor.models.steps import (
    has_boosting_engine,
    has_linear_engine,
    last_step,
    packages,
    preprocesses,
    sees_no_label,
    without_threshold,
    work_of_fit,
)

NUMBERED_LABELS = ("xgboost", "skorch")
"""Libraries whose classifiers need labels 0, 1, …"""
RAW = "passthrough"
"""Instead of an encoder: the estimator gets the raw table."""


class SklearnLearner(Learner):
    """`given`: the user's estimator; `estimator`: what is trained, without a fixed threshold around it, which becomes
    the table's cut. `encoder`: comes before the estimator. None: only if the estimator has no preprocessing and the
    table has columns that are not numbers. "passthrough": never."""

    kind = "sklearn"
    rebuildable = True

    def __init__(self, estimator: Any, encoder: TableEncoder | str | None = None, seed: int | None = None) -> None:
        check_classifier(estimator)
        if not (encoder is None or encoder == RAW or isinstance(encoder, TableEncoder)):
            raise SettingError(
                f"encoder={encoder!r} is neither a TableEncoder nor '{RAW}'. Put other preprocessing into a pipeline "
                "with the model."
            )
        self.given = clone(estimator)
        self.estimator, self._threshold = without_threshold(self.given)
        self.encoder = clone(encoder) if isinstance(encoder, BaseEstimator) else encoder
        self._cache = TableCache()
        # A torch module has no random_state: torch's generator is seeded around each `fit`.
        self.torch_seed = (0 if seed is None else seed) if "skorch" in packages(estimator) else None
        if self.torch_seed is not None:  # skorch prints a line per epoch by default
            given = self.given.get_params()
            quiet = {name: type(value)(0) for name, value in given.items() if name.split("__")[-1] == "verbose"}
            self.given.set_params(**quiet)
            self.estimator = without_threshold(self.given)[0]
        self.has_probabilities = hasattr(self.estimator, "predict_proba")
        tuned = isinstance(last_step(self.estimator), TunedThresholdClassifierCV)
        self.has_threshold = self._threshold is not None or tuned
        linear, boosting = has_linear_engine(self.estimator), has_boosting_engine(self.estimator)
        self.engines = (*["linear"] * linear, *["boosting"] * boosting, "joblib")

    @property
    def name(self) -> str:
        inner = last_step(self.estimator)
        return f"{type(inner).__name__} (pipeline)" if inner is not self.estimator else type(inner).__name__

    @property
    def seeded(self) -> bool:
        return self.torch_seed is not None or bool(self._random_states())

    @property
    def margin(self) -> str:
        """The source of the logits, in words."""
        if hasattr(self.estimator, "decision_function"):
            return "decision_function"
        return f"the logit of predict_proba, clipped at {CLIP:g}"

    def record_gaps(self) -> list[str]:
        record = self.record()
        return [*describe.missing_parts(record["estimator"]), *describe.missing_parts(record["encoder"], "encoder")]

    def fit(self, table: Table, labels: Floats) -> SklearnModel:
        estimator, data = clone(self.estimator), self._encoded(table)
        X, y = table.X if data is None else data.X, self.values(table)[labels.astype(np.int64)]
        try:
            shared = self._shared_steps(table)
            with self._seeds():
                if shared is None:
                    estimator.fit(X, y, **self._weights(table))
                else:
                    estimator.steps[:-1] = shared.encoder.steps
                    weights = {name.split("__", 1)[1]: weight for name, weight in self._weights(table).items()}
                    estimator.steps[-1][1].fit(shared.X, y, **weights)
            if not hasattr(estimator, "decision_function") and not hasattr(estimator, "predict_proba"):
                raise LearnerError(
                    f"{self.name} has neither decision_function nor predict_proba, so the distance to the other "
                    "decision is unknown. Wrap it in sklearn.calibration.CalibratedClassifierCV, or set its option for "
                    "probabilities."
                )
            if table.multiclass and getattr(last_step(estimator), "decision_function_shape", None) == "ovo":
                raise LearnerError(f"{self.name} scores pairs of classes; set decision_function_shape='ovr'.")
            return SklearnModel(estimator, data, self.values(table), shared, table.decision)
        except ButforError:
            raise
        except Exception as error:  # the model's own code may raise anything
            raise LearnerError(f"{self.name} could not be trained on this table: {first_line(error)}") from error

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

    def values(self, table: Table) -> NDArray[Any]:
        """The labels that the estimator gets: the user's own, since class weights may name them; their numbers if the
        labels are boolean or the library needs numbers."""
        coded = table.classes.dtype == bool or any(root in NUMBERED_LABELS for root in packages(self.estimator))
        return np.arange(len(table.classes)) if coded else table.classes

    @property
    def own_seed(self) -> int:
        """The largest seed in use; other seeds are counted from it."""
        given = self.given.get_params()
        used = [given[name] for name in self._random_states() if isinstance(given[name], int)]
        return max([*used, self.torch_seed or 0])

    def work(self, table: Table) -> float | None:
        return work_of_fit(self.estimator, table.X.size)

    def pack(self, model: Any) -> Any:
        return model.estimator

    def unpack(self, packed: Any, table: Table) -> SklearnModel:
        return SklearnModel(packed, self._encoded(table), self.values(table), self._shared_steps(table), table.decision)

    def reseeded(self, seed: int) -> SklearnLearner:
        again = clone(self.given).set_params(**dict.fromkeys(self._random_states(), seed))
        other = SklearnLearner(again, self.encoder, None if self.torch_seed is None else seed)
        other._cache = self._cache
        return other

    def record(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "estimator": describe.describe(self.given),
            "encoder": describe.describe(self.encoder),
            "torch_seed": self.torch_seed,
            "margin": self.margin,
        }

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> SklearnLearner:
        return cls(describe.rebuild(record["estimator"]), describe.rebuild(record["encoder"]), record["torch_seed"])

    def _encoded(self, table: Table) -> EncodedTable | None:
        """The table after the encoder, encoded once; None without an encoder."""
        encoder, torch = self.encoder, self.torch_seed is not None
        numeric = not torch and all(map(is_numeric_dtype, table.X.dtypes))
        if encoder is None and not numeric and not preprocesses(self.estimator):
            encoder = TableEncoder(dtype="float32" if torch else "float64")
        if not isinstance(encoder, TableEncoder):
            return None
        encoded: EncodedTable = self._cache.get(table, lambda: EncodedTable(encoder, table.X))
        return encoded

    def _shared_steps(self, table: Table) -> EncodedTable | None:
        """The table after all steps of a pipeline but the last, if these do not use labels and so are the same for all
        trainings; None if not, or if a step might write into its inputs."""
        estimator, encoded = self.estimator, isinstance(self.encoder, TableEncoder)
        if encoded or type(estimator) is not Pipeline or len(estimator.steps) < 2 or not sees_no_label(estimator):
            return None
        if any("copy" in name and value is False for name, value in estimator.get_params().items()):
            return None
        made: EncodedTable = self._cache.get(table, lambda: EncodedTable(estimator[:-1], table.X))
        return made

    def _weights(self, table: Table) -> dict[str, Any]:
        if table.weight is None:
            return {}
        if not has_fit_parameter(last_step(self.estimator), "sample_weight"):
            raise LearnerError(f"{self.name} takes no sample_weight; leave it out.")
        name, estimator = "sample_weight", self.estimator
        # With scikit-learn's metadata routing a pipeline knows itself which steps asked for weights.
        while isinstance(estimator, Pipeline) and not get_config()["enable_metadata_routing"]:
            name, estimator = f"{estimator.steps[-1][0]}__{name}", estimator.steps[-1][1]
        return {name: table.weight}

    def _random_states(self) -> list[str]:
        """Parameters that hold a seed, in the estimator and its parts."""
        return [name for name in self.given.get_params() if is_seed(name)]

    @contextmanager
    def _seeds(self) -> Iterator[None]:
        if self.torch_seed is None:
            yield
            return
        import torch

        with GENERATOR, torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.torch_seed)
            yield


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


def is_seed(parameter: str) -> bool:
    return parameter == "random_state" or parameter.endswith("__random_state")

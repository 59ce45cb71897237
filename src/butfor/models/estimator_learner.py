"""Any scikit-learn classifier or pipeline as a learner: cloned, never changed; its own `fit` is the
definition of L.

The steps that come first and use no labels are fitted once, since they are the same for all labels.
`kinds.py` makes the model of what was fitted.
"""

from __future__ import annotations

from contextlib import ExitStack, suppress
from copy import copy
from itertools import takewhile
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pandas.api.types import is_numeric_dtype
from sklearn import get_config
from sklearn.base import BaseEstimator, clone, is_classifier, is_regressor
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import FixedThresholdClassifier, TunedThresholdClassifierCV
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import has_fit_parameter

from butfor.models.as_json import describe, rebuild
from butfor.models.estimator import EstimatorModel, reason_of
from butfor.models.kinds import model_of
from butfor.models.seam import UNKNOWN_MICROSECONDS, Floats, Learner, TableCache
from butfor.models.steps import joined, packages, parts, preprocesses, steps_of, uses_no_label
from butfor.support.errors import ButforError, LearnerError, SettingError, brief
from butfor.support.threads import GENERATOR
from butfor.table.decisions import CLIP, ONE_HALF, Decision
from butfor.table.encoding import EncodedTable, TableEncoder
from butfor.table.table import Table

NUMBERED_LABELS = {"xgboost", "skorch"}
"""Libraries whose classifiers need labels 0, 1, …"""
RAW = "passthrough"
"""Instead of an encoder: the estimator gets the raw table."""
QUICK_MODULES = (
    "sklearn.linear_model.",
    "sklearn.tree.",
    "sklearn.naive_bayes",
    "sklearn.neighbors.",
    "sklearn.kernel_ridge",
    "sklearn.discriminant_analysis",
    "sklearn.dummy",
    "sklearn.pipeline",
    "sklearn.compose.",
    "sklearn.impute.",
    "sklearn.preprocessing.",
    "butfor.",
)
"""Modules of estimators that learn a small table in milliseconds."""


class SklearnLearner(Learner):
    """`given`: the user's estimator; `steps`: those of its pipeline or itself alone. `encoder`:
    comes first. None: only if the estimator has no preprocessing and the table has columns that are
    not numbers. "passthrough": never."""

    kind = "sklearn"
    decision: Decision = ONE_HALF
    """The cut at which its models are audited: they compare probabilities with it."""

    def __init__(
        self, estimator: Any, encoder: TableEncoder | str | None = None, seed: int | None = None
    ) -> None:
        check_classifier(estimator)
        if not (encoder is None or encoder == RAW or isinstance(encoder, TableEncoder)):
            raise SettingError(
                f"encoder={encoder!r} is neither a TableEncoder nor '{RAW}'. Put other "
                "preprocessing into a pipeline with the model."
            )
        self.given = clone(estimator)
        self.encoder = clone(encoder, safe=False)
        self.torch_seed: int | None = None
        settings = self.given.get_params()
        if "skorch" in packages(estimator):
            # Torch has no random_state: it is seeded around each `fit`. Skorch prints a line per
            # epoch.
            self.torch_seed = seed or 0
            loud = [name for name in settings if name.endswith("verbose")]
            self.given.set_params(**{name: type(settings[name])(0) for name in loud})
        # Without a copy an estimator may write into the table.
        copies = [name for name in settings if name.split("__")[-1] in ("copy", "copy_X")]
        self.given.set_params(**dict.fromkeys(copies, True))
        self.steps = steps_of(self.given)
        self.estimator = joined(self.steps)
        self.has_probabilities = hasattr(self.estimator, "predict_proba")
        self.name = type(self.steps[-1]).__name__
        if len(self.steps) > 1:
            self.name += " (pipeline)"
        self._seeds = {name: value for name, value in settings.items() if is_seed(name)}
        self.seeded = self.torch_seed is not None or bool(self._seeds)
        # The largest seed in use, from which others are counted.
        numbers = [number for number in self._seeds.values() if isinstance(number, int)]
        self.own_seed = max(0, self.torch_seed or 0, *numbers)
        self._cache = TableCache()

    def reseeded(self, seed: int) -> SklearnLearner:
        other = SklearnLearner(
            clone(self.given).set_params(**dict.fromkeys(self._seeds, seed)), self.encoder, seed
        )
        other._cache = self._cache
        other.decision = self.decision
        return other

    def deciding(self, decision: Decision) -> SklearnLearner:
        other = copy(self)
        other.decision = decision
        return other

    def fit(self, table: Table, labels: Floats) -> EstimatorModel:
        values = self.values(table)
        try:
            front, steps = self._split(table)
            rows = table.X if front is None else front.X
            estimator = joined([clone(step) for step in steps])
            weights = self._weights(estimator, table)
            with ExitStack() as seeds:
                if self.torch_seed is not None:
                    import torch

                    seeds.enter_context(GENERATOR)
                    seeds.enter_context(torch.random.fork_rng(devices=[]))
                    torch.manual_seed(self.torch_seed)
                estimator.fit(rows, values[labels.astype(np.int64)], **weights)
            has_margin = hasattr(estimator, "decision_function")
            if not has_margin and not hasattr(estimator, "predict_proba"):
                raise LearnerError(
                    f"{self.name} has neither decision_function nor predict_proba, so the "
                    "distance to the other decision is unknown. Wrap it in "
                    "sklearn.calibration.CalibratedClassifierCV, or set its option for "
                    "probabilities."
                )
            pairs = getattr(self.steps[-1], "decision_function_shape", None) == "ovo"
            if table.multiclass and pairs:
                raise LearnerError(
                    f"{self.name} scores pairs of classes; set decision_function_shape='ovr'."
                )
            return model_of(estimator, front, values, self.decision)
        except ButforError:
            raise
        except Exception as error:  # the model's own code may raise anything
            raise LearnerError(
                f"{self.name} could not be trained on this table: {reason_of(error)}"
            ) from error

    def _weights(self, estimator: Any, table: Table) -> dict[str, Any]:
        """The argument of `fit` that hands the table's weights to the last step."""
        if table.weight is None:
            return {}
        if not has_fit_parameter(self.steps[-1], "sample_weight"):
            raise LearnerError(f"{self.name} takes no sample_weight; leave it out.")
        # With scikit-learn's metadata routing a pipeline knows itself which steps asked for
        # weights.
        routed = get_config()["enable_metadata_routing"]
        if routed or not isinstance(estimator, Pipeline):
            return {"sample_weight": table.weight}
        return {f"{estimator.steps[-1][0]}__sample_weight": table.weight}

    def _split(self, table: Table) -> tuple[EncodedTable | None, list[Any]]:
        """The table after the steps that come first and use no labels, made once for all trainings;
        None if there are none. And the other steps, which are trained."""
        encoder = self.encoder
        steps = self.steps
        torch = self.torch_seed is not None
        numeric = not torch and all(map(is_numeric_dtype, table.X.dtypes))
        if encoder is None and not numeric and not preprocesses(self.estimator):
            encoder = TableEncoder(dtype="float32" if torch else "float64")
        if isinstance(encoder, TableEncoder):
            steps = [encoder, *steps]
        shared = list(takewhile(uses_no_label, steps[:-1]))
        front = self._cache.get(table, joined(shared)) if shared else None
        return front, steps[len(shared) :]

    def values(self, table: Table) -> NDArray[Any]:
        """The labels that the estimator gets: the user's own, since class weights may name them;
        their numbers if the labels are boolean or the library needs numbers."""
        if table.classes.dtype == bool or NUMBERED_LABELS & packages(self.estimator):
            return np.arange(len(table.classes))
        return table.classes

    def work(self, table: Table) -> float:
        final = self.steps[-1]
        cells = table.X.size
        boosting = type(final) is HistGradientBoostingClassifier
        estimators = [
            part for step in self.steps for part in parts(step) if isinstance(part, BaseEstimator)
        ]
        for part in estimators:
            known = boosting and part is final
            if not known and not type(part).__module__.startswith(QUICK_MODULES):
                return UNKNOWN_MICROSECONDS
        if boosting:
            return float(final.max_iter * (1000 + cells / 50))
        return 2000 + cells / 2

    def pack(self, model: Any) -> Any:
        return model.estimator

    def unpack(self, packed: Any, table: Table) -> EstimatorModel:
        front, _ = self._split(table)
        return model_of(packed, front, self.values(table), self.decision)

    def record(self) -> dict[str, Any]:
        margin = f"the logit of predict_proba, clipped at {CLIP:g}"
        if hasattr(self.estimator, "decision_function"):
            margin = "decision_function"
        return {
            "kind": self.kind,
            "estimator": describe(self.given),
            "encoder": describe(self.encoder),
            "torch_seed": self.torch_seed,
            "margin": margin,
        }

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> SklearnLearner:
        return cls(
            rebuild(record["estimator"]),
            rebuild(record["encoder"]),
            record["torch_seed"],
        )


def check_classifier(estimator: Any) -> None:
    name = type(estimator).__name__
    if isinstance(estimator, type):
        raise LearnerError(
            f"{estimator.__name__} is a class; give an instance, {estimator.__name__}()."
        )
    if not hasattr(estimator, "fit") or not hasattr(estimator, "get_params"):
        raise LearnerError(
            f"model={brief(estimator)} is neither a scikit-learn classifier nor a learner "
            "(butfor.Learner). Put a torch module into a skorch.NeuralNetClassifier, or use "
            "butfor.MLP."
        )
    decides = False
    with suppress(Exception):  # a class that scikit-learn cannot ask
        decides = is_classifier(estimator)
    if not decides:
        sentence = f"{name} is not a classifier; an audit needs decisions between classes."
        if isinstance(estimator, BaseEstimator) and is_regressor(estimator):
            sentence += f" For a regression on 0 and 1 use butfor.ThresholdedRegressor({name}(…))."
        raise LearnerError(sentence)
    final = steps_of(estimator)[-1]
    if isinstance(final, (FixedThresholdClassifier, TunedThresholdClassifierCV)):
        raise LearnerError(
            f"{type(final).__name__} is refused: audit the classifier inside it with threshold=…, "
            "the probability of the favourable label from which people get it. That is its "
            "threshold (best_threshold_ of a tuned one) or, if pos_label (by default the second "
            "label) is the adverse one, one minus it."
        )


def is_seed(parameter: str) -> bool:
    return parameter == "random_state" or parameter.endswith("__random_state")

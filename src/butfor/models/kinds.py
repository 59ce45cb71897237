"""Which estimator is of which kind: the one table, and the one place where a fitted estimator
becomes a model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.neighbors import KNeighborsClassifier

from butfor.models.estimator import EstimatorModel
from butfor.models.linear import (
    LinearModel,
    LogisticModel,
    RidgeModel,
    has_coefficients,
    has_usual_penalty,
)
from butfor.models.neighbours import NearestModel, NeighboursModel
from butfor.models.partition import PartitionEnsemble
from butfor.models.parts import PartsModel
from butfor.models.regression import RegressionModel, adds_up
from butfor.models.steps import steps_of
from butfor.models.thresholded import ThresholdedRegressor
from butfor.models.trees import LightGBMModel, StagedModel, TreesModel
from butfor.table.decisions import ONE_HALF, Decision
from butfor.table.encoding import EncodedTable


@dataclass(frozen=True)
class Kind:
    """A kind of model, the class of the last step, and a condition on the estimator, which may be a
    pipeline, and its last step."""

    model: type[EstimatorModel]
    of: type
    condition: Callable[[Any, Any], bool] = lambda estimator, final: True


def votes_are_known(estimator: Any, final: Any) -> bool:
    """Whether the rows are those of the table, so that each has a label, and how each counts."""
    return estimator is final and final.weights in ("uniform", "distance")


def looks_at_neighbours(estimator: Any, final: Any) -> bool:
    """Whether the regression inside is one on neighbours."""
    return is_from(NEIGHBOURS, steps_of(final.new_regressor())[-1])


NEIGHBOURS = "sklearn.neighbors"
KINDS = (
    Kind(LogisticModel, LogisticRegression, lambda estimator, final: has_usual_penalty(final)),
    Kind(RidgeModel, RidgeClassifier),
    Kind(RegressionModel, ThresholdedRegressor, lambda estimator, final: adds_up(estimator)),
    Kind(NeighboursModel, ThresholdedRegressor, looks_at_neighbours),
    Kind(NearestModel, KNeighborsClassifier, votes_are_known),
    Kind(PartsModel, PartitionEnsemble, lambda estimator, final: estimator is final),
)
"""By the very class of the last step, since a subclass may do otherwise; the first that holds."""
BY_LIBRARY = {NEIGHBOURS: NeighboursModel, "lightgbm": LightGBMModel}
"""By the library, or the part of it, that the last step is from."""
BY_METHOD = {"apply": TreesModel, "staged_decision_function": StagedModel}
"""By a method of the last step's class: trees of any library."""


def kind_of(estimator: Any) -> type[EstimatorModel]:
    """The kind of an estimator's model. Whether it has coefficients is known once it is fitted."""
    final = steps_of(estimator)[-1]
    for kind in KINDS:
        if type(final) is kind.of and kind.condition(estimator, final):
            return kind.model
    for library, model in BY_LIBRARY.items():
        if is_from(library, final):
            return model
    for method, model in BY_METHOD.items():
        if hasattr(type(final), method):
            return model
    return LinearModel if has_coefficients(final) else EstimatorModel


def is_from(library: str, estimator: Any) -> bool:
    return f"{type(estimator).__module__}.".startswith(f"{library}.")


def model_of(
    estimator: Any,
    front: EncodedTable | None,
    values: NDArray[Any],
    decision: Decision = ONE_HALF,
) -> EstimatorModel:
    """The model of a fitted estimator. `front`: the table after the steps that were fitted once for
    all labels; `values`: the estimator's label for each class."""
    return kind_of(estimator)(estimator, front, values, decision)

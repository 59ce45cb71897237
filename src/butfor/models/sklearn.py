"""Any scikit-learn classifier or pipeline as a learner: cloned, never changed; its own `fit` is the
definition of L.

The steps that come first and use no labels are fitted once, since they are the same for all labels.
A fitted model's margin is `decision_function` or, without one, the logit of `predict_proba` (its
logarithm with more than two classes); the decision is always that of `predict`. With a cut, answers
are the log-odds of `predict_proba` (without it, the decision function), and comparing them with the
cut decides.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import ExitStack, nullcontext, suppress
from copy import copy
from itertools import takewhile
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api.types import is_numeric_dtype
from scipy.special import expit
from sklearn import get_config
from sklearn.base import BaseEstimator, clone, is_classifier, is_regressor
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import FixedThresholdClassifier, TunedThresholdClassifierCV
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import has_fit_parameter

from butfor.models import estimators, linear
from butfor.models.estimators import joined, steps_of
from butfor.models.linear import Array
from butfor.models.robust import PartitionEnsemble, ThresholdedRegressor
from butfor.models.seam import (
    UNKNOWN,
    Floats,
    Learner,
    Model,
    TableCache,
    named_pulls,
)
from butfor.support.errors import (
    ButforError,
    LearnerError,
    SettingError,
    brief,
    first_line,
)
from butfor.support.threads import GENERATOR, single_threaded
from butfor.table.decisions import (
    CLIP,
    ONE_HALF,
    Decision,
    log_odds,
)
from butfor.table.encoding import EncodedTable, TableEncoder
from butfor.table.table import Table

NUMBERED_LABELS = {"xgboost", "skorch"}
"""Libraries whose classifiers need labels 0, 1, …"""
RAW = "passthrough"
"""Instead of an encoder: the estimator gets the raw table."""
BLOCK = 256
"""The most people per call of a model of neighbours, on one thread: with more, scikit-learn breaks
ties differently."""
SAME = 1e-9
"""A decision function whose logistic value is this near to the probability is the log-odds."""
QUICK = (
    *(
        "sklearn.linear_model.",
        "sklearn.tree.",
        "sklearn.naive_bayes",
        "sklearn.neighbors.",
        "sklearn.kernel_ridge",
    ),
    *(
        "sklearn.discriminant_analysis",
        "sklearn.dummy",
        "sklearn.pipeline",
        "sklearn.compose.",
        "sklearn.impute.",
    ),
    *("sklearn.preprocessing.", "butfor."),
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
                "preprocessing into a pipeline "
                "with the model."
            )
        self.given, self.encoder, self.torch_seed = (
            clone(estimator),
            clone(encoder, safe=False),
            None,
        )
        if "skorch" in estimators.packages(
            estimator
        ):  # torch has no random_state: it is seeded around each `fit`
            self.torch_seed = seed or 0
            loud = {
                name: value
                for name, value in self.given.get_params().items()
                if name.endswith("verbose")
            }
            self.given.set_params(
                **{name: type(value)(0) for name, value in loud.items()}
            )  # a line per epoch
        copies = [
            name for name in self.given.get_params() if name.split("__")[-1] in ("copy", "copy_X")
        ]
        self.given.set_params(
            **dict.fromkeys(copies, True)
        )  # otherwise it may write into the table
        self.steps = steps_of(self.given)
        self.estimator = joined(self.steps)
        self.has_probabilities = hasattr(self.estimator, "predict_proba")
        self.name = type(self.steps[-1]).__name__ + (" (pipeline)" if len(self.steps) > 1 else "")
        self._seeds = {
            name: value for name, value in self.given.get_params().items() if is_seed(name)
        }
        self.seeded = self.torch_seed is not None or bool(self._seeds)
        # The largest seed in use, from which others are counted.
        self.own_seed = max(
            0,
            self.torch_seed or 0,
            *(seed for seed in self._seeds.values() if isinstance(seed, int)),
        )
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

    def fit(self, table: Table, labels: Floats) -> SklearnModel:
        values = self.values(table)
        try:
            front, steps = self._split(table)
            estimator, weights = joined([clone(step) for step in steps]), dict[str, Any]()
            if table.weight is not None:
                if not has_fit_parameter(self.steps[-1], "sample_weight"):
                    raise LearnerError(f"{self.name} takes no sample_weight; leave it out.")
                # With scikit-learn's metadata routing a pipeline knows itself which steps asked for
                # weights.
                routed = (
                    not isinstance(estimator, Pipeline) or get_config()["enable_metadata_routing"]
                )
                weights[
                    "sample_weight" if routed else f"{estimator.steps[-1][0]}__sample_weight"
                ] = table.weight
            with ExitStack() as seeds:
                if self.torch_seed is not None:
                    import torch

                    seeds.enter_context(GENERATOR)
                    seeds.enter_context(torch.random.fork_rng(devices=[]))
                    torch.manual_seed(self.torch_seed)
                estimator.fit(
                    table.X if front is None else front.X,
                    values[labels.astype(np.int64)],
                    **weights,
                )
            if not hasattr(estimator, "decision_function") and not hasattr(
                estimator, "predict_proba"
            ):
                raise LearnerError(
                    f"{self.name} has neither decision_function nor predict_proba, so the "
                    "distance to the other "
                    "decision is unknown. Wrap it in sklearn.calibration.CalibratedClassifierCV, "
                    "or set its option for "
                    "probabilities."
                )
            if (
                table.multiclass
                and getattr(self.steps[-1], "decision_function_shape", None) == "ovo"
            ):
                raise LearnerError(
                    f"{self.name} scores pairs of classes; set decision_function_shape='ovr'."
                )
            return SklearnModel(estimator, front, values, self.decision)
        except ButforError:
            raise
        except Exception as error:  # the model's own code may raise anything
            raise LearnerError(
                f"{self.name} could not be trained on this table: {reason_of(error)}"
            ) from error

    def _split(self, table: Table) -> tuple[EncodedTable | None, list[Any]]:
        """The table after the steps that come first and use no labels, made once for all trainings;
        None if there are none. And the other steps, which are trained."""
        encoder, steps, torch = self.encoder, self.steps, self.torch_seed is not None
        numeric = not torch and all(map(is_numeric_dtype, table.X.dtypes))
        if encoder is None and not numeric and not estimators.preprocesses(self.estimator):
            encoder = TableEncoder(dtype="float32" if torch else "float64")
        if isinstance(encoder, TableEncoder):
            steps = [encoder, *steps]
        shared = list(takewhile(estimators.uses_no_label, steps[:-1]))
        front = self._cache.get(table, joined(shared)) if shared else None
        return front, steps[len(shared) :]

    def values(self, table: Table) -> NDArray[Any]:
        """The labels that the estimator gets: the user's own, since class weights may name them;
        their numbers if the labels are boolean or the library needs numbers."""
        coded = table.classes.dtype == bool or NUMBERED_LABELS & estimators.packages(self.estimator)
        return np.arange(len(table.classes)) if coded else table.classes

    def work(self, table: Table) -> float:
        final, cells = self.steps[-1], table.X.size
        boosting = type(final).__name__ == "HistGradientBoostingClassifier"
        inside = [
            part
            for step in self.steps
            for part in estimators.parts(step)
            if isinstance(part, BaseEstimator)
        ]
        if not all(
            type(part).__module__.startswith(QUICK)
            for part in inside
            if not (boosting and part is final)
        ):
            return UNKNOWN
        return float(final.max_iter * (1000 + cells / 50)) if boosting else 2000 + cells / 2

    def pack(self, model: Any) -> Any:
        return model.estimator

    def unpack(self, packed: Any, table: Table) -> SklearnModel:
        return SklearnModel(packed, self._split(table)[0], self.values(table), self.decision)

    def record(self) -> dict[str, Any]:
        by_logit = f"the logit of predict_proba, clipped at {CLIP:g}"
        return {
            "kind": self.kind,
            "estimator": estimators.describe(self.given),
            "encoder": estimators.describe(self.encoder),
            "torch_seed": self.torch_seed,
            "margin": "decision_function"
            if hasattr(self.estimator, "decision_function")
            else by_logit,
        }

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> SklearnLearner:
        return cls(
            estimators.rebuild(record["estimator"]),
            estimators.rebuild(record["encoder"]),
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
            "(butfor.Learner). Put a "
            "torch module into a skorch.NeuralNetClassifier, or use butfor.MLP."
        )
    decides = False
    with suppress(Exception):  # a class that scikit-learn cannot ask
        decides = is_classifier(estimator)
    if not decides:
        sentence = f"{name} is not a classifier; an audit needs decisions between classes."
        if isinstance(estimator, BaseEstimator) and is_regressor(estimator):
            sentence += f" For a regression on 0 and 1 use butfor.ThresholdedRegressor({name}(…))."
        raise LearnerError(sentence)
    if isinstance(
        final := steps_of(estimator)[-1], (FixedThresholdClassifier, TunedThresholdClassifierCV)
    ):
        raise LearnerError(
            f"{type(final).__name__} is refused: audit the classifier inside it with threshold=…, "
            "the probability of "
            "the favourable label from which people get it. That is its threshold "
            "(best_threshold_ of a tuned one) or, "
            "if pos_label (by default the second label) is the adverse one, one minus it."
        )


def reason_of(error: Exception) -> str:
    """What an estimator says of itself, and what to do if it computes in half of the digits that it
    was given."""
    reason = first_line(error)
    if not (
        re.search(r"(?i)\b(double|float64)\b", reason) and re.search(r"(?i)\bfloat(32)?\b", reason)
    ):
        return reason
    cast = "sklearn.preprocessing.FunctionTransformer(numpy.float32)"
    return (
        f"{reason.rstrip('.')}. It computes with float32 and the step before it gives float64: "
        f"put {cast} between"
    )


def is_seed(parameter: str) -> bool:
    return parameter == "random_state" or parameter.endswith("__random_state")


# --- a fitted estimator ---------------------------------------------------------------------------


class SklearnModel(Model):
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
        self.estimator, self.front, self.values, self.decision = estimator, front, values, decision
        self.steps = [*([] if front is None else steps_of(front.encoder)), *steps_of(estimator)]
        self.final = final = self.steps[-1]
        if isinstance(self.steps[0], TableEncoder):
            self.table_encoder = self.steps[0]
        regression = isinstance(final, ThresholdedRegressor)
        inner = steps_of(final.regressor_)[-1] if regression else final
        self.by_neighbours = type(inner).__module__.startswith("sklearn.neighbors")
        adds_up = estimators.linear_in_labels(estimator)
        # Ridge and least squares on sparse inputs are not solved in one step: where they stop is
        # not linear in labels.
        solved = getattr(inner, "solver_", getattr(inner, "solver", "auto")) in estimators.DIRECT
        self.exact = (
            adds_up
            and solved
            and (type(inner) is not LinearRegression or hasattr(inner, "singular_"))
        )
        if (
            adds_up
            if regression
            else estimators.is_logistic(final) or type(final).__name__ == "RidgeClassifier"
        ):
            self.flip_effects = self._flip_effects
        if (
            hasattr(type(final), "apply")
            or hasattr(type(final), "staged_decision_function")
            or is_lightgbm(final)
        ):
            self.leaves = self._leaves
        votes = type(final).__name__ == "KNeighborsClassifier" and final.weights in (
            "uniform",
            "distance",
        )
        if votes and estimator is final:
            self.neighbours = self._neighbours
        if type(estimator) is PartitionEnsemble:
            self.part_votes = self._part_votes

    # --- answers ---

    def logits(self, people: pd.DataFrame) -> Floats:
        return self._answers(people, self._logits)

    def scores(self, people: pd.DataFrame) -> Floats:
        return self._answers(people, self._scores)

    def _answers(self, people: pd.DataFrame, answer: Callable[[Any], Floats]) -> Floats:
        """What `answer` makes of the last step's inputs."""
        if not len(people):
            return np.empty(0, np.float32)
        if self.by_neighbours and len(people) > BLOCK:
            return np.concatenate([self._answers(some, answer) for some in _blocks(people)])
        try:
            with single_threaded() if self.by_neighbours else nullcontext():
                return answer(self.step_inputs(people))
        except ButforError:
            raise
        except Exception as error:
            name = type(self.final).__name__
            raise LearnerError(
                f"{name} could not decide about these people: {reason_of(error)}"
            ) from error

    def _logits(self, given: Any) -> Floats:
        """On the side that the estimator itself decides for or, with a cut, that comparing its
        probability with the cut gives. With a cut they are log-odds of class 1, or the decision
        function if there are no probabilities."""
        decider, cut, label = self.final, self.decision, self.values[self.decision.label]
        if not cut.has_cut:
            return cut.agreeing(self._margin(given), self._predictions(given) == label)
        if not cut.by_probability:
            return self._margin(given).astype(np.float32)
        score = np.asarray(decider.predict_proba(given))[:, decider.classes_ == label].sum(axis=1)
        margin = cut.sign * log_odds(score.astype(np.float64))
        if hasattr(decider, "decision_function"):  # more digits, if it is the log-odds
            finer = self._margin(given)
            margin = np.where(np.abs(expit(cut.sign * finer) - score) <= SAME, finer, margin)
        return (
            margin.astype(np.float32) if cut.at is None else cut.agreeing(margin, score >= cut.at)
        )

    def _scores(self, given: Any) -> Floats:
        """`[people × classes]`, in which the decided class alone is highest, also in a tie; a class
        without labels gets the lowest score."""
        decider = self.final
        known = np.searchsorted(self.values, decider.classes_)
        if hasattr(decider, "decision_function"):
            scored = np.asarray(decider.decision_function(given), np.float64)
            scored = np.column_stack([-scored / 2, scored / 2]) if scored.ndim == 1 else scored
        if not hasattr(decider, "decision_function") or scored.shape[1] != len(known):
            scored = self._log_probabilities(given)
        every = np.repeat(scored.min(axis=1, keepdims=True) - 1, len(self.values), axis=1)
        every[:, known] = scored
        decided = self._predictions(given)[:, None] == self.values
        scores, others = (
            every.astype(np.float32),
            np.where(decided, -np.inf, every).astype(np.float32).max(axis=1),
        )
        low = decided & (scores <= others[:, None])
        scores[low] = np.nextafter(others, np.float32(np.inf))[low.any(axis=1)]
        return scores

    def _log_probabilities(self, given: Any) -> Array:
        """`[people × classes]`: by the model itself where it computes them, since `predict_proba`
        rounds the smallest to 0. A class whose probability is 0 comes after those of which it is
        not, and not above `CLIP`."""
        with np.errstate(divide="ignore", invalid="ignore"):
            if hasattr(self.final, "predict_log_proba"):
                logs = np.asarray(self.final.predict_log_proba(given), np.float64)
            else:
                logs = np.log(np.asarray(self.final.predict_proba(given), np.float64))
        lowest = np.where(np.isneginf(logs), 0.0, logs).min(axis=1, keepdims=True)
        return np.where(np.isneginf(logs), np.minimum(np.log(CLIP), lowest - 1), logs)

    def gives_log_odds(self, people: pd.DataFrame) -> bool:
        if not hasattr(self.final, "predict_proba"):
            return False
        given = self.step_inputs(people)
        return np.allclose(
            expit(self._margin(given)), self.final.predict_proba(given)[:, -1], rtol=0, atol=1e-6
        )

    def _predictions(self, given: Any) -> NDArray[Any]:
        """The estimator's own decisions."""
        said = np.asarray(self.final.predict(given)).ravel()
        strange = np.setdiff1d(said, getattr(self.final, "classes_", said))
        if len(strange):
            raise ValueError(f"it predicts '{strange[0]}', which is not a label")
        return said

    def _margin(self, given: Any) -> Array:
        """The decision function, or the logit of the probability."""
        if hasattr(self.final, "decision_function"):
            margin = np.asarray(self.final.decision_function(given), np.float64)
        else:
            margin = log_odds(np.asarray(self.final.predict_proba(given), np.float64))
        return margin if margin.ndim == 1 else margin[:, -1]

    # --- what it sees ---

    def step_inputs(self, X: pd.DataFrame) -> Any:
        """Raw rows as the last step gets them."""
        given = X if self.front is None else self.front.people(X)
        return given if self.estimator is self.final else self.estimator[:-1].transform(given)

    def encoded(self, X: pd.DataFrame) -> Array | None:
        """The same as numbers, `[rows × inputs]`; None if they are not numbers or the last step has
        a transformer."""
        if estimators.preprocesses(self.final):
            return None
        given = self.step_inputs(X)
        try:
            numbers = np.asarray(
                given.toarray() if hasattr(given, "toarray") else given, dtype=np.float64
            )
        except (ValueError, TypeError):
            return None
        return numbers if numbers.ndim == 2 and np.isfinite(numbers).all() else None

    # --- what only some models can tell ---

    def _flip_effects(
        self, table: Table, people: pd.DataFrame, contrast: Floats | None = None
    ) -> Array:
        if isinstance(self.final, ThresholdedRegressor):
            rows, asked = self.step_inputs(table.X), self.step_inputs(people)
            return self.final.share_of_labels(rows, asked, table.weight) * (1 - 2 * table.zero_one)
        rows, asked = self.encoded(table.X), self.encoded(people)
        assert rows is not None and asked is not None  # noqa: PT018
        return linear.flip_effects(self.final, rows, asked, table, contrast)

    def _leaves(self, rows: pd.DataFrame) -> NDArray[Any]:
        trees, given = self.final, self.step_inputs(rows)
        if is_lightgbm(trees):
            return np.asarray(trees.predict(given, pred_leaf=True)).reshape(len(rows), -1)
        if hasattr(trees, "apply"):
            return np.asarray(trees.apply(given)).reshape(len(rows), -1)
        # Boosted histograms give each tree's value, not its leaf; two leaves rarely have the same
        # value.
        stages = np.array(
            [stage.reshape(len(rows), -1) for stage in trees.staged_decision_function(given)]
        )
        steps = np.round(np.diff(stages, axis=0, prepend=stages[:1] * 0), 9)
        return steps.transpose(1, 0, 2).reshape(len(rows), -1)

    def _neighbours(self, people: pd.DataFrame) -> tuple[NDArray[np.int64], Array]:
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

    def pulls(
        self, people: pd.DataFrame, contrast: Floats | None = None
    ) -> list[dict[str, float]] | None:
        coefficients = getattr(self.final, "coef_", None)
        if (
            coefficients is None
            or np.size(coefficients) == 0
            or not hasattr(self.final, "decision_function")
        ):
            return None
        inputs, counted = self.encoded(people), np.ones((1, 1)) if contrast is None else contrast
        if inputs is None or np.atleast_2d(coefficients).shape != (
            counted.shape[1],
            inputs.shape[1],
        ):
            return None
        terms = inputs * (counted @ np.atleast_2d(coefficients))
        bias = np.broadcast_to(
            counted @ np.broadcast_to(self.final.intercept_, counted.shape[1]), len(people)
        )
        names, before = people.columns, self.steps[:-1]
        if before == [self.table_encoder]:
            terms, before = before[0].by_column(terms), []
        try:
            for step in before:
                names = step.get_feature_names_out(None if step is before[0] else names)
        except (AttributeError, ValueError):
            return None
        return named_pulls(terms, bias, list(names))


def is_lightgbm(final: Any) -> bool:
    return type(final).__module__.split(".")[0] == "lightgbm"


def _blocks(people: pd.DataFrame) -> list[pd.DataFrame]:
    return [people.iloc[k : k + BLOCK] for k in range(0, len(people), BLOCK)]

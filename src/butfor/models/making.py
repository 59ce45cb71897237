"""Makes models and learners: from a name, from a user's model, from a record; and checks a learner
in its first training."""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from importlib import invalidate_caches
from importlib.util import find_spec
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.types import is_numeric_dtype
from sklearn.base import clone
from sklearn.kernel_ridge import KernelRidge

from butfor.models.as_json import rebuild
from butfor.models.ensemble import Ensemble
from butfor.models.estimator_learner import SklearnLearner, check_classifier, is_seed
from butfor.models.seam import Learner, MakesLearner, Model, answers_about
from butfor.support.errors import (
    ButforError,
    LearnerError,
    ReplayError,
    SettingError,
    listed,
    nearest,
)
from butfor.support.optional import load
from butfor.support.threads import single_threaded
from butfor.table.decisions import USUAL, Decision, parse_threshold
from butfor.table.reading import default_setup
from butfor.table.table import Table

MODELS = {
    "logistic": "sklearn.linear_model:LogisticRegression",
    "ridge": "sklearn.linear_model:RidgeClassifier",
    "linear": "butfor:ThresholdedRegressor",
    "kernel-ridge": "butfor:ThresholdedRegressor",
    "knn": "sklearn.neighbors:KNeighborsClassifier",
    "forest": "sklearn.ensemble:RandomForestClassifier",
    "boosting": "sklearn.ensemble:HistGradientBoostingClassifier",
    "steady": "butfor:PartitionEnsemble",
    "lightgbm": "lightgbm:LGBMClassifier",
    "xgboost": "xgboost:XGBClassifier",
}
"""Classifiers by name; `model_named` has their settings, which are mostly the defaults."""
NAMES = ("mlp", *MODELS)
MANY_INPUTS = 1000
"""From this many inputs on, logistic regression is solved without a Hessian, whose cost grows with
their cube: on 1 000 rows with as many inputs that takes a tenth of the time."""
KINDS = {
    "sklearn": "butfor.models.estimator_learner:SklearnLearner",
    "mlp": "butfor.models.network:MLPLearner",
}
"""Kinds of learners that a record can restore, and their classes."""
OTHER_SEED = 40_961
"""A seed that users are unlikely to choose."""
SMALL = 2**18
"""The largest table, in values, for which threads do not speed up a training: on a busy machine
they wait for each other."""


def inputs_of(X: pd.DataFrame) -> int:
    """About how many inputs a row becomes: one per numeric column, and one per value of the other
    columns."""
    return sum(1 if is_numeric_dtype(values) else values.nunique() for _, values in X.items())


def model_named(name: str, seed: int = 0, inputs: int = 0) -> Any:
    """An estimator by one of `NAMES`, the network excepted, or by ``package.module:name``: an
    estimator, its class, or a function without arguments that makes one. The solver of logistic
    regression depends on the number of inputs."""
    if name in MODELS:
        package = MODELS[name].partition(":")[0].split(".")[0]
        if find_spec(package) is None:
            raise SettingError(
                f"Model '{name}' needs a package that is not installed: pip install {package}."
            )
        # newton-cholesky reaches the minimum; the default solver sometimes stops a hundredth of a
        # logit before it.
        few, seeded = inputs <= MANY_INPUTS, {"random_state": seed}
        settings: dict[str, dict[str, Any]] = {
            "logistic": {"solver": "newton-cholesky"} if few else {"tol": 1e-6, "max_iter": 1000},
            "kernel-ridge": {"regressor": KernelRidge(kernel="rbf")},
            "forest": seeded,
            "boosting": seeded,
            "lightgbm": seeded | {"n_jobs": 1, "verbose": -1},
            "xgboost": seeded | {"n_jobs": 1, "verbosity": 0},
        }
        return load(MODELS[name])(**settings.get(name, {}))
    module, colon, attribute = name.partition(":")
    if not (module and colon and attribute):
        raise SettingError(
            f"There is no model '{name}'. {nearest(name, NAMES)} For your own model write "
            "package.module:name."
        )
    if "" not in sys.path:  # a module beside the table, as `python -m` would find it
        sys.path.insert(0, "")
    invalidate_caches()  # the module may be younger than this process
    failed = "loaded"
    try:
        model = load(name)
        failed = "created"
        return model() if isinstance(model, type) or not hasattr(model, "fit") else model
    except ButforError:
        raise
    except Exception as error:  # a user's module may fail in any way
        raise SettingError(
            f"Model '{name}' cannot be {failed}: {type(error).__name__}: {error}."
        ) from error


def default_name(note: Callable[[str], object]) -> str:
    """The default model for a user's table: the network or, without torch, boosting."""
    if find_spec("torch"):
        return "mlp"
    note(
        "The model is boosting: the network needs torch, which is not installed (pip install "
        '"butfor[net]").'
    )
    return "boosting"


def default_model(rows: int) -> Any:
    """The default model for a table with `rows` training rows; the network is the published one for
    that size."""
    name = default_name(partial(warnings.warn, stacklevel=4))  # the line that calls `fit`
    if name != "mlp":
        return model_named(name)
    setup = default_setup(rows)
    return load("butfor.models.network:MLP")(
        setup.hidden, max_epochs=setup.max_epochs, batch_size=setup.batch_size
    )


def as_learner(
    model: Any, encoder: Any = None, random_state: int = 0, torch_seed: int | None = None
) -> Learner:
    """A learner from our MLP or any scikit-learn classifier; a user's `Learner` unchanged. Every
    `random_state` that is None is set: see `seed_note`."""
    if isinstance(model, Learner):
        lacks = [
            part
            for part in ("fit", "record")
            if getattr(getattr(model, part), "__func__", 0) is getattr(Learner, part)
        ]
        if lacks := [*lacks, *([] if hasattr(model, "name") else ["name"])]:
            raise LearnerError(
                f"{type(model).__name__} lacks {listed(lacks)}: every learner has name, fit and "
                "record."
            )
        if encoder is not None:
            raise SettingError(
                f"{model.name} is a learner and does its own encoding; leave out encoder."
            )
        return model
    if not isinstance(model, MakesLearner):
        check_classifier(model)
    if unset := _unset_seeds(model):
        model = clone(model).set_params(**dict.fromkeys(unset, random_state))
    if isinstance(model, MakesLearner):
        made: Learner = load(KINDS["mlp"])(model, encoder)
        return made
    return SklearnLearner(model, encoder, torch_seed)


def seed_note(model: Any, random_state: int) -> str | None:
    """A sentence if `as_learner` sets a seed, else None."""
    unset = [] if isinstance(model, Learner) else _unset_seeds(model)
    if not unset:
        return None
    set_to = f"{'are' if len(unset) > 1 else 'is'} set to {random_state}, the audit's random_state"
    return f"{type(model).__name__} came without a fixed seed, so {listed(unset)} {set_to}."


def _unset_seeds(model: Any) -> list[str]:
    """Names of the parameters `random_state` that are None, in an estimator and its parts."""
    return [name for name, value in model.get_params().items() if is_seed(name) and value is None]


def learner_of(record: dict[str, Any], model: Any = None, random_state: int = 0) -> Learner:
    """The learner that a record names, or that of a `model` given for a replay, with the record's
    encoder and seed. `random_state`: the audit's."""
    kind = record.get("kind")
    if kind == Ensemble.kind:
        learner = learner_of(record["learner"], model, random_state)
        return (
            learner if isinstance(learner, Ensemble) else Ensemble(learner, int(record["members"]))
        )
    if model is not None:
        if isinstance(model, (MakesLearner, Learner)) or kind != SklearnLearner.kind:
            return as_learner(model, random_state=random_state)
        return as_learner(model, rebuild(record["encoder"]), random_state, record["torch_seed"])
    if kind not in KINDS:
        raise ReplayError(
            f"The record's learner is of kind '{kind}', which a record cannot restore; replay it "
            "with the learner "
            "itself (in Python replay(..., model=...))."
        )
    restored: Learner = load(KINDS[kind]).from_record(record)
    return restored


def decision_of(
    threshold: Any, learner: Learner, table: Table, adverse: int | None, pool: pd.DataFrame | None
) -> Decision:
    """The decision by a user's threshold; at one half, the model's own. `adverse`: the label by
    number that people would rather not have; the other one is decided on and above the
    threshold."""
    probability, share = parse_threshold(threshold)
    given = probability if share is None else f"top {100 * share:g}%"
    named = f"threshold={given!r}"
    if probability == USUAL:
        return Decision()
    if table.multiclass:
        raise SettingError(
            f"{named}: with {len(table.classes)} labels the one with the highest score wins; "
            "leave threshold out, or "
            "group the labels into two."
        )
    label = 1 if adverse is None else 1 - adverse
    if share is None and not learner.has_probabilities:
        raise SettingError(
            f"{named}: {learner.name} gives no probabilities. Give a share of people instead, "
            "such as "
            "threshold='top 20%', or wrap the model in sklearn.calibration.CalibratedClassifierCV."
        )
    if share is None:
        return Decision(given, label, probability)
    if pool is None:
        raise SettingError(
            f"{named}: name the people who compete for the places, and whom the model is not "
            "trained on: "
            "fit(…, pool=X_test) or also_labelled=(X_test, y_test)."
        )
    decision = Decision(given, label, None, learner.has_probabilities, share, pool)
    if decision.places in (0, len(pool)):
        who = "everybody" if decision.places else "nobody"
        raise SettingError(
            f"{named} of {len(pool)} people is {who}: give another share, or more people."
        )
    return decision


def first_model(learner: Learner, table: Table) -> tuple[Model, float, bool]:
    """f, the seconds of its training, and whether another seed gives another model: many estimators
    have a random_state without effect. A learner that is not known to be reproducible is trained
    twice: if its answers differ, it cannot be audited."""
    with single_threaded() if table.X.size <= SMALL else nullcontext():
        started = time.perf_counter()
        model = learner.fit(table, table.labels())
        if not isinstance(model, Model):
            raise LearnerError(
                f"The fit of {learner.name} returned a {type(model).__name__}; it must return a "
                "butfor.Model."
            )
        asked = "scores" if table.multiclass else "logits"
        if getattr(getattr(model, asked), "__func__", None) is getattr(Model, asked):
            labels = f"{len(table.classes)} labels"
            raise LearnerError(
                f"With {labels} the model of {learner.name} needs the method {asked}(people)."
            )
        answers = answers_about(table.X, model, table)
        if not isinstance(answers, np.ndarray) or answers.shape != (table.n * table.outputs,):
            wanted = f"{table.outputs} scores for each" if table.multiclass else "a logit for each"
            given = f"{type(answers).__name__} of shape {np.shape(answers)}"
            raise LearnerError(
                f"{learner.name} gave answers as {given} for {table.n} rows, not an array of "
                f"{wanted}."
            )
        if not np.isfinite(answers).all():
            raise LearnerError(
                f"Training of {learner.name} diverged: its logits are not finite numbers."
            )
        seconds = time.perf_counter() - started
        if learner.reproducible:
            return model, seconds, learner.seeded

        def differs(other: Learner) -> bool:
            return not np.array_equal(
                answers, answers_about(table.X, other.fit(table, table.labels()), table)
            )

        if differs(learner):
            raise LearnerError(
                f"{learner.name} gives different models when fitted twice on the same data, so "
                "the effect of a flip "
                "cannot be told from noise. Fix its seed (random_state=0) or other sources of "
                "randomness."
            )
        seconds = (time.perf_counter() - started) / 2
        return model, seconds, learner.seeded and differs(learner.reseeded(OTHER_SEED))

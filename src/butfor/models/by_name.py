"""Models by their names: on the command line, and the default."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from functools import partial
from importlib import invalidate_caches
from importlib.util import find_spec
from typing import Any

import pandas as pd
from pandas.api.types import is_numeric_dtype
from sklearn.kernel_ridge import KernelRidge

from butfor.support.errors import ButforError, SettingError, nearest
from butfor.support.optional import load
from butfor.table.reading import default_setup

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
MAX_INPUTS_WITH_HESSIAN = 1000
"""With more inputs logistic regression is solved without a Hessian, whose cost grows with
their cube: on 1 000 rows with as many inputs that takes a tenth of the time."""


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
        logistic: dict[str, Any] = {"solver": "newton-cholesky"}
        if inputs > MAX_INPUTS_WITH_HESSIAN:
            logistic = {"tol": 1e-6, "max_iter": 1000}
        seeded = {"random_state": seed}
        settings: dict[str, dict[str, Any]] = {
            "logistic": logistic,
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
        if isinstance(model, type) or not hasattr(model, "fit"):
            return model()
        return model
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

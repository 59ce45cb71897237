"""Models by name: the usual ones, and those of the user's own modules."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from functools import partial
from importlib import invalidate_caches
from typing import Any

import pandas as pd
from pandas.api.types import is_numeric_dtype

from butfor.data.table import default_setup
from butfor.errors import ButforError, SettingError, nearest
from butfor.machine import installed, load

MODELS = ("logistic", "ridge", "linear", "kernel-ridge", "knn", "forest", "boosting", "steady")
"""scikit-learn's models with their defaults, except for the solver of logistic regression. "linear" and "kernel-ridge"
are regressions on 0 and 1 with a threshold of one half; "steady" is our PartitionEnsemble."""
OTHER_PACKAGES = {"lightgbm": "LGBMClassifier", "xgboost": "XGBClassifier"}
"""Classifiers of other packages, with their defaults."""
NAMES = ("mlp", *MODELS, *OTHER_PACKAGES)
MANY_INPUTS = 1000
"""From this many inputs on, logistic regression is solved without a Hessian, whose cost grows with their cube: on 1 000
rows with as many inputs that takes a tenth of the time."""


def usual_model(name: str, seed: int, inputs: int = 0) -> Any:
    """A model of `MODELS`; some use the seed, the solver depends on the number of inputs."""
    from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
    from sklearn.kernel_ridge import KernelRidge
    from sklearn.linear_model import LogisticRegression, RidgeClassifier
    from sklearn.neighbors import KNeighborsClassifier

    from butfor.models.estimators import PartitionEnsemble, ThresholdedRegressor

    # This solver reaches the minimum; the default one sometimes stops a hundredth of a logit before it.
    solver = {"solver": "newton-cholesky"} if inputs <= MANY_INPUTS else {"tol": 1e-6, "max_iter": 1000}
    models = {
        "logistic": LogisticRegression(**solver),
        "ridge": RidgeClassifier(),
        "linear": ThresholdedRegressor(),
        "kernel-ridge": ThresholdedRegressor(KernelRidge(kernel="rbf")),
        "knn": KNeighborsClassifier(),
        "forest": RandomForestClassifier(random_state=seed),
        "boosting": HistGradientBoostingClassifier(random_state=seed),
        "steady": PartitionEnsemble(),
    }
    return models[name]


def inputs_of(X: pd.DataFrame) -> int:
    """About how many inputs a row becomes: one per numeric column, and one per value of the other columns."""
    return sum(1 if is_numeric_dtype(values) else values.nunique() for _, values in X.items())


def model_named(name: str, seed: int = 0, inputs: int = 0) -> Any:
    """An estimator by one of `NAMES`, the network excepted, or by ``package.module:name``: an estimator, its class, or
    a function without arguments that makes one."""
    if name in MODELS:
        return usual_model(name, seed, inputs)
    if name in OTHER_PACKAGES:
        if not installed(name):
            raise SettingError(f"Model '{name}' needs a package that is not installed: pip install {name}.")
        quiet = {"verbose": -1} if name == "lightgbm" else {"verbosity": 0}
        return load(f"{name}:{OTHER_PACKAGES[name]}")(random_state=seed, n_jobs=1, **quiet)
    module, colon, attribute = name.partition(":")
    if not (module and colon and attribute):
        raise SettingError(
            f"There is no model '{name}'. {nearest(name, NAMES)} For your own model write package.module:name."
        )
    if "" not in sys.path:  # a module beside the table, as `python -m` would find it
        sys.path.insert(0, "")
    invalidate_caches()  # the module may be younger than this process
    try:
        found = load(name)
    except ButforError:
        raise
    except Exception as error:  # a user's module may fail in any way
        raise SettingError(f"Model '{name}' cannot be loaded: {type(error).__name__}: {error}.") from error
    if isinstance(found, type) or not hasattr(found, "fit"):
        try:
            found = found()
        except Exception as error:
            raise SettingError(f"Model '{name}' cannot be created: {type(error).__name__}: {error}.") from error
    return found


def default_name(note: Callable[[str], object]) -> str:
    """The default model for a user's table: the network or, without torch, boosting."""
    if installed("torch"):
        return "mlp"
    note('The model is boosting: the network needs torch, which is not installed (pip install "butfor[net]").')
    return "boosting"


def default_model(rows: int) -> Any:
    """The default model for a table with `rows` training rows; the network is the published one for that size."""
    name = default_name(partial(warnings.warn, stacklevel=4))  # the line that calls `fit`
    if name != "mlp":
        return usual_model(name, seed=0)
    setup = default_setup(rows)
    return load("butfor.models.network:MLP")(setup.hidden, max_epochs=setup.max_epochs, batch_size=setup.batch_size)

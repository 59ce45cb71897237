"""Models by name: the usual ones, and whatever a module of the user's own holds."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module, invalidate_caches
from typing import Any

from butfor.data.table import default_setup
from butfor.errors import ButforError, SettingError
from butfor.learn.registry import load


def _logistic(seed: int) -> Any:
    from sklearn.linear_model import LogisticRegression

    # This solver reaches the minimum; the default one stops a hundredth of a logit before it, here and there.
    return LogisticRegression(solver="newton-cholesky")


def _ridge(seed: int) -> Any:
    from sklearn.linear_model import RidgeClassifier

    return RidgeClassifier()


def _linear(seed: int) -> Any:
    from butfor.learn.thresholded import ThresholdedRegressor

    return ThresholdedRegressor()


def _kernel_ridge(seed: int) -> Any:
    from sklearn.kernel_ridge import KernelRidge

    from butfor.learn.thresholded import ThresholdedRegressor

    return ThresholdedRegressor(KernelRidge(kernel="rbf"))


def _steady(seed: int) -> Any:
    from butfor.learn.partition import PartitionEnsemble

    return PartitionEnsemble()


def _knn(seed: int) -> Any:
    from sklearn.neighbors import KNeighborsClassifier

    return KNeighborsClassifier()


def _forest(seed: int) -> Any:
    from sklearn.ensemble import RandomForestClassifier

    return RandomForestClassifier(random_state=seed)


def _boosting(seed: int) -> Any:
    from sklearn.ensemble import HistGradientBoostingClassifier

    return HistGradientBoostingClassifier(random_state=seed)


MODELS: dict[str, Callable[[int], Any]] = {
    "logistic": _logistic, "ridge": _ridge, "linear": _linear, "kernel-ridge": _kernel_ridge, "knn": _knn,
    "forest": _forest, "boosting": _boosting, "steady": _steady,
}  # fmt: skip
"""scikit-learn's, with its defaults but for the solver of logistic regression; the seed is for those that draw.
"linear" and "kernel-ridge" are regressions on 0 and 1 with the line at one half, "steady" is our PartitionEnsemble."""
NAMES = ("mlp", *MODELS)


def model_named(name: str, seed: int = 0) -> Any:
    """An estimator by one of `MODELS`' names, or by ``package.module:name``: the estimator itself, its class, or a
    function without arguments that makes one."""
    if name in MODELS:
        return MODELS[name](seed)
    module, colon, attribute = name.partition(":")
    if not (module and colon and attribute):
        raise SettingError(
            f"There is no model '{name}'; choose one of {', '.join(NAMES)}, or name your own as package.module:name."
        )
    if "" not in sys.path:  # a module beside the table, as `python -m` would find it
        sys.path.insert(0, "")
    invalidate_caches()  # the module may be younger than this process
    try:
        found: Any = import_module(module)
        for part in attribute.split("."):
            found = getattr(found, part)
    except ButforError:
        raise
    except Exception as error:  # a user's module may fail in any way
        raise SettingError(f"Model '{name}' cannot be loaded: {type(error).__name__}: {error}.") from error
    if isinstance(found, type) or not hasattr(found, "fit"):
        try:
            found = found()
        except Exception as error:
            raise SettingError(f"Model '{name}' cannot be made: {type(error).__name__}: {error}.") from error
    return found


def usual_network(rows: int, seed: int = 0) -> Any:
    """The network for a table of so many training rows where nobody names a model: the published one for that size."""
    setup = default_setup(rows)
    return load("butfor.mlp.mlp:MLP")(
        setup.hidden, max_epochs=setup.max_epochs, batch_size=setup.batch_size, random_state=seed
    )

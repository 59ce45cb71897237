"""The versions of the packages that a result came from."""

from __future__ import annotations

import platform
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version

PACKAGES = (
    "numpy",
    "scipy",
    "pandas",
    "scikit-learn",
    "torch",
    "numba",
    "xgboost",
    "lightgbm",
    "skorch",
)


def versions() -> dict[str, str]:
    by_package = {"python": platform.python_version()}
    for package in PACKAGES:
        with suppress(PackageNotFoundError):
            by_package[package] = version(package)
    return by_package

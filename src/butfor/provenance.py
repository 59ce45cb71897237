"""Where a result came from: the hash of the data and the versions of the packages."""

from __future__ import annotations

import hashlib
import platform
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version

from butfor.models.learner import Table

PACKAGES = ("numpy", "scipy", "pandas", "scikit-learn", "torch", "numba", "xgboost", "lightgbm", "skorch")


def data_hash(table: Table) -> str:
    """sha256 of the training and validation rows, their labels, weights and clusters."""
    digest = hashlib.sha256()
    for part in (table.X, table.y, *(table.validation or ())):
        digest.update(part.to_csv(index=True).encode())
    if table.weight is not None:
        digest.update(table.weight.tobytes())
    if table.cluster is not None:
        digest.update(repr(table.cluster.tolist()).encode())
    return digest.hexdigest()


def versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        with suppress(PackageNotFoundError):
            found[package] = version(package)
    return found

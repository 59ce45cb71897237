"""What a record says about where it came from: the data's hash and the versions that were at work."""

from __future__ import annotations

import hashlib
import platform
from importlib.metadata import PackageNotFoundError, version

from butfor.verdict import Training


def data_hash(training: Training) -> str:
    """sha256 over the training and validation rows and labels, as given."""
    digest = hashlib.sha256()
    for part in (training.X, training.y, *training.validation):
        digest.update(part.to_csv(index=True).encode())
    return digest.hexdigest()


def versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for package in ("numpy", "pandas", "scikit-learn", "torch", "numba"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found

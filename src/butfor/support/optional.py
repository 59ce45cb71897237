"""Imports by a string: names in records or of users, and packages that may be missing."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

from butfor.support.errors import EngineError


def load(path: str) -> Any:
    """The object at "module:attribute", imported now; an error if it needs a package of the extra
    `net` that is not installed."""
    module, _, name = path.partition(":")
    needed = ["torch"] if module == "butfor.models.network" else []
    needed += ["numba"] if module == "butfor.models.boosting" else []
    for package in needed:
        if find_spec(package) is None:
            raise EngineError(
                f'The network needs {package}, which is not installed: pip install "butfor[net]".'
            )
    loaded: Any = import_module(module)
    for part in name.split("."):
        loaded = getattr(loaded, part)
    return loaded

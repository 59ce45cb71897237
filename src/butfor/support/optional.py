"""Imports by a string: names in records or of users, and packages that may be missing."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

from butfor.support.errors import EngineError

NEEDS = {
    "butfor.models.network": ("The network", "torch", "net"),
    "butfor.models.boosting": ("Engine 'boosting'", "numba", "fast"),
}
"""By module: what it is, the package that it needs, and the extra that brings it."""


def load(path: str) -> Any:
    """The object at "module:attribute", imported now; an error if it needs a package of an extra
    that is not installed."""
    module, _, name = path.partition(":")
    if module in NEEDS:
        what, package, extra = NEEDS[module]
        if find_spec(package) is None:
            raise EngineError(
                f'{what} needs {package}, which is not installed: pip install "butfor[{extra}]".'
            )
    loaded: Any = import_module(module)
    for part in name.split("."):
        loaded = getattr(loaded, part)
    return loaded

"""Things by where they are, "module:attribute": loaded when they are asked for, so that nothing heavy is before."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

from butfor.errors import EngineError

NETWORK = "butfor.mlp."
"""Modules that need torch, which not everybody has."""


def load(path: str) -> Any:
    """What stands at "module:attribute"."""
    module, _, name = path.partition(":")
    if module.startswith(NETWORK):
        need("torch")
    if module == "butfor.mlp.fused":
        need("numba")
    return getattr(import_module(module), name)


def installed(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ImportError:
        return False


def need(package: str) -> None:
    """One sentence where a package of the extra `net` is not installed."""
    if not installed(package):
        raise EngineError(f'The network needs {package}, which is not installed: pip install "butfor[net]".')

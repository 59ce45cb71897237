"""butfor: which few training labels, had they been the other way, would have made the retrained
network decide otherwise about this person?

The public names are below. They are imported when first used, so that `import butfor` loads
neither torch, numba nor matplotlib.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOMES = {
    "LabelAudit": "butfor.audit",
    "MLP": "butfor.learn.mlp",
    "Population": "butfor.population",
    "TableEncoder": "butfor.encode",
    "Verdict": "butfor.verdict",
    "load_dataset": "butfor.data",
}
_MODULES = ("errors", "rank", "rules")

__all__ = [
    "MLP",
    "LabelAudit",
    "Population",
    "TableEncoder",
    "Verdict",
    "errors",
    "load_dataset",
    "rank",
    "rules",
]

if TYPE_CHECKING:
    from butfor import errors, rank, rules
    from butfor.audit import LabelAudit
    from butfor.data import load_dataset
    from butfor.encode import TableEncoder
    from butfor.learn.mlp import MLP
    from butfor.population import Population
    from butfor.verdict import Verdict


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"butfor.{name}")
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'butfor' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])

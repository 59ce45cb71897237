"""butfor audits training labels: was a group labelled by another standard, whose decisions change
because of it, and on which few labels does a decision hinge?

Public names are imported when first used; `import butfor` loads neither pandas nor torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from butfor._version import __version__ as __version__

if TYPE_CHECKING:  # the same names for type checkers and editors
    from butfor import errors as errors
    from butfor import rank as rank
    from butfor import rules as rules
    from butfor import search as search
    from butfor import standard as standard
    from butfor.audit import LabelAudit as LabelAudit
    from butfor.data import DATASETS as DATASETS
    from butfor.data import load_dataset as load_dataset
    from butfor.data.check import check_table as check_table
    from butfor.encode import TableEncoder as TableEncoder
    from butfor.models.learner import Engine as Engine
    from butfor.models.learner import Learner as Learner
    from butfor.models.learner import Model as Model
    from butfor.models.learner import Table as Table
    from butfor.models.learner import Training as Training
    from butfor.models.network import MLP as MLP
    from butfor.models.robust import PartitionEnsemble as PartitionEnsemble
    from butfor.models.robust import ThresholdedRegressor as ThresholdedRegressor
    from butfor.rank import Ranking as Ranking
    from butfor.result.population import Population as Population
    from butfor.result.verdict import Verdict as Verdict
    from butfor.review.replay import replay as replay
    from butfor.standard.compare import compare_standards as compare_standards
    from butfor.standard.groups import Standards as Standards
    from butfor.stopping import max_retrainings as max_retrainings
    from butfor.stopping import max_seconds as max_seconds

_MODULES = ("errors", "rank", "rules", "search", "standard")
_HOMES = {
    "audit": ("LabelAudit",),
    "data": ("DATASETS", "load_dataset"),
    "data.check": ("check_table",),
    "encode": ("TableEncoder",),
    "models.robust": ("PartitionEnsemble", "ThresholdedRegressor"),
    "models.learner": ("Engine", "Learner", "Model", "Table", "Training"),
    "models.network": ("MLP",),
    "rank": ("Ranking",),
    "result.population": ("Population",),
    "result.verdict": ("Verdict",),
    "review.replay": ("replay",),
    "standard.groups": ("Standards",),
    "standard.compare": ("compare_standards",),
    "stopping": ("max_retrainings", "max_seconds"),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}
__all__ = [*_MODULES, *_HOME]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"butfor.{name}")
    if name in _HOME:
        from butfor.machine import load

        return load(f"butfor.{_HOME[name]}:{name}")
    raise AttributeError(f"module 'butfor' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])

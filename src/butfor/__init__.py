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
    from butfor.models.network import MLP as MLP
    from butfor.models.partition import PartitionEnsemble as PartitionEnsemble
    from butfor.models.seam import Engine as Engine
    from butfor.models.seam import Learner as Learner
    from butfor.models.seam import Model as Model
    from butfor.models.seam import Training as Training
    from butfor.models.thresholded import ThresholdedRegressor as ThresholdedRegressor
    from butfor.result.population import Population as Population
    from butfor.result.verdict import Verdict as Verdict
    from butfor.review.replay import replay as replay
    from butfor.search.rankings import Ranking as Ranking
    from butfor.standard.compare import compare_standards as compare_standards
    from butfor.standard.groups import Standards as Standards
    from butfor.support.stopping import max_retrainings as max_retrainings
    from butfor.support.stopping import max_seconds as max_seconds
    from butfor.table.checking import check_table as check_table
    from butfor.table.embedded import DATASETS as DATASETS
    from butfor.table.embedded import load_dataset as load_dataset
    from butfor.table.encoding import TableEncoder as TableEncoder
    from butfor.table.table import Table as Table

_MODULES = ("errors", "rank", "rules", "search", "standard")
_HOMES = {
    "audit": ("LabelAudit",),
    "models.network": ("MLP",),
    "models.partition": ("PartitionEnsemble",),
    "models.seam": ("Engine", "Learner", "Model", "Training"),
    "models.thresholded": ("ThresholdedRegressor",),
    "result.population": ("Population",),
    "result.verdict": ("Verdict",),
    "review.replay": ("replay",),
    "search.rankings": ("Ranking",),
    "standard.compare": ("compare_standards",),
    "standard.groups": ("Standards",),
    "support.stopping": ("max_retrainings", "max_seconds"),
    "table.checking": ("check_table",),
    "table.embedded": ("DATASETS", "load_dataset"),
    "table.encoding": ("TableEncoder",),
    "table.table": ("Table",),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}
__all__ = [*_MODULES, *_HOME]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"butfor.{name}")
    if name in _HOME:
        from butfor.support.optional import load

        return load(f"butfor.{_HOME[name]}:{name}")
    raise AttributeError(f"module 'butfor' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])

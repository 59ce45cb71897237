"""butfor: which few training labels, had they been the other way, would have made the retrained
model decide otherwise about this person?

The public names are below. They are imported when first used, so that `import butfor` loads
neither torch, numba nor matplotlib.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.2.0"

_HOMES = {
    "DATASETS": "butfor.data",
    "DaskEngine": "butfor.learn.dask_engine",
    "Engine": "butfor.seam",
    "FusedEngine": "butfor.mlp.fused",
    "GuidedSearch": "butfor.search",
    "JoblibEngine": "butfor.learn.joblib_engine",
    "LabelAudit": "butfor.audit",
    "Learner": "butfor.seam",
    "MLP": "butfor.mlp.mlp",
    "Model": "butfor.seam",
    "PartitionEnsemble": "butfor.learn.partition",
    "Population": "butfor.result.population",
    "Protocol": "butfor.search",
    "Ranking": "butfor.rank",
    "StackedEngine": "butfor.mlp.stacked",
    "Table": "butfor.seam",
    "TableEncoder": "butfor.encode",
    "ThresholdedRegressor": "butfor.learn.thresholded",
    "Training": "butfor.seam",
    "Verdict": "butfor.result.verdict",
    "check_table": "butfor.data.check",
    "load_dataset": "butfor.data",
    "replay": "butfor.result.replay",
}
_MODULES = ("errors", "rank", "rules", "search")

__all__ = [
    "DATASETS",
    "MLP",
    "DaskEngine",
    "Engine",
    "FusedEngine",
    "GuidedSearch",
    "JoblibEngine",
    "LabelAudit",
    "Learner",
    "Model",
    "PartitionEnsemble",
    "Population",
    "Protocol",
    "Ranking",
    "StackedEngine",
    "Table",
    "TableEncoder",
    "ThresholdedRegressor",
    "Training",
    "Verdict",
    "check_table",
    "errors",
    "load_dataset",
    "rank",
    "replay",
    "rules",
    "search",
]

if TYPE_CHECKING:
    from butfor import errors, rank, rules, search
    from butfor.audit import LabelAudit
    from butfor.data import DATASETS, load_dataset
    from butfor.data.check import check_table
    from butfor.encode import TableEncoder
    from butfor.learn.dask_engine import DaskEngine
    from butfor.learn.joblib_engine import JoblibEngine
    from butfor.learn.partition import PartitionEnsemble
    from butfor.learn.thresholded import ThresholdedRegressor
    from butfor.mlp.fused import FusedEngine
    from butfor.mlp.mlp import MLP
    from butfor.mlp.stacked import StackedEngine
    from butfor.rank import Ranking
    from butfor.result.population import Population
    from butfor.result.replay import replay
    from butfor.result.verdict import Verdict
    from butfor.seam import Engine, Learner, Model, Table, Training
    from butfor.search import GuidedSearch, Protocol


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"butfor.{name}")
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'butfor' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])

"""Engines by their names: what trains many flip sets of a learner, and its own `fit` for every
other learner."""

from __future__ import annotations

import atexit
import logging
import re
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any

import pandas as pd

from butfor.models import linear_engine
from butfor.models.ensemble import Ensemble, EnsembleModel, single_learner
from butfor.models.own_fit import OwnFit, bind
from butfor.models.seam import (
    UNKNOWN_MICROSECONDS,
    Advance,
    Bound,
    Engine,
    Learner,
    Model,
    Training,
)
from butfor.models.steps import steps_of
from butfor.models.workers import DaskWorkers, OnWorkers, Workers, own_fit
from butfor.support.cores import available_cores, check_n_jobs
from butfor.support.errors import EngineError, SettingError, nearest
from butfor.support.optional import load
from butfor.table.table import Table

KINDS = {"fused": "mlp", "stacked": "mlp", "linear": "sklearn", "boosting": "sklearn"}
"""The kind of learner that an engine trains; "joblib" trains all."""
NAMES = ("auto", *KINDS, "joblib")
CONNECT_SECONDS = 10.0
"""How long to wait for a scheduler."""
ENGINE_SHARE = 1 / 40
"""The share of the time of a network's own `fit` that a worker's best engine takes."""


def choose_engine(
    engine: str | Engine,
    learner: Learner,
    n_jobs: int | None = None,
    note: Callable[[str], None] = lambda line: None,
) -> Engine:
    """The engine by its name, or an `Engine` unchanged. "auto" is the fastest for the learner, for
    our network on the GPU if torch sees one. A device means the fastest engine there; a cluster is
    started once. If "auto" falls back to the model's own `fit` because a package is missing, `note`
    says so."""
    check_engine(engine, n_jobs)
    if not isinstance(engine, str):
        return engine
    if is_cluster(engine):
        return open_cluster(engine, n_jobs)
    if engine == "joblib":
        return OwnFit(n_jobs)
    learner = single_learner(learner)
    if learner.kind != KINDS.get(engine, learner.kind):
        raise SettingError(
            f"Engine '{engine}' does not train {learner.name}; use engine 'auto' or 'joblib'."
        )
    if learner.kind != "mlp":
        if engine not in (*NAMES, "cpu"):
            raise SettingError(
                f"{learner.name} trains on the CPU only; leave out engine '{engine}'."
            )
        if engine in ("auto", "cpu") and lacks_numba(learner):
            note(
                "Using engine 'joblib' for boosting. Engine 'boosting' is several times as fast: "
                'pip install "butfor[fast]".'
            )
        return Fastest("auto" if engine == "cpu" else engine, n_jobs)
    device = engine.replace("fused", "cpu")
    if engine in ("auto", "stacked"):
        import torch

        device = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        stacked = engine == "stacked" and device == "cpu"
        return load("butfor.models.network:NetworkEngine")(device, n_jobs, stacked)
    except EngineError as error:  # numba is not installed
        if engine not in ("auto", "cpu"):
            raise
        note(f"{error} Using engine 'joblib' instead, which is slower.")
        return OwnFit(n_jobs)


def lacks_numba(learner: Learner) -> bool:
    """Whether it is scikit-learn's histogram boosting, and numba, which its engine needs, is not
    installed."""
    if learner.kind != "sklearn" or find_spec("numba") is not None:
        return False
    from sklearn.ensemble import HistGradientBoostingClassifier

    final = steps_of(getattr(learner, "estimator", None))[-1]
    return isinstance(final, HistGradientBoostingClassifier)


def check_engine(engine: str | Engine, n_jobs: int | None = None) -> None:
    """Raise an error if there is no such engine or device, or if `n_jobs` is invalid."""
    if not isinstance(engine, str):
        if not isinstance(engine, Engine):
            raise SettingError(
                f"engine={engine!r} is neither an engine's name nor a butfor.Engine."
            )
    elif is_cluster(engine):
        local_workers(engine)
    elif engine.partition(":")[0] == "cuda":
        load("butfor.models.network:find_device")(engine)
    elif engine not in (*NAMES, "cpu"):
        raise SettingError(
            f"There is no engine '{engine}'. {nearest(engine, NAMES)} Or name a device (cuda) or "
            "a cluster (local:4)."
        )
    check_n_jobs(n_jobs)


def is_cluster(name: str) -> bool:
    """Whether it names worker processes here, or the address of a scheduler."""
    return name.partition(":")[0] == "local" or "://" in name


def local_workers(name: str) -> int | None:
    """The number of worker processes on this machine; None for the address of a scheduler."""
    if re.fullmatch(r"(tcp|tls)://.+:[0-9]+|(ucx|ucxx|ws|wss)://.+", name):
        return None
    local = re.fullmatch(r"local:([0-9]{1,8})", name)
    most = max(64, 4 * available_cores())
    if local is None or not 1 <= int(local[1]) <= most:
        raise SettingError(
            f"engine={name!r}: give local:4 for four worker processes here (from 1 to {most}), or "
            "a scheduler's address with host and port, such as tcp://scheduler:8786."
        )
    return int(local[1])


class Fastest(Engine):
    """What trains linear models and boosting faster than the learner's own `fit`, by its name, or
    "auto" for either."""

    def __init__(self, name: str, n_jobs: int | None = None) -> None:
        self.name = name
        self.n_jobs = check_n_jobs(n_jobs)

    def bind(self, learner: Learner, table: Table, people: pd.DataFrame) -> Bound | None:
        if learner.kind != "sklearn":
            return None
        bound = None
        if self.name in ("auto", "linear"):
            bound = linear_engine.bind(learner, table, people, self.n_jobs)
        compiles = self.name == "boosting" or (self.name == "auto" and find_spec("numba"))
        if bound is None and compiles:
            bound = load("butfor.models.boosting:bind")(learner, table, people, self.n_jobs)
        return bound


def fit_ensemble(
    ensemble: Ensemble,
    first: Model,
    table: Table,
    engine: str | Engine,
    n_jobs: int | None = None,
    advance: Advance | None = None,
) -> EnsembleModel:
    """The ensemble without flips, given its first member. Cluster workers train the others if the
    engine has any."""
    if isinstance(engine, str):
        engine = open_cluster(engine, n_jobs) if is_cluster(engine) else OwnFit(n_jobs)
    learner = ensemble.learner
    own = OwnFit(n_jobs, engine.workers)
    bound = OnWorkers(own, own_fit, learner, (table, None), learner.work(table))
    packed = bound.in_order([Training((), seed) for seed in ensemble.seeds[1:]], advance)
    return EnsembleModel((first, *(learner.unpack(model, table) for model in packed)))


# --- clusters -------------------------------------------------------------------------------------


class ClusterEngine(OwnFit):
    """Trains on the given workers, each with its best engine."""

    name = "cluster"
    workers: Workers

    def bind(self, learner: Learner, table: Table, people: pd.DataFrame) -> Bound:
        if learner.kind == "mlp":
            return OnWorkers(
                self, best_engine, learner, (table, people), learner.work(table) * ENGINE_SHARE
            )
        # Linear models, thousands per second, are trained here: sending them would take longer.
        linear = Fastest("linear", 1).bind(learner, table, people)
        return linear or super().bind(learner, table, people)

    def spread(self, function: Callable[..., Any], shared: Any, parts: Sequence[Any]) -> list[Any]:
        return OnWorkers(self, _calls, function, shared, UNKNOWN_MICROSECONDS).in_order(parts)


def _calls(function: Callable[[Any, Any], Any], shared: Any) -> Any:
    return lambda parts: [function(shared, part) for part in parts], 1


def best_engine(learner: Learner, data: tuple[Table, pd.DataFrame]) -> Any:
    """In a worker: what trains with its best engine, and how many models it prefers to train side
    by side."""
    train = bind(choose_engine("auto", learner, n_jobs=1), learner, *data, n_jobs=1)
    train([])
    return lambda trainings: list(train(trainings)), train.width


_opened: dict[tuple[str, int | None], Any] = {}


def open_cluster(name: str, n_jobs: int | None = None) -> ClusterEngine:
    """The engine for `local:4`, four processes of this machine, or for the scheduler at
    `tcp://scheduler:8786`, which stays connected until this process ends."""
    processes = local_workers(name)
    if processes is not None:
        return ClusterEngine(n_jobs, Workers(processes, always=True))
    opened = _opened.get((name, n_jobs))
    if opened is not None and opened.workers.client.status == "running":
        return opened
    try:
        import distributed
    except ImportError as error:
        raise EngineError(
            f'Engine {name} needs Dask ({error}): pip install "butfor[dask]".'
        ) from error

    # One sentence says what ended the work; Dask's own lines are hidden unless this logger is set.
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    try:
        client = distributed.Client(name, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError, TypeError, ImportError) as error:
        raise EngineError(
            f"engine={name!r}: no scheduler answers there within {CONNECT_SECONDS:.0f} seconds "
            f"({type(error).__name__}). Start one (dask scheduler) and give the address that it "
            "prints."
        ) from error
    atexit.register(client.close, timeout=2)
    engine = _opened[name, n_jobs] = ClusterEngine(n_jobs, DaskWorkers(client))
    return engine

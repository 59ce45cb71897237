"""Engines on other processes and machines: each worker trains with its best engine, or with the learner's own `fit`.

The answers do not depend on the workers, even if some come, go or die; `workers.py` distributes the chunks.
"""

from __future__ import annotations

import atexit
import logging
import math
from collections.abc import Callable, Sequence
from copy import copy
from typing import Any

import numpy as np
import pandas as pd

from butfor.errors import EngineError, SettingError
from butfor.machine import check_n_jobs
from butfor.models.dask_workers import PATIENCE, DaskWorkers
from butfor.models.engines import NAMES, choose_engine, engine_named, is_device, local_workers
from butfor.models.joblib_engine import JoblibEngine, WorkersBound
from butfor.models.learner import Advance, Bound, Learner, Table, bind
from butfor.models.workers import Pace, Workers, in_order

CONNECT = 10.0
"""Seconds to wait for a scheduler."""


class ClusterEngine(JoblibEngine):
    """Trains on the workers of joblib's configuration (`joblib.parallel_config`): processes, unless told otherwise.

    Parameters
    ----------
    engine : str, default="auto"
        What trains on each worker: the name of an engine or a device. "auto" is the worker's best.
    n_jobs : int, optional
        How many trainings the search plans ahead; by default the number of cores of this machine.
    """

    name = "cluster"

    def __init__(self, engine: str = "auto", n_jobs: int | None = None, *, workers: Workers | None = None) -> None:
        if engine not in NAMES and not is_device(engine):
            raise SettingError(f"engine={engine!r}: name the workers' engine, or 'auto' for the best of each.")
        self.n_jobs, self.engine = check_n_jobs(n_jobs), engine
        self.device = engine if is_device(engine) else "cpu"
        self.workers = workers or Workers(self.n_jobs)

    @property
    def own_fit(self) -> ClusterEngine:
        other = copy(self)
        other.engine = "joblib"
        return other

    def accepts(self, learner: Learner) -> bool:
        named = "stacked" if is_device(self.engine) and self.engine != "cpu" else self.engine
        return named in ("auto", "joblib", "cpu", *learner.engines)

    def bind(self, learner: Learner, table: Table, people: pd.DataFrame) -> Bound:
        engines = learner.engines
        if "linear" in engines and self.engine in ("auto", "linear"):
            # Thousands per second: sending them would take longer. Workers only run the estimator's own `fit`.
            here: Bound | None = engine_named("linear").bind_here(learner, table, people)
            if here is not None:
                return here
        fast = () if self.engine == "joblib" or "fused" not in engines else (self.engine, fast_answers)
        bound = WorkersBound(self.workers, (learner, table, people), self.name, *fast)
        bound.width, bound.device = self.n_jobs, self.device
        return bound

    def spread(
        self, function: Callable[..., Any], shared: Any, parts: Sequence[Any], advance: Advance | None = None
    ) -> list[Any]:
        sent = self.workers.send(function, shared)
        return in_order(self.workers.run(calls, [sent], parts, Pace(math.inf), advance), len(parts))


class DaskEngine(ClusterEngine):
    """Trains on a Dask cluster.

    Parameters
    ----------
    client : distributed.Client
        The connection to the cluster.
    engine, n_jobs : optional
        As for `ClusterEngine`.
    patience : float, optional
        Seconds to wait for a worker if there is none.
    """

    def __init__(
        self, client: Any, engine: str = "auto", n_jobs: int | None = None, patience: float = PATIENCE
    ) -> None:
        if not hasattr(client, "scheduler_info"):
            raise SettingError(f"DaskEngine({client!r}): give a distributed.Client.")
        super().__init__(engine, n_jobs, workers=Workers(1, DaskWorkers(client, patience)))
        self.client = client

    def __deepcopy__(self, memo: Any) -> DaskEngine:
        """scikit-learn clones an audit with its parameters; there is one cluster."""
        return self


def fast_answers(subject: tuple[Learner, Table], asked: tuple[str, pd.DataFrame]) -> Any:
    """In a worker: a function that trains with this worker's best engine, and its preferred width."""
    (learner, table), (engine, people) = subject, asked
    train = bind(choose_engine(engine, learner, n_jobs=1), learner, table, people)
    train([])
    return lambda trainings: np.asarray(train(trainings), np.float32), train.width


def calls(call: tuple[Callable[..., Any], Any]) -> Any:
    """In a worker: a function that calls `function(shared, part)` for each part."""
    function, shared = call
    return lambda parts: [function(shared, part) for part in parts], 1


_opened: dict[tuple[str, int | None], ClusterEngine] = {}


def open_cluster(name: str, n_jobs: int | None = None) -> ClusterEngine:
    """The engine for `local:4`, four processes of this machine, or for the scheduler at `tcp://scheduler:8786`, which
    stays connected until this process ends."""
    workers, found = local_workers(name), _opened.get((name, n_jobs))
    if workers is not None:
        return found or _opened.setdefault((name, n_jobs), ClusterEngine(n_jobs=n_jobs, workers=Workers(workers)))
    if isinstance(found, DaskEngine) and found.client.status == "running":
        return found
    try:
        import distributed
    except ImportError as error:
        raise EngineError(f'Engine {name} needs Dask ({error}): pip install "butfor[dask]".') from error

    # One sentence says what ended the work; Dask's own lines are hidden unless this logger is set.
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    try:
        client = distributed.Client(name, timeout=CONNECT, set_as_default=False)
    except (OSError, ValueError, TypeError, ImportError) as error:
        raise EngineError(
            f"--engine {name}: no scheduler answers there within {CONNECT:.0f} seconds ({type(error).__name__}). Start "
            "one (dask scheduler) and give the address that it prints."
        ) from error
    atexit.register(client.close, timeout=2)
    _opened[name, n_jobs] = engine = DaskEngine(client, n_jobs=n_jobs)
    return engine

"""Engines on other processes and machines: each worker trains with its best engine, or with the learner's own `fit`.

The answers are the same wherever they are trained, whoever comes, goes or dies; `workers.py` has the chunks done.
"""

from __future__ import annotations

import atexit
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from copy import copy
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd

from butfor.errors import EngineError, SettingError
from butfor.learn.capabilities import Cluster, engines_of
from butfor.learn.dask_backend import PATIENCE, DaskBackend
from butfor.learn.engines import NAMES, choose_engine, engine_named, is_device, local_workers
from butfor.learn.joblib_engine import JoblibEngine
from butfor.learn.protocols import Advance, Bound, Floats, Learner, Table, Training, bind
from butfor.learn.workers import Pace, Workers
from butfor.machine import check_n_jobs

CONNECT = 10.0
"""Seconds in which a scheduler must answer."""


class ClusterEngine(JoblibEngine, Cluster):
    """Trains on the workers of joblib's configuration: `with joblib.parallel_config(backend="ray")`, say.

    `engine` names what trains there: an engine or a device; "auto" is each worker's best. `n_jobs`: how many trainings
    the search looks ahead, by default as many as this machine has cores, whatever the cluster has."""

    name = "cluster"

    def __init__(self, engine: str = "auto", n_jobs: int | None = None, *, workers: Workers | None = None) -> None:
        if engine not in NAMES and not is_device(engine):
            raise SettingError(f"engine={engine!r}: name the workers' engine; 'auto' is the best of each.")
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
        return named in ("auto", "joblib", "cpu", *engines_of(learner))

    def bind(self, learner: Learner, table: Table, people: pd.DataFrame) -> Bound:
        engines = engines_of(learner)
        if "linear" in engines and self.engine in ("auto", "linear"):
            # Thousands a second: the way to a worker would take longer. Only the estimator's own fit travels.
            bound: Bound | None = engine_named("linear").bind_here(learner, table, people)
            if bound is not None:
                return bound
        if self.engine == "joblib" or "fused" not in engines:
            return super().bind(learner, table, people)
        return _Bound(self, learner, table, people)

    def spread(
        self, function: Callable[..., Any], shared: Any, parts: Sequence[Any], advance: Advance | None = None
    ) -> list[Any]:
        return self.workers.collect(calls, [self.workers.send(function, shared)], parts, Pace(most=1), advance)


class DaskEngine(ClusterEngine):
    """The same on the workers of `client`, a `distributed.Client`. `patience`: seconds to wait for a worker where there
    is none."""

    name = "dask"

    def __init__(
        self, client: Any, engine: str = "auto", n_jobs: int | None = None, patience: float = PATIENCE
    ) -> None:
        if not hasattr(client, "scheduler_info"):
            raise SettingError(f"DaskEngine({client!r}): give a distributed.Client.")
        super().__init__(engine, n_jobs, workers=Workers(1, DaskBackend(client, patience)))
        self.client = client

    def __deepcopy__(self, memo: Any) -> DaskEngine:
        """scikit-learn clones an audit with its parameters; there is one cluster."""
        return self


class _Bound(Bound):
    """A network, and the people to ask it about."""

    def __init__(self, engine: ClusterEngine, learner: Learner, table: Table, people: pd.DataFrame) -> None:
        self.name, self.device, self.width = engine.name, engine.device, engine.n_jobs
        self._workers, self._answers, self._pace = engine.workers, len(people) * table.outputs, Pace()
        self._shared = [engine.workers.subject(learner, table), engine.workers.send(engine.engine, people)]

    @property
    def at_once(self) -> int:
        return self._workers.count

    def __call__(self, trainings: Sequence[Training], advance: Advance | None = None) -> Floats:
        found = np.empty((len(trainings), self._answers), np.float32)
        run = self._workers.run(fast_answers, self._shared, trainings, self._pace, advance)
        with closing(run) as pieces:
            for chunk, answers in pieces:
                found[chunk.start : chunk.stop] = answers
        return found

    def pieces(
        self, trainings: Sequence[Training], advance: Advance | None = None, size: int = 0
    ) -> Iterator[tuple[range, Floats]]:
        return self._workers.run(fast_answers, self._shared, trainings, self._pace, advance)


def fast_answers(subject: tuple[Learner, Table], asked: tuple[str, pd.DataFrame]) -> Any:
    """In a worker: what each trained model says about the people, `[trainings × people]`, by the best engine here."""
    (learner, table), (engine, people) = subject, asked
    train = bind(choose_engine(engine, learner, n_jobs=1), learner, table, people)
    train([])
    return lambda trainings: np.asarray(train(trainings), np.float32), train.width


def calls(call: tuple[Callable[..., Any], Any]) -> Any:
    """In a worker: a function of what is shared and of each part."""
    function, shared = call
    return lambda parts: [function(shared, part) for part in parts], 1


# --- a cluster by its name --------------------------------------------------------------------------


@lru_cache
def open_cluster(name: str, n_jobs: int | None = None) -> ClusterEngine:
    """The engine on that cluster, connected once and left with this process."""
    stack = ExitStack()
    engine = stack.enter_context(cluster_engine(name, n_jobs))
    atexit.register(stack.close)
    return engine


@contextmanager
def cluster_engine(name: str, n_jobs: int | None = None, engine: str = "auto") -> Iterator[ClusterEngine]:
    """The engine for `local:4`, so many processes here, or for the scheduler at `tcp://scheduler:8786`. `engine`: what
    trains there."""
    workers = local_workers(name)
    if workers is not None:
        yield ClusterEngine(engine, n_jobs, workers=Workers(workers))
        return
    try:
        import distributed
    except ImportError as error:
        raise EngineError(f'Engine {name} needs Dask ({error}): pip install "butfor[dask]".') from error

    # What ends the work is said in one sentence; Dask's own lines about it are for those who set this logger.
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    try:
        client = distributed.Client(name, timeout=CONNECT, set_as_default=False)
    except (OSError, ValueError, TypeError, ImportError) as error:
        raise EngineError(
            f"--engine {name}: no scheduler answers there within {CONNECT:.0f} seconds ({type(error).__name__}); start "
            "one (dask scheduler) and give the address that it prints."
        ) from error
    try:
        yield DaskEngine(client, engine, n_jobs)
    finally:
        client.close(timeout=2)

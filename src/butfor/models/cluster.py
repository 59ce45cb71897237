"""Training on the workers of a cluster: processes of this machine, or a Dask scheduler's workers.

Each worker trains with its best engine, or with the learner's own `fit`. The answers do not depend on the workers, even
if some come, go or die: shared data is the result of a task, which Dask computes again, and so are chunks of work.
Joblib's own backend for Dask (1.6) waits for ever once a task has killed several workers, and loses data with the
worker that held it.
"""

from __future__ import annotations

import atexit
import logging
import os
import pickle
import queue
import time
import uuid
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import Any

import pandas as pd

from butfor import stopping
from butfor._version import __version__
from butfor.errors import ButforError, EngineError
from butfor.machine import in_worker
from butfor.models.engines import (
    LOST,
    Fastest,
    OnWorkers,
    OwnFit,
    Prepare,
    Sent,
    Workers,
    bind,
    by_value,
    choose_engine,
    local_workers,
    run_chunk,
)
from butfor.models.learner import Advance, Bound, Learner, Table

CONNECT = 10.0
"""Seconds to wait for a scheduler."""
PATIENCE = 60.0
"""Seconds to wait for a worker if there is none."""
POLL = 0.5
"""Seconds between checks of the cluster and for interruptions."""
FASTER = 1 / 40
"""The share of the time of a network's own `fit` that a worker's best engine takes."""


class ClusterEngine(OwnFit):
    """Trains on the given workers, each with its best engine."""

    name = "cluster"
    workers: Workers

    def bind(self, learner: Learner, table: Table, people: pd.DataFrame) -> Bound:
        if learner.kind == "mlp":
            each = (learner.work(table) or 0.0) * FASTER
            return OnWorkers(self, best_engine, learner, (table, people), each)
        # Linear models, thousands per second, are trained here: sending them would take longer.
        here = Fastest("linear", 1).bind(learner, table, people)
        return super().bind(learner, table, people) if here.by_definition else here

    def spread(
        self, function: Callable[..., Any], shared: Any, parts: Sequence[Any], advance: Advance | None = None
    ) -> list[Any]:
        return OnWorkers(self, _calls, function, shared, None).in_order(parts, advance)


def _calls(function: Callable[[Any, Any], Any], shared: Any) -> Any:
    return lambda parts: [function(shared, part) for part in parts], 1


def best_engine(learner: Learner, data: tuple[Table, pd.DataFrame]) -> Any:
    """In a worker: what trains with its best engine, and how many models it prefers to train side by side."""
    train = bind(choose_engine("auto", learner, n_jobs=1), learner, *data)
    train([])
    return lambda trainings: list(train(trainings)), train.width


_opened: dict[tuple[str, int | None], Any] = {}


def open_cluster(name: str, n_jobs: int | None = None) -> ClusterEngine:
    """The engine for `local:4`, four processes of this machine, or for the scheduler at `tcp://scheduler:8786`, which
    stays connected until this process ends."""
    if (processes := local_workers(name)) is not None:
        return ClusterEngine(n_jobs, Workers(processes, always=True))
    if (opened := _opened.get((name, n_jobs))) is not None and opened.workers.client.status == "running":
        return opened
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
            f"engine={name!r}: no scheduler answers there within {CONNECT:.0f} seconds ({type(error).__name__}). Start "
            "one (dask scheduler) and give the address that it prints."
        ) from error
    atexit.register(client.close, timeout=2)
    engine = _opened[name, n_jobs] = ClusterEngine(n_jobs, DaskWorkers(client))
    return engine


class DaskWorkers(Workers):
    """The workers of a Dask client; all work goes to them."""

    def __init__(self, client: Any) -> None:
        super().__init__(1, always=True)
        self.client = client
        self.address = client.scheduler.address if client.scheduler else "its address"

    @property
    def count(self) -> int:
        """The threads of all workers; waits until there is one."""
        had_workers = time.monotonic()
        while not (threads := self._threads(had_workers)):
            stopping.check()
            time.sleep(POLL)
        return threads

    def send(self, prepare: Prepare, code: Any, data: Any) -> Any:
        sent = partial(pickle.loads, by_value((prepare, code, data)))
        return self._submit(Sent, uuid.uuid4().hex, sent)

    def replies(self, chunks: Iterator[tuple[Any, ...]]) -> Iterator[Any]:
        most, under_way = 2 * self.count, set[Any]()
        ended: queue.Queue[Any] = queue.Queue()
        had_workers = time.monotonic()
        try:
            while True:
                for chunk in islice(chunks, most - len(under_way)):
                    under_way.add(future := self._submit(in_worker, os.getpid(), run_chunk, *chunk))
                    future.add_done_callback(ended.put)
                if not under_way:
                    return
                stopping.check()
                try:
                    future = ended.get(timeout=POLL)
                except queue.Empty:
                    had_workers = time.monotonic() if self._threads(had_workers) else had_workers
                    continue
                under_way.discard(future)
                try:
                    reply = future.result()
                except Exception as error:  # from the cluster or from the user's own code
                    raise self._sentence(error) from error
                yield reply
        finally:
            if under_way and self.client.status == "running":
                with suppress(Exception):  # the first error is the one to report
                    self.client.cancel(list(under_way), force=True)

    def _submit(self, function: Callable[..., Any], *given: Any) -> Any:
        """The future of a call on a worker."""
        try:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", message="Sending large graph")
                return self.client.submit(function, *given, key=f"butfor-{uuid.uuid4().hex}", pure=False)
        except Exception as error:  # a connection that ends may raise anything
            raise self._sentence(error) from error

    def _threads(self, had_workers: float) -> int:
        """The workers' threads now; an error if there have been none for too long."""
        try:
            threads = sum(self.client.nthreads().values())
        except Exception as error:  # a connection that ends may raise anything
            raise self._sentence(error) from error
        if not threads and time.monotonic() > had_workers + PATIENCE:
            raise EngineError(
                f"The scheduler at {self.address} has had no worker for {PATIENCE:.0f} seconds; start some "
                f"(dask worker {self.address}) and try again, with the same ledger if one was given."
            )
        return threads

    def _sentence(self, error: Exception) -> ButforError:
        from distributed import KilledWorker
        from distributed.comm.core import CommClosedError

        if isinstance(error, ButforError):
            return error
        if isinstance(error, KilledWorker):
            return EngineError(LOST)
        if isinstance(error, CommClosedError) or self.client.status != "running":
            return EngineError(
                f"The scheduler at {self.address} is gone. What was trained is in the ledger, if one was given: start "
                "the cluster again and repeat the command with the same ledger."
            )
        reason = f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0] or 'no reason given'}"
        return EngineError(
            f"A worker could not train ({reason}). It needs butfor {__version__} and the packages that the model "
            "imports."
        )

"""An audit on a Dask cluster: the same answers whatever the cluster, whoever comes, goes or dies.

Learner, table and people travel once, as the result of a task: Dask makes it again where its worker died. Trainings
follow in chunks, sized by how long they take, a few per thread at a time; Dask repeats those whose worker died.
"""

from __future__ import annotations

import atexit
import logging
import math
import os
import pickle
import queue
import signal
import time
import uuid
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from copy import copy
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd

from butfor import stopping
from butfor.errors import ButforError, EngineError, SettingError
from butfor.learn.capabilities import Cluster, OwnFit, engines_of
from butfor.learn.dask_worker import (
    SAME,
    Packed,
    Work,
    answers,
    calls,
    models,
    run_chunk,
    version_difference,
    versions_here,
)
from butfor.learn.engines import NAMES, engine_named, is_device, local_workers
from butfor.learn.protocols import Advance, Bound, Floats, Learner, Table, Training
from butfor.machine import check_n_jobs

LEAST_SECONDS, MOST_SECONDS = 0.25, 5.0
"""What a chunk is meant to take: long enough to pay for its way, short enough to lose with its worker."""
FIRST = 4
"""Items of a chunk before anybody knows how long one takes."""
AHEAD = 2
"""Chunks under way per thread: the next one waits where the last is being done."""
POLL = 1.0
"""Seconds without news after which the cluster is looked at."""
MOST_SUBJECTS = 4
"""Learners with their tables that stay on the workers."""
CONNECT, START = 10.0, 120.0
"""Seconds in which a scheduler must answer, and in which the first worker process of this machine must be up."""
SETTINGS = {
    # Deaths of workers that a chunk survives on our own scheduler.
    "distributed.scheduler.allowed-failures": 100,
    # A worker that is away for so long is given up, with what would start it again; on a busy machine, or killed again
    # in the meantime, it may take longer to come back than Dask's 15 seconds.
    "distributed.deploy.lost-worker-timeout": "7 days",
}
IGNORE_CTRL_C = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)"
"""What a worker process does first: Ctrl-C on a terminal reaches it too, but whoever asked decides what ends."""


class Pace:
    """How long an item takes, as far as is known, and so how many make a chunk: a quarter of what is left for each
    thread, so that all end together. On a GPU hundreds take as long as one: a chunk has at least as many as a worker
    does side by side, and one much larger than those before tells more."""

    def __init__(self, most: int | None = None) -> None:
        self.each: float | None = None
        self.most = most
        self._at_once, self._largest = 1, 0

    def observe(self, items: int, seconds: float, at_once: int = 1) -> None:
        each = seconds / items
        self.each = each if self.each is None or items > 2 * self._largest else (self.each + each) / 2
        self._at_once, self._largest = max(self._at_once, at_once), max(self._largest, items)

    def size(self, left: int, threads: int) -> int:
        share = min(math.ceil(left / threads), self.most or left)
        if self.each is None:
            return min(FIRST, share)
        seconds = min(max(share * self.each / 4, LEAST_SECONDS), MOST_SECONDS)
        return max(1, min(share, max(self._at_once, round(seconds / max(self.each, 1e-9)))))


class DaskEngine(OwnFit, Cluster):
    """Trains on the workers of `client`, a `distributed.Client`.

    `engine` names what trains there: an engine or a device; "auto" is each worker's best. `n_jobs`: how many trainings
    the search looks ahead, by default as many as this machine has cores, whatever the cluster has. `patience`: seconds
    to wait for a worker where there is none."""

    name = "dask"

    def __init__(self, client: Any, engine: str = "auto", n_jobs: int | None = None, patience: float = 60.0) -> None:
        if not hasattr(client, "scheduler_info"):
            raise SettingError(f"DaskEngine({client!r}): give a distributed.Client.")
        if engine not in NAMES and not is_device(engine):
            raise SettingError(f"engine={engine!r}: name the workers' engine; 'auto' is the best of each.")
        self.client, self.engine, self.patience = client, engine, patience
        self.n_jobs = check_n_jobs(n_jobs)
        self.device = engine if is_device(engine) else "cpu"
        self.address = client.scheduler.address if client.scheduler else "its address"
        self._subjects: OrderedDict[tuple[int, int], tuple[Learner, Table, Any]] = OrderedDict()
        self._paces: dict[tuple[str, int, int], Pace] = {}
        self._threads, self._counted, self._had_workers = 0, -math.inf, -math.inf

    def __deepcopy__(self, memo: Any) -> DaskEngine:
        """scikit-learn clones an audit with its parameters; there is one cluster."""
        return self

    @property
    def threads(self) -> int:
        """Trainings that the cluster can do at a time now; looked up at most every POLL seconds."""
        if time.monotonic() - self._counted > POLL:
            self._count_threads()
        return max(1, self._threads)

    @property
    def own_fit(self) -> DaskEngine:
        if self.engine == "joblib":
            return self
        other = copy(self)
        other.engine = "joblib"
        return other

    def accepts(self, learner: Learner) -> bool:
        named = "stacked" if is_device(self.engine) and self.engine != "cpu" else self.engine
        return named in ("auto", "joblib", "cpu", *engines_of(learner))

    def bind(self, learner: Learner, table: Table, people: pd.DataFrame) -> Bound:
        engine, engines = self.engine, engines_of(learner)
        if "linear" in engines and engine in ("auto", "linear"):
            # Thousands a second: the way to a worker would take longer. Only the estimator's own fit travels.
            bound: Bound | None = engine_named("linear").bind_here(learner, table, people)
            if bound is not None:
                return bound
        if "fused" not in engines:
            engine = "joblib"
        self._check_versions()
        shared = [self._subject(learner, table), self._send((people, engine))]
        pace = self._paces.setdefault((engine, id(learner), id(table)), Pace())
        return _Bound(self, shared, len(people) * table.outputs, pace, engine == "joblib")

    def fit_models(
        self, learner: Learner, table: Table, seeds: Sequence[int | None], advance: Advance | None = None
    ) -> list[Any]:
        return self._collect(models, [self._subject(learner, table)], seeds, advance)

    def spread(
        self, function: Callable[..., Any], shared: Any, parts: Sequence[Any], advance: Advance | None = None
    ) -> list[Any]:
        return self._collect(calls, [self._send((function, shared))], parts, advance)

    def _collect(self, work: Work, shared: list[Any], items: Sequence[Any], advance: Advance | None) -> list[Any]:
        """What comes of the items, one at a time, in their order."""
        done: dict[int, Any] = {}
        for chunk, results in self.run(work, shared, items, Pace(most=1)):
            done.update(zip(chunk, results, strict=True))
            if advance:
                advance(len(chunk))
        return [done[k] for k in range(len(items))]

    def run(self, work: Work, shared: Sequence[Any], items: Sequence[Any], pace: Pace) -> Iterator[tuple[range, Any]]:
        """What comes of the items, chunk by chunk: which they were, and their results, in whatever order."""
        done: queue.SimpleQueue[Any] = queue.SimpleQueue()
        flying: dict[str, tuple[Any, range]] = {}
        start, wanted, self._had_workers = 0, versions_here(), time.monotonic()
        try:
            while start < len(items) or flying:
                while start < len(items) and len(flying) < AHEAD * self.threads:
                    chunk = range(start, start + pace.size(len(items) - start, self.threads))
                    packed = pickle.dumps(list(items[chunk.start : chunk.stop]))  # else Dask looks for futures in it
                    future = self._submit(run_chunk, work, packed, wanted, *shared)
                    flying[future.key], start = (future, chunk), chunk.stop
                    future.add_done_callback(done.put)
                try:
                    future = done.get(timeout=POLL)
                except queue.Empty:
                    stopping.check()
                    self._count_threads()
                    continue
                reply = self._outcome(future)
                if reply is None:
                    done.put(future)
                    continue
                _, chunk = flying.pop(future.key)
                future.release()
                result, seconds, at_once = reply
                pace.observe(len(chunk), seconds, at_once)
                yield chunk, result
        finally:
            if flying and self.client.status == "running":
                with suppress(Exception):  # it ends here anyway, and what ended it is being said
                    self.client.cancel([future for future, _ in flying.values()], force=True)

    def _submit(self, function: Callable[..., Any], *given: Any) -> Any:
        with self._connection():
            return self.client.submit(function, *given, key=f"butfor-{uuid.uuid4().hex}", pure=False)

    def _outcome(self, future: Any) -> tuple[Any, float, int] | None:
        """The reply; None where the worker that held it died, and Dask has it done again."""
        from distributed import KilledWorker

        try:
            reply: tuple[Any, float, int] = future.result(timeout=self.patience)
            return reply
        except ButforError:
            raise
        except TimeoutError:
            self._count_threads()
            return None
        except KilledWorker as error:
            raise EngineError(
                "A chunk of trainings took several workers down with it: is there too little memory where they run? "
                "What was trained before is in the ledger, if one was given."
            ) from error
        except Exception as error:  # the connection, or whatever the user's own code raises there
            if self.client.status != "running":
                raise self._scheduler_lost() from error
            raise EngineError(f"A worker could not train: {_describe_error(error)}") from error

    def _count_threads(self) -> None:
        """How many threads the workers have; refused where there has been none for too long."""
        with self._connection():
            if self.client.status != "running":
                raise self._scheduler_lost()
            self._threads, self._counted = sum(self.client.nthreads().values()), time.monotonic()
        if self._threads:
            self._had_workers = self._counted
        elif self._counted - self._had_workers > self.patience:
            raise EngineError(
                f"The scheduler at {self.address} has had no worker for {self.patience:.0f} seconds; start some "
                f"(dask worker {self.address}) and try again, with --ledger where something was trained."
            )

    def _check_versions(self) -> None:
        """Refuse the cluster where a worker has other versions; one that comes later says so itself."""
        with self._connection():
            workers = self.client.get_versions(packages=list(SAME))["workers"]
        for worker, has in workers.items():
            there = {package: found.partition("+")[0] for package, found in has["packages"].items() if found}
            sentence = version_difference(worker, versions_here(), there)
            if sentence:
                raise EngineError(sentence)

    def _subject(self, learner: Learner, table: Table) -> Any:
        """Sent once, however often it is bound."""
        key = (id(learner), id(table))
        if key not in self._subjects:
            sent = self._send((learner, replace(table, whole=None)))
            self._subjects[key] = learner, table, sent  # kept, so that nothing else gets their ids
            while len(self._subjects) > MOST_SUBJECTS:
                self._subjects.popitem(last=False)
        return self._subjects[key][2]

    def _send(self, thing: Any) -> Any:
        import cloudpickle

        # By value: classes and functions of a script or a notebook are not there to be imported on a worker.
        try:
            packed = cloudpickle.dumps(thing)
        except Exception as error:  # whatever the user's own objects raise
            raise EngineError(f"The model cannot be sent to workers: {_describe_error(error)}") from error
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Sending large graph")
            return self._submit(Packed, uuid.uuid4().hex, packed)

    @contextmanager
    def _connection(self) -> Iterator[None]:
        try:
            yield
        except ButforError:
            raise
        except Exception as error:  # whatever a connection that ends raises
            raise self._scheduler_lost() from error

    def _scheduler_lost(self) -> EngineError:
        return EngineError(
            f"The scheduler at {self.address} is gone. What was trained is in the ledger, if one was given: start the "
            "cluster again and repeat the command with the same --ledger (ledger=... in Python)."
        )


class _Bound(Bound):
    """One subject and the people asked about."""

    name = DaskEngine.name

    def __init__(self, engine: DaskEngine, shared: list[Any], people: int, pace: Pace, by_definition: bool) -> None:
        self._engine, self._shared, self._people, self._pace = engine, shared, people, pace
        self.by_definition, self.device, self.width = by_definition, engine.device, engine.n_jobs

    @property
    def at_once(self) -> int:
        return self._engine.threads

    def __call__(self, trainings: Sequence[Training], advance: Advance | None = None) -> Floats:
        found = np.empty((len(trainings), self._people), np.float32)
        for chunk, logits in self.pieces(trainings, advance):
            found[chunk.start : chunk.stop] = logits
        return found

    def pieces(
        self, trainings: Sequence[Training], advance: Advance | None = None, size: int = 0
    ) -> Iterator[tuple[range, Floats]]:
        for chunk, logits in self._engine.run(answers, self._shared, trainings, self._pace):
            if advance:
                advance(len(chunk))
            yield chunk, logits


def _describe_error(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else 'no reason given'}"


# --- a cluster by its name --------------------------------------------------------------------------


@lru_cache
def open_cluster(name: str, n_jobs: int | None = None) -> DaskEngine:
    """The engine on that cluster, started once and ended with this process."""
    stack = ExitStack()
    engine = stack.enter_context(cluster_engine(name, n_jobs))
    atexit.register(stack.close)
    return engine


@contextmanager
def cluster_engine(name: str, n_jobs: int | None = None, engine: str = "auto") -> Iterator[DaskEngine]:
    """The engine for `local:4`, worker processes here with one thread each, or for `tcp://scheduler:8786`. `engine`:
    what trains there."""
    workers = local_workers(name)
    try:
        import distributed
    except ImportError as error:
        raise EngineError(f'Engine {name} needs Dask ({error}): pip install "butfor[dask]".') from error

    # What ends the work is said in one sentence; Dask's own lines about it are for those who set this logger.
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    with ExitStack() as opened:
        address: Any = name if workers is None else opened.enter_context(_processes(workers))
        try:
            client = distributed.Client(
                address, timeout=CONNECT, set_as_default=False, direct_to_workers=workers is not None or None
            )  # answers of processes here need not go through the scheduler; elsewhere only it may be reachable
        except (OSError, ValueError, TypeError, ImportError) as error:
            raise EngineError(
                f"--engine {name}: no scheduler answers there within {CONNECT:.0f} seconds "
                f"({type(error).__name__}); start one (dask scheduler) and give the address that it prints."
            ) from error
        opened.callback(client.close, timeout=2)
        yield DaskEngine(client, engine, n_jobs, patience=60.0 if workers is None else START)


@contextmanager
def _processes(workers: int) -> Iterator[Any]:
    """So many worker processes with one thread each, and a scheduler in this process, all on this machine only."""
    import dask
    from distributed import LocalCluster

    with dask.config.set(SETTINGS):
        cluster = LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            processes=True,
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",
            memory_limit=0,
            silence_logs=logging.CRITICAL,
            preload=[IGNORE_CTRL_C],
        )
        try:
            yield cluster
        finally:
            # They hold nothing that anybody needs any longer; asked to close, they would first finish their chunk.
            for nanny in list(cluster.workers.values()):
                nanny.close_gracefully()  # not to be started again
                if nanny.pid is not None:
                    with suppress(ProcessLookupError):
                        os.kill(nanny.pid, getattr(signal, "SIGKILL", signal.SIGTERM))
            cluster.close(timeout=10)

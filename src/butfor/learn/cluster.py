"""A cluster by its name, as an engine: worker processes on this machine, or a scheduler that runs elsewhere."""

from __future__ import annotations

import atexit
import logging
import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Any

from butfor.errors import EngineError
from butfor.learn.engines import local_workers

if TYPE_CHECKING:
    from butfor.learn.dask_engine import DaskEngine

CONNECT = 10.0
"""Seconds in which a scheduler must answer."""
START = 120.0
"""Seconds in which the first worker process of this machine must be up."""
SETTINGS = {
    # Deaths of workers that a chunk survives on our own scheduler.
    "distributed.scheduler.allowed-failures": 100,
    # A worker that is away for so long is given up, with what would start it again; on a busy machine, or killed again
    # in the meantime, it may take longer to come back than Dask's 15 seconds.
    "distributed.deploy.lost-worker-timeout": "7 days",
}
IGNORE_CTRL_C = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)"
"""What a worker process does first: Ctrl-C on a terminal reaches it too, but whoever asked decides what ends."""

_open: dict[tuple[str, int | None], DaskEngine] = {}


def open_cluster(name: str, n_jobs: int | None = None) -> DaskEngine:
    """The engine on that cluster, started once and ended with this process."""
    if (name, n_jobs) not in _open:
        stack = ExitStack()
        _open[name, n_jobs] = stack.enter_context(cluster_engine(name, n_jobs))
        atexit.register(stack.close)
    return _open[name, n_jobs]


@contextmanager
def cluster_engine(name: str, n_jobs: int | None = None, engine: str = "auto") -> Iterator[DaskEngine]:
    """The engine for `local:4`, worker processes here with one thread each, or for `tcp://scheduler:8786`. `engine`:
    what trains there."""
    workers = local_workers(name)
    try:
        import distributed
    except ImportError as error:
        raise EngineError(f'Engine {name} needs Dask ({error}): pip install "butfor[dask]".') from error
    from butfor.learn.dask_engine import DaskEngine

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
            _end_workers(cluster)
            cluster.close(timeout=10)


def _end_workers(cluster: Any) -> None:
    """They hold nothing that anybody needs any longer; asked to close, they would first finish what Ctrl-C left."""
    for nanny in list(cluster.workers.values()):
        nanny.close_gracefully()  # not to be started again
        if nanny.pid is not None:
            with suppress(ProcessLookupError):
                os.kill(nanny.pid, getattr(signal, "SIGKILL", signal.SIGTERM))

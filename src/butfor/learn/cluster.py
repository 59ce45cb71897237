"""`--cluster`: worker processes on this machine, or a scheduler that runs elsewhere, as an engine."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Any

from butfor.errors import EngineError, SettingError
from butfor.learn.engines import check_engine
from butfor.machine import available_cores

if TYPE_CHECKING:
    from butfor.learn.dask_engine import DaskEngine

CONNECT = 10.0
"""Seconds in which a scheduler must answer."""
START = 120.0
"""Seconds in which the first worker process of this machine must be up."""
SCHEMES = ("tcp://", "tls://", "ucx://", "ucxx://", "ws://", "wss://")
LOST = "7 days"
FAILURES = 100
"""Deaths of workers that a chunk survives on our own scheduler."""


@contextmanager
def cluster_engine(
    given: str, engine: str = "auto", device: str | None = None, jobs: int | None = None
) -> Iterator[DaskEngine]:
    """The engine for `local:4`, worker processes here with one thread each, or for `tcp://scheduler:8786`."""
    workers = local_workers(given)
    check_engine(engine, jobs)
    try:
        import distributed
    except ImportError as error:
        raise EngineError(f'--cluster needs Dask ({error}): pip install "butfor[dask]".') from error
    from butfor.learn.dask_engine import DaskEngine

    # What ends the work is said in one sentence; Dask's own lines about it are for those who set this logger.
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    with ExitStack() as opened:
        if workers is not None:
            address: Any = opened.enter_context(_processes(workers))
        else:
            address = given
        try:
            client = distributed.Client(
                address, timeout=CONNECT, set_as_default=False, direct_to_workers=workers is not None or None
            )  # answers of processes here need not go through the scheduler; elsewhere only it may be reachable
        except (OSError, ValueError, TypeError, ImportError) as error:
            raise EngineError(
                f"--cluster {given}: no scheduler answers there within {CONNECT:.0f} seconds "
                f"({type(error).__name__}); start one (dask scheduler) and give the address that it prints."
            ) from error
        opened.callback(_close, client)
        yield DaskEngine(client, engine, device, jobs, patience=START if workers is not None else 60.0)


def local_workers(given: str) -> int | None:
    """How many worker processes are asked for here; None for the address of a scheduler."""
    if given.startswith(SCHEMES):
        host, _, port = given.partition("://")[2].rpartition(":")
        if given.startswith(("tcp://", "tls://")) and not (host and port.isascii() and port.isdigit()):
            raise SettingError(f"--cluster {given}: name host and port, such as tcp://scheduler:8786.")
        return None
    kind, _, count = given.partition(":")
    if kind != "local":
        raise SettingError(
            f"--cluster {given}: give local:4 for four worker processes here, or a scheduler's address such as "
            "tcp://scheduler:8786."
        )
    most = max(64, 4 * available_cores())
    if not (count.isascii() and count.isdigit() and len(count) < 9 and 1 <= int(count) <= most):
        raise SettingError(
            f"--cluster {given}: the number of worker processes must be a whole number from 1 to {most}."
        )
    return int(count)


@contextmanager
def _processes(workers: int) -> Iterator[Any]:
    """So many worker processes with one thread each, and a scheduler in this process, all on this machine only."""
    import dask
    from distributed import LocalCluster

    settings = {
        "distributed.scheduler.allowed-failures": FAILURES,
        # A worker that is away for so long is given up, with what would start it again; on a busy machine, or killed
        # again in the meantime, it may take longer to come back than Dask's 15 seconds.
        "distributed.deploy.lost-worker-timeout": LOST,
    }
    with dask.config.set(settings):
        cluster = LocalCluster(
            n_workers=workers, threads_per_worker=1, processes=True, host="127.0.0.1", dashboard_address="127.0.0.1:0",
            memory_limit=0, silence_logs=logging.CRITICAL, preload=["butfor.learn.dask_preload"],
        )  # fmt: skip
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
                os.kill(nanny.pid, signal.SIGKILL if hasattr(signal, "SIGKILL") else signal.SIGTERM)


def _close(client: Any) -> None:
    """Also where the scheduler is gone, and soon."""
    client.close(timeout=2)

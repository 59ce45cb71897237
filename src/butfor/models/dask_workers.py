"""The workers of a Dask cluster: chunks of work survive the death of workers.

Joblib's own backend for Dask (1.6) waits for ever once a task has killed several workers, loses scattered data with the
worker that held it, and runs the work of a cluster with a single thread in the calling process.
"""

from __future__ import annotations

import queue
import time
import uuid
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import lru_cache
from itertools import islice
from typing import Any

from butfor import stopping
from butfor._version import __version__
from butfor.errors import ButforError, EngineError

POLL = 0.5
"""Seconds between checks of the cluster and for interruptions."""
PATIENCE = 60.0
"""Seconds to wait for a worker if there is none."""

LOST = (
    "A chunk of trainings took several workers down; they may have too little memory. What was trained before is in "
    "the ledger, if one was given."
)


class DaskWorkers:
    """`patience`: seconds to wait for a worker if there is none."""

    def __init__(self, client: Any, patience: float = PATIENCE) -> None:
        self.client, self.patience = client, patience
        self.address = client.scheduler.address if client.scheduler else "its address"

    @staticmethod
    @lru_cache(maxsize=1)
    def of(client: Any) -> DaskWorkers:
        return DaskWorkers(client)

    def effective_n_jobs(self, n_jobs: int) -> int:
        """The threads of all workers; waits until there is one."""
        had_workers = time.monotonic()
        while not (threads := self._threads(had_workers)):
            stopping.check()
            time.sleep(POLL)
        return threads

    def submit(self, function: Callable[..., Any], *given: Any) -> Any:
        """The future of a call on a worker."""
        try:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", message="Sending large graph")
                return self.client.submit(function, *given, key=f"butfor-{uuid.uuid4().hex}", pure=False)
        except Exception as error:  # a connection that ends may raise anything
            raise self._sentence(error) from error

    def run_everywhere(self, function: Callable[..., Any], *given: Any) -> None:
        """Call a function on every worker and raise its errors."""
        for found in self.client.run(function, *given, on_error="return").values():
            if isinstance(found, (ButforError, ImportError, AttributeError)):  # other errors: the worker is gone
                raise self._sentence(found)

    def replies(self, calls: Iterator[tuple[Any, ...]], most: int) -> Iterator[Any]:
        """The results of calls `(function, *arguments)` as they come; at most `most` are under way."""
        under_way: set[Any] = set()
        ended: queue.Queue[Any] = queue.Queue()
        had_workers = time.monotonic()
        try:
            while True:
                for call in islice(calls, most - len(under_way)):
                    under_way.add(future := self.submit(*call))
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
                yield self._result(future)
        finally:
            if under_way and self.client.status == "running":
                with suppress(Exception):  # the first error is the one to report
                    self.client.cancel(list(under_way), force=True)

    def _result(self, future: Any) -> Any:
        try:
            return future.result()
        except Exception as error:  # from the cluster or from the user's own code
            raise self._sentence(error) from error

    def _threads(self, had_workers: float) -> int:
        """The workers' threads now; an error if there have been none for too long."""
        try:
            threads = sum(self.client.nthreads().values())
        except Exception as error:  # a connection that ends may raise anything
            raise self._sentence(error) from error
        if not threads and time.monotonic() > had_workers + self.patience:
            raise EngineError(
                f"The scheduler at {self.address} has had no worker for {self.patience:.0f} seconds; start some "
                f"(dask worker {self.address}) and try again, with the same ledger if one was given."
            )
        return threads

    def _sentence(self, error: Exception) -> ButforError:
        from distributed import KilledWorker
        from distributed.comm import CommClosedError

        if isinstance(error, ButforError):
            return error
        if isinstance(error, KilledWorker):
            return EngineError(LOST)
        if isinstance(error, CommClosedError) or self.client.status != "running":
            return EngineError(
                f"The scheduler at {self.address} is gone. What was trained is in the ledger, if one was given: start "
                "the cluster again and repeat the command with the same ledger."
            )
        return cannot_train(error)


def cannot_train(error: Exception) -> EngineError:
    """A sentence about an error of a worker that is not ours."""
    reason = f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0] or 'no reason given'}"
    return EngineError(
        f"A worker could not train ({reason}). It needs butfor {__version__} and the packages that the model imports."
    )

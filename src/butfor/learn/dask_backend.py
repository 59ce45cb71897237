"""A joblib backend for a Dask cluster that survives the death of workers.

Joblib's own (1.6) waits for ever once a task has killed several workers, loses scattered data with the worker that held
it, and runs the work of a cluster with a single thread in the calling process.
"""

from __future__ import annotations

import threading
import time
import uuid
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from typing import Any

from joblib.parallel import ParallelBackendBase

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


class DaskBackend(ParallelBackendBase):
    """`patience`: seconds to wait for a worker if there is none."""

    supports_retrieve_callback = True

    def __init__(self, client: Any, patience: float = PATIENCE) -> None:
        super().__init__()
        self.client, self.patience = client, patience
        self.address = client.scheduler.address if client.scheduler else "its address"
        self._flying: dict[Any, Callable[[Any], None]] = {}

    @staticmethod
    @lru_cache(maxsize=1)
    def of(client: Any) -> DaskBackend:
        return DaskBackend(client)

    def effective_n_jobs(self, n_jobs: int) -> int:
        """The threads of the workers; with one thread joblib would work in this process."""
        had_workers = time.monotonic()
        while not (threads := self._threads(had_workers)):
            stopping.check()
            time.sleep(POLL)
        return max(2, threads)

    def configure(self, n_jobs: int = 1, parallel: Any = None, **_: Any) -> int:
        self.parallel = parallel
        return self.effective_n_jobs(n_jobs)

    def task(self, function: Callable[..., Any], *given: Any) -> Any:
        """The future of a call on a worker."""
        try:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", message="Sending large graph")
                return self.client.submit(function, *given, key=f"butfor-{uuid.uuid4().hex}", pure=False)
        except Exception as error:  # whatever a connection that ends raises
            raise self._sentence(error) from error

    def ask_all(self, function: Callable[..., Any], *given: Any) -> None:
        """Call a function on every worker and raise its errors."""
        for found in self.client.run(function, *given, on_error="return").values():
            if isinstance(found, (ButforError, ImportError, AttributeError)):  # else the worker is gone
                raise self._sentence(found)

    def submit(self, func: Any, callback: Any = None) -> Any:
        future = self.task(call_all, func.items)
        self._flying[future] = callback
        future.add_done_callback(lambda done: callback(self._outcome(done)))
        return future

    def _outcome(self, future: Any) -> tuple[Any, Exception | None]:
        try:
            return future.result(), None
        except Exception as error:  # of the cluster, or whatever the user's own code raises there
            return None, self._sentence(error)
        finally:
            self._flying.pop(future, None)

    def retrieve_result_callback(self, out: tuple[Any, Exception | None]) -> Any:
        result, error = out
        if error is not None:
            raise error
        return result

    @contextmanager
    def retrieval_context(self) -> Iterator[None]:
        """While waiting for results, a thread checks that more can come."""
        ended = threading.Event()
        threading.Thread(target=self._watch, args=(ended, stopping.StopFlag()), daemon=True).start()
        try:
            yield
        finally:
            ended.set()

    def _watch(self, ended: threading.Event, flag: stopping.StopFlag) -> None:
        had_workers = time.monotonic()
        while not ended.wait(POLL):
            try:
                flag.check()
                had_workers = time.monotonic() if self._threads(had_workers) else had_workers
            except Exception as error:  # joblib raises it where the results are waited for
                for callback in list(self._flying.values()):
                    callback((None, error))
                return

    def abort_everything(self, ensure_ready: bool = True) -> None:
        flying, self._flying = list(self._flying), {}
        if flying and self.client.status == "running":
            with suppress(Exception):  # it ends here anyway, and what ended it is being said
                self.client.cancel(flying, force=True)

    def _threads(self, had_workers: float) -> int:
        """The workers' threads now; an error if there have been none for too long."""
        try:
            threads = sum(self.client.nthreads().values())
        except Exception as error:  # whatever a connection that ends raises
            raise self._sentence(error) from error
        if not threads and time.monotonic() > had_workers + self.patience:
            raise EngineError(
                f"The scheduler at {self.address} has had no worker for {self.patience:.0f} seconds; start some "
                f"(dask worker {self.address}) and try again, with the same --ledger if one was given."
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
                "the cluster again and repeat the command with the same --ledger (ledger=... in Python)."
            )
        return cannot_train(error)


def cannot_train(error: Exception) -> EngineError:
    """A sentence about a foreign error of a worker."""
    reason = f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0] or 'no reason given'}"
    return EngineError(
        f"A worker could not train ({reason}). It needs butfor {__version__} and the packages that the model imports."
    )


def call_all(calls: list[tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]]) -> list[Any]:
    """On a worker: a batch of joblib's."""
    return [function(*given, **named) for function, given, named in calls]

"""Chunks of work on a cluster, fed as workers have room: what comes back, in whatever order, and what must go again.

A chunk goes again when the worker that held it died, or when all copies of what was scattered died with it. Results
are taken at once and their futures released: what a worker holds when it dies is all that is computed twice.
"""

from __future__ import annotations

import logging
import math
import pickle
import queue
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from butfor.errors import ButforError, EngineError
from butfor.learn.dask_worker import SAME, Refusal, difference, run_chunk, versions_here

if TYPE_CHECKING:
    from distributed import Client, Future

LEAST_SECONDS, MOST_SECONDS = 1.0, 5.0
"""What a chunk is meant to take: long enough to pay for its way, short enough to lose with its worker."""
FIRST = 4
"""Items of a chunk before anybody knows how long one takes."""
PARTS = 8
"""Chunks per thread that a long list is cut into, so that fast workers take more of them."""
AHEAD = 2
"""Chunks under way per thread: the next one waits where the last is being done."""
RETRIES = 2
"""How often a chunk that raised is tried again."""
MOST_DEATHS = 5
"""How often a chunk may take its worker down before it is to blame."""
OTHER = 1.25
"""How much longer or shorter items take before a list is cut anew."""
POLL = 1.0
"""Seconds without news after which the cluster is looked at."""


class Scattered:
    """Something that workers fetch once and keep."""

    def __init__(self, client: Client, make: Callable[[], Any]) -> None:
        self._client, self._make = client, make
        self._future: Future | None = None

    @property
    def future(self) -> Future:
        """Sent again where the last copy died with its worker."""
        if self._future is None or self._future.status != "finished":
            # To one of them: the others fetch it with their first chunk. A broadcast never ends if a worker dies in it.
            self._future = self._client.scatter(self._packed(), hash=False, direct=False)
        return self._future

    def _packed(self) -> bytes:
        import cloudpickle

        # By value: classes and functions of a script or a notebook are not there to be imported on a worker.
        try:
            packed: bytes = cloudpickle.dumps(self._make())
        except Exception as error:  # whatever the user's own objects raise
            raise EngineError(f"The model cannot be sent to workers: {_line(error)}") from error
        return packed


class Pace:
    """How long an item takes, as far as is known, and so how many make a chunk. On a GPU hundreds take as long as one:
    a chunk has at least as many as a worker does side by side, and one much larger than those before tells more."""

    def __init__(self) -> None:
        self.each: float | None = None
        self.at_once = 1
        self._largest = 0

    def saw(self, items: int, seconds: float, at_once: int = 1) -> None:
        each = seconds / items
        self.each = each if self.each is None or items > 2 * self._largest else (self.each + each) / 2
        self.at_once, self._largest = max(self.at_once, at_once), max(self._largest, items)

    def size(self, left: int, threads: int) -> int:
        share = math.ceil(left / threads)
        if self.each is None:
            return min(FIRST, share)
        alone = left * self.each / threads  # what it takes each thread
        rounds = max(1, round(alone / min(max(alone / PARTS, LEAST_SECONDS), MOST_SECONDS)))
        return max(1, min(share, max(self.at_once, math.ceil(left / (threads * rounds)))))


class Cut:
    """Where one list is cut: into chunks of one size, so that workers alike end together, but the last of each thread
    in two, so that a faster worker takes one more. The size is another one as soon as the pace or the workers are."""

    def __init__(self, pace: Pace) -> None:
        self._pace = pace
        self._planned: tuple[float | None, int, int] = None, 0, 0

    def size(self, left: int, threads: int) -> int:
        each, planned_for, size = self._planned
        now = self._pace.each
        if each is None or now is None or planned_for != threads or not 1 / OTHER < now / each < OTHER:
            size = self._pace.size(left, threads)
            self._planned = now, threads, size
        half = math.ceil(size / 2)
        if left <= threads * size and half >= self._pace.at_once and size * (now or 0.0) > LEAST_SECONDS / 2:
            size = half
        return min(size, left)


class Flight(NamedTuple):
    """A chunk under way: which one, which workers alone may do it (None: all), and which one was asked to."""

    future: Future
    chunk: range
    only: list[str] | None
    asked: str | None


class Cluster:
    """The workers behind a client. `patience`: seconds to wait for a worker where there is none."""

    def __init__(self, client: Client, patience: float) -> None:
        self.client, self.patience = client, patience
        self.address = client.scheduler.address if client.scheduler else "its address"
        self._wanted = versions_here()
        self._known: set[str] = set()
        self._refused: set[str] = set()
        self._threads: dict[str, int] = {}
        self._looked = -math.inf
        self._alone_since: float | None = None

    def admit(self) -> None:
        """Wait for the first worker, and refuse the cluster where one has other versions."""
        self._wait(time.monotonic() + self.patience)
        for sentence in self._differing().values():
            raise EngineError(sentence)
        self._known = set(self._threads)

    def _wait(self, deadline: float) -> None:
        """Until a worker is there."""
        while not self._present():
            if time.monotonic() > deadline:
                raise self._nobody()
            time.sleep(0.1)

    @property
    def threads(self) -> int:
        """Chunks that can be done at a time; looked up at most every POLL seconds."""
        if time.monotonic() - self._looked > POLL:
            self._present()
        return max(1, sum(n for worker, n in self._threads.items() if worker not in self._refused))

    def run(
        self, function: Callable[..., Any], shared: Sequence[Scattered], items: Sequence[Any], pace: Pace
    ) -> Iterator[tuple[range, Any]]:
        """`function(*shared, items)` for chunks of the items: which they were and what came back, as they come."""
        done: queue.SimpleQueue[Future] = queue.SimpleQueue()
        flying: dict[Any, Flight] = {}
        again: deque[range] = deque()
        deaths: dict[range, int] = {}
        start, cut = 0, Cut(pace)
        try:
            while start < len(items) or again or flying:
                while (start < len(items) or again) and len(flying) < AHEAD * self.threads:
                    if again:
                        chunk = again.popleft()
                    else:
                        chunk = range(start, start + cut.size(len(items) - start, self.threads))
                        start = chunk.stop
                    flight = self._submit(function, shared, chunk, items, self._least_busy(flying.values()))
                    flying[flight.future.key] = flight
                    flight.future.add_done_callback(done.put)
                try:
                    future = done.get(timeout=POLL)
                except queue.Empty:
                    again.extend(self._stranded(flying))
                    continue
                if future.key not in flying:
                    continue
                chunk = flying.pop(future.key).chunk
                reply = self._outcome(future)
                future.release()
                if isinstance(reply, Refusal):
                    self._pass_over(reply)
                if reply is None:
                    deaths[chunk] = deaths.get(chunk, 0) + 1
                    if deaths[chunk] > MOST_DEATHS:
                        raise EngineError(
                            f"A chunk of {len(chunk)} trainings took {MOST_DEATHS + 1} workers down with it: is there "
                            "too little memory where they run? What was trained before is in the ledger, if one was "
                            "given."
                        )
                if reply is None or isinstance(reply, Refusal):
                    again.append(chunk)
                    continue
                pace.saw(len(chunk), reply.seconds, reply.at_once)
                yield chunk, reply.result
        finally:
            self._cancel([flight.future for flight in flying.values()])

    def _least_busy(self, flights: Iterable[Flight]) -> str | None:
        """Whose threads have the least to do. The scheduler takes every chunk for as long as the last ones, and asks
        one worker twice while another has nothing."""
        waiting = dict.fromkeys(self._threads, 0)
        for flight in flights:
            if flight.asked in waiting:
                waiting[flight.asked] += len(flight.chunk)
        return min(waiting, key=lambda worker: waiting[worker] / max(1, self._threads[worker]), default=None)

    def _submit(
        self, function: Callable[..., Any], shared: Sequence[Scattered], chunk: range, items: Sequence[Any],
        asked: str | None,
    ) -> Flight:  # fmt: skip
        only = [worker for worker in self._threads if worker not in self._refused] if self._refused else None
        futures = self._sent(shared)
        packed = pickle.dumps(items[chunk.start : chunk.stop])  # Dask would look through every tuple of it for futures
        try:
            future = self.client.submit(
                run_chunk, function, [f.key for f in futures], futures, packed, self._wanted,
                key=f"butfor-{uuid.uuid4().hex}", pure=False, retries=RETRIES,
                workers=only or asked, allow_other_workers=only is None and asked is not None,
            )  # fmt: skip
        except Exception as error:  # whatever a connection that ends raises
            raise self._gone() from error
        return Flight(future, chunk, only, asked)

    def _sent(self, shared: Sequence[Scattered]) -> list[Future]:
        """Where the workers have what is shared; sent again, once somebody is there to take it, where it was lost."""
        deadline = time.monotonic() + self.patience
        while True:
            try:
                return [each.future for each in shared]
            except ButforError:
                raise
            except Exception as error:  # nobody there to take it, or somebody who died with it
                self._wait(deadline)
                if time.monotonic() > deadline:
                    raise self._nobody() from error

    def _outcome(self, future: Future) -> Any:
        """The reply; None where worker or data died and the chunk must go again."""
        from distributed import CancelledError, KilledWorker

        try:
            return future.result(timeout=60)
        except ButforError:
            raise
        except (CancelledError, KilledWorker, TimeoutError):
            self._still_there()
            return None
        except OSError as error:  # the connection, or something on the worker
            self._still_there()
            raise EngineError(f"A worker could not train: {_line(error)}") from error
        except Exception as error:  # whatever the user's own code raises there
            raise EngineError(f"A worker could not train: {_line(error)}") from error

    def _stranded(self, flying: dict[Any, Flight]) -> list[range]:
        """No news for a while: is anybody there? Chunks meant for workers that are all gone go again."""
        if self._present():
            self._alone_since = None
        else:
            self._alone_since = self._alone_since or time.monotonic()
            if time.monotonic() - self._alone_since > self.patience:
                raise self._nobody()
        lost = [key for key, flight in flying.items() if flight.only and not set(flight.only) & set(self._threads)]
        taken = [flying.pop(key) for key in lost]
        self._cancel([flight.future for flight in taken])
        return [flight.chunk for flight in taken]

    def _present(self) -> bool:
        """Whether any worker is there."""
        self._still_there()
        try:
            found: dict[str, int] = self.client.nthreads()
        except Exception as error:  # whatever a connection that ends raises
            raise self._gone() from error
        self._threads, self._looked = found, time.monotonic()
        if self._known and set(found) - self._known:
            self._known |= set(found)
            for worker, sentence in self._differing().items():
                self._pass_over(Refusal(worker, sentence))
        return bool(found)

    def _differing(self) -> dict[str, str]:
        """Workers with other versions, and a sentence about each."""
        found: Any = self.client.get_versions(packages=list(SAME))
        told = {w: difference(w, self._wanted, has["packages"]) for w, has in found["workers"].items()}
        return {worker: sentence for worker, sentence in told.items() if sentence}

    def _pass_over(self, refusal: Refusal) -> None:
        """A worker that joined late must not train; the others go on."""
        if refusal.worker not in self._refused:
            logging.getLogger("butfor").warning(refusal.sentence)
            self._refused.add(refusal.worker)
        if not set(self._threads) - self._refused:
            raise EngineError(refusal.sentence)

    def _still_there(self) -> None:
        if self.client.status != "running":
            raise self._gone()

    def _cancel(self, futures: Sequence[Future]) -> None:
        if futures and self.client.status == "running":
            try:
                self.client.cancel(list(futures), force=True)
            except Exception:  # it ends here anyway, and what ended it is being said
                logging.getLogger("butfor").debug("chunks could not be cancelled", exc_info=True)

    def _gone(self) -> EngineError:
        return EngineError(
            f"The scheduler at {self.address} is gone. What was trained is in the ledger, if one was given: start the "
            "cluster again and repeat the command with the same --resume (ledger=... in Python)."
        )

    def _nobody(self) -> EngineError:
        return EngineError(
            f"The scheduler at {self.address} has had no worker for {self.patience:.0f} seconds; start some "
            f"(dask worker {self.address}) and try again, with --resume where something was trained."
        )


def _line(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else 'no reason given'}"

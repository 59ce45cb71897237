"""Trainings here or on workers: processes of this machine, those that joblib's configuration sets,
or Dask's.

Little work stays in this process; how much that is follows from the number of trainings and the
kind of learner, so that the same audit does the same everywhere. More goes to processes of this
machine, to the workers that `joblib.parallel_config(...)` sets, or to those of a Dask scheduler.
The answers do not depend on the workers, even if some come, go or die: their chunks of work go to
others. The user's own code travels by value, since workers may be unable to import it. A worker
with other package versions would train other models, so it refuses.

Joblib's own backend for Dask (1.6) waits for ever once a task has killed several workers, and loses
data with the worker that held it. Here shared data is the result of a task, which Dask computes
again, and so are chunks of work.
"""

from __future__ import annotations

import math
import os
import pickle
import queue
import socket
import sys
import threading
import time
import uuid
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, packages_distributions, version
from itertools import islice
from typing import Any

import cloudpickle
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from butfor._version import __version__
from butfor.models.seam import (
    PIECE_TRAININGS,
    Advance,
    Bound,
    Learner,
    Training,
    answers_about,
)
from butfor.support import stopping
from butfor.support.errors import (
    ButforError,
    EngineError,
    LearnerError,
    TableError,
    first_line,
)
from butfor.support.processes import end_with
from butfor.support.threads import single_threaded
from butfor.table.columns import own
from butfor.table.encoding import Asked
from butfor.table.table import Table

MIN_MICROSECONDS = 12e6
"""Microseconds of work from which on processes do it: twice what two new processes take to load
everything."""
CHUNK_MICROSECONDS = 0.5e6
"""Microseconds of work in a chunk: enough to pay for sending it, little enough for Ctrl-C and a
worker's death."""
ALIGNED_BYTES = 64
"""Arrays are sent at multiples of as many bytes, as libraries like them."""
MAX_DEATHS = 10
"""How often workers of this machine may die and be replaced for one list of items."""
MAX_LEARNERS_HELD = 4
"""The most learners with tables that a worker keeps."""
WORKER_SECONDS = 60.0
"""Seconds to wait for a worker of a scheduler if there is none."""
POLL_SECONDS = 0.5
"""Seconds between checks of a scheduler and for interruptions."""
SAME_VERSIONS = ("butfor", "torch", "numpy", "scikit-learn")
"""Packages whose versions must be the same on all workers."""
LOST_WORKERS = (
    "A chunk of trainings took several workers down; they may have too little memory. What was "
    "trained before is in the ledger, if one was given."
)

Prepare = Callable[[Any, Any], tuple[Callable[[Sequence[Any]], list[Any]], int]]
"""From shared code and data: what does a chunk of items, and how many items it prefers at a time:
one on a core, hundreds on a GPU."""


class OnWorkers(Bound):
    """Items that are done here or, if they are much work, by an engine's workers: `prepare(code,
    data)` makes what does them. `each`: roughly the microseconds of one item."""

    def __init__(self, engine: Any, prepare: Prepare, code: Any, data: Any, each: float) -> None:
        from joblib.parallel import get_active_backend

        backend = get_active_backend()[0]
        self.workers: Workers = engine.workers or Workers(engine.n_jobs)
        if engine.workers is None and type(backend).__name__ == "DaskDistributedBackend":
            self.workers = DaskWorkers(backend.client)
        super().__init__(self.in_order, engine.name, prepare is own_fit, width=self.workers.count)
        self.given = prepare, code, data
        self.each = each
        self.asked = 0
        self._here: Any = None
        self._sent: Any = None

    def in_order(self, items: Sequence[Any], advance: Advance | None = None) -> list[Any]:
        """The result of each item."""
        done: dict[int, Any] = {}
        for chunk, results in self.pieces(items, advance):
            done.update(zip(chunk, results, strict=True))
        return [done[k] for k in range(len(items))]

    def pieces(
        self, trainings: Sequence[Any], advance: Advance | None = None, size: int = PIECE_TRAININGS
    ) -> Iterator[tuple[range, Any]]:
        """On workers a chunk is about half a second's items, or as many as a worker prefers; chunks
        shrink, so that all workers end together. If a worker dies, what was under way goes to
        others."""
        self.asked += len(trainings)
        workers = self.workers
        pays = self.asked * self.each >= MIN_MICROSECONDS and len(trainings) > 1
        if not (workers.always or (pays and workers.count > 1)):
            prepare, code, data = self.given
            self._here = self._here or prepare(code, data)[0]
            for start in range(0, len(trainings), size):
                chunk = range(start, min(start + size, len(trainings)))
                results = []
                for k in chunk:
                    # The model gave its warnings in the first fit.
                    with single_threaded(), warnings.catch_warnings(action="ignore"):
                        results += self._here([trainings[k]])
                    if advance:
                        advance(1)
                yield chunk, results
            return

        self._sent = self._sent or workers.share(Sent.of(*self.given))
        count = workers.count
        usual = max(1, int(CHUNK_MICROSECONDS / self.each))
        width = 1
        deaths = 0
        waiting = [range(len(trainings))]
        under_way: dict[int, range] = {}

        def chunks() -> Iterator[tuple[Any, int, bytes]]:
            while any(waiting):
                rest = waiting.pop()
                if not rest:
                    continue
                fair = math.ceil((len(rest) + sum(map(len, waiting))) / count)
                preferred = max(width, min(usual, math.ceil(fair / 4)))
                chunk = rest[: min(fair, preferred)]
                under_way[chunk.start] = chunk
                waiting.append(rest[len(chunk) :])
                # Items as bytes: otherwise Dask looks for its futures among them.
                yield self._sent, chunk.start, pickle.dumps([trainings[k] for k in chunk])

        while any(waiting) or under_way:
            try:
                for start, done, width in workers.replies(chunks()):  # noqa: B007
                    chunk = under_way.pop(start)
                    if advance:
                        advance(len(chunk))
                    yield chunk, pickle.loads(done)
            except BrokenExecutor as error:
                deaths += 1
                if deaths == MAX_DEATHS:
                    raise EngineError(LOST_WORKERS) from error
                waiting += under_way.values()
                under_way.clear()


def own_fit(learner: Learner, data: tuple[Table, pd.DataFrame | None]) -> Any:
    """Trains with the learner's own `fit`. Gives answers about the people, NaN if the training
    diverged or failed; if nobody is asked about, the model itself, packed for the journey."""
    table, people = data
    people = own(people)
    asked = Asked() if people is None else Asked(people)

    def answer(training: Training) -> Any:
        flips, seed = training
        try:
            seeded = learner if seed is None else learner.reseeded(seed)
            model = seeded.fit(table, table.labels(flips))
            if people is None:
                return learner.pack(model)
            with asked.unchanged():
                return np.asarray(answers_about(people, model, table), np.float32)
        except Exception as error:  # a learner of one's own may raise anything
            of_these_labels = isinstance(error, (LearnerError, TableError))  # one class alone, say
            passes = isinstance(error, (ButforError, MemoryError)) and not of_these_labels
            if people is None or passes:
                raise
            return np.full(len(people) * table.outputs, np.nan, np.float32)

    return lambda trainings: [answer(training) for training in trainings], 1


# --- workers --------------------------------------------------------------------------------------


class Workers:
    """`jobs` processes of this machine, or the workers of joblib's configuration. `always`: also
    for little work."""

    def __init__(self, jobs: int, always: bool = False) -> None:
        self.jobs = jobs
        self.always = always

    @property
    def count(self) -> int:
        """The number of items that they can do at a time now."""
        backend, jobs = self._backend()
        return int(backend.effective_n_jobs(jobs))

    def _backend(self) -> tuple[Any, int]:
        """joblib's backend and its number of jobs: all workers of backends that are not joblib's
        own."""
        from joblib.parallel import get_active_backend

        backend, jobs = get_active_backend()
        if jobs:
            return backend, jobs
        joblibs_own = type(backend).__module__ == "joblib._parallel_backends"
        return backend, self.jobs if joblibs_own else -1

    def share(self, sent: Sent) -> Any:
        """What stands for it among the arguments of `run_chunk`."""
        return sent

    def replies(self, chunks: Iterator[tuple[Any, ...]]) -> Iterator[Any]:
        """What `run_chunk` gives for each chunk, in any order."""
        from joblib import Parallel, delayed

        backend, jobs = self._backend()
        ways = {"return_as": "generator_unordered"} if backend.supports_return_generator else {}
        parallel = Parallel(jobs, backend=backend, batch_size=1, **ways)
        coming = iter(parallel(delayed(run_chunk)(*chunk) for chunk in chunks))
        try:
            while True:
                with warnings.catch_warnings():
                    # joblib's, about workers that were replaced
                    warnings.simplefilter("ignore", UserWarning)
                    reply = next(coming, None)
                if reply is None:
                    return
                yield reply
        except Exception:
            stopping.check()  # Ctrl-C may have ended a worker that had just started
            raise
        finally:
            if ways:  # cancel the rest
                with warnings.catch_warnings(action="ignore"):
                    coming.close()


class DaskWorkers(Workers):
    """The workers of a Dask client; all work goes to them."""

    def __init__(self, client: Any) -> None:
        super().__init__(1, always=True)
        self.client = client
        self.address = client.scheduler.address if client.scheduler else "its address"

    @property
    def count(self) -> int:
        """The threads of all workers; waits for one, and gives up after a while."""
        deadline = time.monotonic() + WORKER_SECONDS
        while True:
            with self._in_words():
                threads = sum(self.client.nthreads().values())
            if threads:
                return threads
            if time.monotonic() > deadline:
                raise EngineError(
                    f"The scheduler at {self.address} has had no worker for {WORKER_SECONDS:.0f} "
                    f"seconds; start some (dask worker {self.address}) and try again, with the "
                    "same ledger if one was given."
                )
            stopping.check()
            time.sleep(POLL_SECONDS)

    def share(self, sent: Sent) -> Any:
        return self._submit(Sent, *vars(sent).values())

    def replies(self, chunks: Iterator[tuple[Any, ...]]) -> Iterator[Any]:
        most = 2 * self.count
        under_way: set[Any] = set()
        ended: queue.Queue[Any] = queue.Queue()
        try:
            while True:
                for chunk in islice(chunks, max(0, most - len(under_way))):
                    future = self._submit(run_chunk, *chunk)
                    under_way.add(future)
                    future.add_done_callback(ended.put)
                if not under_way:
                    return
                stopping.check()
                try:
                    future = ended.get(timeout=POLL_SECONDS)
                except queue.Empty:
                    most = 2 * self.count  # workers come and go
                    continue
                under_way.discard(future)
                with self._in_words():
                    reply = future.result()
                yield reply
        finally:
            if under_way and self.client.status == "running":
                with suppress(Exception):  # the first error is the one to report
                    self.client.cancel(list(under_way), force=True)

    def _submit(self, function: Callable[..., Any], *given: Any) -> Any:
        """The future of a call on a worker."""
        with self._in_words(), warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Sending large graph")
            return self.client.submit(
                function, *given, key=f"butfor-{uuid.uuid4().hex}", pure=False
            )

    @contextmanager
    def _in_words(self) -> Iterator[None]:
        """What the cluster, a connection that ends or the user's own code raises, as a sentence."""
        from distributed import KilledWorker
        from distributed.comm.core import CommClosedError

        try:
            yield
        except ButforError:
            raise
        except KilledWorker as error:
            raise EngineError(LOST_WORKERS) from error
        except Exception as error:
            if isinstance(error, CommClosedError) or self.client.status != "running":
                raise EngineError(
                    f"The scheduler at {self.address} is gone. What was trained is in the ledger, "
                    "if one was given: start the cluster again and repeat the command with the "
                    "same ledger."
                ) from error
            raise EngineError(
                f"A worker could not train ({type(error).__name__}: {first_line(error)}). It "
                f"needs butfor {__version__} and the packages that the model imports."
            ) from error


# --- what is sent, and what a worker does with it -------------------------------------------------


@dataclass(frozen=True)
class Sent:
    """What workers unpickle once, known by its key: one array of bytes and where its parts are.
    Joblib maps it from a file, and arrays of the data stay there: workers of one machine share
    them."""

    key: str
    caller: int
    versions: dict[str, str] = field(compare=False)
    parts: list[slice] = field(compare=False)
    whole: NDArray[np.uint8] = field(compare=False)

    @classmethod
    def of(cls, prepare: Prepare, code: Any, data: Any) -> Sent:
        arrays: list[pickle.PickleBuffer] = []
        pickled = cloudpickle.dumps(data, protocol=5, buffer_callback=arrays.append)
        buffers = [by_value((prepare, code)), pickled, *arrays]
        contents = [np.frombuffer(buffer, np.uint8) for buffer in buffers]
        sizes = [math.ceil(len(one) / ALIGNED_BYTES) * ALIGNED_BYTES for one in contents]
        starts = np.cumsum([0, *sizes]).tolist()
        whole = np.zeros(starts.pop(), np.uint8)
        parts = []
        for start, content in zip(starts, contents, strict=True):
            part = slice(start, start + len(content))
            parts.append(part)
            whole[part] = content
        return cls(uuid.uuid4().hex, os.getpid(), versions_here(), parts, whole)


def by_value(code: Any) -> bytes:
    """Pickled together with what it uses of modules that are neither installed nor ours, such as
    the user's own beside a script: a worker may have been started elsewhere, or know another module
    of that name."""
    installed = {"butfor", *sys.stdlib_module_names, *_distributed_packages()}
    with ExitStack() as registered:
        for name, module in list(sys.modules.items()):
            if name.partition(".")[0] in installed or not getattr(module, "__file__", None):
                continue
            if module.__name__ in set(sys.modules) - cloudpickle.list_registry_pickle_by_value():
                cloudpickle.register_pickle_by_value(module)
                registered.callback(cloudpickle.unregister_pickle_by_value, module)
        with suppress(Exception):  # a module may hold what cannot be sent, such as a lock
            return bytes(cloudpickle.dumps(code))
    try:
        return bytes(cloudpickle.dumps(code))
    except Exception as error:  # the user's own objects may raise anything
        raise EngineError(
            f"The model cannot be sent to workers: {type(error).__name__}: {error}"
        ) from error


_distributed_packages = lru_cache(maxsize=1)(packages_distributions)
_lock = threading.RLock()


def run_chunk(sent: Sent, start: int, items: bytes) -> tuple[int, bytes, int]:
    """The start of the chunk, the results of its items as bytes, and how many items this worker
    prefers at a time."""
    end_with(sent.caller)
    with _lock:
        do, width = _opened(sent)
    if os.getpid() != sent.caller:
        # for good: threads that train side by side must not restore the libraries' threads
        single_threaded()
    with warnings.catch_warnings(action="ignore"):  # the model gave its warnings in the first fit
        return start, cloudpickle.dumps(do(pickle.loads(items))), width


@lru_cache(maxsize=MAX_LEARNERS_HELD)
def _opened(sent: Sent) -> tuple[Callable[[Sequence[Any]], list[Any]], int]:
    """What does chunks; an error if this worker would train other models."""
    ours = versions_here()
    other = [package for package, wanted in sent.versions.items() if ours.get(package) != wanted]
    if other:
        has = " and ".join(f"{name} {ours.get(name, '(none)')}" for name in other)
        asks = " and ".join(f"{name} {sent.versions[name]}" for name in other)
        raise EngineError(
            f"The worker on {socket.gethostname()}, process {os.getpid()}, has {has} where the "
            f"audit has {asks}, so it would train other models. Install {asks} there, or stop "
            "that worker."
        )
    whole = sent.whole.data.toreadonly()
    called, data, *arrays = (whole[part] for part in sent.parts)
    prepare, code = pickle.loads(called)
    return prepare(code, pickle.loads(data, buffers=arrays))


def versions_here() -> dict[str, str]:
    """The versions that must be the same, without build tags (+cpu, +cu126)."""
    versions = {}
    for package in SAME_VERSIONS:
        with suppress(PackageNotFoundError):
            versions[package] = version(package).partition("+")[0]
    return versions

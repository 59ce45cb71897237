"""Trainings here or on workers: processes of this machine, those that joblib's configuration sets, or Dask's.

Little work stays in this process; how much that is follows from the number of trainings and the kind of learner, so
that the same audit does the same everywhere. More goes to processes of this machine, to the workers that
`joblib.parallel_config(...)` sets, or to those of a Dask scheduler. The answers do not depend on the workers, even if
some come, go or die: their chunks of work go to others. The user's own code travels by value, since workers may be
unable to import it. A worker with other package versions would train other models, so it refuses.

Joblib's own backend for Dask (1.6) waits for ever once a task has killed several workers, and loses data with the
worker that held it. Here shared data is the result of a task, which Dask computes again, and so are chunks of work.
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
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor
from contextlib import ExitStack, contextmanager, suppress
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, packages_distributions, version
from itertools import islice
from typing import Any, NamedTuple

import cloudpickle
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from butfor import stopping
from butfor._version import __version__
from butfor.errors import ButforError, EngineError, LearnerError, TableError
from butfor.machine import in_worker, single_threaded
from butfor.models.learner import PIECE, Advance, Bound, Learner, Table, Training

MUCH = 12e6
"""Microseconds of work from which on processes do it: twice what two new processes take to load everything."""
CHUNK = 0.5e6
"""Microseconds of work in a chunk: enough to pay for sending it, little enough for Ctrl-C and a worker's death."""
ALIGNED = 64
"""Arrays are sent at multiples of as many bytes, as libraries like them."""
MOST_DEATHS = 10
"""How often workers of this machine may die and be replaced for one list of items."""
MOST_HELD = 4
"""The most learners with tables that a worker keeps."""
PATIENCE = 60.0
"""Seconds to wait for a worker of a scheduler if there is none."""
POLL = 0.5
"""Seconds between checks of a scheduler and for interruptions."""
SAME = ("butfor", "torch", "numpy", "scikit-learn")
"""Packages whose versions must be the same on all workers."""
LOST = (
    "A chunk of trainings took several workers down; they may have too little memory. What was trained before is in "
    "the ledger, if one was given."
)

Prepare = Callable[[Any, Any], tuple[Callable[[Sequence[Any]], list[Any]], int]]
"""From shared code and data: what does a chunk of items, and how many items it prefers at a time: one on a core,
hundreds on a GPU."""


class OnWorkers(Bound):
    """Items that are done here or, if they are much work, by an engine's workers: `prepare(code, data)` makes what does
    them. `each`: roughly the microseconds of one item."""

    def __init__(self, engine: Any, prepare: Prepare, code: Any, data: Any, each: float) -> None:
        from joblib.parallel import get_active_backend

        backend = get_active_backend()[0]
        self.workers: Workers = engine.workers or Workers(engine.n_jobs)
        if engine.workers is None and type(backend).__name__ == "DaskDistributedBackend":
            self.workers = DaskWorkers(backend.client)
        super().__init__(self.in_order, engine.name, prepare is own_fit, width=self.workers.count)
        self.given, self.each, self.asked = (prepare, code, data), each, 0
        self._here: Any = None
        self._sent: Any = None

    def in_order(self, items: Sequence[Any], advance: Advance | None = None) -> list[Any]:
        """The result of each item."""
        done: dict[int, Any] = {}
        for chunk, results in self.pieces(items, advance):
            done.update(zip(chunk, results, strict=True))
        return [done[k] for k in range(len(items))]

    def pieces(
        self, trainings: Sequence[Any], advance: Advance | None = None, size: int = PIECE
    ) -> Iterator[tuple[range, Any]]:
        self.asked += len(trainings)
        workers, pays = self.workers, self.asked * self.each >= MUCH and len(trainings) > 1
        if workers.always or (pays and workers.count > 1):
            self._sent = self._sent or workers.send(*self.given)
            yield from workers.run(self._sent, trainings, max(1, int(CHUNK / self.each)), advance)
            return
        if self._here is None:
            prepare, code, data = self.given
            self._here = prepare(code, data)[0]
        for start in range(0, len(trainings), size):
            chunk, results = range(start, min(start + size, len(trainings))), []
            for k in chunk:
                with single_threaded(), warnings.catch_warnings(action="ignore"):  # given in the first fit
                    results += self._here([trainings[k]])
                if advance:
                    advance(1)
            yield chunk, results


def own_fit(learner: Learner, data: tuple[Table, pd.DataFrame | None]) -> Any:
    """Trains with the learner's own `fit`. Gives answers about the people, NaN if the training diverged or failed; if
    nobody is asked about, the model itself, packed for the journey."""
    table, people = data

    def answer(training: Training) -> Any:
        flips, seed = training
        try:
            model = (learner if seed is None else learner.reseeded(seed)).fit(table, table.labels(flips))
            return learner.pack(model) if people is None else np.asarray(table.answers(model, people), np.float32)
        except (LearnerError, TableError):  # such as one class alone
            if people is None:
                raise
            return np.full(len(people) * table.outputs, np.nan, np.float32)

    return lambda trainings: [answer(training) for training in trainings], 1


# --- workers --------------------------------------------------------------------------------------------


class Sent(NamedTuple):
    """What workers unpickle once, known by its key: one array of bytes and where its parts are. Joblib maps it from a
    file, and arrays of the data stay there: workers of one machine share them."""

    key: str
    parts: list[slice]
    whole: NDArray[np.uint8]


class Workers:
    """`jobs` processes of this machine, or the workers of joblib's configuration. `always`: also for little work."""

    def __init__(self, jobs: int, always: bool = False) -> None:
        self.jobs, self.always = jobs, always

    @property
    def count(self) -> int:
        """The number of items that they can do at a time now."""
        backend, jobs = self._backend()
        return int(backend.effective_n_jobs(jobs))

    def _backend(self) -> tuple[Any, int]:
        """joblib's backend and its number of jobs: all workers of backends that are not joblib's own."""
        from joblib.parallel import get_active_backend

        backend, jobs = get_active_backend()
        return backend, jobs or (self.jobs if type(backend).__module__ == "joblib._parallel_backends" else -1)

    def send(self, prepare: Prepare, code: Any, data: Any) -> Any:
        """Make all three available to workers."""
        arrays: list[pickle.PickleBuffer] = []
        pickled = cloudpickle.dumps(data, protocol=5, buffer_callback=arrays.append)
        given = [np.frombuffer(each, np.uint8) for each in (by_value((prepare, code)), pickled, *arrays)]
        starts = np.cumsum([0, *(math.ceil(len(each) / ALIGNED) * ALIGNED for each in given)]).tolist()
        whole = np.zeros(starts.pop(), np.uint8)
        parts = [slice(start, start + len(each)) for start, each in zip(starts, given, strict=True)]
        for part, each in zip(parts, given, strict=True):
            whole[part] = each
        return Sent(uuid.uuid4().hex, parts, whole)

    def run(
        self, sent: Any, items: Sequence[Any], size: int, advance: Advance | None = None
    ) -> Iterator[tuple[range, Any]]:
        """The results of the items, chunk by chunk and in any order. A chunk has up to `size` items, or as many as a
        worker prefers; chunks shrink, so that all workers end together. If a worker dies, its chunks go to others."""
        count, start, deaths, width, under_way = self.count, 0, 0, 1, dict[int, range]()

        def chunks() -> Iterator[tuple[Any, ...]]:
            nonlocal start
            again = list(under_way.values())  # from workers that died
            while again or start < len(items):
                if again:
                    chunk = again.pop()
                else:
                    left = len(items) - start
                    few = min(math.ceil(left / count), max(width, min(size, math.ceil(left / (4 * count)))))
                    under_way[start] = chunk = range(start, start + few)
                    start = chunk.stop
                # Items as bytes: otherwise Dask looks for its futures among them.
                yield (os.getpid(), versions_here()), sent, chunk.start, pickle.dumps([items[k] for k in chunk])

        while start < len(items) or under_way:
            try:
                for at, results, preferred in self.replies(chunks()):
                    chunk, width = under_way.pop(at), preferred
                    if advance:
                        advance(len(chunk))
                    yield chunk, pickle.loads(results)
            except BrokenExecutor as error:
                deaths += 1
                if deaths == MOST_DEATHS:
                    raise EngineError(LOST) from error

    def replies(self, chunks: Iterator[tuple[Any, ...]]) -> Iterator[Any]:
        """What `run_chunk` gives for each chunk, in any order."""
        from joblib import Parallel, delayed

        backend, jobs = self._backend()
        tasks = (delayed(in_worker)(os.getpid(), run_chunk, *chunk) for chunk in chunks)
        ways = {"return_as": "generator_unordered"} if backend.supports_return_generator else {}
        coming = iter(Parallel(jobs, backend=backend, batch_size=1, **ways)(tasks))
        try:
            while True:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", UserWarning)  # joblib's, about workers that were replaced
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
        deadline = time.monotonic() + PATIENCE
        while True:
            with self._in_words():
                if threads := sum(self.client.nthreads().values()):
                    return threads
            if time.monotonic() > deadline:
                raise EngineError(
                    f"The scheduler at {self.address} has had no worker for {PATIENCE:.0f} seconds; start some "
                    f"(dask worker {self.address}) and try again, with the same ledger if one was given."
                )
            stopping.check()
            time.sleep(POLL)

    def send(self, prepare: Prepare, code: Any, data: Any) -> Any:
        return self._submit(Sent, *super().send(prepare, code, data))

    def replies(self, chunks: Iterator[tuple[Any, ...]]) -> Iterator[Any]:
        most, under_way = 2 * self.count, set[Any]()
        ended: queue.Queue[Any] = queue.Queue()
        try:
            while True:
                for chunk in islice(chunks, max(0, most - len(under_way))):
                    under_way.add(future := self._submit(in_worker, os.getpid(), run_chunk, *chunk))
                    future.add_done_callback(ended.put)
                if not under_way:
                    return
                stopping.check()
                try:
                    future = ended.get(timeout=POLL)
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
            return self.client.submit(function, *given, key=f"butfor-{uuid.uuid4().hex}", pure=False)

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
            raise EngineError(LOST) from error
        except Exception as error:
            if isinstance(error, CommClosedError) or self.client.status != "running":
                raise EngineError(
                    f"The scheduler at {self.address} is gone. What was trained is in the ledger, if one was given: "
                    "start the cluster again and repeat the command with the same ledger."
                ) from error
            reason = f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0] or 'no reason given'}"
            raise EngineError(
                f"A worker could not train ({reason}). It needs butfor {__version__} and the packages that the model "
                "imports."
            ) from error


# --- what is sent, and what a worker does with it ------------------------------------------------------


def by_value(code: Any) -> bytes:
    """Pickled together with what it uses of modules that are neither installed nor ours, such as the user's own beside
    a script: a worker may have been started elsewhere, or know another module of that name."""
    installed = {"butfor", *sys.stdlib_module_names, *_distributed_packages()}
    own = [module for name, module in list(sys.modules.items()) if name.partition(".")[0] not in installed]
    with ExitStack() as registered:
        for module in own:
            loaded = getattr(module, "__file__", None) and module.__name__ in sys.modules
            if loaded and module.__name__ not in cloudpickle.list_registry_pickle_by_value():
                cloudpickle.register_pickle_by_value(module)
                registered.callback(cloudpickle.unregister_pickle_by_value, module)
        with suppress(Exception):  # a module may hold what cannot be sent, such as a lock
            return bytes(cloudpickle.dumps(code))
    try:
        return bytes(cloudpickle.dumps(code))
    except Exception as error:  # the user's own objects may raise anything
        raise EngineError(f"The model cannot be sent to workers: {type(error).__name__}: {error}") from error


_distributed_packages = lru_cache(maxsize=1)(packages_distributions)


_held: OrderedDict[str, Any] = OrderedDict()
_lock = threading.RLock()
_on_one_thread = lru_cache(maxsize=1)(lambda modules: single_threaded())
"""For good: threads that train side by side must not restore the libraries' threads."""


def run_chunk(caller: tuple[int, dict[str, str]], sent: Sent, start: int, items: bytes) -> tuple[int, bytes, int]:
    """The start of the chunk, the results of its items as bytes, and how many items this worker prefers at a time."""
    parent, wanted = caller
    ours = versions_here()
    if other := [package for package in wanted if ours.get(package) != wanted[package]]:
        has, asks = (" and ".join(f"{name} {each.get(name, '(none)')}" for name in other) for each in (ours, wanted))
        raise EngineError(
            f"The worker on {socket.gethostname()}, process {os.getpid()}, has {has} where the audit has {asks}, so it "
            f"would train other models. Install {asks} there, or stop that worker."
        )
    with _lock:
        if sent.key not in _held:
            whole = sent.whole.data.toreadonly()
            called, data, *arrays = (whole[part] for part in sent.parts)
            prepare, code = pickle.loads(called)
            _held[sent.key] = prepare(code, pickle.loads(data, buffers=arrays))
            while len(_held) > MOST_HELD:
                _held.popitem(last=False)
        _held.move_to_end(sent.key)
        do, width = _held[sent.key]
        if os.getpid() != parent:
            _on_one_thread(len(sys.modules))  # again after more libraries were loaded
    with warnings.catch_warnings(action="ignore"):  # the model gave its warnings in the first fit
        return start, cloudpickle.dumps(do(pickle.loads(items))), width


@lru_cache(maxsize=1)
def versions_here() -> dict[str, str]:
    """The versions that must be the same, without build tags (+cpu, +cu126)."""
    versions = {}
    for package in SAME:
        with suppress(PackageNotFoundError):
            versions[package] = version(package).partition("+")[0]
    return versions

"""Work on processes of this machine, by joblib, or on a cluster.

Work goes in chunks, sized by the time of an item. Shared data is sent once: processes of this machine map it from a
file, and on a Dask cluster it is the result of a task, which Dask computes again if its worker dies. A worker with
other package versions would train other models, so it refuses.
"""

from __future__ import annotations

import math
import os
import pickle
import shutil
import socket
import sys
import tempfile
import threading
import time
import uuid
import warnings
import weakref
from collections import OrderedDict
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import BrokenExecutor
from contextlib import ExitStack, closing, suppress
from dataclasses import replace
from functools import lru_cache, partial
from importlib.metadata import PackageNotFoundError, packages_distributions, version
from itertools import chain, islice
from typing import Any, NamedTuple

import cloudpickle

from butfor import stopping
from butfor.errors import ButforError, EngineError
from butfor.machine import in_worker, single_threaded
from butfor.models.dask_workers import LOST, DaskWorkers, cannot_train
from butfor.models.learner import Advance, Learner, Table

LEAST_SECONDS, MOST_SECONDS = 0.1, 2.0
"""Seconds of a chunk: long enough to pay for sending it, short enough for Ctrl-C and for a worker's death."""
MOST_DEATHS = 10
"""How often processes of this machine may die and be restarted for one list of items."""
MOST_SUBJECTS = 4
"""The most learners with tables that stay available to workers."""
MOST_HELD = 16
"""The most things that a worker caches."""
SAME = ("butfor", "torch", "numpy", "scikit-learn")
"""Packages whose versions must be the same on all workers."""

Work = Callable[..., tuple[Callable[[list[Any]], Sequence[Any]], int]]
"""Turns shared data into a function for chunks of items, and the preferred number of items at a time: one on a core,
hundreds on a GPU."""

Chunks = Generator[tuple[range, Any], None, None]
"""Finished items and their results, in any order."""


class Sent(NamedTuple):
    """Something that workers can load by its key."""

    key: str
    load: Callable[[], Any]


class Pace:
    """The seconds of an item, and from them the size of a chunk: a quarter of a worker's share of what is left, so that
    all workers end together, but at least as many items as a worker runs side by side."""

    def __init__(self, each: float | None = None) -> None:
        self.each, self.at_once = each, 1

    def observe(self, items: int, seconds: float, at_once: int = 1) -> None:
        each, self.at_once = seconds / items, at_once
        self.each = each if self.each is None or at_once > 1 else 0.7 * self.each + 0.3 * each

    def size(self, left: int, workers: int) -> int:
        if self.each is None:
            return 1
        share = math.ceil(left / workers)
        seconds = min(max(share * self.each / 4, LEAST_SECONDS), MOST_SECONDS)
        return max(1, min(share, max(self.at_once, round(seconds / max(self.each, 1e-9)))))


class Workers:
    """`jobs` processes of this machine, the workers set by `joblib.parallel_config(...)`, or those of a `backend`."""

    def __init__(self, jobs: int, backend: Any = None) -> None:
        self._jobs, self._backend = jobs, backend
        self._subjects: OrderedDict[Any, tuple[Any, ...]] = OrderedDict()

    def __deepcopy__(self, memo: Any) -> Workers:
        """A clone of an audit shares its workers."""
        return self

    @property
    def on_cluster(self) -> bool:
        """Whether they belong to a cluster."""
        return not _is_local(self._active()[0])

    @property
    def count(self) -> int:
        """The number of items that they can do at a time now."""
        backend, jobs = self._active()
        return int(backend.effective_n_jobs(jobs))

    def send(self, code: Any, data: Any) -> Any:
        """Make both available to workers for the lifetime of the returned object. The user's own code is sent by value,
        since workers may be unable to import it."""
        backend, key = self._active()[0], uuid.uuid4().hex
        try:
            if _is_local(backend):
                return _write(key, _by_value(code), data)
            load = partial(pickle.loads, _by_value((code, data)))
        except Exception as error:  # the user's own objects may raise anything
            raise EngineError(f"The model cannot be sent to workers: {type(error).__name__}: {error}") from error
        if isinstance(backend, DaskWorkers):
            backend.run_everywhere(check_versions, versions_here())
            return backend.submit(Sent, key, load)
        return Sent(key, load)

    def subject(self, learner: Learner, table: Table) -> Any:
        """The same for a learner and its table, sent only once."""
        backend = self._active()[0]
        key = id(learner), id(table), None if _is_local(backend) else id(backend)
        if key not in self._subjects:
            sent = self.send(learner, replace(table, whole=None))
            self._subjects[key] = sent, learner, table, backend  # kept, so that nothing else gets their ids
            while len(self._subjects) > MOST_SUBJECTS:
                self._subjects.popitem(last=False)
        return self._subjects[key][0]

    def run(
        self, work: Work, shared: list[Any], items: Sequence[Any], pace: Pace, advance: Advance | None = None
    ) -> Chunks:
        """The results of the items, chunk by chunk."""
        start, deaths, given = 0, 0, dict[int, range]()

        def chunks(workers: int) -> Iterator[range]:
            nonlocal start
            yield from list(given.values())  # to workers that died
            while start < len(items):
                chunk = range(start, start + pace.size(len(items) - start, workers))
                given[start], start = chunk, chunk.stop
                yield chunk

        while start < len(items) or given:
            try:
                for at, results, seconds, at_once in self._replies(work, shared, items, chunks):
                    chunk = given.pop(at)
                    pace.observe(len(chunk), seconds, at_once)
                    if advance:
                        advance(len(chunk))
                    yield chunk, pickle.loads(results)
            except BrokenExecutor as error:
                deaths += 1
                if deaths == MOST_DEATHS:
                    raise EngineError(LOST) from error

    def _replies(
        self, work: Work, shared: list[Any], items: Sequence[Any], chunks: Callable[[int], Iterator[range]]
    ) -> Iterator[Any]:
        from joblib import Parallel, delayed

        backend, jobs = self._active()
        count, here = int(backend.effective_n_jobs(jobs)), (os.getpid(), versions_here())
        calls = (
            # Items as bytes: otherwise Dask looks for its futures among them.
            (os.getpid(), run_chunk, here, work, shared, chunk.start, pickle.dumps([items[k] for k in chunk]))
            for chunk in chunks(count)
        )
        if isinstance(backend, DaskWorkers):
            yield from backend.replies(((in_worker, *call) for call in calls), 2 * count)
            return
        tasks = (delayed(in_worker)(*call) for call in calls)
        if backend.supports_return_generator:
            coming = Parallel(count, backend=backend, return_as="generator_unordered", batch_size=1)(tasks)
        else:  # a pool that takes seconds to start: it is kept, and gets a few chunks at a time
            pool = _pool(backend, count)
            coming = chain.from_iterable(iter(lambda: pool(list(islice(tasks, 2 * count))), []))
        try:
            while (reply := _next(coming)) is not None:
                yield reply
        except Exception as error:
            stopping.check()  # Ctrl-C may have ended a worker that had just started
            if _is_local(backend) or isinstance(error, ButforError):
                raise
            raise cannot_train(error) from error
        finally:
            if isinstance(coming, Generator):  # cancel the rest
                with warnings.catch_warnings(action="ignore"):
                    coming.close()

    def _active(self) -> tuple[Any, int]:
        """The present backend, and the number of workers to request."""
        from joblib.parallel import get_active_backend

        backend, jobs = (self._backend, None) if self._backend else get_active_backend()
        if type(backend).__name__ == "DaskDistributedBackend":
            backend = DaskWorkers.of(backend.client)
        return backend, jobs or (self._jobs if _is_local(backend) else -1)


def in_order(chunks: Chunks, count: int) -> list[Any]:
    """The result of each item, in order."""
    done: dict[int, Any] = {}
    with closing(chunks):
        for chunk, results in chunks:
            done.update(zip(chunk, results, strict=True))
    return [done[k] for k in range(count)]


def _by_value(code: Any) -> bytes:
    """Pickled together with what it uses of modules that are neither installed nor ours, such as the user's own beside
    a script: a worker may have been started elsewhere, or know another module of that name."""
    own = [module for name, module in list(sys.modules.items()) if name.partition(".")[0] not in _installed()]
    own = [module for module in own if getattr(module, "__file__", None) and module.__name__ in sys.modules]
    with ExitStack() as registered:
        for module in own:
            if module.__name__ not in cloudpickle.list_registry_pickle_by_value():
                cloudpickle.register_pickle_by_value(module)
                registered.callback(cloudpickle.unregister_pickle_by_value, module)
        with suppress(Exception):  # a module may hold what cannot be sent, such as a lock
            return bytes(cloudpickle.dumps(code))
    return bytes(cloudpickle.dumps(code))


@lru_cache(maxsize=1)
def _installed() -> set[str]:
    return {"butfor", *sys.stdlib_module_names, *packages_distributions()}


def _is_local(backend: Any) -> bool:
    """Whether its workers are processes or threads of this machine: joblib's own backends."""
    return type(backend).__module__ == "joblib._parallel_backends"


def _next(coming: Iterator[Any]) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # joblib's, about restarted workers
        return next(coming, None)


@lru_cache(maxsize=1)
def _pool(backend: Any, count: int) -> Any:
    from joblib import Parallel

    return Parallel(count, backend=backend, batch_size=1).__enter__()


def _write(key: str, code: bytes, data: Any) -> Sent:
    """Write to a file, which is removed with the returned object."""
    import joblib

    folder = tempfile.mkdtemp(prefix="butfor-")
    sent = Sent(key, partial(_from_file, os.path.join(folder, key)))
    joblib.dump((code, data), os.path.join(folder, key))
    weakref.finalize(sent.load, shutil.rmtree, folder, ignore_errors=True)
    return sent


def _from_file(path: str) -> Any:
    import joblib

    with warnings.catch_warnings(action="ignore"):
        code, data = joblib.load(path, mmap_mode="r")
    return pickle.loads(code), data


# --- in a worker --------------------------------------------------------------------------------------

_held: OrderedDict[str, Any] = OrderedDict()
_lock = threading.RLock()


def run_chunk(
    asks: tuple[int, dict[str, str]], work: Work, shared: list[Sent], start: int, items: bytes
) -> tuple[int, bytes, float, int]:
    """The start of the chunk, the results of its items as bytes, its seconds after
    loading, and the number of items that the worker prefers at a time."""
    parent, wanted = asks
    check_versions(wanted)
    loaded = [_once(each.key, each.load) for each in shared]
    do, at_once = _once(f"{work.__name__} {[each.key for each in shared]}", lambda: work(*loaded))
    if os.getpid() != parent:
        # For good: threads that train side by side must not restore the libraries' threads.
        _once(f"threads {len(sys.modules)}", single_threaded)  # again after more libraries were loaded
    with warnings.catch_warnings(action="ignore"):  # the model gave its warnings in the first fit
        started = time.perf_counter()
        results = do(pickle.loads(items))
    return start, cloudpickle.dumps(results), time.perf_counter() - started, at_once


def _once(key: str, make: Callable[[], Any]) -> Any:
    with _lock:
        if key not in _held:
            _held[key] = make()
            while len(_held) > MOST_HELD:
                _held.popitem(last=False)
        _held.move_to_end(key)
        return _held[key]


@lru_cache(maxsize=1)
def versions_here() -> dict[str, str]:
    """The versions that must be the same, without build tags (+cpu, +cu126)."""
    found = {}
    for package in SAME:
        with suppress(PackageNotFoundError):
            found[package] = version(package).partition("+")[0]
    return found


def check_versions(wanted: dict[str, str]) -> None:
    """Raise an error if this worker has other versions than the audit."""
    here = versions_here()
    other = [package for package in wanted if here.get(package) != wanted[package]]
    if other:
        has = " and ".join(f"{package} {here[package]}" if package in here else f"no {package}" for package in other)
        asks = " and ".join(f"{package} {wanted[package]}" for package in other)
        raise EngineError(
            f"The worker on {socket.gethostname()}, process {os.getpid()}, has {has} where the audit has {asks}, so it "
            f"would train other models. Install {asks} there, or stop that worker."
        )

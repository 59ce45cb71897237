"""Engines by their names, and the engine for every learner: its own `fit`, in this process or by workers.

Little work stays in this process; how much that is follows from the number of trainings and the kind of learner, so
that the same audit does the same everywhere. More goes to processes of this machine, to the workers that
`joblib.parallel_config(...)` sets, or to a cluster (cluster.py). Shared data is sent once: processes of this machine
map it from a file. A worker with other package versions would train other models, so it refuses.
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
import uuid
import warnings
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor
from contextlib import ExitStack, suppress
from functools import cached_property, lru_cache, partial
from importlib.metadata import PackageNotFoundError, packages_distributions, version
from itertools import pairwise
from typing import Any, NamedTuple

import cloudpickle
import numpy as np
import pandas as pd

from butfor import stopping
from butfor.errors import EngineError, LearnerError, SettingError, TableError, nearest
from butfor.machine import available_cores, check_n_jobs, in_worker, load, single_threaded
from butfor.models.ensemble import Ensemble, EnsembleModel, single_learner
from butfor.models.learner import PIECE, Advance, Bound, Engine, Floats, Learner, Model, Table, Training

ENGINES = {
    "fused": "butfor.models.network:FusedEngine",
    "stacked": "butfor.models.network:StackedEngine",
    "linear": "butfor.models.linear:LinearEngine",
    "boosting": "butfor.models.boosting:BoostingEngine",
    "joblib": "butfor.models.engines:OwnFit",
}
NAMES = ("auto", *ENGINES)
CLUSTER = "butfor.models.cluster:open_cluster"
DEVICES = ("cpu", "cuda")
SCHEMES = ("tcp://", "tls://", "ucx://", "ucxx://", "ws://", "wss://")

MANY = 8
"""Trainings of a learner of unknown work from which on processes do them."""
MUCH = 12e6
"""Trainings of known work go to processes from this much on: twice what two new processes take to load everything."""
CHUNK = 0.5e6
"""Microseconds of work in a chunk: enough to pay for sending it, little enough for Ctrl-C and a worker's death."""
MOST_DEATHS = 10
"""How often workers of this machine may die and be replaced for one list of items."""
MOST_HELD = 4
"""The most learners with tables that a worker keeps."""
SAME = ("butfor", "torch", "numpy", "scikit-learn")
"""Packages whose versions must be the same on all workers."""
LOST = (
    "A chunk of trainings took several workers down; they may have too little memory. What was trained before is in "
    "the ledger, if one was given."
)

Note = Callable[[str], None]
Prepare = Callable[[Any, Any], tuple[Callable[[Sequence[Any]], list[Any]], int]]
"""From shared code and data: what does a chunk of items, and how many items it prefers at a time: one on a core,
hundreds on a GPU."""


# --- which engine ---------------------------------------------------------------------------------------


def choose_engine(
    engine: str | Engine, learner: Learner, n_jobs: int | None = None, note: Note = lambda line: None
) -> Engine:
    """The engine by its name, or an `Engine` unchanged; an error if it does not accept the learner. "auto" is the
    learner's fastest engine, on the GPU for our network if torch sees one. A device means the fastest engine there; a
    cluster is started once. If "auto" falls back to a slower engine, `note` says so; a named device never falls
    back."""
    check_engine(engine, n_jobs)
    learner = single_learner(learner)
    if not isinstance(engine, str):
        chosen = engine
    elif is_cluster(engine):
        chosen = load(CLUSTER)(engine, n_jobs)
    elif engine == "auto" or is_device(engine):
        chosen = _fastest(learner, engine, n_jobs, note)
    else:
        chosen = engine_named(engine, n_jobs=n_jobs)
    if not chosen.accepts(learner):
        raise SettingError(f"Engine '{chosen.name}' does not train {learner.name}; use engine 'auto' or 'joblib'.")
    return chosen


def _fastest(learner: Learner, device: str, n_jobs: int | None, note: Note) -> Engine:
    names = learner.engines
    if device not in ("auto", "cpu"):
        if "stacked" not in names:
            raise SettingError(f"{learner.name} trains on the CPU only; leave out engine '{device}'.")
        return engine_named("stacked", device)
    if "stacked" in names and (device == "cpu" or best_device() == "cpu"):
        names = tuple(name for name in names if name != "stacked")
    for name, slower in pairwise(names):
        try:
            return engine_named(name, n_jobs=n_jobs)
        except EngineError as error:  # such as a package that is not installed
            note(f"{error} Using engine '{slower}' instead, which is slower.")
    return engine_named(names[-1], n_jobs=n_jobs)


def engine_named(name: str, device: str | None = None, n_jobs: int | None = None) -> Any:
    """A new engine; `device` is for "stacked", by default the GPU if torch sees one."""
    if name not in ENGINES:
        raise SettingError(f"There is no engine '{name}'. {nearest(name, ENGINES)}")
    made = load(ENGINES[name])
    return made(device or best_device()) if name == "stacked" else made(n_jobs)


def own_fit_engine(engine: str | Engine, n_jobs: int | None = None) -> OwnFit:
    """The engine that runs the learner's own `fit`: on a cluster's workers if the engine is one, else on this
    machine."""
    named = load(CLUSTER)(engine, n_jobs) if isinstance(engine, str) and is_cluster(engine) else engine
    own: OwnFit | None = None if isinstance(named, str) else named.own_fit
    return own or OwnFit(n_jobs)


def check_engine(engine: str | Engine, n_jobs: int | None = None) -> None:
    """Raise an error if there is no such engine or device, or if `n_jobs` is invalid."""
    if not isinstance(engine, str):
        if not isinstance(engine, Engine):
            raise SettingError(f"engine={engine!r} is neither an engine's name nor a butfor.Engine.")
    elif is_device(engine):
        if engine != "cpu":
            load("butfor.models.network:find_device")(engine)
    elif is_cluster(engine):
        local_workers(engine)
    elif engine not in NAMES:
        raise SettingError(
            f"There is no engine '{engine}'. {nearest(engine, NAMES)} Or name a device (cuda) or a cluster (local:4)."
        )
    check_n_jobs(n_jobs)


def best_device() -> str:
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def is_device(name: str) -> bool:
    """Whether it names a torch device, such as cpu, cuda or cuda:1."""
    kind, colon, index = name.partition(":")
    return kind in DEVICES and (not colon or (index.isascii() and index.isdigit()))


def is_cluster(name: str) -> bool:
    """Whether it names worker processes here, or the address of a scheduler."""
    return name.partition(":")[0] == "local" or "://" in name


def local_workers(name: str) -> int | None:
    """The number of worker processes on this machine; None for the address of a scheduler."""
    if name.startswith(SCHEMES):
        host, _, port = name.partition("://")[2].rpartition(":")
        if name.startswith(("tcp://", "tls://")) and not (host and port.isascii() and port.isdigit()):
            raise SettingError(f"engine={name!r}: name host and port, such as tcp://scheduler:8786.")
        return None
    kind, _, count = name.partition(":")
    if kind != "local":
        raise SettingError(
            f"engine={name!r}: give local:4 for four worker processes here, or a scheduler's address such as "
            "tcp://scheduler:8786."
        )
    most = max(64, 4 * available_cores())
    if not (count.isascii() and count.isdigit() and len(count) < 9 and 1 <= int(count) <= most):
        raise SettingError(f"engine={name!r}: the number of worker processes must be a whole number from 1 to {most}.")
    return int(count)


# --- the learner's own fit ------------------------------------------------------------------------------


class OwnFit(Engine):
    """Trains any learner with its own `fit`; `n_jobs` trainings at a time, if joblib's configuration does not say."""

    name = "joblib"

    def __init__(self, n_jobs: int | None = None, workers: Workers | None = None) -> None:
        self.n_jobs = check_n_jobs(n_jobs)
        self._workers = workers

    @property
    def workers(self) -> Workers:
        """Those given, or what joblib's configuration now says."""
        from joblib.parallel import get_active_backend

        backend = get_active_backend()[0]
        if self._workers is None and type(backend).__name__ == "DaskDistributedBackend":
            cluster: Workers = load("butfor.models.cluster:DaskWorkers")(backend.client)
            return cluster
        return self._workers or Workers(self.n_jobs)

    def accepts(self, learner: Learner) -> bool:
        return True

    def bind(self, learner: Learner, table: Table, people: pd.DataFrame) -> Bound:
        return OnWorkers(self.workers, self.name, own_fit, learner, (table, people), learner.work(table))


class OnWorkers(Bound):
    """Items that are done here or by workers: `prepare(code, data)` makes what does them. `microseconds`: the work of
    one item, None if unknown."""

    def __init__(
        self, workers: Workers, name: str, prepare: Prepare, code: Any, data: Any, microseconds: float | None
    ) -> None:
        super().__init__(self._answers, name, by_definition=prepare is own_fit, width=workers.count)
        self.workers, self.prepare, self.code, self.data = workers, prepare, code, data
        self.microseconds, self.asked = microseconds, 0

    def _answers(self, trainings: Sequence[Training], advance: Advance | None = None) -> Floats:
        return np.array(self.in_order(trainings, advance), np.float32)

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
        each, workers = self.microseconds, self.workers
        pays = self.asked >= MANY if each is None else self.asked * each >= MUCH
        if workers.always or (pays and len(trainings) > 1 and workers.count > 1):
            yield from workers.run(self._sent, trainings, 1 if each is None else max(1, int(CHUNK / each)), advance)
            return
        for start in range(0, len(trainings), size):
            chunk, results = range(start, min(start + size, len(trainings))), []
            for k in chunk:
                with single_threaded(), warnings.catch_warnings(action="ignore"):  # given in the first fit
                    results += self._here([trainings[k]])
                if advance:
                    advance(1)
            yield chunk, results

    @cached_property
    def _here(self) -> Any:
        return self.prepare(self.code, self.data)[0]

    @cached_property
    def _sent(self) -> Any:
        return self.workers.send(self.prepare, self.code, self.data)


def own_fit(learner: Learner, data: tuple[Table, pd.DataFrame]) -> Any:
    """Trains with the learner's own `fit`; answers about the people, NaN if the training diverged or failed."""
    table, people = data

    def answer(training: Training) -> Floats:
        try:
            model = _fit(learner, training, table)
            return np.asarray(table.answers(model, people), np.float32)
        except (LearnerError, TableError):  # such as one class alone
            return np.full(len(people) * table.outputs, np.nan, np.float32)

    return lambda trainings: [answer(training) for training in trainings], 1


def packed_models(learner: Learner, table: Table) -> Any:
    """Models without flips, one per seed, packed for the journey."""
    return lambda seeds: [learner.pack(_fit(learner, Training((), seed), table)) for seed in seeds], 1


def calls(function: Callable[[Any, Any], Any], shared: Any) -> Any:
    return lambda parts: [function(shared, part) for part in parts], 1


def _fit(learner: Learner, training: Training, table: Table) -> Model:
    flips, seed = training
    return (learner if seed is None else learner.reseeded(seed)).fit(table, table.labels(flips))


def fit_ensemble(
    ensemble: Ensemble, first: Model, table: Table, trains: OwnFit, advance: Advance | None = None
) -> EnsembleModel:
    """The ensemble without flips, given its first member."""
    learner = ensemble.learner
    bound = OnWorkers(trains.workers, trains.name, packed_models, learner, table, learner.work(table))
    others = bound.in_order(ensemble.seeds[1:], advance)
    return EnsembleModel((first, *(learner.unpack(packed, table) for packed in others)))


# --- workers --------------------------------------------------------------------------------------------


class Sent(NamedTuple):
    """Something that workers can load, known by its key."""

    key: str
    load: Callable[[], Any]


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
        from joblib.parallel import get_active_backend

        backend, jobs = get_active_backend()
        return backend, jobs or (self.jobs if _is_joblibs_own(backend) else -1)

    def send(self, prepare: Prepare, code: Any, data: Any) -> Any:
        """Make all three available to workers for the lifetime of the returned object. The user's own code is sent by
        value, since workers may be unable to import it."""
        import joblib

        key, folder = uuid.uuid4().hex, tempfile.mkdtemp(prefix="butfor-")
        if not _is_joblibs_own(self._backend()[0]):  # its workers may be on other machines
            return Sent(key, partial(pickle.loads, by_value((prepare, code, data))))
        sent = Sent(key, partial(_from_file, os.path.join(folder, key)))
        joblib.dump((by_value((prepare, code)), data), os.path.join(folder, key))
        weakref.finalize(sent.load, shutil.rmtree, folder, ignore_errors=True)
        return sent

    def run(
        self, sent: Any, items: Sequence[Any], size: int, advance: Advance | None = None
    ) -> Iterator[tuple[range, Any]]:
        """The results of the items, chunk by chunk and in any order. A chunk has up to `size` items, or as many as a
        worker prefers; chunks shrink, so that all workers end together. If a worker dies, its chunks go to others."""
        count, start, deaths, width, given = self.count, 0, 0, 1, dict[int, range]()

        def chunks() -> Iterator[tuple[Any, ...]]:
            nonlocal start
            again = list(given.values())  # from workers that died
            while again or start < len(items):
                if again:
                    chunk = again.pop()
                else:
                    left = len(items) - start
                    few = min(math.ceil(left / count), max(width, min(size, math.ceil(left / (4 * count)))))
                    given[start] = chunk = range(start, start + few)
                    start = chunk.stop
                # Items as bytes: otherwise Dask looks for its futures among them.
                yield (os.getpid(), versions_here()), sent, chunk.start, pickle.dumps([items[k] for k in chunk])

        while start < len(items) or given:
            try:
                for at, results, preferred in self.replies(chunks()):
                    chunk, width = given.pop(at), preferred
                    if advance:
                        advance(len(chunk))
                    yield chunk, pickle.loads(results)
            except BrokenExecutor as error:
                deaths += 1
                if deaths == MOST_DEATHS:
                    raise EngineError(LOST) from error

    def replies(self, chunks: Iterator[tuple[Any, ...]]) -> Iterator[Any]:
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


def _is_joblibs_own(backend: Any) -> bool:
    """Whether its workers are processes or threads of this machine."""
    return type(backend).__module__ == "joblib._parallel_backends"


def by_value(code: Any) -> bytes:
    """Pickled together with what it uses of modules that are neither installed nor ours, such as the user's own beside
    a script: a worker may have been started elsewhere, or know another module of that name."""
    installed = {"butfor", *sys.stdlib_module_names, *_distributed_packages()}
    own = [module for name, module in list(sys.modules.items()) if name.partition(".")[0] not in installed]
    with ExitStack() as registered:
        for module in own:
            known = getattr(module, "__file__", None) and module.__name__ in sys.modules
            if known and module.__name__ not in cloudpickle.list_registry_pickle_by_value():
                cloudpickle.register_pickle_by_value(module)
                registered.callback(cloudpickle.unregister_pickle_by_value, module)
        with suppress(Exception):  # a module may hold what cannot be sent, such as a lock
            return bytes(cloudpickle.dumps(code))
    try:
        return bytes(cloudpickle.dumps(code))
    except Exception as error:  # the user's own objects may raise anything
        raise EngineError(f"The model cannot be sent to workers: {type(error).__name__}: {error}") from error


_distributed_packages = lru_cache(maxsize=1)(packages_distributions)


def _from_file(path: str) -> Any:
    import joblib

    with warnings.catch_warnings(action="ignore"):
        code, data = joblib.load(path, mmap_mode="r")
    return *pickle.loads(code), data


# --- in a worker ----------------------------------------------------------------------------------------

_held: OrderedDict[str, Any] = OrderedDict()
_lock = threading.RLock()
_on_one_thread = lru_cache(maxsize=1)(lambda modules: single_threaded())
"""For good: threads that train side by side must not restore the libraries' threads."""


def run_chunk(caller: tuple[int, dict[str, str]], sent: Sent, start: int, items: bytes) -> tuple[int, bytes, int]:
    """The start of the chunk, the results of its items as bytes, and how many items this worker prefers at a time."""
    parent, versions = caller
    check_versions(versions)
    with _lock:
        if sent.key not in _held:
            prepare, code, data = sent.load()
            _held[sent.key] = prepare(code, data)
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

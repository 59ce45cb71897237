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
import re
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
from importlib.util import find_spec
from typing import Any, NamedTuple

import cloudpickle
import numpy as np
import pandas as pd

from butfor import stopping
from butfor.errors import EngineError, LearnerError, SettingError, TableError, nearest
from butfor.machine import available_cores, check_n_jobs, in_worker, load, single_threaded
from butfor.models.ensemble import Ensemble, EnsembleModel, single_learner
from butfor.models.learner import PIECE, Advance, Bound, Engine, Learner, Model, Table, Training

KINDS = {"fused": "mlp", "stacked": "mlp", "linear": "sklearn", "boosting": "sklearn"}
"""The kind of learner that an engine trains; "joblib" trains all."""
NAMES = ("auto", *KINDS, "joblib")
CLUSTER = "butfor.models.cluster:open_cluster"
DEVICE = re.compile(r"cpu|cuda(:[0-9]+)?")
ADDRESS = re.compile(r"(tcp|tls)://.+:[0-9]+|(ucx|ucxx|ws|wss)://.+")
LOCAL = re.compile(r"local:([0-9]{1,8})")

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

Prepare = Callable[[Any, Any], tuple[Callable[[Sequence[Any]], list[Any]], int]]
"""From shared code and data: what does a chunk of items, and how many items it prefers at a time: one on a core,
hundreds on a GPU."""


# --- which engine ---------------------------------------------------------------------------------------


def choose_engine(
    engine: str | Engine,
    learner: Learner,
    n_jobs: int | None = None,
    note: Callable[[str], None] = lambda line: None,
) -> Engine:
    """The engine by its name, or an `Engine` unchanged. "auto" is the fastest for the learner, for our network on the
    GPU if torch sees one. A device means the fastest engine there; a cluster is started once. If "auto" falls back to
    the network's own `fit`, `note` says so."""
    check_engine(engine, n_jobs)
    if not isinstance(engine, str):
        return engine
    learner = single_learner(learner)
    if engine in KINDS and learner.kind != KINDS[engine]:
        raise SettingError(f"Engine '{engine}' does not train {learner.name}; use engine 'auto' or 'joblib'.")
    if engine in NAMES[1:] or is_cluster(engine):
        return engine_named(engine, n_jobs=n_jobs)
    if learner.kind != "mlp":
        if engine not in ("auto", "cpu"):
            raise SettingError(f"{learner.name} trains on the CPU only; leave out engine '{engine}'.")
        return Fastest("auto", n_jobs)
    if (device := best_device() if engine == "auto" else engine) != "cpu":
        return engine_named("stacked", device)
    try:
        return engine_named("fused", n_jobs=n_jobs)
    except EngineError as error:  # numba is not installed
        note(f"{error} Using engine 'joblib' instead, which is slower.")
        return OwnFit(n_jobs)


def engine_named(name: str, device: str | None = None, n_jobs: int | None = None) -> Any:
    """A new engine, whatever the learner; `device` is for "stacked", by default the GPU if torch sees one."""
    if is_cluster(name):
        return load(CLUSTER)(name, n_jobs)
    if name == "fused":
        return load("butfor.models.network:FusedEngine")(n_jobs)
    if name == "stacked":
        return load("butfor.models.network:StackedEngine")(device or best_device())
    if name not in NAMES:
        raise SettingError(f"There is no engine '{name}'. {nearest(name, NAMES[1:])}")
    return OwnFit(n_jobs) if name == "joblib" else Fastest(name, n_jobs)


def own_fit_engine(engine: str | Engine, n_jobs: int | None = None) -> OwnFit:
    """The engine that runs the learner's own `fit`: on a cluster's workers if the engine is one, else on this
    machine."""
    if isinstance(engine, str):
        return OwnFit(n_jobs, load(CLUSTER)(engine, n_jobs).workers if is_cluster(engine) else None)
    return OwnFit(n_jobs, engine.workers)


def check_engine(engine: str | Engine, n_jobs: int | None = None) -> None:
    """Raise an error if there is no such engine or device, or if `n_jobs` is invalid."""
    if not isinstance(engine, str):
        if not isinstance(engine, Engine):
            raise SettingError(f"engine={engine!r} is neither an engine's name nor a butfor.Engine.")
    elif is_cluster(engine):
        local_workers(engine)
    elif DEVICE.fullmatch(engine) and engine != "cpu":
        load("butfor.models.network:find_device")(engine)
    elif engine not in (*NAMES, "cpu"):
        raise SettingError(
            f"There is no engine '{engine}'. {nearest(engine, NAMES)} Or name a device (cuda) or a cluster (local:4)."
        )
    check_n_jobs(n_jobs)


def best_device() -> str:
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def is_cluster(name: str) -> bool:
    """Whether it names worker processes here, or the address of a scheduler."""
    return name.partition(":")[0] == "local" or "://" in name


def local_workers(name: str) -> int | None:
    """The number of worker processes on this machine; None for the address of a scheduler."""
    if ADDRESS.fullmatch(name):
        return None
    local, most = LOCAL.fullmatch(name), max(64, 4 * available_cores())
    if local is None or not 1 <= int(local[1]) <= most:
        raise SettingError(
            f"engine={name!r}: give local:4 for four worker processes here (from 1 to {most}), or a scheduler's "
            "address with host and port, such as tcp://scheduler:8786."
        )
    return int(local[1])


class Fastest(Engine):
    """The learner's own `fit`, or what trains the same models faster: for linear models and boosting."""

    def __init__(self, name: str, n_jobs: int | None = None) -> None:
        self.name, self.n_jobs = name, check_n_jobs(n_jobs)

    def bind(self, learner: Learner, table: Table, people: pd.DataFrame) -> Bound:
        names = ["linear", *(["boosting"] if find_spec("numba") else [])] if self.name == "auto" else [self.name]
        for name in names if learner.kind == "sklearn" else []:
            bound: Bound | None = load(f"butfor.models.{name}:bind")(learner, table, people, self.n_jobs)
            if bound is not None:
                return bound
        return OwnFit(self.n_jobs).bind(learner, table, people)


def bind(engine: Engine, learner: Learner, table: Table, people: pd.DataFrame) -> Bound:
    """The engine with its data in place; the learner's own `fit` if it does not train it. Answers of a plain function
    are confirmed by retraining."""
    given = engine.bind(learner, table, people)
    if given is None:
        return OwnFit().bind(learner, table, people)
    return given if isinstance(given, Bound) else Bound(given, engine.name, device=engine.device)


# --- the learner's own fit ------------------------------------------------------------------------------


class OwnFit(Engine):
    """Trains any learner with its own `fit`; `n_jobs` trainings at a time, if joblib's configuration does not say."""

    name = "joblib"

    def __init__(self, n_jobs: int | None = None, workers: Workers | None = None) -> None:
        self.n_jobs, self.workers = check_n_jobs(n_jobs), workers

    def bind(self, learner: Learner, table: Table, people: pd.DataFrame) -> Bound:
        return OnWorkers(self, own_fit, learner, (table, people), learner.work(table))


class OnWorkers(Bound):
    """Items that are done here or by an engine's workers: `prepare(code, data)` makes what does them. `microseconds`:
    the work of one item, None if unknown."""

    def __init__(self, engine: Any, prepare: Prepare, code: Any, data: Any, microseconds: float | None) -> None:
        from joblib.parallel import get_active_backend

        backend = get_active_backend()[0]
        self.workers: Workers = engine.workers or Workers(engine.n_jobs)
        if engine.workers is None and type(backend).__name__ == "DaskDistributedBackend":
            self.workers = load("butfor.models.cluster:DaskWorkers")(backend.client)
        super().__init__(self.in_order, engine.name, prepare is own_fit, width=self.workers.count)
        self.given, self.microseconds, self.asked = (prepare, code, data), microseconds, 0

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
        prepare, code, data = self.given
        return prepare(code, data)[0]

    @cached_property
    def _sent(self) -> Any:
        return self.workers.send(*self.given)


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


def fit_ensemble(
    ensemble: Ensemble, first: Model, table: Table, trains: OwnFit, advance: Advance | None = None
) -> EnsembleModel:
    """The ensemble without flips, given its first member."""
    learner = ensemble.learner
    bound = OnWorkers(trains, own_fit, learner, (table, None), learner.work(table))
    packed = bound.in_order([Training((), seed) for seed in ensemble.seeds[1:]], advance)
    return EnsembleModel((first, *(learner.unpack(each, table) for each in packed)))


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
        backend, jobs, _ = self._backend()
        return int(backend.effective_n_jobs(jobs))

    def _backend(self) -> tuple[Any, int, bool]:
        """joblib's backend, its number of jobs, and whether its workers are of this machine."""
        from joblib.parallel import get_active_backend

        backend, jobs = get_active_backend()
        here = type(backend).__module__ == "joblib._parallel_backends"
        return backend, jobs or (self.jobs if here else -1), here

    def send(self, prepare: Prepare, code: Any, data: Any) -> Any:
        """Make all three available to workers for the lifetime of the returned object. The user's own code is sent by
        value, since workers may be unable to import it."""
        import joblib

        key = uuid.uuid4().hex
        if not self._backend()[2]:
            return Sent(key, partial(pickle.loads, by_value((prepare, code, data))))
        folder = tempfile.mkdtemp(prefix="butfor-")
        sent = Sent(key, partial(_from_file, os.path.join(folder, key)))
        weakref.finalize(sent.load, shutil.rmtree, folder, ignore_errors=True)
        joblib.dump((by_value((prepare, code)), data), os.path.join(folder, key))
        return sent

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

        backend, jobs, _ = self._backend()
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
    parent, wanted = caller
    ours = versions_here()
    if other := [package for package in wanted if ours.get(package) != wanted[package]]:
        has = " and ".join(f"{package} {ours[package]}" if package in ours else f"no {package}" for package in other)
        asks = " and ".join(f"{package} {wanted[package]}" for package in other)
        raise EngineError(
            f"The worker on {socket.gethostname()}, process {os.getpid()}, has {has} where the audit has {asks}, so it "
            f"would train other models. Install {asks} there, or stop that worker."
        )
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
    versions = {}
    for package in SAME:
        with suppress(PackageNotFoundError):
            versions[package] = version(package).partition("+")[0]
    return versions

"""What runs on a worker of a cluster: unpack what was sent, once; train a chunk; say how long it took.

A worker with other versions than those of whoever asks would train other models: it says so instead of training.
"""

from __future__ import annotations

import pickle
import sys
import threading
import time
import warnings
from collections import OrderedDict
from collections.abc import Callable, Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any, NamedTuple

import numpy as np

from butfor.errors import EngineError
from butfor.learn.engines import choose_engine
from butfor.learn.joblib_engine import fitted_model, run
from butfor.machine import single_threaded

SAME = ("butfor", "torch", "numpy")
"""Packages whose versions must be the same wherever something is trained."""
MOST_HELD = 16
"""Things that a worker remembers."""

_held: OrderedDict[str, Any] = OrderedDict()
_lock = threading.RLock()
_limits: dict[int, Any] = {}


class Packed(NamedTuple):
    """Something that travels once: its name, and what it is, pickled."""

    key: str
    content: bytes


class Reply(NamedTuple):
    """What came of a chunk, the seconds it took once everything was in place, and how many items the worker likes to
    have at a time: one on a core, hundreds on a GPU."""

    result: Any
    seconds: float
    at_once: int = 1


Work = Callable[..., tuple[Callable[[list[Any]], Any], int]]
"""From what is shared to what does a chunk, and `at_once`."""


def run_chunk(work: Work, items: bytes, wanted: Mapping[str, str], *shared: Packed) -> Reply:
    """The items of a chunk, if this worker has the versions that are wanted."""
    from distributed import get_worker

    worker = str(get_worker().address)
    sentence = difference(worker, wanted, versions_here())
    if sentence:
        raise EngineError(sentence)
    key = "+".join(packed.key for packed in shared)
    unpacked = [_once(packed.key, lambda packed=packed: _unpacked(worker, packed)) for packed in shared]  # type: ignore[misc]
    do, at_once = _once(f"{work.__name__} {key}", lambda: work(*unpacked))
    with _lock:  # a worker's threads train side by side: none may put back the libraries' threads while another trains
        if len(sys.modules) not in _limits:  # what was loaded since has threads of its own
            _limits[len(sys.modules)] = single_threaded()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what a model warns about, it said when it was first fitted
        started = time.perf_counter()
        result = do(pickle.loads(items))
    return Reply(result, time.perf_counter() - started, at_once)


def answers(subject: Any, asked: Any) -> tuple[Callable[[list[Any]], Any], int]:
    """What each trained model says about the people, `[trainings × people]`, by the best engine here."""
    (learner, table), (people, name) = subject, asked
    engine = choose_engine(name, learner, n_jobs=1)
    train = engine.bind(learner, table, people)
    train([])
    return lambda trainings: np.asarray(train(trainings), np.float32), engine.width


def models(subject: Any) -> tuple[Callable[[list[Any]], Any], int]:
    """The models that the learner trains under each seed on the labels as they are, without what the other side has."""
    learner, table = subject
    return lambda seeds: run(fitted_model, (learner, table, table.X.iloc[:0]), seeds), 1


def calls(call: Any) -> tuple[Callable[[list[Any]], Any], int]:
    """A function of what is shared and of each part."""
    function, shared = call
    return lambda parts: [function(shared, part) for part in parts], 1


def versions_here() -> dict[str, str]:
    """Of what must be the same, without what only says how it was built (+cpu, +cu126)."""
    found = {}
    for package in SAME:
        try:
            found[package] = version(package).partition("+")[0]
        except PackageNotFoundError:
            continue
    return found


def difference(worker: str, wanted: Mapping[str, str], found: Mapping[str, str | None]) -> str | None:
    """A sentence where a worker has other versions than are wanted."""
    there = {package: (found.get(package) or "").partition("+")[0] for package in wanted}
    other = [package for package in wanted if there[package] != wanted[package]]
    if not other:
        return None
    has = " and ".join(f"{package} {there[package]}" if there[package] else f"no {package}" for package in other)
    here = " and ".join(f"{package} {wanted[package]}" for package in other)
    return (
        f"Worker {worker} has {has} where this machine has {here}: it would train other models. Install {here} there, "
        "or stop that worker."
    )


def _once(key: str, make: Callable[[], Any]) -> Any:
    with _lock:
        if key not in _held:
            _held[key] = make()
            while len(_held) > MOST_HELD:
                _held.popitem(last=False)
        _held.move_to_end(key)
        return _held[key]


def _unpacked(worker: str, packed: Packed) -> Any:
    try:
        return pickle.loads(packed.content)
    except Exception as error:  # whatever the user's own code raises there
        raise EngineError(
            f"Worker {worker} cannot read the model and table it was sent ({type(error).__name__}: {error}): install "
            "there what is imported here."
        ) from None

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
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from typing import Any, NamedTuple

import numpy as np

from butfor.errors import EngineError
from butfor.learn.engines import choose_engine
from butfor.learn.joblib_engine import packed_model
from butfor.learn.protocols import bind
from butfor.machine import single_threaded

SAME = ("butfor", "torch", "numpy")
"""Packages whose versions must be the same wherever something is trained."""
MOST_HELD = 16
"""Things that a worker remembers."""
Work = Callable[..., tuple[Callable[[list[Any]], Any], int]]
"""From what is shared to what does a chunk, and how many items that likes to have at a time: one on a core, hundreds on
a GPU."""

_held: OrderedDict[str, Any] = OrderedDict()
_lock = threading.RLock()
_limits: dict[int, Any] = {}


class Packed(NamedTuple):
    """Something that travels once: its name, and what it is, pickled."""

    key: str
    content: bytes


def run_chunk(work: Work, items: bytes, wanted: Mapping[str, str], *shared: Packed) -> tuple[Any, float, int]:
    """What came of the items, the seconds it took once everything was in place, and how many the worker likes to have
    at a time; if it has the versions that are wanted."""
    from distributed import get_worker

    sentence = version_difference(str(get_worker().address), wanted, versions_here())
    if sentence:
        raise EngineError(sentence)
    key = "+".join(packed.key for packed in shared)
    unpacked = [_once(packed.key, lambda packed=packed: pickle.loads(packed.content)) for packed in shared]  # type: ignore[misc]
    do, at_once = _once(f"{work.__name__} {key}", lambda: work(*unpacked))
    with _lock:  # a worker's threads train side by side: none may put back the libraries' threads while another trains
        if len(sys.modules) not in _limits:  # what was loaded since has threads of its own
            _limits[len(sys.modules)] = single_threaded()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what a model warns about, it said when it was first fitted
        started = time.perf_counter()
        result = do(pickle.loads(items))
    return result, time.perf_counter() - started, at_once


def answers(subject: Any, asked: Any) -> tuple[Callable[[list[Any]], Any], int]:
    """What each trained model says about the people, `[trainings × people]`, by the best engine here."""
    (learner, table), (people, name) = subject, asked
    train = bind(choose_engine(name, learner, n_jobs=1), learner, table, people)
    train([])
    return lambda trainings: np.asarray(train(trainings), np.float32), train.width


def models(subject: Any) -> tuple[Callable[[list[Any]], Any], int]:
    """The model of each seed, packed."""
    learner, table = subject
    return lambda seeds: [packed_model((learner, table, table.X.iloc[:0]), seed) for seed in seeds], 1


def calls(call: Any) -> tuple[Callable[[list[Any]], Any], int]:
    """A function of what is shared and of each part."""
    function, shared = call
    return lambda parts: [function(shared, part) for part in parts], 1


def versions_here() -> dict[str, str]:
    """Of what must be the same, without what only says how it was built (+cpu, +cu126)."""
    found = {}
    for package in SAME:
        with suppress(PackageNotFoundError):
            found[package] = version(package).partition("+")[0]
    return found


def version_difference(worker: str, wanted: Mapping[str, str], there: Mapping[str, str]) -> str | None:
    """A sentence where a worker has other versions than are wanted."""
    other = [package for package in wanted if there.get(package) != wanted[package]]
    if not other:
        return None
    has = " and ".join(f"{package} {there[package]}" if package in there else f"no {package}" for package in other)
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

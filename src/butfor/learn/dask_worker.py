"""What runs on a worker of a cluster: unpack what was scattered, once; train a chunk; say how long it took.

A worker with other versions than those of whoever asks would train other models: it says so instead of training.
"""

from __future__ import annotations

import pickle
import sys
import threading
import time
import warnings
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from itertools import starmap
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import pandas as pd

from butfor.errors import EngineError
from butfor.learn.engines import choose_engine
from butfor.learn.joblib_engine import fitted_model
from butfor.machine import single_threaded
from butfor.seam import Bound, Floats, Learner, Table, Training

SAME = ("butfor", "torch", "numpy")
"""Packages whose versions must be the same wherever something is trained."""
MOST_HELD = 8
"""Things unpacked that a worker remembers."""

_held: OrderedDict[str, Any] = OrderedDict()
_unpacking = threading.Lock()


class Reply(NamedTuple):
    """What came of a chunk, the seconds it took once everything was in place, and how many items the worker likes to
    have at a time."""

    result: Any
    seconds: float
    at_once: int = 1


class Refusal(NamedTuple):
    """A worker that must not train, and why."""

    worker: str
    sentence: str


class Subject:
    """The learner and its table."""

    def __init__(self, learner: Learner, table: Table) -> None:
        self.learner, self.table = learner, table
        self._bounds: WeakKeyDictionary[Asked, tuple[Bound, int]] = WeakKeyDictionary()

    def bound(self, asked: Asked) -> Bound:
        """The best engine here for the learner, with its data in place and compiled."""
        return self._engine(asked)[0]

    def at_once(self, asked: Asked) -> int:
        """How many trainings that engine does side by side: one on a core, hundreds on a GPU."""
        return self._engine(asked)[1]

    def _engine(self, asked: Asked) -> tuple[Bound, int]:
        with _unpacking:
            if asked not in self._bounds:
                engine = choose_engine(asked.engine, self.learner, asked.device, jobs=1)
                bound = engine.bind(self.learner, self.table, asked.people)
                bound([])
                self._bounds[asked] = bound, engine.width
            return self._bounds[asked]

    def __reduce__(self) -> tuple[Any, ...]:
        return Subject, (self.learner, self.table)


class Asked:
    """The people asked about, and which engine is to answer: "auto" is the best of each worker."""

    def __init__(self, people: pd.DataFrame, engine: str, device: str | None) -> None:
        self.people, self.engine, self.device = people, engine, device


def run_chunk(
    function: Callable[..., Any], keys: Sequence[str], packed: Sequence[bytes], items: bytes, wanted: Mapping[str, str]
) -> Reply | Refusal:
    """`function` of what was scattered and of the items, if this worker has the versions that are wanted."""
    from distributed import get_worker

    worker = str(get_worker().address)
    sentence = difference(worker, wanted, versions_here())
    if sentence:
        return Refusal(worker, sentence)
    shared = [_unpacked(worker, key, blob) for key, blob in zip(keys, packed, strict=True)]
    at_once = function.at_once(*shared) if hasattr(function, "at_once") else 1
    _one_thread_for_good()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what a model warns about, it said when it was first fitted
        started = time.perf_counter()
        result = function(*shared, pickle.loads(items))
    return Reply(result, time.perf_counter() - started, at_once)


def answers(subject: Subject, asked: Asked, trainings: Sequence[tuple[tuple[int, ...], int | None]]) -> Floats:
    """What each trained model says about the people, `[trainings × people]`."""
    bound = subject.bound(asked)
    return np.asarray(bound(list(starmap(Training, trainings))), np.float32)


answers.at_once = Subject.at_once  # type: ignore[attr-defined]
"""Asked before the clock starts: puts everything in place."""


def models(subject: Subject, seeds: Sequence[int | None]) -> list[Any]:
    """The models that the learner trains under each seed on the labels as they are, without what the other side has."""
    return [fitted_model(subject.learner, subject.table, seed) for seed in seeds]


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


def _unpacked(worker: str, key: str, packed: bytes) -> Any:
    with _unpacking:
        if key not in _held:
            try:
                _held[key] = pickle.loads(packed)
            except Exception as error:  # whatever the user's own code raises there
                raise EngineError(
                    f"Worker {worker} cannot read the model and table it was sent ({type(error).__name__}: {error}): "
                    "install there what is imported here."
                ) from None
            while len(_held) > MOST_HELD:
                _held.popitem(last=False)
        _held.move_to_end(key)
        return _held[key]


_limits: dict[int, Any] = {}


def _one_thread_for_good() -> None:
    """A worker's threads train side by side: none may put back the libraries' own threads while another trains."""
    with _unpacking:
        if len(sys.modules) not in _limits:  # what was loaded since has threads of its own
            _limits[len(sys.modules)] = single_threaded()

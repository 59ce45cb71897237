"""The engine for every learner: the learner's own `fit`, run in parallel by joblib.

`joblib.parallel_config(...)` around an audit chooses processes (loky, the default), threads, or a Dask cluster.
Little work stays in this process; how much it is follows from the number of trainings and the kind of learner, so that
the same audit does the same everywhere.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from butfor.errors import LearnerError, TableError
from butfor.machine import check_n_jobs, single_threaded
from butfor.models.learner import Advance, Bound, Engine, FlipSet, Floats, Learner, Model, Table, Training
from butfor.models.workers import Chunks, Pace, Work, Workers, in_order

Subject = tuple[Learner, Table, pd.DataFrame]
Function = Callable[[Subject, Any], Any]

MANY = 8
"""Trainings of a learner of unknown work from which on processes do them."""
MUCH = 12e6
"""Trainings of known work go to processes from this much on: twice what two new processes take to load everything."""


class JoblibEngine(Engine):
    """Trains any learner with its own `fit`, in parallel by joblib.

    Parameters
    ----------
    n_jobs : int, optional
        Trainings at a time, if joblib's configuration does not say; by default one per core.
    """

    name = "joblib"

    def __init__(self, n_jobs: int | None = None) -> None:
        self.n_jobs = check_n_jobs(n_jobs)
        self.workers = Workers(self.n_jobs)

    def accepts(self, learner: Learner) -> bool:
        return True

    def bind(self, learner: Learner, table: Table, people: pd.DataFrame) -> Bound:
        return WorkersBound(self.workers, (learner, table, people), self.name)

    def fit_models(
        self, learner: Learner, table: Table, seeds: Sequence[int | None], advance: Advance | None = None
    ) -> list[Any]:
        """Packed models without flips, one per seed."""
        bound = WorkersBound(self.workers, (learner, table, table.X.iloc[:0]), self.name, packed_model)
        return bound.each(seeds, advance)


class WorkersBound(Bound):
    """A learner and its data on workers. `work` makes the function that a worker runs on chunks, `function` is what it
    does with each item; by default the learner's own `fit` and its model's answers."""

    def __init__(
        self, workers: Workers, subject: Subject, name: str, function: Any = None, work: Work | None = None
    ) -> None:
        self._workers, self._subject, self.name, self.width = workers, subject, name, workers.count
        self._function, self._work = function or answer, work or each_item
        self._pace, self._asked, self._expected = Pace(), 0, 0
        self.by_definition = work is None

    def expect(self, trainings: int) -> None:
        self._expected = trainings

    @property
    def at_once(self) -> int:
        return self._workers.count

    def __call__(self, trainings: Sequence[Training], advance: Advance | None = None) -> Floats:
        answers = self.each(trainings, advance)
        return np.array(answers, np.float32).reshape(len(trainings), len(self._subject[2]) * self._subject[1].outputs)

    def each(self, items: Sequence[Any], advance: Advance | None) -> list[Any]:
        """The result of each item, here or by workers."""
        self._asked += len(items)
        self._expected = max(0, self._expected - len(items))
        if self._always or (len(items) > 1 and self._pays()):
            return in_order(self._chunks(items, advance), len(items))
        done: list[Any] = []
        for item in items:
            done += run(self._function, self._subject, [item])
            if advance:
                advance(1)
        return done

    def _pays(self) -> bool:
        """Whether all that was and will be asked is worth starting processes."""
        if self._workers.count == 1:
            return False
        learner, table, _ = self._subject
        each, items = learner.work(table), self._asked + self._expected
        return items >= MANY if each is None else items * each >= MUCH

    def pieces(
        self, trainings: Sequence[Training], advance: Advance | None = None, size: int = 64
    ) -> Iterator[tuple[range, Any]]:
        return self._chunks(trainings, advance) if self._always else super().pieces(trainings, advance, size)

    @property
    def _always(self) -> bool:
        """Whether all work goes to workers."""
        return self._workers.on_cluster or not self.by_definition

    def _chunks(self, items: Sequence[Any], advance: Advance | None) -> Chunks:
        return self._workers.run(self._work, self._shared, items, self._pace, advance)

    @cached_property
    def _shared(self) -> list[Any]:
        learner, table, people = self._subject
        return [self._workers.subject(learner, table), self._workers.send(self._function, people)]


def each_item(subject: tuple[Learner, Table], asked: tuple[Function, pd.DataFrame]) -> Any:
    """In a worker: a function that does a chunk, item by item."""
    function, people = asked
    return lambda items: run(function, (*subject, people), items), 1


def run(function: Function, subject: Subject, items: Sequence[Any]) -> list[Any]:
    """`function(subject, item)` for each item, on one thread."""
    with single_threaded(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the model gave its warnings in the first fit
        return [function(subject, item) for item in items]


def answer(subject: Subject, training: Training) -> Floats:
    """A model's answers about the people; NaN if the training diverged or failed."""
    learner, table, people = subject
    try:
        model = _fit(learner, training.seed, table, training.flips)
        return np.asarray(table.answers(model, people), np.float32)
    except (LearnerError, TableError):  # such as one class alone
        return np.full(len(people) * table.outputs, np.nan, np.float32)


def packed_model(subject: Subject, seed: int | None) -> Any:
    """The packed model without flips."""
    learner, table, _ = subject
    return learner.pack(_fit(learner, seed, table))


def _fit(learner: Learner, seed: int | None, table: Table, flips: FlipSet = ()) -> Model:
    """The learner's own fit, under the given seed."""
    return (learner if seed is None else learner.reseeded(seed)).fit(table, table.labels(flips))

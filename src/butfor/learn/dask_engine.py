"""The engine for a cluster: chunks of trainings on the workers of a `distributed.Client`, any learner.

Learner and table are scattered once; then only flip sets travel, and answers come back. Each chunk runs the best
engine of its worker: compiled code on CPUs, stacked tensors where PyTorch sees a GPU, else the learner's own `fit`.
The search itself goes on here and is as wide as it would be without a cluster, so that its answers are the same
whatever the cluster.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from butfor.errors import SettingError
from butfor.learn.dask_chunks import Cluster, Pace, Scattered
from butfor.learn.dask_worker import Asked, Subject, answers, models
from butfor.learn.engines import check_engine
from butfor.learn.linear_engine import LinearEngine
from butfor.machine import available_cores
from butfor.mlp.learner import MLPLearner
from butfor.seam import Bound, Floats, Learner, Model, Progress, Table, Training

if TYPE_CHECKING:
    from distributed import Client

MOST_SUBJECTS = 4
"""Learners with their tables that stay scattered."""


class DaskEngine:
    """Trains on the workers of `client`, a `distributed.Client`.

    `engine` and `device` say what trains there; "auto" is each worker's best. `jobs`: how many trainings the search
    looks ahead, by default as many as this machine has cores, whatever the cluster has. `patience`: seconds to wait
    for a worker where there is none."""

    name = "dask"

    def __init__(
        self,
        client: Client,
        engine: str = "auto",
        device: str | None = None,
        jobs: int | None = None,
        patience: float = 60.0,
    ) -> None:
        if not hasattr(client, "scheduler_info"):
            raise SettingError(f"DaskEngine({client!r}): give a distributed.Client.")
        if not isinstance(engine, str):
            raise SettingError(f"engine={engine!r}: name the workers' engine; 'auto' is the best of each.")
        check_engine(engine, jobs)
        if device is not None:
            from butfor.mlp.stacked import device_named

            device_named(device)
        self.client, self.engine, self.jobs, self.patience = client, engine, jobs or available_cores(), patience
        self.device = "cpu" if device is None else device
        self._asked_device = device
        self._cluster: Cluster | None = None
        self._subjects: OrderedDict[tuple[int, int], tuple[Learner, Table, Scattered]] = OrderedDict()
        self._paces: dict[tuple[Any, ...], Pace] = {}
        self.width = self.jobs
        self.by_definition = engine == "joblib"

    def __deepcopy__(self, memo: Any) -> DaskEngine:
        """scikit-learn clones an audit with its parameters; there is one cluster."""
        return self

    @property
    def cluster(self) -> Cluster:
        """The workers, looked at when they are first needed."""
        if self._cluster is None:
            cluster = Cluster(self.client, self.patience)
            cluster.admit()
            self._cluster = cluster
        return self._cluster

    @property
    def at_once(self) -> int:
        """Trainings that the cluster can do at a time now."""
        return self.cluster.threads

    @property
    def definition(self) -> DaskEngine:
        """The learner's own `fit`, on the same workers."""
        if self.engine == "joblib":
            return self
        other = copy(self)
        other.engine, other.by_definition, other.width = "joblib", True, self.jobs
        return other

    def accepts(self, learner: Learner) -> bool:
        if self.engine == "linear":
            return LinearEngine().accepts(learner)
        return self.engine in ("auto", "joblib") or isinstance(learner, MLPLearner)

    def bind(self, learner: Learner, table: Table, people: pd.DataFrame) -> Bound:
        ours = isinstance(learner, MLPLearner)
        engine, self.width, self.by_definition = self.engine, self.jobs, self.engine == "joblib"
        if self.engine in ("auto", "linear") and not ours:
            linear = LinearEngine()
            if linear.accepts(learner):
                # Thousands a second: the way to a worker would take longer. Where its minimum is not the
                # estimator's, it hands over to the estimator's own fit, and that one travels.
                bound = linear.bind(learner, table, people)
                if not linear.by_definition:
                    self.width = linear.width
                    return bound
            engine, self.by_definition = "joblib", True
        self.cluster.admit()
        asked = Asked(people, engine, self._asked_device if ours and engine != "joblib" else None)
        pace = self._pace("answers", engine, id(learner), id(table))
        return _Bound(self, [self._subject(learner, table), self._scattered(lambda: asked)], len(people), pace)

    def models(
        self, learner: Learner, table: Table, seeds: Sequence[int | None], progress: Progress | None = None
    ) -> list[Model]:
        """The models that the learner trains under each of the seeds, the labels unchanged."""
        trained: dict[int, Model] = {}
        pace = self._pace("models", id(learner), id(table))
        for chunk, light in self.cluster.run(models, [self._subject(learner, table)], list(seeds), pace):
            for k, model in zip(chunk, light, strict=True):
                trained[k] = learner.restored(model, table) if hasattr(learner, "restored") else model
            if progress:
                progress(len(chunk))
        return [trained[k] for k in range(len(seeds))]

    def spread(self, function: Callable[..., Any], shared: Any, parts: Sequence[Any]) -> list[Any]:
        """`function(shared, part)` for each part, on the workers; what is shared travels once."""
        scattered, pace = self._scattered(lambda: shared), Pace()
        done: dict[int, Any] = {}
        pace.each = 1e9  # each part is a chunk
        for chunk, results in self.cluster.run(_each, [scattered, self._scattered(lambda: function)], parts, pace):
            done.update(zip(chunk, results, strict=True))
        return [done[k] for k in range(len(parts))]

    def _subject(self, learner: Learner, table: Table) -> Scattered:
        """Scattered once, however often it is bound."""
        key = (id(learner), id(table))
        if key not in self._subjects:
            alone = copy(learner)
            if hasattr(alone, "_data"):  # what it has encoded; each worker encodes once for itself
                alone._data = None
            packed = self._scattered(lambda: Subject(alone, replace(table, whole=None)))
            self._subjects[key] = learner, table, packed  # kept, so that nothing else gets their ids
            while len(self._subjects) > MOST_SUBJECTS:
                self._subjects.popitem(last=False)
        return self._subjects[key][2]

    def _scattered(self, make: Callable[[], Any]) -> Scattered:
        return Scattered(self.client, make)

    def _pace(self, *key: Any) -> Pace:
        return self._paces.setdefault(key, Pace())


class _Bound:
    """One subject and the people asked about."""

    def __init__(self, engine: DaskEngine, shared: list[Scattered], people: int, pace: Pace) -> None:
        self._engine, self._shared, self._people, self._pace = engine, shared, people, pace

    def __call__(self, trainings: Sequence[Training], progress: Progress | None = None) -> Floats:
        found = np.empty((len(trainings), self._people), np.float32)
        for chunk, logits in self.as_they_come(trainings, progress):
            found[chunk.start : chunk.stop] = logits
        return found

    def as_they_come(
        self, trainings: Sequence[Training], progress: Progress | None = None
    ) -> Iterator[tuple[range, Floats]]:
        """Which of the trainings are done, and their answers, in whatever order."""
        plain = [(training.flips, training.seed) for training in trainings]
        for chunk, logits in self._engine.cluster.run(answers, self._shared, plain, self._pace):
            if progress:
                progress(len(chunk))
            yield chunk, logits


def _each(shared: Any, function: Callable[..., Any], parts: Sequence[Any]) -> list[Any]:
    return [function(shared, part) for part in parts]

"""The same work for every engine: a data set's rows as numbers, its published training, flip sets
drawn at random."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Sequence
from copy import copy
from math import comb
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from joblib import Parallel, delayed

from butfor.audit import LabelAudit
from butfor.errors import SettingError
from butfor.models.network import MLP
from butfor.models.own_fit import bind
from butfor.models.seam import (
    Bound,
    Engine,
    FlipSet,
    Floats,
    Learner,
)
from butfor.nets import (
    Fits,
    Network,
    Recipe,
    Rows,
    train_one,
)
from butfor.result.population import Population
from butfor.support.stopping import listen
from butfor.table.embedded import Dataset, Setup, load_dataset
from butfor.table.encoding import TableEncoder
from butfor.table.table import Table

EMBEDDED = ("salary", "student", "german", "compas", "default", "adult")


def processor() -> str:
    """This machine's processor in words."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text(encoding="utf-8").splitlines() if cpuinfo.exists() else []
    named = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.processor() or platform.machine()


class WrappedEngine(Engine):
    """Another engine's trainings under its name, with other `facts` once it is bound."""

    facts: ClassVar[dict[str, Any]] = {}

    def __init__(self, engine: Engine) -> None:
        self.engine, self.name, self.device = engine, engine.name, engine.device

    def bind(self, learner: Learner, table: Table, people: pd.DataFrame) -> Bound:
        bound = copy(bind(self.engine, learner, table, people))
        bound.__dict__.update(self.facts)
        return bound


def network(setup: Setup, seed: int = 0) -> MLP:
    """The published network of a data set."""
    return MLP(
        setup.hidden, max_epochs=setup.max_epochs, batch_size=setup.batch_size, random_state=seed
    )


def fit(audit: LabelAudit, data: Dataset) -> LabelAudit:
    """Fitted on the published split, with its validation rows."""
    validation = (data.X_val, data.y_val)
    return audit.fit(
        data.X_train, data.y_train, sensitive_features=data.sensitive, validation=validation
    )


def explain(audit: LabelAudit, X: pd.DataFrame, **settings: Any) -> Population:
    """The audit of everybody. A part of it is no measurement: Ctrl-C is passed on."""
    with listen() as flag:
        population = audit.explain_all(X, **settings)
    if population.interrupted or flag.interrupted:
        raise KeyboardInterrupt
    return population


def mean(values: Iterable[float | None], digits: int = 2) -> float | None:
    """Of those that are known, or None."""
    known = [value for value in values if value is not None]
    return round(float(np.mean(known)), digits) if known else None


def refuse_below_one(**counts: float) -> None:
    for name, count in counts.items():
        if count < 1:
            raise SettingError(f"{name}={count} must be at least 1.")


def encoded(name: str) -> tuple[Rows, Floats, Setup]:
    """A data set's rows as numbers, its test people, and how it is trained."""
    data = load_dataset(name)
    encoder = TableEncoder("embed", data.setup.numeric).fit(data.X_train)
    X, X_val, people = (encoder.transform(part) for part in (data.X_train, data.X_val, data.X_test))
    return Rows(X, data.y_train.to_numpy(), X_val, data.y_val.to_numpy()), people, data.setup


def random_flip_sets(n: int, size: int, count: int, seed: int = 0) -> list[FlipSet]:
    """`count` different sets of `size` rows, or as many as there are."""
    rng, found = np.random.default_rng(seed), dict[FlipSet, None]()
    while len(found) < min(count, comb(n, size)):
        found[tuple(sorted(int(row) for row in rng.choice(n, size, replace=False)))] = None
    return list(found)


def batch_in_words(batch_size: int | None) -> str:
    return "full batch" if batch_size is None else f"batch {batch_size}"


def packed(network: Network) -> Floats:
    """All its numbers, in PyTorch's order."""
    parts = [a.ravel() for pair in zip(network.weights, network.biases, strict=True) for a in pair]
    return np.concatenate(parts).astype(np.float32)


def reference_fits(
    recipe: Recipe, rows: Rows, flip_sets: Sequence[FlipSet], people: Floats, jobs: int = 1
) -> Fits:
    """One training by the definition per flip set, in `jobs` processes if there are more sets than
    that: what engines are measured against."""
    # Large arrays would otherwise arrive as read-only maps, which torch warns about.
    parallel = Parallel(n_jobs=jobs if len(flip_sets) > jobs else 1, max_nbytes=None)
    networks = parallel(delayed(train_one)(recipe, rows, flips) for flips in flip_sets)
    return Fits(
        logits=np.array([f.logits(people).ravel() for f in networks], np.float32).reshape(
            len(networks), -1
        ),
        best_epoch=np.array([f.best_epoch for f in networks], np.int64),
        epochs=np.array([f.epochs for f in networks], np.int64),
        validation_loss=np.array([f.validation_loss for f in networks], np.float32),
    )

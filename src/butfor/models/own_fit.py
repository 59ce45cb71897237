"""The learner's own `fit` as an engine: it trains every learner, and what no other engine takes."""

from __future__ import annotations

import pandas as pd

from butfor.models.seam import Bound, Engine, Learner
from butfor.models.workers import OnWorkers, Workers, own_fit
from butfor.support.cores import check_n_jobs
from butfor.table.table import Table


class OwnFit(Engine):
    """Trains any learner with its own `fit`; `n_jobs` trainings at a time, if joblib's
    configuration does not say."""

    name = "joblib"

    def __init__(self, n_jobs: int | None = None, workers: Workers | None = None) -> None:
        self.n_jobs = check_n_jobs(n_jobs)
        self.workers = workers

    def bind(self, learner: Learner, table: Table, people: pd.DataFrame) -> Bound:
        return OnWorkers(self, own_fit, learner, (table, people), learner.work(table))


def bind(
    engine: Engine, learner: Learner, table: Table, people: pd.DataFrame, n_jobs: int | None = None
) -> Bound:
    """The engine with its data in place; the learner's own `fit`, `n_jobs` at a time, if it does
    not train it. Answers of a plain function are confirmed by retraining."""
    train = engine.bind(learner, table, people)
    if train is None:
        return OwnFit(n_jobs).bind(learner, table, people)
    return train if isinstance(train, Bound) else Bound(train, engine.name, device=engine.device)

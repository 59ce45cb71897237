"""Trainer: one learner, one table and a fixed group of people, behind an engine, the definition and a ledger."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
import pandas as pd

from butfor.learn.joblib_engine import JoblibEngine
from butfor.progress import Watcher
from butfor.seam import Bound, Engine, FlipSet, Floats, Learner, Table, Training
from butfor.search.ledger import Ledger, Page


class Trainer:
    """An engine on one training table, asked about a fixed group of people; counts what it trains.

    With a ledger, what was trained before is recalled instead, and what is trained is written down
    piece by piece, so that a killed run loses little. Confirmations are the learner's own `fit`, always trained here
    and now, side by side."""

    PIECE = 64
    """With a ledger: trainings (or engine widths, where those are larger) between two writes."""

    def __init__(
        self,
        engine: Engine,
        learner: Learner,
        table: Table,
        people: pd.DataFrame,
        ledger: Ledger | None = None,
        jobs: int | None = None,
    ) -> None:
        self.engine, self.learner, self.table, self.people = engine, learner, table, people
        self.train: Bound = engine.bind(learner, table, people)
        self._definition = JoblibEngine(jobs)
        self._defined: Bound | None = self.train if engine.by_definition else None
        self.jobs = self._definition.jobs
        self._page: Page | None = ledger.page(learner, table, people, engine) if ledger is not None else None
        self.trained = self.recalled = self.confirmations = 0
        self._seconds_each: float | None = None
        """What one training took at the best: the first ones may compile."""
        self._logits: dict[FlipSet, Floats] = {}
        self._recalled: set[FlipSet] = set()
        self._looked_at: set[FlipSet] = set()
        self._confirmed: dict[FlipSet, Floats] = {}

    @property
    def width(self) -> int:
        """How many trainings the engine likes to do side by side."""
        return self.engine.width

    def time_of_one(self) -> float:
        """Seconds per training, side by side: of those done so far or, before the first, of one that is done for it."""
        if self._seconds_each is None:
            self.train([Training(())])  # compiles what must be compiled
            started = time.perf_counter()
            self.train([Training(())])
            self._seconds_each = (time.perf_counter() - started) / min(self.width, self.jobs)
        return self._seconds_each

    def known(self, flips: FlipSet) -> bool:
        return flips in self._logits

    @property
    def all_known(self) -> list[FlipSet]:
        return list(self._logits)

    def fit(self, flip_sets: Sequence[FlipSet], watch: Watcher) -> None:
        """Train the flip sets, by the engine."""
        self._logits.update(self._answers(flip_sets, watch))
        self.trained += len(flip_sets)

    def logits(self, flips: FlipSet) -> Floats:
        """What the model trained on a flip set says about each person."""
        self._looked_at.add(flips)
        return self._logits[flips]

    @property
    def needed(self) -> int:
        """Models whose answers were looked at; the others were trained ahead of time."""
        return len(self._looked_at)

    def retrain(self, flip_sets: Sequence[FlipSet]) -> Floats:
        """What the models trained on the flip sets say, `[sets × people]`; each is trained once."""
        self.fit([flips for flips in dict.fromkeys(flip_sets) if not self.known(flips)], Watcher())
        return np.array([self.logits(flips) for flips in flip_sets])

    def confirm(self, flip_sets: Sequence[FlipSet]) -> None:
        """Train the flip sets by the definition, each once. What an engine trained here by definition stands."""
        for flips in flip_sets:
            if self.engine.by_definition and flips in self._logits and flips not in self._recalled:
                self._confirmed[flips] = self._logits[flips]
        missing = [flips for flips in dict.fromkeys(flip_sets) if flips not in self._confirmed]
        if not missing:
            return
        if self._defined is None:
            self._defined = self._definition.bind(self.learner, self.table, self.people)
        answers = self._defined([Training(flips) for flips in missing])
        self._confirmed.update(zip(missing, answers, strict=True))
        self.confirmations += len(missing)

    def confirmed_logits(self, flips: FlipSet) -> Floats:
        return self._confirmed[flips]

    def _answers(self, flip_sets: Sequence[FlipSet], watch: Watcher) -> dict[FlipSet, Floats]:
        """In the order asked for, whatever was recalled."""
        if self._page is None:
            return self._fitted(flip_sets, watch)
        known = self._page.recall(flip_sets)
        watch.trained(len(known))
        self.recalled += len(known)
        self._recalled.update(known)
        missing = [flips for flips in flip_sets if flips not in known]
        size = max(self.PIECE, self.width)
        for piece in (missing[start : start + size] for start in range(0, len(missing), size)):
            fitted = self._fitted(piece, watch)
            self._page.write(fitted)
            known |= fitted
        return {flips: known[flips] for flips in flip_sets}

    def _fitted(self, flip_sets: Sequence[FlipSet], watch: Watcher) -> dict[FlipSet, Floats]:
        if not flip_sets:
            return {}
        started = time.perf_counter()
        answers = self.train([Training(flips) for flips in flip_sets], watch.trained)
        each = (time.perf_counter() - started) / len(flip_sets)
        self._seconds_each = each if self._seconds_each is None else min(each, self._seconds_each)
        return dict(zip(flip_sets, answers, strict=True))

"""What a run costs and where it ran: an engine and a ranking with a stopwatch, the machine in
words, and progress in plain lines. No dependency beyond torch, for bare machines."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

import pandas as pd

from benchmarks.work import WrappedEngine, processor
from butfor.models.seam import (
    Advance,
    Bound,
    Engine,
    Floats,
    Learner,
    Model,
    Training,
)
from butfor.search.rankings import Ranking, Scores
from butfor.support.cores import available_cores
from butfor.support.progress import Progress
from butfor.table.table import Table


class TimedEngine(WrappedEngine):
    """An engine with a stopwatch."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self.reset()

    def reset(self) -> None:
        self.seconds, self.networks = 0.0, 0

    def bind(self, learner: Learner, table: Table, people: pd.DataFrame) -> Bound:
        bound = super().bind(learner, table, people)

        def timed(trainings: Sequence[Training], advance: Advance | None = None) -> Floats:
            started = time.perf_counter()
            answers = bound(trainings, advance)
            self.seconds += time.perf_counter() - started
            self.networks += len(trainings)
            return answers

        return Bound(timed, bound.name, bound.by_definition, bound.device, bound.width)


class TimedRanking(Ranking):
    """A ranking with a stopwatch."""

    def __init__(self, ranking: Ranking) -> None:
        self.ranking, self.seconds = ranking, 0.0
        self.name, self.needs, self.rebuildable = ranking.name, ranking.needs, ranking.rebuildable
        self.predicts, self.signed, self.is_random = (
            ranking.predicts,
            ranking.signed,
            ranking.is_random,
        )

    def accepts(self, model: Model) -> bool:
        return self.ranking.accepts(model)

    def train_on(self, engine: Engine) -> None:
        self.ranking.train_on(engine)

    def score(self, model: Model, table: Table, people: pd.DataFrame) -> Scores:
        started = time.perf_counter()
        scores = self.ranking.score(model, table, people)
        self.seconds += time.perf_counter() - started
        return scores


def machine_in_words(engine: str, device: str | None) -> str:
    """The machine in words: its GPU where that trains, else its processor and cores."""
    import torch

    on_gpu = engine in ("auto", "stacked") and device != "cpu"
    if on_gpu and torch.cuda.is_available():
        return torch.cuda.get_device_name()
    return f"{processor()}, {available_cores()} cores"


class LineProgress(Progress):
    """Progress in plain lines on stderr, one in `EVERY` seconds at the most."""

    EVERY = 20.0

    def __init__(self, heading: str) -> None:
        self._networks = 0
        self._last = time.monotonic()
        self.note(heading)

    def advance(self, count: int) -> None:
        self._networks += count
        if time.monotonic() - self._last > self.EVERY:
            self._last = time.monotonic()
            self.note(f"  {self._networks} retrainings")

    def note(self, line: str) -> None:
        print(line, file=sys.stderr, flush=True)

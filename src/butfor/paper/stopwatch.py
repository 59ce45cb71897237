"""What a run costs and where it ran: an engine and a ranking with a stopwatch, the machine in words, and
progress in plain lines. No dependency beyond torch, for bare machines."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from butfor.machine import available_cores, processor
from butfor.progress import Phase, Watcher, announcement, trainings_in
from butfor.rank import Ranking, Scores
from butfor.seam import Bound, Engine, Floats, Learner, Model, Progress, Table, Training


class TimedEngine:
    """An engine with a stopwatch."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.name, self.by_definition = engine.name, engine.by_definition
        self.reset()

    @property
    def width(self) -> int:
        return self.engine.width

    @property
    def device(self) -> Any:
        return getattr(self.engine, "device", "cpu")

    def reset(self) -> None:
        self.seconds, self.networks = 0.0, 0

    def accepts(self, learner: Learner) -> bool:
        return self.engine.accepts(learner)

    def bind(self, learner: Learner, table: Table, people: pd.DataFrame) -> Bound:
        train = self.engine.bind(learner, table, people)

        def timed(trainings: Sequence[Training], progress: Progress | None = None) -> Floats:
            started = time.perf_counter()
            answers = train(trainings, progress)
            self.seconds += time.perf_counter() - started
            self.networks += len(trainings)
            return answers

        return timed


@dataclass
class TimedRanking:
    """A ranking with a stopwatch."""

    ranking: Ranking
    seconds: float = 0.0
    name: str = field(init=False)

    def __post_init__(self) -> None:
        self.name = self.ranking.name

    def __getattr__(self, name: str) -> Any:
        return getattr(self.ranking, name)

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


class LineWatcher(Watcher):
    """Progress in plain lines on stderr, one in `EVERY` seconds at the most."""

    EVERY = 20.0
    listens = True

    def __init__(self, heading: str) -> None:
        self._networks = self._most = 0
        self._last = time.monotonic()
        self.note(heading)

    def plan(self, people: int, phases: Sequence[Phase]) -> None:
        self._most = trainings_in(phases)
        self.note(f"  {announcement(people, phases, kept=False)}")

    def trained(self, networks: int) -> None:
        self._networks += networks
        if time.monotonic() - self._last > self.EVERY:
            self._last = time.monotonic()
            self.note(f"  {self._networks} of at most {self._most} retrainings")

    def note(self, line: str) -> None:
        print(line, file=sys.stderr, flush=True)

"""What a run costs and where it ran: an engine and a ranking with a stopwatch, the machine in words, and
progress in plain lines. No dependency beyond torch, for bare machines."""

from __future__ import annotations

import os
import platform
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from butfor.learn.recipe import Engine, Fits, Floats, Network, Rows
from butfor.progress import Watcher
from butfor.rank import Ranking, Scores


@dataclass
class TimedEngine:
    """An engine with a stopwatch."""

    engine: Engine
    seconds: float = 0.0
    networks: int = 0
    name: str = field(init=False)

    def __post_init__(self) -> None:
        self.name = self.engine.name

    @property
    def width(self) -> int:
        return self.engine.width

    def __getattr__(self, name: str) -> Any:
        return getattr(self.engine, name)

    def reset(self) -> None:
        self.seconds, self.networks = 0.0, 0

    def fit_many(self, recipe: Any, rows: Rows, flip_sets: Any, people: Floats, progress: Any = None) -> Fits:
        started = time.perf_counter()
        fits = self.engine.fit_many(recipe, rows, flip_sets, people, progress)
        self.seconds += time.perf_counter() - started
        self.networks += len(flip_sets)
        return fits


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

    def score(self, network: Network, rows: Rows, people: Floats) -> Scores:
        started = time.perf_counter()
        scores = self.ranking.score(network, rows, people)
        self.seconds += time.perf_counter() - started
        return scores


def machine_in_words(engine: str, device: str | None) -> str:
    """The machine in words: its GPU where that trains, else its processor and cores."""
    import torch

    on_gpu = engine in ("auto", "stacked") and device != "cpu"
    if on_gpu and torch.cuda.is_available():
        return torch.cuda.get_device_name()
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{_processor()}, {cores} cores"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def versions() -> dict[str, str]:
    import torch

    from butfor import __version__

    return {"butfor": __version__, "python": platform.python_version(), "torch": torch.__version__}


class LineWatcher(Watcher):
    """Progress in plain lines on stderr, one in `EVERY` seconds at the most."""

    EVERY = 20.0

    def __init__(self, heading: str) -> None:
        self._networks = self._most = 0
        self._last = time.monotonic()
        self.note(heading)

    def plan(self, people: int, retrainings: int, seconds: float) -> None:
        self._most = retrainings
        self.note(f"  {people} people, at most {retrainings} retrainings, about {seconds:.0f} s at most")

    def trained(self, networks: int) -> None:
        self._networks += networks
        if time.monotonic() - self._last > self.EVERY:
            self._last = time.monotonic()
            self.note(f"  {self._networks} of at most {self._most} retrainings")

    def note(self, line: str) -> None:
        print(line, file=sys.stderr, flush=True)

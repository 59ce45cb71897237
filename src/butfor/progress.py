"""Progress of long work: one line on a terminal, a few lines in a log, nothing when asked to be quiet."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from butfor.terminal import one_line

TRAININGS, PEOPLE = "trainings", "people"


class Progress:
    """Hears what an audit does. This one says nothing."""

    listens = False
    """Whether anybody wants to know how long it will take."""

    def phase(self, name: str, total: int | None = None, unit: str = TRAININGS) -> None:
        """What follows belongs to this phase; `total` where it is known."""

    def advance(self, count: int) -> None:
        """That many trainings (or people, in a phase that counts them) have just finished."""

    def found(self, people: int) -> None:
        """So many people have a flip set that works, so far."""

    def note(self, line: str) -> None:
        """Something worth a line."""

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *raised: object) -> None:
        """The work is over, for now."""


@dataclass(eq=False)
class _Phase:
    """Where one phase stands."""

    name: str
    total: int | None
    unit: str
    began: float
    done: int = 0

    def __str__(self) -> str:
        """ "search: 214 trainings"."""
        total = f" of {self.total}" if self.total is not None else ""
        return f"{self.name}: {self.done}{total} {self.unit}" if self.done or total else self.name


class ConsoleProgress(Progress):
    """On a terminal one line: the present phase, how far it is and how long it will still take. Elsewhere a line every
    `LOG_EVERY` seconds, also while nothing moves."""

    LOG_EVERY = 30.0
    listens = True

    def __init__(self) -> None:
        from rich.console import Console

        self.console = Console(stderr=True, highlight=False)
        self._bars: Any = None
        self._task: Any = None
        self._phases: dict[str, _Phase] = {}
        self._now: _Phase | None = None
        self._found: int | None = None
        self._last_line = time.monotonic()
        self._over: threading.Event | None = None

    def phase(self, name: str, total: int | None = None, unit: str = TRAININGS) -> None:
        phase = self._phases.setdefault(name, _Phase(name, total, unit, time.monotonic()))
        if total is not None:
            phase.total = phase.done + total
        self._now = phase
        self._begin()
        if self._bars:
            for task in self._bars.task_ids:
                self._bars.remove_task(task)
            self._task = self._bars.add_task("", total=phase.total)
        self._draw()

    def advance(self, count: int) -> None:
        if self._now is None:
            return
        self._now.done += count
        self._draw()
        if not self._bars and time.monotonic() - self._last_line > self.LOG_EVERY:
            self._say()

    def found(self, people: int) -> None:
        self._found = people
        self._draw()

    def note(self, line: str) -> None:
        self._last_line = time.monotonic()
        with suppress(BrokenPipeError):  # nobody listens any longer
            self.console.print(one_line(line), markup=False, soft_wrap=True)

    def __exit__(self, *raised: object) -> None:
        if self._bars:
            self._bars.stop()
            self._bars = None
        if self._over:
            self._over.set()
            self._over = None
        self._phases, self._now, self._found = {}, None, None

    def _begin(self) -> None:
        """A bar on a terminal; in a log a thread that speaks up when nothing else does."""
        if self._bars or self._over:
            return
        if self.console.is_terminal:
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

            words, times = TextColumn("{task.description}", markup=False), (TimeElapsedColumn(), TimeRemainingColumn())
            self._bars = Progress(words, BarColumn(bar_width=24), *times, console=self.console, transient=True)
            self._bars.start()
        else:
            self._over = threading.Event()
            threading.Thread(target=self._speak_up, args=(self._over,), daemon=True).start()

    def _speak_up(self, over: threading.Event) -> None:
        while not over.wait(self.LOG_EVERY / 4):
            if time.monotonic() - self._last_line > self.LOG_EVERY:
                self._say()

    def _say(self) -> None:
        """Where the present phase stands and, where its end is known, when it will be over."""
        phase = self._now
        if phase is None:
            return
        elapsed = time.monotonic() - phase.began
        left = ""
        if phase.total and phase.total / 20 <= phase.done < phase.total:  # the first ones tell little
            left = f", about {duration(elapsed / phase.done * (phase.total - phase.done))} left"
        self.note(f"{phase} in {duration(elapsed)}{left}{self._finds}")

    def _draw(self) -> None:
        phase = self._now
        if self._bars and phase is not None:
            words = f"{phase}{self._finds}"
            self._bars.update(self._task, completed=phase.done, total=phase.total, description=words)

    @property
    def _finds(self) -> str:
        return "" if self._found is None else f"; {self._found} found"


def announcement(people: int, seconds: float) -> str:
    """What it will cost, in one line."""
    who = "1 person" if people == 1 else f"{people} people"
    return f"{who}, about {duration(seconds)}; Ctrl-C keeps what is done." if seconds else f"{who}, nothing to train."


def duration(seconds: float) -> str:
    """Seconds in the unit a person would say."""
    if seconds < 1.5:
        return "a second"
    if seconds < 90:
        return f"{seconds:.0f} seconds"
    return f"{seconds / 60:.0f} minutes" if seconds < 5400 else f"{seconds / 3600:.1f} hours"

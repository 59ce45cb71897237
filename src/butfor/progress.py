"""Progress of long work: one line on a terminal, a few lines in a log, nothing when asked to be quiet."""

from __future__ import annotations

import os
import sys
import threading
import time
from dataclasses import dataclass

from butfor.errors import plural
from butfor.terminal import one_line, say, say_wrapped, width_of

TRAININGS, PEOPLE = "trainings", "people"
PATIENCE = 2.0
"""Seconds after which a call in Python shows that it is at work."""
PART_OF = {"confirmation": "search"}
"""Phases that come and go within another one: they are shown, and counted, as that one."""


class Progress:
    """Hears what an audit does. This one says nothing."""

    listens = False
    """Whether anybody wants to know how long it will take."""

    def phase(self, name: str, total: int | None = None, unit: str = TRAININGS) -> None:
        """What follows belongs to this phase; `total` where it is known."""

    def advance(self, count: int) -> None:
        """That many trainings (or people, in a phase that counts them) have just finished."""

    def found(self, people: int) -> None:
        """How many people have a flip set that works, so far."""

    def expect(self, seconds: float) -> None:
        """How long everything from here on is likely to take."""

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
    ends: float | None = None

    def advance(self, count: int, now: float) -> None:
        self.done += count
        if self.total and self.done >= self.total / 20:  # the first ones tell little
            left = self.total - self.done
            self.ends = now + (now - self.began) / self.done * left if left > 0 else None

    def __str__(self) -> str:
        """ "search: 214 trainings"."""
        total = f" of {self.total}" if self.total is not None else ""
        return f"{self.name}: {self.done}{total} {self.unit}" if self.done or total else self.name


class ConsoleProgress(Progress):
    """On a terminal, or in a notebook, one line that is drawn over and over: what is going on, how far it is, how long
    it will still take. Elsewhere a line every `LOG_EVERY` seconds, also while nothing moves. `patience`: seconds before
    the first."""

    LOG_EVERY, DRAW_EVERY = 30.0, 0.2

    def __init__(self, patience: float = 0.0, listens: bool = True) -> None:
        self.patience, self.listens, self.notebook = patience, listens, in_notebook()
        tty = sys.stderr is not None and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        self.terminal = tty or self.notebook
        self._phases: dict[str, _Phase] = {}
        self._now: _Phase | None = None
        self._found: int | None = None
        self._ends: float | None = None
        self._last_line = time.monotonic()
        self._over: threading.Event | None = None
        self._drawing = threading.RLock()

    def phase(self, name: str, total: int | None = None, unit: str = TRAININGS) -> None:
        if name in PART_OF:
            name, total = PART_OF[name], None
        phase = self._phases.setdefault(name, _Phase(name, total, unit, time.monotonic()))
        if total is not None:
            phase.total = phase.done + total
        self._now = phase
        if self._over is None:
            self._over = threading.Event()
            threading.Thread(target=self._speak_up, args=(self._over,), daemon=True).start()

    def advance(self, count: int) -> None:
        if self._now is not None:
            self._now.advance(count, time.monotonic())
            self._log()

    def found(self, people: int) -> None:
        self._found = people

    def expect(self, seconds: float) -> None:
        self._ends = time.monotonic() + seconds

    def note(self, line: str) -> None:
        self._last_line = time.monotonic()
        with self._drawing:
            self._draw("")
            say_wrapped(line, err=True)

    def __exit__(self, *raised: object) -> None:
        if self._over:
            self._over.set()
        with self._drawing:
            self._draw("")
            self._over = self._now = self._found = self._ends = None
            self._phases = {}

    def _speak_up(self, over: threading.Event) -> None:
        over.wait(self.patience)
        while not over.wait(self.DRAW_EVERY if self.terminal else self.LOG_EVERY / 4):
            with self._drawing:
                if self.terminal and not over.is_set():
                    self._draw(self._line())
            self._log()

    def _log(self) -> None:
        with self._drawing:
            if not self.terminal and time.monotonic() - self._last_line > self.LOG_EVERY and (line := self._line()):
                self.note(line)

    def _line(self) -> str:
        """What is going on, how far it is, how many were found and how long it will still take."""
        phase = self._now
        if phase is None:
            return ""
        found = "" if self._found is None else f", {self._found} found"
        return f"{phase}{found}{self._left(phase)}"

    def _left(self, phase: _Phase) -> str:
        """By the estimate of the whole, or by how far the present phase is where that takes longer."""
        ends = [each for each in (self._ends, phase.ends) if each is not None]
        if not ends:
            return ""
        left = max(ends) - time.monotonic()
        return f"; about {duration(left)} left" if left > -1 else "; longer than expected"

    def _draw(self, line: str) -> None:
        if self.terminal:
            width = width_of(sys.stderr) or 80
            wipe = f"\r{' ' * (width - 1)}\r" if self.notebook else "\r\x1b[2K"
            say(f"{wipe}{one_line(line)[: width - 1]}", err=True, styled=True, end="")


def shown(progress: Progress | bool | None) -> Progress:
    """What a Python call that was given this shows: by default something in a terminal or notebook, else nothing."""
    if isinstance(progress, Progress):
        return progress
    console = ConsoleProgress(PATIENCE, listens=False)
    return console if progress or (progress is None and console.terminal) else Progress()


def in_notebook() -> bool:
    ipython = sys.modules.get("IPython")
    return ipython is not None and getattr(ipython.get_ipython(), "kernel", None) is not None


def announcement(people: int, seconds: float) -> str:
    """What it will cost, in one line."""
    who = plural(people, "person")
    return f"{who}, about {duration(seconds)}; Ctrl-C keeps what is done." if seconds else f"{who}, nothing to train."


def duration(seconds: float) -> str:
    """Seconds in the unit a person would say."""
    if seconds < 1.5:
        return "a second"
    if seconds < 90:
        return f"{seconds:.0f} seconds"
    return f"{seconds / 60:.0f} minutes" if seconds < 5400 else f"{seconds / 3600:.1f} hours"

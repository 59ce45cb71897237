"""Progress of long work: one line on a terminal, a few lines in a log, nothing when asked to be
quiet."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from butfor.support.errors import plural
from butfor.support.terminal import one_line, say_wrapped

TRAININGS = "trainings"
PEOPLE = "people"
QUIET_SECONDS = 2.0
"""Seconds after which a call in Python shows that it is at work."""
LOG_SECONDS = 30.0
"""Seconds between two lines in a log."""


class Progress:
    """Hears what an audit does. This one says nothing."""

    def phase(self, name: str, total: int | None = None, unit: str = TRAININGS) -> None:
        """What follows belongs to this phase; `total` where it is known."""

    def advance(self, count: int) -> None:
        """That many trainings (or people, in a phase that counts them) have just finished."""

    def found(self, people: int) -> None:
        """How many people have a flip set that works, so far."""

    def search_begins(self, people: int) -> None:
        """The searches for so many people begin; they may take long."""

    def done(self, people: int, of: int) -> None:
        """How many people this phase is through with."""

    def note(self, line: str) -> None:
        """Something worth a line."""

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *raised: object) -> None:
        """The work is over, for now."""


@dataclass
class _Phase:
    name: str
    unit: str
    began: float
    total: int | None = None
    done: int = 0
    moved: float = 0.0
    """When it was last advanced."""
    people: tuple[int, int] | None = None
    """How many people it is through with, and of how many."""

    @property
    def text(self) -> str:
        """ "fresh seeds: 10 of 100 trainings", "search: 214 trainings, 12 of 40 people"."""
        text = self.name
        if self.total is not None:
            text += f": {self.done} of {self.total} {self.unit}"
        elif self.done:
            text += f": {self.done} {self.unit}"
        if self.people is not None:
            done, of = self.people
            text += f", {done} of {of} people"
        return text

    @property
    def ends(self) -> float | None:
        """When it ends, by how far it is; None if it has no total, or has hardly begun."""
        if self.total is None or not self.total / 20 <= self.done < self.total:
            return None
        return self.began + (self.moved - self.began) / self.done * self.total


class ConsoleProgress(Progress):
    """What is going on and how far it is: on a terminal in one line that is drawn over and over,
    elsewhere in a line every `LOG_SECONDS`. A phase with a known total says how long it will
    still take. A search does not: all searches advance together, so nothing tells their end.
    `patience`: seconds before the first line."""

    def __init__(self, patience: float = 0.0, clock: Callable[[], float] = time.monotonic) -> None:
        self.patience = patience
        self.clock = clock
        self.terminal = (
            sys.stderr is not None and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        )
        self._live: Any = None
        self._begun = self._said = clock()
        self.__exit__()

    def __exit__(self, *raised: object) -> None:
        if self._live is not None:
            self._live.stop()
        self._live = None
        self._phases: dict[str, _Phase] = {}
        self._now: _Phase | None = None
        self._found: int | None = None

    def phase(self, name: str, total: int | None = None, unit: str = TRAININGS) -> None:
        self._now = phase = self._phases.setdefault(name, _Phase(name, unit, self.clock()))
        phase.total = None if total is None else phase.done + total
        self._show()

    def advance(self, count: int) -> None:
        if self._now is not None:
            self._now.done += count
            self._now.moved = self.clock()
            self._show()

    def found(self, people: int) -> None:
        self._found = people

    def search_begins(self, people: int) -> None:
        if not self.patience:
            self.note(f"Searching for {plural(people, 'person')}; Ctrl-C keeps what is done.")

    def done(self, people: int, of: int) -> None:
        if self._now is not None:
            self._now.people = (people, of)
            self._show()

    def note(self, line: str) -> None:
        self._said = self.clock()
        say_wrapped(line, err=True)  # a line that is drawn stays below it

    def _show(self) -> None:
        if not self.terminal:
            if self.clock() - self._said > LOG_SECONDS:
                self.note(self.line())
        elif self._live is None and self.clock() - self._begun >= self.patience:
            from rich.console import Console
            from rich.live import Live
            from rich.text import Text

            def drawn() -> Text:
                return Text(one_line(self.line()), no_wrap=True, overflow="ellipsis")

            self._live = Live(
                console=Console(stderr=True, highlight=False),
                get_renderable=drawn,
                transient=True,
                refresh_per_second=5,
            )
            self._live.start()

    def line(self) -> str:
        """ "fresh seeds: 214 of 900 trainings, 3 found; about 2 minutes left"."""
        if self._now is None:
            return ""
        text = self._now.text
        if self._found is not None:
            text += f", {self._found} found"
        if self._now.ends is None:
            return text
        left = self._now.ends - self.clock()
        if left <= -1:
            return f"{text}; longer than expected"
        return f"{text}; about {duration(left)} left"


def shown(progress: Progress | bool | None) -> Progress:
    """What a Python call that was given this shows: by default something in a terminal or notebook,
    else nothing."""
    if isinstance(progress, Progress):
        return progress
    console = ConsoleProgress(QUIET_SECONDS)
    ipython = sys.modules.get("IPython")
    notebook = ipython is not None and getattr(ipython.get_ipython(), "kernel", None) is not None
    watched = progress is None and (console.terminal or notebook)
    return console if progress or watched else Progress()


def duration(seconds: float) -> str:
    """Seconds in the unit a person would say."""
    if seconds < 90:
        return "a second" if seconds < 1.5 else f"{seconds:.0f} seconds"
    return f"{seconds / 60:.0f} minutes" if seconds < 5400 else f"{seconds / 3600:.1f} hours"

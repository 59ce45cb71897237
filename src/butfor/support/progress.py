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

    listens = False
    """Whether anybody wants to know how long it will take."""

    def phase(self, name: str, total: int | None = None, unit: str = TRAININGS) -> None:
        """What follows belongs to this phase; `total` where it is known."""

    def advance(self, count: int) -> None:
        """That many trainings (or people, in a phase that counts them) have just finished."""

    def found(self, people: int) -> None:
        """How many people have a flip set that works, so far."""

    def expect(self, seconds: float | None) -> None:
        """How long everything from here on is likely to take; None: as long as this phase."""

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


class ConsoleProgress(Progress):
    """What is going on, how far it is and how long it will still take: on a terminal in one line
    that is drawn over and over, elsewhere in a line every `LOG_SECONDS`. `patience`: seconds before
    the first."""

    def __init__(
        self,
        patience: float = 0.0,
        listens: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.patience = patience
        self.listens = listens
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
        self._ends: float | None = None

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

    def expect(self, seconds: float | None) -> None:
        self._ends = None if seconds is None else self.clock() + seconds

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
        """ "search: 214 of 900 trainings, 3 found; about 2 minutes left", by the estimate of the
        whole, or by how far the phase is where that takes longer."""
        phase = self._now
        if phase is None:
            return ""
        total = f" of {phase.total}" if phase.total is not None else ""
        text = phase.name
        if phase.done or total:
            text += f": {phase.done}{total} {phase.unit}"
        if self._found is not None:
            text += f", {self._found} found"
        ends = [] if self._ends is None else [self._ends]
        # The first ones tell little.
        if phase.total and phase.total / 20 <= phase.done < phase.total:
            ends.append(phase.began + (phase.moved - phase.began) / phase.done * phase.total)
        if not ends:
            return text
        left = max(ends) - self.clock()
        if left <= -1:
            return f"{text}; longer than expected"
        return f"{text}; about {duration(left)} left"


def shown(progress: Progress | bool | None) -> Progress:
    """What a Python call that was given this shows: by default something in a terminal or notebook,
    else nothing."""
    if isinstance(progress, Progress):
        return progress
    console = ConsoleProgress(QUIET_SECONDS, listens=False)
    ipython = sys.modules.get("IPython")
    notebook = ipython is not None and getattr(ipython.get_ipython(), "kernel", None) is not None
    watched = progress is None and (console.terminal or notebook)
    return console if progress or watched else Progress()


def announcement(people: int, seconds: float) -> str:
    """What it will cost, in one line."""
    who = plural(people, "person")
    return (
        f"{who}, about {duration(seconds)}; Ctrl-C keeps what is done."
        if seconds
        else f"{who}, nothing to train."
    )


def duration(seconds: float) -> str:
    """Seconds in the unit a person would say."""
    if seconds < 90:
        return "a second" if seconds < 1.5 else f"{seconds:.0f} seconds"
    return f"{seconds / 60:.0f} minutes" if seconds < 5400 else f"{seconds / 3600:.1f} hours"

"""Progress of long work: a bar on a terminal, a few lines in a log, nothing when asked to be quiet."""

from __future__ import annotations

import time
from contextlib import suppress
from types import TracebackType
from typing import Any

from butfor.terminal import one_line


class Watcher:
    """Hears what a search does. This one says nothing."""

    listens = False
    """Whether anybody wants to know what the search will cost."""

    def plan(self, people: int, retrainings: int, seconds: float) -> None:
        """Before the search: how many people, retrainings at most, and the estimated time."""

    def trained(self, networks: int) -> None:
        """That many networks have just finished."""

    def people(self, done: int, found: int) -> None:
        """That many people have their answer, and that many a counterfactual dataset."""

    def note(self, line: str) -> None:
        """Something worth a line."""

    def __enter__(self) -> Watcher:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """The work is over."""


class ConsoleWatcher(Watcher):
    """A rich progress bar where stderr is a terminal; elsewhere a line every `LOG_EVERY` seconds."""

    LOG_EVERY = 30.0
    listens = True

    def __init__(self) -> None:
        from rich.console import Console

        self.console = Console(stderr=True, highlight=False)
        self._bar: Any = None
        self._task: Any = None
        self._networks = self._done = self._found = self._people = self._most = 0
        self._last_line = time.monotonic()

    def plan(self, people: int, retrainings: int, seconds: float) -> None:
        self._people, self._most = people, retrainings
        about = f", about {duration(seconds)} at most" if retrainings else ""
        who = "1 eligible person" if people == 1 else f"{people} eligible people"
        self.note(f"{who}, at most {retrainings} retrainings{about} (Ctrl-C keeps what is done).")
        if self.console.is_terminal and retrainings:
            from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

            self._bar = Progress(
                TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed}/{task.total} retrainings"),
                TimeRemainingColumn(), console=self.console, transient=True,
            )  # fmt: skip
            self._task = self._bar.add_task(self._words(), total=retrainings)
            self._bar.start()

    def trained(self, networks: int) -> None:
        self._networks += networks
        if self._bar:  # making sets smaller may come on top of what was announced
            self._bar.update(self._task, advance=networks, total=max(self._most, self._networks))
        elif time.monotonic() - self._last_line > self.LOG_EVERY:
            self._last_line = time.monotonic()
            self.note(f"{self._words()}, {self._networks} retrainings so far")

    def people(self, done: int, found: int) -> None:
        self._done, self._found = done, found
        if self._bar:
            self._bar.update(self._task, description=self._words())

    def note(self, line: str) -> None:
        with suppress(BrokenPipeError):  # nobody listens any longer
            self.console.print(one_line(line), markup=False, soft_wrap=True)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar:
            self._bar.stop()
            self._bar = None

    def _words(self) -> str:
        return f"{self._done} of {self._people} people done, {self._found} found"


class TimeIsUp(KeyboardInterrupt):
    """The time that was given is over: work ends as after Ctrl-C, and keeps what is done."""


class Deadline(Watcher):
    """Passes on what it hears and, once the time it was set to is over, ends the work between two trainings."""

    def __init__(self, watch: Watcher) -> None:
        self.watch = watch
        self.listens = watch.listens
        self.passed = False
        self._until: float | None = None

    def set(self, until: float) -> None:
        """A moment of `time.monotonic`."""
        self._until = until

    def trained(self, networks: int) -> None:
        self.watch.trained(networks)
        if self._until is not None and time.monotonic() > self._until:
            self._until, self.passed = None, True  # what is found must still be confirmed
            raise TimeIsUp

    def plan(self, people: int, retrainings: int, seconds: float) -> None:
        self.watch.plan(people, retrainings, seconds)

    def people(self, done: int, found: int) -> None:
        self.watch.people(done, found)

    def note(self, line: str) -> None:
        self.watch.note(line)


def duration(seconds: float) -> str:
    """Seconds in the unit a person would say."""
    if seconds < 1.5:
        return "a second"
    if seconds < 90:
        return f"{seconds:.0f} seconds"
    return f"{seconds / 60:.0f} minutes" if seconds < 5400 else f"{seconds / 3600:.1f} hours"

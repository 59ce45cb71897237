"""Progress of long work: a bar per phase on a terminal, a few lines in a log, nothing when asked to be quiet."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from butfor.terminal import one_line

TRAININGS = "trainings"
PER_PERSON = ("search", "confirmation")
"""Phases in which people get their answers."""


@dataclass(frozen=True)
class Phase:
    """A part of the work and what it costs: `most` is a bound that holds, `expected` what usually comes of it, `each`
    the seconds one of them takes here."""

    name: str
    most: int
    expected: float
    each: float = 0.0
    unit: str = TRAININGS

    @property
    def seconds(self) -> float:
        return min(self.expected, self.most) * self.each

    @property
    def seconds_at_most(self) -> float:
        return self.most * self.each


def trainings_in(phases: Sequence[Phase]) -> int:
    """Trainings at the most."""
    return sum(phase.most for phase in phases if phase.unit == TRAININGS)


class Watcher:
    """Hears what a search does. This one says nothing."""

    listens = False
    """Whether anybody wants to know what the search will cost."""

    def plan(self, people: int, phases: Sequence[Phase]) -> None:
        """Before the search: how many people, and what is to come, in its order."""

    def phase(self, name: str, most: int | None = None, unit: str = TRAININGS) -> None:
        """What follows belongs to this phase; `most` where it was not planned and is known."""

    def left(self, most: int) -> None:
        """Of the present phase at most so many are left."""

    def trained(self, networks: int) -> None:
        """That many networks have just finished."""

    def ranked(self, people: int) -> None:
        """For that many people the labels have just been ranked."""

    def people(self, done: int, found: int) -> None:
        """That many people have their answer, and that many a counterfactual dataset."""

    def note(self, line: str) -> None:
        """Something worth a line."""

    def __enter__(self) -> Watcher:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """The work is over, for now."""


@dataclass(eq=False)
class _Line:
    """Where one phase stands."""

    name: str
    most: int | None
    unit: str
    done: int = 0
    task: Any = None
    began: float = 0.0

    def __str__(self) -> str:
        """ "search: 214 of at most 320 trainings"."""
        most = f" of at most {self.most}" if self.most is not None else ""
        return f"{self.name}: {self.done}{most} {self.unit}" if self.done or most else self.name


class ConsoleWatcher(Watcher):
    """A rich progress bar per phase where stderr is a terminal; elsewhere a line every `LOG_EVERY` seconds, also while
    nothing moves."""

    LOG_EVERY = 30.0
    listens = True

    def __init__(self) -> None:
        from rich.console import Console

        self.console = Console(stderr=True, highlight=False)
        self._bars: Any = None
        self._lines: dict[str, _Line] = {}
        self._now: _Line | None = None
        self._done = self._found = self._people = 0
        self._last_line = time.monotonic()
        self._over: threading.Event | None = None

    def plan(self, people: int, phases: Sequence[Phase]) -> None:
        self._people = people
        for phase in phases:
            self._lines[phase.name] = _Line(phase.name, phase.most, phase.unit)
        self.note(announcement(people, phases))

    def phase(self, name: str, most: int | None = None, unit: str = TRAININGS) -> None:
        line = self._lines.setdefault(name, _Line(name, most, unit))
        if most is not None:
            line.most = most
        line.began = line.began or time.monotonic()
        if self._bars and self._now not in (None, line) and self._now.name not in PER_PERSON:
            self._bars.update(self._now.task, completed=self._now.done or 1, total=self._now.done or 1)  # it is over
        self._now = line
        self._begin()
        if self._bars and line.task is None:
            line.task = self._bars.add_task("", total=line.most, count="")
        self._draw(line)

    def left(self, most: int) -> None:
        if self._now:
            self._now.most = self._now.done + most
            self._draw(self._now)

    def trained(self, networks: int) -> None:
        if self._now is None:
            return
        self._now.done += networks
        self._draw(self._now)
        if not self._bars and time.monotonic() - self._last_line > self.LOG_EVERY:
            self._say()

    def ranked(self, people: int) -> None:
        self.trained(people)

    def people(self, done: int, found: int) -> None:
        self._done, self._found = done, found
        if self._now:
            self._draw(self._now)

    def note(self, line: str) -> None:
        self._last_line = time.monotonic()
        with suppress(BrokenPipeError):  # nobody listens any longer
            self.console.print(one_line(line), markup=False, soft_wrap=True)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bars:
            self._bars.stop()
            self._bars = None
        if self._over:
            self._over.set()
            self._over = None
        self._lines, self._now = {}, None

    def _begin(self) -> None:
        """Bars on a terminal; in a log somebody who speaks up when nothing else does."""
        if self._bars or self._over:
            return
        if self.console.is_terminal:
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

            self._bars = Progress(
                TextColumn("{task.description}", markup=False), BarColumn(bar_width=24),
                TextColumn("{task.fields[count]}"), TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn(),
                console=self.console, transient=True,
            )  # fmt: skip
            self._bars.start()
        else:
            self._over = threading.Event()
            threading.Thread(target=self._speak_up, args=(self._over,), daemon=True).start()

    def _speak_up(self, over: threading.Event) -> None:
        while not over.wait(self.LOG_EVERY / 4):
            if time.monotonic() - self._last_line > self.LOG_EVERY:
                self._say()

    def _say(self) -> None:
        """Where the present phase stands, and when it will be over if it goes on like that."""
        line = self._now
        if line is None:
            return
        lasting = time.monotonic() - line.began
        left = ""
        if line.most and 0 < line.done < line.most:
            left = f", at most {duration(lasting / line.done * (line.most - line.done))} left of it"
        who = f"; {self._words()}" if self._people and line.name in PER_PERSON else ""
        self.note(f"{line} in {duration(lasting)}{left}{who}")

    def _draw(self, line: _Line) -> None:
        if self._bars and line.task is not None:
            count = f"{line.done}/{line.most} {line.unit}" if line.most is not None else ""
            count += f", {self._found} found" if self._people and line.name in PER_PERSON else ""
            self._bars.update(line.task, completed=line.done, total=line.most, description=line.name, count=count)

    def _words(self) -> str:
        return f"{self._done} of {self._people} people done, {self._found} found"


def announcement(people: int, phases: Sequence[Phase], kept: bool = True) -> str:
    """What it will cost: usually, and at the most; `kept`: and that Ctrl-C keeps what is done."""
    who = "1 eligible person" if people == 1 else f"{people} eligible people"
    most = trainings_in(phases)
    if not most:
        return f"{who}, nothing to train."
    usual, longest = (sum(times) for times in zip(*((p.seconds, p.seconds_at_most) for p in phases), strict=True))
    time_ = f"about {duration(usual)}, at most {duration(longest)}; " if longest else ""
    parts = ", ".join(f"{p.name} {p.most}" for p in phases if p.most and p.unit == TRAININGS)
    return f"{who}: {time_}at most {most} trainings ({parts}).{' Ctrl-C keeps what is done.' if kept else ''}"


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

    def plan(self, people: int, phases: Sequence[Phase]) -> None:
        self.watch.plan(people, phases)

    def phase(self, name: str, most: int | None = None, unit: str = TRAININGS) -> None:
        self.watch.phase(name, most, unit)

    def left(self, most: int) -> None:
        self.watch.left(most)

    def ranked(self, people: int) -> None:
        self.watch.ranked(people)

    def people(self, done: int, found: int) -> None:
        self.watch.people(done, found)

    def note(self, line: str) -> None:
        self.watch.note(line)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.watch.__exit__(kind, error, trace)


def duration(seconds: float) -> str:
    """Seconds in the unit a person would say."""
    if seconds < 1.5:
        return "a second"
    if seconds < 90:
        return f"{seconds:.0f} seconds"
    return f"{seconds / 60:.0f} minutes" if seconds < 5400 else f"{seconds / 3600:.1f} hours"

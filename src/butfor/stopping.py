"""When work ends early: Ctrl-C, SIGTERM, or a limit of seconds or trainings.

One handler and one flag stand for all of them. Work checks the flag between trainings and keeps what is done.

    with listen(max_seconds(600)) as flag:
        while not flag.requested:
            ...
    flag.interrupted, flag.out_of_time

The command listens before anything heavy is loaded, so this file imports little.
"""

from __future__ import annotations

import math
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from butfor.errors import SettingError, Stopped

GRACE = 0.5
"""Seconds for confirmations after Ctrl-C: the user waits for the files."""
STOPPING = "Stopping: what is done is kept. Ctrl-C again ends it at once."
INTERRUPTED = 130
"""Exit code of a command that was stopped."""


@dataclass(frozen=True)
class Stop:
    """Limits of an audit, joined by `|`; None means no limit."""

    seconds: float | None = None
    retrainings: int | None = None

    def __or__(self, other: Stop) -> Stop:
        seconds = [each for each in (self.seconds, other.seconds) if each is not None]
        retrainings = [each for each in (self.retrainings, other.retrainings) if each is not None]
        return Stop(min(seconds, default=None), min(retrainings, default=None))


def max_seconds(seconds: float) -> Stop:
    """A limit of time for `explain_all`.

    Parameters
    ----------
    seconds : float
        Two thirds are for the search, which starts with the people closest to the other decision; the rest is for
        confirmations and fresh seeds.

    Returns
    -------
    Stop
        Combine limits with `|`: `max_seconds(600) | max_retrainings(5000)`.
    """
    if not 0 < seconds < math.inf:
        raise SettingError(f"max_seconds={seconds} must be above 0.")
    return Stop(seconds=float(seconds))


def max_retrainings(count: int) -> Stop:
    """A limit of trainings for `explain_all`.

    Parameters
    ----------
    count : int
        The most models that the search trains.

    Returns
    -------
    Stop
        Combine limits with `|`: `max_seconds(600) | max_retrainings(5000)`.
    """
    if count < 1:
        raise SettingError(f"max_retrainings={count} must be at least 1.")
    return Stop(retrainings=int(count))


@dataclass
class _Signals:
    """The first signal that came while somebody listened, when, and since when confirmations have had their time."""

    number: int | None = None
    came_at: float = math.inf
    grace_from: float | None = None


_heard: _Signals | None = None
"""What the main thread hears within `listen`."""
_told: list[int] = []
"""Signals that ended this process's work at once."""
_of_thread = threading.local()
"""`halt`: the event that ends the work of this thread."""


class StopFlag:
    """Whether work should end, because it was `interrupted` or is `out_of_time`. Flags made within `listen` share its
    signals."""

    def __init__(self, stop: Stop | None = None, signals: _Signals | None = None) -> None:
        self.limits = stop or Stop()
        self.out_of_time = False
        self._signals = signals or (_heard if _in_main_thread() else None) or _Signals()
        self._deadline = math.inf

    def within(self, stop: Stop | None) -> StopFlag:
        """A flag with its own limits for a part of the work; an interruption ends both."""
        return StopFlag(stop, self._signals)

    def set_deadline(self, moment: float | None) -> None:
        """End work at this moment of `time.monotonic`."""
        self._deadline = math.inf if moment is None else moment

    @property
    def interrupted(self) -> bool:
        return self._signals.number is not None

    @property
    def requested(self) -> bool:
        """Whether work should end now."""
        return self._ended_by() is not None

    def check(self) -> None:
        """Raise `Stopped` if work should end."""
        ended_by = self._ended_by()
        if ended_by is not None:
            raise Stopped(by_hand=ended_by == "hand")

    def _ended_by(self) -> str | None:
        now, signals = time.monotonic(), self._signals
        confirming = signals.grace_from is not None and now <= max(signals.came_at, signals.grace_from) + GRACE
        if signals.number is not None and not confirming:
            return "hand"
        if now > self._deadline:
            self.out_of_time = True
            return "time"
        return None

    @contextmanager
    def grace(self) -> Iterator[None]:
        """Time to confirm finds: unlimited when the time is up, `GRACE` seconds after Ctrl-C."""
        deadline, self._deadline = self._deadline, math.inf
        self._signals.grace_from = time.monotonic()
        try:
            yield
        finally:
            self._deadline, self._signals.grace_from = deadline, None


def halt_by(event: threading.Event) -> None:
    """Make `check` raise `Stopped` in this thread, which gets no signals, once the event is set."""
    _of_thread.halt = event


def check() -> None:
    """Raise `Stopped` if work was interrupted, for code without a flag."""
    halt = getattr(_of_thread, "halt", None)
    if halt is not None and halt.is_set():
        raise Stopped(by_hand=True)
    StopFlag().check()


@contextmanager
def listen(stop: Stop | None = None) -> Iterator[StopFlag]:
    """A flag that Ctrl-C, SIGTERM and the seconds of `stop`, counted from now, set.

    The first signal prints a line. The second goes to the previous handler, which ends the work at once. An
    application's own handler also gets the first signal when the work has ended. Only the main thread gets signals, and
    only those with a handler are taken."""
    global _heard
    outermost = _heard is None and _in_main_thread()
    signals = _Signals() if outermost else None
    flag = StopFlag(stop, signals)
    if stop is not None and stop.seconds is not None:
        flag.set_deadline(time.monotonic() + stop.seconds)
    if signals is None:
        yield flag
        return
    handlers: dict[int, Any] = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    before = {number: handler for number, handler in handlers.items() if callable(handler)}

    def hear(number: int, frame: Any) -> None:
        if signals.number is not None:
            before[number](number, frame)
            return
        signals.number, signals.came_at = number, time.monotonic()
        _write(STOPPING)

    try:
        for number in before:
            signal.signal(number, hear)
        _heard = signals
        yield flag
    finally:
        _heard = None
        for number, handler in before.items():
            signal.signal(number, handler)
    if signals.number is not None and before[signals.number] not in (signal.default_int_handler, _end_process):
        before[signals.number](signals.number, None)


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def end_on_signals() -> None:
    """Let Ctrl-C and SIGTERM end this process with exit code 130, unless it was started to ignore them."""

    def uncaught(kind: type[BaseException], error: BaseException, trace: Any) -> None:
        if told_to_end() or issubclass(kind, KeyboardInterrupt):
            raise SystemExit(stopped())
        sys.__excepthook__(kind, error, trace)

    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _end_process)
    sys.excepthook = uncaught


def _end_process(number: int, frame: Any) -> None:
    _told.append(number)
    raise KeyboardInterrupt


def told_to_end() -> bool:
    """Whether a signal came that was to end everything. Errors after it, such as that of a module that was being
    imported, may be a consequence."""
    return bool(_told)


def stopped() -> int:
    """Say "Stopped."; returns the exit code."""
    _write("Stopped.")
    return INTERRUPTED


def _write(line: str) -> None:
    with suppress(OSError, ValueError, AttributeError, RuntimeError):  # nobody reads, or it is being written to
        sys.stderr.write(f"{line}\n")
        sys.stderr.flush()

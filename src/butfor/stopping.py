"""When work ends early: Ctrl-C, SIGTERM, or a limit of seconds or trainings.

One flag stands for all of them. Work checks it between trainings and keeps what is done.

    with listen(max_seconds(600)) as flag:
        while not flag.requested:
            ...
    flag.interrupted, flag.out_of_time
"""

from __future__ import annotations

import math
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import astuple, dataclass
from typing import Any, TypeVar

from butfor.errors import SettingError, Stopped
from butfor.signals import end_process

T = TypeVar("T")

GRACE = 0.5
"""Seconds for confirmations after Ctrl-C: the user waits for the files."""
STOPPING = "Stopping: what is done is kept. Ctrl-C again ends it at once."


@dataclass(frozen=True)
class Stop:
    """Limits of an audit, joined by `|`; None means no limit."""

    seconds: float | None = None
    retrainings: int | None = None

    def __or__(self, other: Stop) -> Stop:
        seconds, retrainings = zip(astuple(self), astuple(other), strict=True)
        return Stop(min(filter(None, seconds), default=None), min(filter(None, retrainings), default=None))


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


class _Signals:
    """Ctrl-C and SIGTERM since `listen` began."""

    def __init__(self) -> None:
        self.came_at: float | None = None
        self.grace_from: float | None = None
        """When the grace period of `GRACE` seconds began."""

    @property
    def end_work(self) -> bool:
        if self.came_at is None:
            return False
        return self.grace_from is None or time.monotonic() > max(self.came_at, self.grace_from) + GRACE


_heard: _Signals | None = None
"""What the main thread heard within `listen`."""


class StopFlag:
    """Whether work should end, because it was `interrupted` or is `out_of_time`. Flags made within `listen` share its
    signals."""

    def __init__(self, stop: Stop | None = None, signals: _Signals | None = None) -> None:
        self.limits = stop or Stop()
        self.out_of_time = False
        self._signals = signals or _in_main_thread() or _Signals()
        self._deadline: float | None = None

    def within(self, stop: Stop | None) -> StopFlag:
        """A flag with its own limits for a part of the work; an interruption ends both."""
        return StopFlag(stop, self._signals)

    def set_deadline(self, moment: float | None) -> None:
        """End work at this moment of `time.monotonic`."""
        self._deadline = moment

    @property
    def interrupted(self) -> bool:
        return self._signals.came_at is not None

    @property
    def requested(self) -> bool:
        """Whether work should end now."""
        if self._signals.end_work:
            return True
        late = self._deadline is not None and time.monotonic() > self._deadline
        self.out_of_time |= late
        return late

    def check(self) -> None:
        """Raise `Stopped` if work should end."""
        if self.requested:
            raise Stopped(by_hand=self._signals.end_work)

    @contextmanager
    def grace(self) -> Iterator[None]:
        """Time to confirm finds: unlimited when the time is up, `GRACE` seconds after Ctrl-C."""
        deadline, self._deadline = self._deadline, None
        self._signals.grace_from = time.monotonic()
        try:
            yield
        finally:
            self._deadline, self._signals.grace_from = deadline, None


_of_thread = threading.local()
"""`halt`: the event that ends the work of this thread."""


def halt_by(event: threading.Event) -> None:
    """Make `check` raise `Stopped` in this thread, which gets no signals, once the event is set."""
    _of_thread.halt = event


def check() -> None:
    """Raise `Stopped` if work was interrupted, for code without a flag."""
    halt = getattr(_of_thread, "halt", None)
    if halt is not None and halt.is_set():
        raise Stopped(by_hand=True)
    StopFlag().check()


def _in_main_thread() -> _Signals | None:
    return _heard if threading.current_thread() is threading.main_thread() else None


@contextmanager
def listen(stop: Stop | None = None) -> Iterator[StopFlag]:
    """A flag that Ctrl-C, SIGTERM and the seconds of `stop`, counted from now, set.

    The first signal prints a line. The second goes to the previous handler, which ends the work at once. An
    application's own handler also gets the first signal when the work has ended. Only the main thread gets signals, and
    only those with a handler are taken."""
    with _signals() as signals:
        flag = StopFlag(stop, signals)
        flag.set_deadline(None if stop is None or stop.seconds is None else time.monotonic() + stop.seconds)
        yield flag


@contextmanager
def postponed() -> Iterator[None]:
    """Delay signals to the end of the block, for code that swallows exceptions, such as numba's compiler."""
    with _signals(postpone=True):
        yield


@contextmanager
def _signals(postpone: bool = False) -> Iterator[_Signals]:
    """What the main thread hears from now on. `postpone`: previous handlers get it at the end."""
    global _heard
    if threading.current_thread() is not threading.main_thread():
        yield _Signals()
        return
    if _heard is not None:
        yield _heard
        return
    handlers: dict[int, Any] = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    before = {number: handler for number, handler in handlers.items() if callable(handler)}
    signals, first = _Signals(), list[int]()

    def hear(number: int, frame: Any) -> None:
        if first:
            before[number](number, frame)
            return
        first.append(number)
        signals.came_at = time.monotonic()
        if not postpone:
            with suppress(OSError, ValueError, AttributeError, RuntimeError):  # nobody reads, or it is being written to
                sys.stderr.write(f"{STOPPING}\n")
                sys.stderr.flush()

    try:
        for number in before:
            signal.signal(number, hear)
        _heard = signals
        yield signals
    finally:
        _heard = None
        for number, handler in before.items():
            signal.signal(number, handler)
    for number in first:
        if postpone or before[number] not in (signal.default_int_handler, end_process):
            before[number](number, None)

"""When work ends early: Ctrl-C, SIGTERM, or a limit of seconds or trainings.

One `Work` stands for all of them. A long piece of work is a row of steps, each an iterable of what
it finds, one person after the other. `Work` keeps what a step found before the work ended, and a
step that comes later finds nothing. Inside a step, trainings call `check`, which raises `Stopped`.

    with listen(max_seconds(600)) as work:
        bounds = work.kept(prove(people))       # {person: bound}
        outcomes = work.kept(search(people))    # {person: outcome}
    work.interrupted, work.out_of_time

The command listens before anything heavy is loaded, so this file imports little.
"""

from __future__ import annotations

import math
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from butfor.support.errors import SettingError, Stopped
from butfor.support.terminal import say

K = TypeVar("K")
T = TypeVar("T")
GRACE_SECONDS = 0.5
"""Seconds for confirmations after Ctrl-C: the user waits for the files."""
MIN_SECONDS_SHARE = 0.1
"""The share of the seconds that a search gets, whatever came before it."""
STOPPING = "Stopping: what is done is kept. Ctrl-C again ends it at once."
INTERRUPTED_CODE = 130
"""Exit code of a command that was stopped."""


@dataclass(frozen=True)
class Stop:
    """Limits of an audit, joined by `|`; None means no limit."""

    seconds: float | None = None
    retrainings: int | None = None

    def __or__(self, other: Stop) -> Stop:
        seconds = [limit for limit in (self.seconds, other.seconds) if limit is not None]
        retrainings = [
            limit for limit in (self.retrainings, other.retrainings) if limit is not None
        ]
        return Stop(min(seconds, default=None), min(retrainings, default=None))

    def left(self, spent: float, trained: int = 0, share: float = 1.0) -> Stop:
        """What is left: trainings, and a share of the remaining seconds or of a tenth of all."""
        seconds = None
        if self.seconds is not None:
            seconds = share * max(MIN_SECONDS_SHARE * self.seconds, self.seconds - spent)
        retrainings = None
        if self.retrainings is not None:
            retrainings = max(0, self.retrainings - trained)
        return Stop(seconds, retrainings)


def max_seconds(seconds: float) -> Stop:
    """A limit of time for `explain_all`, which `|` joins to another: `max_seconds(600) |
    max_retrainings(5000)`.

    Parameters
    ----------
    seconds : float
        Two thirds are for the search, whose rounds train for the people nearest to the other
        decision first; the rest is for confirmations and fresh seeds. It may end a tenth later, or
        one training of one model. What it left out is said: `population.run.questions`.
    """
    if not 0 < seconds < math.inf:
        raise SettingError(f"max_seconds={seconds:g} must be above 0.")
    return Stop(seconds=float(seconds))


def max_retrainings(count: int) -> Stop:
    """A limit of trainings for `explain_all`, which `|` joins to another: `max_seconds(600) |
    max_retrainings(5000)`.

    Parameters
    ----------
    count : int
        The most models that the search trains.
    """
    if count < 1:
        raise SettingError(f"max_retrainings={count} must be at least 1.")
    return Stop(retrainings=int(count))


@dataclass
class _Heard:
    """The first signal since somebody began to listen, when it came, and how many seconds it leaves
    to work."""

    number: int | None = None
    came: float = math.inf
    grace: float = 0.0


_heard: _Heard | None = None
"""What all flags share within `listen`."""
_of_thread = threading.local()
"""`check`: what a thread of ours, which gets no signals, is ended by."""


class Work:
    """Work that Ctrl-C or a limit may end. A long piece of work is a row of steps, each an iterable
    of what it finds, one person after the other; `kept` keeps what a step found before the end.
    Works made within `listen` share its signals; each has its own limits."""

    def __init__(self, stop: Stop | None = None) -> None:
        self.limits = stop or Stop()
        self.out_of_time = False
        self._heard = _heard or _Heard()
        self.deadline: float | None = None
        """The moment of `time.monotonic` that ends the present step."""
        self.last: float | None = None
        """The moment that ends confirmations too."""

    @property
    def interrupted(self) -> bool:
        return self._heard.number is not None

    # --- steps ---

    def begin(self) -> None:
        """Count the seconds of the limits from now."""
        if self.limits.seconds is not None:
            self.last = time.monotonic() + self.limits.seconds

    @contextmanager
    def limited_to(self, share: float) -> Iterator[None]:
        """For the steps within only this share of the seconds, for those after it all of them."""
        seconds = self.limits.seconds
        if seconds is not None and self.last is not None:
            self.deadline = self.last - (1 - share) * seconds
        try:
            yield
        finally:
            self.deadline = self.last

    @contextmanager
    def until_stopped(self) -> Iterator[None]:
        """What is within goes on until the work ends."""
        with suppress(Stopped):
            yield

    def each(self, step: Iterable[T]) -> Iterator[T]:
        """What a step gives, one after the other, until the work ends."""
        with self.until_stopped():
            self.check()
            yield from step

    def kept(self, step: Iterable[tuple[K, T]], reserved: bool = False) -> dict[K, T]:
        """What a step finds before the work ends, by what it is about. Nothing if the work has
        ended already; a step with time `reserved` for it goes on when the time of others is up."""
        if self.interrupted or (self.out_of_time and not reserved):
            return {}
        return dict(self.each(step))

    def first(self, step: Iterable[T], otherwise: T) -> T:
        """The one result of a step, or another if the work ends before it."""
        return next(self.each(step), otherwise)

    # --- inside a step ---

    def check(self) -> None:
        """Raise `Stopped` if work should end."""
        now = time.monotonic()
        if now >= self._heard.came + self._heard.grace:
            raise Stopped(by_hand=True)
        if self.deadline is not None and now > self.deadline:
            self.out_of_time = True
            raise Stopped(by_hand=False)

    @contextmanager
    def grace(self) -> Iterator[None]:
        """Time to confirm finds: until the `last` moment when the time is up, `GRACE_SECONDS` after
        Ctrl-C."""
        heard = self._heard
        deadline = self.deadline
        self.deadline = self.last
        heard.grace = GRACE_SECONDS
        if self.interrupted:
            heard.came = time.monotonic()
        try:
            yield
        finally:
            self.deadline = deadline
            heard.grace = 0.0


def check() -> None:
    """Raise `Stopped` if work was interrupted, for code without a flag."""
    getattr(_of_thread, "check", Work().check)()


def checked_by(check: Callable[[], object]) -> None:
    """In a thread of ours, which gets no signals: what `check` calls there."""
    _of_thread.check = check


@contextmanager
def checking(check: Callable[[], object]) -> Iterator[None]:
    """Within it `stopping.check` of this thread is `check`, which knows limits of time too: code
    without a flag, such as a fit or a ranking, then ends at the same moment as the work around
    it."""
    before = getattr(_of_thread, "check", None)
    _of_thread.check = check
    try:
        yield
    finally:
        if before is None:
            del _of_thread.check
        else:
            _of_thread.check = before


@contextmanager
def listen(stop: Stop | None = None) -> Iterator[Work]:
    """A flag that Ctrl-C, SIGTERM and the seconds of `stop`, counted from now, set.

    The first signal prints a line. The second goes to the previous handler, which ends the work at
    once. An application's own handler also gets the first signal when the work has ended. Only the
    main thread gets signals, and only those with a handler are taken."""
    global _heard
    outermost = _heard is None and threading.current_thread() is threading.main_thread()
    heard = _Heard()
    before = dict[int, Any]()
    if outermost:
        _heard = heard
        handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        before = {number: handler for number, handler in handlers.items() if callable(handler)}
    flag = Work(stop)
    if flag.limits.seconds is not None:
        flag.deadline = time.monotonic() + flag.limits.seconds

    def hear(number: int, frame: Any) -> None:
        if heard.number is not None:
            before[number](number, frame)
        else:
            heard.number = number
            heard.came = time.monotonic()
            _say(STOPPING)

    try:
        for number in before:
            signal.signal(number, hear)
        yield flag
    finally:
        if outermost:
            _heard = None
        for number, handler in before.items():
            signal.signal(number, handler)
    if heard.number is not None and before[heard.number] is not signal.default_int_handler:
        before[heard.number](heard.number, None)


def end_on_signals() -> None:
    """Let SIGTERM end this process as Ctrl-C does: with exit code 130, without a traceback."""

    def uncaught(kind: type[BaseException], error: BaseException, trace: Any) -> None:
        if issubclass(kind, KeyboardInterrupt):
            raise SystemExit(stopped())
        sys.__excepthook__(kind, error, trace)

    if signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.excepthook = uncaught


def stopped() -> int:
    """Say "Stopped."; returns the exit code."""
    _say("Stopped.")
    return INTERRUPTED_CODE


def _say(line: str) -> None:
    # The disk is full, or a print was interrupted in its midst.
    with suppress(OSError, RuntimeError):
        say(line, err=True)

"""When work ends before it is through: after some time, after so many trainings, or by Ctrl-C.

`max_seconds(600) | max_retrainings(5000)` ends at whichever comes first. Whatever ends it, what is done is kept: Ctrl-C
and SIGTERM while results are put away wait until that is done.
"""

from __future__ import annotations

import math
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import astuple, dataclass
from typing import Any

from butfor.errors import SettingError

GRACE = 0.5
"""Seconds for confirmations after Ctrl-C: whoever has stopped the search waits for its files."""
ASKED = "Still putting away what was done; Ctrl-C once more leaves without it."
_holding = threading.Lock()
"""Held while something is put away: who puts away within that needs to hold nothing back."""
_answered = threading.Event()
"""Whether the sentence was said, in this step or an earlier one: then the next Ctrl-C is heard."""


class TimeIsUp(KeyboardInterrupt):
    """The time that was given is over: work ends as after Ctrl-C, and keeps what is done."""


@dataclass(frozen=True)
class Stop:
    """Limits of one audit; None is no limit."""

    seconds: float | None = None
    retrainings: int | None = None

    def __or__(self, other: Stop) -> Stop:
        seconds, retrainings = zip(astuple(self), astuple(other), strict=True)
        return Stop(min(filter(None, seconds), default=None), min(filter(None, retrainings), default=None))


def max_seconds(seconds: float) -> Stop:
    """Two thirds of the time are for the search, people nearest to the other decision first; the rest is for
    confirmations and fresh seeds."""
    if not 0 < seconds < math.inf:
        raise SettingError(f"max_seconds={seconds} must be above 0.")
    return Stop(seconds=float(seconds))


def max_retrainings(count: int) -> Stop:
    """So many trainings of the search at the most."""
    if count < 1:
        raise SettingError(f"max_retrainings={count} must be at least 1.")
    return Stop(retrainings=int(count))


class Stopper:
    """Watches over the limits while work is done; `check` raises `TimeIsUp` between two trainings."""

    def __init__(self, stop: Stop | None = None) -> None:
        self.stop = stop or Stop()
        self.passed = False
        self._until: float | None = None

    def set(self, until: float | None) -> None:
        """Work ends at this moment of `time.monotonic`."""
        self._until = until

    def check(self) -> None:
        if self._until is not None and time.monotonic() > self._until:
            self._until, self.passed = None, True  # what is found must still be confirmed
            raise TimeIsUp

    def room(self, trained: int, members: int) -> float:
        """Flip sets that may still be trained, of so many trainings each."""
        most = self.stop.retrainings
        return math.inf if most is None else max(0, (most - trained) // members)

    @contextmanager
    def settling(self, ended_by: KeyboardInterrupt | None) -> Iterator[bool]:
        """Time to confirm what was found: as much as it takes, but a moment after Ctrl-C (True), which ends with
        another KeyboardInterrupt."""
        until, self._until = self._until, None
        hurried = ended_by is not None and not isinstance(ended_by, TimeIsUp)
        try:
            if hurried:
                self._until = time.monotonic() + GRACE
                with _interrupt_after(GRACE):
                    yield True
            else:
                yield False
        finally:
            self._until = until


@contextmanager
def _interrupt_after(seconds: float) -> Iterator[None]:
    """Ctrl-C by ourselves after so many seconds, also in the midst of a training; where Ctrl-C is heard, in the main
    thread with a handler of Python's in place."""
    heard = threading.current_thread() is threading.main_thread() and callable(signal.getsignal(signal.SIGINT))
    press_main = getattr(signal, "pthread_kill", None)
    main = threading.main_thread().ident
    if not heard or press_main is None or main is None:
        yield
        return
    over, turn = threading.Event(), threading.Lock()

    def press() -> None:
        with turn:
            if not over.is_set():
                press_main(main, signal.SIGINT)

    timer = threading.Timer(seconds, press)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        with suppress(KeyboardInterrupt):  # pressed at the very last moment: it is over all the same
            with turn:
                over.set()
            timer.cancel()


def _handlers() -> dict[signal.Signals, Any]:
    """Of Ctrl-C and SIGTERM, where somebody hears them."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    return {number: handler for number, handler in before.items() if callable(handler)}


def tell(sentence: str) -> None:
    """To whoever has pressed Ctrl-C, also where progress is not shown."""
    sys.stderr.write(f"{sentence}\n")
    sys.stderr.flush()


@contextmanager
def held_back(say: Callable[[str], None] = tell) -> Iterator[None]:
    """Ctrl-C and SIGTERM do not end what is inside: the first one is answered with a sentence, the next one is heard,
    also in a later step. Handlers of an application's own get theirs afterwards. Only in the main thread, and where
    each would be heard."""
    if threading.current_thread() is not threading.main_thread() or not _holding.acquire(blocking=False):
        yield
        return
    heard = _handlers()
    waiting: list[tuple[int, Any]] = []

    def answer(number: int, frame: Any) -> None:
        if _answered.is_set():
            _answered.clear()
            waiting.clear()
            heard[signal.Signals(number)](number, frame)
            return
        _answered.set()
        waiting.append((number, frame))
        say(ASKED)

    try:
        for number in heard:
            signal.signal(number, answer)
        yield
    finally:
        for number, handler in heard.items():
            signal.signal(number, handler)
        _holding.release()
    for pressed, frame in waiting:
        handler = heard[signal.Signals(pressed)]
        if handler is not signal.default_int_handler and not getattr(handler, "ends_the_command", False):
            handler(pressed, frame)


def work_begins() -> None:
    """Whoever pressed Ctrl-C before this meant other work."""
    _answered.clear()


@contextmanager
def raised_again() -> Iterator[None]:
    """Ctrl-C and SIGTERM inside are raised once more at the end, where code below has swallowed them or made another
    error of them, as numba's callbacks do."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    heard = _handlers()
    raised: list[BaseException] = []

    def hear(number: int, frame: Any) -> None:
        try:
            heard[signal.Signals(number)](number, frame)
        except BaseException as stop:
            raised.append(stop)
            raise

    try:
        for number in heard:
            signal.signal(number, hear)
        yield
    except Exception:
        if raised:
            raise raised[0] from None
        raise
    finally:
        for number, handler in heard.items():
            signal.signal(number, handler)
    if raised:
        raise raised[0]

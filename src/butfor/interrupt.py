"""Ctrl-C and SIGTERM while results are put away: they wait until that is done."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

ASKED = "Still putting away what was done; Ctrl-C once more leaves without it."
_holding = threading.Lock()
"""Held while something is put away: who puts away within that needs to hold nothing back."""
_answered = threading.Event()
"""Whether the sentence was said, in this step or an earlier one: then the next Ctrl-C is heard."""


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
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    heard = {number: handler for number, handler in before.items() if callable(handler)}
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
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    heard = {number: handler for number, handler in before.items() if callable(handler)}
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

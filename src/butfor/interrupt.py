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


def tell(sentence: str) -> None:
    """To whoever has pressed Ctrl-C, also where progress is not shown."""
    sys.stderr.write(f"{sentence}\n")
    sys.stderr.flush()


@contextmanager
def held_back(say: Callable[[str], None] = tell) -> Iterator[None]:
    """Ctrl-C and SIGTERM do not end what is inside: the first one is answered with a sentence, the next one is heard.
    Handlers of an application's own get theirs afterwards. Only in the main thread, and where each would be heard."""
    if threading.current_thread() is not threading.main_thread() or not _holding.acquire(blocking=False):
        yield
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    heard = {number: handler for number, handler in before.items() if callable(handler)}
    waiting: list[tuple[int, Any]] = []

    def answer(number: int, frame: Any) -> None:
        if waiting:
            waiting.clear()
            heard[signal.Signals(number)](number, frame)
            return
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

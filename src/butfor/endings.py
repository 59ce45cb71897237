"""Ctrl-C while something is put away: it waits until that is done."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

ASKED = "Still putting away what was done; Ctrl-C once more leaves without it."


@contextmanager
def held_back(say: Callable[[str], None]) -> Iterator[None]:
    """Ctrl-C and SIGTERM do not end what is inside: the first one is answered with a sentence, the next one is heard.
    Only in the main thread, and where each would be heard at all."""
    before = {
        number: signal.getsignal(number)
        for number in (signal.SIGINT, signal.SIGTERM)
        if threading.current_thread() is threading.main_thread()
    }
    heard = {number: handler for number, handler in before.items() if callable(handler)}
    asked = False

    def answer(number: int, frame: Any) -> None:
        nonlocal asked
        if asked:
            heard[signal.Signals(number)](number, frame)
        asked = True
        say(ASKED)

    for number in heard:
        signal.signal(number, answer)
    try:
        yield
    finally:
        for number, handler in heard.items():
            signal.signal(number, handler)

"""After Ctrl-C: how long finds that the engine has made may still wait for the definition to confirm them."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from butfor.progress import Deadline, TimeIsUp, Watcher

GRACE = 0.5
"""Seconds for confirmations after Ctrl-C; whoever has stopped the search waits for its files."""


@contextmanager
def grace_after(stop: KeyboardInterrupt | None, watch: Watcher) -> Iterator[tuple[Watcher, bool]]:
    """Whom to tell about confirmations, and whether there is only a moment left for them: after Ctrl-C, but not where
    the search came to its end or had a deadline of its own. Once GRACE seconds are over, that moment ends with a
    KeyboardInterrupt."""
    if stop is None or isinstance(stop, TimeIsUp):
        yield watch, False
        return
    between_trainings = Deadline(Watcher())
    between_trainings.set(time.monotonic() + GRACE)
    with _pressed_again(GRACE):
        yield between_trainings, True


@contextmanager
def _pressed_again(seconds: float) -> Iterator[None]:
    """Another Ctrl-C, by ourselves, after so many seconds: also in the midst of a training. Only where Ctrl-C is heard:
    in the main thread, with a handler of Python's in place."""
    heard = threading.current_thread() is threading.main_thread() and callable(signal.getsignal(signal.SIGINT))
    if not heard or not hasattr(signal, "pthread_kill"):
        yield
        return
    main, over, turn = threading.main_thread().ident, threading.Event(), threading.Lock()
    assert main is not None

    def press() -> None:
        with turn:
            if not over.is_set():
                signal.pthread_kill(main, signal.SIGINT)

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


def tell_unconfirmed(watch: Watcher, finds: int) -> None:
    """Say what was left out for want of time."""
    if finds:
        sets = "1 set that turned a decision was" if finds == 1 else f"{finds} sets that turned decisions were"
        watch.note(
            f"Stopped before {sets} confirmed by the model's own fit: not reported. With --resume (a ledger) the next "
            "run goes on from here."
        )

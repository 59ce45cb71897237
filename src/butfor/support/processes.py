"""Worker processes end with the process that started them."""

from __future__ import annotations

import os
import signal
import threading
import time
from functools import lru_cache

LOOK_SECONDS = 1.0
"""Seconds between a worker's checks that its parent still runs."""


def end_with(parent: int) -> None:
    """In a worker process: it ends when its `parent` process has ended, for any reason, and leaves
    Ctrl-C to it."""
    if os.getpid() != parent and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        if os.getppid() == parent:
            _watch_parent(parent)


@lru_cache(maxsize=1)
def _watch_parent(parent: int) -> None:
    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(LOOK_SECONDS)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, daemon=True).start()

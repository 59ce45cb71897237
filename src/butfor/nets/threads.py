"""Work spread over threads, which the thread that asked for it can end."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TypeVar

from .recipe import Advance, Check

CHECK_SECONDS = 0.25
"""Seconds between two checks while waiting for threads."""
S = TypeVar("S")
T = TypeVar("T")


class Cancelled(RuntimeError):
    """Ends a thread whose result nobody awaits any more."""


def in_threads(
    function: Callable[[S, Check], T],
    items: Iterable[S],
    threads: int,
    check: Check,
    advance: Advance | None = None,
) -> Generator[T, None, None]:
    """`function(item, check)` for each item, `threads` at a time, in order. The caller's thread
    calls `check`; if it raises, or the generator is closed, items that have not started are
    dropped, and the others end when they call the check that they were given."""
    ended = threading.Event()

    def cancel() -> None:
        if ended.is_set():
            raise Cancelled

    with ThreadPoolExecutor(threads) as pool:
        try:
            for future in [pool.submit(function, item, cancel) for item in items]:
                check()
                while not wait([future], CHECK_SECONDS).done:
                    check()
                yield future.result()
                if advance is not None:
                    advance(1)
        finally:
            ended.set()
            pool.shutdown(cancel_futures=True)

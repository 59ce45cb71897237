"""One thread for each library, and several threads for work of ours."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Generator, Iterable
from contextlib import ExitStack
from functools import lru_cache
from typing import Any, TypeVar

from butfor.nets import threads
from butfor.nets.recipe import Advance, Check
from butfor.support import stopping
from butfor.support.cores import IN_A_BROWSER

GENERATOR = threading.RLock()
"""Held while torch's generator, which all threads share, is seeded and restored."""
S = TypeVar("S")
T = TypeVar("T")


def single_threaded() -> ExitStack:
    """BLAS, OpenMP and torch on one thread each. Whole trainings are spread over the cores instead;
    on small matrices, threads that wait for each other take ten times as long."""
    stack = ExitStack()
    stack.enter_context(_pools(len(sys.modules)).limit(limits=1))
    torch = sys.modules.get("torch")
    if torch is not None:
        stack.callback(torch.set_num_threads, torch.get_num_threads())
        torch.set_num_threads(1)
    return stack


@lru_cache(maxsize=1)
def _pools(modules: int) -> Any:
    """The thread pools of the loaded libraries; looked up again when more modules are loaded."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def in_threads(
    function: Callable[[S], T], items: Iterable[S], n_jobs: int, advance: Advance | None = None
) -> Generator[T, None, None]:
    """`function(item)` for each item, `n_jobs` at a time, in order. After an error or Ctrl-C, or
    when the generator is closed, items that have not started are dropped and others end at their
    next `stopping.check`."""

    def work(item: S, check: Check) -> T:
        stopping.checked_by(check)
        return function(item)

    if not IN_A_BROWSER:
        yield from threads.in_threads(work, items, n_jobs, stopping.check, advance)
        return
    for item in items:
        stopping.check()
        yield function(item)
        if advance is not None:
            advance(1)

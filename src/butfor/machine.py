"""Cores, memory and packages of this machine; thread limits; waiting for threads and workers."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from numbers import Integral
from typing import Any, TypeVar

from butfor import stopping
from butfor.errors import EngineError, SettingError
from butfor.nets import threads
from butfor.nets.recipe import Advance, Check

GENERATOR = threading.RLock()
"""Held while torch's generator, which all threads share, is seeded and restored."""
LARGEST_SEED = 2**32 - 1
IN_A_BROWSER = sys.platform == "emscripten"
"""Pyodide can start neither threads nor processes."""
LOOK_SECONDS = 1.0
"""Seconds between a worker's checks that its parent still runs."""
S = TypeVar("S")
T = TypeVar("T")


def available_cores() -> int:
    """Cores that this process may use; on a shared machine these can be fewer than it has."""
    if IN_A_BROWSER:
        return 1
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def check_whole(
    name: str, given: Any, least: int, most: int | None = None, otherwise: str = ""
) -> int:
    """A parameter's value as a whole number in this range."""
    whole = isinstance(given, Integral) and not isinstance(given, bool)
    if not whole or given < least or (most is not None and given > most):
        to = "up" if most is None else f"to {most}"
        raise SettingError(f"{name}={given!r} must be a whole number from {least} {to}{otherwise}.")
    return int(given)


def check_n_jobs(n_jobs: Any) -> int:
    """The number of processes or threads; -1 and None mean all cores."""
    cores = available_cores()
    if n_jobs is None or (isinstance(n_jobs, Integral) and n_jobs == -1):
        return cores
    jobs = check_whole("n_jobs", n_jobs, 1, max(16, 4 * cores), f", or -1 for all {cores} cores")
    return 1 if IN_A_BROWSER else jobs


def check_random_state(random_state: Any) -> int:
    """The seed; an error if numpy and scikit-learn would not take it."""
    return check_whole("random_state", random_state, 0, LARGEST_SEED)


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


@contextmanager
def compiling() -> Iterator[None]:
    """Around what compiles, or loads what was compiled before: says so when it takes more than a
    second. numba swallows exceptions, so Ctrl-C is heard at the end."""
    said = "Compiling the training code for this machine: some seconds, the first time only."
    notice = threading.Timer(1.0, lambda: print(said, file=sys.stderr))
    notice.start()
    try:
        with stopping.listen() as flag:
            yield
            flag.check()
    finally:
        notice.cancel()


def load(path: str) -> Any:
    """The object at "module:attribute", imported now; an error if it needs a package of the extra
    `net` that is not installed."""
    module, _, name = path.partition(":")
    needed = ["torch"] if module == "butfor.models.network" else []
    needed += ["numba"] if module == "butfor.models.boosting" else []
    for package in needed:
        if find_spec(package) is None:
            raise EngineError(
                f'The network needs {package}, which is not installed: pip install "butfor[net]".'
            )
    loaded: Any = import_module(module)
    for part in name.split("."):
        loaded = getattr(loaded, part)
    return loaded

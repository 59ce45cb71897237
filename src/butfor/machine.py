"""What this machine offers: cores, memory, packages; how to keep libraries from fighting over it, and how to wait for
its threads."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import Future, as_completed
from concurrent.futures import TimeoutError as Unfinished
from contextlib import ExitStack, contextmanager
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from numbers import Integral
from typing import Any, TypeVar

from butfor import stopping
from butfor.errors import EngineError, SettingError

GENERATOR = threading.RLock()
"""Whoever seeds torch's generator, which all threads share, holds this until it is put back."""
LARGEST_SEED = 2**32 - 1
LOOK_SECONDS = 1.0
"""Seconds between two looks of a worker at whether its parent is still there."""
LISTENS = 0.25
"""Seconds after which whoever waits for threads looks whether the work was interrupted."""

T = TypeVar("T")


def available_cores() -> int:
    """Cores this process may use, which on a shared machine can be fewer than it has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def check_n_jobs(n_jobs: Any) -> int:
    """How many processes or threads `n_jobs` means: -1, like None, is all cores."""
    if n_jobs is None:
        return available_cores()
    if not _is_whole(n_jobs) or (n_jobs < 1 and n_jobs != -1):
        raise SettingError(f"n_jobs={n_jobs!r} must be a whole number from 1 up, or -1 for all cores.")
    most = max(16, 4 * available_cores())
    if n_jobs > most:
        raise SettingError(
            f"n_jobs={n_jobs} is more than the {available_cores()} cores here are good for: {most} at most."
        )
    return available_cores() if n_jobs == -1 else int(n_jobs)


def check_random_state(random_state: Any) -> int:
    """The seed, where it is one that numpy and scikit-learn take."""
    if not _is_whole(random_state) or not 0 <= random_state <= LARGEST_SEED:
        raise SettingError(f"random_state={random_state!r} must be a whole number from 0 to {LARGEST_SEED}.")
    return int(random_state)


def _is_whole(number: Any) -> bool:
    return isinstance(number, Integral) and not isinstance(number, bool)


def in_worker(parent: int, function: Callable[..., T], *given: Any) -> T:
    """Call a function in a worker process, which ends when the process `parent` that started it is gone, however that
    ended. A terminal sends Ctrl-C to workers too; they leave it to the parent."""
    if os.getpid() != parent and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        if os.getppid() == parent:
            _watch_parent(parent)
    return function(*given)


@lru_cache(maxsize=1)
def _watch_parent(parent: int) -> None:
    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(LOOK_SECONDS)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def available_memory() -> int:
    """Bytes that this process may still take."""
    free = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else 2**62
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            free = min(free, *(1024 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")), free)
    except OSError:
        pass  # not Linux: all there is
    return free


def single_threaded() -> ExitStack:
    """BLAS, OpenMP and torch on one thread each. Whole trainings are what is spread over the cores; and the small
    matrices of a search take ten times as long where threads wait for each other."""
    stack = ExitStack()
    stack.enter_context(_pools(len(sys.modules)).limit(limits=1))
    torch = sys.modules.get("torch")
    if torch is not None:
        stack.callback(torch.set_num_threads, torch.get_num_threads())
        torch.set_num_threads(1)
    return stack


@lru_cache(maxsize=1)
def _pools(modules: int) -> Any:
    """The thread pools of what is loaded; looked for again when more modules are."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def as_they_end(futures: Collection[Future[T]]) -> Iterator[Future[T]]:
    """Futures, each when it has ended. In between it looks whether the work was interrupted."""
    left = set(futures)
    while left:
        try:
            for future in as_completed(left, timeout=LISTENS):
                left.discard(future)
                yield future
        except Unfinished:
            stopping.check()


def results(futures: Sequence[Future[T]]) -> list[T]:
    """What came of all of them, in their order; the first that raises ends the waiting."""
    for future in as_they_end(futures):
        future.result()
    return [future.result() for future in futures]


def keeps_compiled() -> bool:
    """Whether numba has a place for compiled code: beside this package, or in the user's cache. Where all of that is
    read-only, every process compiles for itself."""
    from numba import njit

    try:
        njit(cache=True)(lambda: None)
    except (RuntimeError, OSError):
        return False
    return True


@contextmanager
def compiling() -> Iterator[None]:
    """Around what compiles, or loads what was compiled before: says so when it takes more than a second."""
    notice = threading.Timer(1.0, _announce)
    notice.start()
    try:
        with stopping.postponed():
            yield
    finally:
        notice.cancel()


def _announce() -> None:
    print("Compiling the training code for this machine: some seconds, the first time only.", file=sys.stderr)


def load(path: str) -> Any:
    """What stands at "module:attribute": loaded when it is asked for, so that nothing heavy is before."""
    module, _, name = path.partition(":")
    if module.startswith("butfor.mlp."):
        need("torch")
    if module in ("butfor.mlp.fused", "butfor.learn.boosting_engine"):
        need("numba")
    found: Any = import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    return found


def installed(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ImportError:
        return False


def need(package: str) -> None:
    """One sentence where a package of the extra `net` is not installed."""
    if not installed(package):
        raise EngineError(f'The network needs {package}, which is not installed: pip install "butfor[net]".')

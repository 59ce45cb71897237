"""Ctrl-C and SIGTERM in a command or a benchmark.

`end_on_signals` runs before every other import, so this file imports almost nothing.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any, NoReturn

INTERRUPTED = 130
"""Exit code of a command that was stopped."""
PATIENCE = 2.0
"""Seconds after which a process that still runs after a signal is ended."""
_told: list[int] = []
"""Signals that this process got."""


def end_on_signals() -> None:
    """Let Ctrl-C and SIGTERM end this process with exit code 130, unless it was started to ignore them."""
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, end_process)
    sys.excepthook = _uncaught


def end_process(number: int, frame: Any) -> NoReturn:
    """Raise KeyboardInterrupt. If an import, destructor or callback swallows it, an alarm ends the process."""
    _told.append(number)
    if hasattr(signal, "setitimer"):  # not on Windows
        signal.signal(signal.SIGALRM, _leave)
        signal.setitimer(signal.ITIMER_REAL, PATIENCE)
    raise KeyboardInterrupt


def told_to_end() -> bool:
    """Whether a signal came; errors after it may be a consequence."""
    return bool(_told)


def stopped() -> int:
    """Say "Stopped."; returns the exit code."""
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_REAL, 0)
    try:
        sys.stderr.write("Stopped.\n")
        sys.stderr.flush()
    except (OSError, ValueError, AttributeError, RuntimeError):  # closed, not there at all, or being written to
        pass
    return INTERRUPTED


def _uncaught(kind: type[BaseException], error: BaseException, trace: Any) -> None:
    if told_to_end() or issubclass(kind, KeyboardInterrupt):
        os._exit(stopped())
    sys.__excepthook__(kind, error, trace)


def _leave(number: int, frame: Any) -> NoReturn:
    code = stopped()
    workers = getattr(sys.modules.get("joblib.externals.loky.reusable_executor"), "_executor", None)
    for process in list((getattr(workers, "_processes", None) or {}).values()):
        process.kill()
    if os.isatty(2):
        os.write(2, b"\x1b[?25h")  # a progress bar hides the cursor
    os._exit(code)

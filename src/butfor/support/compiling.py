"""Says what takes long when code is compiled."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from butfor.support import stopping


@contextmanager
def compiling() -> Iterator[None]:
    """Around what compiles, or loads what was compiled before: says so when it takes more than a
    second. numba swallows exceptions, so Ctrl-C is heard at the end."""
    line = "Compiling the training code for this machine: some seconds, the first time only."
    notice = threading.Timer(1.0, lambda: print(line, file=sys.stderr))
    notice.start()
    try:
        with stopping.listen() as flag:
            yield
            flag.check()
    finally:
        notice.cancel()

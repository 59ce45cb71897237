"""What a worker process of `--engine local:4` does first. It imports nothing heavy: the worker is to be there soon."""

from __future__ import annotations

import signal
from typing import Any


def dask_setup(worker: Any) -> None:
    """Ctrl-C on a terminal reaches its worker processes too; whoever asked decides what ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)

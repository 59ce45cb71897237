"""How many cores there are, and how many a user may ask for."""

from __future__ import annotations

import os
import sys
from numbers import Integral
from typing import Any

from butfor.support.checks import check_whole

IN_A_BROWSER = sys.platform == "emscripten"
"""Pyodide can start neither threads nor processes."""


def available_cores() -> int:
    """Cores that this process may use; on a shared machine these can be fewer than it has."""
    if IN_A_BROWSER:
        return 1
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def check_n_jobs(n_jobs: Any) -> int:
    """The number of processes or threads; -1 and None mean all cores."""
    cores = available_cores()
    if n_jobs is None or (isinstance(n_jobs, Integral) and n_jobs == -1):
        return cores
    jobs = check_whole("n_jobs", n_jobs, 1, max(16, 4 * cores), f", or -1 for all {cores} cores")
    return 1 if IN_A_BROWSER else jobs

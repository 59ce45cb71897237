"""Pages and charts of verdicts and populations. What draws them stands above this package, which must not import it: it
is handed over when `butfor` is imported, and loaded when a page is asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_load: list[Callable[[], Any]] = []


def draw_with(load: Callable[[], Any]) -> None:
    """Have pages drawn by the module that `load` gives (`butfor.report.page`)."""
    _load[:] = [load]


def pages() -> Any:
    return _load[0]()

"""Pages and charts of results, which must not import what draws them, `butfor.report`: `butfor` hands it over, and the
first page loads it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_load: list[Callable[[], Any]] = []


def draw_with(load: Callable[[], Any]) -> None:
    """Have pages drawn by the module that `load` gives (`butfor.report.page`)."""
    _load[:] = [load]


def pages() -> Any:
    return _load[0]()

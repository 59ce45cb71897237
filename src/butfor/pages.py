"""Pages and charts of results. What draws them imports results, so these cannot import it: they load it by name."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def pages() -> Any:
    """The module `butfor.report.page`."""
    return import_module("butfor.report.page")

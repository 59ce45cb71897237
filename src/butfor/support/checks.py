"""Checks of single numbers that users give."""

from __future__ import annotations

from numbers import Integral
from typing import Any

from butfor.support.errors import SettingError

LARGEST_SEED = 2**32 - 1


def check_whole(
    name: str, given: Any, least: int, most: int | None = None, otherwise: str = ""
) -> int:
    """A parameter's value as a whole number in this range."""
    whole = isinstance(given, Integral) and not isinstance(given, bool)
    if not whole or given < least or (most is not None and given > most):
        to = "up" if most is None else f"to {most}"
        raise SettingError(f"{name}={given!r} must be a whole number from {least} {to}{otherwise}.")
    return int(given)


def check_random_state(random_state: Any) -> int:
    """The seed; an error if numpy and scikit-learn would not take it."""
    return check_whole("random_state", random_state, 0, LARGEST_SEED)

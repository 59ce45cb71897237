"""Every error a user can meet. Each message says what is wrong, where, and what to do.

    ButforError
    ├── TableError          a table's cell, column or label cannot be used
    ├── SettingError        an option or argument cannot be used
    ├── DatasetError        a data set is unknown, missing or altered
    ├── LearnerError        the model given cannot be audited, or its training failed
    ├── EngineError         a training engine cannot take the work
    ├── ReplayError         a recorded verdict cannot be run again
    ├── OutputError         a result cannot be written: no such place, no permission, no space
    └── Stopped             the work was interrupted, or its time was up

Table and setting errors are also ``ValueError``, as scikit-learn's callers expect.
The command line prints the message of any of them and exits with code 2; where disk space or memory
gave out, with code 3.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path
from typing import Any

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""What a system calls a disk that takes no more."""


class ButforError(Exception):
    """Base of all errors raised on purpose by butfor."""


class TableError(ButforError, ValueError):
    """A cell, column, row or label of a table cannot be used."""


class SettingError(ButforError, ValueError):
    """An argument or command-line option cannot be used."""


class DatasetError(ButforError, ValueError):
    """A named data set is unknown, cannot be had, or is not the published one."""


class LearnerError(ButforError, ValueError):
    """The model given cannot be audited, or its training failed."""


class EngineError(ButforError, RuntimeError):
    """A training engine cannot take the work it was given."""


class ReplayError(ButforError):
    """A recorded verdict cannot be run again here."""


class Stopped(ButforError):
    """The work ended early: `by_hand` (Ctrl-C, SIGTERM), or because its time was up."""

    def __init__(self, *, by_hand: bool) -> None:
        self.by_hand = by_hand
        super().__init__("It was stopped by hand." if by_hand else "The time allowed was up.")


class OutputError(ButforError):
    """A file cannot be written. `full`: not because of what was asked for, but because the disk took no more."""

    def __init__(self, path: str | Path, error: Exception) -> None:
        self.full = isinstance(error, OSError) and error.errno in FULL
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        remedy = "make room" if self.full else "name another place"
        super().__init__(f"'{path}' cannot be written ({reason}): {remedy}.")


def listed(items: Iterable[object], most: int = 8) -> str:
    """The items in quotes for a message, the tail counted instead of spelled out."""
    names = [f"'{item}'" for item in items]
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def nearest(given: object, known: Iterable[object], otherwise: str = "Choose one of", most: int = 30) -> str:
    """The sentence after one about an unknown name: the name that was probably meant or, where none is near, all."""
    names = {str(name).lower(): str(name) for name in known}
    near = get_close_matches(str(given).lower(), names, n=1)
    return f"Did you mean '{names[near[0]]}'?" if near else f"{otherwise} {listed(names.values(), most)}."


def brief(thing: Any) -> str:
    """What was given instead, for a message."""
    shape = getattr(thing, "shape", None)
    return f"{type(thing).__name__} of shape {shape}" if shape is not None else repr(thing)[:60]

"""The errors that the package raises on purpose, and what their sentences are made of.

`butfor.errors` draws their tree and says what the command does with them.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import Any

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""Error numbers of a full disk."""


LONGEST_NAME = 80
"""Characters of a name or a value that a message quotes."""
ENDLESS = re.compile(r"\S{300,}")


class ButforError(Exception):
    """Base of all errors raised on purpose by butfor."""


class TableError(ButforError, ValueError):
    """A cell, column, row or label of a table cannot be used."""


class SettingError(ButforError, ValueError):
    """An argument or command-line option cannot be used."""


class BandsNeeded(SettingError):
    """A protected number or date has too many values for groups. `sentence` says so without the
    argument of Python that would help; `bands` has cut points by column."""

    def __init__(self, sentence: str, bands: Mapping[str, Sequence[float | str]]) -> None:
        self.sentence = sentence
        self.bands = bands
        shown = ", ".join(f"{name!r}: [{', '.join(points)}]" for name, points in self._texts(repr))
        super().__init__(f"{sentence} sensitive_bands={{{shown}}}")

    def _texts(self, written: Callable[[Any], str]) -> list[tuple[str, list[str]]]:
        """Whole numbers without a fraction, dates as `written`."""
        texts = []
        for name, points in self.bands.items():
            numbers = [int(p) if isinstance(p, float) and p.is_integer() else p for p in points]
            texts.append((name, list(map(written, numbers))))
        return texts

    @property
    def options(self) -> list[str]:
        """The same as words of a command: --bands age=25,60."""
        words = []
        for name, points in self._texts(str):
            words += ["--bands", f"{name}={','.join(points)}"]
        return words


class DatasetError(ButforError, ValueError):
    """A named data set is unknown, cannot be loaded, or differs from the published one."""


class LearnerError(ButforError, ValueError):
    """The model given cannot be audited, or its training failed."""


class EngineError(ButforError, RuntimeError):
    """A training engine cannot do the work."""


class ReplayError(ButforError):
    """A recorded verdict cannot be run again."""


class Stopped(ButforError):
    """The work ended early: `by_hand` (Ctrl-C, SIGTERM), or because the time was up."""

    def __init__(self, *, by_hand: bool) -> None:
        self.by_hand = by_hand
        super().__init__("It was stopped by hand." if by_hand else "The time allowed was up.")


class OutputError(ButforError):
    """A file cannot be written. `full`: because the disk is full."""

    def __init__(self, path: str | Path, error: Exception) -> None:
        self.full = isinstance(error, OSError) and error.errno in FULL
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        remedy = "make room" if self.full else "name another place"
        super().__init__(f"'{path}' cannot be written ({reason}): {remedy}.")


def shortened(text: object, most: int = LONGEST_NAME) -> str:
    """A text that is quoted in a message; what is longer than `most` characters loses its end."""
    whole = str(text)
    return whole if len(whole) <= most else f"{whole[: most - 1]}…"


def listed(items: Iterable[object], most: int = 8) -> str:
    """The items in quotes, at most `most` of them and a count of the rest."""
    names = [f"'{shortened(item)}'" for item in items]
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def plural(count: float, one: str, many: str = "") -> str:
    """ "1 row", "3 rows", "3 people"; `many` is any other form: "1 of 68 labels is", "2 of 68
    labels are"."""
    number = f"{count:.0f}"
    if number == "1":
        return f"{number} {one}"
    usual = f"{one.removesuffix('person')}people" if one.endswith("person") else f"{one}s"
    return f"{number} {many or usual}"


def nearest(
    given: object, known: Iterable[object], otherwise: str = "Choose one of", most: int = 20
) -> str:
    """A suggestion after an unknown name: the nearest known name or, if none is near, the first
    `most` of them."""
    names = {str(name).lower(): str(name) for name in known}
    near = get_close_matches(shortened(given).lower(), names, n=1, cutoff=0.65)
    if near:
        return f"Did you mean '{shortened(names[near[0]])}'?"
    return f"{otherwise} {listed(names.values(), most)}."


def first_line(error: BaseException) -> str:
    """The first line of what it says, or its name."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def brief(thing: Any) -> str:
    """A short description of a value, for a message."""
    shape = getattr(thing, "shape", None)
    return f"{type(thing).__name__} of shape {shape}" if shape is not None else repr(thing)[:60]


@contextmanager
def as_recorded(what: str) -> Iterator[None]:
    """Turns whatever a record of the right form but with impossible content leads to into a
    sentence, and cuts what it quotes."""
    try:
        yield
    except MemoryError:
        raise
    except ButforError as error:
        cut = ENDLESS.sub(lambda word: f"{word[0][:57]}…", str(error))
        if cut == str(error):
            raise
        raise ReplayError(cut) from error
    except Exception as error:
        reason = str(error).strip().splitlines()[0][:200] if str(error).strip() else ""
        lacks = f" ({type(error).__name__}: {reason})"
        if isinstance(error, KeyError):
            lacks = f": it lacks {reason}"
        raise ReplayError(f"{what}{lacks}.") from error

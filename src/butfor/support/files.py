"""Writes files whole or not at all, readable by their owner alone, and harmless in a spreadsheet.

A file is written beside its place and then renamed, so that a killed run, a full disk or a second
Ctrl-C leaves the old file. Records, reports and reviews are about people, so only their owner can
read them. A folder for results is claimed before the work begins, so that of several runs into one
folder the first gets it.

What a user names is read within bounds: a file of settings cannot hang or end the process.
"""

from __future__ import annotations

import os
import re
import secrets
import sys
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import pandas as pd

from butfor.support.errors import OutputError, SettingError, shortened

OWNER_FILE = 0o600
OWNER_FOLDER = 0o700
FORMULA = re.compile(r"(?:^|(?<=[;\t\r\n]))(?=[\s\"']*[=+\-@\t\r\uff1d\uff0b\uff0d\uff20])")
"""Where a spreadsheet would start a formula: at the start of a cell, or after a character that may
separate cells."""
NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?")
RESULTS = ("audit.json", "review.json", "standard.json", "tasks.csv")
"""A folder with one of these files holds earlier results."""
LARGEST_TEXT_BYTES = 100_000_000
"""The most bytes of a text that is read."""
LARGEST_SETTINGS_BYTES = 1_000_000
"""The most bytes of a TOML file."""
MOST_KEY_PARTS = 50
"""Parts of a key of a TOML file, as in people.noun: reading time grows with their square."""
LONG_KEY = re.compile(rf"(?<![\w\"'-])(?:[\w\"'-]++[ \t]*+\.[ \t]*+){{{MOST_KEY_PARTS}}}")
NUL = re.compile(r"\\(?:u0000|U00000000)")


def real(path: Path) -> Path:
    """The absolute path without links; an error if its links lead in a circle."""
    place = Path(os.path.realpath(path))
    if any(part.is_symlink() for part in (place, *place.parents)):
        raise SettingError(f"'{path}' is a loop of links, which leads nowhere: name another place.")
    return place


@contextmanager
def claimed(path: Path) -> Iterator[None]:
    """Holds a folder for results, and creates it; an error if another run holds it. A folder that
    is new and stays empty is removed at the end. The system gives a claim back however the process
    ends."""
    place = real(path)
    new = [folder for folder in (place, *place.parents) if not folder.exists()]
    try:
        place.mkdir(OWNER_FOLDER, parents=True, exist_ok=True)
        held = _claim(place)
    except OSError as error:
        raise OutputError(path, error) from error
    try:
        yield
    finally:
        if held is not None:
            os.close(held)
        for folder in new:
            with suppress(OSError):  # it is not empty
                folder.rmdir()


def _claim(folder: Path) -> int | None:
    """A claim on the folder, to be closed; None where the file system knows none."""
    try:
        if sys.platform == "win32":
            return os.open(folder / ".claimed", os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_TEMPORARY)
        import fcntl

        held = os.open(folder, os.O_RDONLY)
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(held)
            raise
        except OSError:  # some network file systems
            os.close(held)
            return None
        return held
    except (BlockingIOError, FileExistsError):
        raise SettingError(
            f"Another run is writing into '{folder}': name another folder, or wait for it."
        ) from None


def check_folder(path: Path, overwrite: bool) -> None:
    """Raise an error if a folder for results cannot be written to, or holds earlier results and
    none may be replaced. `save_all` creates it."""
    earlier = [name for name in RESULTS if (path / name).exists()]
    if earlier and not overwrite:
        raise SettingError(
            f"'{path}' holds earlier results ({earlier[0]}): name another folder, or replace them "
            "with --overwrite."
        )
    try:
        existing = next(folder for folder in (path, *path.absolute().parents) if folder.exists())
        with TemporaryFile(dir=existing) as trial:
            trial.write(bytes(4096))  # a full disk takes the name of a file all the same
    except (OSError, ValueError) as error:
        raise OutputError(path, error) from error


def seen_from(folder: str | Path, path: str | Path) -> str:
    """The path of a file as seen from a folder, so that both can be moved together; of a file on
    another drive, the whole path."""
    place = Path(os.path.realpath(Path(path).parent), Path(path).name)
    try:
        return Path(os.path.relpath(place, os.path.realpath(folder))).as_posix()
    except ValueError:
        return str(place)


def found_from(folder: str | Path, path: str | Path) -> str:
    """What `seen_from` gave, as seen from the working folder: the whole path, unless the file is in
    it or below."""
    place = os.path.normpath(os.path.join(os.path.realpath(folder), path))
    try:
        near = os.path.relpath(place)
    except ValueError:
        return place
    return place if near.startswith(os.pardir) else near


def save(text: str, path: str | Path | None) -> Any:
    """The text or, if a `path` is given, that path, with the text written to it."""
    if path is None:
        return text
    save_all({Path(path): text})
    return path


def save_all(texts: Mapping[Path, str]) -> None:
    """Write UTF-8 text files, all or none, and their folders. Once the first is in its place,
    Ctrl-C waits for the others."""
    drafts: dict[Path, Path] = {}
    path = Path()

    def put() -> None:
        for draft, place in drafts.items():
            if draft.exists():
                os.replace(draft, place)

    try:
        for path, text in texts.items():
            place = real(path)
            if place.exists() and not place.is_file():
                raise OutputError(path, ValueError("not a file"))
            place.parent.mkdir(OWNER_FOLDER, parents=True, exist_ok=True)
            draft = place.with_name(f".{place.name[:100]}.{secrets.token_hex(4)}.part")
            drafts[draft] = place
            opened = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, OWNER_FILE)
            with open(opened, "wb") as file:
                file.write(text.encode("utf-8", "backslashreplace"))
                file.flush()
                os.fsync(file.fileno())
        try:
            put()
        except KeyboardInterrupt:
            put()
            raise
    except (OSError, ValueError) as error:
        raise OutputError(path, error) from error
    finally:
        for draft in drafts:  # those that were not put in their place
            draft.unlink(missing_ok=True)


def as_csv(frame: pd.DataFrame, *, index: bool = True) -> str:
    """The table as CSV; text that a spreadsheet would calculate gets an apostrophe in front,
    numbers stay numbers."""
    shown = frame.copy()
    shown.columns = pd.Index([harmless(name) for name in frame.columns])
    for place in range(frame.shape[1]):
        values = frame.iloc[:, place]
        is_number = pd.api.types.is_numeric_dtype(values.dtype)
        if not is_number and not pd.api.types.is_datetime64_any_dtype(values.dtype):
            shown.isetitem(place, [harmless(value) for value in values.astype(object)])
    if index:
        names = [harmless(name) for name in frame.index]
        shown.index = pd.Index(names, name=harmless(frame.index.name))
    text: str = shown.to_csv(index=index)
    return text


def harmless(value: Any) -> Any:
    """A text made harmless for spreadsheets; other values unchanged."""
    if not isinstance(value, str) or NUMBER.fullmatch(value):
        return value
    return FORMULA.sub("'", value)


def text_of(path: Path, what: str, remedy: str, most: int = LARGEST_TEXT_BYTES) -> str:
    """The text of a file; an error if it is not a file, not text, or larger than `most` bytes."""
    try:
        if path.exists() and not path.is_file():  # reading a pipe would wait for ever
            raise ValueError("it is not a file")
        if path.stat().st_size > most:
            raise ValueError(f"it is larger than {most // 10**6} MB")
        return path.read_text(encoding="utf-8-sig")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", error)
        if isinstance(error, UnicodeError):
            reason = "it is not UTF-8 text"
        raise SettingError(f"{what} '{path}' cannot be read ({reason}). {remedy}") from error


def toml_of(path: Path, what: str, remedy: str) -> dict[str, Any]:
    """The content of a TOML file; an error if it is none, or one that nobody writes by hand: keys
    of very many parts, values nested hundreds deep, numbers of thousands of digits, the character
    NUL."""
    text = text_of(path, what, remedy, LARGEST_SETTINGS_BYTES)
    if LONG_KEY.search(text):
        reason = f"a key has more than {MOST_KEY_PARTS} parts"
    elif NUL.search(text):
        reason = "it holds the character NUL"
    else:
        try:
            return tomllib.loads(text)
        except RecursionError:
            reason = "its values are nested too deeply"
        except ValueError as error:
            reason = str(error)
            if not isinstance(error, tomllib.TOMLDecodeError):  # from the reading of a number
                reason = "a number has too many digits"
    raise SettingError(f"'{path}' is not a TOML file ({shortened(reason)}). {remedy}")

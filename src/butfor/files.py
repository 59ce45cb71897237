"""Writes files whole or not at all, readable by their owner alone, and harmless in a spreadsheet.

A file is written beside its place and then renamed, so that a killed run, a full disk or a second Ctrl-C leaves the old
file. Records, reports and reviews are about people, so only their owner can read them.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pandas as pd

from butfor.errors import OutputError, SettingError

OWNER_FILE, OWNER_FOLDER = 0o600, 0o700
FORMULA = re.compile(r"(?:^|(?<=[;\t\r\n]))(?=[\s\"']*[=+\-@\t\r\uff1d\uff0b\uff0d\uff20])")
"""Where a spreadsheet would start a formula: at the start of a cell, or after a character that may separate cells."""
NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?")
RESULTS = ("audit.json", "review.json", "standard.json", "tasks.csv")
"""A folder with one of these files holds earlier results."""
LARGEST = 100_000_000
"""The most bytes that `text_of` reads."""


def save(text: str, path: str | Path | None) -> Any:
    """The text or, if a `path` is given, that path, with the text written to it."""
    if path is None:
        return text
    save_text(path, text)
    return path


def save_text(path: str | Path, text: str, *, at_once: bool = True) -> None:
    """Write a UTF-8 text file. If it fails with an `OutputError`, nothing has changed."""
    save_all({Path(path): text}, at_once=at_once)


def save_all(texts: Mapping[Path, str], *, at_once: bool = True) -> None:
    """Write several text files, all or none. Once the first is in its place, Ctrl-C waits for the others. `at_once`:
    wait until they are on the disk, which takes minutes for thousands of files."""
    drafts: dict[Path, Path] = {}
    path = Path()
    try:
        for path, text in texts.items():
            place = path.resolve()
            if place.exists() and not place.is_file():
                raise OutputError(path, ValueError("not a file"))
            draft = place.with_name(f".{place.name[:100]}.{secrets.token_hex(4)}.part")
            drafts[draft] = place
            with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, OWNER_FILE), "wb") as file:
                file.write(text.encode("utf-8", "backslashreplace"))
                file.flush()
                if at_once:
                    os.fsync(file.fileno())
        try:
            _put(drafts)
        except KeyboardInterrupt:
            _put(drafts)
            raise
    except (OSError, ValueError) as error:
        raise OutputError(path, error) from error
    finally:
        for draft in drafts:  # those that were not put in their place
            draft.unlink(missing_ok=True)


def _put(drafts: Mapping[Path, Path]) -> None:
    for draft, place in drafts.items():
        if draft.exists():
            os.replace(draft, place)


def save_table(path: str | Path, frame: pd.DataFrame, *, index: bool = True) -> None:
    """Write a CSV file in which no cell is a formula."""
    save_text(path, as_csv(frame, index=index))


def as_csv(frame: pd.DataFrame, *, index: bool = True) -> str:
    """The table as CSV; text that a spreadsheet would calculate gets an apostrophe in front, numbers stay numbers."""
    shown = frame.copy()
    shown.columns = pd.Index([harmless(name) for name in frame.columns])
    for place in range(frame.shape[1]):
        values = frame.iloc[:, place]
        if not (pd.api.types.is_numeric_dtype(values.dtype) or pd.api.types.is_datetime64_any_dtype(values.dtype)):
            shown.isetitem(place, [harmless(value) for value in values.astype(object)])
    if index:
        shown.index = pd.Index([harmless(name) for name in frame.index], name=harmless(frame.index.name))
    text: str = shown.to_csv(index=index)
    return text


def harmless(value: Any) -> Any:
    """A text made harmless for spreadsheets; other values unchanged."""
    if not isinstance(value, str) or NUMBER.fullmatch(value):
        return value
    return FORMULA.sub("'", value)


@contextmanager
def results_folder(path: str | Path | None, overwrite: bool = True) -> Iterator[None]:
    """A folder for results; an error if it cannot be written to, or holds earlier results and none may be replaced. If
    the block fails or is interrupted, new folders that are still empty go again."""
    if path is None:
        yield
        return
    there = [name for name in RESULTS if (Path(path) / name).exists()]
    if there and not overwrite:
        raise SettingError(
            f"'{path}' holds earlier results ({there[0]}): name another folder, or replace them with --overwrite."
        )
    missing = [folder for folder in (Path(path), *Path(path).parents) if not folder.exists()]
    try:
        make_folder(path)
        yield
    except BaseException:
        with suppress(OSError):
            for folder in missing:
                folder.rmdir()
        raise


def make_folder(path: str | Path) -> None:
    """Create a folder if it does not exist, and check that it can be written to."""
    place = Path(path)
    try:
        for missing in reversed([folder for folder in (place, *place.parents) if not folder.exists()]):
            missing.mkdir(mode=OWNER_FOLDER, exist_ok=True)
        trial = place / f".{secrets.token_hex(4)}.part"
        opened = os.open(trial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, OWNER_FILE)
        try:
            os.write(opened, bytes(4096))  # a full disk takes the name of a file all the same
        finally:
            os.close(opened)
            trial.unlink()
    except (OSError, ValueError) as error:
        raise OutputError(path, error) from error


def text_of(path: Path, what: str, remedy: str) -> str:
    """The text of a file; an error if it is not a file, not text, or too large."""
    try:
        if path.exists() and not path.is_file():  # reading a pipe would wait for ever
            reason = "it is not a file"
        elif path.stat().st_size > LARGEST:
            reason = f"it is larger than {LARGEST // 10**6} MB"
        else:
            return path.read_text(encoding="utf-8-sig")
    except UnicodeError:
        reason = "it is not UTF-8 text"
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
    raise SettingError(f"{what} '{path}' cannot be read ({reason}). {remedy}")

"""Records: dataclasses as JSON with a checksum. msgspec writes them, reads them, and names the
first fault.

    {"schema_version": 7, "run": settings, "people": [measurements and status of each], "labels":
    [labels to review],
     "checksum": "sha256:…"}

A file must be JSON of this version, with fields of these types, and with the right checksum.
Whether it is true is for `replay`, which trains again. Audits do without msgspec until they are
written.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from butfor.support.errors import ReplayError

T = TypeVar("T")
Cell = str | int | float | bool | None
"""A value of a table, as JSON knows it."""
SCHEMA_VERSION = 7
CHECKSUM = "checksum"
LISTS = ("people", "labels")
"""Lists of a record, written one line per entry."""
SUMMARY = ("status", "solidity", "decision_before", "decision_after")
"""What a person's line says for readers without this library; it is not read."""
NAME_ONE = "Name a JSON file that butfor wrote."


# --- written --------------------------------------------------------------------------------------


def plain(value: Any) -> Any:
    """A value as JSON; NaN and infinity become null."""
    if isinstance(value, Mapping):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if value is pd.NA or value is pd.NaT:
        return None
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, (str, int, float, bool, type(None))) else str(value)


def builtins_of(value: Any) -> Any:
    """Dataclasses as JSON."""
    import msgspec

    return msgspec.json.decode(msgspec.json.encode(value, enc_hook=plain))


def checksum(record: Mapping[str, Any]) -> str:
    """sha256 of the rest of a record; spaces and order do not matter."""
    rest = {name: value for name, value in record.items() if name != CHECKSUM}
    text = json.dumps(
        rest, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def with_checksum(record: Mapping[str, Any]) -> dict[str, Any]:
    return {**record, CHECKSUM: checksum(record)}


def as_json(record: dict[str, Any]) -> str:
    """A record as text: strict JSON with its checksum, one line per person and per label."""
    rest = {name: value for name, value in with_checksum(record).items() if name not in LISTS}
    text = json.dumps(rest, indent=1, ensure_ascii=False, allow_nan=False)[:-2]
    for name in LISTS:
        if name in record:
            lines = [
                f"  {json.dumps(line, ensure_ascii=False, allow_nan=False)}"
                for line in record[name]
            ]
            text += f',\n "{name}": [\n' + ",\n".join(lines) + "\n ]"
    return f"{text}\n}}\n"


# --- read -----------------------------------------------------------------------------------------


def within(thing: Any, **bounds: tuple[int, int]) -> None:
    """Checks fields of a dataclass that is made from a record."""
    for name, (low, high) in bounds.items():
        value = getattr(thing, name)
        if value is not None and not low <= value <= high:
            raise ValueError(f".{name} is {value}, but must be from {low} to {high}")


@dataclass(frozen=True)
class Opened:
    """The content of a file of this version, and where it comes from. `unchanged`: whether its
    checksum agrees. `folder`: of the file; None for text and dictionaries."""

    content: dict[str, Any]
    where: str
    unchanged: bool
    folder: Path | None = None

    @property
    def sentence(self) -> str:
        if self.unchanged:
            return f"The checksum of {self.where} agrees."
        return f"{self.where} was changed since butfor wrote it: its checksum DISAGREES."

    def read(self, kind: type[T], content: dict[str, Any] | None = None) -> T:
        """The content, or this part of it, as a dataclass; an error names the first field that is
        wrong or unknown."""
        import msgspec

        content = self.content if content is None else content
        try:
            read = msgspec.convert(content, kind)
        except msgspec.ValidationError as error:
            message, _, path = str(error).replace("`", "").partition(" - at $")
            message = message.replace("Expected", " must be").replace(", got", ", not")
            message = re.sub(r"Object missing required field (\w+)", r".\1 is missing", message)
            raise ReplayError(f"Invalid record: {(path + message).lstrip('. ')}.") from None
        place = next(unread_fields(content, msgspec.to_builtins(read)), "")
        if place:
            raise ReplayError(f"Invalid record: there is no field {place}.")
        return read


def unread_fields(content: Any, read: Any, place: str = "") -> Iterator[str]:
    """The fields of the content that were not read. A misspelt one would count as its default."""
    if isinstance(content, dict):
        for name, value in content.items():
            if name in read:
                yield from unread_fields(value, read[name], f"{place}.{name}")
            elif name not in SUMMARY:
                yield f"{place}.{name}".lstrip(".")
    elif isinstance(content, list):
        for k, pair in enumerate(zip(content, read, strict=True)):
            yield from unread_fields(*pair, f"{place}[{k}]")


def opened(source: str | Path | Mapping[str, Any], *, allow_changes: bool = False) -> Opened:
    """JSON text, a file, or a decoded object. Text that was changed since it was written is
    refused, unless `allow_changes`: for a reader that trains everything again."""
    import msgspec

    where = "The record"
    content = source
    folder = None
    if not isinstance(source, (str, Path, Mapping)):
        raise ReplayError(
            f"A {type(source).__name__} is not a record: give a file, JSON text or a dictionary."
        )
    if not isinstance(source, Mapping):
        is_file = isinstance(source, Path) or not source.lstrip().startswith(("{", "["))
        where = f"'{source}'" if is_file else "The text"
        try:
            if is_file and Path(source).exists() and not Path(source).is_file():
                raise OSError("it is not a file")
            text = str(source)
            if is_file:
                text = Path(source).read_text(encoding="utf-8-sig")
                folder = Path(source).parent
            content = msgspec.json.decode(text)
        except (RecursionError, msgspec.DecodeError) as error:
            raise ReplayError(f"{where} is not JSON ({error}). {NAME_ONE}") from None
        except (OSError, ValueError) as error:  # also a null byte in a name, half a character
            why = getattr(error, "strerror", None) or error
            raise ReplayError(f"{where} cannot be read ({why}). {NAME_ONE}") from error
    if not isinstance(content, dict) or "schema_version" not in content:
        raise ReplayError(f"{where} is not an audit's record: it has no schema_version. {NAME_ONE}")
    version = content["schema_version"]
    unchanged = content.get(CHECKSUM) == checksum(content)
    if content.get("redacted"):
        raise ReplayError(
            f"{where} was written with --public by an earlier version: it has nothing to train, "
            "review or gate with. Name the full record of the same audit."
        )
    if version != SCHEMA_VERSION or isinstance(version, (bool, float)):
        raise ReplayError(
            f"{where} has schema_version {str(version)[:20]}, and this version of butfor reads "
            f"{SCHEMA_VERSION}: run the audit again, or install the version that wrote it."
        )
    if not (unchanged or allow_changes or isinstance(source, Mapping)):
        raise ReplayError(
            f"{where} was changed since butfor wrote it: its checksum is not that of its content. "
            "Take the file as it was written, or run the audit again; 'butfor replay' says what "
            "differs."
        )
    return Opened(content, where, unchanged, folder)

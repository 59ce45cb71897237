"""Reads audit files: msgspec decodes them into the run, the people and the labels, and names the first fault.

    {"schema_version": 6, "run": settings, "people": [measurements and status of each], "labels": [labels to review],
     "checksum": "sha256:…"}

A file must be JSON of this version and these types, with the right checksum. Whether it is true is for `replay`, which
trains again.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, ValidationError

from butfor.errors import ReplayError
from butfor.result.labels import TrainingLabel
from butfor.result.person import Person
from butfor.result.record import SCHEMA_VERSION, checksum
from butfor.result.run import Run

NAME_ONE = "Name a JSON file that butfor wrote."


class _File(Struct, frozen=True):
    run: Run
    people: list[Person]
    labels: list[TrainingLabel] = []
    checksum: str = ""


@dataclass(frozen=True)
class Record:
    """A record read from a file. `unchanged`: whether its checksum agrees."""

    run: Run
    people: list[Person]
    labels: list[TrainingLabel]
    where: str
    unchanged: bool

    @property
    def sentence(self) -> str:
        """Whether the checksum agrees."""
        if self.unchanged:
            return f"The checksum of {self.where} agrees."
        return f"{self.where} was changed since butfor wrote it: its checksum DISAGREES."


def read_record(source: str | Path | Mapping[str, Any], *, allow_changes: bool = False) -> Record:
    """A record from JSON text, a file, or a decoded object. Text that was changed since it was written is refused,
    unless `allow_changes`: for a reader that trains everything again."""
    if isinstance(source, Mapping):
        return _decoded(source, "The record")
    where = "The text"
    try:
        if isinstance(source, Path) or not source.lstrip().startswith(("{", "[")):
            where = f"'{source}'"
            if Path(source).exists() and not Path(source).is_file():
                raise ReplayError(f"{where} is not a file. {NAME_ONE}")
            source = Path(source).read_text(encoding="utf-8-sig")
        record = _decoded(msgspec.json.decode(source), where)
    except RecursionError:
        raise ReplayError(f"{where} nests too deeply to be a record. {NAME_ONE}") from None
    except msgspec.DecodeError as error:
        raise ReplayError(f"{where} is not JSON ({error}). {NAME_ONE}") from error
    except (OSError, ValueError) as error:  # also a null byte in a name, half a character
        raise ReplayError(f"{where} cannot be read ({error}). {NAME_ONE}") from error
    if not record.unchanged and not allow_changes:
        raise ReplayError(
            f"{where} was changed since butfor wrote it: its checksum is not that of its content. Take the file as it "
            "was written, or run the audit again; 'butfor replay' says what differs."
        )
    return record


def _decoded(record: Any, where: str) -> Record:
    """A record from a decoded object."""
    if not isinstance(record, dict) or "schema_version" not in record:
        raise ReplayError(f"{where} is not an audit's record: it has no schema_version. {NAME_ONE}")
    if record.get("redacted"):
        raise ReplayError(
            f"{where} was written with --public: it has nothing to train, review or gate with. "
            "Name the full record of the same audit."
        )
    version = record["schema_version"]
    if version != SCHEMA_VERSION or isinstance(version, (bool, float)):
        raise ReplayError(
            f"{where} has schema_version {str(version)[:20]}, and this version of butfor reads {SCHEMA_VERSION}: run "
            "the audit again, or install the version that wrote it."
        )
    try:
        file = msgspec.convert(record, _File)
    except ValidationError as error:
        raise ReplayError(f"Invalid record: {_sentence(str(error))}.") from None
    return Record(file.run, file.people, file.labels, where, file.checksum == checksum(record))


def _sentence(error: str) -> str:
    """msgspec's message with the path first."""
    message, _, path = error.partition(" - at `$")
    path = path.rstrip("`").lstrip(".")
    missing = re.fullmatch(r"Object missing required field `(\w+)`", message)
    if missing:
        return f"{path}.{missing[1]} is missing".lstrip(".")
    if not message.startswith("Expected"):
        return f"{path}.{message}".lstrip(".")
    wanted, _, got = message.replace("`", "").removeprefix("Expected ").partition(", got ")
    return f"{path or 'it'} must be {wanted.replace(' | ', ' or ')}" + (f", not {got}" if got else "")

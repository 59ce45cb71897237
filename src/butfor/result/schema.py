"""Reads what audits and comparisons wrote: msgspec decodes it, and the first fault is named.

    {"schema_version": 6, "run": settings, "people": [measurements and status of each], "labels": [labels to review],
     "checksum": "sha256:…"}

A file must be JSON of this version, with these fields and no others, of these types and in these ranges, and with the
right checksum. Whether it is true is for `replay`, which trains again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import ValidationError

from butfor.errors import ReplayError
from butfor.machine import LARGEST_SEED
from butfor.result.labels import TrainingLabel
from butfor.result.person import Person
from butfor.result.record import SCHEMA_VERSION, SUMMARY, brief, checksum
from butfor.result.run import RecordedStandards, Run

T = TypeVar("T")
NAME_ONE = "Name a JSON file that butfor wrote."
RANGES = {
    **dict.fromkeys(("split_seed", "random_state"), (0, LARGEST_SEED)),
    **dict.fromkeys(("members", "budget", "training_rows"), (1, 2**31)),
    **dict.fromkeys(("fresh_seeds", "labelled", "set_aside", "case", "position", "seed"), (0, 2**53)),
}
"""Fields whose numbers have bounds wherever they stand."""
COMPARISON = {"groups": "comparisons", "columns": "moves", "slices": "parts"}
"""The fields of `standard.json` that a record names otherwise."""


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


@dataclass(frozen=True)
class _File:
    schema_version: int
    run: Run
    people: list[Person]
    labels: list[TrainingLabel] = field(default_factory=list)
    checksum: str = ""


@dataclass(frozen=True)
class _Comparison(RecordedStandards):
    schema_version: int = SCHEMA_VERSION
    checksum: str = ""


def read_record(source: str | Path | Mapping[str, Any], *, allow_changes: bool = False) -> Record:
    """A record from JSON text, a file, or a decoded object. Text that was changed since it was written is refused,
    unless `allow_changes`: for a reader that trains everything again."""
    decoded, where = _opened(source)
    file = _as(_File, decoded)
    record = Record(file.run, file.people, file.labels, where, file.checksum == checksum(decoded))
    if not record.unchanged and not allow_changes and not isinstance(source, Mapping):
        raise _changed(where)
    return record


def read_comparison(file: Path) -> tuple[RecordedStandards | None, Record | None]:
    """The comparison of groups in the file of an audit or of `butfor standard`, and the audit's record."""
    decoded, where = _opened(file)
    if "groups" not in decoded:
        record = read_record(file)
        return record.run.standard, record
    found = _as(_Comparison, {COMPARISON.get(name, name): value for name, value in decoded.items()})
    if found.checksum != checksum(decoded):
        raise _changed(where)
    return found, None


def _changed(where: str) -> ReplayError:
    return ReplayError(
        f"{where} was changed since butfor wrote it: its checksum is not that of its content. Take the file as it "
        "was written, or run the audit again; 'butfor replay' says what differs."
    )


def _opened(source: str | Path | Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    """A decoded object of this version, and where it comes from."""
    where, decoded = "The record", source
    if not isinstance(source, Mapping):
        where = "The text"
        try:
            if isinstance(source, Path) or not source.lstrip().startswith(("{", "[")):
                where = f"'{source}'"
                if Path(source).exists() and not Path(source).is_file():
                    raise ReplayError(f"{where} is not a file. {NAME_ONE}")
                source = Path(source).read_text(encoding="utf-8-sig")
            decoded = msgspec.json.decode(source)
        except RecursionError:
            raise ReplayError(f"{where} nests too deeply to be a record. {NAME_ONE}") from None
        except msgspec.DecodeError as error:
            raise ReplayError(f"{where} is not JSON ({error}). {NAME_ONE}") from error
        except (OSError, ValueError) as error:  # also a null byte in a name, half a character
            raise ReplayError(f"{where} cannot be read ({error}). {NAME_ONE}") from error
    if not isinstance(decoded, dict) or "schema_version" not in decoded:
        raise ReplayError(f"{where} is not an audit's record: it has no schema_version. {NAME_ONE}")
    if decoded.get("redacted"):
        raise ReplayError(
            f"{where} was written with --public: it has nothing to train, review or gate with. "
            "Name the full record of the same audit."
        )
    version = decoded["schema_version"]
    if version != SCHEMA_VERSION or isinstance(version, (bool, float)):
        raise ReplayError(
            f"{where} has schema_version {str(version)[:20]}, and this version of butfor reads {SCHEMA_VERSION}: run "
            "the audit again, or install the version that wrote it."
        )
    return decoded, where


def _as(kind: type[T], decoded: dict[str, Any]) -> T:
    """The object as this type, or the first fault in a sentence."""
    try:
        found = msgspec.convert(decoded, kind)
    except ValidationError as error:
        raise ReplayError(f"Invalid record: {_sentence(str(error))}.") from None
    for fault in _faults(found, decoded, ""):
        raise ReplayError(f"Invalid record: {fault}.")
    return found


def _faults(value: Any, decoded: Any, path: str) -> Iterator[str]:
    """Fields that a record does not have, and numbers out of their range."""
    if is_dataclass(value):
        names = {each.name for each in fields(value)} | (set(SUMMARY) if isinstance(value, Person) else set())
        yield from (f"{path or 'it'} has an unknown field {brief(name)}" for name in decoded if name not in names)
        for name in (name for name in decoded if name in names):
            here = f"{path}.{name}".lstrip(".")
            item = getattr(value, name, None)
            if name in RANGES and isinstance(item, int) and not RANGES[name][0] <= item <= RANGES[name][1]:
                yield f"{here} is {brief(item)}, but must be from {RANGES[name][0]} to {RANGES[name][1]}"
            yield from _faults(item, decoded[name], here)
        if isinstance(value, Run) and len(set(value.label_names)) < max(2, len(value.label_names)):
            yield f"{path}.label_names must name at least two labels, each once"
    elif isinstance(value, (list, tuple)) and isinstance(decoded, list):
        for place, (item, one) in enumerate(zip(value, decoded, strict=False)):
            yield from _faults(item, one, f"{path}[{place}]")


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

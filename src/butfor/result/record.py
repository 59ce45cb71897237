"""Records: the schema they follow, how they are read and written, and how numbers and values are put into words."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from butfor.errors import ReplayError
from butfor.files import save_text
from butfor.result.shape import check_file, check_sound, check_verdict

SCHEMA_VERSION = 3
"""3: a file ends with the checksum of all the rest. 2: the learner may be any. 1: it is always our network. All three
are read and replayed."""
READABLE = (1, 2, 3)
BEFORE, AFTER = "label before", "label after"
CHECKSUM = "checksum"
LARGEST_FILE = 2 * 1024**3
"""Bytes. A record of ten thousand people has a few hundred million."""
NAME_ONE = "Name a JSON file that butfor wrote."


@dataclass(frozen=True)
class RecordFile:
    """A record as it was read, and what its checksum says. `sealed`: None where an older version wrote no checksum."""

    record: dict[str, Any]
    where: str
    sealed: bool | None

    @property
    def people(self) -> list[dict[str, Any]]:
        """The records of everyone it is about."""
        people: list[dict[str, Any]] = self.record.get("people", [self.record])
        return people

    @property
    def seal(self) -> str:
        """What the checksum says, in a sentence."""
        if self.sealed is None:
            return f"{self.where} has no checksum, as older versions wrote it: what is not retrained is not checked."
        return (
            f"The checksum of {self.where} agrees."
            if self.sealed
            else f"{self.where} was changed since butfor wrote it: its checksum DISAGREES."
        )


def open_record(text: str | Path) -> RecordFile:
    """A record from JSON text or from the file that a path names, every field checked; refused with a sentence
    otherwise. Whether its checksum agrees is left to the caller."""
    where = "The text"
    if isinstance(text, Path) or not text.lstrip().startswith(("{", "[")):
        where = f"'{text}'"
        text = _content(Path(text), where)
    try:
        record = json.loads(text, object_pairs_hook=_once)
    except RecursionError:
        raise ReplayError(f"{where} nests too deeply to be a record. {NAME_ONE}") from None
    except json.JSONDecodeError as error:
        raise ReplayError(f"{where} is not JSON ({error}). {NAME_ONE}") from error
    except ValueError as error:  # a number of thousands of digits
        raise ReplayError(f"{where} cannot be read ({error}). {NAME_ONE}") from error
    if isinstance(record, dict) and record.get("redacted"):
        raise ReplayError(
            f"{where} was written with --{record['redacted']}: it has nothing to train, review or gate with. Name the "
            "full record of the same audit."
        )
    if not isinstance(record, dict) or "schema_version" not in record:
        raise ReplayError(f"{where} is not a verdict: it has no schema_version. {NAME_ONE}")
    check_sound(record)
    check_schema(record)
    check_file(record)
    given = record.get(CHECKSUM)
    return RecordFile(record, where, None if given is None else given == checksum(record))


def read_record(text: str | Path) -> dict[str, Any]:
    """The same; refused too where the file was changed since it was written."""
    file = open_record(text)
    refuse_changed(file)
    return file.record


def refuse_changed(file: RecordFile) -> None:
    """For readers that do not retrain."""
    if file.sealed is False:
        raise ReplayError(
            f"{file.where} was changed since butfor wrote it: its checksum is not that of its content. Take the file "
            "as it was written, or run the audit again; 'butfor replay' says what differs."
        )


def checksum(record: dict[str, Any]) -> str:
    """sha256 over everything else in a record, however it is spaced and ordered."""
    rest = {name: value for name, value in record.items() if name != CHECKSUM}
    text = json.dumps(rest, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def sealed(record: dict[str, Any]) -> dict[str, Any]:
    """The record as a file has it: values as JSON knows them, and the checksum of all of them last."""
    rest = json.loads(json.dumps(finite({k: v for k, v in record.items() if k != CHECKSUM}), allow_nan=False))
    return rest | {CHECKSUM: checksum(rest)}


def as_json(record: dict[str, Any], indent: int) -> str:
    """A record as the text of a file: strict JSON, sealed."""
    return json.dumps(sealed(record), indent=indent, ensure_ascii=False, allow_nan=False)


def finite(value: Any) -> Any:
    """The same with null for every number that is not one, however deep: JSON has no word for these."""
    if isinstance(value, dict):
        return {name: finite(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(item) for item in value]
    return plain(value)


def elsewhere(record: dict[str, Any], **files: str | None) -> dict[str, Any]:
    """The record of a person whose files (`data`, `test`, `validation`) lie somewhere else by now; that they are the
    same their rows must show."""
    run = record["run"]
    moved = {name: file for name, file in files.items() if file is not None}
    if not moved:
        return record
    first = next(iter(moved))
    if "label" not in run["data"]:
        named = run["data"].get("table")
        what = f"of the embedded set '{named}'" if named else "of a table given in Python"
        raise ReplayError(f"--{first} {moved[first]}: the record is {what}, not of a file; leave --{first} out.")
    for name in moved:
        if name != "data" and run["data"].get(name) is None:
            raise ReplayError(f"--{name} {moved[name]}: the record names no {name} file; leave --{name} out.")
    data = {"table" if name == "data" else name: file for name, file in moved.items()}
    return record | {"table": data.get("table", record["table"]), "run": run | {"data": run["data"] | data}}


def check_schema(record: dict[str, Any]) -> None:
    version = record.get("schema_version")
    if isinstance(version, bool) or not isinstance(version, int) or version not in READABLE:
        raise ReplayError(
            f"The record has schema_version {version}; this version of butfor reads "
            f"{', '.join(map(str, READABLE))}. Install the version named in its run block."
        )


def check_person(record: dict[str, Any]) -> None:
    """Refuse what is not one person's record."""
    if not isinstance(record, dict):
        raise ReplayError(f"A record is an object with a schema_version, not {type(record).__name__}.")
    check_schema(record)
    check_verdict(record)


def learner_record(run: dict[str, Any]) -> dict[str, Any]:
    """The learner of a run block, in the form of schema 2."""
    learner: dict[str, Any] = run["learner"]
    if "kind" not in learner and "encoder" not in run:
        raise ReplayError("The record is incomplete: run.learner.kind is missing.")
    return learner if "kind" in learner else {"kind": "mlp", "recipe": learner, "encoder": run["encoder"]}


def signed(logit: float) -> str:
    """A logit with its sign, to two decimals, more where it is very close to 0."""
    digits = 2 if abs(logit) >= 0.01 else 4
    return f"{logit:+.{digits}f}".replace("-", "−")


def plain(value: Any) -> Any:
    """A value as JSON knows it; a number that is not one becomes null."""
    if value is pd.NA or value is pd.NaT:
        return None
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, (str, int, float, bool, type(None))) else str(value)


def percent(share: float) -> str:
    return f"{100 * share:.2g} %" if share < 0.1 else f"{100 * share:.0f} %"


def written(text: str, path: str | Path | None) -> str:
    """The text, also written to `path` where one is given: beside it first, so that a file is there whole or not at
    all, and one that was there stays until then."""
    if path is not None:
        save_text(path, text)
    return text


def _content(path: Path, where: str) -> str:
    """A file's text, where it is a file, and one of a size that a record may have."""
    try:
        if path.exists() and not path.is_file():
            raise ReplayError(f"{where} is not a file. {NAME_ONE}")
        if path.stat().st_size > LARGEST_FILE:
            raise ReplayError(f"{where} has {path.stat().st_size} bytes, too many for a record. {NAME_ONE}")
        return path.read_text(encoding="utf-8-sig")
    except (OSError, ValueError) as error:  # also UnicodeError, and a null byte in the name
        raise ReplayError(f"{where} cannot be read ({error}). {NAME_ONE}") from error


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object whose names are all different: of two values under one name, readers would show either."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ReplayError(f"The record is bent: it names {twice!a} twice in one object. {NAME_ONE}")
    return found

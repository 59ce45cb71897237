"""Records: the content of a file, its checksum, and values as JSON."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
import pandas as pd

SCHEMA_VERSION = 6
BEFORE, AFTER, DOUBT = "label before", "label after", "doubt of label"
CHECKSUM = "checksum"
SUMMARY = ("status", "solidity", "decision_before", "decision_after")
"""What a person's line says for readers without this library; everything else in it was measured."""
LISTS = ("people", "labels")
"""Lists of a record, written one line per entry."""


class Whole:
    """Base of dataclasses whose every field is written, defaults too."""


def builtins_of(value: Any) -> Any:
    """A value as JSON. Fields at their default are left out, unless the dataclass is `Whole`."""
    if is_dataclass(value) and not isinstance(value, type):
        pairs = ((field, getattr(value, field.name)) for field in fields(value))
        whole = isinstance(value, Whole)
        return {field.name: builtins_of(item) for field, item in pairs if whole or item != field.default}
    if isinstance(value, Mapping):
        return {str(name): builtins_of(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [builtins_of(item) for item in value]
    return plain(value)


def record_of(run: Whole, people: list[dict[str, Any]], labels: Sequence[Any] = ()) -> dict[str, Any]:
    """The content of a file: the run, its people, and the labels to review."""
    record = {"schema_version": SCHEMA_VERSION, "run": builtins_of(run), "people": people}
    return record | {"labels": builtins_of(labels)} if labels else record


def checksum(record: Mapping[str, Any]) -> str:
    """sha256 of the rest of a record; spaces and order do not matter."""
    rest = {name: value for name, value in record.items() if name != CHECKSUM}
    text = json.dumps(rest, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def with_checksum(record: Mapping[str, Any]) -> dict[str, Any]:
    """The record with its checksum."""
    return {**record, CHECKSUM: checksum(record)}


def as_json(record: dict[str, Any]) -> str:
    """A record as text: strict JSON with its checksum, one line per person and per label."""
    rest = {name: value for name, value in with_checksum(record).items() if name not in LISTS}
    text = json.dumps(rest, indent=1, ensure_ascii=False, allow_nan=False)[:-2]
    for name in LISTS:
        if name in record:
            lines = (f"  {json.dumps(each, ensure_ascii=False, allow_nan=False)}" for each in record[name])
            text += f',\n "{name}": [\n' + ",\n".join(lines) + "\n ]"
    return f"{text}\n}}\n"


def plain(value: Any) -> Any:
    """A value as JSON; NaN and infinity become null."""
    if value is pd.NA or value is pd.NaT:
        return None
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, (str, int, float, bool, type(None))) else str(value)


def brief(value: Any) -> str:
    """A value as short JSON, for a message."""
    if isinstance(value, (list, tuple, dict)):
        return f"{'an object' if isinstance(value, dict) else 'a list'} of {len(value)}"
    text = ascii(value) if isinstance(value, str) else json.dumps(value, default=str)
    return text if len(text) <= 60 else f"{text[:57]}…{text[0] if isinstance(value, str) else ''}"

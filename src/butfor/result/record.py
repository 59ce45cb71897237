"""Records: the schema they follow, how they are read and written, and how numbers and values are put into words."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from butfor.errors import ReplayError
from butfor.files import save_text

SCHEMA_VERSION = 2
"""2: the learner may be any; 1, whose learner is always our network, is still read and replayed."""
READABLE = (1, 2)
BEFORE, AFTER = "label before", "label after"


def read_record(text: str | Path) -> dict[str, Any]:
    """A record from JSON text or from the file that a path names; refused with a sentence otherwise."""
    where = "The text"
    if isinstance(text, Path) or not text.lstrip().startswith(("{", "[")):
        where = f"'{text}'"
        try:
            text = Path(text).read_text(encoding="utf-8")
        except (OSError, UnicodeError) as error:
            raise ReplayError(f"{where} cannot be read ({error}); name a JSON file that butfor wrote.") from error
    try:
        record = json.loads(text)
    except json.JSONDecodeError as error:
        raise ReplayError(f"{where} is not JSON ({error}); name a JSON file that butfor wrote.") from error
    if isinstance(record, dict) and record.get("redacted"):
        raise ReplayError(
            f"{where} was written with --{record['redacted']}: it has nothing to train, review or gate with. Name the "
            "full record of the same audit."
        )
    if not isinstance(record, dict) or "schema_version" not in record:
        raise ReplayError(f"{where} is not a verdict: it has no schema_version. Name a JSON file that butfor wrote.")
    return record


def elsewhere(record: dict[str, Any], table: str) -> dict[str, Any]:
    """The record of a person whose table lies somewhere else by now; that it is the same its hash must show."""
    run = record["run"]
    if "label" not in run["data"]:
        named = run["data"].get("table")
        what = f"of the embedded set '{named}'" if named else "of a table given in Python"
        raise ReplayError(f"--data {table}: the record is {what}, not of a file; leave --data out.")
    return record | {"run": run | {"data": run["data"] | {"table": table}}}


def check_schema(record: dict[str, Any]) -> None:
    if record.get("schema_version") not in READABLE:
        raise ReplayError(
            f"The record has schema_version {record.get('schema_version')}; this version of butfor reads "
            f"{' and '.join(map(str, READABLE))}. Install the version named in its run block."
        )


def learner_record(run: dict[str, Any]) -> dict[str, Any]:
    """The learner of a run block, in the form of schema 2."""
    learner: dict[str, Any] = run["learner"]
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

"""An audit file, read: its verdicts, and the hash by which it is known again."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from butfor.errors import ReplayError
from butfor.result.population import Population
from butfor.result.record import check_schema, read_record
from butfor.result.verdict import Verdict

NEEDED = ("data", "sensitive", "label_names")


@dataclass(frozen=True)
class AuditFile:
    path: Path
    population: Population
    """Everyone the file is about; one person where it is the record of one."""
    sha256: str

    @property
    def run(self) -> dict[str, Any]:
        return self.population.run


def read_audit(path: Path) -> AuditFile:
    """The audit that a JSON file of `butfor audit` holds; anything else is refused with a sentence."""
    record = read_record(path)
    check_schema(record)
    try:
        people = [Verdict.from_dict(person) for person in record.get("people", [record])]
        population = Population(people, record["run"], _interrupted(record))
        missing = [name for name in NEEDED if name not in population.run]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ReplayError(f"'{path}' is not the record of an audit ({error!r}); name {WANTED}.") from error
    if missing:
        raise ReplayError(f"'{path}' is not the record of an audit (its run block lacks {missing[0]}); name {WANTED}.")
    return AuditFile(path, population, hashlib.sha256(path.read_bytes()).hexdigest())


def _interrupted(record: dict[str, Any]) -> bool:
    """Whether the audit was stopped by hand; the record of one person says so by a search that nothing else stopped."""
    if "interrupted" in record:
        return bool(record["interrupted"])
    return not record["complete"] and record["run"].get("max_retrainings") is None


WANTED = "the audit.json that butfor audit --out wrote"

"""An audit file, read: its verdicts, and the hash by which it is known again."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from butfor.result.population import Population
from butfor.result.record import open_record, refuse_changed
from butfor.result.shape import DATA, TEXT, each, fields
from butfor.result.verdict import Verdict
from butfor.result.whole import refuse_incoherent

NEEDED = fields({"data": DATA, "sensitive": TEXT, "label_names": each(TEXT, 2)})


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
    file = open_record(path)
    record = file.record
    NEEDED(record["run"], "run")
    refuse_changed(file)
    refuse_incoherent(file)
    people = [Verdict.from_dict(person) for person in file.people]
    population = Population(people, record["run"], _interrupted(record))
    return AuditFile(path, population, hashlib.sha256(path.read_bytes()).hexdigest())


def _interrupted(record: dict[str, Any]) -> bool:
    """Whether the audit was stopped by hand; the record of one person says so by a search that nothing else stopped."""
    if "interrupted" in record:
        return bool(record["interrupted"])
    return not record["complete"] and record["run"].get("max_retrainings") is None

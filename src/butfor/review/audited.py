"""An audit file, read: its verdicts, and the hash by which it is known again."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from butfor.result.population import Population


@dataclass(frozen=True)
class AuditFile:
    path: Path
    population: Population
    sha256: str

    @property
    def run(self) -> Mapping[str, Any]:
        return self.population.run


def read_audit(path: Path) -> AuditFile:
    """The audit that a JSON file of `butfor audit` holds; anything else is refused with a sentence."""
    population = Population.from_json(path)
    return AuditFile(path, population, hashlib.sha256(path.read_bytes()).hexdigest())

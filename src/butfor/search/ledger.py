"""The ledger: what has been trained and found, in one sqlite file, so that nothing is computed twice.

A model's answers depend on the data, the learner's settings, the engine with its device, the versions of what trains,
the flip set and the seed; that is their key. Each write is one transaction: a run that is killed loses only what was
not yet written, and several runs may share a file.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from butfor import __version__
from butfor.errors import SettingError
from butfor.provenance import data_hash, versions
from butfor.seam import Engine, Floats, Learner, Table, Training

LOOKUP = 500
"""Keys per query: sqlite limits how many parameters one may have."""


class Ledger:
    """One sqlite file; made where there is none."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        try:
            self._db = sqlite3.connect(self.path, timeout=60, isolation_level=None)
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute(
                "CREATE TABLE IF NOT EXISTS networks "
                "(page TEXT, flips TEXT, logits BLOB, PRIMARY KEY (page, flips)) WITHOUT ROWID"
            )
        except sqlite3.Error as error:
            raise SettingError(f"'{self.path}' cannot be used as a ledger ({error}); name another file.") from error

    def page(self, learner: Learner, table: Table, people: pd.DataFrame, engine: Engine) -> Page:
        """The part of the ledger about one training table, learner, engine and group of people."""
        device = str(getattr(engine, "device", "cpu"))
        settings = [learner.record(), engine.name, device, {"butfor": __version__} | versions()]
        digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode())
        digest.update(data_hash(table).encode() + people.to_csv(index=False).encode())
        return Page(self._db, digest.hexdigest())

    def __len__(self) -> int:
        """Networks remembered."""
        return int(self._db.execute("SELECT COUNT(*) FROM networks").fetchone()[0])

    def close(self) -> None:
        self._db.close()


@dataclass(frozen=True)
class Page:
    """What is known about one training table: training → logits of the people."""

    db: sqlite3.Connection
    key: str

    def recall(self, trainings: Sequence[Training]) -> dict[Training, Floats]:
        """The logits of those trainings that are known."""
        wanted = {_text(training): training for training in trainings}
        names, known = list(wanted), {}
        for start in range(0, len(names), LOOKUP):
            some = names[start : start + LOOKUP]
            marks = ",".join("?" * len(some))
            query = f"SELECT flips, logits FROM networks WHERE page = ? AND flips IN ({marks})"
            for name, logits in self.db.execute(query, [self.key, *some]):
                known[wanted[name]] = np.frombuffer(logits, np.float32)
        return known

    def write(self, logits: Mapping[Training, Floats]) -> None:
        """Remember; all of it or, if interrupted, nothing."""
        rows = [(self.key, _text(training), np.asarray(a, np.float32).tobytes()) for training, a in logits.items()]
        with self.db:
            self.db.execute("BEGIN IMMEDIATE")
            self.db.executemany("INSERT OR IGNORE INTO networks VALUES (?, ?, ?)", rows)


def _text(training: Training) -> str:
    """A training in words; its seed where it is not the learner's own."""
    flips = " ".join(map(str, training.flips))
    return flips if training.seed is None else f"{flips} seed {training.seed}"

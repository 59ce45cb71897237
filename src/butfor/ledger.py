"""The ledger: the answers of all trained models, in one sqlite file, so that nothing is trained twice.

A model's answers depend on the data, the learner's settings, the engine and its device, package versions, the flip set
and the seed; together they are the key. Each write is one transaction: a killed run loses only what it had not written,
and several runs may share a file. A damaged row is trained again.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from butfor._version import __version__
from butfor.errors import OutputError, SettingError
from butfor.files import OWNER_FILE
from butfor.models.capabilities import Scored
from butfor.models.learner import Bound, Floats, Learner, Table, Training
from butfor.provenance import data_hash, versions

LOOKUP = 500
"""Keys per query: sqlite limits the number of parameters."""
MAGIC = b"SQLite format 3\0"
APPLICATION = int.from_bytes(b"bUtF", "big")
"""The application id in sqlite's header, at byte 68."""
SCHEMA = 1
"""The version of the table: sqlite's user_version, at byte 60."""
PATIENCE = 60.0
"""Seconds to wait while another process writes."""
NO_ROOM = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_IOERR_FSYNC)
"""sqlite's codes for a full disk."""
NETWORKS = (
    "CREATE TABLE IF NOT EXISTS networks "
    "(page TEXT, flips TEXT, logits BLOB, checksum BLOB, PRIMARY KEY (page, flips)) WITHOUT ROWID"
)


class Ledger:
    """One sqlite file, created if there is none. `note` is called with a sentence if something is wrong with it."""

    def __init__(self, path: str | Path, note: Callable[[str], None] | None = None) -> None:
        self.path, self._note = Path(path), note or (lambda line: None)
        self.bad_rows, self._tells = 0, True
        try:
            self._db = _opened(self.path)
        except (sqlite3.Error, OSError, ValueError) as error:  # ValueError: a null byte in the name
            if getattr(error, "sqlite_errorcode", None) in NO_ROOM:  # not the fault of who named the file
                full = OSError(errno.EIO, "the disk is full, over its quota, or broken")
                raise OutputError(self.path, full) from error
            raise SettingError(
                f"'{self.path}' cannot be used as a ledger ({error}); name another file, or remove this one if it is "
                "damaged."
            ) from error

    def page(self, learner: Learner, table: Table, people: pd.DataFrame, engine: Bound) -> Page:
        """The part of the ledger about one training table, learner, engine and group of people."""
        settings = [learner.record(), engine.name, str(engine.device), {"butfor": __version__} | versions()]
        digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode())
        digest.update(data_hash(table).encode() + people.to_csv(index=False).encode())
        if table.decision.has_cut and isinstance(learner, Scored):  # which of its scores the answers are
            digest.update(f"probability {table.decision.by_probability}".encode())
        if table.multiclass:  # what a flip makes of a label
            digest.update(table.new_codes.tobytes())
        return Page(self, digest.hexdigest(), len(people) * table.outputs)

    def close(self) -> None:
        """Close the file, and note how many rows were damaged."""
        if self.bad_rows:
            rows = "1 row" if self.bad_rows == 1 else f"{self.bad_rows} rows"
            self._note(f"The ledger '{self.path}' held {rows} that were damaged; trained again.")
        self._db.close()

    def select(self, query: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        """Rows; none if the file can no longer be read."""
        try:
            return self._db.execute(query, values).fetchall()
        except sqlite3.Error as error:
            self._give_up(error)
            return []

    def write(self, rows: Sequence[tuple[Any, ...]]) -> None:
        """Write all rows or none. If the file cannot be written, the audit goes on without it."""
        try:
            with self._db:
                self._db.executemany("INSERT OR REPLACE INTO networks VALUES (?, ?, ?, ?)", rows)
        except sqlite3.Error as error:
            self._give_up(error)

    def _give_up(self, error: sqlite3.Error) -> None:
        """Note once that the file can no longer be used."""
        if self._tells:
            self._note(f"The ledger '{self.path}' cannot be used now ({error}); the audit goes on without it.")
        self._tells = False


@dataclass(frozen=True)
class Page:
    """The part about one training table: training → the model's `answers` numbers."""

    ledger: Ledger
    key: str
    answers: int

    def recall(self, trainings: Sequence[Training]) -> dict[Training, Floats]:
        """The answers of the trainings that are in the ledger."""
        wanted = {_text(training): training for training in trainings}
        names, known = list(wanted), {}
        for start in range(0, len(names), LOOKUP):
            some = names[start : start + LOOKUP]
            marks = ",".join("?" * len(some))
            query = f"SELECT flips, logits, checksum FROM networks WHERE page = ? AND flips IN ({marks})"
            for name, logits, checksum in self.ledger.select(query, [self.key, *some]):
                if name in wanted and self._is_sound(name, logits, checksum):
                    known[wanted[name]] = np.frombuffer(logits, np.float32)
                else:
                    self.ledger.bad_rows += 1
        return known

    def write(self, logits: Mapping[Training, Floats]) -> None:
        """Write all answers or, if interrupted, none. Trainings that diverged have no answer."""
        named = {_text(t): np.asarray(a, np.float32).tobytes() for t, a in logits.items() if np.isfinite(a).all()}
        self.ledger.write([(self.key, name, said, _checksum(self.key, name, said)) for name, said in named.items()])

    def _is_sound(self, name: str, logits: Any, checksum: Any) -> bool:
        """Whether the bytes have the right length and checksum and are finite numbers."""
        whole = isinstance(logits, bytes) and len(logits) == 4 * self.answers
        sealed = whole and checksum == _checksum(self.key, name, logits)
        return sealed and bool(np.isfinite(np.frombuffer(logits, np.float32)).all())


def _opened(path: Path) -> sqlite3.Connection:
    """The file, sound and writable, or an error. Other files are left alone: sqlite itself would write into any
    database, and wait at a pipe."""
    if path.exists():
        if not path.is_file():
            raise OSError("it is not a file")
        with path.open("rb") as file:
            header = file.read(100)
        numbers = [int.from_bytes(header[at : at + 4], "big") for at in (68, 60)]
        if header and (header[:16] != MAGIC or numbers != [APPLICATION, SCHEMA]):
            raise OSError("it is another kind of file, or a ledger of another version of butfor, and was not changed")
    with suppress(OSError):  # a new file is its owner's alone; sqlite reports other problems
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, OWNER_FILE))
    db = sqlite3.connect(path, timeout=PATIENCE)
    try:
        fault = db.execute("PRAGMA quick_check(1)").fetchone()[0]
        if fault != "ok":
            raise sqlite3.DatabaseError(fault.splitlines()[-1])
        with db:
            db.execute("BEGIN IMMEDIATE")
            for statement in (NETWORKS, f"PRAGMA application_id = {APPLICATION}", f"PRAGMA user_version = {SCHEMA}"):
                db.execute(statement)
    except BaseException:
        db.close()
        raise
    return db


def _checksum(key: str, name: str, content: bytes) -> bytes:
    return hashlib.blake2b(f"{key}\n{name}\n".encode() + content, digest_size=16).digest()


def _text(training: Training) -> str:
    """A training in words; its seed if it is not the learner's own."""
    flips = " ".join(map(str, training.flips))
    return flips if training.seed is None else f"{flips} seed {training.seed}"

"""The ledger: the answers of all trained models, in one sqlite file, so that nothing is trained
twice.

A model's answers depend on the data with its types, the cut, the learner's settings, the engine and
its device, package versions, the flip set and the seed: their hash is the key. The value is the
answers with a checksum. Each write is one transaction: a killed run loses only what it had not
written, and several runs may share a file. A damaged row is trained again.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from zlib import crc32

import numpy as np
import pandas as pd

from butfor._version import __version__
from butfor.models.seam import (
    Bound,
    Floats,
    Learner,
    Training,
)
from butfor.support.errors import SettingError
from butfor.support.files import OWNER_FILE
from butfor.support.versions import versions
from butfor.table.decisions import Decision
from butfor.table.hashes import data_hash, typed
from butfor.table.table import Table

TABLE = "butfor_answers"
KEY_FORMAT = 6
"""The file's `user_version`: how its keys are made. Those of 0.5, which are 0 here, say nothing of
types and cut."""
WRITER_SECONDS = 60.0
"""Seconds to wait while another process writes."""


class Ledger:
    """One sqlite file, created if there is none. `note` is called with a sentence if something is
    wrong with it."""

    def __init__(self, path: str | Path, note: Callable[[str], None] | None = None) -> None:
        self.path = Path(path)
        self._note = note or (lambda line: None)
        self._bad_rows = 0
        self._usable = True
        try:
            self._db, keys = _opened(self.path)
        except (sqlite3.Error, OSError, ValueError) as error:  # ValueError: a null byte in the name
            raise SettingError(
                f"'{self.path}' cannot be used as a ledger ({error}); name another file, or "
                "remove this one if it is damaged."
            ) from error
        if keys != KEY_FORMAT:
            self._note(
                f"The ledger '{self.path}' is of butfor 0.5, which did not tell apart columns of "
                "other types and other thresholds: none of its answers is recalled. New ones are "
                "added."
            )

    @staticmethod
    def page(
        learner: Learner, table: Table, decision: Decision, people: pd.DataFrame, engine: Bound
    ) -> bytes:
        """The hash of everything that answers depend on but the flips and the seed."""
        settings = [
            learner.record(),
            engine.name,
            str(engine.device),
            {"butfor": __version__} | versions(),
        ]
        digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode())
        digest.update(data_hash(table).encode())
        for content in typed(people.reset_index(drop=True)):
            digest.update(content)
        # A user's own steps may tell types apart that hold the same values.
        for rows in (table.X, people):
            digest.update(repr([str(kind) for kind in rows.dtypes]).encode())
        # which of its scores the answers are, and from where on they are moved to the other side
        if decision.has_cut:
            places = None if decision.pool is None else len(decision.pool)
            cut = [decision.label, decision.at, decision.by_probability, decision.share, places]
            digest.update(json.dumps(cut).encode())
        if table.multiclass:  # what a flip makes of a label
            digest.update(table.new_codes.tobytes())
        return digest.digest()

    def recall(self, page: bytes, trainings: Sequence[Training]) -> dict[Training, Floats]:
        """The answers of the trainings that are in the ledger."""
        answers: dict[Training, Floats] = {}
        with self._or_without():
            for training in trainings:
                key = _key(page, training)
                for content, crc in self._db.execute(
                    f"SELECT answers, crc FROM {TABLE} WHERE key = ?", (key,)
                ):
                    whole = isinstance(content, bytes) and len(content) % 4 == 0
                    if whole and crc == crc32(key + content):
                        answers[training] = np.frombuffer(content, np.float32)
                    else:
                        self._bad_rows += 1
        return answers

    def write(self, page: bytes, answers: Mapping[Training, Floats]) -> None:
        """Write all answers or, if interrupted, none. Trainings that diverged have no answer."""
        rows = []
        for training, of_training in answers.items():
            if np.isfinite(of_training).all():
                key = _key(page, training)
                content = np.asarray(of_training, np.float32).tobytes()
                rows.append((key, content, crc32(key + content)))
        with self._or_without(), self._db:
            self._db.executemany(f"INSERT OR REPLACE INTO {TABLE} VALUES (?, ?, ?)", rows)

    def close(self) -> None:
        """Close the file, and note how many rows were damaged."""
        if self._bad_rows:
            rows = "1 row" if self._bad_rows == 1 else f"{self._bad_rows} rows"
            self._note(f"The ledger '{self.path}' held {rows} that were damaged; trained again.")
        self._db.close()

    @contextmanager
    def _or_without(self) -> Iterator[None]:
        """If the file cannot be used, the audit goes on without it, and the first time it is
        said."""
        try:
            yield
        except sqlite3.Error as error:
            if self._usable:
                self._note(
                    f"The ledger '{self.path}' cannot be used now ({error}); the audit goes on "
                    "without it."
                )
            self._usable = False


def _key(page: bytes, training: Training) -> bytes:
    return hashlib.blake2b(page + repr(tuple(training)).encode(), digest_size=16).digest()


def _opened(path: Path) -> tuple[sqlite3.Connection, int]:
    """The file, sound and writable, and how the keys of its answers were made; or an error. Other
    people's files and databases are not changed."""
    if path.exists() and not path.is_file():
        raise OSError("it is not a file")
    with suppress(OSError):  # a new file is its owner's alone; sqlite reports other problems
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, OWNER_FILE))
    db = sqlite3.connect(path, timeout=WRITER_SECONDS)
    try:
        tables = {name for (name,) in db.execute("SELECT name FROM sqlite_master")}
        if tables - {TABLE} or (path.stat().st_size and not tables):
            raise OSError(
                "it is another kind of file, or a ledger of another version of butfor, and was "
                "not changed"
            )
        fault = db.execute("PRAGMA quick_check(1)").fetchone()[0]
        if fault != "ok":
            raise sqlite3.DatabaseError(fault.splitlines()[-1])
        with db:
            db.execute("BEGIN IMMEDIATE")
            columns = "(key BLOB PRIMARY KEY, answers BLOB, crc INTEGER) WITHOUT ROWID"
            db.execute(f"CREATE TABLE IF NOT EXISTS {TABLE} {columns}")
            filled = db.execute(f"SELECT 1 FROM {TABLE} LIMIT 1").fetchone()
            keys = db.execute("PRAGMA user_version").fetchone()[0] if filled else KEY_FORMAT
            db.execute(f"PRAGMA user_version = {KEY_FORMAT}")
    except BaseException:
        db.close()
        raise
    return db, keys

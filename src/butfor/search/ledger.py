"""The ledger: what has been trained, in one sqlite file, so that nothing is computed twice.

A model's answers depend on the data, the learner's settings, the engine with its device, the versions of what trains,
the flip set and the seed; that is their key. Each write is one transaction: a run that is killed loses only what was
not yet written, and several runs may share a file.

A ledger remembers; it decides nothing. It knows its own files and writes into no other, sets a damaged one aside, and
checks every row it recalls: one whose answer is not what was written is dropped, counted, and trained again.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from butfor import __version__
from butfor.errors import FULL, ButforError, OutputError, SettingError
from butfor.files import OWNER_FILE
from butfor.learn.protocols import Engine, Floats, Learner, Table, Training
from butfor.provenance import data_hash, versions

LOOKUP = 500
"""Keys per query: sqlite limits how many parameters one may have."""
APPLICATION = int.from_bytes(b"bUtF", "big")
"""What sqlite's header says a file is for, at byte 68."""
SCHEMA = 1
"""The version of the tables, in sqlite's user_version."""
PATIENCE = 60.0
"""Seconds to wait for another process that writes."""
NO_ROOM = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_SHMSIZE)
"""What sqlite calls a disk that takes no more: for the file itself, and for the one beside it that processes share."""
NOT_WRITTEN = (sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_IOERR_FSYNC)
"""What it calls a disk that does not take what is written, be it for a quota or a limit on a file's size."""
MAGIC = b"SQLite format 3\0"
NETWORKS = (
    "CREATE TABLE networks (page TEXT, flips TEXT, logits BLOB, checksum BLOB, PRIMARY KEY (page, flips)) WITHOUT ROWID"
)

Note = Callable[[str], None]


class Ledger:
    """One sqlite file; made where there is none. `note` hears what was wrong with it."""

    def __init__(self, path: str | Path, note: Note | None = None) -> None:
        self.path, self._note = Path(path), note or (lambda line: None)
        self._dropped, self._tells = 0, True
        _refuse_foreign(self.path)
        try:
            self._db = self._opened()
        except (sqlite3.OperationalError, ValueError) as error:  # ValueError: a null byte in the name
            raise _refusal(self.path, error) from error
        except sqlite3.DatabaseError as error:
            self._set_aside(error)

    def page(self, learner: Learner, table: Table, people: pd.DataFrame, engine: Engine) -> Page:
        """The part of the ledger about one training table, learner, engine and group of people."""
        device = str(engine.device)
        settings = [learner.record(), engine.name, device, {"butfor": __version__} | versions()]
        digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode())
        digest.update(data_hash(table).encode() + people.to_csv(index=False).encode())
        return Page(self, digest.hexdigest(), len(people))

    def __len__(self) -> int:
        """Networks remembered."""
        return int(self._db.execute("SELECT COUNT(*) FROM networks").fetchone()[0])

    def close(self) -> None:
        """Let go of the file, and say how many rows were of no use."""
        if self._dropped:
            rows = "1 row" if self._dropped == 1 else f"{self._dropped} rows"
            self._note(f"The ledger '{self.path}' held {rows} that were not as written: dropped, and trained again.")
            self._dropped = 0
        self._db.close()

    def select(self, query: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        """Rows; none where the file turns out to be damaged, which is then set aside."""
        try:
            return self._db.execute(query, values).fetchall()
        except sqlite3.OperationalError as error:
            self._give_up(error)
        except sqlite3.DatabaseError as error:
            self._set_aside(error)
        return []

    def change(self, statement: str, rows: Sequence[tuple[Any, ...]]) -> None:
        """All of it or nothing. What cannot be written is not remembered, and the audit goes on."""
        try:
            with self._transaction():
                self._db.executemany(statement, rows)
        except sqlite3.OperationalError as error:
            self._give_up(error)
        except sqlite3.DatabaseError as error:
            self._set_aside(error)

    def drop(self, key: str, names: Sequence[str]) -> None:
        """Forget rows that are not as they were written."""
        self._dropped += len(names)
        self.change("DELETE FROM networks WHERE page = ? AND flips = ?", [(key, name) for name in names])

    # --- the file ---------------------------------------------------------------------------------------

    def _opened(self) -> sqlite3.Connection:
        """The file, one of ours and whole; sqlite's own error otherwise."""
        with suppress(OSError):  # a new one is its owner's alone; what else is wrong with the place sqlite says
            os.close(os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, OWNER_FILE))
        self._db = sqlite3.connect(self.path, timeout=PATIENCE, isolation_level=None)
        self._db.text_factory = lambda content: content.decode(errors="replace")  # whatever somebody put there
        try:
            with self._transaction():  # also finds out whether it can be written at all
                if not self._db.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()[0]:
                    self._db.execute(NETWORKS)
                    self._db.execute(f"PRAGMA application_id = {APPLICATION}")
                    self._db.execute(f"PRAGMA user_version = {SCHEMA}")
            self._into_wal()
            fault = self._db.execute("PRAGMA quick_check(1)").fetchone()[0]
            if fault != "ok":
                raise sqlite3.DatabaseError(fault.splitlines()[-1])
            columns = [row[1] for row in self._db.execute("PRAGMA table_info(networks)")]
            if columns != ["page", "flips", "logits", "checksum"]:
                raise sqlite3.DatabaseError("its table is not that of a ledger")
        except BaseException:
            self._db.close()
            raise
        return self._db

    def _into_wal(self) -> None:
        """Readers and a writer side by side. Sqlite does not wait here while another process opens the file."""
        until = time.monotonic() + PATIENCE
        while True:
            try:
                self._db.execute("PRAGMA journal_mode=WAL")
                return
            except sqlite3.OperationalError as error:
                if "locked" not in str(error) or time.monotonic() > until:
                    raise
                time.sleep(0.05)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            with suppress(sqlite3.Error):
                self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")

    def _set_aside(self, error: sqlite3.DatabaseError) -> None:
        """Rename a damaged file, and begin a new one."""
        self._db.close()
        kept = free_name(self.path)
        try:
            for end in ("-wal", "-shm", ""):
                part = Path(f"{self.path}{end}")
                if part.exists():
                    part.rename(f"{kept}{end}")
            self._db = self._opened()
        except (OSError, sqlite3.Error) as again:
            raise _refusal(self.path, again) from again
        self._note(f"The ledger '{self.path}' is damaged ({error}): it was set aside as '{kept}', and a new one begun.")

    def _give_up(self, error: sqlite3.OperationalError) -> None:
        """Say once that the file no longer takes or gives anything."""
        if self._tells:
            self._note(f"The ledger '{self.path}' cannot be used now ({error}): what it misses is trained, not kept.")
        self._tells = False


@dataclass(frozen=True)
class Page:
    """What is known about one training table: training → logits of the `people`, so many of them."""

    ledger: Ledger
    key: str
    people: int

    def recall(self, trainings: Sequence[Training]) -> dict[Training, Floats]:
        """The logits of those trainings that are known; what is not as it was written is dropped."""
        wanted = {_text(training): training for training in trainings}
        names, known, bad = list(wanted), {}, []
        for start in range(0, len(names), LOOKUP):
            some = names[start : start + LOOKUP]
            marks = ",".join("?" * len(some))
            query = f"SELECT flips, logits, checksum FROM networks WHERE page = ? AND flips IN ({marks})"
            for name, logits, checksum in self.ledger.select(query, [self.key, *some]):
                if self._is_sound(name, logits, checksum):
                    known[wanted[name]] = np.frombuffer(logits, np.float32)
                else:
                    bad.append(name)
        if bad:
            self.ledger.drop(self.key, bad)
        return known

    def write(self, logits: Mapping[Training, Floats]) -> None:
        """Remember; all of it or, if interrupted, nothing. What diverged has no answer to remember."""
        rows = []
        for training, answer in logits.items():
            numbers, name = np.asarray(answer, np.float32), _text(training)
            if np.isfinite(numbers).all():
                content = numbers.tobytes()
                rows.append((self.key, name, content, _checksum(self.key, name, content)))
        self.ledger.change("INSERT OR IGNORE INTO networks VALUES (?, ?, ?, ?)", rows)

    def _is_sound(self, name: str, logits: Any, checksum: Any) -> bool:
        """Bytes of the right length and checksum, and numbers all of them."""
        return (
            isinstance(logits, bytes)
            and len(logits) == 4 * self.people
            and checksum == _checksum(self.key, name, logits)
            and bool(np.isfinite(np.frombuffer(logits, np.float32)).all())
        )


def free_name(path: Path) -> Path:
    """Where to set a damaged file aside: beside it, over nothing that is there."""
    kept, number = Path(f"{path}.damaged"), 1
    while kept.exists():
        number += 1
        kept = Path(f"{path}.damaged{number}")
    return kept


def _refuse_foreign(path: Path) -> None:
    """Anything but a ledger is left as it is: sqlite itself would write into any database."""
    try:
        if not path.exists():
            if not path.parent.is_dir():
                raise SettingError(f"'{path}' cannot be used as a ledger: there is no folder '{path.parent}'.")
            return
        if not path.is_file():
            what = "a folder" if path.is_dir() else "not a file"
            raise SettingError(f"'{path}' cannot be used as a ledger: it is {what}; name a file.")
        with path.open("rb") as file:
            header = file.read(100)
    except (OSError, ValueError) as error:
        if isinstance(error, SettingError):
            raise
        raise SettingError(f"'{path}' cannot be used as a ledger ({error}); name another file.") from error
    if not header:
        return
    if int.from_bytes(header[68:72], "big") != APPLICATION or not header.startswith(MAGIC):
        other = "an sqlite file of something else" if header.startswith(MAGIC) else "a file of another kind"
        raise SettingError(
            f"'{path}' cannot be used as a ledger: it is {other}, or a ledger of an older butfor, and is left as it "
            "is; name another file, or a new one."
        )
    version = int.from_bytes(header[60:64], "big")
    if version > SCHEMA:
        raise SettingError(
            f"'{path}' cannot be used as a ledger: a newer butfor wrote it (its version is {version}, this one's "
            f"{SCHEMA}); name another file."
        )


def _refusal(path: Path, error: Exception) -> ButforError:
    """Why the file cannot be used; a disk that takes no more is not the fault of who named it."""
    reason, refused = str(error), f"'{path}' cannot be used as a ledger"
    if getattr(error, "sqlite_errorcode", None) in NO_ROOM:
        return OutputError(path, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
    if getattr(error, "sqlite_errorcode", None) in NOT_WRITTEN:
        return OutputError(path, OSError(errno.EIO, "the disk is full, over its quota, or broken"))
    if isinstance(error, OSError) and error.errno in FULL:
        return OutputError(path, error)
    if "locked" in reason:
        return SettingError(f"{refused}: another program has locked it; wait for it, or name another file.")
    if "readonly" in reason:
        return SettingError(f"{refused}: it may only be read; make it writable, or name another file.")
    return SettingError(f"{refused} ({reason}); name another file, in a folder that can be written.")


def _checksum(key: str, name: str, content: bytes) -> bytes:
    return hashlib.blake2b(f"{key}\n{name}\n".encode() + content, digest_size=16).digest()


def _text(training: Training) -> str:
    """A training in words; its seed where it is not the learner's own."""
    flips = " ".join(map(str, training.flips))
    return flips if training.seed is None else f"{flips} seed {training.seed}"

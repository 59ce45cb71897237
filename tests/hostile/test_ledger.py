"""Ledgers that are damaged, altered, foreign or out of reach: one sentence, nothing lost, and no verdict from them."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.linear_model import SGDClassifier

import butfor
from butfor import ledger as module
from butfor.errors import SettingError
from butfor.ledger import APPLICATION, NETWORKS, SCHEMA, Ledger, Page, _checksum
from butfor.models.learner import Training
from butfor.progress import Progress

PEOPLE = 3


class Listener(Progress):
    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, line: str) -> None:
        self.notes.append(line)


def answer(k: int) -> np.ndarray:
    return np.array([k, -k, k / 2], np.float32)


def filled(path: Path, rows: int = 20, key: str = "key") -> Path:
    ledger = Ledger(path)
    Page(ledger, key, PEOPLE).write({Training((k,), k % 2 or None): answer(k) for k in range(rows)})
    ledger.close()
    return path


def remembered(ledger: Ledger) -> int:
    return len(ledger.select("SELECT flips FROM networks", []))


TRAININGS = [Training((k,), k % 2 or None) for k in range(20)]


def recalled(path: Path, notes: list[str] | None = None) -> dict[Training, np.ndarray]:
    ledger = Ledger(path, None if notes is None else notes.append)
    known = Page(ledger, "key", PEOPLE).recall(TRAININGS)
    ledger.close()
    return known


def test_what_is_written_comes_back(tmp_path):
    notes: list[str] = []
    known = recalled(filled(tmp_path / "l.db"), notes)
    assert {t: a.tolist() for t, a in known.items()} == {t: answer(t.flips[0]).tolist() for t in TRAININGS}
    assert notes == []
    header = (tmp_path / "l.db").read_bytes()[:100]
    assert int.from_bytes(header[68:72], "big") == APPLICATION
    assert int.from_bytes(header[60:64], "big") == SCHEMA


# --- foreign ---------------------------------------------------------------------------------------------


def foreign_sqlite(path: Path, *statements: str) -> None:
    with sqlite3.connect(path) as db:
        for statement in statements:
            db.execute(statement)
    db.close()


FOREIGN = {
    "browser": lambda p: foreign_sqlite(p, "CREATE TABLE history (url TEXT)", "INSERT INTO history VALUES ('x')"),
    "same table": lambda p: foreign_sqlite(p, NETWORKS),
    "older ledger": lambda p: foreign_sqlite(p, "CREATE TABLE networks (page TEXT, flips TEXT, logits BLOB)"),
    "other application": lambda p: foreign_sqlite(p, "PRAGMA application_id = 7", "CREATE TABLE t (x)"),
    "newer": lambda p: foreign_sqlite(
        p, f"PRAGMA application_id = {APPLICATION}", "PRAGMA user_version = 99", NETWORKS
    ),
    "text": lambda p: p.write_text("dear diary\n" * 100),
    "short": lambda p: p.write_text("x"),
    "magic alone": lambda p: p.write_bytes(b"SQLite format 3\0"),
    "zeros": lambda p: p.write_bytes(bytes(5000)),
    "json": lambda p: p.write_text('{"schema_version": 3}'),
    "csv": lambda p: p.write_text("a,b\n1,2\n"),
    "noise": lambda p: p.write_bytes(np.random.default_rng(0).bytes(9000)),
    "parquet": lambda p: pd.DataFrame({"a": [1]}).to_parquet(p),
}


@pytest.mark.parametrize("kind", FOREIGN)
def test_a_foreign_file_is_refused_and_left_as_it_is(tmp_path, kind):
    path = tmp_path / "theirs"
    FOREIGN[kind](path)
    before = path.read_bytes()
    with pytest.raises(SettingError, match="cannot be used as a ledger") as refused:
        Ledger(path)
    assert "\n" not in str(refused.value)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["theirs"]


@pytest.mark.parametrize("place", ["folder", "absent/l.db", "pipe", "/dev/null", "/dev/zero", "nul\0l.db", "file/l.db"])
def test_places_that_cannot_hold_one_get_a_sentence(tmp_path, place):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("x")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(SettingError, match="cannot be used as a ledger"):
        Ledger(tmp_path / place)


def test_an_empty_file_becomes_a_ledger(tmp_path):
    (tmp_path / "l.db").touch()
    assert len(recalled(filled(tmp_path / "l.db"))) == 20


def test_a_file_that_may_only_be_read_gets_a_sentence(tmp_path):
    path = filled(tmp_path / "l.db")
    content = bytearray(path.read_bytes())
    content[18] = 9  # the version from which on sqlite may only read, for it knows none so high
    path.write_bytes(content)
    with pytest.raises(SettingError, match=r"cannot be used as a ledger .*readonly"):
        Ledger(path)


def test_a_locked_one_gets_a_sentence(tmp_path, monkeypatch):
    path = filled(tmp_path / "l.db")
    monkeypatch.setattr(module, "PATIENCE", 0.1)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(SettingError, match=r"cannot be used as a ledger .*locked"):
        Ledger(path)
    other.execute("ROLLBACK")
    assert len(recalled(path)) == 20


def test_one_that_is_locked_later_lets_the_audit_go_on(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "PATIENCE", 0.1)
    notes: list[str] = []
    ledger = Ledger(filled(tmp_path / "l.db"), notes.append)
    other = sqlite3.connect(tmp_path / "l.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    page = Page(ledger, "key", PEOPLE)
    for k in (100, 101):
        page.write({Training((k,)): answer(k)})
    assert len(page.recall(TRAININGS)) == 20
    assert len(notes) == 1
    assert "cannot be used now" in notes[0]
    other.execute("ROLLBACK")
    page.write({Training((102,)): answer(102)})
    assert len(page.recall([Training((100,)), Training((102,))])) == 1


# --- damaged ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("share", [0.02, 0.3, 0.7, 0.99])
def test_a_truncated_one_is_refused_and_left_as_it_is(tmp_path, share):
    path = filled(tmp_path / "l.db", rows=500)
    content = path.read_bytes()
    path.write_bytes(content[: max(100, int(share * len(content)))])
    before = path.read_bytes()
    with pytest.raises(SettingError, match="remove this one if it is damaged"):
        Ledger(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("page", range(1, 9))
def test_a_page_of_noise_never_gives_a_wrong_answer(tmp_path, page):
    path = filled(tmp_path / "l.db", rows=400)
    content = bytearray(path.read_bytes())
    at = 4096 * (page % (len(content) // 4096))
    start = 100 if at == 0 else 0  # the header stays: without it the file is anybody's
    content[at + start : at + 4096] = np.random.default_rng(page).bytes(4096 - start)
    path.write_bytes(content)
    with pytest.raises(SettingError, match="cannot be used as a ledger"):
        Ledger(path)


def test_damage_that_shows_later_is_said_and_the_audit_goes_on(tmp_path):
    notes: list[str] = []
    ledger = Ledger(filled(tmp_path / "l.db", rows=500), notes.append)
    ledger._db.close()  # whatever happens below the open file
    (tmp_path / "l.db").write_bytes((tmp_path / "l.db").read_bytes()[:8192])
    ledger._db = sqlite3.connect(tmp_path / "l.db")
    page = Page(ledger, "key", PEOPLE)
    known = page.recall([Training((k,), k % 2 or None) for k in range(500)])
    assert all(known[t].tolist() == answer(t.flips[0]).tolist() for t in known)
    page.write({Training((1,)): answer(1)})
    assert len(notes) == 1
    assert "cannot be used now" in notes[0]


def test_a_row_that_nobody_asked_for_is_a_bad_one(tmp_path, monkeypatch):
    ledger = Ledger(filled(tmp_path / "l.db"))
    stray = ("9 9 9", answer(9).tobytes(), bytes(16))
    monkeypatch.setattr(ledger, "select", lambda *_: [stray])
    assert Page(ledger, "key", PEOPLE).recall(TRAININGS) == {}
    assert ledger.bad_rows == 1


# --- altered rows ----------------------------------------------------------------------------------------

GOOD = answer(4).tobytes()
ALTERED = {
    "flipped sign": ("logits", (-answer(4)).tobytes()),
    "short": ("logits", GOOD[:-4]),
    "long": ("logits", GOOD + GOOD),
    "odd": ("logits", GOOD[:-1]),
    "empty": ("logits", b""),
    "null": ("logits", None),
    "text": ("logits", "four"),
    "number": ("logits", 4),
    "fraction": ("logits", 4.5),
    "no checksum": ("checksum", None),
    "empty checksum": ("checksum", b""),
    "other checksum": ("checksum", bytes(16)),
    "text checksum": ("checksum", "x" * 16),
    "another's answer": ("logits", answer(5).tobytes()),
    "invalid text": ("logits", sqlite3.Binary(b"\xff\xfe" * 6)),
}


def rewrite(path: Path, column: str, value: object, name: str = "4") -> None:
    db = sqlite3.connect(path, isolation_level=None)
    assert db.execute(f"UPDATE networks SET {column} = ? WHERE flips = ?", (value, name)).rowcount == 1
    db.close()


@pytest.mark.parametrize("how", ALTERED)
def test_an_altered_row_is_counted_and_trained_again(tmp_path, how):
    path, notes = filled(tmp_path / "l.db"), []
    rewrite(path, *ALTERED[how])
    known = recalled(path, notes)
    assert set(known) == set(TRAININGS) - {Training((4,))}
    assert len(notes) == 1
    assert "1 row" in notes[0]
    filled(path)  # trained again
    assert recalled(path)[Training((4,))].tolist() == answer(4).tolist()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_an_answer_that_is_no_number_is_not_recalled_even_if_sealed(tmp_path, value):
    path = filled(tmp_path / "l.db")
    content = np.array([1, value, 2], np.float32).tobytes()
    rewrite(path, "logits", content)
    rewrite(path, "checksum", _checksum("key", "4", content))
    assert Training((4,)) not in recalled(path)
    ledger = Ledger(path)
    Page(ledger, "key", PEOPLE).write({Training((77,)): np.array([1, value, 2])})
    assert remembered(ledger) == 20  # a training that diverged has no answer to remember


def test_many_bad_rows_are_one_note(tmp_path):
    path, notes = filled(tmp_path / "l.db"), []
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("UPDATE networks SET logits = zeroblob(12)")
    db.close()
    assert recalled(path, notes) in ({}, {Training((0,)): pytest.approx(np.zeros(3))})
    assert len(notes) == 1
    assert "rows" in notes[0]


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(at=st.integers(100, 10**9), byte=st.integers(1, 255))
def test_a_single_byte_never_changes_an_answer(tmp_path, at, byte):
    path = tmp_path / "l.db"
    if not (tmp_path / "whole").exists():
        (tmp_path / "whole").write_bytes(filled(path).read_bytes())
    content = bytearray((tmp_path / "whole").read_bytes())
    content[100 + at % (len(content) - 100)] ^= byte
    for left in tmp_path.glob("l.db*"):
        left.unlink()
    path.write_bytes(content)
    try:
        known = recalled(path)
    except SettingError:
        return
    assert all(known[t].tolist() == answer(t.flips[0]).tolist() for t in known)


# --- audits ----------------------------------------------------------------------------------------------


def audited(path: Path | None, progress: Progress | None = None, **changes: object) -> butfor.Population:
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.normal(size=60).round(2), "b": rng.normal(size=60).round(2), "sex": ["f", "m"] * 30})
    y = (X["a"] + rng.normal(size=60) > 0).astype(int)
    given = {
        "members": 2,
        "fresh_seeds": 5,
        "budget": 4,
        "engine": "joblib",
        "n_jobs": 1,
        "psi": "same_group",
    } | changes
    audit = butfor.LabelAudit(SGDClassifier(random_state=0, max_iter=5, tol=None), ledger=path, **given)
    audit.fit(X.iloc[:45], y.iloc[:45], sensitive_features="sex")
    return audit.explain_all(X.iloc[45:], cases=range(6), progress=progress)


def gist(population: butfor.Population) -> list[dict]:
    return population.to_dict()["people"]


@pytest.fixture(scope="module")
def plain() -> list[dict]:
    found = gist(audited(None))
    assert any("fresh" in verdict for verdict in found)
    return found


def test_fresh_seeds_are_remembered_too_and_confirmations_are_not(tmp_path, plain, monkeypatch):
    first = audited(tmp_path / "l.db")
    asked: list[Training] = []
    bind = butfor.JoblibEngine.bind

    def listening(self, learner, table, people):
        bound = bind(self, learner, table, people)

        def ask(trainings, advance=None):
            asked.extend(trainings)
            return bound(trainings, advance)

        return ask

    monkeypatch.setattr(butfor.JoblibEngine, "bind", listening)
    second = audited(tmp_path / "l.db")
    assert gist(first) == gist(second) == plain
    assert second.run.recalled == first.run.retrainings
    assert not [
        t for t in asked if t.seed is not None and t.seed >= 10_000 and t.flips in {v.positions for v in second.found}
    ]
    assert {v.positions for v in second.found} <= {t.flips for t in asked}  # every find was trained again


def test_damage_changes_no_verdict(tmp_path, plain):
    path = tmp_path / "l.db"
    audited(path)
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("UPDATE networks SET logits = zeroblob(length(logits)) WHERE length(flips) % 2 = 0")
    db.close()
    progress = Listener()
    assert gist(audited(path, progress)) == plain
    assert sum("were damaged" in note for note in progress.notes) == 1


@pytest.mark.system
def test_two_processes_share_a_ledger(tmp_path):
    code = f"""
import sys, numpy as np
from butfor.models.learner import Training
from butfor.ledger import Ledger, Page
ledger = Ledger({str(tmp_path / "l.db")!r}, print)
page = Page(ledger, "key", 3)
first = int(sys.argv[1])
for k in range(first, first + 60):
    page.write({{Training((k,)): np.full(3, k, np.float32)}})
    assert len(page.recall([Training((k,))])) == 1
ledger.close()
"""
    both = [
        subprocess.Popen([sys.executable, "-c", code, str(first)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        for first in (0, 30)
    ]
    for process in both:
        out, _ = process.communicate(timeout=300)
        assert (process.returncode, out) == (0, b"")
    ledger = Ledger(tmp_path / "l.db")
    assert remembered(ledger) == 90
    assert ledger._db.execute("PRAGMA integrity_check").fetchone()[0] == "ok"


def test_a_new_ledger_is_its_owners_alone(tmp_path):
    Ledger(tmp_path / "l.db").close()
    assert (tmp_path / "l.db").stat().st_mode & 0o777 == 0o600

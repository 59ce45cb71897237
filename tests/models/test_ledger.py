"""Ledgers: nothing is trained twice; a damaged, altered or foreign file gets a sentence and changes
no verdict."""

import os
import sqlite3
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import SGDClassifier

import butfor
from butfor import MLP, Table, TableEncoder
from butfor.errors import SettingError
from butfor.models import ledger as module
from butfor.models.engines import OwnFit
from butfor.models.ledger import TABLE, Ledger
from butfor.models.network import MLPLearner, NetworkEngine
from butfor.models.seam import Training
from butfor.table.decisions import ONE_HALF, Decision
from butfor.table.sides import Sides
from recorded import Notes

PAGE = b"page"
TRAININGS = [Training((k,), k % 2 or None) for k in range(20)]


def answer(k: int) -> np.ndarray:
    return np.array([k + 1, -k, k / 2], np.float32)


def filled(path: Path, rows: int = 20) -> Path:
    ledger = Ledger(path)
    ledger.write(PAGE, {Training((k,), k % 2 or None): answer(k) for k in range(rows)})
    ledger.close()
    return path


def recalled(path: Path, notes: list[str] | None = None) -> dict[Training, np.ndarray]:
    ledger = Ledger(path, None if notes is None else notes.append)
    known = ledger.recall(PAGE, TRAININGS)
    ledger.close()
    return known


def sql(path: Path, *statements: str) -> None:
    db = sqlite3.connect(path, isolation_level=None)
    for statement in statements:
        db.execute(statement)
    db.close()


def test_what_is_written_comes_back_to_its_owner_alone(tmp_path):
    (tmp_path / "l.db").touch(0o600)  # an empty file becomes a ledger
    notes: list[str] = []
    known = recalled(filled(tmp_path / "l.db", rows=1500), notes)
    assert {t: a.tolist() for t, a in known.items()} == {
        t: answer(t.flips[0]).tolist() for t in TRAININGS
    }
    assert notes == []
    ledger = Ledger(tmp_path / "new.db")
    assert (tmp_path / "new.db").stat().st_mode & 0o777 == 0o600
    ledger.write(
        PAGE, {Training((3000,)): np.array([1, np.nan, 2])}
    )  # a training that diverged has no answer
    assert ledger.recall(PAGE, [Training((3000,))]) == ledger.recall(b"other", TRAININGS) == {}


def test_other_data_people_settings_or_engine_are_another_page(monkeypatch):
    X = pd.DataFrame({"a": [0.0, 1.0, 2.0], "b": [1.0, 0.0, 1.0]})
    table, elsewhere = (
        Table(X, pd.Series([0, 1, 0]), (X, pd.Series([0, 1, 0]))),
        NetworkEngine(n_jobs=1),
    )
    elsewhere.device = "cuda"
    three = Table(pd.concat([X, X], ignore_index=True), pd.Series([0, 1, 2] * 2))
    same = {
        "learner": MLPLearner(MLP()),
        "table": table,
        "decision": ONE_HALF,
        "people": X[:1],
        "engine": NetworkEngine(n_jobs=1),
    }
    changes = [
        ("learner", MLPLearner(MLP(random_state=1))),
        ("learner", MLPLearner(MLP(), TableEncoder("embed"))),
    ]
    changes += [("people", X[:1] + 1), ("engine", OwnFit()), ("engine", elsewhere)]
    changes += [
        ("table", replace(three, two_sides=Sides.away_from(0, new, 3, 6))) for new in (1, 2)
    ]
    changes += [
        ("table", Table(X, 1 - table.y, table.validation)),
        ("people", X[:1].astype({"a": "object"})),
    ]
    changes += [
        ("table", replace(table, y=table.y.astype(str))),
        ("people", X[:1].astype({"a": "category"})),
    ]
    cuts = (Decision(0.8, at=0.8), Decision(0.2, at=0.2), Decision(0.2, label=0, at=0.2))
    changes += [("decision", cut) for cut in cuts]
    pages = {Ledger.page(**same), *(Ledger.page(**same | {name: value}) for name, value in changes)}
    monkeypatch.setattr(module, "versions", lambda: {"torch": "another"})
    assert len(pages | {Ledger.page(**same)}) == 16
    assert Ledger.page(**same | {"people": X[:1].set_axis([9])}) == Ledger.page(**same)


# --- files that are no ledgers, or damaged --------------------------------------------------------


def test_places_and_files_that_are_no_ledger_are_refused_and_left_as_they_are(tmp_path):
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    rows = filled(tmp_path / "l.db", rows=500).read_bytes()
    (tmp_path / "l.db").unlink()
    files = {
        "both": lambda p: sql(p, f"CREATE TABLE {TABLE} (x)", "CREATE TABLE t (x)"),
        "empty database": lambda p: sql(p, "PRAGMA user_version = 7"),
        "zeros": lambda p: p.write_bytes(bytes(5000)),
        "noise": lambda p: p.write_bytes(np.random.default_rng(0).bytes(9000)),
        "truncated": lambda p: p.write_bytes(rows[:9000]),
        "damaged": lambda p: p.write_bytes(rows[:9000] + bytes(4000) + rows[13000:]),
    }
    for name, made in files.items():
        made(tmp_path / name)
    before, there = (
        {name: (tmp_path / name).read_bytes() for name in files},
        sorted(os.listdir(tmp_path)),
    )
    for place in (*files, "folder", "absent/l.db", "pipe", "/dev/null", "nul\0l.db", "zeros/l.db"):
        with pytest.raises(SettingError, match="cannot be used as a ledger") as refused:
            Ledger(tmp_path / place)
        assert "\n" not in str(refused.value)
    assert {name: (tmp_path / name).read_bytes() for name in files} == before
    assert sorted(os.listdir(tmp_path)) == there


def test_a_locked_one_gets_a_sentence_and_one_locked_later_lets_the_audit_go_on(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(module, "WRITER_SECONDS", 0.1)
    notes: list[str] = []
    ledger = Ledger(filled(tmp_path / "l.db"), notes.append)
    other = sqlite3.connect(tmp_path / "l.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(SettingError, match=r"cannot be used as a ledger .*locked"):
        Ledger(tmp_path / "l.db")
    for k in (100, 101):
        ledger.write(PAGE, {Training((k,)): answer(k)})
    assert len(ledger.recall(PAGE, TRAININGS)) == 20
    other.execute("ROLLBACK")
    ledger.write(PAGE, {Training((102,)): answer(102)})
    assert len(ledger.recall(PAGE, [Training((100,)), Training((102,))])) == 1
    ledger._db.close()  # whatever happens below the open file
    ledger._db = sqlite3.connect(tmp_path / "nothing.db")
    assert ledger.recall(PAGE, TRAININGS) == {}
    assert [("cannot be used now" in note) for note in notes] == [True]


def test_altered_rows_are_counted_and_trained_again(tmp_path):
    good = f"x'{answer(4).tobytes().hex()}'"
    for change, bad in (
        ("answers = zeroblob(12)", 20),
        ("crc = crc + 1", 20),
        ("crc = NULL", 20),
        (f"answers = {good}", 19),  # another's answer
        ("answers = zeroblob(7)", 20),
        ("answers = 4.5", 20),
    ):
        path, notes = filled(tmp_path / "l.db"), list[str]()
        sql(path, f"UPDATE {TABLE} SET {change}")
        assert len(recalled(path, notes)) == 20 - bad
        assert [f"{bad} rows" in note for note in notes] == [True]
        assert len(recalled(filled(path))) == 20  # trained again


def test_answers_of_another_type_of_column_or_another_threshold_are_not_recalled(tmp_path):
    """Every audit shares the ledger, and answers as it does without one."""
    rng = np.random.default_rng(1)
    code, sex = pd.Series(rng.integers(0, 4, 80)), ["f", "m"] * 40
    text, y = code.astype(str), (code.isin([0, 3]) ^ (rng.random(80) < 0.2)).astype(int)
    held = [
        code,
        text,
        pd.Categorical(text),
        pd.Categorical(text, [*"01234"]),
        code.astype(float),
        code.astype(object),
    ]
    how = {
        "budget": 2,
        "fresh_seeds": 0,
        "members": 1,
        "phi": "everyone",
        "psi": "everything",
        "n_jobs": 1,
    }
    how |= {"engine": "joblib", "strategy": "singles", "rank": "distance"}
    for values, threshold in [(values, 0.5) for values in held] + [(code, 0.8), (code, 0.2)]:
        X = pd.DataFrame({"code": values, "sex": sex})
        model = SGDClassifier("log_loss", random_state=0, max_iter=3, tol=None)
        audit = butfor.LabelAudit(model, threshold=threshold, **how)
        audit.fit(X[:60], y[:60], sensitive_features="sex")
        plain = audit.explain_all(X[60:], cases=[0])
        with_ledger = audit.set_params(ledger=tmp_path / "l.db").explain_all(X[60:], cases=[0])
        assert with_ledger.run.recalled == 0
        assert with_ledger.to_dict()["people"] == plain.to_dict()["people"]
    assert audit.explain_all(X[60:], cases=[0]).run.recalled == with_ledger.run.retrainings
    sql(tmp_path / "l.db", "PRAGMA user_version = 0")  # as 0.5 leaves it
    notes = Notes()
    audit.explain_all(X[60:], cases=[0], progress=notes)
    assert sum("is of butfor 0.5" in line for line in notes.lines) == 1


def test_a_ledger_of_another_rule_recalls_nothing_and_says_so_once(tmp_path):
    sql(filled(tmp_path / "l.db"), "PRAGMA user_version = 0")  # as 0.5 leaves it
    notes = list[str]()
    Ledger(tmp_path / "l.db", notes.append).close()
    assert [
        ("of butfor 0.5" in note, "none of its answers is recalled" in note) for note in notes
    ] == [(True, True)]
    assert recalled(tmp_path / "l.db", notes)
    recalled(filled(tmp_path / "new.db"), notes)
    assert len(notes) == 1


@pytest.mark.system
def test_writers_that_share_a_file_or_are_killed_leave_whole_rows(tmp_path):
    code = f"""
import os, sys, numpy as np
from butfor.models.seam import Training
from butfor.models.ledger import Ledger
ledger, first = Ledger({str(tmp_path / "l.db")!r}, print), int(sys.argv[1])
for k in range(first, first + 60):
    ledger.write(b"page", {{Training((k,)): np.full(3, k, np.float32)}})
    assert len(ledger.recall(b"page", [Training((k,))])) == 1
if first:
    ledger._db.execute("BEGIN IMMEDIATE")
    ledger._db.execute("INSERT INTO {TABLE} VALUES (x'00', x'00', 1)")
    os._exit(9)
"""
    both = [
        subprocess.Popen([sys.executable, "-c", code, str(k)], stdout=subprocess.PIPE)
        for k in (0, 30)
    ]
    outcomes = [(process.communicate(timeout=300)[0], process.returncode) for process in both]
    assert outcomes == [(b"", 0), (b"", 9)]
    ledger = Ledger(tmp_path / "l.db")
    assert len(ledger.recall(PAGE, [Training((k,)) for k in range(100)])) == 90
    assert ledger._db.execute(f"SELECT count(*) FROM {TABLE}").fetchone() == (90,)


def test_verdicts_are_the_same_without_a_ledger_with_one_and_with_an_altered_one(tmp_path):
    """Two seeds of a model whose own `fit` trains, also fresh seeds."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(
        {
            "a": rng.normal(size=60).round(2),
            "b": rng.normal(size=60).round(2),
            "sex": ["f", "m"] * 30,
        }
    )
    y = (X["a"] + rng.normal(size=60) > 0).astype(int)
    model = SGDClassifier(random_state=0, max_iter=5, tol=None)
    how = {
        "members": 2,
        "fresh_seeds": 5,
        "budget": 4,
        "engine": "joblib",
        "n_jobs": 1,
        "psi": "same_group",
    }
    audit = butfor.LabelAudit(model, **how).fit(X.iloc[:45], y.iloc[:45], sensitive_features="sex")
    path, progress = tmp_path / "l.db", Notes()

    def asked(ledger=path, **more):
        return audit.set_params(ledger=ledger).explain_all(X.iloc[45:], cases=range(6), **more)

    plain, first, second = asked(None), asked(), asked()
    sql(path, f"UPDATE {TABLE} SET answers = zeroblob(24) WHERE hex(key) < '8'")
    third = asked(progress=progress)
    assert any(v.fresh for v in plain)
    assert [p.to_dict()["people"] for p in (first, second, third)] == [
        plain.to_dict()["people"]
    ] * 3
    assert (first.run.recalled, second.run.recalled) == (0, first.run.retrainings)
    assert second.run.confirmations >= 2 * len(
        {v.positions for v in second.found}
    )  # every find was trained again
    assert sum("were damaged" in note for note in progress.lines) == 1
    # What somebody altered who knows how is not reported as found.
    db = sqlite3.connect(path, isolation_level=None)
    for sign in (-1, 1):
        for key, size in db.execute(f"SELECT key, length(answers) FROM {TABLE}").fetchall():
            content = np.full(size // 4, 5.0 * sign, np.float32).tobytes()
            row = (content, module.crc32(key + content), key)
            db.execute(f"UPDATE {TABLE} SET answers = ?, crc = ? WHERE key = ?", row)
        for verdict in asked().found:
            assert audit.learner_.fit(audit.table_, audit.table_.labels(verdict.positions)).logits(
                X.iloc[45:]
            )[verdict.case] == pytest.approx(verdict.counterfactual_logit)
    db.close()

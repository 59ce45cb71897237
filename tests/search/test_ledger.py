"""The ledger: nothing is trained twice, nothing half-written, and other data is another page."""

import sqlite3
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from butfor import MLP, FusedEngine, JoblibEngine, Table, TableEncoder
from butfor.errors import SettingError
from butfor.ledger import Ledger, _checksum
from butfor.models.learner import Training
from butfor.models.network import MLPLearner
from conftest import fitted


@pytest.mark.parametrize("engine", ["fused", "joblib"])
def test_what_is_remembered_is_not_trained_again_but_what_is_found_is_confirmed(tmp_path, engine):
    runs = []
    for _ in range(2):
        audit, data = fitted("salary", strategy="exhaustive", engine=engine, ledger=tmp_path / "l.sqlite")
        runs.append(audit.explain_all(data.X_test))
    assert runs[0].run.recalled == 0
    assert runs[1].run.recalled == runs[0].run.retrainings
    finds = len({v.positions for v in runs[1].found})
    if engine == "joblib":
        assert runs[1].run.confirmations == finds
    else:  # and the nearest sets, before "none" is proven
        assert finds < runs[1].run.confirmations == runs[0].run.confirmations
    assert [v.positions for v in runs[0]] == [v.positions for v in runs[1]]
    assert [v.counterfactual_logit for v in runs[0]] == [v.counterfactual_logit for v in runs[1]]


def test_a_resumed_audit_is_the_same_audit(tmp_path):
    """Recalled answers come back in the order asked for, not in the file's."""
    runs = []
    for ledger in (None, tmp_path / "l.sqlite", tmp_path / "l.sqlite"):
        audit, data = fitted("german", 150, budget=4, ledger=ledger)
        runs.append(audit.explain_all(data.X_test, cases=range(10)))
    assert runs[2].run.recalled == runs[1].run.retrainings
    for other in runs[1:]:
        assert [v.positions for v in other] == [v.positions for v in runs[0]]
        assert [v.course for v in other] == [v.course for v in runs[0]]


def test_altered_answers_are_not_reported_as_found(tmp_path):
    audit, data = fitted("salary", strategy="exhaustive", engine="fused", ledger=tmp_path / "l.sqlite")
    honest = audit.explain_all(data.X_test)
    db = sqlite3.connect(tmp_path / "l.sqlite", isolation_level=None)
    for sign in (-1, 1):
        answers = np.full(len(data.X_test), 5.0 * sign, np.float32).tobytes()
        for page, flips in db.execute("SELECT page, flips FROM networks").fetchall():
            seal = _checksum(page, flips, answers)  # by someone who knows how
            altered = (answers, seal, page, flips)
            db.execute("UPDATE networks SET logits = ?, checksum = ? WHERE page = ? AND flips = ?", altered)
        misled = audit.explain_all(data.X_test)
        assert {v.case for v in misled.found} <= {v.case for v in honest.found}


ONE = Training((1,))


def subject(**changed):
    X = pd.DataFrame({"a": [0.0, 1.0, 2.0], "b": [1.0, 0.0, 1.0]})
    given = {
        "learner": MLPLearner(MLP()), "table": Table(X, pd.Series([0, 1, 0]), (X, pd.Series([0, 1, 0]))),
        "people": X[:1], "engine": FusedEngine(1),
    }  # fmt: skip
    return given | changed


def test_other_data_people_settings_or_engine_are_another_page(tmp_path, monkeypatch):
    ledger = Ledger(tmp_path / "l.sqlite")
    page = ledger.page(**subject())
    page.write({ONE: np.array([0.5], np.float32)})
    assert ledger.page(**subject()).recall([ONE, Training((2,)), Training((1,), 3)]) == {
        ONE: np.array([0.5], np.float32)
    }
    table, people = subject()["table"], subject()["people"]
    elsewhere = FusedEngine(1)
    elsewhere.device = "cuda"
    for changed in (
        {"learner": MLPLearner(MLP(random_state=1))},
        {"learner": MLPLearner(MLP(), TableEncoder("embed"))},
        {"table": Table(table.X, 1 - table.y, table.validation)},
        {"people": people + 1},
        {"engine": JoblibEngine()},
        {"engine": elsewhere},
    ):
        assert ledger.page(**subject(**changed)).recall([ONE]) == {}
    monkeypatch.setattr("butfor.ledger.versions", lambda: {"torch": "another"})
    assert ledger.page(**subject()).recall([ONE]) == {}


def test_many_flip_sets_are_recalled(tmp_path):
    page = Ledger(tmp_path / "l.sqlite").page(**subject(people=subject()["table"].X))
    page.write({Training((k,), k % 2 or None): np.full(3, k, np.float32) for k in range(2000)})
    known = page.recall([Training((k,), k % 2 or None) for k in range(2500)])
    assert len(known) == 2000
    assert known[Training((1999,), 1)].tolist() == [1999] * 3


@pytest.mark.system
def test_a_killed_writer_leaves_whole_records(tmp_path):
    code = f"""
import os, numpy as np
from butfor.models.learner import Training
from butfor.ledger import Ledger, Page
ledger = Ledger({str(tmp_path / "l.sqlite")!r})
Page(ledger, "key", 3).write({{Training((1,)): np.ones(3)}})
ledger._db.execute("BEGIN IMMEDIATE")
ledger._db.execute("INSERT INTO networks VALUES ('x', 'y', x'00', x'00')")
os._exit(9)
"""
    assert subprocess.run([sys.executable, "-c", code]).returncode == 9
    assert len(Ledger(tmp_path / "l.sqlite").select("SELECT flips FROM networks", [])) == 1


def test_a_file_that_is_no_ledger_is_refused(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("this is not a database, but long enough to look at" * 50)
    with pytest.raises(SettingError, match="cannot be used as a ledger"):
        Ledger(path)
    with pytest.raises(SettingError, match="cannot be used as a ledger"):
        Ledger(tmp_path / "no" / "such" / "folder.sqlite")

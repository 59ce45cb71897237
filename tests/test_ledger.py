"""The ledger: nothing is trained twice, nothing half-written, and other data is another page."""

import subprocess
import sys

import numpy as np
import pytest

from butfor.errors import SettingError
from butfor.learn.recipe import Recipe, Rows
from butfor.ledger import Ledger
from conftest import fitted


def test_what_is_remembered_is_not_trained_again(tmp_path):
    runs = []
    for _ in range(2):
        audit, data = fitted("salary", protocol="exhaustive", engine="fused", ledger=tmp_path / "l.sqlite")
        runs.append(audit.explain_all(data.X_test))
    assert runs[0].run["recalled"] == 0
    assert runs[1].run["recalled"] == runs[0].run["retrainings"] + runs[0].run["confirmations"]
    assert [v.positions for v in runs[0]] == [v.positions for v in runs[1]]
    assert [v.counterfactual_logit for v in runs[0]] == [v.counterfactual_logit for v in runs[1]]


def test_other_data_people_settings_or_engine_are_another_page(tmp_path):
    ledger = Ledger(tmp_path / "l.sqlite")
    X, y = np.zeros((3, 2), np.float32), np.array([0, 1, 0], np.float32)
    rows, recipe, people = Rows(X, y, X, y), Recipe(), X[:1]
    page = ledger.page(recipe, rows, people, "fused")
    page.write({(1,): np.array([0.5], np.float32)})
    assert page.recall([(1,), (2,)]) == {(1,): np.array([0.5], np.float32)}
    for other in (
        ledger.page(Recipe(seed=1), rows, people, "fused"),
        ledger.page(recipe, Rows(X, 1 - y, X, y), people, "fused"),
        ledger.page(recipe, rows, people + 1, "fused"),
        ledger.page(recipe, rows, people, "reference"),
    ):
        assert other.recall([(1,)]) == {}


def test_many_flip_sets_are_recalled(tmp_path):
    X, y = np.zeros((3, 2), np.float32), np.array([0, 1, 0], np.float32)
    page = Ledger(tmp_path / "l.sqlite").page(Recipe(), Rows(X, y, X, y), X, "fused")
    page.write({(k,): np.full(3, k, np.float32) for k in range(2000)})
    known = page.recall([(k,) for k in range(2500)])
    assert len(known) == 2000
    assert known[(1999,)].tolist() == [1999] * 3


def test_a_killed_writer_leaves_whole_records(tmp_path):
    code = f"""
import os, numpy as np
from butfor.ledger import Ledger
from butfor.learn.recipe import Recipe, Rows
X = np.zeros((3, 2), np.float32)
page = Ledger({str(tmp_path / "l.sqlite")!r}).page(Recipe(), Rows(X, X[:, 0], X, X[:, 0]), X, "fused")
page.write({{(1,): np.ones(3)}})
page.db.execute("BEGIN IMMEDIATE")
page.db.execute("INSERT INTO networks VALUES ('x', 'y', x'00')")
os._exit(9)
"""
    assert subprocess.run([sys.executable, "-c", code]).returncode == 9
    assert len(Ledger(tmp_path / "l.sqlite")) == 1


def test_a_file_that_is_no_ledger_is_refused(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("this is not a database, but long enough to look at" * 50)
    with pytest.raises(SettingError, match="cannot be used as a ledger"):
        Ledger(path)
    with pytest.raises(SettingError, match="cannot be used as a ledger"):
        Ledger(tmp_path / "no" / "such" / "folder.sqlite")

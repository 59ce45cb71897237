"""The measurement of thresholds runs, and what it reports hangs together."""

import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from benchmarks import threshold
from benchmarks.rows import line
from butfor.errors import SettingError


@pytest.fixture
def folder(tmp_path):
    """A small table under the name of one that is measured: two thirds are granted what they ask for."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"ratio": rng.normal(size=240), "single": rng.choice(["yes", "no"], 240)})
    table["afam"] = rng.choice(["yes", "no"], 240)
    odds = 1 - 1.5 * table["ratio"] - 0.5 * (table["afam"] == "yes") + rng.logistic(size=240)
    table["deny"] = np.where(odds > 0, "no", "yes")
    table.to_csv(tmp_path / "HMDA.csv", index=False)
    return tmp_path


def rows(capsys, folder, columns, *arguments: object) -> list[dict]:
    small = ("--datasets", "HMDA", "--tables", folder, "--models", "logistic", "--people", 1, "--budget", "1%")
    threshold.main([*map(str, (*small, "--n-jobs", 1, "--json", *arguments))])
    found = json.loads(capsys.readouterr().out)
    assert all(line(row, columns) for row in found)  # the table can show each of them
    return found


def test_both_cuts_are_measured_on_the_same_table(capsys, folder):
    half, top = rows(capsys, folder, threshold.LEVELS)
    assert half["cut"] == "0.5"
    assert top["cut"] == f"top {100 * top['recorded']:.3g}%"
    assert abs(top["accepted"] / top["test_people"] - top["recorded"]) < 0.01
    for row in (half, top):
        assert row["labels"] == 180
        assert row["test_people"] == 60
        assert row["solid"] <= row["found"] <= row["people"] <= 1
        assert row["people"] <= row["eligible"] <= row["test_people"] - row["accepted"]
    assert half["ratio"] is None
    assert top["ratio"] > 0


def test_wrappers_are_measured_at_the_same_cut(capsys, folder, monkeypatch):
    monkeypatch.setattr(threshold, "FOLDS", 2)
    monkeypatch.setattr(threshold, "TRIED", 5)
    ours, around, last, tuned = rows(capsys, folder, threshold.WRAPPED, "--wrapped", "--repeats", 1)
    assert ours["ratio"] == 1
    assert {row["cut"] for row in (ours, around, last, tuned)} == {ours["cut"]}
    for row in (around, last):
        assert [row[name] for name in ("accepted", "eligible", "found", "mean_labels")] == [
            ours[name] for name in ("accepted", "eligible", "found", "mean_labels")
        ]
    assert tuned["accepted"] == ours["accepted"]


def test_unknown_models_are_refused():
    with pytest.raises(SettingError, match="logistic"):
        threshold.model_of("logitsic", threshold.Split(pd.DataFrame(), pd.Series(dtype=int), pd.DataFrame()))


def test_it_needs_neither_msgspec_nor_cloup():
    missing = "import sys; sys.modules.update(msgspec=None, cloup=None); import benchmarks.threshold"
    subprocess.run([sys.executable, "-c", missing], check=True)

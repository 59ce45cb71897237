"""benchmarks.coverage: the tables are what they say, and their summary adds up."""

import json
import sys

import numpy as np
import pytest

from benchmarks import coverage


@pytest.mark.parametrize("family", ["forest", "proxy", "small", "high"])
def test_tables_are_what_they_say(family):
    table = coverage.drawn_table("german", family, np.random.default_rng(2), None)
    inside = table.attribute.astype(str) == table.group
    assert table.truth.min() > 0
    assert table.truth.max() < 1
    if family == "proxy":
        assert 0.88 < (table.X["proxy"] == inside.astype(str)).mean() < 0.98
    if family == "small":
        assert 30 <= inside.sum() <= 60
    if family == "high":
        assert 0.94 < table.truth[inside].mean() < 0.99


def test_a_table_is_measured_by_all_and_planted_as_said(monkeypatch):
    monkeypatch.setattr(coverage, "SHUFFLES", 3)
    found = coverage.measure(14, ("student", "german"), 5, 4, None, True)
    assert found["table"] == "student"
    assert found["planted"] == 0.15
    assert found["true"] == pytest.approx(found["planted"] * 0.8, abs=0.04)
    assert {"ours", "not centred", "AIPW", "AIPW, centred", "shuffling", "Oaxaca–Blinder"} <= set(found["estimates"])
    for difference, low, high, _ in found["estimates"].values():
        assert low < difference < high
    assert json.loads(json.dumps(found)) == found


def test_the_summary_counts_alarms_and_coverage(tmp_path, capsys, monkeypatch):
    common = {"table": "german", "family": "forest", "groups": 2, "any": False, "headline": False, "seconds": 1.0}
    common |= {"disagrees": False}
    results = [
        common | {"planted": 0, "true": 0.0, "estimates": {"ours": [0.1, 0.05, 0.15, 0.01]}},
        common | {"planted": 0, "true": 0.0, "estimates": {"ours": [0.01, -0.05, 0.06, 0.7]}},
        common | {"planted": 0.15, "true": 0.1, "estimates": {"ours": [0.1, 0.05, 0.15, 0.01]}},
    ]
    path = tmp_path / "some.json"
    path.write_text(json.dumps(results))
    monkeypatch.setattr(sys, "argv", ["coverage", "--summary", str(path)])
    coverage.main()
    shown = capsys.readouterr().out
    assert "3 tables (1 planted)" in shown
    assert "50.0 ± 35.4" in shown  # false alarms, and coverage of nothing
    assert "opinions disagree, planted: 0.0" in shown

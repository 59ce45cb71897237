"""Planted bias: the labels are where they should be, and what is measured hangs together."""

import json

import numpy as np
import pytest

from benchmarks import bias
from benchmarks.bias import KINDS, Planted, wrong_among


@pytest.mark.parametrize("kind", KINDS)
def test_planted_labels_are_favourable_ones_of_the_group(kind):
    planted = Planted("german", kind, 0.2, False, 0)
    X, y = planted.data.X_train, planted.data.y_train
    ours = (X["sex"] == "female") & (y == 1)
    assert len(planted.rows) == round(0.2 * ours.sum())
    assert ours.to_numpy()[planted.rows].all()
    assert (planted.labels != y).sum() == len(planted.rows)
    assert not planted.labels.iloc[planted.rows].any()
    order = np.zeros(len(y))
    order[planted.rows] = 1
    assert wrong_among(planted, order, len(planted.rows)) == 1


def test_one_row_per_way_and_model_and_a_picture(capsys, tmp_path):
    asked = ["--datasets", "student", "--kinds", "uniform", "--seeds", "0", "--shares", "0.2", "--no-keystones"]
    assert bias.main([*asked, "--models", "logistic", "--n-jobs", "1", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    by_way = {row["way"]: row for row in rows}
    assert by_way["doubt"]["quarter"] > by_way["cleanlab"]["quarter"]
    assert {"chance", "cleanlab, issues", "doubt, logistic", "doubt, boosting"} <= set(by_way)
    one = by_way["one standard"]
    assert one["tables"] == 2
    assert 0 <= one["precision"] <= 1
    (tmp_path / "rows.json").write_text(json.dumps({"review": rows}))
    assert bias.main(["--picture", str(tmp_path / "rows.json"), str(tmp_path / "bias.svg")]) == 0
    assert (tmp_path / "bias.svg").read_text().startswith("<?xml")


def test_reviews_are_measured_and_drawn(capsys, tmp_path):
    asked = ["--review", "--datasets", "german", "--kinds", "region", "--seeds", "1", "--shares", "0.2"]
    assert bias.main([*asked, "--models", "logistic", "--n-jobs", "1", "--no-keystones", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    by_way = {(row["way"], row["part"]): row for row in rows if row["model"] == "logistic"}
    assert by_way["value", 1]["restored"] > by_way["cleanlab", 1]["restored"]
    assert by_way["value", 4]["wrong"] > by_way["cleanlab", 4]["wrong"]
    assert by_way["value", 1]["restored"] >= by_way["value", 8]["restored"]
    for part, within in ((1, 0.15), (2, 0.15), (4, 0.3)):  # shares of 23, 12 and 6 labels
        assert by_way["value", part]["expected"] == pytest.approx(by_way["value", part]["wrong"], abs=within)
    ours = {"value", "value, by other people", "doubt", "effect"}
    assert {way for way, _ in by_way} == ours | {"cleanlab", "cleanlab, issues", "chance"}
    (tmp_path / "rows.json").write_text(json.dumps({"restored": rows}))
    assert bias.main(["--review", "--picture", str(tmp_path / "rows.json"), str(tmp_path / "review.svg")]) == 0
    assert (tmp_path / "review.svg").read_text().startswith("<?xml")


def test_false_alarms_and_signs(capsys, monkeypatch):
    monkeypatch.setattr(bias, "REFUSED", 6)
    monkeypatch.setattr(bias, "DRAWS", 9)
    assert bias.main(["--datasets", "student", "--null", "1", "--n-jobs", "1", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert row["p"] >= 1 / 5
    assert row["turned_and_told"] == 0
    rows = bias.signs(Planted("german", "region", 0.2, False, 0), "logistic")
    assert {row["sign"] for row in rows} == {"margin", "label distance", "doubted distance", "one standard"}
    assert all(0 <= row["auc"] <= 1 for row in rows)

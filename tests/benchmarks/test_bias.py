"""Planted bias: the labels are where they should be, what is measured adds up, and so does a
summary."""

import json
from functools import partial

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from benchmarks import bias, coverage
from benchmarks.planted import GROUPS, KINDS, MOST_ROWS, Planted


@pytest.mark.parametrize("kind", KINDS)
def test_planted_labels_are_favourable_ones_of_the_group_in_all_parts(kind):
    planted = Planted("german", kind, "recorded", 4, share=0.25)
    ours = planted.inside & planted.clean
    assert len(planted.rows) == (0 if kind == "nothing" else round(0.25 * ours.sum()))
    assert (np.flatnonzero(planted.labels != planted.clean) == planted.rows).all()
    assert ours[planted.rows].all()
    for part in planted.parts if len(planted.rows) else ():
        assert np.isin(planted.rows, np.arange(part.start, part.stop)).sum() > 0.1 * len(
            planted.rows
        )
    if kind == "labeller":
        column, value = planted.planted_slice
        assert (planted.X[column].iloc[planted.rows] == value).all()
    if kind == "hard":
        model = LogisticRegression(max_iter=1000).fit(planted.inputs, planted.clean)
        margin = np.abs(model.decision_function(planted.inputs))
        assert margin[planted.rows].mean() < 0.8 * margin[ours].mean()


def test_drawn_labels_know_nothing_of_the_attribute_and_large_sets_are_sampled():
    planted = Planted("adult", "nothing", "drawn", 3)
    assert len(planted.X) <= MOST_ROWS
    assert planted.true_difference == 0
    assert abs(planted.clean[planted.inside].mean() - planted.truth[planted.inside].mean()) < 0.03
    assert (Planted("adult", "nothing", "drawn", 3).clean == planted.clean).all()
    for name in GROUPS:
        assert Planted(name, "labeller", "recorded", 1).planted_slice is not None


def test_one_table_is_measured_written_and_summed_up(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(bias, "Planted", partial(Planted, draws=9))
    asked = [
        "--datasets",
        "student",
        "--kinds",
        "uniform",
        "--bases",
        "drawn",
        "--seeds",
        "2",
        "--models",
        "logistic",
    ]
    assert bias.main([*asked, "--n-jobs", "1", "--json"]) == 0
    written = capsys.readouterr().out
    found = json.loads(written)
    ways = {row["of"]: row for row in found["summary"]["which"] if row["by"] == "way"}
    assert ways["wrong"]["quarter"] > ways["chance"]["quarter"]
    reviews = {row["way"]: row for row in found["summary"]["reviews"] if row["by"] == "all"}
    assert reviews["wrong"]["restored_whole"] >= reviews["wrong"]["restored_quarter"]
    (whose,) = (row for row in found["measured"] if row["question"] == "whose")
    assert whose["likely_hurt"] <= min(whose["likely"], whose["hurt"])
    for name in ("a.json", "b.json"):
        (tmp_path / name).write_text(written)
    assert bias.main(["--summary", str(tmp_path / "a.json"), str(tmp_path / "b.json")]) == 0
    assert capsys.readouterr().out.startswith("2 tables; 0 could not be compared.")


def test_networks_are_judged_beside_controls_and_as_0_5_judged_them(capsys, monkeypatch):
    for name, few in (
        ("FRESH", range(10_000, 10_003)),
        ("world_seeds", lambda group, seed: [1, 2]),
    ):
        monkeypatch.setattr(bias, name, few)
    monkeypatch.setattr("benchmarks.planted.MEMBERS", 2)
    monkeypatch.setattr(bias, "MEMBERS", 2)
    monkeypatch.setattr(bias, "Planted", partial(Planted, draws=9))
    asked = [
        "--datasets",
        "student",
        "--kinds",
        "uniform,nothing",
        "--bases",
        "drawn",
        "--seeds",
        "2",
    ]
    assert (
        bias.main([*asked, "--models", "mlp", "--questions", "whose", "--n-jobs", "1", "--json"])
        == 0
    )
    found = json.loads(capsys.readouterr().out)
    cases = {row["of"]: row for row in found["summary"]["seeds"]}
    assert set(cases) == {
        f"{m}, {by}" for m in (bias.NOW, bias.BEFORE) for by in (bias.BY_FRESH, bias.BY_AUDITED)
    }
    listed = {
        row["method"]: row["listed"]
        for row in found["measured"]
        if row.get("method") and row["kind"] == "nothing"
    }
    assert cases[f"{bias.NOW}, {bias.BY_FRESH}"]["listed"] == listed[bias.NOW]
    main = [row for row in found["measured"] if row["question"] == "whose"]
    assert len(main) == 2


def test_listed_are_those_whom_most_worlds_decide_otherwise_than_most_controls():
    ours, hurt = np.array([True, True, True, False]), np.array([True, False, False, False])
    now = np.array([[1, 1, 0, 0]] * 3 + [[1, 1, 1, 0]], bool)
    control = np.array([[0, 1, 1, 0]] * 3 + [[0, 0, 1, 0]], bool)
    row = bias.whose(now, control, ours, hurt)
    assert (row["listed"], row["likely"], row["likely_hurt"], row["sure"]) == (2, 1, 1, 1)
    assert row["expected"] == pytest.approx(1 + 0.25 - 0.75)
    audited = bias.whose(now, np.array([False, True, True, False]), ours, hurt)
    assert (audited["listed"], audited["likely"], audited["expected"]) == (2, 1, 1)


@pytest.mark.parametrize("family", ["forest", "proxy", "small", "high"])
def test_tables_of_unseen_truths_are_what_they_say(family):
    drawn = coverage.drawn_table("german", family, np.random.default_rng(2), None)
    inside = drawn.attribute.astype(str) == drawn.group
    assert 0 < drawn.truth.min() < drawn.truth.max() < 1
    assert family != "proxy" or 0.88 < (drawn.X["proxy"] == inside.astype(str)).mean() < 0.98
    assert family != "small" or 30 <= inside.sum() <= 60
    assert family != "high" or 0.94 < drawn.truth[inside].mean() < 0.99


def test_the_coverage_of_one_table_by_all(monkeypatch):
    monkeypatch.setattr(coverage, "SHUFFLES", 3)
    found = coverage.measure(14, ("student", "german"), 5, 4, None, True)
    assert (found["table"], found["planted"]) == ("student", 0.15)
    assert found["true"] == pytest.approx(found["planted"] * 0.8, abs=0.04)
    assert {"ours", "not centred", "AIPW", "AIPW, centred", "shuffling", "Oaxaca–Blinder"} <= set(
        found["estimates"]
    )


def test_verdicts_under_other_seeds_and_new_matched_experiments_are_counted(monkeypatch):
    monkeypatch.setattr(coverage, "SEEDS", 2)
    tables = [
        coverage.stability(number, ("german",), 5, 4, None, same_folds=bool(number))
        for number in (0, 1)
    ]
    assert [len(table["verdicts"]) for table in tables] == [2, 2]
    assert "planted: verdicts differ between the values in" in coverage._stability_summary(tables)
    experiments = [coverage.clustered(number, 5, 4) for number in range(3)]
    assert [round(each["true"], 2) for each in experiments] == [0.08, 0.0, 0.0]
    assert "labels swapped within clusters" in coverage._clusters_summary(experiments)

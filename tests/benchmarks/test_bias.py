"""Planted bias: the labels are where they should be, and what is measured adds up."""

import json
from functools import partial

import numpy as np
import pytest
from cleanlab.rank import get_label_quality_scores
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict

from benchmarks import bias, bias_tables
from benchmarks.planted import GROUPS, KINDS, MOST_ROWS, Planted
from benchmarks.rivals import RIVALS
from butfor.encode import TableEncoder
from butfor.machine import single_threaded


@pytest.mark.parametrize("kind", KINDS)
def test_planted_labels_are_favourable_ones_of_the_group_in_all_parts(kind):
    planted = Planted("german", kind, "recorded", 4, share=0.25)
    ours = planted.inside & planted.clean
    assert len(planted.rows) == (0 if kind == "nothing" else round(0.25 * ours.sum()))
    assert ours[planted.rows].all()
    assert (np.flatnonzero(planted.labels != planted.clean) == planted.rows).all()
    assert not planted.labels[planted.rows].any()
    if kind == "nothing":
        return
    for part in planted.parts:
        assert np.isin(planted.rows, np.arange(part.start, part.stop)).sum() > 0.1 * len(planted.rows)
    if kind == "labeller":
        column, value = planted.planted_slice
        assert (planted.X[column].iloc[planted.rows] == value).all()
        assert (planted.X[column][ours] == value).mean() <= 0.5
    if kind == "hard":
        margin = np.abs(
            LogisticRegression(max_iter=1000).fit(planted.inputs, planted.clean).decision_function(planted.inputs)
        )
        assert margin[planted.rows].mean() < 0.8 * margin[ours].mean()


def test_drawn_labels_know_nothing_of_the_attribute_and_large_sets_are_sampled():
    planted = Planted("adult", "nothing", "drawn", 3)
    assert len(planted.X) <= MOST_ROWS
    assert planted.true_difference == 0
    drawn = planted.clean[planted.inside].mean() - planted.truth[planted.inside].mean()
    assert abs(drawn) < 0.03
    again = Planted("adult", "nothing", "drawn", 3)
    assert (again.clean == planted.clean).all()
    assert (Planted("adult", "uniform", "drawn", 3).X.index == planted.X.index).all()


def test_every_set_has_its_group_and_a_slice_to_plant_in():
    for name in GROUPS:
        planted = Planted(name, "labeller", "recorded", 1)
        assert planted.inside.sum() > 200
        assert planted.planted_slice is not None


def test_models_trained_on_clean_labels_or_on_corrected_ones_agree():
    planted = Planted("student", "uniform", "recorded", 2)
    before, corrected = planted.accepted(
        "logistic", [planted.trainings("logistic", ()), planted.trainings("logistic", planted.training_rows)]
    )
    (clean,) = planted.accepted("logistic", [planted.trainings("logistic", ())], planted.clean)
    assert (corrected == clean).all()
    assert before.sum() < clean.sum()
    assert planted.accepted("mlp", [planted.trainings("mlp", ())]).shape == before[None].shape


def test_the_first_labels_of_an_order_that_knows_are_the_planted_ones():
    planted = Planted("student", "region", "drawn", 2)
    known = np.zeros(planted.parts[0].stop)
    known[planted.training_rows] = 1
    assert set(bias.first_adverse(planted, known, 1)) == set(planted.training_rows)
    assert len(bias.first_adverse(planted, known, 4)) == -(-len(planted.training_rows) // 4)
    assert not np.isin(bias.first_adverse(planted, -known, 4), planted.training_rows).any()


def test_self_confidence_is_that_of_cleanlab():
    planted = Planted("student", "uniform", "recorded", 2)
    table = planted.table("logistic", planted.labels)
    rows = TableEncoder("onehot", dtype="float64").fit_transform(table.X)
    model = LogisticRegression(solver="newton-cholesky")
    probabilities = cross_val_predict(model, rows, table.codes, method="predict_proba")
    theirs = 1 - get_label_quality_scores(table.codes, probabilities, method="self_confidence")
    assert bias.self_confidence(planted, "logistic") == pytest.approx(theirs, abs=1e-6)


@pytest.mark.parametrize("name", RIVALS)
def test_rivals_doubt_planted_labels_more_than_others(name):
    rng = np.random.default_rng(0)
    inputs, inside = rng.normal(size=(400, 3)), rng.random(400) < 0.5
    clean = inputs[:, 0] + 0.3 * rng.normal(size=400) > 0
    planted = clean & inside & (rng.random(400) < 0.2)
    labels = clean & ~planted
    with single_threaded():
        scores = RIVALS[name](inputs, labels, np.where(inside, "ours", "theirs"))
    assert scores.shape == labels.shape
    adverse = np.flatnonzero(~labels)
    first = adverse[np.argsort(-scores[adverse])][: planted.sum()]
    assert planted[first].mean() > 3 * planted[adverse].mean()


def test_people_in_worlds_are_counted():
    worlds = np.zeros((10, 5), bool)  # the last person is of another group
    worlds[:, 0] = True
    worlds[:6, 1] = True
    worlds[:2, 2] = True
    refused = np.array([True, True, True, True, False])
    hurt = np.array([True, False, True, False, False])
    found = bias.whose(worlds, refused, hurt, refused)
    assert (found["people"], found["hurt"], found["likely"], found["likely_hurt"]) == (4, 2, 2, 1)
    assert (found["sure"], found["sure_hurt"]) == (1, 1)
    assert found["expected"] == pytest.approx(1.8)
    assert found["covered"]
    assert not bias.whose(worlds, refused, refused & False, refused)["covered"]
    assert [people for people, _, _ in found["bins"]] == [1, 1, 0, 0, 0, 1, 0, 0, 0, 1]
    assert [count for _, _, count in found["bins"]] == [0, 1, 0, 0, 0, 0, 0, 0, 0, 1]


def test_worlds_of_a_network_have_other_validation_labels(monkeypatch):
    planted, trained = Planted("student", "uniform", "drawn", 2, draws=9), []

    def accepted(self, model, work, labels=None):
        trained.append((work, labels))
        return np.zeros((len(work), 1), bool)

    monkeypatch.setattr(Planted, "accepted", accepted)
    assert bias.in_worlds(planted, "mlp").shape == (20, 1)
    turned = [np.flatnonzero(labels != planted.labels) for _, labels in trained]
    validation = planted.parts[1]
    assert np.mean([len(rows) for rows in turned]) > 1
    for rows in turned:
        assert (planted.inside & ~planted.labels)[rows].all()
        assert ((rows >= validation.start) & (rows < validation.stop)).all()
    trained.clear()
    assert bias.in_worlds(planted, "logistic").shape == (20, 1)
    ((work, labels),) = trained
    assert labels is None
    assert len({training.flips for together in work for training in together}) > 15


def test_one_table_is_measured_written_and_summed_up(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(bias, "Planted", partial(Planted, draws=19))
    asked = ["--datasets", "student", "--kinds", "uniform", "--bases", "drawn", "--seeds", "2", "--models", "logistic"]
    assert bias.main([*asked, "--n-jobs", "1", "--json"]) == 0
    written = capsys.readouterr().out
    found = json.loads(written)
    (comparison,) = found["summary"]["comparison"][:1]
    assert comparison["tables"] == 1
    ways = {row["of"]: row for row in found["summary"]["which"] if row["by"] == "way"}
    assert ways["wrong"]["quarter"] > ways["chance"]["quarter"]
    beside = {row["of"]: row for row in found["summary"]["rivals"]}
    assert set(beside) == set(ways) >= {"FairLabel", "Fair-OBNC", "DeCoLe"}
    assert all(beside[way]["uniform_quarter"] == ways[way]["quarter"] for way in ways)
    assert ways["wrong"]["foretold_whole"] == pytest.approx(ways["wrong"]["whole"], abs=0.3)
    reviews = {row["way"]: row for row in found["summary"]["reviews"] if row["by"] == "all"}
    assert set(reviews) == {"wrong", "doubt", "self-confidence", "chance"}
    assert reviews["wrong"]["restored_whole"] >= reviews["wrong"]["restored_quarter"]
    (whose,) = (row for row in found["measured"] if row["question"] == "whose")
    assert whose["likely_hurt"] <= min(whose["likely"], whose["hurt"])
    assert sum(people for people, _, _ in whose["bins"]) <= whose["people"]
    for name in ("a.json", "b.json"):
        (tmp_path / name).write_text(written)
    assert bias.main(["--summary", str(tmp_path / "a.json"), str(tmp_path / "b.json")]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("2 tables; 0 could not be compared.")
    assert "first (aim 0.80)" in shown


def test_means_leave_out_tables_without_anybody():
    common = {
        "question": "whose",
        "base": "drawn",
        "called": True,
        "model": "logistic",
        "set": "german",
        "covered": True,
    }
    common |= {"expected": 1.0, "bins": [[1, 0.0, 0]] + [[0, 0.0, 0]] * 9, "sure": 0, "sure_hurt": 0, "people": 10}
    rows = [
        common | {"kind": "uniform", "hurt": 4, "likely": 2, "likely_hurt": 1},
        common | {"kind": "uniform", "hurt": 0, "likely": 0, "likely_hurt": 0},
        common | {"kind": "nothing", "hurt": 0, "likely": 1, "likely_hurt": 0},
    ]
    row = bias_tables.summary(rows)["whose"][0]
    assert (row["precision"], row["recall"], row["null"]) == (0.5, 0.25, 10.0)
    assert "sure" not in row


def test_bad_options_are_refused_in_a_sentence():
    with pytest.raises(Exception, match="--kinds: there is no 'unifrom'"):
        bias.main(["--kinds", "unifrom"])
    with pytest.raises(Exception, match=r"--share 2\.0 must be"):
        bias.main(["--share", "2"])

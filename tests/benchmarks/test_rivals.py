"""Rivals on planted tables: the tables are what they say, each way ranks by its own idea, and a run
adds up."""

import json

import numpy as np
import pytest

from benchmarks import rivals
from benchmarks.planted import Planted
from benchmarks.rival_methods import LEARNERS, WAYS, Table, cross_validated, self_confidence
from butfor.errors import SettingError


@pytest.fixture(scope="module")
def table():
    """A group with the lower rate whose labels were lost in the upper half of one column, and two
    who decide alike."""
    rng = np.random.default_rng(3)
    inputs = rng.standard_normal((600, 3))
    groups = np.where(rng.random(600) < 0.4, "b", "a")
    granted = rng.random(600) < 1 / (1 + np.exp(-1 - 2 * inputs[:, 0]))
    lost = (groups == "b") & granted & (rng.random(600) < 0.4)
    return Table(inputs, granted & ~lost, groups), lost


@pytest.mark.parametrize(("case", "sign", "least"), [("higher", 1, 0.05), ("silent", -1, 0.10)])
def test_rates_are_moved_by_leaving_rows_out_and_not_by_changing_labels(case, sign, least):
    kind = "nothing" if case == "silent" else "uniform"
    made = rivals.Case(case, Planted("german", kind, "drawn", 3, draws=9))
    inside = made.planted.inside[made.rows]
    labels = made.table.favourable
    assert sign * (labels[inside].mean() - labels[~inside].mean()) >= least
    assert (labels == made.planted.labels[made.rows]).all()
    assert abs(len(made.rows) - len(made.planted.X) / 2) <= 1
    assert made.wrong.any() == (case == "higher")
    assert made.planted.attribute not in map(
        str, made.planted.X.drop(columns=made.planted.attribute).columns
    )
    assert made.table.inputs.shape[1] == made.planted.inputs.shape[1]


@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize("way", WAYS)
def test_a_rival_finds_lost_labels_more_often_than_chance_and_changes_adverse_ones_alone(
    table, way, learner
):
    known, lost = table
    said = WAYS[way](known, learner)
    assert not (said.changed & known.favourable).any()
    first = np.argsort(-np.where(known.adverse, said.score, -np.inf))[: lost.sum()]
    assert lost[first].mean() > 1.2 * lost[known.adverse].mean()
    if way in ("FairLabel", "Massaging"):
        assert set(known.groups[said.changed]) == {"b"}, "the group with the lower rate"


def test_self_confidence_is_cleanlabs(table):
    rank, chosen = pytest.importorskip("cleanlab.rank"), pytest.importorskip("cleanlab.filter")
    known, _ = table
    probability = cross_validated(known, np.arange(600), LEARNERS["logistic"])
    both = np.column_stack([1 - probability, probability])
    labels, ours = known.favourable.astype(int), self_confidence(known, "logistic")
    theirs = rank.get_label_quality_scores(labels, both)
    np.testing.assert_allclose(1 - ours.score[known.adverse], theirs[known.adverse])
    issues = chosen.find_label_issues(labels, both, filter_by="confident_learning")
    assert set(np.flatnonzero(ours.changed)) == set(np.flatnonzero(issues & known.adverse))


def test_a_run_is_measured_summed_up_and_says_what_is_not_installed(capsys, tmp_path):
    asked = [
        "--datasets",
        "student",
        "--seeds",
        "3",
        "--cases",
        "silent",
        "--draws",
        "9",
        "--jobs",
        "1",
    ]
    assert rivals.main([*asked, "--json"]) == 0
    written = capsys.readouterr().out
    measured = json.loads(written)["measured"]
    ways = {row["way"]: row for row in measured}
    assert set(ways) == {"wrong", "doubt", "chance", *WAYS, "absent"}
    assert ways["FairLabel"]["marked"] > 0
    assert ways["wrong"]["called"] or ways["wrong"]["marked"] == 0, (
        "labels are called wrong in called groups alone"
    )
    (tmp_path / "a.json").write_text(written)
    assert rivals.main(["--summary", str(tmp_path / "a.json"), str(tmp_path / "a.json")]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("2 tables; 0 left out.")
    assert "not installed. pip download --no-deps aequitas==1.1.0" in printed
    assert "Theirs and ours" in printed


def test_learners_are_chosen_on_seeds_that_no_figure_is_published_from(
    capsys, tmp_path, monkeypatch
):
    with pytest.raises(SettingError, match="--choose takes seeds below 10000"):
        rivals.main(["--choose", "--seeds", "20000"])
    with pytest.raises(SettingError, match=r"there is no aequitas/flow/.*unzip the wheel"):
        rivals.main(["--aequitas", str(tmp_path), "--seeds", "3"])
    choosing = [
        "--choose",
        "--datasets",
        "student",
        "--cases",
        "usual",
        "--seeds",
        "3",
        "--jobs",
        "1",
        "--json",
    ]
    monkeypatch.setattr(rivals, "PLANTED", ("uniform",))
    assert rivals.main(choosing) == 0
    rows = json.loads(capsys.readouterr().out)
    assert len(rows) == len(WAYS) * len(LEARNERS)
    assert {row["variant"] for row in rows} == set(LEARNERS)

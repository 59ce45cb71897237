"""The fewest labels that close the gap between two groups."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

import butfor
from butfor import stopping
from butfor.errors import SettingError
from butfor.result.population import Population
from butfor.run import trial
from butfor.train import Trainer
from conftest import press
from recorded import LABELS, PLANTED, TABLE, run


def test_the_fewest_labels_that_close_the_gap():
    audit = butfor.LabelAudit(LogisticRegression(), budget=4, n_jobs=1, fresh_seeds=0)
    audit.fit(TABLE, LABELS, sensitive_features="group", adverse="no")
    found = audit.close_gap(TABLE)
    assert found.groups == ("b", "a")
    assert found.closed
    assert found.gap[1] <= 0.01 < found.gap[0]
    frame = audit.labels().reset_index(drop=True).sort_values("rank")
    doubted = frame[(frame["group"] == "b") & (frame["label"] == "no") & (frame["doubt"] > 0.5)].index
    assert len(doubted) == found.doubted
    assert set(found.flips) == set(doubted[: len(found.flips)])
    encoder = butfor.TableEncoder("onehot", dtype="float64").fit(TABLE)
    rows, ours = encoder.transform(TABLE), (TABLE["group"] == "b").to_numpy()

    def gap(labels: list[int]) -> float:
        y = (LABELS == "yes").to_numpy().copy()
        y[labels] = True
        decided = LogisticRegression().fit(rows, y).predict(rows)
        return float(decided[~ours].mean() - decided[ours].mean())

    assert gap(list(found.flips)) == pytest.approx(found.gap[1])
    assert gap(list(doubted[: len(found.flips) - 1])) > 0.01
    assert f"Flipping {len(found.flips)} of {len(doubted)} doubted labels of 'b'" in found.sentence
    again = audit.close_gap(TABLE, groups=["a", "b"], within=0.5)
    assert "there is no gap to close" in again.sentence
    over = audit.close_gap(TABLE, within=0.002)
    assert not over.closed
    assert over.gap[1] < -0.002 < 0.002 < gap(list(doubted[: len(over.flips) - 1]))
    assert "leaves −0.6 points, and one fewer leaves it open." in over.sentence
    none = audit.close_gap(TABLE[:60])
    assert not none.closed
    assert "No adverse label of 'a' is doubtful" in none.sentence
    truth = pd.Series(np.where(PLANTED, "yes", LABELS))
    by_truth = audit.close_gap(TABLE, truth, by="true positive")
    assert by_truth.by == "true positive"
    deserving = ours & (truth == "yes").to_numpy()
    before = audit.model_.logits(TABLE) > 0
    assert by_truth.gap[0] == pytest.approx(
        before[~ours & (truth == "yes").to_numpy()].mean() - before[deserving].mean()
    )
    for wrong, sentence in (
        ({"by": "odds"}, "must be one of 'selection', 'true positive'"),
        ({"by": "true positive"}, "give y"),
        ({"groups": ["a", "z"]}, "name two of"),
        ({"within": -0.9}, "must be a share"),
        ({"within": "1 %"}, "must be a share"),
    ):
        with pytest.raises(SettingError, match=sentence):
            audit.close_gap(TABLE, **wrong)


def test_the_command_closes_a_gap_and_the_page_says_it(tmp_path, capsys):
    out = tmp_path / "audit"
    quick = ("--model", "logistic", "--budget", "2", "--cases", "0:3", "--quiet")
    code, said, _ = run(capsys, "audit", "german", *quick, "--close-gap", "--out", out)
    assert code == 0
    gap = Population.from_json(out / "audit.json").closed_gap
    assert gap.by == "selection"
    assert gap.sentence in said
    assert gap.sentence.replace("'", "&#39;") in (out / "report.html").read_text()
    code, said, _ = run(capsys, "audit", "german", *quick, "--close-gap", "true-positive")
    assert "The true positive rates" in said


def test_it_is_said_before_training_that_the_adverse_label_is_not_named(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("butfor.run.fit._train", None)
    TABLE.assign(granted=LABELS).to_csv(tmp_path / "loans.csv", index=False)
    asked = ("--label", "granted", "--sensitive", "group", "--model", "logistic", "--close-gap")
    code, _, said = run(capsys, "audit", tmp_path / "loans.csv", *asked)
    assert code == 2
    assert "Name the label that people do not want with --adverse: " in said


def pressed(*_):
    press()
    stopping.check()


@pytest.mark.parametrize(
    ("rows", "search", "limits", "why"),
    [
        (60, trial.close_gap, (), "No group can be compared."),
        (130, trial.close_gap, ("--close-gap", "true-positive"), "two groups of at least 10 people are needed."),
        (400, pressed, (), "It was stopped by hand."),
        (400, trial.close_gap, ("--max-seconds", "0.01s"), "The time allowed was up."),
    ],
)
def test_an_audit_stands_where_the_gap_cannot_be_closed(tmp_path, capsys, monkeypatch, rows, search, limits, why):
    monkeypatch.setattr(trial, "close_gap", search)
    TABLE.assign(granted=LABELS)[:rows].to_csv(tmp_path / "loans.csv", index=False)
    asked = ("--label", "granted", "--sensitive", "group", "--adverse", "no", "--model", "logistic", "--close-gap")
    out = tmp_path / "audit"
    code, _, said = run(capsys, "audit", tmp_path / "loans.csv", *asked, *limits, "--cases", "0:5", "--out", out)
    assert code == 0
    population = Population.from_json(out / "audit.json")
    assert len(population) == 5
    assert population.closed_gap is None
    remark = population.run.remarks[-1]
    assert remark.startswith("Which labels would close the gap is not known.")
    assert why in remark
    assert why in " ".join(said.split())
    assert "Which labels would close the gap is not known." in (out / "report.html").read_text()


def test_it_ends_when_the_time_is_up():
    audit = butfor.LabelAudit(LogisticRegression(), n_jobs=1, fresh_seeds=0)
    audit.fit(TABLE, LABELS, sensitive_features="group", adverse="no")
    with pytest.raises(butfor.errors.Stopped, match="time allowed was up"):
        audit.close_gap(TABLE, stop=butfor.max_seconds(1e-9))
    assert audit.close_gap(TABLE, stop=butfor.max_seconds(600)).closed


def test_single_models_are_trained_once_and_counted(monkeypatch):
    trained = []
    train = Trainer.seed_logits
    counted = lambda self, trainings: [trained.extend(trainings), train(self, trainings)][1]  # noqa: E731
    monkeypatch.setattr(Trainer, "seed_logits", counted)
    audit = butfor.LabelAudit(butfor.MLP((4,), max_epochs=30, batch_size=32), members=3, fresh_seeds=4, n_jobs=1)
    audit.fit(TABLE, LABELS, sensitive_features="group", adverse="no")
    found = audit.close_gap(TABLE)
    assert found.closed
    assert {len(training.flips) for training in trained} == {0, len(found.flips)}
    assert len(trained) == len(set(trained)) == 2 * 4
    assert (found.members[1], found.fresh[1]) == (3, 4)
    counts = f"{found.members[0]} of 3 members and {found.fresh[0]} of 4 fresh seeds"
    assert found.sentence.endswith(f" {counts} alone close it too.")

"""The fewest labels that close the gap between two groups."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

import butfor
from butfor.errors import SettingError
from butfor.result.population import Population
from butfor.search.trainer import Trainer
from recorded import LABELS, PLANTED, TABLE, run


def test_the_fewest_labels_that_close_the_gap():
    audit = butfor.LabelAudit(LogisticRegression(), budget=4, n_jobs=1, fresh_seeds=0)
    audit.fit(TABLE, LABELS, sensitive_features="group", adverse="no")
    found = audit.close_gap(TABLE)
    assert found.groups == ("b", "a")
    assert found.closed
    assert found.gap[1] <= 0.01 < found.gap[0]
    frame = audit.review_frame().reset_index(drop=True).sort_values("rank")
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
    assert f"{len(found.flips)} doubted labels of 'b'" in found.sentence
    again = audit.close_gap(TABLE, groups=["a", "b"], within=0.5)
    assert "there is no gap to close" in again.sentence
    never = audit.close_gap(TABLE, within=-0.9)
    assert (never.closed, len(never.flips)) == (False, never.doubted)
    assert "Not within the doubted labels" in never.sentence
    truth = pd.Series(np.where(PLANTED, "yes", LABELS))
    by_truth = audit.close_gap(TABLE, truth, by="true positive")
    assert by_truth.by == "true positive"
    deserving = ours & (truth == "yes").to_numpy()
    before = audit.model_.logits(TABLE) > 0
    assert by_truth.gap[0] == pytest.approx(
        before[~ours & (truth == "yes").to_numpy()].mean() - before[deserving].mean()
    )
    for wrong, sentence in (
        ({"by": "odds"}, "selection or true positive"),
        ({"by": "true positive"}, "give y"),
        ({"groups": ["a", "z"]}, "name two of"),
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


def test_single_models_are_trained_once_and_counted(monkeypatch):
    trained = []
    ask = Trainer.ask
    monkeypatch.setattr(Trainer, "ask", lambda self, trainings: [trained.extend(trainings), ask(self, trainings)][1])
    audit = butfor.LabelAudit(butfor.MLP((4,), max_epochs=30, batch_size=32), members=3, fresh_seeds=4, n_jobs=1)
    audit.fit(TABLE, LABELS, sensitive_features="group", adverse="no")
    found = audit.close_gap(TABLE)
    assert found.closed
    assert {len(training.flips) for training in trained} == {0, len(found.flips)}
    assert len(trained) == len(set(trained)) == 2 * 4
    assert (found.members[1], found.fresh[1]) == (3, 4)
    counts = f"{found.members[0]} of 3 members and {found.fresh[0]} of 4 fresh seeds"
    assert found.sentence.endswith(f" Alone, {counts} have it closed too.")

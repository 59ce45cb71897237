"""The order in which labels are reviewed, and how many of them are likely to be wrong."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

import butfor
from butfor import load_dataset
from butfor.errors import SettingError
from butfor.result.population import Population
from recorded import LABELS, PLANTED, TABLE, fitted


@pytest.fixture(scope="module")
def audit():
    return fitted()


def test_adverse_labels_are_reviewed_in_the_order_of_how_likely_they_are_wrong_then_of_doubt(audit):
    frame, standards = audit.labels(), audit.standards()
    assert list(frame.columns) == [
        "label",
        "group",
        "doubt",
        "wrong",
        "wrong_if_real",
        "rank",
        "people",
    ]
    for name in ("wrong", "wrong_if_real"):
        np.testing.assert_allclose(frame[name], standards.to_frame()[name], atol=1e-4)
    adverse = (LABELS == "no").to_numpy()
    assert frame["rank"].notna().tolist() == adverse.tolist()
    first = frame[adverse].sort_values("rank")
    assert first["rank"].tolist() == list(range(1, adverse.sum() + 1))
    short = int((first["wrong"] > 0).sum())
    assert first["wrong"][:short].is_monotonic_decreasing
    assert set(first["group"][:short]) == {"b"}
    assert set(first["group"][short:]) == {"a"}
    assert first["doubt"][short:].is_monotonic_decreasing
    assert PLANTED[first.index[: PLANTED.sum()]].mean() > 0.6
    assert frame["wrong"].sum() == pytest.approx(PLANTED.sum(), rel=0.25)
    lines = "".join(audit.review_tasks(labels=40).lines)
    assert (
        f"About {first['wrong'][:40].sum():.0f} of these 40 labels are likely to be wrong" in lines
    )
    assert "the sum of their probabilities of being wrong" in lines


def test_the_order_is_the_same_whatever_was_called_before(audit):
    before = audit.labels()
    other = clone(audit).fit(TABLE, LABELS, sensitive_features="group", adverse="no", draws=20)
    other.explain(TABLE.iloc[1])
    population = other.explain_all(TABLE[:6], cases=[0, 1, 2])
    other.one_standard(TABLE[:30])
    pd.testing.assert_frame_equal(other.labels(), before)
    assert population.run.standard is not None, "asking about one person first costs no comparison"
    ranked = before.reset_index().dropna(subset="rank").sort_values("rank").index
    assert [label.position for label in population.labels] == list(ranked[: len(population.labels)])
    chosen = [task.position for task in other.review_tasks(labels=10).tasks if task.kind == "label"]
    assert sorted(chosen) == sorted(ranked[:10])


def test_without_an_adverse_label_labels_of_either_kind_are_reviewed_by_doubt(salary_file):
    data = load_dataset("german")
    audit = butfor.LabelAudit(LogisticRegression(solver="newton-cholesky"), fresh_seeds=0, n_jobs=1)
    audit.fit(data.X_train, data.y_train, sensitive_features="sex")
    population = audit.explain_all(data.X_test[:40], cases=[0, 1, 2])
    assert {label.label for label in population.labels[:200]} == {"bad credit", "good credit"}
    assert {label.wrong for label in population.labels} == {None}
    with pytest.raises(
        SettingError,
        match=r"A review compares the adverse labels of two groups: .* fit\(adverse=…\)",
    ):
        audit.review_tasks(labels=10)
    doubts = [label.doubt for label in population.labels]
    assert doubts == sorted(doubts, reverse=True)
    assert audit.labels()["wrong"].isna().all()
    assert not Population.from_json(salary_file).labels  # groups of 25 are too small to be compared

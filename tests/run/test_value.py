"""What a review of a label is worth, and how many of the labels are likely to be wrong."""

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier

import butfor
from butfor import load_dataset
from butfor.learn.capabilities import members_of
from butfor.rank import checked_scores, summed_scores
from butfor.result.population import Population
from butfor.run.labels import best_ranking, wrongness
from recorded import LABELS, PLANTED, TABLE


def test_value_is_doubt_squared_times_the_effect_on_people_of_the_group_who_are_refused():
    data = load_dataset("german")
    model = LogisticRegression(solver="newton-cholesky")
    audit = butfor.LabelAudit(model, fresh_seeds=0, n_jobs=1)
    audit.fit(data.X_train, data.y_train, sensitive_features="sex", adverse="bad credit")
    audit.explain_all(data.X_test[:60], cases=[0, 1])
    logits, women = audit.model_.logits(data.X_test[:60]), (data.X_test[:60]["sex"] == "female").to_numpy()
    refused = women & (logits < 0)
    near = np.exp(-np.abs(logits[refused]) / (0.5 * np.median(np.abs(logits[refused]))))
    moved = audit.model_.flip_effects(audit.table_, data.X_test[:60][refused])
    effect = (near / near.sum()) @ moved
    ours = ((audit.fitted_.sensitive.values == "female") & (audit.table_.zero_one == 0)).astype(bool)
    expected = audit.fitted_.doubt**2 * np.maximum(0, effect)
    assert audit.labels()["value"].to_numpy()[ours] == pytest.approx(expected[ours], rel=1e-4)
    assert (audit.labels()["value"].to_numpy()[ours] > 0).sum() > 20
    assert (audit.labels()["value"].to_numpy()[audit.table_.zero_one == 1] == 0).all()
    frame = audit.labels().sort_values("rank")
    assert frame["rank"].dropna().tolist() == list(range(1, int((audit.table_.zero_one == 0).sum()) + 1))
    short = frame["group"].map({c.group: c.missing > 0 for c in audit.standards().comparisons})
    for among in (True, False):
        assert frame[frame["rank"].notna() & (short == among)]["value"].is_monotonic_decreasing


@pytest.mark.parametrize(
    ("model", "ranking", "members"),
    [
        (butfor.MLP((8,), max_epochs=80), "gradient", 1),
        (butfor.MLP((8,), max_epochs=80), "gradient", 3),
        (LogisticRegression(), "influence", 1),
        (RidgeClassifier(), "influence", 1),
        (butfor.ThresholdedRegressor(KernelRidge()), "influence", 1),
        (DecisionTreeClassifier(max_depth=4, random_state=0), "leaves", 1),
        (HistGradientBoostingClassifier(max_iter=8, random_state=0), "leaves", 1),
        (GaussianNB(), "distance", 1),
    ],
)
def test_sums_over_people_are_the_sums_of_what_the_ranking_says_of_each(model, ranking, members):
    data = load_dataset("german")
    audit = butfor.LabelAudit(model, members=members, fresh_seeds=0, n_jobs=1)
    audit.fit(data.X_train[:150], data.y_train[:150], sensitive_features="sex")
    known = best_ranking(audit.model_)
    assert known.name == ranking
    # A member that decides otherwise would count in the other direction.
    agreed = np.all([member.logits(data.X_test) > 0 for member in members_of(audit.model_)], axis=0)
    people = data.X_test[agreed][:30]
    assert len(people) > 10
    weights = np.random.default_rng(0).random((2, len(people)))
    weights /= weights.sum(axis=1, keepdims=True)
    total = summed_scores(known, audit.model_, audit.table_, people, weights, -1)
    if ranking == "distance":
        nearest = np.argmin(-known.score(audit.model_, audit.table_, people.iloc[[0]])[0])
        alone = known.total(audit.model_, audit.table_, people.iloc[[0]], np.ones((1, 1)), -1)[0]
        assert alone.argmax() == nearest
        return
    scores = checked_scores(known, audit.model_, audit.table_, people)
    if members == 1:  # a trimmed mean of sums is not the sum of trimmed means
        np.testing.assert_allclose(total, weights @ scores, rtol=1e-3, atol=1e-5)
    assert np.corrcoef(total[0], (weights @ scores)[0])[0, 1] > 0.95


def test_without_an_adverse_label_labels_of_either_kind_have_a_value_and_it_says_so(salary_file):
    data = load_dataset("german")
    audit = butfor.LabelAudit(LogisticRegression(solver="newton-cholesky"), fresh_seeds=0, n_jobs=1)
    audit.fit(data.X_train, data.y_train, sensitive_features="sex")
    population = audit.explain_all(data.X_test[:40], cases=[0, 1, 2])
    assert {label.label for label in population.labels[:200]} == {"bad credit", "good credit"}
    assert {label.wrong for label in population.labels} == {None}
    assert "not calibrated" in audit.review_tasks(labels=10).expectation
    assert "labels of either kind count" in population.to_html()
    assert not Population.from_json(salary_file).labels  # groups of 25 are too small to be compared


def test_what_to_expect_follows_from_the_shortfall():
    standards = butfor.compare_standards(TABLE, LABELS, sensitive_features="group", adverse="no", draws=0, n_jobs=1)
    wrong, short = wrongness(standards), standards.of_group("b")
    adverse = ((TABLE["group"] == "b") & (LABELS == "no")).to_numpy()
    assert wrong[~adverse].tolist() == [0.0] * (~adverse).sum()
    share, doubt = short.difference / short.expected, standards.doubt[adverse]
    assert wrong[adverse] == pytest.approx(doubt * share / (1 - doubt + doubt * share))
    assert wrong.sum() == pytest.approx(PLANTED.sum(), rel=0.25)
    assert wrong[PLANTED].mean() > 2 * wrong[adverse & ~PLANTED].mean()

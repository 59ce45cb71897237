"""Today's model beside ridge: what is compared, and how ridge or kernel ridge is chosen."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, RidgeClassifier

import butfor
from butfor.report.groups import ridge_sentence


@pytest.fixture(scope="module")
def compared():
    data = butfor.load_dataset("german")
    audit = butfor.LabelAudit(LogisticRegression(solver="newton-cholesky"), budget=3, fresh_seeds=0, psi="everything")
    audit.fit(data.X_train[:200], data.y_train[:200], sensitive_features="sex")
    people, labels = data.X_test[:40], data.y_test[:40]
    return audit, people, labels, audit.compare_with_ridge(people, labels)


def test_the_comparison_counts_what_ridge_itself_says_and_proves(compared):
    audit, people, labels, found = compared
    model = RidgeClassifier() if found["model"] == "ridge" else None
    today = audit.model_.logits(people) > 0
    everyone, *groups = found["groups"]
    assert everyone["group"] == "everyone"
    assert everyone["changed"] == sum(g["changed"] for g in groups)
    assert sum(g["people"] for g in groups) == everyone["people"] == 40
    assert everyone["stand_against_one"] >= everyone["stand_against_budget"]
    truth = labels.to_numpy() == audit.classes_[1]
    assert found["right"]["today"]["accuracy"] == pytest.approx((today == truth).mean())
    if model is not None:
        alone = butfor.LabelAudit(model, encoder=butfor.TableEncoder(dtype="float64"), budget=3, psi="everything")
        alone.fit(audit.table_.X, audit.table_.y, sensitive_features="sex")
        said = alone.model_.logits(people) > 0
        assert everyone["changed"] == (said != today).sum()
        needs = np.array([b.at_least for b in alone.brackets(people)])
        assert everyone["stand_against_one"] == (needs > 1).sum()
        assert everyone["stand_against_budget"] == (needs > 3).sum()


def test_the_choice_is_told_and_the_page_shows_it(compared):
    audit, people, labels, found = compared
    assert "training rows left out in 3 folds" in found["chosen"]
    assert "provably steady model" in ridge_sentence(found)
    assert audit.compare_with_ridge(people)["right"] is None
    population = audit.explain_all(people, labels, cases=range(3), stop=butfor.max_retrainings(5))
    assert "Beside a provably steady model: ridge" in population.with_run(ridge=found).to_html()

"""Today's model beside a steady one: what is compared, and where the comparison is empty."""

import warnings

import numpy as np
import pytest
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression

import butfor
from butfor.errors import SettingError
from butfor.learn.partition import PartitionEnsemble, usual_parts
from butfor.report.words import steady_sentence


@pytest.fixture(scope="module")
def german():
    return butfor.load_dataset("german")


def compared(data, steady, **settings):
    audit = butfor.LabelAudit(
        LogisticRegression(solver="newton-cholesky"),
        budget=3,
        fresh_seeds=0,
        max_retrainings=1,
        steady=steady,
        **settings,
    ).fit(data.X_train, data.y_train, sensitive_features="sex")
    return audit, audit.explain_all(data.X_test, data.y_test, cases=range(40))


def test_the_comparison_counts_what_the_steady_model_itself_says(german):
    audit, population = compared(german, 5, psi="everything")
    found = population.run["steady"]
    X, people = (
        butfor.TableEncoder(dtype="float64").fit(german.X_train).transform(f) for f in (german.X_train, german.X_test)
    )
    alone = PartitionEnsemble(parts=5).fit(X, german.y_train.to_numpy())
    today = audit.model_.logits(german.X_test)[:40] > 0
    said = alone.predict(people)[:40] == audit.classes_[1]
    everyone, *groups = found["groups"]
    assert everyone["group"] == "everyone"
    assert everyone["changed"] == (today != said).sum() == sum(g["changed"] for g in groups)
    assert everyone["stand_against_one"] >= (alone.certify(people)[:40] >= 1).sum()
    assert everyone["stand_against_one"] >= everyone["stand_against_budget"]
    assert sum(g["people"] for g in groups) == 40
    truth = german.y_test.to_numpy()[:40] == audit.classes_[1]
    assert found["right"]["steady"]["accuracy"] == pytest.approx((said == truth).mean())
    assert found["right"]["today"]["accuracy"] == pytest.approx((today == truth).mean())
    page = population.to_html()
    assert "Beside a steady model" in page
    assert "trains one copy (LogisticRegression) on each of 5 parts" in page
    assert f"decides otherwise about {everyone['changed']} of 40" in page


def test_a_vote_for_the_larger_class_alone_is_said_to_be_empty(german):
    empty = PartitionEnsemble(DummyClassifier(), 5)
    _, population = compared(german, empty)
    X = butfor.TableEncoder(dtype="float64").fit_transform(german.X_train)
    empty.fit(X, german.y_train.to_numpy())
    with pytest.warns(UserWarning, match="about all 600 people"):
        assert (empty.certify(X) == 2).all()
    assert "what it certifies is empty" in steady_sentence(population.run["steady"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _, population = compared(german, "auto")
        PartitionEnsemble(parts=5).fit(X, german.y_train.to_numpy()).certify(X)
    assert "empty" not in steady_sentence(population.run["steady"])
    assert population.run["steady"]["parts"] == 11


def test_parts_by_the_number_of_rows_and_what_is_refused(german):
    assert [usual_parts(n) for n in (20, 600, 3702, 27132)] == [3, 11, 53, 147]
    assert all(usual_parts(n) % 2 for n in range(10, 5000, 7))
    for steady in (0, -3, "many", 2.5, [3]):
        with pytest.raises(SettingError, match="neither a number of parts"):
            butfor.LabelAudit(LogisticRegression(), steady=steady).fit(
                german.X_train, german.y_train, sensitive_features="sex"
            )
    assert np.isfinite(usual_parts(10**6))

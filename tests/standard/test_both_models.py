"""The two models: many tables side by side are the same as one by one, and as scikit-learn's."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

from butfor.standard.boosting import Asked, answers_to_questions, predict_boosting
from butfor.standard.logistic import fit_logistic, levers, predict_logistic
from butfor.standard.model import TwoModels, Without


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    inputs = np.column_stack([rng.normal(size=(300, 3)), rng.random(300) < 0.3])
    p = 1 / (1 + np.exp(-inputs @ [1.0, -1.0, 0.0, 2.0]))
    return inputs, (rng.random((6, 300)) < p).astype(float), rng.uniform(0.2, 3, 300)


@pytest.mark.parametrize("weighted", [False, True])
def test_logistic_regressions_are_those_of_scikit_learn(rows, weighted):
    inputs, labels, weight = rows
    weight = weight if weighted else None
    found = predict_logistic(inputs, fit_logistic(inputs, labels, weight))
    for own, each in zip(found, labels, strict=True):
        model = LogisticRegression(solver="newton-cholesky", tol=1e-8).fit(inputs, each, sample_weight=weight)
        np.testing.assert_allclose(own, model.predict_proba(inputs)[:, 1], atol=2e-4)


def test_tables_far_from_their_mean_are_fitted_too(rows):
    inputs, labels, _ = rows
    far = np.array([labels[0], 1 - labels[0], inputs[:, 0] > 0, np.zeros(300)])
    together = predict_logistic(inputs, fit_logistic(inputs, far))
    alone = np.concatenate([predict_logistic(inputs, fit_logistic(inputs, each[None])) for each in far])
    np.testing.assert_allclose(together, alone, atol=1e-3)
    assert together[3].max() < 0.02


def test_levers_say_how_far_a_label_moves_the_mean(rows):
    inputs, labels, _ = rows
    asked = inputs[:50] + 1
    fitted = fit_logistic(inputs, labels[:1])
    lever, residual = levers(inputs, labels[0], asked, None, None, fitted[0])
    np.testing.assert_allclose(residual, labels[0] - predict_logistic(inputs, fitted)[0])
    for row in (0, 17, 120):
        changed = labels[0].copy()
        changed[row] += 1e-3
        mean = [predict_logistic(asked, fit_logistic(inputs, each[None])).mean() for each in (labels[0], changed)]
        assert (mean[1] - mean[0]) / 1e-3 == pytest.approx(lever[row], rel=0.02, abs=1e-5)


def test_questions_split_numbers_at_quantiles_and_categories_once():
    inputs = np.column_stack([np.arange(100.0), np.arange(100) % 2, np.ones(100), np.arange(100) % 5])
    answers, about = answers_to_questions(inputs)
    assert np.bincount(about, minlength=4).tolist() == [16, 1, 0, 4]
    assert set(np.unique(answers)) == {0, 1}
    assert (answers.mean(axis=0) > 0).all()
    assert (answers.mean(axis=0) < 1).all()


def test_boosting_side_by_side_is_boosting_one_by_one(rows):
    inputs, labels, weight = rows
    answers, _ = answers_to_questions(inputs)
    asked = Asked.of(answers[:200], answers[200:])
    together = predict_boosting(asked, labels[:, :200], weight[:200])
    alone = [predict_boosting(asked, each[None, :200], weight[:200])[0] for each in labels]
    np.testing.assert_allclose(together, alone, atol=1e-4)


def test_boosting_learns_an_interaction_that_a_line_cannot():
    rng = np.random.default_rng(1)
    inputs = rng.integers(0, 2, (800, 3)).astype(float)
    truth = np.where(inputs[:, 0] == inputs[:, 1], 0.9, 0.1)
    labels = (rng.random((1, 800)) < truth).astype(float)
    answers, _ = answers_to_questions(inputs)
    found = predict_boosting(Asked.of(answers, answers), labels)[0]
    assert np.abs(found - truth).max() < 0.12
    assert np.abs(predict_logistic(inputs, fit_logistic(inputs, labels))[0] - truth).mean() > 0.3


def test_rows_of_no_weight_and_barred_questions_do_not_count(rows):
    inputs, labels, _ = rows
    answers, about = answers_to_questions(inputs)
    kept = np.arange(300) < 200
    by_weight = predict_boosting(Asked.of(answers, answers), labels[:1], kept.astype(float)[None])
    by_rows = predict_boosting(Asked.of(answers[kept], answers), labels[:1, kept])
    np.testing.assert_allclose(by_weight, by_rows, atol=1e-4)
    barred = predict_boosting(Asked.of(answers, answers), labels[:1], barred=(about == 0)[None])
    without = predict_boosting(Asked.of(answers[:, about != 0], answers[:, about != 0]), labels[:1])
    np.testing.assert_allclose(barred, without, atol=1e-6)


def test_columns_left_out_are_left_out_of_both_models(rows):
    inputs, labels, _ = rows
    X = pd.DataFrame(inputs, columns=list("abcd")).assign(e=np.where(labels[1] > 0, "x", "y"))
    whole, part = TwoModels.of(X), TwoModels.of(X.drop(columns=["a", "e"]))
    learn, ask = np.arange(200), np.arange(200, 300)
    stays = [~whole.inputs_of(columns) for columns in (["a", "e"], ["b"])]
    fits = [fit_logistic(whole.inputs[:200, kept], labels[:1, :200])[0] for kept in stays]
    left_out = Without([["a", "e"], ["b"]], fits)
    found = whole.predict_without(left_out, learn, ask, labels[0, :200], None)
    np.testing.assert_allclose(found[0], part.predict(learn, ask, labels[:1, :200], None)[0], atol=1e-6)


def test_cross_fitted_probabilities_do_not_see_their_own_row(rows):
    inputs, labels, weight = rows
    model = TwoModels.of(pd.DataFrame(inputs))
    folds, everyone = np.arange(300) % 5, np.arange(300)
    found = model.cross_predict(everyone, labels[0], folds, weight)
    changed = np.where(folds == 2, 1 - labels[0], labels[0])
    again = model.cross_predict(everyone, changed, folds, weight)
    np.testing.assert_allclose(again[folds == 2], found[folds == 2], atol=1e-6)
    by_hand = model.predict(everyone[folds != 2], everyone[folds == 2], labels[:1, folds != 2], weight)[0]
    np.testing.assert_allclose(found[folds == 2], by_hand, atol=1e-4)

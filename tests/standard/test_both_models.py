"""The two models: many tables side by side are the same as one by one, and as scikit-learn's."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

from butfor.standard import inputs as inputs_module
from butfor.standard.boosting import Questions, fit_boosting
from butfor.standard.inputs import dense, encode, thin
from butfor.standard.logistic import design_of, fit_logistic, levers, predict_logistic
from butfor.standard.model import TwoModels


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
    found = predict_logistic(inputs, fit_logistic(design_of(inputs), labels, weight))
    for own, each in zip(found, labels, strict=True):
        model = LogisticRegression(solver="newton-cholesky", tol=1e-8).fit(inputs, each, sample_weight=weight)
        np.testing.assert_allclose(own, model.predict_proba(inputs)[:, 1], atol=2e-4)


def test_tables_far_from_their_mean_are_fitted_too(rows):
    inputs, labels, _ = rows
    far = np.array([labels[0], 1 - labels[0], inputs[:, 0] > 0, np.zeros(300)])
    together = predict_logistic(inputs, fit_logistic(design_of(inputs), far))
    alone = np.concatenate([predict_logistic(inputs, fit_logistic(design_of(inputs), each[None])) for each in far])
    np.testing.assert_allclose(together, alone, atol=1e-3)
    assert together[3].max() < 0.02


def test_levers_say_how_far_a_label_moves_the_mean(rows):
    inputs, labels, _ = rows
    asked = inputs[:50] + 1
    fitted = fit_logistic(design_of(inputs), labels[:1])
    lever, residual = levers(design_of(inputs), labels[0], design_of(asked), None, None, fitted[0])
    np.testing.assert_allclose(residual, labels[0] - predict_logistic(inputs, fitted)[0])
    for row in (0, 17, 120):
        changed = labels[0].copy()
        changed[row] += 1e-3
        mean = [
            predict_logistic(asked, fit_logistic(design_of(inputs), each[None])).mean() for each in (labels[0], changed)
        ]
        assert (mean[1] - mean[0]) / 1e-3 == pytest.approx(lever[row], rel=0.02, abs=1e-5)


def test_questions_split_numbers_at_quantiles_and_categories_once():
    inputs = np.column_stack([np.arange(100.0), np.arange(100) % 2, np.ones(100), np.arange(100) % 5])
    questions = Questions.of(inputs)
    assert np.bincount(questions.about, minlength=4).tolist() == [16, 1, 0, 4]
    *answers, nobody = questions.answers(inputs)
    assert all(0 < yes.mean() < 1 for yes in answers)
    assert not nobody.any()


def test_boosting_side_by_side_is_boosting_one_by_one(rows):
    inputs, labels, weight = rows
    learn = Questions.of(inputs), inputs[:200]
    model = fit_boosting(*learn, labels[:, :200], weight[:200])
    together = model.predict(inputs[200:])
    alone = [fit_boosting(*learn, each[None, :200], weight[:200]).predict(inputs[200:])[0] for each in labels]
    np.testing.assert_allclose(together, alone, atol=1e-4)
    assert np.array_equal(model.predict(inputs[200:], table=3)[0], together[3])


def test_boosting_learns_an_interaction_that_a_line_cannot():
    rng = np.random.default_rng(1)
    inputs = rng.integers(0, 2, (800, 3)).astype(float)
    truth = np.where(inputs[:, 0] == inputs[:, 1], 0.9, 0.1)
    labels = (rng.random((1, 800)) < truth).astype(float)
    found = fit_boosting(Questions.of(inputs), inputs, labels).predict(inputs)[0]
    assert np.abs(found - truth).max() < 0.12
    assert np.abs(predict_logistic(inputs, fit_logistic(design_of(inputs), labels))[0] - truth).mean() > 0.3


def test_rows_of_no_weight_and_barred_questions_do_not_count(rows):
    inputs, labels, _ = rows
    questions, kept = Questions.of(inputs), np.arange(300) < 200
    by_weight = fit_boosting(questions, inputs, labels[:1], kept.astype(float)[None])
    by_rows = fit_boosting(questions, inputs[kept], labels[:1, kept])
    np.testing.assert_allclose(by_weight.predict(inputs), by_rows.predict(inputs), atol=1e-4)
    barred = fit_boosting(questions, inputs, labels[:1], barred=(questions.about == 0)[None])
    without = fit_boosting(Questions.of(inputs[:, 1:]), inputs[:, 1:], labels[:1])
    np.testing.assert_allclose(barred.predict(inputs), without.predict(inputs[:, 1:]), atol=1e-6)


def test_columns_left_out_are_left_out_of_both_models(rows):
    inputs, labels, _ = rows
    X = pd.DataFrame(inputs, columns=list("abcd")).assign(e=np.where(labels[1] > 0, "x", "y"))
    whole, part = TwoModels.of(X), TwoModels.of(X.drop(columns=["a", "e"]))
    learn, ask = np.arange(200), np.arange(200, 300)
    stays = [~whole.inputs_of(columns) for columns in (["a", "e"], ["b"])]
    fits = [fit_logistic(design_of(whole.inputs[:200, kept]), labels[:1, :200])[0] for kept in stays]
    found = whole.predict_without([["a", "e"], ["b"]], fits, learn, ask, labels[0, :200], None)
    np.testing.assert_allclose(found[0], part.predict(learn, ask, labels[:1, :200], None)[0], atol=1e-6)


def test_cross_fitted_probabilities_do_not_see_their_own_row(rows):
    inputs, labels, weight = rows
    model = TwoModels.of(pd.DataFrame(inputs))
    folds, everyone = np.arange(300) % 5, np.arange(300)
    found = model.cross_predict(everyone, labels[0], folds, everyone, weight)
    changed = np.where(folds == 2, 1 - labels[0], labels[0])
    again = model.cross_predict(everyone, changed, folds, everyone, weight)
    np.testing.assert_allclose(again[folds == 2], found[folds == 2], atol=1e-6)
    by_hand = model.predict(everyone[folds != 2], everyone[folds == 2], labels[:1, folds != 2], weight[folds != 2])[0]
    np.testing.assert_allclose(found[folds == 2], by_hand, atol=1e-4)


@pytest.fixture
def large(monkeypatch):
    """Tables of more than 250 rows are large, and boostings of them learn from 150."""
    monkeypatch.setattr(inputs_module, "LARGE", 250)
    monkeypatch.setattr(inputs_module, "SAMPLE", 150)


def a_table(rows):
    inputs, labels, _ = rows
    return pd.DataFrame(inputs, columns=list("abcd")).assign(e=np.where(labels[1] > 0, "x", "y")), labels


def test_a_large_table_is_sparse_and_says_the_same(rows, large, monkeypatch):
    X, labels = a_table(rows)
    X = X.sort_values("e", ignore_index=True)  # parts of it lack a value
    monkeypatch.setattr(inputs_module, "ROWS_AT_ONCE", 50)
    sparse, columns = encode(X)
    monkeypatch.setattr(inputs_module, "LARGE", 300)
    whole, _ = encode(X)
    assert not isinstance(sparse, np.ndarray)
    np.testing.assert_array_equal(dense(sparse), whole)
    learn, ask = np.arange(5, 280, 2), np.arange(250, 300)
    gone = np.isin(np.arange(whole.shape[1]), [0, 5])
    fits, asked = [], []
    for each in (sparse, whole):
        design, other = design_of(each, learn, gone), design_of(each, ask, gone)
        fits.append(fit_logistic(design, labels[:3, learn]))
        beta = fits[-1][0]
        asked.append([*levers(design, labels[0, learn], other, None, None, beta), design.gram(labels[2, learn])])
        centred = design_of(each, learn, further=labels[0, learn], centred=True)
        asked[-1].append(centred.sums(labels[:2, learn]))
    np.testing.assert_allclose(fits[0][:, ~np.append(False, gone)], fits[1], atol=1e-4)
    assert not fits[0][:, np.append(False, gone)].any()
    for of_sparse, of_whole in zip(asked[0], asked[1], strict=True):
        if of_sparse.shape == of_whole.shape:
            np.testing.assert_allclose(of_sparse, of_whole, atol=1e-4)
    assert columns["e"].stop == whole.shape[1]


def test_a_boosting_of_a_large_table_learns_from_one_sample_whatever_the_labels(rows, large):
    X, labels = a_table(rows)
    model, everyone = TwoModels.of(X), np.arange(300)
    some = thin(300, 150)
    assert len(set(some)) == 150
    found = model.predict(everyone, everyone, labels[:2], None)
    fitted = fit_logistic(design_of(model.inputs), labels[:2])
    boosted = fit_boosting(model.questions, model.inputs[some], labels[:2, some])
    by_hand = 0.5 * predict_logistic(model.inputs, fitted) + 0.5 * boosted.predict(model.inputs)
    np.testing.assert_allclose(found, by_hand, atol=1e-9)

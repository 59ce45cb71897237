"""The parts of the method, each reached two ways: models, the second opinion, drawn tables and
figures."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

from butfor.standard import inputs as inputs_module
from butfor.standard import model as model_module
from butfor.standard.boosting import Questions, fit_boosting
from butfor.standard.explain import ColumnMove, strongest
from butfor.standard.inputs import dense, thin
from butfor.standard.logistic import (
    design_of,
    fit_logistic,
    levers,
    predict_logistic,
)
from butfor.standard.model import Records, TwoModels
from butfor.standard.null import (
    ERROR_FACTOR,
    CommonStandard,
    Group,
    at_once,
)
from butfor.standard.second_opinion import Opinion, folds_of
from butfor.standard.wrong import suspects

EVERYONE = np.arange(300)


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    inputs = np.column_stack([rng.normal(size=(300, 3)), rng.random(300) < 0.3])
    p = 1 / (1 + np.exp(-inputs @ [1.0, -1.0, 0.0, 2.0]))
    return inputs, (rng.random((6, 300)) < p).astype(float), rng.uniform(0.2, 3, 300)


@pytest.fixture(scope="module")
def table(rows):
    inputs, labels, _ = rows
    return pd.DataFrame(inputs, columns=list("abcd")).assign(e=np.where(labels[1] > 0, "x", "y"))


def test_logistic_regressions_are_those_of_scikit_learn(rows):
    inputs, labels, weights = rows
    labels = np.vstack([labels, 1 - labels[0], inputs[:, 0] > 0])  # far from their mean too
    for weight in (None, weights):
        found = predict_logistic(inputs, fit_logistic(design_of(inputs), labels, weight))
        for own, each in zip(found, labels, strict=True):
            model = LogisticRegression(solver="newton-cholesky", tol=1e-8).fit(
                inputs, each, sample_weight=weight
            )
            np.testing.assert_allclose(own, model.predict_proba(inputs)[:, 1], atol=1e-3)
    assert (
        predict_logistic(inputs, fit_logistic(design_of(inputs), np.zeros((1, 300)))).max() < 0.02
    )


def test_levers_say_how_far_a_label_moves_the_mean(rows):
    inputs, labels, _ = rows
    asked, changed = inputs[:50] + 1, labels[0] + 1e-3 * np.eye(300)[[0, 17, 120]]
    fitted = fit_logistic(design_of(inputs), labels[:1])
    lever, residual = levers(design_of(inputs), labels[0], design_of(asked), None, None, fitted[0])
    np.testing.assert_allclose(residual, labels[0] - predict_logistic(inputs, fitted)[0])
    means = [
        predict_logistic(asked, fit_logistic(design_of(inputs), each[None])).mean()
        for each in (labels[0], *changed)
    ]
    assert (np.array(means[1:]) - means[0]) / 1e-3 == pytest.approx(
        lever[[0, 17, 120]], rel=0.02, abs=1e-5
    )


def test_boosting_side_by_side_is_boosting_one_by_one(rows):
    inputs, labels, weight = rows
    learn = Questions.of(inputs), inputs[:200]
    model = fit_boosting(*learn, labels[:, :200], weight[:200])
    together = model.predict(inputs[200:])
    alone = [
        fit_boosting(*learn, each[None, :200], weight[:200]).predict(inputs[200:])[0]
        for each in labels
    ]
    np.testing.assert_allclose(together, alone, atol=1e-4)
    assert np.array_equal(model.predict(inputs[200:], table=3)[0], together[3])


def test_boosting_learns_an_interaction_that_a_line_cannot():
    rng = np.random.default_rng(1)
    inputs = rng.integers(0, 2, (800, 3)).astype(float)
    truth = np.where(inputs[:, 0] == inputs[:, 1], 0.9, 0.1)
    labels = (rng.random((1, 800)) < truth).astype(float)
    found = fit_boosting(Questions.of(inputs), inputs, labels).predict(inputs)[0]
    assert np.abs(found - truth).max() < 0.12
    assert (
        np.abs(predict_logistic(inputs, fit_logistic(design_of(inputs), labels))[0] - truth).mean()
        > 0.3
    )


def test_cross_fitted_probabilities_do_not_see_their_own_row(rows):
    inputs, labels, weight = rows
    model, folds = TwoModels.of(pd.DataFrame(inputs)), EVERYONE % 5
    found = model.cross_predict(EVERYONE, labels[0], folds, EVERYONE, weight)
    out, inside = EVERYONE[folds != 2], EVERYONE[folds == 2]
    by_hand = model.predict(out, inside, labels[:1, out], weight[out])[0]
    np.testing.assert_allclose(found[inside], by_hand, atol=1e-4)


def test_a_large_table_is_sparse_and_says_the_same(rows, table, monkeypatch):
    """Tables of more than 250 rows are large here, and boostings of them learn from 150."""
    _, labels, weight = rows
    X = table.sort_values("e", ignore_index=True)  # parts of it lack a value
    whole = TwoModels.of(X)
    for name, value in {"LARGE_TABLE_ROWS": 250, "BOOSTING_ROWS": 150}.items():
        monkeypatch.setattr(inputs_module, name, value)
    monkeypatch.setattr(model_module, "ROWS_AT_ONCE", 50)
    large, some = TwoModels.of(X), thin(300, 150)
    assert not isinstance(large.inputs, np.ndarray)
    np.testing.assert_array_equal(dense(large.inputs), whole.inputs)
    boosted = fit_boosting(whole.questions, whole.inputs[some], labels[:2, some])
    by_hand = 0.5 * predict_logistic(
        whole.inputs, fit_logistic(design_of(whole.inputs), labels[:2])
    )
    found = large.predict(EVERYONE, EVERYONE, labels[:2])
    np.testing.assert_allclose(found, by_hand + 0.5 * boosted.predict(whole.inputs), atol=1e-9)
    group = Group("g", "b", EVERYONE[250:], EVERYONE[:200])
    group.probabilities = np.full(50, 0.6)
    suspected = [
        suspects(group, Records(x, x, labels[0], weight, None, EVERYONE % 5))
        for x in (large, whole)
    ]
    np.testing.assert_allclose(*suspected, atol=1e-4)


def people(rows=600, seed=0):
    """Two groups whose incomes differ; b's labels also come out worse by themselves."""
    rng = np.random.default_rng(seed)
    b = rng.random(rows) < 0.4
    X = pd.DataFrame(
        {
            "income": rng.normal(size=rows) - b,
            "debts": rng.normal(size=rows),
            "age": rng.random(rows),
        }
    )
    p = 1 / (1 + np.exp(-(1.2 * X["income"] - X["debts"] - 0.6 * b)))
    return X, np.where(b, "b", "a"), (rng.random(rows) < p).to_numpy(float)


def records_of(X, y, clusters=None):
    encoded = TwoModels.of(X)
    return Records(encoded, encoded, y, np.ones(len(y)), clusters, folds_of(len(y), None, 0))


def test_the_second_opinion_is_cross_fitted_aipw_of_the_effect_on_the_treated():
    """θ = mean(d(y − g)/π − (1 − d)(y − g)·e/(1 − e)/π), the score of DoubleML's IRM for the ATTE.
    The robustness value r has |θ| = S·r/√(1 − r), S² = E[(y − g)²]·E[α²]: both of the remaining
    variation explained alike."""
    X, group, y = people()
    ours, others = np.flatnonzero(group == "b"), np.flatnonzero(group == "a")
    opinion = Opinion(records_of(X, y), ours, others)
    order = np.concatenate([ours, others])
    d, labels, e = group[order] == "b", y[order], opinion.propensity
    (share,), (g,) = opinion.shares(labels[None, ~d], np.ones(len(others)))
    score = d * (labels - g) / d.mean() - (1 - d) * (labels - g) * e / (1 - e) / d.mean()
    assert share - labels[d].mean() == pytest.approx(-score.mean())

    inside = opinion.folds == 1
    _, (again,) = opinion.shares(np.where(inside, 0.0, labels)[None, ~d], np.ones(len(others)))
    np.testing.assert_allclose(again[inside], g[inside], atol=1e-9)
    assert np.abs(again - g).max() > 0.01

    value = opinion.robustness_value(0.08, g, np.full(len(y), 0.4))
    alpha = d / d.mean() - (1 - d) * e / (1 - e) / d.mean()
    scale = np.sqrt(((labels - np.where(d, 0.4, g)) ** 2).mean() * (alpha**2).mean())
    assert scale * value / np.sqrt(1 - value) == pytest.approx(0.08)
    assert opinion.robustness_value(0.0, g, np.full(len(y), 0.4)) == 0


def test_a_part_takes_whole_clusters_and_those_who_resemble_the_group_more_often():
    rng = np.random.default_rng(4)
    others, propensity = 1200 + np.arange(30_400), rng.uniform(0.1, 0.9, 31_600)
    encoded, ones = SimpleNamespace(cross_predict=lambda *_: propensity), np.ones(31_600)
    opinion, whole = (
        Opinion(
            Records(encoded, encoded, ones, ones, clusters, np.zeros(31_600, int)),
            np.arange(1200),
            others,
        )
        for clusters in (None, np.r_[np.zeros(1200, int), 1 + np.arange(30_400) // 4])
    )
    part = opinion.part()
    assert len(part.rows) == pytest.approx(2500, rel=0.02)
    assert (1 / part.taken).sum() == pytest.approx(len(others), rel=0.05)
    near = np.argsort(opinion.odds[part.rows])
    assert part.taken[near[-1]] > part.taken[near[0]]
    assert len(set(whole.part().rows // 4)) * 4 == len(whole.part().rows)


def common(X, group, y, clusters=None):
    return CommonStandard(records_of(X, y, clusters), [np.unique(group, return_inverse=True)[1]])


def test_one_standard_gives_people_with_the_same_columns_the_same():
    X, group, y = people()
    twice = pd.concat([X, X], ignore_index=True)
    null = common(
        twice, np.concatenate([group, np.where(group == "a", "b", "a")]), np.concatenate([y, y])
    )
    np.testing.assert_allclose(null.everybody[: len(X)], null.everybody[len(X) :])
    plain = common(X, group, y)
    assert plain.own[group == "b"].mean() < plain.everybody[group == "b"].mean()
    assert plain.own.mean() == pytest.approx(y.mean(), abs=0.02)


def figures(gap, seed=0, second=0.0, tables=200):
    """A group's difference, and that of a second opinion, whose draws follow the first one's."""
    first = 0.01 * np.random.default_rng(seed).standard_normal(tables)
    draws = 0.6 + np.array(
        [first, first + 0.001 * np.random.default_rng(2).standard_normal(tables)]
    )
    group = Group("sex", "f", EVERYONE, EVERYONE)
    group.opinion = "AIPW"
    group.draws, group.error, group.difference = (
        draws,
        ERROR_FACTOR * draws.std(axis=1),
        np.array([gap, second]),
    )
    group.recorded = np.array([0.5, 0.5])
    group.ends = np.array([group.difference - 2 * group.error, group.difference + 2 * group.error])
    group.null, group.label_draws = (
        ERROR_FACTOR * (draws[0] - draws[0].mean()),
        np.zeros((tables, 1)),
    )
    group.standard_draws = draws - draws.mean(axis=1, keepdims=True)
    return group


def test_p_values_count_draws_and_go_on_by_the_normal_tail():
    near = figures(0.01)
    (verdict,) = at_once([near])
    assert verdict.p == verdict.p_adjusted == (1 + (np.abs(near.null) >= 0.01).sum()) / 201
    large, none = at_once([figures(0.2), figures(0.0, seed=1)])
    assert large.p < 1e-6 < 0.01 < none.p
    assert large.p <= large.p_adjusted <= 2.1 * large.p
    (undrawn,) = at_once([figures(0.1, tables=1)])
    assert undrawn.p is undrawn.p_adjusted is undrawn.bounds is None


def test_p_values_and_bounds_are_adjusted_by_the_largest_of_all_groups_draw_by_draw():
    groups = [figures(0.015, seed) for seed in range(5)]
    largest = np.max([np.abs(f.null) / f.null.std(ddof=1) for f in groups], axis=0)
    for f, verdict in zip(groups, at_once(groups), strict=True):
        bounds = verdict.bounds
        assert verdict.p_adjusted == pytest.approx(
            max(verdict.p, (1 + (largest >= 0.015 / f.null.std(ddof=1)).sum()) / 201)
        )
        low, high = f.interval(0)
        assert bounds[0] < low < high < bounds[1]
    same = [figures(0.02)] * 3  # one test thrice is one test
    assert all(verdict.p == verdict.p_adjusted for verdict in at_once(same))


def test_opinions_disagree_by_the_spread_of_their_difference():
    assert figures(0.08, second=0.05).disagrees, (
        "three points apart, though each is known to one only"
    )
    assert not figures(0.08, second=0.079).disagrees


def test_the_strongest_column_brings_the_difference_towards_zero():
    a, b, unclear = (
        ColumnMove("sex", "f", *of)
        for of in (("a", 0.02, 0.005), ("b", -0.05, 0.005), ("c", 0.03, 0.04))
    )
    assert strongest([a, b, unclear], 0.1) is a
    assert strongest([a, b, unclear], -0.1) is b
    assert strongest([unclear], 0.1) is None

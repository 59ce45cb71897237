"""What explains a gap, the second opinion, overlap, and tables drawn by one standard: each reached two ways."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin

import butfor
from butfor.standard.explain import column_sets, strongest
from butfor.standard.groups import GroupStandard, Overlap
from butfor.standard.inference import WIDER, Drawn, at_once, disagree
from butfor.standard.logistic import design_of, fit_logistic, predict_logistic
from butfor.standard.model import TwoModels
from butfor.standard.null import CommonStandard
from butfor.standard.second_opinion import EVERYBODY, Opinion, folds_of


def people(rows=600, seed=0):
    """Two groups whose incomes differ; b's labels also come out worse by themselves."""
    rng = np.random.default_rng(seed)
    b = rng.random(rows) < 0.4
    X = pd.DataFrame({"income": rng.normal(size=rows) - b, "debts": rng.normal(size=rows), "age": rng.random(rows)})
    p = 1 / (1 + np.exp(-(1.2 * X["income"] - X["debts"] - 0.6 * b)))
    return X, np.where(b, "b", "a"), (rng.random(rows) < p).to_numpy()


class LeastSquares(ClassifierMixin, BaseEstimator):
    def fit(self, X, y):
        self.classes_ = np.array([False, True])
        self.beta_ = np.linalg.lstsq(np.column_stack([np.ones(len(X)), X]), y.astype(float), rcond=None)[0]
        return self

    def predict_proba(self, X):
        p = np.column_stack([np.ones(len(X)), X]) @ self.beta_
        return np.column_stack([1 - p, p])


def compared(X, group, y, **how):
    how = {"draws": 0, "n_jobs": 1, "adverse": False} | how
    return butfor.compare_standards(X, y, sensitive_features=group, **how)


def test_least_squares_give_the_twofold_decomposition():
    """Kitagawa–Oaxaca–Blinder with the others' coefficients: ȳ_o − ȳ_h = (x̄_o − x̄_h)·β_o + x̄_h·(β_o − β_h)."""
    X, group, y = people()
    found = compared(X, group, y, standard=LeastSquares())
    design = np.column_stack([np.ones(len(X)), X])
    for value in "ab":
        ours, others = group == value, group != value
        beta = {
            k: np.linalg.lstsq(design[rows], y[rows].astype(float), rcond=None)[0]
            for k, rows in ((0, ours), (1, others))
        }
        mean, other_mean = design[ours].mean(axis=0), design[others].mean(axis=0)
        c = found.of_group(value)
        assert c.raw_gap == pytest.approx(y[others].mean() - y[ours].mean())
        assert c.explained == pytest.approx((other_mean - mean) @ beta[1])
        assert c.difference == pytest.approx(mean @ (beta[1] - beta[0]))


def opinion_of(X, group, y, weight=None):
    encoded = TwoModels.of(X)
    ours, others = np.flatnonzero(group == "b"), np.flatnonzero(group == "a")
    opinion = Opinion.of(encoded, ours, others, folds_of(len(X), None, 0), weight)
    return opinion, opinion.outcomes(encoded, y[None, others].astype(float), EVERYBODY)


def test_the_second_opinion_is_aipw_of_the_effect_on_the_treated():
    """θ = mean(d(y − g)/π − (1 − d)(y − g)·e/(1 − e)/π), the score of DoubleML's IRM for the ATTE."""
    X, group, y = people()
    opinion, outcomes = opinion_of(X, group, y)
    order = np.concatenate([opinion.group, opinion.others])
    d, labels, e, g = group[order] == "b", y[order].astype(float), opinion.propensity, outcomes[0]
    score = d * (labels - g) / d.mean() - (1 - d) * (labels - g) * e / (1 - e) / d.mean()
    others = y[None, opinion.others].astype(float)
    expected = opinion.expected(outcomes, others, EVERYBODY)[0]
    assert expected - y[group == "b"].mean() == pytest.approx(-score.mean())
    doubled, same = opinion_of(X, group, y, np.full(len(X), 2.0))
    assert doubled.expected(outcomes, others, EVERYBODY)[0] == pytest.approx(expected, abs=0.02)
    assert same.shape == outcomes.shape


def test_nuisances_are_cross_fitted():
    X, group, y = people()
    opinion, outcomes = opinion_of(X, group, y)
    order = np.concatenate([opinion.group, opinion.others])
    changed = y.copy()
    changed[order[opinion.folds == 1]] = False
    again = opinion.outcomes(TwoModels.of(X), changed[None, opinion.others].astype(float), EVERYBODY)
    inside = opinion.folds == 1
    np.testing.assert_allclose(again[:, inside], outcomes[:, inside], atol=1e-9)
    assert np.abs(again - outcomes).max() > 0.01


def test_the_robustness_value_solves_the_bound():
    """|θ| = S·r/√(1 − r), S² = E[(y − g)²]·E[α²], both of the remaining variation explained alike."""
    X, group, y = people()
    opinion, outcomes = opinion_of(X, group, y)
    own = np.full(len(y), 0.4)
    value = opinion.robustness_value(0.08, outcomes[0], own, y.astype(float))
    order = np.concatenate([opinion.group, opinion.others])
    d, e = group[order] == "b", opinion.propensity
    g = np.where(d, 0.4, outcomes[0])
    alpha = d / d.mean() - (1 - d) * e / (1 - e) / d.mean()
    scale = np.sqrt(((y[order] - g) ** 2).mean() * (alpha**2).mean())
    assert scale * value / np.sqrt(1 - value) == pytest.approx(0.08)
    assert opinion.robustness_value(0.0, outcomes[0], own, y.astype(float)) == 0
    assert opinion.robustness_value(0.2, outcomes[0], own, y.astype(float)) > value


def test_overlap_is_poor_where_groups_hardly_meet():
    X, group, y = people()
    fine = compared(X, group, y, draws=5).of_group("b").overlap
    assert fine.comparable > 0.9 * (group == "b").sum()
    assert not fine.poor
    assert fine.difference is None
    apart = X.assign(income=X["income"] - 4 * (group == "b"))
    found = compared(apart, group, y, draws=5).of_group("b")
    assert found.overlap.poor
    assert found.overlap.effective_others < fine.effective_others
    assert "That is little" in " ".join(found.details()) or found.overlap.comparable == 0


def test_leaving_out_a_column_moves_the_difference_as_a_refit_does():
    X, group, y = people()
    found = compared(X, group, y)
    without = compared(X.drop(columns="income"), group, y)
    for value in "ab":
        move = found.columns.loc[("group", value, "income"), "move"]
        assert move == pytest.approx(without.of_group(value).difference - found.of_group(value).difference, abs=1e-6)
    b = found.of_group("b")
    assert b.strongest_column == "income"
    assert b.times_strongest == pytest.approx(b.difference / b.strongest_move)
    assert b.difference + b.strongest_move == pytest.approx(without.of_group("b").difference, abs=1e-6)
    details = " ".join(b.details())
    assert f"Leaving out income moves the gap by {100 * b.strongest_move:.1f} points." in details
    assert "a comparison, not a bound" in details
    assert "missing column" not in " ".join(replace(b, p_adjusted=0.5).details()), "nothing to remove: it may be chance"
    own = compared(X, group, y, standard=LeastSquares())
    fewer = compared(X.drop(columns="debts"), group, y, standard=LeastSquares())
    assert own.columns.loc[("group", "a", "debts"), "move"] == pytest.approx(
        fewer.of_group("a").difference - own.of_group("a").difference
    )


def test_the_paired_error_of_a_move_is_that_of_tables_drawn_again():
    X, group, _ = people(1500)
    rng = np.random.default_rng(5)
    p = 1 / (1 + np.exp(-(X["income"] - X["debts"]).to_numpy()))
    labels = (rng.random((200, len(p))) < p).astype(float)
    ours, others = group == "b", group == "a"
    encoded = TwoModels.of(X).inputs
    means = [
        predict_logistic(inputs[ours], fit_logistic(design_of(inputs[others]), labels[:, others])).mean(axis=1)
        for inputs in (encoded, encoded[:, 1:])
    ]
    error = compared(X, group, labels[0] > 0).columns.loc[("group", "b", "income"), "error"]
    assert error == pytest.approx((means[1] - means[0]).std(), rel=0.2)


def test_correlated_columns_are_also_left_out_together():
    X, group, y = people()
    X["salary"] = X["income"] + 0.1 * X["age"]
    assert column_sets(TwoModels.of(X))[-1] == ["income", "salary"]
    found = compared(X, group, y)
    together = found.columns.loc[("group", "b", "income + salary"), "move"]
    alone = found.columns.loc[("group", "b"), "move"]
    assert together > 2 * max(alone["income"], alone["salary"])
    assert found.of_group("b").strongest_column != "income + salary"


@pytest.mark.parametrize("standard", [None, LeastSquares()])
def test_without_its_only_column_the_gap_is_the_raw_one(standard):
    X, group, y = people()
    found = compared(X[["income"]], group, y, standard=standard)
    for c in found.comparisons:
        move = found.columns.loc[("group", c.group, "income"), "move"]
        assert c.difference + move == pytest.approx(c.raw_gap, abs=0.002)


def test_the_strongest_column_brings_the_difference_towards_zero():
    moves = [("a", 0.02, 0.005), ("b", -0.05, 0.005), ("c", 0.03, 0.04), ("a + c", 0.06, 0.001)]
    assert strongest(moves, 3, 0.1) == ("a", 0.02)
    assert strongest(moves, 3, -0.1) == ("b", -0.05)
    assert strongest(moves[2:], 1, 0.1) is None


# --- tables drawn by one standard --------------------------------------------------------------------


def one_standard(X, group, y, clusters=None):
    codes = np.unique(group, return_inverse=True)[1]
    return CommonStandard.of(TwoModels.of(X), [codes], y.astype(float), None, clusters)


def test_one_standard_gives_people_with_the_same_columns_the_same():
    X, group, y = people()
    twice = pd.concat([X, X], ignore_index=True)
    null = one_standard(twice, np.concatenate([group, np.where(group == "a", "b", "a")]), np.concatenate([y, y]))
    np.testing.assert_allclose(null.everybody[: len(X)], null.everybody[len(X) :])
    plain = one_standard(X, group, y)
    assert plain.own[group == "b"].mean() < plain.everybody[group == "b"].mean()
    assert plain.own.mean() == pytest.approx(y.mean(), abs=0.02)


def test_labels_of_a_cluster_agree_as_often_as_the_recorded_ones():
    rng = np.random.default_rng(3)
    clusters = np.repeat(np.arange(800), 2)
    X = pd.DataFrame({"income": rng.normal(size=1600)})
    group = np.where(rng.random(1600) < 0.5, "a", "b")
    latent = np.sqrt(0.6) * rng.normal(size=800)[clusters] + np.sqrt(0.4) * rng.normal(size=1600)
    y = latent + X["income"].to_numpy() > 0
    null = one_standard(X, group, y, clusters)
    assert null.correlation == pytest.approx(0.6, abs=0.12)
    drawn = np.array([null.uniforms((0, k)) < null.everybody for k in range(40)])
    assert (drawn[:, ::2] == drawn[:, 1::2]).mean() == pytest.approx((y[::2] == y[1::2]).mean(), abs=0.03)
    assert drawn.mean() == pytest.approx(null.everybody.mean(), abs=0.02)
    alone = one_standard(X, group, rng.random(1600) < 0.5, clusters)
    assert alone.correlation < 0.15


def drawn_figures(difference=0.05, draws=200, spread=0.01, seed=0, **change):
    rng = np.random.default_rng(seed)
    some = 0.62 + spread * rng.standard_normal(draws)
    settings = {
        "expected": 0.6 + difference,
        "recorded": 0.58,
        "draws": some,
        "own_draws": np.full(draws, 0.6),
        "one_standard": 0.6,
        "label_variance": 0.0,
        "label_draws": np.zeros((draws, 1)),
        "few": False,
        "clustered": False,
    }
    return Drawn(**settings | change)


def test_p_values_count_draws_and_go_on_by_the_normal_tail():
    figures = drawn_figures(difference=0.018)
    z = np.abs(figures.null)
    (p, adjusted, _), *_ = at_once([figures])
    assert figures.centre == pytest.approx(0.02, abs=0.003)
    assert p == (1 + (z >= abs(figures.difference)).sum()) / 201
    assert adjusted == p
    far = drawn_figures(difference=0.2)
    (p, adjusted, _), (other, *_) = at_once([far, drawn_figures(difference=0.0, seed=1)])
    assert p < 1e-6 < 1 / 201
    assert p <= adjusted <= 2.1 * p
    assert other > 0.01
    assert at_once([drawn_figures(draws=1)]) == [None]


def test_p_values_are_adjusted_by_the_largest_of_all_groups_draw_by_draw():
    figures = [drawn_figures(difference=0.02, seed=seed) for seed in range(5)]
    largest = np.max([np.abs(f.null) / f.null.std(ddof=1) for f in figures], axis=0)
    for f, (p, adjusted, _) in zip(figures, at_once(figures), strict=True):
        z = abs(f.difference) / f.null.std(ddof=1)
        assert adjusted == pytest.approx(max(p, (1 + (largest >= z).sum()) / 201))
    same = [drawn_figures(difference=0.02)] * 3  # one test thrice is one test
    assert all(p == adjusted for p, adjusted, _ in at_once(same))


def test_errors_join_draws_and_own_labels():
    figures = drawn_figures(label_variance=0.0004)
    assert figures.error == pytest.approx(WIDER * np.sqrt(figures.draws.var(ddof=1) + 0.0004))
    low, high = figures.interval
    assert (low + high) / 2 == pytest.approx(figures.difference)
    assert drawn_figures(draws=1).interval is None


def test_opinions_disagree_by_the_spread_of_their_difference():
    first = drawn_figures()
    near = drawn_figures(draws=200)
    assert not disagree(first, near)
    second = drawn_figures(difference=0.08)
    shared = Drawn(**vars(second) | {"draws": first.draws + 0.001 * np.random.default_rng(2).standard_normal(200)})
    assert disagree(first, shared)  # 3 points apart, though each is known to 1 only
    assert not disagree(first, drawn_figures(difference=0.08, seed=9))


def test_little_overlap_is_said_with_the_gap_among_comparable_rows():
    settings = {"attribute": "sex", "group": "f", "rows": 100, "recorded": 0.5, "expected": 0.6, "difference": 0.1}
    poor = GroupStandard(**settings, overlap=Overlap(40, 900, 12.3, True, 0.04, (-0.1, 0.2)))
    assert (
        "40 of 100 rows have comparable people in other groups; weighted to resemble the group, those 900 people count "
        "as 12. That is little. Among the comparable rows: 4.0 points less often (−10 to 20)."
    ) in poor.details()


@pytest.mark.parametrize(
    ("raw_gap", "explained", "sentence"),
    [
        (0.19, 0.13, "The recorded columns explain 13.0 of the 19.0 points."),
        (-0.07, -0.02, "The recorded columns explain 2.0 of the 7.0 points."),
        (0.02, -0.03, "Given the recorded columns, the gap is 3.0 points wider than the raw one."),
        (0.02, 0.05, "The recorded columns explain more than the raw gap of 2.0 points."),
        (0.0, 0.0, "all in other groups 50.0 %."),
    ],
)
def test_what_columns_explain_is_said_without_signs(raw_gap, explained, sentence):
    gap = raw_gap - explained
    c = GroupStandard("sex", "f", 100, 0.5, 0.5 + gap, gap, raw_gap=raw_gap, explained=explained)
    assert c.details()[0].endswith(sentence)
    assert "−" not in c.details()[0]
    assert ("as often as" in c.sentence("yes")) == (gap == 0)

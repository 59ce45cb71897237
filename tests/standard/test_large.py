"""Large and weighted tables: a verdict does not turn as a table grows, and only ratios of weights matter."""

import numpy as np
import pandas as pd
import pytest

import butfor
from butfor.standard import second_opinion
from butfor.standard.model import TwoModels
from butfor.standard.second_opinion import EVERYBODY, Opinion, folds_of


def people(rows, seed, lost=0.0):
    """Labels depend on the size of a number, whatever its sign: no sum of columns says that, so that two honest methods
    differ. Group b loses a share of its favourable labels."""
    rng = np.random.default_rng(seed)
    group = rng.random(rows) < 0.4
    income, debts = rng.normal(size=rows) + 0.8 * group, rng.normal(size=rows)
    favourable = rng.random(rows) < 1 / (1 + np.exp(-(1.2 * np.abs(income) - 0.9 + 0.5 * debts)))
    favourable &= ~(group & (rng.random(rows) < lost))
    X = pd.DataFrame({"income": income.round(3), "debts": debts.round(3), "group": np.where(group, "b", "a")})
    return X, np.where(favourable, "yes", "no")


def compared(X, y, **settings):
    found = butfor.compare_standards(
        X, y, sensitive_features="group", reference="a", adverse="no", **{"draws": 30, "n_jobs": 1} | settings
    )
    return found, found.of_group("b")


@pytest.fixture(scope="module")
def large():
    return compared(*people(12_000, 3, lost=0.1))


def test_two_estimates_that_differ_in_size_alone_do_not_acquit_a_large_table(large):
    found, b = large
    second = b.second_opinion
    assert second.disagrees
    assert b.differs
    assert b.interval[0] <= min(b.difference, second.interval[0])
    assert b.interval[1] >= max(b.difference, second.interval[1])
    assert f"{100 * second.difference:.1f}" in found.answer


def test_spreads_by_a_part_of_the_others_are_those_by_all(large, monkeypatch):
    X, y = people(4000, 3)
    _, whole = compared(X, y, draws=60)
    monkeypatch.setattr(second_opinion, "PART_ROWS", 1000)
    _, part = compared(X, y, draws=60)
    assert part.difference != whole.difference  # its centre is estimated anew
    assert part.centre == pytest.approx(whole.centre, abs=0.5 * whole.error)
    assert part.error == pytest.approx(whole.error, rel=0.2)


def test_a_part_takes_whole_clusters_and_those_who_resemble_the_group_more_often():
    X, _ = people(5000, 4)
    encoded, rows = TwoModels.of(X[["income", "debts"]]), np.arange(5000)
    clusters = rows // 4
    group, others = rows[:1200], rows[1200:]
    opinion = Opinion.of(encoded, group, others, folds_of(5000, clusters, 0), None)
    assert opinion.part(clusters) is EVERYBODY  # 3 800 rows are not many
    many = Opinion(
        group,
        np.tile(others, 8),
        np.tile(opinion.folds, 8),
        np.r_[opinion.propensity[:1200], np.tile(opinion.propensity[1200:], 8)],
        None,
    )
    part = many.part(None)
    assert len(part.rows) == pytest.approx(second_opinion.PART_ROWS // 4, rel=0.02)
    assert (1 / part.taken).sum() == pytest.approx(len(many.others), rel=0.05)
    near = np.argsort(many.odds[part.rows])
    assert part.taken[near[-1]] > part.taken[near[0]]
    whole = many.part(np.r_[np.zeros(1200, int), np.arange(len(many.others)) // 4])
    assert len(set(whole.rows // 4)) * 4 == len(whole.rows)


def test_only_ratios_of_weights_matter():
    X, y = people(600, 5, lost=0.2)
    weight = np.random.default_rng(1).uniform(0.5, 2, 600)
    _, plain = compared(X, y, sample_weight=weight)
    _, shares = compared(X, y, sample_weight=weight / weight.sum())
    assert (shares.difference, shares.p) == (pytest.approx(plain.difference), plain.p)
    assert shares.interval == pytest.approx(plain.interval)


def test_probabilities_of_being_wrong_add_up_to_the_weighted_shortfall():
    X, y = people(600, 5, lost=0.2)
    weight = np.where(X["income"] > 0, 3.0, 1.0)
    found, b = compared(X, y, sample_weight=weight)
    inside = (X["group"] == "b").to_numpy()
    assert b.difference > 0
    assert found.wrong[inside] @ weight[inside] == pytest.approx(b.difference * weight[inside].sum())


def test_draws_do_not_follow_a_table_that_was_made_with_the_same_seed():
    """numpy's generator of (0, 0) is that of 0."""
    _, zero = compared(*people(3000, 0))
    _, other = compared(*people(3000, 1))
    assert zero.error < 1.5 * other.error

"""Seed control and collateral: counted by hand, and read in words."""

import numpy as np
import pytest
from scipy.stats import binomtest

from butfor.mlp.recipe import Recipe
from butfor.mlp.reference import train
from butfor.result.control import Collateral, SeedControl
from conftest import fitted


@pytest.fixture(scope="module")
def controlled():
    audit, data = fitted("salary", protocol="exhaustive", seeds=6)
    return audit, data, audit.explain_all(data.X_test, data.y_test)


def test_seed_counts_are_those_of_retraining_by_hand(controlled):
    audit, data, population = controlled
    X = audit.model_.encoder.transform(data.X_test)
    for verdict in population.found:
        with_, without = [], []
        for seed in range(1, 7):
            recipe = Recipe.from_dict(audit.model_.network.recipe.to_dict() | {"seed": seed})
            for flips, counts in (((), without), (verdict.positions, with_)):
                logit = train(recipe, audit.model_.rows, flips).logits(X)[verdict.case]
                counts.append((logit > 0) != (verdict.logit > 0))
        control = verdict.control
        assert (control.seeds, control.with_flips, control.without_flips) == (6, sum(with_), sum(without))
        assert control.only_with_flips == sum(np.array(with_) & ~np.array(without))
        assert f"Holds in {sum(with_)} of 6 other seeds" in control.sentence


def test_collateral_is_counted_on_the_other_people(controlled):
    audit, data, population = controlled
    X = audit.model_.encoder.transform(data.X_test)
    before = audit.model_.network.predict(X)
    for verdict in population.found:
        after = train(audit.model_.network.recipe, audit.model_.rows, verdict.positions).predict(X)
        assert verdict.collateral.others == 10
        assert verdict.collateral.changed == (before != after).sum() - 1
        assert verdict.collateral.accuracy_before == pytest.approx((before == data.y_test).mean())
        assert verdict.collateral.accuracy_after == pytest.approx((after == data.y_test).mean())


def test_controls_survive_the_record(controlled):
    from butfor import Population

    population = controlled[2]
    again = Population.from_json(population.to_json())
    assert [v.control for v in again] == [v.control for v in population]
    assert [v.collateral for v in again] == [v.collateral for v in population]
    assert [v.fragile for v in again] == [v.fragile for v in population]


@pytest.mark.parametrize(("only_with", "only_without"), [(0, 0), (5, 0), (16, 1), (3, 3), (2, 9), (20, 0)])
def test_the_test_is_exact_and_one_sided(only_with, only_without):
    control = SeedControl(20, only_with, only_without, only_with, only_without)
    n = only_with + only_without
    expected = binomtest(only_with, n, alternative="greater").pvalue if n else 1.0
    assert control.p_value == pytest.approx(expected)
    assert control.fragile == (expected > 0.05)


def test_words():
    strong = SeedControl(20, 17, 1, 16, 0)
    assert strong.sentence.startswith("Holds in 17 of 20 other seeds; without any flip 1 of 20 decide so")
    assert "more than seed noise" in strong.sentence
    assert "fragile" in SeedControl(20, 10, 9, 3, 2).sentence
    assert Collateral(99, 3).sentence == "3 of 99 other test people are decided otherwise too."
    assert "72.0 % → 71.5 %" in Collateral(99, 3, 0.72, 0.715).sentence


def test_populations_tell_fragile_from_robust(controlled):
    population = controlled[2]
    fragile = [v for v in population.found if v.fragile]
    assert len(population.robust) == len(population.found) - len(fragile)
    groups = population.by_group
    assert (groups["share_robust"] <= groups["share"]).all()
    assert (groups["median_margin"] > 0).all()
    assert any("fewer than 10" in warning for warning in population.warnings)
    assert f"{len(fragile)} of the 3 found are fragile" in population.details


def test_no_seeds_no_verdict_on_noise(salary_population):
    assert all(v.control is None and v.fragile is None for v in salary_population)
    assert "fragile" not in salary_population.details

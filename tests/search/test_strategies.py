"""Strategies: which attempts follow from a ranking, and what a budget means."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from butfor.errors import SettingError
from butfor.search import STRATEGIES, TenAttempts, as_strategy, budget_in_labels
from butfor.search.state import PersonSearch, RankedRows


def attempts(name: str, flippable: int, budget: int, drawn: bool = False, seed: int = 0) -> list[tuple[int, ...]]:
    order = 1000 - np.arange(flippable)
    person = RankedRows(0, 1.0, order, budget, np.random.default_rng(seed), flippable, drawn)
    return list(STRATEGIES[name]().attempts(person))


def test_algorithm_1_flips_the_top_k_together():
    assert attempts("algorithm1", 50, 3) == [(1000,), (999, 1000), (998, 999, 1000)]
    assert len(attempts("algorithm1", 2, 5)) == 2


def test_singles_walk_down_a_tenth_of_the_ranking():
    assert attempts("singles", 47, 1) == [(1000,), (999,), (998,), (997,)]
    assert attempts("singles", 5, 1) == [(1000,)]
    draws = {a for seed in range(20) for a in attempts("singles", 40, 1, drawn=True, seed=seed)}
    assert len(draws) > 20  # by chance any flippable row can come, not only the top ones


def test_attempts_try_ten_sets_per_size():
    sets = attempts("attempts", 500, 3)
    assert [len(s) for s in sets] == [1] * 10 + [2] * 10 + [3] * 10
    for k in (1, 2, 3):
        own = sets[10 * (k - 1) : 10 * k]
        assert own[0] == tuple(range(1001 - k, 1001))
        pool = set(1000 - np.arange(TenAttempts.reach(k)))
        assert all(set(s) <= pool for s in own)


@pytest.mark.parametrize("k", range(1, 30))
def test_the_sampling_pool_is_the_smallest_with_more_than_ten_choices(k):
    a = TenAttempts.reach(k) // k
    assert math.comb(a * k, k) > 10
    assert a == 1 or math.comb((a - 1) * k, k) <= 10


def test_exhaustive_leaves_nothing_untried():
    exhaustive = STRATEGIES["exhaustive"]()
    assert exhaustive.count(30, 1) == len(set(attempts("exhaustive", 30, 1))) == 30
    with pytest.raises(SettingError, match="the budget is 2 labels"):
        attempts("exhaustive", 30, 2)


@given(
    st.sampled_from(["algorithm1", "singles", "attempts"]),
    st.integers(0, 60),
    st.integers(1, 8),
    st.booleans(),
)
def test_no_strategy_oversteps_its_budget_or_its_count(name, flippable, budget, drawn):
    strategy = STRATEGIES[name]()
    depth = strategy.depth(flippable, budget)
    order = np.arange(flippable) if drawn else np.arange(flippable)[:depth]
    sets = list(strategy.attempts(RankedRows(0, 1.0, order, budget, np.random.default_rng(0), flippable, drawn)))
    assert len(sets) <= strategy.count(flippable, budget)
    for flips in sets:
        assert 1 <= len(flips) <= max(1, budget)
        assert list(flips) == sorted(set(flips))


@pytest.mark.parametrize(
    ("budget", "n", "labels"),
    [(0.001, 600, 1), (0.001, 3702, 4), (0.001, 18000, 18), (0.001, 18292, 19), (0.001, 27132, 28),
     (3, 600, 3), (3.0, 600, 3), (600, 600, 600)],
)  # fmt: skip
def test_budgets_as_published(budget, n, labels):
    assert budget_in_labels(budget, n) == labels


@pytest.mark.parametrize("budget", [0, -1, 601, 2.5, True, "many"])
def test_budgets_that_make_no_sense_are_refused(budget):
    with pytest.raises(SettingError, match="budget="):
        budget_in_labels(budget, 600)


def test_an_unknown_strategy_is_named():
    with pytest.raises(SettingError, match="'algorithm1', 'singles', 'attempts', 'exhaustive'"):
        as_strategy("guess")


@pytest.mark.parametrize("away", [-1.0, 1.0])
def test_a_training_that_diverged_turns_nobody(away):
    search = PersonSearch(0, away)
    assert not search.changes_decision(float("nan"))
    assert search.changes_decision(np.array([float("nan"), 2.0 * away, -2.0 * away])).tolist() == [False, True, False]

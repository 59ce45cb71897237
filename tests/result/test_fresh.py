"""Fresh seeds and collateral: counted by hand, bounded exactly, and read in words."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, norm

from butfor import Training
from butfor.models.trainer import Trainer
from butfor.nets import train_one as train
from butfor.result.fresh import (
    DEFAULT_SEEDS,
    FIRST_LOOK_SEEDS,
    LEANING,
    SEED_BOUND,
    SOLID,
    UNDECIDED,
    FreshSeeds,
    paired_interval,
)
from butfor.review.gate import check_solid
from conftest import fitted

SEEDS = 2


@pytest.fixture(scope="module")
def controlled():
    audit, data = fitted("salary", strategy="exhaustive", fresh_seeds=SEEDS)
    return audit, data, audit.explain_all(data.X_test, data.y_test)


def test_seeds_and_side_effects_are_those_of_retraining_by_hand(controlled):
    audit, data, population = controlled
    network, X, networks = audit.model_.network, audit.model_.encoded(data.X_test), {}
    decided = network.predict(X)
    for verdict in population.eligible:
        with_, without = [], []
        for seed in range(10_000, 10_000 + SEEDS):
            for flips, counts in (((), without), (verdict.positions, with_)):
                if (seed, flips) not in networks:
                    recipe = replace(network.recipe, seed=seed)
                    networks[seed, flips] = train(recipe, audit.model_.rows, flips).logits(X)
                counts.append((networks[seed, flips][verdict.case] > 0) != (verdict.logit > 0))
        assert verdict.base == pytest.approx(np.mean(without))
        if verdict.found:
            fresh, others = verdict.fresh, verdict.collateral
            assert (fresh.seeds, fresh.with_flips, fresh.without_flips) == (
                SEEDS,
                sum(with_),
                sum(without),
            )
            assert fresh.only_with_flips == sum(np.array(with_) & ~np.array(without))
            assert f"with these flips {sum(with_)} of {SEEDS} models" in fresh.sentence
            after = train(network.recipe, audit.model_.rows, verdict.positions).predict(X)
            assert (others.others, others.changed) == (10, (decided != after).sum() - 1)
            assert others.accuracy_before == pytest.approx((decided == data.y_test).mean())
            assert others.accuracy_after == pytest.approx((after == data.y_test).mean())


@settings(max_examples=15, deadline=None)
@given(st.integers(1, 80), st.data())
def test_the_paired_interval_holds_what_the_score_test_does_not_reject(n, data):
    b = data.draw(st.integers(0, n))
    c = data.draw(st.integers(0, n - b))
    low, high = paired_interval(b, c, n)
    assert -1 <= low <= (b - c) / n <= high <= 1
    assert paired_interval(c, b, n) == pytest.approx((-high, -low))
    for d in np.linspace(-0.99, 0.99, 23):
        # Under a difference d, q is the likeliest share of seeds with the second only.
        q = max(np.roots([2 * n, (2 * n - b + c) * d - b - c, -c * d * (1 - d)]).real)
        z = (b - c - n * d) / np.sqrt(max(n * (2 * q + d - d * d), 1e-300))
        if abs(d - low) > 1e-6 and abs(d - high) > 1e-6:
            assert (abs(z) < norm.ppf(0.975)) == (low < d < high)


def counts(n, both, only_with, only_without):
    return FreshSeeds(n, both + only_with, both + only_without, only_with, only_without)


@pytest.mark.parametrize(
    ("fresh", "word"),
    [
        (counts(59, 0, 58, 0), SOLID), (counts(59, 0, 57, 0), LEANING), (counts(59, 28, 30, 0), SOLID),
        (counts(59, 30, 28, 0), LEANING), (counts(29, 0, 29, 0), SOLID), (counts(28, 0, 28, 0), LEANING),
        (counts(30, 0, 30, 0), SOLID), (counts(30, 0, 29, 0), LEANING),
        (counts(59, 2, 40, 0), LEANING), (counts(59, 5, 0, 0), SEED_BOUND), (counts(59, 2, 5, 3), SEED_BOUND),
        (counts(59, 0, 15, 0), SEED_BOUND), (counts(59, 0, 28, 0), UNDECIDED), (counts(4, 0, 2, 0), UNDECIDED),
        (counts(1, 0, 1, 0), UNDECIDED), (counts(59, 20, 0, 25), SEED_BOUND),
    ],
)  # fmt: skip
def test_words(fresh, word):
    assert fresh.word == word
    assert ("would do" in fresh.sentence or "reasonable" in fresh.sentence) == (word == UNDECIDED)


def test_a_find_that_holds_in_nine_of_ten_models_is_called_solid_in_4_9_percent():
    """Every course of 30 and then 29 fresh seeds, by the words that an audit would say."""
    later, share = DEFAULT_SEEDS - FIRST_LOOK_SEEDS, 0.0
    for first in range(FIRST_LOOK_SEEDS + 1):
        chance, held = binom.pmf(first, FIRST_LOOK_SEEDS, 0.1), FIRST_LOOK_SEEDS - first
        look = counts(FIRST_LOOK_SEEDS, 0, held, 0)
        if look.word == SOLID:
            share += chance
        elif look.open_until(DEFAULT_SEEDS):
            both = [
                counts(DEFAULT_SEEDS, 0, held + later - second, 0).word == SOLID
                for second in range(later + 1)
            ]
            share += chance * binom.pmf(range(later + 1), later, 0.1) @ both
    assert share == pytest.approx(0.0490, abs=5e-5)


def test_an_audit_stops_at_30_seeds_where_they_settle_it_and_trains_nothing_twice(monkeypatch):
    asked, seed_logits = list[Training](), Trainer.seed_logits
    monkeypatch.setattr(
        Trainer, "seed_logits", lambda self, some: (asked.extend(some), seed_logits(self, some))[1]
    )
    audit, data = fitted("salary", budget=2, fresh_seeds=59)
    settled, open_, none = audit.explain_all(data.X_test, cases=[6, 5, 0])
    assert not settled.fresh.open_until(59)
    assert {settled.fresh.seeds} == {30} == set(map(len, settled.fresh.logits))
    assert {open_.fresh.seeds} == {59} == set(map(len, open_.fresh.logits))
    assert sum(logit is not None and logit > 0 for logit in open_.fresh.logits[1]) in (17, 42)
    assert (none.found, none.base_counts[1]) == (False, 59)
    trained = Counter(training.flips for training in set(asked))
    assert trained == {(): 59, settled.positions: 30, open_.positions: 59}
    assert len(asked) == len(set(asked))


def test_undecided_says_how_many_seeds_would_do():
    few, half = counts(5, 0, 3, 0), counts(60, 0, 30, 0)
    assert f"about {few.would_do} seeds would do" in few.sentence
    assert counts(*(few.would_do // 5 * count for count in (5, 0, 3, 0))).word != UNDECIDED
    assert (counts(4, 0, 2, 0).would_do, half.would_do) == (DEFAULT_SEEDS, None)
    assert "one half" in half.sentence


def test_populations_count_the_words_and_without_fresh_seeds_there_is_none(
    controlled, salary_population
):
    population, few = controlled[2], f"{SEEDS} fresh seeds are too few"
    assert sum(population.solidity.values()) == len(population.found)
    assert len(population.solid) == population.solidity["solid"] == 0  # so few seeds never suffice
    assert f"{few} to call one solid (29 at least)" in population.sentence
    limit = check_solid(population, 0.99)
    assert (limit.code, few in limit.sentence) == (4, True)
    enough = population.with_run(fresh_seeds=29)
    assert "No solid find for 10" in enough.sentence
    assert (enough.by_group["share_solid"] <= enough.by_group["share"]).all()
    assert population.to_frame()["base"].notna().sum() == len(population.eligible)
    assert {(v.fresh, v.base, v.close_call, v.distance) for v in salary_population} == {(None,) * 4}
    assert {v.solidity for v in salary_population.found} == {"not checked"}
    assert "was not checked" in salary_population.sentence
    for each in (population, salary_population):
        assert each.by_group["share_solid"].isna().all()

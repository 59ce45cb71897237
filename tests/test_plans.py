"""Plans as games against an oracle that knows which flip sets work."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from butfor.errors import SettingError
from butfor.learn.reference import train
from butfor.plans import Guided, Listed, Shrink
from butfor.protocols import GuidedSearch
from conftest import fitted


def play(plan, works, gain=lambda flips: 0.0, most=500):
    """Ask the plan until it is done; the flip sets it tried."""
    tried = []
    while not plan.done and len(tried) < most:
        flips = plan.next()
        if flips is None:
            continue
        tried.append(flips)
        plan.saw(flips, gain(flips), works(flips))
    return tried


@settings(max_examples=60)
@given(st.integers(1, 20), st.integers(0, 2**20), st.integers(1, 6))
def test_shrinking_ends_where_nothing_can_be_left_out(size, seed, needed):
    rng = np.random.default_rng(seed)
    rows = [int(r) for r in rng.permutation(100)[:size]]
    core = set(rng.choice(rows, min(needed, size), replace=False).tolist())

    def works(flips):
        return core <= set(flips)

    plan = Shrink(rows)
    play(plan, works)
    assert plan.done
    assert set(plan.smallest) == core


@settings(max_examples=40)
@given(st.integers(2, 14), st.integers(0, 2**20))
def test_shrinking_is_minimal_even_where_effects_do_not_add_up(size, seed):
    rng = np.random.default_rng(seed)
    rows = list(range(size))
    answers = {}

    def works(flips):
        key = tuple(sorted(flips))
        if len(key) == size:
            return True
        return answers.setdefault(key, bool(rng.random() < 0.4))

    plan = Shrink(rows)
    play(plan, works)
    smallest = plan.smallest
    assert works(smallest)
    if len(smallest) > 1:
        assert not any(works(tuple(r for r in smallest if r != out)) for out in smallest)


def test_shrinking_takes_a_smaller_set_from_somebody_else():
    plan = Shrink([5, 6, 7, 8])
    plan.saw((1, 2), 0.3, True)
    play(plan, lambda flips: set(flips) >= {1, 2} or len(flips) == 4)
    assert plan.smallest == (1, 2)


def test_guided_spends_the_budget_first_and_never_repeats_itself():
    order = np.arange(200)
    plan = Guided(order, 10, 40, np.random.default_rng(0))
    tried = play(plan, lambda flips: False, gain=lambda flips: -sum(flips) / 100)
    assert tried[0] == tuple(range(10))
    assert len(tried) == len(set(tried)) == 40
    assert all(len(flips) == 10 and list(flips) == sorted(set(flips)) for flips in tried)


def test_guided_learns_what_works():
    effects = np.linspace(1, -0.5, 60) + np.random.default_rng(9).normal(0.3, 1, 60)  # the ranking knows half of it

    def best(seed, learns):
        plan = Guided(np.arange(60), 10, 28, np.random.default_rng(seed))
        gains = []
        while (flips := plan.next()) is not None:
            gains.append(effects[list(flips)].sum())
            plan.saw(flips, gains[-1] if learns else 0.0, False)
        return max(gains) - gains[0]

    learned, blind = ([best(seed, learns) for seed in range(20)] for learns in (True, False))
    assert np.mean(learned) > 1.2 * np.mean(blind)


def test_a_small_pool_ends_the_plan():
    plan = Guided(np.array([4, 9]), 5, 50, np.random.default_rng(0))
    assert play(plan, lambda flips: False) == [(4, 9)]
    listed = Listed(iter([(1,), (2,)]))
    assert play(listed, lambda flips: False) == [(1,), (2,)]


def test_tries_must_make_sense():
    with pytest.raises(SettingError, match="tries=0"):
        GuidedSearch(0)


# --- the guided search as a whole -----------------------------------------------------------------------


def test_with_one_label_guided_is_enumeration(salary_population):
    audit, data = fitted("salary", protocol="guided")
    population = audit.explain_all(data.X_test)
    assert {v.case for v in population.found} == {v.case for v in salary_population.found}
    assert all(v.minimal for v in population.found)
    assert population.run["agreement"]["flips"] == 12


@pytest.fixture(scope="module")
def compas():
    audit, data = fitted("compas", protocol="guided", alternatives=1)
    return audit, data, audit.explain_all(data.X_test, cases=audit.eligible_cases(data.X_test, 40))


def test_what_guided_reports_is_minimal(compas):
    audit, data, population = compas
    several = [v for v in population.found if len(v.positions) > 1]
    assert several
    for verdict in several[:2]:
        assert verdict.minimal
        assert len(verdict.positions) <= verdict.first_size <= verdict.budget
        x = audit.encoder_.transform(data.X_test.iloc[[verdict.case]])
        for left_out in verdict.positions:
            fewer = tuple(row for row in verdict.positions if row != left_out)
            again = train(audit.network_.recipe, audit.rows_, fewer).logits(x)[0]
            assert (again > 0) == (verdict.logit > 0)


def test_alternatives_share_no_row_and_work(compas):
    audit, data, population = compas
    having = [v for v in population.found if v.alternatives]
    assert having
    for verdict in having[:3]:
        (other,) = verdict.alternatives
        assert not set(other) & set(verdict.positions)
        x = audit.encoder_.transform(data.X_test.iloc[[verdict.case]])
        assert (train(audit.network_.recipe, audit.rows_, other).logits(x)[0] > 0) != (verdict.logit > 0)


def test_guided_finds_more_than_algorithm_1(compas):
    _, data, population = compas
    plain, _ = fitted("compas", protocol="algorithm1", rank="combined", share=False)
    published = plain.explain_all(data.X_test, cases=[v.case for v in population])
    assert len(population.found) > len(published.found)


def test_where_training_is_rough_the_gradient_is_left_out():
    from butfor.rank.gradient import Agreement
    from butfor.rank.guided import Guided as GuidedRanking

    audit, data = fitted("salary", protocol="guided")
    people = audit.encoder_.transform(data.X_test)
    ranking = GuidedRanking()
    blended = ranking.score(audit.network_, audit.rows_, people)
    ranking.agreement = Agreement(0.05, 0.1, 12)
    from butfor.rank.combined import beaten

    alone = beaten(ranking.published.score(audit.network_, audit.rows_, people))
    assert np.array_equal(ranking.score(audit.network_, audit.rows_, people), alone)
    assert not np.array_equal(blended, alone)

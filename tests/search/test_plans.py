"""Plans as games against an oracle that knows which flip sets work."""

from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import butfor
from butfor.errors import SettingError, Stopped
from butfor.learn.protocols import Bound, Engine, Learner
from butfor.nets import train_one as train
from butfor.rank.mix import RankingMix
from butfor.rank.ranking import percentile
from butfor.rules import Allowed
from butfor.run.explain import eligible_cases
from butfor.search import GuidedSearch
from butfor.search.guided import Effects, ThompsonPlan
from butfor.search.loop import AttemptSearch, Loop
from butfor.search.published import Algorithm1
from butfor.search.state import FixedPlan, RankedRows, Shrink
from butfor.search.task import Task
from butfor.search.trainer import Trainer
from conftest import fitted

PLAIN = SimpleNamespace(margins=lambda answers: answers, with_pool=lambda people: people)
"""A table of two labels, as far as a trainer asks for it."""


def play(plan, works, gain=lambda flips: 0.0, most=500):
    """Ask the plan until it is done; the flip sets it tried."""
    tried = []
    while not plan.done and len(tried) < most:
        flips = plan.next()
        if flips is None:
            continue
        tried.append(flips)
        plan.observe([flips], [gain(flips)], [works(flips)])
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
    assert set(plan.smallest_first()[0]) == core


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
    smallest = plan.smallest_first()[0]
    assert works(smallest)
    if len(smallest) > 1:
        assert not any(works(tuple(r for r in smallest if r != out)) for out in smallest)


def test_shrinking_takes_a_smaller_set_from_somebody_else():
    plan = Shrink([5, 6, 7, 8])
    plan.observe([(1, 2)], [0.3], [True])
    play(plan, lambda flips: set(flips) >= {1, 2} or len(flips) == 4)
    assert plan.smallest_first()[0] == (1, 2)


def planned(order, budget, tries, seed, *believed):
    return ThompsonPlan(
        RankedRows(0, 1.0, order, budget, np.random.default_rng(seed), len(order), False, *believed), tries
    )


def test_guided_spends_the_budget_first_and_never_repeats_itself():
    plan = planned(np.arange(200), 10, 40, 0)
    tried = play(plan, lambda flips: False, gain=lambda flips: -sum(flips) / 100)
    assert tried[0] == tuple(range(10))
    assert len(tried) == len(set(tried)) == 40
    assert all(len(flips) == 10 and list(flips) == sorted(set(flips)) for flips in tried)


def test_guided_learns_what_works():
    effects = np.linspace(1, -0.5, 60) + np.random.default_rng(9).normal(0.3, 1, 60)  # the ranking knows half of it

    def best(seed, learns):
        plan = planned(np.arange(60), 10, 28, seed)
        gains = []
        while (flips := plan.next()) is not None:
            gains.append(effects[list(flips)].sum())
            plan.observe([flips], [gains[-1] if learns else 0.0], [False])
        return max(gains) - gains[0]

    learned, blind = ([best(seed, learns) for seed in range(20)] for learns in (True, False))
    assert np.mean(learned) > 1.2 * np.mean(blind)


@pytest.mark.parametrize(("first", "ends"), [(-0.9, True), (-0.4, False), (-2.1, False)])
def test_who_is_out_of_reach_by_believed_effects_is_tried_once_and_gives_the_rest_back(first, ends):
    plan = planned(np.arange(60), 10, 64, 0, -2.0, np.linspace(1, 0, 60), 1.5)
    plan.observe([plan.next()], [first], [False])
    assert plan.done == ends  # 2.0 are needed: 1.5 × 1.1 is less; a first set that does harm tells nothing
    assert plan.pool_returns == (7 if ends else 0)


def test_a_small_pool_ends_the_plan():
    plan = planned(np.array([4, 9]), 5, 50, 0)
    assert play(plan, lambda flips: False) == [(4, 9)]
    listed = FixedPlan(iter([(1,), (2,)]))
    assert play(listed, lambda flips: False) == [(1,), (2,)]


def test_tries_must_make_sense():
    with pytest.raises(SettingError, match="tries=0"):
        GuidedSearch(0)


# --- the guided search as a whole -----------------------------------------------------------------------


def test_with_one_label_guided_is_enumeration(salary_population):
    audit, data = fitted("salary", strategy="guided")
    population = audit.explain_all(data.X_test)
    assert {v.case for v in population.found} == {v.case for v in salary_population.found}
    assert all(v.minimal for v in population.found)
    assert population.run.agreement.flips == 12


ROWS = 1000


@pytest.fixture(scope="module")
def compas():
    audit, data = fitted("compas", ROWS, strategy=butfor.GuidedSearch())
    return audit, data, audit.explain_all(data.X_test, cases=eligible_cases(audit.fitted_, data.X_test, 24))


def test_what_guided_reports_is_minimal(compas):
    audit, data, population = compas
    several = [v for v in population.found if len(v.positions) > 1]
    assert several
    for verdict in several[:2]:
        assert verdict.minimal
        assert len(verdict.positions) <= verdict.first_size <= verdict.budget
        x = audit.model_.encoder.transform(data.X_test.iloc[[verdict.case]])
        for left_out in verdict.positions:
            fewer = tuple(row for row in verdict.positions if row != left_out)
            again = train(audit.model_.network.recipe, audit.model_.rows, fewer).logits(x)[0]
            assert (again > 0) == (verdict.logit > 0)


def test_guided_finds_more_than_algorithm_1(compas):
    _, data, population = compas
    plain, _ = fitted("compas", ROWS, strategy=Algorithm1(share=False), rank="combined")
    published = plain.explain_all(data.X_test, cases=[v.case for v in population])
    assert len(population.found) > len(published.found)


def retrainings(audit, people):
    """Flip sets → the logits of the people, `[sets × people]`; each set is trained once."""
    encoded = audit.model_.encoder.transform(people)

    @cache
    def logits(flips):
        return train(audit.model_.network.recipe, audit.model_.rows, flips).logits(encoded)

    return lambda sets: np.array([logits(tuple(sorted(map(int, flips)))) for flips in sets])


def test_whatever_moves_decisions_furthest_leads():
    audit, data = fitted("salary", strategy="guided")
    people = data.X_test.iloc[:3]
    psi = Allowed.of(np.ones((len(people), audit.table_.n), bool))
    ranking = RankingMix.of(audit.model_)
    given = (audit.model_, audit.table_, people)
    retrained = retrainings(audit, people)
    figures = ranking.prepare(retrained, *given, psi, 3)
    assert ranking.candidates == ["both", "gradient", "published"]
    assert ranking.leader == figures["leader"] == max(ranking.candidates, key=figures["gains"].get)
    before = audit.model_.logits(people)
    for leader in ranking.candidates:
        order = np.argsort(-RankingMix(ranking.parts, leader).score(*given), axis=1, kind="stable")
        moved = [
            (retrained([order[k, :3]])[0, k] - before[k]) * (-1 if before[k] > 0 else 1)
            for k in range(figures["people"])
        ]
        assert np.mean(moved) == pytest.approx(figures["gains"][leader], abs=1e-3)
    alone = percentile(ranking.parts["published"].score(*given))
    assert np.array_equal(RankingMix(ranking.parts, "published").score(*given), alone)
    assert not np.array_equal(RankingMix(ranking.parts, "both").score(*given), alone)
    assert not np.array_equal(RankingMix(ranking.parts, "gradient").score(*given), alone)


# --- effects learned from retrainings -------------------------------------------------------------------


def test_effects_are_learned_through_noise():
    rng = np.random.default_rng(3)
    true = np.exp(-np.arange(40) / 30) * 0.05 + rng.normal(0, 0.03, 40)
    effects = Effects(list(range(100, 140)), 10, -1.0)
    seen = [tuple(int(100 + r) for r in rng.choice(40, 10, replace=False)) for _ in range(300)]

    def gain(flips):
        return -1.0 + true[[row - 100 for row in flips]].sum()

    for flips in seen:
        effects.observe([flips], [gain(flips) + rng.normal(0, 0.05)])
    assert np.corrcoef(effects.expected_effects(), true)[0, 1] > 0.9
    unseen = [tuple(int(100 + r) for r in rng.choice(40, 10, replace=False)) for _ in range(200)]
    forecasts = np.array([effects.forecast(flips) for flips in unseen])
    errors = np.array([gain(flips) + rng.normal(0, 0.05) for flips in unseen]) - forecasts[:, 0]
    assert np.abs(errors).mean() < 0.06
    assert 0.8 < errors.std() / forecasts[:, 1].mean() < 1.25  # as unsure as it should be


def test_before_anything_is_seen_the_ranking_is_all_there_is():
    effects = Effects([5, 3, 8, 1], 2, -0.5)
    effects.observe([(3, 5)], [-0.1])
    assert list(np.argsort(-effects.expected_effects())) == [0, 1, 2, 3]
    assert effects.forecast((3, 5))[0] == pytest.approx(-0.1, abs=0.02)
    assert effects.forecast(())[0] == pytest.approx(-0.5, abs=0.02)


# --- attempts in common ---------------------------------------------------------------------------------


class Bar(Engine):
    """An engine without training: each row moves each person by a fixed amount."""

    name = "bar"

    def __init__(self, start, effects):
        self.start, self.effects, self.sets = start, effects, []

    def bind(self, learner, table, people):
        return Bound(self.train, self.name, width=4)

    def train(self, trainings, advance=None):
        self.sets += [flips for flips, _ in trainings]
        moved = [[self.effects[p, list(flips)].sum() for p in range(len(self.start))] for flips, _ in trainings]
        return self.start + np.array(moved)


def agree(trainer, flips, progress=None):
    """A reference that says what the engine says."""
    trainer._confirmed.update({f: trainer._means[f] for f in flips})


def common_search(starts, pool, share=False, empty=0, confirm=agree, **settings):
    """A search for people with these logits; the last `empty` of them have no label that may be flipped."""
    effects = np.tile(np.linspace(0.06, 0.01, 40), (len(starts), 1))
    engine = Bar(np.array(starts), effects)
    trainer = Trainer(engine, Learner(), PLAIN, np.zeros((len(starts), 1)))
    trainer.confirm = lambda flips: confirm(trainer, flips)
    pursuits = [
        AttemptSearch(k, 1.0, plan=planned(np.arange(40), 4, 8 * pool, k, start)) for k, start in enumerate(starts)
    ]
    psi = np.ones((len(starts), 40), bool)
    for k in range(len(starts) - empty, len(starts)):
        pursuits[k].plan, psi[k] = FixedPlan(), False
    task = Task(None, trainer, None, budget=4)
    search = Loop(task, Allowed.of(psi), share=share, shrink=True, pool=pool, **settings)
    search.run(pursuits)
    return pursuits, search


def test_attempts_in_common_go_to_those_who_are_near():
    pursuits, search = common_search([-0.26, -0.3, -3.0, -4.0, -5.0], pool=60)
    assert search.attempts == sum(p.spent for p in pursuits) == 60
    near, far = pursuits[:2], pursuits[2:]
    assert sum(p.spent for p in near) > 5 * sum(p.spent for p in far)
    assert all(p.spent >= 1 and p.complete for p in pursuits)


def test_everyone_has_a_first_attempt_and_what_works_is_shrunk():
    pursuits, search = common_search([-0.1, -0.15, -3.0, -4.0], pool=8)
    assert [p.found is not None for p in pursuits] == [True, True, False, False]
    assert [len(p.found) for p in pursuits[:2]] == [2, 3]
    assert all(p.minimal for p in pursuits[:2])
    assert search.attempts == 8


def test_someone_without_flippable_labels_does_not_hold_up_the_others():
    pursuits, search = common_search([-3.0, -4.0, -2.0], pool=17, share=True, empty=1)
    assert search.attempts == 17
    assert [p.spent for p in pursuits][2] == 0
    assert all(p.complete and p.found is None for p in pursuits)
    assert pursuits[2].closest is None


@pytest.mark.parametrize("pool", [4, 5, 6, 9])
def test_a_search_ends_though_the_reference_rejects_every_claim(pool, monkeypatch):
    steps = []
    step = Loop._step
    monkeypatch.setattr(Loop, "_step", lambda *given: (steps.append(1), step(*given)))

    def confirm(trainer, flips, progress=None):
        assert len(steps) < 200
        trainer._confirmed.update({f: np.full(4, -1.0) for f in flips})

    pursuits, search = common_search([-0.1, -0.12, -0.14, -0.16], pool=pool, share=True, confirm=confirm)
    assert len(steps) < 200
    assert search.attempts == pool
    assert all(p.found is None and p.complete for p in pursuits)


def test_what_was_interrupted_is_not_complete():
    class Interrupted(Bar):
        def train(self, *given):
            raise Stopped(by_hand=True)

    engine = Interrupted(np.array([-1.0]), np.zeros((1, 40)))
    task = Task(None, Trainer(engine, Learner(), PLAIN, np.zeros((1, 1))), None, budget=4)
    pursuit = AttemptSearch(0, 1.0, plan=FixedPlan([(1,), (2,)]))
    search = Loop(task, Allowed.of(np.ones((1, 40), bool)), share=True)
    search.run([pursuit])
    assert not pursuit.complete


def test_ctrl_c_while_confirming_loses_nothing_and_reports_nothing_unconfirmed():
    calls = []

    def confirm(trainer, flips, progress=None):
        calls.append(flips)
        raise Stopped(by_hand=True)

    pursuits, _ = common_search([-0.1, -3.0], pool=8, confirm=confirm)
    assert len(calls) == 2  # once while searching, and once more at the end
    assert [p.found for p in pursuits] == [None, None]
    assert not pursuits[0].complete


def test_a_set_that_the_reference_rejects_is_not_shrunk_to():
    def confirm(trainer, flips, progress=None):
        for f in flips:  # the reference wants three flips where the engine is content with two
            trainer._confirmed[f] = trainer._means[f] - (0.5 if len(f) < 3 else 0.0)

    pursuits, _ = common_search([-0.1], pool=4, confirm=confirm)
    (pursuit,) = pursuits
    assert len(pursuit.found) == 3
    assert pursuit.minimal
    assert pursuit.complete


def test_the_limit_is_not_used_up_by_the_trial():
    audit, data = fitted("compas", ROWS, strategy="guided")
    cases = eligible_cases(audit.fitted_, data.X_test, 10)
    population = audit.explain_all(data.X_test, cases=cases, stop=butfor.max_retrainings(20))
    assert population.run.retrainings == 20
    assert population.run.agreement is None
    assert sum(v.attempts for v in population) >= 10
    with pytest.raises(SettingError, match="max_retrainings=0"):
        butfor.max_retrainings(0)

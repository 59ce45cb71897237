"""Effects that are measured among each other: random parts of the candidates, and what each of them brought."""

from types import SimpleNamespace

import numpy as np
import pytest

from butfor.learn.ensemble import fresh_seeds
from butfor.learn.protocols import Engine, Learner
from butfor.mlp.learner import MLPLearner
from butfor.mlp.mlp import MLP
from butfor.rank import Ranking
from butfor.result.population import Population
from butfor.search import SolidSearch, measured
from butfor.search.measured import Effects, explained, seeds_of_round
from butfor.search.solid import PrefixSearch, Sizes
from butfor.search.task import Task
from butfor.search.trainer import Trainer
from butfor.stopping import Stopper, max_retrainings
from conftest import fitted

SEEDS = (3, 4, 5, 6)
A_ROUND = measured.SETS_A_ROUND * len(SEEDS)


def effects(candidates=24, labels=8):
    return Effects(np.arange(100, 100 + candidates), labels)


def measure(known, true, rng, noise=0.1, rounds=measured.ROUNDS, spoil=None):
    """Let effects be learned where the truth is known, every seed being somewhere else."""
    for _ in range(rounds):
        known.trainings(SEEDS)
        gains = known.inside @ true + np.tile([-5.0, 0.0, 2.0, 9.0], measured.SETS_A_ROUND)
        gains = gains + rng.normal(0, noise, A_ROUND)
        known.learn(gains if spoil is None else spoil(gains))
    return known


def test_a_round_flips_about_as_many_candidates_as_will_be_flipped_under_each_seed_alike():
    made = effects()
    trainings = made.trainings(SEEDS)
    assert len(trainings) == A_ROUND
    assert [t.seed for t in trainings[:5]] == [3, 4, 5, 6, 3]
    assert np.mean([len(t.flips) for t in trainings]) == pytest.approx(8, abs=1.5)
    assert {row for t in trainings for row in t.flips} == set(range(100, 124))
    assert effects().trainings(SEEDS) == trainings


def test_what_candidates_brought_is_told_apart_from_the_seed_and_from_chance():
    rng = np.random.default_rng(0)
    true = rng.permutation(np.linspace(-0.2, 0.3, 24))
    known = measure(effects(), true, rng)
    assert np.corrcoef(known.effects, true)[0, 1] > 0.95
    assert len(set(known.best_first[:8]) & set(100 + np.argsort(-true)[:8])) >= 7


def test_later_rounds_flip_what_is_likely_to_be_among_the_best():
    rng = np.random.default_rng(2)
    true = np.where(np.arange(24) % 3 == 0, 0.3, -0.1)
    known = measure(effects(), true, rng)
    assert (known.likely[true > 0] > 0.9).all()
    assert (known.likely[true < 0] < 0.1).all()


def test_where_trainings_tell_nothing_the_ranking_stands():
    known = measure(effects(), np.zeros(24), np.random.default_rng(3), noise=1.0)
    best = known.best_first[:8] - 100
    assert np.mean(best) < 10  # of 0 to 23, best first; 11.5 would be chance


def test_a_ranking_that_is_right_lets_less_noise_in(monkeypatch):
    """With few trainings and much noise, effects begin where the ranking says, as far as it is borne out."""
    true = np.linspace(0.3, -0.3, 24)

    def kept():
        rngs = map(np.random.default_rng, range(30))
        found = [measure(effects(), true, rng, noise=1.0, rounds=1).best_first[:8] for rng in rngs]
        return np.mean([len(set(best) & set(range(100, 108))) for best in found])

    begun_with = kept()
    monkeypatch.setattr(measured, "explained", lambda *given: explained(*given)._replace(slope=0.0))
    assert begun_with > kept() + 0.7
    assert begun_with > 6


def test_trainings_that_diverged_say_nothing():
    rng = np.random.default_rng(1)
    true = np.linspace(-0.2, 0.3, 24)

    def spoil(gains):
        gains[rng.random(len(gains)) < 0.2] = np.nan
        gains[::4] = np.inf  # one seed never ends well
        return gains

    assert np.corrcoef(measure(effects(), true, rng, spoil=spoil).effects, true)[0, 1] > 0.9
    lost = measure(effects(), true, rng, spoil=lambda gains: np.full(len(gains), np.nan))
    assert lost.best_first.tolist() == effects().best_first.tolist()


def test_effects_without_noise_are_found_and_nothing_divides_by_zero():
    known = measure(effects(), np.linspace(0.5, -0.5, 24), np.random.default_rng(0), noise=0.0)
    assert np.isfinite(known.effects).all()
    assert known.best_first.tolist() == list(range(100, 124))


def test_the_prior_tells_order_effects_and_noise_apart():
    rng = np.random.default_rng(0)
    expected = np.linspace(1, -1, 40)
    inside = rng.random((2000, 40)) < 0.3
    inside = inside - inside.mean(axis=0)
    true = 0.2 * expected + rng.normal(0, 0.05, 40)
    slope, spread, noise = explained(inside, inside @ true + rng.normal(0, 0.5, 2000), expected)
    assert slope == pytest.approx(0.2, abs=0.04)
    assert np.sqrt(spread) == pytest.approx(0.05, rel=0.5)
    assert np.sqrt(noise) == pytest.approx(0.5, rel=0.1)
    backwards = explained(inside, -inside @ expected + rng.normal(0, 0.5, 2000), expected)
    assert backwards.slope == 0  # a ranking that is wrong is not turned around


def test_seeds_that_measure_are_no_members_and_no_judges():
    learner = MLPLearner(MLP(random_state=7))
    rounds = [seeds_of_round(learner, 16, k) for k in range(measured.ROUNDS)]
    used = {seed for seeds in rounds for seed in seeds}
    assert len(used) == 16 * measured.ROUNDS
    assert not used & set(range(7, 7 + 1000))
    assert not used & set(fresh_seeds(learner, 100_000))


class Unseeded:
    seeded = False


def test_a_learner_without_seeds_is_measured_as_it_is():
    assert seeds_of_round(Unseeded(), 4, 2) == [None] * 4


class Overlap(Engine):
    """An engine whose labels come in pairs that do the same: the second of a pair adds nothing. No ranking of single
    labels can know."""

    name, by_definition, width = "overlap", True, 64

    def __init__(self):
        self.trained = 0

    def bind(self, learner, table, people):
        return self.train

    def train(self, trainings, advance=None):
        self.trained += len(trainings)
        return np.array(
            [[-1.0 + 0.15 * len({row // 2 for row in t.flips}) + 0.02 * (t.seed % 10)] for t in trainings], np.float32
        )


class Seeded(Learner):
    seeded, seeds = True, (0, 1, 2)


def hunted(measures, limit=None):
    engine = Overlap()
    stopper = Stopper(max_retrainings(limit) if limit else None)
    table = SimpleNamespace(n=60, margins=lambda answers: answers)
    trainer = Trainer(engine, Seeded(), table, np.zeros((1, 1)), stopper=stopper)
    order = np.concatenate([np.arange(20), np.arange(20, 60, 2), np.arange(21, 60, 2)])  # ten pairs lead
    hunt = Sizes(0, 1.0, order=order, cap=20)
    strategy = SolidSearch(margin=2.0, second=False, measure=measures)
    PrefixSearch(Task(None, trainer, Ranking(), budget=20), None, strategy).run([hunt])
    return hunt, engine


def test_labels_that_add_nothing_to_others_make_room():
    plain, _ = hunted(False)
    better, engine = hunted(True)
    assert len(plain.found) == 13
    assert 7 <= len(better.found) < 10
    assert better.complete
    assert engine.trained < 3 * (measured.SETS + 50)


def test_where_retrainings_are_limited_nothing_is_measured_and_that_is_said():
    hunt, engine = hunted(True, limit=100)
    assert engine.trained <= 100
    assert not hunt.complete
    assert len(hunt.found) == 13


@pytest.mark.parametrize(
    ("measure", "budget", "side_by_side", "rows", "measures"),
    [
        (None, 30, 1024, 600, True),
        (None, 30, 2, 600, False),
        (None, 30, 1024, 27_000, False),
        (None, 7, 1024, 600, False),
        (None, 81, 1024, 600, False),
        (True, 30, 2, 27_000, True),
        (True, 7, 2, 600, False),
        (False, 30, 1024, 600, False),
    ],
)
def test_effects_are_measured_where_trainings_are_cheap_and_labels_many(measure, budget, side_by_side, rows, measures):
    assert SolidSearch(measure=measure).measures(budget, side_by_side, rows) == measures


def test_an_audit_that_measures_says_with_which_seeds_and_its_finds_stand(monkeypatch):
    monkeypatch.setattr(measured, "ROUNDS", 2)
    protocol = SolidSearch(margin=2.0, measure=True)
    audit, data = fitted("german", members=3, fresh_seeds=9, budget=12, phi="everyone", strategy=protocol)
    nearest = np.argsort(np.abs(audit.model_.logits(data.X_test)))[20:22]
    population = audit.explain_all(data.X_test, cases=[int(k) for k in nearest])
    assert population.run.seed_ranges["measured"] == [measured.SEEDS_FROM, measured.SEEDS_FROM + 5]
    assert population.run.retrainings > 2 * measured.SETS_A_ROUND * 3
    assert population.found
    assert Population.from_json(population.to_json()).run == population.run

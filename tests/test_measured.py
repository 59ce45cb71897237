"""Effects that are measured among each other: random parts of the candidates, and what each of them brought."""

import numpy as np
import pytest

from butfor.progress import Watcher
from butfor.search import SolidSearch, measured
from butfor.search.measured import Design
from butfor.search.solid import Hunt, SizeSearch
from butfor.search.trainer import Trainer

SEEDS = (3, 4, 5, 6)


def design(candidates=24, labels=8):
    return Design(np.arange(100, 100 + candidates), labels, SEEDS)


def test_a_design_flips_as_many_candidates_as_will_be_flipped_under_each_seed_alike():
    made = design()
    trainings = made.trainings()
    assert len(trainings) == measured.SETS * len(SEEDS)
    assert [t.seed for t in trainings[:5]] == [3, 4, 5, 6, 3]
    assert np.mean([len(t.flips) for t in trainings]) == pytest.approx(8, abs=0.5)
    assert {row for t in trainings for row in t.flips} == set(range(100, 124))
    assert design().trainings() == trainings


def test_what_candidates_brought_is_told_apart_from_the_seed_and_from_chance():
    made, rng = design(), np.random.default_rng(0)
    true = rng.permutation(np.linspace(-0.2, 0.3, 24))
    noise = np.tile([-5.0, 0.0, 2.0, 9.0], measured.SETS) + rng.normal(0, 0.1, len(made.inside))
    gains = made.inside @ true + noise
    found = made.effects(gains)
    assert np.corrcoef(found, true)[0, 1] > 0.97
    assert len(set(made.best_first(gains)[:5]) & set(100 + np.argsort(-true)[:5])) >= 4


def test_trainings_that_diverged_say_nothing():
    made, rng = design(), np.random.default_rng(1)
    true = np.linspace(0.3, -0.2, 24)
    gains = made.inside @ true
    gains[rng.random(len(gains)) < 0.2] = np.nan
    gains[::4] = np.inf  # one seed never ends well
    assert np.corrcoef(made.effects(gains), true)[0, 1] > 0.9
    assert np.isfinite(made.effects(np.full(len(gains), np.nan))).all()


class Overlap:
    """An engine whose labels come in pairs that do the same: the second of a pair adds nothing. No ranking of single
    labels can know."""

    name, by_definition, width = "overlap", True, 64

    def __init__(self):
        self.trained = 0

    def bind(self, learner, table, people):
        return self.train

    def train(self, trainings, progress=None):
        self.trained += len(trainings)
        return np.array(
            [[-1.0 + 0.15 * len({row // 2 for row in t.flips}) + 0.02 * t.seed] for t in trainings], np.float32
        )


def hunted(measures, limit=None):
    engine = Overlap()
    trainer = Trainer(engine, None, None, np.zeros((1, 1)))
    trainer.seeds = (0, 1, 2)
    order = np.concatenate([np.arange(20), np.arange(20, 60, 2), np.arange(21, 60, 2)])  # ten pairs lead
    hunt = Hunt(0, order, 1.0, 20)
    SizeSearch(trainer, 2.0, measures=measures, max_retrainings=limit, watch=Watcher()).run([hunt])
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

"""The training gradient against what it is a derivative of: training again with other labels."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from benchmarks.work import encoded, reference_fits
from benchmarks.work import network as published_network
from butfor.errors import SettingError
from butfor.models.network import NetworkModel
from butfor.nets import train_one as train
from butfor.nets.recipe import Recipe, Rows
from butfor.nets.sweeps import Sweep, sweep_many
from butfor.rank.gradient import Gradient, chances, flip_effects
from butfor.rank.mix import agreement, sample_rows, smoothness

RECIPE = Recipe(hidden=(6, 5), activation="tanh", learning_rate=0.01, max_epochs=8, batch_size=16)


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 4))
    y = (X[:, 0] + rng.normal(size=60) > 0).astype(np.float32)
    # A noisy validation set would stop these short trainings at once; the training rows keep them going.
    return Rows(X, y, X, y)


@pytest.fixture(scope="module")
def people():
    return np.random.default_rng(1).normal(size=(3, 4)).astype(np.float32)


def retrained_by(fit, recipe, rows, people):
    return lambda flip_sets: fit(recipe, rows, flip_sets, people).logits


def label_gradients(recipe, rows, people, flips=(), **settings):
    return sweep_many(recipe, rows, [Sweep(recipe.seed, flips, np.arange(len(people)))], people, **settings)[0]


def finite_differences(recipe, rows, people, outcome, at, step=2.0**-14):
    """Central differences of `outcome(result)` by the labels at these positions, in float64. The step is a power of
    two, so that labels in float32 hold it exactly."""
    columns = []
    for row in at:
        sides = []
        for sign in (1, -1):
            labels = rows.y.copy()
            labels[row] += sign * step
            moved = replace(rows, y=labels)
            sides.append(outcome(label_gradients(recipe, moved, people, epochs=2, dtype=torch.float64)))
        columns.append((sides[0] - sides[1]) / (2 * step))
    return np.array(columns).T


@pytest.mark.parametrize("batch_size", [None, 16])
@pytest.mark.parametrize(
    ("activation", "hidden"),
    [("tanh", (6, 5)), ("sigmoid", (4, 3)), ("relu", (6, 5)), ("tanh", (4,)), ("relu", ()), ("tanh", (4, 4, 3))],
)
def test_the_gradient_is_the_derivative_of_training(activation, hidden, batch_size, rows, people):
    recipe = replace(RECIPE, activation=activation, hidden=hidden, batch_size=batch_size)
    at = [0, 37, 59]
    exact = label_gradients(recipe, rows, people, dtype=torch.float64)
    assert exact.epochs[0] > 1
    expected = finite_differences(recipe, rows, people, lambda result: result.logits, at)
    assert exact.gradient[:, at] == pytest.approx(expected, rel=1e-3, abs=1e-6 * np.abs(exact.gradient).max())


def test_validation_losses_are_differentiated_too(rows, people):
    at = [5, 40]
    result = label_gradients(RECIPE, rows, people, epochs=2, dtype=torch.float64)
    assert result.epochs == (8, 7)
    losses = finite_differences(RECIPE, rows, people, lambda moved: moved.validation_losses, at)
    assert result.validation_gradients[:, at] == pytest.approx(losses, rel=1e-3, abs=1e-8)


@pytest.mark.parametrize("recipe", [RECIPE, replace(RECIPE, activation="relu", batch_size=None)])
def test_forwards_it_is_the_reference(recipe, rows, people):
    flips = (3, 20)
    expected, result = train(recipe, rows, flips), label_gradients(recipe, rows, people, flips)
    assert result.epochs[0] == expected.best_epoch
    assert result.logits == pytest.approx(expected.logits(people), abs=1e-6)


def test_dead_neurons_pass_no_gradient_and_no_nan(rows, people):
    """A constant 0 input gives weights whose gradient, and so Adam's second moment, is 0 throughout."""
    X = rows.X.copy()
    X[:, 2] = 0
    still = Rows(X, rows.y, X, rows.y)
    result = label_gradients(replace(RECIPE, activation="relu"), still, people * [1, 1, 0, 1])
    assert np.isfinite(result.gradient).all()
    assert np.abs(result.gradient).max() > 0


def model_of(network, rows):
    """A trained network as rankings know it, of people who are encoded already."""
    return NetworkModel(network, rows, SimpleNamespace(encoder=None, people=lambda people: people))


def test_the_ranking_predicts_the_effect_of_a_flip(rows, people):
    network = train(RECIPE, rows)
    ranking = Gradient(epochs=1)
    scores = ranking.score(model_of(network, rows), None, people)
    assert ranking.name == "gradient"
    result = label_gradients(RECIPE, rows, people)
    away = np.where(network.predict(people) == 1, -1, 1)
    assert scores == pytest.approx(away[:, None] * (1 - 2 * rows.y) * result.gradient, abs=1e-6)
    spearman, slope, flips = smoothness(retrained_by(reference_fits, RECIPE, rows, people), scores, count=12)
    assert flips == 12
    assert spearman > 0.9
    assert 0.7 < slope < 1.3


def test_chances_follow_the_predicted_validation_losses(rows, people):
    result = label_gradients(RECIPE, rows, people, epochs=3)
    losses = result.validation_losses[:, None] + (1 - 2 * rows.y) * result.validation_gradients
    sharp = chances(result, 1e-9)
    assert np.array_equal(sharp.argmax(axis=0), losses.argmin(axis=0))
    assert sharp.sum(axis=0) == pytest.approx(1)
    assert chances(result, 1e9) == pytest.approx(1 / 3)
    kept = losses.argmin(axis=0) == 0
    expected = (1 - 2 * rows.y) * result.gradient
    assert flip_effects(result, 1e-9)[:, kept] == pytest.approx(expected[:, kept], abs=1e-6)


def test_on_german_it_predicts_retrainings():
    from butfor.models.network import FusedEngine

    german, people, setup = encoded("german")
    recipe, people = published_network(setup).recipe(), people[:20]
    network = train(recipe, german)
    figures = {}
    for epochs in (1, 8):
        scores = Gradient(epochs=epochs).score(model_of(network, german), None, people)
        retrain = retrained_by(FusedEngine().fit_many, recipe, german, people)
        figures[epochs], _, _ = smoothness(retrain, scores, count=60)
    assert figures[1] > 0.4
    assert figures[8] > figures[1]


def test_agreement_counted_by_hand():
    assert agreement(np.array([[1.0, 2, 3]]), np.array([[2.0, 4, 6]])) == (1.0, 2.0)
    assert agreement(np.array([[1.0, 2, 3]]), np.array([[3.0, 2, 1]]))[0] == pytest.approx(-1)
    assert agreement(np.zeros((1, 4)), np.arange(4.0)[None]) == (0.0, 0.0)
    both = agreement(np.array([[1.0, 2, 3], [1, 2, 3]]), np.array([[1.0, 2, 3], [3, 2, 1]]))
    assert both == pytest.approx((0, 24 / 28))


def test_the_sample_holds_the_strongest_and_some_others():
    effects = np.zeros((2, 50), np.float32)
    effects[0, 7], effects[1, 9] = -3, 2
    sample = sample_rows(effects, 4)
    assert {7, 9} < set(sample)
    assert len(set(sample)) == 4
    assert np.array_equal(sample, sample_rows(effects, 4))
    assert list(sample_rows(effects, 99)) == list(range(50))


def test_settings_that_cannot_be_used_are_refused():
    with pytest.raises(SettingError, match="epochs"):
        Gradient(epochs=0)
    with pytest.raises(SettingError, match="tolerance"):
        Gradient(tolerance=0)

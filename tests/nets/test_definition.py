"""The definition, written directly, gives the bits of PyTorch's own loop, or the loop trains."""

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.work import encoded, network, packed
from butfor.models import loop
from butfor.models.loop import Loop, train
from butfor.nets import Network, Recipe, Rows, definition
from butfor.nets.definition import Direct, train_one


def bits(network: Network) -> tuple[bytes, int, int, float]:
    return packed(network).tobytes(), network.best_epoch, network.epochs, network.validation_loss


@pytest.fixture(scope="module")
def german() -> tuple[Rows, Recipe]:
    rows, _, setup = encoded("german")
    return rows, network(setup).recipe()


@pytest.fixture(autouse=True)
def compared(monkeypatch):
    monkeypatch.setattr(loop, "compared", {})
    return loop.compared


@pytest.mark.parametrize(
    "recipe",
    [
        Recipe(max_epochs=20),
        Recipe(batch_size=None),
        Recipe(hidden=(), max_epochs=20),
        Recipe(hidden=(7,), activation="tanh", batch_size=77, max_epochs=20),
        Recipe(hidden=(19, 11, 3), activation="sigmoid", batch_size=599, max_epochs=20),
        Recipe(hidden=(5,), batch_size=10_000, max_epochs=20),
        Recipe(hidden=(4,), batch_size=1, max_epochs=1),
    ],
    ids=str,
)
def test_bits_are_the_loops_on_a_real_table(recipe, german, compared):
    rows, _ = german
    for seed, flips in ((3, ()), (4, (0, 5, 17, 599))):
        seeded = replace(recipe, seed=seed)
        assert bits(train(seeded, rows, flips)) == bits(train_one(seeded, rows, flips, Loop))
    assert list(compared.values()) == [True]


def test_bits_are_the_loops_for_the_published_settings(german):
    rows, recipe = german
    assert bits(train_one(recipe, rows, (1, 2))) == bits(train_one(recipe, rows, (1, 2), Loop))


@pytest.mark.parametrize("part", ["BETA1", "BETA2", "EPSILON"])
def test_where_a_bit_differs_the_loop_trains(part, german, compared, monkeypatch):
    rows, recipe = german
    step = Direct.step

    def other(self, *batch):
        with pytest.MonkeyPatch.context() as changed:
            changed.setattr(definition, part, getattr(definition, part) * (1 - 1e-3))
            step(self, *batch)

    monkeypatch.setattr(Direct, "step", other)
    assert bits(train(recipe, rows)) == bits(train_one(recipe, rows, (), Loop))
    assert list(compared.values()) == [False]


def test_the_comparison_sees_whole_batches_and_the_rest(monkeypatch):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(1003, 3)).astype(np.float32), rng.integers(0, 2, 1003).astype(np.float32)
    rows, seen = Rows(X, y, X[:50], y[:50]), []
    real = loop.train_one

    def watched(recipe, rows, flips=(), steps=None):
        seen.append((steps, rows.n))
        return real(recipe, rows, flips, steps)

    monkeypatch.setattr(loop, "train_one", watched)
    for batch_size, compared in ((100, 303), (None, 1003), (5000, 1003)):
        assert loop.same_bits(Recipe(batch_size=batch_size), rows)
        assert seen[-2:] == [(None, compared), (Loop, compared)]

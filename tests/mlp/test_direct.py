"""Operations called directly give the reference's bits, or the reference trains."""

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.work import encoded, network
from butfor.mlp import direct, reference
from butfor.mlp.recipe import Network, Recipe, Rows, pack


def bits(network: Network) -> tuple[bytes, int, int, float]:
    return pack(network).tobytes(), network.best_epoch, network.epochs, network.validation_loss


@pytest.fixture(scope="module")
def german() -> tuple[Rows, Recipe]:
    rows, _, setup = encoded("german")
    return rows, network(setup).recipe()


@pytest.fixture(autouse=True)
def nothing_compared_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(direct, "_same_bits", {})


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
def test_bits_are_the_references_on_a_real_table(recipe: Recipe, german: tuple[Rows, Recipe]) -> None:
    rows, _ = german
    for seed, flips in ((3, ()), (4, (0, 5, 17, 599))):
        seeded = replace(recipe, seed=seed)
        assert bits(direct.train(seeded, rows, flips)) == bits(reference.train(seeded, rows, flips))
    assert list(direct._same_bits.values()) == [True]


def test_bits_are_the_references_for_the_published_settings(german: tuple[Rows, Recipe]) -> None:
    rows, recipe = german
    assert bits(direct.train(recipe, rows, (1, 2))) == bits(reference.train(recipe, rows, (1, 2)))


@pytest.mark.parametrize("part", ["BETA1", "BETA2", "EPSILON"])
def test_where_a_bit_differs_the_reference_trains(
    part: str, german: tuple[Rows, Recipe], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, recipe = german
    monkeypatch.setattr(direct, part, getattr(direct, part) * (1 - 1e-3))
    assert bits(direct.train(recipe, rows)) == bits(reference.train(recipe, rows))
    assert list(direct._same_bits.values()) == [False]


def test_the_comparison_sees_whole_batches_and_the_rest() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(1003, 3)).astype(np.float32), rng.integers(0, 2, 1003).astype(np.float32)
    rows = Rows(X, y, X[:50], y[:50])
    assert direct._some_batches(Recipe(batch_size=100), rows).n == 303
    assert direct._some_batches(Recipe(batch_size=None), rows).n == 1003
    assert direct._some_batches(Recipe(batch_size=5000), rows).n == 1003

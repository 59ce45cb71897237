"""The fused engine trains what the reference trains: the same result reached two ways."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import make_classification

from butfor import machine
from butfor.errors import SettingError
from butfor.mlp import fused, vectors, walk_kernels
from butfor.mlp import recipe as recipes
from butfor.mlp.fused import FusedEngine
from butfor.mlp.recipe import Entries, Fits, Network, Recipe, Rows
from butfor.mlp.reference import initial_network, train

# One worker compiles for all tests of this file.
pytestmark = pytest.mark.xdist_group("fused")


def made_rows(n: int = 333, d: int = 7, validation: int = 150, seed: int = 0) -> Rows:
    """Rows that can be learned, but not perfectly: one label in ten is wrong."""
    X, y = make_classification(
        n + validation,
        d,
        n_informative=min(d, 5),
        n_redundant=0,
        n_clusters_per_class=1,
        flip_y=0.2,
        random_state=seed,
    )
    return Rows(X[:n], y[:n], X[n:], y[n:])


def assert_same_training(fits: Fits, k: int, network: Network, people: np.ndarray, tolerance: float) -> None:
    assert fits.epochs[k] == network.epochs
    assert fits.best_epoch[k] == network.best_epoch
    np.testing.assert_allclose(fits.validation_loss[k], network.validation_loss, rtol=1e-5)
    np.testing.assert_allclose(fits.logits[k], network.logits(people), rtol=tolerance, atol=tolerance)


def bits(fits: Fits, k: int) -> bytes:
    return b"".join(
        np.ascontiguousarray(part[k]).tobytes()
        for part in (fits.logits, fits.best_epoch, fits.epochs, fits.validation_loss, fits.weights)
    )


@pytest.mark.parametrize("batch_size", [None, 1, 50])
@pytest.mark.parametrize("hidden", [(), (17, 33), (20, 7, 40)])
@pytest.mark.parametrize("activation", ["relu", "tanh", "sigmoid"])
def test_short_training_equals_reference(activation, hidden, batch_size):
    rows = made_rows(40 if batch_size == 1 else 333)
    recipe = Recipe(hidden=hidden, activation=activation, batch_size=batch_size, max_epochs=4, seed=3)
    flips = (3, 5, rows.n - 1)
    fits = FusedEngine().fit_many(recipe, rows, [flips], rows.X_val)
    assert_same_training(fits, 0, train(recipe, rows, flips), rows.X_val, 1e-4)


@pytest.mark.parametrize("batch_size", [None, 4, 128])
@pytest.mark.parametrize(
    ("n", "d", "validation"), [(2, 1, 1), (9, 16, 3), (129, 31, 128), (300, 33, 257), (260, 48, 17)]
)
@pytest.mark.parametrize("hidden", [(), (32, 32), (1, 100)])
def test_any_shape_equals_reference(hidden, n, d, validation, batch_size):
    random = np.random.default_rng(n)
    X, y = random.standard_normal((n + validation, d)), random.integers(0, 2, n + validation)
    rows = Rows(X[:n], y[:n], X[n:], y[n:])
    recipe = Recipe(hidden=hidden, batch_size=batch_size, max_epochs=3)
    fits = FusedEngine().fit_many(recipe, rows, [(), (1,)], rows.X)
    for k, flips in enumerate([(), (1,)]):
        assert_same_training(fits, k, train(recipe, rows, flips), rows.X, 1e-4)


def one_hot_rows(n: int, columns: int, values: int, validation: int = 60, seed: int = 0) -> Rows:
    """Rows of one-hot columns, a number that is hardly ever 0 before them, and one row without any entry."""
    random = np.random.default_rng(seed)
    hot = np.eye(values, dtype=np.float32)[random.integers(0, values, (n + validation, columns))]
    X = np.column_stack([random.standard_normal(n + validation), hot.reshape(n + validation, -1)])
    X[1] = 0
    y = (X @ random.standard_normal(X.shape[1]) > 0).astype(np.float32)
    return Rows(X[:n], y[:n], X[n:], y[n:])


@pytest.mark.parametrize("batch_size", [None, 32, 200])
@pytest.mark.parametrize("hidden", [(), (5,), (32, 32), (100, 3)])
@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_rows_of_mostly_zeros_are_taken_by_their_entries(activation, hidden, batch_size, monkeypatch):
    rows = one_hot_rows(300, 9, 13)
    assert rows.entries is not None
    assert made_rows().entries is None
    recipe = Recipe(hidden=hidden, activation=activation, batch_size=batch_size, max_epochs=4)
    by_entries = FusedEngine().fit_many(recipe, rows, [(), (2, 7)], rows.X_val)
    for k, flips in enumerate([(), (2, 7)]):
        assert_same_training(by_entries, k, train(recipe, rows, flips), rows.X_val, 1e-4)
    monkeypatch.setattr(recipes, "ZEROS_PER_ENTRY", 10**9)
    whole = FusedEngine().fit_many(recipe, replace(rows), [(), (2, 7)], rows.X_val)
    if batch_size == 32:  # one tile a batch: every sum has the same terms in the same order
        assert [bits(by_entries, k) for k in range(2)] == [bits(whole, k) for k in range(2)]


def test_entries_are_the_rows():
    X = one_hot_rows(40, 3, 5).X
    found = Entries.of(X)
    back = np.zeros_like(X)
    for row in range(len(X)):
        of_row = slice(found.starts[row], found.starts[row + 1])
        assert (np.diff(found.places[of_row]) > 0).all()
        back[row, found.places[of_row]] = found.values[of_row]
    assert np.array_equal(back, X)


@pytest.mark.parametrize("batch_size", [64, None])
def test_whole_training_stops_where_the_reference_stops(batch_size):
    rows = made_rows(1000, 10, 300)
    # A smooth activation: the kinks of relu amplify rounding, in the reference as well.
    recipe = Recipe(hidden=(16, 16), activation="tanh", batch_size=batch_size, max_epochs=300)
    fits = FusedEngine().fit_many(recipe, rows, [(), (4, 8)], rows.X_val)
    for k, flips in enumerate([(), (4, 8)]):
        network = train(recipe, rows, flips)
        assert network.epochs < recipe.max_epochs
        assert fits.epochs[k] == fits.best_epoch[k] + recipe.patience
        assert_same_training(fits, k, network, rows.X_val, 2e-3)


def test_packed_weights_are_the_network_that_gave_the_logits():
    rows = made_rows()
    recipe = Recipe(hidden=(17, 5), activation="tanh", max_epochs=3)
    fits = FusedEngine().fit_many(recipe, rows, [(1,), (2,)], rows.X_val)
    for k in range(2):
        network = Network.from_packed(fits.weights[k], recipe, rows.d, 0, 0, 0)
        np.testing.assert_allclose(network.logits(rows.X_val), fits.logits[k], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("batch_size", [50, None])
def test_result_depends_on_nothing_but_the_flip_set(batch_size):
    rows = made_rows()
    recipe = Recipe(hidden=(9, 20), batch_size=batch_size, max_epochs=20, patience=3)
    flip_sets = [(), (0,), (1, 2), (7,), (1, 2)]
    together = FusedEngine(n_jobs=3).fit_many(recipe, rows, flip_sets, rows.X_val)
    backwards = FusedEngine(n_jobs=1).fit_many(recipe, rows, flip_sets[::-1], rows.X_val)
    for k, flips in enumerate(flip_sets):
        alone = FusedEngine(n_jobs=2).fit_many(recipe, rows, [flips], rows.X_val)
        assert bits(together, k) == bits(alone, 0) == bits(backwards, len(flip_sets) - 1 - k)
    assert bits(together, 2) == bits(together, 4)
    assert bits(together, 1) != bits(together, 0)


def test_a_persons_logit_does_not_depend_on_the_other_people():
    rows, recipe = made_rows(), Recipe(max_epochs=2)
    many = FusedEngine().fit_many(recipe, rows, [()], rows.X_val)
    for person in (0, 127, 149):
        one = FusedEngine().fit_many(recipe, rows, [()], rows.X_val[[person]])
        assert one.logits[0, 0] == many.logits[0, person]


def test_flipping_is_training_on_the_flipped_labels():
    rows, recipe, flips = made_rows(), Recipe(hidden=(8,), max_epochs=3), (0, 10, 100)
    turned = Rows(rows.X, rows.labels(flips), rows.X_val, rows.y_val)
    before = rows.y.copy()
    engine = FusedEngine()
    by_set, by_labels = (
        engine.fit_many(recipe, data, [chosen], rows.X_val) for data, chosen in ((rows, flips), (turned, ()))
    )
    assert bits(by_set, 0) == bits(by_labels, 0)
    assert bits(by_set, 0) != bits(engine.fit_many(recipe, rows, [()], rows.X_val), 0)
    np.testing.assert_array_equal(rows.y, before)


def test_max_epochs_and_patience():
    rows = made_rows()
    engine = FusedEngine()
    for epochs in (1, 17, 40):
        fits = engine.fit_many(Recipe(max_epochs=epochs, patience=1000), rows, [()], rows.X_val)
        assert fits.epochs[0] == epochs
        assert 1 <= fits.best_epoch[0] <= epochs
    fits = engine.fit_many(Recipe(max_epochs=1000, patience=2, learning_rate=0.05), rows, [()], rows.X_val)
    assert fits.epochs[0] == fits.best_epoch[0] + 2 < 1000


@pytest.mark.parametrize("activation", ["relu", "tanh"])
@pytest.mark.parametrize("hidden", [(), (16, 16)])
def test_diverging_training_ends_like_the_reference(hidden, activation):
    rows = made_rows()
    recipe = Recipe(hidden=hidden, activation=activation, learning_rate=1e37, patience=3)
    network = train(recipe, rows)
    fits = FusedEngine().fit_many(recipe, rows, [()], rows.X_val)
    assert (fits.epochs[0], fits.best_epoch[0]) == (network.epochs, network.best_epoch)
    if network.best_epoch == 0:
        initial = [p.detach().numpy().ravel() for p in initial_network(recipe, rows.d).parameters()]
        np.testing.assert_array_equal(fits.weights[0], np.concatenate(initial))
        assert fits.validation_loss[0] == np.inf


def test_nan_in_a_row_is_never_lower():
    rows = made_rows()
    rows.X[7, 2] = np.nan
    recipe = Recipe(hidden=(16,), patience=4)
    network = train(recipe, rows)
    fits = FusedEngine().fit_many(recipe, rows, [()], rows.X_val)
    assert (network.epochs, network.best_epoch) == (fits.epochs[0], fits.best_epoch[0]) == (4, 0)


def test_trainings_longer_than_the_shared_orders(monkeypatch):
    rows, recipe = made_rows(), Recipe(hidden=(4,), max_epochs=70, patience=70)
    usual = FusedEngine().fit_many(recipe, rows, [(), (3,)], rows.X_val)
    monkeypatch.setattr(fused, "SHARED_ORDERS", 1)
    fused.starts.cache_clear()  # the orders of the first call are all there
    drawn_again = FusedEngine().fit_many(recipe, rows, [(), (3,)], rows.X_val)
    assert bits(usual, 0) == bits(drawn_again, 0)
    assert bits(usual, 1) == bits(drawn_again, 1)


def test_nothing_to_train_and_nobody_to_ask():
    rows, recipe = made_rows(), Recipe(hidden=(4,), max_epochs=1)
    none = FusedEngine().fit_many(recipe, rows, [], rows.X_val)
    assert none.logits.shape == (0, 150)
    assert none.weights.shape == (0, recipe.parameters(rows.d))
    nobody = FusedEngine().fit_many(recipe, rows, [()], rows.X_val[:0])
    assert nobody.logits.shape == (1, 0)
    assert nobody.epochs[0] == 1


def test_read_only_arrays():
    rows, recipe = made_rows(), Recipe(hidden=(4,), max_epochs=1)
    usual = FusedEngine().fit_many(recipe, rows, [(1,)], rows.X_val)
    for array in (rows.X, rows.y, rows.X_val, rows.y_val):
        array.flags.writeable = False
    assert bits(usual, 0) == bits(FusedEngine().fit_many(recipe, rows, [(1,)], rows.X_val), 0)
    assert len(fused.kernels.run_epochs.signatures) == 1, "compiled a second time"


def test_a_change_in_any_compiled_file_compiles_all_of_them_again():
    folder = Path(vectors.__file__).parent
    assert {path.name for path in folder.glob("*.py") if "\n@compiled(" in path.read_text()} < set(vectors.FILES)
    entries = fused.kernels.run_epochs, fused.kernels.predict, walk_kernels.walk_epoch
    assert all(entry.py_func.__qualname__.endswith(vectors.DIGEST) for entry in entries)


def test_progress_counts_every_network():
    told: list[int] = []
    FusedEngine(n_jobs=2).fit_many(
        Recipe(hidden=(4,), max_epochs=1),
        made_rows(),
        [(k,) for k in range(7)],
        np.zeros((1, 7), np.float32),
        told.append,
    )
    assert told == [1] * 7


def test_an_interrupt_cancels_the_rest():
    finished = []

    def interrupt(_: int) -> None:
        finished.append(1)
        raise KeyboardInterrupt

    rows = made_rows(2000)
    with pytest.raises(KeyboardInterrupt):
        FusedEngine(n_jobs=2).fit_many(
            Recipe(max_epochs=50, patience=50), rows, [(k,) for k in range(1000)], rows.X_val, interrupt
        )
    assert finished == [1]


def test_settings_that_cannot_be_used():
    rows = made_rows(20)
    with pytest.raises(SettingError, match="jobs=0"):
        FusedEngine(n_jobs=0)
    for flips in ((20,), (-1,), (1, 99)):
        with pytest.raises(SettingError, match="0 to 19"):
            FusedEngine().fit_many(Recipe(), rows, [(), flips], rows.X_val)
    with pytest.raises(SettingError, match="people 6"):
        FusedEngine().fit_many(Recipe(), rows, [()], rows.X_val[:, :6])
    with pytest.raises(SettingError, match="one label"):
        FusedEngine().fit_many(Recipe(), Rows(rows.X, rows.y[:-1], rows.X_val, rows.y_val), [()], rows.X_val)


def test_compiling_is_announced(capsys):
    machine._announce()
    assert "Compiling" in capsys.readouterr().err
    fused.prepare()
    assert fused.compiled()

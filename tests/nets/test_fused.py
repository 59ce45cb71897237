"""The fused engine trains what the reference trains: the same result reached two ways."""

from __future__ import annotations

import re
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import make_classification

from butfor import FusedEngine, machine
from butfor.errors import SettingError
from butfor.nets import Fits, Network, Recipe, Rows, compiled, fit_many, fused, train_many
from butfor.nets import recipe as recipes
from butfor.nets import train_one as train

# One worker compiles for all tests of this file.
pytestmark = pytest.mark.xdist_group("fused")


def fit(recipe: Recipe, rows: Rows, flip_sets: list, people: np.ndarray, threads: int = 2, **more: object) -> Fits:
    return fit_many(recipe, rows, flip_sets, [recipe.seed] * len(flip_sets), people, threads=threads, **more)


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
        for part in (fits.logits, fits.best_epoch, fits.epochs, fits.validation_loss)
    )


@pytest.mark.parametrize("batch_size", [None, 1, 50])
@pytest.mark.parametrize("hidden", [(), (17, 33), (20, 7, 40)])
@pytest.mark.parametrize("activation", ["relu", "tanh", "sigmoid"])
def test_short_training_equals_reference(activation, hidden, batch_size):
    rows = made_rows(40 if batch_size == 1 else 333)
    recipe = Recipe(hidden=hidden, activation=activation, batch_size=batch_size, max_epochs=4, seed=3)
    flips = (3, 5, rows.n - 1)
    fits = fit(recipe, rows, [flips], rows.X_val)
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
    fits = fit(recipe, rows, [(), (1,)], rows.X)
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
    assert fused.entries(rows) is not None
    assert fused.entries(made_rows()) is None
    recipe = Recipe(hidden=hidden, activation=activation, batch_size=batch_size, max_epochs=4)
    by_entries = fit(recipe, rows, [(), (2, 7)], rows.X_val)
    for k, flips in enumerate([(), (2, 7)]):
        assert_same_training(by_entries, k, train(recipe, rows, flips), rows.X_val, 1e-4)
    monkeypatch.setattr(fused, "ZEROS_PER_ENTRY", 10**9)
    whole = fit(recipe, replace(rows), [(), (2, 7)], rows.X_val)
    if batch_size == 32:  # one tile a batch: every sum has the same terms in the same order
        assert [bits(by_entries, k) for k in range(2)] == [bits(whole, k) for k in range(2)]


def test_entries_are_the_rows():
    X = one_hot_rows(40, 3, 5).X
    found = fused.entries_of(X)
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
    fits = fit(recipe, rows, [(), (4, 8)], rows.X_val)
    for k, flips in enumerate([(), (4, 8)]):
        network = train(recipe, rows, flips)
        assert network.epochs < recipe.max_epochs
        assert fits.epochs[k] == fits.best_epoch[k] + recipe.patience
        assert_same_training(fits, k, network, rows.X_val, 2e-3)


@pytest.mark.parametrize("batch_size", [50, None])
def test_result_depends_on_nothing_but_the_flip_set(batch_size):
    rows = made_rows()
    recipe = Recipe(hidden=(9, 20), batch_size=batch_size, max_epochs=20, patience=3)
    flip_sets = [(), (0,), (1, 2), (7,), (1, 2)]
    together = fit(recipe, rows, flip_sets, rows.X_val, threads=3)
    backwards = fit(recipe, rows, flip_sets[::-1], rows.X_val, threads=1)
    for k, flips in enumerate(flip_sets):
        alone = fit(recipe, rows, [flips], rows.X_val, threads=2)
        assert bits(together, k) == bits(alone, 0) == bits(backwards, len(flip_sets) - 1 - k)
    assert bits(together, 2) == bits(together, 4)
    assert bits(together, 1) != bits(together, 0)


def test_a_persons_logit_does_not_depend_on_the_other_people():
    rows, recipe = made_rows(), Recipe(max_epochs=2)
    many = fit(recipe, rows, [()], rows.X_val)
    for person in (0, 127, 149):
        one = fit(recipe, rows, [()], rows.X_val[[person]])
        assert one.logits[0, 0] == many.logits[0, person]


def test_flipping_is_training_on_the_flipped_labels():
    rows, recipe, flips = made_rows(), Recipe(hidden=(8,), max_epochs=3), (0, 10, 100)
    turned = Rows(rows.X, rows.labels(flips), rows.X_val, rows.y_val)
    before = rows.y.copy()
    by_set, by_labels = (fit(recipe, data, [chosen], rows.X_val) for data, chosen in ((rows, flips), (turned, ())))
    assert bits(by_set, 0) == bits(by_labels, 0)
    assert bits(by_set, 0) != bits(fit(recipe, rows, [()], rows.X_val), 0)
    np.testing.assert_array_equal(rows.y, before)


def test_max_epochs_and_patience():
    rows = made_rows()
    for epochs in (1, 17, 40):
        fits = fit(Recipe(max_epochs=epochs, patience=1000), rows, [()], rows.X_val)
        assert fits.epochs[0] == epochs
        assert 1 <= fits.best_epoch[0] <= epochs
    fits = fit(Recipe(max_epochs=1000, patience=2, learning_rate=0.05), rows, [()], rows.X_val)
    assert fits.epochs[0] == fits.best_epoch[0] + 2 < 1000


@pytest.mark.parametrize("activation", ["relu", "tanh"])
@pytest.mark.parametrize("hidden", [(), (16, 16)])
def test_diverging_training_ends_like_the_reference(hidden, activation):
    rows = made_rows()
    recipe = Recipe(hidden=hidden, activation=activation, learning_rate=1e37, patience=3)
    network = train(recipe, rows)
    fits = fit(recipe, rows, [()], rows.X_val)
    assert (fits.epochs[0], fits.best_epoch[0]) == (network.epochs, network.best_epoch)
    if network.best_epoch == 0:
        assert np.isnan(train_many(recipe, rows, [()], [0], rows.X_val)).all()
        assert fits.validation_loss[0] == np.inf


def test_nan_in_a_row_is_never_lower():
    rows = made_rows()
    rows.X[7, 2] = np.nan
    recipe = Recipe(hidden=(16,), patience=4)
    network = train(recipe, rows)
    fits = fit(recipe, rows, [()], rows.X_val)
    assert (network.epochs, network.best_epoch) == (fits.epochs[0], fits.best_epoch[0]) == (4, 0)


def test_trainings_longer_than_the_shared_orders(monkeypatch):
    rows, recipe = made_rows(), Recipe(hidden=(4,), max_epochs=70, patience=70)
    usual = fit(recipe, rows, [(), (3,)], rows.X_val)
    monkeypatch.setattr(fused, "SHARED_ORDERS", 1)
    fused.starts.cache_clear()  # the orders of the first call are all there
    drawn_again = fit(recipe, rows, [(), (3,)], rows.X_val)
    assert bits(usual, 0) == bits(drawn_again, 0)
    assert bits(usual, 1) == bits(drawn_again, 1)


def test_nothing_to_train_and_nobody_to_ask():
    rows, recipe = made_rows(), Recipe(hidden=(4,), max_epochs=1)
    none = fit(recipe, rows, [], rows.X_val)
    assert none.logits.shape == (0, 150)
    nobody = fit(recipe, rows, [()], rows.X_val[:0])
    assert nobody.logits.shape == (1, 0)
    assert nobody.epochs[0] == 1


def test_read_only_arrays():
    rows, recipe = made_rows(), Recipe(hidden=(4,), max_epochs=1)
    usual = fit(recipe, rows, [(1,)], rows.X_val)
    for array in (rows.X, rows.y, rows.X_val, rows.y_val):
        array.flags.writeable = False
    assert bits(usual, 0) == bits(fit(recipe, rows, [(1,)], rows.X_val), 0)
    assert len(compiled.run_epochs.signatures) == 1, "compiled a second time"


def test_all_that_is_compiled_is_in_one_file():
    """numba's cache sees a change in a function's own file alone."""
    source = Path(compiled.__file__).read_text()
    assert not re.search(r"^\s*(from \.|from butfor|import butfor)", source, re.MULTILINE)
    others = [path for path in Path(compiled.__file__).parent.glob("*.py") if path.name != "compiled.py"]
    assert not [
        path.name for path in others if re.search(r"^\s*(from|import) (numba|llvmlite)", path.read_text(), re.M)
    ]
    for name in ("BETA1", "BETA2", "EPSILON"):
        assert getattr(compiled, name) == getattr(recipes, name)
    assert recipes.ACTIVATIONS == ("relu", "tanh", "sigmoid")
    assert (compiled.RELU, compiled.TANH, compiled.SIGMOID) == (0, 1, 2)


def test_progress_counts_every_network():
    told: list[int] = []
    recipe, flip_sets = Recipe(hidden=(4,), max_epochs=1), [(k,) for k in range(7)]
    fit(recipe, made_rows(), flip_sets, np.zeros((1, 7), np.float32), advance=told.append)
    assert told == [1] * 7


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError, RuntimeError], ids=lambda error: error.__name__)
def test_a_check_that_raises_ends_the_threads_and_comes_through(error):
    rows, calls, me, before = made_rows(2000), [], threading.get_ident(), threading.active_count()

    def check() -> None:
        calls.append(threading.get_ident())
        if len(calls) == 3:
            raise error("enough")

    recipe = Recipe(max_epochs=10**6, patience=10**6)
    with pytest.raises(error, match="enough"):
        fit(recipe, rows, [(k,) for k in range(1000)], rows.X_val, check=check)
    assert set(calls) == {me}
    assert threading.active_count() == before


def test_an_interrupt_cancels_the_rest():
    finished = []

    def interrupt(_: int) -> None:
        finished.append(1)
        raise KeyboardInterrupt

    rows = made_rows(2000)
    with pytest.raises(KeyboardInterrupt):
        FusedEngine(2).fit_many(
            Recipe(max_epochs=50, patience=50), rows, [(k,) for k in range(1000)], rows.X_val, interrupt
        )
    assert finished == [1]


def test_settings_that_cannot_be_used():
    rows = made_rows(20)
    with pytest.raises(SettingError, match="jobs=0"):
        FusedEngine(n_jobs=0)
    with pytest.raises(SettingError, match="0 to 19"):
        FusedEngine(1).fit_many(Recipe(), rows, [(20,)], rows.X_val)
    for flips in ((20,), (-1,), (1, 99)):
        with pytest.raises(ValueError, match="0 to 19"):
            fit(Recipe(), rows, [(), flips], rows.X_val)
    with pytest.raises(ValueError, match="people 6"):
        fit(Recipe(), rows, [()], rows.X_val[:, :6])
    with pytest.raises(ValueError, match="one label"):
        fit(Recipe(), Rows(rows.X, rows.y[:-1], rows.X_val, rows.y_val), [()], rows.X_val)
    for wrong in ({"hidden": (0,)}, {"activation": "step"}, {"learning_rate": 0}, {"patience": 0}, {"seed": -1}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            Recipe(**wrong)


def test_compiling_is_announced(capsys):
    machine._announce()
    assert "Compiling" in capsys.readouterr().err
    fused.prepare()
    assert fused.is_prepared()

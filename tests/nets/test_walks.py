"""The compiled training gradient against the one of stacked tensors."""

import numpy as np
import pytest

from butfor.nets import Recipe, Rows, fused, label_gradient, walks
from butfor.nets.sweeps import Sweep, sweep_many
from butfor.nets.walks import Training

# One worker compiles for all tests of compiled code.
pytestmark = pytest.mark.xdist_group("fused")

FIELDS = ("logits", "gradient", "epoch_logits", "validation_losses", "validation_gradients")


def made_rows(one_hot, n=150, validated=60):
    """Twelve columns of five values, one-hot or as numbers; labels that a network can learn in part."""
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 5, (n + validated, 12))
    y = (codes[:, :3].sum(axis=1) + rng.normal(size=len(codes)) > 6).astype(np.float32)
    X = np.eye(5, dtype=np.float32)[codes].reshape(len(codes), -1) if one_hot else codes / 2.0 - 1
    return Rows(X[:n], y[:n], X[n:], y[n:])


@pytest.mark.parametrize(
    ("hidden", "batch_size", "one_hot"),
    [((6, 5), 16, True), ((32, 32), 128, True), ((9,), None, True), ((6, 5, 4), 140, False), ((70,), 16, False)],
)
def test_compiled_and_stacked_sweeps_agree(hidden, batch_size, one_hot):
    recipe = Recipe(hidden, learning_rate=0.01, max_epochs=9, patience=3, batch_size=batch_size)
    rows = made_rows(one_hot)
    assert (fused.entries(rows) is not None) == one_hot
    for sweep in (Sweep(0, (), np.arange(4)), Sweep(3, (1, 5), np.array([2])), Sweep(4, (), np.array([], np.int64))):
        ours = Training(recipe, rows, sweep, print).walk_back(rows.X_val[sweep.people], 4)
        [theirs] = sweep_many(recipe, rows, [sweep], rows.X_val, epochs=4)
        assert ours.epochs == theirs.epochs
        assert np.array_equal(ours.moves, theirs.moves)
        for name in FIELDS:
            found, expected = getattr(ours, name), getattr(theirs, name)
            assert found.shape == expected.shape
            assert np.abs(found - expected).max(initial=0) <= 2e-4 * np.abs(expected).max(initial=1), name


def test_a_person_alone_or_among_others():
    recipe, rows = Recipe(max_epochs=4, batch_size=32), made_rows(True)
    training = Training(recipe, rows, Sweep(0, (), np.arange(5)), print)
    together, again, alone = (training.walk_back(rows.X_val[people], 2) for people in (slice(5), slice(5), slice(1, 2)))
    assert all(np.array_equal(getattr(together, name), getattr(again, name)) for name in FIELDS)
    assert np.array_equal(together.gradient[1], alone.gradient[0])


def test_only_what_is_compiled_goes_there(monkeypatch):
    class Walked(Exception):
        pass

    def walked(*_):
        raise Walked

    monkeypatch.setattr(walks, "Training", walked)
    rows, sweep = made_rows(True), Sweep(0, (), np.arange(2))
    with pytest.raises(Walked):
        list(label_gradient(Recipe(max_epochs=1), rows, [sweep], rows.X_val))
    for recipe in (Recipe(activation="tanh", max_epochs=1), Recipe(hidden=(), max_epochs=1)):
        assert len(list(label_gradient(recipe, rows, [sweep], rows.X_val))) == 1


def test_a_training_that_diverges_depends_on_no_label():
    rows = made_rows(True)
    broken = Rows(rows.X, rows.y, np.full_like(rows.X_val, np.nan), rows.y_val)
    result = Training(Recipe(max_epochs=2), broken, Sweep(0, (), np.arange(2)), print).walk_back(rows.X_val[:2], 3)
    assert result.epochs == (0,)
    assert not result.gradient.any()


def test_a_check_that_raises_ends_a_sweep():
    def check():
        raise KeyError("enough")

    rows = made_rows(True)
    with pytest.raises(KeyError):
        list(label_gradient(Recipe(), rows, [Sweep(0, (), np.arange(2))], rows.X_val, check=check))

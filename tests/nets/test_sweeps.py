"""Sweeps side by side against the same sweeps one by one."""

import signal
import threading
import time
from dataclasses import replace

import numpy as np
import pytest
import torch

from benchmarks.work import encoded, network
from butfor.errors import Stopped
from butfor.nets import Recipe, Rows, label_gradient, train_one
from butfor.nets import sweeps as module
from butfor.nets.sweeps import Sweep, sweep_many
from butfor.rank.gradient import Walk, flip_effects
from butfor.stopping import listen

RECIPE = Recipe(hidden=(6, 5), activation="tanh", learning_rate=0.02, max_epochs=12, patience=3, batch_size=16)
SWEEPS = [
    Sweep(0, (), np.arange(7)),
    Sweep(3, (1, 5), np.array([2])),
    Sweep(0, (7,), np.array([3, 1])),
    Sweep(4, (), np.array([0, 6])),
    Sweep(5, (2,), np.array([], np.int64)),
]


@pytest.fixture(scope="module")
def rows():
    """Validation rows of their own, so that the networks stop at different epochs."""
    rng = np.random.default_rng(0)
    X, X_val = rng.normal(size=(60, 4)), rng.normal(size=(40, 4))
    labels = [(x[:, 0] + rng.normal(size=len(x)) > 0).astype(np.float32) for x in (X, X_val)]
    return Rows(X, labels[0], X_val, labels[1])


@pytest.fixture(scope="module")
def people():
    return np.random.default_rng(1).normal(size=(7, 4)).astype(np.float32)


def one_by_one(recipe, rows, sweeps, people, **settings):
    return [sweep_many(recipe, rows, [sweep], people, **settings)[0] for sweep in sweeps]


def close(ours, theirs, share):
    """Equal up to a share of the largest number."""
    ours, theirs = np.asarray(ours), np.asarray(theirs)
    return ours.shape == theirs.shape and bool(
        (np.abs(ours - theirs) <= share * np.abs(theirs).max(initial=1e-30)).all()
    )


def check(swept, expected, share):
    assert swept.epochs == expected.epochs
    assert np.array_equal(swept.moves, expected.moves)
    for field in ("logits", "gradient", "epoch_logits", "validation_losses", "validation_gradients"):
        assert close(getattr(swept, field), getattr(expected, field), share), field


@pytest.mark.parametrize(
    ("activation", "hidden", "batch_size", "epochs"),
    [
        ("tanh", (6, 5), 16, 3),
        ("relu", (6, 5), 16, 1),
        ("relu", (6, 5), None, 3),
        ("tanh", (4,), None, 1),
        ("sigmoid", (4, 3, 3), 16, 3),
        ("relu", (), 60, 3),
    ],
)
def test_together_they_are_what_each_is_alone(activation, hidden, batch_size, epochs, rows, people):
    recipe = replace(RECIPE, activation=activation, hidden=hidden, batch_size=batch_size)
    together = sweep_many(recipe, rows, SWEEPS, people, epochs=epochs, dtype=torch.float64)
    alone = one_by_one(recipe, rows, SWEEPS, people, epochs=epochs, dtype=torch.float64)
    for ours, theirs in zip(together, alone, strict=True):
        check(ours, theirs, 1e-8)
    if hidden == (6, 5):
        assert len({result.epochs[0] for result in together}) > 1


def test_in_float32_up_to_rounding(rows, people):
    alone = one_by_one(RECIPE, rows, SWEEPS, people, epochs=2)
    for ours, theirs in zip(sweep_many(RECIPE, rows, SWEEPS, people, epochs=2), alone, strict=True):
        check(ours, theirs, 1e-4)
        assert ours.gradient.dtype == ours.epoch_logits.dtype == np.float32


def test_little_memory_changes_nothing(rows, people, monkeypatch):
    plenty = sweep_many(RECIPE, rows, SWEEPS, people, epochs=2, dtype=torch.float64)
    monkeypatch.setitem(module.MEMORY, "cpu", 60_000)
    for ours, theirs in zip(
        sweep_many(RECIPE, rows, SWEEPS, people, epochs=2, dtype=torch.float64), plenty, strict=True
    ):
        check(ours, theirs, 1e-9)


@pytest.mark.parametrize("activation", ["tanh", "relu"])
def test_however_many_threads_answers_are_in_the_order_asked_for(activation, rows, people):
    recipe = replace(RECIPE, activation=activation)
    alone, together = (list(label_gradient(recipe, rows, SWEEPS, people, epochs=2, threads=n)) for n in (1, 3))
    for ours, theirs in zip(together, alone, strict=True):
        check(ours, theirs, 1e-4)


def test_a_person_alone_or_among_others(rows, people):
    crowd = np.tile(people, (10, 1))
    [together] = sweep_many(RECIPE, rows, [Sweep(0, (), np.arange(70))], crowd, epochs=2)
    [alone] = sweep_many(RECIPE, rows, [Sweep(0, (), np.array([1]))], crowd, epochs=2)
    for place in (1, 36, 64):  # in different tiles
        assert together.gradient[place] == pytest.approx(alone.gradient[0], rel=1e-4, abs=1e-6)


def test_a_training_that_diverges_depends_on_no_label(rows, people):
    broken = Rows(rows.X, rows.y, np.full_like(rows.X_val, np.nan), rows.y_val)
    for result in sweep_many(RECIPE, broken, SWEEPS[:2], people, epochs=3):
        assert result.epochs == (0,)
        assert not result.gradient.any()
        assert not result.validation_gradients.any()
        assert not flip_effects(result, 5e-4).any()


def test_on_german():
    """Trainings side by side, and forwards the reference."""
    rows, people, setup = encoded("german")
    recipe, sweeps = network(setup).recipe(), [Sweep(0, (), np.arange(5)), Sweep(1, (10, 20), np.arange(5))]
    together = sweep_many(recipe, rows, sweeps, people, epochs=2)
    alone = one_by_one(recipe, rows, sweeps, people, epochs=2)
    for sweep, ours, theirs in zip(sweeps, together, alone, strict=True):
        check(ours, theirs, 1e-3)
        reference = train_one(replace(recipe, seed=sweep.seed), rows, sweep.flips)
        assert ours.epochs[0] == reference.best_epoch
        assert ours.logits == pytest.approx(reference.logits(people[:5]), abs=1e-4)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
@pytest.mark.parametrize("batch_size", [None, 16])
def test_cuda_gives_what_the_cpu_gives(batch_size, rows, people):
    recipe = replace(RECIPE, batch_size=batch_size)
    here, there = (
        sweep_many(recipe, rows, SWEEPS, people, epochs=3, dtype=torch.float64, device=torch.device(device))
        for device in ("cpu", "cuda")
    )
    for ours, theirs in zip(there, here, strict=True):
        check(ours, theirs, 1e-6)


def test_nothing_asked_nothing_done(rows, people):
    assert sweep_many(RECIPE, rows, [], people) == []


def test_settings_that_cannot_be_used_are_refused(rows, people):
    with pytest.raises(ValueError, match="epochs"):
        list(label_gradient(RECIPE, rows, SWEEPS, people, epochs=0))
    with pytest.raises(ValueError, match="0 to 59"):
        list(label_gradient(RECIPE, rows, [Sweep(0, (60,), np.arange(2))], people))


@pytest.mark.parametrize("heard_by", ["the main thread", "another one"])
def test_ctrl_c_ends_all_threads_in_the_midst_of_their_sweeps(rows, people, heard_by):
    """Whichever thread the signal finds: if it is not the main one, that one sleeps on."""
    endless = replace(RECIPE, max_epochs=10**4, patience=10**4)
    walk = Walk(endless, rows, people, 1, 5e-4, "cpu")
    before = threading.active_count()
    main = threading.main_thread().ident if heard_by == "the main thread" else None
    timer = threading.Timer(0.3, lambda: signal.pthread_kill(main or threading.get_ident(), signal.SIGINT))
    timer.start()
    started = time.monotonic()
    with pytest.raises(Stopped), listen():
        walk.effects(SWEEPS, 2)
    assert time.monotonic() - started < 60  # to their end the sweeps take minutes
    timer.join()
    assert threading.active_count() == before

"""Sweeps side by side against the same sweeps one by one."""

import signal
import threading
import time
from dataclasses import replace

import numpy as np
import pytest
import torch

import butfor
from butfor.errors import SettingError
from butfor.mlp.recipe import Recipe, Rows
from butfor.mlp.stacks import principal
from butfor.mlp.sweeps import Block, Data, Plan, Sweep, sweep_many
from butfor.rank.gradient import Walk, label_gradients

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
    return [
        label_gradients(replace(recipe, seed=sweep.seed), rows, people[sweep.people], sweep.flips, **settings)
        for sweep in sweeps
    ]


def close(ours, theirs, share):
    """Equal up to a share of the largest number."""
    ours, theirs = np.asarray(ours), np.asarray(theirs)
    return ours.shape == theirs.shape and bool(
        (np.abs(ours - theirs) <= share * np.abs(theirs).max(initial=1e-30)).all()
    )


def check(swept, expected, share):
    assert swept.epochs == expected.epochs
    assert np.array_equal(swept.labels, expected.labels)
    for field in ("logits", "gradient", "epoch_logits", "validation_losses", "validation_gradients"):
        assert close(getattr(swept, field), getattr(expected, field), share), field
    network, reference = swept.network, expected.network
    assert network.recipe == reference.recipe
    assert (network.best_epoch, network.epochs) == (reference.best_epoch, reference.epochs)
    for ours, theirs in zip(network.weights + network.biases, reference.weights + reference.biases, strict=True):
        assert np.abs(ours - theirs).max() < 1e-5


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
        assert len({result.network.epochs for result in together}) > 1


def test_in_float32_up_to_rounding(rows, people):
    for ours, theirs in zip(
        sweep_many(RECIPE, rows, SWEEPS, people, epochs=2),
        one_by_one(RECIPE, rows, SWEEPS, people, epochs=2),
        strict=True,
    ):
        check(ours, theirs, 1e-4)
        assert ours.gradient.dtype == np.float32


def test_without_validation_losses_the_logits_are_differentiated_alike(rows, people):
    bare = sweep_many(RECIPE, rows, SWEEPS, people, epochs=0, dtype=torch.float64)
    for ours, theirs in zip(bare, sweep_many(RECIPE, rows, SWEEPS, people, dtype=torch.float64), strict=True):
        assert ours.epochs == theirs.epochs
        assert close(ours.gradient, theirs.gradient, 1e-10)
        assert ours.validation_gradients.shape == (0, rows.n)


@pytest.mark.parametrize("batch_size", [None, 16])
def test_little_memory_changes_nothing(batch_size, rows, people):
    recipe = replace(RECIPE, batch_size=batch_size)
    finished = []
    scarce = sweep_many(
        recipe, rows, SWEEPS, people, epochs=2, dtype=torch.float64, memory_limit=60_000, progress=finished.append
    )
    assert finished == [1] * len(SWEEPS)
    for ours, theirs in zip(
        scarce, sweep_many(recipe, rows, SWEEPS, people, epochs=2, dtype=torch.float64), strict=True
    ):
        assert ours.epochs == theirs.epochs
        assert close(ours.gradient, theirs.gradient, 1e-9)
        assert close(ours.validation_gradients, theirs.validation_gradients, 1e-9)
    with pytest.raises(SettingError, match="too little to walk back 1 trainings"):
        sweep_many(RECIPE, rows, SWEEPS[:1], people, memory_limit=3000)


def test_checkpoints_of_a_block_are_replayed(rows, people):
    """Networks that stopped within a stretch between two checkpoints, and others that went on."""
    data = Data.of(rows, people, torch.device("cpu"), torch.float64)
    with torch.no_grad():
        plenty, scarce = (Block(RECIPE, data, rows, SWEEPS, limit) for limit in (2**24, 280_000))
        assert (plenty.tape.stride, scarce.tape.stride) == (1, 8)
        assert len(set(scarce.ran)) > 1
        for ours, theirs in zip(scarce.swept(3, 0), plenty.swept(3, 0), strict=True):
            assert close(ours.gradient, theirs.gradient, 1e-10)
            assert close(ours.validation_gradients, theirs.validation_gradients, 1e-10)


def test_directions_and_networks_begin_with_their_epochs():
    plan = Plan.of(np.array([4, 6]), [[4, 7, 2], [6, 5, 1]], width=2)
    assert plan.logits.tolist() == [1, 0]
    assert plan.losses == [[3, 0, 4], [2, 3, 4]]
    assert plan.order.tolist() == [0, 1]
    assert [plan.at_work[epoch] for epoch in (7, 6, 5, 4, 1)] == [(1, 1), (2, 3), (2, 4), (2, 4), (2, 5)]


def test_fewer_directions_than_people(rows):
    crowd = np.random.default_rng(2).normal(size=(60, 4)).astype(np.float32)
    sweeps = [Sweep(0, (), np.arange(60)), Sweep(1, (4,), np.arange(40))]
    exact, tiny, rough = (
        sweep_many(RECIPE, rows, sweeps, crowd, accuracy=accuracy, dtype=torch.float64) for accuracy in (0, 1e-7, 0.05)
    )
    for all_of_them, nearly, some in zip(exact, tiny, rough, strict=True):
        assert close(nearly.gradient, all_of_them.gradient, 1e-5)
        off = np.linalg.norm(some.gradient - all_of_them.gradient) / np.linalg.norm(all_of_them.gradient)
        assert 1e-4 < off < 0.1
        assert np.array_equal(some.logits, all_of_them.logits)
        assert close(some.validation_gradients, all_of_them.validation_gradients, 1e-9)


def test_the_basis_leaves_out_no_more_than_allowed():
    generator = torch.Generator().manual_seed(0)
    vectors = torch.randn(3, 20, 50, generator=generator) * torch.logspace(0, -3, 50)
    basis = principal(vectors, 0.1)
    assert basis.shape[2] < 20
    left_out = vectors - basis @ (basis.mT @ vectors)
    shares = left_out.flatten(1).norm(dim=1) / vectors.flatten(1).norm(dim=1)
    assert shares.max() <= 0.1


def test_a_training_that_diverges_depends_on_no_label(rows, people):
    broken = Rows(rows.X, rows.y, np.full_like(rows.X_val, np.nan), rows.y_val)
    for ours, theirs in zip(
        sweep_many(RECIPE, broken, SWEEPS[:2], people, epochs=3),
        one_by_one(RECIPE, broken, SWEEPS[:2], people, epochs=3),
        strict=True,
    ):
        assert ours.epochs == theirs.epochs == (0,)
        assert ours.logits == pytest.approx(theirs.logits, abs=1e-6)
        assert not ours.gradient.any()
        assert not ours.validation_gradients.any()


def test_on_german():
    data = butfor.load_dataset("german")
    encoder = butfor.TableEncoder("embed", data.setup.numeric).fit(data.X_train)
    tables = [encoder.transform(X) for X in (data.X_train, data.X_val, data.X_test.iloc[:5])]
    labels = [(y == y.max()).to_numpy(np.float32) for y in (data.y_train, data.y_val)]
    german, people = Rows(tables[0], labels[0], tables[1], labels[1]), tables[2]
    recipe = Recipe(hidden=data.setup.hidden, max_epochs=data.setup.max_epochs, batch_size=data.setup.batch_size)
    sweeps = [Sweep(0, (), np.arange(5)), Sweep(1, (10, 20), np.arange(5))]
    for ours, theirs in zip(
        sweep_many(recipe, german, sweeps, people, epochs=2),
        one_by_one(recipe, german, sweeps, people, epochs=2),
        strict=True,
    ):
        check(ours, theirs, 1e-3)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
@pytest.mark.parametrize("batch_size", [None, 16])
def test_cuda_gives_what_the_cpu_gives(batch_size, rows, people):
    recipe = replace(RECIPE, batch_size=batch_size)
    here, there = (
        sweep_many(recipe, rows, SWEEPS, people, epochs=3, dtype=torch.float64, device=device)
        for device in ("cpu", "cuda")
    )
    for ours, theirs in zip(there, here, strict=True):
        check(ours, theirs, 1e-6)


def test_nothing_asked_nothing_done(rows, people):
    assert sweep_many(RECIPE, rows, [], people) == []


def test_settings_that_cannot_be_used_are_refused(rows, people):
    with pytest.raises(SettingError, match="epochs"):
        sweep_many(RECIPE, rows, SWEEPS, people, epochs=-1)
    with pytest.raises(SettingError, match="accuracy"):
        sweep_many(RECIPE, rows, SWEEPS, people, accuracy=1.0)


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
    with pytest.raises(KeyboardInterrupt):
        walk.side_by_side([SWEEPS[:1], SWEEPS[1:]])
    assert time.monotonic() - started < 20  # to their end the sweeps take longer than a minute
    timer.join()
    assert threading.active_count() == before

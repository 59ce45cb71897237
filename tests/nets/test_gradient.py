"""The derivative of people's logits by the training labels: against autograd, and one way of
computing it against another."""

import threading
from dataclasses import replace

import numpy as np
import pytest
import torch

from butfor.nets import Recipe, Rows, label_gradient
from butfor.nets.definition import batch_orders, packed_start
from butfor.nets.recipe import unpack
from butfor.nets.sweeps import Sweep, sweep_many
from nets.test_trainings import made, on_cuda

RECIPE = Recipe((6, 5), learning_rate=0.02, max_epochs=12, patience=3, batch_size=16)
PEOPLE = np.random.default_rng(1).normal(size=(7, 7)).astype(np.float32)
SWEEPS = [
    Sweep(0, (), np.arange(7)),
    Sweep(3, (1, 5), np.array([2])),
    Sweep(0, (7,), np.array([3, 1])),
    Sweep(4, (), np.array([0, 6])),
    Sweep(5, (2,), np.array([], np.int64)),
]
FIELDS = ("logits", "gradient", "epoch_logits", "validation_losses", "validation_gradients")


def check(swept, expected, share: float) -> None:
    """Equal up to a share of the largest number."""
    assert swept.epochs == expected.epochs
    assert np.array_equal(swept.moves, expected.moves)
    for name in FIELDS:
        found, other = np.asarray(getattr(swept, name)), np.asarray(getattr(expected, name))
        assert found.shape == other.shape
        assert np.abs(found - other).max(initial=0) <= share * np.abs(other).max(initial=1e-30), (
            name
        )


@pytest.mark.parametrize(
    ("activation", "batch_size", "classes"),
    [("relu", None, 2), ("relu", 16, 4), ("tanh", 16, 2), ("tanh", None, 4)],
)
def test_it_is_that_of_autograd(activation, batch_size, classes):
    """The whole training as one function of how far each label is on its way from the old to the
    new one."""
    rows, recipe = (
        made(60, classes=classes),
        replace(RECIPE, activation=activation, batch_size=batch_size),
    )
    [swept] = sweep_many(recipe, rows, [Sweep(0, (), np.arange(7))], PEOPLE, dtype=torch.float64)
    moved = torch.zeros(60, dtype=torch.float64, requires_grad=True)
    margins = trained(recipe, rows, moved, swept.epochs[0])
    assert np.allclose(swept.logits, margins.detach().numpy(), atol=1e-6)
    signs = swept.moves if classes == 2 else 1  # with two labels by the label itself, from 0 to 1
    for person in range(7):
        [expected] = torch.autograd.grad(margins[person], moved, retain_graph=True)
        assert np.allclose(swept.gradient[person] * signs, expected.numpy(), rtol=1e-5, atol=1e-9)


def trained(recipe: Recipe, rows: Rows, moved: torch.Tensor, epochs: int) -> torch.Tensor:
    """The people's margins after so many epochs of Adam, step by step."""
    widths, old = rows.widths(recipe), torch.from_numpy(rows.y).long()
    pairs = zip(*unpack(packed_start(widths, recipe.seed), widths), strict=True)
    w = [part.double().requires_grad_() for pair in pairs for part in pair]
    m, v, step = [0.0] * len(w), [0.0] * len(w), 0
    X, hot = torch.from_numpy(rows.X).double(), torch.eye(rows.classes, dtype=torch.float64)
    new = 1 - old if rows.flipped is None else torch.from_numpy(rows.flipped)
    Y = hot[old] + moved[:, None] * (hot[new] - hot[old])

    def scores(h: torch.Tensor) -> torch.Tensor:
        for layer in range(0, len(w), 2):
            h = h @ w[layer].T + w[layer + 1]
            h = getattr(torch, recipe.activation)(h) if layer < len(w) - 2 else h
        return torch.cat([torch.zeros_like(h), h], dim=1) if rows.outputs == 1 else h

    orders = batch_orders(recipe, rows.n)
    for _ in range(epochs):
        for batch in next(orders).split(recipe.batch_size or rows.n):
            step += 1
            loss = -(Y[batch] * torch.log_softmax(scores(X[batch]), dim=1)).sum(1).mean()
            for k, g in enumerate(torch.autograd.grad(loss, w, create_graph=True)):
                m[k], v[k] = 0.9 * m[k] + 0.1 * g, 0.999 * v[k] + 0.001 * g**2
                scale = (
                    torch.where(v[k] > 0, v[k], 1).sqrt() * (v[k] > 0) / (1 - 0.999**step) ** 0.5
                    + 1e-8
                )
                w[k] = w[k] - recipe.learning_rate / (1 - 0.9**step) * m[k] / scale
    final = scores(torch.from_numpy(PEOPLE).double())
    towards = torch.from_numpy(np.array([False, True]) if rows.towards is None else rows.towards)
    return final[:, towards].max(dim=1).values - final[:, ~towards].max(dim=1).values


@pytest.mark.parametrize(
    ("activation", "hidden", "batch_size", "epochs"),
    [
        ("tanh", (6, 5), 16, 2),
        ("relu", (6, 5), None, 1),
        ("sigmoid", (4, 3, 3), 60, 2),
        ("relu", (), 60, 3),
    ],
)
def test_together_they_are_what_each_is_alone(activation, hidden, batch_size, epochs, monkeypatch):
    recipe, rows = (
        replace(RECIPE, activation=activation, hidden=hidden, batch_size=batch_size),
        made(),
    )
    how = {"epochs": epochs, "dtype": torch.float64}
    together = sweep_many(recipe, rows, SWEEPS, PEOPLE, **how)
    for sweep, ours in zip(SWEEPS, together, strict=True):
        check(ours, sweep_many(recipe, rows, [sweep], PEOPLE, **how)[0], 1e-8)
    monkeypatch.setitem(sweep_many.__globals__["BLOCK_BYTES"], "cpu", 60_000)
    for ours, little in zip(together, sweep_many(recipe, rows, SWEEPS, PEOPLE, **how), strict=True):
        check(little, ours, 1e-8)
    assert sweep_many(recipe, rows, [], PEOPLE) == []


@pytest.mark.parametrize(
    ("recipe", "hot"),
    [
        (Recipe((32, 32), max_epochs=9, patience=3, batch_size=100), 6),
        (Recipe((9,), max_epochs=9, batch_size=None), 6),
        (Recipe((6, 5, 4), max_epochs=9, batch_size=140), 0),
        (replace(RECIPE, activation="tanh"), 0),
    ],
    ids=str,
)
def test_compiled_code_stacked_tensors_and_threads_agree(recipe, hot):
    rows = made(150, hot=hot)
    sweeps = [
        Sweep(0, (), np.arange(4)),
        Sweep(3, (1, 5), np.array([2])),
        Sweep(4, (), np.array([], np.int64)),
    ]
    stacked = [sweep_many(recipe, rows, [sweep], rows.X_val, epochs=4)[0] for sweep in sweeps]
    for threads in (1, 3):
        found = label_gradient(recipe, rows, sweeps, rows.X_val, epochs=4, threads=threads)
        for ours, expected in zip(found, stacked, strict=True):
            check(ours, expected, 5e-4)
    [alone] = label_gradient(recipe, rows, [Sweep(0, (), np.array([1]))], rows.X_val, epochs=4)
    assert alone.gradient[0] == pytest.approx(stacked[0].gradient[1], rel=1e-3, abs=1e-5)


@on_cuda
@pytest.mark.parametrize("batch_size", [None, 16])
def test_cuda_gives_what_the_cpu_gives(batch_size):
    recipe = replace(RECIPE, activation="tanh", batch_size=batch_size)
    here, there = (
        sweep_many(
            recipe,
            made(),
            SWEEPS,
            PEOPLE,
            epochs=3,
            dtype=torch.float64,
            device=torch.device(device),
        )
        for device in ("cpu", "cuda")
    )
    for ours, theirs in zip(there, here, strict=True):
        check(ours, theirs, 1e-6)


@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_a_training_that_diverges_depends_on_no_label_and_a_check_that_raises_ends_all_threads(
    activation,
):
    rows, recipe = made(), replace(RECIPE, activation=activation)
    broken = Rows(rows.X, rows.y, np.full_like(rows.X_val, np.nan), rows.y_val)
    for found in label_gradient(recipe, broken, SWEEPS[:2], PEOPLE, epochs=3):
        assert found.epochs == (0,)
        assert not found.gradient.any()
        assert not found.validation_gradients.any()
    endless, before, calls = (
        replace(recipe, max_epochs=10**4, patience=10**4),
        threading.active_count(),
        [],
    )

    def enough() -> None:
        calls.append(1)
        if len(calls) > 3:
            raise KeyError("enough")

    with pytest.raises(KeyError):
        list(label_gradient(endless, rows, SWEEPS, PEOPLE, threads=2, check=enough))
    assert threading.active_count() == before

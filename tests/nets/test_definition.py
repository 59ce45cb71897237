"""The definition gives the bits of twenty lines of PyTorch: autograd and torch.optim.Adam."""

from dataclasses import replace
from itertools import pairwise

import pytest
import torch
from torch import nn

from benchmarks.work import encoded, network, packed
from butfor.nets import Recipe, Rows, train_one
from butfor.nets.recipe import one_thread
from nets.test_trainings import made


def plain(recipe: Recipe, rows: Rows, flips: tuple[int, ...]) -> tuple[torch.Tensor, int, int]:
    torch.manual_seed(recipe.seed)
    activation = {"relu": nn.ReLU, "tanh": nn.Tanh, "sigmoid": nn.Sigmoid}[recipe.activation]
    widths, layers = rows.widths(recipe), list[nn.Module]()
    for into, out in pairwise(widths):
        layers += [nn.Linear(into, out), activation()]
    f, order = nn.Sequential(*layers[:-1]), torch.Generator().manual_seed(recipe.seed)
    loss = nn.BCEWithLogitsLoss() if rows.classes == 2 else nn.CrossEntropyLoss()
    labels = (lambda y: y[:, None]) if rows.classes == 2 else (lambda y: y.long())
    X, y, X_val, y_val = map(torch.from_numpy, (rows.X, rows.labels(flips), rows.X_val, rows.y_val))
    adam = torch.optim.Adam(f.parameters(), lr=recipe.learning_rate)
    best, kept, weights, epoch = float("inf"), 0, None, 0
    while epoch < recipe.max_epochs and epoch - kept < recipe.patience:
        epoch += 1
        whole = recipe.batch_size is None
        for batch in (
            [slice(None)]
            if whole
            else torch.randperm(rows.n, generator=order).split(recipe.batch_size)
        ):
            adam.zero_grad()
            loss(f(X[batch]), labels(y[batch])).backward()
            adam.step()
        with torch.no_grad():
            now = loss(f(X_val), labels(y_val)).item()
        if now < best:
            best, kept, weights = (
                now,
                epoch,
                nn.utils.parameters_to_vector(f.parameters()).detach().clone(),
            )
    return weights, kept, epoch


@pytest.mark.parametrize(
    ("changes", "flips"),
    [
        ({}, (0, 5, 17, 599)),
        ({"hidden": (), "batch_size": 77, "max_epochs": 20}, ()),
        ({"hidden": (7,), "activation": "tanh", "batch_size": 599, "max_epochs": 10}, (3,)),
        (
            {
                "hidden": (19, 11, 3),
                "activation": "sigmoid",
                "batch_size": 10_000,
                "max_epochs": 10,
            },
            (0, 599),
        ),
        ({"hidden": (4,), "batch_size": 1, "max_epochs": 1}, (1,)),
    ],
    ids=str,
)
def test_bits_are_those_of_plain_pytorch_on_a_real_table(changes, flips):
    rows, _, setup = encoded("german")
    check(replace(network(setup).recipe(), **changes, seed=len(flips)), rows, flips)


@pytest.mark.parametrize("batch_size", [None, 16])
def test_bits_are_those_of_plain_pytorch_with_three_classes(batch_size):
    check(Recipe((6, 5), "tanh", batch_size=batch_size, max_epochs=30), made(classes=3), (3, 7))


def check(recipe: Recipe, rows: Rows, flips: tuple[int, ...]) -> None:
    with one_thread():
        weights, kept, epochs = plain(recipe, rows, flips)
    ours = train_one(recipe, rows, flips)
    assert (ours.best_epoch, ours.epochs) == (kept, epochs)
    assert packed(ours).tobytes() == weights.numpy().tobytes()

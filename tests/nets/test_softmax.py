"""Our network with more than two classes: the fast ways beside the reference."""

import numpy as np
import pytest
import torch

from benchmarks.work import packed
from butfor import FusedEngine, StackedEngine
from butfor.models.decision_split import DecisionSplit
from butfor.models.loop import Loop, same_bits
from butfor.nets import Recipe, Rows, definition
from butfor.nets.definition import train_one
from butfor.nets.recipe import unpack
from butfor.nets.sweeps import Sweep, sweep_many
from butfor.rank.gradient import flip_effects

CLASSES = 4


def subject(decided: int = 0, new: int = 1) -> tuple[Rows, np.ndarray]:
    rng = np.random.default_rng(0)
    X, X_val, people = (rng.normal(size=(n, 5)).astype(np.float32) for n in (60, 20, 6))
    true = rng.normal(size=(5, CLASSES))
    y, y_val = ((rows @ true).argmax(axis=1).astype(np.float32) for rows in (X, X_val))
    return Rows(X, y, X_val, y_val, CLASSES, np.full(60, new), np.arange(CLASSES) != decided), people


def recipe(activation: str = "tanh", batch_size: int | None = 16) -> Recipe:
    return Recipe(hidden=(6, 5), activation=activation, batch_size=batch_size, max_epochs=30)


@pytest.mark.parametrize("engine", [StackedEngine("cpu"), FusedEngine(1)], ids=["stacked", "fused"])
@pytest.mark.parametrize("batch_size", [None, 16])
@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_engines_train_the_reference(engine, batch_size, activation):
    rows, people = subject()
    sets, seeds = [(), (3,), (3, 7, 20)], [0, 5, 5]
    found = engine.fit_many(recipe(activation, batch_size), rows, sets, people, seeds=seeds)
    for k, (flips, seed) in enumerate(zip(sets, seeds, strict=True)):
        expected = train_one(Recipe(**recipe(activation, batch_size).__dict__ | {"seed": seed}), rows, flips, Loop)
        assert found.best_epoch[k] == expected.best_epoch
        assert np.allclose(found.logits[k].reshape(-1, CLASSES), expected.logits(people), atol=1e-5)


@pytest.mark.parametrize("batch_size", [None, 16])
@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_called_directly_it_is_the_reference_to_the_bit(activation, batch_size):
    rows, _ = subject()
    how = recipe(activation, batch_size)
    assert same_bits(how, rows)
    for flips in ((), (3, 7)):
        assert packed(train_one(how, rows, flips)).tobytes() == packed(train_one(how, rows, flips, Loop)).tobytes()


@pytest.mark.parametrize("batch_size", [None, 16])
@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_the_training_gradient_is_that_of_autograd(activation, batch_size):
    """The whole training as one function of how far each label is on its way from the old to the new one."""
    rows, people = subject()
    how = recipe(activation, batch_size)
    [swept] = sweep_many(how, rows, [Sweep(0, (), np.arange(6))], people, dtype=torch.float64)
    moved = torch.zeros(60, dtype=torch.float64, requires_grad=True)
    margins = _trained(how, rows, moved, swept.epochs[0], torch.tensor(people, dtype=torch.float64))
    assert np.allclose(swept.logits, margins.detach().numpy(), atol=1e-6)
    for person in range(6):
        [expected] = torch.autograd.grad(margins[person], moved, retain_graph=True)
        assert np.allclose(swept.gradient[person], expected.numpy(), rtol=1e-5, atol=1e-9)
    assert not flip_effects(swept, 1e-3)[:, rows.y == 1].any()


def _trained(how: Recipe, rows: Rows, moved: torch.Tensor, epochs: int, people: torch.Tensor) -> torch.Tensor:
    """The people's margins after so many epochs of Adam, step by step."""
    weights, biases = unpack(definition.packed_start(rows.widths(how), how.seed), rows.widths(how))
    start = [part.double() for pair in zip(weights, biases, strict=True) for part in pair]
    w, m, v = [t.requires_grad_() for t in start], [0.0] * len(start), [0.0] * len(start)
    X, old = torch.tensor(rows.X, dtype=torch.float64), torch.tensor(rows.y).long()
    hot = torch.eye(CLASSES, dtype=torch.float64)
    Y = hot[old] + moved[:, None] * (hot[torch.from_numpy(rows.flipped)] - hot[old])
    act, orders, step = getattr(torch, how.activation), definition.batch_orders(how, rows.n), 0

    def outputs(inputs: torch.Tensor) -> torch.Tensor:
        for layer in range(0, len(w), 2):
            inputs = inputs @ w[layer].T + w[layer + 1]
            inputs = act(inputs) if layer < len(w) - 2 else inputs
        return inputs

    for _ in range(epochs):
        for batch in next(orders).split(how.batch_size or rows.n):
            step += 1
            loss = -(Y[batch] * torch.log_softmax(outputs(X[batch]), dim=1)).sum(1).mean()
            for k, g in enumerate(torch.autograd.grad(loss, w, create_graph=True)):
                m[k], v[k] = 0.9 * m[k] + 0.1 * g, 0.999 * v[k] + 0.001 * g**2
                scale = torch.where(v[k] > 0, v[k], 1).sqrt() * (v[k] > 0) / (1 - 0.999**step) ** 0.5 + 1e-8
                w[k] = w[k] - how.learning_rate / (1 - 0.9**step) * m[k] / scale
    scores = outputs(people)
    contrast = torch.tensor(
        DecisionSplit(rows.towards, rows.flipped).contrast(scores.detach().numpy()), dtype=torch.float64
    )
    return (scores * contrast).sum(1)


def test_as_a_scikit_learn_classifier():
    from butfor import MLP

    rows, people = subject()
    words = np.array(["a", "b", "c", "d"])[rows.y.astype(int)]
    model = MLP(hidden=(8,), max_epochs=200, batch_size=None, learning_rate=0.05).fit(rows.X, words)
    shares = model.predict_proba(people)
    assert shares.shape == (6, CLASSES)
    assert np.allclose(shares.sum(axis=1), 1)
    assert list(model.classes_[shares.argmax(axis=1)]) == list(model.predict(people))
    assert (model.predict(rows.X) == words).mean() > 0.8

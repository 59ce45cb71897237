"""Influence functions as identities: derivatives against autodiff, predictions against solved problems."""

import numpy as np
import pytest

from benchmarks.network_influence import gauss_newton, hessian, jacobian
from butfor.nets import Recipe, Rows, train_one


def subject(hidden=(8, 6), activation="relu", n=120, epochs=15):
    rng = np.random.default_rng(0)
    X, people = rng.normal(size=(n, 5)), rng.normal(size=(7, 5)).astype(np.float32)
    y = (X[:, 0] + rng.normal(size=n) > 0).astype(np.float32)
    rows = Rows(X, y, X[:30], y[:30])
    return train_one(Recipe(hidden, activation, max_epochs=epochs, batch_size=None), rows), rows, people


@pytest.mark.parametrize(
    ("hidden", "activation"), [((), "relu"), ((4, 3), "relu"), ((4, 3, 5), "tanh"), ((4,), "sigmoid")]
)
def test_jacobian_and_hessian_are_autodiffs(hidden, activation):
    import torch
    from torch.func import grad, jacrev
    from torch.nn.functional import binary_cross_entropy_with_logits

    network, rows, _ = subject(hidden, activation, n=40)
    layers = [np.column_stack(layer) for layer in zip(network.weights, network.biases, strict=True)]
    theta = torch.from_numpy(np.concatenate([layer.ravel() for layer in layers]).astype(np.float64))

    def logits(theta):
        h, at = torch.tensor(rows.X, dtype=torch.float64), 0
        for k, layer in enumerate(layers):
            Wb = theta[at : at + layer.size].reshape(layer.shape)
            at += layer.size
            h = h @ Wb[:, :-1].T + Wb[:, -1]
            h = getattr(torch, activation)(h) if k < len(layers) - 1 else h
        return h[:, 0]

    y = torch.tensor(rows.y, dtype=torch.float64)
    assert jacobian(network, rows.X) == pytest.approx(jacrev(logits)(theta).numpy(), abs=1e-12)
    exact = jacrev(grad(lambda t: binary_cross_entropy_with_logits(logits(t), y)))(theta)
    assert hessian(network, rows) == pytest.approx(exact.numpy(), abs=1e-12)
    if not hidden:
        assert hessian(network, rows) == pytest.approx(gauss_newton(network, rows), abs=1e-14)

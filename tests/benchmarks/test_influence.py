"""Influence functions as identities: derivatives against autodiff, predictions against solved problems."""

from importlib.util import find_spec

import numpy as np
import pytest
from sklearn.kernel_ridge import KernelRidge

from benchmarks.dattri_baselines import INSTALL, SOLVERS, Dattri, flip_labels
from benchmarks.network_influence import (
    DAMPING,
    Influence,
    factorised,
    gauss_newton,
    hessian,
    jacobian,
    lowest_eigenvalue,
    through_rows,
)
from butfor.errors import SettingError
from butfor.models.learner import flip_direction
from butfor.nets import train_one as train
from butfor.nets.recipe import Network, Recipe, Rows

FORMS = ("hessian", "gauss-newton")
needs_dattri = pytest.mark.skipif(not find_spec("dattri"), reason=f"dattri is not installed: {INSTALL}")


def subject(hidden=(8, 6), activation="relu", n=120, epochs=15):
    rng = np.random.default_rng(0)
    X, people = rng.normal(size=(n, 5)), rng.normal(size=(7, 5)).astype(np.float32)
    y = (X[:, 0] + rng.normal(size=n) > 0).astype(np.float32)
    rows = Rows(X, y, X[:30], y[:30])
    recipe = Recipe(hidden=hidden, activation=activation, max_epochs=epochs, batch_size=None)
    return train(recipe, rows), rows, people


def parameters(network):
    """In the order of the influence file: layer by layer, [W b] row by row."""
    layers = zip(network.weights, network.biases, strict=True)
    return np.concatenate([np.column_stack(layer).ravel() for layer in layers]).astype(np.float64)


def torch_logits(network, X):
    """θ ↦ z for torch to differentiate."""
    import torch

    activation = {"relu": torch.relu, "tanh": torch.tanh, "sigmoid": torch.sigmoid}[network.activation]

    def logits(theta):
        h, at = torch.tensor(np.asarray(X, np.float64)), 0
        for layer, W in enumerate(network.weights):
            out, into = W.shape
            Wb = theta[at : at + out * (into + 1)].reshape(out, into + 1)
            at += Wb.numel()
            h = h @ Wb[:, :-1].T + Wb[:, -1]
            h = activation(h) if layer < len(network.weights) - 1 else h
        return h[:, 0]

    return logits


@pytest.mark.parametrize("hidden", [(), (4,), (4, 3), (4, 3, 5)])
@pytest.mark.parametrize("activation", ["relu", "tanh", "sigmoid"])
def test_jacobian_and_hessian_are_autodiffs(hidden, activation):
    import torch
    from torch.func import grad, jacrev
    from torch.nn.functional import binary_cross_entropy_with_logits

    network, rows, _ = subject(hidden, activation, n=40)
    theta, logits = torch.from_numpy(parameters(network)), torch_logits(network, rows.X)
    y = torch.tensor(rows.y, dtype=torch.float64)
    assert jacobian(network, rows.X) == pytest.approx(jacrev(logits)(theta).numpy(), abs=1e-12)
    exact = jacrev(grad(lambda t: binary_cross_entropy_with_logits(logits(t), y)))(theta)
    assert hessian(network, rows) == pytest.approx(exact.numpy(), abs=1e-12)


def test_the_hessian_does_not_depend_on_the_row_blocks(monkeypatch):
    network, rows, _ = subject((4, 3), "tanh")
    whole = hessian(network, rows)
    monkeypatch.setattr("benchmarks.network_influence.BLOCK_BYTES", 1)
    assert hessian(network, rows) == pytest.approx(whole, abs=1e-14)


def test_without_hidden_layers_the_loss_has_no_other_bend():
    network, rows, _ = subject(())
    assert hessian(network, rows) == pytest.approx(gauss_newton(network, rows), abs=1e-14)


def test_gauss_newton_through_the_rows_or_through_the_parameters():
    network, rows, people = subject(n=40)
    v = jacobian(network, people)
    rowwise = through_rows(network, rows, 0.05)(v)
    assert rowwise == pytest.approx(factorised(gauss_newton(network, rows), 0.05)(v), abs=1e-10)


def test_tangent_scores_are_flips_of_a_kernel_ridge_regression_with_the_tangent_kernel():
    network, rows, people = subject(n=60)
    J, asked = jacobian(network, rows.X), jacobian(network, people)
    targets = 4.0 * rows.y - 2
    ridge = KernelRidge(alpha=4 * rows.n * 0.07, kernel="precomputed")

    def predicted(t):
        return ridge.fit(J @ J.T, t).predict(asked @ J.T)

    scores = Influence(0.07, "tangent").score_network(network, rows, people)
    out = flip_direction(network.logits(people))
    for i in (0, 11, 59):
        turned = targets.copy()
        turned[i] = -turned[i]
        assert scores[:, i] == pytest.approx(out * (predicted(turned) - predicted(targets)), rel=1e-6, abs=1e-10)


@pytest.mark.parametrize("form", FORMS)
def test_a_score_per_person_and_row_whoever_else_is_asked(form):
    network, rows, people = subject()
    together = Influence(form=form).score_network(network, rows, people)
    assert together.shape == (7, 120)
    assert Influence(form=form).score_network(network, rows, people[3:4])[0] == pytest.approx(together[3], rel=1e-9)


@pytest.mark.parametrize("form", FORMS)
def test_permuting_the_training_rows_permutes_the_scores(form):
    network, rows, people = subject()
    order = np.random.default_rng(1).permutation(rows.n)
    shuffled = Rows(rows.X[order], rows.y[order], rows.X_val, rows.y_val)
    ranking = Influence(form=form)
    straight = ranking.score_network(network, rows, people)[:, order]
    assert ranking.score_network(network, shuffled, people) == pytest.approx(straight, rel=1e-6, abs=1e-12)


def logistic_regression(X, y):
    """Newton's method to the last bits: θ = [w b] of the mean loss's minimum."""
    Xb = np.column_stack([X, np.ones(len(X))])
    theta = np.zeros(Xb.shape[1])
    for _ in range(30):
        p = 1 / (1 + np.exp(-Xb @ theta))
        theta -= np.linalg.solve((Xb * (p * (1 - p))[:, None]).T @ Xb, Xb.T @ (p - y))
    return theta


def test_at_a_minimum_the_prediction_is_the_retrained_effect():
    """One flip of 2000 moves a logistic regression by what the influence function says, to first order."""
    rng = np.random.default_rng(3)
    X, people = rng.normal(size=(2000, 4)).astype(np.float32), rng.normal(size=(5, 4)).astype(np.float32)
    y = (X @ [1, -1, 0.5, 0] + rng.logistic(size=2000) > 0).astype(np.float32)
    rows = Rows(X, y, X[:10], y[:10])
    theta = logistic_regression(X.astype(np.float64), y)
    weights, bias = theta[None, :4].astype(np.float32), theta[4:].astype(np.float32)
    network = Network((weights,), (bias,), Recipe(hidden=(), batch_size=None), 1, 1, 0.0)
    away = np.where(network.predict(people) == 1, -1, 1)
    for form in FORMS:
        predicted = Influence(damping=0, form=form).score_network(network, rows, people)
        for row in (0, 1, 2, 77, 1999):
            change = logistic_regression(X.astype(np.float64), rows.labels((row,))) - theta
            real = away * (people.astype(np.float64) @ change[:4] + change[4])
            assert predicted[:, row] == pytest.approx(real, rel=0.05, abs=2e-5)


def test_the_default_damping_outweighs_the_most_negative_eigenvalue():
    network, rows, people = subject(epochs=3)
    lowest = lowest_eigenvalue(hessian(network, rows))
    assert lowest < 0
    given = Influence(damping=DAMPING - lowest).score_network(network, rows, people)
    assert Influence().score_network(network, rows, people) == pytest.approx(given, rel=1e-9)


def test_too_little_damping_is_refused_with_the_eigenvalue():
    network, rows, people = subject(epochs=3)
    lowest = lowest_eigenvalue(hessian(network, rows))
    with pytest.raises(SettingError, match=f"damping=0.001 .* lowest eigenvalue is {lowest:.3g}"):
        Influence(damping=0.001).score_network(network, rows, people)


@pytest.mark.parametrize("form", FORMS)
def test_a_singular_matrix_is_refused_never_nan(form):
    network, rows, people = subject()
    twice = Rows(np.repeat(rows.X[:, :1], 5, axis=1), rows.y, rows.X_val, rows.y_val)
    with pytest.raises(SettingError, match="damping=0 leaves"):
        Influence(damping=0, form=form).score_network(network, twice, people)


def test_diverged_weights_are_refused():
    network, rows, people = subject()
    broken = Network((network.weights[0] * np.nan, *network.weights[1:]), network.biases, network.recipe, 1, 1, 0.0)
    with pytest.raises(SettingError, match="diverged"):
        Influence().score_network(broken, rows, people)


def test_settings_are_checked():
    for wrong in ({"form": "fisher"}, {"damping": -1.0}, {"damping": np.nan}):
        with pytest.raises(SettingError):
            Influence(**wrong)
    with pytest.raises(SettingError):
        Dattri("newton")


def test_the_lowest_eigenvalue_of_a_large_matrix():
    rng = np.random.default_rng(0)
    A = rng.normal(size=(300, 300))
    assert lowest_eigenvalue(A + A.T) == pytest.approx(np.linalg.eigvalsh(A + A.T)[0], rel=1e-3)


def test_flip_labels_make_a_rows_gradient_the_flips():
    """(σ(z) − ỹ)J = −(1 − 2y)J, the change of the loss gradient (times n) when the label is flipped."""
    network, rows, _ = subject()
    z = network.logits(rows.X)
    assert 1 / (1 + np.exp(-z)) - flip_labels(network, rows) == pytest.approx(-(1 - 2 * rows.y), abs=1e-6)


@pytest.mark.skipif(bool(find_spec("dattri")), reason="dattri is installed")
def test_without_dattri_the_install_line_is_shown():
    network, rows, people = subject()
    with pytest.raises(SettingError, match="pip install") as refusal:
        Dattri("cg").score_network(network, rows, people)
    assert INSTALL in str(refusal.value)


@needs_dattri
@pytest.mark.parametrize("solver", SOLVERS)
def test_dattri_agrees_with_the_exact_influence(solver):
    network, rows, people = subject()
    exact = Influence().score_network(network, rows, people)
    scores = Dattri(solver).score_network(network, rows, people)
    if solver == "arnoldi":  # half of a Krylov space, by construction an approximation
        assert np.corrcoef(scores.ravel(), exact.ravel())[0, 1] > 0.8
    else:
        assert scores == pytest.approx(exact, abs=1e-3 * np.abs(exact).max())


@needs_dattri
def test_dattri_failures_are_sentences():
    network, rows, people = subject(epochs=3)
    with pytest.raises(SettingError, match=r"dattri-lissa failed with damping=0\.001"):
        Dattri("lissa", damping=0.001).score_network(network, rows, people)

"""L: its definition re-implemented from the text, the classifier around it, the local linear model."""

import copy
from itertools import pairwise

import numpy as np
import pytest
import torch
from sklearn.utils.estimator_checks import parametrize_with_checks
from torch import nn

from benchmarks.work import packed
from butfor import MLP, TableEncoder, load_dataset
from butfor.errors import ButforError, SettingError, TableError
from butfor.models.network import local_linear_model, split_off
from butfor.nets import train_one as train
from butfor.nets.recipe import Recipe, Rows, unpack


def rows_of(name: str, categorical: str = "embed") -> tuple[Rows, np.ndarray]:
    data = load_dataset(name)
    encoder = TableEncoder(categorical).fit(data.X_train)
    rows = Rows(encoder.transform(data.X_train), data.y_train, encoder.transform(data.X_val), data.y_val)
    return rows, encoder.transform(data.X_test)


def train_from_the_text(recipe: Recipe, rows: Rows) -> tuple[list[np.ndarray], int]:
    """The five steps of the definition, written a second time without the reference."""
    torch.manual_seed(recipe.seed)
    sizes = [rows.d, *recipe.hidden]
    layers = []
    for a, b in pairwise(sizes):
        layers += [
            nn.Linear(a, b),
            {"relu": nn.ReLU, "tanh": nn.Tanh, "sigmoid": nn.Sigmoid}[recipe.activation](),
        ]
    net = nn.Sequential(*layers, nn.Linear(sizes[-1], 1))
    X, y, V, v = (torch.tensor(a) for a in (rows.X, rows.y, rows.X_val, rows.y_val))
    g = torch.Generator().manual_seed(recipe.seed)
    optimiser = torch.optim.Adam(net.parameters(), lr=recipe.learning_rate)
    lowest, kept, kept_epoch = np.inf, None, 0
    for epoch in range(recipe.max_epochs):
        if recipe.batch_size is None:
            batches = [(X, y)]
        else:
            order = torch.randperm(len(X), generator=g)
            starts = range(0, len(X), recipe.batch_size)
            batches = [(X[order[s : s + recipe.batch_size]], y[order[s : s + recipe.batch_size]]) for s in starts]
        for xb, yb in batches:
            optimiser.zero_grad()
            nn.functional.binary_cross_entropy_with_logits(net(xb).squeeze(1), yb).backward()
            optimiser.step()
        with torch.no_grad():
            loss = nn.functional.binary_cross_entropy_with_logits(net(V).squeeze(1), v).item()
        if loss < lowest:
            lowest, kept, kept_epoch = loss, copy.deepcopy(net.state_dict()), epoch + 1
        elif epoch + 1 - kept_epoch == recipe.patience:
            break
    return [t.numpy() for t in kept.values()], kept_epoch


@pytest.mark.parametrize(
    ("name", "recipe"),
    [
        ("salary", Recipe(hidden=(4, 4), batch_size=8, max_epochs=100)),
        ("german", Recipe(batch_size=None, max_epochs=100, seed=3)),
        ("german", Recipe(hidden=(8, 6, 4), activation="tanh", batch_size=128, max_epochs=20)),
        ("student", Recipe(hidden=(), activation="sigmoid", batch_size=50, max_epochs=15)),
    ],
)
def test_the_reference_does_what_the_definition_says(name, recipe):
    rows, _ = rows_of(name)
    threads, onednn = torch.get_num_threads(), torch.backends.mkldnn.enabled
    torch.set_num_threads(1)
    torch.backends.mkldnn.enabled = False
    expected, epoch = train_from_the_text(recipe, rows)
    torch.set_num_threads(threads)
    torch.backends.mkldnn.enabled = onednn
    network = train(recipe, rows)
    assert torch.backends.mkldnn.enabled == onednn
    assert network.best_epoch == epoch
    got = [a for pair in zip(network.weights, network.biases, strict=True) for a in pair]
    for ours, theirs in zip(got, expected, strict=True):
        assert np.array_equal(ours, theirs)


def test_training_twice_is_bitwise_equal_and_leaves_torch_as_it_was():
    rows, X = rows_of("german")
    recipe = Recipe(max_epochs=10)
    first = train(recipe, rows)
    torch.manual_seed(12345)
    threads, state = torch.get_num_threads(), torch.get_rng_state()
    try:
        torch.set_num_threads(2)
        second = train(recipe, rows)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(torch.get_rng_state(), state)
    assert np.array_equal(packed(first), packed(second))
    assert np.array_equal(first.logits(X), second.logits(X))


def test_flipping_a_set_twice_gives_the_original_labels():
    rows, _ = rows_of("salary")
    flipped = Rows(rows.X, rows.labels((3, 7)), rows.X_val, rows.y_val)
    assert (flipped.labels() != rows.y).sum() == 2
    assert np.array_equal(flipped.labels((3, 7)), rows.y)


def test_training_on_flips_is_training_on_flipped_labels():
    rows, _ = rows_of("salary")
    recipe = Recipe(hidden=(4, 4), batch_size=8, max_epochs=30)
    flipped = Rows(rows.X, rows.labels((3, 7)), rows.X_val, rows.y_val)
    assert np.array_equal(packed(train(recipe, rows, (3, 7))), packed(train(recipe, flipped)))
    assert not np.array_equal(packed(train(recipe, rows, (3, 7))), packed(train(recipe, rows)))


def test_packing_is_undone_by_unpacking():
    rows, _ = rows_of("salary")
    recipe = Recipe(hidden=(4, 3), max_epochs=2)
    network = train(recipe, rows)
    weights, biases = unpack(packed(network), rows.widths(recipe))
    assert all(np.array_equal(a, b) for a, b in zip(weights, network.weights, strict=True))
    assert all(np.array_equal(a, b) for a, b in zip(biases, network.biases, strict=True))


@parametrize_with_checks([MLP(max_epochs=100)])
@pytest.mark.filterwarnings("default")
def test_mlp_is_a_scikit_learn_classifier(estimator, check):
    check(estimator)


def test_mlp_agrees_with_the_reference_and_with_itself():
    rows, X = rows_of("german")
    model = MLP(batch_size=None, max_epochs=50).fit(rows.X, rows.y, validation=(rows.X_val, rows.y_val))
    logits = model.decision_function(X)
    assert np.array_equal(logits, train(model.recipe(), rows).logits(X))
    assert np.array_equal(model.predict(X), (logits > 0).astype(float))
    assert model.predict_proba(X)[:, 1] == pytest.approx(1 / (1 + np.exp(-logits.astype(float))))


def test_rows_set_aside_have_their_share_of_the_rarer_class():
    y = (np.arange(40) < 4).astype(np.float32)
    for seed in range(8):
        kept, aside = split_off(y, 0.25, seed)
        assert (len(kept), len(aside)) == (30, 10)
        assert (y[kept].sum(), y[aside].sum()) == (3, 1)
        assert sorted([*kept, *aside]) == list(range(40))


def test_mlp_keeps_the_labels_as_given():
    rows, X = rows_of("salary")
    words = np.where(rows.y == 1, "yes", "no")
    model = MLP(hidden=(4,), max_epochs=5).fit(rows.X, words)
    assert list(model.classes_) == ["no", "yes"]
    assert set(model.predict(X)) <= {"no", "yes"}


@pytest.mark.parametrize(
    ("y", "said"),
    [
        (np.zeros(30), "only one class"),
        ([0] * 15 + [1] * 14 + [2], "occurs in one row only"),
        ([0] * 29 + [1], "too few"),
    ],
)
def test_labels_that_cannot_be_learned_are_refused(y, said):
    rows, _ = rows_of("salary")
    with pytest.raises(TableError, match=said):
        MLP().fit(rows.X, y)


@pytest.mark.parametrize(
    "setting",
    [{"hidden": (0,)}, {"activation": "gelu"}, {"learning_rate": 0}, {"max_epochs": 0}, {"patience": 0},
     {"batch_size": 0}, {"random_state": -1}, {"validation_fraction": 1.5}],
)  # fmt: skip
def test_settings_that_make_no_sense_are_refused(setting):
    rows, _ = rows_of("salary")
    with pytest.raises(SettingError, match="random_state|seed" if "random_state" in setting else next(iter(setting))):
        MLP(**setting).fit(rows.X, rows.y)


def test_validation_rows_are_checked():
    rows, _ = rows_of("salary")
    with pytest.raises(ButforError, match="columns"):
        MLP().fit(rows.X, rows.y, validation=(rows.X_val[:, :2], rows.y_val))
    with pytest.raises(ButforError, match="which no training row has"):
        MLP().fit(rows.X, rows.y, validation=(rows.X_val, rows.y_val + 5))
    with pytest.raises(ButforError, match="validation labels"):
        MLP().fit(rows.X, rows.y, validation=(rows.X_val, rows.y_val[:3]))


@pytest.mark.parametrize("name", ["salary", "student", "german", "compas", "default", "adult"])
def test_the_local_linear_model_is_the_relu_network(name):
    rows, X = rows_of(name)
    network = train(Recipe(batch_size=None, max_epochs=40), rows)
    theta, bias = local_linear_model(network, X)
    logits = network.logits(X)
    assert np.abs((theta * X).sum(axis=1) + bias - logits).max() <= 1e-5 * max(1, np.abs(logits).max())

"""The network: the classifier around it, the local linear model; errors and stops of `butfor.nets` become ours."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.utils.estimator_checks import parametrize_with_checks

from benchmarks.work import encoded, packed
from butfor import MLP, stopping
from butfor.errors import ButforError, SettingError, TableError
from butfor.models import network
from butfor.models.network import local_linear_model, split_off
from butfor.nets import definition
from butfor.nets import train_one as train
from butfor.nets.recipe import Recipe, Rows

X, Y = np.random.default_rng(0).normal(size=(40, 3)), np.arange(40) % 2


def rows_of(name: str) -> tuple[Rows, np.ndarray]:
    rows, people, _ = encoded(name)
    return rows, people


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


@pytest.mark.parametrize("name", ["salary", "german", "adult"])
def test_the_local_linear_model_is_the_relu_network(name):
    rows, X = rows_of(name)
    network = train(Recipe(batch_size=None, max_epochs=40), rows)
    theta, bias = local_linear_model(network, X)
    logits = network.logits(X)
    assert np.abs((theta * X).sum(axis=1) + bias - logits).max() <= 1e-5 * max(1, np.abs(logits).max())


def test_stops_reach_the_engine(monkeypatch):
    asked = []
    monkeypatch.setattr(stopping, "check", lambda: asked.append(1))
    rows = network.Rows(X, Y, X, Y)
    network.FusedEngine(1).fit_many(MLP(max_epochs=2).recipe(), rows, [()], X)
    assert asked


def test_the_networks_stand_on_their_own(tmp_path):
    """Copied elsewhere under another name, with nothing of butfor beside them, they train."""
    source = Path(definition.__file__).parent
    (tmp_path / "lifted").mkdir()
    for file in source.iterdir():
        if file.is_file():
            (tmp_path / "lifted" / file.name).write_bytes(file.read_bytes())
    script = """
import sys
import numpy as np
import lifted
assert "torch" not in sys.modules
from lifted.sweeps import Sweep
X = np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32)
rows, recipe = lifted.Rows(X, X[:, 0] > 0, X, X[:, 0] > 0), lifted.Recipe((4,), "tanh", max_epochs=3)
one = lifted.train_one(recipe, rows, (3,)).logits(X)
many = lifted.train_many(recipe, rows, [(3,), ()], [0, 0], X, stacked=True)
assert many.shape == (2, 40) and np.allclose(one, many[0], atol=1e-5), (one, many)
[swept] = lifted.label_gradient(recipe, rows, [Sweep(0, (3,), np.arange(5))], X)
assert np.allclose(swept.logits, one[:5], atol=1e-5) and np.abs(swept.gradient).max() > 0
assert not [name for name in sys.modules if name.split(".")[0] == "butfor"]
"""
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": "."},
    )
    assert done.returncode == 0, done.stderr

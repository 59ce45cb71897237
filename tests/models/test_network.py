"""The network's adapter: what was compared is remembered; errors and stops of `butfor.nets` become ours."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import butfor
from butfor import stopping
from butfor.errors import SettingError
from butfor.models import loop, network
from butfor.nets import definition

X, Y = np.random.default_rng(0).normal(size=(40, 3)), np.arange(40) % 2


@pytest.fixture
def trained(monkeypatch, tmp_path):
    """What each way of the definition trains, from now on."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(loop, "compared", None)
    kinds, real = [], loop.train_one

    def train_one(recipe, rows, flips=(), steps=None):
        kinds.append("Loop" if steps else "Direct")
        return real(recipe, rows, flips, steps)

    monkeypatch.setattr(loop, "train_one", train_one)
    return kinds


def test_a_shape_is_compared_once_and_not_in_every_process(trained, tmp_path, monkeypatch):
    for seed in (0, 1):
        butfor.MLP(max_epochs=2, random_state=seed).fit(X, Y)
    assert trained == ["Direct", "Loop", "Direct", "Direct"]
    [line] = (tmp_path / "butfor" / "same-bits").read_text().splitlines()
    assert line.split()[1] == "same"
    monkeypatch.setattr(loop, "compared", None)  # as in another process
    butfor.MLP(max_epochs=2).fit(X, Y)
    assert trained[4:] == ["Direct"]
    (tmp_path / "butfor" / "same-bits").write_text(line.replace("same", "other", 1) + "\n")
    monkeypatch.setattr(loop, "compared", None)
    butfor.MLP(max_epochs=2).fit(X, Y)
    assert trained[5:] == ["Loop"]


def test_what_another_torch_or_nobody_wrote_counts_for_nothing(trained, tmp_path, monkeypatch):
    (tmp_path / "butfor").mkdir()
    (tmp_path / "butfor" / "same-bits").write_text("0000 other ((3, 32, 32, 1), 'relu', 128, 30, 10)\nnonsense\n")
    butfor.MLP(max_epochs=2).fit(X, Y)
    assert trained == ["Direct", "Loop", "Direct"]
    monkeypatch.setenv("XDG_CACHE_HOME", "/dev/null/nowhere")
    monkeypatch.setattr(loop, "compared", None)
    butfor.MLP(max_epochs=2).fit(X, Y)
    assert trained[3:] == ["Direct", "Loop", "Direct"]


def test_a_setting_that_cannot_be_used_is_our_error():
    with pytest.raises(SettingError, match="patience=0 must be at least 1"):
        butfor.MLP(patience=0).fit(X, Y)


def test_stops_reach_the_engine(monkeypatch):
    asked = []
    monkeypatch.setattr(stopping, "check", lambda: asked.append(1))
    rows = network.Rows(X, Y, X, Y)
    network.FusedEngine(1).fit_many(butfor.MLP(max_epochs=2).recipe(), rows, [()], X)
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

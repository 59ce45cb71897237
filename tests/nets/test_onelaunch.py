"""The CUDA kernel without a GPU: compiled for the CPU, its threads taking turns, against the
reference."""

import ctypes
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks.work import packed, reference_fits
from butfor.nets import (
    Recipe,
    Rows,
    onelaunch,
    train_one,
)
from butfor.nets.onelaunch import MOST_BITS, Plan, inputs_of
from butfor.nets.recipe import Job

HERE = Path(__file__).parent
needs_compiler = pytest.mark.skipif(
    shutil.which("g++") is None, reason="needs g++ to compile the kernel for the CPU"
)
FLIPS = [(), (1, 5, 150)]


def one_hot(rng, rows, sizes):
    return np.concatenate([np.eye(size)[rng.integers(0, size, rows)] for size in sizes], axis=1)


def table(kind, n=200, more=70):
    """Rows whose inputs are `dense`, one-hot (`hot`), or some of each."""
    rng = np.random.default_rng(0)
    numbers, bits = rng.standard_normal((n + more, 90)), one_hot(rng, n + more, [9] * 10)
    more_bits = one_hot(rng, n + more, [6, 7]) * (rng.random((n + more, 1)) < 0.8)
    mixed = np.hstack([numbers[:, :6], bits[:, :81], numbers[:, 6:7], more_bits])
    X = {"dense": numbers, "hot": bits, "mixed": mixed}[kind]
    score = X @ rng.standard_normal(X.shape[1]) + rng.standard_normal(len(X))
    y = score > np.median(score)
    return Rows(X[:n], y[:n], X[n:], y[n:])


def emulated(recipe, rows, flips, people, warps, directory):
    """What one block of the kernel trains: logits, packed weights in the kernel's order, and
    epochs."""
    inputs = inputs_of(rows, people)
    widths, batches = rows.widths(recipe), recipe.batch_size is not None
    plan = Plan(widths, len(inputs.hot), recipe.activation, batches, warps, 1, 1)
    source = f'#include "{HERE}/emulated.h"\n{plan.source()}\n#include "{HERE}/emulated_main.h"\n'
    code, library = directory / "kernel.cpp", directory / "kernel.so"
    code.write_text(source, encoding="utf-8")
    subprocess.run(
        ["g++", "-std=c++17", "-O1", "-w", "-shared", "-fPIC", "-o", library, code], check=True
    )
    job = Job(recipe, rows, flips, [recipe.seed] * len(flips), people)
    work, kept = onelaunch.prepare(job, plan, inputs, torch.device("cpu"))
    ctypes.CDLL(str(library)).run(ctypes.byref(work))
    return plan, kept["logits"].numpy(), kept["weights"], kept["epochs"].tolist()


@needs_compiler
@pytest.mark.parametrize(
    ("kind", "hidden", "batch_size", "warps", "activation"),
    [
        ("hot", (32, 32), None, 3, "relu"),
        ("mixed", (40, 33), 150, 2, "sigmoid"),
        ("dense", (100,), 64, 1, "tanh"),
    ],
)
def test_the_kernel_trains_what_the_reference_trains(
    kind, hidden, batch_size, warps, activation, tmp_path
):
    rows = table(kind)
    recipe = Recipe(hidden, activation, batch_size=batch_size, max_epochs=6, patience=3, seed=3)
    plan, logits, weights, epochs = emulated(recipe, rows, FLIPS, rows.X_val, warps, tmp_path)
    assert (plan.hot > 0) == (kind != "dense")
    expected = reference_fits(recipe, rows, FLIPS, rows.X_val)
    assert epochs == expected.epochs.tolist()
    np.testing.assert_allclose(logits, expected.logits, atol=5e-6)
    networks = [torch.from_numpy(packed(train_one(recipe, rows, flips))) for flips in FLIPS]
    ordered = inputs_of(rows, rows.X_val).kernel_order(torch.stack(networks), hidden[0])
    np.testing.assert_allclose(weights, ordered, atol=5e-6)
    assert not np.allclose(logits[0], logits[1], atol=5e-6)  # the flips were made


@needs_compiler
def test_the_most_bits_that_are_let_in_find_room(tmp_path):
    rng = np.random.default_rng(0)
    X = (rng.random((90, MOST_BITS)) < 0.1).astype(np.float32)
    rows = Rows(X[:70], X[:70, 0], X[70:], X[70:, 0])
    recipe = Recipe((5,), batch_size=None, max_epochs=1, seed=3)
    _, logits, _, _ = emulated(recipe, rows, [()], rows.X_val, 1, tmp_path)
    np.testing.assert_allclose(
        logits, reference_fits(recipe, rows, [()], rows.X_val).logits, atol=5e-6
    )

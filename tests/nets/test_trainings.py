"""Every engine trains what the definition trains: the same result reached two ways."""

import re
import threading
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from benchmarks.work import reference_fits
from butfor.nets import (
    Fits,
    Recipe,
    Rows,
    compiled,
    fit_many,
    onelaunch,
    stacks,
)
from butfor.nets.recipe import Job

on_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
ENGINES: dict[str, dict[str, Any]] = {
    "fused": {},
    "stacked": {"stacked": True},
    "one launch": {"device": "cuda"},
    "stacked on cuda": {"device": "cuda", "stacked": True},
}
engines = pytest.mark.parametrize(
    "engine",
    [pytest.param(name, marks=on_cuda if "device" in how else ()) for name, how in ENGINES.items()],
)
FLIPS = [(), (3,), (0, 5, 17), (3,)]


def fit(
    engine: str, recipe: Recipe, rows: Rows, flip_sets: list, people: np.ndarray, **more: Any
) -> Fits:
    seeds = more.pop("seeds", [recipe.seed] * len(flip_sets))
    return fit_many(
        recipe, rows, flip_sets, seeds, people, **ENGINES[engine], **{"threads": 2} | more
    )


@cache
def made(n: int = 120, d: int = 7, validation: int = 50, classes: int = 2, hot: int = 0) -> Rows:
    """Rows that can be learned in part; with `hot`, so many one-hot columns beside one number, and
    a row of zeros."""
    rng = np.random.default_rng(n + d)
    X = rng.normal(size=(n + validation, d))
    if hot:
        codes = rng.integers(0, 13, (n + validation, hot))
        X = np.column_stack([X[:, :1], np.eye(13)[codes].reshape(len(X), -1)])
        X[1] = 0
    scores = X @ rng.normal(size=(X.shape[1], classes)) + rng.gumbel(size=(len(X), classes))
    y = scores.argmax(axis=1).astype(np.float32)
    y[:classes] = np.arange(classes)
    more = {} if classes == 2 else {"flipped": np.full(n, 1), "towards": np.arange(classes) != 0}
    return Rows(X[:n], y[:n], X[n:], y[n:], classes, **more)


def bits(fits: Fits, k: int) -> bytes:
    return b"".join(np.ascontiguousarray(part[k]).tobytes() for part in fits)


def assert_alike(found: Fits, expected: Fits, within: float = 1e-4) -> None:
    assert found.epochs.tolist() == expected.epochs.tolist()
    assert found.best_epoch.tolist() == expected.best_epoch.tolist()
    np.testing.assert_allclose(found.validation_loss, expected.validation_loss, rtol=1e-4)
    np.testing.assert_allclose(found.logits, expected.logits, rtol=within, atol=within)


CASES = {
    "full batch": (made(), Recipe((17, 33), batch_size=None)),
    "batches and a rest": (made(), Recipe((9,), "tanh", batch_size=50)),
    "three layers": (made(), Recipe((20, 7, 40), "sigmoid", batch_size=32)),
    "no layer": (made(), Recipe((), batch_size=4)),
    "one row a batch": (made(40), Recipe((5,), batch_size=1)),
    "two rows": (made(2, 1, 1), Recipe((32, 32), batch_size=None)),
    "whole vectors": (made(129, 31, 128), Recipe((1, 100), batch_size=128)),
    "more than a tile": (made(300, 33, 257), Recipe((32, 32), batch_size=None)),
    "one-hot": (made(300, hot=9), Recipe((32, 32), batch_size=32)),
    "one-hot, full batch": (made(300, hot=9), Recipe((100, 3), "tanh", batch_size=None)),
    "three classes": (made(classes=3), Recipe((6, 5), "tanh", batch_size=16)),
    "three classes, full batch": (made(classes=3), Recipe((6,), batch_size=None)),
}


@engines
@pytest.mark.parametrize("case", CASES)
def test_engines_train_what_the_definition_trains(engine, case):
    rows, recipe = CASES[case]
    flips = [tuple(row for row in flips if row < rows.n) for flips in FLIPS]
    recipe = replace(recipe, max_epochs=4, seed=3)
    assert_alike(
        fit(engine, recipe, rows, flips, rows.X_val),
        reference_fits(recipe, rows, flips, rows.X_val),
    )


@engines
@pytest.mark.parametrize("batch_size", [64, None])
def test_whole_trainings_stop_where_the_definition_stops(engine, batch_size):
    # A smooth activation: the kinks of relu amplify rounding, in the definition as well.
    recipe = Recipe((16, 16), "tanh", batch_size=batch_size, max_epochs=300, learning_rate=0.01)
    rows = made(600, 10, 300)
    expected = reference_fits(recipe, rows, FLIPS[:3], rows.X_val)
    assert (expected.epochs == expected.best_epoch + recipe.patience).all()
    assert_alike(fit(engine, recipe, rows, FLIPS[:3], rows.X_val), expected, 2e-3)


@engines
def test_a_result_depends_on_the_flip_set_alone(engine):
    """Not on other sets, their order, the number of threads, or the other people; a set is its
    labels."""
    recipe, rows = Recipe((9, 20), batch_size=50, max_epochs=20, patience=3), made()
    together = fit(engine, recipe, rows, FLIPS, rows.X_val, threads=3)
    backwards = fit(engine, recipe, rows, FLIPS[::-1], rows.X_val, threads=1)
    turned = Rows(rows.X, rows.labels(FLIPS[2]), rows.X_val, rows.y_val)
    by_labels = fit(engine, recipe, turned, [()], rows.X_val)
    exact = engine in ("fused", "one launch")
    for k, flips in enumerate(FLIPS):
        alone = fit(engine, recipe, rows, [flips], rows.X_val)
        assert_alike(Fits(*(part[[k]] for part in together)), alone, 1e-5)
        if exact:
            assert bits(together, k) == bits(alone, 0) == bits(backwards, len(FLIPS) - 1 - k)
    assert_alike(Fits(*(part[[2]] for part in together)), by_labels, 0 if exact else 1e-5)
    assert (bits(together, 1) == bits(together, 3)) or not exact
    assert bits(together, 1) != bits(together, 0)
    one = fit(engine, recipe, rows, [()], rows.X_val[[7]])
    assert one.logits[0, 0] == pytest.approx(
        together.logits[0, 7], rel=0 if engine == "fused" else 1e-5
    )


@engines
def test_seeds_answer_in_the_order_asked_for_every_network_is_told_and_torch_keeps_its_settings(
    engine,
):
    recipe, rows, seeds, told = (
        Recipe((8,), batch_size=32, max_epochs=5),
        made(),
        [5, 3, 5, 8],
        list[int](),
    )
    before = (
        torch.get_num_threads(),
        torch.get_float32_matmul_precision(),
        torch.random.get_rng_state(),
    )
    found = fit(engine, recipe, rows, FLIPS, rows.X_val, seeds=seeds, advance=told.append)
    assert sum(told) == len(FLIPS)
    assert (torch.get_num_threads(), torch.get_float32_matmul_precision()) == before[:2]
    assert torch.equal(torch.random.get_rng_state(), before[2])
    for k, (flips, seed) in enumerate(zip(FLIPS, seeds, strict=True)):
        expected = reference_fits(replace(recipe, seed=seed), rows, [flips], rows.X_val)
        assert_alike(Fits(*(part[[k]] for part in found)), expected)


@pytest.mark.parametrize(("room", "launches"), [(1, 5), (2, 2), (8, 1)])
def test_several_launches_answer_in_the_order_asked_for(monkeypatch, room, launches):
    recipe, rows, seen = Recipe((4,), batch_size=32, max_epochs=3), made(), []
    seeds, flips = [5, 3, 5, 8, 8, 3], [(), (1,), (2,), (), (4, 5), (6,)]

    def launch(job, device):
        """What the kernel would do, by stacked tensors."""
        seen.append(len(set(job.seeds)))
        return fit("stacked", job.recipe, job.rows, job.flip_sets, job.people, seeds=job.seeds)

    monkeypatch.setattr(onelaunch, "MOST_ORDER_BYTES", room * 4 * recipe.max_epochs * rows.n)
    monkeypatch.setattr(onelaunch, "launch", launch)
    found = onelaunch.train(Job(recipe, rows, flips, seeds, rows.X_val), torch.device("cpu"))
    assert_alike(found, fit("stacked", recipe, rows, flips, rows.X_val, seeds=seeds))
    assert (len(seen), max(seen)) == (launches, min(room, 3))


@engines
@pytest.mark.parametrize("hidden", [(), (16, 16)])
def test_a_training_that_diverges_ends_as_the_definition_does(engine, hidden):
    rows, recipe = made(), Recipe(hidden, learning_rate=1e37, patience=3)
    found = fit(engine, recipe, rows, [()], rows.X_val)
    expected = reference_fits(recipe, rows, [()], rows.X_val)
    assert (found.epochs[0], found.best_epoch[0]) == (expected.epochs[0], expected.best_epoch[0])
    holed = Rows(
        np.where(np.arange(120)[:, None] == 7, np.nan, rows.X), rows.y, rows.X_val, rows.y_val
    )
    nothing = fit(engine, replace(recipe, learning_rate=0.01), holed, [()], rows.X_val)
    assert (nothing.epochs[0], nothing.best_epoch[0]) == (3, 0)
    assert np.isnan(nothing.answers).all()


@engines
def test_nothing_to_train_nobody_to_ask_and_arrays_that_cannot_be_written(engine):
    rows, recipe = made(), Recipe((4,), max_epochs=1)
    assert fit(engine, recipe, rows, [], rows.X_val).logits.shape == (0, 50)
    assert fit(engine, recipe, rows, [()], rows.X_val[:0]).logits.shape == (1, 0)
    frozen = replace(rows)
    for name in ("X", "y", "X_val", "y_val"):
        object.__setattr__(frozen, name, getattr(rows, name).copy())
        getattr(frozen, name).flags.writeable = False
    usual, read_only = (fit(engine, recipe, data, [(1,)], rows.X_val) for data in (rows, frozen))
    assert bits(usual, 0) == bits(read_only, 0)
    assert len(compiled.run_epochs.signatures) <= 1, "compiled a second time"


@engines
def test_a_check_that_raises_ends_the_work_and_comes_through(engine):
    calls, me, before = [], threading.get_ident(), threading.active_count()

    def check() -> None:
        calls.append(threading.get_ident())
        if len(calls) == 3:
            raise KeyboardInterrupt("enough")

    endless = Recipe(max_epochs=10**6, patience=10**6)
    with pytest.raises(KeyboardInterrupt, match="enough"):
        fit(engine, endless, made(2000), [(k,) for k in range(1000)], made().X_val, check=check)
    assert set(calls) == {me}
    assert threading.active_count() == before


def test_a_stack_fits_the_free_memory(monkeypatch):
    job = Job(Recipe(batch_size=None), made(), [()], [0], made().X_val)
    sizes = []
    for free in (4_000_000, 8_000_000, 10_000):
        monkeypatch.setattr(stacks, "free_memory", lambda device, free=free: free)
        sizes.append(stacks.stack_size(job, torch.device("cpu")))
    assert sizes[2] == 1 < sizes[0] < sizes[1] <= stacks.LARGEST_STACK["cpu"]
    with pytest.raises(RuntimeError, match="one network on 120 rows takes about"):
        stacks.stack_size(job, torch.device("cuda"))


def test_all_that_is_compiled_is_in_one_file():
    """numba's cache sees a change in a function's own file alone."""
    source = Path(compiled.__file__).read_text()
    ours = re.findall(r"^\s*((?:from \.|from butfor|import butfor).*)", source, re.MULTILINE)
    assert ours == ["from . import keeps_compiled"]  # which decides whether there is a cache
    others = [
        path for path in Path(compiled.__file__).parent.glob("*.py") if path.name != "compiled.py"
    ]
    assert not [
        one.name
        for one in others
        if re.search(r"@(compiled|njit|cfunc|intrinsic)", one.read_text())
    ]

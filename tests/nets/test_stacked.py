"""The stacked engine against the reference: the same trainings reached two ways."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from benchmarks.work import reference_fits
from butfor import StackedEngine
from butfor.errors import EngineError, SettingError
from butfor.nets import Fits, Recipe, Rows, fit_many, onelaunch, stacks
from butfor.nets.recipe import Job
from butfor.nets.stacks import stack_size, stacking

SHORT = {"max_epochs": 12, "patience": 3, "learning_rate": 0.02}
FLIPS = [(), (3,), (0, 17, 40), (5, 99), (98,), (10, 11, 12, 13, 14)]

needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")


def fit(recipe: Recipe, rows: Rows, flip_sets: list, people: np.ndarray, seeds: list | None = None, **more) -> Fits:
    seeds = [recipe.seed] * len(flip_sets) if seeds is None else seeds
    return fit_many(recipe, rows, flip_sets, seeds, people, stacked=True, **more)


def table(n: int = 100, d: int = 7, seed: int = 0) -> Rows:
    """Rows with something to learn, noise that ends the learning early, and 40 for validation."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(n + 40, d)).astype(np.float32)
    score = X @ random.normal(size=d) / d**0.5 + np.sin(2 * X[:, 0]) + 0.7 * random.logistic(size=n + 40)
    y = (score > 0).astype(np.float32)
    return Rows(X[:n], y[:n], X[n:], y[n:])


def people(d: int = 7) -> np.ndarray:
    return np.random.default_rng(1).normal(size=(30, d)).astype(np.float32)


def assert_alike(got: Fits, expected: Fits, within: float = 1e-5) -> None:
    assert got.epochs.tolist() == expected.epochs.tolist()
    assert got.best_epoch.tolist() == expected.best_epoch.tolist()
    np.testing.assert_allclose(got.validation_loss, expected.validation_loss, atol=within)
    np.testing.assert_allclose(got.logits, expected.logits, atol=within)


def assert_same(got: Fits, expected: Fits) -> None:
    for field in ("epochs", "best_epoch", "validation_loss", "logits"):
        np.testing.assert_array_equal(getattr(got, field), getattr(expected, field))


def part(fits: Fits, which: list[int]) -> Fits:
    return Fits(*(field[which] for field in fits))


@pytest.mark.parametrize("hidden", [(), (9,), (8, 6), (6, 5, 4)], ids=lambda hidden: f"depth{len(hidden)}")
@pytest.mark.parametrize("batch_size", [None, 32], ids=["full", "minibatch"])
@pytest.mark.parametrize("activation", ["relu", "tanh", "sigmoid"])
def test_trains_what_the_reference_trains(activation, batch_size, hidden):
    recipe = Recipe(hidden, activation, batch_size=batch_size, **SHORT)
    work = (recipe, table(), FLIPS, people())
    assert_alike(fit(*work), reference_fits(*work))


def test_networks_leave_the_stack_as_they_stop_and_stay_as_if_alone():
    recipe, rows = Recipe((8, 6), batch_size=32, patience=1, learning_rate=0.05), table(seed=2)
    together = fit(recipe, rows, FLIPS, people())
    assert len(set(together.epochs)) > 2, "the networks were to stop at different epochs"
    for k, flips in enumerate(FLIPS):
        alone = fit(recipe, rows, [flips], people())
        assert_alike(alone, part(together, [k]))


def test_the_order_and_the_size_of_stacks_do_not_matter(monkeypatch):
    recipe, order = Recipe((8, 6), batch_size=None, **SHORT), [4, 0, 5, 2, 1, 3]
    together = fit(recipe, table(), FLIPS, people())
    monkeypatch.setitem(stacks.LARGEST_STACK, "cpu", 4)
    shuffled = fit(recipe, table(), [FLIPS[k] for k in order], people())
    assert_alike(shuffled, part(together, order))


def test_a_flip_set_trains_as_its_labels_do():
    recipe, rows = Recipe((8,), batch_size=32, **SHORT), table()
    turned = Rows(rows.X, rows.labels(FLIPS[2]), rows.X_val, rows.y_val)
    by_flips = fit(recipe, rows, [FLIPS[2]], people())
    by_labels = fit(recipe, turned, [()], people())
    assert_same(by_flips, by_labels)
    assert not np.array_equal(by_flips.logits, fit(recipe, rows, [()], people()).logits)


def test_progress_counts_every_network_once():
    seen: list[int] = []
    fit(Recipe((4,), **SHORT), table(), FLIPS, people(), advance=seen.append)
    assert sum(seen) == len(FLIPS)


def test_no_flip_sets_and_no_people():
    recipe, rows = Recipe((4,), **SHORT), table()
    nothing = fit(recipe, rows, [], people())
    assert nothing.logits.shape == (0, 30)
    assert fit(recipe, rows, [()], people()[:0]).logits.shape == (1, 0)


def test_the_process_keeps_its_settings():
    threads, precision = torch.get_num_threads(), torch.get_float32_matmul_precision()
    state = torch.random.get_rng_state()
    fit(Recipe((4,), **SHORT), table(), FLIPS, people())
    torch.set_float32_matmul_precision("high")
    with stacking():
        assert torch.get_float32_matmul_precision() == "highest"
    assert torch.get_float32_matmul_precision() == "high"
    torch.set_float32_matmul_precision(precision)
    assert (torch.get_num_threads(), torch.get_float32_matmul_precision()) == (threads, precision)
    assert torch.equal(torch.random.get_rng_state(), state)


def test_a_device_that_is_not_there_is_refused(monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    with pytest.raises(EngineError, match=r"device='cuda' is not available.*Use device='cpu'"):
        StackedEngine("cuda")
    with pytest.raises(SettingError, match="say 'cpu', 'cuda'"):
        StackedEngine("gpu")
    with pytest.raises(SettingError, match="not supported"):
        StackedEngine("meta")


def test_too_little_memory_for_one_network_is_refused(monkeypatch):
    recipe, rows = Recipe(batch_size=None), table()
    monkeypatch.setattr(stacks, "free_memory", lambda device: 10_000)
    job = Job(recipe, rows, FLIPS, [0] * len(FLIPS), people())
    with pytest.raises(RuntimeError, match="one network on 100 rows takes about"):
        stack_size(job, torch.device("cuda"))
    assert stack_size(job, torch.device("cpu")) == 1


def test_the_stack_fits_the_free_memory(monkeypatch):
    recipe, rows = Recipe(batch_size=None), table()
    monkeypatch.setattr(stacks, "free_memory", lambda device: 4_000_000)
    job = Job(recipe, rows, [()], [0], people())
    few = stack_size(job, torch.device("cpu"))
    monkeypatch.setattr(stacks, "free_memory", lambda device: 8_000_000)
    assert 1 <= few < stack_size(job, torch.device("cpu")) <= stacks.LARGEST_STACK["cpu"]


def test_one_launch_is_for_cuda_only():
    assert not onelaunch.can_train(Job(Recipe(), table(), [()], [0], people()), torch.device("cpu"))


def test_labels_are_packed_lowest_bit_first():
    y = np.zeros(40, np.float32)
    y[[0, 33]] = 1
    assert onelaunch._bits(y).tolist() == [1, 2]


@needs_cuda
@pytest.mark.parametrize("hidden", [(9,), (32, 32), (16, 12, 8)], ids=lambda hidden: f"depth{len(hidden)}")
@pytest.mark.parametrize("batch_size", [None, 8, 96], ids=["full", "batch8", "batch96"])
@pytest.mark.parametrize("activation", ["relu", "tanh", "sigmoid"])
def test_one_launch_trains_what_the_reference_trains(activation, batch_size, hidden):
    recipe = Recipe(hidden, activation, batch_size=batch_size, **SHORT)
    work = (recipe, table(), FLIPS, people())
    assert onelaunch.can_train(Job(recipe, table(), [()], [0], people()), torch.device("cuda"))
    assert_alike(StackedEngine("cuda").fit_many(*work), reference_fits(*work), within=5e-5)


@needs_cuda
@pytest.mark.parametrize("batch_size", [None, 32], ids=["full", "minibatch"])
def test_one_launch_gives_the_same_bits_whatever_else_it_trains(batch_size):
    recipe, rows = Recipe((32, 32), batch_size=batch_size, max_epochs=40), table(500)
    many = [(i,) for i in range(500)]
    together = StackedEngine("cuda").fit_many(recipe, rows, many, people())
    assert_same(
        StackedEngine("cuda").fit_many(recipe, rows, many[::-1], people()),
        part(together, [*range(499, -1, -1)]),
    )
    assert_same(StackedEngine("cuda").fit_many(recipe, rows, [many[7]], people()), part(together, [7]))


@pytest.mark.parametrize(("room", "launches"), [(1, 5), (2, 2), (8, 1)])
def test_however_many_launches_it_takes_answers_are_in_the_order_asked_for(monkeypatch, room, launches):
    recipe, rows, asked = Recipe((4,), batch_size=32, max_epochs=3), table(), people()
    seeds, flips = [5, 3, 5, 8, 8, 3], [(), (1,), (2,), (), (4, 5), (6,)]
    seen = []

    def launch(job, device):
        """What the kernel would do, by the definition."""
        seen.append(len(set(job.seeds)))
        recipes = [dataclasses.replace(job.recipe, seed=seed) for seed in job.seeds]
        trainings = zip(recipes, job.flip_sets, strict=True)
        fits = [reference_fits(one, job.rows, [flips], job.people) for one, flips in trainings]
        return list(map(np.concatenate, zip(*fits, strict=True)))

    expected = fit(recipe, rows, flips, asked, seeds)
    monkeypatch.setattr(onelaunch, "can_train", lambda *_: True)
    monkeypatch.setattr(onelaunch, "MOST_ORDER_BYTES", room * 4 * recipe.max_epochs * rows.n)
    monkeypatch.setattr(onelaunch, "launch", launch)
    job = Job(recipe, rows, flips, seeds, asked)
    assert_alike(onelaunch.train(job, torch.device("cpu")), expected)
    assert (len(seen), max(seen)) == (launches, min(room, 3))


@needs_cuda
def test_the_kernels_own_answers_are_in_the_order_asked_for(monkeypatch):
    recipe, rows, seeds = Recipe((4,), batch_size=32, max_epochs=3), table(), [5, 3, 5, 8, 3, 8]
    whole = StackedEngine("cuda").fit_many(recipe, rows, FLIPS, people(), seeds=seeds)
    monkeypatch.setattr(onelaunch, "MOST_ORDER_BYTES", 4 * recipe.max_epochs * rows.n)
    parts = StackedEngine("cuda").fit_many(recipe, rows, FLIPS, people(), seeds=seeds)
    assert np.array_equal(parts.answers, whole.answers)


def test_a_row_that_is_not_there_cannot_be_flipped():
    with pytest.raises(ValueError, match="the rows are numbered 0 to 99"):
        fit(Recipe((4,), batch_size=None), table(), [(100,)], people())


@needs_cuda
def test_an_interrupted_launch_ends():
    def interrupt(finished: int) -> None:
        raise KeyboardInterrupt

    rows = table(5000)
    with pytest.raises(KeyboardInterrupt):
        StackedEngine("cuda").fit_many(Recipe(batch_size=8), rows, [(i,) for i in range(4000)], people(), interrupt)


@needs_cuda
@pytest.mark.parametrize("hidden", [(), (9,), (40, 6)], ids=lambda hidden: f"depth{len(hidden)}")
def test_stacked_tensors_on_cuda_train_what_the_reference_trains(hidden):
    work = (Recipe(hidden, batch_size=32, **SHORT), table(), FLIPS, people())
    assert_alike(StackedEngine("cuda", one_launch=False).fit_many(*work), reference_fits(*work))

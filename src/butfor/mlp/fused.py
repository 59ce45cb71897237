"""Many networks on the CPU's cores: whole trainings in compiled code, one network per thread.

This is L as `reference.py` defines it, up to the order of floating-point sums, without the time PyTorch spends between
its operations. It starts from the reference's initial tensors and follows the reference's batch orders, drawn once for
all networks. A network's result depends only on its flip set, not on other networks or the number of threads. A thread
holds one network's weights, labels and one tile of rows.

The first use on a machine compiles for some seconds and says so; the result is cached on disk.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from itertools import islice, pairwise, repeat
from typing import cast

import numpy as np
from numpy.typing import NDArray

from butfor import stopping
from butfor.learn.protocols import Floats
from butfor.machine import check_n_jobs, compiling, in_threads
from butfor.mlp import kernels
from butfor.mlp.learner import NetworkEngine
from butfor.mlp.passes import TILE, Plan, Room, Table
from butfor.mlp.recipe import ACTIVATIONS, Entries, Fits, Job, Recipe, Rows
from butfor.mlp.reference import batch_orders, packed_start
from butfor.mlp.stacked import StackedEngine
from butfor.mlp.vectors import LANES, product

SHARED_ORDERS = 2**28
"""Bytes of batch orders kept for the networks of a call and for the next call with the same seeds; a longer training
draws its own."""

NO_ENTRIES = Entries(np.zeros(1, np.int64), np.zeros(0, np.int32), np.zeros(0, np.float32))

Orders = NDArray[np.int32]

_preparing = threading.Lock()


class FusedEngine(NetworkEngine):
    """Trains `n_jobs` networks at a time (default: one per core) in compiled code."""

    name = "fused"

    def __init__(self, n_jobs: int | None = None) -> None:
        self.n_jobs = self.width = check_n_jobs(n_jobs)

    def train(self, job: Job, fits: Fits) -> None:
        if job.recipe.outputs > 1:  # the compiled code has a single logit
            StackedEngine("cpu").train(job, fits)
            return
        prepare()
        trainings = Trainings(job, fits)
        list(in_threads(trainings.run, range(len(job.flip_sets)), self.n_jobs, job.advance))


def compiled() -> bool:
    """Whether this process has the machine code already."""
    return bool(kernels.run_epochs.signatures and kernels.predict.signatures)


def prepare() -> None:
    """Compile, or load what was compiled before."""
    with _preparing:
        if compiled():
            return
        X, y = np.zeros((2, 1), np.float32), np.zeros(2, np.float32)
        recipe = Recipe(hidden=(1,), max_epochs=1)
        fits = Fits.empty(1, len(X), recipe.parameters(1))
        with compiling():
            Trainings(Job(recipe, Rows(X, y, X, y), [()], [0], X), fits).run(0)


class Trainings:
    """What all trainings of a job share; each writes its result to `fits`."""

    def __init__(self, job: Job, fits: Fits) -> None:
        self.job, self.fits = job, fits
        recipe, rows, people = job.recipe, job.rows, job.people
        self._layout = Layout(recipe, rows.d)
        self._starts = starts(recipe, rows.n, rows.d, frozenset(job.seeds))
        entries = rows.entries if recipe.hidden else None
        by_entries = (*entries, Entries.of(people)) if entries else (None, None, None)
        labelled = (rows.X, rows.y), (rows.X_val, rows.y_val), (people, np.zeros(len(people), np.float32))
        self._training, self._validation, self._people = map(table, *zip(*labelled, strict=True), by_entries)

    def run(self, k: int) -> None:
        """Train the k-th network; Ctrl-C ends it between blocks of epochs."""
        recipe, rows, plan, start = self.job.recipe, self.job.rows, self._layout.plan, self._starts[self.job.seeds[k]]
        room, training = self._layout.room(start.weights), self._training._replace(y=rows.labels(self.job.flip_sets[k]))
        history, best_loss = np.zeros(3, np.int64), np.array([np.inf], np.float32)
        pace = recipe.batch_size or rows.n, recipe.learning_rate, recipe.patience
        for orders in start.blocks():
            stopping.check()
            epochs = min(len(orders), recipe.max_epochs - int(history[0]))
            done = kernels.run_epochs(plan, room, training, self._validation, orders, epochs, *pace, history, best_loss)
            if done or history[0] >= recipe.max_epochs:
                break
        kernels.predict(plan, room, self._people, self.fits.logits[k])
        self.fits.epochs[k], self.fits.best_epoch[k] = history[:2]
        self.fits.validation_loss[k] = best_loss[0]
        if self.fits.weights.size:
            self.fits.weights[k] = room.kept[self._layout.places]


class Start:
    """What follows from a seed: the reference's initial weights, and its batch orders, drawn when a training needs
    them. Up to `room` bytes of orders are kept for the next training."""

    def __init__(self, recipe: Recipe, n: int, inputs: int, room: int) -> None:
        self.weights: Floats = packed_start(recipe, inputs).numpy()
        self._recipe, self._n = recipe, n
        self._epochs = min(16, recipe.max_epochs, max(1, 2**18 // max(1, n)))
        self._most = max(1, room // (4 * max(1, n) * self._epochs))
        self._kept: list[Orders] = []
        self._source, self._drawing = self._draw(), threading.Lock()

    def blocks(self) -> Iterator[Orders]:
        """Batch orders `[epochs × n]`, block by block from the first epoch on, without end."""
        for index in range(self._most):
            with self._drawing:
                if index == len(self._kept):
                    self._kept.append(next(self._source))
            yield self._kept[index]
        yield from islice(self._draw(), self._most, None)

    def _draw(self) -> Iterator[Orders]:
        if self._recipe.batch_size is None:
            yield from repeat(np.empty((self._epochs, 0), np.int32))
        orders = batch_orders(self._recipe, self._n)
        while True:
            yield np.array([order.numpy() for order in islice(orders, self._epochs)], np.int32)


@lru_cache(maxsize=1)
def starts(recipe: Recipe, n: int, inputs: int, seeds: frozenset[int]) -> dict[int, Start]:
    """By seed. Kept for the next call, which usually has the same members or fresh seeds."""
    room = SHARED_ORDERS // max(1, len(seeds))
    return {seed: Start(replace(recipe, seed=seed), n, inputs, room) for seed in sorted(seeds)}


class Layout:
    """The places of a network's parts in the arrays of the compiled code; `passes` explains the layout."""

    def __init__(self, recipe: Recipe, inputs: int) -> None:
        widths = recipe.widths(inputs)
        layers, places = [], []
        self._inputs = inputs
        self.parameters = self.transposed = self.tile = 0
        for layer, (into, out) in enumerate(pairwise(widths)):
            last = layer == len(recipe.hidden)
            row, w = padded(into if last else out), self.parameters
            layers.append((into, row // LANES, w, self.transposed, self.tile + LANES, LANES + row))
            if last:
                places += [w + np.arange(into), w + np.array([row])]
                self.parameters += row + LANES
            else:
                matrix = w + row * (1 + np.arange(into)) + np.arange(out)[:, None]
                places += [matrix.ravel(), w + np.arange(out)]
                self.parameters += row * (into + 1)
                self.transposed += padded(out) * padded(into)
                self.tile += TILE * (LANES + row)
        self.plan = Plan(
            cast(int, product.address),
            ACTIVATIONS.index(recipe.activation),
            *np.array(layers, np.int64).T.copy(),
        )
        self.places = np.concatenate(places)
        """The place among the parameters of each number of the network, in PyTorch's order."""

    def room(self, initial: Floats) -> Room:
        """What one training writes to, with the initial weights in place."""
        weights, gradient, mean, square, kept = (aligned(self.parameters) for _ in range(5))
        gathered = prepend_ones(np.zeros((TILE, self._inputs), np.float32))
        transposed, tile, logits, labels = (aligned(n) for n in (self.transposed, self.tile, TILE, TILE))
        ids = np.zeros(TILE, np.int32)
        room = Room(weights, gradient, mean, square, kept, transposed, gathered, tile, logits, labels, ids)
        room.weights[self.places] = room.kept[self.places] = initial
        for at, stride in zip(self.plan.tiles[:-1], self.plan.strides[:-1], strict=True):
            room.tile[at - 1 : at + (TILE - 1) * stride : stride] = 1
        return room


def padded(width: int) -> int:
    """The width in whole vectors."""
    return -(-width // LANES) * LANES


def aligned(*shape: int) -> Floats:
    """Zeros that begin on a cache line, so that no vector straddles two."""
    size = int(np.prod(shape))
    room = np.zeros(size + 16, np.float32)
    skip = -(room.ctypes.data // 4) % 16
    return room[skip : skip + size].reshape(shape)


def prepend_ones(X: Floats) -> Floats:
    """Rows `[1, x₁, …, x_d, 0, …]` in whole vectors, and LANES empty rows: `dots` reads that many."""
    rows = aligned(len(X) + LANES, padded(X.shape[1] + 1))
    rows[: len(X), 0] = 1
    rows[: len(X), 1 : X.shape[1] + 1] = X
    return rows


def table(X: Floats, y: Floats, entries: Entries | None) -> Table:
    """Rows for the compiled code, in arrays of our own: it is compiled for writable ones."""
    whole = prepend_ones(X if entries is None else X[:0])
    return Table(whole, NO_ENTRIES if entries is None else entries, np.array(y))

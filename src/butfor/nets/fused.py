"""Many networks on the CPU's cores: whole trainings in compiled code, one network per thread.

It starts from the definition's initial tensors and follows its batch orders, drawn once for all
networks. A network's result depends only on its flip set, not on other networks or the number of
threads. A thread holds one network's weights, labels and one tile of rows. The first use on a
machine compiles for some seconds; the code is kept on disk.
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

from . import compiled
from .compiled import LANES, TILE, Entries, Plan, Room, Table
from .definition import batch_orders, packed_start
from .recipe import ACTIVATIONS, Check, Fits, Floats, Job, Recipe, Rows
from .threads import in_threads

SHARED_ORDER_BYTES = 2**28
"""Bytes of batch orders kept for the networks of a call and for the next call with the same seeds;
a longer training draws its own."""
ZEROS_PER_ENTRY = 3
"""Rows with at least this many inputs per input that is not 0 are faster by their entries."""
NO_ENTRIES = Entries(np.zeros(1, np.int64), np.zeros(0, np.int32), np.zeros(0, np.float32))

Orders = NDArray[np.int32]

_preparing = threading.Lock()


def prepare() -> None:
    """Compile what trains, or load what was compiled before."""
    X = np.zeros((2, 1), np.float32)
    y = np.zeros(2, np.float32)
    job = Job(Recipe(hidden=(1,), max_epochs=1), Rows(X, y, X, y), [()], [0], X)
    with _preparing:
        if not is_prepared():
            Trainings(job, Fits.empty(job)).run(0, job.check)


def is_prepared() -> bool:
    """Whether this process has the machine code already."""
    return bool(compiled.run_epochs.signatures and compiled.predict.signatures)


def train(job: Job, threads: int) -> Fits:
    """Train the job's networks, which have a single logit, so many at a time."""
    prepare()
    fits = Fits.empty(job)
    trainings = Trainings(job, fits)
    list(in_threads(trainings.run, range(len(job.flip_sets)), threads, job.check, job.advance))
    return fits


class Trainings:
    """What all trainings of a job share; each writes its result to `fits`."""

    def __init__(self, job: Job, fits: Fits) -> None:
        self.job = job
        self.fits = fits
        recipe = job.recipe
        rows = job.rows
        people = job.people
        self._layout = Layout(recipe, rows)
        seeds = frozenset(job.seeds)
        self._starts = starts(recipe, rows.n, rows.widths(recipe), seeds)
        self._training, self._validation = tables(rows, rows.y, bool(recipe.hidden))
        by_entries = len(self._training.sparse.starts) > 1
        of_people = entries_of(people) if by_entries else None
        self._people = table(people, np.zeros(len(people), np.float32), of_people)

    def run(self, k: int, check: Check) -> None:
        """Train the k-th network; `check` ends it between blocks of epochs."""
        recipe = self.job.recipe
        rows = self.job.rows
        plan = self._layout.plan
        start = self._starts[self.job.seeds[k]]
        room = self._layout.room(start.weights)
        training = self._training._replace(y=rows.labels(self.job.flip_sets[k]))
        history = np.zeros(3, np.int64)
        best_loss = np.array([np.inf], np.float32)
        pace = (recipe.batch_size or rows.n, recipe.learning_rate, recipe.patience)
        for orders in start.blocks():
            check()
            epochs = min(len(orders), recipe.max_epochs - int(history[0]))
            state = (training, self._validation, orders, epochs, *pace, history, best_loss)
            if compiled.run_epochs(plan, room, *state) or history[0] >= recipe.max_epochs:
                break
        compiled.predict(plan, room, self._people, self.fits.logits[k])
        self.fits.epochs[k] = history[0]
        self.fits.best_epoch[k] = history[1]
        self.fits.validation_loss[k] = best_loss[0]


class Start:
    """What follows from a seed: the initial weights, and the batch orders, drawn when a training
    needs them. Up to `room` bytes of orders are kept for the next training."""

    def __init__(self, recipe: Recipe, n: int, widths: tuple[int, ...], room: int) -> None:
        self.weights: Floats = packed_start(widths, recipe.seed).numpy()
        self._recipe = recipe
        self._n = n
        self._epochs = min(16, recipe.max_epochs, max(1, 2**18 // max(1, n)))
        self._most = max(1, room // (4 * max(1, n) * self._epochs))
        self._kept: list[Orders] = []
        self._source = self._draw()
        self._drawing = threading.Lock()

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
def starts(
    recipe: Recipe, n: int, widths: tuple[int, ...], seeds: frozenset[int]
) -> dict[int, Start]:
    """By seed. Kept for the next call, which usually has the same members or fresh seeds."""
    room = SHARED_ORDER_BYTES // max(1, len(seeds))
    return {seed: Start(replace(recipe, seed=seed), n, widths, room) for seed in sorted(seeds)}


class Layout:
    """The places of a network's parts in the arrays of the compiled code; `compiled` explains the
    layout."""

    def __init__(self, recipe: Recipe, rows: Rows) -> None:
        layers = []
        places = []
        self._inputs = rows.d
        self.parameters = self.transposed = self.tile = 0
        for layer, (into, out) in enumerate(pairwise(rows.widths(recipe))):
            last = layer == len(recipe.hidden)
            row = padded(into if last else out)
            w = self.parameters
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
        address = cast(int, compiled.product.address)
        activation = ACTIVATIONS.index(recipe.activation)
        self.plan = Plan(address, activation, *np.array(layers, np.int64).T.copy())
        self.places = np.concatenate(places)
        """The place among the parameters of each number of the network, in PyTorch's order."""

    def room(self, initial: Floats) -> Room:
        """What one training writes to, with the initial weights in place."""
        weights, gradient, mean, square, kept = (aligned(self.parameters) for _ in range(5))
        gathered = prepend_ones(np.zeros((TILE, self._inputs), np.float32))
        room = Room(
            weights,
            gradient,
            mean,
            square,
            kept,
            transposed=aligned(self.transposed),
            gathered=gathered,
            tile=aligned(self.tile),
            logits=aligned(TILE),
            labels=aligned(TILE),
            ids=np.zeros(TILE, np.int32),
        )
        room.weights[self.places] = room.kept[self.places] = initial
        for begin, stride in zip(self.plan.tiles[:-1], self.plan.strides[:-1], strict=True):
            room.tile[begin - 1 : begin + (TILE - 1) * stride : stride] = 1
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
    """Rows `[1, x₁, …, x_d, 0, …]` in whole vectors, and LANES empty rows: `dots` reads that
    many."""
    rows = aligned(len(X) + LANES, padded(X.shape[1] + 1))
    rows[: len(X), 0] = 1
    rows[: len(X), 1 : X.shape[1] + 1] = X
    return rows


def table(X: Floats, y: Floats, by_entries: Entries | None) -> Table:
    """Rows for the compiled code, in arrays of our own: it is compiled for writable ones."""
    whole = prepend_ones(X if by_entries is None else X[:0])
    return Table(whole, NO_ENTRIES if by_entries is None else by_entries, np.array(y))


def tables(rows: Rows, y: Floats, hidden: bool = True) -> tuple[Table, Table]:
    """Training rows with these labels, and validation rows."""
    by_training, by_validation = (entries(rows) if hidden else None) or (None, None)
    return table(rows.X, y, by_training), table(rows.X_val, rows.y_val, by_validation)


@lru_cache(maxsize=1)
def entries(rows: Rows) -> tuple[Entries, Entries] | None:
    """Training and validation rows by their entries, if that is faster than whole rows: one-hot
    columns."""
    if np.count_nonzero(rows.X) * ZEROS_PER_ENTRY > rows.X.size:
        return None
    return entries_of(rows.X), entries_of(rows.X_val)


def entries_of(X: Floats) -> Entries:
    from scipy.sparse import csr_array

    rows = csr_array(X)
    starts = rows.indptr.astype(np.int64)
    return Entries(starts, rows.indices.astype(np.int32), rows.data.astype(np.float32))

"""The same work for every engine: a data set's rows as numbers, its published training, flip sets drawn at random."""

from __future__ import annotations

from math import comb

import numpy as np

from butfor.data import load_dataset
from butfor.data.catalogue import Setup
from butfor.encode import TableEncoder
from butfor.mlp.recipe import Recipe, Rows
from butfor.seam import FlipSet, Floats


def encoded(name: str) -> tuple[Rows, Floats, Setup]:
    """A data set's rows as numbers, its test people, and how it is trained."""
    data = load_dataset(name)
    encoder = TableEncoder("embed", data.setup.numeric).fit(data.X_train)
    X, X_val, people = (encoder.transform(part) for part in (data.X_train, data.X_val, data.X_test))
    return Rows(X, data.y_train.to_numpy(), X_val, data.y_val.to_numpy()), people, data.setup


def random_flip_sets(n: int, size: int, count: int, seed: int = 0) -> list[FlipSet]:
    """`count` different sets of `size` rows, or as many as there are."""
    rng, found = np.random.default_rng(seed), dict[FlipSet, None]()
    while len(found) < min(count, comb(n, size)):
        found[tuple(sorted(int(row) for row in rng.choice(n, size, replace=False)))] = None
    return list(found)


def published(setup: Setup) -> Recipe:
    return Recipe(setup.hidden, max_epochs=setup.max_epochs, batch_size=setup.batch_size)


def batch_in_words(batch_size: int | None) -> str:
    return "full batch" if batch_size is None else f"batch {batch_size}"

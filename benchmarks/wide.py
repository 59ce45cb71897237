"""What do one-hot inputs cost? A wide table by its entries, by whole rows, and a dense one with as
many columns.

The same networks are trained on 360 one-hot inputs (41 columns, each row with 41 ones) by the fused
engine as it is, by the fused engine told to take rows whole, and on 41 dense inputs. The three take
turns on one core; figures are medians of the processor time a training takes, so that what else the
machine does counts little.

On a GPU (`--device cuda`) the same, by the clock and for networks enough to fill it: one launch
that takes the ones as bits, stacked tensors, and one launch on the dense inputs; and wider layers,
by one launch, where they fit, and stacked.

    python -m benchmarks.wide --json
    python -m benchmarks.wide --device cuda --rows 20000
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from statistics import median
from typing import Any

import numpy as np

from benchmarks.rows import Columns, Row, options, parse, run, show
from butfor.models.network import NetworkEngine
from butfor.nets.onelaunch import can_train
from butfor.nets.recipe import Job, Recipe, Rows

NEVER = 10**9


def wide(
    inputs: int = 360,
    columns: int = 41,
    rows: int = 4000,
    epochs: int = 40,
    rounds: int = 3,
    networks: int = 4,
) -> Iterator[Row]:
    """One row per way of training."""
    from butfor.nets import fused  # compiled by numba, which a machine with a GPU need not have

    made = _tables(inputs, columns, rows)
    recipe = Recipe(hidden=(32, 32), max_epochs=epochs, batch_size=128, patience=epochs)
    ways = [("one-hot", "by entries"), ("one-hot", "whole rows"), ("dense", "whole rows")]
    took: dict[tuple[str, str], list[float]] = {way: [] for way in ways}
    usual = fused.ZEROS_PER_ENTRY
    try:
        for turn in range(rounds + 1):
            for table, way in ways:
                fused.ZEROS_PER_ENTRY = usual if way == "by entries" else NEVER
                given = replace(made[table])  # which way its rows are taken is told once
                started = time.process_time()
                NetworkEngine(n_jobs=1).fit_many(
                    recipe, given, [(k,) for k in range(networks)], given.X_val[:50]
                )
                if turn:  # the first turn compiles and warms up
                    took[table, way].append((time.process_time() - started) / networks)
    finally:
        fused.ZEROS_PER_ENTRY = usual
    dense = median(took["dense", "whole rows"])
    for (table, way), seconds in took.items():
        yield _row(table, way, made[table].d, rows, epochs, median(seconds), dense)


def wide_on_gpu(
    device: str,
    inputs: int = 360,
    columns: int = 41,
    rows: int = 20_000,
    epochs: int = 40,
    networks: int = 528,
) -> Iterator[Row]:
    """The same on a GPU: a network's share of the time, all of them at once, the better of two
    turns."""
    made = _tables(inputs, columns, rows)
    dense: dict[tuple[int, ...], float] = {}
    for hidden in ((32, 32), (64, 64)):
        for table, one_launch in (
            ("dense", True),
            ("dense", False),
            ("one-hot", True),
            ("one-hot", False),
        ):
            recipe = Recipe(hidden=hidden, max_epochs=epochs, batch_size=None, patience=epochs)
            engine, given, took = NetworkEngine(device, stacked=not one_launch), made[table], []
            if one_launch and not can_train(
                Job(recipe, given, [()], [0], given.X_val[:50]), engine.device
            ):
                continue
            for _ in range(3):  # the first compiles
                started = time.perf_counter()
                engine.fit_many(recipe, given, [(k,) for k in range(networks)], given.X_val[:50])
                took.append((time.perf_counter() - started) / networks)
            seconds = min(took[1:])
            dense.setdefault(hidden, seconds)
            way = f"{'one launch' if one_launch else 'stacked'}, {'×'.join(map(str, hidden))}"
            yield _row(table, way, given.d, rows, epochs, seconds, dense[hidden])


def _row(
    table: str, way: str, inputs: int, rows: int, epochs: int, seconds: float, dense: float
) -> Row:
    return {
        "table": table,
        "way": way,
        "inputs": inputs,
        "rows": rows,
        "epochs": epochs,
        "ms": round(1e3 * seconds, 2),
        "of_dense": round(seconds / dense, 2),
    }


def _tables(inputs: int, columns: int, rows: int) -> dict[str, Rows]:
    rng = np.random.default_rng(0)
    tables = {
        "one-hot": _one_hot(rng, rows + 1000, inputs, columns),
        "dense": rng.standard_normal((rows + 1000, columns)),
    }
    return {name: _rows(rng, X, rows) for name, X in tables.items()}


def _one_hot(rng: np.random.Generator, rows: int, inputs: int, columns: int) -> Any:
    sizes = np.full(columns, inputs // columns)
    sizes[: inputs - sizes.sum()] += 1
    return np.concatenate([np.eye(size)[rng.integers(0, size, rows)] for size in sizes], axis=1)


def _rows(rng: np.random.Generator, X: Any, training: int) -> Rows:
    score = X @ rng.standard_normal(X.shape[1]) + 2 * rng.standard_normal(len(X))
    y = score > np.median(score)
    return Rows(X[:training], y[:training], X[training:], y[training:])


COLUMNS: Columns = {
    "table   ": "{table}",
    "way              ": "{way}",
    "inputs": "{inputs}",
    "  rows": "{rows}",
    "epochs": "{epochs}",
    "ms / training": "{ms:.2f}",
    "of dense": "{of_dense:.2f}",
}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = options(__doc__)
    parser.add_argument("--rows", type=int, default=4000)
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--device", help="a CUDA device instead of this machine's cores")
    as_json, given = parse(parser, arguments)
    device = given.pop("device")
    show(wide_on_gpu(device, **given) if device else wide(**given), COLUMNS, as_json)


if __name__ == "__main__":
    run(main)

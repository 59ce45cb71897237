"""What do one-hot inputs cost? A wide table by its entries, by whole rows, and a dense one with as many columns.

The same networks are trained on 360 one-hot inputs (41 columns, each row with 41 ones) by the fused engine as it is, by
the fused engine told to take rows whole, and on 41 dense inputs. The three take turns on one core; figures are medians
of the processor time a training takes, so that what else the machine does counts little.

    python -m butfor.bench.wide --json
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from statistics import median
from typing import Any

import numpy as np

from butfor.bench.rows import print_rows
from butfor.mlp import fused
from butfor.mlp.fused import FusedEngine
from butfor.mlp.recipe import Recipe, Rows

NEVER = 10**9


def wide(
    inputs: int = 360, columns: int = 41, rows: int = 4000, epochs: int = 40, rounds: int = 3, networks: int = 4
) -> Iterator[dict[str, Any]]:
    """One row per way of training."""
    rng = np.random.default_rng(0)
    tables = {
        "one-hot": _one_hot(rng, rows + 1000, inputs, columns),
        "dense": rng.standard_normal((rows + 1000, columns)),
    }
    made = {name: _rows(rng, X, rows) for name, X in tables.items()}
    recipe = Recipe(hidden=(32, 32), max_epochs=epochs, batch_size=128, patience=epochs)
    ways = [("one-hot", "by entries"), ("one-hot", "whole rows"), ("dense", "whole rows")]
    took: dict[tuple[str, str], list[float]] = {way: [] for way in ways}
    usual = fused.ZEROS_PER_ENTRY
    try:
        for turn in range(rounds + 1):
            for table, way in ways:
                fused.ZEROS_PER_ENTRY = usual if way == "by entries" else NEVER
                given = made[table]
                started = time.process_time()
                FusedEngine(1).fit_many(recipe, given, [(k,) for k in range(networks)], given.X_val[:50])
                if turn:  # the first turn compiles and warms up
                    took[table, way].append((time.process_time() - started) / networks)
    finally:
        fused.ZEROS_PER_ENTRY = usual
    dense = median(took["dense", "whole rows"])
    for (table, way), seconds in took.items():
        yield {
            "table": table,
            "way": way,
            "inputs": made[table].d,
            "rows": rows,
            "epochs": epochs,
            "ms": round(1e3 * median(seconds), 1),
            "of_dense": round(median(seconds) / dense, 2),
        }


def _one_hot(rng: np.random.Generator, rows: int, inputs: int, columns: int) -> Any:
    sizes = np.full(columns, inputs // columns)
    sizes[: inputs - sizes.sum()] += 1
    return np.concatenate([np.eye(size)[rng.integers(0, size, rows)] for size in sizes], axis=1)


def _rows(rng: np.random.Generator, X: Any, training: int) -> Rows:
    score = X @ rng.standard_normal(X.shape[1]) + 2 * rng.standard_normal(len(X))
    y = score > np.median(score)
    return Rows(X[:training], y[:training], X[training:], y[training:])


HEADER = f"{'table':8} {'way':11} {'inputs':>7} {'rows':>6} {'epochs':>7} {'ms / training':>14} {'of dense':>9}"


def line(row: dict[str, Any]) -> str:
    return (
        f"{row['table']:8} {row['way']:11} {row['inputs']:7} {row['rows']:6} {row['epochs']:7} {row['ms']:14.1f} "
        f"{row['of_dense']:9.2f}"
    )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=4000)
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(arguments)
    print_rows(wide(rows=given.rows, epochs=given.epochs), HEADER, line, given.json)


if __name__ == "__main__":
    main()

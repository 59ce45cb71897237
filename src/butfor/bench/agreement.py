"""Do the engines train what the reference trains? And how far does rounding alone carry the reference?

For every data set, minibatch and full batch, random flip sets of the set's budget are trained by the engine and by
the reference. Training amplifies rounding, so logits differ; a prediction may differ only where the reference's
logit lies within the largest difference of 0. The floor shows what no engine can avoid: the reference against itself
with its sums in another order, that is with the rows of the table (full batch) or of every batch (minibatch) in
another order. Mathematically that is the same training.

    python -m butfor.bench.agreement --engine fused
    python -m butfor.bench.agreement --engine stacked --device cuda --datasets adult --json
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from butfor.bench.work import batch_in_words, encoded, published, random_flip_sets
from butfor.data import catalogue_frame
from butfor.learn.engines import network_engine
from butfor.machine import available_cores, processor
from butfor.mlp import reference
from butfor.mlp.learner import NetworkEngine
from butfor.mlp.recipe import Network, Recipe, Rows
from butfor.seam import FlipSet, Floats

MINIBATCH = 128
MINIBATCHES = {"salary": 8}
"""Where 128 would be more rows than there are."""


def at_hand() -> list[str]:
    """The data sets whose files are here: the embedded ones, and Bank where it was fetched."""
    frame = catalogue_frame()
    return [name for name, balance in zip(frame["name"], frame["label_balance"], strict=True) if balance is not None]


def agreement_bench(
    datasets: Sequence[str] | None = None, sets: int = 50, engine: str = "fused", device: str | None = None, *,
    max_epochs: int | None = None, floor: bool = True, jobs: int | None = None, seed: int = 0,
    tell: Callable[[dict[str, Any]], None] = lambda row: None,
) -> list[dict[str, Any]]:  # fmt: skip
    """One row per data set and batch size. `max_epochs` shortens the trainings, and with them the differences."""
    trainer = network_engine(engine, device)
    table = []
    for name in datasets or at_hand():
        rows, people, setup = encoded(name)
        flip_sets = random_flip_sets(rows.n, setup.budget, sets, seed)
        recipe = published(setup)
        if max_epochs is not None:
            recipe = replace(recipe, max_epochs=min(max_epochs, recipe.max_epochs))
        for batch_size in (MINIBATCHES.get(name, MINIBATCH), None):
            given = replace(recipe, batch_size=batch_size)
            row = {
                "dataset": name, "batch_size": batch_size, "n": rows.n, "sets": len(flip_sets),
                "labels_flipped": setup.budget, "people": len(people), "max_epochs": given.max_epochs,
                "engine": trainer.name, "device": str(getattr(trainer, "device", "cpu")),
            }  # fmt: skip
            row |= agreement(trainer, given, rows, flip_sets, people, jobs or available_cores(), floor)
            table.append(row)
            tell(row)
    return table


def agreement(
    engine: NetworkEngine,
    recipe: Recipe,
    rows: Rows,
    flip_sets: Sequence[FlipSet],
    people: Floats,
    jobs: int,
    floor: bool,
) -> dict[str, Any]:
    """The engine's networks against the reference's and, under `floor`, the reference's against its own."""
    expected = Answers(reference.fit_many(recipe, rows, flip_sets, people, jobs))
    record = difference(expected, Answers(engine.fit_many(recipe, rows, flip_sets, people)))
    record["floor"] = difference(expected, reordered(recipe, rows, flip_sets, people, jobs)) if floor else None
    return record


class Answers:
    """What is compared: `logits [K × people]` and the epochs whose weights were kept."""

    def __init__(self, fits: Any) -> None:
        self.logits: NDArray[np.float64] = np.asarray(fits.logits, np.float64)
        self.best_epoch: NDArray[np.int64] = np.asarray(fits.best_epoch, np.int64)


def difference(expected: Answers, got: Answers) -> dict[str, Any]:
    """How far logits lie apart, and whether that reached a prediction or the kept epoch.

    `largest_logit` is the largest |logit| of the reference among differing predictions; networks that keep another
    epoch are other networks altogether, so `max_same_epoch` leaves them out."""
    apart = np.abs(got.logits - expected.logits)
    differ = (got.logits > 0) != (expected.logits > 0)
    same = got.best_epoch == expected.best_epoch
    return {
        "median": float(np.median(apart)),
        "p99": float(np.quantile(apart, 0.99)),
        "max": float(apart.max()),
        "max_same_epoch": float(apart[same].max()) if same.any() else None,
        "predictions": int(apart.size),
        "differ": int(differ.sum()),
        "differ_same_epoch": int(differ[same].sum()),
        "largest_logit": float(np.abs(expected.logits[differ]).max()) if differ.any() else None,
        "networks": len(same),
        "other_epoch": int((~same).sum()),
    }


# --- the reference with its sums in another order -----------------------------------------------------


def reordered(recipe: Recipe, rows: Rows, flip_sets: Sequence[FlipSet], people: Floats, jobs: int) -> Answers:
    """The same trainings, mathematically, by the reference."""
    if recipe.batch_size is None:
        order = np.random.default_rng(0).permutation(rows.n)
        place = np.argsort(order)
        moved = Rows(rows.X[order], rows.y[order], rows.X_val, rows.y_val)
        turned = [tuple(sorted(int(place[row]) for row in flips)) for flips in flip_sets]
        return Answers(reference.fit_many(recipe, moved, turned, people, jobs))
    from joblib import Parallel, delayed

    networks: list[Network] = Parallel(n_jobs=jobs if len(flip_sets) > jobs else 1)(
        delayed(train_batches_reversed)(recipe, rows, flips) for flips in flip_sets
    )
    return Answers(_Networks(networks, people))


class _Networks:
    def __init__(self, networks: Sequence[Network], people: Floats) -> None:
        self.logits = np.array([network.logits(people) for network in networks])
        self.best_epoch = np.array([network.best_epoch for network in networks])


def train_batches_reversed(recipe: Recipe, rows: Rows, flips: FlipSet) -> Network:
    """The reference with every batch's rows back to front."""
    with batches_reversed():
        return reference.train(recipe, rows, flips)


@contextmanager
def batches_reversed() -> Iterator[None]:
    # The reference takes no order from outside, and shall not learn to for a measurement's sake.
    usual = reference.batch_orders

    def back_to_front(recipe: Recipe, n: int) -> Iterator[torch.Tensor]:
        for order in usual(recipe, n):
            yield torch.cat([batch.flip(0) for batch in order.split(recipe.batch_size or n)])

    reference.batch_orders = back_to_front
    try:
        yield
    finally:
        reference.batch_orders = usual


# --- printing -----------------------------------------------------------------------------------------

HEADER = (
    f"{'dataset':8} {'batch':10} {'':9} {'nets':>4} {'median':>8} {'99 %':>8} {'max':>8} {'same ep.':>8} "
    f"{'differ':>7} {'of':>7} {'|logit| ≤':>9} {'other epoch':>11}"
)
LEGEND = (
    "|Δlogit| over all test rows; 'same ep.': its maximum over networks that keep the reference's epoch; 'differ':\n"
    "predictions unlike the reference's, and the largest |logit| the reference has there; 'floor': the reference\n"
    "against itself with its sums in another order."
)


def lines(row: dict[str, Any]) -> str:
    """The engine's line of the table and, beneath it, the floor's."""
    shown = [_line(row, row["engine"], row)]
    if row["floor"]:
        shown.append(_line(row, "floor", row["floor"]))
    return "\n".join(shown)


def _line(row: dict[str, Any], who: str, found: dict[str, Any]) -> str:
    def short(number: float | None) -> str:
        return "–" if number is None else f"{number:.1e}"

    return (
        f"{row['dataset']:8} {batch_in_words(row['batch_size']):10} {who:9} {found['networks']:>4} "
        f"{short(found['median']):>8} {short(found['p99']):>8} {short(found['max']):>8} "
        f"{short(found['max_same_epoch']):>8} {found['differ']:>7} {found['predictions']:>7} "
        f"{short(found['largest_logit']):>9} {found['other_epoch']:>11}"
    )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print a JSON array")
    parser.add_argument("--datasets", help="names with commas between; all that are at hand by default")
    parser.add_argument("--sets", type=int, default=50, help="random flip sets per data set")
    parser.add_argument("--engine", default="fused")
    parser.add_argument("--device")
    parser.add_argument("--max-epochs", type=int, help="shorten the trainings; differences grow with their length")
    parser.add_argument("--no-floor", action="store_true", help="leave out the reference against itself")
    given = parser.parse_args(arguments)
    if not given.json:
        print(f"{processor()}\n{LEGEND}\n\n{HEADER}", flush=True)
    table = agreement_bench(
        given.datasets.split(",") if given.datasets else None, given.sets, given.engine, given.device,
        max_epochs=given.max_epochs, floor=not given.no_floor,
        tell=lambda row: None if given.json else print(lines(row), flush=True),
    )  # fmt: skip
    if given.json:
        print(json.dumps(table, indent=1))


if __name__ == "__main__":
    main()

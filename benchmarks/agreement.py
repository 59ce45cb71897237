"""Do the engines train what the reference trains? And how far does rounding alone carry the
reference?

For every data set, minibatch and full batch, random flip sets of the set's budget are trained by
the engine and by the reference. Training amplifies rounding, so logits differ; a prediction may
differ only where the reference's logit lies within the largest difference of 0. The floor shows
what no engine can avoid: the reference against itself with its sums in another order, that is with
the rows of the table (full batch) or of every batch (minibatch) in another order. Mathematically
that is the same training.

Columns: |Δlogit| over all test rows (median, 99 %, largest, and largest over the networks that keep
the reference's epoch), predictions unlike the reference's, the largest |logit| the reference has
there, and the networks that keep another epoch.

    python -m benchmarks.agreement --engine fused
    python -m benchmarks.agreement --engine stacked --device cuda --datasets adult --json
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from joblib import Parallel, delayed
from numpy.typing import NDArray

from benchmarks.rows import Columns, Row, names, options, parse, run, show
from benchmarks.work import batch_in_words, encoded, network, random_flip_sets, reference_fits
from butfor.models.engines import choose_engine
from butfor.models.network import MLP, MLPLearner
from butfor.models.seam import FlipSet, Floats
from butfor.nets import definition, train_one
from butfor.nets.recipe import Network, Recipe, Rows
from butfor.support.cores import available_cores
from butfor.table.embedded import catalogue_frame

MINIBATCH = 128
MINIBATCHES = {"salary": 8}
"""Where 128 would be more rows than there are."""
FLOOR = "floor"


def at_hand() -> list[str]:
    """The data sets whose files are here: the embedded ones, and Bank where it was fetched."""
    frame = catalogue_frame()
    return [
        name
        for name, balance in zip(frame["name"], frame["label_balance"], strict=True)
        if balance is not None
    ]


def agreement(
    datasets: Sequence[str] | None,
    sets: int,
    engine: str,
    device: str | None,
    max_epochs: int | None,
    no_floor: bool,
) -> Iterator[Row]:
    """A row for the engine and one for the floor, per data set and batch size."""
    trainer: Any = choose_engine(device or engine, MLPLearner(MLP()))
    for name in datasets or at_hand():
        rows, people, setup = encoded(name)
        flip_sets = random_flip_sets(rows.n, setup.budget, sets)
        for batch_size in (MINIBATCHES.get(name, MINIBATCH), None):
            recipe = replace(network(setup).recipe(), batch_size=batch_size)
            recipe = replace(
                recipe, max_epochs=min(max_epochs or recipe.max_epochs, recipe.max_epochs)
            )
            about = {
                "dataset": name,
                "batch_size": batch_size,
                "n": rows.n,
                "labels_flipped": setup.budget,
                "people": len(people),
                "max_epochs": recipe.max_epochs,
            }
            fits = reference_fits(recipe, rows, flip_sets, people, available_cores())
            expected = Answers(fits.logits, fits.best_epoch)
            fits = trainer.fit_many(recipe, rows, flip_sets, people)
            yield (
                about
                | {"engine": trainer.name}
                | difference(expected, Answers(fits.logits, fits.best_epoch))
            )
            if not no_floor:
                yield (
                    about
                    | {"engine": FLOOR}
                    | difference(expected, reordered(recipe, rows, flip_sets, people))
                )


@dataclass(frozen=True)
class Answers:
    """What is compared: `logits [K × people]` and the epochs whose weights were kept `[K]`."""

    logits: NDArray[np.floating]
    best_epoch: NDArray[np.integer]


def difference(expected: Answers, got: Answers) -> Row:
    """How far logits lie apart, and whether that reached a prediction or the kept epoch.

    `largest_logit` is the largest |logit| of the reference among differing predictions; networks
    that keep another epoch are other networks altogether, so `max_same_epoch` leaves them out."""
    apart = np.abs(np.asarray(got.logits, np.float64) - expected.logits)
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


# --- the reference with its sums in another order -------------------------------------------------


def reordered(recipe: Recipe, rows: Rows, flip_sets: Sequence[FlipSet], people: Floats) -> Answers:
    """The same trainings, mathematically, by the reference."""
    jobs = available_cores()
    if recipe.batch_size is None:
        order = np.random.default_rng(0).permutation(rows.n)
        place = np.argsort(order)
        moved = Rows(rows.X[order], rows.y[order], rows.X_val, rows.y_val)
        turned = [tuple(sorted(int(place[row]) for row in flips)) for flips in flip_sets]
        fits = reference_fits(recipe, moved, turned, people, jobs)
        return Answers(fits.logits, fits.best_epoch)
    networks: list[Network] = Parallel(n_jobs=jobs if len(flip_sets) > jobs else 1)(
        delayed(train_batches_reversed)(recipe, rows, flips) for flips in flip_sets
    )
    logits = np.array([network.logits(people) for network in networks])
    return Answers(logits, np.array([network.best_epoch for network in networks]))


def train_batches_reversed(recipe: Recipe, rows: Rows, flips: FlipSet) -> Network:
    """The reference with every batch's rows back to front."""
    with batches_reversed():
        return train_one(recipe, rows, flips)


@contextmanager
def batches_reversed() -> Iterator[None]:
    # The reference takes no order from outside, and shall not learn to for a measurement's sake.
    usual = definition.batch_orders

    def back_to_front(recipe: Recipe, n: int) -> Iterator[torch.Tensor]:
        for order in usual(recipe, n):
            yield torch.cat([batch.flip(0) for batch in order.split(recipe.batch_size or n)])

    definition.batch_orders = back_to_front
    try:
        yield
    finally:
        definition.batch_orders = usual


COLUMNS: Columns = {
    "dataset ": "{dataset}",
    "batch     ": lambda row: batch_in_words(row["batch_size"]),
    "          ": "{engine}",
    "nets": "{networks}",
    "  median": "{median:.1e}",
    "    99 %": "{p99:.1e}",
    "     max": "{max:.1e}",
    "same ep.": "{max_same_epoch:.1e}",
    " differ": "{differ}",
    "     of": "{predictions}",
    "|logit| ≤": "{largest_logit:.1e}",
    "other epoch": "{other_epoch}",
}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = options(__doc__)
    parser.add_argument(
        "--datasets", type=names, help="names with commas between; all that are at hand by default"
    )
    parser.add_argument("--sets", type=int, default=50, help="random flip sets per data set")
    parser.add_argument("--engine", default="fused")
    parser.add_argument("--device")
    parser.add_argument(
        "--max-epochs", type=int, help="shorten the trainings; differences grow with their length"
    )
    parser.add_argument(
        "--no-floor", action="store_true", help="leave out the reference against itself"
    )
    as_json, given = parse(parser, arguments)
    show(agreement(**given), COLUMNS, as_json)


if __name__ == "__main__":
    run(main)

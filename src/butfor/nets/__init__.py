"""Thousands of small networks that differ in a few training labels: trained, asked and
differentiated.

Arrays in, arrays out. `Recipe` has the settings of a training, `Rows` the training and validation
rows with their labels. A *flip set* names training rows by their positions; a network is trained on
the rows with these labels flipped, under a seed of its own, and asked about *people*: rows `[people
× d]` encoded alike.

    train_one(recipe, rows, flips)                             one Network, by the definition
    train_many(recipe, rows, flip_sets, seeds, people)         logits [networks × people]
    label_gradient(recipe, rows, sweeps, people)               derivatives of logits by the labels

`train_many` and `label_gradient` train what the definition trains, up to the order of
floating-point sums, on the CPU or a GPU. `check()` is called from the calling thread between pieces
of work; it may raise anything, which ends the threads and comes through. Errors are ValueError and
RuntimeError.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np

from .recipe import Advance, Check, Fits, FlipSet, Floats, Job, Network, Recipe, Rows

if TYPE_CHECKING:
    from .sweeps import LabelGradient, Sweep

__all__ = [
    "Fits",
    "Network",
    "Recipe",
    "Rows",
    "fit_many",
    "label_gradient",
    "train_many",
    "train_one",
]


def train_one(recipe: Recipe, rows: Rows, flips: Sequence[int] = ()) -> Network:
    """The network of the definition: plain PyTorch on one CPU thread."""
    from . import definition

    return definition.train_one(recipe, rows, flips)


def train_many(
    recipe: Recipe,
    rows: Rows,
    flip_sets: Sequence[FlipSet],
    seeds: Sequence[int],
    people: Floats,
    **how: Any,
) -> Floats:
    """The logits of one network per flip set and seed, `[networks × people]`; with more than two
    classes scores, `[networks × people · classes]`. NaN if a training diverged. `how`: as in
    `fit_many`."""
    return fit_many(recipe, rows, flip_sets, seeds, people, **how).answers


def fit_many(
    recipe: Recipe,
    rows: Rows,
    flip_sets: Sequence[FlipSet],
    seeds: Sequence[int],
    people: Floats,
    *,
    device: str = "cpu",
    threads: int | None = None,
    check: Check = lambda: None,
    advance: Advance = lambda finished: None,
    stacked: bool = False,
) -> Fits:
    """The same with the course of each training. On the CPU compiled code trains `threads` networks
    at a time, by default one per core; on CUDA one kernel launch trains them all. Others (more than
    two classes; on CUDA those that do not fit), and all with `stacked`, are stacked tensors.
    `advance` is told of finished trainings."""
    people = np.ascontiguousarray(people, dtype=np.float32)
    rows.check(flip_sets, people)
    job = Job(recipe, rows, flip_sets, seeds, people, check, advance)
    if not flip_sets:
        return Fits.empty(job)
    check()
    if device == "cpu" and rows.outputs == 1 and not stacked and find_spec("numba"):
        from . import fused

        return fused.train(job, threads or os.cpu_count() or 1)
    import torch

    from . import onelaunch, stacks

    where = torch.device(device)
    if not stacked and onelaunch.can_train(job, where):
        return onelaunch.train(job, where)
    return stacks.train(job, where)


def label_gradient(
    recipe: Recipe,
    rows: Rows,
    sweeps: Sequence[Sweep],
    people: Floats,
    *,
    epochs: int = 1,
    device: str = "cpu",
    threads: int | None = None,
    check: Check = lambda: None,
) -> Iterator[LabelGradient]:
    """For each sweep (a network by its seed and flips, and some of the people by their positions)
    the derivative of these people's logits, and of the `epochs` lowest validation losses, by every
    training label. On the CPU, `threads` sweeps at a time."""
    import torch

    from .sweeps import sweep_many
    from .threads import in_threads

    if epochs < 1:
        raise ValueError(f"epochs={epochs} must be at least 1.")
    people = np.ascontiguousarray(people, dtype=np.float32)
    rows.check([sweep.flips for sweep in sweeps], people)
    where = torch.device(device)
    count = 1 if where.type == "cuda" else min(threads or os.cpu_count() or 1, len(sweeps))
    compiled = (
        recipe.hidden and recipe.activation == "relu" and rows.outputs == 1 and find_spec("numba")
    )
    if where.type == "cpu" and compiled:
        from .walks import Training

        def walked(sweep: Sweep, check: Check) -> LabelGradient:
            return Training(recipe, rows, sweep, check).walk_back(people[sweep.people], epochs)

        yield from in_threads(walked, sweeps, max(1, count), check)
        return

    def swept(part: Sequence[Sweep], check: Check) -> list[LabelGradient]:
        return sweep_many(recipe, rows, part, people, epochs, where, check)

    done = list(in_threads(swept, [sweeps[k::count] for k in range(count)], max(1, count), check))
    yield from (done[k % count][k // count] for k in range(len(sweeps)))


def keeps_compiled() -> bool:
    """Whether numba has a place for compiled code: beside this package, or in the user's cache.
    Where all of that is read-only, every process compiles for itself."""
    from numba import njit

    try:
        njit(cache=True)(lambda: None)
    except (RuntimeError, OSError):
        return False
    return True

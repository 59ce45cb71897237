"""How fast are the engines? The plain PyTorch loop against compiled code, on the same work in the
same run.

The loop is `Loop` on one thread: tensors in memory, gathered batches, no DataLoader, the whole
table without a copy at full batch. It trains networks one after the other; the fused engine trains
them on all cores. Both start from the same weights, follow the same batch orders for the same
number of epochs, judge every epoch on the same validation rows and answer the same people. Loop and
engine take turns, so that whatever else the machine does falls on both; figures are medians over
the turns.

    python -m benchmarks.engines                                  # speed, German exhaustively, scaling
    python -m benchmarks.engines --parts memory                   # the peak memory of an Adult audit (a minute or more)
    python -m benchmarks.engines --parts gpu --device cuda --exhaustive
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import pairwise
from statistics import median
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import linear
from torch.optim.adam import adam

from benchmarks.enginetable import table
from benchmarks.memory import peak_memory
from benchmarks.rows import Row, names, options, parse, run
from benchmarks.work import encoded, network, processor, random_flip_sets
from butfor import __version__
from butfor.errors import EngineError
from butfor.models.network import NetworkEngine
from butfor.models.seam import FlipSet, Floats
from butfor.nets.definition import mean_loss, packed_start, train_one
from butfor.nets.recipe import (
    BETA1,
    BETA2,
    EPSILON,
    Recipe,
    Rows,
    one_thread,
    unpack,
)
from butfor.support.cores import available_cores
from butfor.support.versions import versions
from butfor.table.embedded import Setup

PARTS = ("speed", "exhaustive", "scaling")
"""What is measured where nobody says otherwise; "memory" and "gpu" come on top."""

BASELINE = (
    "Loop: plain PyTorch on one thread, tensors in memory, gathered batches, no DataLoader; same "
    "initial weights, batch orders, epochs, validation and people"
)


class Loop:
    """Plain PyTorch: autograd, and `torch.optim.Adam` by the function that its `step` calls."""

    def __init__(self, recipe: Recipe, widths: tuple[int, ...]) -> None:
        weights, biases = unpack(packed_start(widths, recipe.seed), widths)
        self.tensors = [
            part.clone().requires_grad_()
            for pair in zip(weights, biases, strict=True)
            for part in pair
        ]
        self.means, self.squares = (
            [torch.zeros_like(part) for part in self.tensors] for _ in range(2)
        )
        self.steps = [torch.tensor(0.0) for _ in self.tensors]
        self.activation, self.learning_rate = (
            getattr(torch, recipe.activation),
            recipe.learning_rate,
        )

    def outputs(self, inputs: Tensor) -> list[Tensor]:
        h = inputs
        for layer in range(0, len(self.tensors), 2):
            h = linear(self.activation(h) if layer else h, *self.tensors[layer : layer + 2])
        return [h]

    def step(self, inputs: Tensor, labels: Tensor) -> None:
        with torch.enable_grad():
            gradients = torch.autograd.grad(
                mean_loss(self.outputs(inputs)[-1], labels), self.tensors
            )
        how: dict[str, Any] = {
            "foreach": False,
            "amsgrad": False,
            "weight_decay": 0.0,
            "maximize": False,
        }
        how |= {"beta1": BETA1, "beta2": BETA2, "eps": EPSILON, "lr": self.learning_rate}
        adam(self.tensors, list(gradients), self.means, self.squares, [], self.steps, **how)

    def packed(self) -> Tensor:
        return torch.cat([part.detach().flatten() for part in self.tensors])


@dataclass(frozen=True)
class Sizes:
    """How much is measured. `networks` is K; scaling and speed train exactly `epochs` epochs."""

    dataset: str = "adult"
    hidden: tuple[int, ...] = (32, 32)
    batch_size: int = 128
    networks: int = 16
    epochs: int = 20
    rounds: int = 5
    people: int = 200
    sgemm: int = 2048
    exhaustive: str = "german"
    sample: int = 6
    scaling_rows: tuple[int, ...] = (1500, 6000, 24_000)
    scaling_networks: tuple[int, ...] = (2, 8, 32)
    scaling_hidden: tuple[int, ...] = (16, 32, 64, 128)
    scaling_epochs: int = 40
    scaling_rounds: int = 3
    memory_retrainings: int = 20
    gpu_networks: int = 1000


QUICK = Sizes(
    networks=8,
    epochs=5,
    rounds=3,
    sample=3,
    scaling_epochs=8,
    scaling_rounds=2,
    memory_retrainings=4,
    gpu_networks=200,
)


def engines_bench(
    sizes: Sizes,
    parts: Sequence[str] = PARTS,
    device: str | None = None,
    n_jobs: int | None = None,
    every: bool = False,
) -> Row:
    """Everything the table shows, as plain numbers; what was left out is None, and `left_out` says
    why.

    `device` adds the stacked engine there and, with `every`, one retraining per row of the data
    set."""
    jobs = n_jobs or available_cores()
    rows, people, setup = encoded(sizes.dataset)
    record: Row = {
        "speedup_minibatch": None,
        "speedup_full_batch": None,
        "gflops": None,
        "peak_share": None,
        "settings": settings(sizes, rows, jobs),
        "left_out": None,
    }
    fused: NetworkEngine | None = None
    try:
        fused = NetworkEngine(n_jobs=jobs)
    except EngineError as error:
        record["left_out"] = (
            f"The fused engine, and with it speed, exhaustive, scaling and memory: {error}"
        )
    if fused is not None:
        if "speed" in parts:
            tell("speed: loop and fused in turns")
            record |= speed(fused, jobs, rows, people[: sizes.people], sizes)
        if "exhaustive" in parts:
            tell(f"exhaustive: every label of {sizes.exhaustive}")
            record["exhaustive"] = exhaustive(fused, sizes)
        if "scaling" in parts:
            tell("scaling: rows, networks, widths")
            record["scaling"] = scaling(fused, rows, sizes)
        if "memory" in parts:
            tell(f"memory: an audit of {sizes.dataset} in a process of its own")
            record["memory"] = peak_memory(sizes.dataset, sizes.people, sizes.memory_retrainings)
    if device is not None:
        tell(f"gpu: the stacked engine on {device}")
        record["gpu"] = on_device(device, rows, people, setup, sizes, every)
    return record


def training_flop(widths: Sequence[int], n: int, n_val: int) -> int:
    """Multiplications and additions of one epoch's matrix products: forth, the gradient and, below
    all layers but the first, the errors sent back; validation goes forth only. Adam, activations
    and losses are not counted."""
    weights = [into * out for into, out in pairwise(widths)]
    return 2 * (n * (3 * sum(weights) - weights[0]) + n_val * sum(weights))


def timed(work: Callable[[], Any]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


# --- speed ----------------------------------------------------------------------------------------


def speed(fused: NetworkEngine, jobs: int, rows: Rows, people: Floats, sizes: Sizes) -> Row:
    """Seconds per network and epoch, minibatch and full batch, and what they are of the core's
    peak."""
    recipe = Recipe(
        sizes.hidden,
        batch_size=sizes.batch_size,
        max_epochs=sizes.epochs,
        patience=sizes.epochs + 1,
    )
    recipes = {"minibatch": recipe, "full_batch": replace(recipe, batch_size=None)}
    flip_sets = random_flip_sets(rows.n, 1, sizes.networks)
    trainers: dict[str, Callable[[Recipe, Sequence[FlipSet]], Any]] = {
        "loop": lambda recipe, sets: [
            train_one(recipe, rows, flips, Loop).logits(people) for flips in sets[:1]
        ],
        "direct": lambda recipe, sets: [
            train_one(recipe, rows, flips).logits(people) for flips in sets[:1]
        ],
        "fused": lambda recipe, sets: fused.fit_many(recipe, rows, sets, people),
    }
    for recipe in recipes.values():
        for trainer in trainers.values():
            trainer(
                replace(recipe, max_epochs=1), flip_sets[:1]
            )  # compiles, and warms torch up as well
    seconds: dict[tuple[str, str], list[float]] = {
        (who, name): [] for who in trainers for name in recipes
    }
    peaks = []
    for turn in range(sizes.rounds):
        turned = [*flip_sets[turn % len(flip_sets) :], *flip_sets[: turn % len(flip_sets)]]
        for name, recipe in recipes.items():
            for who, trainer in trainers.items():
                spent = timed(partial(trainer, recipe, turned))
                seconds[who, name].append(
                    spent / sizes.epochs / (len(flip_sets) if who == "fused" else 1)
                )
        peaks.append(sgemm_gflops(sizes.sgemm))
    flop = training_flop(rows.widths(recipe), rows.n, len(rows.X_val))
    record: Row = {"peak_gflops": max(peaks)}
    for name in recipes:
        ratios = _ratios(seconds["loop", name], seconds["fused", name])
        record[f"speedup_{name}"] = median(ratios)
        record[f"speedup_{name}_range"] = [min(ratios), max(ratios)]
        record[f"speedup_direct_{name}"] = median(
            _ratios(seconds["loop", name], seconds["direct", name])
        )
        record |= {f"{who}_seconds_{name}": median(seconds[who, name]) for who in trainers}
        record[f"gflops_{name}"] = (
            flop / record[f"fused_seconds_{name}"] / min(jobs, len(flip_sets)) / 1e9
        )
    record["gflops"] = record["gflops_full_batch"]
    record["peak_share"] = record["gflops"] / record["peak_gflops"]
    return record


def _ratios(slow: Sequence[float], fast: Sequence[float]) -> list[float]:
    return [a / b for a, b in zip(slow, fast, strict=True)]


def sgemm_gflops(size: int, repeats: int = 3) -> float:
    """The best a large float32 matrix product reaches on one thread."""
    a, b = torch.rand(size, size), torch.rand(size, size)
    out = torch.empty(size, size)
    with one_thread():
        torch.mm(a, b, out=out)
        best = min(timed(lambda: torch.mm(a, b, out=out)) for _ in range(repeats))
    return 2 * size**3 / best / 1e9


# --- one data set, every label --------------------------------------------------------------------


def exhaustive(engine: NetworkEngine, sizes: Sizes) -> Row:
    """Every training label flipped alone, everyone in the test set answered; the loop from a
    sample."""
    rows, people, setup = encoded(sizes.exhaustive)
    recipe = network(setup).recipe()
    engine.fit_many(replace(recipe, max_epochs=1), rows, [()], people[:1])
    sample = random_flip_sets(rows.n, 1, sizes.sample, seed=1)
    each = [
        timed(partial(lambda flips: train_one(recipe, rows, flips, Loop).logits(people), flips))
        for flips in sample
    ]
    record = every_label(engine, recipe, rows, people)
    loop = float(np.mean(each)) * rows.n
    return {
        "dataset": sizes.exhaustive,
        **record,
        "loop_sample": len(sample),
        "loop_seconds": loop,
        "speedup": loop / record["seconds"],
    }


def every_label(engine: NetworkEngine, recipe: Recipe, rows: Rows, people: Floats) -> Row:
    """`changed`: for how many people some single label turns the decision, before the reference
    confirms it."""
    started = time.perf_counter()
    fits = engine.fit_many(recipe, rows, [(), *((row,) for row in range(rows.n))], people)
    decisions = fits.logits > 0
    changed = int((decisions[1:] != decisions[0]).any(axis=0).sum())
    return {
        "retrainings": rows.n,
        "people": len(people),
        "changed": changed,
        "mean_epochs": float(fits.epochs.mean()),
        "seconds": time.perf_counter() - started,
    }


# --- scaling --------------------------------------------------------------------------------------


def scaling(engine: NetworkEngine, rows: Rows, sizes: Sizes) -> list[Row]:
    """Time against rows, networks and hidden width, one of them varied at a time; `against_largest`
    is the cost of a unit of work against that of the largest size."""
    n, K = (
        sizes.scaling_rows[len(sizes.scaling_rows) // 2],
        sizes.scaling_networks[len(sizes.scaling_networks) // 2],
    )
    axes = {
        "rows": [(some, some, K, sizes.hidden) for some in sizes.scaling_rows],
        "networks": [(many, n, many, sizes.hidden) for many in sizes.scaling_networks],
        "hidden": [(width, n, K, (width,) * len(sizes.hidden)) for width in sizes.scaling_hidden],
    }
    table = []
    for batch_size in (sizes.batch_size, None):
        for axis, points in axes.items():
            line: list[Row] = []
            for value, some, networks, hidden in points:
                about = {"axis": axis, "value": value, "batch_size": batch_size}
                line.append(about | point(engine, rows, some, networks, hidden, batch_size, sizes))
            table += [
                at | {"against_largest": at["ps_per_flop"] / line[-1]["ps_per_flop"]} for at in line
            ]
    return table


def point(
    engine: NetworkEngine,
    rows: Rows,
    n: int,
    networks: int,
    hidden: tuple[int, ...],
    batch_size: int | None,
    sizes: Sizes,
) -> Row:
    """One size, measured. Validation rows shrink with the training rows."""
    n = min(n, rows.n)
    n_val = max(1, len(rows.X_val) * n // rows.n)
    some = Rows(rows.X[:n], rows.y[:n], rows.X_val[:n_val], rows.y_val[:n_val])
    epochs = sizes.scaling_epochs
    recipe = Recipe(hidden, batch_size=batch_size, max_epochs=epochs, patience=epochs + 1)
    flip_sets = random_flip_sets(n, 1, networks)
    engine.fit_many(
        replace(recipe, max_epochs=1), some, flip_sets, some.X_val[:1]
    )  # compiles, fills the caches
    turns = range(sizes.scaling_rounds)
    seconds = median(
        timed(lambda: engine.fit_many(recipe, some, flip_sets, some.X_val[:1])) for _ in turns
    )
    flop = epochs * training_flop(rows.widths(recipe), n, n_val) * len(flip_sets)
    return {
        "rows": n,
        "networks": len(flip_sets),
        "hidden": list(hidden),
        "seconds": seconds,
        "ms_per_network": 1e3 * seconds / len(flip_sets),
        "ps_per_flop": 1e12 * seconds / flop,
    }


# --- any torch device -----------------------------------------------------------------------------


def on_device(
    device: str, rows: Rows, people: Floats, setup: Setup, sizes: Sizes, every: bool
) -> Row:
    """The stacked engine on the published training: full batch, early stopping, different flip
    sets."""
    engine = NetworkEngine(device)
    recipe = replace(network(setup).recipe(), batch_size=None)
    flip_sets = random_flip_sets(rows.n, setup.budget, sizes.gpu_networks)
    engine.fit_many(replace(recipe, max_epochs=2), rows, flip_sets[:2], people)  # compiles
    started = time.perf_counter()
    fits = engine.fit_many(recipe, rows, flip_sets, people)
    seconds = time.perf_counter() - started
    record: Row = {
        "device": torch.cuda.get_device_name(device) if device.startswith("cuda") else processor(),
        "dataset": sizes.dataset,
        "batch_size": None,
        "max_epochs": recipe.max_epochs,
        "patience": recipe.patience,
        "networks": len(flip_sets),
        "labels_flipped": setup.budget,
        "people": len(people),
        "mean_epochs": float(fits.epochs.mean()),
        "seconds": seconds,
        "per_second": len(flip_sets) / seconds,
    }
    if every:
        found = every_label(engine, recipe, rows, people)
        record["exhaustive"] = found | {"per_second": found["retrainings"] / found["seconds"]}
    return record


# --- settings -------------------------------------------------------------------------------------


def settings(sizes: Sizes, rows: Rows, jobs: int) -> Row:
    return {
        "machine": processor(),
        "cores": available_cores(),
        "fused_threads": jobs,
        "loop_threads": 1,
        "load_before": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
        "versions": {"butfor": __version__} | versions(),
        "shape": {
            "rows": rows.n,
            "inputs": rows.d,
            "validation": len(rows.X_val),
            "hidden": list(sizes.hidden),
        },
        "K": sizes.networks,
        "baseline": BASELINE,
        "sizes": asdict(sizes),
    }


def main(arguments: Sequence[str] | None = None) -> None:
    parser = options(__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="shorter trainings, noisier figures, no scaling"
    )
    parser.add_argument("--parts", type=names, help="some of speed,exhaustive,scaling,memory,gpu")
    parser.add_argument("--device", help="also the stacked engine there, such as 'cuda'")
    parser.add_argument(
        "--exhaustive", action="store_true", help="with --device: also every label alone"
    )
    parser.add_argument(
        "--n-jobs", type=int, help="threads of the fused engine; all cores by default"
    )
    as_json, given = parse(parser, arguments)
    parts = given["parts"] or [part for part in PARTS if not (given["quick"] and part == "scaling")]
    if unknown := set(parts) - {*PARTS, "memory", "gpu"}:
        parser.error(
            f"there is no part '{sorted(unknown)[0]}': choose from speed, exhaustive, scaling, "
            "memory, gpu"
        )
    if "gpu" in parts and not given["device"]:
        parser.error("the part 'gpu' needs --device")
    sizes = QUICK if given["quick"] else Sizes()
    record = engines_bench(sizes, parts, given["device"], given["n_jobs"], given["exhaustive"])
    print(json.dumps(record, indent=1) if as_json else table(record))


def tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    run(main)

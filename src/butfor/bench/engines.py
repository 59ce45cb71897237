"""How fast are the engines? The plain PyTorch loop against compiled code, on the same work in the same run.

The loop is `butfor.mlp.reference.train` on one thread: tensors in memory, indexed batches, no DataLoader, the
whole table without a copy at full batch. It trains networks one after the other; the fused engine trains them
on all cores. Both start from the same weights, follow the same batch orders for the same number of epochs, judge
every epoch on the same validation rows and answer the same people. Loop and engine take turns, so that whatever
else the machine does falls on both; figures are medians over the turns.

    python -m butfor.bench.engines                                  # speed, German exhaustively, scaling
    python -m butfor.bench.engines --json --memory                  # also the peak memory of an Adult audit
    python -m butfor.bench.engines --parts gpu --device cuda --exhaustive
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from statistics import median
from typing import Any

import numpy as np
import torch

from butfor import __version__
from butfor.bench.enginetable import table
from butfor.bench.memory import peak_memory
from butfor.bench.work import batch_in_words, encoded, published, random_flip_sets
from butfor.data.catalogue import Setup
from butfor.errors import EngineError
from butfor.learn.engines import network_engine
from butfor.machine import available_cores, processor
from butfor.mlp import direct
from butfor.mlp.learner import NetworkEngine
from butfor.mlp.onethread import one_thread
from butfor.mlp.recipe import Recipe, Rows
from butfor.mlp.reference import train
from butfor.provenance import versions
from butfor.seam import FlipSet, Floats

PARTS = ("speed", "exhaustive", "scaling")
"""What is measured where nobody says otherwise; "memory" and "gpu" come on top."""

BASELINE = (
    "butfor.mlp.reference.train: plain PyTorch on one thread, tensors in memory, indexed batches, no DataLoader; "
    "same initial weights, batch orders, epochs, validation and people"
)


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
    networks=8, epochs=5, rounds=3, sample=3, scaling_epochs=8, scaling_rounds=2, memory_retrainings=4, gpu_networks=200
)


def engines_bench(
    sizes: Sizes | None = None, *, parts: Sequence[str] = PARTS, device: str | None = None, jobs: int | None = None,
    all_rows: bool = False, tell: Callable[[str], None] = lambda line: None,
) -> dict[str, Any]:  # fmt: skip
    """Everything the table shows, as plain numbers; what was left out is None, and `left_out` says why.

    `device` adds the stacked engine there and, with `all_rows`, one retraining per row of the data set."""
    sizes = sizes or Sizes()
    jobs = jobs or available_cores()
    rows, people, setup = encoded(sizes.dataset)
    record: dict[str, Any] = {
        "speedup_minibatch": None, "speedup_full_batch": None, "gflops": None, "peak_share": None,
        "settings": settings(sizes, rows, jobs), "left_out": None,
    }  # fmt: skip
    fused: NetworkEngine | None = None
    try:
        fused = network_engine("fused", jobs=jobs)
    except EngineError as error:
        record["left_out"] = f"The fused engine, and with it speed, exhaustive, scaling and memory: {error}"
    if fused is not None:
        if "speed" in parts:
            tell("speed: loop and fused in turns")
            record |= speed(fused, jobs, rows, people[: sizes.people], sizes)
        if "exhaustive" in parts:
            tell(f"exhaustive: every label of {sizes.exhaustive}")
            record["exhaustive"] = exhaustive(fused, sizes)
        if "scaling" in parts:
            tell("scaling: rows, networks, widths")
            record["scaling"] = scaling(fused, jobs, rows, sizes)
        if "memory" in parts:
            tell(f"memory: an audit of {sizes.dataset} in a process of its own")
            record["memory"] = peak_memory(sizes.dataset, sizes.people, sizes.memory_retrainings)
    if device is not None:
        tell(f"gpu: the stacked engine on {device}")
        record["gpu"] = on_device(device, rows, people, setup, sizes, all_rows)
    return record


def training_flop(widths: Sequence[int], n: int, n_val: int) -> int:
    """Multiplications and additions of one epoch's matrix products: forth, the gradient and, below all layers but
    the first, the errors sent back; validation goes forth only. Adam, activations and losses are not counted."""
    weights = [into * out for into, out in pairwise(widths)]
    return 2 * (n * (3 * sum(weights) - weights[0]) + n_val * sum(weights))


def timed(work: Callable[[], Any]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


# --- speed --------------------------------------------------------------------------------------------


def speed(fused: NetworkEngine, jobs: int, rows: Rows, people: Floats, sizes: Sizes) -> dict[str, Any]:
    """Seconds per network and epoch, minibatch and full batch, and what they are of the core's peak."""
    recipe = Recipe(sizes.hidden, batch_size=sizes.batch_size, max_epochs=sizes.epochs, patience=sizes.epochs + 1)
    recipes = {"minibatch": recipe, "full_batch": replace(recipe, batch_size=None)}
    flip_sets = random_flip_sets(rows.n, 1, sizes.networks)
    for recipe in recipes.values():  # compiles, and warms torch up as well
        fused.fit_many(replace(recipe, max_epochs=1), rows, flip_sets[:1], people)
        train(replace(recipe, max_epochs=1), rows)
        direct.train(replace(recipe, max_epochs=1), rows)
    loop: dict[str, list[float]] = {name: [] for name in recipes}
    definition: dict[str, list[float]] = {name: [] for name in recipes}
    engine: dict[str, list[float]] = {name: [] for name in recipes}
    peaks = []
    for turn in range(sizes.rounds):
        flips = flip_sets[turn % len(flip_sets)]
        for name, recipe in recipes.items():
            loop[name].append(loop_seconds(recipe, rows, flips, people) / sizes.epochs)
            spent = timed(lambda recipe=recipe, flips=flips: direct.train(recipe, rows, flips).logits(people))  # type: ignore[misc]
            definition[name].append(spent / sizes.epochs)
            spent = timed(lambda recipe=recipe: fused.fit_many(recipe, rows, flip_sets, people))  # type: ignore[misc]
            engine[name].append(spent / (sizes.epochs * len(flip_sets)))
        peaks.append(sgemm_gflops(sizes.sgemm))
    flop = training_flop(recipe.widths(rows.d), rows.n, len(rows.X_val))
    record: dict[str, Any] = {"peak_gflops": max(peaks)}
    for name in recipes:
        ratios = [slow / fast for slow, fast in zip(loop[name], engine[name], strict=True)]
        record[f"speedup_{name}"] = median(ratios)
        record[f"speedup_{name}_range"] = [min(ratios), max(ratios)]
        record[f"loop_seconds_{name}"] = median(loop[name])
        record[f"direct_seconds_{name}"] = median(definition[name])
        record[f"speedup_direct_{name}"] = median(
            slow / fast for slow, fast in zip(loop[name], definition[name], strict=True)
        )
        record[f"fused_seconds_{name}"] = median(engine[name])
        record[f"gflops_{name}"] = flop / median(engine[name]) / min(jobs, len(flip_sets)) / 1e9
    record["gflops"] = record["gflops_full_batch"]
    record["peak_share"] = record["gflops"] / record["peak_gflops"]
    return record


def loop_seconds(recipe: Recipe, rows: Rows, flips: FlipSet, people: Floats) -> float:
    """One training by the loop, the people's answers included."""
    return timed(lambda: train(recipe, rows, flips).logits(people))


def sgemm_gflops(size: int, repeats: int = 3) -> float:
    """The best a large float32 matrix product reaches on one thread."""
    a, b = torch.rand(size, size), torch.rand(size, size)
    out = torch.empty(size, size)
    with one_thread():
        torch.mm(a, b, out=out)
        best = min(timed(lambda: torch.mm(a, b, out=out)) for _ in range(repeats))
    return 2 * size**3 / best / 1e9


# --- one data set, every label ------------------------------------------------------------------------


def exhaustive(engine: NetworkEngine, sizes: Sizes) -> dict[str, Any]:
    """Every training label flipped alone, everyone in the test set answered; the loop from a sample."""
    rows, people, setup = encoded(sizes.exhaustive)
    recipe = published(setup)
    engine.fit_many(replace(recipe, max_epochs=1), rows, [()], people[:1])
    sample = random_flip_sets(rows.n, 1, sizes.sample, seed=1)
    each = [loop_seconds(recipe, rows, flips, people) for flips in sample]
    record = every_label(engine, recipe, rows, people)
    loop = float(np.mean(each)) * rows.n
    return {
        "dataset": sizes.exhaustive, **record,
        "loop_sample": len(sample), "loop_seconds": loop, "speedup": loop / record["seconds"],
    }  # fmt: skip


def every_label(engine: NetworkEngine, recipe: Recipe, rows: Rows, people: Floats) -> dict[str, Any]:
    """`changed`: for how many people some single label turns the decision, before the reference confirms it."""
    started = time.perf_counter()
    fits = engine.fit_many(recipe, rows, [(), *((row,) for row in range(rows.n))], people)
    decisions = fits.logits > 0
    changed = int((decisions[1:] != decisions[0]).any(axis=0).sum())
    return {
        "retrainings": rows.n, "people": len(people), "changed": changed,
        "mean_epochs": float(fits.epochs.mean()), "seconds": time.perf_counter() - started,
    }  # fmt: skip


# --- scaling ------------------------------------------------------------------------------------------

STRAIGHT = 0.3
"""By how much the cost of a unit of work may differ from that of the largest size before it is explained."""

# The likeliest causes by how the engine works; a run measures the ratio, not its cause.
EXPLANATIONS = {
    ("rows", "dearer"): "what a step or a network costs whatever its rows (Adam, turning the weights, its arrays, "
    "its batch orders) is spread over fewer rows.",
    ("rows", "cheaper"): "fewer rows stay in a nearer cache.",
    ("networks", "dearer"): "a network is the work of one thread, and what all networks share (padded rows, batch "
    "orders, starting the threads) is spread over fewer of them.",
    ("networks", "cheaper"): "the last networks of many do not end together, or the machine was busy elsewhere.",
    ("hidden", "dearer"): "what a row costs whatever the width (gathering it, its loss, starting the products' "
    "loops) is spread over less arithmetic.",
    ("hidden", "cheaper"): "the widest layers' weights and tiles no longer fit the nearest cache.",
}


def scaling(engine: NetworkEngine, jobs: int, rows: Rows, sizes: Sizes) -> list[dict[str, Any]]:
    """Time against rows, networks and hidden width, one of them varied at a time."""
    n, K = sizes.scaling_rows[len(sizes.scaling_rows) // 2], sizes.scaling_networks[len(sizes.scaling_networks) // 2]
    axes: dict[str, list[tuple[int, int, int, tuple[int, ...]]]] = {
        "rows": [(some, some, K, sizes.hidden) for some in sizes.scaling_rows],
        "networks": [(many, n, many, sizes.hidden) for many in sizes.scaling_networks],
        "hidden": [(width, n, K, (width,) * len(sizes.hidden)) for width in sizes.scaling_hidden],
    }
    table = []
    for batch_size in (sizes.batch_size, None):
        for axis, points in axes.items():
            line = [point(engine, rows, *given, batch_size, sizes) | {"axis": axis} for given in points]
            table += compared(line, jobs)
    return table


def point(
    engine: NetworkEngine, rows: Rows, value: int, n: int, networks: int, hidden: tuple[int, ...],
    batch_size: int | None, sizes: Sizes,
) -> dict[str, Any]:  # fmt: skip
    """One size, measured. Validation rows shrink with the training rows."""
    n = min(n, rows.n)
    n_val = max(1, len(rows.X_val) * n // rows.n)
    some = Rows(rows.X[:n], rows.y[:n], rows.X_val[:n_val], rows.y_val[:n_val])
    epochs = sizes.scaling_epochs
    recipe = Recipe(hidden, batch_size=batch_size, max_epochs=epochs, patience=epochs + 1)
    flip_sets = random_flip_sets(n, 1, networks)
    engine.fit_many(replace(recipe, max_epochs=1), some, flip_sets, some.X_val[:1])  # compiles, fills the caches
    seconds = median(
        timed(lambda: engine.fit_many(recipe, some, flip_sets, some.X_val[:1])) for _ in range(sizes.scaling_rounds)
    )
    each = seconds / len(flip_sets)
    flop = epochs * training_flop(recipe.widths(rows.d), n, n_val)
    return {
        "batch_size": batch_size, "value": value, "rows": n, "networks": len(flip_sets), "hidden": list(hidden),
        "seconds": seconds, "seconds_per_network": each, "ps_per_flop": 1e12 * each / flop,
    }  # fmt: skip


def compared(line: list[dict[str, Any]], jobs: int) -> list[dict[str, Any]]:
    """Each size's cost per unit of work against the largest's, and why where that is far from 1."""
    for at in line:
        at["against_largest"] = at["ps_per_flop"] / line[-1]["ps_per_flop"]
        at["explanation"] = explanation(at, jobs)
    return line


def explanation(at: dict[str, Any], jobs: int) -> str | None:
    ratio = at["against_largest"]
    if abs(ratio - 1) <= STRAIGHT:
        return None
    why = "probably " + EXPLANATIONS[at["axis"], "dearer" if ratio > 1 else "cheaper"]
    if at["axis"] == "networks" and at["networks"] < jobs:
        why = f"{at['networks']} networks keep {at['networks']} of {jobs} cores busy."
    return f"{at['axis']} = {at['value']}, {batch_in_words(at['batch_size'])}: {ratio:.2f} × per unit of work; {why}"


# --- any torch device ---------------------------------------------------------------------------------


def on_device(
    device: str, rows: Rows, people: Floats, setup: Setup, sizes: Sizes, all_rows: bool = False
) -> dict[str, Any]:
    """The stacked engine on the published training: full batch, early stopping, different flip sets."""
    engine = network_engine("stacked", device)
    recipe = replace(published(setup), batch_size=None)
    flip_sets = random_flip_sets(rows.n, setup.budget, sizes.gpu_networks)
    engine.fit_many(replace(recipe, max_epochs=2), rows, flip_sets[:2], people)  # compiles
    started = time.perf_counter()
    fits = engine.fit_many(recipe, rows, flip_sets, people)
    seconds = time.perf_counter() - started
    record: dict[str, Any] = {
        "device": torch.cuda.get_device_name(device) if device.startswith("cuda") else processor(),
        "dataset": sizes.dataset, "batch_size": None, "max_epochs": recipe.max_epochs, "patience": recipe.patience,
        "networks": len(flip_sets), "labels_flipped": setup.budget, "people": len(people),
        "mean_epochs": float(fits.epochs.mean()), "seconds": seconds, "per_second": len(flip_sets) / seconds,
    }  # fmt: skip
    if all_rows:
        found = every_label(engine, recipe, rows, people)
        record["exhaustive"] = found | {"per_second": found["retrainings"] / found["seconds"]}
    return record


# --- settings ---------------------------------------------------------------------------------------


def settings(sizes: Sizes, rows: Rows, jobs: int) -> dict[str, Any]:
    return {
        "machine": processor(),
        "cores": available_cores(),
        "fused_threads": jobs,
        "loop_threads": 1,
        "load_before": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
        "versions": {"butfor": __version__} | versions(),
        "shape": {"rows": rows.n, "inputs": rows.d, "validation": len(rows.X_val), "hidden": list(sizes.hidden)},
        "K": sizes.networks,
        "baseline": BASELINE,
        "sizes": asdict(sizes),
    }


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--quick", action="store_true", help="shorter trainings, noisier figures, no scaling")
    parser.add_argument("--parts", help="some of speed,exhaustive,scaling,memory,gpu")
    parser.add_argument("--memory", action="store_true", help="also the peak memory of an audit (a minute or more)")
    parser.add_argument("--device", help="also the stacked engine there, such as 'cuda'")
    parser.add_argument("--exhaustive", action="store_true", help="with --device: also every label alone")
    parser.add_argument("--jobs", type=int, help="threads of the fused engine; all cores by default")
    given = parser.parse_args(arguments)
    usual = [part for part in PARTS if not (given.quick and part == "scaling")]
    parts = [*(given.parts.split(",") if given.parts else usual), *(["memory"] if given.memory else [])]
    unknown = set(parts) - {*PARTS, "memory", "gpu"}
    if unknown:
        parser.error(f"there is no part '{sorted(unknown)[0]}': choose from speed, exhaustive, scaling, memory, gpu")
    if "gpu" in parts and not given.device:
        parser.error("the part 'gpu' needs --device")
    record = engines_bench(
        QUICK if given.quick else Sizes(), parts=parts, device=given.device, jobs=given.jobs,
        all_rows=given.exhaustive, tell=lambda line: print(line, file=sys.stderr, flush=True),
    )  # fmt: skip
    print(json.dumps(record, indent=1) if given.json else table(record))


if __name__ == "__main__":
    main()

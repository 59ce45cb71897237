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
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from math import comb
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch

from butfor import __version__
from butfor.data import load_dataset
from butfor.data.catalogue import Setup
from butfor.encode import TableEncoder
from butfor.errors import EngineError
from butfor.learn.engines import network_engine
from butfor.machine import available_cores
from butfor.mlp import direct
from butfor.mlp.learner import NetworkEngine
from butfor.mlp.onethread import one_thread
from butfor.mlp.recipe import Recipe, Rows
from butfor.mlp.reference import train
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
            record["memory"] = peak_memory(sizes)
    if device is not None:
        tell(f"gpu: the stacked engine on {device}")
        record["gpu"] = on_device(device, rows, people, setup, sizes, all_rows)
    return record


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


def published(setup: Setup) -> Recipe:
    return Recipe(setup.hidden, max_epochs=setup.max_epochs, batch_size=setup.batch_size)


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


# --- memory -------------------------------------------------------------------------------------------

AUDIT = """
import json, sys
from butfor.bench.engines import audit_for_memory
print(json.dumps(audit_for_memory(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))))
"""


def peak_memory(sizes: Sizes) -> dict[str, Any]:
    """The audit in a process of its own, so that nothing measured before counts."""
    given = [sizes.dataset, str(sizes.people), str(sizes.memory_retrainings)]
    # "-W ignore": what a library warns about must not end up between the numbers.
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", AUDIT, *given], stdout=subprocess.PIPE, text=True, check=True
    )
    record: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return record


def audit_for_memory(name: str, people: int, retrainings: int) -> dict[str, Any]:
    """Audit people by the fused engine, Algorithm 1 and the published ranking, and look at the high-water mark."""
    from butfor.audit import LabelAudit
    from butfor.mlp.mlp import MLP

    data = load_dataset(name)
    setup = data.setup
    audit = LabelAudit(
        MLP(setup.hidden, max_epochs=setup.max_epochs, batch_size=setup.batch_size),
        encoder=TableEncoder("embed", setup.numeric), budget=setup.budget, rank="combined", protocol="algorithm1",
        engine="fused", max_retrainings=retrainings, members=1, fresh_seeds=0,
    )  # fmt: skip
    audit.fit(
        data.X_train, data.y_train, sensitive_features=data.sensitive, validation=(data.X_val, data.y_val)
    )  # fmt: skip
    cases = audit.eligible_cases(data.X_test, people)
    started = time.perf_counter()
    population = audit.explain_all(data.X_test, cases=cases)
    return {
        "dataset": name, "people": len(cases), "retrainings": population.run["retrainings"],
        "seconds": time.perf_counter() - started, "peak_mib": high_water_mark() / 2**20,
    }  # fmt: skip


def high_water_mark() -> int:
    """Bytes this process held at most, without those of any helper process it started."""
    status = Path("/proc/self/status")
    if status.exists():
        # getrusage would also count what the parent held when it started this process.
        marks = [text.split()[1] for text in status.read_text().splitlines() if text.startswith("VmHWM")]
        if marks:
            return int(marks[0]) * 1024
    import resource

    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return used if sys.platform == "darwin" else used * 1024


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
        "device": torch.cuda.get_device_name(device) if device.startswith("cuda") else machine(),
        "dataset": sizes.dataset, "batch_size": None, "max_epochs": recipe.max_epochs, "patience": recipe.patience,
        "networks": len(flip_sets), "labels_flipped": setup.budget, "people": len(people),
        "mean_epochs": float(fits.epochs.mean()), "seconds": seconds, "per_second": len(flip_sets) / seconds,
    }  # fmt: skip
    if all_rows:
        found = every_label(engine, recipe, rows, people)
        record["exhaustive"] = found | {"per_second": found["retrainings"] / found["seconds"]}
    return record


# --- settings and printing ----------------------------------------------------------------------------


def settings(sizes: Sizes, rows: Rows, jobs: int) -> dict[str, Any]:
    return {
        "machine": machine(),
        "cores": available_cores(),
        "fused_threads": jobs,
        "loop_threads": 1,
        "load_before": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
        "versions": versions(),
        "shape": {"rows": rows.n, "inputs": rows.d, "validation": len(rows.X_val), "hidden": list(sizes.hidden)},
        "K": sizes.networks,
        "baseline": BASELINE,
        "sizes": asdict(sizes),
    }


def machine() -> str:
    """The processor in words."""
    cpuinfo = Path("/proc/cpuinfo")
    names = []
    if cpuinfo.exists():
        names = [t.split(":")[1].strip() for t in cpuinfo.read_text().splitlines() if t.startswith("model name")]
    return f"{names[0] if names else platform.processor() or platform.machine()}, {platform.system()}"


def versions() -> dict[str, str | None]:
    from importlib.metadata import PackageNotFoundError, version

    found: dict[str, str | None] = {"butfor": __version__, "python": platform.python_version()}
    for name in ("torch", "numpy", "numba"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = None
    return found


def batch_in_words(batch_size: int | None) -> str:
    return "full batch" if batch_size is None else f"batch {batch_size}"


def table(record: dict[str, Any]) -> str:
    said, shape = record["settings"], record["settings"]["shape"]
    lines = [
        f"{said['machine']}; {said['cores']} cores, load {said['load_before']}; "
        + ", ".join(f"{name} {number}" for name, number in said["versions"].items() if number),
        f"Loop, one thread: {BASELINE}.",
    ]
    if record["left_out"]:
        lines.append(f"Left out: {record['left_out']}")
    if record["speedup_minibatch"] is not None:
        lines += ["", *speed_lines(record, shape)]
    if "exhaustive" in record:
        lines += ["", *exhaustive_lines(record["exhaustive"])]
    if "scaling" in record:
        lines += ["", *scaling_lines(record["scaling"])]
    if "memory" in record:
        used = record["memory"]
        lines += [
            "",
            f"Memory: auditing {used['people']} people of {used['dataset']} by fused ({used['retrainings']} "
            f"retrainings, {used['seconds']:.0f} s) took {used['peak_mib']:.0f} MiB at most.",
        ]
    if "gpu" in record:
        lines += ["", *device_lines(record["gpu"])]
    return "\n".join(lines)


def speed_lines(record: dict[str, Any], shape: dict[str, Any]) -> list[str]:
    said = record["settings"]
    lines = [
        f"{shape['rows']} × {shape['inputs']} rows, {shape['validation']} validation rows, hidden "
        f"{'×'.join(map(str, shape['hidden']))}; fused: {said['K']} networks on {said['fused_threads']} threads",
        f"{'milliseconds per network and epoch':36} {'loop':>9} {'direct':>9} {'fused':>9} {'speedup':>9} "
        f"{'min – max':>17} {'GFLOP/s per core':>17}",
    ]
    for name, words in (("minibatch", f"batch {said['sizes']['batch_size']}"), ("full_batch", "full batch")):
        low, high = record[f"speedup_{name}_range"]
        lines.append(
            f"{words:36} {1e3 * record[f'loop_seconds_{name}']:>9.2f} "
            f"{1e3 * record[f'direct_seconds_{name}']:>9.2f} {1e3 * record[f'fused_seconds_{name}']:>9.2f} "
            f"{record[f'speedup_{name}']:>7.1f} × {f'{low:.1f} – {high:.1f}':>17} {record[f'gflops_{name}']:>17.1f}"
        )
    lines.append(
        "Direct, the same bits as the loop, is "
        f"{record['speedup_direct_minibatch']:.1f} and {record['speedup_direct_full_batch']:.1f} times as fast."
    )
    lines.append(
        f"Full batch reaches {100 * record['peak_share']:.0f} % of the core's peak, {record['peak_gflops']:.1f} "
        f"GFLOP/s (float32 product of two matrices of size {said['sizes']['sgemm']}, one thread, same run)."
    )
    return lines


def exhaustive_lines(found: dict[str, Any]) -> list[str]:
    return [
        f"{found['dataset']}, every label alone: {found['retrainings']} retrainings answer {found['people']} people in "
        f"{found['seconds']:.2f} s; the loop takes {found['loop_seconds']:.0f} s (extrapolated from "
        f"{found['loop_sample']} trainings), {found['speedup']:.1f} × as long.",
        f"For {found['changed']} people some single label turns the decision (before the reference confirms it).",
    ]


def scaling_lines(line: list[dict[str, Any]]) -> list[str]:
    lines = [
        f"{'against':9} {'':10} {'':>7} {'rows':>6} {'K':>4} {'hidden':>9} {'seconds':>9} {'ms / network':>13} "
        f"{'ps / flop':>10} {'/ largest':>10}"
    ]
    for at in line:
        lines.append(
            f"{at['axis']:9} {batch_in_words(at['batch_size']):10} {at['value']:>7} {at['rows']:>6} "
            f"{at['networks']:>4} {'×'.join(map(str, at['hidden'])):>9} {at['seconds']:>9.3f} "
            f"{1e3 * at['seconds_per_network']:>13.2f} {at['ps_per_flop']:>10.2f} {at['against_largest']:>10.2f}"
        )
    return lines + [at["explanation"] for at in line if at["explanation"]]


def device_lines(found: dict[str, Any]) -> list[str]:
    lines = [
        f"{found['device']}: {found['per_second']:.0f} retrainings of {found['dataset']} a second ({found['networks']} "
        f"different sets of {found['labels_flipped']} labels, full batch, early stopping after "
        f"{found['mean_epochs']:.0f} epochs on average, {found['people']} people answered) in {found['seconds']:.2f} s."
    ]
    if "exhaustive" in found:
        every = found["exhaustive"]
        lines.append(
            f"Every label alone: {every['retrainings']} retrainings answer {every['people']} people in "
            f"{every['seconds']:.1f} s, {every['per_second']:.0f} a second; for {every['changed']} people some single "
            "label turns the decision (before the reference confirms it)."
        )
    return lines


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

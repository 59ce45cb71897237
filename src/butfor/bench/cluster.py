"""What does a cluster cost on one machine? The same trainings by the local engine and by worker processes here.

Both train the same flip sets of the same table in the same run and must give the same answers. They take turns, so
that whatever else the machine does falls on both; the local engine has as many threads as the cluster has processes.
The overhead is the ratio of the medians, less one. Processes and what they load are there before the first turn.

With `--device` stacked tensors on that device are compared instead, here and on the workers: one of them for a GPU.

    python -m butfor.bench.cluster --workers 2 --seconds 10 --rounds 5
    python -m butfor.bench.cluster --workers 1 --device cuda
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from statistics import median
from typing import Any

import numpy as np

from butfor.bench.rows import print_rows
from butfor.data import load_dataset
from butfor.encode import TableEncoder
from butfor.errors import SettingError
from butfor.learn.cluster import cluster_engine
from butfor.learn.joblib_engine import JoblibEngine
from butfor.machine import available_cores, single_threaded
from butfor.mlp.fused import FusedEngine
from butfor.mlp.learner import MLPLearner
from butfor.mlp.mlp import MLP
from butfor.mlp.stacked import StackedEngine
from butfor.seam import Bound, Engine, Floats, Table, Training


def compare(
    dataset: str, *, workers: int, seconds: float, rounds: int, device: str | None = None
) -> Iterator[dict[str, Any]]:
    """One row for the fast engine and, on CPUs, one for the learner's own `fit`: so many trainings that a turn of the
    local engine takes about `seconds`."""
    if workers < 1 or rounds < 1 or not seconds > 0:
        raise SettingError(f"workers={workers}, rounds={rounds} and seconds={seconds:g} must all be above 0.")
    data = load_dataset(dataset)
    setup = data.setup
    learner = MLPLearner(
        MLP(setup.hidden, max_epochs=setup.max_epochs, batch_size=setup.batch_size),
        TableEncoder("embed", setup.numeric),
    )
    table = Table(data.X_train, data.y_train, (data.X_val, data.y_val))
    with cluster_engine(f"local:{workers}", "stacked" if device else "auto", device) as cluster, single_threaded():
        compared: list[tuple[Engine, Engine]] = (
            [(StackedEngine(device), cluster)]
            if device
            else [(FusedEngine(workers), cluster), (JoblibEngine(workers), cluster.definition)]
        )
        for local, far in compared:
            here, there = (each.bind(learner, table, data.X_test) for each in (local, far))
            count = _suited(here, table.n, seconds)
            trainings = _trainings(table.n, count)
            for each in (here, there, here):
                _timed(each, trainings)  # compiles, learns how long a training takes, and so starts processes
            turns = [(_timed(here, trainings), _timed(there, trainings)) for _ in range(rounds)]
            ratios = [b[0] / a[0] for a, b in turns]
            yield {
                "dataset": dataset,
                "engine": local.name,
                "workers": workers,
                "cores": available_cores(),
                "trainings": count,
                "rounds": rounds,
                "local_seconds": round(median(a[0] for a, _ in turns), 3),
                "cluster_seconds": round(median(b[0] for _, b in turns), 3),
                "overhead": round(median(b[0] for _, b in turns) / median(a[0] for a, _ in turns) - 1, 4),
                "overhead_of_rounds": [round(ratio - 1, 4) for ratio in sorted(ratios)],
                "same_answers": all(np.array_equal(a[1], b[1], equal_nan=True) for a, b in turns),
            }


def _trainings(n: int, count: int) -> list[Training]:
    """Single labels, one after the other, and from the last one on under another seed."""
    return [Training((k % n,), None if k < n else k // n) for k in range(count)]


def _suited(bound: Bound, n: int, seconds: float) -> int:
    """Trainings that take about so long."""
    bound(_trainings(n, 2))
    count, took = 2, 0.0
    while took < seconds / 10:
        count *= 2
        took = _timed(bound, _trainings(n, count))[0]
    return max(2, round(count * seconds / took))


def _timed(bound: Bound, trainings: Sequence[Training]) -> tuple[float, Floats]:
    started = time.perf_counter()
    answers = bound(trainings)
    return time.perf_counter() - started, answers


HEADER = (
    f"{'dataset':8} {'engine':7} {'workers':>7} {'cores':>5} {'trainings':>9} {'local s':>8} {'cluster s':>9} "
    f"{'overhead':>8} {'over the rounds':>20} {'same answers':>12}"
)


def line(row: dict[str, Any]) -> str:
    low, high = row["overhead_of_rounds"][0], row["overhead_of_rounds"][-1]
    return (
        f"{row['dataset']:8} {row['engine']:7} {row['workers']:7} {row['cores']:5} {row['trainings']:9} "
        f"{row['local_seconds']:8.2f} {row['cluster_seconds']:9.2f} {100 * row['overhead']:6.1f} % "
        f"{f'{100 * low:.1f} to {100 * high:.1f} %':>20} {'yes' if row['same_answers'] else 'NO':>12}"
    )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dataset", default="german")
    parser.add_argument("--workers", type=int, default=available_cores())
    parser.add_argument("--seconds", type=float, default=10.0, help="of one turn, about")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--device", help="compare stacked tensors on this device, such as cuda")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(arguments)
    rows = compare(
        given.dataset, workers=given.workers, seconds=given.seconds, rounds=given.rounds, device=given.device
    )
    print_rows(rows, HEADER, line, given.json)


if __name__ == "__main__":
    main()

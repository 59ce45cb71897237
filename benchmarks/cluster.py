"""What does a cluster cost on one machine? The same trainings by the local engine and by Dask's
workers here.

Both train the same flip sets of the same table in the same run and must give the same answers. They
take turns, so that whatever else the machine does falls on both; the local engine has as many
threads or processes as the cluster has workers. The overhead is the ratio of the medians, less one,
by the clock and in processor time, which on a busy machine tells more. Processes and what they load
are there before the first turn.

With `--device` stacked tensors on that device are compared instead, here and on the workers: one of
them for a GPU.

    python -m benchmarks.cluster --workers 2 --seconds 10 --rounds 5
    python -m benchmarks.cluster --workers 1 --device cuda
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from statistics import median
from typing import Any

import numpy as np

from benchmarks.rows import Columns, Row, options, parse, run, show
from benchmarks.work import network
from butfor.errors import SettingError
from butfor.models.engines import ClusterEngine
from butfor.models.network import MLPLearner, NetworkEngine
from butfor.models.own_fit import OwnFit
from butfor.models.seam import (
    Bound,
    Engine,
    Floats,
    Training,
)
from butfor.models.workers import DaskWorkers
from butfor.support.cores import available_cores
from butfor.support.threads import single_threaded
from butfor.table.embedded import load_dataset
from butfor.table.encoding import TableEncoder
from butfor.table.table import Table


def compare(
    dataset: str, workers: int, seconds: float, rounds: int, device: str | None
) -> Iterator[Row]:
    """One row for the fast engine and, on CPUs, one for the learner's own `fit`: so many trainings
    that a turn of the local engine takes about `seconds`."""
    if workers < 1 or rounds < 1 or not seconds > 0:
        raise SettingError(
            f"workers={workers}, rounds={rounds} and seconds={seconds:g} must all be above 0."
        )
    data = load_dataset(dataset)
    learner = MLPLearner(network(data.setup), TableEncoder("embed", data.setup.numeric))
    table = Table(data.X_train, data.y_train, (data.X_val, data.y_val))
    with _dask(workers) as client, single_threaded():
        cluster = ClusterEngine(workers=DaskWorkers(client))
        pairs: list[tuple[Engine, Engine]]
        if device:
            pairs = [(NetworkEngine(device), cluster)]
        else:
            pairs = [
                (NetworkEngine(n_jobs=workers), cluster),
                (OwnFit(workers), OwnFit(workers, cluster.workers)),
            ]
        for local, far in pairs:
            here, there = (each.bind(learner, table, data.X_test) for each in (local, far))
            count = _count_for(seconds, here, table.n)
            trainings = _trainings(table.n, count)
            for each in (here, there, here):
                _timed(
                    each, trainings
                )  # compiles, learns how long a training takes, and so starts processes
            turns = [(_timed(here, trainings), _timed(there, trainings)) for _ in range(rounds)]
            ours, theirs = (median(turn[side][0] for turn in turns) for side in (0, 1))
            busy = [median(turn[side][1] for turn in turns) for side in (0, 1)]
            yield {
                "dataset": dataset,
                "engine": local.name,
                "workers": workers,
                "cores": available_cores(),
                "trainings": count,
                "training_ms": round(1000 * ours * min(workers, available_cores()) / count),
                "rounds": rounds,
                "local_seconds": round(ours, 3),
                "cluster_seconds": round(theirs, 3),
                "overhead": round(theirs / ours - 1, 4),
                "cpu_overhead": round(busy[1] / busy[0] - 1, 4)
                if busy[0]
                else None,  # its clock ticks every 10 ms
                "overhead_of_rounds": sorted(round(b[0] / a[0] - 1, 4) for a, b in turns),
                "same_answers": all(np.array_equal(a[2], b[2], equal_nan=True) for a, b in turns),
            }


@contextmanager
def _dask(workers: int) -> Iterator[Any]:
    """A scheduler in this process, and so many worker processes of one thread, on this machine
    only."""
    from distributed import Client, LocalCluster

    where = {
        "host": "127.0.0.1",
        "dashboard_address": "127.0.0.1:0",
        "silence_logs": logging.CRITICAL,
    }
    with (
        LocalCluster(workers, threads_per_worker=1, memory_limit=0, **where) as cluster,
        Client(cluster) as client,
    ):
        yield client


def _trainings(n: int, count: int) -> list[Training]:
    """Single labels, one after the other, and from the last one on under another seed."""
    return [Training((k % n,), None if k < n else k // n) for k in range(count)]


def _count_for(seconds: float, bound: Bound, n: int) -> int:
    """Trainings that take about so long."""
    bound(_trainings(n, 2))
    count, took = 2, 0.0
    while took < seconds / 10:
        count *= 2
        took = _timed(bound, _trainings(n, count))[0]
    return max(2, round(count * seconds / took))


def _timed(bound: Bound, trainings: Sequence[Training]) -> tuple[float, float, Floats]:
    """Seconds by the clock, seconds of all cores, and the answers."""
    started, busy = time.perf_counter(), _busy()
    answers = bound(trainings)
    return time.perf_counter() - started, _busy() - busy, answers


def _busy() -> float:
    """Seconds of processor time that this process and its workers have had."""
    import psutil  # comes with Dask

    here = psutil.Process()
    return sum(sum(each.cpu_times()[:2]) for each in (here, *here.children(recursive=True)))


COLUMNS: Columns = {
    "dataset ": "{dataset}",
    "engine  ": "{engine}",
    "workers": "{workers}",
    "cores": "{cores}",
    "trainings": "{trainings}",
    "ms each": "{training_ms}",
    "local s": "{local_seconds:.2f}",
    "cluster s": "{cluster_seconds:.2f}",
    "overhead": "{overhead:.1%}",
    "in CPU time": "{cpu_overhead:.1%}",
    " over the rounds": lambda row: (
        f"{row['overhead_of_rounds'][0]:.1%} to {row['overhead_of_rounds'][-1]:.1%}"
    ),
    "same answers": lambda row: "yes" if row["same_answers"] else "NO",
}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = options(__doc__)
    parser.add_argument("--dataset", default="german")
    parser.add_argument("--workers", type=int, default=available_cores())
    parser.add_argument("--seconds", type=float, default=10.0, help="of one turn, about")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--device", help="compare stacked tensors on this device, such as cuda")
    as_json, given = parse(parser, arguments)
    show(compare(**given), COLUMNS, as_json)


if __name__ == "__main__":
    run(main)

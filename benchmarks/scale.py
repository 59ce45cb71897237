"""How far does it go? Seconds and peak memory against rows, people, inputs and classes, one of them
varied at a time; beside them the plain loop, which has the estimator itself retrain every attempt.

Every point is an audit in a process of its own: our network is trained as often as the ensemble has
members, the people are ranked by the averaged published score, and everyone's first set (the whole
cap) is trained for all members; with `--search solid` it is the usual search instead, gradients,
sizes and all. Nothing is confirmed and no fresh seed is asked: those cost the same whatever the
size of the question. `--search audit` is all that an audit does when only the budget is said. Rows
and people are Adult's, drawn again with replacement; inputs are one-hot columns of ten values each.
`--epochs` holds every training to so many epochs, so that points can be compared; `--batch 0`
trains on all rows at once, as Adult's published setup does. With `--model logistic` (or another of
scikit-learn's by name) the usual search of that model is run instead, and confirmed.

The plain loop's seconds are the trainings of the audit times what the estimator's own fit takes in
the same process, the median of three. `slope`: by which power the search grows with what is varied,
since the first point of its axis. `--million`: one person of a million rows, at most 12 trainings,
by logistic regression and by LightGBM. `--work`: tables that were slow. `--double`: a small audit
with all its steps, then rows, columns, people, budget and members twice as many in turn.

CPU seconds are those of the audit and its workers. The peak is that of the process that asks;
`worker MB` is what the largest of its workers held.

    python -m benchmarks.scale --rows 10000,30000,100000 --json
    python -m benchmarks.scale --rows 10000,100000,1000000 --people "" --inputs "" --device cuda --members 16 \\
        --search solid --batch 0
    python -m benchmarks.scale --model logistic --rows 1000,10000 --people 10,100 --inputs 100,500
    python -m benchmarks.scale --model logistic --rows "" --people "" --inputs "" --classes 2,3,10
    python -m benchmarks.scale --million
    python -m benchmarks.scale --work
    python -m benchmarks.scale --double
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain
from statistics import median
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from benchmarks.memory import end_workers, high_water_mark, in_own_process
from benchmarks.rows import Columns, Row, numbers, options, parse, run, show
from benchmarks.work import explain, refuse_below_one
from butfor.models.by_name import inputs_of, model_named
from butfor.models.ensemble import single_learner
from butfor.support.stopping import max_retrainings

if TYPE_CHECKING:
    from butfor.audit import LabelAudit

PLAIN = 3
"""Trainings by the estimator's own fit that are timed."""


@dataclass(frozen=True)
class Point:
    """What one audit is about; `inputs=0` means Adult's own columns, else made ones of `values`
    values each (1: of numbers), with label 1 for a `share` of the rows or, of more than two
    `classes`, equally many of each. `retrainings`: at the most; 0: as many as the search takes."""

    axis: str
    rows: int = 10_000
    people: int = 1
    inputs: int = 0
    members: int = 4
    epochs: int = 20
    labels: int = 20
    batch: int = 128
    search: str = "top"
    device: str | None = None
    model: str = "mlp"
    values: int = 10
    share: float = 0.5
    retrainings: int = 0
    classes: int = 2

    @property
    def value(self) -> int | str:
        return int(getattr(self, self.axis)) if hasattr(self, self.axis) else self.axis


WORK: dict[str, dict[str, Any]] = {
    "many inputs": {
        "model": "logistic",
        "rows": 1428,
        "people": 40,
        "inputs": 500,
        "values": 100,
        "labels": 15,
    },
    "rare label": {
        "model": "logistic",
        "rows": 3600,
        "people": 400,
        "inputs": 6,
        "values": 1,
        "share": 0.01,
        "labels": 36,
    },
    "boosting": {"model": "boosting", "rows": 1428, "people": 40, "labels": 15},
    "lightgbm": {"model": "lightgbm", "rows": 1428, "people": 40, "labels": 15},
    "whole audit": {"search": "audit", "rows": 60_000, "people": 20, "inputs": 410, "labels": 60},
}
DOUBLE = {"rows": 2000, "inputs": 100, "people": 4, "labels": 10, "members": 4}
"""What `--double` begins with, and what it doubles."""
MILLION: dict[str, Any] = {"rows": 1_000_000, "labels": 100, "retrainings": 12}
MILLION_MODELS = ("logistic", "lightgbm")


def points(
    rows: Sequence[int],
    people: Sequence[int],
    inputs: Sequence[int],
    classes: Sequence[int],
    **settings: Any,
) -> Iterator[Point]:
    """Each axis in turn; classes are those of made columns."""
    for axis, values in (
        ("rows", rows),
        ("people", people),
        ("inputs", inputs),
        ("classes", classes),
    ):
        for value in values:
            refuse_below_one(**{axis: value})
            varied: dict[str, Any] = {axis: value} | ({"inputs": 30} if axis == "classes" else {})
            yield replace(Point(axis, **settings), **varied)


def doubled() -> Iterator[Point]:
    """A small audit, then each of its sizes twice as large."""
    start: dict[str, Any] = DOUBLE | {"search": "members"}
    yield Point("as it is", **start)
    for axis, size in DOUBLE.items():
        yield Point(axis, **start | {axis: 2 * size})


def measured(points: Iterable[Point]) -> Iterator[Row]:
    """Each point in a process of its own, so that its memory is its own too."""
    first: dict[str, Row] = {}
    for point in points:
        found = in_own_process("benchmarks.scale", "--point", json.dumps(asdict(point)))
        row = asdict(point) | {"value": point.value} | found
        yield row | {"slope": _slope(first.setdefault(point.axis, row), row)}


def _slope(first: Row, row: Row) -> float | None:
    """By which power seconds have grown since the first point."""
    if (
        first["value"] == row["value"]
        or not first.get("search_seconds")
        or not row.get("search_seconds")
    ):
        return None
    return round(
        math.log(row["search_seconds"] / first["search_seconds"])
        / math.log(row["value"] / first["value"]),
        2,
    )


def first_and_later() -> Iterator[Row]:
    """One person of German by the whole command, without compiled code at hand and with it."""
    with TemporaryDirectory() as cache:
        command = [sys.executable, "-m", "butfor", "audit", "german", "--cases", "148", "--quiet"]
        place = os.environ | {"NUMBA_CACHE_DIR": cache}
        for value in ("german 148, first", "german 148, later"):
            started = time.perf_counter()
            done = subprocess.run(command, env=place, capture_output=True, check=False)
            failed = {"failed": f"exit code {done.returncode}"} if done.returncode else {}
            yield {
                "axis": "command",
                "value": value,
                "search_seconds": time.perf_counter() - started,
            } | failed


def audited(point: Point) -> Row:
    """Here and now."""
    from benchmarks.solid import PSI
    from butfor.audit import LabelAudit

    X, y, people, sensitive = _table(point)
    started, cpu = time.perf_counter(), time.process_time()
    how: dict[str, Any] = {"phi": "everyone", "psi": PSI, "fresh_seeds": 0}
    if point.search in ("audit", "members"):
        how = {} if point.search == "audit" else {"phi": "everyone", "members": point.members}
    if point.model != "mlp":
        how |= {"model": model_named(point.model, 0, inputs_of(X))}
    elif point.search in ("top", "solid"):
        how |= _network(point)
    audit = LabelAudit(budget=point.labels, **how)
    audit.fit(X, y, sensitive_features=sensitive)
    fitted = time.perf_counter()
    population = explain(
        audit, people, stop=max_retrainings(point.retrainings) if point.retrainings else None
    )
    ended = time.perf_counter()
    peak, cpu = high_water_mark(), time.process_time() - cpu
    worker_seconds, worker_peak = end_workers()
    trainings = population.run.retrainings
    plain = trainings * _own_fit(audit)
    return {
        "encoded": inputs_of(X),
        "trainings": trainings,
        "plain_seconds": round(plain, 2),
        "ratio": round(plain / (ended - fitted), 2),
        "found": len(population.found),
        "fit_seconds": round(fitted - started, 2),
        "search_seconds": round(ended - fitted, 2),
        "ms_per_training": round(1e3 * (ended - fitted) / max(1, trainings), 2),
        "cpu_seconds": round(cpu + worker_seconds, 1),
        "peak_mb": peak // 2**20,
        "worker_mb": worker_peak // 2**20,
        "device_mb": _device_mb() if point.model == "mlp" else None,
    }


def _network(point: Point) -> dict[str, Any]:
    """Our network, the ensemble and the search of a point."""
    from benchmarks.solid import TOP, Believed
    from butfor.models.engines import choose_engine
    from butfor.models.network import MLP, MLPLearner

    model = MLP(
        (32, 32), batch_size=point.batch or None, max_epochs=point.epochs, patience=point.epochs
    )
    engine = Believed(choose_engine(point.device or "auto", MLPLearner(model)))
    search: dict[str, Any] = (
        {} if point.search == "solid" else {"rank": "combined", "strategy": TOP}
    )
    return {"model": model, "members": point.members, "engine": engine} | search


def _own_fit(audit: LabelAudit) -> float:
    """Seconds that one training by the estimator's own fit takes, one label flipped."""
    took = []
    for row in range(PLAIN):
        started = time.perf_counter()
        single_learner(audit.learner_).fit(audit.table_, audit.table_.labels((row,)))
        took.append(time.perf_counter() - started)
    return median(took)


def _table(point: Point) -> tuple[pd.DataFrame, pd.Series, pd.DataFrame, Any]:
    rng = np.random.default_rng(0)
    if point.inputs:
        columns, rows = max(1, point.inputs // point.values), point.rows + point.people
        names = [f"c{k}" for k in range(columns)]
        if point.values == 1:
            frame = pd.DataFrame(rng.standard_normal((rows, columns)), columns=names)
            score = frame.sum(axis=1).to_numpy()
        else:
            drawn = rng.integers(0, point.values, (rows, columns))
            frame = pd.DataFrame(drawn, columns=names).astype(str)
            score = rng.standard_normal((columns, point.values))[np.arange(columns), drawn].sum(
                axis=1
            )
        frame["group"] = rng.choice(["a", "b"], rows)
        score = score + rng.standard_normal(rows) * math.sqrt(columns)
        shares = (
            [1 - point.share] if point.classes == 2 else np.arange(1, point.classes) / point.classes
        )
        y = pd.Series(np.searchsorted(np.quantile(score, shares), score))
        return frame.iloc[: point.rows], y.iloc[: point.rows], frame.iloc[point.rows :], "group"
    from butfor.table.embedded import load_dataset

    data = load_dataset("adult")
    some = rng.integers(0, len(data.X_train), point.rows)
    asked = rng.integers(0, len(data.X_test), point.people)
    X, y = (
        data.X_train.iloc[some].reset_index(drop=True),
        data.y_train.iloc[some].reset_index(drop=True),
    )
    return X, y, data.X_test.iloc[asked].reset_index(drop=True), data.sensitive


def _device_mb() -> int | None:
    import torch

    return int(torch.cuda.max_memory_allocated() / 2**20) if torch.cuda.is_available() else None


COLUMNS: Columns = {
    "against ": "{axis}",
    "                 ": "{value}",
    "model   ": "{model}",
    "     rows": "{rows}",
    " people": "{people}",
    " inputs": "{encoded}",
    "classes": "{classes}",
    "trainings": "{trainings}",
    "   fit s": "{fit_seconds:.1f}",
    "search s": "{search_seconds:.1f}",
    " plain s": "{plain_seconds:.1f}",
    "ratio": "{ratio:.1f}",
    "slope": "{slope:.2f}",
    "ms / training": "{ms_per_training:.1f}",
    "CPU s": "{cpu_seconds:.1f}",
    "peak MB": "{peak_mb}",
    "worker MB": "{worker_mb}",
}
DOUBLED: Columns = {
    "doubled ": "{axis}",
    " rows": "{rows}",
    "inputs": "{encoded}",
    "people": "{people}",
    "budget": "{labels}",
    "members": "{members}",
    "trainings": "{trainings}",
    "  CPU s": "{cpu_seconds:.1f}",
    "peak MB": "{peak_mb}",
    "worker MB": "{worker_mb}",
}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = options(__doc__)
    parser.add_argument(
        "--rows",
        type=numbers,
        default="10000,30000,100000",
        help="separated by commas; '' for none",
    )
    parser.add_argument("--people", type=numbers, default="10,100,1000")
    parser.add_argument("--inputs", type=numbers, default="30,100,300,500")
    parser.add_argument("--classes", type=numbers, default="2,3,10")
    parser.add_argument("--members", type=int, default=4)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--labels", type=int, default=20, help="how many labels a set has")
    parser.add_argument("--batch", type=int, default=128, help="rows of a batch; 0: all of them")
    parser.add_argument("--model", default="mlp", help="our network, or another model by its name")
    parser.add_argument(
        "--million", action="store_true", help="one person of a million rows, by two models"
    )
    parser.add_argument("--work", action="store_true", help="tables that were slow")
    parser.add_argument(
        "--double", action="store_true", help="a small audit, each of its sizes doubled in turn"
    )
    parser.add_argument("--search", choices=("top", "solid", "audit"), default="top")
    parser.add_argument("--device")
    parser.add_argument(
        "--point", type=lambda text: Point(**json.loads(text)), help=argparse.SUPPRESS
    )
    as_json, given = parse(parser, arguments)
    point, million, work, double = (
        given.pop(name) for name in ("point", "million", "work", "double")
    )
    if point:
        print(json.dumps(audited(point)))
    elif million:
        show(
            measured(Point("rows", **MILLION, model=model) for model in MILLION_MODELS),
            COLUMNS,
            as_json,
        )
    elif double:
        show(measured(doubled()), DOUBLED, as_json)
    elif work:
        rows = measured(Point(name, **settings) for name, settings in WORK.items())
        show(chain(rows, first_and_later()), COLUMNS, as_json)
    else:
        show(measured(points(**given)), COLUMNS, as_json)


if __name__ == "__main__":
    run(main)

"""How far does it go? Seconds and peak memory against rows, people and inputs, one of them varied at a time.

Every point is an audit in a process of its own: our network is trained as often as the ensemble has members, the people
are ranked by the averaged published score, and everyone's first set (the whole cap) is trained for all members; with
`--search solid` it is the usual search instead, gradients, sizes and all. Nothing is confirmed and no fresh seed is
asked: those cost the same whatever the size of the question. Rows and people are Adult's, drawn again with replacement;
inputs are one-hot columns of ten values each. `--epochs` holds every training to so many epochs, so that points can be
compared; `--batch 0` trains on all rows at once, as Adult's published setup does.

    python -m benchmarks.scale --rows 10000,30000,100000 --json
    python -m benchmarks.scale --rows 10000,100000,1000000 --people "" --inputs "" --device cuda --members 16 \\
        --search solid --batch 0
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.memory import high_water_mark, in_own_process
from benchmarks.rows import Columns, Row, numbers, options, parse, run, show
from benchmarks.work import explain, refuse_below_one

COLUMNS_OF = 10
"""Values of a made column."""


@dataclass(frozen=True)
class Point:
    """What one audit is about; `inputs=0` means Adult's own columns."""

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

    @property
    def value(self) -> int:
        return int(getattr(self, self.axis))


def points(rows: Sequence[int], people: Sequence[int], inputs: Sequence[int], **settings: Any) -> Iterator[Point]:
    """Each axis in turn."""
    for axis, values in (("rows", rows), ("people", people), ("inputs", inputs)):
        for value in values:
            refuse_below_one(**{axis: value})
            varied: dict[str, Any] = {axis: value}
            yield replace(Point(axis, **settings), **varied)


def measured(point: Point) -> Row:
    """The point in a process of its own, so that its memory is its own too."""
    found = in_own_process("benchmarks.scale", "--point", json.dumps(asdict(point)))
    return asdict(point) | {"value": point.value} | found


def audited(point: Point) -> Row:
    """Here and now."""
    from benchmarks.solid import PSI, TOP, Believed
    from butfor.audit import LabelAudit
    from butfor.learn.engines import choose_engine
    from butfor.mlp.learner import MLPLearner
    from butfor.mlp.mlp import MLP

    X, y, people, sensitive = _table(point)
    model = MLP((32, 32), batch_size=point.batch or None, max_epochs=point.epochs, patience=point.epochs)
    engine = choose_engine(point.device or "auto", MLPLearner(model))
    started = time.perf_counter()
    search: dict[str, Any] = {} if point.search == "solid" else {"rank": "combined", "strategy": TOP}
    audit = LabelAudit(
        model,
        members=point.members,
        budget=point.labels,
        phi="everyone",
        psi=PSI,
        fresh_seeds=0,
        engine=Believed(engine),
        **search,
    )
    audit.fit(X, y, sensitive_features=sensitive)
    fitted = time.perf_counter()
    population = explain(audit, people)
    ended = time.perf_counter()
    trainings = population.run["retrainings"]
    return {
        "encoded": int(audit.model_.members[0].rows.d),
        "trainings": trainings,
        "found": len(population.found),
        "fit_seconds": round(fitted - started, 2),
        "search_seconds": round(ended - fitted, 2),
        "ms_per_training": round(1e3 * (ended - fitted) / max(1, trainings), 2),
        "peak_mb": high_water_mark() // 2**20,
        "device_mb": _device_mb(),
    }


def _table(point: Point) -> tuple[pd.DataFrame, pd.Series, pd.DataFrame, Any]:
    rng = np.random.default_rng(0)
    if point.inputs:
        columns = max(1, point.inputs // COLUMNS_OF)
        drawn = rng.integers(0, COLUMNS_OF, (point.rows + point.people, columns))
        frame = pd.DataFrame(drawn, columns=[f"c{k}" for k in range(columns)]).astype(str).add_prefix("v")
        score = rng.standard_normal((columns, COLUMNS_OF))[np.arange(columns), drawn].sum(axis=1)
        y = pd.Series((score + rng.standard_normal(len(score)) * math.sqrt(columns) > 0).astype(int))
        return frame.iloc[: point.rows], y.iloc[: point.rows], frame.iloc[point.rows :], str(frame.columns[0])
    from butfor.data import load_dataset

    data = load_dataset("adult")
    some = rng.integers(0, len(data.X_train), point.rows)
    asked = rng.integers(0, len(data.X_test), point.people)
    X, y = data.X_train.iloc[some].reset_index(drop=True), data.y_train.iloc[some].reset_index(drop=True)
    return X, y, data.X_test.iloc[asked].reset_index(drop=True), data.sensitive


def _device_mb() -> int | None:
    import torch

    return int(torch.cuda.max_memory_allocated() / 2**20) if torch.cuda.is_available() else None


COLUMNS: Columns = {
    "against ": "{axis}",
    "         ": "{value}",
    "     rows": "{rows}",
    " people": "{people}",
    " inputs": "{encoded}",
    "members": "{members}",
    "trainings": "{trainings}",
    "   fit s": "{fit_seconds:.1f}",
    "search s": "{search_seconds:.1f}",
    "ms / training": "{ms_per_training:.1f}",
    "peak MB": "{peak_mb}",
}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = options(__doc__)
    parser.add_argument("--rows", type=numbers, default="10000,30000,100000", help="separated by commas; '' for none")
    parser.add_argument("--people", type=numbers, default="10,100,1000")
    parser.add_argument("--inputs", type=numbers, default="30,100,300,500")
    parser.add_argument("--members", type=int, default=4)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--labels", type=int, default=20, help="how many labels a set has")
    parser.add_argument("--batch", type=int, default=128, help="rows of a batch; 0: all of them")
    parser.add_argument("--search", choices=("top", "solid"), default="top")
    parser.add_argument("--device")
    parser.add_argument("--point", type=lambda text: Point(**json.loads(text)), help=argparse.SUPPRESS)
    as_json, given = parse(parser, arguments)
    if point := given.pop("point"):
        print(json.dumps(audited(point)))
    else:
        show(map(measured, points(**given)), COLUMNS, as_json)


if __name__ == "__main__":
    run(main)

"""Who finds most with how many retrainings? All rankings and the guided search on the same people.

Published setups, φ, ψ, budget and seeds; every find is confirmed by the reference. Where the budget is one label,
rankings walk down a tenth of the flippable rows (the published protocol) and enumeration gives the ground truth.
Where it is larger they run Algorithm 1, and the guided search is held to a quarter of, and to as many, retrainings
(distinct networks) as the better of combined and distance took.

    python -m butfor.bench.effectiveness --datasets german,compas --out results --engine fused
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from butfor.audit import LabelAudit
from butfor.data import Dataset, load_dataset
from butfor.encode import TableEncoder
from butfor.errors import SettingError
from butfor.learn.engines import choose_engine
from butfor.mlp.learner import MLPLearner
from butfor.mlp.mlp import MLP
from butfor.rank import as_ranking
from butfor.seam import Engine
from butfor.search import GuidedSearch, Protocol

RANKS = (
    "combined", "surrogate", "surrogate-signed", "activation", "distance", "influence", "influence-gn", "tangent",
    "chance", "gradient",
)  # fmt: skip
RIVALS = ("combined", "distance")
"""Whose retrainings the guided search is given, those of the one that finds more."""
PEOPLE = 200
EMBEDDED = ("salary", "student", "german", "compas", "default", "adult")


class StepByStep:
    """An engine that is never given attempts ahead of time, so that each retraining teaches the next one."""

    width = 1

    def __init__(self, engine: Engine) -> None:
        self.name, self.by_definition = engine.name, engine.by_definition
        self.accepts, self.bind = engine.accepts, engine.bind
        self.device = getattr(engine, "device", "cpu")


class Contest:
    """One data set and a group of people, under changing rankings and protocols."""

    def __init__(self, name: str, people: int, engine: str, device: str | None) -> None:
        self.data: Dataset = load_dataset(name)
        data, setup = self.data, self.data.setup
        model = MLP(setup.hidden, max_epochs=setup.max_epochs, batch_size=setup.batch_size)
        self.engine = choose_engine(engine, MLPLearner(model), device)
        self.base = LabelAudit(
            model,
            encoder=TableEncoder("embed", setup.numeric),
            budget=setup.budget,
            engine=self.engine,
            members=1,
            fresh_seeds=0,
        )
        validation = (data.X_val, data.y_val)
        self.base.fit(data.X_train, data.y_train, sensitive_features=data.sensitive, validation=validation)
        self.cases = self.base.eligible_cases(data.X_test, people)

    def row(self, rank: str | None, protocol: str | Protocol, note: str = "", **settings: Any) -> dict[str, Any]:
        """One line of the table."""
        started = time.perf_counter()
        audit = self.base.searching(rank, protocol, **settings)
        if isinstance(audit.protocol_, GuidedSearch):
            audit.engine = StepByStep(self.engine)
        population = audit.explain_all(self.data.X_test, cases=self.cases)
        sizes = {v.case: len(v.positions) for v in population.found}
        return {
            "dataset": self.data.name,
            "ranking": audit.rank_.name,
            "protocol": audit.protocol_.name + (f" ({note})" if note else ""),
            "people": len(self.cases),
            "found": len(population.found),
            "one_shot": population.one_shot,
            "mean_flips": round(float(np.mean(list(sizes.values()))), 2) if sizes else None,
            "retrainings": population.run["needed"],
            "seconds": round(time.perf_counter() - started, 1),
            "flips_by_case": sizes,
        }

    def rows(self, ranks: Sequence[str]) -> Iterator[dict[str, Any]]:
        """The table, line by line: the rankings, then the guided search."""
        if self.data.setup.budget == 1:
            for rank in ranks:
                yield self.row(rank, "singles", share=False)
            yield self.row("combined", "exhaustive")
            yield self.row(None, "guided")
            return
        rivals = []
        for rank in ranks:
            row = self.row(rank, "algorithm1", share=False)
            rivals += [row] if rank in RIVALS else []
            yield row
        if not rivals:
            return
        cost = max(rivals, key=lambda row: row["found"])["retrainings"]
        for note, cap, searching in (
            ("a quarter of the retrainings", max(1, cost // 4), 0.8), ("as many retrainings", cost, 0.6),
        ):  # fmt: skip
            tries = max(1, round(searching * cap / len(self.cases)))
            yield self.row(None, GuidedSearch(tries), note, max_retrainings=cap)


def effectiveness(
    names: Sequence[str], *, ranks: Sequence[str] = RANKS, people: int = PEOPLE, engine: str = "auto",
    device: str | None = None,
) -> Iterator[dict[str, Any]]:  # fmt: skip
    """The rows of all the data sets, as they come."""
    if people < 1:
        raise SettingError(f"people={people} must be at least 1.")
    for rank in ranks:
        as_ranking(rank)  # refuses an unknown name now, not after an hour
    for name in names:
        yield from Contest(name, people, engine, device).rows(ranks)


def line(row: dict[str, Any]) -> str:
    flips = "–" if row["mean_flips"] is None else f"{row['mean_flips']:.2f}"
    return (
        f"{row['dataset']:8} {row['ranking']:17} {row['protocol']:38} {row['people']:6} {row['found']:6} "
        f"{row['one_shot']:9} {flips:>11} {row['retrainings']:12} {row['seconds']:8.1f}"
    )


HEADER = (
    f"{'dataset':8} {'ranking':17} {'protocol':38} {'people':>6} {'found':>6} {'one shot':>9} {'mean flips':>11} "
    f"{'retrainings':>12} {'seconds':>8}"
)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--datasets", default=",".join(EMBEDDED))
    parser.add_argument("--ranks", default=",".join(RANKS))
    parser.add_argument("--people", type=int, default=PEOPLE)
    parser.add_argument("--engine", default="auto")
    parser.add_argument("--device")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args(arguments)
    print(HEADER, flush=True)
    for name in given.datasets.split(","):
        rows = []
        for row in effectiveness(
            [name], ranks=given.ranks.split(","), people=given.people, engine=given.engine, device=given.device
        ):
            print(line(row), flush=True)
            rows.append(row)
            if given.out:
                given.out.mkdir(parents=True, exist_ok=True)
                (given.out / f"effectiveness-{name}.json").write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()

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
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from butfor.audit import LabelAudit
from butfor.data import Dataset, load_dataset
from butfor.encode import TableEncoder
from butfor.learn.engines import choose_engine
from butfor.learn.mlp import MLP
from butfor.learn.recipe import Engine
from butfor.population import Population
from butfor.protocols import GuidedSearch, Protocol

RANKS = (
    "combined", "surrogate", "surrogate-signed", "activation", "distance", "influence", "influence-gn", "chance",
    "gradient",
)  # fmt: skip
PEOPLE = 200
EMBEDDED = ("salary", "student", "german", "compas", "default", "adult")


class StepByStep:
    """An engine that is never given attempts ahead of time, so that only what was needed counts as retrained."""

    width = 1

    def __init__(self, engine: Engine) -> None:
        self.name, self.fit_many = engine.name, engine.fit_many
        self.device = getattr(engine, "device", "cpu")


class Contest:
    """One data set and a group of people, under changing rankings and protocols."""

    def __init__(self, name: str, people: int, engine: str, device: str | None) -> None:
        self.data: Dataset = load_dataset(name)
        self.engine = StepByStep(choose_engine(engine, device))
        self.cases = self._audit(None, "algorithm1").eligible_cases(self.data.X_test, people)

    def _audit(self, rank: str | None, protocol: str | Protocol, **settings: Any) -> LabelAudit:
        data, setup = self.data, self.data.setup
        model = MLP(setup.hidden, max_epochs=setup.max_epochs, batch_size=setup.batch_size)
        audit = LabelAudit(
            model, encoder=TableEncoder("embed", setup.numeric), budget=setup.budget, rank=rank, protocol=protocol,
            engine=self.engine, seeds=0, **settings,
        )  # fmt: skip
        validation = (data.X_val, data.y_val)
        return audit.fit(data.X_train, data.y_train, sensitive_features=data.sensitive, validation=validation)

    def row(self, rank: str | None, protocol: str | Protocol, note: str = "", **settings: Any) -> dict[str, Any]:
        """One line of the table."""
        started = time.perf_counter()
        audit = self._audit(rank, protocol, **settings)
        population = audit.explain_all(self.data.X_test, cases=self.cases)
        sizes = [len(v.positions) for v in population.found]
        return {
            "dataset": self.data.name,
            "ranking": audit.rank.name,
            "protocol": audit.protocol.name + (f" ({note})" if note else ""),
            "people": len(self.cases),
            "found": len(population.found),
            "one_shot": population.one_shot,
            "mean_flips": round(float(np.mean(sizes)), 2) if sizes else None,
            "retrainings": population.run["retrainings"],
            "seconds": round(time.perf_counter() - started, 1),
            "flips_by_case": _flips_by_case(population),
        }

    def rows(self, ranks: Sequence[str], tell: Callable[[dict[str, Any]], None]) -> list[dict[str, Any]]:
        table: list[dict[str, Any]] = []

        def add(*arguments: Any, **settings: Any) -> dict[str, Any]:
            table.append(self.row(*arguments, **settings))
            tell(table[-1])
            return table[-1]

        single = self.data.setup.budget == 1
        for rank in ranks:
            add(rank, "singles" if single else "algorithm1", share=False)
        if single:
            add("combined", "exhaustive")
            add(None, "guided")
        else:
            rivals = [row for row in table if row["ranking"] in ("combined", "distance")]
            cost = max(rivals, key=lambda row: row["found"])["retrainings"]
            budget = self.data.setup.budget
            add(None, GuidedSearch(max(1, budget // 5)), "a quarter of the retrainings", max_retrainings=cost // 4)
            add(None, GuidedSearch(max(1, 3 * budget // 4)), "as many retrainings", max_retrainings=cost)
        return table


def _flips_by_case(population: Population) -> dict[int | None, int]:
    return {v.case: len(v.positions) for v in population.found}


def effectiveness(
    names: Sequence[str], *, ranks: Sequence[str] = RANKS, people: int = PEOPLE, engine: str = "auto",
    device: str | None = None, tell: Callable[[dict[str, Any]], None] = lambda row: None,
) -> list[dict[str, Any]]:  # fmt: skip
    """The rows of all the data sets."""
    return [row for name in names for row in Contest(name, people, engine, device).rows(ranks, tell)]


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
        rows = effectiveness(
            [name], ranks=given.ranks.split(","), people=given.people, engine=given.engine, device=given.device,
            tell=lambda row: print(line(row), flush=True),
        )  # fmt: skip
        if given.out:
            given.out.mkdir(parents=True, exist_ok=True)
            (given.out / f"effectiveness-{name}.json").write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()

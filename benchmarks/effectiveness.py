"""Who finds most with how many retrainings? All rankings and the guided search on the same people.

Published setups, φ, ψ, budget and seeds; every find is confirmed by the reference. Where the budget
is one label, rankings walk down a tenth of the flippable rows (the published protocol) and
enumeration gives the ground truth. Where it is larger they run Algorithm 1, and the guided search
is held to a quarter of, and to as many, retrainings (distinct networks) as the better of combined
and distance took.

    python -m benchmarks.effectiveness --datasets german,compas --engine fused
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from benchmarks.rows import Columns, Row, names, options, parse, run, show
from benchmarks.work import EMBEDDED, explain, fit, mean, network, refuse_below_one
from butfor.audit import LabelAudit
from butfor.explain import eligible_cases
from butfor.models.engines import choose_engine
from butfor.models.network import MLPLearner
from butfor.search.guided import guided
from butfor.search.rankings import as_ranking
from butfor.support.stopping import Stop, max_retrainings
from butfor.table.embedded import Dataset, load_dataset
from butfor.table.encoding import TableEncoder

RANKS = (
    *(
        "combined",
        "surrogate",
        "surrogate-signed",
        "activation",
        "distance",
    ),
    *("chance", "gradient"),
)
RIVALS = ("combined", "distance")
"""Whose retrainings the guided search is given, those of the one that finds more."""


class Contest:
    """One data set and a group of people, under changing rankings and strategies."""

    def __init__(self, name: str, people: int, engine: str, device: str | None) -> None:
        self.data: Dataset = load_dataset(name)
        setup = self.data.setup
        model, encoder = network(setup), TableEncoder("embed", setup.numeric)
        self.engine = choose_engine(device or engine, MLPLearner(model))
        audit = LabelAudit(
            model,
            encoder=encoder,
            budget=setup.budget,
            engine=self.engine,
            members=1,
            fresh_seeds=0,
        )
        self.base = fit(audit, self.data)
        self.cases = eligible_cases(self.base.fitted_, self.data.X_test, people)

    def row(self, rank: str | None, strategy: Any, note: str = "", stop: Stop | None = None) -> Row:
        """One line of the table."""
        started = time.perf_counter()
        audit = self.base.with_search(None if rank is None else as_ranking(rank), strategy)
        population = explain(audit, self.data.X_test, cases=self.cases, stop=stop)
        sizes = {v.case: len(v.positions) for v in population.found}
        return {
            "dataset": self.data.name,
            "ranking": audit.fitted_.ranking.name,
            "strategy": audit.fitted_.strategy.name + (f" ({note})" if note else ""),
            "people": len(self.cases),
            "found": len(population.found),
            "one_shot": sum(v.attempts == 1 and not v.shared for v in population.found),
            "mean_flips": mean(sizes.values()),
            "retrainings": population.run.retrainings,
            "seconds": round(time.perf_counter() - started, 1),
            "flips_by_case": sizes,
        }

    def rows(self, ranks: Sequence[str]) -> Iterator[Row]:
        """The table, line by line: the rankings, then the guided search."""
        if self.data.setup.budget == 1:
            for rank in ranks:
                yield self.row(rank, "singles")
            yield self.row("combined", "exhaustive")
            yield self.row(None, "guided")
            return
        rivals = []
        for rank in ranks:
            row = self.row(rank, "algorithm1")
            rivals += [row] if rank in RIVALS else []
            yield row
        if not rivals:
            return
        cost = max(rivals, key=lambda row: row["found"])["retrainings"]
        caps = (
            ("a quarter of the retrainings", max(1, cost // 4), 0.8),
            ("as many retrainings", cost, 0.6),
        )
        for note, cap, searching in caps:
            tries = max(1, round(searching * cap / len(self.cases)))
            yield self.row(None, partial(guided, tries=tries), note, max_retrainings(cap))


def effectiveness(
    datasets: Sequence[str], ranks: Sequence[str], people: int, engine: str, device: str | None
) -> Iterator[Row]:
    """The rows of all the data sets, as they come."""
    refuse_below_one(people=people)
    for rank in ranks:
        as_ranking(rank)  # refuses an unknown name now, not after an hour
    for name in datasets:
        yield from Contest(name, people, engine, device).rows(ranks)


COLUMNS: Columns = {
    "dataset ": "{dataset}",
    "ranking          ": "{ranking}",
    "strategy                              ": "{strategy}",
    "people": "{people}",
    " found": "{found}",
    "one shot": "{one_shot}",
    "mean flips": "{mean_flips:.2f}",
    "retrainings": "{retrainings}",
    " seconds": "{seconds:.1f}",
}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = options(__doc__)
    parser.add_argument("--datasets", type=names, default=EMBEDDED)
    parser.add_argument("--ranks", type=names, default=RANKS)
    parser.add_argument("--people", type=int, default=200)
    parser.add_argument("--engine", default="auto")
    parser.add_argument("--device")
    as_json, given = parse(parser, arguments)
    show(effectiveness(**given), COLUMNS, as_json)


if __name__ == "__main__":
    run(main)

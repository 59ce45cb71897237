"""Other models: does the guided search find more, and with fewer labels, than the known method for
logistic regression?

The known method (Yang, Xu, Yu: *Relabeling Minimal Training Subset to Flip a Prediction*, EACL
Findings 2024) orders the labels by their influence on the person's prediction and flips the
shortest prefix that works; here every prefix up to the budget is retrained, so that the shortest
one is not missed. Both searches have the same people, φ, ψ and budget, and every find of either is
confirmed by the estimator's own `fit`. Sizes are compared on the people that both found.

    python -m benchmarks.models --datasets german,compas,adult --budget 1% --people 200
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

from benchmarks.rows import Columns, Row, names, options, parse, run, show
from benchmarks.work import explain, mean, refuse_below_one
from butfor.audit import LabelAudit
from butfor.explain import eligible_cases
from butfor.models.by_name import model_named
from butfor.table.embedded import load_dataset

PREFIX = "influence prefix"
SEARCHES: dict[str, dict[str, Any]] = {
    PREFIX: {"rank": "influence", "strategy": "algorithm1"},
    "guided": {"rank": None, "strategy": "guided"},
}


def compare(datasets: Sequence[str], budget: float, people: int, model: str) -> Iterator[Row]:
    """One row per data set and search; the second search's row has the comparison on the people
    both found."""
    refuse_below_one(people=people)
    for name in datasets:
        data = load_dataset(name)
        base = LabelAudit(model_named(model), budget=budget, members=1, fresh_seeds=0)
        base.fit(data.X_train, data.y_train, sensitive_features=data.sensitive)
        cases = eligible_cases(base.fitted_, data.X_test, people)
        sizes: dict[str, dict[int | None, int]] = {}
        for search, settings in SEARCHES.items():
            started = time.perf_counter()
            population = explain(base.with_search(**settings), data.X_test, cases=cases)
            sizes[search] = {v.case: len(v.positions) for v in population.found}
            both = sizes[search].keys() & sizes[PREFIX] if search != PREFIX else ()
            yield {
                "dataset": name,
                "model": base.learner_.name,
                "labels": base.table_.n,
                "budget": base.fitted_.budget,
                "search": search,
                "people": len(cases),
                "found": len(sizes[search]),
                "mean_flips": mean(sizes[search].values()),
                "mean_flips_of_both": mean(sizes[search][case] for case in both),
                "prefix_flips_of_both": mean(sizes[PREFIX][case] for case in both),
                "retrainings": population.run.retrainings,
                "seconds": round(time.perf_counter() - started, 1),
            }


def share(text: str) -> float:
    """A budget as a share, with or without the sign."""
    return float(text.rstrip("%")) / 100 if text.endswith("%") else float(text)


COLUMNS: Columns = {
    "dataset ": "{dataset}",
    "search           ": "{search}",
    "budget": "{budget}",
    "people": "{people}",
    " found": "{found}",
    "mean flips": "{mean_flips:.2f}",
    "of both: prefix": "{prefix_flips_of_both:.2f}",
    "  this": "{mean_flips_of_both:.2f}",
    "retrainings": "{retrainings}",
    " seconds": "{seconds:.1f}",
}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = options(__doc__)
    parser.add_argument("--datasets", type=names, default=("german", "compas", "adult"))
    parser.add_argument(
        "--budget", type=share, default="1%", help="labels that may be flipped, a share"
    )
    parser.add_argument("--people", type=int, default=200)
    parser.add_argument("--model", default="logistic")
    as_json, given = parse(parser, arguments)
    show(compare(**given), COLUMNS, as_json)


if __name__ == "__main__":
    run(main)

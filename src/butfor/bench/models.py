"""Other models: does the guided search find more, and with fewer labels, than the known method for logistic regression?

The known method (Yang, Xu, Yu: *Relabeling Minimal Training Subset to Flip a Prediction*, EACL Findings 2024)
orders the labels by their influence on the person's prediction and flips the shortest prefix that works; here every
prefix up to the budget is retrained, so that the shortest one is not missed. Both searches have the same people, φ, ψ
and budget, and every find of either is confirmed by the estimator's own `fit`. Sizes are compared on the people that
both found.

    python -m butfor.bench.models --datasets german,compas,adult --budget 1% --people 200
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from butfor.audit import LabelAudit
from butfor.bench.rows import print_rows
from butfor.data import load_dataset
from butfor.errors import SettingError
from butfor.learn.named import model_named
from butfor.result.population import Population

DATASETS = ("german", "compas", "adult")
SEARCHES: dict[str, dict[str, Any]] = {
    "influence prefix": {"rank": "influence", "protocol": "algorithm1", "share": False},
    "guided": {"rank": None, "protocol": "guided", "share": None},
}


def compare(names: Sequence[str], *, budget: float, people: int, model: str) -> Iterator[dict[str, Any]]:
    """One row per data set and search; the second search's row has the comparison on the people both found."""
    if people < 1:
        raise SettingError(f"people={people} must be at least 1.")
    for name in names:
        data = load_dataset(name)
        base = LabelAudit(model_named(model), budget=budget, members=1, fresh_seeds=0)
        base.fit(data.X_train, data.y_train, sensitive_features=data.sensitive)
        cases = base.eligible_cases(data.X_test, people)
        sizes: dict[str, dict[int, int]] = {}
        for search, settings in SEARCHES.items():
            started = time.perf_counter()
            population = base.searching(**settings).explain_all(data.X_test, cases=cases)
            sizes[search] = _sizes(population)
            yield {
                "dataset": name,
                "model": base.learner_.name,
                "labels": base.table_.n,
                "budget": base.budget_,
                "search": search,
                "people": len(cases),
                "found": len(sizes[search]),
                "mean_flips": _mean(list(sizes[search].values())),
                "mean_flips_of_both": _mean([sizes[search][c] for c in _both(sizes)]) if len(sizes) > 1 else None,
                "prefix_flips_of_both": _mean([sizes["influence prefix"][c] for c in _both(sizes)])
                if len(sizes) > 1
                else None,
                "retrainings": population.run["retrainings"],
                "seconds": round(time.perf_counter() - started, 1),
            }


def _sizes(population: Population) -> dict[int, int]:
    return {int(v.case or 0): len(v.positions) for v in population.found}


def _both(sizes: dict[str, dict[int, int]]) -> list[int]:
    first, *others = sizes.values()
    return [case for case in first if all(case in other for other in others)]


def _mean(values: Sequence[int]) -> float | None:
    return round(float(np.mean(values)), 2) if len(values) else None


HEADER = (
    f"{'dataset':8} {'search':17} {'budget':>6} {'people':>6} {'found':>6} {'mean flips':>11} "
    f"{'of both: prefix':>16} {'this':>6} {'retrainings':>12} {'seconds':>8}"
)


def line(row: dict[str, Any]) -> str:
    def shown(key: str) -> str:
        return "–" if row[key] is None else f"{row[key]:.2f}"

    return (
        f"{row['dataset']:8} {row['search']:17} {row['budget']:6} {row['people']:6} {row['found']:6} "
        f"{shown('mean_flips'):>11} {shown('prefix_flips_of_both'):>16} {shown('mean_flips_of_both'):>6} "
        f"{row['retrainings']:12} {row['seconds']:8.1f}"
    )


def share(text: str) -> float:
    """A budget as a share, with or without the sign."""
    return float(text.rstrip("%")) / 100 if text.endswith("%") else float(text)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--datasets", default=",".join(DATASETS))
    parser.add_argument("--budget", default="1%", help="labels that may be flipped, a share")
    parser.add_argument("--people", type=int, default=200)
    parser.add_argument("--model", default="logistic")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(arguments)
    rows = compare(given.datasets.split(","), budget=share(given.budget), people=given.people, model=given.model)
    print_rows(rows, HEADER, line, given.json)


if __name__ == "__main__":
    main()

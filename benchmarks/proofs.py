"""How much can be proven? Exact minima, brackets, and the price of a steady learner.

Per data set and model: for how many people the fewest labels are known exactly, for how many only
from below, for how many no set does at all; the medians of what it takes at least and at most; the
share of people proven to stand against one label, 0.1 % and 1 % of them; accuracy and balanced
accuracy, beside those of a logistic regression trained on all rows. ψ is everything and φ everyone:
any label may be wrong. Every exact minimum is confirmed by the model's own `fit`.

    python -m benchmarks.proofs --datasets german --splits 10

`--refute` tries to prove the proofs wrong instead: the guided search, which is told nothing of
them, looks for smaller sets than are said to be possible.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from statistics import median

import numpy as np
import pandas as pd
from sklearn.metrics import accuracy_score, balanced_accuracy_score

from benchmarks.rows import Columns, Row, names, options, parse, run, show
from benchmarks.work import EMBEDDED, explain, mean, refuse_below_one
from butfor.audit import LabelAudit
from butfor.models.by_name import model_named
from butfor.models.own_fit import OwnFit
from butfor.models.partition import PartitionEnsemble
from butfor.models.seam import Training
from butfor.search.proofs import Bracket
from butfor.search.rankings.mix import RankingMix
from butfor.search.strategies import STRATEGIES
from butfor.support.stopping import max_retrainings
from butfor.table.embedded import Dataset, load_dataset

PARTS = {"salary": 3, "student": 9, "german": 11, "compas": 51, "default": 101, "adult": 151}
MODELS = ("ridge", "linear", "knn", "steady")
PEOPLE, REFUTED_PEOPLE = 200, 50


def confirmed(audit: LabelAudit, X: pd.DataFrame, brackets: Sequence[Bracket]) -> list[bool]:
    """Whether each set that a proof names turns the decision about its row of X when the model's
    own `fit` trains on it; True where it names none."""
    sets = list(dict.fromkeys(b.witness for b in brackets if b.witness))
    logits = OwnFit().bind(audit.learner_, audit.table_, X)([Training(flips) for flips in sets])
    before = audit.model_.logits(X) > 0
    return [
        b.witness is None or bool((logits[sets.index(b.witness), k] > 0) != before[k])
        for k, b in enumerate(brackets)
    ]


def proofs(
    datasets: Sequence[str], models: Sequence[str], people: int, splits: int, first: int
) -> Iterator[Row]:
    """One row per data set and model; with `splits`, means over that many splits, of seeds from
    `first` on."""
    refuse_below_one(people=people)
    for name in datasets:
        seeds: Sequence[int | None] = range(first, first + splits) if splits else [None]
        for model in models:
            rows = [_row(load_dataset(name, seed), model, people) for seed in seeds]
            means = {key: mean((row[key] for row in rows), 4) for key in rows[0]}
            yield {"dataset": name, "model": model, "splits": max(1, splits)} | means


def _audit(data: Dataset, model: str) -> LabelAudit:
    audit = LabelAudit(
        PartitionEnsemble(parts=PARTS[data.name]) if model == "steady" else model_named(model),
        budget=len(data.X_train) // 4,
        phi="everyone",
        psi="everything",
        members=1,
        fresh_seeds=0,
    )
    return audit.fit(data.X_train, data.y_train, sensitive_features=data.sensitive)


def _row(data: Dataset, model: str, people: int) -> dict[str, float | None]:
    single = LabelAudit(model_named("logistic"), members=1, fresh_seeds=0)
    single.fit(data.X_train, data.y_train, sensitive_features=data.sensitive)
    started = time.perf_counter()
    audit = _audit(data, model)
    proven = audit.brackets(data.X_test.iloc[:people])
    seconds = time.perf_counter() - started
    refuted = sum(not held for held in confirmed(audit, data.X_test.iloc[:people], proven))
    n, at_least = audit.table_.n, [b.at_least for b in proven]
    exact = [b for b in proven if b.witness is not None]
    none = [b for b in proven if b.at_least > n]
    scores = {
        f"{measure.__name__.removesuffix('_score')}{suffix}": float(
            measure(data.y_test, one.model_.logits(data.X_test) > 0)
        )
        for measure in (accuracy_score, balanced_accuracy_score)
        for suffix, one in (("", audit), ("_single", single))
    }
    return {
        "people": len(proven),
        "exact": len(exact) / len(proven),
        "bracketed": (len(proven) - len(exact) - len(none)) / len(proven),
        "none_at_all": len(none) / len(proven),
        "refuted": refuted,
        "median_at_least": float(median(at_least)),
        "median_at_most": float(median(len(b.witness or ()) for b in exact)) if exact else None,
        "certified_1": float(np.mean([a > 1 for a in at_least])),
        "certified_permille": float(np.mean([a > -(-n // 1000) for a in at_least])),
        "certified_percent": float(np.mean([a > -(-n // 100) for a in at_least])),
        **scores,
        "seconds": round(seconds, 2),
    }


UNKNOWING = replace(STRATEGIES["guided"], proves=False)
"""The guided search as if there were no proofs."""


def refute(
    datasets: Sequence[str], models: Sequence[str], people: int, retrainings: int
) -> Iterator[Row]:
    """One row per data set and model: the finds of a search that does not know the proofs, beside
    them. People with the weakest proofs beyond one label are asked about, since a smaller set is
    nearest there."""
    for name in datasets:
        data = load_dataset(name)
        for model in models:
            audit = _audit(data, model)
            proven = audit.brackets(data.X_test.iloc[:PEOPLE])
            weakest = sorted(
                (k for k, b in enumerate(proven) if b.at_least > 1),
                key=lambda k: proven[k].at_least,
            )
            cases = sorted(weakest[:people])
            budget = max([proven[k].at_least for k in cases], default=1)
            audit.fitted_ = replace(audit.fitted_, budget=min(budget, audit.table_.n // 4))
            started = time.perf_counter()
            searched = audit.with_search(RankingMix.of(audit.model_), UNKNOWING)
            population = explain(
                searched, data.X_test, cases=cases, stop=max_retrainings(retrainings)
            )
            sizes = {v.case: len(v.positions) for v in population.found if v.case is not None}
            yield {
                "dataset": name,
                "model": model,
                "people": len(cases),
                "budget": audit.fitted_.budget,
                "found": len(sizes),
                "refuted": sum(size < proven[case].at_least for case, size in sizes.items()),
                "met": sum(size == proven[case].at_least for case, size in sizes.items()),
                "retrainings": population.run.retrainings,
                "seconds": round(time.perf_counter() - started, 1),
            }


COLUMNS: Columns = {
    "dataset ": "{dataset}",
    "model       ": "{model}",
    "people": "{people:.0f}",
    " exact": "{exact:.0%}",
    "from below": "{bracketed:.0%}",
    "  none": "{none_at_all:.0%}",
    "at least": "{median_at_least:.1f}",
    "at most": "{median_at_most:.1f}",
    "  > 1": "{certified_1:.0%}",
    "> 0.1%": "{certified_permille:.0%}",
    " > 1%": "{certified_percent:.0%}",
    "      accuracy": "{accuracy:.3f} of {accuracy_single:.3f}",
    "      balanced": "{balanced_accuracy:.3f} of {balanced_accuracy_single:.3f}",
    " seconds": "{seconds:.1f}",
}
REFUTATION: Columns = {
    "dataset ": "{dataset}",
    "model       ": "{model}",
    "people": "{people}",
    "budget": "{budget}",
    " found": "{found}",
    "as few as proven": "{met}",
    " fewer": "{refuted}",
    "retrainings": "{retrainings}",
    " seconds": "{seconds:.1f}",
}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = options(__doc__)
    parser.add_argument("--datasets", type=names, default=EMBEDDED)
    models = "also kernel-ridge, on tables of a few thousand rows"
    parser.add_argument("--models", type=names, default=MODELS, help=models)
    parser.add_argument("--people", type=int, default=PEOPLE, help="with --refute 50 at the most")
    parser.add_argument(
        "--splits",
        type=int,
        default=0,
        help="mean over that many splits instead of the published one",
    )
    parser.add_argument("--first", type=int, default=0, help="the first split's seed")
    parser.add_argument(
        "--retrainings", type=int, default=2000, help="with --refute: per data set and model"
    )
    parser.add_argument(
        "--refute", action="store_true", help="search for sets smaller than are said to be possible"
    )
    as_json, given = parse(parser, arguments)
    retrainings = given.pop("retrainings")
    if given.pop("refute"):
        people = min(given["people"], REFUTED_PEOPLE)
        show(refute(given["datasets"], given["models"], people, retrainings), REFUTATION, as_json)
    else:
        show(proofs(**given), COLUMNS, as_json)


if __name__ == "__main__":
    run(main)

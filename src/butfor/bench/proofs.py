"""How much can be proven? Exact minima, brackets, and the price of a steady learner.

Per data set and model: for how many people the fewest labels are known exactly, for how many only from below, for how
many no set does at all; the medians of what it takes at least and at most; the share of people proven to stand against
one label, 0.1 % and 1 % of them; accuracy and balanced accuracy, beside those of a logistic regression trained on all
rows. ψ is everything and φ everyone: any label may be wrong. Every exact minimum is confirmed by the model's own `fit`.

    python -m butfor.bench.proofs --datasets german --splits 10

`--refute` tries to prove the proofs wrong instead: the guided search, which is told nothing of them, looks for smaller
sets than are said to be possible.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from statistics import median
from typing import Any

import numpy as np
from sklearn.metrics import accuracy_score, balanced_accuracy_score

from butfor.audit import LabelAudit
from butfor.bench.rows import print_rows
from butfor.data import Dataset, load_dataset
from butfor.errors import SettingError
from butfor.learn.named import model_named
from butfor.learn.partition import PartitionEnsemble
from butfor.search import GuidedSearch

DATASETS = ("salary", "student", "german", "compas", "default", "adult")
PARTS = {"salary": 3, "student": 9, "german": 11, "compas": 51, "default": 101, "adult": 151}
MODELS = ("ridge", "linear", "knn", "steady")
PEOPLE = 200


def models(name: str) -> dict[str, Any]:
    return {
        "ridge": model_named("ridge"), "linear": model_named("linear"), "kernel-ridge": model_named("kernel-ridge"),
        "knn": model_named("knn"), "steady": PartitionEnsemble(parts=PARTS[name]),
    }  # fmt: skip


def proofs(
    names: Sequence[str],
    *,
    which: Sequence[str] = MODELS,
    people: int = PEOPLE,
    splits: int = 0,
    first: int = 0,
) -> Iterator[dict[str, Any]]:
    """One row per data set and model; with `splits`, means over that many splits, of seeds from `first` on."""
    if people < 1:
        raise SettingError(f"people={people} must be at least 1.")
    for name in names:
        seeds: Sequence[int | None] = range(first, first + splits) if splits else [None]
        for model in which:
            rows = [_row(load_dataset(name, seed), model, people) for seed in seeds]
            means = {key: _mean([row[key] for row in rows]) for key in rows[0]}
            yield {"dataset": name, "model": model, "splits": max(1, splits)} | means


def _audit(data: Dataset, model: str) -> LabelAudit:
    audit = LabelAudit(
        models(data.name)[model],
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
    refuted = sum(not held for held in audit.confirmed(data.X_test.iloc[:people], proven))
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
        "certified_0.1%": float(np.mean([a > -(-n // 1000) for a in at_least])),
        "certified_1%": float(np.mean([a > -(-n // 100) for a in at_least])),
        **scores,
        "seconds": round(seconds, 2),
    }


class Unknowing(GuidedSearch):
    """The guided search as if there were no proofs."""

    proves = False


def refute(
    names: Sequence[str], which: Sequence[str] = MODELS, people: int = 50, retrainings: int = 2000
) -> Iterator[dict[str, Any]]:
    """One row per data set and model: the finds of a search that does not know the proofs, beside them. People with
    the weakest proofs beyond one label are asked about, since a smaller set is nearest there."""
    for name in names:
        data = load_dataset(name)
        for model in which:
            audit = _audit(data, model)
            proven = audit.brackets(data.X_test.iloc[:PEOPLE])
            weakest = sorted((k for k, b in enumerate(proven) if b.at_least > 1), key=lambda k: proven[k].at_least)
            cases = sorted(weakest[:people])
            budget = max([proven[k].at_least for k in cases], default=1)
            audit.budget_ = min(budget, audit.table_.n // 4)
            started = time.perf_counter()
            searched = audit.searching(None, Unknowing(), max_retrainings=retrainings)
            population = searched.explain_all(data.X_test, cases=cases)
            sizes = {v.case: len(v.positions) for v in population.found if v.case is not None}
            yield {
                "dataset": name,
                "model": model,
                "people": len(cases),
                "budget": audit.budget_,
                "found": len(sizes),
                "refuted": sum(size < proven[case].at_least for case, size in sizes.items()),
                "met": sum(size == proven[case].at_least for case, size in sizes.items()),
                "retrainings": population.run["needed"],
                "seconds": round(time.perf_counter() - started, 1),
            }


def _mean(values: Sequence[float | None]) -> float | None:
    known = [v for v in values if v is not None]
    return round(float(np.mean(known)), 4) if known else None


HEADER = (
    f"{'dataset':8} {'model':12} {'people':>6} {'exact':>6} {'from below':>10} {'none':>6} {'at least':>9} "
    f"{'at most':>8} {'> 1':>6} {'> 0.1%':>7} {'> 1%':>6} {'accuracy':>17} {'balanced':>17} {'seconds':>8}"
)


def line(row: dict[str, Any]) -> str:
    most = "–" if row["median_at_most"] is None else f"{row['median_at_most']:.1f}"
    return (
        f"{row['dataset']:8} {row['model']:12} {row['people']:6.0f} {row['exact']:6.0%} {row['bracketed']:10.0%} "
        f"{row['none_at_all']:6.0%} {row['median_at_least']:9.1f} {most:>8} {row['certified_1']:6.0%} "
        f"{row['certified_0.1%']:7.0%} {row['certified_1%']:6.0%} "
        f"{row['accuracy']:7.3f} of {row['accuracy_single']:.3f} {row['balanced_accuracy']:7.3f} of "
        f"{row['balanced_accuracy_single']:.3f} {row['seconds']:8.1f}"
    )


REFUTE_HEADER = (
    f"{'dataset':8} {'model':12} {'people':>6} {'budget':>6} {'found':>6} {'as few as proven':>17} {'fewer':>6} "
    f"{'retrainings':>12} {'seconds':>8}"
)


def refute_line(row: dict[str, Any]) -> str:
    return (
        f"{row['dataset']:8} {row['model']:12} {row['people']:6} {row['budget']:6} {row['found']:6} {row['met']:17} "
        f"{row['refuted']:6} {row['retrainings']:12} {row['seconds']:8.1f}"
    )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--datasets", default=",".join(DATASETS))
    parser.add_argument(
        "--models", default=",".join(MODELS), help="also kernel-ridge, on tables of a few thousand rows"
    )
    parser.add_argument("--people", type=int, default=PEOPLE)
    parser.add_argument("--splits", type=int, default=0, help="mean over that many splits instead of the published one")
    parser.add_argument("--first", type=int, default=0, help="the first split's seed")
    parser.add_argument("--retrainings", type=int, default=2000, help="with --refute: per data set and model")
    parser.add_argument("--refute", action="store_true", help="search for sets smaller than are said to be possible")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(arguments)
    if given.refute:
        tried = refute(given.datasets.split(","), given.models.split(","), min(given.people, 50), given.retrainings)
        print_rows(tried, REFUTE_HEADER, refute_line, given.json)
        return
    rows = proofs(
        given.datasets.split(","),
        which=given.models.split(","),
        people=given.people,
        splits=given.splits,
        first=given.first,
    )
    print_rows(rows, HEADER, line, given.json)


if __name__ == "__main__":
    main()

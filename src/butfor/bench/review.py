"""Do review tasks find wrong labels? German credit with labels flipped on purpose, audited, and handed to a reviewer.

Of the training rows of a CSV copy, `PLANTED` labels are flipped, by seed. A logistic regression is audited on them
about all test people; the review tasks of its finds are made, and answered by a reviewer who knows every label as it
was. Per rule ψ, which says what labels may be flipped: how many planted labels are among the keystones and among the
decoys, and what the comparison says. "contradicted": the planted labels that the audited model predicts otherwise.

    python -m butfor.bench.review
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from butfor.audit import LabelAudit
from butfor.bench.rows import print_rows
from butfor.data import load_dataset
from butfor.data.table import load_table
from butfor.follow.answers import Outcome
from butfor.follow.audited import read_audit
from butfor.follow.review import make_review
from butfor.learn.named import model_named

PLANTED = 20
BUDGET = 6
RULES = ("published", "same_group", "everything")
LABEL = "credit"


def review(seeds: Sequence[int] = (0,), rules: Sequence[str] = RULES) -> Iterator[dict[str, Any]]:
    """One row per rule and seed."""
    for psi in rules:
        for seed in seeds:
            with tempfile.TemporaryDirectory() as folder:
                yield _row(Path(folder), psi, seed)


def _row(folder: Path, psi: str, seed: int) -> dict[str, Any]:
    started = time.perf_counter()
    table, planted = plant(folder / "german.csv", seed)
    data = load_table(table, label=LABEL, sensitive="sex")
    audit = LabelAudit(model_named("logistic"), budget=BUDGET, psi=psi)
    audit.fit(data.X_train, data.y_train, sensitive_features="sex")
    population = audit.explain_all(data.X_test, data.y_test)
    population.to_json(folder / "audit.json")
    made = make_review(read_audit(folder / "audit.json"), seed=seed)
    first, second = made.label_names
    other = {first: second, second: first}
    answers = {task.id: other[task.label] if task.row in planted else task.label for task in made.tasks}
    outcome = Outcome(made.tasks, answers)
    contradicted = (audit.training_logits_ > 0) != (data.y_train == 1)
    return {
        "psi": psi,
        "seed": seed,
        "training_rows": len(data.X_train),
        "planted": len(planted),
        "contradicted": int(contradicted[list(planted)].sum()),
        "found": len(population.found),
        "eligible": len(population.eligible),
        "keystones": len(made.keystones),
        "planted_keystones": len(outcome.changed(decoys=False)),
        "decoys": len(made.decoys),
        "planted_decoys": len(outcome.changed(decoys=True)),
        "p_value": outcome.p_value,
        "seconds": round(time.perf_counter() - started, 1),
    }


def plant(path: Path, seed: int) -> tuple[Path, set[int]]:
    """German credit as a CSV file with labels of training rows flipped; and which rows of the file these are."""
    data = load_dataset("german")
    frame = pd.concat([data.X_train, data.X_val, data.X_test]).sort_index()
    labels = pd.concat([data.y_train, data.y_val, data.y_test]).sort_index().to_numpy()
    frame = frame.assign(**{LABEL: np.array(data.label_names, dtype=object)[labels]}).reset_index(drop=True)
    frame.to_csv(path, index=False)
    training = load_table(path, label=LABEL, sensitive="sex").X_train.index
    planted = np.random.default_rng(seed).choice(training, PLANTED, replace=False)
    frame.loc[planted, LABEL] = np.array(data.label_names, dtype=object)[1 - labels[planted]]
    frame.to_csv(path, index=False)
    return path, {int(row) for row in planted}


HEADER = (
    f"{'ψ':12} {'seed':>4} {'found':>10} {'contradicted':>13} {'planted of keystones':>21} {'planted of decoys':>18} "
    f"{'p':>7} {'seconds':>8}"
)


def line(row: dict[str, Any]) -> str:
    return (
        f"{row['psi']:12} {row['seed']:4} {row['found']:3} of {row['eligible']:3} "
        f"{row['contradicted']:7} of {row['planted']:2} {row['planted_keystones']:14} of {row['keystones']:3} "
        f"{row['planted_decoys']:11} of {row['decoys']:3} {row['p_value']:7.2g} {row['seconds']:8.1f}"
    )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rules", default=",".join(RULES))
    parser.add_argument("--seeds", type=int, default=1, help="ways of choosing the labels to flip")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(arguments)
    print_rows(review(range(given.seeds), given.rules.split(",")), HEADER, line, given.json)


if __name__ == "__main__":
    main()

"""Do review tasks find wrong labels? German credit with labels flipped on purpose, audited, and handed to a reviewer.

Of the training rows of a CSV copy, `PLANTED` labels are flipped, by seed. A logistic regression is audited on them
about all test people; the review tasks of its finds are made, and answered by a reviewer who knows every label as it
was. Per rule ψ, which says what labels may be flipped: how many planted labels are among the keystones and among the
decoys, and what the comparison says. "contradicted": the planted labels that the audited model predicts otherwise.

    python -m benchmarks.review
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.rows import Columns, Row, names, options, parse, run, show
from benchmarks.work import explain
from butfor.audit import LabelAudit
from butfor.data import load_dataset
from butfor.data.table import load_table
from butfor.learn.named import model_named
from butfor.result.population import Population
from butfor.review.answers import Outcome
from butfor.review.select import make_review

PLANTED = 20
BUDGET = 6
LABEL = "credit"


def review(rules: Sequence[str], seeds: int, people: int) -> Iterator[Row]:
    """One row per rule and seed."""
    for psi in rules:
        for seed in range(seeds):
            with tempfile.TemporaryDirectory() as folder:
                yield _row(Path(folder), psi, seed, people)


def _row(folder: Path, psi: str, seed: int, people: int) -> dict[str, Any]:
    started = time.perf_counter()
    table, planted = plant(folder / "german.csv", seed)
    data = load_table(table, label=LABEL, sensitive="sex")
    audit = LabelAudit(model_named("logistic"), budget=BUDGET, psi=psi)
    audit.fit(data.X_train, data.y_train, sensitive_features="sex")
    population = explain(audit, data.X_test[:people], y=data.y_test[:people])
    population.to_json(folder / "audit.json")
    made = make_review(Population.from_json(folder / "audit.json"), seed=seed)
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


COLUMNS: Columns = {
    "ψ           ": "{psi}",
    "seed": "{seed}",
    "     found": "{found} of {eligible}",
    "contradicted": "{contradicted} of {planted}",
    "planted of keystones": "{planted_keystones} of {keystones}",
    "planted of decoys": "{planted_decoys} of {decoys}",
    "      p": "{p_value:.2g}",
    " seconds": "{seconds:.1f}",
}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = options(__doc__)
    parser.add_argument("--rules", type=names, default=("published", "same_group", "everything"))
    parser.add_argument("--seeds", type=int, default=1, help="ways of choosing the labels to flip")
    parser.add_argument("--people", type=int, default=200, help="of the test split, whose finds are reviewed")
    as_json, given = parse(parser, arguments)
    show(review(**given), COLUMNS, as_json)


if __name__ == "__main__":
    run(main)

"""What does a review show? Simulated reviewers answer the tasks of tables whose wrong labels are
known.

    python -m benchmarks.reviews --seeds 30000,30001,30002,30003             the table of docs/review.md
    python -m benchmarks.reviews --seeds 30000 --datasets german --json      what every review came to

Tables are those of `benchmarks.planted`: five data sets, at most 4 000 rows of each; a fifth of one
group's favourable labels made adverse in one of four ways, or nothing; labels before that as
recorded, or drawn by one standard. An audit of each table prepares reviews of 30, 60 and 100 labels
of the group that it puts under review, with controls and clear cases, as `butfor review` does. Each
review is answered by every reviewer, `--times` times by those who draw lots. The figures are the
shares of reviews whose answers were relied on, in percent.

Reviewers who know nothing answer at random, always give one label, or follow a model of the
columns: the standard of the other groups, a logistic regression or a boosting of all rows, each
asked about rows that it did not learn from, or did. Others know the truth, the labels before
planting, and err in one answer of ten or of five. Where nothing is planted, or the audit reviews
another group, they have nothing to find.

Below the table stand means over tables: labels, controls, the share of the labels that was planted,
how often the audit reviews the group with planted labels, the power that `butfor review` foretold
for one who errs one time in ten, and that reviewer's shares by data set. ± is the standard error
over tables. Seeds below 30000 were used to choose between variants.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np
from joblib import Parallel, delayed
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict

from benchmarks.planted import BASES, GROUPS, KINDS, Mask, Planted
from benchmarks.rows import Row, names, numbers, options, parse, run
from butfor.audit import LabelAudit
from butfor.errors import TableError
from butfor.review.answers import Outcome
from butfor.review.tasks import CONTROL, Review
from butfor.standard.model import TwoModels
from butfor.standard.second_opinion import FOLDS, folds_of
from butfor.support.cores import available_cores
from butfor.support.threads import single_threaded
from butfor.table.encoding import TableEncoder

SIZES = (30, 60, 100)
REVIEWERS = {
    "at random": "answers at random",
    "favourable": "always gives the favourable label",
    "adverse": "always gives the adverse label",
    "others, unseen": "follows the others' standard",
    "logistic, unseen": "follows a logistic regression of all rows",
    "boosting, unseen": "follows a boosting of all rows",
    "others, seen": "follows the others' standard, learned from these labels too",
    "logistic, seen": "the same, a logistic regression of all rows",
    "boosting, seen": "the same, a boosting of all rows",
    "one in five": "knows the truth, errs one time in five",
    "one in ten": "knows the truth, errs one time in ten",
    "two": "two who know the truth and err one time in ten",
}
KNOWN = ("labels", "controls", "planted_share", "right_group", "foretold")
Answer = Mask
"""Whether the answer is the favourable label `[training rows]`."""


def measure(planted: Planted, times: int) -> list[Row]:
    """One row per size and reviewer: the share of the reviews of this table that was relied on."""
    begun, adverse = time.process_time(), planted.data.label_names[1 - planted.favourable]
    X, y = planted.X, planted.numbers(planted.labels, slice(None))
    n, favours = planted.parts[0].stop, planted.data.label_names[planted.favourable]
    about: Row = {
        "set": planted.name,
        "kind": planted.kind,
        "base": planted.base,
        "seed": planted.seed,
    }
    with warnings.catch_warnings(action="ignore"), single_threaded():
        audit = LabelAudit(LogisticRegression(max_iter=1000), members=1, fresh_seeds=0, n_jobs=1)
        more, by = (X.iloc[n:], y.iloc[n:]), planted.attribute
        try:
            audit.fit(
                X.iloc[:n],
                y.iloc[:n],
                sensitive_features=by,
                adverse=adverse,
                also_labelled=more,
                label_names=planted.data.label_names,
            )
            audit.standards()
        except TableError as error:
            return [about | {"failed": str(error)}]
        rows = list[Row]()
        group = audit.review_tasks(labels=1).key.group.rpartition(" = ")[2]
        inside = (X[planted.attribute] == group).to_numpy()[:n]
        most = int((inside & ~planted.labels[:n]).sum())
        followed = dict(followers(planted, n, inside))
        for size in SIZES:
            review = audit.review_tasks(labels=min(size, most))
            known = {"labels": len(review.labels), "foretold": review.power}
            known["controls"] = sum(task.kind == CONTROL for task in review.tasks)
            known["right_group"] = group == planted.group
            known["planted_share"] = float(
                np.mean([each.position in planted.rows for each in review.labels])
            )
            for name, answers in reviewers(planted, n, followed, times):
                relied = [
                    not Outcome(review.key, tuple(_answers(review, one, favours, adverse) for one in several))
                    .evidence.shows_nothing
                    for several in answers
                ]  # fmt: skip
                rows.append(
                    about
                    | known
                    | {"size": size, "reviewer": name, "relied_on": float(np.mean(relied))}
                )
    rows[0]["seconds"] = time.process_time() - begun
    return rows


def _answers(review: Review, favourable: Answer, favours: str, adverse: str) -> dict[str, str]:
    return {task.id: favours if favourable[task.position] else adverse for task in review.tasks}


def followers(planted: Planted, n: int, inside: Mask) -> Iterator[tuple[str, Answer]]:
    """What models of the columns say of the training rows, which they have learned from or not.
    `inside`: the group under review."""
    X, labels = planted.X.iloc[:n].drop(columns=planted.attribute), planted.labels[:n]
    rows, folds = (
        TableEncoder("onehot", dtype="float64").fit_transform(X),
        folds_of(n, None, planted.seed + 1),
    )
    for name, model in (
        ("logistic", LogisticRegression(max_iter=1000)),
        ("boosting", HistGradientBoostingClassifier(random_state=0)),
    ):
        yield f"{name}, seen", model.fit(rows, labels).predict(rows)
        yield f"{name}, unseen", cross_val_predict(model, rows, labels, cv=FOLDS)
    standard, others = TwoModels.of(X), np.flatnonzero(~inside)
    number, found = labels.astype(float), np.empty(n, bool)
    yield (
        "others, seen",
        standard.predict(others, np.arange(n), number[None, others], None)[0] > 0.5,
    )
    for fold in range(FOLDS):
        learn, ask = others[folds[others] != fold], np.flatnonzero(folds == fold)
        found[ask] = standard.predict(learn, ask, number[None, learn], None)[0] > 0.5
    yield "others, unseen", found


def reviewers(
    planted: Planted, n: int, followed: dict[str, Answer], times: int
) -> Iterator[tuple[str, list[list[Answer]]]]:
    """Name, and the answers of one reviewer or two, once or `times` times."""
    rng, truth = np.random.default_rng([planted.seed, 17]), planted.clean[:n]

    def erring(share: float) -> Answer:
        return truth ^ (rng.random(n) < share)

    yield "at random", [[rng.random(n) < 0.5] for _ in range(times)]
    yield "favourable", [[np.ones(n, bool)]]
    yield "adverse", [[np.zeros(n, bool)]]
    yield from ((name, [[answers]]) for name, answers in followed.items())
    yield "one in ten", [[erring(0.1)] for _ in range(times)]
    yield "one in five", [[erring(0.2)] for _ in range(times)]
    yield "two", [[erring(0.1), erring(0.1)] for _ in range(times)]


def summary(measured: Sequence[Row]) -> list[Row]:
    """Per size, with and without planted labels: the shares relied on, their standard errors over
    tables, and means of what is known of the reviews."""
    found = list[Row]()
    rows = [row for row in measured if "failed" not in row]
    for planted, size in product((True, False), SIZES):
        some = [
            row for row in rows if (row["kind"] != "nothing") == planted and row["size"] == size
        ]
        by_reviewer = {
            name: [row["relied_on"] for row in some if row["reviewer"] == name]
            for name in REVIEWERS
        }
        if not some:
            continue
        known = {name: float(np.mean([row[name] for row in some])) for name in KNOWN}
        shares = {name: [float(np.mean(all_)), _error(all_)] for name, all_ in by_reviewer.items()}
        sets = {
            name: float(
                np.mean(
                    [
                        r["relied_on"]
                        for r in some
                        if (r["set"], r["reviewer"]) == (name, "one in ten")
                    ]
                )
            )
            for name in sorted({row["set"] for row in some})
        }
        found.append(
            {"planted": planted, "size": size, "tables": len(by_reviewer["two"])}
            | known
            | shares
            | sets
        )
    return found


def _error(values: Sequence[float]) -> float:
    return float(np.std(values) / max(1, len(values) - 1) ** 0.5)


def in_words(measured: Sequence[Row]) -> str:
    """A table in Markdown, and below it what is known of the reviews."""
    found = summary(measured)
    heads = [f"{row['size']} labels{'' if row['planted'] else ', clean'}" for row in found]
    lines = ["| answers | " + " | ".join(heads) + " |", "|---|" + "---|" * len(heads)]
    for name, words in REVIEWERS.items():
        cells = [f"{100 * row[name][0]:.0f} ± {100 * row[name][1]:.0f} %" for row in found]
        lines.append(f"| {words} | " + " | ".join(cells) + " |")
    lines += [
        "",
        *(f"{head}: " + ", ".join(_shown(row)) for head, row in zip(heads, found, strict=True)),
    ]
    failed = [row for row in measured if "failed" in row]
    seconds = sum(row.get("seconds", 0) for row in measured)
    return "\n".join(
        [*lines, f"{len(failed)} tables could not be compared; {seconds:.0f} s of CPU time."]
    )


def _shown(row: Row) -> list[str]:
    figures = (f"{name} {value:.2f}" for name, value in row.items() if isinstance(value, float))
    return [f"{row['tables']} tables", *figures]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = options(__doc__)
    parser.add_argument("--datasets", type=names, default=list(GROUPS))
    parser.add_argument("--kinds", type=names, default=list(KINDS))
    parser.add_argument("--bases", type=names, default=list(BASES), help="labels before planting")
    parser.add_argument("--seeds", type=numbers, default=[1000])
    parser.add_argument(
        "--share", type=float, default=0.2, help="of the group's favourable labels made adverse"
    )
    parser.add_argument(
        "--times", type=int, default=50, help="answers of a reviewer who draws lots, per review"
    )
    parser.add_argument("--n-jobs", type=int, default=available_cores())
    as_json, given = parse(parser, arguments)
    o = argparse.Namespace(**given)
    tables = [Planted(*case, o.share) for case in product(o.datasets, o.kinds, o.bases, o.seeds)]
    work = (delayed(measure)(table, o.times) for table in tables)
    measured = [row for rows in Parallel(o.n_jobs, batch_size=1)(work) for row in rows]
    print(
        json.dumps({"summary": summary(measured), "measured": measured})
        if as_json
        else in_words(measured)
    )
    return 0


if __name__ == "__main__":
    from benchmarks import reviews  # under its own name, so that other processes know its functions

    run(reviews.main)

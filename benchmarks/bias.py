"""Does it find bias? Labels of one group made adverse on purpose: where, which labels, and whose
decisions change.

    python -m benchmarks.bias --seeds 20000,20001                  the tables of docs/standard.md and docs/review.md
    python -m benchmarks.bias --seeds 20000 --json > some.json     with everything that was measured
    python -m benchmarks.bias --models mlp --questions whose --seeds 20000,20001     networks and their seeds alone
    python -m benchmarks.bias --summary some.json more.json        the tables of such files together

Tables are those of `benchmarks.planted`: five data sets, at most 4 000 rows of each, a fifth of one
group's favourable labels made adverse in all labelled rows, or nothing; labels before that as
recorded, or drawn by one standard. With odd seeds the audited model does not see the attribute.
Aims stand in the headings. ± is the standard error over tables.

`where`: is the value of the column that carries the planted labels (kind labeller) the first slice,
and among the first three; is any slice called. `which`: of the first n/4 and n adverse labels in
training rows, n the number planted there, the share that was planted (real), and the mean
probability that was given to them (foretold). Judged on drawn labels: of recorded ones nobody knows
which were wrong before. `whose`: hurt are the group's test people whom the model of the clean table
accepts and that of the planted table refuses. Of a network both are means over 59 fresh seeds, so
that nobody is hurt by the luck of a seed. Worlds give everybody a probability, networks have
controls beside them. Precision is the share of those listed as gaining who were hurt, recall the
share of the hurt who are listed: means over tables. `seeds`, of networks: the same by 0.5's
definitions (worlds beside the audited mean; hurt by the audited means), and how many people are
listed where nothing is planted. `reviews`: somebody who knows the truth reviews the first n/4 and n
adverse labels and corrects the wrong ones; restored is the share of the hurt who are accepted then.
The order is chosen without the test people.

Ways: `wrong`, the order of the comparison, by the probability that a label is wrong (foretold is
that probability, as if every gap were real); `even`, the same if the shortfall is spread evenly;
`doubt`; `self-confidence`, cleanlab's score without the protected column: one less the audited kind
of model's cross-validated probability of the recorded label; `chance`. Published ways for groups
are in `benchmarks.rivals`. Seeds below 10 000 were used to choose between variants; reported are
seeds from 20000.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import product
from pathlib import Path

import numpy as np
from joblib import Parallel, delayed
from sklearn.model_selection import cross_val_predict

from benchmarks.bias_tables import in_words, summary
from benchmarks.planted import BASES, GROUPS, KINDS, MEMBERS, Floats, Mask, Planted, Rows
from benchmarks.rows import Row, check, measured_in, names, numbers, options, parse, run
from benchmarks.work import network
from butfor.errors import SettingError, TableError
from butfor.models.by_name import model_named
from butfor.models.seam import Training
from butfor.result.worlds import over
from butfor.standard.groups import Standards
from butfor.standard.wrong import with_sum
from butfor.support.cores import available_cores
from butfor.support.threads import single_threaded
from butfor.worlds import draw_world, world_seeds

MODELS = ("logistic", "boosting", "mlp")
QUESTIONS = ("where", "which", "whose", "reviews")
PARTS = {"quarter": 4, "whole": 1}
"""Labels looked at: the number planted, divided by these."""
FRESH = range(10_000, 10_059)
"""Seeds of the single networks whose mean says who was hurt."""
NOW, BEFORE = "controls", "audited"
"""What worlds of networks are compared with: their controls or, as in 0.5, the audited mean."""
BY_FRESH, BY_AUDITED = "hurt by fresh", "hurt by audited"
"""Whose decisions say who was hurt: the means of fresh seeds or, as in 0.5, those of the audited
seeds."""
BINS = np.arange(1, 10) / 10 + 1e-9


# --- one table ------------------------------------------------------------------------------------


def measure(planted: Planted, models: Sequence[str], questions: Sequence[str]) -> list[Row]:
    """One row per question, model and way; a table that cannot be compared says why."""
    about: Row = {
        "set": planted.name,
        "kind": planted.kind,
        "base": planted.base,
        "seed": planted.seed,
    }
    about |= {"share": planted.share, "blind": planted.blind}
    begun = time.process_time()
    with warnings.catch_warnings(action="ignore"), single_threaded():
        try:
            comparison = planted.standards.of_group(planted.group)
        except TableError as error:
            return [about | {"question": "failed", "why": str(error)}]
        if comparison is None:
            return [
                about
                | {
                    "question": "failed",
                    "why": " ".join(each.sentence for each in planted.standards.left_out),
                }
            ]
        about["called"] = comparison.differs and comparison.difference > 0
        true, (low, high) = planted.true_difference, comparison.interval or (np.nan, np.nan)
        found: list[Row] = [
            {"question": "comparison", "difference": comparison.difference, "true": true}
        ]
        found[0]["covered"] = None if true is None else bool(low <= true <= high)
        if "where" in questions:
            found.append({"question": "where"} | where(planted))
        if "which" in questions and len(planted.training_rows):
            found += [{"question": "which"} | row for row in which(planted)]
        for model in models if {"whose", "reviews"} & set(questions) else ():
            found += [{"model": model} | row for row in decisions(planted, model, questions)]
    found[0]["seconds"] = time.process_time() - begun
    return [about | row for row in found]


def where(planted: Planted) -> Row:
    """The place of the planted slice among those of its group, from 1, and whether it, or any
    slice, was called."""
    slices = [s for s in planted.standards.parts if s.group == planted.group]
    places = [k for k, s in enumerate(slices, 1) if (s.column, s.value) == planted.planted_slice]
    return {
        "slices": len(slices),
        "place": places[0] if places else None,
        "any_called": any(s.called for s in planted.standards.parts),
        "planted_called": bool(places) and slices[places[0] - 1].called,
    }


def which(planted: Planted) -> list[Row]:
    """Of the first n/4 and n adverse labels, by each way: how many are wrong, and how many were
    foretold."""
    standards = planted.standards.of_rows(np.arange(planted.parts[0].stop))
    wrong, even = likely_wrong(standards), evenly(standards)
    ways = {"wrong": in_order(standards), "even": even, "doubt": standards.doubt}
    ways |= {
        f"self-confidence, {model}": self_confidence(planted, model)
        for model in ("logistic", "boosting")
    }
    ways["chance"] = chance(planted)
    rows = []
    for way, order in ways.items():
        row: Row = {"way": way}
        for name, part in PARTS.items():
            first = first_adverse(planted, order, part)
            row[name] = float(np.isin(first, planted.training_rows).mean())
            if way in ("wrong", "even"):
                row[f"foretold_{name}"] = float((wrong if way == "wrong" else even)[first].mean())
        rows.append(row)
    return rows


def decisions(planted: Planted, model: str, questions: Sequence[str]) -> list[Row]:
    """Whose decisions change, by worlds, and what reviews restore: of one model."""
    now = [planted.trainings(model, ())]
    before, clean = planted.accepted(model, now)[0], planted.accepted(model, now, planted.clean)[0]
    ours = planted.inside[planted.parts[2]]
    hurt = ours & clean & ~before
    found: list[Row] = []
    if "whose" in questions:
        worlds, controls = in_worlds(planted, model)
        if controls is None:
            found.append({"question": "whose"} | whose(worlds, before, ours, hurt))
        else:
            fresh = [[Training((), seed) for seed in FRESH]]
            accepted, were = (
                planted.accepted(model, fresh)[0],
                planted.accepted(model, fresh, planted.clean)[0],
            )
            for method, by in product((NOW, BEFORE), (BY_FRESH, BY_AUDITED)):
                wronged = ours & were & ~accepted if by == BY_FRESH else hurt
                row = whose(worlds, before if method == BEFORE else controls, ours, wronged)
                found.append({"question": "seeds", "method": method, "hurt_by": by} | row)
            found.append(found[0] | {"question": "whose"})
    if "reviews" in questions and len(planted.training_rows):
        found += [{"question": "reviews"} | row for row in reviews(planted, model, hurt)]
    return found


def in_worlds(planted: Planted, model: str) -> tuple[Mask, Mask | None]:
    """Whom of the test people each world accepts `[worlds × people]` and, of networks, each
    control. Validation rows steer a network alone."""
    training, validation = (
        planted.standards.of_rows(np.arange(part.start, part.stop)) for part in planted.parts[:2]
    )
    known = replace(training, validation=validation if model == "mlp" else None)
    how = (MEMBERS, True) if model == "mlp" else (1, False)
    worlds = [
        draw_world(known, planted.group, seed, *how)
        for seed in world_seeds(planted.group, planted.seed)
    ]
    if model != "mlp":
        return planted.accepted(model, [world.trainings for world in worlds]), None
    found = []
    for world in worlds:
        labels = planted.labels.copy()
        labels[planted.parts[1].start + np.array(world.validation_flips, int)] = True
        found.append(planted.accepted(model, [world.trainings], labels)[0])
    return np.array(found), planted.accepted(model, [world.control for world in worlds])


def reviews(planted: Planted, model: str, hurt: Mask) -> list[Row]:
    """Of the first n/4 and n adverse labels, by each way: how many are wrong, and how many of the
    hurt are accepted once these are corrected."""
    standards = planted.standards_without_test.of_rows(np.arange(planted.parts[0].stop))
    ways = {"wrong": in_order(standards), "doubt": standards.doubt}
    ways |= {"self-confidence": self_confidence(planted, model), "chance": chance(planted)}
    first = {
        (way, name): first_adverse(planted, ways[way], part)
        for way in ways
        for name, part in PARTS.items()
    }
    wrong = {case: rows[np.isin(rows, planted.training_rows)] for case, rows in first.items()}
    accepted = planted.accepted(model, [planted.trainings(model, rows) for rows in wrong.values()])
    found: dict[str, Row] = {way: {"way": way, "hurt": int(hurt.sum())} for way in ways}
    for (way, name), people in zip(wrong, accepted, strict=True):
        found[way][name] = len(wrong[way, name]) / len(first[way, name])
        found[way][f"restored_{name}"] = float(people[hurt].mean()) if hurt.any() else None
    return list(found.values())


def whose(worlds: Mask, control: Mask, ours: Mask, hurt: Mask) -> Row:
    """What worlds `[worlds × people]` say of the group's people, beside who was hurt. `control`:
    whom the audited model accepts `[people]` or, of a network, each control `[worlds × people]`."""
    probability, by_luck = worlds.mean(axis=0), np.atleast_2d(control).mean(axis=0)
    refused = ours & (by_luck < 0.5)
    change = probability - by_luck
    turned = worlds[:, refused].sum(axis=1)
    if control.ndim > 1:
        turned = worlds[:, ours].sum(axis=1) - control[:, ours].sum(axis=1)
    _, low, high = over(turned.tolist())
    likely, sure = refused & (probability > 0.5), refused & (change > 0.9)
    listed = (probability - 0.5) * (by_luck - 0.5) < 0
    bins = np.digitize(change[refused], BINS)
    return {
        "people": int(ours.sum()),
        "hurt": int(hurt.sum()),
        "likely": int(likely.sum()),
        "likely_hurt": int((likely & hurt).sum()),
        "sure": int(sure.sum()),
        "sure_hurt": int((sure & hurt).sum()),
        "listed": int(listed.sum()),
        "listed_of": len(listed),
        "expected": float(turned.mean()),
        "covered": bool(low <= hurt.sum() <= high),
        "bins": [
            [
                int((bins == k).sum()),
                float(change[refused][bins == k].sum()),
                int(hurt[refused][bins == k].sum()),
            ]
            for k in range(len(BINS) + 1)
        ],
    }


def likely_wrong(standards: Standards) -> Floats:
    """How likely each label is wrong, as if every gap were real."""
    return np.where(
        np.isnan(standards.wrong), np.nan_to_num(standards.wrong_if_real), standards.wrong
    )


def in_order(standards: Standards) -> Floats:
    """The higher, the sooner the comparison has a label looked at."""
    found = np.full(len(standards.doubt), -np.inf)
    found[standards.order] = -np.arange(len(standards.order))
    return found


def evenly(standards: Standards) -> Floats:
    """The probability that a label is wrong if the shortfall is spread evenly over what would have
    been favourable."""
    found = np.zeros(len(standards.doubt))
    for c in standards.comparisons:
        inside = standards.groups.astype(str) == c.group
        adverse = inside & ~standards.is_favourable
        found[adverse] = with_sum(standards.doubt[adverse], c.difference * int(inside.sum()))
    return found


@lru_cache(maxsize=4)
def self_confidence(planted: Planted, model: str) -> Floats:
    """cleanlab's score, the higher the more suspect: one less the cross-validated probability of
    the recorded label, without the protected column."""
    rows, codes = planted.inputs[planted.parts[0]], planted.labels[planted.parts[0]].astype(int)
    estimator = network(planted.data.setup) if model == "mlp" else model_named(model)
    probabilities = cross_val_predict(estimator, rows, codes, method="predict_proba")
    return np.asarray(1 - probabilities[np.arange(len(rows)), codes], np.float64)


def chance(planted: Planted) -> Floats:
    return np.random.default_rng([planted.seed, 7]).random(planted.parts[0].stop)


def first_adverse(planted: Planted, order: Floats, part: int) -> Rows:
    """The first n / `part` adverse labels of the training rows, the highest numbers first; ties in
    random order."""
    adverse = np.flatnonzero(~planted.labels[planted.parts[0]])
    shuffled = np.random.default_rng([planted.seed, 8]).permutation(adverse)
    count = -(-len(planted.training_rows) // part)
    return np.asarray(
        shuffled[np.argsort(-np.nan_to_num(order[shuffled], nan=-1), kind="stable")][:count]
    )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = options(__doc__)
    parser.add_argument("--datasets", type=names, default=list(GROUPS))
    parser.add_argument("--kinds", type=names, default=list(KINDS))
    parser.add_argument("--bases", type=names, default=list(BASES), help="labels before planting")
    parser.add_argument("--models", type=names, default=list(MODELS))
    parser.add_argument("--questions", type=names, default=list(QUESTIONS))
    parser.add_argument("--seeds", type=numbers, default=[1000])
    parser.add_argument(
        "--share", type=float, default=0.2, help="of the group's favourable labels made adverse"
    )
    parser.add_argument("--n-jobs", type=int, default=available_cores())
    parser.add_argument(
        "--summary", nargs="+", type=Path, metavar="FILE", help="what --json printed before"
    )
    as_json, given = parse(parser, arguments)
    o = argparse.Namespace(**given)
    if o.summary:
        measured = measured_in(o.summary)
    else:
        for known, option in (
            (GROUPS, "datasets"),
            (KINDS, "kinds"),
            (BASES, "bases"),
            (MODELS, "models"),
        ):
            check(getattr(o, option), known, option)
        check(o.questions, QUESTIONS, "questions")
        if not 0 < o.share < 1:
            raise SettingError(f"--share {o.share} must be between 0 and 1.")
        largest = sorted(o.datasets, key=["default", "adult", "compas", "german", "student"].index)
        tables = [Planted(*case, o.share) for case in product(largest, o.kinds, o.bases, o.seeds)]
        work = (delayed(measure)(table, o.models, o.questions) for table in tables)
        measured = [row for rows in Parallel(o.n_jobs, batch_size=1)(work) for row in rows]
    print(
        json.dumps({"summary": summary(measured), "measured": measured})
        if as_json
        else in_words(measured)
    )
    return 0


if __name__ == "__main__":
    from benchmarks import bias  # under its own name, so that other processes know its functions

    run(bias.main)

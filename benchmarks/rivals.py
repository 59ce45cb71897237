"""Which labels are wrong? `wrong` beside published ways to find them, on tables of which we know
the wrong labels.

    python -m benchmarks.rivals --choose --seeds 3000,3001 --jobs 16       which learner suits each rival best
    python -m benchmarks.rivals --seeds 20000,20001 --jobs 16 --json > some.json      the figures of docs/standard.md
    python -m benchmarks.rivals --summary some.json more.json              the tables of such files together

Fair-OBNC runs by its released code. It is not installed (aequitas needs torch and more): `pip
download --no-deps aequitas==1.1.0`, unzip the wheel, and name the folder with `--aequitas`. Without
it the row says "not installed".

Every way learns from the same rows and ranks the same labels: all labelled rows of a table, without
the protected column; groups are given apart. Of each rival the learner is the one that did best on
seeds below 10 000, among a plain logistic regression and the two models of our standard (of
Fair-OBNC its own tree too, and both of its orderings). `benchmarks.rival_methods` says of each
rival what is theirs and what is ours.

Tables are those of `benchmarks.planted`, a fifth of one group's favourable labels made adverse, in
three cases:

- `usual`: as they are. The shorted group then has the lower favourable rate in nearly all of them.
- `higher`: the shorted group has a favourable rate at least 5 points *higher* than the others,
because half of the rows
  were left out: of the group rather those with poor prospects, of the others rather those with good
  ones.
- `silent`: labels drawn by one standard and nothing planted, but the group's rate is at least 10
points lower, by the
  same means. No label is wrong.

Rows are left out by a model of the columns alone, so that people with the same columns still get
the same labels.

Figures: of the first n/4 and n adverse labels by each way, n the number planted, the share that was
planted; ± is the standard error over tables. `behind` is ours less theirs on the same tables, in
points, with the standard error of the pairs. `marked` is how many labels a way itself calls wrong
(ours: `wrong` of 0.5 and more; doubt: 0.5 and more), for 100 planted ones, and `right` the share of
those that were planted.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from sklearn.linear_model import LogisticRegression

from benchmarks.planted import BASES, GROUPS, KINDS, Floats, Mask, Planted, Rows
from benchmarks.rival_methods import (
    BASE_ESTIMATORS,
    DOWNLOAD,
    LEARNERS,
    ORDERINGS,
    WAYS,
    Suspicion,
    Table,
    fair_obnc,
    released_label_flipping,
)
from benchmarks.rows import (
    Columns,
    Row,
    check,
    line,
    measured_in,
    names,
    numbers,
    options,
    parse,
    run,
)
from butfor.errors import SettingError, TableError
from butfor.standard.compare import compare
from butfor.standard.groups import Standards
from butfor.standard.settings import ComparisonSettings
from butfor.support.cores import available_cores
from butfor.support.threads import single_threaded
from butfor.table.groups import Sensitive

CASES = ("usual", "higher", "silent")
PLANTED = tuple(kind for kind in KINDS if kind != "nothing")
LEAST_HIGHER, LEAST_LOWER = 0.05, 0.10
"""How much higher or lower the group's favourable rate is, in the cases `higher` and `silent`."""
TILTS = np.arange(0, 6.1, 0.5)
"""How strongly rows are left out by their prospects, in standard deviations of their logit; the
weakest that does."""
FEWEST_PLANTED = 8
"""Tables with fewer planted labels are left out."""
FIRST_JUDGED = 10_000
"""Learners are chosen on seeds below."""
PARTS = {"quarter": 4, "whole": 1}
"""Labels looked at: the number planted, divided by these."""
MARKED = 0.5
"""Of `wrong` and of doubt."""
OBNC = "Fair-OBNC"
CHOSEN = {
    "FairLabel": "standard",
    "Massaging": "logistic",
    "DeCoLe": "standard",
    "cleanlab": "logistic",
    OBNC: "tree, residuals",
}
"""The variant of each rival, chosen on seeds below 10 000 (`--choose`)."""
OURS = "wrong"
TITLES = {
    OURS: "butfor's wrong",
    "doubt": "butfor's doubt",
    "FairLabel": "FairLabel (arXiv 2311.00638)",
    OBNC: "Fair-OBNC (aequitas 1.1.0)",
    "Massaging": "Massaging (2012)",
    "cleanlab": "cleanlab's self-confidence",
    "DeCoLe": "DeCoLe (arXiv 2507.07216)",
    "chance": "chance",
}


# --- the tables -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """One table with labels that are known to be wrong, or with none."""

    case: str
    planted: Planted

    @cached_property
    def rows(self) -> Rows:
        """Those of the planted table that take part, by position."""
        everybody = np.arange(len(self.planted.X))
        if self.case == "usual":
            return everybody
        sign, least = (1, LEAST_HIGHER) if self.case == "higher" else (-1, LEAST_LOWER)
        luck = np.random.default_rng([self.planted.seed, 21]).gumbel(size=len(everybody))
        inside, labels = self.planted.inside, self.planted.labels
        for tilt in TILTS:
            wanted = luck + sign * tilt * np.where(inside, self._prospects, -self._prospects)
            kept = np.concatenate(
                [_first_half(wanted, np.flatnonzero(side)) for side in (inside, ~inside)]
            )
            kept = np.sort(kept)
            gap = labels[kept][inside[kept]].mean() - labels[kept][~inside[kept]].mean()
            if sign * gap >= least:
                return kept
        raise TableError(f"No choice of rows makes the group's rate {least:.0%} {self.case}.")

    @cached_property
    def _prospects(self) -> Floats:
        """The logit of a favourable label by the columns alone, before planting, in standard
        deviations `[rows]`."""
        model = LogisticRegression(max_iter=2000).fit(self.planted.inputs, self.planted.clean)
        logits = np.asarray(model.decision_function(self.planted.inputs), np.float64)
        return (logits - logits.mean()) / logits.std()

    @cached_property
    def wrong(self) -> Mask:
        """Which labels were planted `[rows]`."""
        return np.isin(self.rows, self.planted.rows)

    @cached_property
    def table(self) -> Table:
        """What every way is given."""
        groups = self.planted.X[self.planted.attribute].to_numpy(str)[self.rows]
        return Table(self.planted.inputs[self.rows], self.planted.labels[self.rows], groups)

    @cached_property
    def standards(self) -> Standards:
        """The comparison of an audit, on these rows."""
        X = self.planted.X.iloc[self.rows]
        protected = [Sensitive.of(self.planted.attribute, X)]
        sides = ("adverse",), ("favourable",)
        settings = ComparisonSettings(draws=self.planted.draws, n_jobs=1)
        return compare(X, self.table.favourable, protected, settings, sides=sides)


def _first_half(wanted: Floats, rows: Rows) -> Rows:
    """The half of these rows that is wanted most."""
    return np.asarray(rows[np.argsort(-wanted[rows], kind="stable")][: (len(rows) + 1) // 2])


# --- one table ------------------------------------------------------------------------------------


def measure(
    case: Case, variants: dict[str, list[str]], aequitas: Path | None, alone: bool = False
) -> list[Row]:
    """One row per way and variant; a table without enough planted labels says so. `alone`: rivals,
    without ours."""
    planted = case.planted
    about: Row = {
        "case": case.case,
        "set": planted.name,
        "kind": planted.kind,
        "base": planted.base,
    }
    about["seed"] = planted.seed
    begun = time.process_time()
    with warnings.catch_warnings(action="ignore"), single_threaded():
        try:
            about |= {"rows": len(case.rows), "planted": int(case.wrong.sum())}
            if planted.kind != "nothing" and about["planted"] < FEWEST_PLANTED:
                return [about | {"way": "failed", "why": f"{about['planted']} planted labels"}]
            found = [] if alone else own_ways(case)
        except TableError as error:
            return [about | {"way": "failed", "why": str(error)}]
        for way, each in variants.items():
            for variant in each:
                found.append(
                    {"way": way, "variant": variant}
                    | judged(case, rival(case, way, variant, aequitas))
                )
    about["seconds"] = time.process_time() - begun
    return [about | row for row in found]


def own_ways(case: Case) -> list[Row]:
    """By `wrong`, with what the comparison says of the group; by doubt; and by chance."""
    comparison = case.standards.of_group(case.planted.group)
    if comparison is None:
        raise TableError(" ".join(each.sentence for each in case.standards.left_out))
    low, high = comparison.interval or (np.nan, np.nan)
    group: Row = {
        "called": comparison.short,
        "raw_gap": comparison.raw_gap,
        "lacks": comparison.difference * comparison.rows,
        "lacks_low": low * comparison.rows,
        "lacks_high": high * comparison.rows,
    }
    return [ours(case) | group, doubt(case), chance(case)]


def ours(case: Case) -> Row:
    """`to_frame()` of the comparison: its rank, and the labels marked as wrong, in called groups
    and if all gaps were real."""
    frame = case.standards.to_frame()
    score = -np.asarray(frame["rank"].astype(float), np.float64)
    marked = frame["wrong"].to_numpy() >= MARKED
    if_real = frame["wrong_if_real"].to_numpy() >= MARKED
    row = judged(case, Suspicion(score, marked))
    return {"way": OURS, "variant": "", "marked_if_real": int((marked | if_real).sum())} | row


def doubt(case: Case) -> Row:
    score = np.nan_to_num(case.standards.doubt, nan=-1.0)
    return {"way": "doubt", "variant": ""} | judged(
        case, Suspicion(score, case.table.adverse & (score >= MARKED))
    )


def chance(case: Case) -> Row:
    score = np.asarray(
        np.random.default_rng([case.planted.seed, 7]).random(len(case.rows)), np.float64
    )
    return {"way": "chance", "variant": ""} | judged(
        case, Suspicion(score, np.zeros(len(score), bool)), marks=False
    )


def rival(case: Case, way: str, variant: str, aequitas: Path | None) -> Suspicion:
    if way != OBNC:
        return WAYS[way](case.table, variant)
    learner, ordering = variant.split(", ")
    assert aequitas is not None
    return fair_obnc(case.table, learner, aequitas, ordering)


def judged(case: Case, suspicion: Suspicion, marks: bool = True) -> Row:
    """The share planted among the first adverse labels, and how many labels a way calls wrong
    itself."""
    row: Row = {}
    if case.wrong.any():
        adverse = np.flatnonzero(case.table.adverse)
        shuffled = np.random.default_rng([case.planted.seed, 8]).permutation(
            adverse
        )  # ties in random order
        order = shuffled[np.argsort(-suspicion.score[shuffled], kind="stable")]
        for name, part in PARTS.items():
            row[name] = float(case.wrong[order[: -(-int(case.wrong.sum()) // part)]].mean())
    if marks:
        row |= {
            "marked": int(suspicion.changed.sum()),
            "right": int((suspicion.changed & case.wrong).sum()),
        }
    return row


# --- all tables together --------------------------------------------------------------------------


def mean_of(values: pd.Series, name: str, factor: float = 1.0) -> Row:
    """The mean and its standard error; nothing of no values."""
    known = values.dropna().to_numpy(float) * factor
    if not len(known):
        return {}
    error = float(known.std(ddof=1) / np.sqrt(len(known))) if len(known) > 1 else None
    return {name: float(known.mean()), f"{name}_error": error}


def summary(measured: Sequence[Row]) -> dict[str, list[Row]]:
    """Per case one row per way and variant, ours first."""
    frame = pd.DataFrame([row for row in measured if row["way"] not in ("failed", "absent")])
    found: dict[str, list[Row]] = {}
    if not len(frame):
        return found
    for case in CASES:
        part = frame[frame["case"] == case]
        if len(part):
            ways = set(zip(part["way"].astype(str), part["variant"].astype(str), strict=True))
            in_case = in_silence if case == "silent" else in_ranks
            in_turn = sorted(ways, key=lambda each: (list(TITLES).index(each[0]), each[1]))
            found[case] = [in_case(part, way, variant) for way, variant in in_turn]
    found["how many"] = [row for case in ("usual", "higher") for row in how_many(frame, case)]
    return found


def in_ranks(part: pd.DataFrame, way: str, variant: str) -> Row:
    """The share planted among the first labels: over all kinds, and by kind; and how far ours is
    ahead, in points."""
    some = _of(part, way, variant)
    row: Row = {"way": TITLES[way], "variant": variant, "tables": len(some)}
    pairs = _of(part, OURS, "").join(some, rsuffix="_theirs")
    for name in PARTS:
        row |= mean_of(some[name], name)
        if way not in (OURS, "chance"):
            ahead = pairs[name] - pairs[f"{name}_theirs"]
            row |= mean_of(ahead, f"ahead_{name}", 100)
        for kind in PLANTED:
            row |= (
                mean_of(some.xs(kind, level="kind")[name], f"{kind}_{name}")
                if kind in _kinds(some)
                else {}
            )
            if way not in (OURS, "chance") and kind in _kinds(some):
                row |= mean_of(ahead.xs(kind, level="kind"), f"ahead_{kind}_{name}", 100)
    planted, marked = some["planted"].sum(), some["marked"].sum()
    if way != "chance":
        row["marked"] = 100 * float(marked) / float(planted)
        row["right"] = float(some["right"].sum()) / float(marked) if marked else None
    return row


def in_silence(part: pd.DataFrame, way: str, variant: str) -> Row:
    """Labels that are called wrong where none is, per table and per 1 000 rows."""
    some = _of(part, way, variant)
    row: Row = {"way": TITLES[way], "variant": variant, "tables": len(some)}
    if way == "chance":
        return row
    row |= mean_of(some["marked"], "marked") | mean_of(some["marked"] > 0, "any", 100)
    row["thousand"] = 1000 * float(some["marked"].sum()) / float(some["rows"].sum())
    if way == OURS:
        row |= mean_of(some["called"], "called", 100) | mean_of(some["marked_if_real"], "if_real")
    return row


def how_many(frame: pd.DataFrame, case: str) -> list[Row]:
    """The gap times the group's rows less the number planted, on drawn labels, and how often the
    interval has it."""
    some = frame[(frame["case"] == case) & (frame["way"] == OURS) & (frame["base"] == "drawn")]
    if not len(some):
        return []
    off = (some["lacks"] - some["planted"]) / some["planted"]
    covered = (some["lacks_low"] <= some["planted"]) & (some["planted"] <= some["lacks_high"])
    about: Row = {"case": case, "tables": len(some), "planted": int(some["planted"].sum())}
    about["lacks"] = float(some["lacks"].sum())
    return [
        about
        | mean_of(off, "off", 100)
        | mean_of(covered, "covered", 100)
        | mean_of(some["called"], "called", 100)
    ]


def _of(part: pd.DataFrame, way: str, variant: str) -> pd.DataFrame:
    some = part[(part["way"] == way) & (part["variant"] == variant)]
    return some.set_index(["set", "kind", "base", "seed"])


def _kinds(some: pd.DataFrame) -> set[str]:
    return set(some.index.get_level_values("kind"))


# --- in words -------------------------------------------------------------------------------------

WAY: Columns = {f"{'ranked by':30}": "{way}", f"{'learner':24}": "{variant}", "tables": "{tables}"}
RANKS: Columns = {
    "         n/4": "{quarter:.3f} ± {quarter_error:.3f}",
    "            n": "{whole:.3f} ± {whole_error:.3f}",
    "ahead at n/4": "{ahead_quarter:+.1f} ± {ahead_quarter_error:.1f}",
    "  ahead at n": "{ahead_whole:+.1f} ± {ahead_whole_error:.1f}",
    "marked": "{marked:.0f}",
    "right": "{right:.2f}",
}
BY_KIND: Columns = {
    f"{kind} {heading}": f"{{{kind}_{name}:.2f}}"
    for kind, (name, heading) in product(PLANTED, zip(PARTS, ("n/4", "n"), strict=True))
}
AHEAD_BY_KIND: Columns = {
    f"{kind:>8} {heading:>3}": f"{{ahead_{kind}_{name}:+.1f}} ± {{ahead_{kind}_{name}_error:.1f}}"
    for kind, (name, heading) in product(PLANTED, zip(PARTS, ("n/4", "n"), strict=True))
}
SILENCE: Columns = {
    "marked a table": "{marked:.1f} ± {marked_error:.1f}",
    "per 1000 rows": "{thousand:.1f}",
    "any, % of tables": "{any:.0f}",
    "group called, %": "{called:.1f} ± {called_error:.1f}",
    "if every gap were real": "{if_real:.1f} ± {if_real_error:.1f}",
}
CHOICE: Columns = WAY | {" n/4": "{quarter:.3f}", "   n": "{whole:.3f}", " mean": "{mean:.3f}"}
COUNTS: Columns = {
    "case    ": "{case}",
    "tables": "{tables}",
    "planted": "{planted}",
    "lacked": "{lacks:.0f}",
    " off, % of planted": "{off:+.0f} ± {off_error:.0f}",
    "interval covers, %": "{covered:.1f} ± {covered_error:.1f}",
    "   called, %": "{called:.0f} ± {called_error:.0f}",
}
HEADINGS = {
    "usual": "Tables as they are: wrong among the first n/4 and n adverse labels; ours less "
    "theirs, in points",
    "higher": "The shorted group has the higher favourable rate: the same",
    "silent": "A raw gap of 10 points and more, nothing planted: labels that are called wrong "
    "although none is",
}
FOOTER = """\
Theirs and ours: every rival gets the rows, labels and groups that ours gets, and no protected column. Its idea, its
choice of groups and its scores are theirs; the learner is the better of two (see --choose), and that its scores order
all adverse labels is ours. Fair-OBNC is the authors' code, but for the order: its scores within the groups that it
raises. FairLabel and DeCoLe are written from abstracts and descriptions, Massaging and cleanlab's scores from their
papers. Details: benchmarks/rival_methods.py."""


def in_words(measured: Sequence[Row]) -> str:
    """All tables of results, with how many tables there were, and what is theirs and what is
    ours."""
    failed = [row for row in measured if row["way"] == "failed"]
    count = sum(row["way"] == OURS for row in measured)
    lines = [f"{count} tables; {len(failed)} left out."]
    absent = [f"{TITLES[OBNC]}: not installed. {DOWNLOAD}, unzip the wheel, --aequitas FOLDER."]
    absent = absent if any(row["way"] == "absent" for row in measured) else []
    found = summary(measured)
    for case in (each for each in CASES if each in found):
        lines += ["", HEADINGS[case]]
        blocks = (
            [WAY | SILENCE]
            if case == "silent"
            else [WAY | RANKS, WAY | BY_KIND, WAY | AHEAD_BY_KIND]
        )
        for columns in blocks:
            lines += [" ".join(columns), *(line(row, columns) for row in found[case]), *absent, ""]
    if found.get("how many"):
        lines += [
            "How many labels: the gap times the group's rows, beside the number planted, on drawn "
            "labels"
        ]
        lines += [" ".join(COUNTS), *(line(row, COUNTS) for row in found["how many"]), ""]
    return "\n".join([*lines, FOOTER])


def choice(measured: Sequence[Row]) -> list[Row]:
    """Per rival and variant the share planted among the first n/4 and n labels, over `usual` and
    `higher`, and the mean of both; the best variant of each rival first."""
    frame = pd.DataFrame(
        [row for row in measured if row["way"] in CHOSEN and row["case"] != "silent"]
    )
    rows: list[Row] = []
    for way in (each for each in CHOSEN if each in set(frame["way"])):
        some = frame[frame["way"] == way]
        means = (
            some.groupby("variant")[list(PARTS)].mean().assign(mean=lambda each: each.mean(axis=1))
        )
        means = means.sort_values("mean", ascending=False, kind="stable").reset_index()
        for values in means.to_dict("records"):
            row: Row = {"way": TITLES[way], "tables": len(some) // len(means)}
            rows.append(row | {str(name): value for name, value in values.items()})
    return rows


# --- the command ----------------------------------------------------------------------------------


def variants_of(choose: bool, aequitas: Path | None) -> dict[str, list[str]]:
    """The variants of each rival that take part; Fair-OBNC only with its code."""
    if not choose:
        found = {way: [variant] for way, variant in CHOSEN.items()}
    else:
        found = {way: list(LEARNERS) for way in WAYS}
        found[OBNC] = [", ".join(each) for each in product(BASE_ESTIMATORS, ORDERINGS)]
    if aequitas is None:
        del found[OBNC]
    return found


def cases_of(
    asked: Sequence[str], datasets: Sequence[str], seeds: Sequence[int], draws: int
) -> list[Case]:
    """Every table that is asked for; those of the largest sets first, which take longest."""
    largest = sorted(datasets, key=["default", "adult", "compas", "german", "student"].index)
    found = []
    for name, case, seed in product(largest, asked, seeds):
        kinds, bases = (("nothing",), ("drawn",)) if case == "silent" else (PLANTED, BASES)
        found += [
            Case(case, Planted(name, kind, base, seed, draws=draws))
            for kind, base in product(kinds, bases)
        ]
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    parser = options(__doc__)
    parser.add_argument("--datasets", type=names, default=list(GROUPS))
    parser.add_argument("--cases", type=names, default=list(CASES))
    parser.add_argument("--seeds", type=numbers, default=[3000])
    parser.add_argument("--draws", type=int, default=99, help="of the comparison of groups")
    parser.add_argument(
        "--aequitas", type=Path, metavar="FOLDER", help="what the wheel of aequitas 1.1.0 contains"
    )
    parser.add_argument(
        "--choose",
        action="store_true",
        help="try each rival with each learner, on seeds below 10 000",
    )
    parser.add_argument(
        "--jobs", type=int, default=available_cores(), help="processes, of one thread each"
    )
    parser.add_argument(
        "--summary", nargs="+", type=Path, metavar="FILE", help="what --json printed before"
    )
    as_json, given = parse(parser, arguments)
    o: Any = argparse.Namespace(**given)
    if o.summary:
        measured = measured_in(o.summary)
    else:
        check(o.datasets, list(GROUPS), "datasets")
        check(o.cases, CASES, "cases")
        if o.choose and max(o.seeds) >= FIRST_JUDGED:
            raise SettingError(
                f"--choose takes seeds below {FIRST_JUDGED}: figures are published from the others."
            )
        if o.aequitas is not None:
            o.aequitas = o.aequitas.resolve()
            released_label_flipping(o.aequitas)
        cases = cases_of(o.cases, o.datasets, o.seeds, o.draws)
        variants = variants_of(o.choose, o.aequitas)
        work = partial(measure, variants=variants, aequitas=o.aequitas, alone=o.choose)
        results = Parallel(o.jobs, batch_size=1)(delayed(work)(case) for case in cases)
        measured = [row for rows in results for row in rows]
        if o.aequitas is None:
            measured.append(
                {"way": "absent", "case": "", "why": f"{OBNC}: not installed. {DOWNLOAD}"}
            )
    if o.choose:
        rows = choice(measured)
        print(
            json.dumps(rows)
            if as_json
            else "\n".join([" ".join(CHOICE), *(line(row, CHOICE) for row in rows)])
        )
    elif as_json:
        print(json.dumps({"chosen": CHOSEN, "summary": summary(measured), "measured": measured}))
    else:
        print(in_words(measured))
    return 0


if __name__ == "__main__":
    from benchmarks import rivals  # under its own name, so that other processes know its functions

    run(rivals.main)

"""The tables of the paper, ours beside theirs.

A table is a frame whose columns have two levels: what is counted, and "ours" or "paper". `shown`
turns it into text for a terminal, `flat` into plain columns for CSV. `rows` is table 1 as JSON
records. Where several model seeds were run, ours is a `Spread`: the mean and the range.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import combinations
from typing import Any

import pandas as pd

from butfor.table.embedded import SPECS
from evaluation.published import PUBLISHED, named
from evaluation.results import RankResult, Result, Run, Spread
from evaluation.settings import published_setting

OURS, PAPER = "ours", "paper"
NAMES = {
    "combined": "method",
    "chance": "random",
    "distance": "L2",
    "surrogate": "y_L only",
    "activation": "y_A only",
}
"""The paper's words for rankings; others keep our name."""
TITLES = {
    "table1": "Table 1: counterfactual datasets found",
    "table2": "Table 2: seconds per person, per retraining and of overhead",
    "oneshot": "Found at the first attempt",
    "overlap": "Who is found by which ranking",
    "ablation": "Ablation: each score alone",
    "setup": "Data sets and setups",
}


def ranks_in(results: Iterable[Result], wanted: Sequence[str] | None = None) -> list[str]:
    """Rankings that any result has, the paper's first; only the wanted ones where some are
    named."""
    present = dict.fromkeys(rank for result in results for rank in result.rankings())
    order = [
        *(rank for rank in NAMES if rank in present),
        *(rank for rank in present if rank not in NAMES),
    ]
    return [rank for rank in order if wanted is None or rank in wanted]


def main_ranks(results: Iterable[Result]) -> list[str]:
    """Every ranking but the method's halves, which have a table of their own."""
    return [rank for rank in ranks_in(results) if rank not in ("surrogate", "activation")]


def title_of(result: Result) -> str:
    """The data set's name, marked where only a sample was run."""
    return (
        result.dataset
        if result.sample is None
        else f"{result.dataset} (sample: first {result.sample})"
    )


def table1(results: Sequence[Result], ranks: Sequence[str] | None = None) -> pd.DataFrame:
    """#φ, the range of n_ψ, the ground truth, and how many each ranking finds."""
    rows = []
    for result in results:
        paper = PUBLISHED[result.dataset]
        row: dict[tuple[str, str], Any] = {
            ("data set", ""): title_of(result),
            ("#φ", OURS): _over(result, lambda run: len(run.eligible)),
            ("#φ", PAPER): paper.eligible,
            ("n_ψ", OURS): _range(result),
            ("n_ψ", PAPER): f"{paper.n_psi[0]}–{paper.n_psi[1]}",
            ("GT", OURS): _over(
                result, lambda run: None if run.ground_truth is None else len(run.ground_truth)
            ),
            ("GT", PAPER): paper.ground_truth,
        }
        rows.append(row | _counts(result, ranks_in(results, ranks), _found, paper.found))
    return _frame(rows)


def oneshot(results: Sequence[Result], ranks: Sequence[str] | None = None) -> pd.DataFrame:
    """How many each ranking finds at the first attempt."""
    rows = []
    for result in results:
        counts = _counts(
            result, ranks_in(results, ranks), _one_shot, PUBLISHED[result.dataset].one_shot
        )
        rows.append({("data set", ""): title_of(result)} | counts)
    return _frame(rows)


def ablation(results: Sequence[Result]) -> pd.DataFrame:
    """The combined score and each of its halves alone: found, and found at the first attempt."""
    rows = []
    for result in results:
        paper, ranks = (
            PUBLISHED[result.dataset],
            ranks_in(results, ("combined", "surrogate", "activation")),
        )
        found = _counts(result, ranks, _found, paper.found)
        first = _counts(result, ranks, _one_shot, paper.one_shot)
        rows.append(
            {("data set", ""): title_of(result)}
            | {(f"{what}, found", whose): count for (what, whose), count in found.items()}
            | {(f"{what}, one-shot", whose): count for (what, whose), count in first.items()}
        )
    return _frame(rows)


def table2(results: Sequence[Result], ranks: Sequence[str] | None = None) -> pd.DataFrame:
    """Seconds, and how much faster a retraining is than the plain PyTorch loop on the same
    machine."""
    rows = []
    for result in results:
        paper = PUBLISHED[result.dataset]
        plain = _over(result, lambda run: run.plain_seconds, 4)
        for rank in ranks_in([result], ranks):
            each = _of_rank(result, rank, lambda run, r: r.times.per_retraining(), 4)
            rows.append(
                {
                    ("data set", ""): title_of(result),
                    ("ranking", ""): NAMES.get(rank, rank),
                    ("per person", OURS): _of_rank(
                        result, rank, lambda run, r: r.times.per_person(len(run.eligible)), 3
                    ),
                    ("per person", PAPER): _hundredths(paper.per_person.get(rank)),
                    ("per retraining", OURS): each,
                    ("per retraining", PAPER): _hundredths(paper.per_retraining.get(rank)),
                    ("overhead", OURS): _of_rank(
                        result, rank, lambda run, r: r.times.overhead(len(run.eligible)), 4
                    ),
                    ("overhead", PAPER): _hundredths(paper.overhead.get(rank)),
                    ("plain loop, per retraining", ""): plain,
                    ("plain loop ÷ engine", ""): f"{plain.mean / each.mean:.0f} ×"
                    if plain and each
                    else None,
                }
            )
    return _frame(rows)


def overlap(
    results: Sequence[Result], ranks: Sequence[str] = ("combined", "chance", "distance")
) -> pd.DataFrame:
    """People by the set of rankings that find them (first seed), the regions of a Venn diagram."""
    rows = []
    for result in results:
        present = ranks_in([result], ranks)
        counted = regions(result.first, present)
        row: dict[tuple[str, str], Any] = {("data set", ""): title_of(result)}
        for size in range(1, len(ranks) + 1):
            for some in combinations(ranks, size):
                words = " and ".join(NAMES.get(rank, rank) for rank in some)
                words = (
                    f"only {words}"
                    if size == 1
                    else words
                    if size == len(ranks)
                    else f"{words} only"
                )
                known = set(some) <= set(present)
                row[(words, OURS)] = counted.get(frozenset(some), 0) if known else None
        for rank in ranks:
            total = len(result.first.rankings[rank].found) if rank in present else None
            row[(f"all of {NAMES.get(rank, rank)}", OURS)] = total
            row[(f"all of {NAMES.get(rank, rank)}", PAPER)] = PUBLISHED[result.dataset].found.get(
                rank
            )
        rows.append(row)
    return _frame(rows)


def logits(results: Sequence[Result], ranks: Sequence[str] | None = None) -> pd.DataFrame:
    """The logits before any flip of the people each ranking finds (first seed): the numbers of a
    box plot."""
    rows = []
    for result in results:
        for rank in ranks_in([result], ranks):
            found = pd.Series(
                [p.logit for p in result.first.rankings[rank].people if p.found], dtype=float
            )
            marks = {
                f"{q:.0%}": f"{found.quantile(q):+.3f}" if len(found) else None
                for q in (0, 0.25, 0.5, 0.75, 1)
            }
            row = {
                "data set": title_of(result),
                "ranking": NAMES.get(rank, rank),
                "found": len(found),
            } | marks
            row["median distance from 0"] = f"{found.abs().median():.3f}" if len(found) else None
            rows.append({(key, ""): value for key, value in row.items()})
    return _frame(rows)


def regions(run: Run, ranks: Sequence[str]) -> dict[frozenset[str], int]:
    """For each set of rankings, how many people exactly those rankings find."""
    found = {rank: set(run.rankings[rank].found) for rank in ranks}
    counted: dict[frozenset[str], int] = {}
    for case in set().union(*found.values()) if found else ():
        by = frozenset(rank for rank in ranks if case in found[rank])
        counted[by] = counted.get(by, 0) + 1
    return counted


def setup(results: Sequence[Result] = ()) -> pd.DataFrame:
    """The data table: sizes, inputs and budgets as published, and the settings the runs used."""
    used = {result.dataset: result.setting for result in results}
    rows = []
    for spec in SPECS.values():
        setting = used.get(spec.name) or published_setting(spec.name)
        rows.append(
            {
                ("data set", ""): spec.name,
                ("protected", ""): spec.sensitive,
                ("train/val/test", ""): "/".join(map(str, spec.sizes)),
                ("m", ""): spec.setup.budget,
                ("inputs", ""): spec.inputs,
                ("hidden", ""): f"{len(spec.setup.hidden)}×{spec.setup.hidden[0]}",
                ("epochs at most", ""): spec.setup.max_epochs,
                ("batch", ""): str(setting.batch_size or "full"),
                ("numbers", ""): setting.numeric,
                ("split seed", ""): setting.split_seed,
                ("embedding seed", ""): setting.embedding_seed,
            }
        )
    return _frame(rows)


def rows(results: Sequence[Result], ranks: Sequence[str] | None = None) -> list[dict[str, Any]]:
    """Table 1 as JSON records. With several seeds the counts are means, and `ranges` has their
    ends."""
    records = []
    for result in results:
        present = ranks_in([result], ranks)
        found = {rank: _of_rank(result, rank, _found) for rank in present}
        first = {rank: _of_rank(result, rank, _one_shot) for rank in present}
        truth = _over(
            result, lambda run: None if run.ground_truth is None else len(run.ground_truth)
        )
        lows, highs = zip(*(run.n_psi for run in result.runs), strict=True)
        record: dict[str, Any] = {
            "dataset": result.dataset,
            "eligible": _plain(_over(result, lambda run: len(run.eligible))),
            "n_psi": [min(lows), max(highs)],
            "ground_truth": _plain(truth),
            "found": named({rank: _plain(count) for rank, count in found.items()}),
            "one_shot": named({rank: _plain(count) for rank, count in first.items()}),
            "published": PUBLISHED[result.dataset].to_dict(),
            "sample": result.sample,
            "seeds": len(result.runs),
        }
        if len(result.runs) > 1:
            kinds = {"found": found, "one_shot": first}
            record["ranges"] = {
                kind: named({rank: [c.low, c.high] for rank, c in counts.items() if c})
                for kind, counts in kinds.items()
            }
        records.append(record)
    return records


def shown(frame: pd.DataFrame) -> pd.DataFrame:
    """For a terminal: one column per count, its cells "ours (paper)"."""
    by_what: dict[str, list[list[str]]] = {}
    for at, what in enumerate(frame.columns.get_level_values(0)):
        by_what.setdefault(what, []).append([cell(value) for value in frame.iloc[:, at]])
    return pd.DataFrame(
        {
            what: both[0]
            if len(both) == 1
            else [f"{ours} ({paper})" for ours, paper in zip(*both, strict=True)]
            for what, both in by_what.items()
        }
    )


def flat(frame: pd.DataFrame) -> pd.DataFrame:
    """For CSV: "#φ ours", "#φ paper", and so on, numbers as text."""
    plain = frame.map(cell)
    if isinstance(frame.columns, pd.MultiIndex):
        plain.columns = pd.Index(
            [" ".join(part for part in pair if part) for pair in frame.columns]
        )
    return plain


def cell(value: Any) -> str:
    """A cell as text; what is not known is a dash."""
    return "–" if value is None or (isinstance(value, float) and value != value) else str(value)


def _frame(rows: Sequence[dict[tuple[str, str], Any]]) -> pd.DataFrame:
    columns = list(dict.fromkeys(key for row in rows for key in row))
    data = [[row.get(key) for key in columns] for row in rows]
    whats, whose = ([key[level] for key in columns] for level in (0, 1))
    return pd.DataFrame(data, columns=pd.MultiIndex.from_arrays([whats, whose]), dtype=object)


def _counts(
    result: Result,
    ranks: Sequence[str],
    count: Callable[[Run, RankResult], float | None],
    paper: dict[str, int],
) -> dict[tuple[str, str], Any]:
    row: dict[tuple[str, str], Any] = {}
    for rank in ranks:
        row[(NAMES.get(rank, rank), OURS)] = (
            _of_rank(result, rank, count) if rank in result.rankings() else None
        )
        if rank in NAMES:
            row[(NAMES[rank], PAPER)] = paper.get(rank)
    return row


def _hundredths(seconds: float | None) -> str | None:
    return None if seconds is None else f"{seconds:.2f}"


def _found(run: Run, ranking: RankResult) -> int:
    return len(ranking.found)


def _one_shot(run: Run, ranking: RankResult) -> int:
    return len(ranking.one_shot)


def _of_rank(
    result: Result, rank: str, count: Callable[[Run, RankResult], float | None], digits: int = 1
) -> Spread | None:
    return Spread.of([count(run, run.rankings[rank]) for run in result.runs], digits)


def _over(result: Result, count: Callable[[Run], float | None], digits: int = 1) -> Spread | None:
    return Spread.of([count(run) for run in result.runs], digits)


def _range(result: Result) -> str:
    lows, highs = zip(*(run.n_psi for run in result.runs), strict=True)
    return f"{min(lows)}–{max(highs)}"


def _plain(spread: Spread | None) -> float | int | None:
    if spread is None:
        return None
    return int(spread.mean) if spread.mean == int(spread.mean) else round(spread.mean, 3)

"""The page: the evaluation as one self-contained HTML report, in the look of the audit report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
from jinja2 import Environment
from markupsafe import Markup

from butfor import __version__
from butfor.report.charts import Drawing
from butfor.report.page import environment
from butfor.result.words import RANKINGS
from butfor.support.errors import plural
from evaluation import figures, tables
from evaluation.published import HARDWARE, PUBLISHED, SOURCE
from evaluation.results import Result
from evaluation.runs import ABLATIONS, PICTURED, RANKS
from evaluation.sweep import SweepTables


def all_figures(results: Sequence[Result], data_home: Path | None = None) -> dict[str, Drawing]:
    """Every figure that these results allow, by the name of its file."""
    drawn: dict[str, Drawing] = {}
    if any(set(RANKS) <= set(result.rankings()) for result in results):
        drawn["overlap"] = figures.venn(results, RANKS)
    ablated = [result for result in results if {"combined", *ABLATIONS} <= set(result.rankings())]
    if ablated:
        drawn["ablation"] = figures.venn(ablated, ("combined", *ABLATIONS))
    if results:
        drawn["attempts"] = figures.heat_bars(results, tables.ranks_in(results))
        drawn["boundary"] = figures.boundary(results, RANKS)
    for result in results:
        for case in PICTURED.get(result.dataset, ()):
            figure = figures.pictured(result, case, data_home=data_home)
            if figure is not None:
                drawn[f"case-{result.dataset}-{case}"] = figure
    for name, drawing in drawn.items():
        drawing.title = CAPTIONS.get(name, name)
    return drawn


def evaluation_page(
    results: Sequence[Result],
    *,
    left_out: Mapping[str, str] | None = None,
    sweep: SweepTables | None = None,
    command: str = "",
    drawn: Mapping[str, Drawing] | None = None,
) -> str:
    """The whole HTML document. `left_out`: data sets that were not run, each with the reason."""
    drawn = all_figures(results) if drawn is None else drawn
    main = tables.main_ranks(results)
    svg = {name: drawing.svg() for name, drawing in drawn.items()}
    return (
        _environment()
        .get_template("evaluation.html")
        .render(
            title="The published evaluation, run again",
            run={"butfor": __version__},
            results=results,
            headline=headline(results),
            lines=[sentence(result) for result in results],
            samples=[result for result in results if result.sample is not None],
            seeded=[result for result in results if len(result.runs) > 1],
            left_out=left_out or {},
            machines=list(dict.fromkeys((r.machine, r.engine) for r in results)),
            extra=[rank for rank in tables.ranks_in(results) if rank not in (*RANKS, *ABLATIONS)],
            table1=table_html(tables.table1(results, main)),
            oneshot=table_html(tables.oneshot(results, main)),
            overlap=table_html(_overlap(results)),
            ablation=table_html(
                tables.ablation([r for r in results if set(ABLATIONS) <= set(r.rankings())])
            ),
            table2=table_html(tables.table2(results, main)),
            setup=table_html(tables.setup(results)),
            sweep=sweep,
            around=table_html(_around(sweep)) if sweep else "",
            ridge=table_html(_by_ridge(sweep)) if sweep else "",
            figures={
                name: drawing for name, drawing in svg.items() if not name.startswith("case-")
            },
            cases={name: drawing for name, drawing in svg.items() if name.startswith("case-")},
            RANKINGS=RANKINGS,
            NAMES=tables.NAMES,
            SOURCE=SOURCE,
            HARDWARE=HARDWARE,
            command=command,
            plural=plural,
        )
    )


WIDE = 14
"""Columns beyond which a table is set tighter."""
CAPTIONS = {
    "overlap": "Venn diagrams: people found by the method, random sampling and L2",
    "ablation": "Venn diagrams: people found by the combined score and by each half alone",
    "attempts": "Bars of people found, shaded by the attempt that found them",
    "boundary": "Logits before any flip of the people found, per ranking",
}


def headline(results: Sequence[Result]) -> str:
    """What came out, in one sentence."""
    full = [result for result in results if result.sample is None]
    exact = [result.dataset for result in full if _reproduces(result)]
    if not full:
        return (
            f"A sample of {plural(len(results), 'data set')}: not comparable with the published "
            "counts."
        )
    rows = (
        f"{'its' if len(exact) == 1 else 'their'} published counts for the method and random "
        "sampling"
    )
    said = (
        f"{_listed(exact)} reproduce{'s' * (len(exact) == 1)} {rows}"
        if exact
        else "No row is reproduced exactly"
    )
    rest = [result.dataset for result in full if result.dataset not in exact]
    return (
        f"{said}; {_listed(rest)} do{'es' * (len(rest) == 1)} not."
        if rest and exact
        else f"{said}."
    )


def sentence(result: Result) -> str:
    """One data set in one sentence, by counts alone."""
    found = {rank: len(result.first.rankings[rank].found) for rank in result.rankings()}
    if "combined" not in found:
        return f"{tables.title_of(result)}: the published method was not run."
    parts = [
        f"the method finds {found['combined']} (published "
        f"{PUBLISHED[result.dataset].found['combined']})"
    ]
    for rank, words in (("chance", "random sampling"), ("distance", "L2")):
        if rank in found:
            parts.append(
                f"{words} {found[rank]} (published {PUBLISHED[result.dataset].found[rank]})"
            )
    if result.first.ground_truth is not None:
        published = PUBLISHED[result.dataset].ground_truth
        parts.append(f"{len(result.first.ground_truth)} have one at all (published {published})")
    people = plural(len(result.first.eligible), "eligible person").replace("persons", "people")
    name = tables.title_of(result)
    return f"{name[0].upper()}{name[1:]}: of {people}, {', '.join(parts)}."


def table_html(frame: pd.DataFrame) -> Markup:
    """A two-level frame as a table: what is counted over "ours" and "paper"."""
    if frame.empty:
        return Markup("")
    columns = [(str(key[0]), str(key[1])) for key in frame.columns]
    top, below = Markup(""), Markup("")
    for at, (what, whose) in enumerate(columns):
        if at and columns[at - 1][0] == what:
            continue
        span = sum(name == what for name, _ in columns)
        shape = Markup(' colspan="{}"').format(span) if whose else Markup(' rowspan="2"')
        css = Markup("") if not whose else Markup(' class="c"')
        top += Markup("<th{}{}>{}</th>").format(shape, css, what)
        for _, kind in columns[at : at + span]:
            below += Markup('<th class="n quiet">{}</th>').format(kind) if kind else Markup("")
    head = top if not below else Markup("{}</tr><tr>{}").format(top, below)
    body = Markup("").join(_body_row(columns, row) for row in frame.itertuples(index=False))
    css = Markup(' class="wide"') if len(columns) > WIDE else Markup("")
    return Markup("<table{}><thead><tr>{}</tr></thead><tbody>{}</tbody></table>").format(
        css, head, body
    )


def _body_row(columns: Sequence[tuple[str, str]], row: Sequence[Any]) -> Markup:
    cells = Markup("")
    for at, ((_, whose), value) in enumerate(zip(columns, row, strict=True)):
        text = tables.cell(value)
        if at == 0:
            cells += Markup("<th>{}</th>").format(text)
        elif whose == tables.PAPER:
            cells += Markup('<td class="n quiet">{}</td>').format(text)
        elif whose:
            cells += Markup('<td class="n">{}</td>').format(text)
        else:
            cells += Markup("<td>{}</td>").format(text)
    return Markup("<tr>{}</tr>").format(cells)


def _overlap(results: Sequence[Result]) -> pd.DataFrame:
    """The overlap table without the totals, which table 1 has; signs instead of words."""
    frame = tables.overlap(results, RANKS)
    kept = [
        at
        for at, what in enumerate(frame.columns.get_level_values(0))
        if not what.startswith("all of")
    ]
    names = [str(frame.columns[at][0]).replace(" and ", " ∩ ") for at in kept]
    return frame.iloc[:, kept].set_axis(
        pd.MultiIndex.from_tuples([(name, "") for name in names]), axis=1
    )


def _single(frame: pd.DataFrame) -> pd.DataFrame:
    """A plain frame as a table without ours and paper."""
    columns = pd.MultiIndex.from_tuples([(str(name), "") for name in frame.columns])
    return frame.set_axis(columns, axis=1).astype(object)


def _around(sweep: SweepTables) -> pd.DataFrame:
    words = {
        "dataset": "data set",
        "changed": "changed",
        "eligible": "#φ",
        "n_psi": "n_ψ",
        "ground_truth": "GT",
        "distance": "distance",
    }
    return _single(sweep.around[list(words)].rename(columns=words))


def _by_ridge(sweep: SweepTables) -> pd.DataFrame:
    """One line per data set, "found / one-shot" under each λ."""
    rows: dict[str, dict[str, str]] = {}
    for record in sweep.ridge.to_dict("records"):
        row = rows.setdefault(record["dataset"], {"data set": record["dataset"]})
        row[f"λ = {record['ridge']:g}"] = f"{record['found']} / {record['one_shot']}"
    return _single(pd.DataFrame(list(rows.values())))


def _reproduces(result: Result) -> bool:
    """Whether #φ, n_ψ, GT and the method's and random sampling's counts are the published ones."""
    published, run = PUBLISHED[result.dataset], result.first
    same = (len(run.eligible), run.n_psi) == (published.eligible, published.n_psi)
    truth = None if run.ground_truth is None else len(run.ground_truth)
    ranks = [rank for rank in ("combined", "chance") if rank in run.rankings]
    counts = all(len(run.rankings[rank].found) == published.found[rank] for rank in ranks)
    return same and truth == published.ground_truth and counts and bool(ranks)


def _listed(names: Sequence[str]) -> str:
    words = [name.capitalize() for name in names]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


@cache
def _environment() -> Environment:
    return environment("evaluation")

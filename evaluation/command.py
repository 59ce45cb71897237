"""`python -m evaluation`: the published evaluation, every table and figure, ours beside the
paper's.

    python -m evaluation table1                              # Salary, Student, German
    python -m evaluation table1 --datasets compas --cases 20
    python -m evaluation runs --datasets adult --out results --engine stacked --device cuda
    python -m evaluation all --results results --out page    # from files, as 'runs' writes them

Tables and 'runs' need only torch, pandas and scikit-learn, so that the large sets can be run on a
bare GPU machine and shown elsewhere. Results go to stdout or into --out, everything else to stderr.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from benchmarks.rows import names
from butfor.errors import SettingError
from butfor.table.embedded import DATASETS
from evaluation import tables
from evaluation.gather import SMALL, machinery_of, results_for, tell
from evaluation.results import read_result
from evaluation.runs import ABLATIONS, PICTURED, RANKS, run_dataset
from evaluation.stopwatch import LineProgress

if TYPE_CHECKING:
    from butfor.report.charts import Drawing

HALVES = ("combined", *ABLATIONS)
UNPUBLISHED = ("gradient",)
"""Rankings the paper did not have; they join its tables."""
EVERY = (*RANKS, *ABLATIONS, *UNPUBLISHED)


def main(arguments: Sequence[str] | None = None) -> None:
    given = parser().parse_args(arguments)
    given.command(given)


def parser() -> argparse.ArgumentParser:
    """One subcommand per function of COMMANDS; all but `setup` take the same options."""
    raw = argparse.RawDescriptionHelpFormatter
    made = argparse.ArgumentParser("python -m evaluation", description=__doc__, formatter_class=raw)
    commands = made.add_subparsers(required=True, metavar="COMMAND")
    for name, command in COMMANDS.items():
        text = command.__doc__ or ""
        one = commands.add_parser(
            name, help=text.splitlines()[0], description=text, formatter_class=raw
        )
        one.set_defaults(command=command)
        one.add_argument("--json", action="store_true", help="print rows as JSON, and nothing else")
        if command is not setup:
            _add_options(one)
        if command is seeds:
            one.add_argument(
                "--fresh-seeds", type=int, default=59, help="seeds that judge every find"
            )
    return made


def _add_options(one: argparse.ArgumentParser) -> None:
    one.add_argument(
        "--datasets",
        type=_some,
        help=f"with commas between; {','.join(SMALL)} or what --results has",
    )
    one.add_argument(
        "--ranks", type=_some, help="rankings, with commas between; those of the table by default"
    )
    one.add_argument("--cases", type=int, help="only the first N eligible people: a sample")
    one.add_argument("--seeds", type=int, default=1, help="model seeds 0 to N−1")
    one.add_argument("--engine", default="auto", help="what trains")
    one.add_argument("--device", help="a torch device, such as cuda")
    one.add_argument("--n-jobs", type=int, help="networks trained at a time on the CPU")
    one.add_argument("--ledger", type=Path, help="a file: what it remembers is not trained again")
    one.add_argument(
        "--results", type=Path, help="take the results in this directory; search for nothing"
    )
    one.add_argument("--data-home", type=Path, help="directory with original data files (Bank)")
    one.add_argument(
        "--out", type=Path, help="write tables (CSV), figures or results into this directory"
    )


def _some(text: str) -> list[str]:
    return list(dict.fromkeys(names(text)))


# --- commands -------------------------------------------------------------------------------------


def table1(given: argparse.Namespace) -> None:
    """People audited, flippable labels, ground truth, and counterfactual datasets found."""
    _counts(given, "table1")


def table2(given: argparse.Namespace) -> None:
    """Seconds per person, per retraining and of overhead."""
    _counts(given, "table2")


def oneshot(given: argparse.Namespace) -> None:
    """Found at the first attempt."""
    _counts(given, "oneshot")


def _counts(given: argparse.Namespace, name: str) -> None:
    results = results_for(given, (*RANKS, *UNPUBLISHED))
    frame = getattr(tables, name)(results, given.ranks or tables.main_ranks(results))
    rows = tables.rows(results) if name != "table2" else None
    show(given, name, frame, f"{tables.TITLES[name]}: ours (paper).", rows)


def seeds(given: argparse.Namespace) -> None:
    """How many of the finds hold under other seeds: the column that the published tables lack."""
    from evaluation.seeds import over_seeds

    if given.fresh_seeds < 1:
        raise SettingError(f"--fresh-seeds {given.fresh_seeds}: give at least 1.")
    results = results_for(given, ("combined",))
    rows = list(
        over_seeds(results, given.ranks or ("combined",), machinery_of(given), given.fresh_seeds)
    )
    caption = (
        "Of the finds: how single networks with fresh seeds decide, with the flips and without."
    )
    show(given, "seeds", pd.DataFrame(rows), caption, rows)


def overlap(given: argparse.Namespace) -> None:
    """Who is found by which ranking: the regions of the Venn diagrams."""
    results = results_for(given, RANKS)
    show(given, "overlap", tables.overlap(results), f"{tables.TITLES['overlap']}: ours (paper).")
    if given.out:
        from evaluation import figures

        write_figures(given.out, {"overlap": figures.venn(results, RANKS)})


def ablation(given: argparse.Namespace) -> None:
    """The combined score and each of its halves alone."""
    results = results_for(given, HALVES)
    show(given, "ablation", tables.ablation(results), f"{tables.TITLES['ablation']}: ours (paper).")
    if given.out:
        from evaluation import figures

        drawn = {
            "ablation": figures.venn(results, HALVES),
            "attempts": figures.heat_bars(results, HALVES),
        }
        write_figures(given.out, drawn)


def cases(given: argparse.Namespace) -> None:
    """The persons the paper draws beside their flipped rows: Salary 4 and 6, Adult 36, Compas 2."""
    from evaluation import figures

    records, drawn = [], {}
    for result in results_for(given, RANKS, default=("salary",)):
        for case in PICTURED.get(result.dataset, ()):
            for rank in result.rankings():
                if person := figures.person_of(result, case, rank):
                    records.append({"dataset": result.dataset, "ranking": rank} | asdict(person))
            figure = figures.pictured(result, case, data_home=given.data_home)
            if figure is not None:
                drawn[f"case-{result.dataset}-{case}"] = figure
    if given.json:
        print(json.dumps(records, ensure_ascii=False, indent=1))
    else:
        nothing = "None of the drawn cases is among the people that were run."
        print("\n".join(map(_sentence, records)) or nothing)
    if given.out:
        write_figures(given.out, drawn)


def _sentence(record: dict[str, Any]) -> str:
    start = f"{record['dataset']}, {record['ranking']}: for person {record['case']}"
    if not record["found"]:
        return f"{start} nothing was found."
    rows = ", ".join(map(str, record["positions"]))
    logits = f"{record['logit']:+.3f} to {record['counterfactual_logit']:+.3f}"
    return f"{start}, flipping the labels of training rows {rows} moves the logit from {logits}."


def boundary(given: argparse.Namespace) -> None:
    """The logits before any flip of the people found: quartiles, and box plots with --out."""
    results = results_for(given, RANKS)
    caption = "The logits before any flip of the people found (0 is the boundary)."
    show(given, "boundary", tables.logits(results), caption)
    if given.out:
        from evaluation import figures

        write_figures(given.out, {"boundary": figures.boundary(results, RANKS)})


def setup(given: argparse.Namespace) -> None:
    """The data sets and the settings they are run with."""
    given.out = None
    show(given, "setup", tables.setup(), tables.TITLES["setup"])


def sweep(given: argparse.Namespace) -> None:
    """Try what the paper does not state, on the small sets, and choose by #φ, n_ψ and ground truth
    alone.

    Takes about ten minutes per set on two cores. With --out, the chosen settings' results are
    written for --results.
    """
    from evaluation.sweep import SETS, SweepTables, swept

    wanted = given.datasets or SMALL
    if outside := [name for name in wanted if name not in SETS]:
        raise SettingError(
            f"There is no ground truth to be near to for {', '.join(outside)}; sweep "
            f"{', '.join(SETS)}."
        )
    machinery = machinery_of(given)
    tell(f"Sweeping {', '.join(wanted)}: #φ, n_ψ and ground truth of every plausible setting.")
    sweeps, found = SweepTables.empty(), []
    for name in wanted:
        one = swept(name, machinery, tell)
        sweeps = sweeps.joined(one)
        ranks, chosen = given.ranks or EVERY, one.chosen[name]
        found.append(
            run_dataset(
                name, ranks, setting=chosen, machinery=machinery, progress_kind=LineProgress
            )
        )
        if given.out:
            found[-1].write(given.out)
            one.grid.to_csv(given.out / f"sweep-{name}.csv", index=False)
            sweeps.write(given.out)
    if given.json:
        print(
            json.dumps(
                sweeps.to_dict() | {"rows": tables.rows(found)}, ensure_ascii=False, indent=1
            )
        )
        return
    print_frame(
        sweeps.around, "The chosen setting of each set, and what changes when one thing is changed."
    )
    print_frame(sweeps.ridge, "Found by the published score at the chosen setting, by λ.")
    print_frame(tables.shown(tables.table1(found)), "At the chosen settings: ours (paper).")


def everything(given: argparse.Namespace) -> None:
    """One page with everything, its figures as SVG, its tables as CSV, and the rows as JSON."""
    from evaluation import page
    from evaluation.sweep import SweepTables

    out = given.out or Path("butfor-paper")
    left_out: dict[str, str] = {}
    results = results_for(given, EVERY, default=DATASETS, left_out=left_out, keep=out)
    known = SweepTables.read(given.results) if given.results else None
    drawn = page.all_figures(results, given.data_home)
    main_ranks = tables.main_ranks(results)
    frames = {
        "table1": tables.table1(results, main_ranks),
        "table2": tables.table2(results),
        "oneshot": tables.oneshot(results, main_ranks),
        "overlap": tables.overlap(results),
        "ablation": tables.ablation(results),
        "setup": tables.setup(results),
        "boundary": tables.logits(results),
    }
    for name, frame in frames.items():
        write_csv(out, name, frame)
    rows = json.dumps(tables.rows(results), ensure_ascii=False, indent=1)
    (out / "rows.json").write_text(rows, encoding="utf-8")
    line = shlex.join(["python", "-m", "evaluation", *sys.argv[1:]])
    html = page.evaluation_page(results, left_out=left_out, sweep=known, command=line, drawn=drawn)
    (out / "page.html").write_text(html, encoding="utf-8")
    write_figures(out, drawn)
    if given.json:
        print(rows)
    else:
        print_frame(tables.shown(frames["table1"]), f"{tables.TITLES['table1']}: ours (paper).")
    tell(f"Written: {out / 'page.html'}, {len(drawn)} figures, {len(frames)} tables and rows.json.")


def runs(given: argparse.Namespace) -> None:
    """Run data sets and write one JSON file each, after every ranking. What a file has is not run
    again."""
    if not given.datasets or not given.out:
        raise SettingError("Say which --datasets to run, and the directory --out for their files.")
    for name in given.datasets:
        path = given.out / f"{name}.json"
        result = run_dataset(
            name,
            given.ranks or RANKS,
            sample=given.cases,
            seeds=given.seeds,
            machinery=machinery_of(given),
            progress_kind=LineProgress,
            known=read_result(path) if path.exists() else None,
            save=lambda result: result.write(given.out),
        )
        for run in result.runs:
            found = {rank: f"{len(r.found)}/{len(r.one_shot)}" for rank, r in run.rankings.items()}
            truth = "" if run.ground_truth is None else f", ground truth {len(run.ground_truth)}"
            print(
                f"{name}, seed {run.seed}: {len(run.eligible)} eligible{truth}; found/one-shot "
                f"{found}",
                flush=True,
            )


COMMANDS: dict[str, Callable[[argparse.Namespace], None]] = {
    "table1": table1,
    "table2": table2,
    "oneshot": oneshot,
    "seeds": seeds,
    "overlap": overlap,
    "ablation": ablation,
    "cases": cases,
    "boundary": boundary,
    "setup": setup,
    "sweep": sweep,
    "all": everything,
    "runs": runs,
}


# --- output ---------------------------------------------------------------------------------------


def show(
    given: argparse.Namespace, name: str, frame: pd.DataFrame, caption: str, rows: Any = None
) -> None:
    """Print the table, or JSON: `rows` where there are any, else the table's own. With --out, also
    as CSV."""
    if given.json:
        records = tables.flat(frame).to_dict("records") if rows is None else rows
        print(json.dumps(records, ensure_ascii=False, indent=1))
    else:
        print_frame(tables.shown(frame), caption)
    if given.out:
        write_csv(given.out, name, frame)


def print_frame(frame: pd.DataFrame, caption: str) -> None:
    """Plain text, never wrapped."""
    print(f"{frame.map(tables.cell).to_string(index=False)}\n{caption}")


def write_csv(out: Path, name: str, frame: pd.DataFrame) -> None:
    out.mkdir(parents=True, exist_ok=True)
    tables.flat(frame).to_csv(out / f"{name}.csv", index=False)


def write_figures(out: Path, drawn: Mapping[str, Drawing]) -> None:
    out.mkdir(parents=True, exist_ok=True)
    for name, drawing in drawn.items():
        drawing.to_svg(out / f"{name}.svg")
    if drawn:
        tell(f"Written into {out}: {', '.join(drawn)} (.svg).")

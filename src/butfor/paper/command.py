"""`butfor paper`: the published evaluation from the command line. Options → runs → tables, figures, page.

Results go to stdout or into --out, everything else to stderr.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from butfor.errors import SettingError
from butfor.paper.gather import SMALL, Options, command_line, console_watcher, machinery_of, names_in, results_for
from butfor.paper.output import draw, print_frame, show, write_csv, write_figures

if TYPE_CHECKING:
    from butfor.paper.results import Result

RANKS = ("combined", "chance", "distance")
HALVES = ("combined", "surrogate", "activation")
UNPUBLISHED = ("influence", "influence-gn", "gradient")
"""Rankings the paper could not run, or did not have; they join its tables."""
EVERY = (*RANKS, "surrogate", "activation", *UNPUBLISHED)


@click.group()
def paper() -> None:
    """Run the published evaluation again: every table and figure, ours beside the paper's.

    \b
    butfor paper table1                            # Salary, Student, German
    butfor paper table1 --datasets compas --cases 20
    butfor paper all --results results --out page  # from files, see below

    The large sets want a GPU. 'python -m butfor.paper.runs' runs them on a machine that has only torch,
    pandas and scikit-learn; --results shows what it wrote.
    """


def _options(command: Callable[..., None]) -> Callable[..., None]:
    """The common options, handed on as one `Options`."""

    def gathered(**given: Any) -> None:
        names = Options.__dataclass_fields__
        options = Options(**{name: value for name, value in given.items() if name in names})
        command(options, **{name: value for name, value in given.items() if name not in names})

    gathered.__doc__, gathered.__name__ = command.__doc__, command.__name__
    gathered.__click_params__ = list(getattr(command, "__click_params__", []))  # type: ignore[attr-defined]
    folder = click.Path(path_type=Path, file_okay=False)
    for option in (
        click.option("--json", "as_json", is_flag=True, help="Print rows as JSON, and nothing else."),
        click.option("--out", type=folder, help="Write the tables (CSV) or figures into this directory."),
        click.option("--data-home", type=folder, help="Directory with original data files (Bank)."),
        click.option("--results", type=folder, help="Take the results in this directory; search for nothing."),
        click.option("--resume", type=click.Path(path_type=Path, dir_okay=False),
                     help="A ledger file: what it remembers is not trained again."),
        click.option("--jobs", type=int, help="Networks trained at a time on the CPU."),
        click.option("--device", help="A torch device, such as cuda."),
        click.option("--engine", default="auto", show_default=True, help="What trains."),
        click.option("--seeds", type=int, default=1, show_default=True, help="Model seeds 0 to N−1."),
        click.option("--cases", type=int, help="Only the first N eligible people: a sample."),
        click.option("--ranks", help="Rankings, separated by commas. Default: those of the table."),
        click.option("--datasets", help=f"Data sets, separated by commas. Default: {SMALL}, or what --results has."),
    ):  # fmt: skip
        gathered = option(gathered)
    return gathered


# --- commands -----------------------------------------------------------------------------------------


@paper.command()
@_options
def table1(options: Options) -> None:
    """People audited, flippable labels, ground truth, and counterfactual datasets found."""
    _table("table1", options, (*RANKS, *UNPUBLISHED))


@paper.command()
@_options
def table2(options: Options) -> None:
    """Seconds per person, per retraining and of overhead."""
    _table("table2", options, (*RANKS, *UNPUBLISHED))


@paper.command()
@_options
def oneshot(options: Options) -> None:
    """Found at the first attempt."""
    _table("oneshot", options, (*RANKS, *UNPUBLISHED))


@paper.command()
@_options
@click.option("--fresh-seeds", type=int, default=59, show_default=True, help="Seeds that judge every find.")
def seeds(options: Options, fresh_seeds: int) -> None:
    """How many of the finds hold under other seeds: the column that the published tables lack."""
    import pandas as pd

    from butfor.paper.seeds import over_seeds

    if fresh_seeds < 1:
        raise SettingError(f"--fresh-seeds {fresh_seeds}: give at least 1.")
    results = results_for(options, ("combined",))
    rows = over_seeds(
        results, options.ranks.split(",") if options.ranks else ("combined",), engine=options.engine,
        device=options.device, jobs=options.jobs, data_home=options.data_home, seeds=fresh_seeds,
    )  # fmt: skip
    frame = pd.DataFrame(list(rows))
    if options.as_json:
        click.echo(frame.to_json(orient="records", indent=1))
    else:
        print_frame(frame, "Of the finds: how single networks with fresh seeds decide, with the flips and without.")
    if options.out:
        write_csv(options.out, "seeds", frame)


@paper.command()
@_options
def overlap(options: Options) -> None:
    """Who is found by which ranking: the regions of the Venn diagrams."""
    from butfor.paper import figures

    results = _table("overlap", options, RANKS)
    draw(options, {"overlap": figures.venn(results, RANKS)})


@paper.command()
@_options
def ablation(options: Options) -> None:
    """The combined score and each of its halves alone."""
    from butfor.paper import figures

    results = _table("ablation", options, HALVES)
    draw(options, {"ablation": figures.venn(results, HALVES), "attempts": figures.heat_bars(results, HALVES)})


@paper.command()
@_options
def cases(options: Options) -> None:
    """The persons the paper draws beside their flipped rows: Salary 4 and 6, Adult 36, Compas 2."""
    from butfor.paper import figures
    from butfor.paper.runs import PICTURED

    results = results_for(options, RANKS, default="salary")
    drawn, records = {}, []
    for result in results:
        for case in PICTURED.get(result.dataset, ()):
            for rank in result.rankings():
                verdict = figures.verdict_of(result, case, rank, options.data_home)
                if verdict is not None:
                    records.append(verdict.to_dict())
                    if not options.as_json:
                        click.echo(f"{result.dataset}, {rank}: {verdict.sentence}")
            figure = figures.pictured(result, case, data_home=options.data_home)
            if figure is not None:
                drawn[f"case-{result.dataset}-{case}"] = figure
    if options.as_json:
        click.echo(json.dumps(records, ensure_ascii=False, indent=1))
    elif not records:
        click.echo("None of the drawn cases is among the people that were run.")
    draw(options, drawn)


@paper.command()
@_options
def boundary(options: Options) -> None:
    """The logits before any flip of the people found: quartiles, and box plots with --out."""
    from butfor.paper import figures, tables

    results = results_for(options, RANKS)
    show(tables.logits(results), "The logits before any flip of the people found (0 is the boundary).", options)
    draw(options, {"boundary": figures.boundary(results, RANKS)})


@paper.command()
@click.option("--json", "as_json", is_flag=True, help="Print rows as JSON, and nothing else.")
def setup(as_json: bool) -> None:
    """The data sets and the settings they are run with."""
    from butfor.paper import tables

    frame = tables.setup()
    if as_json:
        click.echo(tables.flat(frame).to_json(orient="records", indent=1, force_ascii=False))
    else:
        print_frame(tables.shown(frame), tables.TITLES["setup"])


@paper.command()
@_options
def sweep(options: Options) -> None:
    """Try what the paper does not state, on the small sets, and choose by #φ, n_ψ and ground truth alone.

    Takes about ten minutes per set on two cores. With --out, the chosen settings' results are written for --results.
    """
    from butfor.paper import tables
    from butfor.paper.runs import run_dataset
    from butfor.paper.sweep import SETS, SweepTables, swept

    names = names_in(options.datasets or SMALL)
    if outside := [name for name in names if name not in SETS]:
        raise SettingError(f"There is no ground truth to be near to for {', '.join(outside)}; sweep {', '.join(SETS)}.")
    machinery = machinery_of(options)
    click.echo(f"Sweeping {', '.join(names)}: #φ, n_ψ and ground truth of every plausible setting.", err=True)
    sweeps, found = SweepTables.empty(), []
    for name in names:
        one = swept(name, machinery, lambda line: click.echo(line, err=True))
        sweeps = sweeps.joined(one)
        ranks = names_in(options.ranks) if options.ranks else EVERY
        chosen = one.chosen[name]
        found.append(run_dataset(name, ranks, setting=chosen, machinery=machinery, watcher=console_watcher))
        if options.out:
            found[-1].write(options.out)
            one.grid.to_csv(options.out / f"sweep-{name}.csv", index=False)
            sweeps.write(options.out)
    if options.as_json:
        click.echo(json.dumps(sweeps.to_dict() | {"rows": tables.rows(found)}, ensure_ascii=False, indent=1))
        return
    print_frame(sweeps.around, "The chosen setting of each set, and what changes when one thing is changed.")
    print_frame(sweeps.ridge, "Found by the published score at the chosen setting, by λ.")
    print_frame(tables.shown(tables.table1(found)), "At the chosen settings: ours (paper).")


@paper.command(name="all")
@_options
def everything(options: Options) -> None:
    """One page with everything, its figures as PNG and SVG, its tables as CSV, and the rows as JSON."""
    from butfor.data.catalogue import DATASETS
    from butfor.paper import page, tables
    from butfor.paper.sweep import SweepTables

    out = options.out or Path("butfor-paper")
    left_out: dict[str, str] = {}
    results = results_for(options, EVERY, default=",".join(DATASETS), left_out=left_out, keep=out)
    known = SweepTables.read(options.results) if options.results else None
    drawn = page.all_figures(results, options.data_home)
    out.mkdir(parents=True, exist_ok=True)
    frames = {
        "table1": tables.table1(results, tables.main_ranks(results)), "table2": tables.table2(results),
        "oneshot": tables.oneshot(results, tables.main_ranks(results)),
        "overlap": tables.overlap(results), "ablation": tables.ablation(results), "setup": tables.setup(results),
        "boundary": tables.logits(results),
    }  # fmt: skip
    for name, frame in frames.items():
        tables.flat(frame).to_csv(out / f"{name}.csv", index=False)
    (out / "rows.json").write_text(json.dumps(tables.rows(results), ensure_ascii=False, indent=1), encoding="utf-8")
    html = page.evaluation_page(results, left_out=left_out, sweep=known, command=command_line(), drawn=drawn)
    (out / "page.html").write_text(html, encoding="utf-8")
    write_figures(out, drawn)
    if options.as_json:
        click.echo(json.dumps(tables.rows(results), ensure_ascii=False, indent=1))
    else:
        print_frame(tables.shown(frames["table1"]), f"{tables.TITLES['table1']}: ours (paper).")
    click.echo(f"Written: {out / 'page.html'}, {len(drawn)} figures, {len(frames)} tables and rows.json.", err=True)


def _table(name: str, options: Options, ranks: Sequence[str]) -> list[Result]:
    from butfor.paper import tables

    results = results_for(options, ranks)
    make = getattr(tables, name)
    if name in ("overlap", "ablation"):
        frame = make(results)
    else:
        frame = make(results, names_in(options.ranks) if options.ranks else tables.main_ranks(results))
    if options.as_json and name in ("table1", "oneshot"):
        click.echo(json.dumps(tables.rows(results), ensure_ascii=False, indent=1))
        if options.out:
            write_csv(options.out, name, frame)
        return results
    show(frame, f"{tables.TITLES[name]}: ours (paper).", options, name)
    return results

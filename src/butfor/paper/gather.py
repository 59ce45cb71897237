"""From options to results: read from files, or computed here with progress on stderr."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from butfor.errors import DatasetError, SettingError

if TYPE_CHECKING:
    from butfor.paper.results import Result
    from butfor.paper.runs import Machinery
    from butfor.progress import Watcher

SMALL = "salary,student,german"


@dataclass(frozen=True)
class Options:
    """What every command takes."""

    datasets: str | None
    ranks: str | None
    cases: int | None
    seeds: int
    engine: str
    device: str | None
    jobs: int | None
    resume: Path | None
    results: Path | None
    data_home: Path | None
    out: Path | None
    as_json: bool


def results_for(
    options: Options,
    ranks: Sequence[str],
    *,
    default: str = SMALL,
    left_out: dict[str, str] | None = None,
    keep: Path | None = None,
) -> list[Result]:
    """The results asked for, read or computed. Sets nobody named and that cannot be had are `left_out`."""
    from butfor.data.catalogue import DATASETS, spec_named
    from butfor.paper.results import read_result

    if options.cases is not None and options.cases < 1:
        raise SettingError(f"--cases {options.cases}: at least one person is needed.")
    asked = names_in(options.datasets) if options.datasets else None
    for name in asked or ():
        spec_named(name)
    if options.results is None:
        return _computed(options, ranks, asked or names_in(default), left_out if asked is None else None, keep)
    if options.cases is not None or options.seeds != 1:
        raise SettingError("--cases and --seeds say what to run; results in files are shown as they are.")
    if not options.results.is_dir():
        raise SettingError(
            f"--results {options.results} is not a directory; name one that holds <data set>.json files."
        )
    found = []
    for name in asked or DATASETS:
        path = options.results / f"{name}.json"
        if path.exists():
            found.append(read_result(path))
        elif asked is not None:
            raise SettingError(f"There is no '{path}'; run 'python -m butfor.paper.runs --datasets {name} --out …'.")
        elif left_out is not None:
            left_out[name] = "no result in the directory that was shown."
    if not found:
        raise SettingError(f"There is no result in '{options.results}'; it should hold files such as adult.json.")
    return found


def _computed(
    options: Options, ranks: Sequence[str], names: Sequence[str], left_out: dict[str, str] | None, keep: Path | None
) -> list[Result]:
    from butfor.paper.runs import run_dataset

    wanted = names_in(options.ranks) if options.ranks else ranks
    people = f"the first {options.cases} eligible people (a sample)" if options.cases else "up to 200 eligible people"
    seeds = f", {options.seeds} model seeds" if options.seeds > 1 else ""
    click.echo(f"Running {', '.join(names)}: {people}{seeds}, rankings {', '.join(wanted)}.", err=True)
    results = []
    try:
        for name in names:
            try:
                result = run_dataset(
                    name, wanted, sample=options.cases, seeds=options.seeds, machinery=machinery_of(options),
                    watcher=console_watcher, save=(lambda result: result.write(keep)) if keep else None,
                )  # fmt: skip
                results.append(result)
            except DatasetError as error:
                if left_out is None:
                    raise
                left_out[name] = "left out, because its file is not here and could not be fetched (see BUTFOR_DATA)."
                click.echo(f"{name} is left out: {error}", err=True)
    except KeyboardInterrupt:
        kept = f"what was trained is in {options.resume}" if options.resume else "with --resume FILE it would be kept"
        click.echo(f"Interrupted; {kept}.", err=True)
        raise click.Abort from None
    return results


def machinery_of(options: Options) -> Machinery:
    from butfor.paper.runs import Machinery

    return Machinery(options.engine, options.device, options.jobs, options.resume, options.data_home)


def console_watcher(heading: str) -> Watcher:
    from butfor.progress import ConsoleWatcher

    watch = ConsoleWatcher()
    watch.note(heading)
    return watch


def names_in(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise SettingError("Name at least one, separated by commas.")
    return list(dict.fromkeys(names))


def command_line() -> str:
    return shlex.join(["butfor", *sys.argv[1:]]) if sys.argv[1:2] == ["paper"] else "butfor paper all"

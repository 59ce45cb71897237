"""`butfor audit`: from options to an audit, its files and its lines."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from butfor.cli.options import AUDIT, RUN, TABLE, Choices, with_options
from butfor.cli.printing import introduction, print_discreetly, print_result, write_files
from butfor.cli.repeat import command_again, settings_again
from butfor.cli.wiring import cases_of, discretion, fitted_audit, load, on_cluster
from butfor.endings import held_back
from butfor.errors import OutputError
from butfor.files import make_folder
from butfor.terminal import say, shown_json


@click.command(cls=Choices)
@click.argument("table")
@with_options(TABLE, AUDIT, RUN)
def audit(table: str, single: tuple[int, ...], cases: str | None, out: Path | None, as_json: bool, quiet: bool,
          **options: Any) -> int:  # fmt: skip
    """Find the labels that decide about people in TABLE: an embedded data set (see 'butfor datasets')
    or a CSV, Parquet, Feather or Excel file; - is a CSV from standard input.

    \b
    butfor audit german --case 36
    butfor audit german --model boosting
    butfor audit loans.csv --label approved --sensitive sex --budget 0.1% --out report/
    butfor audit loans.csv --label approved --adverse no --sensitive sex --id application --test new.csv

    An embedded set is audited with its published settings, a file with settings that suit its size.
    """
    from butfor.progress import ConsoleWatcher, Watcher

    begun = time.monotonic()
    discreet = discretion(out, options.pop("redact"), options.pop("public"), options["steady"])
    single, cases = _chosen(single, cases)
    if out is not None:
        make_folder(out)
    watch = Watcher() if quiet else ConsoleWatcher()
    if options["cluster"] is not None:
        options["engine"] = click.get_current_context().with_resource(on_cluster(options))
    reading: list[str] = []
    with watch:
        watch.phase("reading the table")
        data = load(table, options, reading.append)
    for line in reading:
        watch.note(line)
    labels = fitted_audit(data, options, watch)
    people = cases_of(single, cases, len(data.X_test))
    if not quiet:
        for line in introduction(data, labels, len(people)):
            watch.note(line)
    ready = threading.Thread(target=_get_ready_to_write)
    if out is not None:
        ready.start()  # while the search is at work
    beside = data.groups["test"] if data.groups else None
    population = labels.explain_all(
        data.X_test, data.y_test, sensitive_features=beside, cases=people, watch=watch, spent=time.monotonic() - begun
    )
    click.get_current_context().with_resource(held_back())  # from here on it is only written and printed
    again = settings_again(table, single, cases, people, labels, options)
    population.run["command"] = command_again(again)
    population.run["remarks"] = [*reading, *population.run["remarks"]]
    if population.interrupted:
        watch.note("Stopped early; what was done until then is kept, the rest is marked incomplete.")
    result = population.verdicts[0] if len(population) == 1 else population
    handed = discreet(population) if discreet else None
    unwritten, written = None, []
    try:
        if out is not None:
            ready.join()
            written = handed.write(out) if handed else write_files(result, population, out, again, data.kept)
    except OutputError as error:  # the answer is there: print it before saying so
        unwritten = error
    if as_json:
        say(shown_json((handed or result).to_json()))
    elif handed:
        print_discreetly(handed)
    else:
        print_result(result)
    if unwritten is not None:
        raise unwritten
    if out is not None and not quiet:
        say(f"Wrote {', '.join(written)} into {out}. Open {out / 'report.html'}", err=True)
    return 130 if population.interrupted else 0


def _chosen(single: tuple[int, ...], cases: str | None) -> tuple[tuple[int, ...], str | None]:
    """People that the command line names win over those of a settings file, however each names them."""
    source = click.get_current_context().get_parameter_source
    named = {name: source(name) for name in ("single", "cases")}
    if {ParameterSource.COMMANDLINE, ParameterSource.DEFAULT_MAP} <= set(named.values()):
        return ((), cases) if named["cases"] is ParameterSource.COMMANDLINE else (single, None)
    return single, cases


def _get_ready_to_write() -> None:
    from butfor.report.page import get_ready

    get_ready()

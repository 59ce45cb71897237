"""The commands: arguments → calls → printed lines and files."""

from __future__ import annotations

import json as json_module
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import click
import cloup
from cloup import command, option, option_group

from butfor import __version__
from butfor.cli import assemble, printing
from butfor.cli.options import (
    ADVERSE,
    COLUMNS,
    CONFIG,
    FOLDER,
    JSON,
    MODEL,
    NAMES,
    OUTPUT,
    OVERWRITE,
    QUESTION,
    QUIET,
    REFERENCE,
    ROWS,
    SEED,
    TABLE,
    TABLE_NAME,
    AuditCommand,
    config_text,
)
from butfor.cli.parse import bands_in, cases_in, references_in
from butfor.cli.review import gate, replay, review
from butfor.errors import OutputError, plural
from butfor.terminal import one_line, say, say_wrapped, shown_json

if TYPE_CHECKING:
    import pandas as pd

    from butfor.data import Dataset


@cloup.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@cloup.version_option(__version__, package_name="butfor")
def cli() -> None:
    """Which few training labels does a decision hinge on? Are a group's labels held to another standard?"""


@command(cls=AuditCommand)
@TABLE_NAME
@TABLE
@MODEL
@QUESTION
@OUTPUT
def audit(table: str, **options: Any) -> int:
    """Find the few labels that decisions hinge on.

    \b
    butfor audit german --model logistic --out report/
    butfor audit loans.csv --label approved --adverse no --sensitive sex

    TABLE is an embedded data set (see 'butfor datasets') or a CSV, Parquet, Feather or Excel file; - reads a CSV from
    standard input. In the repository, docs/data.md lists more options (encoding, early stopping, ranking).
    """
    from butfor import DATASETS
    from butfor.explain import left_of
    from butfor.files import check_results_folder
    from butfor.models.named import default_name
    from butfor.progress import ConsoleProgress, Progress
    from butfor.result.groups import MAJORITY
    from butfor.stopping import listen

    begun = time.monotonic()
    o = SimpleNamespace(**options)
    view, stop = assemble.public_view(o), assemble.stop_of(o)
    if o.out is not None:
        check_results_folder(o.out, o.overwrite)
    progress = Progress() if o.quiet else ConsoleProgress()
    notes: list[str] = []
    if o.model is None:
        o.model = "mlp" if table in DATASETS else default_name(notes.append)
    with progress:
        progress.phase("reading the table")
        data = assemble.load(table, o, notes.append)
    for line in notes:
        progress.note(line)
    if o.strict:
        assemble.refuse(assemble.concerns(data, o))
    names = assemble.names_of(o, data)
    people, groups = cases_in(o.cases, len(data.X_test)), assemble.groups_of(data, "test")
    labels = assemble.fitted_audit(data, o, progress)
    if not o.quiet:
        for line in printing.introduction(data, labels, len(people)):
            progress.note(line)
    drawing = threading.Thread(target=lambda: import_module("butfor.report.page").get_ready())
    if o.out is not None:
        drawing.start()  # while the search is at work
    click.get_current_context().with_resource(listen())  # what is found is written and printed
    population = labels.explain_all(
        data.X_test,
        data.y_test,
        sensitive_features=groups,
        cases=people,
        towards=o.towards,
        stop=left_of(stop, time.monotonic() - begun),  # reading and training count, but a tenth is left in any case
        progress=progress,
    )
    if o.strict:
        assemble.refuse([concern for concern in population.run.concerns if concern.kind == MAJORITY])
    settings = assemble.settings_again(table, o, labels)
    remarks = (*notes, *population.run.remarks)
    population = population.with_run(command=assemble.command_again(settings), remarks=remarks, names=names)
    if population.interrupted:
        progress.note("Stopped early: what is done is kept, the rest is marked incomplete.")
    result = population[0] if len(population) == 1 else population
    public = view(population) if view else None
    unwritten, written = None, []
    try:
        if o.out is not None:
            drawing.join()
            config = config_text(settings, o.out, __version__)
            written = (
                public.write(o.out)
                if public
                else printing.write_files(result, population, labels, o.out, config, data.kept)
            )
    except OutputError as error:  # the answer is there: print it before saying so
        unwritten = error
    if o.json:
        say(shown_json((public or result).to_json()))
    elif public:
        printing.print_public(public)
    elif len(population) == 1:
        printing.print_verdict(population[0])
    else:
        printing.print_population(population, o.out)
    if unwritten is not None:
        raise unwritten
    if o.out is not None and not o.quiet:
        say_wrapped(f"Wrote {', '.join(written)} into {o.out}. Open {o.out / 'report.html'}", err=True)
    return 130 if population.interrupted else 0


@command("standard")
@TABLE_NAME
@option_group("Table", *COLUMNS)
@option_group(
    "Question",
    ADVERSE,
    REFERENCE,
    option("--draws", type=int, default=99, show_default=True, help="Tables drawn under one standard for all."),
    option("--model", help="A classifier of yours as the standard, package.module:name. Default: the mean of two."),
    option("--n-jobs", type=int, help="Tables drawn at a time. Default: one per core."),
    option("--random-state", type=SEED, default=0, show_default=True, help="Seed of the draws."),
)
@option_group(
    "Output",
    option("--out", type=FOLDER, help="Folder for the page, labels.csv and standard.json."),
    OVERWRITE,
    NAMES,
    CONFIG,
    JSON,
    QUIET,
)
def standard(table: str, **options: Any) -> int:
    """Are a group's labels held to another standard?

    \b
    butfor standard loans.csv --label approved --adverse no --sensitive race
    butfor standard german --out standards/

    Compares the people of each group with people of the other groups who have the same recorded columns, and says of
    every label how likely it is to be wrong. Uses all rows of TABLE; needs no model of yours.
    """
    from butfor.files import check_results_folder, make_folder, save_table
    from butfor.machine import give_back_memory
    from butfor.models.named import model_named
    from butfor.progress import ConsoleProgress, Progress
    from butfor.standard import compare_standards
    from butfor.standard.wrong import WRONG

    o = SimpleNamespace(**options, **dict.fromkeys(("test", "validation", "split_seed", "keep")))
    if o.out is not None:
        check_results_folder(o.out, o.overwrite)
    progress = Progress() if o.quiet or o.json else ConsoleProgress()
    data = assemble.load(table, o, progress.note, whole=True)
    name, adverse = data.name, assemble.adverse_labels(data, o.adverse)
    names = assemble.names_of(o, data)
    reference = references_in(o.reference, assemble.protected(data))
    X, y, groups, cluster, weight = _all_rows(data)
    del data  # its parts are copies of X
    give_back_memory()
    found = compare_standards(
        X,
        y,
        sensitive_features=groups,
        sensitive_bands=bands_in(o.bands),
        adverse=adverse,
        standard=None if o.model is None else model_named(o.model),
        reference=reference,
        cluster=cluster,
        sample_weight=weight,
        draws=o.draws,
        n_jobs=o.n_jobs,
        random_state=o.random_state,
        progress=progress,
    )
    found = replace(found, table=name, names=names)
    if o.out is not None:
        make_folder(o.out)
        found.to_json(o.out / "standard.json")
        save_table(o.out / "labels.csv", found.to_frame().rename_axis("row"))
        found.to_html(o.out / "standard.html")
    if o.json:
        say(shown_json(found.to_json()))
    else:
        printing.print_standards(found)
        if found.interrupted:
            say(f"Stopped after {found.draws} of {plural(o.draws, 'draw')}.", err=True)
        if o.out is not None and not o.quiet:
            say_wrapped(f"Wrote standard.html, labels.csv and standard.json into {o.out}.", err=True)
            say_wrapped(f"Column 'wrong' of labels.csv: {WRONG}", err=True)
    return 130 if found.interrupted else 0


def _all_rows(data: Dataset) -> tuple[pd.DataFrame, pd.Series, Any, Any, Any]:
    """The whole table: what an audit splits; its labels by name; its protected attribute, clusters and weights."""
    import pandas as pd

    from butfor.standard.inputs import LARGE

    X = pd.concat([data.X_train, data.X_val, data.X_test])
    y = pd.concat([data.y_train, data.y_val, data.y_test]).map(dict(enumerate(data.label_names)))
    order = X.index.argsort() if X.index.is_unique and X.index.inferred_type == "integer" else slice(None)
    groups, cluster, weight = (
        None if each is None else pd.concat(list(each.values())).iloc[order]
        for each in (data.groups, data.cluster, data.weight)
    )
    if len(X) > LARGE:  # text takes ten times the memory of codes
        X = X.astype({column: "category" for column in X.columns if isinstance(X[column].dtype, pd.StringDtype)})
    return X.iloc[order], y.iloc[order], data.sensitive if groups is None else groups, cluster, weight


@command("check-table")
@TABLE_NAME
@TABLE
@ADVERSE
@CONFIG
@option("--strict", is_flag=True, help="Exit code 2 if anything is found.")
@option("--write-names", type=ROWS, help="Write a file for --names, to be filled in.")
@JSON
def check_table(table: str, json: bool, strict: bool, write_names: str | None, **options: Any) -> int:
    """Check a table for what would mislead an audit.

    \b
    butfor check-table loans.csv --label approved --sensitive sex

    Looks for columns that give the label away or determine the protected attribute, identifiers, constant columns,
    numbers that stand for "missing" (999999), numbers read as text, and test rows that are also training rows.
    """

    o, notes = SimpleNamespace(**options), list[str]()
    data = assemble.load(table, o, notes.append)
    found, attribute = assemble.concerns(data, o), assemble.attribute_of(data, o)
    named = assemble.adverse_labels(data, o.adverse) if o.adverse or data.adverse else data.label_names[-1:]
    code = 2 if found and strict else 0
    if write_names is not None:
        assemble.write_names(write_names, o, data)
    if json:
        say(shown_json(json_module.dumps([concern.to_dict() for concern in found], indent=1, ensure_ascii=False)))
        return code
    say(
        f"{data.name}: {len(data.X_train)} training, {len(data.X_val)} validation and {len(data.X_test)} test rows, "
        f"{plural(data.X_train.shape[1], 'column')}; {_shares(data, named)}."
    )
    for line in (*notes, *attribute.remarks, *map(str, found)):
        say(one_line(line))
    say(f"{plural(len(found), 'thing')} to look at." if found else "Nothing to look at.")
    return code


def _shares(data: Dataset, named: Sequence[str]) -> str:
    """How common labels are among the training rows: of two the one that is named, of more all."""
    shares = data.y_train.value_counts(normalize=True)
    labels = [(k, name) for k, name in enumerate(data.label_names) if len(data.label_names) > 2 or name in named]
    return ", ".join(f"{100 * shares.get(number, 0):.0f} % labelled '{name}'" for number, name in labels)


@command()
@JSON
def datasets(json: bool) -> None:
    """List the embedded data sets."""
    from butfor.data import catalogue_frame

    frame = catalogue_frame()
    if json:
        say(frame.to_json(orient="records", indent=1))
        return
    words = {"label_balance": "class 1", "sensitive": "protected", "embedded": "here"}
    shown = frame[["name", "rows", "inputs", "sensitive", "label_balance", "budget", "embedded"]].rename(columns=words)
    shown["class 1"] = [f"{100 * v:.1f} %" if v is not None and v == v else "–" for v in shown["class 1"]]
    shown["here"] = ["yes" if here else "fetched on first use" for here in frame["embedded"]]
    printing.print_table(shown)
    say("class 1: share of the label's second value; budget: labels.")


for each in (audit, check_table, datasets, gate, replay, review, standard):
    cli.add_command(each)

"""The commands: arguments → calls → printed lines and files."""

from __future__ import annotations

import json as json_module
import threading
import time
from importlib import import_module
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import click
import cloup
from cloup import argument, command, option, option_group

from butfor import __version__
from butfor.cli import printing, wiring
from butfor.cli.options import COLUMNS, CONFIG, FOLDER, MODEL, OUTPUT, QUESTION, TABLE, AuditCommand, written_config
from butfor.cli.review import gate, replay, review
from butfor.errors import OutputError, SettingError
from butfor.terminal import one_line, say, shown_json

if TYPE_CHECKING:
    import pandas as pd

    from butfor.data import Dataset

JSON = option("--json", is_flag=True, help="Print JSON, and nothing else.")


@cloup.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@cloup.version_option(__version__, package_name="butfor")
def cli() -> None:
    """Which few training labels, had they been the other way, would have made the retrained model
    decide otherwise about this person?"""


@command(cls=AuditCommand)
@argument("table")
@TABLE
@MODEL
@QUESTION
@OUTPUT
def audit(table: str, **options: Any) -> int:
    """Find the labels that decide about people in TABLE: an embedded data set (see 'butfor datasets')
    or a CSV, Parquet, Feather or Excel file; - is a CSV from standard input.

    \b
    butfor audit german --cases 36
    butfor audit german --model boosting
    butfor audit loans.csv --label approved --sensitive sex --budget 0.1% --out report/
    butfor audit loans.csv --label approved --adverse no --sensitive sex --id application --test new.csv

    An embedded set is audited with its published settings, a file with settings that suit its size. More settings
    (encoding, early stopping, limits of the search) go into --config files: docs/data.md lists them.
    """
    from butfor import DATASETS
    from butfor import check_table as concerns_about
    from butfor.files import make_folder
    from butfor.learn.named import default_name
    from butfor.progress import ConsoleProgress, Progress
    from butfor.stopping import listen

    begun = time.monotonic()
    o = SimpleNamespace(**options)
    view = wiring.public_view(o)
    if o.pdf and o.out is None:
        raise SettingError("--pdf prints the page that --out writes: name a folder with --out.")
    if o.out is not None:
        make_folder(o.out)
    progress = Progress() if o.quiet else ConsoleProgress()
    notes: list[str] = []
    if o.model is None:
        o.model = "mlp" if table in DATASETS else default_name(notes.append)
    with progress:
        progress.phase("reading the table")
        data = wiring.load(table, o, notes.append)
    for line in notes:
        progress.note(line)
    if o.strict:
        wiring.refuse(concerns_about(data.X_train, data.y_train, data.X_test))
    labels = wiring.fitted_audit(data, o, progress)
    people, groups = wiring.cases_in(o.cases, len(data.X_test)), wiring.groups_of(data, "test")
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
        stop=wiring.stop_of(o, begun),
        progress=progress,
    )
    if o.strict:
        performance = population.performance
        wiring.refuse([performance.concern] if performance and performance.concern else [])
    if o.close_gap and not population.interrupted:
        population = population.with_run(**wiring.closed_gap(labels, data, population, o, begun, progress))
    settings = wiring.settings_again(table, o, labels)
    more: dict[str, Any] = {"command": wiring.command_again(settings), "remarks": [*notes, *population.run["remarks"]]}
    if o.compare_ridge and not population.interrupted:
        theirs = None if groups is None else groups.iloc[people]
        X, y = data.X_test.iloc[people], data.y_test.iloc[people]
        more["ridge"] = labels.compare_with_ridge(X, y, sensitive_features=theirs)
    population = population.with_run(**more)
    if population.interrupted:
        progress.note("Stopped early; what was done until then is kept, the rest is marked incomplete.")
    result = population[0] if len(population) == 1 else population
    public = view(population) if view else None
    unwritten, written = None, []
    try:
        if o.out is not None:
            drawing.join()
            config = written_config(settings, __version__)
            written = (
                public.write(o.out)
                if public
                else printing.write_files(result, population, labels, o.out, config, data.kept)
            )
            if o.pdf:
                written += printing.write_pdf(o.out / "report.html")
    except OutputError as error:  # the answer is there: print it before saying so
        unwritten = error
    if o.json:
        say(shown_json((public or result).to_json()))
    elif public:
        printing.print_public(public)
    elif len(population) == 1:
        printing.print_verdict(population[0])
    else:
        printing.print_population(population)
    if unwritten is not None:
        raise unwritten
    if o.out is not None and not o.quiet:
        say(f"Wrote {', '.join(written)} into {o.out}. Open {o.out / 'report.html'}", err=True)
    return 130 if population.interrupted else 0


@command("standard")
@argument("table")
@option_group("Table", *COLUMNS)
@option_group(
    "Question",
    option("--adverse", help="The label that people would rather not have, or several (a,b)."),
    option("--shuffles", type=int, default=99, show_default=True, help="Tables with the protected attribute shuffled."),
    option("--model", help="The standard: a classifier of yours, package.module:name. Default: the mean of two."),
    option("--n-jobs", type=int, help="Tables at a time. Default: one per core."),
    option("--random-state", type=int, default=0, show_default=True, help="Seed of the shuffles."),
)
@option_group(
    "Output",
    option("--out", type=FOLDER, help="Write the page, labels.csv and standard.json into this folder."),
    CONFIG,
    option("--json", is_flag=True, help="Print JSON, and nothing else."),
    option("--quiet", is_flag=True, help="No progress."),
)
def standard(table: str, **options: Any) -> int:
    """Are the labels of a group in TABLE what a model of the other groups' rows would have given?

    \b
    butfor standard loans.csv --label approved --adverse no --sensitive race
    butfor standard loans.csv --label approved --adverse no --sensitive race,sex --out standards/

    All rows of TABLE are compared; no model of yours is needed. Every label gets its doubt: the probability, by the
    others' standard, of the other label.
    """
    from butfor.files import make_folder, save_table, save_text
    from butfor.learn.named import model_named
    from butfor.progress import ConsoleProgress, Progress
    from butfor.report.page import standard_page
    from butfor.standard import ASSUMPTION, compare_standards

    o = SimpleNamespace(**options, **dict.fromkeys(("test", "validation", "positive", "split_seed", "keep")))
    if o.out is not None:
        make_folder(o.out)
    progress = Progress() if o.quiet or o.json else ConsoleProgress()
    data = wiring.load(table, o, progress.note)
    X, y, groups = _all_rows(data)
    found = compare_standards(
        X,
        y,
        sensitive_features=groups,
        sensitive_bands=wiring.bands_in(o.bands),
        adverse=wiring.adverse_labels(data, o.adverse),
        standard=None if o.model is None else model_named(o.model),
        shuffles=o.shuffles,
        n_jobs=o.n_jobs,
        random_state=o.random_state,
        progress=progress,
    )
    text = json_module.dumps(found.to_dict(), indent=1, ensure_ascii=False)
    if o.out is not None:
        save_text(o.out / "standard.json", text)
        save_table(o.out / "labels.csv", found.to_frame().rename_axis("row"))
        save_text(o.out / "standard.html", standard_page(found, data.name))
    if o.json:
        say(shown_json(text))
    else:
        for line in (found.answer, *found.sentences(), ASSUMPTION):
            say(one_line(line))
        if found.interrupted:
            say(f"Stopped after {found.shuffles} of {o.shuffles} shuffles.", err=True)
        if o.out is not None and not o.quiet:
            say(f"Wrote standard.html, labels.csv and standard.json into {o.out}.", err=True)
    return 130 if found.interrupted else 0


def _all_rows(data: Dataset) -> tuple[pd.DataFrame, pd.Series, Any]:
    """The whole table: what an audit splits; its labels by name; and its protected attribute."""
    import pandas as pd

    X = pd.concat([data.X_train, data.X_val, data.X_test])
    y = pd.concat([data.y_train, data.y_val, data.y_test]).map(dict(enumerate(data.label_names)))
    order = X.index.argsort() if X.index.is_unique and X.index.inferred_type == "integer" else slice(None)
    groups = data.sensitive if data.groups is None else pd.concat(list(data.groups.values())).iloc[order]
    return X.iloc[order], y.iloc[order], groups


@command("check-table")
@argument("table")
@TABLE
@CONFIG
@option("--strict", is_flag=True, help="Exit code 2 where anything is found.")
@JSON
def check_table(table: str, json: bool, strict: bool, **options: Any) -> int:
    """Look at TABLE, as an audit would read and split it, for what makes an audit say less than it seems to.

    \b
    butfor check-table loans.csv --label approved --sensitive sex

    Copies of the label and columns that tell it almost alone, identifiers, constant columns, numbers that stand for
    "missing" (999999), numbers read as text, and test rows that are training rows.
    """
    from butfor import check_table as concerns_about
    from butfor.data.sensitive import Sensitive

    o, notes = SimpleNamespace(**options), list[str]()
    data = wiring.load(table, o, notes.append)
    attribute = Sensitive.of(wiring.groups_of(data), data.X_train, wiring.bands_in(o.bands))
    found = concerns_about(data.X_train, data.y_train, data.X_test)
    code = 2 if found and strict else 0
    if json:
        say(shown_json(json_module.dumps([concern.to_dict() for concern in found], indent=1, ensure_ascii=False)))
        return code
    say(
        f"{data.name}: {len(data.X_train)} training, {len(data.X_val)} validation and {len(data.X_test)} test rows, "
        f"{data.X_train.shape[1]} columns; of the training rows {_shares(data)}."
    )
    for line in (*notes, *attribute.remarks, *map(str, found)):
        say(one_line(line))
    say(f"{len(found)} thing{'s' * (len(found) != 1)} to look at." if found else "The checks found nothing odd.")
    return code


def _shares(data: Any) -> str:
    """How common each label is among the training rows; of two the second alone."""
    shares = data.y_train.value_counts(normalize=True)
    labels = list(enumerate(data.label_names))
    said = [f"{100 * shares.get(number, 0):.0f} % are labelled '{name}'" for number, name in labels[len(labels) == 2 :]]
    return ", ".join(said)


@command()
@JSON
def datasets(json: bool) -> None:
    """The data sets of the published evaluation."""
    from butfor.data import catalogue_frame

    frame = catalogue_frame()
    if json:
        say(frame.to_json(orient="records", indent=1))
        return
    words = {"label_balance": "class 1", "sensitive": "protected", "embedded": "in package"}
    shown = frame.rename(columns=words)
    shown["class 1"] = [f"{100 * v:.1f} %" if v is not None and v == v else "–" for v in shown["class 1"]]
    shown["in package"] = ["yes" if here else "fetched on first use" for here in frame["embedded"]]
    printing.print_table(
        shown, "class 1 is the share of the label's second value among all rows; budget counts labels."
    )


for each in (audit, check_table, datasets, gate, replay, review, standard):
    cli.add_command(each)

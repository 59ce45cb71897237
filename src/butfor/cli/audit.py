"""`butfor audit`: read the table, make a `LabelAudit`, ask, write, print."""

from __future__ import annotations

import json
import shlex
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from cloup import command

from butfor import __version__
from butfor.cli import options as opt
from butfor.cli import printing
from butfor.cli.options import (
    EncodingOptions,
    NetworkOptions,
    OutputOptions,
    QuestionOptions,
    TableOptions,
    told_of,
)
from butfor.cli.tables import adverse_of, load, names_of
from butfor.settings import AuditSettings
from butfor.support.errors import OutputError, SettingError, plural
from butfor.support.settings import declarations
from butfor.support.terminal import say, say_wrapped, shown_json

if TYPE_CHECKING:
    from butfor import LabelAudit
    from butfor.result.population import Population
    from butfor.table.embedded import Dataset

NOT_REPEATED = (
    *("table", "settings", "out", "overwrite", "json", "quiet", "private"),
    *("ledger", "engine", "n_jobs"),
)
"""What does not change what an audit finds."""


@command(cls=opt.NewcomersFirst)
@opt.TABLE_NAME
@opt.TABLE
@opt.MODEL
@opt.QUESTION
@opt.OUTPUT
def audit(table: str, settings: dict[str, Any], **options: Any) -> int:
    """Find the few labels that decisions hinge on.

    \b
    butfor audit german --model logistic --out report/
    butfor audit loans.csv --label approved --adverse no --sensitive sex

    TABLE is an embedded data set (see 'butfor datasets') or a CSV, Parquet, Feather or Excel file;
    - reads a CSV from standard input.
    """
    from butfor.support.files import check_folder, claimed
    from butfor.support.progress import ConsoleProgress, Progress
    from butfor.support.stopping import (
        Stop,
        listen,
        max_retrainings,
        max_seconds,
    )

    begun = time.monotonic()
    notes = list[str]()
    told = options | settings
    columns = told_of(TableOptions, told)
    question = told_of(QuestionOptions, told)
    output = told_of(OutputOptions, told)
    folder = output.out
    progress = Progress() if output.quiet else ConsoleProgress()
    stop = Stop()
    if question.max_seconds is not None:
        stop |= max_seconds(opt.seconds_in(question.max_seconds))
    if question.max_retrainings is not None:
        stop |= max_retrainings(question.max_retrainings)
    if folder is not None:
        click.get_current_context().with_resource(claimed(folder))
        check_folder(folder, output.overwrite)

    # Read. What takes long to import comes now: a folder that cannot be used is said at once.
    from butfor import DATASETS
    from butfor.models.by_name import default_name
    from butfor.table.labels import label_number

    if told["model"] is None:
        told["model"] = "mlp" if table in DATASETS else default_name(notes.append)
    is_network = told["model"] == "mlp"
    with progress:
        progress.phase("reading the table")
        data = load(table, columns, notes.append, hold_out=is_network)
    for line in notes:
        progress.note(line)
    names = names_of(data, columns, output.names)
    cases = opt.cases_in(question.cases, len(data.X_test))
    if output.private and (len(cases) != 1 or folder is None):
        raise SettingError("--private is for one person's page: give --cases 12 and --out.")
    groups: dict[str, Any] = data.groups or {"train": data.sensitive, "test": None}
    if question.towards is not None:  # an unknown one is said before anything is trained
        number = label_number(question.towards, data.label_names, option="towards")
        told["towards"] = data.label_names[number]

    # Make a LabelAudit and train its model.
    labels = label_audit(data, told).fit(
        data.X_train,
        data.y_train,
        sensitive_features=groups["train"],
        sensitive_bands=opt.bands_in(columns.bands),
        sample_weight=data.weight and data.weight["train"],
        cluster=data.cluster and data.cluster["train"],
        validation=(data.X_val, data.y_val) if is_network else None,
        adverse=adverse_of(data, question.adverse),
        also_labelled=data.rows_of("val", "test"),
        pool=data.X_test,
        progress=progress,
        **opt.comparison_told(told, data.sensitive),
    )
    for line in introduction(data, labels, len(cases)):
        progress.note(line)

    # Ask. From here on Ctrl-C keeps what is done: it is written and printed.
    with listen():
        population = labels.explain_all(
            data.X_test,
            data.y_test,
            sensitive_features=groups["test"],
            cases=cases,
            towards=told["towards"],
            stop=stop.left(time.monotonic() - begun),  # reading and training count
            progress=progress,
        )
        again = settings_again(table, told, labels)
        remarks = (*notes, *population.run.remarks)
        population = population.with_run(command=command_again(again), remarks=remarks, names=names)
        if population.interrupted:
            progress.note("Stopped early: what is done is kept, the rest is marked incomplete.")

        # Write.
        unwritten = None
        written = list[str]()
        if folder is not None:
            try:
                written = write(population, labels, folder, again, output.private)
            except OutputError as error:  # the answer is there: print it before saying so
                unwritten = error

        # Print.
        alone = len(population) == 1
        if output.json:
            result = population[0] if alone else population
            say(shown_json(result.to_json()))
        elif alone:
            printing.print_verdict(population[0])
        else:
            printing.print_population(population, folder)
        if unwritten is not None:
            raise unwritten
        if folder is not None and not output.quiet:
            say_wrapped(
                f"Wrote {', '.join(written)} into {folder}. Open {folder / 'report.html'}",
                err=True,
            )
    return 130 if population.interrupted else 0


def label_audit(data: Dataset, told: dict[str, Any]) -> LabelAudit:
    """The audit that the options and settings describe."""
    from sklearn.utils import get_tags

    from butfor import LabelAudit, TableEncoder
    from butfor.models.by_name import MODELS, inputs_of, model_named
    from butfor.models.ledger import Ledger

    given = {name: told[name] for name in declarations(AuditSettings)}
    encoding = told_of(EncodingOptions, told)
    network = told_of(NetworkOptions, told)
    if given["ledger"] is not None:
        Ledger(given["ledger"]).close()  # one that cannot be used is said before any training
    how = {
        "missing": told["missing"].replace("drop", "own"),
        "unknown": encoding.unknown,
        "max_categories": encoding.max_categories,
    }
    encoder: TableEncoder | None = None
    if given["model"] == "mlp":
        from butfor import MLP

        setup = data.setup
        batch = setup.batch_size
        if network.batch_size is not None:
            with opt.reading("batch-size", network.batch_size, "a number of rows, or 'full'"):
                batch = None if network.batch_size == "full" else int(network.batch_size)
        model: Any = MLP(
            hidden=setup.hidden if network.hidden is None else opt.layers_in(network.hidden),
            max_epochs=setup.max_epochs if network.epochs is None else network.epochs,
            batch_size=batch,
            random_state=given["random_state"],
        )
        encoder = TableEncoder(
            encoding.encoding or ("embed" if data.licence else "onehot"), setup.numeric, **how
        )
    elif network != NetworkOptions():
        raise SettingError(
            "Settings hidden, batch-size and epochs are for --model mlp; leave them out for "
            f"'{given['model']}'."
        )
    else:
        columns = inputs_of(data.X_train) if given["model"] == "logistic" else 0
        model = model_named(given["model"], given["random_state"], columns)
        # One of scikit-learn's that takes no missing values would refuse a table of nothing but
        # numbers for them.
        missing = any(X.isna().any(axis=None) for X in (data.X_train, data.X_test))
        filled = missing and given["model"] in MODELS and not get_tags(model).input_tags.allow_nan
        if filled or encoding != EncodingOptions():
            encoder = TableEncoder(encoding.encoding or "onehot", dtype="float64", **how)
    # One label in a hundred where nobody says; of a single model, as published, one in a thousand.
    budget = data.setup.budget if given["members"] == 1 else AuditSettings.budget
    if given["budget"] is not None:
        budget = opt.budget_in(given["budget"])
    # Without --phi the published rule and, of an adverse label that was named, those who get it.
    phi = given["phi"]
    if phi is None and told["adverse"] is None:
        phi = "stable_under_switch"
    return LabelAudit(**given | {"model": model, "budget": budget, "phi": phi}, encoder=encoder)


def introduction(data: Dataset, labels: LabelAudit, people: int) -> list[str]:
    """What is audited, before anything is searched: the table and the model, a line each."""
    fitted = labels.fitted_
    unused = len(data.X_val) if labels.table_.validation is None else 0
    seeds = "one seed" if fitted.seeded else "no seed"
    if fitted.seeded and fitted.members > 1:
        seeds = f"mean of {fitted.members} seeds, finds tested under {labels.fresh_seeds} others"
    margins = "" if fitted.log_odds else "margins, no probabilities"
    left_out = f"{plural(unused, 'validation row')} unused" if unused else ""
    return [
        f"{Path(data.name).name}: {labels.table_.n} training rows, "
        f"{plural(data.X_train.shape[1], 'column')}; auditing {people} of "
        f"{plural(len(data.X_test), 'test person')}.",
        f"Model: {'; '.join(filter(None, (labels.learner_.name, seeds, margins, left_out)))}.",
        *fitted.remarks(data.X_test),
    ]


def write(
    population: Population, labels: LabelAudit, folder: Path, again: dict[str, Any], private: bool
) -> list[str]:
    """The record, a row per person, the keystones, every label with its place in the order of
    review, the groups' figures for those who publish, the page (about one person, `private` or
    with the flipped rows) and the settings."""
    from butfor.report.published import published_groups
    from butfor.support.files import as_csv, save, seen_from

    result = population[0] if len(population) == 1 else population
    result.to_json(folder / "audit.json")
    save(as_csv(population.to_frame(), index=False), folder / "people.csv")
    save(as_csv(population.keystones), folder / "keystones.csv")
    ranked = ["labels.csv"] if population.labels else []
    if ranked:
        save(as_csv(labels.labels(population).rename_axis("row")), folder / "labels.csv")
    save(as_csv(published_groups(population), index=False), folder / "groups.csv")
    if private:
        population[0].to_html(folder / "report.html", others=False)
    else:
        result.to_html(folder / "report.html")
    lines = [f"# Repeats this audit (butfor {__version__}): butfor audit --config audit.toml"]
    for name, value in again.items():
        if name in ("table", "test", "validation", "names") and not opt.is_table_name(value):
            value = seen_from(folder, value)
        lines.append(f"{name} = {json.dumps(value, ensure_ascii=False, default=str)}")
    save("\n".join([*lines, ""]), folder / "audit.toml")
    tables = ["people.csv", "keystones.csv", *ranked, "groups.csv"]
    return ["audit.json", *tables, "report.html", "audit.toml"]


def settings_again(table: str, told: dict[str, Any], labels: LabelAudit) -> dict[str, Any]:
    """Options and settings that repeat an audit, with what its defaults were."""
    fitted = labels.fitted_
    cuts = fitted.sensitive.cuts

    def exactly(cut: float | str) -> str:
        return cut if isinstance(cut, str) else f"{cut:.17g}"

    values = told | {
        "bands": [f"{name}={','.join(map(exactly, cuts[name]))}" for name in cuts],
        "budget": str(fitted.budget),
        "strategy": fitted.strategy.name,
        "members": fitted.members,
        "split_seed": fitted.roles.origin["split_seed"],
    }
    options = [str(option.name) for option in click.get_current_context().command.params]
    names = [name for name in (*options, *opt.SETTINGS) if name not in NOT_REPEATED]
    given = {opt.dashed(name): values[name] for name in names if values.get(name) not in (None, [])}
    return {"table": table} | {name: value for name, value in given.items() if value is not False}


def command_again(again: dict[str, Any]) -> str:
    """The same as a command."""
    words = ["butfor", "audit", again["table"]]
    for name, value in list(again.items())[1:]:
        for one in value if isinstance(value, list) else [value]:
            setting = name.replace("-", "_") in opt.SETTINGS
            said = [f"--{name}"] if one is True else [f"--{name}", str(one)]
            words += ["--set", f"{name}={one}"] if setting else said
    return shlex.join(words)

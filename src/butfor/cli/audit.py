"""`butfor audit`: read the table, make a `LabelAudit`, ask, write, print."""

from __future__ import annotations

import json
import shlex
import time
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import click
from cloup import command

from butfor import __version__
from butfor.cli import options as opt
from butfor.cli import printing
from butfor.cli.tables import adverse_of, load, names_of
from butfor.support.errors import OutputError, SettingError, plural
from butfor.support.terminal import say, say_wrapped, shown_json

if TYPE_CHECKING:
    from butfor import LabelAudit
    from butfor.result.population import Population
    from butfor.table.embedded import Dataset

NOT_REPEATED = (
    *("table", "settings", "out", "overwrite", "json", "quiet", "public", "private"),
    *("ledger", "engine", "n_jobs"),
)
"""What does not change what an audit finds."""
AS_NAMED = (
    "members",
    "threshold",
    "rank",
    "strategy",
    "psi",
    "fresh_seeds",
    "engine",
    "n_jobs",
    "ledger",
)
"""Parameters of `LabelAudit` that options and settings are called after."""


@command()
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

    begun, notes = time.monotonic(), list[str]()
    o = SimpleNamespace(**options, **settings)
    progress = Progress() if o.quiet else ConsoleProgress()
    stop = Stop() if o.max_seconds is None else max_seconds(opt.seconds_in(o.max_seconds))
    stop |= Stop() if o.max_retrainings is None else max_retrainings(o.max_retrainings)
    if o.public:
        from butfor.report import public

        public.refuse_other_files(o.out)
    if o.out is not None:
        click.get_current_context().with_resource(claimed(o.out))
        check_folder(o.out, o.overwrite)

    # Read. What takes long to import comes now: a folder that cannot be used is said at once.
    from butfor import DATASETS
    from butfor.models.making import default_name
    from butfor.table.labels import label_number

    if o.model is None:
        o.model = "mlp" if table in DATASETS else default_name(notes.append)
    with progress:
        progress.phase("reading the table")
        data = load(table, o, notes.append, hold_out=o.model == "mlp")
    for line in notes:
        progress.note(line)
    names, cases = names_of(data, o), opt.cases_in(o.cases, len(data.X_test))
    if o.private and (len(cases) != 1 or o.out is None or o.public):
        raise SettingError(
            "--private is for one person's page: give --cases 12 and --out, and leave out --public."
        )
    groups: dict[str, Any] = data.groups or {"train": data.sensitive, "test": None}
    if o.towards is not None:  # an unknown one is said before anything is trained
        o.towards = data.label_names[label_number(o.towards, data.label_names, option="towards")]

    # Make a LabelAudit and train its model.
    labels = label_audit(data, o).fit(
        data.X_train,
        data.y_train,
        sensitive_features=groups["train"],
        sensitive_bands=opt.bands_in(o.bands),
        sample_weight=data.weight and data.weight["train"],
        cluster=data.cluster and data.cluster["train"],
        validation=(data.X_val, data.y_val) if o.model == "mlp" else None,
        adverse=adverse_of(data, o),
        reference=opt.references_in(o.reference, data.sensitive),
        draws=o.draws,
        also_labelled=data.rows_of("val", "test"),
        pool=data.X_test,
        progress=progress,
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
            towards=o.towards,
            stop=stop.left(time.monotonic() - begun),  # reading and training count
            progress=progress,
        )
        again, remarks = settings_again(table, o, labels), (*notes, *population.run.remarks)
        population = population.with_run(command=command_again(again), remarks=remarks, names=names)
        if population.interrupted:
            progress.note("Stopped early: what is done is kept, the rest is marked incomplete.")

        # Write.
        unwritten, written = None, list[str]()
        if o.out is not None:
            try:
                if o.public:
                    written = public.write(population, o.out)
                else:
                    written = write(population, labels, o.out, again, o.private)
            except OutputError as error:  # the answer is there: print it before saying so
                unwritten = error

        # Print.
        alone = len(population) == 1
        if o.json:
            result = population[0] if alone else population
            say(shown_json(public.record(population) if o.public else result.to_json()))
        elif o.public:
            say(public.sentence(population))
            shown = public.table(population)
            printing.print_table(shown) if len(shown) else say(f"No group has {public.FEW} people.")
        else:
            printing.print_verdict(population[0]) if alone else printing.print_population(
                population, o.out
            )
        if unwritten is not None:
            raise unwritten
        if o.out is not None and not o.quiet:
            say_wrapped(
                f"Wrote {', '.join(written)} into {o.out}. Open {o.out / 'report.html'}", err=True
            )
    return 130 if population.interrupted else 0


def label_audit(data: Dataset, o: SimpleNamespace) -> LabelAudit:
    """The audit that the options describe."""
    from sklearn.utils import get_tags

    from butfor import LabelAudit, TableEncoder
    from butfor.models.ledger import Ledger
    from butfor.models.making import MODELS, inputs_of, model_named

    if o.ledger is not None:
        Ledger(o.ledger).close()  # one that cannot be used is said before anything is trained
    how = {
        "missing": o.missing.replace("drop", "own"),
        "unknown": o.unknown,
        "max_categories": o.max_categories,
    }
    encoder: TableEncoder | None = None
    if o.model == "mlp":
        from butfor import MLP

        setup, batch = data.setup, data.setup.batch_size
        if o.batch_size is not None:
            with opt.reading("batch-size", o.batch_size, "a number of rows, or 'full'"):
                batch = None if o.batch_size == "full" else int(o.batch_size)
        model: Any = MLP(
            hidden=setup.hidden if o.hidden is None else opt.layers_in(o.hidden),
            max_epochs=setup.max_epochs if o.epochs is None else o.epochs,
            batch_size=batch,
            random_state=o.random_state,
        )
        encoder = TableEncoder(
            o.encoding or ("embed" if data.licence else "onehot"), setup.numeric, **how
        )
    elif any(value is not None for value in (o.hidden, o.batch_size, o.epochs)):
        raise SettingError(
            "Settings hidden, batch-size and epochs are for --model mlp; leave them out for "
            f"'{o.model}'."
        )
    else:
        model = model_named(
            o.model, o.random_state, inputs_of(data.X_train) if o.model == "logistic" else 0
        )
        # One of scikit-learn's that takes no missing values would refuse a table of nothing but
        # numbers for them.
        missing = any(X.isna().any(axis=None) for X in (data.X_train, data.X_test))
        filled = missing and o.model in MODELS and not get_tags(model).input_tags.allow_nan
        if o.encoding or o.unknown != "own" or o.max_categories is not None or filled:
            encoder = TableEncoder(o.encoding or "onehot", dtype="float64", **how)
    # One label in a hundred where nobody says; of a single model, as published, one in a thousand.
    usual = data.setup.budget if o.members == 1 else 0.01
    return LabelAudit(
        model,
        encoder=encoder,
        budget=usual if o.budget is None else opt.budget_in(o.budget),
        # Without --phi the published rule and, of an adverse label that was named, those who get
        # it.
        phi="stable_under_switch" if o.phi is None and o.adverse is None else o.phi,
        random_state=o.random_state,
        **{name: getattr(o, name) for name in AS_NAMED},
    )


def introduction(data: Dataset, labels: LabelAudit, people: int) -> list[str]:
    """What is audited, before anything is searched: the table and the model, a line each."""
    fitted, unused = labels.fitted_, len(data.X_val) if labels.table_.validation is None else 0
    seeds = "one seed" if fitted.seeded else "no seed"
    if fitted.seeded and fitted.members > 1:
        seeds = f"mean of {fitted.members} seeds, finds tested under {labels.fresh_seeds} others"
    margins = "" if fitted.log_odds else "margins, no probabilities"
    left_out = f"{plural(unused, 'validation row')} unused" if unused else ""
    return [
        f"{Path(data.name).name}: {labels.table_.n} training rows, "
        f"{plural(data.X_train.shape[1], 'column')}; "
        f"auditing {people} of {plural(len(data.X_test), 'test person')}.",
        f"Model: {'; '.join(filter(None, (labels.learner_.name, seeds, margins, left_out)))}.",
        *fitted.remarks(data.X_test),
    ]


def write(
    population: Population, labels: LabelAudit, folder: Path, again: dict[str, Any], private: bool
) -> list[str]:
    """The record, a row per person, the keystones, every label with its place in the order of
    review, the page (about one person, `private` or with the flipped rows) and the settings."""
    from butfor.support.files import as_csv, save, seen_from

    result = population[0] if len(population) == 1 else population
    result.to_json(folder / "audit.json")
    save(as_csv(population.to_frame(), index=False), folder / "people.csv")
    save(as_csv(population.keystones), folder / "keystones.csv")
    ranked = ["labels.csv"] if population.labels else []
    if ranked:
        save(as_csv(labels.labels(population).rename_axis("row")), folder / "labels.csv")
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
    return ["audit.json", "people.csv", "keystones.csv", *ranked, "report.html", "audit.toml"]


def settings_again(table: str, o: SimpleNamespace, labels: LabelAudit) -> dict[str, Any]:
    """Options and settings that repeat an audit, with what its defaults were."""
    fitted, cuts = labels.fitted_, labels.fitted_.sensitive.cuts

    def exactly(cut: float | str) -> str:
        return cut if isinstance(cut, str) else f"{cut:.17g}"

    said = vars(o) | {
        "bands": [f"{name}={','.join(map(exactly, cuts[name]))}" for name in cuts],
        "budget": str(fitted.budget),
        "strategy": fitted.strategy.name,
        "members": fitted.members,
        "split_seed": fitted.origin["split_seed"],
    }
    options = [str(option.name) for option in click.get_current_context().command.params]
    names = [name for name in (*options, *opt.SETTINGS) if name not in NOT_REPEATED]
    given = {opt.dashed(name): said[name] for name in names if said.get(name) not in (None, [])}
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

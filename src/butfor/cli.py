"""The command line: arguments → calls → printed tables. No logic of its own.

Results go to stdout, everything else to stderr. Bad input is one sentence and exit code 2.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import click

from butfor import __version__
from butfor.errors import ButforError, SettingError, listed

if TYPE_CHECKING:
    import pandas as pd

    from butfor import LabelAudit
    from butfor.data import Dataset
    from butfor.progress import Watcher
    from butfor.result.population import Population
    from butfor.result.verdict import Verdict

FIRST = 200
"""People audited where nobody says which: as many as the published evaluation has."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command. Exit codes: 0, 1 (a replay disagrees, a limit is not kept), 2 (bad input), 130 (interrupted)."""
    try:
        return cli.main(args=list(arguments) if arguments is not None else None, standalone_mode=False) or 0
    except ButforError as error:
        return _fail(str(error))
    except click.UsageError as error:
        where = f" See '{error.ctx.command_path} --help'." if error.ctx else ""
        return _fail(f"{error.format_message()}{where}")
    except click.ClickException as error:
        return _fail(error.format_message())
    except OSError as error:
        return _fail(f"{error.filename or 'The output'}: {error.strerror or error}.")
    except (KeyboardInterrupt, click.Abort):
        click.echo("Stopped.", err=True)
        return 130


def _fail(message: str) -> int:
    click.echo(f"Error: {message}", err=True)
    return 2


class Commands(click.Group):
    """Loads a command's module when the command is called: `butfor --help` need not wait for torch."""

    ELSEWHERE: ClassVar = {
        "paper": ("butfor.paper.command", "paper"),
        "bench": ("butfor.bench.command", "bench"),
        "review": ("butfor.follow.command", "review"),
        "gate": ("butfor.follow.command", "gate"),
    }

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted([*super().list_commands(ctx), *self.ELSEWHERE])

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in self.ELSEWHERE:
            return super().get_command(ctx, name)
        module, attribute = self.ELSEWHERE[name]
        command: click.Command = getattr(import_module(module), attribute)
        return command


class Choices(click.Command):
    """Names the choices in the help text, from the lists that define them."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        from butfor.learn.engines import NAMES as ENGINES
        from butfor.learn.named import NAMES as MODELS
        from butfor.rank import NAMES as RANKS
        from butfor.rules import PHI, PSI
        from butfor.search import PROTOCOLS

        choices = {
            "models": MODELS, "ranks": RANKS, "protocols": PROTOCOLS, "phi": PHI, "psi": PSI, "engines": ENGINES,
        }  # fmt: skip
        for option in self.params:
            if isinstance(option, click.Option) and option.help:
                option.help = option.help.format(**{k: ", ".join(v) for k, v in choices.items()})
        super().format_options(ctx, formatter)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, package_name="butfor")
def cli() -> None:
    """Which few training labels, had they been the other way, would have made the retrained model
    decide otherwise about this person?"""


@cli.command(cls=Choices)
@click.argument("table")
@click.option("--label", help="The label column (for a table of your own).")
@click.option("--positive", help="The label value that counts as class 1. Default: the larger of the two.")
@click.option(
    "--sensitive",
    help="The column with the protected attribute (for a table of your own), or several, separated by commas.",
)
@click.option(
    "--drop",
    default="",
    help="Columns not to learn from, separated by commas. A dropped protected attribute still forms the groups.",
)
@click.option("--keep", default="", help="Columns not to learn from that people.csv shows, separated by commas.")
@click.option("--id", "identifier", help="The column that names the rows in the answers; it is not learned from.")
@click.option(
    "--test",
    type=click.Path(),
    help="A file with the people to ask about, with the columns of TABLE, which is then not split for them.",
)
@click.option("--validation", type=click.Path(), help="A file with the rows that steer early stopping, likewise.")
@click.option(
    "--missing",
    type=click.Choice(["own", "refuse", "drop"]),
    default="own",
    show_default=True,
    help="A missing value counts as a value of its own, is refused, or its row is left out.",
)
@click.option(
    "--unknown",
    type=click.Choice(["own", "refuse"]),
    default="own",
    show_default=True,
    help="A category that no training row has counts as other or missing, or is refused.",
)
@click.option(
    "--max-categories",
    type=int,
    help="Categories of a column at the most; the rarest together are one, 'other'. Default: 100 where there are more.",
)
@click.option(
    "--model",
    default="mlp",
    show_default=True,
    help="What to audit: {models}; or package.module:name, an estimator of your own or a function that makes one.",
)
@click.option("--case", "single", type=int, multiple=True, help="A person: a position in the test split. Repeatable.")
@click.option("--cases", help=f"A range of people, such as 0:200. Default: the first {FIRST} of the test split.")
@click.option(
    "--budget",
    help="Labels that may be flipped at the most: a share (0.1%) or a count (3). Default: 1%; with --members 1 the "
    "published 0.1%.",
)
@click.option("--rank", help="Which labels to flip first: {ranks}. Default: the protocol's own.")
@click.option(
    "--protocol", help="How to search: {protocols}. Default: solid for an ensemble, guided for a single model."
)
@click.option("--phi", default="stable_under_switch", show_default=True, help="Who may be audited: {phi}.")
@click.option("--adverse", help="Ask only about people who get this decision, a value of the label. Narrows --phi.")
@click.option("--psi", default="published", show_default=True, help="Which labels may be flipped: {psi}.")
@click.option(
    "--share/--no-share",
    default=None,
    help="Ask every trained model about everyone. Default: as the protocol has it.",
)
@click.option("--hidden", help="The mlp's hidden layers, such as 32,32, or 'none'.")
@click.option("--batch-size", help="The mlp's rows per training step, or 'full'.")
@click.option("--epochs", type=int, help="The mlp's training epochs at most.")
@click.option("--encoding", type=click.Choice(["onehot", "embed", "ordinal"]), help="How categories become numbers.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the model and of the search.")
@click.option("--split-seed", type=int, help="Seed of the 60/20/20 split.")
@click.option(
    "--members",
    type=int,
    help="Trainings, under as many seeds, whose mean logit decides; 1 is the published setting. Default: 16, fewer "
    "where training takes long, 1 where no seed matters.",
)
@click.option(
    "--fresh-seeds",
    type=int,
    default=59,
    show_default=True,
    help="Seeds without any part in the search that put every find to the test.",
)
@click.option(
    "--margin", type=float, help="How far the members must turn, in standard deviations (protocol solid). Default: 2.5."
)
@click.option("--tries", type=int, help="Attempts per person of the guided search. Default: about the budget.")
@click.option("--alternatives", type=int, default=0, show_default=True, help="Further, disjoint flip sets to look for.")
@click.option(
    "--null",
    type=int,
    default=0,
    show_default=True,
    help="Ask again with the protected attribute shuffled, that many times: do groups differ more than by chance?",
)
@click.option("--max-retrainings", type=int, help="Stop after that many retrainings in all.")
@click.option("--engine", default="auto", show_default=True, help="What trains: {engines}.")
@click.option("--device", help="A torch device, such as cuda.")
@click.option("--jobs", type=int, help="Models trained at a time on the CPU. Default: one per core.")
@click.option(
    "--resume",
    type=click.Path(path_type=Path, dir_okay=False),
    help="A ledger file: what it remembers is not trained again.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    help="Write JSON, CSV and HTML files into this directory.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON, and nothing else.")
@click.option("--quiet", is_flag=True, help="No plan and no progress.")
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

    watch = Watcher() if quiet else ConsoleWatcher()
    data = _load(table, options, watch)
    labels = _fitted_audit(data, options)
    people = _cases(single, cases, len(data.X_test))
    if not quiet:
        for line in _introduction(data, labels, len(people)):
            watch.note(line)
    beside = data.groups["test"] if data.groups else None
    population = labels.explain_all(data.X_test, data.y_test, sensitive_features=beside, cases=people, watch=watch)
    population.run["command"] = _command(table, single, cases, people, labels, options)
    if population.interrupted:
        watch.note("Stopped early; what was done until then is kept, the rest is marked incomplete.")
    result = population.verdicts[0] if len(population) == 1 else population
    if out is not None:
        written = write_files(result, population, out, getattr(data, "kept", None))
    if as_json:
        click.echo(result.to_json())
    else:
        _print(result)
    if out is not None and not quiet:
        click.echo(f"Wrote {', '.join(written)} into {out}. Open {out / 'report.html'}", err=True)
    return 130 if population.interrupted else 0


@cli.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--model", help="The model, package.module:name, where FILE may not start that code by itself.")
def replay(file: Path, model: str | None) -> int:
    """Retrain every counterfactual dataset recorded in FILE (JSON from 'butfor audit') and compare.

    Exit code 1 if any disagrees."""
    from butfor.learn.named import model_named
    from butfor.result.record import read_record
    from butfor.result.replay import replay_all

    record = read_record(file)
    given = None if model is None else model_named(model)
    found = [person for person in record.get("people", [record]) if person["status"] == "found"]
    disagreeing = 0
    for outcome in replay_all(found, given):
        click.echo(outcome.sentence)
        disagreeing += not outcome.agrees
    click.echo(f"{len(found) - disagreeing} of {len(found)} counterfactual datasets agree.")
    return 1 if disagreeing else 0


@cli.command()
@click.option("--accuracy", is_flag=True, help="Also train each set's published network and print its test accuracy.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, and nothing else.")
def datasets(accuracy: bool, as_json: bool) -> None:
    """The data sets of the published evaluation."""
    from butfor.data import catalogue_frame

    frame = catalogue_frame()
    if accuracy:
        from butfor.bench.accuracy import accuracies

        frame["accuracy"] = accuracies(frame)
    if as_json:
        click.echo(frame.to_json(orient="records", indent=1))
        return
    words = {"label_balance": "class 1", "sensitive": "protected", "embedded": "in package"}
    shown = frame.rename(columns=words)
    for column in ("class 1", "accuracy"):
        if column in shown:
            shown[column] = [f"{100 * v:.1f} %" if v is not None and v == v else "–" for v in shown[column]]
    shown["in package"] = ["yes" if here else "fetched on first use" for here in frame["embedded"]]
    _table(shown, "class 1 is the share of the label's second value among all rows; budget counts labels.")


# --- from options to an audit -------------------------------------------------------------------------


def _load(table: str, options: dict[str, Any], watch: Watcher) -> Dataset:
    from butfor.data.table import load_table

    return load_table(
        table,
        label=options["label"],
        positive=options["positive"],
        sensitive=options["sensitive"],
        drop=_names(options["drop"]),
        split_seed=options["split_seed"],
        missing=options["missing"],
        test=options["test"],
        validation=options["validation"],
        hold_out=options["model"] == "mlp",
        identifier=options["identifier"],
        keep=_names(options["keep"]),
        note=watch.note,
    )


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _fitted_audit(data: Dataset, options: dict[str, Any]) -> LabelAudit:
    from butfor import LabelAudit

    model = _model(data, options)
    labels = LabelAudit(
        model,
        encoder=_encoder(data, options, model),
        members=options["members"],
        budget=_budget(options["budget"]) if options["budget"] else _usual_budget(data, options),
        rank=options["rank"],
        protocol=_protocol(options),
        phi=_phi(data, options),
        psi=options["psi"],
        share=options["share"],
        max_retrainings=options["max_retrainings"],
        fresh_seeds=options["fresh_seeds"],
        alternatives=options["alternatives"],
        null=options["null"],
        engine=options["engine"],
        device=options["device"],
        jobs=options["jobs"],
        ledger=options["resume"],
        random_state=options["seed"],
    )
    validation = (data.X_val, data.y_val) if options["model"] == "mlp" else None
    beside = data.sensitive if data.groups is None else data.groups["train"]
    return labels.fit(data.X_train, data.y_train, sensitive_features=beside, validation=validation)


def _model(data: Dataset, options: dict[str, Any]) -> Any:
    from butfor import MLP
    from butfor.learn.named import model_named

    if options["model"] != "mlp":
        ours = [
            f"--{name.replace('_', '-')}" for name in ("hidden", "batch_size", "epochs") if options[name] is not None
        ]
        if ours:
            raise SettingError(f"{' and '.join(ours)} belong to --model mlp; leave out for '{options['model']}'.")
        return model_named(options["model"], options["seed"])
    setup = data.setup
    return MLP(
        hidden=setup.hidden if options["hidden"] is None else _hidden(options["hidden"]),
        max_epochs=setup.max_epochs if options["epochs"] is None else options["epochs"],
        batch_size=setup.batch_size if options["batch_size"] is None else _batch_size(options["batch_size"]),
        random_state=options["seed"],
    )


def _encoder(data: Dataset, options: dict[str, Any], model: Any) -> Any:
    """The published encoding for our network on an embedded set; else what was asked for, or what the audit chooses."""
    from sklearn.utils import get_tags

    from butfor import TableEncoder
    from butfor.learn.named import MODELS

    asked = {
        "missing": "refuse" if options["missing"] == "refuse" else "own",
        "unknown": options["unknown"],
        "max_categories": options["max_categories"],
    }
    if options["model"] == "mlp":
        published = "embed" if data.licence else "onehot"
        return TableEncoder(options["encoding"] or published, data.setup.numeric, **asked)
    # One of scikit-learn's that takes no missing values would refuse a table of nothing but numbers for them.
    holes = any(X.isna().any(axis=None) for X in (data.X_train, data.X_test))
    filled = holes and options["model"] in MODELS and not get_tags(model).input_tags.allow_nan
    if options["encoding"] or options["unknown"] != "own" or options["max_categories"] is not None or filled:
        return TableEncoder(options["encoding"] or "onehot", dtype="float64", **asked)
    return None


def _phi(data: Dataset, options: dict[str, Any]) -> Any:
    """Who may be asked about: --phi and, of them, those who get the adverse decision."""
    from butfor.rules import as_phi, predicted

    adverse = options["adverse"]
    if adverse is None:
        return options["phi"]
    names = [*data.label_names, *(name.rpartition(" = ")[2] for name in data.label_names)]
    if adverse not in names:
        raise SettingError(f"--adverse '{adverse}' is not a decision; the labels are {listed(data.label_names)}.")
    return as_phi(options["phi"]) & predicted(data.label_names[names.index(adverse) % 2])


def _introduction(data: Dataset, labels: LabelAudit, people: int) -> list[str]:
    """What is audited, before anything is searched."""
    accuracy = ((labels.model_.logits(data.X_test) > 0) == data.y_test).mean()
    lines = [
        f"{data.name}: {labels.table_.n} training rows, {data.X_train.shape[1]} columns; {labels.learner_.name} is "
        f"right about {100 * accuracy:.0f} % of {len(data.X_test)} test rows. Asking about {people} of them."
    ]
    lines += _remarks(data, labels)
    if labels.table_.validation is None and len(data.X_val):
        lines.append(
            f"The {len(data.X_val)} validation rows of the split are not used: this model does not stop early."
        )
    margin = getattr(labels.learner_, "margin", "decision_function")
    if margin != "decision_function":
        lines.append(f"{labels.learner_.name} has no decision_function; its margin is {margin}.")
    if labels.sensitive_.blind:
        lines.append(f"The model does not see '{labels.sensitive_.name}': no switch of it can change a decision.")
    if labels.members_ > 1:
        lines.append(
            f"The audited model is the mean of {labels.members_} trainings that differ in the seed alone; "
            f"{labels.fresh_seeds} fresh seeds put what is found to the test."
        )
    elif labels.seeded_:
        lines.append("The audited model is a single training: what is found is true for its seed.")
    if not labels.seeded_:
        lines.append(
            f"{labels.learner_.name} has no seed that matters here: the same labels always give the same model."
        )
    return lines


def _remarks(data: Dataset, labels: LabelAudit) -> list[str]:
    """What became of missing, unknown and rare values."""
    import pandas as pd

    from butfor.encoded import EncodedTable
    from butfor.learn.ensemble import models_of

    rows = pd.concat([data.X_train, data.X_val, data.X_test])
    encoded = getattr(models_of(labels.model_)[0], "data", None)
    if isinstance(encoded, EncodedTable):
        return encoded.encoder.remarks(rows)
    holes = rows.isna().any()
    name = labels.learner_.name
    return [f"{name} gets the missing values of {listed(rows.columns[holes])} as they are."] if holes.any() else []


def _protocol(options: dict[str, Any]) -> Any:
    from butfor.search import GuidedSearch, SolidSearch

    name, tries, margin = options["protocol"], options["tries"], options["margin"]
    if tries is not None and name not in (None, "guided"):
        raise SettingError(f"--tries goes with --protocol guided; '{name}' has its own number of attempts.")
    if margin is not None and (name not in (None, "solid") or tries is not None):
        raise SettingError("--margin goes with --protocol solid, the search among the members of an ensemble.")
    if tries is not None:
        return GuidedSearch(tries)
    return SolidSearch(margin) if margin is not None else name


def _usual_budget(data: Dataset, options: dict[str, Any]) -> float:
    """One label in a hundred; of a single model, as published, one in a thousand."""
    return data.setup.budget if options["members"] == 1 else 0.01


def _budget(text: str) -> float:
    share = text.strip().endswith("%")
    try:
        number = float(text.strip().rstrip("%")) / (100 if share else 1)
    except ValueError:
        raise SettingError(f"--budget {text}: give a share such as 0.1% or a count such as 3.") from None
    if share and not 0 < number < 1:
        raise SettingError(f"--budget {text}: a share must lie above 0 % and below 100 %.")
    return int(number) if number >= 1 and number == int(number) else number


def _hidden(text: str) -> tuple[int, ...]:
    if text.strip() in ("none", ""):
        return ()
    try:
        return tuple(int(width) for width in text.split(","))
    except ValueError:
        raise SettingError(f"--hidden {text}: give widths such as 32,32, or 'none'.") from None


def _batch_size(text: str) -> int | None:
    if text == "full":
        return None
    try:
        return int(text)
    except ValueError:
        raise SettingError(f"--batch-size {text}: give a number of rows, or 'full'.") from None


def _cases(single: tuple[int, ...], spans: str | None, people: int) -> list[int]:
    """The asked-about positions; a range may reach past the end, a single case may not."""
    if spans is None:
        return list(dict.fromkeys(single)) if single else list(range(min(FIRST, people)))
    try:
        start, stop = (int(end) if end.strip() else None for end in spans.split(":"))
    except ValueError:
        raise SettingError(f"--cases {spans}: give a range such as 0:200.") from None
    if (start or 0) < 0 or (stop is not None and stop <= (start or 0)):
        raise SettingError(f"--cases {spans}: a range goes from a smaller to a larger position, such as 0:200.")
    chosen = list(dict.fromkeys([*single, *range(start or 0, people if stop is None else min(stop, people))]))
    if not chosen:
        raise SettingError(f"--cases {spans}: the test split has only people 0 to {people - 1}.")
    return chosen


def _command(
    table: str,
    single: tuple[int, ...],
    cases: str | None,
    people: list[int],
    labels: LabelAudit,
    options: dict[str, Any],
) -> str:
    """The command that runs this audit again, with what the defaults were spelled out."""
    import shlex

    words = ["butfor", "audit", table]
    for name in ("label", "positive", "sensitive", "drop", "keep", "test", "validation", "rank"):
        if options[name]:
            words += [f"--{name}", options[name]]
    if options["identifier"]:
        words += ["--id", options["identifier"]]
    words += ["--missing", options["missing"], "--unknown", options["unknown"]]
    if options["max_categories"] is not None:
        words += ["--max-categories", str(options["max_categories"])]
    for case in single:
        words += ["--case", str(case)]
    if cases is not None or not single:
        words += ["--cases", cases or f"0:{len(people)}"]
    words += ["--model", options["model"]]
    if options["model"] == "mlp":
        model, encoder = labels.model, labels.encoder
        words += [
            "--hidden", ",".join(map(str, model.hidden)) or "none", "--batch-size", str(model.batch_size or "full"),
            "--epochs", str(model.max_epochs), "--encoding", encoder.categorical,
        ]  # fmt: skip
    elif options["encoding"]:
        words += ["--encoding", options["encoding"]]
    words += [
        "--budget", str(labels.budget_), "--protocol", labels.protocol_.name,
        "--phi", labels.phi_.text, "--psi", labels.psi_.text, "--share" if labels.share_ else "--no-share",
        "--seed", str(options["seed"]), "--split-seed", str(labels.origin_["split_seed"]),
        "--members", str(labels.members_), "--fresh-seeds", str(labels.fresh_seeds),
        "--alternatives", str(labels.alternatives),
    ]  # fmt: skip
    if labels.null:
        words += ["--null", str(labels.null)]
    if options["margin"] is not None:
        words += ["--margin", str(options["margin"])]
    if options["tries"]:
        words += ["--tries", str(options["tries"])]
    if labels.max_retrainings:
        words += ["--max-retrainings", str(labels.max_retrainings)]
    return shlex.join(words)


# --- from results to text -----------------------------------------------------------------------------


def write_files(
    result: Verdict | Population, population: Population, directory: Path, kept: pd.DataFrame | None = None
) -> list[str]:
    """audit.json, people.csv (with what is kept of the test rows), keystones.csv and report.html."""
    directory.mkdir(parents=True, exist_ok=True)
    result.to_json(directory / "audit.json")
    people = population.to_frame()
    if kept is not None:
        theirs = kept.iloc[[v.case for v in population if v.case is not None]].reset_index(drop=True)
        people = people.join(theirs.rename(columns={c: f"{c} (kept)" for c in theirs if c in people}))
    people.to_csv(directory / "people.csv", index=False)
    population.keystones.to_csv(directory / "keystones.csv")
    result.to_html(directory / "report.html")
    return ["audit.json", "people.csv", "keystones.csv", "report.html"]


def _print(result: Verdict | Population) -> None:
    from butfor.result.verdict import Verdict

    click.echo(result.sentence)
    if isinstance(result, Verdict):
        for line in (result.belief, result.collateral.sentence if result.collateral else ""):
            if line:
                click.echo(line)
        if result.found:
            person = result.person.to_frame(f"person {result.case}")
            beside = person.join(result.flips.T.rename(columns=lambda row: f"training row {row}"), how="right")
            _table(beside.astype(object).where(beside.notna(), "").reset_index(names=""))
        return
    for told in (result.direct, result.details, result.proven):
        if told:
            click.echo(told)
    shares = result.by_group.reset_index()
    for column in ("share", "low", "high", "share_solid", "solid_low", "solid_high"):
        shares[column] = [f"{100 * v:.0f} %" if v == v else "–" for v in shares[column]]
    shares["median_margin"] = shares["median_margin"].map("{:.2f}".format)
    _table(
        shares,
        "Shares of eligible people with a counterfactual dataset, and with a solid one, each with its 95 % interval;\n"
        "close calls; and how far (median |logit|) eligible people are from the decision boundary.",
    )
    for warning in [result.comparison.sentence if result.comparison else "", *result.warnings]:
        if warning:
            click.echo(warning)
    top = result.keystones.head(5)
    if len(top):
        listed = [f"row {row} ({int(values['people'])})" for row, values in top.iterrows()]
        click.echo(f"Labels in most flip sets, to review first: {', '.join(listed)}.")


def _table(frame: Any, caption: str | None = None) -> None:
    from rich import box
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    # A pipe or a log has no width of its own: never wrap a table there.
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 200)
    table = Table(box=box.SIMPLE_HEAD, caption=caption, caption_justify="left")
    for column in frame.columns:
        table.add_column(escape(str(column)), overflow="fold")
    for row in frame.itertuples(index=False):
        table.add_row(*(escape(str(cell)) for cell in row))
    console.print(table)


if __name__ == "__main__":
    sys.exit(main())

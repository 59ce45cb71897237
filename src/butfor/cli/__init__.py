"""The command line: arguments → calls → printed tables. No logic of its own.

Results go to stdout, everything else to stderr. Bad input is one sentence and exit code 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import ClassVar

import click

from butfor import __version__
from butfor.cli.auditing import audit
from butfor.cli.looking import check_table
from butfor.cli.printing import print_table
from butfor.errors import ButforError


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


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, package_name="butfor")
def cli() -> None:
    """Which few training labels, had they been the other way, would have made the retrained model
    decide otherwise about this person?"""


cli.add_command(audit)
cli.add_command(check_table)


@cli.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--model", help="The model, package.module:name, where FILE may not start that code by itself.")
@click.option("--data", type=click.Path(), help="Where the table lies now; it must have the same training rows.")
@click.option("--fresh-seeds", "fresh", is_flag=True, help="Train every find's fresh seeds again too, and count them.")
def replay(file: Path, model: str | None, data: str | None, fresh: bool) -> int:
    """Retrain every counterfactual dataset recorded in FILE (JSON from 'butfor audit') and compare: rows, labels,
    groups, rules, proofs and logits with the table and the model, the summary with the verdicts, and the whole
    file with its checksum.

    Exit code 1 if anything disagrees."""
    from butfor.learn.named import model_named
    from butfor.result.record import elsewhere, open_record
    from butfor.result.replay import replay_all
    from butfor.result.whole import summary_differences

    opened = open_record(file)
    given = None if model is None else model_named(model)
    people = opened.people if data is None else [elsewhere(person, data) for person in opened.people]
    agree: dict[bool, list[bool]] = {True: [], False: []}
    for person, outcome in zip(people, replay_all(people, given, fresh=fresh), strict=True):
        found = person["status"] == "found"
        agree[found].append(outcome.agrees)
        if found or not outcome.agrees:
            click.echo(outcome.sentence)
    click.echo(f"{sum(agree[True])} of {len(agree[True])} counterfactual datasets agree.")
    if agree[False]:
        click.echo(f"{sum(agree[False])} of {len(agree[False])} other verdicts agree, as far as no search is needed.")
    differs = list(summary_differences(opened.record))
    for told in differs:
        click.echo(f"The summary DISAGREES: {told}.")
    click.echo(opened.seal)
    return 0 if all(agree[True] + agree[False]) and not differs and opened.sealed is not False else 1


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
    print_table(shown, "class 1 is the share of the label's second value among all rows; budget counts labels.")

"""What a command can be told, in groups that commands share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from butfor.cli.config import read_config

FIRST = 200
"""People audited where nobody says which: as many as the published evaluation has."""

Command = Callable[..., Any]
Option = Callable[[Command], Command]


def with_options(*groups: Sequence[Option]) -> Option:
    """A decorator that gives a command these options, in this order."""

    def decorated(command: Command) -> Command:
        for option in reversed([option for group in groups for option in group]):
            command = option(command)
        return command

    return decorated


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


def joined(ctx: click.Context, param: click.Parameter, given: tuple[str, ...]) -> str | None:
    """An option that takes names, separated by commas, may also be repeated."""
    if param.name == "sensitive" and not all(text.strip(", ") for text in given):
        raise click.BadParameter("name a column of the table.", ctx, param)
    return ",".join(given) if given else None


TABLE: tuple[Option, ...] = (
    click.option(
        "--config",
        type=click.Path(dir_okay=False),
        is_eager=True,
        expose_value=False,
        callback=read_config,
        help="A TOML file with options by their names, such as an audit.toml of --out. The command line wins.",
    ),
    click.option("--label", help="The label column (for a table of your own)."),
    click.option("--positive", help="The label value that counts as class 1. Default: the larger of the two."),
    click.option(
        "--sensitive",
        multiple=True,
        callback=joined,
        help="The column with the protected attribute (for a table of your own), or several, separated by commas.",
    ),
    click.option(
        "--drop",
        multiple=True,
        callback=joined,
        help="Columns not to learn from, separated by commas. A dropped protected attribute still forms the groups.",
    ),
    click.option(
        "--names",
        help="Names of all columns, separated by commas, for a CSV whose first line is a row like any other; 'numbers' "
        "calls them column 1, column 2, ….",
    ),
    click.option(
        "--keep",
        multiple=True,
        callback=joined,
        help="Columns not to learn from that people.csv shows, separated by commas.",
    ),
    click.option("--id", "identifier", help="The column that names the rows in the answers; it is not learned from."),
    click.option(
        "--test",
        type=click.Path(),
        help="A file with the people to ask about, with the columns of TABLE, which is then not split for them.",
    ),
    click.option("--validation", type=click.Path(), help="A file with the rows that steer early stopping, likewise."),
    click.option(
        "--missing",
        type=click.Choice(["own", "refuse", "drop"]),
        default="own",
        show_default=True,
        help="A missing value counts as a value of its own, is refused, or its row is left out.",
    ),
    click.option("--split-seed", type=click.IntRange(0, 2**32 - 1), help="Seed of the 60/20/20 split."),
    click.option(
        "--bands",
        multiple=True,
        help="Cut points of a protected attribute that is a number, such as 25,60 or age=25,60. Default: thirds, where "
        "there are more than 10 different numbers.",
    ),
    click.option("--strict", is_flag=True, help="An odd table, or a model that learned nothing, is an error."),
)
"""Which table, and what its columns are."""

AUDIT: tuple[Option, ...] = (
    click.option(
        "--unknown",
        type=click.Choice(["own", "refuse"]),
        default="own",
        show_default=True,
        help="A category that no training row has counts as other or missing, or is refused.",
    ),
    click.option(
        "--max-categories",
        type=int,
        help="Categories of a column at the most; the rarest together are one, 'other'. Default: 100, where more.",
    ),
    click.option(
        "--model",
        default="mlp",
        show_default=True,
        help="What to audit: {models}; or package.module:name, an estimator of your own or a function that makes one.",
    ),
    click.option(
        "--case", "single", type=int, multiple=True, help="A person: a position in the test split. Repeatable."
    ),
    click.option("--cases", help=f"A range of people, such as 0:200. Default: the first {FIRST} of the test split."),
    click.option(
        "--budget",
        help="Labels that may be flipped at the most: a share (0.1%, rounded up) or a count (3). Default: 1%; with "
        "--members 1 the published 0.1%.",
    ),
    click.option("--rank", help="Which labels to flip first: {ranks}. Default: the protocol's own."),
    click.option(
        "--protocol", help="How to search: {protocols}. Default: solid for an ensemble, guided for a single model."
    ),
    click.option("--phi", default="stable_under_switch", show_default=True, help="Who may be audited: {phi}."),
    click.option("--adverse", help="Ask only about people who get this decision, a value of the label. Narrows --phi."),
    click.option("--psi", default="published", show_default=True, help="Which labels may be flipped: {psi}."),
    click.option(
        "--share/--no-share",
        default=None,
        help="Ask every trained model about everyone. Default: as the protocol has it.",
    ),
    click.option("--hidden", help="The mlp's hidden layers, such as 32,32, or 'none'."),
    click.option("--batch-size", help="The mlp's rows per training step, or 'full'."),
    click.option("--epochs", type=int, help="The mlp's training epochs at most."),
    click.option(
        "--encoding", type=click.Choice(["onehot", "embed", "ordinal"]), help="How categories become numbers."
    ),
    click.option("--seed", type=int, default=0, show_default=True, help="Seed of the model and of the search."),
    click.option(
        "--members",
        type=int,
        help="Trainings, under as many seeds, whose mean logit decides; 1 is the published setting. Default: 16, fewer "
        "where training takes long, 1 where no seed matters.",
    ),
    click.option(
        "--fresh-seeds",
        type=int,
        default=59,
        show_default=True,
        help="Seeds without any part in the search that put every find to the test.",
    ),
    click.option(
        "--margin",
        type=float,
        help="How far the members must turn, in standard deviations (protocol solid). Default: 2.5.",
    ),
    click.option(
        "--tries", type=int, help="Attempts per person of the guided search. Default: about the budget, 64 at most."
    ),
    click.option(
        "--alternatives", type=int, default=0, show_default=True, help="Further, disjoint flip sets to look for."
    ),
    click.option(
        "--null",
        type=int,
        default=0,
        show_default=True,
        help="Ask again with the protected attribute shuffled, that many times: do groups differ more than by chance?",
    ),
    click.option(
        "--steady",
        metavar="PARTS",
        help="Also train a model that is provably steady, a vote of that many parts ('auto' chooses), and compare.",
    ),
    click.option(
        "--time",
        metavar="TIME",
        help="Stop after that time (90s, 10m, 2h), reading and training the model included, those nearest to the other "
        "decision first, and say what is left.",
    ),
    click.option("--max-retrainings", type=int, help="Stop after that many retrainings in all."),
    click.option("--engine", default="auto", show_default=True, help="What trains: {engines}."),
    click.option(
        "--cluster",
        help="Train on a Dask cluster: local:4 (worker processes here), or a scheduler, tcp://scheduler:8786.",
    ),
    click.option("--device", help="A torch device, such as cuda."),
    click.option("--jobs", type=int, help="Models trained at a time on the CPU. Default: one per core."),
)
"""What is audited, who is asked about, and how to search."""

RUN: tuple[Option, ...] = (
    click.option(
        "--resume",
        type=click.Path(path_type=Path, dir_okay=False),
        help="A ledger file: what it remembers is not trained again.",
    ),
    click.option(
        "--out",
        type=click.Path(path_type=Path, file_okay=False),
        help="Write JSON, CSV and HTML files into this directory.",
    ),
    click.option(
        "--redact",
        is_flag=True,
        help="Write ids, groups, decisions and distances only. Such a record cannot be replayed, reviewed or gated.",
    ),
    click.option(
        "--public",
        is_flag=True,
        help="Write nothing about any person, and no count under 10. Such a record can only be read.",
    ),
    click.option("--json", "as_json", is_flag=True, help="Print the result as JSON, and nothing else."),
    click.option("--quiet", is_flag=True, help="No plan and no progress."),
)
"""What becomes of the answer."""

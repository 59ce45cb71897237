"""The options of the commands. Those that few people need are left out of the help text; docs/data.md lists them. All
of them can stand in a file for `--config`, by their names, in TOML, with paths as seen from that file:

table = "loans.csv"
label = "approved"
drop = ["name", "phone"]
budget = "1%"
"""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import click
from cloup import Command, argument, option, option_group

from butfor.errors import SettingError, nearest

FIRST = "0:200"
"""People audited where nobody says which: as many as the published evaluation has."""

SETTINGS = "audit.toml"
PATHS = ("table", "test", "validation", "names")
"""Settings that are files, seen from the folder of the settings file."""
Decorator = Callable[[Any], Any]
ROWS, FOLDER = click.Path(), click.Path(path_type=Path, file_okay=False)


class AuditCommand(Command):
    """Names the choices in the help text, from the lists that define them."""

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        from butfor.models.engines import NAMES as ENGINES
        from butfor.models.named import NAMES as MODELS
        from butfor.rules import PHI, PSI

        choices: dict[str, Iterable[str]] = {
            "models": MODELS,
            "engines": ENGINES,
            "phi": PHI,
            "psi": PSI,
        }
        for parameter in self.params:
            if isinstance(parameter, click.Option) and parameter.help:
                parameter.help = parameter.help.format(**{k: ", ".join(names) for k, names in choices.items()})
        super().format_help(ctx, formatter)


def names(flag: str, **how: Any) -> Decorator:
    """An option that takes names, separated by commas, and may be repeated."""

    def join(ctx: click.Context, param: click.Parameter, given: tuple[str, ...]) -> str | None:
        if param.name == "sensitive" and not all(text.strip(", ") for text in given):
            raise click.BadParameter("name a column of the table.", ctx, param)
        return ",".join(given) if given else None

    return option(flag, multiple=True, callback=join, **how)


def setting(*flags: str, **how: Any) -> Decorator:
    """An option that the help text leaves out; docs/data.md lists it."""
    return option(*flags, hidden=True, **how)


def together(*decorators: Decorator) -> Decorator:
    def decorate(command: Any) -> Any:
        for decorator in reversed(decorators):
            command = decorator(command)
        return command

    return decorate


# --- settings files --------------------------------------------------------------------------------------


def read_config(ctx: click.Context, param: click.Parameter, file: str | None) -> None:
    """Take what a settings file says for what the command line does not say. Other commands pass over what only an
    audit knows."""
    if file is None:
        return
    root = ctx.find_root().command
    audit = root.commands["audit"] if isinstance(root, click.Group) else ctx.command
    options = [option for option in (*audit.params, *ctx.command.params) if option.name != param.name]
    known = {_spelled(str(option.name)): option for option in options}
    given: dict[str, Any] = {}
    for name, value in _parsed(file).items():
        if _spelled(name) not in known:
            meant = nearest(_spelled(name), sorted(known), most=60)
            raise SettingError(f"'{file}': there is no option '{name}'. {meant}")
        option = known[_spelled(name)]
        if option.name in given:
            raise SettingError(f"'{file}': the option '{_spelled(name)}' occurs twice; leave one out.")
        text = _value(option, value, f"'{file}': {name}", ctx)
        is_path = isinstance(option.type, click.Path) and not _is_table_name(text)
        given[str(option.name)] = os.path.normpath(Path(file).parent / text) if is_path else text
    ctx.default_map = dict(ctx.default_map or {}) | given


def config_text(settings: dict[str, Any], folder: Path, version: str) -> str:
    """The settings as a file in that folder, for `read_config`."""
    paths = {
        name: os.path.relpath(settings[name], folder)
        for name in PATHS
        if name in settings and not _is_table_name(settings[name])
    }
    lines = [f"{name} = {_toml(value)}" for name, value in (settings | paths).items()]
    return "\n".join([f"# Repeats this audit (butfor {version}): butfor audit --config {SETTINGS}", *lines, ""])


def _is_table_name(text: str) -> bool:
    """Whether a table is no file: an embedded data set, or standard input."""
    from butfor.data import DATASETS

    return text in (*DATASETS, "-")


def _parsed(file: str) -> dict[str, Any]:
    try:
        return tomllib.loads(Path(file).read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingError(f"--config '{file}' cannot be read ({error.strerror}); name a TOML file.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingError(
            f"--config '{file}' is not a TOML file ({error}); write lines such as label = \"x\"."
        ) from error


def _spelled(name: str) -> str:
    return name.replace("_", "-")


def _value(option: click.Parameter, value: Any, where: str, ctx: click.Context) -> Any:
    """A file's value as the option takes it from the command line; lists of names have commas there."""
    if isinstance(value, dict):
        raise SettingError(f"{where} is a section; write options at the top, one a line.")
    several = value if isinstance(value, list) else [value]
    if isinstance(option, click.Option) and option.is_flag:
        if not isinstance(value, bool):
            raise SettingError(f"{where} = {_toml(value)}: give true or false.")
        return value
    if any(isinstance(one, bool) for one in several):
        raise SettingError(f"{where} = {_toml(value)}: this is not true or false.")
    text = [str(one) for one in several] if option.multiple else ",".join(map(str, several))
    if any("\0" in one for one in text):
        raise SettingError(f"{where} holds a NUL byte; leave it out.")
    try:
        option.type_cast_value(ctx, text)
    except click.BadParameter as error:
        raise SettingError(f"{where} = {_toml(value)}: {error.message}") from error
    return text


def _toml(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


# --- options ---------------------------------------------------------------------------------------------


class Seed(click.IntRange):
    """Its range is said where it is left, not in every help text."""

    name = "integer"

    def _describe_range(self) -> str:
        return ""


SEED = Seed(0, 2**32 - 1)
TABLE_NAME = argument("table", type=ROWS)
COLUMNS = (
    option("--label", help='The label column; of a number two labels: "score>=70".'),
    names("--sensitive", help="The protected attribute: a column, or several (a,b)."),
    names("--drop", help="Columns not to learn from (a,b). A dropped protected attribute still forms groups."),
    option("--id", help="The column that names the rows; it is not learned from."),
    option("--cluster", help="The column that joins rows about one person; it is not learned from."),
    option("--weight", help="The column with each row's weight; it is not learned from."),
    option(
        "--missing",
        type=click.Choice(["own", "refuse", "drop"]),
        default="own",
        show_default=True,
        help="Missing values: a value of their own, refused, or their rows dropped.",
    ),
    option(
        "--bands",
        multiple=True,
        help="Cut points of a numeric protected attribute: 25,60 or age=25,60. Default: thirds of more than 10 values.",
    ),
)
TEST = option("--test", type=ROWS, help="The people to audit. Default: the table is split 60/20/20.")
ADVERSE = option("--adverse", help="The label that people do not want, or several (a,b).")
REFERENCE = names("--reference", help="The group to compare with: white, or race=white,sex=m. Default: all others.")
TABLE = together(
    option_group("Table", *COLUMNS, TEST),
    names("--keep", hidden=True),
    setting("--validation", type=ROWS),
    setting("--split-seed", type=SEED),
)
MODEL = together(
    option_group(
        "Model",
        option(
            "--model",
            help="{models}; or yours, package.module:name. Default: mlp; for your own file without PyTorch, boosting.",
        ),
        option(
            "--members",
            type=int,
            help="Models under different seeds whose mean decides. Default: 16; fewer if training is slow.",
        ),
        option(
            "--engine",
            default="auto",
            show_default=True,
            help="{engines}; a device (cuda); processes here (local:4); a Dask cluster (tcp://scheduler:8786).",
        ),
        option("--random-state", type=int, default=0, show_default=True, help="Seed of model and search."),
    ),
    setting("--n-jobs", type=int),
    setting("--unknown", type=click.Choice(["own", "refuse"]), default="own"),
    setting("--max-categories", type=int),
    setting("--hidden"),
    setting("--batch-size"),
    setting("--epochs", type=int),
    setting("--encoding", type=click.Choice(["onehot", "embed", "ordinal"])),
)
QUESTION = together(
    option_group(
        "Question",
        option(
            "--cases",
            default=FIRST,
            show_default=True,
            help="Whom to audit, by position among the test rows: 148, 3,8 or 0:200.",
        ),
        option(
            "--budget",
            help="Labels to flip at most: a share (0.1%) or a count (3). Default: 1%; with --members 1, 0.1%.",
        ),
        option(
            "--adverse",
            help="The label that people do not want, or several (a,b): compares standards, audits people who get it.",
        ),
        REFERENCE,
        option(
            "--threshold",
            default="0.5",
            show_default=True,
            help="The probability at which people are accepted, or 'top 20%' to accept the best fifth.",
        ),
        option(
            "--phi",
            help="Who is audited: {phi}. Default: stable_under_switch; with --adverse also predicted.",
        ),
        option("--psi", default="published", show_default=True, help="Which labels may be flipped: {psi}."),
        option(
            "--fresh-seeds",
            type=int,
            default=59,
            show_default=True,
            help="Further seeds under which finds are tested.",
        ),
        option("--max-seconds", metavar="TIME", help="Stop after 90s, 10m or 2h and keep what is done."),
    ),
    setting("--towards"),
    setting("--rank"),
    setting("--strategy"),
    setting("--max-retrainings", type=int),
)
CONFIG = option(
    "--config",
    type=click.Path(dir_okay=False),
    is_eager=True,
    expose_value=False,
    callback=read_config,
    help="Options from a TOML file, such as the audit.toml of butfor audit; the command line wins.",
)
NAMES = option("--names", type=ROWS, help="Your words for groups, labels and columns: a TOML file.")
OVERWRITE = option("--overwrite", is_flag=True, help="Replace earlier results in that folder.")
JSON = option("--json", is_flag=True, help="Print JSON only.")
QUIET = option("--quiet", is_flag=True, help="No notes, no progress.")
OUTPUT = together(
    option_group(
        "Output",
        option("--out", type=FOLDER, help="Folder for the page, the record and tables."),
        OVERWRITE,
        NAMES,
        CONFIG,
        JSON,
        QUIET,
        option("--public", is_flag=True, help="Only rounded numbers per group, nothing about any person."),
    ),
    setting("--ledger", type=ROWS),
    setting("--strict", is_flag=True),
)

"""The options of the commands, and the settings that few people need: `--set NAME=VALUE`, or a line of a TOML file for
`--config`, which takes options and settings by their names, with paths as seen from that file:

table = "loans.csv"
label = "approved"
drop = ["name", "phone"]
budget = "1%"
epochs = 20
"""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click
from cloup import argument, option, option_group

from butfor.errors import SettingError, nearest

T = TypeVar("T")
ROWS, FOLDER = click.Path(), click.Path(path_type=Path, file_okay=False)
SEED = click.IntRange(0, 2**32 - 1)
UNITS = {"s": 1, "m": 60, "h": 3600}


# --- settings --------------------------------------------------------------------------------------------

SETTINGS = {
    name: click.Option([f"--{name}"], type=kind, default=default)
    for name, kind, default in (
        ("towards", str, None),
        ("ledger", ROWS, None),
        ("keep", str, None),
        ("validation", ROWS, None),
        ("split_seed", SEED, None),
        ("strict", bool, False),
        ("n_jobs", int, None),
        ("unknown", click.Choice(["own", "refuse"]), "own"),
        ("max_categories", int, None),
        ("encoding", click.Choice(["onehot", "embed", "ordinal"]), None),
        ("hidden", str, None),
        ("batch_size", str, None),
        ("epochs", int, None),
        ("rank", str, None),
        ("strategy", str, None),
        ("max_retrainings", int, None),
    )
}
"""Of an audit; docs/data.md says what they mean."""


def dashed(name: str) -> str:
    return name.replace("_", "-")


def read_settings(ctx: click.Context, param: click.Parameter, given: tuple[str, ...]) -> dict[str, Any]:
    """All settings: those of --set, before those of --config, before their defaults."""
    settings = {name: each.default for name, each in SETTINGS.items()} | ctx.meta.get("settings", {})
    for text in given:
        name, equals, value = text.partition("=")
        name = name.strip().replace("-", "_")
        if not equals or name not in SETTINGS:
            meant = nearest(dashed(name), map(dashed, SETTINGS))
            raise SettingError(f"--set {text}: give a setting and its value, such as epochs=20. {meant}")
        settings[name] = _value(SETTINGS[name], value.strip(), f"--set {text}", ctx)
    return settings


def read_config(ctx: click.Context, param: click.Parameter, file: str | None) -> None:
    """Take what a settings file says for what the command line does not say. Other commands pass over what only an
    audit knows."""
    if file is None:
        return
    try:
        lines = tomllib.loads(Path(file).read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingError(f"--config '{file}' cannot be read ({error.strerror}); name a TOML file.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingError(
            f"--config '{file}' is not a TOML file ({error}); write lines such as label = \"x\"."
        ) from error
    group = ctx.find_root().command
    audit = group.commands["audit"] if isinstance(group, click.Group) else ctx.command
    options = {str(each.name): each for each in (*audit.params, *ctx.command.params)} | SETTINGS
    for own in ("config", "settings"):
        options.pop(own, None)
    given: dict[str, Any] = {}
    for written, value in lines.items():
        name, where = written.replace("-", "_"), f"'{file}': {written}"
        if name not in options:
            meant = nearest(dashed(written), sorted(map(dashed, options)), most=60)
            raise SettingError(f"'{file}': there is no option '{written}'. {meant}")
        if name in given:
            raise SettingError(f"'{file}': the option '{dashed(written)}' occurs twice; leave one out.")
        text = _value(options[name], value, f"{where} = {_toml(value)}", ctx)
        is_path = isinstance(options[name].type, click.Path) and not is_table_name(text)
        given[name] = os.path.normpath(Path(file).parent / text) if is_path else text
    ctx.meta["settings"] = {name: value for name, value in given.items() if name in SETTINGS}
    ctx.default_map = dict(ctx.default_map or {}) | given


def is_table_name(text: str) -> bool:
    """Whether a table is no file: an embedded data set, or standard input."""
    from butfor import DATASETS

    return text in (*DATASETS, "-")


def _value(option: click.Parameter, value: Any, where: str, ctx: click.Context) -> Any:
    """A value as the option takes it from the command line, where lists of names have commas."""
    several = value if isinstance(value, list) else [value]
    if isinstance(value, dict):
        raise SettingError(f"{where} is a section; write options at the top, one a line.")
    if any("\0" in str(one) for one in several):
        raise SettingError(f"{where} holds a NUL byte; leave it out.")
    if getattr(option, "is_flag", False):
        if not isinstance(value, bool):
            raise SettingError(f"{where}: give true or false.")
        return value
    if any(isinstance(one, bool) for one in several) and option.type is not click.BOOL:
        raise SettingError(f"{where}: this is not true or false.")
    text = [str(one) for one in several] if option.multiple else ",".join(map(str, several))
    try:
        taken = option.type_cast_value(ctx, text)
    except click.BadParameter as error:
        raise SettingError(f"{where}: {error.message}") from error
    return taken if option.name in SETTINGS else text


def config_text(settings: dict[str, Any], folder: Path, version: str) -> str:
    """Options and settings as a file in that folder, for `read_config`."""
    lines = []
    for name, value in settings.items():
        if name in ("table", "test", "validation", "names") and not is_table_name(value):
            value = os.path.relpath(value, folder)
        lines.append(f"{name} = {_toml(value)}")
    return "\n".join([f"# Repeats this audit (butfor {version}): butfor audit --config audit.toml", *lines, ""])


def _toml(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


# --- texts of options as values --------------------------------------------------------------------------


def read(option: str, text: str, value: Callable[[str], T], how: str) -> T:
    """The value of a text, or an error that says how to write it."""
    try:
        return value(text)
    except ValueError:
        raise SettingError(f"{option} '{text}': give {how}.") from None


def names_in(text: str | None) -> list[str]:
    """Names separated by commas."""
    return [name.strip() for name in (text or "").split(",") if name.strip()]


def references_in(text: str | None, attributes: Sequence[str]) -> dict[str, str] | list[str] | None:
    """Groups such as white, or attributes with their groups: race=white,sex=m."""
    named = names_in(text)
    pairs = [name.partition("=") for name in named]
    if not named or any(not equals or attribute.strip() not in attributes for attribute, equals, _ in pairs):
        return named or None
    groups = {attribute.strip(): group.strip() for attribute, _, group in pairs}
    if len(groups) < len(pairs):
        raise SettingError(f"--reference {text}: give one group per attribute.")
    return groups


def bands_in(given: Sequence[str]) -> Any:
    """Cut points from texts such as 25,60 and age=25,60."""
    bands: dict[str, list[float]] = {}
    for text in given:
        name, _, cuts = text.rpartition("=")
        bands[name] = read("--bands", cuts, lambda cuts: list(map(float, cuts.split(","))), "cut points: age=25,60")
    if len(bands) > 1 and "" in bands:
        raise SettingError("--bands: with cut points of several columns each needs its name, such as age=25,60.")
    return bands.get("", bands or None)


def cases_in(text: str, people: int) -> list[int]:
    """Positions from 148, 3,8 or 0:200; a range may reach past the end."""

    def positions(text: str) -> list[int]:
        chosen: list[int] = []
        for part in text.split(","):
            start, colon, stop = part.partition(":")
            if not colon:
                chosen.append(int(part))
                continue
            first, last = int(start or 0), int(stop) if stop.strip() else people
            if not 0 <= first < min(last, people):
                raise ValueError("an empty range")
            chosen += range(first, min(last, people))
        return list(dict.fromkeys(chosen))

    return read("--cases", text, positions, f"positions (3,8) or a range (0:200) of the people 0 to {people - 1}")


def budget_in(text: str) -> float:
    """A share such as 0.1% or 0.001, or a count such as 3."""

    def labels(text: str) -> float:
        number = float(text.removesuffix("%"))
        if text.endswith("%"):
            if not 0 < number < 100:
                raise ValueError("not a share of labels")
            return number / 100
        return int(number) if number >= 1 and number == int(min(number, 1e18)) else number

    return read("--budget", text.strip(), labels, "a count such as 3, or a share above 0 % and below 100 %")


def seconds_in(text: str) -> float:
    """A time such as 90s, 10m or 2h."""
    number, unit = (text[:-1], text[-1:]) if text[-1:] in UNITS else (text, "s")
    return read("--max-seconds", number, float, "a time such as 90s, 10m or 2h") * UNITS[unit]


def layers_in(text: str) -> tuple[int, ...]:
    """Widths such as 32,32, or none."""
    if text.strip() == "none":
        return ()
    return tuple(read("--set hidden", text, lambda text: list(map(int, text.split(","))), "widths (32,32) or none"))


# --- options ---------------------------------------------------------------------------------------------


def several(flag: str, help: str) -> Callable[[Any], Any]:
    """An option that takes names, separated by commas, and may be repeated."""

    def join(ctx: click.Context, param: click.Parameter, given: tuple[str, ...]) -> str | None:
        if param.name == "sensitive" and not all(text.strip(", ") for text in given):
            raise click.BadParameter("name a column of the table.", ctx, param)
        return ",".join(given) if given else None

    return option(flag, multiple=True, callback=join, help=help)


TABLE_NAME = argument("table", type=ROWS)
MISSING = click.Choice(["own", "refuse", "drop"])
BANDS = "Cut points of a numeric protected attribute: 25,60 or age=25,60. Default: thirds of more than 10 values."
COLUMNS = (
    option("--label", help='The label column; of a number two labels: "score>=70".'),
    several("--sensitive", "The protected attribute: a column, or several (a,b)."),
    several("--drop", "Columns not to learn from (a,b). A dropped protected attribute still forms groups."),
    option("--id", help="The column that names the rows; it is not learned from."),
    option("--cluster", help="The column that joins rows about one person; it is not learned from."),
    option("--weight", help="The column with each row's weight; it is not learned from."),
    option("--missing", type=MISSING, default="own", help="Missing values: a value of their own, refused, or dropped."),
    option("--bands", multiple=True, help=BANDS),
)
TEST = option("--test", type=ROWS, help="The people to audit. Default: the table is split 60/20/20.")
TABLE = option_group("Table", *COLUMNS, TEST)
ADVERSE = option("--adverse", help="The label that people do not want, or several (a,b).")
REFERENCE = several("--reference", "The group to compare with: white, or race=white,sex=m. Default: all others.")
MODELS = (
    "mlp, logistic, ridge, linear, kernel-ridge, knn, forest, boosting, steady, lightgbm, xgboost; or yours, "
    "package.module:name. Default: mlp; for your own file without PyTorch, boosting."
)
ENGINES = (
    "auto, fused, stacked, linear, boosting, joblib; a device (cuda); processes here (local:4); a Dask cluster "
    "(tcp://scheduler:8786)."
)
MODEL = option_group(
    "Model",
    option("--model", help=MODELS),
    option("--members", type=int, help="Models whose mean decides. Default: 16; fewer if training is slow."),
    option("--engine", default="auto", help=ENGINES),
    option("--random-state", type=int, default=0, help="Seed of model and search."),
)
PHI = (
    "Who is audited: stable_under_switch, in_group, predicted, everyone. Default: stable_under_switch; with --adverse "
    "also predicted."
)
PSI = (
    "Which labels may be flipped: published, same_group, labelled_as_predicted, correctly_predicted, doubted, "
    "everything."
)
QUESTION = option_group(
    "Question",
    option("--cases", default="0:200", help="Whom to audit, by position among the test rows: 148, 3,8 or 0:200."),
    option("--budget", help="Labels to flip at most: 0.1% or 3. Default: 1%; with --members 1, 0.1%."),
    ADVERSE,
    REFERENCE,
    option("--threshold", default="0.5", help="The probability at which people are accepted, or 'top 20%'."),
    option("--phi", help=PHI),
    option("--psi", default="published", help=PSI),
    option("--fresh-seeds", type=int, default=59, help="Further seeds under which finds are tested."),
    option("--max-seconds", metavar="TIME", help="Stop after 90s, 10m or 2h and keep what is done."),
)
SETTING = "A setting of docs/data.md, such as epochs=20. Repeat for each."
SET = option("--set", "settings", metavar="NAME=VALUE", multiple=True, callback=read_settings, help=SETTING)
FILE = "Options from a TOML file, such as the audit.toml of butfor audit; the command line wins."
CONFIG = option("--config", type=ROWS, is_eager=True, expose_value=False, callback=read_config, help=FILE)
NAMES = option("--names", type=ROWS, help="Your words for groups, labels and columns: a TOML file.")
OVERWRITE = option("--overwrite", is_flag=True, help="Replace earlier results in that folder.")
JSON = option("--json", is_flag=True, help="Print JSON only.")
QUIET = option("--quiet", is_flag=True, help="No notes, no progress.")
OUT = option("--out", type=FOLDER, help="Folder for the page, the record and tables.")
PUBLIC = option("--public", is_flag=True, help="Only rounded numbers per group, nothing about any person.")
OUTPUT = option_group("Output", OUT, OVERWRITE, NAMES, CONFIG, SET, JSON, QUIET, PUBLIC)

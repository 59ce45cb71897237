"""The options of the commands, and the settings that few people need: `--set NAME=VALUE`, or a line
of a TOML file for `--config`, which takes options and settings by their names, with paths as seen
from that file:

table = "loans.csv"
label = "approved"
drop = ["name", "phone"]
budget = "1%"
epochs = 20
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
from click.types import convert_type
from cloup import argument, option, option_group

from butfor.support.errors import SettingError, nearest, shortened

ROWS, FOLDER, SEED = click.Path(), click.Path(path_type=Path, file_okay=False), int
UNITS = {"s": 1, "m": 60, "h": 3600}

# --- settings -------------------------------------------------------------------------------------

SETTINGS: dict[str, Any] = {
    "towards": str,
    "ledger": ROWS,
    "validation": ROWS,
    "split_seed": click.IntRange(0, 2**32 - 1),
    "n_jobs": int,
    "unknown": click.Choice(["own", "refuse"]),
    "max_categories": int,
    "encoding": click.Choice(["onehot", "embed", "ordinal"]),
    "hidden": str,
    "batch_size": str,
    "epochs": int,
    "rank": str,
    "strategy": str,
    "max_retrainings": int,
}
"""Of an audit, with their types; docs/data.md says what they mean."""


def dashed(name: str) -> str:
    return name.replace("_", "-")


def read_settings(
    ctx: click.Context, param: click.Parameter, given: tuple[str, ...]
) -> dict[str, Any]:
    """All settings: those of --set, before those of --config; None where neither says anything."""
    texts = dict(ctx.meta.get("settings", {}))
    for text in given:
        name, equals, value = text.partition("=")
        name = name.strip().replace("-", "_")
        if not equals or name not in SETTINGS:
            meant = nearest(dashed(name), map(dashed, SETTINGS))
            raise SettingError(
                f"--set {text}: give a setting and its value, such as --set epochs=20. {meant}"
            )
        texts[name] = value.strip()
    settings = dict.fromkeys(SETTINGS) | {"unknown": "own"}
    for name, text in texts.items():
        try:
            settings[name] = convert_type(SETTINGS[name])(text, param, ctx)
        except click.BadParameter as error:
            raise SettingError(f"--set {dashed(name)}={text}: {error.message}") from error
    return settings


def read_config(ctx: click.Context, param: click.Parameter, file: str | None) -> None:
    """Take what a settings file says for what the command line does not say. Other commands pass
    over what only an audit knows."""
    if file is None:
        return
    from butfor.support.files import found_from, toml_of  # imports pandas

    lines = toml_of(Path(file), "--config", 'Name a TOML file with lines such as label = "x".')
    group = ctx.find_root().command
    audit = group.commands["audit"] if isinstance(group, click.Group) else ctx.command
    options = {
        str(o.name): o
        for o in (*audit.params, *ctx.command.params)
        if o.name not in ("config", "settings")
    }
    types = SETTINGS | {name: o.type for name, o in options.items()}
    given: dict[str, Any] = {}
    for written, value in lines.items():
        name = written.replace("-", "_")
        if name not in types:
            meant = nearest(dashed(written), sorted(map(dashed, types)))
            raise SettingError(f"'{file}': there is no option '{shortened(written)}'. {meant}")
        if isinstance(value, dict):
            raise SettingError(
                f"'{file}': {written} is a section; write options at the top, one a line."
            )
        several = list(map(str, value)) if isinstance(value, list) else [str(value)]
        given[name] = several if name in options and options[name].multiple else ",".join(several)
        if isinstance(types[name], click.Path) and not is_table_name(given[name]):
            given[name] = found_from(Path(file).parent, given[name])
    ctx.meta["settings"] = {name: given.pop(name) for name in SETTINGS if name in given}
    ctx.default_map = dict(ctx.default_map or {}) | given


def is_table_name(text: str) -> bool:
    """Whether a table is no file: an embedded data set, or standard input."""
    from butfor import DATASETS

    return text in (*DATASETS, "-")


# --- texts of options as values -------------------------------------------------------------------


@contextmanager
def reading(option: str, text: str, how: str) -> Iterator[None]:
    """Around what reads a text: a ValueError becomes a sentence that says how to write it."""
    try:
        yield
    except ValueError:
        raise SettingError(f"{option} '{text}': give {how}.") from None


def names_in(text: str | None) -> list[str]:
    """Names separated by commas."""
    return [name.strip() for name in (text or "").split(",") if name.strip()]


def references_in(
    text: str | None, attributes: str | Sequence[str]
) -> dict[str, str] | list[str] | None:
    """Groups such as white, or attributes with their groups: race=white,sex=m."""
    known, named = [attributes] if isinstance(attributes, str) else attributes, names_in(text)
    pairs = [[part.strip() for part in name.split("=", 1)] for name in named]
    if not named or any(len(pair) == 1 or pair[0] not in known for pair in pairs):
        return named or None
    if len(dict(pairs)) < len(pairs):
        raise SettingError(f"--reference {text}: give one group per attribute.")
    return dict(pairs)


def bands_in(given: Sequence[str]) -> Any:
    """Cut points from texts such as 25,60, age=25,60 and born=1980-01-01."""
    from butfor.table.columns import ISO_DATE

    bands: dict[str, list[float | str]] = {}
    for text in given:
        name, _, cuts = text.rpartition("=")
        with reading("--bands", cuts, "cut points: age=25,60, or born=1980-01-01 of a date"):
            points = [cut.strip() for cut in cuts.split(",")]
            bands[name] = [cut if ISO_DATE.fullmatch(cut) else float(cut) for cut in points]
    if len(bands) > 1 and "" in bands:
        raise SettingError(
            "--bands: with cut points for several columns, name each column, such as age=25,60."
        )
    return bands.get("", bands or None)


def cases_in(text: str, people: int) -> list[int]:
    """Positions from 148, 3,8 or 0:200; a range may reach past the end."""
    from butfor.table.handed_over import as_positions

    positions: list[int] = []
    with reading(
        "--cases", text, f"positions (3,8) or a range (0:200) of the people 0 to {people - 1}"
    ):
        for part in text.split(","):
            start, colon, stop = part.partition(":")
            first, last = (
                (int(start or 0), min(int(stop or people), people))
                if colon
                else (int(part), int(part) + 1)
            )
            if not 0 <= first < last:
                raise ValueError("an empty range")
            positions += range(first, last)
    return as_positions(positions, people)


def budget_in(text: str) -> float:
    """A share such as 0.1% or 0.001, or a count such as 3."""
    text = text.strip()
    with reading("--budget", text, "a count such as 3, or a share above 0 % and below 100 %"):
        number = float(text.removesuffix("%"))
        if text.endswith("%") and not 0 < number < 100:
            raise ValueError("not a share of labels")
    return number / 100 if text.endswith("%") else int(number) if number.is_integer() else number


def seconds_in(text: str) -> float:
    """A time such as 90s, 10m or 2h."""
    number, unit = (text[:-1], text[-1]) if text[-1:] in UNITS else (text, "s")
    with reading("--max-seconds", number, "a time such as 90s, 10m or 2h"):
        seconds = float(number)
    return seconds * UNITS[unit]


def layers_in(text: str) -> tuple[int, ...]:
    """Widths such as 32,32, or none."""
    with reading("--set hidden", text, "widths (32,32) or none"):
        widths = [] if text.strip() == "none" else [int(width) for width in text.split(",")]
    return tuple(widths)


# --- options --------------------------------------------------------------------------------------


def several(flag: str, help: str) -> Callable[[Any], Any]:
    """An option that takes names, separated by commas, and may be repeated."""
    return option(
        flag, multiple=True, callback=lambda ctx, param, given: ",".join(given) or None, help=help
    )


TABLE_NAME = argument("table", type=ROWS)
COLUMNS = (
    option("--label", help='The label column. For a column of numbers, two labels: "score>=70".'),
    several("--sensitive", "The protected attribute: a column, or several (a,b)."),
    several(
        "--drop",
        "Columns not to learn from (a,b). A dropped protected attribute still forms groups.",
    ),
    option("--id", help="The column that identifies rows. Not used for training."),
    option(
        "--cluster",
        help="The column that joins rows about one person or household. Not used for training.",
    ),
    option("--weight", help="The column with row weights. Not used for training."),
    option(
        "--missing",
        type=click.Choice(["own", "refuse", "drop"]),
        default="own",
        help="Missing values: their own value, an error, or drop the row.",
    ),
    option(
        "--decimal",
        type=click.Choice([",", "."]),
        help="The decimal sign of numbers that are text (1.234,50 or 1,234.50). Default: such "
        "columns stay text.",
    ),
    option(
        "--day-first",
        is_flag=True,
        help="Read text such as 29.02.2024 as dates. Default: it stays text.",
    ),
    option(
        "--bands",
        multiple=True,
        help="Cut points for a protected number or date: 25,60, age=25,60 or born=1980-01-01. "
        "Default: thirds, above "
        "10 different values.",
    ),
)
TEST = option(
    "--test", type=ROWS, help="A file with the people to audit. Default: TABLE is split 60/20/20."
)
TABLE = option_group("Table", *COLUMNS, TEST)
ADVERSE = option("--adverse", help="The unfavourable label, or several (a,b).")
REFERENCE = several(
    "--reference",
    "The group to compare with: white, or race=white,sex=m. Default: all other groups.",
)
DRAWS = option(
    "--draws",
    type=int,
    help="Tables to draw under one standard for all, for intervals and p. Default: 99, up to 999 "
    "while a p is close to "
    "0.05.",
)
MODELS = (
    "mlp, logistic, ridge, linear, kernel-ridge, knn, forest, boosting, steady, lightgbm, "
    "xgboost; or your own, "
    "package.module:name. Default: mlp; for your own file without PyTorch, boosting."
)
ENGINES = (
    "auto, fused, stacked, linear, boosting, joblib; a device (cuda); processes on this machine "
    "(local:4); a Dask "
    "cluster (tcp://scheduler:8786)."
)
MODEL = option_group(
    "Model",
    option("--model", help=MODELS),
    option(
        "--members",
        type=int,
        help="Number of models whose mean decides. Default: 16; 8 if training is slow.",
    ),
    option("--engine", default="auto", help=ENGINES),
    option("--random-state", type=SEED, default=0, help="Seed of the model and the search."),
)
PHI = (
    "Who is audited: stable_under_switch, in_group, predicted, everyone. Default: "
    "stable_under_switch; with --adverse "
    "also predicted."
)
PSI = (
    "Which labels may be flipped: published, same_group, labelled_as_predicted, "
    "correctly_predicted, doubted, "
    "everything."
)
QUESTION = option_group(
    "Question",
    option(
        "--cases",
        default="0:200",
        help="Whom to audit, by position in the test rows: 148, 3,8 or 0:200.",
    ),
    option(
        "--budget",
        help="Most labels to flip: a share (0.1%) or a count (3). Default: 1%; 0.1% with "
        "--members 1.",
    ),
    ADVERSE,
    REFERENCE,
    DRAWS,
    option(
        "--threshold",
        default="0.5",
        help="Probability from which people are accepted, or 'top 20%'.",
    ),
    option("--phi", help=PHI),
    option("--psi", default="published", help=PSI),
    option(
        "--fresh-seeds",
        type=int,
        default=59,
        help="Number of new seeds under which each find is tested.",
    ),
    option(
        "--max-seconds", metavar="TIME", help="Stop after 90s, 10m or 2h and keep what is done."
    ),
)
SETTING = "A further setting, such as epochs=20; docs/data.md lists them. Repeatable."
SET = option(
    "--set", "settings", metavar="NAME=VALUE", multiple=True, callback=read_settings, help=SETTING
)
FILE = (
    "A TOML file with options, such as the audit.toml of an earlier audit. The command line wins."
)
CONFIG = option(
    "--config", type=ROWS, is_eager=True, expose_value=False, callback=read_config, help=FILE
)
NAMES = option(
    "--names", type=ROWS, help="A TOML file with your words for people, groups, labels and columns."
)
OVERWRITE = option("--overwrite", is_flag=True, help="Replace earlier results in that folder.")
JSON = option("--json", is_flag=True, help="Print JSON only.")
QUIET = option("--quiet", is_flag=True, help="No notes, no progress.")
OUT = option("--out", type=FOLDER, help="Folder for the page, the record and the tables.")
PUBLIC = option(
    "--public", is_flag=True, help="Only rounded figures per group, nothing about individuals."
)
PRIVATE = option(
    "--private",
    is_flag=True,
    help="On the page of one person, nothing of other people but row ids.",
)
OUTPUT = option_group("Output", OUT, OVERWRITE, NAMES, CONFIG, SET, JSON, QUIET, PUBLIC, PRIVATE)

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

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar, cast

import click
import cloup
from click.types import convert_type
from cloup import argument, option, option_group
from cloup.formatting import HelpSection, ensure_is_cloup_formatter

from butfor.settings import AuditSettings
from butfor.standard.settings import ComparisonOptions, ComparisonSettings
from butfor.support.checks import LARGEST_SEED
from butfor.support.errors import SettingError, nearest, shortened
from butfor.support.settings import Declared, declarations, declared, default_of

ROWS = click.Path()
FOLDER = click.Path(path_type=Path, file_okay=False)
SECONDS_PER_UNIT = {"s": 1, "m": 60, "h": 3600}
T = TypeVar("T")

# --- declarations ---------------------------------------------------------------------------------
# Those of an audit and of a comparison of groups stand in `AuditSettings` and `ComparisonSettings`.
# What has no group is a setting of --set.


@dataclass(frozen=True, kw_only=True)
class TableOptions:
    """How a table is read, and what its columns are."""

    label: str | None = field(
        default=None,
        metadata=declared(
            'The label column. For a column of numbers, two labels: "score>=70".', group="Table"
        ),
    )
    sensitive: str | None = field(
        default=None,
        metadata=declared(
            "The protected attribute: a column, or several (a,b).", several=True, group="Table"
        ),
    )
    drop: str | None = field(
        default=None,
        metadata=declared(
            "Columns not to learn from (a,b). A dropped protected attribute still forms groups.",
            several=True,
            group="Table",
        ),
    )
    id: str | None = field(
        default=None,
        metadata=declared("The column that identifies rows. Not used for training.", group="Table"),
    )
    cluster: str | None = field(
        default=None,
        metadata=declared(
            "The column that joins rows about one person or household. Not used for training.",
            group="Table",
        ),
    )
    weight: str | None = field(
        default=None,
        metadata=declared("The column with row weights. Not used for training.", group="Table"),
    )
    missing: str = field(
        default="own",
        metadata=declared(
            "Missing values: their own value, an error, or drop the row.",
            kind=click.Choice(["own", "refuse", "drop"]),
            group="Table",
        ),
    )
    decimal: str | None = field(
        default=None,
        metadata=declared(
            "The decimal sign of numbers that are text (1.234,50 or 1,234.50). Default: such "
            "columns stay text.",
            kind=click.Choice([",", "."]),
            group="Table",
        ),
    )
    day_first: bool = field(
        default=False,
        metadata=declared(
            "Read text such as 29.02.2024 as dates. Default: it stays text.",
            kind=bool,
            group="Table",
        ),
    )
    bands: Sequence[str] = field(
        default=(),
        metadata=declared(
            "Cut points for a protected number or date with more than 10 different values: 25,60, "
            "age=25,60 or born=1980-01-01.",
            repeated=True,
            group="Table",
        ),
    )
    test: str | None = field(
        default=None,
        metadata=declared(
            "A file with the people to audit. Default: TABLE is split 60/20/20.",
            kind=Path,
            group="People",
        ),
    )
    validation: str | None = field(
        default=None,
        metadata=declared("A file with the rows that stop a network's training early.", kind=Path),
    )
    split_seed: int | None = field(
        default=None,
        metadata=declared("Seed of the 60/20/20 split.", kind=click.IntRange(0, LARGEST_SEED)),
    )


@dataclass(frozen=True, kw_only=True)
class EncodingOptions:
    """How columns become numbers."""

    unknown: str = field(
        default="own",
        metadata=declared(
            "A category that no training row has: own, its own value, or refuse, an error.",
            kind=click.Choice(["own", "refuse"]),
        ),
    )
    max_categories: int | None = field(
        default=None,
        metadata=declared(
            "The most categories of a column, 2 to 1000; the rarest together are one. Default: "
            "100.",
            kind=int,
        ),
    )
    encoding: str | None = field(
        default=None,
        metadata=declared(
            "How categories become numbers: onehot, embed or ordinal. Default: onehot; embed for "
            "an embedded set.",
            kind=click.Choice(["onehot", "embed", "ordinal"]),
        ),
    )


@dataclass(frozen=True, kw_only=True)
class NetworkOptions:
    """How the network of --model mlp is built and trained."""

    hidden: str | None = field(
        default=None, metadata=declared("Hidden layers of a network: 32,32 or none.")
    )
    batch_size: str | None = field(
        default=None, metadata=declared("Rows per step of a network's training, or full.")
    )
    epochs: int | None = field(
        default=None, metadata=declared("The most epochs of a network's training.", kind=int)
    )


@dataclass(frozen=True, kw_only=True)
class QuestionOptions:
    """What is asked, and for how long."""

    cases: str = field(
        default="0:200",
        metadata=declared(
            "Whom to audit, by position in the test rows: 148, 3,8 or 0:200.", group="Question"
        ),
    )
    adverse: str | None = field(
        default=None,
        metadata=declared("The unfavourable label, or several (a,b).", group="Question"),
    )
    max_seconds: str | None = field(
        default=None,
        metadata=declared(
            "Stop after 90s, 10m or 2h and keep what is done.", metavar="TIME", group="Question"
        ),
    )
    towards: str | None = field(
        default=None, metadata=declared("The decision to reach. Default: any other.")
    )
    max_retrainings: int | None = field(
        default=None, metadata=declared("Stop after that many retrainings.", kind=int)
    )


@dataclass(frozen=True, kw_only=True)
class OutputOptions:
    """What is written and printed."""

    out: Path | None = field(
        default=None,
        metadata=declared(
            "Folder for the page, the record and the tables.", kind=FOLDER, group="Output"
        ),
    )
    overwrite: bool = field(
        default=False,
        metadata=declared("Replace earlier results in that folder.", kind=bool, group="Output"),
    )
    names: str | None = field(
        default=None,
        metadata=declared(
            "A TOML file with your words for people, groups, labels and columns.",
            kind=Path,
            group="Output",
        ),
    )
    json: bool = field(
        default=False, metadata=declared("Print JSON only.", kind=bool, group="Output")
    )
    quiet: bool = field(
        default=False, metadata=declared("No notes, no progress.", kind=bool, group="Output")
    )
    private: bool = field(
        default=False,
        metadata=declared(
            "On the page of one person, nothing of other people but row ids.",
            kind=bool,
            group="Output",
        ),
    )


FIRST = (
    *("label", "adverse", "sensitive", "id", "drop"),
    *("model", "threshold", "budget", "cases", "out"),
)
"""The options of an audit that a newcomer needs: help shows them first."""
SETTING_OWNERS = (TableOptions, EncodingOptions, NetworkOptions, AuditSettings, QuestionOptions)
SETTINGS: dict[str, Declared] = {
    name: about
    for owner in SETTING_OWNERS
    for name, about in declarations(owner).items()
    if not about.group
}
"""What `--set` of an audit takes; docs/data.md says more about each."""
SETTING_DEFAULTS: dict[str, Any] = {
    name: default_of(owner, name)
    for owner in SETTING_OWNERS
    for name in declarations(owner)
    if name in SETTINGS
}


def type_of(about: Declared) -> Any:
    """The type of click that reads a text."""
    return ROWS if about.kind is Path else about.kind


def options_in(owner: type, group: str) -> list[Callable[[Any], Any]]:
    """The options that a settings object declares under this heading."""
    named = declarations(owner).items()
    return [option_of(owner, name) for name, about in named if about.group == group]


def option_of(owner: type, name: str, **changed: Any) -> Callable[[Any], Any]:
    """One of them; `changed` are arguments of click's `option` that are another command's own."""
    about = declarations(owner)[name]
    default = default_of(owner, name)
    how: dict[str, Any] = {"help": about.sentence, "metavar": about.metavar}
    if about.kind is bool:
        how["is_flag"] = True
    elif about.several:  # names, separated by commas, that may be repeated
        how["multiple"] = True
        how["callback"] = joined
    elif about.repeated:
        how["multiple"] = True
    else:
        how["type"] = type_of(about)
        how["default"] = default
        if about.kind is str and default is not None:
            how["default"] = str(default)
    how |= changed
    return option(how.pop("flag", f"--{dashed(name)}"), **how)


def joined(ctx: click.Context, param: click.Parameter, given: tuple[str, ...]) -> str | None:
    return ",".join(given) or None


def told_of(kind: type[T], options: Mapping[str, Any]) -> T:
    """The part of a command's options that one object holds."""
    names = [each.name for each in fields(kind)]  # type: ignore[arg-type]
    return kind(**{name: options[name] for name in names if name in options})


def comparison_told(
    options: Mapping[str, Any], attributes: str | Sequence[str]
) -> ComparisonOptions:
    """What the options say about the comparison of groups."""
    named = declarations(ComparisonSettings).items()
    told = {name: options[name] for name, about in named if about.group}
    told["reference"] = references_in(told["reference"], attributes)
    return cast(ComparisonOptions, told)


class NewcomersFirst(cloup.Command):
    """A command whose help begins with the `FIRST` options and ends with the settings."""

    def format_params(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        def records(params: Sequence[click.Parameter]) -> list[tuple[str, str]]:
            return [record for param in params if (record := param.get_help_record(ctx))]

        by_name = {param.name: param for param in self.params}
        sections = [HelpSection("Common options", records([by_name[name] for name in FIRST]))]
        for group in (*self.option_groups, self.get_default_option_group(ctx)):
            others = [param for param in group.options if param.name not in FIRST]
            sections.append(HelpSection(group.title, records(others)))
        settings = [(dashed(name), about.sentence) for name, about in SETTINGS.items()]
        sections.append(HelpSection("Settings of --set NAME=VALUE", settings))
        ensure_is_cloup_formatter(formatter).write_many_sections(sections, aligned=True)


# --- settings -------------------------------------------------------------------------------------


GONE = {
    "public": "groups.csv, which --out FOLDER writes, has the rounded figures of every group.",
    "max-close-calls": "audit.json has the counts, people[].without_flips and, of finds, "
    "people[].fresh.without_flips; docs/review.md shows a line of jq that holds them to a limit.",
    "max-switch": "audit.json has people[].switch_changes; docs/review.md shows a line of jq that "
    "holds it to a limit.",
}
"""Options of 0.5 that went, and what to do instead."""


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
        options = {option.name for option in ctx.command.params}
        if equals and name in options:
            raise SettingError(
                f"--set {text}: this is an option: --{dashed(name)} {value.strip()}."
            )
        if not equals or name not in SETTINGS:
            meant = nearest(dashed(name), map(dashed, SETTINGS))
            raise SettingError(
                f"--set {text}: give a setting and its value, such as --set epochs=20. {meant}"
            )
        texts[name] = value.strip()
    settings = dict(SETTING_DEFAULTS)
    for name, text in texts.items():
        try:
            settings[name] = convert_type(type_of(SETTINGS[name]))(text, param, ctx)
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
    types = {name: type_of(about) for name, about in SETTINGS.items()}
    types |= {name: o.type for name, o in options.items()}
    given: dict[str, Any] = {}
    for written, value in lines.items():
        name = written.replace("-", "_")
        if dashed(name) in GONE:
            raise SettingError(f"'{file}': {written} was removed in 0.6. {GONE[dashed(name)]}")
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
    columns = [attributes] if isinstance(attributes, str) else attributes
    groups = names_in(text)
    pairs = [[part.strip() for part in name.split("=", 1)] for name in groups]
    if not groups or any(len(pair) == 1 or pair[0] not in columns for pair in pairs):
        return groups or None
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
            if colon:
                first = int(start or 0)
                last = min(int(stop or people), people)
            else:
                first = int(part)
                last = first + 1
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
    if text.endswith("%"):
        return number / 100
    return int(number) if number.is_integer() else number


def seconds_in(text: str) -> float:
    """A time such as 90s, 10m or 2h."""
    unit = text[-1:]
    number = text[:-1]
    if unit not in SECONDS_PER_UNIT:
        unit = "s"
        number = text
    with reading("--max-seconds", number, "a time such as 90s, 10m or 2h"):
        seconds = float(number)
    return seconds * SECONDS_PER_UNIT[unit]


def layers_in(text: str) -> tuple[int, ...]:
    """Widths such as 32,32, or none."""
    with reading("--set hidden", text, "widths (32,32) or none"):
        none = text.strip() == "none"
        widths = [] if none else [int(width) for width in text.split(",")]
    return tuple(widths)


# --- options --------------------------------------------------------------------------------------


TABLE_NAME = argument("table", type=ROWS)
COLUMNS = options_in(TableOptions, "Table")
TABLE = option_group("Table", *COLUMNS, *options_in(TableOptions, "People"))
ADVERSE = option_of(QuestionOptions, "adverse")
COMPARISON = options_in(ComparisonSettings, "Question")
MODEL = option_group("Model", *options_in(AuditSettings, "Model"))
BUDGET, *SEARCH = options_in(AuditSettings, "Question")
QUESTION = option_group(
    "Question",
    option_of(QuestionOptions, "cases"),
    *(BUDGET, ADVERSE, *COMPARISON, *SEARCH),
    option_of(QuestionOptions, "max_seconds"),
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
OUT, OVERWRITE, NAMES, *PRINTED = options_in(OutputOptions, "Output")
JSON, QUIET, *_ = PRINTED
OUTPUT = option_group("Output", OUT, OVERWRITE, NAMES, CONFIG, SET, *PRINTED)

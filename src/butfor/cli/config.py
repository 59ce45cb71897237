"""Settings files: the options of an audit by their names, in TOML.

table = "loans.csv"
label = "approved"
drop = ["name", "phone"]
budget = "1%"
"""

from __future__ import annotations

import json
import tomllib
from collections import Counter
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import click

from butfor.errors import SettingError, listed

FILE = "audit.toml"


def read_config(ctx: click.Context, param: click.Parameter, file: str | None) -> None:
    """Take what a settings file says for what the command line does not say. Other commands pass over what only an
    audit knows."""
    if file is None:
        return
    given = _parsed(file)
    own = {name: option for option in ctx.command.params for name in _names(option) if option is not param}
    root = ctx.find_root().command
    audit = root.commands.get("audit", ctx.command) if isinstance(root, click.Group) else ctx.command
    known = {name: option for option in audit.params for name in _names(option) if name != param.name} | own
    unknown = [name for name in given if _spelled(name) not in known]
    if unknown:
        near = get_close_matches(_spelled(unknown[0]), known, n=1)
        meant = f" Did you mean '{near[0]}'?" if near else f" Known are {listed(sorted(known), 60)}."
        raise SettingError(f"'{file}': there is no option '{unknown[0]}'.{meant}")
    twice = [name for name, times in Counter(map(_spelled, given)).items() if times > 1]
    if twice:
        raise SettingError(f"'{file}': the option '{twice[0]}' occurs twice; leave one out.")
    ctx.default_map = dict(ctx.default_map or {}) | {
        str(known[_spelled(name)].name): _value(known[_spelled(name)], value, f"'{file}': {name}", ctx)
        for name, value in given.items()
    }


def written_config(settings: dict[str, Any], version: str) -> str:
    """The settings as a file that `read_config` reads."""
    lines = [f"{name} = {_toml(value)}" for name, value in settings.items()]
    return "\n".join([f"# Repeats this audit (butfor {version}): butfor audit --config {FILE}", *lines, ""])


def _parsed(file: str) -> dict[str, Any]:
    try:
        return tomllib.loads(Path(file).read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingError(f"--config '{file}' cannot be read ({error.strerror}); name a TOML file.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingError(
            f"--config '{file}' is not a TOML file ({error}); write lines such as label = \"x\"."
        ) from error


def _names(option: click.Parameter) -> list[str]:
    """What an option is called in a file: as on the command line, without the dashes in front."""
    if isinstance(option, click.Argument):
        return [str(option.name)]
    return [flag.removeprefix("--") for flag in (*option.opts, *option.secondary_opts) if not flag.startswith("--no-")]


def _spelled(name: str) -> str:
    return name.replace("_", "-")


def _value(option: click.Parameter, value: Any, where: str, ctx: click.Context) -> Any:
    """A file's value as the option takes it from the command line; lists of names have commas there."""
    if isinstance(value, dict):
        raise SettingError(f"{where} is a section; write options at the top, one a line.")
    several = value if isinstance(value, list) else [value]
    flag = isinstance(option, click.Option) and option.is_flag
    if flag != (bool(several) and all(isinstance(one, bool) for one in several)) or (isinstance(value, list) and flag):
        raise SettingError(
            f"{where} = {_toml(value)}: {'give true or false' if flag else 'this is not true or false'}."
        )
    if flag:
        return value
    text = [str(one) for one in several] if option.multiple else ",".join(str(one) for one in several)
    if any("\0" in one for one in text):
        raise SettingError(f"{where} holds a NUL byte; leave it out.")
    try:
        option.type_cast_value(ctx, text)
    except click.BadParameter as error:
        raise SettingError(f"{where} = {_toml(value)}: {error.message}") from error
    return text


def _toml(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_toml, value))}]"
    return (
        json.dumps(value, ensure_ascii=False) if isinstance(value, (str, bool, int, float)) else json.dumps(str(value))
    )

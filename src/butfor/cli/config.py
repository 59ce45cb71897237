"""Settings files: the options of an audit by their names, in TOML.

table = "loans.csv"
label = "approved"
drop = ["name", "phone"]
budget = "1%"
"""

from __future__ import annotations

import json
import tomllib
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
    root = ctx.find_root().command
    audit = root.commands["audit"] if isinstance(root, click.Group) else ctx.command
    options = [option for option in (*audit.params, *ctx.command.params) if option.name != param.name]
    known = {_spelled(str(option.name)): option for option in options}
    given: dict[str, Any] = {}
    for name, value in _parsed(file).items():
        if _spelled(name) not in known:
            near = get_close_matches(_spelled(name), known, n=1)
            meant = f" Did you mean '{near[0]}'?" if near else f" Known are {listed(sorted(known), 60)}."
            raise SettingError(f"'{file}': there is no option '{name}'.{meant}")
        option = known[_spelled(name)]
        if option.name in given:
            raise SettingError(f"'{file}': the option '{_spelled(name)}' occurs twice; leave one out.")
        given[str(option.name)] = _value(option, value, f"'{file}': {name}", ctx)
    ctx.default_map = dict(ctx.default_map or {}) | given


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

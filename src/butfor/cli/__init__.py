"""The command line: arguments → calls → printed tables. No logic of its own.

Results go to stdout, everything else to stderr. Bad input is one sentence and exit code 2.
"""

from __future__ import annotations

import re
import shlex
import sys
import warnings
from collections.abc import Sequence
from functools import partial
from typing import Any

import click
import cloup

from butfor import __version__
from butfor.cli.audit import audit
from butfor.cli.options import GONE, SETTINGS, dashed
from butfor.cli.review import gate, replay, review
from butfor.cli.tables import check_table, datasets, standard
from butfor.support.errors import (
    FULL,
    BandsNeeded,
    ButforError,
    OutputError,
    Stopped,
    first_line,
    shortened,
)
from butfor.support.stopping import stopped
from butfor.support.terminal import one_line, prepare, say

NO_ROOM = 3
BAD_INPUT = 2
LONGEST = 1000
LONGEST_WARNING = 300
"""Characters of a message, and of a warning."""
NO_MEMORY = "not enough memory|out of memory|alloc_cpu"
"""Torch's words for it."""
SMALLER = (
    "Not enough memory for this table and model: drop columns (--drop), group categories (--set "
    "max-categories=20), or use a smaller network (--set hidden=16) or fewer processes (--set "
    "n-jobs=1)."
)
OPTIONS = {"sample_weight": "weight", "max_epochs": "epochs"} | {name: name for name in SETTINGS}
OPTIONS |= {
    str(option.name): str(option.name)
    for each in (audit, standard, review)
    for option in each.params
}
"""What options and settings are called, by the names of Python's parameters."""


@cloup.group(
    context_settings={
        "help_option_names": ["-h", "--help"],
        "max_content_width": 100,
        "show_default": True,
    },
)
@cloup.version_option(__version__, package_name="butfor")
def cli() -> None:
    """Which few training labels does a decision hinge on? Are a group's labels held to another
    standard?"""


for each in (audit, check_table, datasets, gate, replay, review, standard):
    cli.add_command(each)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command. Exit codes: 0, 1 (a replay disagrees, a limit is broken, a review shows
    nothing), 2 (bad input), 3 (no space or memory left), 4 (the data cannot tell whether a limit is
    kept), 130 (interrupted)."""
    prepare()
    code = BAD_INPUT
    given = sys.argv[1:] if arguments is None else list(arguments)
    try:
        with warnings.catch_warnings():
            warnings.showwarning = partial(as_note, set(), "--quiet" in given)
            return cli.main(args=given, standalone_mode=False) or 0
    except (KeyboardInterrupt, click.Abort, Stopped):
        return stopped()
    except Exception as error:
        context = error.ctx if isinstance(error, click.UsageError) else None
        if context and str(error) == context.get_help():  # nothing was asked for
            say(context.get_help())
            return BAD_INPUT
        if isinstance(error, MemoryError) or re.search(NO_MEMORY, str(error).lower()):
            message = SMALLER
            code = NO_ROOM
        elif isinstance(error, OutputError):
            message = str(error)
            code = NO_ROOM if error.full else BAD_INPUT
        elif isinstance(error, OSError):
            message = f"{error.filename or 'The output'}: {error.strerror or error}."
            code = NO_ROOM if error.errno in FULL else BAD_INPUT
        elif isinstance(error, BandsNeeded):
            message = f"{error.sentence} {shlex.join(['butfor', *given, *error.options])}"
        elif isinstance(error, ButforError):
            message = spelled(str(error))
        elif isinstance(error, click.NoSuchOption) and error.option_name.lstrip("-") in GONE:
            message = (
                f"{error.option_name} was removed in 0.6. {GONE[error.option_name.lstrip('-')]}"
            )
        elif (
            isinstance(error, click.NoSuchOption)
            and error.option_name.lstrip("-").replace("-", "_") in SETTINGS
        ):
            message = (
                f"'{error.option_name}' is a setting: --set {error.option_name.lstrip('-')}=VALUE."
            )
        elif isinstance(error, click.ClickException):
            message = error.format_message() + (
                f" See '{context.command_path} --help'." if context else ""
            )
        else:
            raise
    say(f"Error: {within_a_screen(one_line(message))}", err=True)
    return code


def as_note(seen: set[str], quiet: bool, message: Warning | str, *_: Any, **__: Any) -> None:
    """A warning of scikit-learn or another library as one line, once; the place in their code helps
    nobody here."""
    line = shortened(
        one_line(first_line(message) if isinstance(message, Warning) else message), LONGEST_WARNING
    )
    if line not in seen and not quiet:
        say(f"Warning: {line}", err=True)
    seen.add(line)


def within_a_screen(sentence: str) -> str:
    """A message without its middle if it is longer than a screen: names and values in it may be of
    any length."""
    if len(sentence) <= LONGEST:
        return sentence
    return f"{sentence[: 2 * LONGEST // 3]} … {sentence[-LONGEST // 3 :]}"


def spelled(message: str) -> str:
    """An error of the library, with the parameter it names as its option is spelled: at the start
    of the message, or with a value ("threshold='top 20%'")."""

    def option(found: re.Match[str]) -> str:
        with_value, alone, pair = found.groups()
        name = OPTIONS[with_value or alone]
        flag = (
            f"--set {dashed(name)}{'=' if with_value else ''}"
            if name in SETTINGS
            else f"--{dashed(name)}"
        )
        value = re.sub(r"\{'(.*)': '(.*)'\}", r"\1=\2", pair or "")
        return f"{flag}{' ' if with_value and name not in SETTINGS else ''}{value}"

    names = "|".join(OPTIONS)
    return re.sub(
        rf"(?:(?<!--set )(?<![\w'`.-])({names})=|^(?:--)?({names})\b)(\{{.*?\}})?", option, message
    )

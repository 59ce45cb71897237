"""The command line: arguments → calls → printed tables. No logic of its own.

Results go to stdout, everything else to stderr. Bad input is one sentence and exit code 2.
"""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import NoReturn

import click

from butfor.cli.assemble import spelled
from butfor.cli.commands import cli
from butfor.errors import FULL, ButforError, OutputError, SettingError, Stopped
from butfor.signals import stopped, told_to_end
from butfor.terminal import one_line, prepare, say

NO_ROOM, BAD_INPUT = 3, 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command. Exit codes: 0, 1 (a replay disagrees, a limit is broken, a review shows nothing), 2 (bad
    input), 3 (no space or memory left), 4 (the data cannot tell whether a limit is kept), 130 (interrupted)."""
    prepare()
    try:
        _refuse_nul(arguments or ())
        return cli.main(args=list(arguments) if arguments is not None else None, standalone_mode=False) or 0
    except (KeyboardInterrupt, click.Abort, Stopped):
        return stopped()
    except OutputError as error:
        return _fail(str(error), NO_ROOM if error.full else BAD_INPUT)
    except ButforError as error:
        return _fail(spelled(str(error)))
    except click.UsageError as error:
        if error.ctx and error.message == error.ctx.get_help():  # nothing was asked for
            say(error.message)
            return BAD_INPUT
        where = f" See '{error.ctx.command_path} --help'." if error.ctx else ""
        return _fail(f"{error.format_message()}{where}")
    except click.ClickException as error:
        return _fail(error.format_message())
    except OSError as error:
        full = error.errno in FULL
        return _fail(f"{error.filename or 'The output'}: {error.strerror or error}.", NO_ROOM if full else BAD_INPUT)
    except (MemoryError, RuntimeError) as error:
        if not _out_of_memory(error):
            raise
        return _fail(
            "Not enough memory for this table and model: drop columns (--drop), group categories (--max-categories), "
            "or use a smaller network (--hidden) or fewer --n-jobs.",
            NO_ROOM,
        )


def run() -> NoReturn:
    """The command itself: `main`, and then the end of the process without taking every object apart, which takes up to
    a second."""
    code = main()
    end_processes()
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):  # closed, or not there at all; an answer was flushed before
            stream.flush()
    os._exit(code)


def end_processes() -> None:
    """End the processes that trainings were spread over; left to themselves they take more than a second to go."""
    used = sys.modules.get("joblib.externals.loky.reusable_executor")
    executor = getattr(used, "_executor", None)
    if executor is not None:
        executor.shutdown(wait=True, kill_workers=True)


def _fail(message: str, code: int = BAD_INPUT) -> int:
    if told_to_end():  # the error may be what became of Ctrl-C
        return stopped()
    say(f"Error: {one_line(message)}", err=True)
    return code


def _refuse_nul(arguments: Sequence[str]) -> None:
    """No file and no column can be called so; from Python, an argument can."""
    for argument in arguments:
        if "\0" in argument:
            raise SettingError(f"The argument '{argument}' holds a NUL byte; leave it out.")


def _out_of_memory(error: Exception) -> bool:
    """Python's own word for it, or torch's."""
    words = ("not enough memory", "out of memory", "alloc_cpu")
    return isinstance(error, MemoryError) or any(word in str(error).lower() for word in words)

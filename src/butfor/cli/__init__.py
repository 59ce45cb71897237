"""The command line: arguments → calls → printed tables. No logic of its own.

Results go to stdout, everything else to stderr. Bad input is one sentence and exit code 2. Being told to end (SIGTERM)
is the same as Ctrl-C.
"""

from __future__ import annotations

import atexit
import logging
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, NoReturn

import click

from butfor import __version__
from butfor.cli.auditing import audit
from butfor.cli.looking import check_table
from butfor.cli.printing import print_table
from butfor.errors import FULL, ButforError, OutputError, SettingError
from butfor.terminal import one_line, prepare, say


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command. Exit codes: 0, 1 (a replay disagrees, a limit is not kept), 2 (bad input), 3 (no
    space or memory left), 130 (interrupted)."""
    prepare()
    logging.getLogger("matplotlib").setLevel(logging.ERROR)  # it tells that it found no place for a cache of its own
    try:
        with _terminated_like_interrupted(), _interrupted_for_good():
            _refuse_nul(arguments or ())
            return cli.main(args=list(arguments) if arguments is not None else None, standalone_mode=False) or 0
    except (KeyboardInterrupt, click.Abort):
        say("Stopped.", err=True)
        return 130
    except OutputError as error:
        return _fail(str(error), 3 if error.full else 2)
    except ButforError as error:
        return _fail(str(error))
    except click.UsageError as error:
        if error.ctx and error.message == error.ctx.get_help():  # nothing was asked for
            say(error.message)
            return 2
        where = f" See '{error.ctx.command_path} --help'." if error.ctx else ""
        return _fail(f"{error.format_message()}{where}")
    except click.ClickException as error:
        return _fail(error.format_message())
    except OSError as error:
        return _fail(f"{error.filename or 'The output'}: {error.strerror or error}.", 3 if error.errno in FULL else 2)
    except (MemoryError, RuntimeError) as error:
        if not _out_of_memory(error):
            raise
        return _fail(
            "There is not enough memory for this table and model; leave out columns (--drop), group categories "
            "(--max-categories), or take a smaller network (--hidden) or fewer --jobs.", 3,
        )  # fmt: skip


def run() -> NoReturn:
    """The command itself: `main`, and then the end of the process, soon: whatever wants to be told of it is told, but
    nobody takes half a million objects apart one by one, which takes up to a second."""
    code = main()
    end_processes()
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):  # closed, or not there at all; an answer was flushed before
            stream.flush()
    os._exit(code)


def end_processes() -> None:
    """End the processes that trainings were spread over: they hold nothing that anybody needs, and left to themselves
    they take more than a second to go."""
    used = sys.modules.get("joblib.externals.loky.reusable_executor")
    executor = getattr(used, "_executor", None)
    if executor is not None:
        executor.shutdown(wait=True, kill_workers=True)


def _fail(message: str, code: int = 2) -> int:
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


@contextmanager
def _terminated_like_interrupted() -> Iterator[None]:
    """SIGTERM ends a command as Ctrl-C does, where nobody else listens to it."""
    ours = threading.current_thread() is threading.main_thread()
    if not ours or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    interrupt.ends_the_command = True  # type: ignore[attr-defined]
    signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


@contextmanager
def _interrupted_for_good() -> Iterator[None]:
    """Ctrl-C that lands where Python can raise nothing (a destructor, a callback of C code) is lost, with a line on
    stderr; here it comes again a moment later."""
    before = sys.unraisablehook

    def again(lost: sys.UnraisableHookArgs) -> None:
        if not issubclass(lost.exc_type, KeyboardInterrupt):
            before(lost)
            return
        timer = threading.Timer(0.02, os.kill, (os.getpid(), signal.SIGINT))
        timer.daemon = True
        timer.start()

    sys.unraisablehook = again
    try:
        yield
    finally:
        sys.unraisablehook = before


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
@click.option("--test", type=click.Path(), help="Where the file of the people lies now, for a record that has one.")
@click.option("--validation", type=click.Path(), help="Where the file of the validation rows lies now, likewise.")
@click.option("--fresh-seeds", "fresh", is_flag=True, help="Train every find's fresh seeds again too, and count them.")
def replay(
    file: Path, model: str | None, data: str | None, test: str | None, validation: str | None, fresh: bool
) -> int:
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
    people = [elsewhere(person, data=data, test=test, validation=validation) for person in opened.people]
    agree: dict[bool, list[bool]] = {True: [], False: []}
    for person, outcome in zip(people, replay_all(people, given, fresh=fresh), strict=True):
        found = person["status"] == "found"
        agree[found].append(outcome.agrees)
        if found or not outcome.agrees:
            say(outcome.sentence)
    say(f"{sum(agree[True])} of {len(agree[True])} counterfactual datasets agree.")
    if agree[False]:
        say(f"{sum(agree[False])} of {len(agree[False])} other verdicts agree, as far as no search is needed.")
    differs = list(summary_differences(opened.record))
    for told in differs:
        say(f"The summary DISAGREES: {told}.")
    say(opened.seal)
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
        say(frame.to_json(orient="records", indent=1))
        return
    words = {"label_balance": "class 1", "sensitive": "protected", "embedded": "in package"}
    shown = frame.rename(columns=words)
    for column in ("class 1", "accuracy"):
        if column in shown:
            shown[column] = [f"{100 * v:.1f} %" if v is not None and v == v else "–" for v in shown[column]]
    shown["in package"] = ["yes" if here else "fetched on first use" for here in frame["embedded"]]
    print_table(shown, "class 1 is the share of the label's second value among all rows; budget counts labels.")

"""What every measurement shares: its options, its rows as a table or as JSON, and how its command
ends."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from string import Formatter
from typing import Any, NoReturn

from butfor.errors import ButforError, SettingError, Stopped
from butfor.support.errors import nearest
from butfor.support.stopping import stopped

Row = dict[str, Any]
Columns = dict[str, str | Callable[[Row], str]]
"""Heading → the cell, as a format string over the row's keys or a function of the row. A heading is
as wide as its column; one that ends with a space is aligned to the left, others to the right."""


def options(doc: str | None) -> argparse.ArgumentParser:
    """A parser that shows the module's text; every measurement takes --json."""
    parser = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true", help="print JSON, and nothing else")
    return parser


def names(text: str) -> list[str]:
    """Separated by commas."""
    return [name.strip() for name in text.split(",") if name.strip()]


def numbers(text: str) -> list[int]:
    return [int(name) for name in names(text)]


def check(given: Iterable[str], known: Iterable[str], option: str) -> None:
    """Refuse a name that an option does not know."""
    for name in given:
        if name not in known:
            raise SettingError(f"--{option}: there is no '{name}'. {nearest(name, list(known))}")


def measured_in(files: Iterable[Path]) -> list[Row]:
    """The rows that `--json` printed into these files."""
    return [
        row for path in files for row in json.loads(path.read_text(encoding="utf-8"))["measured"]
    ]


def parse(
    parser: argparse.ArgumentParser, arguments: Sequence[str] | None
) -> tuple[bool, dict[str, Any]]:
    """Whether JSON is wanted, and all other options by name."""
    given = vars(parser.parse_args(arguments))
    return given.pop("json"), given


def show(rows: Iterable[Row], columns: Columns, as_json: bool) -> list[Row]:
    """Print each row as soon as it is there; as JSON, all of them at the end."""
    done = []
    if not as_json:
        print(" ".join(columns), flush=True)
    for row in rows:
        done.append(row)
        if not as_json:
            print(line(row, columns), flush=True)
    if as_json:
        print(json.dumps(done, indent=1))
    return done


def line(row: Row, columns: Columns) -> str:
    """The row under its headings, and why it failed where it did."""
    cells = [
        _DASHES.vformat(cell, (), row) if isinstance(cell, str) else cell(row)
        for cell in columns.values()
    ]
    placed = [
        f"{cell:{'<' if heading.endswith(' ') else '>'}{len(heading)}}"
        for heading, cell in zip(columns, cells, strict=True)
    ]
    return " ".join([*placed, row.get("failed", "")]).rstrip()


class _Dashes(Formatter):
    """What is not known is a dash."""

    def get_value(self, key: int | str, args: Any, kwargs: Any) -> Any:
        return kwargs.get(key)

    def format_field(self, value: Any, format_spec: str) -> str:
        return "–" if value is None else str(super().format_field(value, format_spec))


_DASHES = _Dashes()


def run(main: Callable[[], int | None]) -> NoReturn:
    """`main` as a command. Ctrl-C and SIGTERM end it with 130, a refused setting, a missing package
    or file with one sentence and 2."""
    try:
        sys.exit(main())
    except (KeyboardInterrupt, Stopped):
        sys.exit(stopped())
    except (ButforError, ImportError, OSError) as error:
        print(f"Error: {error}", file=sys.stderr)
        sys.exit(2)

"""Frames as text on a terminal, JSON or CSV; figures as files."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from butfor.paper.gather import Options

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


def show(frame: pd.DataFrame, caption: str, options: Options, name: str = "boundary") -> None:
    from butfor.paper import tables

    if options.as_json:
        click.echo(tables.flat(frame).to_json(orient="records", indent=1, force_ascii=False))
    else:
        print_frame(tables.shown(frame), caption)
    if options.out:
        write_csv(options.out, name, frame)


def write_csv(out: Path, name: str, frame: pd.DataFrame) -> None:
    from butfor.paper import tables

    out.mkdir(parents=True, exist_ok=True)
    tables.flat(frame).to_csv(out / f"{name}.csv", index=False)


def draw(options: Options, drawn: Mapping[str, Figure]) -> None:
    if options.out and drawn:
        write_figures(options.out, drawn)
        click.echo(f"Written into {options.out}: {', '.join(drawn)} (.png, .svg).", err=True)


def write_figures(out: Path, drawn: Mapping[str, Figure]) -> None:
    out.mkdir(parents=True, exist_ok=True)
    for name, figure in drawn.items():
        figure.savefig(out / f"{name}.png", dpi=144)
        figure.savefig(out / f"{name}.svg", metadata={"Date": None})


def print_frame(frame: pd.DataFrame, caption: str) -> None:
    from rich import box
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    # A pipe or a log has no width of its own: never wrap a table there.
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 240)
    table = Table(box=box.SIMPLE_HEAD, caption=caption, caption_justify="left")
    for column in frame.columns:
        table.add_column(escape(str(column)), overflow="fold")
    for row in frame.itertuples(index=False):
        table.add_row(*(escape("–" if cell is None or cell != cell else str(cell)) for cell in row))
    console.print(table)

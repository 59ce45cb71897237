"""Runs the examples beside this file and writes each as a page: its text, its code, what it printed and drew.

An example is a Python script in cells: `# %% [markdown]` begins text in comments, `# %% [console]` commands in
comments, `# %%` code. All cells of a script run in one empty folder, all its code in one namespace. As in a notebook,
the value of a cell's last line is shown: a chart as SVG, anything else as printed. A cell that fails ends the build.

    python docs/examples/build.py            # all of them
    python docs/examples/build.py proofs     # one
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import chdir, redirect_stdout
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import wrap
from typing import Any

import pandas as pd

from butfor.report.charts import Drawing

HERE = Path(__file__).resolve().parent
CELL = re.compile(r"^# %%(.*)\n", re.MULTILINE)
WIDTH = 84
"""Characters of a line that is shown; longer ones are broken between words."""


def cells(script: str) -> Iterator[tuple[str, str]]:
    """Each cell: its kind ("markdown", "console", "python") and lines. Code keeps its line numbers, for tracebacks."""
    starts = [*CELL.finditer(script)]
    for this, following in zip(starts, [*starts[1:], None], strict=True):
        body = script[this.end() : following.start() if following else None].rstrip()
        kind = this[1].strip(" []") or "python"
        if kind == "python":
            yield kind, "\n" * script[: this.end()].count("\n") + body
        else:
            yield kind, re.sub(r"^# ?", "", body, flags=re.MULTILINE)


def run_commands(commands: str) -> str:
    """What the commands of a cell print, on a terminal of 80 columns with this Python's programs."""
    environment = os.environ | {
        "COLUMNS": "80",
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }
    shell = ["bash", "-euo", "pipefail", "-c", commands]
    done = subprocess.run(
        shell, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    if done.returncode:
        raise RuntimeError(f"{commands}\nended with exit code {done.returncode}:\n{done.stdout}")
    return done.stdout


def run(code: str, names: dict[str, Any], script: Path) -> tuple[str, Any]:
    """What a cell prints, and the value of its last line where that is an expression."""
    tree, printed, value = ast.parse(code), StringIO(), None
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    with redirect_stdout(printed):
        exec(compile(tree, script, "exec"), names)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), script, "eval"), names)
    return printed.getvalue(), value


def render(script: Path, folder: Path) -> Path:
    """The page of a script, written to `folder` with its figures beside it."""
    page: list[str] = []
    names: dict[str, Any] = {"__name__": "__main__"}
    frames = pd.option_context("display.width", WIDTH, "display.max_columns", None)
    with TemporaryDirectory() as scratch, chdir(scratch), frames:
        for kind, body in cells(script.read_text(encoding="utf-8")):
            if kind == "markdown":
                page.append(body)
                continue
            page.append(f"```{kind}\n{body.strip()}\n```")
            shown, value = (
                (run_commands(body), None) if kind == "console" else run(body, names, script)
            )
            if value is not None and not isinstance(value, Drawing):
                shown += str(value)
            lines = [
                part for line in shown.rstrip().splitlines() for part in wrap(line, WIDTH) or [""]
            ]
            if lines:
                page.append("\n".join(["```text", *lines, "```"]))
            if isinstance(value, Drawing):
                picture = f"{script.stem}-{len(page)}.svg"
                value.to_svg(folder / picture)
                page.append(f"![Drawn by the code above]({picture})")
    written = folder / f"{script.stem}.md"
    written.write_text("\n\n".join(page) + "\n", encoding="utf-8")
    return written


if __name__ == "__main__":
    asked = sys.argv[1:] or sorted(
        path.stem for path in HERE.glob("*.py") if path.name != Path(__file__).name
    )
    for name in asked:
        started = time.perf_counter()
        written = render(HERE / f"{name}.py", HERE)
        print(f"{written.name}: {time.perf_counter() - started:.0f} s", flush=True)

"""One attempt on the command line, in this process, and what it is allowed to end in.

Whatever it is given, butfor either *refuses*: exit code 2 (3 where disk or memory ran out), one
sentence on stderr and nothing on stdout; or it *works*: exit code 0 and, where a record was asked
for, strict JSON.
"""

import io
import json
import re
import signal
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import pytest

from applicants import applicants
from butfor.cli import main

LIMIT = 180
"""Seconds after which an attempt counts as hung; the first one of a process compiles."""
QUICK = {
    "logistic": ("--model", "logistic", "--cases", "0:3", "--quiet", "--json"),
    "mlp": (
        "--members",
        1,
        "--fresh-seeds",
        0,
        "--cases",
        "0:3",
        "--set",
        "epochs=2",
        "--quiet",
        "--json",
    ),
}
"""The smallest audits there are: their records are printed, and nothing else."""
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u200e\u200f]")
"""Characters that steer a terminal instead of being shown."""


class Ending(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def record(self) -> Any:
        return strict_json(self.out)


def strict_json(text: str) -> Any:
    """The value of a JSON text; NaN and Infinity, which JSON does not have, fail the test."""
    return json.loads(
        text, parse_constant=lambda word: pytest.fail(f"the record holds {word}, which is not JSON")
    )


def run(
    *arguments: object, stdin: bytes = b"", encoding: str = "utf-8", limit: int = LIMIT
) -> Ending:
    """`butfor ARGUMENTS`, whatever it ends in; an exception that gets out fails the test."""

    def hung(*_: object) -> None:
        raise KeyboardInterrupt(
            f"hung for {limit} seconds"
        )  # no Exception, so that nothing takes it for bad input

    streams = tuple(io.TextIOWrapper(io.BytesIO(), encoding, newline="") for _ in range(2))
    kept, before = (sys.stdin, sys.stdout, sys.stderr), signal.signal(signal.SIGALRM, hung)
    sys.stdin, (sys.stdout, sys.stderr) = io.TextIOWrapper(io.BytesIO(stdin), "utf-8"), streams
    signal.alarm(limit)
    try:
        code = main([str(argument) for argument in arguments])
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
        sys.stdin, sys.stdout, sys.stderr = kept
    for stream in streams:
        stream.flush()
    return Ending(code, *(stream.buffer.getvalue().decode(encoding) for stream in streams))


def attempt(*arguments: object, **how: Any) -> Ending:
    """`run`, held to what an attempt may end in."""
    ending = run(*arguments, **how)
    assert "Traceback" not in ending.out + ending.err, ending
    assert not CONTROL.search(ending.out + ending.err), f"steers the terminal: {ending!r}"
    if ending.code == 0:
        assert "--json" not in arguments or isinstance(ending.record, dict | list)
        return ending
    assert ending.code in (2, 3), ending
    *before, last = ending.err.splitlines()
    assert last.startswith("Error: "), f"the sentence is not last: {ending.err!r}"
    assert not any(line.startswith("Error: ") for line in before), (
        f"not one sentence: {ending.err!r}"
    )
    assert not before or "--quiet" not in arguments, f"more than one line: {ending.err!r}"
    assert 20 < len(last) < 1500, f"too short or too long to help: {last!r}"
    assert last.rstrip().endswith((".", "?", ")")), f"not a sentence: {last!r}"
    assert not ending.out or ending.code == 3, f"a refusal that prints a result: {ending.out!r}"
    return ending


def people(rows: int = 60, seed: int = 0) -> pd.DataFrame:
    """A small, ordinary table: two numbers, a protected attribute and a label."""
    table = applicants(rows, seed).assign(debts=lambda table: table.index % 9)
    return table.rename(columns={"income": "x"})[["x", "sex", "debts", "granted"]]


def saved(folder: Path, frame: pd.DataFrame | None = None, name: str = "table.csv") -> Path:
    path = folder / name
    (people() if frame is None else frame).to_csv(path, index=False)
    return path


def audit(
    table: object, *arguments: object, sensitive: str = "sex", model: str = "logistic", **how: Any
) -> Ending:
    """The smallest audit of a table, with further options, held to what it may end in."""
    return attempt(
        "audit",
        table,
        "--label",
        "granted",
        "--sensitive",
        sensitive,
        *QUICK[model],
        *arguments,
        **how,
    )

"""Rows of a measurement, printed as they come or, at the end, as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

Row = dict[str, Any]


def print_rows(rows: Iterable[Row], header: str, line: Callable[[Row], str], as_json: bool) -> list[Row]:
    """A table, line by line; or one JSON list and nothing else."""
    if as_json:
        done = list(rows)
        print(json.dumps(done, indent=1))
        return done
    print(header, flush=True)
    done = []
    for row in rows:
        done.append(row)
        print(line(row), flush=True)
    return done

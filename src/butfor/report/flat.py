"""The run block of a page: nested settings as lines of a name and a value, and how to run it again."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from butfor.learn.blueprint import CLASS, DTYPE, NUMBER, OPAQUE, PAIRS, TUPLE
from butfor.report.values import shown

LONGEST = 2000
"""Characters of a text of its own: commands and reasons are long, and to be copied."""


def flat(run: dict[str, Any]) -> list[tuple[str, str]]:
    """``{"learner": {"hidden": [32, 32]}}`` → ``learner.hidden``: ``32, 32``.

    An estimator is told as its class, under its own name, and its parameters below: ``learner.estimator`` and
    ``learner.estimator.C``. Steps of a pipeline go by their names."""
    return [line for name, value in run.items() for line in _lines(str(name), value)]


def replay_commands(run: dict[str, Any]) -> list[str]:
    """What to type to train again from the record: as it is and, for a file, where the table lies elsewhere by now.
    None where the record cannot name its table."""
    data = run.get("data", {})
    table = data.get("table")
    if table is None:
        return []
    again = ["butfor", "replay", "audit.json"]
    elsewhere = [*again, "--data", f"other/place/{Path(table).name}"]
    for name in ("validation", "test"):
        elsewhere += [f"--{name}", f"other/place/{Path(data[name]).name}"] if data.get(name) else []
    return [shlex.join(command) for command in ([again, elsewhere] if "label" in data else [again])]


def _lines(name: str, value: Any) -> Iterator[tuple[str, str]]:
    value = _plain(value)
    if isinstance(value, dict):
        if set(value) == {CLASS, "params"}:
            yield name, shown(value[CLASS], LONGEST)
            value = value["params"]
        for inner, item in value.items():
            yield from _lines(f"{name}.{inner}", item)
    elif isinstance(value, list):
        items = [_plain(item) for item in value]
        if not any(isinstance(item, (dict, list)) for item in items):
            yield name, ", ".join(_text(item) for item in items) or "none"
        elif all(_named(item) for item in items):
            for inner, *rest in items:
                yield from _lines(f"{name}.{inner}", rest[0] if len(rest) == 1 else rest)
        else:
            for number, item in enumerate(items, 1):
                yield from _lines(f"{name}.{number}", item)
    else:
        yield name, _text(value, LONGEST)


def _plain(value: Any) -> Any:
    """Without the marks that `blueprint.describe` puts on what JSON has no word for."""
    if isinstance(value, dict) and len(value) == 1:
        mark, inside = next(iter(value.items()))
        if mark == PAIRS and isinstance(inside, list):
            return {str(key): item for key, item in inside}
        kinds = {TUPLE: list, NUMBER: str, DTYPE: str, OPAQUE: str}
        if isinstance(inside, kinds.get(mark, ())):
            return inside
    return list(value) if isinstance(value, tuple) else value


def _named(item: Any) -> bool:
    """Whether a pair or triple starts with its name, as the steps of a pipeline do."""
    return isinstance(item, list) and len(item) > 1 and isinstance(item[0], str)


def _text(value: Any, *longest: int) -> str:
    return "none" if value is None else shown(value, *longest)

"""Values, labels and counts as a reader sees them."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
import pandas as pd

from butfor.result.record import AFTER, BEFORE
from butfor.result.verdict import Verdict

MISSING = "missing"
LONGEST, WHOLE = 300, 10_000
"""Characters of a value that a page shows (the JSON record has all of them), and by which two are told apart."""
MOST_PULLS, LONGEST_PULL = 12, 38
"""Columns of the chart of pulls with a bar of their own, and the characters that name one."""


def shown(value: Any, longest: int = LONGEST) -> str:
    """A value as text: numbers without floating-point dust, control characters and overlength gone."""
    if missing(value):
        return MISSING
    if isinstance(value, (bool, np.bool_)):
        return str(bool(value))
    return _number(value) if isinstance(value, Real) else short(str(value), longest)


def told_apart(values: Iterable[Any], longest: int) -> Callable[[Any], str]:
    """How to show each of these values in so many characters: names that would be cut to the same lose their middle,
    and where that does not tell them apart either, they are counted."""
    whole = list(dict.fromkeys(shown(value, WHOLE) for value in values))
    names = {text: short(text, longest) for text in whole}
    for cut in (lambda text, _: _ends(text, longest), lambda text, k: f"{short(text, longest - 5)} ({k})"):
        alike = Counter(names.values())
        same = [text for text in whole if alike[names[text]] > 1]
        names |= {text: cut(text, k) for k, text in enumerate(same, 1)}
    return lambda value: names.get(text := shown(value, WHOLE)) or short(text, longest)


def _ends(text: str, longest: int) -> str:
    """The beginning and the end of a text that is too long."""
    line = short(text, WHOLE)
    half = (longest - 1) // 2
    return line if len(line) <= longest else f"{line[: longest - 1 - half].rstrip()}…{line[-half:].lstrip()}"


def short(text: str, longest: int) -> str:
    """Text on one line, cut with an ellipsis where it is longer than `longest` characters."""
    # Neither XML nor a chart label can hold control characters or lone surrogates.
    line = re.sub(r"[\s\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]+", " ", text).strip()
    return line if len(line) <= longest else line[: max(1, longest - 1)].rstrip() + "…"


def missing(value: Any) -> bool:
    return value is None or (pd.api.types.is_scalar(value) and bool(pd.isna(value)))


def differs(one: Any, other: Any) -> bool:
    """Whether two cells say different things; two missing ones do not."""
    if missing(one) or missing(other):
        return missing(one) != missing(other)
    try:
        return not bool(one == other)
    except (TypeError, ValueError):  # containers and mixed types compare to something that has no truth value
        return str(one) != str(other)


def is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, (bool, np.bool_))


@dataclass(frozen=True)
class Pull:
    """A bar of the chart of pulls: what pulls at the logit, and how much."""

    name: str
    pull: float
    single: bool = True
    """One column of the table, not the sum of several or the bias."""


def pulled(verdict: Verdict) -> list[Pull]:
    """The columns that pull this decision most, the strongest first, then all others as one, then the bias."""
    given = verdict.pulls or {}
    bias = list(given)[-1:]
    # A pipeline names what its steps make of the columns: such a name has no value in the table.
    person = {str(column): value for column, value in verdict.person.items()}
    order = [name for name in verdict.local_weights().index if name not in bias]
    first, rest = order[:MOST_PULLS], order[MOST_PULLS:]
    bars = []
    for name in first:
        # A short value leaves its room to the name; a long one takes half.
        value = f" = {shown(person[name])}" if name in person else ""
        column = short(name, max(LONGEST_PULL // 2, LONGEST_PULL - len(value)))
        bars.append(Pull(short(column + value, LONGEST_PULL), given[name]))
    if rest:
        others = f"{len(rest)} other column{'s' * (len(rest) != 1)}"
        bars.append(Pull(others, sum(given[name] for name in rest), single=False))
    return bars + [Pull("bias", given[name], single=False) for name in bias]


def columns_of(verdict: Verdict) -> list[Any]:
    """The columns that the person and the training rows share, in the training table's order."""
    of_rows = [c for c in verdict.flips.columns if c not in (BEFORE, AFTER)]
    return [c for c in of_rows if c in verdict.person.index] or list(verdict.person.index)


def label_names(verdict: Verdict) -> tuple[str, str]:
    """The two labels' names, the one of negative logits first."""
    names = verdict.run.get("label_names")
    if names:
        return str(names[0]), str(names[1])
    other = verdict.counterfactual_prediction or "the other label"
    return (other, verdict.prediction) if verdict.logit > 0 else (verdict.prediction, other)


def plural(count: int, word: str) -> str:
    several = {"person": "people"}.get(word, f"{word}s")
    return f"{count} {word if count == 1 else several}"


def _number(value: Real) -> str:
    number = float(value)
    if not math.isfinite(number):
        return "∞" if number > 0 else "−∞"
    if number.is_integer() and abs(number) < 1e15:
        return str(int(number)).replace("-", "−")
    if 1 <= abs(number) < 1e15:
        # About six digits, but never fewer than two decimals: amounts of money keep theirs.
        decimals = max(2, 6 - len(str(int(abs(number)))))
        return f"{number:.{decimals}f}".rstrip("0").rstrip(".").replace("-", "−")
    return f"{number:.6g}".replace("-", "−")

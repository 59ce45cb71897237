"""What a ranking is, and how its answer is checked."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from butfor.errors import SettingError
from butfor.seam import Model, Table

Scores = NDArray[np.floating[Any]]


class Ranking(Protocol):
    name: str

    def score(self, model: Model, table: Table, people: pd.DataFrame) -> Scores: ...


class AnyModel:
    """Base of the rankings that need nothing of a model but its decisions."""

    needs = "any model"

    def accepts(self, model: Model) -> bool:
        return True


class FunctionRanking(AnyModel):
    """A user's function as a ranking."""

    def __init__(self, function: Callable[[Model, Table, pd.DataFrame], Scores]) -> None:
        self.function = function
        self.name = getattr(function, "__name__", type(function).__name__)

    def score(self, model: Model, table: Table, people: pd.DataFrame) -> Scores:
        return self.function(model, table, people)


def accepts(ranking: Ranking, model: Model) -> bool:
    """Whether a ranking can rank for a model; one that does not say can."""
    can = getattr(ranking, "accepts", None)
    return can is None or bool(can(model))


def parameters(thing: Any) -> dict[str, Any]:
    """What a ranking or protocol was made with, for the record: each argument of its constructor, by name."""
    found = {}
    for name, parameter in inspect.signature(type(thing)).parameters.items():
        if hasattr(thing, name) and parameter.kind is not parameter.VAR_POSITIONAL:
            found[name] = _plain(getattr(thing, name))
    return found


def _plain(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)  # JSON has no word for it
    if isinstance(value, (str, int, float, bool, type(None))):
        return value
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    return {"name": value.name} | parameters(value) if hasattr(value, "name") else type(value).__name__


def checked_scores(ranking: Ranking, model: Model, table: Table, people: pd.DataFrame) -> Scores:
    """The scores, refused with a sentence where a ranking returned something that cannot be sorted."""
    scores = np.asarray(ranking.score(model, table, people))
    if scores.shape != (len(people), table.n):
        raise SettingError(
            f"Ranking '{ranking.name}' returned scores of shape {scores.shape}; expected one row per person "
            f"and one column per training row, {(len(people), table.n)}."
        )
    if scores.dtype.kind not in "fiub":
        raise SettingError(f"Ranking '{ranking.name}' returned scores that are no numbers ({scores.dtype}).")
    if not np.isfinite(scores).all():
        person, row = np.argwhere(~np.isfinite(scores))[0]
        raise SettingError(
            f"Ranking '{ranking.name}' returned {scores[person, row]} for person {person} and training row "
            f"{row}; every score must be a finite number."
        )
    return scores

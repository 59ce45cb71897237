"""Searches by name, and what an audit must know about each."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from butfor.models.seam import FlipSet
from butfor.search.guided import guided
from butfor.search.person import Person, Search
from butfor.search.published import (
    algorithm1,
    attempts,
    exhaustive,
    in_turn,
    singles,
)
from butfor.search.solid import solid
from butfor.support.errors import SettingError, nearest


@dataclass(frozen=True)
class Strategy:
    """A search, and what an audit must know about it.

    `shares`: people are told of models that were trained for others; published searches look at
    their own alone. `proves`: proven answers replace the search, and a trial chooses the default
    ranking. `enumerates`: it tries every label alone, if the budget is one. `own`: it is the user's
    own."""

    name: str
    search: Callable[[Person], Search]
    parameters: Mapping[str, Any] = field(default_factory=dict)
    shares: bool = False
    proves: bool = False
    enumerates: bool = False
    own: bool = False


STRATEGIES: dict[str, Strategy] = {
    strategy.name: strategy
    for strategy in (
        Strategy("solid", solid, proves=True),
        Strategy("guided", guided, shares=True, proves=True, enumerates=True),
        Strategy("algorithm1", algorithm1),
        Strategy("singles", singles),
        Strategy("attempts", attempts),
        Strategy("exhaustive", exhaustive, enumerates=True),
    )
}


def as_strategy(given: Any) -> Strategy:
    """A strategy by its name, or of a search of one's own: a generator function of a person."""
    if isinstance(given, Strategy):
        return given
    if isinstance(given, str):
        if given not in STRATEGIES:
            raise SettingError(f"There is no strategy '{given}'. {nearest(given, STRATEGIES)}")
        return STRATEGIES[given]
    function = given
    parameters: Mapping[str, Any] = {}
    if isinstance(given, partial):
        function = given.func
        parameters = given.keywords
    if not inspect.isgeneratorfunction(function):
        raise SettingError(
            f"strategy={given!r} is neither a name nor a search: give a generator function of a "
            f"person, or one of {', '.join(map(repr, STRATEGIES))}."
        )
    for ours in STRATEGIES.values():
        if ours.search is function:
            return replace(ours, search=given, parameters=parameters)
    name = str(getattr(function, "__name__", "own"))
    name = f"own {name}" if name in (*STRATEGIES, RECORDED) else name
    return Strategy(name, given, parameters, shares=True, own=True)


RECORDED = "recorded"
"""The name of a search that retrains recorded sets."""


def recorded(sets: Mapping[int, Sequence[FlipSet]]) -> Strategy:
    """A search that retrains, for each position among the people, these sets in turn until one
    changes the decision."""
    return Strategy(RECORDED, lambda person: in_turn(sets.get(person.position, ())))


def budget_in_labels(budget: float, n: int) -> int:
    """A budget as a number of labels: numbers from 1 are counts, smaller ones shares, rounded
    up."""
    if isinstance(budget, bool) or not isinstance(budget, (int, float, np.integer, np.floating)):
        raise SettingError(
            f"budget={budget!r} is not a number; give a count of labels or a share such as 0.001."
        )
    if not 0 < budget < math.inf:
        raise SettingError(
            f"budget={budget} must be above 0: at least one label must be allowed to flip."
        )
    if budget < 1:
        return math.ceil(round(budget * n, 9))
    if budget != int(budget):
        raise SettingError(
            f"budget={budget} is neither a share below 1 nor a whole number of labels."
        )
    if budget > n:
        raise SettingError(
            f"budget={int(budget)} is more than the {n} training labels of the table."
        )
    return int(budget)

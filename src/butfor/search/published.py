"""The searches of the paper, which look at their own models alone."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from butfor.models.seam import FlipSet
from butfor.search.person import Confirm, Person, Search, flip_set
from butfor.support.errors import SettingError

SETS_PER_SIZE = 10
"""Sets that `attempts` tries for each k."""
LABELS_PER_ROUND = 16
"""Labels that are tried side by side, one each."""


def algorithm1(person: Person) -> Search:
    """Flip the best label and retrain, then the best two, and so on up to the budget m (Algorithm 1
    of the paper)."""
    for k in range(1, min(person.budget, len(person.order)) + 1):
        gain = yield person.best(k)
        if gain > 0 and (yield Confirm(person.best(k))):
            return person.best(k)
    return None


def singles(person: Person) -> Search:
    """The protocol for small data: flip the t-th ranked label alone, t up to a tenth of the
    flippable ones; under a random order, a label drawn at each t."""
    trials = range(min(person.flippable, max(1, person.flippable // 10)))
    if person.random_order:
        rows = (person.rng.choice(person.order) for _ in trials)
    else:
        rows = (person.order[t] for t in trials)
    return (yield from in_turn(flip_set([row]) for row in rows))


def attempts(person: Person) -> Search:
    """The protocol for large data: ten sets for each k = 1 … m. The first flips the top k, the
    others k labels drawn from the top a·k, with the smallest a that allows more than ten choices;
    under a random order, all ten are drawn."""
    for k in range(1, min(person.budget, person.flippable) + 1):
        a = next(a for a in range(1, SETS_PER_SIZE + 2) if math.comb(a * k, k) > SETS_PER_SIZE)
        if person.random_order:
            pool = person.order
            sets = []
        else:
            pool = person.order[: a * k]
            sets = [person.best(k)]
        while len(sets) < SETS_PER_SIZE:
            sets.append(flip_set(person.rng.choice(pool, size=k, replace=False)))
        for flips, gain in zip(sets, (yield sets), strict=True):
            if gain > 0 and (yield Confirm(flips)):
                return flips
    return None


def exhaustive(person: Person) -> Search:
    """Flip every label alone: if none works, no single label changes the decision."""
    if person.budget > 1:
        budget = f"the budget is {person.budget} labels. Use a budget of 1, or another strategy."
        raise SettingError(f"strategy 'exhaustive' tries every label alone, and {budget}")
    return (yield from one_by_one(person, person.order))


def one_by_one(person: Person, rows: NDArray[np.integer[Any]]) -> Search:
    """Flip each of these rows alone, until one works."""
    place = {int(row): k for k, row in enumerate(rows)}

    def first_ranked(flips: FlipSet) -> tuple[int, int]:
        return len(flips), place.get(flips[0], len(place))

    for first in range(0, len(rows), LABELS_PER_ROUND):
        yield [(int(row),) for row in rows[first : first + LABELS_PER_ROUND]]
        while person.working:
            flips = min(person.working, key=first_ranked)
            if (yield Confirm(flips)):
                return flips
    return None


def in_turn(sets: Iterable[FlipSet]) -> Search:
    """Train these sets one after the other, until one is confirmed to change the decision."""
    for flips in sets:
        if (yield flips) > 0 and (yield Confirm(flips)):
            return flips
    return None

"""Solid: the fewest labels that change the decision under nearly every seed."""

from __future__ import annotations

import math
from collections.abc import Generator
from typing import Any

import numpy as np

from butfor.models.seam import FlipSet
from butfor.search.guided import CANDIDATES_PER_LABEL, shortest_prefix
from butfor.search.person import Confirm, Person, Rank, Search, Try, Vector, flip_set
from butfor.support.errors import SettingError

MARGIN_DEVIATIONS = 2.5
"""Standard deviations of the members that their mean gain must exceed."""
SCREENING_MEMBERS = 4
"""Members that screen a set first."""
HOPELESS_DEVIATIONS = 1.5
"""Standard deviations short of the other decision at which screening ends a search."""
MIN_BUDGET_FOR_SECOND = 8
"""The smallest budget for which a ranking at half of its labels adds information."""
MAX_SOLID_CLAIMS = 3
"""The most sets of one person that a solid search confirms, which rarely fails with many members.
"""


def solid(person: Person, margin: float = MARGIN_DEVIATIONS, second: bool | None = None) -> Search:
    """Find the fewest labels that change the decision under nearly every seed, from all members of
    an ensemble.

    A set works if the members' mean gain exceeds `margin` times their spread. Averaged over seeds,
    the top of a ranking is nearly as good as the result of a long search, so a person gets a few
    sets: the whole budget, then the shortest prefix that keeps the margin by bisection, then the
    same after ranking again at the person's own half-flipped labels (`second`; by default if the
    budget is large enough). If no set keeps the margin, the clearest one that changes the decision
    is kept; fresh seeds, which take no part here, show what it is worth."""
    if not margin >= 0:
        raise SettingError(
            f"margin={margin} must be a number from 0 up, in standard deviations of the members."
        )
    cap = min(person.budget, len(person.order))
    if cap == 0:
        return None
    answers: dict[FlipSet, Vector] = {}
    """For each set, the members' gains."""

    def train(flips: FlipSet, members: int | None = None) -> Generator[Any, Any, None]:
        (gains,) = yield Try([flips], members or person.members)
        answers[flips] = gains if np.isfinite(gains).all() else np.full(len(gains), -np.inf)
        # The spread barely depends on the flips, and one set gives a poor estimate: pooled over all
        # of them.
        usable = [each for each in answers.values() if len(each) > 1 and np.isfinite(each).all()]
        variances = [each.var(ddof=1) for each in usable]
        person.spread = float(np.sqrt(np.mean(variances))) if variances else 0.0
        person.margin = margin * person.spread

    def clearance(flips: FlipSet) -> float:
        """The gain of the ensemble, or of the members that screen, in standard deviations of the
        members."""
        gain = float(answers[flips].mean())
        if math.isfinite(gain) and len(answers[flips]) == person.members:
            gain = person.gains[flips] if flips else person.start
        if person.spread:
            return gain / person.spread
        return math.inf if gain > 0 else -math.inf

    def tried(flips: FlipSet) -> Generator[Any, Any, None]:
        if len(answers.get(flips, ())) < person.members:
            yield from train(flips)

    def keeps_margin(flips: FlipSet) -> bool:
        return clearance(flips) >= margin

    yield from train(())
    full = person.best(cap)
    best = None
    if person.members > 2 * SCREENING_MEMBERS:
        yield from train(full, SCREENING_MEMBERS)
        if clearance(full) <= -HOPELESS_DEVIATIONS:
            return None
    yield from train(full)
    if clearance(full) <= -HOPELESS_DEVIATIONS:
        return None
    if clearance(full) >= margin:
        prefix = person.order[:cap].tolist()
        best = flip_set((yield from shortest_prefix(prefix, tried, keeps_margin)))
    again = person.budget >= MIN_BUDGET_FOR_SECOND if second is None else second
    if again and person.ranks_again and cap > 1 and (best is None or len(best) > 1):
        half = person.order[: max(1, len(best or full) // 2)]
        others = yield Rank(flip_set(half))
        order = np.concatenate([half, others])[: CANDIDATES_PER_LABEL * cap]
        if best is None:
            full = flip_set(order[:cap])
            yield from train(full)
            best = full if clearance(full) >= margin else None
        if best is not None:
            prefix = order[: len(best)].tolist()
            yield from shortest_prefix(prefix, tried, keeps_margin)
    for _ in range(MAX_SOLID_CLAIMS):
        flips = person.smallest()
        if flips is None:
            return None
        if (yield Confirm(flips)):
            return flips
    return None

"""Solid: the fewest labels that change the decision under nearly every seed."""

from __future__ import annotations

import math
from collections.abc import Generator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from butfor.models.seam import FlipSet
from butfor.search.guided import CANDIDATES_PER_LABEL
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
LEAST_TO_GUESS = 16
"""The fewest remaining sizes for which interpolation beats bisection."""
TOWARDS_MIDDLE = 0.05
"""How far an interpolated size moves towards the middle, as a share of the remaining sizes."""


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

    def shortest(order: NDArray[np.integer[Any]], best: FlipSet) -> Search:
        """The shortest prefix that keeps the margin, or `best` if none is shorter, in no more steps
        than bisection."""
        misses = 0
        steps = (len(best) - 1).bit_length()
        while (between := len(best) - misses - 1) > 0:
            size = misses + max(1, round((between + 1) / 2))
            longest_miss = flip_set(order[:misses])
            if between >= LEAST_TO_GUESS:
                # The size at which the clearance reaches the margin by linear interpolation, moved
                # a little towards the middle so that both ends come nearer, and near enough to it
                # for bisection to finish in time.
                place = middle = misses + (between + 1) / 2
                low = clearance(longest_miss) if longest_miss in answers else np.nan
                high = clearance(best)
                if np.isfinite([low, high]).all() and low < margin < high:
                    place = misses + (len(best) - misses) * (margin - low) / (high - low)
                place += np.sign(middle - place) * min(
                    abs(middle - place), TOWARDS_MIDDLE * between
                )
                reach = 2 ** (steps - 1) - 1
                least = max(misses + 1, len(best) - 1 - reach)
                most = min(len(best) - 1, misses + 1 + reach)
                size = min(max(round(place), least), most)
            flips = flip_set(order[:size])
            if len(answers.get(flips, ())) < person.members:
                yield from train(flips)
            if clearance(flips) >= margin:
                best = flips
            else:
                misses = size
            steps -= 1
        return best

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
        best = yield from shortest(person.order, full)
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
            yield from shortest(order, best)
    for _ in range(MAX_SOLID_CLAIMS):
        flips = person.smallest()
        if flips is None:
            return None
        if (yield Confirm(flips)):
            return flips
    return None

"""The search for labels that turn a decision whatever the seed, and for how few of them do.

It asks an ensemble, and it asks all members together: a set counts where the mean gain of the members exceeds `margin`
times their spread, so that nearly every other seed would decide so too. Averaged over seeds, a ranking's first set is
nearly as good as anything a long search finds; so each person gets a few sets, not hundreds:

    opening    the top of the ranking, as many labels as the cap allows: a few members first, all where it comes near
    sizes      bisection for the shortest prefix that keeps the margin
    second     the ranking again at the person's own half-flipped labels, where the model has a gradient; sizes again
    measured   what the best candidates bring among each other, where an engine trains hundreds at a time; sizes again

Whoever does not reach the margin keeps the set that comes nearest, if it turns the ensemble at all; fresh seeds, which
have no part in this, decide what it is worth. Every set that is reported was trained by the definition.

`SolidSearch` is what a user chooses and says what it may cost; `butfor.search.hunt` goes through with it.
"""

from __future__ import annotations

from collections.abc import Sequence

from butfor.errors import SettingError
from butfor.rank import Ranking
from butfor.seam import Model
from butfor.search import measured
from butfor.search.guided import Leaders
from butfor.search.plans import Listed, Plan
from butfor.search.protocols import Protocol, Ranked

MARGIN = 2.5
"""Standard deviations of the members by which their mean gain must exceed 0."""
SCREEN = 4
"""Members that take the first look."""
CLAIMS = 3
"""Sets of one person that are put to the definition. It hardly ever refuses one of many members."""
LEAST_FOR_SECOND = 8
"""Labels of a cap from which on half of them say anything new about the rest."""


class SolidSearch(Protocol):
    """Sets that turn nearly all members of an ensemble, and the smallest of them. `second`: rank again at half-flipped
    labels; None where the cap is large enough for it to pay. `measure`: train models with random parts of the best
    candidates, two thousand for each person who comes near; None where the engine trains hundreds of them side by side
    and the table is not large."""

    name = "solid"
    proves = True

    def __init__(self, margin: float = MARGIN, second: bool | None = None, measure: bool | None = None) -> None:
        if not margin >= 0:
            raise SettingError(f"margin={margin} must be a number from 0 up, in standard deviations of the members.")
        self.margin, self.second, self.measure = margin, second, measure

    def ranking(self, model: Model) -> Ranking:
        return Leaders.of(model)

    def plan(self, person: Ranked) -> Plan:
        return Listed(iter(()), person.order)

    def most(self, flippable: int, budget: int) -> int:
        """Sets a person takes: the opening and its sizes; the sizes again or, where the first opening failed, another
        opening and its sizes. More where the engine has room for several sizes at a time (`sets_at_most`)."""
        cap = min(flippable, budget)
        return 1 + (1 + self.looks_again(budget)) * halvings(cap) if cap else 0

    def sets_at_most(
        self, flippable: Sequence[int], budget: int, width: int, again: bool = True, measures: bool = False
    ) -> int:
        """Sets that all people take together, where an engine has room for `width` of them side by side; `again`:
        whether there is a second look; `measures`: and a measured one. The data as they are is one of them."""
        caps = [min(each, budget) for each in flippable if each]
        if not caps:
            return 0
        return 1 + len(caps) + left_at_most(caps, width, again and self.looks_again(budget), measures)

    def depth(self, flippable: int, budget: int) -> int:
        return min(flippable, measured.REACH * budget)

    def measures(self, budget: int, side_by_side: int, rows: int) -> bool:
        """Whether effects are measured, by an engine that trains so many side by side on so many rows."""
        wanted = side_by_side >= measured.SIDE_BY_SIDE and rows <= measured.ROWS
        return measured.LEAST <= budget <= measured.MOST and (wanted if self.measure is None else self.measure)

    def looks_again(self, budget: int) -> bool:
        return budget >= LEAST_FOR_SECOND if self.second is None else self.second


def halvings(cap: int) -> int:
    """Steps of a bisection among the sizes below a cap that works."""
    return (cap - 1).bit_length()


def sizes_at_most(caps: Sequence[int], width: int) -> int:
    """Sets that bisections below these caps take together. Every step halves what is left at least; it takes one set of
    everyone or, where there is room, several of each."""
    steps = [halvings(cap) for cap in caps]
    together = sum(max(width, sum(taken > step for taken in steps)) for step in range(max(steps)))
    return min(sum(caps) - len(caps), together)


def left_at_most(caps: Sequence[int], width: int, again: bool, measures: bool = False) -> int:
    """Sets that people with these caps take after the opening; `again`: with a second look, in which those whose
    opening failed have another one instead of the sizes of the first; `measures`: with a measured one, likewise."""
    if not caps:
        return 0
    sizes = sizes_at_most(caps, width)
    looks = again + measures
    return sizes + looks * (sizes + (len(caps) if width > 1 else 0)) + measures * measured.SETS * len(caps)

"""Impact ratios, as in New York's Local Law 144: a group's selection rate divided by the highest
one, by attribute and for combinations of attributes. Unknown values are counted separately, and the
highest rate is that of a group with at least 2 % of the people.
"""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from butfor.result.population import Population
from butfor.table.encoding import MISSING

FOUR_FIFTHS = 0.8
SMALL_SHARE = 0.02
"""A group with a smaller share of the people does not count for the highest rate."""


@dataclass(frozen=True)
class Impact:
    """One group: its people, the rate of favourable decisions, and that rate divided by the highest
    one. `below`: whether the ratio is below four fifths, for a known group that is large enough."""

    attribute: str
    group: str
    people: int
    rate: float
    ratio: float | None
    below: bool
    remark: str


def impacts(p: Population) -> list[Impact]:
    """By attribute, then for their combinations: of everybody whose label is known or, without
    labels, of those examined. Empty if the favourable decision is unknown."""
    run, known = p.run, p.run.performance
    if not run.favourable:
        return []
    if known:
        rates_of = [
            (g.group, g.people, g.selection_rate or 0.0) for g in known.by_group if g.people
        ]
        direct = run.favourable_labels == run.sides[1]  # or rates are of the other decision
        rows = [(group, people, rate if direct else 1 - rate) for group, people, rate in rates_of]
    else:
        rows = [
            (str(g), 1, v.prediction in run.favourable_labels)
            for g in p.groups
            for v in p
            if v.group == g
        ]
    everybody, found = pd.DataFrame(rows, columns=["group", "people", "rate"]), []
    everybody["selected"] = everybody["people"] * everybody["rate"]
    several = run.attributes if len(run.attributes) > 1 else ()
    values = {
        name: [run.groups[g][place] for g in everybody["group"]]
        for place, name in enumerate(several)
    }
    for attribute, own in (values | {run.sensitive: list(everybody["group"])}).items():
        frame = everybody.groupby(own, sort=False)[["people", "selected"]].sum()
        rates, shares = frame["selected"] / frame["people"], frame["people"] / frame["people"].sum()
        large = (shares >= SMALL_SHARE) & (frame.index != MISSING)
        highest = rates[large].max()
        for group, people, rate, counted in zip(
            frame.index, frame["people"], rates, large, strict=True
        ):
            ratio = rate / highest if highest > 0 and group != MISSING else None
            below = bool(counted and ratio is not None and ratio < FOUR_FIFTHS)
            remark = "unknown" if group == MISSING else "" if counted else "under 2 % of the people"
            found.append(Impact(attribute, group, int(people), rate, ratio, below, remark))
    return found

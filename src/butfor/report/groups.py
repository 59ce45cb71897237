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
    run = p.run
    if not run.favourable:
        return []
    rows = list[tuple[str, int, float]]()
    if run.performance:
        direct = run.favourable_labels == run.sides[1]  # or rates are of the other decision
        for rates_of in run.performance.by_group:
            if rates_of.people:
                rate = rates_of.selection_rate or 0.0
                rows.append((rates_of.group, rates_of.people, rate if direct else 1 - rate))
    else:
        for group in p.groups:
            for v in p:
                if v.group == group:
                    rows.append((str(group), 1, v.prediction in run.favourable_labels))
    everybody = pd.DataFrame(rows, columns=["group", "people", "rate"])
    impacts_of_groups = []
    everybody["selected"] = everybody["people"] * everybody["rate"]
    several = run.attributes if len(run.attributes) > 1 else ()
    values = {
        name: [run.groups[g][place] for g in everybody["group"]]
        for place, name in enumerate(several)
    }
    for attribute, groups in (values | {run.sensitive: list(everybody["group"])}).items():
        frame = everybody.groupby(groups, sort=False)[["people", "selected"]].sum()
        rates = frame["selected"] / frame["people"]
        shares = frame["people"] / frame["people"].sum()
        large = (shares >= SMALL_SHARE) & (frame.index != MISSING)
        highest = rates[large].max()
        columns = (frame.index, frame["people"], rates, large)
        for group, people, rate, counted in zip(*columns, strict=True):
            ratio = rate / highest if highest > 0 and group != MISSING else None
            below = bool(counted and ratio is not None and ratio < FOUR_FIFTHS)
            remark = ""
            if group == MISSING:
                remark = "unknown"
            elif not counted:
                remark = "under 2 % of the people"
            impact = Impact(attribute, group, int(people), rate, ratio, below, remark)
            impacts_of_groups.append(impact)
    return impacts_of_groups

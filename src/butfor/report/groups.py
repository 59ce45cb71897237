"""Impact ratios, as in New York's Local Law 144: a group's selection rate divided by the highest one, by attribute and
for combinations of attributes. Unknown values are counted separately, and the highest rate is that of a group with at
least 2 % of the people.
"""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from butfor.encode import MISSING
from butfor.result.population import Population

FOUR_FIFTHS = 0.8
SMALL_SHARE = 0.02
"""A group with a smaller share of the people does not count for the highest rate."""


@dataclass(frozen=True)
class Impact:
    """One group: its people, the rate of favourable decisions, and that rate divided by the highest one. `below`:
    whether the ratio is below four fifths, for a known group that is large enough."""

    attribute: str
    group: str
    people: int
    rate: float
    ratio: float | None
    below: bool
    remark: str


def impacts(p: Population) -> list[Impact]:
    """By attribute, then for their combinations: of everybody whose label is known or, without labels, of those
    examined. Empty if the favourable decision is unknown."""
    run, known, counts = p.run, p.run.performance, dict[str, tuple[int, float]]()
    if not run.favourable:
        return []
    if known:  # people, and favourable decisions
        for g in known.by_group:
            rate = g.selection_rate or 0.0
            counts[g.group] = g.people, g.people * (rate if run.favourable == known.positive else 1 - rate)
    else:
        for v in p:
            people, selected = counts.get(str(v.group), (0, 0))
            counts[str(v.group)] = people + 1, selected + (v.prediction in run.favourable_labels)
    counts = {group: counts[group] for group in (counts if known else map(str, p.groups)) if counts[group][0]}
    everybody = pd.DataFrame.from_dict(counts, orient="index", columns=["people", "selected"])
    frames = [(run.sensitive, everybody)]
    if len(run.attributes) > 1:
        values = [[run.groups[group][place] for group in counts] for place in range(len(run.attributes))]
        each = [everybody.groupby(one, sort=False).sum() for one in values]
        frames = [*zip(run.attributes, each, strict=True), *frames]
    found = []
    for attribute, frame in frames:
        frame["rate"], frame["large"] = frame["selected"] / frame["people"], frame["people"] / frame["people"].sum()
        large = (frame["large"] >= SMALL_SHARE) & (frame.index != MISSING)
        highest = frame["rate"][large].max()
        for group, people, rate, counted in zip(frame.index, frame["people"], frame["rate"], large, strict=True):
            ratio = rate / highest if highest > 0 and group != MISSING else None
            below = bool(counted and ratio is not None and ratio < FOUR_FIFTHS)
            remark = "unknown" if group == MISSING else "" if counted else "under 2 % of the people"
            found.append(Impact(attribute, group, int(people), rate, ratio, below, remark))
    return found

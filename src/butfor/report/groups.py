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
    """One group: its people, the rate of favourable decisions, and that rate divided by the highest one."""

    attribute: str
    group: str
    people: int
    share: float
    rate: float
    ratio: float | None

    @property
    def remark(self) -> str:
        if self.group == MISSING:
            return "unknown"
        if self.share < SMALL_SHARE:
            return "under 2 % of the people"
        return "below four fifths" if self.below else ""

    @property
    def below(self) -> bool:
        """Whether the ratio is below four fifths, for a known group that is large enough."""
        few = self.group == MISSING or self.share < SMALL_SHARE
        return not few and self.ratio is not None and self.ratio < FOUR_FIFTHS


def impacts(p: Population) -> list[Impact]:
    """By attribute, then for their combinations. Empty if the favourable decision is unknown."""
    run = p.run
    if not run.favourable:
        return []
    counts, found = _selected(p), list[Impact]()
    for place, attribute in enumerate(run.attributes if len(run.attributes) > 1 else ()):
        values = [run.groups[group][place] for group in counts.index]
        found += _ratios(attribute, counts.groupby(values, sort=False).sum())
    return found + _ratios(run.sensitive, counts)


def _selected(p: Population) -> pd.DataFrame:
    """Per group, the number of people and of favourable decisions: of everybody whose label is known or, without
    labels, of those examined."""
    favourable, known = p.run.favourable, p.run.performance
    if known:
        rates = [(g.group, g.people, g.selection_rate or 0.0) for g in known.by_group if g.people]
        same = favourable == known.positive
        counts = {group: (people, people * (rate if same else 1 - rate)) for group, people, rate in rates}
    else:
        favoured = p.run.favourable_labels
        decided = {str(group): [v.prediction in favoured for v in p if v.group == group] for group in p.groups}
        counts = {group: (len(each), sum(each)) for group, each in decided.items() if each}
    return pd.DataFrame.from_dict(counts, orient="index", columns=["people", "selected"])


def _ratios(attribute: str, counts: pd.DataFrame) -> list[Impact]:
    shares, rates = counts["people"] / counts["people"].sum(), counts["selected"] / counts["people"]
    known = counts.index != MISSING
    highest = rates[(shares >= SMALL_SHARE) & known].max()
    ratios = [rate / highest if highest > 0 and group != MISSING else None for group, rate in rates.items()]
    rows = zip(counts.index, counts["people"], shares, rates, ratios, strict=True)
    return [Impact(attribute, group, int(people), share, rate, ratio) for group, people, share, rate, ratio in rows]

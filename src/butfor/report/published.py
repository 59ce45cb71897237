"""groups.csv: figures of groups for those who publish. Counts are in tens, shares in whole per
cent; groups under ten people, and what would give them away, are left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from butfor.report.groups import Impact, impacts
from butfor.result.population import Population
from butfor.result.run import GroupRates, Run
from butfor.standard.groups import GroupStandard

FEWEST_PEOPLE = 10
"""Counts below this, and shares that stand for fewer people, are left out."""
PLACES = 2
"""Decimals of a share: whole per cent."""
Group = tuple[str, str]
"""A protected attribute and one of its values; of combinations, the joined names."""
Figures = dict[str, Any]
"""Fields of `PublishedGroup` by name."""


@dataclass(frozen=True)
class PublishedGroup:
    """One line of groups.csv; None where a figure would be about fewer than ten people."""

    attribute: str
    group: str
    favourable: str
    """The decision, and the label, that rates are about."""
    people: int | None = None
    """How many were decided about."""
    favourable_rate: float | None = None
    impact_ratio: float | None = None
    labelled_favourable: float | None = None
    """The share of these people whose label is favourable."""
    error_rate: float | None = None
    false_favourable_rate: float | None = None
    """Of those labelled otherwise, the share with the favourable decision."""
    false_adverse_rate: float | None = None
    """Of those labelled favourable, the share with another decision."""
    switch_changes: int | None = None
    """Whose decision changes when the protected attribute alone is switched."""
    audited: int | None = None
    finds: int | None = None
    """Whose decision hinges on few labels: solid finds if finds were checked under fresh seeds."""
    finds_rate: float | None = None
    labels: int | None = None
    """Labelled rows that were compared with those of other groups."""
    recorded_rate: float | None = None
    """The share of these labels that are favourable."""
    gap: float | None = None
    """How much rarer the favourable label is than among comparable people; 0.06 is 6 points."""
    low: float | None = None
    high: float | None = None
    """Bounds of the gaps of all groups at once, 95 %."""


WHOLE = ("people", "switch_changes", "audited", "finds", "labels")
"""The columns of counts."""


def tens(count: float) -> int | None:
    """The count rounded to tens; None under ten."""
    return None if count < FEWEST_PEOPLE else 10 * round(count / 10)


def whole_percent(share: float | None, people: float) -> float | None:
    """The share of so many people in whole per cent; None if it stands for fewer than ten of them,
    or for all but fewer than ten."""
    if share is None:
        return None
    inside = tens(round(share * people))
    outside = tens(round((1 - share) * people))
    return None if inside is None or outside is None else round(share, PLACES)


def published_groups(population: Population) -> pd.DataFrame:
    """One row per group of ten people or more, or of ten labels or more; see `PublishedGroup`."""
    run = population.run
    decided = figures_of_people(population)
    compared = {(c.attribute, c.group): figures_of_labels(c) for c in population.standards}
    labels = {(c.attribute, c.group): c.rows for c in population.standards}
    if run.standard is not None:
        labels |= {
            (c.attribute, c.group): c.rows for c in run.standard.left_out if c.reason == "rows"
        }
    compared = without_differences(run, compared, labels)
    rows = []
    for attribute, group in dict.fromkeys([*decided, *compared]):
        figures = decided.get((attribute, group), {}) | compared.get((attribute, group), {})
        if figures:
            rows.append(PublishedGroup(attribute, group, run.favourable, **figures))
    columns = list(PublishedGroup.__dataclass_fields__)
    frame = pd.DataFrame(map(vars, rows), columns=columns)
    return frame.astype(dict.fromkeys(WHOLE, "Int64"))


def figures_of_people(population: Population) -> dict[Group, Figures]:
    """What the model decides about the people of each group, and how the audit ended."""
    run = population.run
    ratios = {(i.attribute, i.group): i for i in impacts(population)}
    people = {group: impact.people for group, impact in ratios.items()}
    rates = {} if run.performance is None else {g.group: g for g in run.performance.by_group}
    people |= {(run.sensitive, name): g.people for name, g in rates.items() if g.people}
    examined = population.by_group
    for name, count in examined["people"].items():
        people.setdefault((run.sensitive, str(name)), int(count))

    figures: dict[Group, Figures] = {}
    for (attribute, name), count in people.items():
        if count < FEWEST_PEOPLE:
            continue
        of_group: Figures = {"people": tens(count)}
        if (attribute, name) in ratios:
            impact = ratios[attribute, name]
            of_group["favourable_rate"] = whole_percent(impact.rate, count)
            if impact.ratio is not None:
                of_group["impact_ratio"] = round(impact.ratio, PLACES)
        if attribute == run.sensitive and name in rates:
            of_group |= figures_of_rates(run, rates[name])
        figures[attribute, name] = of_group
    hide_ratios(figures, ratios)

    finds = "solid" if population.checked else "found"
    for group, row in examined.iterrows():
        if row["people"] >= FEWEST_PEOPLE and (run.sensitive, str(group)) in figures:
            audited = tens(row["eligible"])
            found = tens(row[finds])
            shown = audited is not None and found is not None
            figures[run.sensitive, str(group)] |= {
                "switch_changes": tens(row["switch_changes"]),
                "audited": audited,
                "finds": found,
                "finds_rate": round(row[finds] / row["eligible"], PLACES) if shown else None,
            }
    return without_differences(run, figures, people)


def figures_of_rates(run: Run, rates: GroupRates) -> Figures:
    """Labels and errors, about the favourable decision."""
    labelled = rates.base_rate
    false_second = rates.false_positive_rate
    false_first = rates.false_negative_rate
    if run.favourable_labels != run.sides[1]:
        labelled = None if labelled is None else 1 - labelled
        false_second, false_first = false_first, false_second
    favourable = rates.people * (labelled or 0)
    return {
        "labelled_favourable": whole_percent(labelled, rates.people),
        "error_rate": whole_percent(rates.error_rate, rates.people),
        "false_favourable_rate": whole_percent(false_second, rates.people - favourable),
        "false_adverse_rate": whole_percent(false_first, favourable),
    }


def figures_of_labels(comparison: GroupStandard) -> Figures:
    """A group's labels beside those of comparable people. Without comparable people there is no
    gap."""
    figures: Figures = {
        "labels": tens(comparison.rows),
        "recorded_rate": whole_percent(comparison.recorded, comparison.rows),
    }
    if not comparison.not_comparable:
        low, high = comparison.bounds or (None, None)
        for name, share in (("gap", comparison.difference), ("low", low), ("high", high)):
            figures[name] = None if share is None else round(share, PLACES) or 0.0  # no -0
    return figures


def hide_ratios(figures: dict[Group, Figures], ratios: Mapping[Group, Impact]) -> None:
    """Leave out the ratios that would give away a rate that is left out: a group's own, and all of
    an attribute whose highest rate is not shown."""
    for group, of_group in figures.items():
        highest = [
            other for other, impact in ratios.items() if other[0] == group[0] and impact.ratio == 1
        ]
        shown = [figures.get(other, {}).get("favourable_rate") is not None for other in highest]
        if of_group.get("favourable_rate") is None or not all(shown):
            of_group.pop("impact_ratio", None)


def without_differences(
    run: Run, figures: dict[Group, Figures], counts: Mapping[Group, int]
) -> dict[Group, Figures]:
    """The figures without groups of a single attribute that hold combinations of fewer than ten
    people in all: these would be the difference to the combinations that are shown."""
    kept = {}
    for (attribute, name), of_group in figures.items():
        hidden = 0
        if attribute in run.attributes and attribute != run.sensitive:
            place = run.attributes.index(attribute)
            inside = [group for group, values in run.groups.items() if values[place] == name]
            few = [counts.get((run.sensitive, group), 0) for group in inside]
            hidden = sum(count for count in few if count < FEWEST_PEOPLE)
        if not 0 < hidden < FEWEST_PEOPLE:
            kept[attribute, name] = of_group
    return kept

"""How many labels it takes to turn decisions: the curve behind the chart, and what it shows in words."""

from __future__ import annotations

import pandas as pd

from butfor.report.values import shown
from butfor.result.groups import Curves
from butfor.result.population import ALL, Population

MOST_CURVES = 6
"""Groups with a line of their own: the largest."""
LONGEST = 60
"""Characters of a group's name."""


def turned_by(population: Population) -> pd.DataFrame:
    """`population.distance_curve()` of groups with anybody eligible."""
    curve = population.distance_curve()
    return curve[curve["people"] > 0].reset_index(drop=True)


def left_open(population: Population) -> bool | None:
    """Whether more decisions might be turned than were, by what is proven; None where nothing is."""
    if not any(v.at_least is not None for v in population.eligible):
        return None
    curve = turned_by(population)
    return bool((curve["proven"] > curve["share"])[curve["group"] == ALL].any())


def told(population: Population) -> str:
    """The ends of the curves, for who cannot see them."""
    curve = turned_by(population)
    ends = curve[curve["labels"] == curve["labels"].max()]
    shares = [f"{shown(g, LONGEST)} {100 * s:.0f} %" for g, s in zip(ends["group"], ends["share"], strict=True)]
    return f"Share of decisions turned by up to {ends['labels'].max()} labels: {'; '.join(shares)}"


def shuffled_words(curves: Curves) -> str:
    """The ends of the lines and bands with shuffled groups, for who cannot see them."""
    ends = []
    for group, shares in curves.real.items():
        band = curves.band(group)
        among = f"{100 * band[0][-1]:.0f} to {100 * band[1][-1]:.0f} %" if band else "never anybody's"
        ends.append(f"{shown(group, LONGEST)} {100 * shares[-1]:.0f} %, shuffled {among}")
    return f"Share of decisions turned by up to {curves.sizes[-1]} labels, as it is and shuffled: {'; '.join(ends)}"


def caption(population: Population) -> str:
    """What the chart shows, in plain words."""
    groups = len({v.group for v in population.eligible})
    largest = f", and the {MOST_CURVES} largest groups" if groups > MOST_CURVES else ", and each group"
    lines = f"The lines: everyone{largest if groups > 1 else ''}; the light bands are 95 % intervals."
    proven = {
        None: "",
        False: " That no more decisions can be turned by so few labels is proven: the line of everyone is exact.",
        True: " The grey band is of everyone, from what was found to what proofs leave open: decisions above the "
        "dotted line are proven to need more labels than that, so the true share lies within the band.",
    }
    return lines + proven[left_open(population)]

"""One standard for all: whose decisions change in worlds in which a group was labelled by the others' standard."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from butfor.errors import plural
from butfor.names import PLAIN
from butfor.result.record import Cell, within
from butfor.words import share

SPREAD = (5, 95)
"""Intervals run between these percentiles of the worlds."""
NO_TRAINING_ROWS = "no training rows"
"""Why a group has no worlds."""


@dataclass(frozen=True)
class World:
    """One world, identified by its seed: the group's shortfall, the number of flipped labels, how many adverse
    decisions about the group become favourable (`turned`), the rate of favourable decisions per group, and accuracy."""

    seed: int
    shortfall: float
    flips: int
    turned: int
    rates: dict[str, float]
    accuracy: float | None = None

    def __post_init__(self) -> None:
        within(self, seed=(0, 2**53))


@dataclass(frozen=True)
class PersonInWorlds:
    """A person whose decision changes in some worlds. `worlds`: in how many. `refused`: whether the decision is adverse
    now."""

    case: int
    row: Cell
    group: Cell
    refused: bool
    worlds: int


@dataclass(frozen=True, kw_only=True, repr=False)
class OneStandard:
    """One group whose labels fall short. Of `asked` people, `people` are in the group, and `refused` of these are
    refused now. `adverse_now`: the positions of everybody refused now. `changed`: people whose decision changes in any
    world, those in most worlds first. `rates` and `accuracy` are today's. `limited`: whether people compete for places,
    so that one person's gain is another's loss. `untried`: why the group has no worlds; None if it has some, or if
    nobody in it is refused now."""

    attribute: str
    group: str
    labels: int
    asked: int
    people: int
    refused: int
    adverse_now: tuple[int, ...]
    worlds: tuple[World, ...]
    changed: tuple[PersonInWorlds, ...]
    rates: dict[str, float]
    accuracy: float | None = None
    limited: bool = False
    untried: str | None = None
    names = PLAIN
    """The reader's words, which a record holds once for all its parts."""

    def __post_init__(self) -> None:
        within(self, asked=(0, 10**8))

    @cached_property
    def probability(self) -> pd.Series:
        """By position: the share of worlds that decide favourably, for everybody who is refused now, in any group; NaN
        for the others."""
        shares = dict.fromkeys(self.adverse_now, 0.0)
        shares |= {person.case: person.worlds / max(1, len(self.worlds)) for person in self.gaining}
        return pd.Series(shares, dtype=float, name="probability").reindex(range(self.asked))

    @property
    def gaining(self) -> tuple[PersonInWorlds, ...]:
        """People refused now and accepted in some worlds, in any group; those in most worlds first."""
        return tuple(person for person in self.changed if person.refused)

    @property
    def losing(self) -> tuple[PersonInWorlds, ...]:
        """People accepted now and refused in most worlds."""
        return tuple(person for person in self.changed if not person.refused and self.in_most(person))

    def in_most(self, person: PersonInWorlds) -> bool:
        """Whether this person's decision changes in more than half of the worlds."""
        return 2 * person.worlds > len(self.worlds)

    @property
    def expected(self) -> float:
        """How many adverse decisions about the group would change: the sum of their probabilities."""
        return over([world.turned for world in self.worlds])[0]

    @property
    def interval(self) -> tuple[int, int]:
        """The 5th and 95th percentile of that number over worlds, in whole people."""
        _, low, high = over([world.turned for world in self.worlds])
        return int(low), int(high)

    @property
    def displaced(self) -> float:
        """How many favourable decisions about anybody would become adverse, on average over worlds."""
        return sum(person.worlds for person in self.changed if not person.refused) / max(1, len(self.worlds))

    @property
    def rates_in_worlds(self) -> dict[str, tuple[float, float, float]]:
        """Per group, the rate of favourable decisions: mean, 5th and 95th percentile over worlds."""
        groups = self.rates if self.worlds else ()
        return {group: over([world.rates.get(group, math.nan) for world in self.worlds]) for group in groups}

    @property
    def accuracy_in_worlds(self) -> tuple[float, float, float] | None:
        """The same for accuracy; None if labels are unknown."""
        known = [world.accuracy for world in self.worlds if world.accuracy is not None]
        return over(known) if known else None

    # --- in words -------------------------------------------------------------------------------------

    @property
    def who(self) -> str:
        """ "Black applicants", "people with race = black"."""
        return self.names.people_in(self.attribute, self.group)

    def about(self, case: int | None) -> str:
        """In how many worlds a person's decision changes, in a sentence; empty if in none."""
        worlds = next((person.worlds for person in self.changed if person.case == case), 0)
        said = f"If {self.who} were labelled by the standard of the others, this decision would change in"
        return f"{said} {worlds} of {len(self.worlds)} worlds." if worlds else ""

    @property
    def expected_in_words(self) -> str:
        """In whole people: "5", "fewer than 1"."""
        return f"{math.floor(self.expected + 0.5)}" if self.expected >= 1 or not self.expected else "fewer than 1"

    @property
    def sentence(self) -> str:
        """ "Under one standard for all, the model would probably decide differently about 5 of 85 people with …" """
        if not self.people:
            return f"There are no {self.who} here."
        if not self.refused:
            return f"None of the {self.people} decisions about {self.who} is adverse: none would change."
        if self.untried == NO_TRAINING_ROWS:
            return (
                f"The model learned from no label of {self.who}: there is none to flip, so nobody knows whose decisions "
                "would change under one standard."
            )
        (low, high), places = self.interval, ""
        if self.limited:
            displaced = f"about {max(1, round(self.displaced))} of {self.asked} {self.names.noun}"
            places = f" Places are limited: {displaced if self.displaced >= 0.5 else 'nobody'} would lose theirs."
        return (
            f"Under one standard for all, the model would probably decide differently about {self.expected_in_words} "
            f"of {self.people} {self.who} (in 9 of 10 simulated worlds: {low} to {high}).{places}"
        )

    def details(self) -> list[str]:
        """Who is concerned, and how rates and accuracy move; a sentence each."""
        if not self.worlds:
            return []
        names, group, worlds = self.names, self.who, len(self.worlds)
        flips, about = [world.flips for world in self.worlds], f"of {self.people} decisions about {group}"
        ours = [person for person in self.gaining if str(person.group) == self.group]
        lines = [
            f"In each of {worlds} worlds, {min(flips)} to {max(flips)} of {self.labels} labels are flipped. Today "
            f"{plural(self.refused, f'{about} is', f'{about} are')} adverse; "
            f"{plural(sum(map(self.in_most, ours)), 'of them changes', 'of them change')} in most worlds."
        ]
        others = sum(person.worlds for person in self.gaining if person not in ours) / worlds
        if others >= 1:
            decisions = f"{plural(others, 'adverse decision')} about {names.noun} of other groups"
            lines.append(f"About {decisions} would change too.")
        if self.losing:
            losing = plural(len(self.losing), f"{names.one} is", f"{names.noun} are")
            lines.append(f"{losing} accepted now and refused in most worlds.")
        caveat = (
            " It is measured against the recorded labels, also those that the worlds correct, so a lower figure does "
            "not mean a worse model."
        )
        rate = f"Favourable decisions about {group}", self.rates.get(self.group), self.rates_in_worlds.get(self.group)
        for what, now, then, note in ((*rate, ""), ("Accuracy", self.accuracy, self.accuracy_in_worlds, caveat)):
            if now is not None and then is not None:
                mean, low, high = then
                among = f"{share(mean)} in the worlds ({100 * low:.1f} to {100 * high:.1f})"
                lines.append(f"{what}: {share(now)} now, {among}.{note}")
        return lines

    def __repr__(self) -> str:
        return self.sentence


class OneStandards(tuple[OneStandard, ...]):
    """The results of all groups that fall short. Prints as one sentence per group or, if there is none, says why."""

    why_empty = "Stopped before the first world."

    def __repr__(self) -> str:
        why = f"{self.why_empty} No decision was tried under one standard."
        return "\n".join(one.sentence for one in self) or why


def over(values: Sequence[float]) -> tuple[float, float, float]:
    """Of values in worlds the mean, and the 5th and 95th percentile: values of real worlds, not between two."""
    if not values:
        return 0.0, 0.0, 0.0
    low, high = np.percentile(values, SPREAD, method="nearest")
    return float(np.mean(values)), float(low), float(high)

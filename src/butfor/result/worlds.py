"""One standard for all: whose decisions change in worlds in which a group was labelled by the
others' standard."""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal

import numpy as np
import pandas as pd

from butfor.result.fresh import CLOSE_CALL_SHARE
from butfor.result.outcome import NOT_ASKED, NOT_FINISHED, Outcome
from butfor.result.record import Cell, within
from butfor.support.errors import plural
from butfor.words.figures import percent, share
from butfor.words.names import PLAIN

PERCENTILES = (5, 95)
"""Intervals run between these percentiles of the worlds."""
Control = Literal["paired", "fresh seeds", "missing"]
PAIRED: Control = "paired"
FRESH: Control = "fresh seeds"
MISSING: Control = "missing"
"""What says how a seed changes decisions with no label flipped: each world's own trainings, single
models under fresh seeds, or nothing."""


@dataclass(frozen=True)
class World:
    """One world, identified by its seed: the group's shortfall, the number of flipped labels, how
    many adverse decisions about the group become favourable (`turned`), the rate of favourable
    decisions per group, and accuracy. `gained`: the group's favourable decisions in this world less
    those in its control; None without one."""

    seed: int
    shortfall: float
    flips: int
    turned: int
    rates: dict[str, float]
    accuracy: float | None = None
    gained: int | None = None

    def __post_init__(self) -> None:
        within(self, seed=(0, 2**53))


@dataclass(frozen=True)
class PersonInWorlds:
    """A person whose decision is another one in some worlds. `refused`: whether the decision is
    adverse now. `worlds`: in how many it is another one than now. `control`: in which share of
    controls, where no label is flipped; None for a model that no seed changes."""

    case: int
    row: Cell
    group: Cell
    refused: bool
    worlds: int
    control: float | None = None

    @property
    def close_call(self) -> bool:
        """Whether the seed alone may decide either way."""
        return self.control is not None and CLOSE_CALL_SHARE < self.control < 1 - CLOSE_CALL_SHARE


@dataclass(frozen=True, kw_only=True, repr=False)
class OneStandard:
    """One group whose labels fall short. Of `asked` people, `people` are in the group, and
    `refused` of these are refused now. `adverse_now`: the positions of everybody refused now.
    `changed`: people whose decision is another one in any world or control, those whom flips change
    most first. `rates` and `accuracy` are today's. `limited`: whether people compete for places, so
    that one person's gain is another's loss. `control`: what the worlds are compared with; None if
    the model has no seed, so that it is the audited model. `outcome`: whether all worlds were made,
    and if not, why; None if not known."""

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
    control: Control | None = None
    outcome: Outcome | None = None
    names = PLAIN
    """The reader's words, which a record holds once for all its parts."""
    index: ClassVar[pd.Index | None] = None
    """The index of the people asked about; a record has none, and counts them."""

    def __post_init__(self) -> None:
        within(self, asked=(0, 10**8))

    @cached_property
    def probability(self) -> pd.Series:
        """By the people's own index: the share of worlds that decide favourably, for everybody who
        is refused now, in any group; NaN for the others."""
        shares = dict.fromkeys(self.adverse_now, 0.0)
        refused = [person for person in self.changed if person.refused]
        shares |= {person.case: person.worlds / max(1, len(self.worlds)) for person in refused}
        by_position = pd.Series(shares, dtype=float, name="probability")
        return self._of_everybody(by_position.reindex(range(self.asked)))

    def of_people(self, index: pd.Index) -> OneStandard:
        """The same about people with this index."""
        indexed = copy(self)
        object.__setattr__(indexed, "index", index)
        return indexed

    def _of_everybody(self, values: pd.Series) -> pd.Series:
        """Values by position, with the people's own index where it is known."""
        return values if self.index is None else values.set_axis(self.index)

    @cached_property
    def change(self) -> pd.Series:
        """By the people's own index, for everybody: the probability of the favourable decision in
        the worlds less that with no label flipped. NaN if there is no control, so that nobody can
        tell labels from seeds."""
        nobody = math.nan if self.control == MISSING or self.no_worlds else 0.0
        changes = {}
        if nobody == 0:
            changes = {person.case: self.change_of(person) for person in self.changed}
        by_position = pd.Series(changes, dtype=float, name="change")
        return self._of_everybody(by_position.reindex(range(self.asked), fill_value=nobody))

    def change_of(self, person: PersonInWorlds) -> float:
        """The same for one person: above 0 towards the favourable decision."""
        otherwise = person.worlds / max(1, len(self.worlds)) - (person.control or 0.0)
        return otherwise if person.refused else -otherwise

    def moved(self, person: PersonInWorlds) -> float:
        """How far the flips move this person's decision either way, in worlds."""
        return abs(person.worlds - (person.control or 0.0) * len(self.worlds))

    @property
    def gaining(self) -> tuple[PersonInWorlds, ...]:
        """People who gain by one standard, in any group, those most likely to first. Of a model
        without a seed: those refused now and accepted in some worlds. Else those whom most worlds
        accept and most controls refuse."""
        if self.control is None:
            return tuple(person for person in self.changed if person.refused)
        return tuple(
            person for person in self.changed if self.in_most(person) and self.accepted(person)
        )

    @property
    def losing(self) -> tuple[PersonInWorlds, ...]:
        """People accepted now, or in most controls, and refused in most worlds."""
        return tuple(
            person for person in self.changed if self.in_most(person) and not self.accepted(person)
        )

    def in_most(self, person: PersonInWorlds) -> bool:
        """Whether most worlds decide otherwise than most controls do; without a seed, than the
        audited model does."""
        in_worlds = person.worlds / max(1, len(self.worlds))
        if self.control is None or person.control is None:
            return self.control is None and in_worlds > 0.5
        # Where they are even, most decide nothing.
        return (in_worlds - 0.5) * (person.control - 0.5) < 0

    def accepted(self, person: PersonInWorlds) -> bool:
        """Whether most worlds decide favourably."""
        return (2 * person.worlds > len(self.worlds)) == person.refused

    @property
    def no_worlds(self) -> bool:
        """Whether there should be worlds and are none."""
        return (
            not self.worlds
            and self.outcome is not None
            and self.outcome.status in (NOT_ASKED, NOT_FINISHED)
        )

    @property
    def unfinished(self) -> bool:
        """Whether the worlds that are done are not all."""
        return self.outcome is not None and self.outcome.status == NOT_FINISHED

    @property
    def expected(self) -> float:
        """How many more decisions about the group would be favourable: the sum of its people's
        changes; NaN without a control. Of a model without a seed: how many adverse ones would
        change, the sum of their probabilities."""
        if self.no_worlds or self.control == MISSING:
            return math.nan
        if self.control is None:
            return over([world.turned for world in self.worlds])[0]
        return self._sum_of_changes(ours=True)

    def _sum_of_changes(self, ours: bool) -> float:
        """Of the group's people, or of the others."""
        return sum(
            self.change_of(person)
            for person in self.changed
            if (str(person.group) == self.group) is ours
        )

    @property
    def interval(self) -> tuple[int, int] | None:
        """The 5th and 95th percentile of that number over worlds, in whole people; None without a
        control."""
        counts = [world.turned if self.control is None else world.gained for world in self.worlds]
        if self.no_worlds or None in counts:
            return None
        _, low, high = over([count for count in counts if count is not None])
        return int(low), int(high)

    @property
    def displaced(self) -> float:
        """How many favourable decisions about anybody would become adverse, on average over worlds;
        with controls, how many fewer there would be about people of other groups."""
        if self.control is not None:
            return max(0.0, -self._sum_of_changes(ours=False))
        lost = sum(person.worlds for person in self.changed if not person.refused)
        return lost / max(1, len(self.worlds))

    @property
    def rates_in_worlds(self) -> dict[str, tuple[float, float, float]]:
        """Per group, the rate of favourable decisions: mean, 5th and 95th percentile over
        worlds."""
        groups = self.rates if self.worlds else ()
        return {
            group: over([world.rates.get(group, math.nan) for world in self.worlds])
            for group in groups
        }

    @property
    def accuracy_in_worlds(self) -> tuple[float, float, float] | None:
        """The same for accuracy; None if labels are unknown."""
        accuracies = [world.accuracy for world in self.worlds if world.accuracy is not None]
        return over(accuracies) if accuracies else None

    # --- in words ---------------------------------------------------------------------------------

    @property
    def who(self) -> str:
        """ "Black applicants", "people with race = black"."""
        return self.names.people_in(self.attribute, self.group)

    def about(self, case: int | None) -> str:
        """In how many worlds a person's decision changes, in a sentence; empty if flips change it
        in none, or, beside controls, hardly."""
        person = next((person for person in self.changed if person.case == case), None)
        if person is None or self.control == MISSING:
            return ""
        would = f"If {self.who} were labelled by the standard of the others, this decision would"
        if person.control is None:
            if not person.worlds:
                return ""
            return f"{would} change in {person.worlds} of {len(self.worlds)} worlds."
        if not self.in_most(person) and abs(self.change_of(person)) <= CLOSE_CALL_SHARE:
            return ""
        worlds, control = self.in_words(person, favourable=True)
        close = ""
        if person.close_call:
            close = " That is a close call: the seed alone may decide either way."
        return (
            f"{would} be favourable in {worlds} worlds; with no label flipped, in {control}.{close}"
        )

    def in_words(self, person: PersonInWorlds, favourable: bool | None = None) -> tuple[str, str]:
        """In how many worlds, and in how many controls, the decision is favourable or adverse;
        None: as most worlds have it. "19 of 20" and "2 of 20 trainings", or "9 % of trainings"."""
        count = len(self.worlds)
        worlds = person.worlds
        control = person.control or 0.0
        favourable = self.accepted(person) if favourable is None else favourable
        if favourable is not person.refused:  # as the decision is now
            worlds = count - worlds
            control = 1 - control
        beside = f"{percent(control)} of trainings"
        if self.control == PAIRED:
            beside = f"{round(control * count)} of {count}"
        return f"{worlds} of {count}", beside

    @property
    def expected_in_words(self) -> str:
        """In whole people: "5", "fewer than 1"; with controls "5 more", "no more", "2 fewer"."""
        count = "fewer than 1"
        if abs(self.expected) >= 1:
            count = str(math.floor(abs(self.expected) + 0.5))
        if self.control is None:
            return count if self.expected else "0"
        if -1 < self.expected <= 0:
            return "no more"
        return f"{count} {'more' if self.expected > 0 else 'fewer'}"

    @property
    def sentence(self) -> str:
        """ "Under one standard for all, the model would probably decide differently about 5 of 85
        people with …" """
        if not self.people:
            return f"There are no {self.who} here."
        if not self.refused:
            return (
                f"None of the {self.people} decisions about {self.who} is adverse: none would "
                "change."
            )
        if self.no_worlds:
            assert self.outcome is not None
            return (
                f"Whose decisions would change under one standard for {self.who} is not known: "
                f"{self.outcome.because}."
            )
        if self.control == MISSING:
            return (
                f"Whose decisions would change under one standard for {self.who} is not known: the "
                "record has no models without flipped labels that say what the seed alone changes."
            )
        low, high = self.interval or (0, 0)
        places = ""
        if self.limited:
            displaced = "nobody"
            if self.displaced >= 0.5:
                count = max(1, round(self.displaced))
                displaced = f"about {count} of {self.asked} {self.names.noun}"
            places = f" Places are limited: {displaced} would lose theirs."
        if self.unfinished:
            assert self.outcome is not None
            of = f"{len(self.worlds)} of {self.outcome.of} worlds"
            places += f" Only {of} were made: {self.outcome.because}."
        among = f"in 9 of 10 simulated worlds: {low} to {high}".replace("-", "−")
        if self.control is None:
            return (
                "Under one standard for all, the model would probably decide differently about "
                f"{self.expected_in_words} of {self.people} {self.who} ({among}).{places}"
            )
        return (
            "Under one standard for all, the model would probably decide favourably about "
            f"{self.expected_in_words} of {self.people} {self.who} than with the recorded labels "
            f"({among}{' more' if high > 0 else ''}).{places}"
        )

    def details(self) -> list[str]:
        """Who is concerned, and how rates and accuracy move; a sentence each."""
        if not self.worlds or self.control == MISSING:
            return []
        group = self.who
        lines = self._who_changes() if self.control is None else self._who_changes_beside_controls()
        caveat = (
            " It is measured against the recorded labels, also those that the worlds correct, so "
            "a lower figure does not mean a worse model."
        )
        rate = self.rates.get(self.group)
        rate_in_worlds = self.rates_in_worlds.get(self.group)
        for what, now, then, note in (
            (f"Favourable decisions about {group}", rate, rate_in_worlds, ""),
            ("Accuracy", self.accuracy, self.accuracy_in_worlds, caveat),
        ):
            if now is not None and then is not None:
                mean, low, high = then
                among = f"{share(mean)} in the worlds ({100 * low:.1f} to {100 * high:.1f})"
                lines.append(f"{what}: {share(now)} now, {among}.{note}")
        return lines

    @property
    def _flipped(self) -> str:
        flips = [world.flips for world in self.worlds]
        return (
            f"In each of {len(self.worlds)} worlds, {min(flips)} to {max(flips)} of {self.labels} "
            "labels are flipped."
        )

    def _who_changes(self) -> list[str]:
        """Beside the audited model."""
        names = self.names
        about = f"of {self.people} decisions about {self.who}"
        ours = [person for person in self.gaining if str(person.group) == self.group]
        adverse = plural(self.refused, f"{about} is", f"{about} are")
        change = plural(sum(map(self.in_most, ours)), "of them changes", "of them change")
        lines = [f"{self._flipped} Today {adverse} adverse; {change} in most worlds."]
        changed = sum(person.worlds for person in self.gaining if person not in ours)
        others = changed / len(self.worlds)
        if others >= 1:
            decisions = f"{plural(others, 'adverse decision')} about {names.noun} of other groups"
            lines.append(f"About {decisions} would change too.")
        if self.losing:
            losing = plural(len(self.losing), f"{names.one} is", f"{names.noun} are")
            lines.append(f"{losing} accepted now and refused in most worlds.")
        return lines

    def _who_changes_beside_controls(self) -> list[str]:
        """Beside what the same kind of model decides with no label flipped."""
        names = self.names
        beside = "The same trainings without flips stand beside each world"
        if self.control == FRESH:
            beside = (
                "Single models under fresh seeds, trained without flips, stand beside the worlds"
            )
        lines = [
            f"{self._flipped} {beside}, so that the luck of a seed does not count as an effect of "
            "labels."
        ]
        for people, then, before in (
            (self.gaining, "accept", "refuse"),
            (self.losing, "refuse", "accept"),
        ):
            if people:
                lines.append(
                    f"Most worlds {then} {names.count(len(people))} whom most trainings without "
                    f"flips {before}."
                )
        close = sum(person.close_call for person in (*self.gaining, *self.losing))
        if close:
            calls = plural(close, "of these is a close call", "of these are close calls")
            lines.append(f"{calls}: the seed alone may decide either way.")
        others = self._sum_of_changes(ours=False)
        if others >= 1:
            decisions = plural(others, "more decision")
            lines.append(
                f"About {decisions} about {names.noun} of other groups would be favourable too."
            )
        return lines

    def __repr__(self) -> str:
        return self.sentence


class OneStandards(tuple[OneStandard, ...]):
    """The results of all groups that fall short. Prints as one sentence per group or, if there is
    none, says why."""

    why_empty = ""

    def __repr__(self) -> str:
        why = f"{self.why_empty} No decision was tried under one standard."
        return "\n".join(one.sentence for one in self) or why


def over(values: Sequence[float]) -> tuple[float, float, float]:
    """Of values in worlds the mean, and the 5th and 95th percentile: values of real worlds, not
    between two."""
    if not values:
        return 0.0, 0.0, 0.0
    low, high = np.percentile(values, PERCENTILES, method="nearest")
    return float(np.mean(values)), float(low), float(high)

"""One standard for all: who is decided otherwise once a group's labels are given by the standard of the others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from butfor.result.fresh import NOT_CHECKED, SOLID, FreshSeeds
from butfor.result.person import Cell


@dataclass(frozen=True)
class Turned:
    """A person whom the model decides otherwise about, once the labels are flipped."""

    case: int
    row: Cell
    group: Cell
    logit: float
    counterfactual_logit: float
    fresh: FreshSeeds | None = None


@dataclass(frozen=True)
class OneStandard:
    """M doubted adverse labels of one group flipped together, and what becomes of it.

    `people`: how many of those asked about are of the group. `rates`: per group, the share of favourable decisions
    before and after; `accuracy` likewise, where labels are known. `seeded`: whether a seed changes the model."""

    attribute: str
    group: str
    flips: tuple[int, ...]
    labels: int
    people: int
    turned: tuple[Turned, ...]
    rates: dict[str, tuple[float, float]]
    seeded: bool
    accuracy: tuple[float, float] | None = None

    @classmethod
    def of(cls, recorded: Mapping[str, Any]) -> OneStandard:
        """As a record holds it."""
        turned = [
            Turned(**person | {"fresh": FreshSeeds(**person["fresh"]) if person.get("fresh") else None})
            for person in recorded["turned"]
        ]
        rates = {group: (before, after) for group, (before, after) in recorded["rates"].items()}
        return cls(**{**recorded, "turned": tuple(turned), "rates": rates, "flips": tuple(recorded["flips"])})

    @property
    def of_group(self) -> tuple[Turned, ...]:
        return tuple(person for person in self.turned if str(person.group) == self.group)

    def word(self, person: Turned) -> str:
        """Solid, leaning, … as for any find."""
        if person.fresh:
            return person.fresh.word
        return NOT_CHECKED if self.seeded else SOLID

    @property
    def sentence(self) -> str:
        """ "Had the labels where afam = yes been given by the standard of the others (28 of 1428 labels), …" """
        ours, others = self.of_group, len(self.turned) - len(self.of_group)
        solid = sum(self.word(person) == SOLID for person in ours)
        text = (
            f"Had the labels where {self.attribute} = {self.group} been given by the standard of the others "
            f"({len(self.flips)} of {self.labels} labels), {len(ours)} of {self.people} decisions about them would be "
            "otherwise"
        )
        if ours and self.seeded and all(person.fresh for person in ours):
            text += f", {solid} of them whatever the seed"
        return f"{text}, and {others} about others." if others else f"{text}."

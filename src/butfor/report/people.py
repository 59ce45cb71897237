"""The people of a page: their order, their names and addresses, and the list of them that a script filters."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from markupsafe import Markup, escape

from butfor.report.summary import LONGEST
from butfor.report.text import shown, without_middle
from butfor.result.fresh import SOLID
from butfor.result.population import Population
from butfor.result.run import Run
from butfor.result.verdict import Verdict
from butfor.result.words import CLOSE_CALL, SOLIDITY, STATUS
from butfor.result.worlds import OneStandard, PersonInWorlds

MOST_IN_WORLDS = 100
"""The most people listed by how likely their decision is to change."""
LISTED = 40
"""The most characters of a value in the list."""
NOT_AUDITED = 5
"""The weight of people who were neither audited nor named by one standard."""
REASONS = {
    "decision": "They got another decision than the one audited.",
    "switch": "The decision changes when the protected attribute alone is switched: the model uses it directly.",
    "rule": "The rule φ leaves them out.",
}
"""Why people were not audited, by `verdict.left_out`."""

InWorlds = list[tuple[OneStandard, PersonInWorlds]]
"""One person in the worlds of each group that falls short."""


class People:
    """Everybody on a page: the verdicts with their addresses, and other people named by one standard."""

    def __init__(self, p: Population, addresses: Sequence[str]) -> None:
        self.p, self.run = p, p.run
        self.addresses = dict(zip(map(id, p.verdicts), addresses, strict=True))
        self.places = {v.case: address for v, address in zip(p.verdicts, addresses, strict=True)}

    def addresses_of(self, v: Verdict) -> str:
        """The id of the person's entry."""
        return self.addresses[id(v)].removeprefix("#")

    def name(self, one: Verdict | PersonInWorlds) -> str:
        """The table's own id, if it has one, else the position."""
        if one.case is None or self.run.data.identifier:
            return shown(one.row, LONGEST)
        return str(one.case)

    def link(self, one: Verdict | PersonInWorlds) -> tuple[str, str]:
        """The name and the address."""
        return self.name(one), self.places.get(one.case, f"#case-{one.case}")

    @cached_property
    def in_worlds(self) -> dict[int | None, InWorlds]:
        """By case: everybody named on the page because the decision changes in some worlds."""
        found: dict[int | None, InWorlds] = {}
        for one in self.p.one_standard:
            for person in (*one.gaining[:MOST_IN_WORLDS], *one.losing):
                found.setdefault(person.case, []).append((one, person))
        return found

    @property
    def named(self) -> list[InWorlds]:
        """People named by one standard who were not examined."""
        return [worlds for case, worlds in self.in_worlds.items() if case not in self.places]

    def weight(self, v: Verdict) -> tuple[int, int]:
        """The sort order: the decision changes in most worlds, solid, found, in some worlds, audited, not audited."""
        worlds = self.weight_in(self.in_worlds.get(v.case, []))
        if v.found and worlds[0]:
            return 1 if v.solidity == SOLID else 2, v.at_most or 0
        return (4 if v.eligible else NOT_AUDITED, 0) if worlds[0] == NOT_AUDITED else worlds

    @staticmethod
    def weight_in(worlds: InWorlds) -> tuple[int, int]:
        if not worlds:
            return NOT_AUDITED, 0
        return (0 if any(one.in_most(person) for one, person in worlds) else 3), -max(each.worlds for _, each in worlds)

    @cached_property
    def ordered(self) -> list[Verdict]:
        return sorted(self.p.verdicts, key=self.weight)

    @cached_property
    def rest(self) -> dict[str, list[Verdict]]:
        """People neither audited nor named by one standard, by reason."""
        found: dict[str, list[Verdict]] = {}
        for v in self.p.verdicts:
            if self.weight(v)[0] == NOT_AUDITED:
                found.setdefault(v.left_out or "rule", []).append(v)
        return found


def sides_of(person: PersonInWorlds, run: Run) -> tuple[str, str]:
    """The decision now, and the other one."""
    adverse, favourable = " or ".join(run.adverse) or "adverse", run.favourable or "favourable"
    return (adverse, favourable) if person.refused else (favourable, adverse)


def roster(people: People) -> dict[str, Any]:
    """The list of people, in order: `heads` (a name, and how the script filters by it), `rows`, and how many are shown
    at `first`. HTML's optional end tags are left out, so that ten thousand people fit."""
    p, run = people.p, people.run
    heads = [
        ("Person", ""),
        (shown(run.data.identifier or "Row", LISTED), ""),
        (shown(run.sensitive, LISTED), "choice"),
    ]
    heads += [("Decision", "choice"), ("Result", "choice"), ("How sure", "choice"), ("Changes under one standard", "")]
    heads += [("Labels", "most"), (run.measure.capitalize(), ""), ("With the flips, or closest", "")]
    everyone = [(people.weight(v), _cells(v, people)) for v in p.verdicts]
    everyone += [(people.weight_in(worlds), _named(worlds, people)) for worlds in people.named]
    cells = [row for _, row in sorted(everyone, key=lambda one: one[0])]
    used = [k for k in range(len(heads)) if k < 5 or any(row[k] for row in cells)]
    rows = ("<tr><th>" + "<td>".join(row[k] for k in used) for row in cells)
    first = len(cells) - sum(map(len, people.rest.values()))
    return {"heads": [heads[k] for k in used], "rows": Markup("\n".join(rows)), "count": len(cells), "first": first}


def _cells(v: Verdict, people: People) -> list[str]:
    """A person's cells, escaped."""
    sure = [f"{CLOSE_CALL.sign} close call"] if v.close_call else []
    sure += [f"{SOLIDITY[v.solidity].sign} {v.solidity}"] if v.solidity and v.run.seeded else []
    status = "not audited" if v.status == "not_eligible" else v.status.replace("_", " ")
    return _escaped(
        people.name(v) if v.case is not None else f"row {people.name(v)}",
        people.addresses[id(v)],
        shown(v.row, LISTED),
        without_middle(v.group, LISTED),
        shown(v.prediction, LISTED),
        f"{STATUS[v.status].sign} {status}{'' if v.complete else ', ⚠ incomplete'}",
        ", ".join(sure),
        _worlds_in_words(people.in_worlds.get(v.case, [])),
        str(v.at_most or ""),
        v.measured_before,
        v.measured_after or ("" if v.found else v.closest),
    )


def _named(worlds: InWorlds, people: People) -> list[str]:
    """The cells of a person who was not examined."""
    person = worlds[0][1]
    decision, _ = sides_of(person, people.run)
    about = shown(person.row, LISTED), without_middle(person.group, LISTED), shown(decision, LISTED)
    return _escaped(*people.link(person), *about, "– not examined", "", _worlds_in_words(worlds), "", "", "")


def _worlds_in_words(worlds: InWorlds) -> str:
    return ", ".join(one.count(person) for one, person in worlds)


def _escaped(name: str, address: str, *others: str) -> list[str]:
    return [f'<a href="{escape(address)}">{escape(name)}</a>', *(str(escape(cell)) for cell in others)]

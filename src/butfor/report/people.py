"""The people of a page: who is listed, in which order, under which name, and with which score."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral
from pathlib import Path

from butfor.decide import USUAL
from butfor.report.text import shown
from butfor.result.fresh import SOLID
from butfor.result.population import Population
from butfor.result.run import Run
from butfor.result.verdict import Verdict
from butfor.result.worlds import OneStandard, PersonInWorlds

MOST_IN_WORLDS = 100
"""The most people listed by how likely their decision is to change."""
LONGEST = 60
"""The most characters of a row's name."""
LINED = (".csv", ".tsv", ".txt", ".xlsx", ".xls")
"""Files whose lines people count: the first row of data is line 2."""
NOT_AUDITED = 5
"""The weight of people who were neither audited nor named by one standard."""


@dataclass(frozen=True)
class Listed:
    """A person of the page: examined (with a `verdict`), or named because one standard changes the decision."""

    run: Run
    address: str
    verdict: Verdict | None
    worlds: tuple[tuple[OneStandard, PersonInWorlds], ...] = ()

    @property
    def person(self) -> Verdict | PersonInWorlds:
        return self.verdict or self.worlds[0][1]

    @property
    def name(self) -> str:
        return name_of(self.run, self.person.row, self.person.case)

    @property
    def in_most(self) -> bool:
        """Whether the decision changes in most worlds of some group."""
        return any(one.in_most(person) for one, person in self.worlds)

    @property
    def weight(self) -> tuple[int, int]:
        """The order: changes in most worlds, solid, found, changes in some worlds, audited, not audited."""
        v, worlds = self.verdict, max((person.worlds for _, person in self.worlds), default=0)
        if self.in_most:
            return 0, -worlds
        if v is not None and v.found:
            return 1 if v.solidity == SOLID else 2, v.at_most or 0
        if worlds:
            return 3, -worlds
        return 4 if v is not None and v.eligible else NOT_AUDITED, 0

    @property
    def left_out(self) -> str | None:
        """Why somebody was neither audited nor named by one standard; None for the others."""
        return (self.verdict.left_out or "rule") if self.verdict and self.weight[0] == NOT_AUDITED else None

    @property
    def decisions(self) -> tuple[str | tuple[str, ...], str | tuple[str, ...]]:
        """The decision now, and the other one; of several labels each."""
        adverse, favourable = self.run.adverse or ("adverse",), self.run.favourable_labels or ("favourable",)
        if self.verdict is not None:
            now = self.verdict.prediction
            return now, self.verdict.counterfactual_prediction or (adverse if now in favourable else favourable)
        return (adverse, favourable) if self.worlds[0][1].refused else (favourable, adverse)


def listed(p: Population, addresses: Sequence[str]) -> list[Listed]:
    """Everybody examined, at these addresses, and everybody named by one standard, those who matter most first."""
    worlds: dict[int | None, tuple[tuple[OneStandard, PersonInWorlds], ...]] = {}
    for one in p.one_standard:
        for person in (*one.gaining[:MOST_IN_WORLDS], *one.losing):
            worlds[person.case] = (*worlds.get(person.case, ()), (one, person))
    people = [
        Listed(p.run, address, v, worlds.pop(v.case, ())) for v, address in zip(p.verdicts, addresses, strict=True)
    ]
    people += [Listed(p.run, f"#case-{case}", None, found) for case, found in worlds.items()]
    return sorted(people, key=lambda one: one.weight)


def changed_by(people: Sequence[Listed], one: OneStandard) -> list[tuple[Listed, PersonInWorlds]]:
    """Those whose decision changes in worlds of one group, in most worlds first."""
    found = [(each, person) for each in people for world, person in each.worlds if world is one]
    return sorted(found, key=lambda pair: (not pair[1].refused, -pair[1].worlds))


# --- names --------------------------------------------------------------------------------------------


def row_word(run: Run) -> str:
    """What the numbers of rows are: the table's own ids, lines of a file, or rows."""
    path = Path((run.data.table or "").lower().removesuffix(".gz"))
    return run.data.identifier or ("line" if path.suffix in LINED else "row")


def row_name(run: Run, row: object) -> str:
    """A row as the table names it, else by the line of the file."""
    if row_word(run) == "line" and not run.data.identifier and isinstance(row, Integral):
        return str(int(row) + 2)
    return shown(row, LONGEST)


def name_of(run: Run, row: object, case: int | None) -> str:
    """A person's name on a page: the row's or, without one, the position."""
    return str(case) if row is None and case is not None else row_name(run, row)


# --- scores -------------------------------------------------------------------------------------------


def scores(v: Verdict) -> tuple[float, float | None]:
    """The score, or the margin of a model without scores, now and with the flips; without a find, the closest."""
    now, after = v.scores
    if now is None:
        return v.logit, v.closest_logit if v.counterfactual_logit is None else v.counterfactual_logit
    if after is None and v.closest_logit is not None and not v.run.cut_moves:
        after = v.run.score_of(v.closest_logit)
    return now, after


def cut_of(v: Verdict) -> float:
    """Where the decision changes, on the scale of `scores`."""
    if v.scores[0] is None:
        return 0.0
    threshold = v.run.threshold
    return v.cut if v.cut is not None else (threshold and threshold.probability) or USUAL


def digits(people: Sequence[Listed]) -> int:
    """How many decimals tell every score in a column from its cut: two to six."""
    pairs = [(score, cut_of(one.verdict)) for one in people if one.verdict for score in scores(one.verdict)]
    told = [(score, cut) for score, cut in pairs if score is not None and abs(score - cut) > 1e-6]
    return next((k for k in range(2, 6) if all(round(score, k) != round(cut, k) for score, cut in told)), 6)

"""Limits for builds: what an audit or a comparison of groups shows, beside the most that is
allowed.

Every limit is held to the lowest and the highest value that the record allows, so a build can tell
"fine" from "broken" and both from "cannot tell": of gaps these are bounds for all groups at once,
of shares what unfinished searches and untested finds leave open.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

from butfor.result.population import Population
from butfor.result.ranges import check_ranges
from butfor.result.record import CHECKSUM, Opened
from butfor.standard.groups import Compared
from butfor.support.errors import (
    ReplayError,
    SettingError,
    nearest,
    plural,
)
from butfor.words.figures import number, often

SLACK = 1e-12
"""Rounding errors of shares do not fail a limit."""
KEPT = 0
BROKEN = 1
UNKNOWN = 4
"""Exit codes; of several checks 1 counts before 4 before 0. 2 and 3 are taken by bad input and full
disks."""
LEAST_PEOPLE = 30
"""A share of fewer people is held to no limit."""
WORDS = {KEPT: "kept", BROKEN: "FAILED", UNKNOWN: "CANNOT TELL"}
MAX_GAP = "max-gap"


@dataclass(frozen=True)
class Check:
    """One limit, the lowest and the highest value that the record allows (None: it cannot be
    measured), and what was measured in a sentence. Values are shares."""

    name: str
    limit: float
    sentence: str
    low: float | None = None
    high: float | None = None
    group: str | None = None

    @property
    def code(self) -> int:
        if self.low is None or self.high is None:
            return UNKNOWN
        return (
            KEPT
            if self.high <= self.limit + SLACK
            else BROKEN
            if self.low > self.limit + SLACK
            else UNKNOWN
        )

    @property
    def line(self) -> str:
        limit = f"{100 * self.limit:.10g} points" if self.name == MAX_GAP else shown(self.limit)
        return f"{WORDS[self.code]}: {self.name} {limit}: {self.sentence}"

    def to_dict(self) -> dict[str, Any]:
        return {"result": WORDS[self.code].lower(), **asdict(self)}


RENAMED = {"groups": "comparisons", "columns": "moves", "slices": "parts"}
"""Fields of standard.json that are called otherwise in memory."""
FOR_READERS = ("schema_version", CHECKSUM, "adverse", "favourable", "notes")
"""What it says besides, for readers without this library."""


def standards_in(record: Opened) -> Compared:
    """The comparison of groups in a standard.json; an error names a field that is unknown or cannot
    be."""
    content = {
        RENAMED.get(name, name): value
        for name, value in record.content.items()
        if name not in FOR_READERS
    }
    try:
        standards = record.read(Compared, content)
        check_ranges(standards)
    except (ReplayError, ValueError) as error:
        said = str(error).removeprefix("Invalid record: ").removesuffix(".")
        for name, ours in RENAMED.items():
            said = said.replace(f"{ours}[", f"{name}[")
        raise ReplayError(f"Invalid record: {said}.") from None
    return standards


def check_gaps(
    standards: Compared | None, limit: float, without: Sequence[str] = ()
) -> list[Check]:
    """One check per group: how much less often it got the favourable label than comparable people.
    `without`: groups that are left out, as "female" or "sex = female"."""
    if standards is None:
        why = (
            "the record compares no groups. Name the label that people do not want (--adverse) "
            "and audit everybody."
        )
        return [Check(MAX_GAP, limit, why)]
    checks = {}
    for c in standards.comparisons:
        low, high = c.bounds or (None, None)
        said = f"{c.name} has no bounds: compare the groups with draws."
        if c.overlap is not None and c.not_comparable:
            low = high = None
            said = (
                f"{c.name} cannot be compared: {c.overlap.why(c.rows)}. Leave it out with --except."
            )
        if low is not None and high is not None:
            ends = (-high, -low) if c.difference < 0 else (low, high)
            said = (
                f"{c.name}: {often(c.difference)} than comparable people ({number(ends[0])} to "
                f"{number(ends[1])})."
            )
            if low <= limit + SLACK < high:  # bounds narrow with the root of the number of rows
                margin = high - c.difference if c.difference <= limit else c.difference - low
                times = (margin / max(abs(c.difference - limit), 1e-9)) ** 2
                many = (
                    f"about {times:.{0 if times >= 10 else 1}f}"
                    if times <= 1000
                    else "more than 1000"
                )
                said += f" If the gap stays as it is, it takes {many} times the rows."
        checks[c.name] = Check(MAX_GAP, limit, said, low, high, c.name)
    for group in standards.left_out:
        name = f"{group.attribute} = {group.group}"
        said = "Collect more rows, or leave it out with --except."
        checks[name] = Check(MAX_GAP, limit, f"{group.sentence} {said}", group=name)
    excepted = set[str]()
    for given in without:
        named = {name for name in checks if given in (name, name.partition(" = ")[2])}
        if not named:
            raise SettingError(
                f"--except: there is no group '{given}'. {nearest(given, checks, 'The groups are')}"
            )
        excepted |= named
    if not checks:
        return [
            Check(MAX_GAP, limit, "the record compares no group, so nothing is known about gaps.")
        ]
    if len(excepted) == len(checks):
        raise SettingError("--except leaves no group to hold to --max-gap.")
    return [check for name, check in checks.items() if name not in excepted]


def check_solid(population: Population, limit: float) -> Check:
    """Of the people audited, the share with a solid find."""
    asked = len(population.eligible)
    found = len(population.found)
    low = high = None
    if population.interrupted:
        said = "the audit was interrupted; run it again."
    elif not asked:
        said = f"there is nothing to measure: {population.advice or population.audited}"
    elif found and not population.checked:
        why = population.unchecked_reason
        said = f"it is not known which of {found} finds are solid: {why} (--fresh-seeds 59)."
    else:
        solid = len(population.solid)
        stopped = population.unfinished
        seeds = ", under any seed tried" if population.run.seeded else ""
        share = shown(solid / asked)
        said = f"{solid} of {asked} audited decisions ({share}) hinge on few labels{seeds}."
        if stopped:
            most = solid + stopped
            said += f" The search for {stopped} more was stopped early, so it may be up to {most}."
        if asked >= LEAST_PEOPLE:
            low = solid / asked
            high = (solid + stopped) / asked
        else:
            people = plural(asked, "person")
            said += f" Of {people} a share says little: audit {LEAST_PEOPLE} at least."
    return Check("max-solid", limit, said, low, high)


def share_in(text: str, option: str) -> float:
    """A limit as a share: of --max-gap from percentage points such as '2', of --max-solid from '5%'
    or '0.05'."""
    in_points = option == "--max-gap"
    percent = in_points or text.strip().endswith("%")
    with suppress(ValueError):
        share = float(text if in_points else text.strip().removesuffix("%")) / (
            100 if percent else 1
        )
        if 0 <= share < 1 or (share == 1 and percent):  # "1" alone may mean 1 %
            return share
    if in_points:
        raise SettingError(
            f"{option} {text}: give percentage points from 0 to 100, without a sign, such as 2."
        )
    raise SettingError(f"{option} {text}: give a share from 0% to 100%, with the sign, such as 5%.")


def shown(share: float) -> str:
    """A share to a hundredth of a per cent, so that a failed limit does not look kept."""
    return f"{round(100 * share, 2):.10g} %"

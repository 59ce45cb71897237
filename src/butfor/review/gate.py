"""Limits for builds: what an audit or a comparison of groups shows, beside the most that is allowed.

Every limit is held to the lowest and the highest value that the record allows, so a build can tell "fine" from "broken"
and both from "cannot tell": of gaps these are bounds for all groups at once, of shares what unfinished searches and
untested finds leave open.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from butfor.errors import SettingError, listed, nearest, plural
from butfor.result.fresh import LEAST
from butfor.result.population import Population
from butfor.result.run import RecordedStandards
from butfor.standard.groups import GroupStandard
from butfor.standard.members import NOT_COMPARED
from butfor.words import number, points

SLACK = 1e-12
"""Rounding errors of shares do not fail a limit."""
KEPT, BROKEN, UNKNOWN = 0, 1, 4
"""Exit codes; of several checks 1 counts before 4 before 0. 2 and 3 are taken by bad input and full disks."""
WORDS = {KEPT: "kept", BROKEN: "FAILED", UNKNOWN: "CANNOT TELL"}
MOST_TIMES = 1000
"""Beyond as many times the rows, no number is said."""


@dataclass(frozen=True)
class Check:
    """One limit, the lowest and the highest value that the record allows (None: it cannot be measured), and what was
    measured in a sentence. Values are shares."""

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
        return KEPT if self.high <= self.limit + SLACK else BROKEN if self.low > self.limit + SLACK else UNKNOWN

    @property
    def line(self) -> str:
        limit = f"{100 * self.limit:.10g} points" if self.name == MAX_GAP else shown(self.limit)
        return f"{WORDS[self.code]}: {self.name} {limit}: {self.sentence}"

    def to_dict(self) -> dict[str, Any]:
        return {"result": WORDS[self.code].lower(), **asdict(self)}


def code_of(checks: Sequence[Check]) -> int:
    """The exit code of all checks together."""
    return next((code for code in (BROKEN, UNKNOWN) if any(check.code == code for check in checks)), KEPT)


# --- gaps ---------------------------------------------------------------------------------------------

MAX_GAP = "max-gap"


def check_gaps(standards: RecordedStandards | None, limit: float, without: Sequence[str] = ()) -> list[Check]:
    """One check per group: how much less often it got the favourable label than comparable people. `without`: groups
    that are left out, as "female" or "sex = female"."""
    if standards is None:
        if without:
            raise SettingError("--except: the record compares no groups.")
        why = "the record compares no groups. Name the label that people do not want (--adverse) and audit everybody."
        return [Check(MAX_GAP, limit, why)]
    left_out = {sentence.partition(NOT_COMPARED)[0]: sentence for sentence in standards.left_out}
    names = {c.name: c.group for c in standards.comparisons}
    names |= {name: name.partition(" = ")[2] for name in left_out}
    excepted = set[str]()
    for group in without:
        named = [name for name, value in names.items() if group in (name, value)]
        if not named:
            raise SettingError(f"--except: there is no group '{group}'. {nearest(group, names, 'The groups are')}")
        if len(named) > 1:
            raise SettingError(f"--except {group}: name one of {listed(named)}.")
        excepted |= set(named)
    checks = [_of_group(c, limit) for c in standards.comparisons if c.name not in excepted]
    checks += [
        Check(MAX_GAP, limit, f"{said} Collect more rows, or leave it out with --except.", group=name)
        for name, said in left_out.items()
        if name not in excepted
    ]
    if not checks:
        raise SettingError("--except leaves no group to hold to --max-gap.")
    return checks


def _of_group(c: GroupStandard, limit: float) -> Check:
    if c.bounds is None:
        return Check(MAX_GAP, limit, f"{c.name} has no bounds: compare the groups with draws.", group=c.name)
    low, high = c.bounds
    said = f"{c.name}: gap {points(c.difference)} ({number(low)} to {number(high)})."
    check = Check(MAX_GAP, limit, said, low, high, c.name)
    if check.code != UNKNOWN:
        return check
    margin = high - c.difference if c.difference <= limit else c.difference - low
    times = (margin / max(abs(c.difference - limit), 1e-9)) ** 2
    if times > MOST_TIMES:
        more = f"A gap so close to {points(limit)} takes more than {MOST_TIMES} times the rows."
    else:
        more = f"If the gap stays as it is, it takes about {times:.{0 if times >= 10 else 1}f} times the rows."
    return Check(MAX_GAP, limit, f"{said} {more}", low, high, c.name)


# --- shares of decisions ------------------------------------------------------------------------------


def check_shares(population: Population, **limits: float) -> list[Check]:
    """One check per limit: of the people audited, the share with a solid find (`max_solid`) and the share of close
    calls (`max_close_calls`); of all people, the share whose decision changes when the protected attribute alone is
    switched (`max_switch`)."""
    return [Check(name.replace("_", "-"), limit, *MEASURES[name](population)) for name, limit in limits.items()]


Measured = tuple[str] | tuple[str, float, float]
"""What was measured in a sentence, and the lowest and the highest share that the record allows."""


def _nobody(population: Population) -> str:
    if population.interrupted:
        return "the audit was interrupted; run it again."
    return "" if population.eligible else f"there is nothing to measure: {population.run.alike or population.audited}"


def _solid(population: Population) -> Measured:
    found, asked, left = len(population.solid), len(population.eligible), population.unfinished
    if nobody := _nobody(population):
        return (nobody,)
    if population.found and not population.checked:
        finds, why = len(population.found), population.unchecked_reason
        return (f"it is not known which of {finds} finds are solid: {why} (--fresh-seeds 59).",)
    seeds = ", under any seed tried" if population.run.seeded else ""
    more = f" The search for {left} more was stopped early, so it may be up to {found + left}." if left else ""
    said = f"{found} of {asked} audited decisions ({shown(found / asked)}) hinge on few labels{seeds}.{more}"
    return said, found / asked, (found + left) / asked


def _close(population: Population) -> Measured:
    if nobody := _nobody(population):
        return (nobody,)
    if not population.run.seeded:
        return "this model has no seed, so no decision is a close call.", 0.0, 0.0
    eligible, seeds = population.eligible, population.run.fresh_seeds
    if untested := sum(v.close_call is None for v in eligible):
        said = f"{untested} of {len(eligible)} audited decisions were not tested under fresh seeds (--fresh-seeds 59)."
        return (said,)
    if seeds < LEAST:
        many = plural(seeds, "fresh seed is", "fresh seeds are")
        return (f"{many} too few to tell close calls, {LEAST} at least (--fresh-seeds 59).",)
    close = sum(bool(v.close_call) for v in eligible)
    share = close / len(eligible)
    said = f"{close} of {len(eligible)} audited decisions ({shown(share)}) are close calls: more than one"
    return f"{said} fresh seed in ten decides differently without any flip.", share, share


def _switch(population: Population) -> Measured:
    if population.run.blind:
        return "the model does not see the protected attribute.", 0.0, 0.0
    known = [v.switch_changes for v in population if v.switch_changes is not None]
    if not known or len(known) < len(population):
        return ("the record does not say whose decisions a switch of the attribute changes; run the audit again.",)
    share, changed = sum(known) / len(known), f"{sum(known)} of {len(known)} decisions"
    return f"switching the protected attribute alone changes {changed} ({shown(share)}).", share, share


MEASURES = {"max_solid": _solid, "max_close_calls": _close, "max_switch": _switch}


# --- limits as text -------------------------------------------------------------------------------------


def share_in(text: str, option: str, in_points: bool = False) -> float:
    """A share from '5%' or '0.05'; `in_points`, from percentage points such as '2'."""
    percent = in_points or text.strip().endswith("%")
    try:
        share = float(text if in_points else text.strip().removesuffix("%")) / (100 if percent else 1)
    except ValueError:
        share = math.nan
    if 0 <= share < 1 or (share == 1 and percent):
        return share
    if in_points:
        raise SettingError(f"{option} {text}: give percentage points from 0 to 100, without a sign, such as 2.")
    raise SettingError(f"{option} {text}: give a share from 0% to 100%, with the sign, such as 5%.")


def shown(share: float) -> str:
    """A share to a hundredth of a per cent, so that a failed limit does not look kept."""
    return f"{round(100 * share, 2):.10g} %"

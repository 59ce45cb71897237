"""Limits for builds: a build stops if an audit exceeds one.

A limit that cannot be measured fails: an audit of nobody, or one that was stopped, shows nothing. People whose search
is incomplete count as found.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from xml.etree import ElementTree

from butfor.errors import SettingError
from butfor.result.fresh import LEAST
from butfor.result.population import Population

SLACK = 1e-12
"""Rounding errors of shares do not fail a limit."""


@dataclass(frozen=True)
class Check:
    """One limit, whether it is kept, and the measured value in a sentence."""

    name: str
    limit: float
    kept: bool
    sentence: str

    @property
    def line(self) -> str:
        return f"{'kept' if self.kept else 'FAILED'}: {self.name} {shown(self.limit)}: {self.sentence}"


def check(population: Population, **limits: float | None) -> list[Check]:
    """One check per limit that is given: of the people audited, the share with a solid find (`max_solid`) and the share
    of close calls (`max_close_calls`); of all people, the share whose decision changes when the protected attribute
    alone is switched (`max_switch`)."""
    checks = []
    for name, measure in MEASURES.items():
        limit = limits.get(name.replace("-", "_"))
        if limit is None:
            continue
        try:
            share, sentence = measure(population)
            checks.append(Check(name, limit, share <= limit + SLACK, sentence))
        except Unmeasured as why:
            checks.append(Check(name, limit, False, str(why)))
    return checks


class Unmeasured(Exception):
    """Why a limit cannot be measured."""


def _solid(population: Population) -> tuple[float, str]:
    _require_people(population)
    if population.found and not population.checked:
        finds, why = len(population.found), population.unchecked_reason
        raise Unmeasured(f"it is not known which of {finds} finds are solid: {why} (--fresh-seeds 59).")
    found, asked, open_ = len(population.solid), len(population.eligible), population.unfinished
    seeds = ", under any seed tried" if population.run.seeded else ""
    left = f" The search for {open_} more was stopped early, so it may be up to {found + open_}."
    said = f"{found} of {asked} audited decisions ({shown(found / asked)}) hinge on few labels{seeds}."
    return (found + open_) / asked, said + left * bool(open_)


def _close(population: Population) -> tuple[float, str]:
    _require_people(population)
    if not population.run.seeded:
        return 0.0, "this model has no seed, so no decision is a close call."
    eligible, seeds = population.eligible, population.run.fresh_seeds
    unasked = sum(v.close_call is None for v in eligible)
    if unasked:
        raise Unmeasured(
            f"{unasked} of {len(eligible)} audited decisions were not tested under fresh seeds (--fresh-seeds 59)."
        )
    if seeds < LEAST:
        many = f"{seeds} fresh seed{'s are' if seeds > 1 else ' is'}"
        raise Unmeasured(f"{many} too few to tell close calls, {LEAST} at least (--fresh-seeds 59).")
    close = sum(bool(v.close_call) for v in eligible)
    return close / len(eligible), (
        f"{close} of {len(eligible)} audited decisions ({shown(close / len(eligible))}) are close calls: more than one "
        "fresh seed in ten decides differently without any flip."
    )


def _switch(population: Population) -> tuple[float, str]:
    if population.run.blind:
        return 0.0, "the model does not see the protected attribute."
    known = [v.switch_changes for v in population if v.switch_changes is not None]
    if not known or len(known) < len(population):
        raise Unmeasured(
            "the record does not say whose decisions a switch of the attribute changes; run the audit again."
        )
    return sum(known) / len(known), (
        f"switching the protected attribute alone changes {sum(known)} of {len(known)} decisions "
        f"({shown(sum(known) / len(known))})."
    )


MEASURES = {"max-solid": _solid, "max-close-calls": _close, "max-switch": _switch}


def _require_people(population: Population) -> None:
    if population.interrupted:
        raise Unmeasured("the audit was interrupted; run it again.")
    if not population.eligible:
        why = population.run.alike or population.audited
        raise Unmeasured(f"there is nothing to measure: {why}")


def share_in(text: str, option: str) -> float:
    """A share from '5%' or '0.05'."""
    percent = text.strip().endswith("%")
    try:
        share = float(text.strip().removesuffix("%")) / (100 if percent else 1)
    except ValueError:
        share = math.nan
    if not 0 <= share <= 1 or (not percent and share == 1):
        raise SettingError(f"{option} {text}: give a share from 0% to 100%, with the sign, such as 5%.")
    return share


def shown(share: float) -> str:
    """A share to a hundredth of a per cent, so that a failed limit does not look kept."""
    return f"{round(100 * share, 2):.10g} %"


def markdown(checks: list[Check]) -> str:
    """For a pull request: one row per limit."""
    failed = sum(not c.kept for c in checks)
    title = f"{failed} of {len(checks)} limits failed" if failed else f"All {len(checks)} limits kept"
    rows = [
        f"| {'kept' if c.kept else '**failed**'} | {c.name} {shown(c.limit)} | {_cell(c.sentence)} |" for c in checks
    ]
    return "\n".join([f"### butfor: {title}", "", "| | limit | measured |", "|---|---|---|", *rows, ""])


def _cell(text: str) -> str:
    """Text escaped for a cell of a Markdown table."""
    plain = text.replace("&", "&amp;").replace("<", "&lt;").replace("\\", "\\\\").replace("|", "\\|")
    return " ".join(plain.split())


def junit(checks: list[Check]) -> str:
    """JUnit's XML: one test case per limit."""
    failed = sum(not c.kept for c in checks)
    counts = {"tests": len(checks), "failures": failed, "errors": 0, "skipped": 0}
    suite = ElementTree.Element("testsuite", {"name": "butfor gate"} | {word: str(n) for word, n in counts.items()})
    for c in checks:
        case = ElementTree.SubElement(suite, "testcase", classname="butfor.gate", name=c.name)
        text = UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", c.sentence)
        if c.kept:
            ElementTree.SubElement(case, "system-out").text = text
        else:
            ElementTree.SubElement(case, "failure", message=text, type="limit").text = text
    ElementTree.indent(suite)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(suite, encoding="unicode") + "\n"


UNPRINTABLE = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 does not allow, even escaped."""

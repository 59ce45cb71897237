"""What an examiner asks of an audit: scope, selection rates and impact ratios, data governance, what was not examined.

Impact ratios are as New York's Local Law 144 has them: a group's selection rate divided by the highest one, by
attribute and for combinations of attributes. Unknown values are counted apart, and a group of less than 2 % of the
people sets no standard. Data governance follows the headings of Article 10 of the EU's AI Act.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from butfor.data.sensitive import Sensitive
from butfor.encode import MISSING
from butfor.report.text import plural, short, shown
from butfor.result.population import Population
from butfor.result.record import checksum, sides
from butfor.standard.groups import ASSUMPTION

FOUR_FIFTHS = 0.8
SMALL_SHARE = 0.02
"""Of all people: a smaller group sets no standard."""
FILL_IN = "…………………………"


@dataclass(frozen=True)
class Impact:
    """One group: how many people, the share decided favourably, and that divided by the highest group's."""

    attribute: str
    group: str
    people: int
    share: float
    rate: float
    ratio: float | None

    @property
    def remark(self) -> str:
        if self.group == MISSING:
            return "unknown"
        if self.share < SMALL_SHARE:
            return "under 2 % of the people"
        return "below four fifths" if self.ratio is not None and self.ratio < FOUR_FIFTHS else ""


def favourable_of(run: Mapping[str, Any]) -> str:
    """The decision that people would rather have; where none is named as adverse, the second of two labels, and of more
    nobody knows: then it is empty."""
    first, second = (" or ".join(side) for side in sides(run))
    return first if run.get("adverse") == second else second


def impacts(p: Population) -> list[Impact]:
    """By attribute and, where there are several, for their combinations, these last; none where nobody knows which
    decision people would rather have."""
    if not favourable_of(p.run):
        return []
    counts = _selected(p)
    name = str(p.run["sensitive"])
    attributes = name.split(" × ")
    found: list[Impact] = []
    if len(attributes) > 1:
        for place, attribute in enumerate(attributes):
            alone: dict[str, tuple[int, float]] = {}
            for group, (people, selected) in counts.items():
                part = group.split(Sensitive.JOINT)[place]
                before = alone.get(part, (0, 0.0))
                alone[part] = (before[0] + people, before[1] + selected)
            found += _ratios(attribute, alone)
    return found + _ratios(name, counts)


def _selected(p: Population) -> dict[str, tuple[int, float]]:
    """Per group, how many people there are and how many are decided favourably: of everybody whose label is known, else
    of those asked about."""
    favourable, told = favourable_of(p.run), p.run.get("performance")
    favoured = next((side for side in sides(p.run) if " or ".join(side) == favourable), [])
    if told:
        as_told = favourable == told["positive"]
        rates = [(str(g["group"]), g["people"], g["selection_rate"]) for g in told["by_group"] if g["people"]]
        return {group: (people, people * (rate if as_told else 1 - rate)) for group, people, rate in rates}
    return {
        str(group): (len(theirs), float(sum(v.prediction in favoured for v in theirs)))
        for group in p.groups
        if (theirs := [v for v in p if v.group == group])
    }


def _ratios(attribute: str, counts: Mapping[str, tuple[int, float]]) -> list[Impact]:
    everyone = sum(people for people, _ in counts.values())
    counted = {g: (people, selected / people) for g, (people, selected) in counts.items()}
    large = [rate for g, (people, rate) in counted.items() if people >= SMALL_SHARE * everyone and g != MISSING]
    highest = max(large, default=0.0)
    return [
        Impact(attribute, g, people, people / everyone, rate, rate / highest if highest and g != MISSING else None)
        for g, (people, rate) in counted.items()
    ]


def examiner(p: Population) -> dict[str, Any]:
    """What the page's part for examiners shows."""
    run, found = p.run, impacts(p)
    data = run["data"]
    return {
        "scope": _scope(p),
        "favourable": favourable_of(run),
        "impacts": [
            (
                short(each.attribute, 40),
                short(each.group, 60),
                each.people,
                f"{100 * each.share:.1f} %",
                f"{100 * each.rate:.1f} %",
                "–" if each.ratio is None else f"{each.ratio:.2f}",
                each.remark,
            )
            for each in found
        ],
        "unknown": sum(each.people for each in found if each.group == MISSING and each.attribute == run["sensitive"]),
        "governance": [
            (
                "Origin",
                shown(data.get("table") or "a table given in Python", 300),
                f"SHA-256 {data.get('sha256', 'not known')}",
            ),
            ("Labelling", FILL_IN, "who gave the labels, when, and by which instructions: no table tells"),
            ("Assumptions", ASSUMPTION, ""),
            ("Gaps and shortcomings", " ".join([*p.concerns, *map(str, run.get("remarks", []))]) or "none found", ""),
        ],
        "not_examined": _not_examined(p),
        "signature": [("Examined by", FILL_IN), ("Role", FILL_IN), ("Date", FILL_IN)],
        "versions": ", ".join(f"{name} {number}" for name, number in run.get("versions", {}).items()),
        "checksum": checksum(p.to_dict()),
    }


def _scope(p: Population) -> list[tuple[str, str, str]]:
    run, data = p.run, p.run["data"]
    split = f", {data['set_aside']} more set aside" if data.get("set_aside") else ""
    seeds = "no seed changes it" if run.get("seeded") is False else plural(run.get("members") or 1, "member")
    return [
        ("Data", shown(data.get("table") or "a table given in Python", 300), ""),
        ("Period", FILL_IN, "to be filled in: no table tells"),
        ("Training rows", f"{data['training_rows']}{split}", ""),
        ("Rows left out", _left_out(run), ""),
        ("People", f"{len(p)} asked about, {len(p.eligible)} of them eligible", f"rule φ: {run['phi']}"),
        ("Model", f"{run.get('learner_name', 'a model')} ({seeds})", ""),
        ("Protected attribute", shown(run["sensitive"], 200), "not seen by the model" if run.get("blind") else ""),
        ("Adverse decision", shown(run.get("adverse") or "none named", 100), ""),
    ]


def _left_out(run: Mapping[str, Any]) -> str:
    said = [remark for remark in run.get("remarks", []) if "left out" in remark]
    return " ".join(said) or "none"


def _not_examined(p: Population) -> list[str]:
    """Each a sentence."""
    run = p.run
    said = [
        "Whether the recorded labels of the test rows are right: error rates take them as they are.",
        f"Attributes other than {run['sensitive']}, and columns that stand in for it.",
        "How the model is used: thresholds, overrides, who is asked at all.",
    ]
    outside = len(p) - len(p.eligible)
    if outside:
        said.append(f"{plural(outside, 'person')} whom rule φ leaves out.")
    said += [str(sentence) for sentence in (run.get("standard") or {}).get("left_out", [])]
    if not run.get("standard"):
        said.append("Whether groups are held to one standard: no adverse label was named, or groups are too small.")
    return said

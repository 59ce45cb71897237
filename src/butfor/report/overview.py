"""What a report says of many people together, as plain values: pages and fragments only show it.

`population` is one dictionary with a name per section of the page; `templates/population.html` has a block for each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup, escape

from butfor.encode import MISSING
from butfor.report import charts
from butfor.report.groups import (
    close_calls,
    groups_of,
    impacts,
    rate,
    standards,
)
from butfor.report.summary import LONGEST, marked, method_facts, settle
from butfor.report.text import plural, short, shown, without_middle
from butfor.result.fresh import NOT_CHECKED, SEED_BOUND, UNDECIDED
from butfor.result.labels import TO_REVIEW, expectation, expected_wrong, worth_a_review
from butfor.result.population import Population
from butfor.result.record import checksum, percent
from butfor.result.verdict import Verdict
from butfor.result.words import CLOSE_CALL, REVIEW, SOLIDITY, STATUS
from butfor.result.worlds import OneStandard, PersonInWorlds

MOST_IN_WORLDS = 100
"""People that are listed by how likely their decision would change."""
MOST_KEYSTONES, MOST_KEYSTONE_COLUMNS, MOST_KEYSTONE_PEOPLE = 20, 6, 30
LISTED = 40
"""Characters of a value in the list of people."""
ABOUT = ("Decision", "Result", "Solidity", "Distance", "Flips", "{measure}", "After, or closest", "Attempts")

Addressed = Sequence[tuple[Verdict, str]]
"""People, each with the address of more about them."""
Behind = dict[int, list[tuple[str, str]]]
"""By position of a training row the people whose flip sets it is in: name and address."""


def population(p: Population, addressed: Addressed) -> dict[str, Any]:
    """Everything that a page says of many people together, by its sections."""
    run, behind = p.run, Behind()
    for v, address in addressed:
        name = str(v.case) if v.case is not None else f"row {shown(v.row, LONGEST)}"
        for position in v.positions:
            behind.setdefault(position, []).append((name, address))
    found = impacts(p) if p.verdicts else []
    drawing = charts.distance_curve(p) if p.eligible else None
    return overview(p) | {
        "numbers": _numbers(p),
        "steps": _steps(p),
        "standards": standards(run.standard) if run.standard else None,
        "one_standard": [_in_worlds(one, {v.case: address for v, address in addressed}) for one in p.one_standard],
        "groups": groups_of(p),
        "unchecked": "" if p.checked else _unchecked(p),
        "glossary": _glossary(p),
        "curve": drawing.svg() if drawing else "",
        "review": _to_review(p, behind),
        "keystones": _keystones(p, behind),
        "search": method_facts(run),
        "favourable": run.favourable,
        "impacts": [each.row for each in found],
        "unknown": sum(each.people for each in found if each.group == MISSING and each.attribute == run.sensitive),
        "checksum": checksum(p.to_dict()),
    }


def overview(p: Population) -> dict[str, Any]:
    """What a page and a notebook say alike: how decisions depend on the attribute itself, and counts by word."""
    close = close_calls(p)
    counts = [f"{SOLIDITY[word].sign} {count} {word}" for word, count in p.solidity.items() if count]
    counts += [f"{CLOSE_CALL.sign} {plural(close, 'close call')}, found or not"] if close else []
    return {
        "direct": "" if p.run.blind else short(p.direct, 600),
        "counts": ", ".join(counts) if p.found and p.run.seeded else "",
    }


def _numbers(p: Population) -> list[tuple[str, str]]:
    """The three numbers of the first screen."""
    asked, turned = len(p.eligible), len(p.solid if p.checked or p.solid else p.found)
    share = f" ({percent(turned / asked)})" if asked else ""
    below = max((c for c in p.standards if c.differs and c.missing), key=lambda c: c.difference, default=None)
    numbers = []
    if below:
        points = f"{100 * below.difference:.1f} points less"
        favourable = short(p.run.favourable, 40)
        numbers.append((f"How often {short(below.name, 40)} got '{favourable}', against comparable people", points))
    elif p.standards:
        numbers.append(("Groups labelled otherwise than comparable people", "none shown"))
    labels = plural(p.run.budget, "label")
    numbers.append((f"Decisions that at most {labels} change", f"{turned} of {asked}{share}"))
    close, likely = close_calls(p), expected_wrong(p.labels[:TO_REVIEW]) if p.labels and p.labels[0].wrong else []
    if close is not None and p.run.seeded:
        numbers.append(("Close calls: another seed may decide otherwise", f"{close} of {asked}"))
    if likely:
        numbers.append((f"Likely wrong among the first {len(likely)} labels to review", f"{likely[-1]:.0f}"))
    changed = [v.switch_changes for v in p if v.switch_changes is not None]
    if changed:
        name = short(p.run.sensitive, 30)
        numbers.append((f"Decisions that switching {name} changes", f"{sum(changed)} of {len(changed)}"))
    return numbers[:3]


def _unchecked(p: Population) -> str:
    left = p.solidity[NOT_CHECKED]
    how = "Nothing was" if left == len(p.found) else "Not everything was" if left else "Too little was"
    return f"{how} checked under fresh seeds"


# --- what it shows, and what to do ------------------------------------------------------------------


def _glossary(p: Population) -> list[tuple[str, str, str]]:
    """Each word over seeds, with how many have it, and what it means."""
    words = SOLIDITY | {"close call": CLOSE_CALL} if p.run.seeded else {}
    here = {word: f" ({count} here)" for word, count in p.solidity.items() if count}
    return [
        (f"{each.sign} {each.title}{here.get(word, '')}", f"{each.meaning[0].upper()}{each.meaning[1:]}.", "")
        for word, each in words.items()
    ]


def _steps(p: Population) -> list[Markup]:
    """What to do next, the first step first."""
    more = [v.fresh.would_do for v in p.found if v.fresh and v.solidity == UNDECIDED and v.fresh.would_do]
    steps = [REVIEW] if worth_a_review(p.labels) else []
    steps += [SOLIDITY[w].many for w in ("solid", NOT_CHECKED, "leaning", UNDECIDED, SEED_BOUND) if p.solidity[w]]
    steps += [CLOSE_CALL.many] if close_calls(p) else []
    if not p.eligible:
        steps.append("**Ask about other people**, or with another rule φ (`--phi`): nobody here was searched for.")
    steps += [
        STATUS["not_found"].many,
        "**Claim no difference between groups from these shares**: groups of other sizes and labels have other shares "
        "by construction. A difference is a reason to look at how the labels came about, not a proof of "
        "discrimination.",
    ]
    return [marked(step, settle=settle(max(more, default=None))) for step in steps]


# --- labels and people ------------------------------------------------------------------------------


def _in_worlds(one: OneStandard, addresses: Mapping[int | None, str]) -> dict[str, Any]:
    """Whose decisions one standard changes, the likeliest first, and how rates move over worlds."""

    def link(person: PersonInWorlds) -> Markup | str:
        return _links([(str(person.case), addresses[person.case])]) if person.case in addresses else str(person.case)

    shares = one.rates_in_worlds
    rows = [(shown(group, LONGEST), rate(one.rates[group]), *map(rate, shares[group])) for group in shares]
    if one.accuracy_in_worlds:
        rows.append(("Accuracy", rate(one.accuracy), *map(rate, one.accuracy_in_worlds)))
    first = one.gaining[:MOST_IN_WORLDS]
    return {
        "name": f"{one.attribute} = {short(one.group, LISTED)}",
        "sentence": one.sentence,
        "worlds": len(one.worlds),
        "details": one.details(),
        "people": [
            (link(person), shown(person.row, LONGEST), shown(person.group), one.count(person)) for person in first
        ],
        "more": len(one.gaining) - len(first),
        "rates": rows,
        "losing": Markup(", ").join(link(person) for person in one.losing),
    }


def _to_review(p: Population, behind: Behind) -> dict[str, Any] | None:
    """The labels to review first, what to expect of it, and the people behind each."""
    if not p.labels:
        return None
    return {
        "expectation": expectation(p.labels[:TO_REVIEW]),
        "chart": charts.yield_curve(p.labels[:TO_REVIEW]).svg(),
        "towards": " or ".join(p.run.adverse),
        "rows": [
            (
                shown(each.row, LONGEST),
                shown(each.group),
                each.label,
                f"{each.doubt:.2f}",
                "" if each.wrong is None else f"{each.wrong:.2f}",
                _links(behind.get(each.position, [])),
            )
            for each in p.labels[:MOST_KEYSTONES]
        ],
    }


def _keystones(p: Population, behind: Behind) -> dict[str, Any]:
    """The labels that flip sets consist of, with the people whose sets they are in."""
    flips = {flip.position: (v, flip) for v in p.found for flip in v.flip_set}
    counts = p.flip_counts.most_common(MOST_KEYSTONES)
    names = list(p.found[0].values) if p.found else []
    columns = sorted(names, key=lambda c: str(c) != p.run.sensitive)[:MOST_KEYSTONE_COLUMNS]
    rows = []
    for position, count in counts:
        v, flip = flips[position]
        change, doubt = f"{flip.label} → {v.label_after(flip.label)}", "" if flip.doubt is None else f"{flip.doubt:.2f}"
        cells = (shown(flip.values[c], LONGEST) for c in columns)
        rows.append((shown(flip.row, LONGEST), count, _links(behind[position]), change, doubt, *cells))
    heads = ["Training row", "People", "Who", "Label → flipped", "Doubt", *(shown(c, LONGEST) for c in columns)]
    return {"rows": rows, "heads": heads, "total": len(flips), "ranked": any(count > 1 for _, count in counts)}


def _links(people: Sequence[tuple[str, str]]) -> Markup:
    links = (Markup('<a href="{}">{}</a>').format(address, name) for name, address in people[:MOST_KEYSTONE_PEOPLE])
    more = len(people) - MOST_KEYSTONE_PEOPLE
    return Markup(", ").join(links) + (f" and {more} more" if more > 0 else "")


def roster(people: Addressed, sensitive: str) -> tuple[tuple[str, ...], Markup]:
    """The headings and the rows of the list of people, small enough for ten thousand of them: without the end tags that
    HTML lets one leave out."""
    rows = (f"<tr><th>{'<td>'.join(_cells(verdict, address))}" for verdict, address in people)
    measure = people[0][0].run.measure.capitalize() if people else "Score"
    heads = (name.format(measure=measure) for name in ABOUT)
    return ("Person", "Id", shown(sensitive, LISTED), *heads), Markup("\n".join(rows))


def _cells(v: Verdict, address: str) -> list[str]:
    """In the order of their weight. The style and the script know columns by their places."""
    words = [f"{SOLIDITY[v.solidity].sign} {v.solidity}"] if v.solidity else []
    words += [f"{CLOSE_CALL.sign} close call"] if v.close_call else []
    first, *others = (
        str(v.case) if v.case is not None else f"row {shown(v.row, LISTED)}",
        shown(v.row, LISTED),
        without_middle(v.group, LISTED),
        shown(v.prediction, LISTED),
        f"{STATUS[v.status].sign} {v.status.replace('_', ' ')}{'' if v.complete else ', ⚠ incomplete'}",
        ", ".join(words),
        str(v.distance or ""),
        str(v.at_most or ""),
        v.measured,
        v.measured_after,
        str(v.attempts or ""),
    )
    return [f'<a href="{escape(address)}">{escape(first)}</a>', *(str(escape(cell)) for cell in others)]

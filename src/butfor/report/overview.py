"""What a report says about many people together, as plain values for the templates.

`population` is a dictionary with a name per section of `templates/population.html`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from butfor.errors import plural
from butfor.report import charts
from butfor.report.groups import audited_table, close_calls, decisions_table, impacts, rate
from butfor.report.people import LISTED, MOST_IN_WORLDS, People, sides_of
from butfor.report.summary import LONGEST, marked, method_facts, settle
from butfor.report.text import short, shown
from butfor.result.fresh import NOT_CHECKED, SEED_BOUND, SOLID, UNDECIDED
from butfor.result.population import Population
from butfor.result.record import checksum
from butfor.result.reviewed import expectation, how_many_to_review, worth_a_review
from butfor.result.words import CLOSE_CALL, REVIEW, SOLIDITY, STATUS
from butfor.result.worlds import OneStandard
from butfor.words import points

MOST_KEYSTONES, MOST_KEYSTONE_COLUMNS, MOST_KEYSTONE_PEOPLE = 20, 6, 30
MOST_EXPLAINING = 3
"""The most columns that are named as explaining a gap."""

Behind = dict[int, list[tuple[str, str]]]
"""By position of a training row: name and address of the people whose flip sets include it."""


def population(p: Population, people: People) -> dict[str, Any]:
    """Everything that a page says about many people together, by section."""
    run, behind = p.run, Behind()
    for v in p.found:
        for position in v.positions:
            behind.setdefault(position, []).append(people.link(v))
    drawing = charts.distance_curve(p) if p.eligible else None
    steps = _steps(p)
    return overview(p) | {
        "questions": _questions(p, steps),
        "steps": steps,
        "people": _people_given(p),
        "one_standard": [_in_worlds(one, people) for one in p.one_standard],
        "decisions": decisions_table(p) if p.verdicts and run.favourable else None,
        "glossary": _glossary(p),
        "curve": drawing.svg() if drawing else "",
        "review": _to_review(p, behind),
        "keystones": _keystones(p, behind),
        "search": method_facts(run),
        "shortcomings": _shortcomings(p),
        "checksum": checksum(p.to_dict()),
    }


def overview(p: Population) -> dict[str, Any]:
    """What both a page and a notebook show: the people audited by group, and counts by word."""
    close = close_calls(p)
    counts = [f"{SOLIDITY[word].sign} {count} {word}" for word, count in p.solidity.items() if count]
    counts += [f"{CLOSE_CALL.sign} {plural(close, 'close call')}, found or not"] if close else []
    return {
        "direct": "" if p.run.blind else short(p.direct, 600),
        "counts": ", ".join(counts) if p.found and p.run.seeded else "",
        "audited": audited_table(p),
    }


# --- the first screen -------------------------------------------------------------------------------


def _questions(p: Population, steps: Sequence[Markup]) -> list[tuple[str, Any]]:
    """A head of compliance's questions, with answers."""
    name, data = short(p.run.sensitive, 40), p.run.data
    direct = short(p.direct, 600) or "How many decisions depend on it is not known."
    split = f"The gap is that of all {data.labelled} labelled rows: no split changes it. " if p.standards else ""
    if data.table and not data.test and data.split_seed is not None:
        another = f"`--set split-seed={data.split_seed + 1}` tries another"
        split += f"The decisions are those of split {data.split_seed}; {another}."
    else:
        split += "The decisions are those of the training and test rows that were given."
    return [
        (f"Is {name} an input of the model?", f"{'No' if p.run.blind else 'Yes'}. {direct}"),
        ("Which columns explain the gap?", _explaining(p)),
        ("Does another split agree?", marked(split)),
        ("Why these people, and not all?", _why(p)),
        ("What to do next?", steps[0] + Markup(' <a href="#next">All steps</a>')),
    ]


def _explaining(p: Population) -> str:
    """The columns that explain most of the largest gap."""
    groups = [c for c in p.standards if c.difference > 0]
    if not groups or p.run.standard is None:
        return "Not examined: that takes an adverse label and a group that falls short."
    c = max(groups, key=lambda c: (c.differs, c.difference))
    moves = [m for m in p.run.standard.moves if (m.attribute, m.group) == (c.attribute, c.group) and m.move > m.error]
    named = [
        f"{short(m.column, 40)} ({points(m.move)})"
        for m in sorted(moves, key=lambda m: -m.move)
        if " + " not in m.column
    ][:MOST_EXPLAINING]
    gap = f"raw gap of {points(c.raw_gap)} ({short(c.name, 40)})"
    if c.explained < 0:
        return f"None: given the recorded columns, the gap is {points(-c.explained)} wider than the {gap}."
    raw = f"The recorded columns explain {points(c.explained)} of the {gap}"
    return f"{raw}, above all {', '.join(named)}." if named else f"{raw}; no single column stands out."


def _people_given(p: Population) -> int:
    """The number of people, examined or not."""
    return p.run.decision.people if p.run.decision else len(p)


def _why(p: Population) -> Markup:
    """How many people were examined and audited, and why not the others."""
    given = f"of {_people_given(p)} " if _people_given(p) > len(p) else ""
    cases = " (`--cases` examines others)" if given and p.run.command else ""
    examined = plural(len(p), f"{given}test {'people' if given else 'person'} was", f"{given}test people were")
    return marked(f"{examined} examined{cases}. ") + short(p.audited, 600)


def _shortcomings(p: Population) -> list[str]:
    """Shortcomings of the data and the model, a sentence each."""
    below = [i for i in impacts(p) if i.below] if p.verdicts else []
    ratios = [f"Impact ratio of {i.attribute} = {i.group}: {i.ratio:.2f}, below four fifths." for i in below]
    gaps = [c.sentence(p.run.favourable) for c in p.standards if c.short]
    return [*ratios, *gaps, *(concern.sentence for concern in p.run.concerns), *p.run.remarks]


# --- what it shows, and what to do ------------------------------------------------------------------


def _glossary(p: Population) -> list[tuple[str, str, str]]:
    """Each word for solidity, how many finds have it, and its meaning."""
    words = SOLIDITY | {"close call": CLOSE_CALL} if p.run.seeded else {}
    here = {word: f" ({count} here)" for word, count in p.solidity.items() if count}
    return [
        (f"{each.sign} {each.title}{here.get(word, '')}", f"{each.meaning[0].upper()}{each.meaning[1:]}.", "")
        for word, each in words.items()
    ]


def _steps(p: Population) -> list[Markup]:
    """What to do next, in order."""
    more = [v.fresh.would_do for v in p.found if v.fresh and v.solidity == UNDECIDED and v.fresh.would_do]
    steps = [CLOSE_CALL.many] if close_calls(p) else []
    steps += [SOLIDITY[w].many for w in (SOLID, NOT_CHECKED, "leaning", UNDECIDED, SEED_BOUND) if p.solidity[w]]
    if worth_a_review(p.labels):
        steps.insert(0, REVIEW)
    if not p.eligible:
        steps.append("**Audit other people** (`--cases`), or choose them by another rule (`--phi`).")
    steps += [
        STATUS["not_found"].many,
        "**Claim no difference between groups from these shares**: groups of other sizes and labels have other shares "
        "by construction. A difference is a reason to look at how the labels came about, not a proof of "
        "discrimination.",
    ]
    return [marked(step, settle=settle(max(more, default=None))) for step in steps]


# --- labels -----------------------------------------------------------------------------------------


def _in_worlds(one: OneStandard, people: People) -> dict[str, Any]:
    """Whose decisions one standard changes, the most probable first, and how rates move."""
    rows = [
        (f"{one.attribute} = {shown(group, LONGEST)}", rate(one.rates[group]), *map(rate, shares))
        for group, shares in one.rates_in_worlds.items()
    ]
    if one.accuracy_in_worlds:
        rows.append(("Accuracy", rate(one.accuracy), *map(rate, one.accuracy_in_worlds)))
    first, changes = one.gaining[:MOST_IN_WORLDS], list[tuple[Any, ...]]()
    for person in (*first, *one.losing):
        now, other = (short(side, LISTED) for side in sides_of(person, people.run))
        who = _links([people.link(person)]), shown(person.row, LONGEST), shown(person.group)
        changes.append((*who, now, f"{other} in {one.count(person)}"))
    return {
        "name": f"{one.attribute} = {short(one.group, LISTED)}",
        "sentence": one.sentence,
        "worlds": len(one.worlds),
        "details": one.details(),
        "people": changes,
        "more": len(one.gaining) - len(first),
        "rates": rows,
    }


def _to_review(p: Population, behind: Behind) -> dict[str, Any] | None:
    """The labels to review first, what to expect, and the people behind each; None if there is little to find."""
    if not worth_a_review(p.labels):
        return None
    chosen = p.labels[: how_many_to_review(p.labels)]
    first = chosen[:MOST_KEYSTONES]
    known = [behind.get(each.position, []) for each in first]
    heads = ["Training row", "Group", "Label", "Doubt"]
    columns = [
        [shown(each.row, LONGEST) for each in first],
        [f"{p.run.sensitive} = {shown(each.group)}" for each in first],
        [each.label for each in first],
        [f"{each.doubt:.2f}" for each in first],
    ]
    if first[0].wrong is not None:
        heads.append("Probably wrong")
        columns.append([f"{each.wrong or 0:.2f}" for each in first])
    if any(known):
        heads.append("In the flip sets of")
        columns.append([_links(each) for each in known])
    return {
        "expectation": expectation(chosen),
        "chart": charts.yield_curve(chosen).svg(),
        "towards": " or ".join(p.run.adverse),
        "may_be_chance": p.run.standard.may_be_chance if p.run.standard else "",
        "heads": heads,
        "rows": list(zip(*columns, strict=True)),
    }


def _keystones(p: Population, behind: Behind) -> dict[str, Any]:
    """The flipped labels, with the people whose flip sets include them."""
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

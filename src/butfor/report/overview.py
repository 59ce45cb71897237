"""What a report says of many people together, as plain values: pages and fragments only show it.

`population` is one dictionary with a name per section of the page; `templates/population.html` has a block for each.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from typing import Any

from markupsafe import Markup, escape

from butfor.report import charts
from butfor.report.groups import audited_table, close_calls, decisions_table, impacts, rate, standards
from butfor.report.summary import LONGEST, marked, method_facts, settle
from butfor.report.text import plural, short, shown, without_middle
from butfor.result.fresh import NOT_CHECKED, SEED_BOUND, SOLID, UNDECIDED
from butfor.result.labels import expectation, how_many_to_review, worth_a_review
from butfor.result.population import Population
from butfor.result.record import checksum
from butfor.result.run import Run
from butfor.result.verdict import Verdict
from butfor.result.words import CLOSE_CALL, REVIEW, SOLIDITY, STATUS
from butfor.result.worlds import OneStandard, PersonInWorlds
from butfor.standard.group import GroupStandard, if_real
from butfor.standard.sentences import points

MOST_IN_WORLDS = 100
"""People that are listed by how likely their decision would change."""
MOST_KEYSTONES, MOST_KEYSTONE_COLUMNS, MOST_KEYSTONE_PEOPLE = 20, 6, 30
MOST_EXPLAINING = 3
"""Columns that are named as explaining a gap."""
LISTED = 40
"""Characters of a value in the list of people."""
REASONS = {
    "favourable": "They got the favourable decision.",
    "switched": "The decision changes when the protected attribute alone is switched: the model uses it directly.",
    "rule": "The rule φ leaves them out.",
}
"""Why people were not audited."""
NOT_AUDITED = 5
"""The weight of people who were neither audited nor named by one standard."""

InWorlds = list[tuple[OneStandard, PersonInWorlds]]
"""One person in the worlds of each group that falls short."""
Behind = dict[int, list[tuple[str, str]]]
"""By position of a training row the people whose flip sets it is in: name and address."""


class People:
    """Everybody a page names: the verdicts with their addresses, and whom one standard names besides."""

    def __init__(self, p: Population, addresses: Sequence[str]) -> None:
        self.p, self.run = p, p.run
        self.addresses = dict(zip(map(id, p.verdicts), addresses, strict=True))
        self.places = {v.case: address for v, address in zip(p.verdicts, addresses, strict=True)}

    def addresses_of(self, v: Verdict) -> str:
        """The id of the person's entry."""
        return self.addresses[id(v)].removeprefix("#")

    def name(self, one: Verdict | PersonInWorlds) -> str:
        """By the user's own id, where the table has one."""
        if one.case is None or self.run.data.identifier:
            return shown(one.row, LONGEST)
        return str(one.case)

    def link(self, one: Verdict | PersonInWorlds) -> tuple[str, str]:
        """The name, and where more is said."""
        return self.name(one), self.places.get(one.case, f"#case-{one.case}")

    @cached_property
    def in_worlds(self) -> dict[int | None, InWorlds]:
        """By case, whoever's decision changes in some worlds and who is named on the page."""
        found: dict[int | None, InWorlds] = {}
        for one in self.p.one_standard:
            for person in (*one.gaining[:MOST_IN_WORLDS], *one.losing):
                found.setdefault(person.case, []).append((one, person))
        return found

    @property
    def named(self) -> list[InWorlds]:
        """Whom one standard names although they were not examined."""
        return [worlds for case, worlds in self.in_worlds.items() if case not in self.places]

    def weight(self, v: Verdict) -> tuple[int, int]:
        """Who matters comes first: the decision changes in most worlds, solid, found, in some worlds, audited."""
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
        """Whoever was neither audited nor named by one standard, by reason."""
        found: dict[str, list[Verdict]] = {}
        for v in self.p.verdicts:
            if self.weight(v)[0] == NOT_AUDITED:
                found.setdefault(reason(v), []).append(v)
        return found


def sides_of(person: PersonInWorlds, run: Run) -> tuple[str, str]:
    """The decision now, and the other one."""
    adverse, favourable = " or ".join(run.adverse) or "adverse", run.favourable or "favourable"
    return (adverse, favourable) if person.refused else (favourable, adverse)


def reason(v: Verdict) -> str:
    """Why a person was not audited, by its name in `REASONS`."""
    if v.left_out_by == "switch":
        return "switched"
    known = v.run.adverse or v.prediction == v.run.towards
    return "favourable" if v.left_out_by == "decision" and known and v.prediction not in v.run.adverse else "rule"


def population(p: Population, people: People) -> dict[str, Any]:
    """Everything that a page says of many people together, by its sections."""
    run, behind = p.run, Behind()
    for v in p.found:
        for position in v.positions:
            behind.setdefault(position, []).append(people.link(v))
    drawing = charts.distance_curve(p) if p.eligible else None
    steps = _steps(p)
    return overview(p) | {
        "questions": _questions(p, people, steps),
        "steps": steps,
        "people": _people_given(p),
        "standards": standards(run.standard) if run.standard else None,
        "one_standard": [_in_worlds(one, people) for one in p.one_standard],
        "decisions": decisions_table(p) if p.verdicts and run.favourable else None,
        "unchecked": "" if p.checked else _unchecked(p),
        "glossary": _glossary(p),
        "curve": drawing.svg() if drawing else "",
        "review": _to_review(p, behind),
        "keystones": _keystones(p, behind),
        "search": method_facts(run),
        "shortcomings": _shortcomings(p),
        "checksum": checksum(p.to_dict()),
    }


def overview(p: Population) -> dict[str, Any]:
    """What a page and a notebook say alike: the people audited by group, and counts by word."""
    close = close_calls(p)
    counts = [f"{SOLIDITY[word].sign} {count} {word}" for word, count in p.solidity.items() if count]
    counts += [f"{CLOSE_CALL.sign} {plural(close, 'close call')}, found or not"] if close else []
    return {
        "direct": "" if p.run.blind else short(p.direct, 600),
        "counts": ", ".join(counts) if p.found and p.run.seeded else "",
        "audited": audited_table(p),
    }


# --- the first screen -------------------------------------------------------------------------------


def _questions(p: Population, people: People, steps: Sequence[Markup]) -> list[tuple[str, Any]]:
    """What a head of compliance asks, each with its answer."""
    name, data = short(p.run.sensitive, 40), p.run.data
    direct = short(p.direct, 600) or "How many decisions a switch of it changes was not asked."
    split = f"The gap is that of all {data.labelled} labelled rows: no split changes it. " if p.standards else ""
    if data.table and not data.test and data.split_seed is not None:
        split += (
            f"The decisions are those of split {data.split_seed}; `--split-seed {data.split_seed + 1}` tries another."
        )
    else:
        split += "The decisions are those of the training and test rows that were given."
    return [
        (f"Is {name} an input of the model?", f"{'No' if p.run.blind else 'Yes'}. {direct}"),
        ("Which columns explain the gap?", _explaining(p)),
        ("Does another split agree?", marked(split)),
        ("Why these people, and not all?", _why(p, people)),
        ("What to do next?", steps[0] + Markup(' <a href="#next">All steps</a>')),
    ]


def _explaining(p: Population) -> str:
    """The columns that explain most of the largest gap."""
    groups = [c for c in p.standards if c.difference > 0]
    if not groups or p.run.standard is None:
        return (
            "Not examined: that takes an adverse label and a group that falls short."
            if not p.standards
            else ("No group falls short, so there is no gap to explain.")
        )
    c = max(groups, key=lambda c: (c.differs, c.difference))
    moves = [m for m in p.run.standard.moves if (m.attribute, m.group) == (c.attribute, c.group) and m.move > m.error]
    named = [
        f"{short(m.column, 40)} ({points(m.move)})"
        for m in sorted(moves, key=lambda m: -m.move)
        if " + " not in m.column
    ][:MOST_EXPLAINING]
    gap = f"raw gap of {points(c.raw_gap)} ({short(c.name, 40)})"
    raw = f"The recorded columns explain {points(c.explained)} of the {gap}"
    return f"{raw}, above all {', '.join(named)}." if named else f"{raw}; no single column stands out."


def _people_given(p: Population) -> int:
    """How many people there are, examined or not."""
    return p.run.acceptance.people if p.run.acceptance else len(p)


def _why(p: Population, people: People) -> str:
    """How many were examined and audited, and why not the others."""
    given = f" of {_people_given(p)}" if _people_given(p) > len(p) else ""
    cases = " (`--cases` examines others)" if given and p.run.command else ""
    counts = Counter(reason(v) for v in p if not v.eligible)
    favourable, name = short(p.run.favourable or "another label", 40), short(p.run.sensitive, 40)
    said = {
        "favourable": f"got '{favourable}'",
        "switched": f"change{'s' * (counts['switched'] == 1)} when {name} alone is switched",
        "rule": f"{'is' if counts['rule'] == 1 else 'are'} left out by the rule φ",
    }
    others = [f"{counts[why]} {words}" for why, words in said.items() if counts[why]]
    rest = f"; {', '.join(others)}" if others else ""
    return marked(f"{len(p)}{given} test people were examined{cases}. {len(p.eligible)} were audited{rest}.")


def _shortcomings(p: Population) -> list[str]:
    """What speaks against the data or the model, a sentence each."""
    below = [i for i in impacts(p) if i.below] if p.verdicts else []
    ratios = [f"Impact ratio of {i.attribute} = {i.group}: {i.ratio:.2f}, below four fifths." for i in below]
    gaps = [c.sentence(p.run.favourable) for c in _short(p)]
    return [*ratios, *gaps, *p.concerns, *p.run.remarks]


def _short(p: Population) -> list[GroupStandard]:
    """Groups that fall short by more than chance."""
    return [c for c in p.standards if c.differs and c.missing]


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
    """Whose decisions one standard changes, the likeliest first, and how rates move over worlds."""
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
    """The labels to review first, what to expect of it, and the people behind each; None where little is to find."""
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
        "if_real": if_real(p.standards),
        "heads": heads,
        "rows": list(zip(*columns, strict=True)),
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


# --- the list of people -----------------------------------------------------------------------------


def roster(people: People) -> dict[str, Any]:
    """The list of people, whoever matters first: `heads` (a name, and how the script filters by it), `rows`, and how
    many of them are listed at `first`. Small enough for ten thousand: without the end tags that HTML can do without."""
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
    """What the list says of somebody, escaped."""
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
        v.measured,
        v.measured_after or ("" if v.found else v.closest),
    )


def _named(worlds: InWorlds, people: People) -> list[str]:
    """What it says of somebody whom one standard names although they were not examined."""
    person = worlds[0][1]
    decision, _ = sides_of(person, people.run)
    about = shown(person.row, LISTED), without_middle(person.group, LISTED), shown(decision, LISTED)
    return _escaped(*people.link(person), *about, "– not examined", "", _worlds_in_words(worlds), "", "", "")


def _worlds_in_words(worlds: InWorlds) -> str:
    return ", ".join(one.count(person) for one, person in worlds)


def _escaped(name: str, address: str, *others: str) -> list[str]:
    return [f'<a href="{escape(address)}">{escape(name)}</a>', *(str(escape(cell)) for cell in others)]

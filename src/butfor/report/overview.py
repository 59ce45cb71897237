"""What a report says of many people together, as plain values: pages and fragments only show it.

`population` is one dictionary with a name per section of the page; `templates/population.html` has a block for each.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from butfor.report import charts
from butfor.report.examiner import examiner, favourable_of, impacts
from butfor.report.standards import one_standard, standards, yield_curve
from butfor.report.summary import LONGEST, asides, audited, marked, method_facts, settle
from butfor.report.text import plural, short, shown
from butfor.result.fresh import LEAST, NOT_CHECKED, SEED_BOUND, UNDECIDED
from butfor.result.labels import TO_REVIEW, expectation, expected_wrong
from butfor.result.population import Population
from butfor.result.record import AFTER, BEFORE, percent
from butfor.result.verdict import Verdict
from butfor.result.words import CLOSE_CALL, LACKS, RETRAINED, REVIEW, SOLIDITY, STATUS, UNSEEDED
from butfor.standard.groups import GroupStandard

MOST_KEYSTONES, MOST_KEYSTONE_COLUMNS, MOST_KEYSTONE_PEOPLE = 20, 6, 30


def population(p: Population, addressed: Sequence[tuple[Verdict, str]]) -> dict[str, Any]:
    """Everything that a page says of many people together, by its sections; everybody comes with the address of more
    about them."""
    run, steps, groups = p.run, _steps(p), groups_of(p)
    budget = f"at most {plural(run['budget'], 'label')} flipped together"
    told = standards(run["standard"]) if run.get("standard") else None
    return {
        "answer": overview(p)
        | {
            "headline": p.standards_answer if told else p.sentence,
            "warnings": _warnings(p),
            "asides": asides(run, sensitive_of(p)),
            "numbers": _numbers(p),
            "next": steps[0],
            "gap": p.closed_gap.sentence if p.closed_gap else "",
        },
        "standards": told,
        "one": one_standard(p, addressed),
        "groups": groups | {"few": p.warnings} if groups["rows"] else None,
        "difference": _difference(p),
        "ridge": ridge_sentence(run["ridge"]) if run.get("ridge") else "",
        "chance": {"said": _chance(p), "glossary": _glossary(p)},
        "budget": _budget(p),
        "review": to_review(p, addressed),
        "keystones": keystones(p, addressed),
        "meaning": {"shows": _shows(p), "lacks": _lacks(p)},
        "next": {"steps": steps},
        "search": [("Budget", budget, ""), *method_facts(run)],
        "examiner": examiner(p) if p.verdicts else None,
    }


def overview(p: Population) -> dict[str, Any]:
    """What a page and a notebook say alike: the sentence, and counts by word."""
    close = close_calls(p)
    counts = [f"{SOLIDITY[word].sign} {count} {word}" for word, count in p.solidity.items() if count]
    counts += [f"{CLOSE_CALL.sign} {plural(close, 'close call')}, found or not"] if close else []
    return {
        "sentence": p.sentence,
        "direct": "" if p.run.get("blind") else short(p.direct, 600),
        "standing": ", ".join(counts) if p.found and p.run.get("seeded") is not False else "",
    }


def sensitive_of(p: Population) -> str:
    return p.verdicts[0].sensitive if p.verdicts else "group"


def close_calls(p: Population) -> int | None:
    """How many close calls there are, found or not; None where that is not known."""
    known = [v for v in p.eligible if v.base is not None]
    return sum(bool(v.close_call) for v in known) if known else None


def _warnings(p: Population) -> list[tuple[str, str]]:
    left = sum(not v.complete for v in p)
    if not p.interrupted and not left:
        return []
    why = ": the time allowed was up" if p.run.get("out_of_time") else ""
    why = why or (": the retrainings allowed were spent" if p.run.get("max_retrainings") else "")
    return [
        (
            "Interrupted." if p.interrupted else "Incomplete.",
            f"The searches of {left} of {plural(len(p), 'person')} were stopped before they were through{why}. "
            "Intervals of shares reach as far up as if everybody without a find whose search was stopped were found.",
        )
    ]


def _numbers(p: Population) -> list[tuple[str, Any]]:
    """The three numbers of the first screen."""
    asked, checked = len(p.eligible), p.checked or bool(p.solid)
    turned = len(p.solid) if checked else len(p.found)
    share = f" ({percent(turned / asked)})" if asked else ""
    numbers: list[tuple[str, Any]] = []
    short_of = [c for c in p.standards if c.differs and c.missing]
    if short_of:
        worst = max(short_of, key=lambda c: c.difference)
        numbers.append(
            (f"{short(worst.name, 40)}: short of the others' standard", f"{100 * worst.difference:.1f} points")
        )
    elif p.standards:
        numbers.append(("Groups short of the others' standard", "none"))
    labels = plural(p.run["budget"], "label")
    numbers.append((f"Decisions that at most {labels} change", f"{turned} of {asked}{share}"))
    close, likely = close_calls(p), expected_wrong(p.labels[:TO_REVIEW]) if p.labels and p.labels[0].wrong else []
    if close is not None and p.run.get("seeded") is not False:
        numbers.append(("Close calls: another seed may decide otherwise", f"{close} of {asked}"))
    if likely:
        numbers.append((f"Likely wrong among the first {len(likely)} labels to review", f"{likely[-1]:.0f}"))
    changed = [v.switch_changes for v in p if v.switch_changes is not None]
    if changed:
        numbers.append(
            (f"Decisions that switching {short(sensitive_of(p), 30)} changes", f"{sum(changed)} of {len(changed)}")
        )
    return numbers[:3]


def _unchecked(p: Population) -> str:
    left = p.solidity[NOT_CHECKED]
    how = "Nothing was" if left == len(p.found) else "Not everything was" if left else "Too little was"
    return f"{how} checked under fresh seeds"


def groups_of(p: Population) -> dict[str, Any]:
    """One table of the groups: headings, rows, and what the columns mean."""
    share, low, high = ("share_solid", "solid_low", "solid_high") if p.checked else ("share", "low", "high")
    close, switched = close_calls(p) is not None, any(v.switch_changes is not None for v in p)
    rates = {i.group: i for i in impacts(p) if i.attribute == p.run["sensitive"]} if p.verdicts else {}
    wrong = {str(g["group"]): g["error_rate"] for g in (p.run.get("performance") or {}).get("by_group", [])}
    below = {c.group: c for c in p.standards if c.attribute == p.run["sensitive"]}
    favourable = favourable_of(p.run)
    heads = [sensitive_of(p), "People", *(["Decided wrongly"] if wrong else [])]
    heads[2:2] = [f"Decided '{short(favourable, 40)}'", "Impact ratio"] if favourable else []
    heads += ["Short of the others' standard"] if below else []
    heads += ["Eligible", "Few labels change the decision", "95 % interval", *(["Close calls"] if close else [])]
    heads += ["Changed by a switch"] if switched else []
    rows = []
    for group, g in p.by_group.iterrows():
        name, known = str(group), bool(g["eligible"])
        impact, standard = rates.get(name), below.get(name)
        ratio = "–" if impact is None or impact.ratio is None else f"{impact.ratio:.2f}{' ⚠' * (impact.remark != '')}"
        cells: list[Any] = [int(g["people"])]
        cells += ["–" if impact is None else f"{100 * impact.rate:.1f} %", ratio] if favourable else []
        cells += [f"{100 * wrong[name]:.1f} %" if wrong.get(name) is not None else "–"] if wrong else []
        cells += [_standing(standard)] if below else []
        found = int(g["solid"] if p.checked else g["found"])
        cells += [int(g["eligible"]), f"{found} ({100 * g[share]:.1f} %)" if known else "–"]
        cells += [f"{100 * g[low]:.1f} – {100 * g[high]:.1f} %" if known else "–"]
        cells += [f"{g['close_calls']:.0f}" if g["close_calls"] == g["close_calls"] else "–"] if close else []
        rows.append((shown(group, LONGEST), [*cells, *([int(g["switch_changes"])] if switched else [])]))
    return {"heads": heads, "rows": rows, "notes": _group_notes(p)}


def _standing(c: GroupStandard | None) -> str:
    if c is None:
        return "–"
    points = f"{100 * c.difference:+.1f} points".replace("-", "−")
    return points if c.p is None else f"{points} (p = {c.p:.2f})"


def _group_notes(p: Population) -> list[Markup]:
    always = "whatever the seed" if p.run.get("seeded") is not False else "always"
    counted = f"Counted are sets that turn the decision {always}." if p.checked else f"**{_unchecked(p)}**: these "
    counted += "" if p.checked else "shares count finds that may hang on the seed."
    known = p.performance
    rates = (
        f"Rates are of all {known.people} people whose label is known, other columns of the {len(p)} asked about."
        if known
        else f"All columns are of the {len(p)} people asked about."
    )
    return [
        marked(
            f"**Few labels change the decision**: eligible people for whom changing at most {p.run['budget']} labels "
            f"does. {counted} The interval says how far the share could be off with this many people."
        ),
        marked(
            f"**Impact ratio**: the rate of favourable decisions divided by the highest group's; ⚠ below four fifths, "
            f"or too few people. {rates}"
        ),
    ]


def _difference(p: Population) -> dict[str, str]:
    """How the two groups furthest apart compare, and what shuffling the attribute gave."""
    if p.comparison is None:
        return {"sentence": "", "said": p.uncompared}
    shuffles = p.comparison.shuffles
    if shuffles is None:
        return {"sentence": p.comparison.sentence, "said": ""}
    gaps = ", ".join(f"{100 * gap:.1f}" for gap in sorted(shuffles.shuffled))
    return {
        "sentence": p.comparison.sentence,
        "said": f"The protected attribute was shuffled {plural(len(shuffles.shuffled), 'time')}, and the audit done "
        f"again each time. Gap as it is: {100 * shuffles.gap:.1f} points. Gaps when shuffled, in points: {gaps}.",
    }


def _chance(p: Population) -> Markup:
    seeds, left = p.run.get("fresh_seeds") or 0, p.solidity[NOT_CHECKED]
    if p.run.get("seeded") is False:
        return marked(f"**{UNSEEDED}.**")
    if not p.found:
        return marked("Nothing was found, so there was nothing to put to fresh seeds.")
    if not seeds:
        return marked(f"Not known: **no finding was put to fresh seeds**. {SOLIDITY[NOT_CHECKED].many}")
    few = f" **With fewer than {LEAST} seeds no finding can be called solid.**" if seeds < LEAST else ""
    return marked(
        f"Training draws random numbers that a *seed* fixes. {'Not every' if left else 'Every'} finding was put to "
        f"{plural(seeds, 'fresh seed')}, which had no part in the search: how many single models decide otherwise with "
        f"the flips, and how many without any?{few}"
    )


def _glossary(p: Population) -> list[tuple[str, str, int, str]]:
    """Each word over seeds: its sign, title, how many have it, and what it means."""
    if p.run.get("seeded") is False:
        return []
    return [
        (words.sign, words.title, p.solidity.get(word, 0), f"{words.meaning[0].upper()}{words.meaning[1:]}.")
        for word, words in [*SOLIDITY.items(), ("close call", CLOSE_CALL)]
    ]


def _budget(p: Population) -> dict[str, Any]:
    """The chart of how many labels it takes, and what it shows in words."""
    drawing = charts.distance_curve(p) if p.eligible else None
    if drawing is None:
        found = f"labels were found for {len(p.found)} of {plural(len(p.eligible), 'eligible person')}"
        return {"svg": "", "said": f"No curve to draw: {found}, with a budget of {plural(p.run['budget'], 'label')}."}
    counted = "the solid sets" if p.checked else "all sets (" + _unchecked(p).lower() + ")"
    exact = all(v.exact for v in p.found)
    least = "that none is smaller is proven" if exact else "smaller ones may exist"
    ends = charts.turned_by(p)
    ends = ends[ends["labels"] == ends["labels"].max()]
    shares = [f"{shown(g, LONGEST)} {100 * s:.0f} %" for g, s in zip(ends["group"], ends["share"], strict=True)]
    return {
        "svg": drawing.svg(f"Share of decisions turned by up to {ends['labels'].max()} labels: {'; '.join(shares)}"),
        "said": "The share of eligible people whose decision so many labels turn. Counted are "
        f"{counted} that were found; {least}. {p.proven}",
        "caption": f"The lines: everyone and the largest groups, up to {charts.MOST_CURVES}; the band is everyone's "
        "interval.",
    }


def _shows(p: Population) -> Markup:
    if not p.eligible:
        return marked("Nobody asked about is eligible, so nobody was searched for: it shows nothing about anybody.")
    if not p.found:
        proven = all(v.status == "proven_none" for v in p.eligible)
        return marked(STATUS["proven_none" if proven else "not_found"].shows)
    if p.run.get("seeded") is False:
        return marked(f"that the decisions about the people found hinge on the labels named. {RETRAINED}")
    solid = f"about the {len(p.solid)} called solid, that the decision hinges on the labels named whatever the seed; "
    model = audited(p.run) or "the audited model"
    return marked(
        f"{solid if p.solid else ''}about everybody found, that with the labels flipped {model} gives the other "
        f"decision. {RETRAINED}"
    )


def _lacks(p: Population) -> list[Markup]:
    if not p.eligible:
        return []
    lacks = [each.replace("this person or their", "a person or their") for each in LACKS] if p.found else []
    if any(v.status == "not_found" for v in p):
        lacks.append(f"about people for whom nothing was found: {STATUS['not_found'].lacks[0]}")
    return [marked(each) for each in lacks or STATUS["proven_none"].lacks]


def _steps(p: Population) -> list[Markup]:
    """What to do next, the first step first."""
    more = [v.fresh.would_do for v in p.found if v.fresh and v.solidity == UNDECIDED and v.fresh.would_do]
    given = {"sensitive": sensitive_of(p), "settle": settle(max(more, default=None))}
    steps = [REVIEW] if p.labels else []
    steps += [SOLIDITY[w].many for w in ("solid", NOT_CHECKED, "leaning", UNDECIDED, SEED_BOUND) if p.solidity[w]]
    steps += [CLOSE_CALL.many] if close_calls(p) else []
    if not p.eligible:
        steps.append("**Ask about other people**, or with another rule φ (`--phi`): nobody here was searched for.")
    shuffled = p.comparison is not None and p.comparison.shuffles is not None
    bound = "beyond what the shuffled audits bear out" if shuffled else "before the audit was done with it shuffled"
    steps += [
        STATUS["not_found"].many,
        f"**Claim no difference between groups** {bound}{'' if shuffled else ' (`--shuffles 19`)'}. A difference is a "
        "reason to look at how the labels came about, not a proof of discrimination.",
    ]
    return [marked(step, **given) for step in steps]


def to_review(p: Population, addressed: Sequence[tuple[Verdict, str]]) -> dict[str, Any] | None:
    """The labels whose review is worth most, what to expect of it, and the people behind each."""
    if not p.labels:
        return None
    behind: dict[int, list[tuple[str, str]]] = {}
    for verdict, address in addressed:
        for position in verdict.positions:
            behind.setdefault(position, []).append((f"{verdict.case}", address))
    return {
        "expectation": expectation(p.labels[:TO_REVIEW]),
        "chart": yield_curve(p.labels[:TO_REVIEW]).svg("Labels likely to be wrong against labels reviewed"),
        "towards": p.run.get("adverse"),
        "rows": [
            (
                shown(label.row, LONGEST),
                shown(label.group),
                label.label,
                f"{label.doubt:.2f}",
                f"{label.value:.2g}",
                behind.get(label.position, [])[:MOST_KEYSTONE_PEOPLE],
            )
            for label in p.labels[:MOST_KEYSTONES]
        ],
    }


def keystones(people: Population, addressed: Sequence[tuple[Verdict, str]]) -> dict[str, Any]:
    """The labels that flip sets consist of, with the people whose sets they are in."""
    frame = people.keystones
    who: dict[Any, list[tuple[str, str]]] = {}
    for verdict, address in addressed:
        name = str(verdict.case) if verdict.case is not None else f"row {shown(verdict.row, LONGEST)}"
        for flip in verdict.flip_set:
            who.setdefault(flip.row, []).append((name, address))
    columns = [c for c in frame.columns if c not in ("people", "cases", BEFORE, AFTER)]
    columns = sorted(columns, key=lambda c: str(c) != sensitive_of(people))[:MOST_KEYSTONE_COLUMNS]
    rows = [
        {
            "row": shown(row, LONGEST),
            "people": values["people"],
            "who": who[row][:MOST_KEYSTONE_PEOPLE],
            "more": max(0, len(who[row]) - MOST_KEYSTONE_PEOPLE),
            "cells": [f"{values[BEFORE]} → {values[AFTER]}", *(shown(values[c], LONGEST) for c in columns)],
        }
        for row, values in frame.head(MOST_KEYSTONES).iterrows()
    ]
    ranked = bool((frame["people"] > 1).any())
    heads = ["Label → flipped", *(shown(c, LONGEST) for c in columns)]
    return {"rows": rows, "heads": heads, "total": len(frame), "ranked": ranked}


def ridge_sentence(ridge: dict[str, Any]) -> str:
    """Today's model beside ridge, in one or two sentences."""
    everyone, right = ridge["groups"][0], ridge["right"]
    said = (
        f"A provably steady model, {ridge['model']}, decides otherwise about {everyone['changed']} of "
        f"{everyone['people']} people; {everyone['stand_against_one']} of its decisions are proven to stand against "
        f"any one label, {everyone['stand_against_budget']} against {ridge['budget']}."
    )
    if not right:
        return said
    today, beside, majority = (right[name] for name in ("today", "ridge", "majority"))
    said += f" It is right about {100 * beside['accuracy']:.1f} % of them, the audited model about "
    said += f"{100 * today['accuracy']:.1f} %"
    if beside["balanced"] is not None:
        said += f" (both classes counted alike: {100 * beside['balanced']:.1f} and {100 * today['balanced']:.1f} %)"
    said += "."
    if (beside["balanced"] or beside["accuracy"]) <= (majority["balanced"] or majority["accuracy"]):
        said += " That is no better than always saying the larger class: what it certifies is empty."
    return said

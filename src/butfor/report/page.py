"""The report pages: verdicts into templates. All text from tables passes through autoescaping."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from typing import Any
from urllib.parse import quote

from jinja2 import Environment
from markupsafe import Markup

from butfor.report import belief, charts, distance, roster, words
from butfor.report.document import environment
from butfor.report.flat import flat, replay_commands
from butfor.report.parallel import axes_words
from butfor.report.parallel_svg import parallel_svg
from butfor.report.svg import inline_svg
from butfor.report.values import comparison, pulled, short, shown
from butfor.result.fresh import LEAST, SOLID, USUAL
from butfor.result.population import Population
from butfor.result.record import AFTER, BEFORE, signed
from butfor.result.verdict import Verdict

ROOM = 850_000
"""Bytes for the person sections of a page about 200 people, so that the whole stays below 1 MB."""
MOST_KEYSTONES, MOST_KEYSTONE_COLUMNS, MOST_KEYSTONE_PEOPLE = 20, 6, 30
LEVELS: dict[str, dict[str, int]] = {
    "bare": {"flips": 0, "lines": 0},
    "short": {"flips": 3, "lines": 8},
    "table": {},
    "chart": {},
}
"""Detail of a person's section among many, least first: how much of the comparison it shows."""
LONGEST = 60
"""Characters of a value on a page with many people."""
LONG_LIST = 300
"""People of a list from which on it is laid out only as far as somebody looks."""


def person_page(verdict: Verdict) -> str:
    """The report about one person, a whole HTML document."""
    drawn = {
        "parallel": _parallel(verdict) if verdict.found else "",
        "course": "",
        "pulls": "",
        "line": _svg(charts.logit_line(verdict), _logit_words(verdict), "logit"),
    }
    if verdict.course:
        drawn["course"] = _svg(charts.search_course(verdict), "Logit after each attempt", "course")
    if verdict.pulls is not None:
        told = "; ".join(f"{bar.name} {signed(bar.pull)}" for bar in pulled(verdict))
        drawn["pulls"] = _svg(charts.pulls(verdict), f"What pulls this decision which way: {told}", "pulls")
    return _person(verdict, drawn)


def person_file(verdict: Verdict, index: str) -> str:
    """One person's file among many, with a link back to `index`: the same page with the pictures that are quickly
    drawn."""
    drawn = dict.fromkeys(("parallel", "course", "pulls", "line"), Markup(""))
    if verdict.found:
        drawn["parallel"] = _parallel(verdict)
    return _person(verdict, drawn, f"../{quote(index)}")


def _person(verdict: Verdict, drawn: dict[str, Any], index: str = "") -> str:
    return _render(
        "person.html",
        title=f"{words.STATUS[verdict.status]}: {verdict.who}",
        v=verdict,
        run=verdict.run,
        run_lines=[] if index else flat(verdict.run),
        replay=replay_commands(verdict.run),
        compare=comparison(verdict),
        charts=drawn,
        axes_words=axes_words(verdict) if drawn["parallel"] else "",
        index=index,
    )


def person_fragment(verdict: Verdict) -> str:
    """The short form for notebooks: a piece of HTML that brings its own style."""
    return _render("fragment.html", v=verdict, compare=comparison(verdict, flips=6, longest=LONGEST))


def population_fragment(population: Population) -> str:
    """The short form of many for notebooks."""
    sensitive = population.verdicts[0].sensitive if population.verdicts else "group"
    given = {"p": population, "sensitive": sensitive, "groups": _groups(population)}
    return _render("population-fragment.html", checks=belief.checks(population), **given)


def audit_fragment(headline: str, facts: Sequence[tuple[str, Any]], hint: str) -> str:
    """An audit's settings for notebooks."""
    told = [(name, shown(value, LONGEST * 4)) for name, value in facts]
    return _render("audit-fragment.html", headline=short(headline, LONGEST * 4), facts=told, hint=hint)


def population_page(population: Population, folder: str = "") -> str:
    """The report about many people, a whole HTML document; with a `folder`, only the index of what is in there."""
    named = list(zip(population.verdicts, anchors(population.verdicts), strict=True))
    addressed = [(v, f"{quote(folder)}/{a}.html" if folder else f"#{a}") for v, a in named]
    audited = [] if folder else [(v, a) for v, a in named if v.status != "not_eligible"]
    sections, abridged = _sections(audited, len(population))
    sensitive = population.verdicts[0].sensitive if population.verdicts else "group"
    return _render(
        "population.html",
        title=f"Label audit of {words.plural(len(population), 'person').replace('persons', 'people')}",
        p=population,
        run=population.run,
        run_lines=flat(population.run),
        replay=replay_commands(population.run),
        sensitive=sensitive,
        incomplete=sum(not v.complete for v in population),
        groups=_groups(population),
        checks=belief.checks(population),
        keystones=_keystones(population, addressed),
        charts=_population_charts(population),
        distance_caption=distance.caption(population),
        logit_marks=charts.logit_marks(population),
        roster=roster.roster(addressed, sensitive, roster.ROOM if folder else float("inf")),
        sections=sections,
        abridged=abridged,
        left_out=[(v, a) for v, a in named if v.status == "not_eligible"],
        folder=folder,
    )


def population_page_without_values(population: Population, run: dict[str, Any], rates: dict[str, Any] | None) -> str:
    """The page that has ids, groups, decisions and distances only."""
    names = ("people", "switch_changes", "eligible", "found", "solid")
    counted = "solid" if population.checked else "found"
    share, low, high = ("share_solid", "solid_low", "solid_high") if population.checked else ("share", "low", "high")
    groups = [
        {"group": group, **{name: int(g[name]) for name in names}}
        | {"share": g[share] if g["eligible"] else None, "low": g[low], "high": g[high]}
        for group, g in (population.by_group.iterrows() if len(population) else ())
    ]
    curved = population.eligible and max(v.budget for v in population) > 1
    return _render_redacted(
        population.sentence, groups, counted, run, rates=rates,
        said=population.comparison.sentence if population.comparison else population.uncompared,
        stopped=bool(population.unfinished),
        curve=_svg(charts.distance_curve(population), distance.told(population), "distances") if curved else "",
        curve_caption=distance.caption(population) if curved else "",
        roster=roster.roster([(v, "") for v in population], run.get("sensitive", "group"), least=True),
        count=len(population), waiting=len(population) > LONG_LIST,
    )  # fmt: skip


def public_page(
    sentence: str, groups: Sequence[dict[str, Any]], counted: str, run: dict[str, Any], said: str,
    rates: dict[str, Any] | None, stopped: bool = False,
) -> str:  # fmt: skip
    """The page that has groups only, with counts that may be told."""
    return _render_redacted(
        sentence,
        groups,
        counted,
        run,
        said=said,
        rates=rates,
        stopped=stopped,
        curve="",
        curve_caption="",
        roster=None,
        count=0,
        waiting=False,
    )


def _render_redacted(
    sentence: str, groups: Sequence[dict[str, Any]], counted: str, run: dict[str, Any], **more: Any
) -> str:
    return _render(
        "redacted.html", title="Label audit", sentence=sentence, groups=groups, counted=counted, run=run,
        run_lines=flat(run), sensitive=run.get("sensitive", "group"), HIDDEN=words.HIDDEN, FEW=words.FEW, **more,
    )  # fmt: skip


# --- one person among many --------------------------------------------------------------------------


def _sections(people: Sequence[tuple[Verdict, str]], asked: int) -> tuple[list[Markup], str]:
    """Each person's section in as much detail as the page has room for; and a sentence on what was left out.

    Level by level, people in their order are shown in more detail, as long as there is room: so all have a short table
    before anyone has a long one. As a rule all have a table; where these are too much, everybody starts without."""
    room = ROOM * max(1.0, asked / 200)
    sections = [_section(*one, "table") for one in people]
    spent = sum(len(section.encode()) for section in sections)
    reached = ["table"] * len(people)
    if spent > room:
        sections = [_section(*one, "bare") for one in people]
        spent = sum(len(section.encode()) for section in sections)
        reached = ["bare"] * len(people)
    for below, level in pairwise(LEVELS):
        for k, (verdict, anchor) in enumerate(people):
            if reached[k] != below or (level == "chart" and not verdict.found):
                continue
            section = _section(verdict, anchor, level)
            more = len(section.encode()) - len(sections[k].encode())
            if spent + more > room:
                break
            spent, sections[k], reached[k] = spent + more, section, level
    lacking = [
        f"{count} without a table" if (count := reached.count("bare")) else "",
        f"{count} with a short table" if (count := reached.count("short")) else "",
        f"{count} without a chart"
        if (count := sum(v.found and r == "table" for (v, _), r in zip(people, reached, strict=True)))
        else "",
    ]
    left_out = ", ".join(part for part in lacking if part)
    if not left_out:
        return sections, ""
    return sections, f"To keep this file small, some people are shown in less detail: {left_out}."


def _section(verdict: Verdict, anchor: str, level: str) -> Markup:
    charted = level == "chart"
    compare = comparison(verdict, longest=LONGEST, **LEVELS[level])
    parallel = _parallel(verdict) if charted else Markup("")
    told = axes_words(verdict) if charted else ""
    case = {"v": verdict, "anchor": anchor, "compare": compare, "parallel": parallel, "axes_words": told}
    return Markup(_render("case.html", **case))


def _parallel(verdict: Verdict) -> Markup:
    title = f"Parallel coordinates: {verdict.who} beside the flipped training rows"
    return parallel_svg(verdict, title)


def anchors(verdicts: Sequence[Verdict]) -> list[str]:
    """One id per person: its case number, and a counter where that does not tell people apart."""
    seen: Counter[str] = Counter()
    named = []
    for verdict in verdicts:
        name = f"case-{verdict.case}" if verdict.case is not None else "person"
        seen[name] += 1
        alone = seen[name] == 1 and verdict.case is not None
        named.append(name if alone else f"{name}-{seen[name]}" if verdict.case is None else f"{name}.{seen[name]}")
    return named


# --- what many people say together ------------------------------------------------------------------


def _population_charts(population: Population) -> dict[str, Markup]:
    drawn = {"distances": Markup(""), "shuffled": Markup("")}
    if population.verdicts:
        what = "solid" if population.checked else "found"
        drawn["groups"] = _svg(
            charts.group_shares(population), f"Share {what} per group, with 95 % intervals", "groups"
        )
        drawn["logits"] = _svg(charts.logit_distribution(population), "Logits of people found and not found", "logits")
    if population.eligible and max(v.budget for v in population) > 1:
        drawn["distances"] = _svg(charts.distance_curve(population), distance.told(population), "distances")
    null = population.comparison.null if population.comparison else None
    if null and null.curves and len(null.curves.sizes) > 1:
        drawn["shuffled"] = _svg(charts.shuffled_curves(null.curves), distance.shuffled_words(null.curves), "shuffled")
    return drawn


def _groups(population: Population) -> list[dict[str, Any]]:
    if not population.verdicts:
        return []
    share, low, high = ("share_solid", "solid_low", "solid_high") if population.checked else ("share", "low", "high")
    switched = any(v.switch_changes is not None for v in population)
    return [
        {
            "name": shown(group, LONGEST),
            "people": int(g["people"]),
            "switched": int(g["switch_changes"]) if switched else None,
            "eligible": int(g["eligible"]),
            "found": int(g["found"]),
            "solid": int(g["solid"]),
            "share": f"{100 * g[share]:.1f} %" if g["eligible"] else "–",
            "interval": f"{100 * g[low]:.1f} – {100 * g[high]:.1f} %" if g["eligible"] else "–",
            "close": int(g["close_calls"]) if g["close_calls"] == g["close_calls"] else "–",
            "margin": f"{g['median_margin']:.2f}" if g["eligible"] else "–",
        }
        for group, g in population.by_group.iterrows()
    ]


def _keystones(population: Population, addressed: Sequence[tuple[Verdict, str]]) -> dict[str, Any]:
    frame = population.keystones
    who: dict[Any, list[tuple[str, str]]] = {}
    solid: Counter[Any] = Counter()
    for verdict, address in addressed:
        for row in verdict.flips.index:
            name = verdict.case if verdict.case is not None else f"row {shown(verdict.row, LONGEST)}"
            who.setdefault(row, []).append((str(name), address))
            solid[row] += verdict.solidity == SOLID
    columns = [c for c in frame.columns if c not in ("people", "cases", BEFORE, AFTER)]
    columns.sort(key=lambda c: str(c) != population.verdicts[0].sensitive)  # stable: the protected one first
    columns = columns[:MOST_KEYSTONE_COLUMNS]
    rows = [
        {
            "row": shown(row, LONGEST),
            "people": values["people"],
            "solid": solid[row],
            "who": who[row][:MOST_KEYSTONE_PEOPLE],
            "more": max(0, len(who[row]) - MOST_KEYSTONE_PEOPLE),
            "before": values[BEFORE],
            "after": values[AFTER],
            "cells": [shown(values[c], LONGEST) for c in columns],
        }
        for row, values in frame.head(MOST_KEYSTONES).iterrows()
    ]
    ranked = bool((frame["people"] > 1).any())
    return {"rows": rows, "columns": [shown(c, LONGEST) for c in columns], "total": len(frame), "ranked": ranked}


# --- shared -----------------------------------------------------------------------------------------


def logit_places(verdict: Verdict) -> dict[str, Any]:
    """Where the marks of the small logit bar lie, the boundary being at 200 of 400."""
    after = verdict.counterfactual_logit if verdict.found else verdict.closest_logit
    reach = max(abs(verdict.logit), abs(after or 0.0), 1e-6)

    def place(logit: float) -> float:
        return round(200 + 190 * logit / reach, 1)

    return {
        "before": place(verdict.logit),
        "after": None if after is None else place(after),
        "label": _logit_words(verdict),
    }


def _logit_words(verdict: Verdict) -> str:
    text = f"{signed(verdict.logit)} before"
    if verdict.found and verdict.counterfactual_logit is not None:
        text += f", {signed(verdict.counterfactual_logit)} after"
    elif verdict.closest_logit is not None:
        text += f", {signed(verdict.closest_logit)} at the closest"
    return text + "; the boundary is 0"


def _svg(figure: Any, title: str, name: str) -> Markup:
    return Markup(inline_svg(figure, title, name))


def get_ready() -> None:
    """Load what writing a report takes: templates, and the library that draws. Whoever stops an audit waits for it."""
    from matplotlib.figure import Figure

    made = _environment()
    for template in made.list_templates(extensions=["html"]):
        made.get_template(template)
    inline_svg(Figure(figsize=(1, 1)), "", "nothing")


def _render(template: str, **context: Any) -> str:
    return _environment().get_template(template).render(**context)


@cache
def _environment() -> Environment:
    return environment(
        STATUS=words.STATUS,
        steady_sentence=words.steady_sentence,
        SIGN=words.SIGN,
        SOLIDITY=words.SOLIDITY,
        SOLIDITY_SIGN=words.SOLIDITY_SIGN,
        CLOSE_CALL=words.CLOSE_CALL,
        CLOSE_SIGN=words.CLOSE_SIGN,
        USUAL=USUAL,
        LEAST_SEEDS=LEAST,
        audited=words.audited,
        seed_rows=belief.seed_rows,
        share_rows=belief.share_rows,
        base_words=belief.base_words,
        further_sets=belief.further_sets,
        agreement_words=belief.agreement_words,
        agreement_heading=belief.agreement_heading,
        UNSEEDED=words.UNSEEDED,
        PROTOCOLS=words.PROTOCOLS,
        RANKINGS=words.RANKINGS,
        rule_words=words.rule_words,
        plural=words.plural,
        shown=shown,
        short=short,
        signed=signed,
        label_names=charts.label_names,
        logit_places=logit_places,
        seed_dots=belief.seed_dots,
    )

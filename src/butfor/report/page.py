"""The pages: a summary and charts into templates. All text from tables passes through autoescaping.

A page loads nothing and sends nothing. Its Content-Security-Policy says so to the browser: of scripts and styles only
the two written here run, known by their hashes, whatever a table's text may have smuggled in.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shlex
from collections.abc import Mapping
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pandas as pd
from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from butfor._version import __version__
from butfor.learn.question import decides_one
from butfor.report import overview, people, summary
from butfor.report.drawing import THEME
from butfor.report.standards import differences, percent, standards
from butfor.report.text import plural, short, shown
from butfor.result.fresh import SOLID
from butfor.result.population import Population
from butfor.result.record import sides
from butfor.result.verdict import Verdict
from butfor.result.words import STATUS
from butfor.standard.groups import Standards

MOST_LABELS = 50
"""Doubted labels that a page shows."""
SHORT = {"flips": 6, "lines": 20, "longest": summary.LONGEST}
"""How much of a table is shown where many people have one."""


def person_page(verdict: Verdict, index: str = "") -> str:
    """The report about one person, a whole HTML document; with an `index`, the file of one of its people."""
    return _render(
        "person.html",
        title=f"{STATUS[verdict.status].title}: {verdict.who}",
        s=summary.person(verdict),
        run=verdict.run,
        table=summary.comparison(verdict),
        again=_again(verdict.run),
        index=f"../{quote(index)}" if index else "",
    )


def person_fragment(verdict: Verdict) -> str:
    """The short form for notebooks: a piece of HTML that brings its own style."""
    table = summary.comparison(verdict, SHORT["flips"], longest=SHORT["longest"])
    return _render("fragment.html", kind="verdict", s=summary.person(verdict), table=table)


def population_fragment(population: Population) -> str:
    """The short form of many for notebooks."""
    s = overview.overview(population) | {"groups": overview.groups_of(population)}
    return _render("fragment.html", kind="population", s=s)


def population_page(population: Population, folder: str = "") -> str:
    """The report about many people, a whole HTML document; with a `folder`, only the index of what is in there."""
    p = population
    named = list(zip(p.verdicts, people.anchors(p.verdicts), strict=True))
    addressed = [(v, f"{quote(folder)}/{a}.html" if folder else f"#{a}") for v, a in named]
    return _render(
        "population.html",
        title=f"Label audit of {plural(len(p), 'person')}",
        s=overview.population(p, addressed),
        run=p.run,
        roster=people.roster(addressed, overview.sensitive_of(p)),
        count=len(p),
        sections=[] if folder else [_section(v, a) for v, a in named if v.eligible],
        left_out=[] if folder else [(v.sentence, a) for v, a in named if not v.eligible],
        folder=folder,
        again=_again(p.run),
    )


def standard_page(found: Standards, table: str | None = None) -> str:
    """The comparison of standards alone, a whole HTML document."""
    frame = found.to_frame()
    doubted = frame[~found.is_favourable & (frame["doubt"] > 0.5).to_numpy()].sort_values("rank").head(MOST_LABELS)
    labels = [
        {"name": shown(row), **cells} for row, cells in zip(doubted.index, doubted.to_dict("records"), strict=True)
    ]
    return _render(
        "standard.html",
        title=f"Standards of {found.attribute}",
        run={"butfor": __version__},
        attribute=found.attribute,
        table=table,
        rows=len(frame),
        answer=found.answer,
        t=standards(found.to_dict()),
        labels=labels,
    )


def review_page(population: Population) -> str:
    """What a review changed, before and after side by side."""
    r, names = population.reviewed, [" or ".join(side) for side in sides(population.run)]
    assert r is not None
    groups = [(f"{group}: decided '{r.favourable}'", *map(percent, rates)) for group, rates in r.rates.items()]
    standing = [(f"{name}: by the standard of the others", before, after) for name, before, after in r.differences]
    right = [("Right about the test labels", *map(percent, r.accuracy))] if r.accuracy else []
    people = [
        (
            f"{turned.case}",
            shown(turned.row),
            shown(turned.group),
            *(names[int(decides_one(logit))] for logit in (turned.logit, turned.counterfactual_logit)),
            r.word(turned),
        )
        for turned in r.turned
    ]
    charts = [
        (name, differences(some).svg(f"Difference to the others' standard per group, {name.lower()}"))
        for name, some in (("Before", r.before), ("After", r.after))
        if some
    ]
    return _render(
        "review.html",
        title="After a review",
        run=population.run,
        table=population.run["data"].get("table"),
        r=r,
        tiles=[
            ("Labels corrected", f"{len(r.flips)} of {r.labels}"),
            ("People decided otherwise", str(len(r.turned))),
            ("of them whatever the seed", str(sum(r.word(turned) == SOLID for turned in r.turned))),
        ],
        said=r.said,
        rows=[*groups, *standing, *right],
        charts=charts,
        people=people,
    )


def _section(verdict: Verdict, anchor: str) -> Markup:
    table, dots = summary.comparison(verdict, **SHORT), summary.seed_dots(verdict)
    return Markup(_render("case.html", s=summary.brief(verdict), anchor=anchor, table=table, dots=dots))


def public_page(record: dict[str, Any], groups: pd.DataFrame, few: int) -> str:
    """The page that may be handed over."""
    heads = [str(column).replace("_", " ").capitalize() for column in groups]
    rows = [(row[0], row[1:]) for row in groups.itertuples(index=False)]
    lines, run = run_lines(record["run"]), record["run"]
    return _render("public.html", title="Label audit", s=record, heads=heads, rows=rows, lines=lines, run=run, few=few)


# --- how to run it again ----------------------------------------------------------------------------


def _again(run: Mapping[str, Any]) -> dict[str, Any]:
    return {"lines": run_lines(run), "command": run.get("command"), "replay": replay_commands(run)}


def run_lines(run: Mapping[str, Any]) -> list[tuple[str, str]]:
    """``{"learner": {"hidden": [32, 32]}}`` → ``learner.hidden``: ``32, 32``; deeper lists as JSON."""
    flat: Any = pd.json_normalize(dict(run)).iloc[0] if run else {}
    return [(str(name), short(_text(value), 2000)) for name, value in flat.items()]


def _text(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        plain = not any(isinstance(item, (list, tuple, dict)) for item in value)
        return ", ".join(map(_text, value)) or "none" if plain else json.dumps(value, ensure_ascii=False, default=str)
    return "none" if value is None else shown(value, 2000)


def replay_commands(run: Mapping[str, Any]) -> list[str]:
    """What to type to train again from the record: as it is and, for a file, where the table lies elsewhere by now.
    None where the record cannot name its table."""
    data = run.get("data", {})
    if data.get("table") is None:
        return []
    again = ["butfor", "replay", "audit.json"]
    elsewhere = [*again, "--data", f"other/place/{Path(data['table']).name}"]
    for name in ("validation", "test"):
        elsewhere += [f"--{name}", f"other/place/{Path(data[name]).name}"] if data.get(name) else []
    return [shlex.join(command) for command in ([again, elsewhere] if "label" in data else [again])]


# --- templates --------------------------------------------------------------------------------------


def get_ready() -> None:
    """Load what writing a report takes: whoever stops an audit waits for it."""
    for template in _environment().list_templates(extensions=["html"]):
        _environment().get_template(template)


def _render(template: str, **context: Any) -> str:
    return _environment().get_template(template).render(**context)


@cache
def _environment() -> Environment:
    return environment()


def environment(*packages: str) -> Environment:
    """The report's templates, after those of `packages`."""
    made = Environment(
        loader=ChoiceLoader([PackageLoader(package) for package in (*packages, "butfor.report")]),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
        auto_reload=False,
    )
    made.globals.update(THEME=THEME, plural=plural, short=short, shown=shown)
    made.filters.update(unbroken=unbroken, marked=summary.marked)
    sheet = '{% from "blocks.html" import theme %}{{ theme(":root") }}\n{% include "style.css" %}'
    style = made.overlay().from_string(sheet).render()
    script = resources.files("butfor.report").joinpath("templates/people.js").read_text(encoding="utf-8").strip()
    allowed = f"style-src {_hash(style)}; script-src {_hash(script)}; base-uri 'none'; form-action 'none'"
    made.globals.update(STYLE=Markup(style), SCRIPT=Markup(script), POLICY=f"default-src 'none'; {allowed}")
    return made


def unbroken(sentence: str) -> Markup:
    """A headline whose percentages stay on one line, with what stands around them."""
    return Markup(re.sub(r"\(?\d[\d.]* %\)?[;,.]?", r'<span class="unbroken">\g<0></span>', str(escape(sentence))))


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

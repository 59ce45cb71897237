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
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pandas as pd
from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from butfor._version import __version__
from butfor.report import charts, overview, people, summary
from butfor.report.drawing import THEME
from butfor.report.standards import standards
from butfor.report.text import LONGEST, plural, short, shown
from butfor.result.population import Population
from butfor.result.verdict import Verdict
from butfor.result.words import STATUS
from butfor.standard.compare import Standards

ROOM = 2_000_000
"""Bytes for the sections about people of one page; where they need more, everybody is shown in less detail."""
MOST_LABELS = 50
"""Doubted labels that a page shows."""
SAMPLE = 8
"""People whose sections tell how large all of them will be."""
LEVELS: list[tuple[str, dict[str, int]]] = [
    ("", {}),
    ("without a chart", {}),
    ("without a chart and with a short table", {"flips": 3, "lines": 8}),
]


def person_page(verdict: Verdict, index: str = "") -> str:
    """The report about one person, a whole HTML document; with an `index`, the file of one of its people."""
    v, run = verdict, verdict.run
    return _render(
        "person.html",
        title=f"{STATUS[v.status].title}: {v.who}",
        s=summary.person(v),
        run=run,
        table=summary.comparison(v),
        parallel=_parallel(v) if v.found else "",
        bar=_bar(v),
        pulls=charts.pulls(v).svg(summary.pull_words(v)) if v.pulls is not None else "",
        again=_again(run),
        index=f"../{quote(index)}" if index else "",
    )


def person_fragment(verdict: Verdict) -> str:
    """The short form for notebooks: a piece of HTML that brings its own style."""
    s, table = summary.person(verdict), summary.comparison(verdict, 6, longest=summary.LONGEST)
    return _render("fragment.html", kind="verdict", s=s, table=table, bar=_bar(verdict))


def population_fragment(population: Population) -> str:
    """The short form of many for notebooks."""
    return _render("fragment.html", kind="population", s=overview.overview(population))


def audit_fragment(headline: str, facts: Sequence[tuple[str, Any]], hint: str) -> str:
    """An audit's settings for notebooks."""
    lines = [(name, shown(value, LONGEST)) for name, value in facts]
    return _render(
        "fragment.html", kind="audit", s={"sentence": short(headline, LONGEST), "facts": lines, "hint": hint}
    )


def population_page(population: Population, folder: str = "") -> str:
    """The report about many people, a whole HTML document; with a `folder`, only the index of what is in there."""
    p = population
    named = list(zip(p.verdicts, people.anchors(p.verdicts), strict=True))
    addressed = [(v, f"{quote(folder)}/{a}.html" if folder else f"#{a}") for v, a in named]
    sections, abridged = ([], "") if folder else _sections([n for n in named if n[0].status != "not_eligible"])
    return _render(
        "population.html",
        title=f"Label audit of {plural(len(p), 'person')}",
        s=overview.population(p),
        run=p.run,
        comparison=p.comparison,
        uncompared=p.uncompared,
        keystones=overview.keystones(p, addressed),
        shares=charts.group_shares(p).svg("Shares per group, with 95 % intervals") if len(p) else "",
        roster=people.roster(addressed, overview.sensitive_of(p), people.ROOM if folder else float("inf")),
        count=len(p),
        sections=sections,
        abridged=abridged,
        left_out=[] if folder else [(v.sentence, a) for v, a in named if v.status == "not_eligible"],
        folder=folder,
        again=_again(p.run),
    )


def standard_page(found: Standards, table: str | None = None) -> str:
    """The comparison of standards alone, a whole HTML document."""
    frame = found.to_frame()
    doubted = frame[~found.is_favourable & (frame["doubt"] > 0.5).to_numpy()].sort_values("rank").head(MOST_LABELS)
    labels = [
        {"name": shown(row), "group": shown(group), "label": label, "doubt": doubt}
        for row, group, label, doubt in zip(
            doubted.index, doubted["group"], doubted["label"], doubted["doubt"], strict=True
        )
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


def redacted_page(**given: Any) -> str:
    """The page that may be handed over."""
    return _render("redacted.html", title="Label audit", lines=run_lines(given["run"]), **given)


def _sections(named: Sequence[tuple[Verdict, str]]) -> tuple[list[Markup], str]:
    """Each person's section, all in as much detail as the page has room for, by a sample of them; and a sentence on
    what was left out."""
    less, cut = LEVELS[0]
    sample = named[:: max(1, len(named) // SAMPLE)]
    for less, cut in LEVELS:
        sizes = [len(_section(verdict, anchor, not less, cut)) for verdict, anchor in sample]
        if sum(sizes) * len(named) <= ROOM * len(sample):
            break
    sections = [_section(verdict, anchor, not less, cut) for verdict, anchor in named]
    return sections, f"To keep this file small, people are shown {less}." if less else ""


def _section(verdict: Verdict, anchor: str, charted: bool, cut: dict[str, int]) -> Markup:
    return Markup(
        _render(
            "case.html",
            s=summary.brief(verdict),
            anchor=anchor,
            table=summary.comparison(verdict, longest=summary.LONGEST, **cut),
            bar=_bar(verdict),
            parallel=_parallel(verdict) if charted and verdict.found else "",
            dots=summary.seed_dots(verdict) if charted else None,
        )
    )


def _parallel(verdict: Verdict) -> Markup:
    drawing = charts.parallel_coordinates(verdict)
    return drawing.svg(f"Parallel coordinates: {verdict.who} beside the flipped training rows")


def _bar(verdict: Verdict) -> Markup:
    return charts.logit_bar(verdict).svg(f"Logit {summary.logit_words(verdict)}")


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

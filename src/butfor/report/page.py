"""Pages and their files, from summaries, charts and templates. Jinja escapes all text from tables.

A page loads nothing and sends nothing. Its Content-Security-Policy enforces that: only its own style and script run,
identified by their hashes, even if a table's text contains others.

The page is written last, once the files that it links to are on the disk. A folder from an earlier run loses the people
who are no longer in the report, and nothing else.
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
from butfor.decide import decides_one
from butfor.errors import SettingError, plural
from butfor.files import make_folder, save_text
from butfor.report import charts, overview, people, summary
from butfor.report.groups import explaining, labels_table, rate, slices_table
from butfor.report.text import short, shown
from butfor.result.fresh import LEAST
from butfor.result.population import Population
from butfor.result.record import SCHEMA_VERSION, as_json, builtins_of
from butfor.result.reviewed import worth_a_review
from butfor.result.run import Data, Run
from butfor.result.verdict import Verdict
from butfor.result.words import STATUS, UNSEEDED
from butfor.standard.groups import ASSUMPTION, ON_COLUMNS, Standards
from butfor.standard.wrong import WRONG
from butfor.terminal import STEERING

MOST_LABELS = 50
"""The most labels on a page, the most likely wrong first."""
LEAST_WRONG = 0.05
"""Labels below this probability of being wrong are not shown."""
SHORT = {"flips": 6, "lines": 20, "longest": summary.LONGEST}
"""The size of a person's table on a page with many people."""
MOST_IN_ONE = 300
"""The most people in a report of one file."""
EMPTY: tuple[Any, ...] = (None, "", [], {})
RESULTS = ("standard", "one_standard", "performance", "reviewed")
"""What a run found, which pages show in their own sections."""
OURS = re.compile(r"(case|person)-\d+\.html")


# --- one person, and many ---------------------------------------------------------------------------


def person_page(verdict: Verdict, index: str = "") -> str:
    """The page about one person. `index`: the page about everybody that links to it."""
    return render(
        "person.html",
        title=f"{STATUS[verdict.status].title}: {verdict.who}",
        v=verdict,
        s=summary.person(verdict),
        run=verdict.run,
        table=summary.comparison(verdict),
        index=f"../{quote(index)}" if index else "",
    )


def person_fragment(verdict: Verdict) -> str:
    """The short form for notebooks: a piece of HTML with its own style."""
    table = summary.comparison(verdict, SHORT["flips"], longest=SHORT["longest"])
    return render("fragment.html", kind="verdict", v=verdict, s=summary.person(verdict), table=table)


def population_fragment(population: Population) -> str:
    """The short form for notebooks."""
    return render("fragment.html", kind="population", v=population, s=overview.overview(population))


def population_page(population: Population, folder: str = "") -> str:
    """The page about many people. With a `folder`, it is the index of the people's files there."""
    p, names = population, anchors(population.verdicts)
    everyone = people.People(p, [f"{quote(folder)}/{name}.html" if folder else f"#{name}" for name in names])
    return render(
        "population.html",
        title=f"Label audit of {plural(len(p), 'person')}",
        p=p,
        s=overview.population(p, everyone),
        run=p.run,
        people=everyone,
        roster=people.roster(everyone),
        reasons=people.REASONS,
        sides_of=people.sides_of,
        count=len(p),
        folder=folder,
    )


def person_chart(verdict: Verdict) -> charts.Drawing:
    """The fresh seeds' logits without the flips and with them."""
    drawing = charts.seed_logits(verdict)
    if drawing is None:
        raise SettingError("There is nothing to draw: this person's find was not tested under fresh seeds.")
    return drawing


def population_chart(population: Population) -> charts.Drawing:
    """The share of decisions that a number of labels changes."""
    drawing = charts.distance_curve(population)
    if drawing is None:
        raise SettingError("There is nothing to draw: no decision changes, or the budget is one label.")
    return drawing


def anchors(verdicts: Sequence[Verdict]) -> list[str]:
    """One id per person: the case or, for people given alone, the place among them."""
    return [f"person-{k}" if v.case is None else f"case-{v.case}" for k, v in enumerate(verdicts, start=1)]


# --- other pages ------------------------------------------------------------------------------------


def standard_page(found: Standards) -> str:
    """The page of a comparison of groups."""
    frame = found.to_frame()
    first = frame[(frame["wrong"] > LEAST_WRONG).to_numpy()].sort_values("rank").head(MOST_LABELS)
    cells = zip(first.index, first["group"], first["label"], first["wrong"], first["doubt"], strict=True)
    return render(
        "standard.html",
        title=f"Standards of {found.attribute}",
        run={"butfor": __version__},
        t=found,
        rows=len(frame),
        meaning=WRONG,
        labels=[
            (shown(row), group, label, f"{wrong:.2f}", f"{doubt:.2f}") for row, group, label, wrong, doubt in cells
        ],
    )


def standard_record(found: Standards) -> str:
    """The text of standard.json."""
    return as_json({"schema_version": SCHEMA_VERSION} | builtins_of(found.to_dict()))


def review_page(population: Population) -> str:
    """The page about a review: before and after, side by side."""
    r, names = population.run.reviewed, [" or ".join(side) for side in population.run.sides]
    assert r is not None
    run = population.run
    changed = []
    for v in r.changed:
        before, after = (names[int(decides_one(logit))] for logit in (v.logit, v.counterfactual_logit))
        sure = (r.solidity_of(v),) if r.seeded else ()
        changed.append((f"{v.case}", shown(v.row), f"{run.sensitive} = {shown(v.group)}", before, after, *sure))
    return render(
        "review.html",
        title="After a review",
        run=run,
        table=run.data.table,
        r=r,
        rows=[(short(name, 120), *values) for name, *values in r.rows],
        charts=[
            (name, charts.differences(some, beside).svg())
            for name, some, beside in (("Before", r.before, r.after), ("After", r.after, r.before))
            if some
        ],
        people=changed,
        more=worth_a_review(population.labels),
    )


# --- files ------------------------------------------------------------------------------------------


def write_report(population: Population, given: str | Path) -> Any:
    """Write the report to the path `given`, and return that. Beyond a few hundred people it is an index of files in a
    folder."""
    path = Path(given)
    folder = path.with_name(f"{path.stem}-people")
    names = [f"{anchor}.html" for anchor in anchors(population.verdicts)] if len(population) > MOST_IN_ONE else []
    if names:
        make_folder(folder)
        for verdict, name in zip(population, names, strict=True):
            save_text(folder / name, person_page(verdict, path.name), at_once=False)
    save_text(path, population_page(population, folder.name if names else ""))
    if folder.is_dir():  # may hold people's files of an earlier report
        for file in folder.iterdir():
            if OURS.fullmatch(file.name) and file.name not in names:
                file.unlink()
        if not any(folder.iterdir()):
            folder.rmdir()
    return given


# --- how to run it again ----------------------------------------------------------------------------


def run_lines(run: Run | Mapping[str, Any]) -> list[tuple[str, str]]:
    """``{"learner": {"hidden": [32, 32]}}`` → ``learner.hidden``: ``32, 32``; deeper lists as JSON. Empty values and
    results are left out."""
    known = {name: v for name, v in builtins_of(run).items() if v not in EMPTY and name not in RESULTS}
    known["data"] = {name: value for name, value in known.get("data", {}).items() if value not in EMPTY}
    flat: Any = pd.json_normalize(known).iloc[0]
    return [(str(name), short(_text(value), 2000)) for name, value in flat.items()]


def _text(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        plain = not any(isinstance(item, (list, tuple, dict)) for item in value)
        return ", ".join(map(_text, value)) or "none" if plain else json.dumps(value, ensure_ascii=False, default=str)
    return "none" if value is None else shown(value, 2000)


def _replay_commands(data: Data) -> list[str]:
    """The commands that train again from the record: as it is and, for a file, with the table in another place. Empty
    if the record names no table."""
    if data.table is None:
        return []
    again, moved = ["butfor", "replay", "audit.json"], list[str]()
    for name, file in (("data", data.table), ("validation", data.validation), ("test", data.test)):
        moved += [f"--{name}", f"other/place/{Path(file).name}"] if file else []
    return [shlex.join(command) for command in ([again, [*again, *moved]] if data.label else [again])]


# --- templates --------------------------------------------------------------------------------------


def get_ready() -> None:
    """Load the templates in advance, so that a stopped audit writes its report without delay."""
    for template in _environment().list_templates(extensions=["html"]):
        _environment().get_template(template)


def render(template: str, **context: Any) -> str:
    """Fill in a template. No character that steers a terminal, where a page may be read as well, gets into it."""
    return STEERING.sub("", _environment().get_template(template).render(**context))


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
    made.globals.update(
        THEME=charts.THEME, ASSUMPTION=ASSUMPTION, ON_COLUMNS=ON_COLUMNS, LEAST=LEAST, UNSEEDED=UNSEEDED, WRONG=WRONG
    )
    made.globals.update(
        charts=charts,
        explaining=explaining,
        labels_table=labels_table,
        slices_table=slices_table,
        plural=plural,
        short=short,
        shown=shown,
        rate=rate,
        run_lines=run_lines,
        marked=summary.marked,
        command=summary.command,
    )
    made.globals.update(replay_commands=_replay_commands, headlines=summary.headlines, in_worlds=summary.in_worlds)
    made.globals.update(comparison=lambda verdict: summary.comparison(verdict, **SHORT))
    made.filters.update(unbroken=_unbroken, headline=_headline)
    made.globals.update(_parts(made, "style.css", "people.js"))
    return made


def _unbroken(text: Any) -> Any:
    """A text without line breaks before a per cent sign or around an equals sign."""
    if not isinstance(text, str):
        return text
    for sign in (" %", " = ", " ≤ "):
        text = text.replace(sign, sign.replace(" ", "\N{NO-BREAK SPACE}"))
    return text


def _headline(sentence: str) -> Markup:
    """A sentence with its interval and p-value in small print."""
    answer, bracket, rest = _unbroken(sentence).partition(" (95\N{NO-BREAK SPACE}% interval")
    return Markup("{} <small>{}</small>").format(answer, f"{bracket}{rest}".strip()) if rest else escape(answer)


def own_parts(style: str, script: str) -> dict[str, Any]:
    """Style, script and policy of a page, by their names in templates."""
    return _parts(_environment(), style, script)


def _parts(made: Environment, style: str, script: str) -> dict[str, Any]:
    """A style and a script from the templates, and the policy that allows only these two."""
    theme = made.overlay().from_string('{% from "blocks.html" import theme %}{{ theme(":root") }}').render()
    rest, code = (
        resources.files("butfor.report").joinpath(f"templates/{name}").read_text(encoding="utf-8").strip()
        for name in (style, script)
    )
    looks = f"{theme}\n{rest}"
    allowed = f"style-src {_hash(looks)}; script-src {_hash(code)}; base-uri 'none'; form-action 'none'"
    return {"STYLE": Markup(looks), "SCRIPT": Markup(code), "POLICY": f"default-src 'none'; {allowed}"}


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

"""Pages and their files: templates take verdicts, groups and runs, and format them with filters.
Jinja escapes all text from tables.

A page loads nothing and sends nothing. Its Content-Security-Policy enforces that: only its own
style and script run, identified by their hashes, even if a table's text contains others.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from functools import cache
from importlib import resources
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from butfor._version import __version__
from butfor.report import charts, people
from butfor.report.groups import impacts
from butfor.report.text import short, shown
from butfor.result import fresh, reviewed
from butfor.result import words as result_words
from butfor.result.population import SMALL_GROUP_PEOPLE, Population
from butfor.result.record import (
    SCHEMA_VERSION,
    as_json,
    builtins_of,
    checksum,
)
from butfor.result.run import Run
from butfor.result.verdict import Verdict
from butfor.search.rankings.mix import leader_words
from butfor.search.rules import meanings
from butfor.standard.groups import ASSUMPTION, ON_COLUMNS, Standards
from butfor.standard.wrong import WRONG
from butfor.support.errors import SettingError, plural
from butfor.support.terminal import STEERING
from butfor.table.decisions import decides_one
from butfor.words import figures as words

EMPTY_VALUES: tuple[Any, ...] = (None, "", [], {})
RESULT_FIELDS = {
    "standard",
    "standard_notes",
    "one_standard",
    "questions",
    "performance",
    "reviewed",
    "names",
    "remarks",
    "concerns",
    "command",
}
"""What pages show in their own sections."""
TERMS = {
    "comparable [a-z]+": "comparable",
    "second opinion": "second",
    "robustness value": "robustness",
    "doubt": "doubt",
    "worlds?": "world",
    "one standard": "standard",
    "solid": "solid",
    "leaning": "solid",
    "seed-bound": "solid",
    "undecided": "solid",
    "not checked": "solid",
    "close calls?": "close",
    "φ": "phi",
    "ψ": "psi",
}
"""Technical words, as patterns, and their places in the glossary."""
# --- pages ----------------------------------------------------------------------------------------


def person_page(verdict: Verdict, *, others: bool = True) -> str:
    """The page about one person. `others`: whether it shows values and labels of the flipped rows,
    which are other people's."""
    return render("person.html", v=verdict, run=verdict.run, others=others)


def population_page(population: Population) -> str:
    """The page about many people."""
    listed = people.listed(population)
    return render("population.html", p=population, run=population.run, people=listed)


def fragment(of: Verdict | Population) -> str:
    """The short form for notebooks, in their style."""
    return render("fragment.html", run=of.run, **{"v" if isinstance(of, Verdict) else "p": of})


def standard_record(found: Standards) -> str:
    """The text of standard.json."""
    return as_json({"schema_version": SCHEMA_VERSION} | builtins_of(found.to_dict()))


def chart(of: Verdict | Population) -> charts.Drawing:
    """A person's fresh seeds, or a dot per person on the score's axis."""
    if isinstance(of, Verdict):
        drawing = charts.seed_logits(of)
        why = "this person's find was not tested under fresh seeds"
    else:
        drawing = charts.people_dots(people.listed(of), of.run.names, 740)
        why = "nobody was examined, or there are more than two labels"
    if drawing is None:
        raise SettingError(f"There is nothing to draw: {why}.")
    return drawing


# --- templates ------------------------------------------------------------------------------------


def render(template: str, **context: Any) -> str:
    """Fill in a template. Without other `names`, they are the run's. No character that steers a
    terminal, where a page may be read as well, gets into it."""
    if isinstance(context.get("run"), Run):
        context = {"names": context["run"].names} | context
    return STEERING.sub("", environment().get_template(template).render(**context))


@cache
def environment(*packages: str) -> Environment:
    """The report's templates, after those of `packages`."""
    made = Environment(
        loader=ChoiceLoader([PackageLoader(package) for package in (*packages, "butfor.report")]),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
        auto_reload=False,
        extensions=["jinja2.ext.do"],
    )
    made.filters.update(
        unbroken=_unbroken,
        headline=_headline,
        short=short,
        shown=shown,
        marked=people.marked,
        command=people.command,
        terms=terms,
        initial=lambda text: text[:1].upper() + text[1:],
        rate=lambda share: "–" if share is None or share != share else f"{100 * share:.1f} %",
        decimals=lambda number, digits: "" if number is None else f"{number:.{digits}f}",
    )
    made.tests["mentioning"] = lambda text, part: part in text
    # What sentences and tables are made of: modules, whose functions take the objects of a record.
    made.globals.update(
        charts=charts,
        said=people,
        words=words,
        result=result_words,
        seeds=fresh,
        reviews=reviewed,
        ASSUMPTION=ASSUMPTION,
        ON_COLUMNS=ON_COLUMNS,
        WRONG=WRONG,
        SMALL_GROUP_PEOPLE=SMALL_GROUP_PEOPLE,
        names=None,
        zip=zip,
        decides_one=decides_one,
        leader_words=leader_words,
        plural=plural,
        impacts=impacts,
        meanings=meanings,
        checksum=checksum,
        settings=settings,
        **own_parts("people.js", "style.css"),
        version=__version__,
    )
    return made


def settings(run: Run) -> str:
    """As in the record, without empty values and results."""
    kept = {
        name: value
        for name, value in builtins_of(run).items()
        if name not in RESULT_FIELDS and value not in EMPTY_VALUES
    }
    return json.dumps(kept, indent=1, ensure_ascii=False)


def terms(text: str) -> Markup:
    """A text whose technical words lead to the glossary, each once."""
    html = str(escape(text))
    for word, anchor in TERMS.items():
        link = rf'<a class="term" href="#g-{anchor}">\g<0></a>'
        html = re.sub(rf"(?<![\w\-#<]){word}(?![\w\-])", link, html, count=1, flags=re.IGNORECASE)
    return Markup(html)


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
    if not rest:
        return escape(answer)
    return Markup("{} <small>{}</small>").format(answer, f"{bracket}{rest}".strip())


def own_parts(script: str, *styles: str) -> dict[str, Any]:
    """A script and styles from the templates, and the policy that allows only these, by their names
    there."""
    folder = resources.files("butfor.report") / "templates"

    def text_of(name: str) -> str:
        return folder.joinpath(name).read_text(encoding="utf-8").strip()

    def digest(text: str) -> str:
        return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()

    code = text_of(script)
    colours = ";".join(
        f"--bf-{name}:light-dark({light},{dark})" for name, (light, dark) in charts.THEME.items()
    )
    look = "\n".join([f":root{{{colours}}}", *map(text_of, styles)])
    policy = (
        f"default-src 'none'; style-src 'sha256-{digest(look)}'; script-src "
        f"'sha256-{digest(code)}'; base-uri 'none'; form-action 'none'"
    )
    return {"STYLE": Markup(look), "SCRIPT": Markup(code), "POLICY": policy}

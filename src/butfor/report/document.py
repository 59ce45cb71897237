"""What every page is made with: the templates, the style and the script inside it, and the policy that allows no other.

A page loads nothing and sends nothing. Its Content-Security-Policy says so to the browser: of scripts and styles only
the two written here run, known by their hashes, whatever a table's text may have smuggled in.
"""

from __future__ import annotations

import base64
import hashlib
import re
from importlib import resources
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from butfor.report.svg import THEME


def environment(*packages: str, **words: Any) -> Environment:
    """The report's templates, after those of `packages`, which all know `words`."""
    made = Environment(
        loader=ChoiceLoader([PackageLoader(package) for package in (*packages, "butfor.report")]),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
        auto_reload=False,
    )
    made.globals.update(THEME=THEME, **words)
    made.filters["unbroken"] = unbroken
    sheet = '{% from "blocks.html" import theme %}{{ theme(":root") }}\n{% include "style.css" %}'
    styled, script = made.overlay().from_string(sheet).render(), _script()
    made.globals.update(STYLE=Markup(styled), SCRIPT=Markup(script), POLICY=policy(styled, script))
    return made


def unbroken(sentence: str) -> Markup:
    """A headline whose percentages stay on one line, with what stands around them."""
    return Markup(re.sub(r"\(?\d[\d.]* %\)?[;,.]?", r'<span class="unbroken">\g<0></span>', str(escape(sentence))))


def policy(style: str, script: str) -> str:
    """The Content-Security-Policy of a page with this style and this script, and nothing else."""
    return (
        f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _script() -> str:
    return resources.files("butfor.report").joinpath("templates/people.js").read_text(encoding="utf-8").strip()

"""The report: complete in itself, well-formed, safe with any text, small, and clear about what it shows."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cached_property
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from butfor.population import Population
from butfor.report import charts, page
from butfor.report.svg import inline_svg
from butfor.report.values import comparison, differs, short, shown
from butfor.verdict import SCHEMA_VERSION, Training, Verdict

NASTY = [
    "<script>alert(1)</script>",
    "a \"b\" & 'c'",
    "{{ 7 * 7 }}",
    "$\\frac{1}{$",
    "😀 naïve\x00\x1b",
    "</style><b>",
    "x" * 900,
]
RUN = {
    "butfor": "0.1.0",
    "versions": {"python": "3.11.7"},
    "data": {"table": "loans.csv", "sha256": "ab" * 32, "training_rows": 600},
    "label_names": ["bad credit", "good credit"],
    "learner": {"hidden": [32, 32], "batch_size": None, "seed": 0},
    "budget": 3,
    "rank": "combined",
    "protocol": "algorithm1",
    "phi": "stable_under_switch",
    "psi": "(same_group & labelled_as_predicted) & correctly_predicted",
    "engine": "reference",
    "retrainings": 271,
    "confirmations": 4,
    "command": "butfor audit loans.csv --label 'approved' --sensitive sex",
}


def values(k: int, columns: int = 4) -> dict[str, Any]:
    """A made-up row of a table with words, whole numbers, fractions, truth values and a protected column."""
    kinds = [("female", "male")[k % 2], 20 + k, k / 3, k % 3 == 0]
    names = ["sex", "age", "ratio", "owner"]
    row = dict(zip(names, kinds, strict=True))
    row |= {f"column {j}": f"value {(j + k) % 5}" if j % 2 else (j * k) % 7 for j in range(4, columns)}
    return dict(list(row.items())[:columns])


def verdict(case: int | None, status: str = "found", *, flips: int = 1, columns: int = 4, **changes: Any) -> Verdict:
    found = status == "found"
    rows = range(case or 0, (case or 0) + flips) if found else range(0)
    record = {
        "schema_version": SCHEMA_VERSION, "case": case, "row": 1000 + (case or 0), "status": status,
        "prediction": "bad credit", "counterfactual_prediction": "good credit" if found else None,
        "logit": -0.4 - (case or 0) / 100, "counterfactual_logit": 0.2 if found else None,
        "flips": [
            {"row": 5 * r, "position": r, "values": values(r + 1, columns)}
            | {"label_before": "bad credit", "label_after": "good credit"}
            for r in rows
        ],
        "budget": 3, "attempts": 0 if status == "not_eligible" else 2, "confirmed": found, "rank": "combined",
        "protocol": "algorithm1",
        "closest_logit": None if status == "not_eligible" else -0.1, "flippable": 40,
        "training_rows": 600, "shared": False, "complete": True, "sensitive": "sex",
        "reason": {"not_eligible": "the rule φ leaves this person out."}.get(status, ""),
        "group": values(case or 0)["sex"], "person": values(case or 0, columns),
        "course": [] if status == "not_eligible" else [[1, -0.3], [2, -0.1]], "run": RUN,
        "minimal": False, "first_size": flips if found else 0, "alternatives": [], "control": None, "collateral": None,
    }  # fmt: skip
    return replace(Verdict.from_dict(record), **changes)


def population(**changes: Any) -> Population:
    people = [verdict(k, ("found", "not_found", "not_eligible")[k % 3], flips=1 + k % 3) for k in range(12)]
    return Population(people, RUN, **changes)


class Outline(HTMLParser):
    """Checks that tags are balanced, and keeps ids, targets of links, and the visible text."""

    VOID = frozenset({"meta", "br", "link", "img", "hr", "input"})

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.ids: list[str] = []
        self.targets: list[str] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()
        assert not self.open, self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_startendtag(tag, attrs)
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.ids += [given["id"]] if given.get("id") else []
        self.targets += [str(given["href"])[1:]] if "href" in given else []

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.words.append(data)

    @cached_property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


def outline(html: str) -> Outline:
    """The page's outline, after the checks that every page must pass."""
    for outside in ("http:", "https:", "src=", "@import", "<script", "<link", "url(http", "javascript:"):
        assert outside not in html.lower(), outside
    seen = Outline(html)
    assert len(set(seen.ids)) == len(seen.ids)
    assert set(seen.targets) <= set(seen.ids)
    return seen


@pytest.mark.parametrize("case", [36, None])
@pytest.mark.parametrize("status", ["found", "not_found", "not_eligible"])
def test_a_person_page_answers_in_its_headline(status, case):
    who = verdict(case, status, flips=2)
    seen = outline(who.to_html())
    assert who.sentence in seen.text
    assert {"answer", "rows", "logit", "meaning", "next", "run"} <= set(seen.ids)
    assert "What this shows and what it does not" in seen.text
    assert RUN["command"] in seen.text
    words = {
        "found": "reviewed blind",
        "not_found": "does not mean that the decision is fair",
        "not_eligible": "Not audited",
    }
    for other, phrase in words.items():
        assert (phrase in seen.text) == (other == status)


def test_a_person_page_shows_the_rows_beside_the_person():
    html = verdict(36, flips=2).to_html()
    seen = outline(html)
    assert "Training row 180" in seen.text
    assert "Training row 185" in seen.text
    assert html.count('class="d"') == sum(
        c.differs for line in comparison(verdict(36, flips=2)).lines for c in line.flips
    )


def test_incomplete_unconfirmed_and_interrupted_are_flagged():
    assert "Incomplete." in outline(verdict(1, "not_found", complete=False).to_html()).text
    assert "Incomplete." not in outline(verdict(1, "not_found").to_html()).text
    assert "Not confirmed." in outline(verdict(1, confirmed=False).to_html()).text
    assert "Interrupted." in outline(population(interrupted=True).to_html()).text
    assert "Interrupted." not in outline(population().to_html()).text


def test_a_search_that_could_not_start_says_so():
    who = verdict(1, "not_found", attempts=0, course=(), closest_logit=None, flippable=0, reason="ψ allows no label.")
    assert "No attempt to turn the decision was made: ψ allows no label." in outline(who.to_html()).text


def test_a_population_page_has_its_parts_and_links_to_everyone():
    people = population()
    seen = outline(people.to_html())
    assert people.sentence in seen.text
    parts = {
        "answer",
        "groups",
        "budget",
        "logits",
        "keystones",
        "meaning",
        "next",
        "people",
        "cases",
        "search",
        "run",
    }
    assert parts <= set(seen.ids)
    assert {f"case-{k}" for k in range(12)} <= set(seen.ids) & set(seen.targets)
    for share in people.by_group["share"]:
        assert f"{100 * share:.1f} %" in seen.text
    assert f"{100 * people.difference():.1f} percentage points" in seen.text


@pytest.mark.parametrize(
    "people", [[], [verdict(None), verdict(None)], [verdict(3), verdict(3)], [verdict(0, "not_eligible")]]
)
def test_odd_populations_have_pages(people):
    outline(Population(people, RUN).to_html())


def test_pages_do_not_need_a_full_run_block():
    bare = [replace(v, run={}) for v in population()]
    for html in (bare[0].to_html(), bare[1].to_html(), Population(bare, {"phi": "everyone"}).to_html()):
        outline(html)


@pytest.mark.parametrize("nasty", NASTY)
def test_text_from_tables_is_escaped(nasty):
    base = verdict(1, flips=2)
    who = replace(
        base, person=base.person.rename({"age": nasty}).replace("male", nasty), group=nasty, sensitive=nasty,
        flips=base.flips.rename(columns={"age": nasty}), row=nasty, reason=nasty, case=None, prediction=nasty,
        run=RUN | {"command": nasty, "label_names": [nasty, nasty], "phi": nasty},
    )  # fmt: skip
    everyone = [replace(who, status=status) for status in ("found", "not_found", "not_eligible")]
    for html in (who.to_html(), Population(everyone, RUN).to_html(), page.person_fragment(who)):
        assert short(nasty, 20).rstrip("…") in outline(html).text


@pytest.mark.parametrize(("columns", "flips"), [(20, 1), (60, 28)])
def test_200_people_stay_below_a_megabyte(columns, flips, monkeypatch):
    # One chart stands for all: what is tested is the room they take, not how they are drawn.
    drawn = charts.parallel_coordinates(verdict(1, flips=flips, columns=columns))
    monkeypatch.setattr(charts, "parallel_coordinates", lambda v: drawn)
    svg = inline_svg(drawn, "chart", "name")
    monkeypatch.setattr(
        page,
        "inline_svg",
        lambda f, t, name: svg.replace("name", name) if f is drawn else inline_svg(f, t, name),
    )
    people = Population([verdict(k, flips=flips, columns=columns) for k in range(200)], RUN)
    html = people.to_html()
    assert len(html.encode()) < 1_000_000
    seen = outline(html)
    assert all(v.sentence in seen.text for v in people)
    assert "To keep this file small" in seen.text


def test_both_schemes_and_print_are_styled():
    for html in (verdict(1).to_html(), population().to_html(), verdict(1)._repr_html_()):
        assert "prefers-color-scheme:dark" in html
        assert "@media print" in html
        assert not re.search(r"(?:fill|stroke):#", html), (
            "a chart with a fixed colour is illegible on one of the grounds"
        )


def test_the_notebook_fragment_is_no_document():
    html = verdict(1)._repr_html_()
    assert "<html" not in html
    assert len(html) < 8_000
    assert verdict(1).sentence in outline(html).text


def test_charts_are_figures_without_pyplot():
    import sys

    who = verdict(1, flips=3)
    made = [charts.parallel_coordinates(who), charts.logit_line(who), charts.search_course(who), who.plot()]
    made += [charts.logit_line(verdict(2, "not_found")), charts.search_course(replace(who, shared=True))]
    people = population()
    made += [
        charts.group_shares(people),
        charts.budget_curve(people),
        charts.logit_distribution(people),
        people.plot(),
    ]
    empty = Population([], RUN)
    made += [charts.group_shares(empty), charts.budget_curve(empty), charts.logit_distribution(empty)]
    assert all(isinstance(figure, Figure) for figure in made)
    assert "matplotlib.pyplot" not in sys.modules or not sys.modules["matplotlib.pyplot"].get_fignums()


def test_parallel_coordinates_use_the_training_range():
    table = pd.DataFrame([values(k) for k in range(40)])
    given = Training(table, pd.Series([0, 1] * 20), (table, pd.Series([0, 1] * 20)))
    texts = [t.get_text() for t in charts.parallel_coordinates(verdict(5, training=given)).axes[0].texts]
    assert {"20", "59"} <= set(texts)
    alone = [t.get_text() for t in charts.parallel_coordinates(verdict(5)).axes[0].texts]
    assert {"25", "26"} <= set(alone)
    assert "≠ age" in alone


@pytest.mark.parametrize("columns", [1, 20, 60])
def test_parallel_coordinates_of_any_width_with_missing_values(columns):
    who = verdict(2, flips=3, columns=columns)
    who.person.iloc[0] = None
    svg = inline_svg(charts.parallel_coordinates(who), "chart", "c")
    assert len(svg) < 700 * columns + 2_500
    assert "NaN" not in svg.replace("NaN</text>", "")


def test_figures_share_no_ids():
    figure = charts.logit_distribution(population())
    one, two = (Outline(inline_svg(figure, "chart", name)) for name in ("a", "b"))
    assert one.ids
    assert not set(one.ids) & set(two.ids)
    assert set(one.targets) <= set(one.ids)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (2.5000000001, "2.5"), (3.0, "3"), (-2, "−2"), (np.int64(7), "7"), (0.1 + 0.2, "0.3"), (-0.0, "0"),
        (1234567.89, "1234567.89"), (1 / 3, "0.333333"), (1e-9, "1e−09"), (float("inf"), "∞"),
        (True, "True"), (np.bool_(False), "False"), (None, "missing"), (float("nan"), "missing"),
        (pd.NA, "missing"), (pd.NaT, "missing"), ("a\n b\t", "a b"), ("x" * 400, "x" * 299 + "…"),
    ],
)  # fmt: skip
def test_values_read_well(value, text):
    assert shown(value) == text


def test_missing_cells_agree_and_mixed_ones_differ():
    assert not differs(None, float("nan"))
    assert differs(None, 0)
    assert not differs(1, 1.0)
    assert differs("1", 1)
    assert differs([1], [2])

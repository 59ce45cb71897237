"""The report: complete in itself, well-formed, safe with any text, small, and clear about what it shows."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import replace
from functools import cache, cached_property
from html.parser import HTMLParser
from itertools import pairwise
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest

from butfor.cli import main
from butfor.cli.printing import print_population
from butfor.errors import OutputError, SettingError
from butfor.report import charts, page
from butfor.report.groups import impacts
from butfor.report.page import run_lines
from butfor.report.people import People, roster
from butfor.report.public import Public, refuse_other_files, tens
from butfor.report.summary import comparison
from butfor.report.text import differs, short, shown, without_middle
from butfor.result.fresh import LEAST, USUAL, WORDS, Collateral, FreshSeeds
from butfor.result.population import Population
from butfor.result.record import checksum
from butfor.result.run import Agreement, Data, GroupRates, Performance, RecordedStandards, Run
from butfor.result.verdict import Flip, Person, Verdict
from butfor.result.words import RANKINGS, SOLIDITY, STRATEGIES
from butfor.standard.explain import ColumnMove
from butfor.standard.groups import GroupStandard
from butfor.standard.slices import Slice
from conftest import changed

NASTY = [
    "<script>alert(1)</script>",
    "a \"b\" & 'c'",
    "{{ 7 * 7 }}",
    "$\\frac{1}{$",
    "😀 naïve\x00\x1b",
    "</style><b>",
    "x" * 900,
]
RUN = Run(
    butfor="0.1.0",
    versions={"python": "3.11.7"},
    data=Data(table="loans.csv", sha256="ab" * 32, training_rows=600, label="approved"),
    label_names=("bad credit", "good credit"),
    learner={"hidden": [32, 32], "batch_size": None, "seed": 0},
    seeded=True,
    members=1,
    fresh_seeds=0,
    budget=3,
    rank="combined",
    strategy="algorithm1",
    sensitive="sex",
    attributes=("sex",),
    phi="stable_under_switch",
    psi="(same_group & labelled_as_predicted) & correctly_predicted",
    engine="reference",
    retrainings=271,
    confirmations=4,
    command="butfor audit loans.csv --label 'approved' --sensitive sex",
)

SOLID, LEANING = FreshSeeds(59, 58, 1, 57, 0), FreshSeeds(59, 45, 3, 42, 0)
COIN, ODD, IDLE = FreshSeeds(59, 30, 28, 5, 3), FreshSeeds(20, 20, 19, 1, 0), FreshSeeds(59, 20, 0, 20, 0)
OPEN, HALF = FreshSeeds(10, 4, 1, 4, 1), FreshSeeds(59, 29, 0, 29, 0)
CHECKED = replace(RUN, members=16, fresh_seeds=59, seeded=True)
UNSEEDED = "Solid: this model has no seed; the same labels always give the same model"
BLIND = "The model does not see the protected attribute (sex), so switching it cannot change a decision."
PULLS = {"sex": -0.5, "age": 0.25, "ratio": -0.125, "owner": 0.0625, "(bias)": -0.1125}
AGREEMENT = Agreement(spearman=0.617, slope=1.15, flips=12, people=8, poor=False, leader="both")


def values(k: int, columns: int = 4) -> dict[str, Any]:
    """A made-up row of a table with words, whole numbers, fractions, truth values and a protected column."""
    kinds = [("female", "male")[k % 2], 20 + k, k / 3, k % 3 == 0]
    names = ["sex", "age", "ratio", "owner"]
    row = dict(zip(names, kinds, strict=True))
    row |= {f"column {j}": f"value {(j + k) % 5}" if j % 2 else (j * k) % 7 for j in range(4, columns)}
    return dict(list(row.items())[:columns])


def verdict(case: int | None, status: str = "found", *, flips: int = 1, columns: int = 4, **changes: Any) -> Verdict:
    rows = range(case or 0, (case or 0) + flips) if status == "found" else range(0)
    search = {"attempts": 2, "first_size": len(rows), "closest_logit": -0.1, "course": ((1, -0.3), (2, -0.1))}
    made = Person(
        case=case,
        row=1000 + (case or 0),
        group=values(case or 0)["sex"],
        values=values(case or 0, columns),
        logit=-0.4 - (case or 0) / 100,
        flippable=40,
        eligible=status != "not_eligible",
        flip_set=tuple(Flip(r, 5 * r, "bad credit", values(r + 1, columns)) for r in rows),
        counterfactual_logit=0.2 if rows else None,
        **({} if status == "not_eligible" else search),
    )
    return changed(Verdict(made, RUN), **changes)


def population() -> Population:
    people = [verdict(k, ("found", "not_found", "not_eligible")[k % 3], flips=1 + k % 3) for k in range(12)]
    return Population(people, RUN)


def checked(fresh: dict[int, FreshSeeds], **run: Any) -> Population:
    """The same people under fresh seeds: each find with its counts, and everybody eligible with a base."""
    block = replace(CHECKED, **run)
    people = []
    for v in population():
        counts = fresh.get(v.case or 0, SOLID) if v.found else None
        base = None if v.status == "not_eligible" else counts.base if counts else 8 / 59
        people.append(changed(v, fresh=counts, base=base, run=block))
    return Population(people, block)


@cache
def plain_page() -> str:
    return population().to_html()


class Outline(HTMLParser):
    """Checks that tags are balanced, and keeps ids, targets of links, and the visible text."""

    VOID = frozenset({"meta", "br", "link", "img", "hr", "input"})

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.ids: list[str] = []
        self.targets: list[str] = []
        self.words: list[str] = []
        self.code: list[tuple[str, str]] = []
        self.policy = ""
        self.feed(text)
        self.close()
        assert not self.open, self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in ("td", "th", "tr"):
            self.end_cells("td", "th", *(["tr"] if tag == "tr" else []))
        self.handle_startendtag(tag, attrs)
        if tag not in self.VOID:
            self.open.append(tag)

    def end_cells(self, *tags: str) -> None:
        """In lists of people, cells and rows end where the next one begins, as HTML allows."""
        while self.open and self.open[-1] in tags:
            self.open.pop()

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        assert not [name for name in given if name.startswith("on") or name == "style"], given
        self.ids += [given["id"]] if given.get("id") else []
        self.targets += [str(given["href"])[1:]] if "href" in given else []
        if tag == "meta" and given.get("http-equiv"):
            self.policy = str(given["content"])

    def handle_endtag(self, tag: str) -> None:
        if tag in ("tr", "tbody"):
            self.end_cells("td", "th", *(["tr"] if tag == "tbody" else []))
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        inside = self.open[-1] if self.open else ""
        if inside in ("style", "script"):
            self.code.append((inside, data))
        else:
            self.words.append(data)

    @cached_property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


def assert_nothing_else_runs(seen: Outline) -> None:
    """The policy allows nothing from outside, and inside exactly the style and the script that are there."""
    rules = dict(rule.strip().split(" ", 1) for rule in seen.policy.split(";"))
    assert rules["default-src"] == rules["base-uri"] == rules["form-action"] == "'none'"
    assert set(rules) == {"default-src", "style-src", "script-src", "base-uri", "form-action"}
    kinds = [kind for kind, _ in seen.code]
    assert kinds in (["style"], ["style", "script"])
    for kind, text in seen.code:
        known = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert rules[f"{kind}-src"] == f"'sha256-{known}'"


def outline(html: str) -> Outline:
    """The page's outline, after the checks that every page must pass."""
    for outside in ("http:", "https:", "src=", "@import", "<link", "url(http", "javascript:"):
        assert outside not in html.lower(), outside
    seen = Outline(html)
    if seen.policy:
        assert_nothing_else_runs(seen)
    else:
        assert "<script" not in html
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
    assert RUN.command in seen.text
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
    lines = comparison(verdict(36, flips=2))["lines"]
    assert html.count('class="d"') == sum(other for *_, cells in lines for _, other in cells)


@pytest.mark.parametrize(
    ("fresh", "word", "sign", "said"),
    [
        (SOLID, "solid", "●", ["under any seed tried", "Have this label reviewed blind", "hinges on a few labels"]),
        (LEANING, "leaning", "◐", ["What to do next: Say that it is not certain."]),
        (COIN, "seed-bound", "≈", ["next: Do not hold this label responsible", "Treat the decision as unsettled"]),
        (ODD, "seed-bound", "≈", ["the audited model is the odd one out"]),
        (IDLE, "seed-bound", "≈", ["leave most models as they were"]),
        (OPEN, "undecided", "?", [f"try more seeds, --fresh-seeds {OPEN.would_do}", "too few to tell"]),
        (None, "not checked", "◌", ["was not tested under fresh seeds", "next: Run the audit again with --fresh"]),
    ],
)  # fmt: skip
def test_each_word_is_marked_explained_and_followed_by_what_to_do(fresh, word, sign, said):
    who = verdict(1, fresh=fresh, run=CHECKED, collateral=Collateral(199, 26, 0.69, 0.715))
    assert who.solidity == word
    html = who.to_html()
    seen = outline(html).text
    before_the_headline = seen[: seen.index("changes the decision about")]
    assert [w for w in WORDS if f"{SOLIDITY[w].sign} {w}" in before_the_headline] == [word]
    assert f"{sign} {word}" in before_the_headline
    assert f'<a class="badge {word.replace(" ", "-")}" href="#chance">' in html
    assert "These flips change 26 of 199 other test decisions; test accuracy 69.0 % → 71.5 %." in seen
    assert (word == "solid") == ("the decision hinges on this label under any seed tried" in seen)
    assert (word in ("solid", "leaning", "not checked")) == ("reviewed blind (training" in seen)
    for words in said:
        assert words in seen
    if fresh:
        assert fresh.sentence in seen
    if word != "solid":
        assert f"{SOLIDITY[word].title}: {SOLIDITY[word].meaning}" in seen


def test_what_the_words_say_of_numbers_is_what_they_stand_for():
    assert (USUAL, FreshSeeds(59, 58, 0, 58, 0).word, FreshSeeds(59, 57, 0, 57, 0).word) == (59, "solid", "leaning")
    few = LEAST
    assert FreshSeeds(few, few, 0, few, 0).word == "solid"
    assert FreshSeeds(few - 1, few - 1, 0, few - 1, 0).word != "solid"
    assert f"which takes {few} seeds at least" in outline(verdict(1, fresh=FreshSeeds(10, 10, 0, 10, 0)).to_html()).text
    assert tuple(SOLIDITY) == WORDS


def test_hold_base_and_effect_stand_beside_the_marks_with_their_intervals():
    seen = outline(verdict(1, fresh=LEANING).to_html()).text
    assert "Hold: with the flips 76 % 63 to 86 % Base: without any 5 % 1 to 14 %" in seen
    assert "Effect: the difference 71 points 59 to 81 points" in seen
    assert "3 points −7 to 14 points" in outline(verdict(1, fresh=COIN).to_html()).text


def test_undecided_where_no_number_of_seeds_would_tell_is_for_a_human():
    assert (HALF.word, HALF.would_do) == ("undecided", None)
    seen = outline(verdict(1, fresh=HALF).to_html()).text
    assert "no reasonable number of seeds would tell" in seen
    assert "try more seeds" not in seen


@pytest.mark.parametrize("status", ["found", "not_found"])
def test_a_close_call_is_marked_with_or_without_a_find(status):
    counts = {"fresh": FreshSeeds(59, 59, 9, 50, 0)} if status == "found" else {}
    close = verdict(1, status, base=9 / 59, run=CHECKED, **counts)
    html = close.to_html()
    assert '<a class="badge close-call" href="#chance">' in html
    seen = outline(html).text
    assert "9 of 59 fresh seeds decide differently on the unchanged data (15 %, 95 % interval 7 to 27 %)" in seen
    assert "Have a person look at this close call" in seen
    assert "⇄ close call" in outline(close._repr_html_()).text
    assert outline(Population([close], CHECKED).to_html()).text.count("⇄ close call") == 2
    settled = outline(verdict(1, status, base=1 / 59, run=CHECKED).to_html()).text
    assert "⇄ close call" not in settled
    assert ("This is no close call." in settled) == (status == "not_found")


def test_the_audited_mean_is_named_near_the_top():
    mean = "the mean of 16 trainings that differ in the seed alone"
    for thing in (verdict(1, run=CHECKED, fresh=SOLID), checked({})):
        seen = outline(thing.to_html()).text
        assert mean in seen[: seen.index("Is sex an input" if isinstance(thing, Population) else "beside the flipped")]
    assert f"this ensemble of seeds ({mean}) gives the other" in outline(verdict(1, run=CHECKED).to_html()).text
    assert "the mean of" not in outline(verdict(1, run=replace(RUN, members=1)).to_html()).text


def test_a_learner_without_seed_noise_is_solid_and_not_sent_to_fresh_seeds():
    run = replace(RUN, seeded=False)
    for status in ("found", "not_found"):
        seen = outline(verdict(1, status, run=run).to_html()).text
        assert seen.count(UNSEEDED) == seen.count("● solid") == (status == "found")
        for advice in ("--fresh-seeds", "other seeds", "this seed", "not checked"):
            assert advice not in seen
        assert "the keystones" in seen
    for people in (population(), [verdict(1, "not_found")]):
        seen = outline(Population([changed(v, run=run) for v in people], run).to_html()).text
        assert seen.count(UNSEEDED) == 1
        for advice in ("--fresh-seeds", "other seeds", "this seed", "any seed", "Not checked"):
            assert advice not in seen


def test_a_model_that_does_not_see_the_protected_attribute_is_said_to_be_blind_once():
    for run, times in ((replace(RUN, blind=True), 1), (replace(RUN, blind=False), 0), (RUN, 0)):
        people = Population([changed(v, run=run) for v in population()], run)
        for one in people[:3]:
            assert outline(one.to_html()).text.count(BLIND) == times
        assert outline(people.to_html()).text.count("No. The model does not see sex") == times


def test_pages_speak_of_a_model_and_of_networks_only_where_they_are_meant():
    counts = [{"fresh": c} for c in (COIN, ODD, LEANING, SOLID)]
    people = [verdict(k, **given) for k, given in enumerate([*counts, {"shared": True}, {"minimal": True}])]
    people += [verdict(6, "not_found"), verdict(7, "not_eligible"), verdict(8, "not_found", attempts=0)]
    run = replace(RUN, rank="distance", phi="predicted('bad credit')")
    people = [changed(v, run=run, rank="distance") for v in people]
    for thing in (*people, Population(people, run), Population(people[4:], run)):
        seen = outline(thing.to_html()).text
        assert "network" not in seen
        assert "model" in seen
    assert not [text for text in STRATEGIES.values() if "network" in text]
    named = {name for name, text in RANKINGS.items() if "network" in text}
    assert named == {"guided", "combined", "activation"}


@pytest.mark.parametrize(
    ("figures", "heading"),
    [
        (AGREEMENT, "Was the gradient right?"),
        (replace(AGREEMENT, gains={"both": 0.1, "gradient": 0.2, "published": 0.1}), "Was the gradient right?"),
        (
            replace(AGREEMENT, gains={"both": 0.1, "influence": 0.2}, leader="influence"),
            "Were predictions right?",
        ),
        (
            replace(AGREEMENT, spearman=None, slope=None, gains={"both": 0.1, "leaves": 0.2}, leader="leaves"),
            "What led the search?",
        ),
    ],
)
def test_only_a_model_with_a_gradient_is_asked_about_it(figures, heading):
    seen = outline(verdict(1, run=replace(RUN, agreement=figures)).to_html()).text
    for one in ("Was the gradient right?", "Were predictions right?", "What led the search?"):
        assert (one in seen) == (one == heading)


def test_shrinking_and_the_gradients_test_are_told():
    given = {"minimal": True, "first_size": 7, "run": replace(RUN, agreement=AGREEMENT)}
    seen = outline(verdict(1, flips=2, **given).to_html()).text
    assert "shrunk from 7 flips to 2; no flip can be left out" in seen
    assert "agree fairly: rank correlation +0.62 (1 is best)" in seen
    assert "(12 flips retrained, 8 people)" in seen
    assert "the gradient and the published ranking together moved decisions furthest and led the search" in seen
    rough = replace(AGREEMENT, poor=True, leader="published")
    single = outline(verdict(1, minimal=True, run=replace(RUN, agreement=rough)).to_html()).text
    assert "agree poorly" in single
    assert "the published ranking alone moved decisions furthest" in single


def test_a_population_counts_and_marks_every_word():
    people = checked({0: COIN, 3: LEANING, 6: OPEN})
    html = people.to_html()
    seen = outline(html).text
    assert people.sentence in seen
    assert "● 1 solid, ◐ 1 leaning, ≈ 1 seed-bound, ? 1 undecided, ⇄ 5 close calls, found or not." in seen
    assert '<a class="badge seed-bound" href="#chance">' in html
    for word, words in SOLIDITY.items():
        assert words.meaning[1:] in seen
        assert (word == "not checked") == (f"{word.capitalize()} (1 here)" not in seen)
    for counts in (COIN, LEANING, OPEN, SOLID):
        assert counts.sentence in seen
    for name, group in people.by_group.iterrows():
        counts = f"{group['people']:.0f} {group['eligible']:.0f} {group['solid']:.0f} of {group['eligible']:.0f}"
        assert f"sex = {name} {counts} {group['close_calls']:.0f}" in seen, "no shares of fewer than ten people"
    assert people.warnings
    assert all(warning in seen for warning in people.warnings)
    table = Outline(html[html.index('<table class="people">') : html.index("</noscript>")]).text
    assert "◆ found ● solid 1 " in table
    assert "◆ found ⇄ close call, ≈ seed-bound " in table


def test_a_population_without_fresh_seeds_or_without_finds():
    seen = outline(plain_page())
    assert "Whether it holds under other seeds was not checked" in seen.text
    assert "under any seed tried, by" not in seen.text
    some = Population([changed(v, fresh=SOLID if v.case == 0 else None, run=CHECKED) for v in population()], CHECKED)
    told = outline(some.to_html()).text
    assert "were not tested under fresh seeds" in told
    assert "Not every find was tested under 59 fresh seeds" in told
    none = outline(Population([verdict(1, "not_found", run=CHECKED)], CHECKED).to_html()).text
    assert "nothing to test under fresh seeds" in none


def decided(counts: dict[str, tuple[int, int]], **run: Any) -> Population:
    """People of groups, so many of them, so many decided 'good credit'."""
    people = []
    for group, (size, good) in counts.items():
        for k in range(size):
            logit = 0.4 if k < good else -0.4
            people.append(changed(verdict(len(people), "not_found", logit=logit), group=group))
    return Population(people, replace(RUN, adverse=("bad credit",), **run))


def test_impact_ratios_by_attribute_and_combination_with_the_four_fifths_line():
    counts = {
        "f · old": (40, 10),
        "f · young": (50, 30),
        "m · old": (60, 45),
        "m · missing": (47, 40),
        "x · old": (3, 3),
    }
    several = {
        "sensitive": "sex × age",
        "attributes": ("sex", "age"),
        "groups": {g: tuple(g.split(" · ")) for g in counts},
    }
    found = {(each.attribute, each.group): each for each in impacts(decided(counts, **several))}
    assert [each for each in found if each[0] == "sex"] == [("sex", "f"), ("sex", "m"), ("sex", "x")]
    women, men = found["sex", "f"], found["sex", "m"]
    assert (women.people, women.rate) == (90, pytest.approx(40 / 90))
    assert women.ratio == pytest.approx((40 / 90) / (85 / 107))
    assert (women.remark, men.remark, men.ratio) == ("below four fifths", "", 1.0)
    assert found["sex", "x"].remark == "under 2 % of the people", "and it sets no standard"
    assert found["age", "missing"].remark == "unknown"
    assert found["age", "missing"].ratio is None
    assert found["sex × age", "f · old"].ratio == pytest.approx(0.25 / (40 / 47))
    rates = [GroupRates(g, n, None, 1 - k / n, 0.1, None, None) for g, (n, k) in {"f": (50, 20), "m": (50, 40)}.items()]
    known = Performance(100, 0.9, 0.5, "good credit", "sex", tuple(rates))
    run = replace(RUN, adverse=("good credit",), performance=known)
    known = impacts(Population([verdict(0)], run))
    assert [each.rate for each in known] == pytest.approx([0.4, 0.8]), "of the decision that is not adverse"


def test_names_that_hold_our_separators_make_up_no_group(tmp_path):
    rows = 120
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"sex × age": rng.choice(["f · x", "m"], rows), "region": rng.choice(["n", "s"], rows)})
    table["income"] = rng.normal(size=rows)
    table["granted"] = np.where(table["income"] + rng.normal(size=rows) > 0, "yes", "no")
    table.to_csv(tmp_path / "t.csv", index=False)
    for sensitive in ("sex × age", "sex × age,region"):
        out = tmp_path / sensitive
        options = ["--label", "granted", "--adverse", "no", "--sensitive", sensitive, "--model", "logistic", "--quiet"]
        assert main(["audit", str(tmp_path / "t.csv"), *options, "--cases", "0:9", "--out", str(out)]) == 0
        found = impacts(Population.from_json(out / "audit.json"))
        assert {each.group for each in found if each.attribute == "sex × age"} == {"f · x", "m"}
        assert {each.group for each in found if each.attribute == "region"} == (
            {"n", "s"} if "," in sensitive else set()
        )


def test_the_examiners_part_says_scope_ratios_governance_and_what_was_not_examined():
    people = decided({"f": (40, 10), "m": (60, 45)})
    seen = outline(people.to_html()).text
    part = seen[seen.index("For an examiner") :]
    for said in ("loans.csv", "100 examined", "Impact ratio of sex = f: 0.33, below four fifths.", "Labelling",
                 "Not examined", "must not be given to a person as one", "Examined by", "python 3.11.7", "ab" * 32,
                 checksum(people.to_dict())):  # fmt: skip
        assert said in part, said
    first = seen[: seen.index("How the model decides about each group")]
    assert "no reason that may be given to a person" in first
    assert "What to do next?" in first


def test_a_person_reads_what_was_decided_and_on_what_it_hinges():
    heads = {
        "found": "The model decides 'bad credit' about person 36. If 2 of the 600 labels it learned from were the "
        "other way, it would decide 'good credit'.",
        "not_found": "No change of up to 3 of the 600 labels it learned from was found that changes it.",
    }
    for status, said in heads.items():
        html = verdict(36, status, flips=2).to_html()
        assert said in outline(html[html.index("<h1>") : html.index("</h1>")] + "</h1>").text.replace("\u2019", "'")


def test_keystones_are_ranked_only_where_people_share_one():
    alone = outline(checked({}).to_html()).text
    assert "None: no training row is in the flip sets of two people" in alone
    people = [verdict(k, flips=2, fresh=fresh, run=CHECKED) for k, fresh in ((0, SOLID), (1, COIN))]
    seen = outline(Population(people, CHECKED).to_html()).text
    assert "Training row People Who" in seen
    assert "5 2 0 , 1 bad credit → good credit" in seen


def test_incomplete_and_interrupted_are_flagged():
    assert "Incomplete." in outline(verdict(1, "not_found", complete=False).to_html()).text
    assert "Incomplete." not in outline(verdict(1, "not_found").to_html()).text
    assert "Interrupted." in outline(population().with_run(interrupted=True).to_html()).text
    assert "Interrupted." not in outline(plain_page()).text


def listed(people) -> str:
    """The rows of the list of people."""
    return roster(People(Population(people, RUN), [f"#{k}" for k in range(len(people))]))["rows"]


def test_the_list_of_people_marks_searches_that_were_stopped():
    people = [verdict(k, "not_found", complete=complete) for k, complete in enumerate((False, True))]
    stopped, through = listed(people).split("\n")
    assert "not found, ⚠ incomplete" in stopped
    assert "not found" in through
    assert "incomplete" not in through


def test_a_search_that_could_not_start_says_so():
    who = verdict(1, "not_found", attempts=0, course=(), closest_logit=None, flippable=0)
    assert f"No flip set was tried: {who.reason}" in outline(who.to_html()).text


def test_a_population_page_has_its_parts_and_links_to_everyone():
    people = population()
    seen = outline(plain_page())
    assert people.sentence in seen.text
    parts = {
        "answer",
        "groups",
        "chance",
        "budget",
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
    assert "Claim no difference between groups from these shares" in seen.text


@pytest.mark.parametrize("people", [[], [verdict(None), verdict(None)], [verdict(0, "not_eligible")]])
def test_odd_populations_have_pages(people):
    outline(Population(people, RUN).to_html())


@pytest.mark.parametrize("nasty", NASTY)
def test_text_from_tables_is_escaped(nasty):
    base = verdict(1, flips=2)
    names = {"command": nasty, "label_names": (nasty, f"{nasty} "), "phi": nasty}
    odd = {
        "person": pd.Series(base.values).rename({"age": nasty}).replace("male", nasty),
        "group": nasty,
        "row": nasty,
        "pulls": {"sex": 0.5, nasty: -0.2, "(bias)": 0.1},
        "run": replace(RUN, **names, sensitive=nasty, blind=True),
    }
    statuses = ("found", "not_found", "not_eligible")
    everyone = [changed(verdict(k, status, flips=2), **odd) for k, status in enumerate(statuses, start=1)]
    values = [{nasty if c == "age" else c: v for c, v in flip.values.items()} for flip in base.flip_set]
    flips = tuple(Flip(k, nasty, nasty, each) for k, each in enumerate(values))
    everyone[0] = who = changed(everyone[0], flip_set=flips)
    for html in (who.to_html(), Population(everyone, RUN).to_html(), page.person_fragment(who)):
        assert short(nasty, 20).rstrip("…") in outline(html).text


@pytest.mark.parametrize(("columns", "flips"), [(20, 1), (60, 28)])
def test_many_people_stay_small(columns, flips):
    beliefs = {"fresh": COIN, "collateral": Collateral(199, 9), "first_size": 40, "minimal": True}
    one = verdict(1, flips=flips, columns=columns, **beliefs)
    people = Population([changed(one, case=k) for k in range(100)], RUN)
    html = people.to_html()
    assert len(html.encode()) < 1_150_000
    seen = outline(html)
    assert all(v.sentence in seen.text for v in people)
    assert ("not shown here; audit.json has all of them" in seen.text) == (columns == 60)


def test_both_schemes_and_print_are_styled():
    for html in (verdict(1).to_html(), plain_page(), verdict(1)._repr_html_()):
        assert "prefers-color-scheme:dark" in html
        assert "@media print" in html
        assert not re.search(r"(?:fill|stroke)[:=]\"?#", html), (
            "a chart with a fixed colour is illegible on one of the grounds"
        )


def test_the_notebook_fragment_is_no_document():
    html = verdict(1)._repr_html_()
    assert "<html" not in html
    assert len(html) < 8_000
    assert verdict(1).sentence in outline(html).text
    bound = outline(verdict(1, fresh=COIN)._repr_html_()).text
    assert "≈ seed-bound" in bound
    assert COIN.sentence in bound
    assert "Do not hold this label responsible" in bound


@pytest.mark.parametrize("status", ["found", "not_found", "not_eligible"])
def test_a_person_page_shows_what_pulls_and_a_page_about_many_does_not(status):
    who = verdict(1, status, pulls=PULLS)
    html = who.to_html()
    section = html[html.index('<div id="logit">') :]
    section = section[: section.index("</details>")]
    seen = Outline(section).text
    assert "sex male −0.50 age 21 +0.25 ratio 0.333333 −0.12 (bias) −0.11 owner False +0.06" in seen
    assert "the linear function that it is, exactly, around this person" in seen
    assert "This says what the model looks at, not which labels matter." in seen
    outline(html)
    for without in (changed(who, pulls=None).to_html(), Population([who], RUN).to_html(), who._repr_html_()):
        assert "which way" not in outline(without).text
        assert "ReLU" not in without


def test_a_record_keeps_what_pulls_on_its_page():
    who = verdict(1, pulls=PULLS, run=CHECKED)
    assert Verdict.from_json(who.to_json()).to_html() == who.to_html()


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


# --- many people ------------------------------------------------------------------------------------


def test_beyond_a_few_hundred_people_everyone_has_a_file(tmp_path, monkeypatch):
    monkeypatch.setattr(page, "MOST_IN_ONE", 3)
    people, path = checked({0: COIN}), tmp_path / "my report.html"
    assert people.to_html(path) == path
    index = Outline(path.read_text(encoding="utf-8"))
    folder = tmp_path / "my report-people"
    names = {f"case-{k}.html" for k in range(12)}
    assert {file.name for file in folder.iterdir()} == names
    assert {f"y%20report-people/{name}" for name in names} <= set(index.targets)
    for v in people:
        text = (folder / f"case-{v.case}.html").read_text(encoding="utf-8")
        assert "https:" not in text
        seen = Outline(text)
        assert v.sentence in seen.text
        assert "./my%20report.html#people" in seen.targets
        assert_nothing_else_runs(seen)
    (folder / "notes.txt").write_text("mine")
    monkeypatch.setattr(page, "MOST_IN_ONE", 300)
    people.to_html(path)
    assert [file.name for file in folder.iterdir()] == ["notes.txt"], "people's files go, what is not ours stays"
    assert not list(tmp_path.glob(".*")), "nothing half-written is left"


def test_a_file_is_there_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "report.html"
    path.write_text("as it was")
    monkeypatch.setattr("butfor.files.os.replace", lambda draft, place: (_ for _ in ()).throw(OSError("full")))
    with pytest.raises(OutputError, match="full"):
        verdict(1).to_html(path)
    assert path.read_text() == "as it was"
    assert list(tmp_path.iterdir()) == [path]


# --- pictures ---------------------------------------------------------------------------------------


def test_logits_over_seeds_are_two_rows_of_dots_kept_in_the_record():
    without, with_ = np.array([-1.0, -0.5, 0.25, np.nan]), np.array([0.5, 1.0, 900.0, 0.75])
    fresh = FreshSeeds.of(without > 0, with_ > 0, (without, with_))
    assert fresh.logits == ((-1.0, -0.5, 0.25, None), (0.5, 1.0, 900.0, 0.75))
    who = verdict(1, fresh=fresh, base=fresh.base)
    drawn = charts.seed_logits(who)
    marks = [
        [float(x) for x in re.findall(r"M([\d.-]+)", path)] for path in re.findall(r'<path d="(.*?)"', drawn.svg())
    ]
    assert [len(row) for row in marks] == [3, 4]
    assert all(8 <= x <= 606 for row in marks for x in row)
    seen = outline(who.to_html()).text
    assert "With the flips: median +0.88" in seen
    assert "1 diverged training without a mark." in seen
    assert charts.seed_logits(verdict(1, fresh=SOLID)) is None
    assert "a dot without any flip" not in outline(verdict(1, fresh=SOLID).to_html()).text


def test_a_page_of_few_seeds_says_so_and_not_that_nothing_was_checked():
    text = outline(checked(dict.fromkeys(range(200), OPEN), fresh_seeds=10).to_html()).text
    assert "With fewer than 29 seeds no find can be called solid." in text
    assert "10 fresh seeds are too few to call one solid (29 at least)" in text
    assert "was put to fresh seeds, so it is not known" not in text


def test_a_search_that_was_stopped_before_it_found_anything_claims_nothing():
    nothing = [verdict(k, "not_found", complete=False) for k in range(3)]
    people = Population(nothing, RUN)
    assert people.sentence == "The search for 3 of 3 audited people was stopped before it found anything."


def test_people_whose_search_was_stopped_may_have_been_found(tmp_path):
    through = [verdict(k, "not_found", run=CHECKED) for k in range(12)]
    stopped = [changed(v, complete=False) for v in through]
    for people, open_ in ((through, False), (stopped, True)):
        asked = Population(people, CHECKED)
        assert (asked.by_group["solid_low"] == 0).all()
        for high in (asked.by_group["high"], asked.by_group["solid_high"], asked.distance_curve()["high"]):
            assert ((high > 0.99) == open_).all()
    halted = Population(stopped, replace(CHECKED, out_of_time=True))
    text = outline(halted.to_html()).text
    assert "the time allowed was up" in text
    assert halted.by_group["close_calls"].isna().all(), "nobody was put to fresh seeds"
    Public(halted).write(tmp_path)
    assert "stopped early" in outline((tmp_path / "report.html").read_text(encoding="utf-8")).text


def test_a_population_of_nobody_can_be_written(tmp_path):
    nobody = Population([], RUN)
    assert nobody.to_frame().empty
    Public(nobody).write(tmp_path)
    assert Public(nobody).to_dict()["by_group"] == []


def test_long_names_of_groups_are_told_apart():
    long = "Native Hawaiian or Other Pacific Islander"
    groups = (f"{long} · female", f"{long} · male", "White")
    for longest in (18, 26, 40):
        assert len({without_middle(group, longest) for group in groups}) == len(groups)
        assert max(len(without_middle(group, longest)) for group in groups) <= longest
    people = [changed(verdict(k), group=groups[k % 2]) for k in range(4)]
    assert len(set(re.findall(r"Native[^<]*", listed(people)))) == 2


def test_flipped_rows_can_be_read_back_whatever_the_ids():
    ids = ["Anna 173 Smith", "Bo"]
    flips = [replace(flip, row=name) for flip, name in zip(verdict(0, flips=2).flip_set, ids, strict=True)]
    frame = Population([changed(verdict(0, flips=2), flip_set=tuple(flips)), verdict(1, flips=2)], RUN).to_frame()
    assert json.loads(frame["flipped_rows"][0]) == ids
    assert frame["flipped_rows"][1] == "5 10"


def test_one_label_alone_is_nothing_to_be_proven():
    one = verdict(0, at_least=1, proof="one label is the fewest")
    assert Population([one], RUN).proven == ""
    two = verdict(1, flips=2, at_least=2, proof="enumeration")
    assert Population([one, two], RUN).proven.startswith("Proven: 2 of the sets found are minimal")


def test_one_person_is_spoken_of_as_one():
    alone = Population([verdict(0, "not_found")], replace(RUN, seeded=False))
    assert alone.sentence.startswith("No find for 1 audited person, ")
    alone = Population([verdict(0, "not_eligible")], RUN)
    assert alone.sentence.startswith("Audited: 0 of 1 person; the rule φ")
    unchecked = Population([verdict(0, "found", fresh=None)], replace(RUN, fresh_seeds=0))
    assert unchecked.sentence.startswith("1 of 1 audited decisions hinges on at most 3 of 600")


def test_a_group_called_everyone_stands_beside_everyone():
    people = Population([changed(v, group="everyone") if k % 2 else v for k, v in enumerate(population())], RUN)
    curve = people.distance_curve()
    assert curve["group"].iloc[0] == "everyone"
    assert not curve.duplicated(["group", "labels"]).any()
    assert "everyone (group)" in set(curve["group"])


def test_a_page_about_nobody_eligible_says_that_nobody_was_searched_for():
    text = outline(Population([verdict(k, "not_eligible") for k in range(3)], RUN).to_html()).text
    assert "Audit other people" in text
    assert "Audited: 0 of 3 people" in text
    assert "flip sets tried" not in text
    assert repr(Population([], RUN)) == "Nobody was examined."


# --- what may be handed over ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def loans(tmp_path_factory):
    """A table whose values are told apart from anything else that a file may hold."""
    folder = tmp_path_factory.mktemp("loans")
    rng = np.random.default_rng(0)
    rows = 260
    income = rng.normal(70_000, 9_000, rows).round(2) + 0.013
    frame = pd.DataFrame({
        "income": income, "town": [f"Town-{k:05d}x" for k in rng.integers(0, 12, rows)],
        "sex": rng.choice(["women", "men"], rows), "note": [f"note {k:06d} kept" for k in range(rows)],
        "number": [f"APP-{k:05d}" for k in range(rows)],
        "approved": np.where(income + rng.normal(0, 9_000, rows) > 70_000, "granted", "refused"),
    })  # fmt: skip
    frame.to_csv(folder / "loans.csv", index=False)
    return folder / "loans.csv", frame


AUDIT = ["--label", "approved", "--sensitive", "sex", "--id", "number", "--set", "keep=note", "--model", "logistic"]


def texts_in(folder):
    return {file.name: file.read_text(encoding="utf-8") for file in folder.rglob("*") if file.is_file()}


def told_of(texts, names):
    return [(file, value) for file, text in texts.items() for value in names if value in text]


def test_what_is_handed_over_holds_no_raw_value(loans, tmp_path, capsys):
    path, frame = loans
    out = tmp_path / "out"
    asked = ["audit", str(path), *AUDIT, "--budget", "3", "--out", str(out), "--quiet", "--public"]
    assert main(asked) == 0
    texts = texts_in(out) | {"printed": capsys.readouterr().out}
    for column in ("income", "town", "note", "number"):
        assert told_of(texts, set(map(str, frame[column]))) == [], column
    assert told_of(texts, [str(path), path.name, "logit"]) == []
    assert set(texts) == {"printed", "audit.json", "report.html"}
    outline(texts["report.html"])
    record = json.loads(texts["audit.json"])
    assert "people" not in record
    counts = [v for row in record["by_group"] for v in row.values() if isinstance(v, int)]
    assert counts
    assert min(counts) >= 10
    assert not [count for count in counts if count % 10]
    for again in (["replay", str(out / "audit.json")], ["gate", str(out / "audit.json"), "--max-solid", "5%"]):
        assert main(again) == 2
        assert "was written with --public: it has nothing to train, review or gate with." in capsys.readouterr().err
    assert main(asked) == 2
    assert "which may say more; name another folder" in capsys.readouterr().err


def commands_in(page):
    return re.sub("</?span>", "", page.read_text(encoding="utf-8"))


def test_a_record_travels_with_its_table(loans, tmp_path, capsys):
    path, frame = loans
    out, moved = tmp_path / "out", tmp_path / "moved" / "table.csv"
    moved.parent.mkdir()
    there = tmp_path / "here.csv"
    there.write_bytes(path.read_bytes())
    assert main(["audit", str(there), *AUDIT, "--budget", "3", "--cases", "0:12", "--out", str(out), "--quiet"]) == 0
    assert "butfor replay audit.json --data other/place/here.csv" in commands_in(out / "report.html")
    there.rename(moved)
    capsys.readouterr()
    record = str(out / "audit.json")
    assert main(["replay", record]) == 2
    assert main(["replay", record, "--data", str(moved)]) == 0
    assert "counterfactual datasets agree" in capsys.readouterr().out
    frame.assign(income=frame["income"] + 1).to_csv(moved, index=False)
    assert main(["replay", record, "--data", str(moved)]) == 2
    assert "is not the table of the record" in capsys.readouterr().err


def test_a_record_travels_with_its_other_files_too(loans, tmp_path, capsys):
    path, frame = loans
    out, moved = tmp_path / "out", tmp_path / "moved"
    moved.mkdir()
    train, people = tmp_path / "train.csv", tmp_path / "people.csv"
    frame[:200].to_csv(train, index=False)
    frame[200:].to_csv(people, index=False)
    asked = ["audit", str(train), "--test", str(people), *AUDIT, "--budget", "3", "--cases", "0:6"]
    assert main([*asked, "--out", str(out), "--quiet"]) == 0
    record = str(out / "audit.json")
    assert "--data other/place/train.csv --test other/place/people.csv" in commands_in(out / "report.html")
    train.rename(moved / "train.csv")
    people.rename(moved / "people.csv")
    there = ["--data", str(moved / "train.csv")]
    assert main(["replay", record, *there]) == 2
    assert main(["replay", record, *there, "--test", str(moved / "people.csv")]) == 0
    frame[200:].assign(income=1.0).to_csv(moved / "people.csv", index=False)
    capsys.readouterr()
    assert main(["replay", record, *there, "--test", str(moved / "people.csv")]) == 1
    assert "values.income is" in capsys.readouterr().out
    assert main(["replay", record, *there, "--validation", str(path)]) == 2
    assert "the record names no validation file; leave out --validation." in capsys.readouterr().err


def test_settings_of_a_fuller_audit_are_not_left_beside_what_is_handed_over(tmp_path):
    (tmp_path / "audit.toml").write_text('table = "secret/place.csv"\n', encoding="utf-8")
    with pytest.raises(SettingError, match=r"audit\.toml"):
        refuse_other_files(tmp_path)


def test_audits_verdicts_and_populations_have_a_notebook_form_and_a_frame(loans):
    from sklearn.linear_model import LogisticRegression

    import butfor

    _, frame = loans
    X, y = frame[["income", "sex"]], frame["approved"]
    audit = butfor.LabelAudit(LogisticRegression(), budget=3)
    audit.fit(X, y, sensitive_features="sex")
    people = audit.explain_all(X.iloc[:6])
    for thing in (audit, people, people[0]):
        html = thing._repr_html_()
        assert "<html" not in html
        outline(html)
    assert audit._repr_mimebundle_()["text/html"] == audit._repr_html_()
    assert "model_" in dir(audit)
    assert len(people.to_frame()) == 6
    for v in people:
        beside = v.to_frame()
        assert list(beside.iloc[:, 0].dropna()) == list(v.values.values())
        assert beside.shape[1] == 1 + len(v.positions)
    odd = pd.Series(people[0].values).rename({"income": "<b>"})
    nasty = changed(people[0], group="<script>alert(1)</script>", person=odd)
    assert "<script" not in Population([nasty], people.run)._repr_html_()


def test_a_headline_keeps_its_percentages_on_one_line():
    html = plain_page()
    headline = html[html.index("<h1>") : html.index("</h1>")]
    assert "(0.5\N{NO-BREAK SPACE}%)" in headline
    assert " %" not in headline


def texts_of(drawing: charts.Drawing) -> list[tuple[str, float]]:
    """Each text of a chart and its height."""
    found = re.findall(r'<text [^>]*y="([\d.-]+)"[^>]*>(.*?)</text>', drawing.svg())
    return [(text, float(y)) for y, text in found]


def test_the_curve_of_distances_has_a_line_per_group():
    people = checked({0: COIN})
    drawn = charts.distance_curve(people)
    assert {name.split()[0] for name, _ in texts_of(drawn) if name.endswith("%")} >= {"everyone", "female", "male"}
    assert drawn.svg().count('stroke-width="2"') == people.distance_curve()["group"].nunique() == 3
    seen = outline(people.to_html())
    assert "How many labels does it take?" in seen.text
    assert "Share of decisions that up to 3 labels change: everyone" in seen.text
    many = Population([changed(verdict(k), group=f"group {k}") for k in range(9)], RUN)
    heights = sorted(y for name, y in texts_of(charts.distance_curve(many)) if name.startswith(("group", "everyone")))
    assert len(heights) == 1 + charts.MOST_CURVES
    assert min(b - a for a, b in pairwise(heights)) > 13
    single = Population([changed(v, budget=1) for v in people], replace(CHECKED, budget=1))
    never = Population([verdict(k, "not_found") for k in range(4)], RUN)
    for nothing in (single, never):
        assert charts.distance_curve(nothing) is None
        assert "No curve to draw: labels were found for" in outline(nothing.to_html()).text


def test_proofs_stand_beside_the_curve():
    people = [changed(v, at_least=(1 if v.found else 9) if v.eligible else None) for v in checked({})]
    proven = Population(people, CHECKED)
    assert proven.proven
    assert proven.proven in outline(proven.to_html()).text


def test_a_plot_is_the_pages_chart_which_notebooks_show_and_files_hold(tmp_path):
    fresh = FreshSeeds.of(np.array([False]), np.array([True]), (np.array([-0.5]), np.array([0.5])))
    for thing in (verdict(1, fresh=fresh), population()):
        drawing = thing.plot()
        assert drawing.svg() in thing.to_html()
        text = drawing.to_svg(tmp_path / "chart.svg").read_text(encoding="utf-8")
        assert drawing._repr_svg_() == text
        ElementTree.fromstring(text)
        assert "var(" not in text
    for empty in (verdict(1), Population([], RUN)):
        with pytest.raises(SettingError, match="nothing to draw"):
            empty.plot()


def test_the_run_block_is_flat_and_leaves_out_what_is_empty():
    run = {"learner": {"hidden": [32, 32], "seed": None}, "steps": [["a", {"b": 1}]], "none": [], "towards": None}
    assert run_lines(run) == [
        ("steps", '[["a", {"b": 1}]]'), ("learner.hidden", "32, 32"), ("learner.seed", "none"),
    ]  # fmt: skip
    lines = dict(run_lines(RUN))
    assert lines["data.training_rows"] == "600"
    assert "data.test" not in lines


def test_in_public_counts_are_tens_and_nothing_is_under_ten():
    assert [tens(k) for k in (0, 9, 10, 14, 16, 250)] == [None, None, 10, 10, 20, 250]
    people = [
        changed(verdict(k, ("found", "not_found")[k % 3 > 0]), group="few" if k < 5 else "many") for k in range(68)
    ]
    handed = Public(Population(people, replace(RUN, seeded=False)))
    assert [row["group"] for row in handed.to_dict()["by_group"]] == ["many"], "groups under ten are left out"
    assert handed.to_dict()["by_group"][0]["people"] == 60
    assert handed.sentence.startswith("About 20 of about 70 audited decisions hinge on at most 3 of 600")
    none = Public(Population([verdict(k, "not_found") for k in range(20)], replace(RUN, seeded=False)))
    assert none.sentence.startswith("Fewer than ten of ")


def test_without_a_column_the_gap_is_larger_on_the_right_also_for_a_group_that_is_ahead():
    def place(move, difference):
        drawing = charts.column_moves([ColumnMove("sex", "a", "income", move, 0.001)], difference)
        mark = re.search(r'<path d="M([0-9.]+)', drawing.svg())
        return float(mark[1])

    assert place(0.03, 0.06) == pytest.approx(place(-0.03, -0.06))
    assert place(-0.03, 0.06) == pytest.approx(place(0.03, -0.06))
    assert place(-0.03, 0.06) < place(0.03, 0.06)


def test_an_audit_says_where_a_group_falls_short(capsys):
    b = GroupStandard("group", "b", 400, 0.5, 0.6, 0.1, interval=(0.05, 0.15), p=0.001, p_adjusted=0.001)
    figures = {"rows": 90, "recorded": 0.4, "expected": 0.7, "difference": 0.3, "low": 0.2, "high": 0.4}
    south = Slice("group", "b", "office", "<b>south</b>", **figures, elsewhere=0.04, excess=0.2, z=4, share=0.7)
    found = RecordedStandards("group", "no", "yes", "a model", 99, (), (b,), parts=(replace(south, called=True),))

    def printed(standard: RecordedStandards) -> str:
        print_population(Population([verdict(0)], replace(RUN, standard=standard)), None)
        return capsys.readouterr().out

    sentence = "Where office = <b>south</b>, the gap of group = b is 30 points, 26 more than elsewhere; over half of"
    html = page.population_page(Population([verdict(0)], replace(RUN, standard=found))).replace("\xa0", " ")
    assert sentence.replace("<", "&lt;").replace(">", "&gt;") in html
    assert "more than chance" in html
    assert "<b>south" not in html
    assert "70 %</td>" in html
    everywhere = page.population_page(
        Population([verdict(0)], replace(RUN, standard=replace(found, parts=(replace(south, share=1.0, called=True),))))
    )
    assert '<td class="n">all</td>' in everywhere, "or more: elsewhere there is the opposite"
    assert sentence in printed(found)
    no_headline = printed(replace(found, comparisons=(replace(b, p_adjusted=0.5),)))
    assert no_headline.index("People with group = b were labelled 'yes' 10.0 points less") < no_headline.index(sentence)
    assert "Where office" not in printed(replace(found, parts=(south,)))


def test_charts_of_before_and_after_a_review_share_their_scale():
    before, after = (GroupStandard("group", "b", 100, 0.5, 0.5 + gap, gap) for gap in (0.2, 0.02))

    def ticks(*sides):
        return {text for text, _ in texts_of(charts.differences(*sides)) if re.fullmatch(r"\d+ less", text)}

    assert ticks([before], [after]) == ticks([after], [before]) != ticks([after])

"""What a comparison of groups says: the same in the terminal, in `print`, on both pages and in the
notebook."""

import json
import re
from dataclasses import replace
from html import unescape

import numpy as np
import pandas as pd
import pytest

import recorded
from butfor.cli.printing import print_population, print_standards
from butfor.report.page import fragment
from butfor.result.population import Population
from butfor.result.run import figures_of
from butfor.standard import (
    ASSUMPTION,
    GroupStandard,
    LeftOut,
    Overlap,
    SecondOpinion,
)
from butfor.standard.explain import Slice
from butfor.words.names import Names

RUN = replace(
    recorded.RUN,
    sensitive="sex",
    attributes=("sex",),
    label_names=("no", "yes"),
    adverse=("no",),
    seeded=False,
)


@pytest.fixture(scope="module")
def plain():
    """A comparison whose figures the tests replace."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"sex": rng.choice(["f", "m"], 200), "income": rng.normal(size=200)})
    y = np.where(rng.random(200) < 0.5, "yes", "no")
    return recorded.compared(X, y, sensitive_features="sex")


def group(name, gap, p, second=None, disagrees=False, rows=300):
    interval = (gap - 0.01, gap + 0.01)
    opinion = (
        None if second is None else SecondOpinion(second, (second - 0.01, second + 0.01), disagrees)
    )
    figures = {
        "interval": interval,
        "p": p,
        "p_adjusted": p,
        "second_opinion": opinion,
        "draws": 999,
    }
    return GroupStandard("sex", name, rows, 0.5, 0.5 + gap, gap, **figures)


def everywhere(plain, capsys, groups, left_out=(), parts=()):
    """What each place says about these groups, as plain text."""
    found = replace(
        plain, comparisons=tuple(groups), left_out=tuple(left_out), parts=tuple(parts), draws=99
    )
    population = Population(
        [], replace(RUN, standard=figures_of(found), standard_notes=tuple(found.notes()))
    )
    texts = {"print": str(found), "population": str(population), "notebook": found._repr_html_()}
    texts |= {"page": found.to_html(), "audit's page": population.to_html()}
    texts["audit's notebook"] = fragment(population)
    print_standards(found)
    texts["terminal"] = capsys.readouterr().out
    print_population(population, None)
    texts["audit"] = capsys.readouterr().out
    bare = {
        name: re.sub(r"<style>.*?</style>|<[^>]+>", " ", text, flags=re.S)
        for name, text in texts.items()
    }
    return {
        name: " ".join(unescape(text).replace("\u2019", "'").split()) for name, text in bare.items()
    }


CASES = {
    "a large table, on which two estimates differ a little": (
        [group("f", 0.054, 4.2e-173, 0.052, True)],
        [],
        "People with sex = f were labelled 'yes' 5.4 points less often than comparable people in "
        "other groups (95 %",
        ["second opinion 5.2; adjusted p"],
        ["may be chance", "is not called"],
    ),
    "a gap that the second opinion does not see": (
        [group("f", 0.054, 0.001, -0.003, True)],
        [],
        "No group is called: two estimates disagree whether sex = f (5.4 points) were labelled "
        "'yes' less often than",
        [
            "It is not called, because the second opinion disagrees: 0.3 points more often (−1 to "
            "1)."
        ],
        ["may be chance", "group was labelled"],
    ),
    "groups too small to compare": (
        [group("m", 0.001, 0.9, rows=40)],
        [LeftOut("sex", "x", "rows", 27), LeftOut("sex", "y", "rows", 23)],
        "Not compared: sex = x (27 rows), sex = y (23 rows); at least 30 are needed. No other "
        "group was labelled",
        [],
        ["No group was"],
    ),
    "a called group beside one near 0.05": (
        [group("f", 0.1, 0.001), group("x", 0.07, 0.052, 0.095), group("y", 0.01, 0.6)],
        [LeftOut("sex", "z", "rows", 27)],
        "People with sex = f were labelled 'yes' 10.0 points less often",
        [
            "Not compared: sex = z (27 rows); at least 30 are needed.",
            "adjusted p = 0.052 ± 0.007: close to the line). That may be chance. If it is real, "
            "about 21 of the "
            "group's 300 labels are wrong",
            "May be chance: sex = y (1.0 points less often, adjusted p = 0.6; if real, about 3 of "
            "300 labels are",
        ],
        ["No group"],
    ),
    "a favoured group alone": (
        [group("f", 0.002, 0.8, rows=200), group("m", -0.057, 0.02)],
        [],
        "No group was labelled 'yes' less often than comparable people by more than chance; sex = "
        "m 5.7 points more",
        [
            "People with sex = m were labelled 'yes' 5.7 points more often than comparable people "
            "in other groups (95 %"
        ],
        [],
    ),
    "a group without comparable people": (
        [
            replace(group("f", 0.1, 0.001), overlap=Overlap(47, 900, 61.0, True)),
            group("m", 0.001, 0.9),
        ],
        [LeftOut("sex", "x", "rows", 27)],
        "Not comparable: sex = f (47 of 300 rows have comparable people; the 900 others count for "
        "61). It takes "
        "comparable people for half of the rows and at least 30, and others who count for 30. Not "
        "compared: sex = x "
        "(27 rows); at least 30 are needed. No other group was labelled 'yes' less often than",
        [],
        ["People with sex = f were", "No group was"],
    ),
    "groups whose comparable people say too little": (
        [
            replace(group(name, 0.1, 0.001, 0.0, True), overlap=Overlap(250, 900, 12.0, True))
            for name in "fm"
        ],
        [],
        "Not comparable: sex = f (250 of 300 rows have comparable people; the 900 others count "
        "for 12), sex = m (250",
        ["others who count for 30. No group can be compared."],
        ["two estimates disagree", "less often than comparable"],
    ),
    "little overlap where nobody is called": (
        [
            replace(group("f", 0.01, 0.6), overlap=Overlap(260, 900, 61.0, True)),
            group("m", 0.0, 0.9),
        ],
        [],
        "No group was labelled 'yes' less often than comparable people by more than chance.",
        [
            "Little overlap: sex = f (260 of 300 rows have comparable people; the 900 others "
            "count for 61)."
        ],
        ["Not comparable"],
    ),
    "several groups": (
        [group("f", 0.1, 0.001), group("x", 0.07, 0.01)],
        [],
        "People in 2 groups were labelled 'yes' less often than comparable people: sex = f by "
        "10.0 points, sex = x",
        ["People with sex = x were labelled 'yes' 7.0 points less often"],
        ["No group", "may be chance"],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_every_place_says_the_verdict_and_one_sentence_per_group_that_matters(plain, capsys, case):
    groups, left_out, answer, said, unsaid = CASES[case]
    texts = everywhere(plain, capsys, groups, left_out)
    assert texts["print"].startswith(answer)
    assert texts["terminal"].startswith(answer)
    for place, text in texts.items():
        for sentence in (answer, *said):
            assert sentence in text, place
        for sentence in unsaid:
            assert sentence.lower() not in text.lower(), place


def test_a_gap_that_may_be_chance_has_no_p_below_the_line():
    edge = replace(group("f", 0.1, 0.05), draws=19).sentence("yes")
    assert "adjusted p = 0.05 ± 0.05: close to the line). That may be chance." in edge
    below = replace(group("f", 0.1, 0.049), draws=19).sentence("yes")
    assert below.endswith("adjusted p ≤ 0.05, the smallest that 19 draws can show).")


SHARES = {
    "rows": 90,
    "recorded": 0.4,
    "expected": 0.7,
    "low": 0.0,
    "high": 0.4,
    "share": 0.95,
    "called": True,
}
SOUTH = Slice(
    "sex", "f", "office", "south", **SHARES, difference=0.3, elsewhere=0.04, excess=0.2, z=5.0
)


def test_only_slices_that_say_something_are_shown(plain, capsys):
    nothing = replace(
        SOUTH, column="gain", value="under 213", difference=0.05, elsewhere=0.09, excess=0.003
    )
    quiet = replace(SOUTH, value="north", called=False)
    texts = everywhere(plain, capsys, [group("f", 0.1, 0.001)], parts=(nothing, quiet, SOUTH))
    for place, text in texts.items():
        assert (
            "Where office = south, the gap of people with sex = f is 30 points, 26 more than else"
            in text
        ), place
        assert not any(
            unsaid in text for unsaid in ("under 213", "office = north", "missing labels")
        ), place
    usual = replace(SOUTH, difference=0.1, elsewhere=0.1, excess=0.06, share=0.2)
    assert "6 more than the group's own gap would make it; about 20 %" in usual.sentence()


def test_sentences_are_in_the_readers_words(plain):
    names = Names(
        {"noun": "applicants"},
        {"sex": {"f": "female", "m": "male"}},
        {"yes": "were approved"},
        {"office": "branch"},
    )
    found = replace(
        plain, comparisons=(group("f", 0.1, 0.001),), parts=(SOUTH,), names=names, draws=99
    )
    assert found.answer.startswith(
        "Female applicants were approved 10.0 points less often than comparable applicants"
    )
    assert "Where branch = south, the gap of female applicants is 30 points" in str(found)
    assert (
        "female: favourable rate 50.0 %, comparable applicants 60.0 %, all applicants in other "
        "groups" in str(found)
    )
    against = replace(group("f", 0.1, 0.001), reference="m", overlap=Overlap(40, 90, 12.3, False))
    assert "less often than comparable male applicants (" in against.sentence("yes", names)
    assert "60.0 %, all male applicants 50.0 %." in against.details(names)[0]
    assert "40 of 300 rows have comparable male applicants." in str(against.details(names))
    several = replace(found, comparisons=(group("f", 0.1, 0.001), group("m", 0.07, 0.001)))
    assert several.answer.startswith(
        "Applicants in 2 groups were approved less often than comparable applicants: f"
    )
    for record in (found.to_dict(), json.loads(found.to_json())):
        assert record["names"]["people"] == {"noun": "applicants"}


DETAILS = {
    "favoured": (
        {"raw_gap": -0.07, "explained": -0.02},
        "The recorded columns explain 2.0 of the 7.0 points.",
    ),
    "wider": (
        {"raw_gap": 0.02, "explained": -0.03},
        "columns, the gap is 3.0 points wider than the raw one.",
    ),
    "more than all": (
        {"raw_gap": 0.02, "explained": 0.05},
        "columns explain more than the raw gap of 2.0 points.",
    ),
    "nothing": (
        {"raw_gap": 0.0, "explained": 0.0},
        "comparable people 50.0 %, all people in other groups 50.0 %.",
    ),
    "little overlap": (
        {"overlap": Overlap(40, 900, 12.3, True)},
        "40 of 100 rows have comparable people in other groups. Weighted to resemble the group, "
        "the 900 people in "
        "other groups say as much as 12 would. That is little.",
    ),
    "weights": (
        {"effective_rows": 61.4},
        "the group's 100 rows say as much as 61 of equal weight.",
    ),
}


@pytest.mark.parametrize("case", DETAILS)
def test_what_is_behind_a_gap(case):
    change, sentence = DETAILS[case]
    gap = change.get("raw_gap", 0) - change.get("explained", 0)
    c = GroupStandard("sex", "f", 100, 0.5, 0.5 + gap, gap, **change)
    said = c.details()
    assert any(sentence in line for line in said)
    assert "−" not in said[0]
    assert ("as often as" in c.sentence("yes")) == (gap == 0)


def test_that_labels_were_given_is_said_in_the_same_breath_as_the_assumption(plain, capsys):
    texts = everywhere(plain, capsys, [group("f", 0.1, 0.001)])
    for place in ("print", "terminal", "page", "notebook", "audit's page"):
        assert (
            "This compares labels that somebody gave. It assumes that people of different"
            in texts[place]
        )
    assert texts["terminal"].count("labels that somebody gave") == 1
    assert ASSUMPTION in plain.to_dict()["notes"]


def test_pages_and_records_give_back_the_path_they_were_written_to(plain, tmp_path):
    population = Population([], RUN)
    for thing in (plain, population):
        assert thing.to_html(tmp_path / "a.html") == tmp_path / "a.html"
        assert thing.to_json(str(tmp_path / "a.json")) == str(tmp_path / "a.json")
        texts = (tmp_path / "a.html").read_text(encoding="utf-8"), thing.to_html()
        # The record on the page of a folder names the table as seen from there, which its checksum
        # shows.
        of_folder = re.compile("sha256:[0-9a-f]{64}|relative&#34;: (true|false)|(../)*t.csv")
        written, given = (of_folder.sub("", text) for text in texts)
        assert written == given
        for name, value in json.loads(thing.to_json()).items():
            if name not in ("run", "checksum"):
                assert json.loads((tmp_path / "a.json").read_text(encoding="utf-8"))[name] == value

"""Pages say what was approved, hold any text safely, load nothing, and stay small.

`pytest tests/report --renew` writes the approved texts anew: read the difference before you commit
it.
"""

import base64
import hashlib
import re
import sys
from contextlib import nullcontext
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest

import butfor
from butfor.cli import main
from butfor.errors import OutputError, SettingError
from butfor.report import charts, people
from butfor.report.groups import impacts
from butfor.report.text import short, shown, without_middle
from butfor.result.fresh import SOLID as HOLDS
from butfor.result.fresh import FreshSeeds
from butfor.result.population import Population
from butfor.result.verdict import Verdict
from butfor.words.names import Names
from conftest import changed
from report.conftest import SEEDS, table

APPROVED = Path(__file__).parent / "approved"


def word_of(some: Population, word: str | None) -> Verdict:
    return next(v for v in some if v.solidity == word)


class Outline(HTMLParser):
    """Checks that tags are balanced, and keeps ids, links, code and the visible text, a line per
    block."""

    VOID = ("meta", "br", "link", "img", "hr", "input")
    INLINE = (
        "a",
        "b",
        "strong",
        "em",
        "small",
        "span",
        "code",
        "s",
        "mark",
        "svg",
        "title",
        "text",
        "th",
        "td",
        "dd",
    )

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open, self.ids, self.targets, self.code, self.policy = [], [], [], [], ""
        self.lines = [""]
        self.feed(html)
        self.close()
        assert not self.open, self.open
        self.lines = [line for line in (" ".join(line.split()) for line in self.lines) if line]
        self.text = "\n".join(self.lines)

    def handle_starttag(self, tag, attrs):
        self.handle_startendtag(tag, attrs)
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        known = dict(attrs)
        assert not [name for name in known if name.startswith("on") or name == "style"], known
        self.ids += [known["id"]] if known.get("id") else []
        self.targets += [known["href"]] if "href" in known else []
        self.policy = known["content"] if known.get("http-equiv") else self.policy
        self.lines[-1] += " | " if tag in ("td", "th", "dd") else ""
        self.lines += [] if tag in self.INLINE else [""]

    def handle_endtag(self, tag):
        while (last := self.open.pop()) != tag:
            assert last in ("td", "th", "tr"), (
                last
            )  # HTML allows to leave out the ends of cells and rows

    def handle_data(self, data):
        inside = self.open[-1] if self.open else ""
        if inside in ("style", "script"):
            self.code.append((inside, data))
        elif inside not in ("text", "title") or "svg" not in self.open:
            self.lines[-1] += data


def outline(html: str) -> Outline:
    """The page's outline, after the checks that every page must pass: whole, linked, and only its
    own code runs."""
    for outside in ("http:", "https:", "src=", "@import", "<link", "url(http", "javascript:"):
        assert outside not in html.lower(), outside
    seen = Outline(html)
    if seen.policy:
        rules = dict(rule.strip().split(" ", 1) for rule in seen.policy.split(";"))
        assert set(rules) == {"default-src", "style-src", "script-src", "base-uri", "form-action"}
        assert rules["default-src"] == rules["base-uri"] == rules["form-action"] == "'none'"
        assert [kind for kind, _ in seen.code] in (["style"], ["style", "script"])
        for kind, code in seen.code:
            digest = base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()
            assert rules[f"{kind}-src"] == f"'sha256-{digest}'"
        assert len(set(seen.ids)) == len(seen.ids)
        assert {target[1:] for target in seen.targets if target.startswith("#")} <= set(seen.ids)
    else:
        assert "<script" not in html
    return seen


def compare(name: str, text: str, renew: bool) -> None:
    text = re.sub(r"\b[0-9a-f]{64}\b", "<sha256>", text).replace(butfor.__version__, "<version>")
    file = APPROVED / f"{name}.txt"
    if renew:
        file.write_text(text.strip() + "\n", encoding="utf-8")
    assert text.strip().splitlines() == file.read_text(encoding="utf-8").splitlines(), (
        "pytest tests/report --renew"
    )


def comparison(audit: Population, seeded: Population) -> str:
    X, y = table().drop(columns=["approved", "file"]), table()["approved"]
    return butfor.compare_standards(
        X, y, sensitive_features="race", adverse="no", draws=20, n_jobs=1
    ).to_html()


PAGES = {
    "standard": comparison,
    "report": lambda audit, seeded: audit.to_html(),
    "report-seeded": lambda audit, seeded: seeded.to_html(),
    "notebook": lambda audit, seeded: audit._repr_html_() + word_of(audit, HOLDS)._repr_html_(),
    "person-left-out": lambda audit, seeded: next(v for v in audit if not v.eligible).to_html(),
    "person-found": lambda audit, seeded: word_of(audit, HOLDS).to_html(),
    "person-not-found": lambda audit, seeded: word_of(seeded, None).to_html(),
    **{
        f"word-{w.replace(' ', '-')}": lambda audit, seeded, w=w: word_of(seeded, w).to_html()
        for w in SEEDS
    },
}


@pytest.mark.parametrize("name", PAGES)
def test_pages_read_as_approved(name, audit, seeded, request):
    text = outline(PAGES[name](audit, seeded)).text
    own = text.partition("How it was done")[0] if name.startswith("word") else text
    compare(name, own, request.config.getoption("--renew"))


def test_a_page_about_nobody_says_so(audit, seeded):
    assert "Nobody was examined." in outline(Population([], audit.run).to_html()).text
    left_out = [v for v in audit if not v.eligible]
    assert (
        "Audit other people"
        in outline(Population(left_out, replace(audit.run, standard=None)).to_html()).text
    )
    known = replace(audit.performance, accuracy=audit.performance.majority)
    poor = outline(Population(audit.verdicts, replace(audit.run, performance=known)).to_html()).text
    assert "no more accurate" in poor.partition("What to do next?")[0], "on the first screen"
    diverged = FreshSeeds(3, 2, 1, 1, 0, ((None,) * 3, (None,) * 3))
    assert "Solid" in changed(word_of(seeded, HOLDS), fresh=diverged).to_html(), (
        "there is no chart, but a page"
    )
    stopped = [changed(v, complete=False) for v in seeded]
    assert (
        "did not come to an end"
        in outline(Population(stopped, replace(seeded.run, interrupted=True)).to_html()).text
    )


def test_text_from_tables_and_names_is_escaped(audit):
    nasty = (
        "<script>alert(1)</script></style><b> a \"b\" & 'c' {{ 7 * 7 }} {0} {who} 😀 naïve\x00\x1b"
        + "x" * 900
    )
    evil = "<b onclick=x>{{ 7*7 }}"
    names = Names(people={"noun": evil}, labels={"yes": evil}, columns={"race": evil})
    run = replace(
        audit.run, names=names, sensitive=nasty, label_names=(nasty, "yes"), adverse=(nasty,)
    )
    run = replace(
        run, blind=True, remarks=(nasty,), learner_name=nasty, data=replace(run.data, table=nasty)
    )
    odd = {
        "run": run,
        "group": nasty,
        "row": nasty,
        "pulls": {"race": 0.5, nasty: -0.2, "(bias)": 0.1},
    }
    values = {nasty: 3, "race": nasty, "income": nasty, "debts": nasty, "town": nasty}
    everyone = []
    for v in audit:
        flips = tuple(replace(f, row=nasty, label=nasty, values=values) for f in v.flip_set)
        everyone.append(changed(v, values=values, flip_set=flips, **odd))
    found = next(v for v in everyone if v.found)
    for html in (found.to_html(), Population(everyone, run).to_html(), found._repr_html_()):
        assert " ".join(short(nasty, 20).rstrip("…").split()) in outline(html).text
    assert outline(Population(everyone, run).to_html()).text.count(evil) > 5


def test_many_people_stay_small(audit):
    one = word_of(audit, HOLDS)
    wide = {f"column {k}": k for k in range(60)} | one.values
    flips = tuple(replace(one.flip_set[0], position=k, values=wide) for k in range(28))
    html = Population(
        [changed(one, case=k, values=wide, flip_set=flips) for k in range(100)], audit.run
    ).to_html()
    assert len(html.encode()) < 1_300_000
    assert "not shown here; audit.json has all of them" in outline(html).text


def test_of_many_people_those_who_matter_most_are_listed_and_shown(audit, tmp_path, monkeypatch):
    monkeypatch.setattr(people, "MOST_LISTED", 5)
    monkeypatch.setattr(people, "MOST_DETAILED", 2)
    seen = outline(audit.to_html())
    cases = [each for each in seen.ids if each.startswith("case-")]
    changing = {
        f"case-{person.case}"
        for one in audit.one_standard
        for person in one.changed
        if one.in_most(person)
    }
    assert len(cases) == 5
    assert set(cases) <= changing
    assert seen.text.count("↑ all") == 2
    assert "The first 5 are listed; people.csv has everybody examined." in seen.text
    with pytest.raises(OutputError):  # whole or not at all
        audit.to_html(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_the_parts_of_a_gap_add_up(audit):
    standard = audit.run.standard
    (c, *_) = standard.comparisons
    for each in (*standard.comparisons, replace(c, raw_gap=-0.1, explained=-0.1 - c.difference)):
        parts = charts.gap_parts(standard.moves, each)
        assert sum(value for _, value, _, _ in parts) == pytest.approx(each.raw_gap)
        assert all(value * each.explained >= 0 for _, value, _, _ in parts[:-1]), (
            "nothing beyond what is explained"
        )
        named = [abs(value) for name, value, _, _ in parts[:-1] if "together" not in name]
        assert named == sorted(named, reverse=True)


@pytest.mark.parametrize("width", [360, 1180])
def test_everybody_examined_has_a_dot_on_their_side_of_the_cut(audit, width):
    drawn = str(charts.people_dots(people.listed(audit), audit.run.names, width).svg())
    cut = float(re.search(r'points="([\d.]+),[^"]*"[^>]*stroke-dasharray="5 3"', drawn)[1])
    marks = [
        [float(x) for x in re.findall(r"M([\d.]+) ", d)]
        for d in re.findall(r'<path d="([^"]*)"', drawn)
    ]
    looks = 3 if "under one standard" in drawn else 2
    dots, squares = ([x for lane in marks[:-looks][k::looks] for x in lane] for k in (0, 1))
    everybody = sorted(dots + squares)
    assert (len(everybody), len(squares)) == (len(audit), len(audit.found))
    assert (
        sum(x < cut for x in everybody) == sum(v.prediction == "approved = no" for v in audit) > 0
    )
    assert 0 <= everybody[0] <= everybody[-1] <= width
    assert min(float(size) for size in re.findall(r'font-size="([\d.]+)"', drawn)) >= 11


def test_a_plot_is_the_pages_chart_which_notebooks_show_and_files_hold(seeded, tmp_path):
    solid, none = word_of(seeded, HOLDS), word_of(seeded, None)
    drawing = solid.plot()
    assert str(drawing.svg()) in solid.to_html()
    text = drawing.to_svg(tmp_path / "seeds.svg").read_text(encoding="utf-8")
    assert (text, "var(" in text) == (drawing._repr_svg_(), False)
    assert str(seeded.plot().svg()) in seeded.to_html()
    for nothing in (none, Population([], seeded.run)):
        with pytest.raises(SettingError, match="nothing to draw"):
            nothing.plot()


def test_without_a_column_the_gap_is_larger_on_the_right_also_for_a_group_that_is_ahead(audit):
    (m, *_), (c, *_) = audit.run.standard.moves, audit.standards

    def place(move, difference):
        own = replace(c, attribute=m.attribute, group=m.group, difference=difference)
        ((_, mark, said),) = charts.column_moves([replace(m, move=move, error=0.001)], own)
        return float(re.search(r'<path d="M([0-9.]+)', str(mark))[1]), said

    assert (
        place(0.03, 0.06) == place(-0.03, -0.06) == (pytest.approx(246, abs=5), "3.0 points larger")
    )
    assert place(-0.03, 0.06)[0] < 130


def test_impact_ratios_by_attribute_and_combination_with_the_four_fifths_line(audit):
    counts = {
        "f · old": (40, 10),
        "f · young": (50, 30),
        "m · old": (60, 45),
        "m · missing": (47, 40),
    }
    counts["x · old"] = 3, 3  # people, and how many of them are accepted
    several = {"attributes": ("sex", "age"), "groups": {g: tuple(g.split(" · ")) for g in counts}}
    run = replace(audit.run, performance=None, sensitive="sex × age", **several)
    logits = [
        (group, 0.4 if k < good else -0.4)
        for group, (size, good) in counts.items()
        for k in range(size)
    ]
    everybody = [
        changed(audit[0], case=k, group=g, logit=x, run=run) for k, (g, x) in enumerate(logits)
    ]
    found = {(i.attribute, i.group): i for i in impacts(Population(everybody, run))}
    assert [each for each in found if each[0] == "sex"] == [
        ("sex", "f"),
        ("sex", "m"),
        ("sex", "x"),
    ]
    assert (found["sex", "f"].ratio, found["sex", "f"].below) == (
        pytest.approx((40 / 90) / (85 / 107)),
        True,
    )
    assert found["sex", "x"].remark == "under 2 % of the people"
    assert found["sex × age", "m · missing"].rate == pytest.approx(40 / 47)
    assert (found["age", "missing"].ratio, found["age", "missing"].remark) == (None, "unknown")
    assert (
        impacts(Population(everybody, replace(run, adverse=(), label_names=("a", "b", "c")))) == []
    )


ROWS = [  # table, its column of ids, row: the word for a row, its name
    ("loans.csv", None, 0, "line", "2"), ("LOANS.CSV.GZ", None, 7, "line", "9"), ("loans.csv", "file", 7, "file", "7"),
    ("loans.csv", None, "A-7", "line", "A-7"), ("german", None, 7, "row", "7"), (None, None, 7, "row", "7"),
]  # fmt: skip


@pytest.mark.parametrize(("file", "identifier", "row", "word", "name"), ROWS)
def test_rows_are_named_as_the_table_names_them_else_by_the_files_line(
    audit, file, identifier, row, word, name
):
    run = replace(audit.run, data=replace(audit.run.data, table=file, identifier=identifier))
    assert (people.row_word(run), people.row_name(run, row)) == (word, name)


def test_scores_in_one_column_have_the_same_digits_and_are_told_from_the_cut(audit):
    near = changed(audit[0], logit=0.004)
    column = re.findall(
        r"<td>(0\.\d+)<td>", Population([near, changed(near, logit=-2.0)], audit.run).to_html()
    )
    assert list(map(len, column)) == [len("0.501")] * 2


def test_values_read_well():
    read = {3.0: "3", 1234567.891: "1234567.89", 0.1234567: "0.123457", -2.5: "−2.5", None: "missing", True: "True",
            float("nan"): "missing", "a\n b\x00": "a b", float("inf"): "∞", pd.NaT: "missing"}  # fmt: skip
    assert [shown(value) for value in read] == list(read.values())
    assert without_middle("group number one of many", 11) == "group…many"


def test_what_is_published_is_round_and_about_ten_people_or_more(loans, audit):
    text = (loans / "report" / "groups.csv").read_text(encoding="utf-8")
    raw = {"loans.csv", "logit", "APP-"}.union(
        *(map(str, table()[column]) for column in ("income", "town", "file"))
    )
    assert [value for value in raw if value in text] == []
    published = pd.read_csv(loans / "report" / "groups.csv", index_col="group")
    assert list(published.index) == ["a", "b", "w"]
    assert set(published["favourable"]) == {"approved = yes"}
    counts = published[["people", "switch_changes", "audited", "finds", "labels"]].stack().dropna()
    assert counts.min() >= 10
    assert set(counts % 10) == {0}
    gaps = {c.group: c for c in audit.standards}
    for exact in audit.run.performance.by_group:
        row = published.loc[exact.group]
        favourable = exact.people * exact.base_rate
        whole = {
            "favourable_rate": (exact.selection_rate, exact.people),
            "labelled_favourable": (exact.base_rate, exact.people),
            "error_rate": (exact.error_rate, exact.people),
            "false_favourable_rate": (exact.false_positive_rate, exact.people - favourable),
            "false_adverse_rate": (exact.false_negative_rate, favourable),
            "recorded_rate": (gaps[exact.group].recorded, gaps[exact.group].rows),
        }
        for name, (share, count) in whole.items():
            few = min(share, 1 - share) * count < 9.5
            assert pd.isna(row[name]) if few else row[name] == round(share, 2), name
        low, high = gaps[exact.group].bounds
        shown = [round(share, 2) for share in (gaps[exact.group].difference, low, high)]
        assert list(row[["gap", "low", "high"]]) == shown
    assert published["impact_ratio"].isna().tolist() == published["favourable_rate"].isna().tolist()


def test_no_group_under_ten_can_be_told_from_those_that_are_published(tmp_path):
    question = ["--sensitive", "sex,foreign_worker", "--model", "logistic", "--cases", "0:30"]
    command = [
        "audit",
        "german",
        *question,
        "--draws",
        "0",
        "--quiet",
        "--out",
        str(tmp_path / "a"),
    ]
    assert main(command) == 0
    exact = {
        i.group: i.people for i in impacts(Population.from_json(tmp_path / "a" / "audit.json"))
    }
    assert exact["male · no"] < 10 <= exact["male · yes"] < exact["male"]
    frame = pd.read_csv(tmp_path / "a" / "groups.csv").set_index("group")
    shown = frame[frame["people"].notna()]
    assert list(shown.index) == ["yes", "female · yes", "male · yes"]
    # The highest rate is that of a group which is left out, so ratios to it are, too.
    both = shown.loc[["female · yes", "male · yes"]]
    assert both["favourable_rate"].notna().all()
    assert both["impact_ratio"].isna().all()
    assert "female" not in frame.index, "7 of its labels are those of the women who are left out"


def test_a_record_that_was_published_by_an_earlier_version_is_refused(tmp_path, capsys):
    path = tmp_path / "audit.json"
    path.write_text('{"schema_version": 7, "redacted": "public"}')
    for command in (["replay", str(path)], ["gate", str(path), "--max-solid", "5%"]):
        assert main(command) == 2
        assert "written with --public" in capsys.readouterr().err


def test_the_documented_lines_log_figures_and_files_with_mlflow(loans, monkeypatch):
    """Run as they stand, against a stand-in that notes what it is asked to log."""
    logged = {}
    stand_in = SimpleNamespace(
        start_run=lambda run_name: nullcontext(), set_tag=logged.__setitem__, log_params=logged.update,
        log_metrics=logged.update, log_text=lambda text, name: logged.update({name: text}),
        log_artifacts=lambda folder, place: logged.update({place: sorted(p.name for p in Path(folder).iterdir())}),
    )  # fmt: skip
    monkeypatch.setitem(sys.modules, "mlflow", stand_in)
    monkeypatch.chdir(loans)
    docs = Path(__file__).parents[2] / "docs"
    section = (docs / "review.md").read_text(encoding="utf-8").partition("## MLflow\n")[2]
    exec(section.split("```python\n")[1].split("```")[0], {})
    assert (logged["learner_name"], logged["found"]) == ("LogisticRegression", 1)
    assert logged["accuracy_of_the_commoner_label"] < logged["accuracy"] < 1
    assert logged["rates.csv"].splitlines()[1].startswith("a,")
    assert {"audit.json", "audit.toml", "report.html"} <= set(logged["report"])

"""Limits that an audit is held to: kept, failed, or not to be measured."""

from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from butfor.result.population import Population
from butfor.review.gate import Check, check, junit, markdown, share_in
from recorded import changed, run


def nothing(record: dict) -> None:
    """As if nothing had been found for anybody."""
    for person in record["people"]:
        for name in ("attempts", "failed", "complete", "shared", "first_size", "closest_logit", "course"):
            person.pop(name, None)
        for name in ("flip_set", "counterfactual_logit", "minimal", "fresh", "collateral"):
            person.pop(name, None)
        for name in ("clearance", "at_least", "proof", "without_flips"):
            person.pop(name, None)


def one_person(path: Path, to: Path) -> Path:
    """The record of the first person found alone."""
    return changed(path, to, lambda r: r.update(people=[next(p for p in r["people"] if "flip_set" in p)]))


@pytest.mark.parametrize("command", [("review", "--out", "tasks"), ("gate", "--max-solid", "5%")])
@pytest.mark.parametrize(
    "content",
    [
        None, "", "[1]", "{}", "nonsense", '{"schema_version": 99}', '{"schema_version": 2}',
        '{"schema_version": 2, "people": 3, "run": {}}', '{"schema_version": 2, "people": [{}], "run": {}}',
        '{"schema_version": 2, "people": [], "run": {}}', '{"schema_version": 2, "people": [], "run": []}',
    ],
)  # fmt: skip
def test_what_is_no_audit_gets_one_sentence(capsys, tmp_path, monkeypatch, command, content):
    monkeypatch.chdir(tmp_path)
    if content is not None:
        Path("audit.json").write_text(content)
    code, out, err = run(capsys, command[0], "audit.json", *command[1:])
    assert code == 2
    assert err.startswith("Error: ")
    assert len(err.splitlines()) == 1
    assert not out


def test_limits_are_kept_or_not(german_file, salary_file, capsys):
    code, out, _ = run(capsys, "gate", german_file, "--max-solid", "42%", "--max-close-calls", "0%")
    assert code == 0
    assert [line.split(":")[0] for line in out.splitlines()] == ["kept"] * 2
    assert "16 of 39 audited decisions (41.03 %)" in out
    code, out, _ = run(capsys, "gate", german_file, "--max-solid", "41%", "--max-switch", "0.9")
    assert code == 1
    assert [line.split(":")[0] for line in out.splitlines()] == ["FAILED", "kept"]
    code, out, _ = run(capsys, "gate", salary_file, "--max-solid", "10%", "--max-close-calls", "0.3")
    assert code == 1
    assert "kept: max-solid 10 %: 1 of 10 audited decisions" in out
    assert "FAILED: max-close-calls 30 %: 5 of 10" in out


def test_what_cannot_be_measured_is_not_kept(salary_file, german_file, tmp_path, capsys):
    def unchecked(record):
        for person in record["people"]:
            person |= {"fresh": None, "without_flips": None}

    def nobody(record):
        nothing(record)
        for person in record["people"]:
            person["eligible"] = False

    limits = ("--max-solid", "99%", "--max-close-calls", "99%")
    for source, change, failed, sentence in [
        (salary_file, unchecked, 2, "6 of these were not tested under fresh seeds"),
        (german_file, unchecked, 0, "this model has no seed"),
        (german_file, nobody, 2, "Audited: 0 of "),
        (german_file, lambda record: record["run"].update(interrupted=True), 2, "interrupted"),
    ]:
        code, out, _ = run(capsys, "gate", changed(source, tmp_path / "audit.json", change), *limits)
        assert out.count("FAILED") == failed
        assert code == (1 if failed else 0)
        assert sentence in out


def test_whoever_was_not_searched_for_to_the_end_counts_as_found(german_file, tmp_path, capsys):
    def stopped(record):
        verdicts = Population.from_dict(record)
        left = [p for p, v in zip(record["people"], verdicts, strict=True) if v.status == "not_found"][:4]
        for person in left:
            person["complete"] = False

    shorter = changed(german_file, tmp_path / "audit.json", stopped)  # 16 of 39 are solid
    assert "was stopped before" in Population.from_json(shorter).sentence
    code, out, _ = run(capsys, "gate", shorter, "--max-solid", "45%")
    assert (code, "may be up to 20" in out) == (1, True)
    assert run(capsys, "gate", shorter, "--max-solid", "52%")[0] == 0


def test_one_person_can_be_held_to_limits(german_file, tmp_path, capsys):
    path = one_person(german_file, tmp_path / "one.json")
    assert run(capsys, "gate", path, "--max-solid", "0%")[0] == 1
    assert run(capsys, "gate", path, "--max-solid", "100%")[0] == 0
    changed(path, path, lambda r: r["run"].update(interrupted=True))
    assert "interrupted" in run(capsys, "gate", path, "--max-solid", "100%")[1]


def test_junit_and_markdown_are_written(german_file, tmp_path, capsys):
    code, _, _ = run(
        capsys, "gate", german_file, "--max-solid", "5%", "--max-switch", "99%", "--junit", tmp_path / "gate.xml",
        "--markdown", tmp_path / "gate.md",
    )  # fmt: skip
    assert code == 1
    suite = ElementTree.parse(tmp_path / "gate.xml").getroot()
    assert (suite.tag, suite.get("tests"), suite.get("failures")) == ("testsuite", "2", "1")
    cases = {case.get("name"): case for case in suite.iter("testcase")}
    assert set(cases) == {"max-solid", "max-switch"}
    assert "16 of 39" in cases["max-solid"].find("failure").get("message")
    assert cases["max-switch"].find("failure") is None
    text = (tmp_path / "gate.md").read_text()
    assert "1 of 2 limits failed" in text
    assert "| **failed** | max-solid 5 % |" in text
    code, _, err = run(capsys, "gate", german_file, "--max-solid", "5%", "--junit", tmp_path / "no" / "gate.xml")
    assert code == 2
    assert len(err.splitlines()) == 1


def test_odd_names_of_groups_break_neither_file():
    odd = [Check("max-solid", 0.1, kept, "'a|b' & '<c>\x00\x0b' \ud800\n differ") for kept in (True, False)]
    assert len(list(ElementTree.fromstring(junit(odd).encode()).iter("testcase"))) == 2
    rows = markdown(odd).splitlines()[-2:]
    assert all(row.replace("\\|", "").count("|") == 4 for row in rows)
    assert all("<c>" not in row for row in rows)


@pytest.mark.parametrize(("text", "share"), [("5%", 0.05), ("0.05", 0.05), (" 2.5 % ", 0.025), ("0", 0)])
def test_shares_are_read(text, share):
    assert share_in(text, "--max-solid") == pytest.approx(share)


@pytest.mark.parametrize("text", ["5", "1", "-5%", "101%", "nan", "inf%", "", "%", "five", "5%%", "5pp"])
def test_other_shares_are_refused(text, german_file, capsys):
    code, _, err = run(capsys, "gate", german_file, f"--max-solid={text}")
    assert code == 2
    assert "--max-solid" in err
    assert len(err.splitlines()) == 1


def test_no_limit_is_a_usage_error(german_file, capsys):
    code, out, err = run(capsys, "gate", german_file)
    assert code == 2
    assert "Give at least one limit" in err
    assert not out


def test_one_decision_of_forty_is_more_than_two_percent(german_file):
    audit = Population.from_json(german_file)
    people = [replace(verdict, switch_changes=k == 0) for k, verdict in enumerate(audit)]
    population = Population(people, audit.run)
    assert len(population) == 40
    assert [check(population, max_switch=limit)[0].kept for limit in (0.02, 0.025, 0.03)] == [False, True, True]


def test_a_limit_met_exactly_is_kept(german_file):
    population = Population.from_json(german_file)
    share = len(population.solid) / len(population.eligible)
    assert [c.kept for c in check(population, max_solid=share)] == [True]

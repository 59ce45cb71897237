"""Limits that an audit or a comparison of groups is held to: kept, failed, or the data cannot tell."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from butfor.cli import main
from butfor.result.population import Population
from butfor.review.gate import check_shares, share_in
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
    assert "kept: max-solid 10 %: 0 of 10 audited decisions" in out
    assert "FAILED: max-close-calls 30 %: 5 of 10" in out


def test_what_cannot_be_measured_is_neither_kept_nor_broken(salary_file, german_file, tmp_path, capsys):
    def unchecked(record):
        for person in record["people"]:
            person |= {"fresh": None, "without_flips": None}

    def nobody(record):
        nothing(record)
        for person in record["people"]:
            person["eligible"] = False

    limits = ("--max-solid", "99%", "--max-close-calls", "99%")
    for source, change, unknown, sentence in [
        (salary_file, unchecked, 2, "6 of these were not tested under fresh seeds"),
        (german_file, unchecked, 0, "this model has no seed"),
        (german_file, nobody, 2, "Audited: 0 of "),
        (german_file, lambda record: record["run"].update(interrupted=True), 2, "interrupted"),
    ]:
        record = changed(source, tmp_path / "audit.json", change)
        code, out, _ = run(capsys, "gate", record, *limits)
        assert out.count("CANNOT TELL") == unknown
        assert code == (4 if unknown else 0)
        assert sentence in out
    assert run(capsys, "gate", record, *limits, "--max-switch", "0%")[0] == 1, "broken counts before unknown"


def test_whoever_was_not_searched_for_to_the_end_may_be_found(german_file, tmp_path, capsys):
    def stopped(record):
        verdicts = Population.from_dict(record)
        left = [p for p, v in zip(record["people"], verdicts, strict=True) if v.status == "not_found"][:4]
        for person in left:
            person["complete"] = False

    shorter = changed(german_file, tmp_path / "audit.json", stopped)  # 16 of 39 are solid
    assert "was stopped before" in Population.from_json(shorter).sentence
    code, out, _ = run(capsys, "gate", shorter, "--max-solid", "45%")
    assert (code, "may be up to 20" in out) == (4, True)
    assert run(capsys, "gate", shorter, "--max-solid", "40%")[0] == 1
    assert run(capsys, "gate", shorter, "--max-solid", "52%")[0] == 0


def test_one_person_can_be_held_to_limits(german_file, tmp_path, capsys):
    path = one_person(german_file, tmp_path / "one.json")
    assert run(capsys, "gate", path, "--max-solid", "0%")[0] == 1
    assert run(capsys, "gate", path, "--max-solid", "100%")[0] == 0
    changed(path, path, lambda r: r["run"].update(interrupted=True))
    assert "interrupted" in run(capsys, "gate", path, "--max-solid", "100%")[1]


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
    assert "Give a limit" in err
    assert not out


def test_one_decision_of_forty_is_more_than_two_percent(german_file):
    audit = Population.from_json(german_file)
    people = [
        replace(verdict, measured=replace(verdict.measured, switch_changes=k == 0)) for k, verdict in enumerate(audit)
    ]
    population = Population(people, audit.run)
    assert len(population) == 40
    assert [check_shares(population, max_switch=limit)[0].code for limit in (0.02, 0.025, 0.03)] == [1, 0, 0]


def test_a_limit_met_exactly_is_kept(german_file):
    population = Population.from_json(german_file)
    share = len(population.solid) / len(population.eligible)
    assert [c.code for c in check_shares(population, max_solid=share)] == [0]


# --- gaps -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def loans(tmp_path_factory) -> Path:
    """Group b was refused too often, a and c were not, and d is too small to be compared."""
    folder, rng = tmp_path_factory.mktemp("loans"), np.random.default_rng(5)
    group = np.repeat(["a", "b", "c", "d"], [500, 300, 300, 12])
    income = rng.normal(size=len(group))
    granted = (income + 0.6 * rng.normal(size=len(group)) > 0) & ~((group == "b") & (rng.random(len(group)) < 0.4))
    frame = pd.DataFrame({"group": group, "income": income, "granted": np.where(granted, "yes", "no")})
    frame.to_csv(folder / "loans.csv", index=False)
    asked = ("--label", "granted", "--adverse", "no", "--sensitive", "group", "--n-jobs", "1", "--quiet")
    assert main(["standard", str(folder / "loans.csv"), *asked, "--out", str(folder / "out")]) == 0
    return folder / "out" / "standard.json"


def gaps(path: Path) -> dict[str, dict]:
    return {group["group"]: group for group in json.loads(path.read_text())["groups"]}


def test_a_gap_is_kept_broken_or_not_to_be_told(loans, capsys):
    code, out, _ = run(capsys, "gate", loans, "--max-gap", 2)
    assert code == 1
    lines = {line.split("group = ")[1][0]: line for line in out.splitlines()}
    assert lines["a"].startswith("kept: max-gap 2 points: group = a: gap −"), "it is favoured"
    assert lines["b"].startswith("FAILED: max-gap 2 points: group = b: gap ")
    assert lines["d"].startswith("CANNOT TELL: max-gap 2 points: group = d is not compared: 12 rows")
    assert run(capsys, "gate", loans, "--max-gap", 2, "--except", "b", "--except", "c")[0] == 4, "d remains"
    without = ("--except", "b", "--except", "group = c", "--except", "d")
    assert run(capsys, "gate", loans, "--max-gap", 2, *without)[0] == 0
    low, high = gaps(loans)["b"]["bounds"]
    between = 100 * (0.2 * gaps(loans)["b"]["difference"] + 0.8 * high)
    code, out, _ = run(capsys, "gate", loans, "--max-gap", between, "--except", "d")
    assert code == 4
    told = next(line for line in out.splitlines() if "group = b" in line)
    assert told.endswith("If the gap stays as it is, it takes about 1.6 times the rows.")
    for limit, code in ((100 * high + 0.1, 0), (100 * low - 0.1, 1)):
        assert run(capsys, "gate", loans, "--max-gap", limit, "--except", "d")[0] == code


def test_bounds_hold_for_all_groups_at_once(loans, german_file, capsys):
    for group in gaps(loans).values():
        ratio = (group["bounds"][1] - group["bounds"][0]) / (group["interval"][1] - group["interval"][0])
        assert 1.05 < ratio < 1.45, "of three groups, about 2.4 instead of 2 standard errors"
    code, out, _ = run(capsys, "gate", german_file, "--max-gap", 2, "--json")
    compared = json.loads(german_file.read_text())["run"]["standard"]["comparisons"]
    checks = json.loads(out)
    assert [(check["low"], check["high"]) for check in checks] == [tuple(group["bounds"]) for group in compared]
    assert {check["result"] for check in checks} == {"cannot tell"}
    assert code == 4


def test_without_draws_nobody_can_tell(loans, tmp_path, capsys):
    asked = ("--label", "granted", "--adverse", "no", "--sensitive", "group", "--n-jobs", "1", "--draws", "0")
    table, out = loans.parents[1] / "loans.csv", tmp_path / "out"
    assert run(capsys, "standard", table, *asked, "--out", out)[0] == 0
    code, said, _ = run(capsys, "gate", out / "standard.json", "--max-gap", 100, "--except", "d")
    assert code == 4
    assert "group = a has no bounds" in said
    audit = ("--label", "granted", "--sensitive", "group", "--model", "logistic", "--cases", "0:2", "--budget", "1")
    assert run(capsys, "audit", table, *audit, "--out", out, "--overwrite")[0] == 0
    code, said, _ = run(capsys, "gate", out / "audit.json", "--max-gap", 100)
    assert (code, "--adverse" in said) == (4, True)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--max-gap", "2%"), "give percentage points from 0 to 100"),
        (("--max-gap", "nan"), "give percentage points from 0 to 100"),
        (("--max-gap", "-1"), "give percentage points from 0 to 100"),
        (("--max-gap", "2", "--except", "e"), "--except: there is no group 'e'. The groups are"),
        (("--max-gap", "2", *(each for name in "abcd" for each in ("--except", name))), "--except leaves no group"),
        (("--max-solid", "5%"), "compares groups only; give the audit.json"),
        (("--max-solid", "5%", "--except", "a"), "--except goes with --max-gap"),
    ],
    ids=str,
)
def test_what_cannot_be_asked_of_a_comparison_gets_a_sentence(loans, capsys, options, sentence):
    code, out, err = run(capsys, "gate", loans, *options)
    assert (code, out) == (2, "")
    assert sentence in err
    assert len(err.splitlines()) == 1


def test_a_comparison_that_was_changed_is_refused(loans, tmp_path, capsys):
    record = json.loads(loans.read_text())
    record["groups"][1]["bounds"] = [-0.01, 0.01]
    (tmp_path / "standard.json").write_text(json.dumps(record))
    code, _, err = run(capsys, "gate", tmp_path / "standard.json", "--max-gap", 2)
    assert code == 2
    assert "was changed since butfor wrote it" in err
    bent = changed(loans, tmp_path / "bent.json", lambda record: record["groups"][0].update(bounds=["x", 1]))
    code, _, err = run(capsys, "gate", bent, "--max-gap", 2)
    assert (code, "bounds[0] must be float" in err) == (2, True)

"""Limits that an audit or a comparison of groups is held to: kept, failed, or the data cannot
tell."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from butfor.cli import main
from butfor.result.population import Population
from recorded import changed, run


def everybody(**fields):
    return lambda record: [person.update(fields) for person in record["people"]]


def test_limits_are_kept_or_not_and_one_met_exactly_is_kept(german_file, salary_file, capsys):
    for file, limit, code, said in (
        (german_file, "42%", 0, "kept"),
        (german_file, "41%", 1, "FAILED"),
        (german_file, " .9 ", 0, "kept"),
        (german_file, repr(16 / 39), 0, "kept"),
        (salary_file, "10%", 4, "CANNOT TELL"),
    ):
        ended, out, _ = run(capsys, "gate", file, "--max-solid", limit)
        assert (ended, [line.split(":")[0] for line in out.splitlines()]) == (code, [said]), out


def test_what_cannot_be_measured_is_neither_kept_nor_broken(
    salary_file, german_file, tmp_path, capsys
):
    def nobody(record):
        everybody(
            left_out="rule", flip_set=[], fresh=None, at_least=None, proof=None, without_flips=None
        )(record)

    def stopped(record):
        people = zip(record["people"], Population.from_dict(record), strict=True)
        for person in [person for person, verdict in people if verdict.status == "not_found"][:4]:
            person["complete"] = False

    for source, change, sentence in [
        (salary_file, everybody(fresh=None, without_flips=None), "it is not known which of 6"),
        (german_file, nobody, "Audited: 0 of "),
        (german_file, lambda record: record["run"].update(interrupted=True), "interrupted"),
    ]:
        record = changed(source, tmp_path / "audit.json", change)
        code, out, _ = run(capsys, "gate", record, "--max-solid", "99%")
        assert (code, out.count("CANNOT TELL")) == (4, 1)
        assert sentence in out
    shorter = changed(
        german_file, tmp_path / "shorter.json", stopped
    )  # 16 of 39 are solid, and may be 20
    assert [
        run(capsys, "gate", shorter, "--max-solid", limit)[0] for limit in ("40%", "45%", "52%")
    ] == [1, 4, 0]


def test_a_share_of_few_people_is_held_to_no_limit(german_file, tmp_path, capsys):
    def of(count):
        def change(record):
            eligible = [person for person in record["people"] if person.get("left_out") is None]
            record["people"] = eligible[:count]

        return changed(german_file, tmp_path / "few.json", change)

    code, out, _ = run(capsys, "gate", of(29), "--max-solid", "0%")
    assert (code, out.count("CANNOT TELL")) == (4, 1)
    assert "Of 29 people a share says little: audit 30 at least." in out
    assert run(capsys, "gate", of(29), "--max-solid", "100%")[0] == 4
    assert run(capsys, "gate", of(30), "--max-solid", "0%")[1].startswith("FAILED")
    assert run(capsys, "gate", of(30), "--max-solid", "100%")[0] == 0


def lines_of_jq() -> list[str]:
    """The filters that docs/review.md shows: of switches, then of close calls."""
    docs = (Path(__file__).parents[2] / "docs" / "review.md").read_text(encoding="utf-8")
    return re.findall(r"^jq -e '([^']*)' report/audit.json$", docs, re.MULTILINE)


def test_the_fields_that_lines_of_jq_name_are_in_the_record(german_file, salary_file):
    switches, close_calls = lines_of_jq()
    for file in (german_file, salary_file):
        record = json.loads(file.read_text())
        population = Population.from_json(file)
        assert set(re.findall(r"\.people\[\]\.(\w+)", switches)) == {"switch_changes"}
        told = [person["switch_changes"] for person in record["people"]]
        assert told == [verdict.switch_changes for verdict in population]
        paths = set(re.findall(r"(?<![\w\]])\.([a-z]\w*(?:\.\w+)?)", close_calls))
        fields = {"left_out", "fresh.without_flips", "without_flips", "fresh.seeds"}
        assert paths == {"run.fresh_seeds", "people", *fields}
        shares = []
        for person in record["people"]:
            if person.get("left_out") is None:
                fresh = person.get("fresh") or {}
                count = fresh.get("without_flips", person.get("without_flips"))
                seeds = fresh.get("seeds", record["run"]["fresh_seeds"])
                shares.append(None if count is None else count / seeds)
        assert shares == [verdict.base for verdict in population.eligible]
        assert population.run.seeded == (None not in shares)


@pytest.mark.system
@pytest.mark.skipif(shutil.which("jq") is None, reason="jq is not installed")
def test_lines_of_jq_tell_kept_from_broken(salary_file, german_file, tmp_path):
    switches, close_calls = lines_of_jq()

    def ended(line: str, file: Path, change) -> int:
        record = changed(file, tmp_path / "audit.json", change)
        return subprocess.run(["jq", "-e", line, str(record)], capture_output=True).returncode

    for switched, code in ((False, 0), (True, 1)):
        assert ended(switches, german_file, everybody(switch_changes=switched)) == code
    for count, code in ((0, 0), (59, 1)):
        change = everybody(fresh=None, without_flips=count)
        assert ended(close_calls, salary_file, change) == code
    assert ended(close_calls, german_file, everybody()) == 5, "this model has no seed"


@pytest.mark.system
def test_the_makefile_of_the_document_keeps_4_apart(tmp_path):
    docs = (Path(__file__).parents[2] / "docs" / "review.md").read_text(encoding="utf-8")
    (tmp_path / "Makefile").write_text(re.search(r"```make\n(.*?)```", docs, re.DOTALL)[1])
    (stand_in := tmp_path / "butfor").write_text("#!/bin/sh\nexit $CODE\n")
    stand_in.chmod(0o700)
    for code, ends, told in ((0, 0, False), (1, 2, False), (2, 2, False), (4, 0, True)):
        environment = os.environ | {
            "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}",
            "CODE": str(code),
        }
        made = subprocess.run(
            ["make", "gate"], cwd=tmp_path, env=environment, capture_output=True, text=True
        )
        assert (made.returncode, "The data cannot tell" in made.stdout) == (ends, told), made.stderr


# --- gaps -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def compared(tmp_path_factory) -> Path:
    """Group b was refused too often, a and c were not, and d is too small to be compared."""
    folder, rng = tmp_path_factory.mktemp("loans"), np.random.default_rng(5)
    group = np.repeat(["a", "b", "c", "d"], [500, 300, 300, 12])
    income = rng.normal(size=len(group))
    granted = (income + 0.6 * rng.normal(size=len(group)) > 0) & ~(
        (group == "b") & (rng.random(len(group)) < 0.4)
    )
    frame = pd.DataFrame(
        {"group": group, "income": income, "granted": np.where(granted, "yes", "no")}
    )
    frame.to_csv(folder / "loans.csv", index=False)
    asked = (
        "--label",
        "granted",
        "--adverse",
        "no",
        "--sensitive",
        "group",
        "--n-jobs",
        "1",
        "--quiet",
        "--out",
    )
    assert main(["standard", str(folder / "loans.csv"), *asked, str(folder / "out")]) == 0
    return folder / "out" / "standard.json"


def test_a_gap_is_kept_broken_or_not_to_be_told(compared, german_file, tmp_path, capsys):
    code, out, _ = run(capsys, "gate", compared, "--max-gap", 2)
    lines = {line.split("group = ")[1][0]: line for line in out.splitlines()}
    assert code == 1
    assert re.match(
        r"kept: max-gap 2 points: group = a: [\d.]+ points more often than comparable", lines["a"]
    )
    assert re.match(
        r"FAILED: max-gap 2 points: group = b: [\d.]+ points less often than comparable", lines["b"]
    )
    assert lines["d"].startswith(
        "CANNOT TELL: max-gap 2 points: group = d is not compared: 12 rows"
    )
    assert (
        run(capsys, "gate", compared, "--max-gap", 2, "--except", "b", "--except", "c")[0] == 4
    ), "d remains"
    without = ("--except", "b", "--except", "group = c", "--except", "d")
    assert run(capsys, "gate", compared, "--max-gap", 2, *without)[0] == 0
    gaps = {gap["group"]: gap for gap in json.loads(compared.read_text())["groups"]}
    low, high = gaps["b"]["bounds"]
    between = 100 * (0.2 * gaps["b"]["difference"] + 0.8 * high)
    code, out, _ = run(capsys, "gate", compared, "--max-gap", between, "--except", "d")
    told = next(line for line in out.splitlines() if "group = b" in line)
    assert code == 4
    assert told.endswith("If the gap stays as it is, it takes about 1.6 times the rows.")
    for limit, code in ((100 * high + 0.1, 0), (100 * low - 0.1, 1)):
        assert run(capsys, "gate", compared, "--max-gap", limit, "--except", "d")[0] == code
    for gap in gaps.values():
        ratio = (gap["bounds"][1] - gap["bounds"][0]) / (gap["interval"][1] - gap["interval"][0])
        assert 1.05 < ratio < 1.45, (
            "for three groups at once, about 2.4 instead of 2 standard errors"
        )
    code, out, _ = run(capsys, "gate", german_file, "--max-gap", 2, "--json")
    gaps = json.loads(german_file.read_text())["run"]["standard"]["comparisons"]
    assert [(check["low"], check["high"]) for check in json.loads(out)] == [
        tuple(gap["bounds"]) for gap in gaps
    ]
    results = {check["group"]: check["result"] for check in json.loads(out)}
    assert (code, results) == (4, {"sex = female": "cannot tell", "sex = male": "kept"})
    for source, change, said in (
        (
            compared,
            lambda r: [gap.update(bounds=None) for gap in r["groups"]],
            "group = a has no bounds",
        ),
        (german_file, lambda r: r["run"].update(standard=None), "compares no groups"),
    ):
        code, out, _ = run(
            capsys, "gate", changed(source, tmp_path / "without.json", change), "--max-gap", 99
        )
        assert (code, said in out) == (4, True)


REFUSED = {
    (): "Give a limit",
    ("--max-gap", "2%"): "give percentage points from 0 to 100",
    ("--max-gap", "nan"): "give percentage points from 0 to 100",
    ("--max-gap", "2", "--except", "e"): "--except: there is no group 'e'. The groups are",
    (
        "--max-gap",
        "2",
        *(word for name in "abcd" for word in ("--except", name)),
    ): "--except leaves no group",
    ("--max-solid", "5%"): "compares groups only; give the audit.json",
    ("--max-solid", "5%", "--except", "a"): "--except goes with --max-gap",
    (
        "--max-switch",
        "1%",
    ): "--max-switch was removed in 0.6. audit.json has people[].switch_changes;",
    (
        "--max-close-calls=3%",
    ): "--max-close-calls was removed in 0.6. audit.json has the counts, people[].w",
    **{
        (f"--max-solid={text}",): "--max-solid"
        for text in ("5", "1", "-5%", "101%", "nan", "", "five")
    },
}


def test_what_cannot_be_asked_gets_a_sentence(compared, tmp_path, capsys):
    changed(
        compared, tmp_path / "bent.json", lambda record: record["groups"][0].update(bounds=["x", 1])
    )
    record = json.loads(compared.read_text())
    record["groups"][1]["bounds"] = [-0.01, 0.01]
    (tmp_path / "altered.json").write_text(json.dumps(record))
    asked = [((compared, *options), sentence) for options, sentence in REFUSED.items()]
    for name, sentence in (
        ("bent", "bounds[0]"),
        ("altered", "was changed since"),
        ("no", "no.json"),
    ):
        asked.append(((tmp_path / f"{name}.json", "--max-gap", 2), sentence))
    for arguments, sentence in asked:
        code, out, err = run(capsys, "gate", *arguments)
        assert (code, out, len(err.splitlines())) == (2, "", 1), (arguments, err)
        assert sentence in err

"""`butfor audit`, its files and what follows from them, as a user meets them."""

import csv
import json
import re
import shlex
import stat
import tomllib

import pandas as pd

from butfor.cli import main
from conftest import odd_table
from recorded import run


def finds_of(record: dict) -> list:
    return [
        [person.get(key) for key in ("row", "logit", "flip_set")] for person in record["people"]
    ]


def test_an_answer_fits_the_terminal_and_thirteen_lines(german):
    assert german.code == 0
    assert max(map(len, german.lines)) <= 80
    first = next(k for k, line in enumerate(german.lines) if line.startswith("Accuracy: 7"))
    last = next(k for k, line in enumerate(german.lines) if line.startswith("Next: review first "))
    assert last - first <= 12
    head = next(line for line in german.lines if line.startswith("sex "))
    assert re.split(r"\s{2,}", head.strip())[:2] == ["sex", "People"]
    rows = [line for line in german.lines if line.startswith(("female ", "male "))]
    assert [int(row.split()[1]) for row in rows] == [72, 128], (
        "all test people, not only the audited ones"
    )
    assert "audit.toml into" in " ".join(german.lines)


def test_a_records_command_repeats_it_and_so_do_its_settings_for_one_person_in_sentences(
    german, capsys
):
    first = json.loads((german.out / "audit.json").read_text())
    code, printed, _ = run(capsys, *shlex.split(first["run"]["command"])[1:], "--json", "--quiet")
    again = json.loads(printed)
    assert (code, set(again), finds_of(again)) == (0, set(first), finds_of(first))
    person = next(person for person in first["people"] if person["status"] == "found")
    given = ("audit", "--config", german.out / "audit.toml", "--cases", person["case"], "--quiet")
    code, out, err = run(capsys, *given)
    assert (code, err, "\x1b" in out) == (0, "", False)
    assert out.splitlines()[0].endswith(".")
    assert all(str(flip["row"]) in out for flip in person["flip_set"])


def test_files_are_complete_the_owners_alone_hold_odd_names_no_formula_and_repeat(
    odd, german, capsys, tmp_path
):
    names = [
        "audit.json",
        "audit.toml",
        "groups.csv",
        "keystones.csv",
        "labels.csv",
        "people.csv",
        "report.html",
    ]
    assert sorted(path.name for path in odd.iterdir()) == names
    assert stat.S_IMODE(odd.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in odd.iterdir()} == {0o600}
    rows = list(csv.reader((odd / "people.csv").read_text(encoding="utf-8").splitlines()))
    assert len(rows) == 16
    assert all(row[rows[0].index("row")].startswith("'=1+") for row in rows[1:])
    ranks = pd.read_csv(german.out / "labels.csv")["rank"]
    assert (len(ranks), sorted(ranks.dropna())) == (600, list(range(1, 1 + ranks.notna().sum())))
    record = json.loads((odd / "audit.json").read_text())
    assert (record["run"]["budget"], record["run"]["members"]) == (8, 2)
    assert record["run"]["label_names"] == ["granted = False", "granted = True"]
    assert {person["values"]["protected group?"] for person in record["people"]} <= {
        "αλφα",
        "b & c",
        "<none>",
    }
    page = (odd / "report.html").read_text()
    assert ("αλφα" in page, "<none>" in page) == (True, False)
    assert any("flip_set" in person for person in record["people"])
    assert run(capsys, "replay", odd / "audit.json")[0] == 0
    given = ("--config", odd / "audit.toml", "--out", tmp_path / "again", "--quiet")
    assert main(["audit", *map(str, given)]) == 0, "with as many draws"
    again = json.loads((tmp_path / "again" / "audit.json").read_text())
    assert finds_of(again) == finds_of(record)
    commands = [shlex.split(each["run"]["command"]) for each in (again, record)]
    assert commands[0][:2] + commands[0][3:] == commands[1][:2] + commands[1][3:]
    tables = [(tmp_path / "again" / commands[0][2]).resolve(), (odd / commands[1][2]).resolve()]
    assert tables == [odd.parents[1] / "loans, all.csv"] * 2
    assert (tmp_path / "again" / "people.csv").read_text() == (odd / "people.csv").read_text()


def test_options_and_settings_reach_the_record(capsys, tmp_path):
    odd_table(300).to_parquet(tmp_path / "t.parquet")
    settings = {
        "hidden": "6,5",
        "batch-size": "32",
        "epochs": 12,
        "encoding": "ordinal",
        "split-seed": 2,
    }
    settings |= {"rank": "distance", "max-retrainings": 5, "n-jobs": 1, "towards": "True"}
    given = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
    table = (
        tmp_path / "t.parquet",
        "--label",
        "granted",
        "--sensitive",
        "région",
        "--drop",
        "member",
    )
    code, out, err = run(
        capsys, "audit", *table, "--drop", "# debts", "--cases", "3,5", "--random-state", 4, "--budget", 3, "--phi",
        "everyone", "--psi", "everything", "--members", 1, "--out", tmp_path / "out", *given, "--json", "--quiet",
    )  # fmt: skip
    assert (code, err) == (0, "")
    record = json.loads(out)
    recipe = record["run"]["learner"]["recipe"]
    assert [recipe[name] for name in ("hidden", "batch_size", "max_epochs", "seed")] == [
        [6, 5],
        32,
        12,
        4,
    ]
    assert [person["case"] for person in record["people"]] == [3, 5]
    assert set(record["people"][0]["values"]) == {"Income (k€), net", "protected group?", "région"}
    assert record["run"]["retrainings"] <= 5
    written = tomllib.loads((tmp_path / "out" / "audit.toml").read_text())
    kept = {name: value for name, value in settings.items() if name != "n-jobs"} | {
        "towards": "granted = True"
    }
    assert {name: written.get(name) for name in kept} == kept

    given = ("--model", "logistic", "--threshold", 0.8, "--cases", "0:20", "--budget", 3)
    code, out, _ = run(capsys, "audit", *table, *given, "--out", tmp_path / "cut")
    assert (code, "at a probability of 0.80" in out) == (0, True)
    assert tomllib.loads((tmp_path / "cut" / "audit.toml").read_text())["threshold"] == "0.8"
    code, out, _ = run(capsys, "gate", tmp_path / "cut" / "audit.json", "--max-solid", "100%")
    assert (code, "at a probability of 0.80" in out.splitlines()[0]) == (4, True), (
        "of so few people"
    )


def test_earlier_results_are_replaced_only_on_purpose_and_a_refused_audit_leaves_no_folder(
    german, capsys, tmp_path
):
    before = (german.out / "audit.json").read_bytes()
    for command in (["audit", "german"], ["standard", "german"]):
        code, out, err = run(capsys, *command, "--out", german.out)
        assert (code, out, "holds earlier results (audit.json)" in err) == (2, "", True)
    assert (german.out / "audit.json").read_bytes() == before
    assert (
        run(capsys, "audit", "german", "--model", "nothing", "--out", tmp_path / "a" / "b")[0] == 2
    )
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "notes.txt").write_text("mine")
    given = ("audit", "salary", "--model", "logistic", "--cases", 3, "--out", tmp_path, "--quiet")
    assert [run(capsys, *given, *more)[0] for more in ((), (), ("--overwrite",))] == [0, 2, 0]
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_datasets_are_listed_as_json_and_in_lines(capsys):
    rows = {row["name"]: row for row in json.loads(run(capsys, "datasets", "--json")[1])}
    assert [rows["german"][part] for part in ("train", "val", "test", "inputs")] == [
        600,
        200,
        200,
        36,
    ]
    _, out, _ = run(capsys, "datasets")
    lines = {line.split()[0]: line.split() for line in out.splitlines()}
    assert lines["german"][:3] == ["german", "1000", "36"]
    assert set(lines) > set(rows)

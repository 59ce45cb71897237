"""`butfor audit`, `replay` and `datasets` as a user meets them: results on stdout, notes on stderr."""

import json
import shlex

import pandas as pd
import pytest

from butfor.cli import main
from conftest import odd_table


@pytest.fixture
def loans(tmp_path):
    path = tmp_path / "loans & co.csv"
    odd_table(600).to_csv(path, index=False)
    return path


def run(capsys, *arguments: object) -> tuple[int, str, str]:
    code = main([str(a) for a in arguments])
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def test_datasets_prints_the_published_sizes(capsys):
    code, out, _ = run(capsys, "datasets", "--json")
    assert code == 0
    rows = {row["name"]: row for row in json.loads(out)}
    for name, sizes in {"salary": "30 11 11", "german": "600 200 200", "bank": "18292 6098 6098"}.items():
        assert " ".join(str(rows[name][part]) for part in ("train", "val", "test")) == sizes
    assert [row["inputs"] for row in rows.values()] == [5, 36, 36, 13, 27, 35, 28]
    _, out, _ = run(capsys, "datasets")
    assert next(line.split() for line in out.splitlines() if line.startswith("german"))[:3] == ["german", "1000", "36"]


def test_one_case_as_json_is_one_document(capsys):
    code, out, _ = run(capsys, "audit", "salary", "--members", 1, "--fresh-seeds", 2, "--cases", 4, "--json")
    record = json.loads(out)
    assert code == 0
    assert set(record) == {"schema_version", "run", "people", "checksum"}
    assert [person["case"] for person in record["people"]] == [4]
    assert record["run"]["data"]["table"] == "salary"
    assert {"data", "versions", "learner", "random_state", "command"} <= set(record["run"])
    assert len(record["run"]["data"]["sha256"]) == 64


def test_the_recorded_command_gives_the_same_record(capsys):
    _, out, _ = run(
        capsys,
        "audit",
        "salary",
        "--cases",
        4,
        "--members",
        2,
        "--fresh-seeds",
        2,
        "--budget",
        2,
        "--epochs",
        20,
        "--json",
    )
    first = json.loads(out)
    _, out, _ = run(capsys, *shlex.split(first["run"]["command"])[1:], "--json")
    second = json.loads(out)
    for record in (first, second):
        record["run"].pop("seconds")
        record.pop("checksum")
    assert first == second


def test_a_population_is_written_and_replays(capsys, tmp_path):
    out_dir = tmp_path / "report"
    code, out, err = run(
        capsys, "audit", "salary", "--members", "1", "--fresh-seeds", "0", "--strategy", "exhaustive", "--out", out_dir,
        "--engine", "fused",
    )  # fmt: skip
    assert code == 0
    assert "3 of 10 audited decisions" in out
    assert str(out_dir / "report.html") in err
    assert sorted(p.name for p in out_dir.iterdir()) == [
        "audit.json",
        "audit.toml",
        "keystones.csv",
        "people.csv",
        "report.html",
    ]
    assert len(pd.read_csv(out_dir / "people.csv")) == 11
    code, out, _ = run(capsys, "replay", out_dir / "audit.json")
    assert code == 0
    assert out.count(": agree") == 3
    record = json.loads((out_dir / "audit.json").read_text())
    next(p for p in record["people"] if "flip_set" in p)["logit"] *= 2
    (out_dir / "audit.json").write_text(json.dumps(record))
    code, out, _ = run(capsys, "replay", out_dir / "audit.json")
    assert code == 1
    assert "DISAGREE" in out


def test_a_table_of_ones_own(capsys, loans, tmp_path):
    code, out, err = run(
        capsys, "audit", loans, "--label", "granted", "--sensitive", "protected group?", "--cases", "0:15",
        "--budget", "2%", "--members", 2, "--fresh-seeds", 3, "--epochs", 10, "--out", tmp_path / "out",
    )  # fmt: skip
    assert code == 0
    assert "αλφα" in out
    assert "360 training rows" in err
    record = json.loads((tmp_path / "out" / "audit.json").read_text())
    assert record["run"]["budget"] == 8
    assert record["run"]["label_names"] == ["granted = False", "granted = True"]
    assert (tmp_path / "out" / "report.html").stat().st_size < 1_000_000
    assert any("flip_set" in person for person in record["people"])
    assert run(capsys, "replay", tmp_path / "out" / "audit.json")[0] == 0


def test_a_changed_table_does_not_replay(capsys, loans):
    arguments = [
        "audit",
        loans,
        "--label",
        "granted",
        "--sensitive",
        "région",
        "--cases",
        "0:15",
        "--epochs",
        20,
        "--budget",
        6,
        "--members",
        1,
        "--fresh-seeds",
        0,
        "--json",
    ]
    _, out, _ = run(capsys, *arguments)
    record = loans.with_name("audit.json")
    record.write_text(out)
    assert "flip_set" in out
    odd_table(600, seed=1).to_csv(loans, index=False)
    code, _, err = run(capsys, "replay", record)
    assert code == 2
    assert "rows are different" in err


def test_parquet_and_options(capsys, tmp_path):
    path = tmp_path / "t.parquet"
    odd_table(300).to_parquet(path)
    code, out, err = run(
        capsys, "audit", path, "--label", "granted", "--sensitive", "région",
        "--drop", "member,# debts", "--cases", "3,5", "--hidden", "6,5", "--batch-size", "32", "--epochs", 12,
        "--encoding", "ordinal", "--random-state", 4, "--split-seed", 2, "--rank", "distance", "--budget", 3, "--phi",
        "everyone", "--psi", "everything", "--max-retrainings", 5, "--members", 1, "--n-jobs", 1, "--json", "--quiet",
    )  # fmt: skip
    assert (code, err) == (0, "")
    record = json.loads(out)
    learner = record["run"]["learner"]["recipe"]
    assert (learner["hidden"], learner["batch_size"], learner["max_epochs"], learner["seed"]) == (
        [6, 5],
        32,
        12,
        4,
    )
    assert [p["case"] for p in record["people"]] == [3, 5]
    assert set(record["people"][0]["values"]) == {"Income (k€), net", "protected group?", "région"}
    assert record["run"]["retrainings"] <= 5


def test_the_answer_about_many_people_fits_a_terminal(capsys):
    code, out, err = run(capsys, "audit", "german", "--model", "logistic", "--budget", "2", "--cases", "0:60")
    assert code == 0
    assert len(out.splitlines()) + len(err.splitlines()) <= 25

"""Settings files: the options by their names; the command line wins; every audit writes the one that repeats it."""

import json
import tomllib

import numpy as np
import pandas as pd
import pytest

from butfor.cli import main

SETTINGS = {
    "label": '"granted"', "sensitive": '"sex"', "drop": '["ref", "branch"]', "model": '"logistic"', "budget": '"2"',
    "cases": '"0:6"', "fresh_seeds": "0", "split-seed": "3", "psi": '"everything"',
}  # fmt: skip


@pytest.fixture
def here(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    income = rng.normal(50, 10, 120)
    table = pd.DataFrame(
        {"ref": [f"A{k}" for k in range(120)], "branch": "x", "income": income, "sex": rng.choice(["f", "m"], 120),
         "granted": np.where(income + rng.normal(0, 8, 120) > 50, "yes", "no")}
    )  # fmt: skip
    monkeypatch.chdir(tmp_path)
    table.to_csv("t.csv", index=False)
    return tmp_path


def config(**settings: str) -> str:
    lines = [f"{name} = {value}" for name, value in ({"table": '"t.csv"'} | SETTINGS | settings).items()]
    with open("audit.toml", "w") as file:
        file.write("\n".join(lines))
    return "audit.toml"


def audited(capsys, *options: str) -> dict:
    code = main(["audit", *options, "--json", "--quiet"])
    printed = capsys.readouterr()
    assert code == 0, printed.err
    return json.loads(printed.out)


def told(record: dict) -> list:
    return [[person.get(key) for key in ("row", "logit", "flip_set")] for person in record["people"]]


def test_a_file_says_what_the_command_line_would(capsys, here):
    file = audited(capsys, "--config", config())
    line = audited(
        capsys, "t.csv", "--label", "granted", "--sensitive", "sex", "--drop", "ref,branch", "--model", "logistic",
        "--budget", "2", "--cases", "0:6", "--fresh-seeds", "0", "--split-seed", "3", "--psi", "everything",
    )  # fmt: skip
    assert told(file) == told(line)
    assert file["run"]["command"] == line["run"]["command"]


def test_people_that_the_command_line_names_win_over_the_files(capsys, here):
    listed = config(cases="[9, 5]")
    assert [person["case"] for person in audited(capsys, "--config", listed)["people"]] == [9, 5]
    assert audited(capsys, "--config", listed, "--cases", "0:3")["people"][2:]


def test_options_that_take_names_may_be_repeated(capsys, here):
    given = ["t.csv", "--label", "granted", "--model", "logistic", "--cases", "0:3", "--budget", "1"]
    once = audited(capsys, *given, "--sensitive", "sex", "--drop", "ref,branch,sex")
    twice = audited(capsys, *given, "--sensitive", "sex", "--drop", "ref", "--drop", "branch,sex")
    assert once["run"]["blind"] is twice["run"]["blind"] is True
    assert once["run"]["command"] == twice["run"]["command"]
    both = audited(capsys, *given, "--sensitive", "sex", "--sensitive", "branch", "--drop", "ref")
    assert both["run"]["sensitive_columns"] == ["sex", "branch"]


def test_the_command_line_wins(capsys, here):
    record = audited(capsys, "--config", config(), "--budget", "3", "--cases", "0:2")
    assert (record["run"]["budget"], len(record["people"])) == (3, 2)
    pd.read_csv("t.csv").head(100).to_csv("other.csv", index=False)
    assert audited(capsys, "other.csv", "--config", config())["run"]["data"]["table"] == "other.csv"


ENSEMBLE = (
    "--model", "mlp", "--hidden", "4", "--epochs", "5", "--members", "3", "--cases", "1,4", "--adverse",
    "no", "--strategy", "solid",
)  # fmt: skip


@pytest.mark.parametrize("extra", [(), ENSEMBLE])
def test_every_audit_writes_the_file_that_repeats_it(capsys, here, extra):
    assert main(["audit", "--config", config(), "--out", "first", "--quiet", *extra]) == 0
    assert main(["audit", "--config", "first/audit.toml", "--out", "second", "--quiet"]) == 0
    first, second = (json.loads((here / name / "audit.json").read_text()) for name in ("first", "second"))
    assert told(first) == told(second)
    assert first["run"]["phi"] == second["run"]["phi"]
    assert (here / "first" / "audit.toml").read_text() == (here / "second" / "audit.toml").read_text()
    assert (here / "first" / "people.csv").read_text() == (here / "second" / "people.csv").read_text()


def test_the_file_of_an_audit_has_every_option_that_was_given(here):
    given = {
        "budget": "3", "cases": "1,4", "phi": "everyone", "psi": "same_group", "rank": "distance",
        "split-seed": 2, "random-state": 4, "max-retrainings": 40, "strategy": "guided", "missing": "refuse",
    }  # fmt: skip
    options = [word for name, value in given.items() for word in (f"--{name}", str(value))]
    assert main(["audit", "--config", config(), "--out", "first", "--quiet", *options]) == 0
    written = tomllib.loads((here / "first" / "audit.toml").read_text())
    assert {name: written.get(name) for name in given} == given


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"buget": "2"}, "'audit.toml': there is no option 'buget'. Did you mean 'budget'?"),
        ({"max_retraining": "2"}, "Did you mean 'max-retrainings'?"),
        ({"xyzzy": "2"}, "there is no option 'xyzzy'. Choose one of 'adverse', "),
        ({"config": '"other.toml"'}, "there is no option 'config'"),
        ({"random-state": '"one"'}, """'audit.toml': random-state = "one": 'one' is not a valid integer"""),
        ({"missing": '"perhaps"'}, "'audit.toml': missing = \"perhaps\": 'perhaps' is not one of"),
        ({"strict": '"yes"'}, "'audit.toml': strict = \"yes\": give true or false."),
        ({"random-state": "true"}, "'audit.toml': random-state = true: this is not true or false."),
        ({"label": '{ column = "x" }'}, "'audit.toml': label is a section"),
        ({"label": '"a\\u0000b"'}, "'audit.toml': label holds a NUL byte"),
        ({"out": '"a\\u0000b"'}, "'audit.toml': out holds a NUL byte"),
        ({"label": '"granted'}, "'audit.toml' is not a TOML file ("),
    ],
)  # fmt: skip
def test_a_file_that_cannot_be_meant_is_refused(capsys, here, settings, said):
    assert main(["audit", "--config", config(**settings)]) == 2
    err = capsys.readouterr().err
    assert said in err
    assert len(err.strip().splitlines()) == 1


def test_a_file_that_is_not_there(capsys, here):
    assert main(["audit", "--config", "no.toml"]) == 2
    assert "--config 'no.toml' cannot be read" in capsys.readouterr().err
    assert main(["audit"]) == 2
    assert "Missing argument 'TABLE'" in capsys.readouterr().err


def test_check_table_reads_the_file_of_an_audit(capsys, here):
    assert main(["check-table", "--config", config()]) == 0
    assert "t.csv: 72 training" in capsys.readouterr().out


def test_paths_in_a_file_start_from_its_folder(capsys, here, monkeypatch):
    pd.read_csv("t.csv").head(40).to_csv("new.csv", index=False)
    config(test='"new.csv"', adverse='"no"')
    away = here / "away"
    away.mkdir()
    monkeypatch.chdir(away)
    assert main(["audit", "--config", "../audit.toml", "--out", "first", "--quiet"]) == 0
    written = tomllib.loads((away / "first" / "audit.toml").read_text())
    assert (written["table"], written["test"]) == ("../../t.csv", "../../new.csv")
    monkeypatch.chdir(here)
    assert main(["audit", "--config", "away/first/audit.toml", "--out", "second", "--quiet"]) == 0
    first, second = (json.loads((here / name / "audit.json").read_text()) for name in ("away/first", "second"))
    assert told(first) == told(second)
    assert (first["run"]["data"]["table"], second["run"]["data"]["table"]) == ("../t.csv", "t.csv")
    capsys.readouterr()
    assert main(["check-table", "--config", "away/first/audit.toml"]) == 0
    assert "% labelled 'granted = no'" in capsys.readouterr().out


def test_names_of_embedded_sets_in_a_file_are_no_paths(capsys, tmp_path):
    (tmp_path / "a.toml").write_text('table = "salary"\nmodel = "logistic"\ncases = "1"\n')
    assert audited(capsys, "--config", str(tmp_path / "a.toml"))["run"]["data"]["table"] == "salary"


def test_settings_files_may_hold_empty_lists_and_no_option_twice(tmp_path, capsys):
    file = tmp_path / "a.toml"
    given = ["audit", "salary", "--config", str(file), "--members", "1", "--cases", "1", "--json", "--quiet"]
    file.write_text("fresh-seeds = 0\ndrop = []\n", encoding="utf-8")
    assert main(given) == 0, capsys.readouterr().err
    assert json.loads(capsys.readouterr().out)["people"][0]["case"] == 1
    file.write_text("fresh-seeds = 0\nfresh_seeds = 5\n", encoding="utf-8")
    assert main(given) == 2
    assert "the option 'fresh-seeds' occurs twice" in capsys.readouterr().err

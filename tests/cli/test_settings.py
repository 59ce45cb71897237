"""Options, settings and their file: the same by every way, the command line wins, and help shows
them all."""

import inspect
import json
import re
import shlex
import tomllib
from dataclasses import FrozenInstanceError, fields
from pathlib import Path

import pandas as pd
import pytest

import applicants
import butfor
from butfor.cli import cli, main
from butfor.cli import options as opt
from butfor.models.by_name import NAMES as MODELS
from butfor.models.engines import NAMES as ENGINES
from butfor.search.rules import PHI, PSI
from butfor.settings import AuditSettings
from butfor.standard.settings import ComparisonOptions, ComparisonSettings
from butfor.support.settings import declarations
from recorded import run

SAID = {
    "table": "t.csv", "label": "granted", "sensitive": "sex", "drop": ["ref", "job"], "model": "logistic",
    "budget": 2, "cases": "0:6", "fresh_seeds": 0, "split-seed": 3, "psi": "everything",
}  # fmt: skip
LINE = shlex.split(
    "t.csv --label granted --sensitive sex --drop ref --drop job --model logistic --budget 2 "
    "--cases 0:6 "
    "--fresh-seeds 0 --set split-seed=3 --psi everything"
)


def config(**settings: object) -> None:
    lines = (SAID | settings).items()
    Path("a.toml").write_text("\n".join(f"{name} = {json.dumps(value)}" for name, value in lines))


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    applicants.saved(applicants.applicants(), "t.csv")
    return tmp_path


def audited(capsys, *options: object) -> dict:
    return applicants.audited(capsys, *options, "--quiet", columns=())[0]


def test_a_file_says_what_the_command_line_would_and_the_command_line_wins(capsys, here):
    config()
    line, file = audited(capsys, *LINE), audited(capsys, "--config", "a.toml")
    assert (file["people"], file["run"]["command"]) == (line["people"], line["run"]["command"])
    given = ("--budget", 3, "--cases", "0:2", "--set", "split-seed=4")
    other = audited(capsys, "--config", "a.toml", *given)["run"]
    assert (other["budget"], other["data"]["split_seed"]) == (3, 4)
    config(cases=[9, 5])
    assert [p["case"] for p in audited(capsys, "--config", "a.toml")["people"]] == [9, 5]
    network = (
        "--set",
        "hidden=none",
        "--set",
        "epochs=3",
        "--members",
        1,
        "--fresh-seeds",
        0,
        "--cases",
        1,
    )
    both = audited(capsys, *LINE[:5], "--sensitive", "job", "--budget", 1, *network)
    assert both["run"]["learner"]["recipe"]["hidden"] == []
    assert both["run"]["sensitive_columns"] == ["sex", "job"]


def test_paths_in_a_file_start_from_its_folder(capsys, here, monkeypatch):
    pd.read_csv("t.csv").head(40).to_csv("new.csv", index=False)
    config(cases=3, test="new.csv", adverse="no", names="words.toml")
    Path("words.toml").write_text("[people]\nnoun = 'applicants'")
    (here / "away").mkdir()
    monkeypatch.chdir(here / "away")
    assert run(capsys, "audit", "--config", "../a.toml", "--out", "first", "--quiet")[0] == 0
    written = tomllib.loads((here / "away" / "first" / "audit.toml").read_text())
    paths = [written[name] for name in ("table", "test", "names")]
    assert paths == ["../../t.csv", "../../new.csv", "../../words.toml"]
    monkeypatch.chdir(here)
    assert audited(capsys, "--config", "away/first/audit.toml")["run"]["data"]["table"] == "t.csv"
    code, out, _ = run(
        capsys, "check-table", "--config", "away/first/audit.toml"
    )  # passes over what it does not know
    assert (code, "% labelled 'granted = no'" in out) == (0, True)
    (here / "b.toml").write_text('table = "salary"\nmodel = "logistic"\ncases = "1"\ndrop = []\n')
    assert (
        audited(capsys, "--config", "b.toml")["run"]["data"]["table"] == "salary"
    )  # an embedded set is no path


PARSED = [
    (lambda text: opt.bands_in([text]), "25,60", [25, 60]),
    (lambda text: opt.bands_in(text.split()), "age=25,60 pay=1e3", {"age": [25, 60], "pay": [1000]}),
    (opt.budget_in, "0.1%", 0.001), (opt.budget_in, "0.01", 0.01),
    (opt.seconds_in, "90s", 90), (opt.seconds_in, "1.5h", 5400), (opt.seconds_in, "20", 20),
    (lambda text: opt.references_in(text, ["race", "sex"]), "race=white, sex=m", {"race": "white", "sex": "m"}),
    (lambda text: opt.references_in(text, "race"), "white", ["white"]),
    (lambda text: opt.cases_in(text, 10), "3,1,3", [3, 1]), (lambda text: opt.cases_in(text, 10), "8:", [8, 9]),
    (lambda text: opt.cases_in(text, 10), ":2,5", [0, 1, 5]), (lambda text: opt.cases_in(text, 10), "7:50", [7, 8, 9]),
]  # fmt: skip


@pytest.mark.parametrize(("parse", "text", "value"), PARSED)
def test_texts_are_read_as_they_are_meant(parse, text, value):
    assert parse(text) == value


def test_help_fits_80_columns_names_all_choices_and_docs_name_settings(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    said = {}
    for command in cli.commands:
        assert main([command, "--help"]) == 0
        said[command] = capsys.readouterr().out
        lines = said[command].splitlines()
        assert [
            line
            for line in lines
            if len(line) > 80 or (line.endswith("...") and "[ARGS]..." not in line)
        ] == []
    titles = re.findall(r"^(\w+)(?: options)?:$", said["audit"], re.MULTILINE)
    assert titles == ["Common", "Table", "Model", "Question", "Output", "Other"]
    shown = re.findall(r"^  (?:--)?([a-z-]+) ", said["audit"], re.MULTILINE)
    shown = shown[shown.index("label") :]
    assert tuple(shown[: len(opt.FIRST)]) == opt.FIRST
    assert shown[-len(opt.SETTINGS) :] == list(map(opt.dashed, opt.SETTINGS))
    assert len(set(shown)) == len(shown)
    assert [
        name
        for name in (*MODELS, *ENGINES, *PHI, *PSI)
        if not re.search(rf"\b{name}\b", said["audit"])
    ] == []
    options = [
        option for option in cli.commands["audit"].params if option.param_type_name == "option"
    ]
    assert not any(option.hidden for option in options)
    docs = (Path(__file__).parents[2] / "docs" / "data.md").read_text(encoding="utf-8")
    assert [name for name in map(opt.dashed, opt.SETTINGS) if f"`{name}`" not in docs] == []
    assert main([]) == 2
    bare = capsys.readouterr()
    assert (main(["--help"]), bare.out, bare.err) == (0, capsys.readouterr().out, "")


def test_the_defaults_of_python_and_the_command_line_are_the_same():
    defaults = {p.name: p.default for p in inspect.signature(butfor.LabelAudit).parameters.values()}
    options = cli.commands["audit"].make_context("audit", ["german"]).params
    options |= options["settings"]
    for name in (
        "members",
        "phi",
        "psi",
        "fresh_seeds",
        "engine",
        "rank",
        "strategy",
        "random_state",
    ):
        assert options[name] == defaults[name], name
    assert float(options["threshold"]) == defaults["threshold"]
    assert {each.name: each.default for each in fields(AuditSettings)} == defaults


def test_both_doors_of_python_and_the_command_take_every_setting_of_a_comparison():
    given = {each.name: each.default for each in fields(ComparisonSettings)}
    shared = [name for name, about in declarations(ComparisonSettings).items() if about.group]
    assert shared == list(ComparisonOptions.__annotations__)
    for door in (butfor.LabelAudit.fit, butfor.compare_standards):
        parameters = inspect.signature(door).parameters
        assert [parameters[name].default for name in shared] == [given[name] for name in shared]
        assert {parameters[name].kind for name in shared} == {inspect.Parameter.KEYWORD_ONLY}
    options = cli.commands["standard"].make_context("standard", ["german"]).params
    assert [name for name in shared if name not in options] == []
    with pytest.raises(TypeError, match="draw"):
        butfor.compare_standards(None, None, sensitive_features="a", adverse=0, draw=3)
    with pytest.raises(ValueError, match="draws=-1 must be a whole number from 0 up"):
        ComparisonSettings(draws=-1)
    with pytest.raises(FrozenInstanceError):
        AuditSettings().budget = 3

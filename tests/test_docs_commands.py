"""The commands that README and the documents show: each is parsed by the command itself, and what
ends within seconds on stand-in files runs. What is only parsed stands in `NOT_RUN`, with the
reason."""

import argparse
import importlib.util
import itertools
import re
import runpy
import shlex
import shutil
import sys
from pathlib import Path

import click
import numpy as np
import pandas as pd
import pytest

from butfor.cli import cli
from recorded import fill_in, key_of, run
from test_docs import PAGES, ROOT

NOT_RUN = {
    "a part of the text, or with a place to fill in": (
        "butfor COMMAND --help",
        "butfor audit --config audit.toml",
        "butfor audit --config report/audit.toml --out again/",
        "butfor audit FILE --label COLUMN --sensitive COLUMN",
        "butfor audit TABLE",
        "butfor audit … --out report/",
        "butfor check-table FILE --label COLUMN --sensitive COLUMN …",
        "butfor check-table TABLE",
        "butfor check-table loans.csv … --write-names names.toml",
        "butfor check-table … --write-names names.toml",
        "butfor gate FILE",
        "butfor replay FILE",
        "butfor replay audit.json --model package.module:name",
        "butfor replay report/audit.json --data other/place/loans.csv",
        "butfor replay report/audit.json --fresh-seeds",
        "butfor review FILE",
        "butfor standard FILE.csv --label … --adverse … --sensitive …",
        "butfor standard TABLE",
        "butfor … | head -1",
    ),
    "takes minutes": (
        "butfor audit german",
        "butfor audit german --cases 148",
        "python -m evaluation table1",
        "python -m pytest tests/hostile",
        "python -m pytest tests/search -n 0",
    ),
    "downloads a data set": (
        "butfor audit adult --cases 36 --members 1 --budget 28 --set rank=combined --set "
        "strategy=algorithm1 "
        "--fresh-seeds 0",
    ),
    "needs other machines or processes": (
        "butfor audit loans.csv --label approved --sensitive sex --engine local:4",
        "butfor audit loans.csv --label approved --sensitive sex --engine tcp://scheduler:8786 "
        "--set ledger=loans.db",
    ),
    "runs when the site is built": (
        "butfor audit HMDA.csv --label deny --adverse yes --sensitive afam --drop rownames "
        "--model logistic "
        "--names names.toml --out report/",
        "butfor review report/audit.json --out tasks/ --anyway",
        "butfor audit --config report/audit.toml",
        "butfor standard HMDA.csv --label deny --adverse yes --sensitive afam --drop rownames "
        "--names names.toml",
    ),
}
MEASURED = "benchmarks", "evaluation"
"""Packages whose measurements take minutes to hours: `python -m` lines are parsed alone."""
COMMAND = re.compile(r"(?:\.venv/bin/)?((?:butfor|python -m) .*)")
NO_COMMAND = "butfor COMMAND --help", "butfor … | head -1"
NAME = re.compile(r"(butfor [a-z-]+|python -m [\w.]+)")


def shown(page: Path) -> list[str]:
    """The commands on a page, in their order: lines of blocks, without what stands behind #, then
    code in sentences."""
    text = page.read_text(encoding="utf-8")
    if page.suffix == ".py":
        text = re.sub(r"^# ?", "", text, flags=re.MULTILINE)
        text = re.sub(
            r"^%% \[console\]\n(.*?)(?=^%%|\Z)",
            r"```\n\1```\n",
            text,
            flags=re.MULTILINE | re.DOTALL,
        )
    blocks = re.findall(r"^```\w*\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    lines = "\n".join(blocks).replace("\\\n", " ").splitlines()
    sentences = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    code = re.findall(r"`([^`]*)`", sentences)
    commands = (" ".join(each.partition("  #")[0].split()) for each in (*lines, *code))
    return [found[1] for each in commands if (found := COMMAND.fullmatch(each))]


COMMANDS = {page: shown(page) for page in PAGES}


def words_of(line: str) -> list[str]:
    """What follows "butfor"; … stands for a table, for a value, or for options that are left
    out."""
    _, name, *words = shlex.split(line)
    if words[:1] == ["…"]:
        words[0] = "loans.csv"
    pairs = itertools.pairwise([name, *words])
    return [name, *(word for before, word in pairs if word != "…" or before.startswith("--"))]


def test_every_command_on_a_page_is_parsed(tmp_path, monkeypatch):
    """By the command or the module itself, which is stopped once it has read its arguments."""
    assert sum(map(len, COMMANDS.values())) > 70
    monkeypatch.chdir(tmp_path)
    for place in ("audit.toml", "report/audit.toml"):
        (tmp_path / place).parent.mkdir(exist_ok=True)
        (tmp_path / place).write_text('table = "loans.csv"\n')
    wrong = []
    for page, lines in COMMANDS.items():
        for line in lines:
            try:
                parse(line)
            except (click.ClickException, SystemExit, AssertionError, ImportError) as error:
                wrong.append(f"{page.name}: {line}: {error!r}")
    assert wrong == []


def parse(line: str) -> None:
    program, *words = shlex.split(line)
    if NAME.fullmatch(line):  # the name of a command, in a sentence
        assert words[-1] in cli.commands or importlib.util.find_spec(words[-1]), words
    elif program == "butfor" and line not in NO_COMMAND:
        name, *words = words_of(line)
        cli.commands[name].make_context(name, words)
    elif words[:2] == ["-m", "pytest"]:
        assert (ROOT / words[2]).is_dir()
    elif words[:2] == [
        "-m",
        "benchmarks.memory",
    ]:  # for other measurements, which start it in a process of its own
        assert len(words) == 5
    elif program == "python":
        assert words[1].partition(".")[0] in MEASURED
        parse_arguments(words[1], words[2:])


class Parsed(Exception):
    """A module has read its arguments."""


def parse_arguments(module: str, words: list[str]) -> None:
    real = argparse.ArgumentParser.parse_args

    def only(parser: argparse.ArgumentParser, *given: object) -> None:
        real(parser, *given)
        raise Parsed

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(argparse.ArgumentParser, "parse_args", only)
        patch.setattr(sys, "argv", [module, *words])
        patch.delitem(sys.modules, module, raising=False)
        with pytest.raises(Parsed):
            runpy.run_module(module, run_name="__main__")


# --- run ------------------------------------------------------------------------------------------


def stand_in(rows: int = 400) -> pd.DataFrame:
    """A table of loans: three in five of the black applicants who deserve one are refused, and of
    others there are few."""
    rng = np.random.default_rng(0)
    race = rng.choice(["white", "black", "other"], rows, p=[0.55, 0.4, 0.05])
    income, debts = rng.integers(1, 4, rows), rng.integers(0, 2, rows)
    good = rng.random(rows) < 0.5 + 0.15 * income - 0.1 * debts
    good &= (race != "black") | (rng.random(rows) < 0.4)
    return pd.DataFrame(
        {"race": race, "income": income, "debts": debts, "approved": np.where(good, "yes", "no")}
    )


def to_run() -> dict[str, list[str]]:
    """The lines that run, by page; not those of a page whose lines all stand on others."""
    left_out = {line for lines in NOT_RUN.values() for line in lines}
    pages = {}
    for page, lines in COMMANDS.items():
        ours = [
            line
            for line in dict.fromkeys(lines)
            if line.startswith("butfor") and line not in left_out
        ]
        pages[page.name] = [
            line for line in ours if line == "butfor datasets" or not NAME.fullmatch(line)
        ]
    for name in sorted(pages, key=lambda name: len(pages[name])):
        others = {line for other, lines in pages.items() if other != name for line in lines}
        if others.issuperset(pages[name]):
            del pages[name]
    return pages


RUN = to_run()


def test_every_line_that_is_not_run_stands_on_a_page():
    every = {line for lines in COMMANDS.values() for line in lines}
    assert [line for lines in NOT_RUN.values() for line in lines if line not in every] == []


def option(words: list[str], name: str) -> list[Path]:
    return [Path(value) for option, value in itertools.pairwise(words) if option == name]


def answer(answers: Path) -> None:
    """A reviewer returns the tasks filled in, and finds every label under review wrong."""
    tasks = Path("tasks").resolve()
    asked = (tasks / "instructions.txt").read_text()
    favourable = next(name for name in ("good credit", "yes") if name in asked)
    labels = {
        task["id"]: favourable if task["kind"] == "label" else task["label"]
        for task in key_of(tasks)
    }
    shutil.copy(fill_in(tasks, labels, name="filled.csv"), answers)


@pytest.mark.parametrize("page", RUN)
def test_the_commands_of_a_page_run_one_after_the_other(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    loans = stand_in()
    loans.to_csv("loans.csv", index=False)
    deny = loans["approved"].map({"yes": "no", "no": "yes"})
    afam = (loans["race"] == "black").map({True: "yes", False: "no"})
    loans.drop(columns=["race", "approved"]).assign(afam=afam, deny=deny).rename_axis(
        "rownames"
    ).to_csv("HMDA.csv")
    if any("standards/standard.json" in line for line in RUN[page]):
        columns = ("--label", "approved", "--adverse", "no", "--sensitive", "race")
        assert (
            run(capsys, "standard", "loans.csv", *columns, "--draws", 9, "--out", "standards")[0]
            == 0
        )
    for line in RUN[page]:
        words = words_of(line)
        for folder in option(words, "--out"):
            shutil.rmtree(folder, ignore_errors=True)
        for answers in option(words, "--answers"):
            answer(answers)
        drawn = (
            ("--draws", 9) if words[0] == "standard" else ()
        )  # more take longer and change no more than figures
        code, out, err = run(capsys, *words, *drawn)
        assert code == 0 or (words[0], code) in (("gate", 1), ("gate", 4)), (line, out, err)

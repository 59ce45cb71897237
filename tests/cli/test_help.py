"""What `--help` shows, and where the rest is listed."""

import re
from pathlib import Path

import pytest

from butfor.cli import main
from butfor.cli.commands import audit, cli


def test_without_a_command_the_help_is_shown_as_it_is_laid_out(capsys):
    assert main([]) == 2
    bare = capsys.readouterr()
    main(["--help"])
    assert bare.out == capsys.readouterr().out
    assert bare.out.count("\n") > 10
    assert bare.err == ""


def test_help_shows_at_most_30_options_in_four_groups(capsys):
    assert main(["audit", "--help"]) == 0
    out = capsys.readouterr().out
    assert [line for line in out.splitlines() if line.endswith(":") and not line.startswith(" ")] == [
        "Table:",
        "Model:",
        "Question:",
        "Output:",
        "Other options:",
    ]
    assert len(re.findall(r"^  (?:-h, )?--", out, re.MULTILINE)) <= 30
    assert "docs/data.md lists more options" in " ".join(out.split())


def test_settings_that_the_help_leaves_out_are_in_the_docs():
    docs = (Path(__file__).parents[2] / "docs" / "data.md").read_text(encoding="utf-8")
    left_out = [option.name.replace("_", "-") for option in audit.params if getattr(option, "hidden", False)]
    assert len(left_out) == 16
    assert [name for name in left_out if f"`{name}`" not in docs] == []


def test_help_names_the_choices(capsys):
    assert main(["audit", "--help"]) == 0
    out = capsys.readouterr().out
    for word in ("boosting", "stable_under_switch", "same_group", "fused"):
        assert word in out


@pytest.mark.parametrize("command", ["", *cli.commands])
def test_help_fits_80_columns_and_cuts_no_sentence_short(capsys, monkeypatch, command):
    monkeypatch.setenv("COLUMNS", "80")
    assert main([*filter(None, [command]), "--help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if len(line) > 80 or (line.endswith("...") and "[ARGS]..." not in line)] == []

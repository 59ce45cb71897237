"""What an audit prints fits a terminal of 80 columns, and twelve lines."""

import re

import pytest

import butfor.terminal
from butfor.cli import main, printing


@pytest.fixture
def columns(monkeypatch):
    def set_width(width):
        for module in (butfor.terminal, printing):
            monkeypatch.setattr(module, "width_of", lambda stream: width)

    return set_width


@pytest.mark.parametrize("width", [80, 100, 160])
def test_an_audit_fits_the_terminal_and_breaks_no_word(capsys, columns, width):
    columns(width)
    assert main(["audit", "german", "--model", "logistic", "--cases", "0:30", "--budget", "2"]) == 0
    said = capsys.readouterr()
    lines = said.out.splitlines()
    assert sum(not line.startswith("Fewer than 10 people") for line in lines) <= 12
    assert max(map(len, (*lines, *said.err.splitlines()))) <= width
    assert re.fullmatch(r"Accuracy: 7\d % on 200 test people \(always predicting 'good credit': 71 %\)\.", lines[0])
    head = next(line for line in lines if line.startswith("sex "))
    assert re.split(r"\s{2,}", head.strip()) == [
        "sex",
        "People",
        "Favourable (ratio)",
        "Gap to comparable people",
        "On few labels",
    ]
    rows = [line for line in lines if line.startswith(("female ", "male "))]
    assert [int(row.split()[1]) for row in rows] == [72, 128], "all columns are about all test people"
    assert sum(int(row.split()[-1]) for row in rows) <= 30
    assert lines[-1].startswith(("Next: review labels ", "Fewer than 10 people"))


def test_the_files_written_are_listed_within_the_terminal(capsys, columns, monkeypatch, tmp_path):
    columns(80)
    monkeypatch.chdir(tmp_path)
    assert main(["audit", "german", "--model", "logistic", "--cases", "0:5", "--budget", "1", "--out", "out"]) == 0
    lines = capsys.readouterr().err.splitlines()
    assert max(map(len, lines)) <= 80
    assert " ".join(lines).endswith("audit.toml into out. Open out/report.html")


def test_a_pipe_gets_a_line_per_sentence(capsys):
    assert main(["audit", "german", "--model", "logistic", "--cases", "0:30", "--budget", "2", "--quiet"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert all(line.endswith(".") for line in out.splitlines()[:4])

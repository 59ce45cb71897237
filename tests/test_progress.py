"""One line of long work: what is going on, how far it is, and how long it will still take."""

from types import SimpleNamespace

import pytest

import butfor.progress as progress_module
from butfor.progress import ConsoleProgress, announcement
from butfor.terminal import shown


@pytest.fixture
def clock(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(progress_module, "time", SimpleNamespace(monotonic=lambda: now[0]))
    return now


def test_a_log_says_how_far_it_is_and_how_long_the_rest_takes(clock, capsys):
    with ConsoleProgress() as progress:
        progress.phase("fresh seeds", 100)
        progress.found(3)
        clock[0] = 20.0
        progress.advance(4)  # too soon for a line
        clock[0] = 40.0
        progress.advance(6)
        progress.advance(90)
    assert capsys.readouterr().err == "fresh seeds: 10 of 100 trainings, 3 found; about 6 minutes left\n"


def test_the_first_few_trainings_promise_no_end(clock, capsys):
    with ConsoleProgress() as progress:
        progress.phase("search", 100)
        clock[0] = 60.0
        progress.advance(4)
    assert capsys.readouterr().err == "search: 4 of 100 trainings\n"


def test_one_estimate_runs_down_through_all_phases(clock):
    with ConsoleProgress() as progress:
        progress.expect(600)
        progress.phase("ranking", 4, "people")
        clock[0] = 120.0
        progress.advance(4)
        progress.phase("search")
        progress.advance(7)
        assert progress._line() == "search: 7 trainings; about 8 minutes left"
        progress.phase("confirmation", 16)  # comes and goes within the search
        progress.advance(2)
        clock[0] = 590.0
        assert progress._line() == "search: 9 trainings; about 10 seconds left"
        clock[0] = 700.0
        assert progress._line() == "search: 9 trainings; longer than expected"
        progress.phase("fresh seeds", 10)
        clock[0] = 720.0
        progress.advance(5)
        assert progress._line() == "fresh seeds: 5 of 10 trainings; about 20 seconds left"


def test_a_phase_that_stands_still_does_not_promise_more_and_more_time(clock):
    with ConsoleProgress() as progress:
        progress.phase("tables", 100, "tables")
        clock[0] = 60.0
        progress.advance(50)
        clock[0] = 100.0
        assert progress._line() == "tables: 50 of 100 tables; about 20 seconds left"
        progress.advance(50)
        assert progress._line() == "tables: 100 of 100 tables"


def test_a_terminal_shows_one_line_that_is_gone_in_the_end(capsys, monkeypatch):
    progress = ConsoleProgress()
    progress.terminal = True
    with progress:
        progress.phase("search " * 30)
        progress._draw(progress._line())
        progress.note("A note.")
    said = capsys.readouterr().err
    lines = [shown(part) for part in said.split("\r")]
    assert "\n" not in said.replace("A note.\n", "")
    assert max(map(len, lines)) < 80
    assert said.endswith("\r\x1b[2K"), "the line is wiped out"


def test_what_it_will_cost_is_said_in_the_unit_a_person_would_say():
    said = [announcement(people, seconds) for people, seconds in ((1, 1), (2, 89), (3, 600), (4, 7200), (5, 0))]
    assert said == [
        "1 person, about a second; Ctrl-C keeps what is done.",
        "2 people, about 89 seconds; Ctrl-C keeps what is done.",
        "3 people, about 10 minutes; Ctrl-C keeps what is done.",
        "4 people, about 2.0 hours; Ctrl-C keeps what is done.",
        "5 people, nothing to train.",
    ]

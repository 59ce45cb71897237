"""What a log says of long work: how far it is, and when it will be over."""

from io import StringIO
from types import SimpleNamespace

from rich.console import Console

import butfor.progress as progress_module
from butfor.progress import ConsoleProgress, announcement


def test_a_log_says_how_far_it_is_and_how_long_the_rest_takes(monkeypatch, capsys):
    now = [0.0]
    monkeypatch.setattr(progress_module, "time", SimpleNamespace(monotonic=lambda: now[0]))
    with ConsoleProgress() as progress:
        progress.phase("fresh seeds", 100)
        progress.found(3)
        now[0] = 20.0
        progress.advance(4)  # too soon for a line
        now[0] = 40.0
        progress.advance(6)
        progress.advance(90)
    said = capsys.readouterr().err
    assert said == "fresh seeds: 10 of 100 trainings in 40 seconds, about 6 minutes left; 3 found\n"


def test_the_first_few_trainings_promise_no_end(monkeypatch, capsys):
    now = [0.0]
    monkeypatch.setattr(progress_module, "time", SimpleNamespace(monotonic=lambda: now[0]))
    with ConsoleProgress() as progress:
        progress.phase("search", 100)
        now[0] = 60.0
        progress.advance(4)
    assert capsys.readouterr().err == "search: 4 of 100 trainings in 60 seconds\n"


def test_a_terminal_shows_one_line_of_the_present_phase():
    progress = ConsoleProgress()
    progress.console = Console(file=StringIO(), force_terminal=True, width=100)
    with progress:
        progress.phase("ranking", 4, "people")
        progress.advance(4)
        progress.phase("search")
        progress.advance(7)
        (task,) = progress._bars.tasks
        assert (task.description, task.total, task.completed) == ("search: 7 trainings", None, 7)
        progress.phase("ranking")
        (task,) = progress._bars.tasks
        assert (task.description, task.total) == ("ranking: 4 of 4 people", 4)


def test_what_it_will_cost_is_said_in_the_unit_a_person_would_say():
    said = [announcement(people, seconds) for people, seconds in ((1, 1), (2, 89), (3, 600), (4, 7200), (5, 0))]
    assert said == [
        "1 person, about a second; Ctrl-C keeps what is done.",
        "2 people, about 89 seconds; Ctrl-C keeps what is done.",
        "3 people, about 10 minutes; Ctrl-C keeps what is done.",
        "4 people, about 2.0 hours; Ctrl-C keeps what is done.",
        "5 people, nothing to train.",
    ]

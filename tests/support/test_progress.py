"""One line of long work: what is going on, how far it is, and how long it will still take."""

import io
import sys
from types import SimpleNamespace

import butfor
from butfor.support.progress import ConsoleProgress, Progress, shown
from cli.conftest import terminal
from recorded import LABELS, TABLE


def compared(**how) -> None:
    butfor.compare_standards(
        TABLE, LABELS, sensitive_features="group", adverse="no", draws=5, n_jobs=1, **how
    )


def test_a_log_gets_a_line_now_and_then_and_no_more(capsys):
    now = [0.0]
    with ConsoleProgress(clock=lambda: now[0]) as progress:
        progress.phase("fresh seeds", 100)
        progress.found(3)
        for moment, count in ((20, 4), (40, 6), (45, 50)):
            now[0] = moment
            progress.advance(count)
    assert (
        capsys.readouterr().err
        == "fresh seeds: 10 of 100 trainings, 3 found; about 6 minutes left\n"
    )


def test_phases_of_known_length_say_when_they_end_and_searches_what_is_done():
    now = [0.0]
    progress = ConsoleProgress(patience=1e9, clock=lambda: now[0])
    progress.phase("fresh seeds", 100)
    now[0] = 60.0
    progress.advance(4)
    assert progress.line() == "fresh seeds: 4 of 100 trainings", "the first few promise no end"
    progress.advance(6)
    for moment, said in (
        (60, "about 9 minutes left"),
        (580, "about 20 seconds left"),
        (700, "longer than expected"),
    ):
        now[0] = float(moment)
        assert progress.line() == f"fresh seeds: 10 of 100 trainings; {said}"
    progress.phase("search")
    progress.advance(214)
    progress.found(3)
    progress.done(12, 40)
    assert progress.line() == "search: 214 trainings, 12 of 40 people, 3 found"


def test_a_search_that_may_take_long_says_on_the_command_line_what_ctrl_c_does(capsys):
    ConsoleProgress(patience=2.0).search_begins(40)
    assert capsys.readouterr().err == ""
    ConsoleProgress().search_begins(1)
    assert capsys.readouterr().err == "Searching for 1 person; Ctrl-C keeps what is done.\n"


def test_python_shows_progress_in_a_terminal_and_nothing_in_a_log(capsys, monkeypatch):
    compared()
    assert capsys.readouterr().err == ""
    with terminal(60) as text:
        compared(progress=False)
        compared()  # too short to be shown
        with ConsoleProgress() as progress:
            compared(progress=progress)
            progress.phase("search " * 30)
            progress.note("A note.")
    said = text()
    assert "tables drawn by one standard" in said
    assert "A note." in said
    assert max(map(len, said.split("\x1b[2K"))) < 120
    assert said.rstrip("\n").endswith("\x1b[2K"), "the line is wiped out"
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    monkeypatch.setitem(
        sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: SimpleNamespace(kernel=1))
    )
    assert isinstance(shown(None), ConsoleProgress)
    assert type(shown(False)) is Progress

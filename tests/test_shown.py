"""When a call in Python shows that it is at work."""

import io
import sys
from types import SimpleNamespace

import butfor
from butfor.progress import ConsoleProgress, Progress, shown
from recorded import LABELS, TABLE


class Terminal(io.StringIO):
    def isatty(self):
        return True


def compared(**how):
    return butfor.compare_standards(
        TABLE, LABELS, sensitive_features="group", adverse="no", draws=5, n_jobs=1, **how
    ).answer


def test_python_shows_progress_in_a_terminal_and_nothing_in_a_log(monkeypatch):
    monkeypatch.setattr(butfor.progress, "PATIENCE", 0.0)
    monkeypatch.setattr(ConsoleProgress, "DRAW_EVERY", 0.001)
    said = {}
    for name, stream in (("log", io.StringIO()), ("terminal", Terminal()), ("off", Terminal())):
        monkeypatch.setattr(sys, "stderr", stream)
        compared(**{"progress": False} if name == "off" else {})
        said[name] = stream.getvalue()
    assert said["log"] == said["off"] == ""
    assert "tables drawn by one standard" in said["terminal"]
    assert said["terminal"].endswith("\r\x1b[2K")


def test_a_notebook_counts_as_a_terminal_and_short_calls_say_nothing(monkeypatch):
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: SimpleNamespace(kernel=1)))
    progress = shown(None)
    assert isinstance(progress, ConsoleProgress)
    with progress:
        progress.phase("a short one")
    assert not stream.getvalue().strip("\r ")
    progress._draw("half done")
    assert stream.getvalue().endswith("\rhalf done")
    assert "\x1b" not in stream.getvalue()
    given = Progress()
    assert shown(given) is given
    assert type(shown(False)) is Progress

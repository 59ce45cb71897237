"""Ctrl-C and limits: while an audit is at work, while verdicts are drawn up and files written, and between the two."""

from __future__ import annotations

import importlib
import os
import signal
import threading
import time

import numpy as np
import pandas as pd
import pytest
from joblib import Parallel, delayed
from sklearn.calibration import CalibratedClassifierCV
from sklearn.linear_model import LogisticRegression

import butfor
from butfor import explain, machine, stopping
from butfor.cli import main
from butfor.errors import Stopped
from butfor.standard.model import TwoModels
from butfor.standard.null import CommonStandard
from butfor.stopping import STOPPING, StopFlag, listen
from conftest import fitted, press

# --- the flag ---------------------------------------------------------------------------------------------


def test_the_first_ctrl_c_sets_the_flag_and_the_second_ends_the_work(capsys):
    before = signal.getsignal(signal.SIGINT)
    with listen() as flag:
        flag.check()
        press()
        assert (flag.interrupted, flag.out_of_time) == (True, False)
        with pytest.raises(Stopped, match="stopped by hand"):
            flag.check()
        with pytest.raises(KeyboardInterrupt):
            press()
    assert capsys.readouterr().err == f"{STOPPING}\n"
    assert signal.getsignal(signal.SIGINT) is before
    with listen() as flag:  # other work
        flag.check()


def test_an_inner_flag_hears_the_signals_of_the_outer_one_and_has_its_own_time():
    with listen() as outer:
        with listen(butfor.max_seconds(1e-9)) as inner:
            with pytest.raises(Stopped, match="time allowed was up"):
                inner.check()
            assert (inner.out_of_time, inner.interrupted) == (True, False)
            outer.check()
        later = StopFlag()
        press()
        assert all(flag.interrupted for flag in (inner, outer, later))
        with pytest.raises(Stopped):
            stopping.check()
    assert not StopFlag().interrupted
    stopping.check()


def test_after_a_stop_there_is_a_grace_for_confirmations(monkeypatch):
    monkeypatch.setattr(stopping, "GRACE", 60.0)
    with listen(butfor.max_seconds(1e-9)) as flag:
        with flag.grace():
            flag.check()  # when the time is up, it takes as long as it takes
            press()
            flag.check()
            stopping.check()
        monkeypatch.setattr(stopping, "GRACE", 0.0)
        with pytest.raises(Stopped), flag.grace():
            flag.check()
        with pytest.raises(Stopped):
            flag.check()


def test_an_applications_own_handler_gets_its_signal_afterwards():
    told: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _: told.append(number))
    try:
        with listen():
            press(signal.SIGTERM)
            assert told == []
            press(signal.SIGTERM)
            assert told == [signal.SIGTERM]
        assert told == [signal.SIGTERM] * 2
    finally:
        signal.signal(signal.SIGTERM, before)


def test_what_swallows_exceptions_hears_ctrl_c_at_the_end():
    done = []

    def compile_code() -> None:
        with machine.compiling():
            press()
            done.append(1)

    with pytest.raises(Stopped):
        compile_code()
    assert done


@pytest.mark.system
def test_other_threads_and_processes_do_not_hear_ctrl_c():
    seen: list[object] = []

    def inside() -> None:
        with listen(butfor.max_seconds(1e-9)) as flag:
            with pytest.raises(Stopped):
                flag.check()
            seen.extend([signal.getsignal(signal.SIGINT), flag.interrupted])

    before = signal.getsignal(signal.SIGINT)
    thread = threading.Thread(target=inside)
    thread.start()
    thread.join()
    assert seen == [before, False]
    asked = delayed(machine.in_worker)(os.getpid(), signal.getsignal, signal.SIGINT)
    assert Parallel(n_jobs=2)([asked, asked]) == [signal.SIG_IGN] * 2
    assert Parallel(n_jobs=1)([asked]) == [signal.getsignal(signal.SIGINT)] != [signal.SIG_IGN]


# --- an audit ---------------------------------------------------------------------------------------------


def endless(*_: object) -> None:
    """Presses Ctrl-C and works until it is heard."""
    press()
    for _ in range(60_000):
        stopping.check()
        time.sleep(0.001)
    raise AssertionError("nobody heard it")


FILES = ["audit.json", "audit.toml", "keystones.csv", "people.csv", "report.html"]


@pytest.mark.parametrize(
    ("where", "code"),
    [
        ("butfor.explain.persons_of", 0),
        ("butfor.report.page.population_page", 0),
        ("butfor.explain.check_finds", 130),
    ],
)
def test_ctrl_c_after_the_search_loses_no_file(tmp_path, capsys, monkeypatch, where, code):
    module, name = where.rsplit(".", 1)
    real = getattr(importlib.import_module(module), name)

    def pressed(*given, **named):
        press()
        return real(*given, **named)

    command = ["audit", "salary", "--budget", "2", "--cases", "0:4", "--quiet"]
    command += ["--members", "2", "--fresh-seeds", "2"] if code else ["--model", "logistic"]
    monkeypatch.setattr(where, pressed)
    ended = main([*command, "--out", str(tmp_path / "out")])
    printed = capsys.readouterr()
    assert ended == code, printed.err
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == FILES
    assert "audited" in printed.out
    assert STOPPING in printed.err


@pytest.mark.parametrize(
    ("owner", "method", "ranked"),
    [
        (TwoModels, "with_inputs", False),  # before the draws
        (CommonStandard, "labels", False),  # before any table is done
        (explain, "prove", True),
    ],
)
def test_labels_are_written_once_the_comparison_is_done(tmp_path, capsys, monkeypatch, owner, method, ranked):
    monkeypatch.setattr(owner, method, endless)
    command = ["audit", "german", "--model", "logistic", "--adverse", "bad credit", "--cases", "0:4", "--quiet"]
    assert main([*command, "--set", "n-jobs=1", "--out", str(tmp_path / "out")]) == 130
    assert "Stopped." not in capsys.readouterr().err
    written = {path.name for path in (tmp_path / "out").iterdir()}
    assert written >= set(FILES)
    assert ("labels.csv" in written) == ranked
    if ranked:
        assert len(pd.read_csv(tmp_path / "out" / "labels.csv")) == 600
        population = butfor.Population.from_json(tmp_path / "out" / "audit.json")
        assert not any(v.complete for v in population.eligible)
        assert {v.status for v in population} <= {"not_found", "not_eligible"}


def test_labels_of_a_comparison_cut_short_are_those_of_its_audit(monkeypatch, all_draws):
    real, parts = CommonStandard.labels, []

    def drawn(self, seeds):
        parts.append(seeds)
        return endless() if len(parts) == 2 else real(self, seeds)

    monkeypatch.setattr(CommonStandard, "labels", drawn)
    data = butfor.load_dataset("german")
    audit = butfor.LabelAudit(LogisticRegression(max_iter=1000), budget=1, n_jobs=1)
    audit.fit(data.X_train, data.y_train, sensitive_features="sex", adverse=0)
    stopped = audit.explain_all(data.X_test, cases=range(3))
    assert stopped.interrupted
    assert stopped.run.standard.draws == len(parts[0])
    labels = audit.labels(stopped)
    assert [labels["rank"].iloc[label.position] for label in stopped.labels] == list(range(1, len(stopped.labels) + 1))
    assert len(parts) == 2, "nothing is drawn again"
    assert audit.standards().draws == 99
    assert not audit.explain_all(data.X_test, cases=range(3)).interrupted


def test_a_limit_of_time_changes_nothing_but_the_order():
    """The trial that chooses who leads is held with the same people."""
    answers = []
    for stop in (None, butfor.max_seconds(600)):
        audit, data = fitted("german", 200, members=2, fresh_seeds=0, budget=3, phi="everyone")
        population = audit.explain_all(data.X_test, cases=range(12), stop=stop)
        answers.append((population.run.agreement, [v.positions for v in population]))
    assert answers[0] == answers[1]


def test_trainings_that_failed_prove_nothing():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": np.r_[rng.normal(2, 1, 5), rng.normal(0, 1, 35)], "sex": np.tile([0, 1], 20)})
    y = pd.Series([1] * 5 + [0] * 35)  # as many of class 1 as there are folds: with any of them flipped, fit raises
    audit = butfor.LabelAudit(CalibratedClassifierCV(LogisticRegression(C=100), cv=5), budget=1)
    audit.fit(X, y, sensitive_features="sex")
    verdict = audit.explain_all(pd.DataFrame({"a": [3.5], "sex": [0]}))[0]
    assert "2 of these trainings failed" in verdict.reason
    assert (verdict.status, verdict.at_least, verdict.proof) == ("not_found", None, None)

"""Ctrl-C and limits: while an audit is at work, while verdicts are drawn up and files written, and
between the two."""

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
from butfor import steps
from butfor.cli import main
from butfor.errors import SettingError, Stopped
from butfor.explain import eligible_cases
from butfor.models.network import NetworkEngine
from butfor.standard.model import TwoModels
from butfor.standard.null import CommonStandard
from butfor.support import stopping
from butfor.support.compiling import compiling
from butfor.support.processes import end_with
from butfor.support.stopping import (
    STOPPING,
    Stop,
    Work,
    listen,
    max_retrainings,
    max_seconds,
)
from conftest import fitted, press
from recorded import Notes

# --- the flag -------------------------------------------------------------------------------------


def test_limits_join():
    assert max_seconds(600) | max_retrainings(50) | max_seconds(60) == Stop(60, 50)
    for refused in (
        lambda: max_seconds(float("inf")),
        lambda: max_seconds(0),
        lambda: max_retrainings(0),
    ):
        with pytest.raises(SettingError, match="max_"):
            refused()


def test_the_first_ctrl_c_sets_every_flag_and_the_second_ends_the_work(capsys):
    before = signal.getsignal(signal.SIGINT)
    with listen() as outer:
        with listen(max_seconds(1e-9)) as inner:
            with pytest.raises(Stopped, match="time allowed was up"):
                inner.check()
            assert (inner.out_of_time, inner.interrupted) == (True, False)
            outer.check()
        later = Work()
        press()
        assert all(flag.interrupted for flag in (inner, outer, later))
        assert not outer.out_of_time
        for check in (outer.check, stopping.check):
            with pytest.raises(Stopped, match="stopped by hand"):
                check()
        with pytest.raises(KeyboardInterrupt):
            press()
    assert capsys.readouterr().err == f"{STOPPING}\n"
    assert signal.getsignal(signal.SIGINT) is before
    stopping.check()
    with listen() as flag:  # other work
        flag.check()


def test_after_a_stop_there_is_a_grace_for_confirmations(monkeypatch):
    monkeypatch.setattr(stopping, "GRACE_SECONDS", 60.0)
    with listen(max_seconds(1e-9)) as flag:
        with flag.grace():
            flag.check()  # when the time is up, it takes as long as it takes
            press()
            flag.check()
            stopping.check()
        monkeypatch.setattr(stopping, "GRACE_SECONDS", 0.0)
        with pytest.raises(Stopped), flag.grace():
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


@pytest.mark.system
def test_other_threads_and_processes_do_not_hear_ctrl_c_and_what_swallows_exceptions_does_at_the_end():
    seen: list[object] = []

    def inside() -> None:
        with listen(max_seconds(1e-9)) as flag:
            with pytest.raises(Stopped):
                flag.check()
            seen.extend([signal.getsignal(signal.SIGINT), flag.interrupted])

    before = signal.getsignal(signal.SIGINT)
    thread = threading.Thread(target=inside)
    thread.start()
    thread.join()
    assert seen == [before, False]

    def hears(parent: int) -> object:
        end_with(parent)
        return signal.getsignal(signal.SIGINT)

    asked = delayed(hears)(os.getpid())
    assert Parallel(n_jobs=2)([asked, asked]) == [signal.SIG_IGN] * 2
    assert Parallel(n_jobs=1)([asked]) == [signal.getsignal(signal.SIGINT)] != [signal.SIG_IGN]

    def compile_code() -> None:
        with compiling():
            press()
            seen.append("compiled")

    with pytest.raises(Stopped):
        compile_code()
    assert seen[-1] == "compiled"


# --- an audit -------------------------------------------------------------------------------------


class Listening(Notes):
    """Remembers phases, notes and people done, and acts at the beginning of a phase."""

    def __init__(self, **acts):
        super().__init__()
        self.heard = []
        self.people = []
        self.acts = acts

    def phase(self, name, total=None, unit=""):
        self.heard.append(name)
        self.acts.get(name.replace(" ", "_"), lambda: None)()

    def note(self, line):
        self.heard.append(line)
        super().note(line)

    def search_begins(self, people):
        self.heard.append(people)

    def done(self, people, of):
        self.people.append((people, of))


class Stopping(butfor.Engine):
    """An engine in whose second call something happens first."""

    name = "stopping"

    def __init__(self, act):
        self.act, self.calls = act, 0

    def bind(self, learner, table, people):
        inner = NetworkEngine().bind(learner, table, people)

        def train(trainings, advance=None):
            self.calls += 1
            if self.calls == 2:
                self.act()
            return inner(trainings, advance)

        return train


@pytest.mark.parametrize(
    ("act", "stop"), [(lambda: time.sleep(1.2), max_seconds(1)), (press, None)]
)
def test_what_ends_a_search_keeps_what_is_done(act, stop):
    settings = {"members": 2, "budget": 3, "phi": "everyone", "fresh_seeds": 3, "strategy": "solid"}
    audit, data = fitted("salary", engine=Stopping(act), **settings)
    population = audit.explain_all(data.X_test, stop=stop, progress=(heard := Listening()))
    assert (population.run.out_of_time, population.interrupted) == (stop is not None, stop is None)
    assert not all(v.complete for v in population)
    assert any("The time is up" in line for line in heard.lines) == population.run.out_of_time
    assert all(v.solidity == "not checked" for v in population.found if v.fresh is None)
    complete = audit.set_params(engine="auto").explain_all(data.X_test)
    assert all(v.complete for v in complete)
    assert {v.case for v in population.found} <= {v.case for v in complete.found}


def test_with_a_limit_those_nearest_to_the_other_decision_come_first_and_the_trial_leaves_enough():
    asked = []

    def listening(person):
        asked.append(person.number)
        yield person.best(1)

    audit, data = fitted("salary", strategy=listening, phi="everyone")
    population = audit.explain_all(data.X_test, stop=max_seconds(600))
    distances = [abs(population[person].logit) for person in asked[: len(population)]]
    assert distances == sorted(distances)
    assert len(distances) == len(population) > 2
    audit, data = fitted("german", 200, strategy="guided")
    cases = eligible_cases(audit.fitted_, data.X_test, 10)
    few = audit.explain_all(data.X_test, cases=cases, stop=max_retrainings(20))
    assert (few.run.retrainings, few.run.agreement) == (20, None)
    assert sum(v.attempts for v in few) >= 10
    # A limit that is not met changes nothing but the order: the trial that chooses who leads is
    # held with all.
    whole, limited = (
        audit.explain_all(data.X_test, cases=cases, stop=stop) for stop in (None, max_seconds(600))
    )
    assert whole.run.agreement == limited.run.agreement is not None
    assert [v.positions for v in whole] == [v.positions for v in limited]


def test_ctrl_c_after_the_search_keeps_the_finds_and_people_done_are_counted():
    audit, data = fitted("salary", strategy="algorithm1", fresh_seeds=3)
    whole = audit.explain_all(data.X_test, cases=range(10))
    for phase, words in (("fresh_seeds", "not checked: "), ("side_effects", "before side effects")):
        heard = Listening(**{phase: press})
        stopped = audit.explain_all(data.X_test, cases=range(10), progress=heard)
        assert stopped.interrupted
        assert any(words in line for line in heard.lines)
        assert [v.positions for v in stopped] == [v.positions for v in whole]
        assert all(v.collateral is None for v in stopped)
    searched = len(whole.eligible)
    assert heard.heard.index(searched) < heard.heard.index("search")
    assert heard.people[-1] == (searched, searched)
    # The side effects of all who were asked about are known: they train nothing beyond the limit.
    limited = audit.explain_all(
        data.X_test, stop=max_retrainings(8), progress=(heard := Listening())
    )
    assert limited.run.retrainings == 8
    assert {v.collateral.others for v in limited.found} == {10}
    assert "side effects" not in heard.heard


def test_trainings_that_failed_prove_nothing():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(
        {"a": np.r_[rng.normal(2, 1, 5), rng.normal(0, 1, 35)], "sex": np.tile([0, 1], 20)}
    )
    y = pd.Series(
        [1] * 5 + [0] * 35
    )  # as many of class 1 as there are folds: with any of them flipped, fit raises
    audit = butfor.LabelAudit(CalibratedClassifierCV(LogisticRegression(C=100), cv=5), budget=1)
    audit.fit(X, y, sensitive_features="sex")
    verdict = audit.explain_all(pd.DataFrame({"a": [3.5], "sex": [0]}))[0]
    assert "2 of these trainings failed" in verdict.reason
    assert (verdict.status, verdict.at_least, verdict.proof) == ("not_found", None, None)


# --- its files ------------------------------------------------------------------------------------


def endless(*_: object) -> None:
    """Presses Ctrl-C and works until it is heard."""
    press()
    for _ in range(60_000):
        stopping.check()
        time.sleep(0.001)
    raise AssertionError("nobody heard it")


FILES = ["audit.json", "audit.toml", "groups.csv", "keystones.csv", "people.csv", "report.html"]


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
        (CommonStandard, "uniforms", False),  # before any table is done
        (steps, "prove", True),
    ],
)
def test_labels_are_written_once_the_comparison_is_done(
    tmp_path, capsys, monkeypatch, owner, method, ranked
):
    monkeypatch.setattr(owner, method, endless)
    command = [
        "audit",
        "german",
        "--model",
        "logistic",
        "--adverse",
        "bad credit",
        "--cases",
        "0:4",
        "--quiet",
    ]
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


def test_labels_of_a_comparison_cut_short_are_those_of_its_audit(monkeypatch):
    real, tables = CommonStandard.uniforms, []

    def drawn(self, table):
        tables.append(table)
        return endless() if tables.count(25) == 1 and table == 25 else real(self, table)

    monkeypatch.setattr(CommonStandard, "uniforms", drawn)
    data = butfor.load_dataset("german")
    audit = butfor.LabelAudit(LogisticRegression(max_iter=1000), budget=1, n_jobs=1)
    audit.fit(data.X_train[:300], data.y_train[:300], sensitive_features="sex", adverse=0)
    stopped = audit.explain_all(data.X_test, cases=range(3))
    assert stopped.interrupted
    assert stopped.run.standard.draws == 25
    labels = audit.labels(stopped)
    assert [labels["rank"].iloc[label.position] for label in stopped.labels] == list(
        range(1, len(stopped.labels) + 1)
    )
    assert tables.count(25) == 1, "nothing is drawn again"
    assert audit.standards().draws == 99

"""A search with a clock: it stops in time, keeps what is done, and says what is left."""

import time

import pytest
from sklearn.linear_model import LogisticRegression

import butfor
from butfor.cli import main
from butfor.cli.parse import seconds_in
from butfor.errors import SettingError, Stopped
from butfor.progress import Progress
from butfor.run import runner
from butfor.stopping import Stop, StopFlag, max_retrainings, max_seconds
from conftest import fitted, press


class Notes(Progress):
    def __init__(self):
        self.lines, self.networks = [], 0

    def note(self, line):
        self.lines.append(line)

    def advance(self, count):
        self.networks += count


def test_limits_join_and_a_deadline_ends_work():
    assert max_seconds(600) | max_retrainings(50) | max_seconds(60) == Stop(60, 50)
    flag = StopFlag(max_retrainings(50))
    flag.check()
    flag.set_deadline(time.monotonic() - 1)
    with pytest.raises(Stopped, match="time"):
        flag.check()
    flag.set_deadline(time.monotonic() + 60)
    flag.check()
    assert flag.out_of_time  # it was


class Slow(butfor.Engine):
    """An engine that takes its time, between two looks at the clock."""

    name = "slow"

    def __init__(self, pause):
        self.pause, self.asked = pause, []

    def accepts(self, learner):
        return True

    def bind(self, learner, table, people):
        inner = butfor.FusedEngine().bind(learner, table, people)

        def train(trainings, advance=None):
            for training in trainings:
                time.sleep(self.pause)
                self.asked.append(training)
                if advance:
                    advance(1)
            return inner(trainings)

        return train


@pytest.mark.parametrize(("members", "protocol"), [(1, "algorithm1"), (2, "solid")])
def test_the_search_stops_in_time_nearest_people_first(members, protocol):
    whole, data = fitted("salary", strategy=protocol, members=members, budget=3, phi="everyone", fresh_seeds=3)
    settings = {"members": members, "budget": 3, "phi": "everyone", "fresh_seeds": 3}
    audit, data = fitted("salary", strategy=protocol, engine=Slow(0.08), **settings)
    population = audit.explain_all(data.X_test, stop=max_seconds(1.5), progress=(notes := Notes()))
    assert population.run.out_of_time
    assert not population.interrupted
    left = [v for v in population if not v.complete]
    assert left
    assert any("The time is up" in line for line in notes.lines)
    complete = whole.explain_all(data.X_test)
    assert not complete.run.out_of_time
    assert {v.case for v in population.found} <= {v.case for v in complete.found}
    unchecked = [v for v in population.found if v.fresh is None]
    assert all(v.solidity == "not checked" for v in unchecked)


def test_with_a_limit_those_nearest_to_the_other_decision_come_first(monkeypatch):
    audit, data = fitted("salary", strategy="algorithm1", phi="everyone")
    asked, real = [], runner.schedule

    def schedule(searches, *given):
        asked.append([person.number for person in searches])
        return real(searches, *given)

    monkeypatch.setattr(runner, "schedule", schedule)
    population = audit.explain_all(data.X_test, stop=max_seconds(600))
    distances = [abs(population[person].logit) for person in asked[0]]
    assert len(distances) == len(population) > 2
    assert distances == sorted(distances)


def test_enough_time_changes_nothing(capsys):
    audit, data = fitted("salary", strategy="algorithm1")
    ours, theirs = audit.explain_all(data.X_test, stop=max_seconds(600)), audit.explain_all(data.X_test)
    assert [v.positions for v in ours] == [v.positions for v in theirs]
    assert not ours.run.out_of_time


@pytest.mark.parametrize(("given", "seconds"), [("90", 90), ("90s", 90), ("1.5 m", 90), ("10m", 600), ("2h", 7200)])
def test_times_are_read_in_their_unit(given, seconds):
    assert seconds_in(given) == seconds


@pytest.mark.parametrize("given", ["0", "-3", "ten", "5 d", "nan", "1e9", ""])
def test_times_that_are_none(capsys, given):
    assert main(["audit", "salary", "--max-seconds", given, "--quiet"]) == 2
    assert "--max-seconds" in capsys.readouterr().err
    with pytest.raises(SettingError, match="max_seconds"):
        max_seconds(float("inf"))


@pytest.mark.parametrize("interrupted", [False, True])
def test_time_that_is_up_among_side_effects_is_no_interruption(monkeypatch, interrupted):
    audit, data = fitted("salary", strategy="algorithm1", fresh_seeds=3)

    def side_effects(trainer, *given):
        if interrupted:
            press()
        else:
            trainer.flag.set_deadline(0.0)
        trainer.flag.check()

    monkeypatch.setattr("butfor.run.runner.side_effects", side_effects)
    population = audit.explain_all(data.X_test, stop=max_seconds(600))
    assert population.found
    assert population.interrupted == interrupted
    assert population.run.out_of_time != interrupted


def test_the_search_has_two_thirds_of_the_time_and_what_follows_the_rest(monkeypatch):
    given = []
    real = StopFlag.set_deadline

    def set_deadline(self, moment):
        given.extend([] if moment is None else [moment - time.monotonic()])
        real(self, moment)

    monkeypatch.setattr(StopFlag, "set_deadline", set_deadline)
    audit, data = fitted("salary", strategy="algorithm1")
    audit.explain_all(data.X_test, cases=range(2), stop=max_seconds(600))
    assert 320 < given[0] <= 400  # what came before it took its part of the 600
    assert 580 < given[1] <= 600


class Listening(Progress):
    """Remembers phases, and the announcement among them."""

    listens = True

    def __init__(self):
        self.heard, self.seconds = [], 0.0

    def phase(self, name, total=None, unit=""):
        self.heard.append(name)

    def expect(self, seconds):
        self.heard.append("announcement")
        self.seconds = seconds


@pytest.mark.parametrize("quick", [True, False])
def test_a_quick_trial_comes_before_the_announcement_and_times_it(monkeypatch, quick):
    monkeypatch.setattr("butfor.run.runner.QUICK", 3.0 if quick else 0.0)
    data, progress = butfor.load_dataset("german"), Listening()
    audit = butfor.LabelAudit(LogisticRegression(max_iter=1000), budget=6, n_jobs=1)
    audit.fit(data.X_train, data.y_train, sensitive_features="sex")
    found = audit.explain_all(data.X_test, cases=range(12), progress=progress)
    assert (progress.heard.index("trial") < progress.heard.index("announcement")) == quick
    assert progress.heard.count("announcement") == 1
    assert progress.seconds > 0
    assert [v.positions for v in found] == [v.positions for v in audit.explain_all(data.X_test, cases=range(12))]

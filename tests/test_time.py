"""A search with a clock: it stops in time, keeps what is done, and says what is left."""

import time

import pytest

import butfor
from butfor.cli import main
from butfor.errors import SettingError
from butfor.progress import Deadline, TimeIsUp, Watcher
from conftest import fitted


class Notes(Watcher):
    def __init__(self):
        self.lines, self.networks = [], 0

    def note(self, line):
        self.lines.append(line)

    def trained(self, networks):
        self.networks += networks


def test_a_deadline_ends_work_once_and_passes_everything_on():
    watch = Deadline(notes := Notes())
    watch.trained(3)
    watch.set(time.monotonic() - 1)
    with pytest.raises(TimeIsUp):
        watch.trained(2)
    watch.trained(1)  # confirmations go on
    assert watch.passed
    assert notes.networks == 6
    watch.note("here")
    assert notes.lines == ["here"]


class Slow:
    """An engine that takes its time, between two looks at the clock."""

    name, by_definition, width = "slow", False, 1

    def __init__(self, pause):
        self.pause, self.asked = pause, []

    def accepts(self, learner):
        return True

    def bind(self, learner, table, people):
        inner = butfor.FusedEngine().bind(learner, table, people)

        def train(trainings, progress=None):
            for training in trainings:
                time.sleep(self.pause)
                self.asked.append(training)
                if progress:
                    progress(1)
            return inner(trainings)

        return train


@pytest.mark.parametrize(("members", "protocol"), [(1, "algorithm1"), (2, "solid")])
def test_the_search_stops_in_time_nearest_people_first(members, protocol):
    whole, data = fitted("salary", protocol=protocol, members=members, budget=3, phi="everyone", fresh_seeds=3)
    audit, data = fitted(
        "salary", protocol=protocol, members=members, budget=3, phi="everyone", fresh_seeds=3, engine=Slow(0.08),
        max_seconds=1.5,
    )  # fmt: skip
    population = audit.explain_all(data.X_test, watch=(notes := Notes()))
    assert population.run["out_of_time"]
    assert not population.interrupted
    left = [v for v in population if not v.complete]
    assert left
    assert any("The time is up" in line for line in notes.lines)
    assert all(v.confirmed for v in population.found)
    complete = whole.explain_all(data.X_test)
    assert not complete.run["out_of_time"]
    assert {v.case for v in population.found} <= {v.case for v in complete.found}
    unchecked = [v for v in population.found if v.fresh is None]
    assert all(v.solidity == "not checked" for v in unchecked)


def test_enough_time_changes_nothing(capsys):
    audit, data = fitted("salary", protocol="algorithm1", max_seconds=600)
    plain, _ = fitted("salary", protocol="algorithm1")
    ours, theirs = audit.explain_all(data.X_test), plain.explain_all(data.X_test)
    assert [v.positions for v in ours] == [v.positions for v in theirs]
    assert not ours.run["out_of_time"]


@pytest.mark.parametrize("given", ["0", "-3", "ten", "5 d", "nan", "1e9", ""])
def test_times_that_are_none(capsys, given):
    assert main(["audit", "salary", "--time", given, "--quiet"]) == 2
    assert "--time" in capsys.readouterr().err
    with pytest.raises(SettingError, match="max_seconds"):
        fitted("salary", max_seconds=float("inf"))


@pytest.mark.parametrize(("stop", "interrupted"), [(TimeIsUp, False), (KeyboardInterrupt, True)])
def test_time_that_is_up_among_side_effects_is_no_interruption(monkeypatch, stop, interrupted):
    audit, data = fitted("salary", protocol="algorithm1", max_seconds=600, fresh_seeds=3)

    def collaterals(*given):
        raise stop

    monkeypatch.setattr("butfor.inquiry.ask.collaterals", collaterals)
    population = audit.explain_all(data.X_test)
    assert population.found
    assert population.interrupted == interrupted
    assert population.run["out_of_time"] != interrupted


def test_time_that_is_spent_before_the_search_counts(monkeypatch):
    given = []

    class Told(Deadline):
        def set(self, when):
            given.append(when - time.monotonic())
            super().set(when)

    monkeypatch.setattr("butfor.audit.Deadline", Told)
    audit, data = fitted("salary", protocol="algorithm1", max_seconds=600)
    audit.explain_all(data.X_test, cases=range(2))
    audit.explain_all(data.X_test, cases=range(2), spent=300)
    audit.explain_all(data.X_test, cases=range(2), spent=10_000)
    whole, half, least = (given[k] for k in (0, 2, 4))  # each is set for the search, then for what follows
    assert 380 < whole <= 400
    assert 180 < half <= 200
    assert 20 < least <= 40

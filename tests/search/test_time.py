"""A search with a limit or Ctrl-C: it stops, keeps what is done, and says what is left."""

import time

import pytest

import butfor
from butfor.errors import SettingError, Stopped
from butfor.explain import eligible_cases
from butfor.models.engines import engine_named
from butfor.stopping import Stop, StopFlag, max_retrainings, max_seconds
from conftest import fitted, press
from recorded import Notes


class Listening(Notes):
    """Remembers phases, notes and the forecast, and acts at the beginning of a phase."""

    listens = True

    def __init__(self, **acts):
        super().__init__()
        self.heard, self.seconds, self.acts = [], [], acts

    def phase(self, name, total=None, unit=""):
        self.heard.append(name)
        self.acts.get(name.replace(" ", "_"), lambda: None)()

    def note(self, line):
        self.heard.append(line)
        super().note(line)

    def expect(self, seconds):
        self.seconds.append(seconds)


def test_limits_join_and_a_deadline_ends_work():
    assert max_seconds(600) | max_retrainings(50) | max_seconds(60) == Stop(60, 50)
    for refused in (lambda: max_seconds(float("inf")), lambda: max_seconds(0), lambda: max_retrainings(0)):
        with pytest.raises(SettingError, match="max_"):
            refused()
    flag = StopFlag(max_retrainings(50))
    flag.check()
    flag.set_deadline(time.monotonic() - 1)
    with pytest.raises(Stopped, match="time"):
        flag.check()
    flag.set_deadline(time.monotonic() + 60)
    flag.check()
    assert flag.out_of_time  # it was


class Tiring(butfor.Engine):
    """An engine whose second call takes longer than anybody waits."""

    name, calls = "tiring", 0

    def bind(self, learner, table, people):
        inner = engine_named("fused").bind(learner, table, people)

        def train(trainings, advance=None):
            self.calls += 1
            time.sleep(1.2 if self.calls == 2 else 0.0)
            return inner(trainings, advance)

        return train


@pytest.mark.parametrize(("members", "protocol"), [(1, "algorithm1"), (2, "solid")])
def test_a_limit_of_time_keeps_what_is_done(members, protocol):
    settings = {"members": members, "budget": 3, "phi": "everyone", "fresh_seeds": 3, "strategy": protocol}
    audit, data = fitted("salary", engine=Tiring(), **settings)
    population = audit.explain_all(data.X_test, stop=max_seconds(1), progress=(heard := Listening()))
    assert (population.run.out_of_time, population.interrupted) == (True, False)
    assert not all(v.complete for v in population)
    assert any("The time is up" in line for line in heard.lines)
    assert all(v.solidity == "not checked" for v in population.found if v.fresh is None)
    complete = audit.set_params(engine="auto").explain_all(data.X_test, stop=max_seconds(600))
    assert not complete.run.out_of_time
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


def test_ctrl_c_after_the_search_keeps_the_finds_and_the_forecast_comes_before_it():
    audit, data = fitted("salary", strategy="algorithm1", fresh_seeds=3)
    whole = audit.explain_all(data.X_test)
    for phase, words in (("fresh_seeds", "not checked: "), ("side_effects", "before side effects")):
        stopped = audit.explain_all(data.X_test, progress=(heard := Listening(**{phase: press})))
        assert stopped.interrupted
        assert any(words in line for line in heard.lines)
        assert [v.positions for v in stopped] == [v.positions for v in whole]
        assert all(v.collateral is None for v in stopped)
    forecast = next(line for line in heard.lines if line.startswith(f"{len(whole.eligible)} people, about "))
    assert heard.heard.index(forecast) < heard.heard.index("search")
    assert min(heard.seconds) >= 0

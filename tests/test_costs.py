"""What was announced holds: real trainings are counted against it, whatever the protocol."""

import io
import re
import time

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console
from sklearn.linear_model import RidgeClassifier

import butfor
from butfor.allowed import Allowed
from butfor.inquiry.cost import Question
from butfor.learn.joblib_engine import JoblibEngine
from butfor.progress import ConsoleWatcher, Deadline, Phase, Watcher, announcement, trainings_in
from butfor.search import GuidedSearch, SolidSearch
from butfor.search.hunt import Hunt, SizeSearch
from butfor.search.joint import JointSearch, Pursuit
from butfor.search.protocols import Algorithm1, Ranked
from butfor.search.shrink import Shrink
from butfor.search.solid import CLAIMS
from butfor.search.trainer import Trainer


class Counts(Watcher):
    """Hears what is announced, and in which phase what is trained."""

    listens = True

    def __init__(self):
        self.phases, self.heard, self.now = None, {}, "before"

    def plan(self, people, phases):
        self.phases = list(phases)

    def phase(self, name, most=None, unit="trainings"):
        self.now = name

    def trained(self, networks):
        self.heard[self.now] = self.heard.get(self.now, 0) + networks


class Counting(butfor.FusedEngine):
    """Counts every training that is really done."""

    def __init__(self, width=1):
        super().__init__(1)
        self._width, self.done = width, 0

    @property
    def width(self):
        return self._width

    def bind(self, learner, table, people):
        inner = super().bind(learner, table, people)

        def train(trainings, progress=None):
            self.done += len(trainings)
            return inner(trainings, progress)

        return train


@pytest.fixture
def defined(monkeypatch):
    """Counts what the definition trains."""
    bind, done = JoblibEngine.bind, []

    def counting(self, learner, table, people):
        inner = bind(self, learner, table, people)

        def train(trainings, progress=None):
            done.append(len(trainings))
            return inner(trainings, progress)

        return train

    monkeypatch.setattr(JoblibEngine, "bind", counting)
    return done


def tiny(rows=60, **settings):
    """A table and a network that hardly take any time."""
    rng = np.random.default_rng(1)
    X = pd.DataFrame({"a": rng.normal(0, 1, rows), "b": rng.normal(0, 1, rows), "sex": rng.choice(["f", "m"], rows)})
    y = pd.Series((X["a"] + rng.normal(0, 1, rows) > 0).map({True: "yes", False: "no"}))
    model = butfor.MLP(hidden=(4,), max_epochs=6, batch_size=None)
    audit = butfor.LabelAudit(model, jobs=1, **settings)
    audit.fit(X[:40], y[:40], sensitive_features="sex", validation=(X[40:50], y[40:50]))
    return audit, X[50:]


EVERYTHING = {"phi": "everyone", "fresh_seeds": 3, "null": 2, "alternatives": 1}


@pytest.mark.parametrize(
    ("width", "asked"),
    [
        (1, {"members": 3, "budget": 5}),
        (64, {"members": 3, "budget": 9}),
        (1, {"members": 10, "budget": 3}),
        (1, {"protocol": "guided", "budget": 4}),
        (8, {"protocol": "guided", "budget": 4, "members": 2}),
        (1, {"protocol": "guided", "budget": 1}),
        (1, {"protocol": "guided", "budget": 4, "max_retrainings": 50}),
        (1, {"members": 3, "budget": 5, "max_retrainings": 50}),
        (1, {"protocol": "algorithm1", "budget": 4, "members": 3, "max_retrainings": 50}),
        (1, {"protocol": "exhaustive", "budget": 1}),
        (1, {"protocol": "exhaustive", "budget": 2, "null": 0}),
        (1, {"protocol": "algorithm1", "budget": 4, "rank": "combined"}),
        (1, {"protocol": "singles", "rank": "chance"}),
        (1, {"protocol": "attempts", "budget": 2, "rank": "chance"}),
    ],
    ids=lambda given: "-".join(f"{k}={v}" for k, v in given.items()) if isinstance(given, dict) else str(given),
)
def test_no_protocol_trains_more_than_it_announced(width, asked, defined):
    engine, watch = Counting(width), Counts()
    audit, people = tiny(**EVERYTHING | asked, engine=engine)
    engine.done, defined[:] = 0, []
    population = audit.explain_all(people, cases=range(8), watch=watch)
    most = {phase.name: phase.most for phase in watch.phases if phase.unit == "trainings"}
    assert 0 < engine.done + sum(defined) <= sum(most.values())
    assert set(watch.heard) - {"ranking"} <= set(most)
    for name, trained in watch.heard.items():
        assert trained <= most.get(name, 0), name
    assert sum(watch.heard.values()) + most["timing"] >= engine.done + sum(defined)  # nothing is trained unheard
    assert sum(phase.seconds for phase in watch.phases) > 0
    assert sum(phase.seconds for phase in watch.phases) <= sum(phase.seconds_at_most for phase in watch.phases)
    if population.found:
        assert watch.heard["fresh seeds"] > 0


def test_what_is_proven_is_counted_too():
    data, watch = butfor.load_dataset("german"), Counts()
    audit = butfor.LabelAudit(RidgeClassifier(), budget=4, phi="everyone", null=1)
    audit.fit(data.X_train, data.y_train, sensitive_features="sex")
    population = audit.explain_all(data.X_test, cases=range(20), watch=watch)
    assert any(v.exact for v in population)
    assert population.run["retrainings"] + population.run["confirmations"] <= trainings_in(watch.phases)
    assert sum(watch.heard.values()) <= trainings_in(watch.phases)


# --- the searches themselves, where effects and the definition are as unkind as can be ---------------------


class Whims:
    """An engine without training: what a set does is drawn, the same for the same set, and adds up to nothing."""

    name, by_definition = "whims", False

    def __init__(self, people, seed, width, share):
        self.people, self.seed, self.width, self.share, self.done = people, seed, width, share, 0

    def bind(self, learner, table, people):
        return self.train

    def train(self, trainings, progress=None):
        self.done += len(trainings)
        rngs = [np.random.default_rng([self.seed, *t.flips, 9999, t.seed or 0]) for t in trainings]
        return np.array([rng.normal(0, 1, self.people) + rng.choice([-1, 3], p=self.share) for rng in rngs], np.float32)


def whimsical(people, seed, width, members, found, agreed):
    engine = Whims(people, seed, width * members, [1 - found, found])
    trainer = Trainer(engine, None, None, np.zeros((people, 1)))
    trainer.seeds = tuple(range(members))
    rng = np.random.default_rng(seed)

    def confirm(flip_sets, watch=None):
        for flips in set(flip_sets) - set(trainer._confirmed):
            trainer.confirmations += members
            refused = np.where(rng.random(people) < agreed, 1, -1)
            trainer._confirmed[flips] = trainer.logits(flips) * refused

    trainer.confirm = confirm
    return engine, trainer


def question(protocol, sizes, budget, trainer, **other):
    usual = {
        "settled": 0, "trial": 0, "ranked": True, "looks_again": True, "measures": False, "max_retrainings": None,
        "fresh_seeds": 0, "alternatives": 0, "shuffles": 0, "others": False, "confirms": True,
    }  # fmt: skip
    return Question(
        protocol=protocol, sizes=sizes, budget=budget, members=trainer.members, width=trainer.width, **usual | other
    )


WHIMS = (st.integers(1, 6), st.integers(0, 2**20), st.sampled_from([1, 2, 7, 64]), st.sampled_from([0.05, 0.5, 0.95]))


@settings(max_examples=60, deadline=None)
@given(*WHIMS, st.integers(1, 40), st.sampled_from([0.0, 0.5, 1.0]), st.sampled_from([None, 40, 900]), st.booleans())
def test_the_solid_search_keeps_its_bound(people, seed, width, found, budget, agreed, limit, measures):
    engine, trainer = whimsical(people, seed, width, 3, found, agreed)
    rng = np.random.default_rng(seed)
    hunts = [Hunt(k, rng.permutation(60), 1.0, budget) for k in range(people)]
    protocol = SolidSearch(0.0, second=True)
    search = SizeSearch(
        trainer, 0.0, second=lambda who, flips: rng.random((len(who), 60)), measures=measures, max_retrainings=limit,
        watch=Watcher(),
    )  # fmt: skip
    search.run(hunts)
    asked = question(protocol, [60] * people, budget, trainer, measures=measures, max_retrainings=limit)
    most = {phase.name: phase.most for phase in asked.phases(1.0, 1.0, 1.0)}
    assert engine.done <= most["search"]
    assert trainer.confirmations <= most["confirmation"] <= CLAIMS * people * 3


@settings(max_examples=40, deadline=None)
@given(*WHIMS, st.integers(2, 12), st.sampled_from([0.0, 0.5, 1.0]), st.booleans(), st.sampled_from([None, 40]))
def test_the_joint_search_keeps_its_bound(people, seed, width, found, budget, agreed, guided, limit):
    engine, trainer = whimsical(people, seed, width, 2, found, agreed)
    protocol = GuidedSearch(2) if guided else Algorithm1()
    rng = np.random.default_rng(seed)
    plans = [protocol.plan(Ranked(rng.permutation(40), budget, rng, 40)) for _ in range(people)]
    pursuits = [Pursuit(k, plan, 1.0) for k, plan in enumerate(plans)]
    psi = Allowed.of(np.ones((people, 40), bool))
    JointSearch(
        trainer, psi, budget, share=True, shrink=protocol.shrinks, pool=protocol.pool(plans), max_retrainings=limit,
    ).run(pursuits)  # fmt: skip
    asked = question(protocol, [40] * people, budget, trainer, max_retrainings=limit)
    most = {phase.name: phase.most for phase in asked.phases(1.0, 1.0, 1.0)}
    assert engine.done <= most["search"]
    assert trainer.confirmations <= most["confirmation"]
    assert all(p.claims <= JointSearch.CLAIMS for p in pursuits)


def test_whom_the_definition_keeps_refusing_is_called_incomplete():
    _, trainer = whimsical(1, 3, 1, 2, 0.95, 0.0)
    pursuit = Pursuit(0, Algorithm1().plan(Ranked(np.arange(30), 30, np.random.default_rng(0), 30)), 1.0)
    JointSearch(trainer, Allowed.of(np.ones((1, 30), bool)), 30, share=False).run([pursuit])
    assert pursuit.claims == JointSearch.CLAIMS
    assert pursuit.found is None
    assert not pursuit.complete


@settings(max_examples=60)
@given(st.integers(1, 40), st.integers(0, 2**20), st.sampled_from([0.1, 0.4, 0.9]))
def test_shrinking_keeps_its_bound(size, seed, share):
    rng = np.random.default_rng(seed)
    plan, tried = Shrink(list(range(size)), other=lambda k: tuple(sorted(rng.choice(99, k, replace=False)))), 0
    while not plan.done:
        flips = plan.next()
        assert flips is not None
        tried += 1
        works = bool(rng.random() < share)
        plan.saw(flips, rng.normal(), works)
        if rng.random() < 0.3:
            plan.reject(plan.smallest if len(plan.smallest) < size else ())
    assert tried <= Shrink.most(size)


# --- how it is said -------------------------------------------------------------------------------------


def test_the_announcement_names_every_phase_and_both_times():
    phases = [Phase("trial", 40, 40, 0.1), Phase("ranking", 9, 9, 1.0, "people"), Phase("search", 600, 100, 0.1)]
    line = announcement(9, phases)
    assert line.startswith("9 eligible people: about 23 seconds, at most 73 seconds; at most 640 trainings")
    assert "(trial 40, search 600)" in line
    assert announcement(1, []) == "1 eligible person, nothing to train."


def console(terminal):
    watch = ConsoleWatcher()
    out = io.StringIO()
    watch.console = Console(file=out, force_terminal=terminal, width=120)
    return watch, out


def test_a_log_is_not_flooded_and_not_silent(monkeypatch):
    monkeypatch.setattr(ConsoleWatcher, "LOG_EVERY", 0.2)
    watch, out = console(False)
    with watch:
        watch.plan(3, [Phase("search", 500, 100, 0.01)])
        watch.phase("search")
        for _ in range(100):
            watch.trained(1)
        time.sleep(0.5)  # nothing moves
    said = [line for line in out.getvalue().splitlines() if line.startswith("search: 100 of at most 500 trainings")]
    assert 1 <= len(said) <= 3
    assert "left of it; 0 of 3 people done, 0 found" in said[0]
    before = out.getvalue()
    time.sleep(0.3)
    assert out.getvalue() == before  # it is over


@pytest.mark.parametrize("timed", [False, True])
def test_every_phase_has_a_bar_of_its_own(timed):
    watch, out = console(True)
    with Deadline(watch) if timed else watch as heard:
        heard.phase("reading the table")
        heard.plan(3, [Phase("search", 500, 100, 0.01), Phase("fresh seeds", 60, 60, 0.01)])
        heard.phase("search")
        heard.trained(100)
        heard.left(20)
        heard.phase("fresh seeds")
        heard.trained(7)
        watch._bars.refresh()
        bars = watch._bars
    text = re.sub("\x1b\\[[0-9;?]*[A-Za-z]", "", out.getvalue())
    assert "reading the table" in text
    assert "100/120 trainings" in text
    assert "7/60 trainings" in text
    assert not bars.live.is_started

"""Everybody's searches at once, on a made-up engine: who is told what, and how it ends."""

import numpy as np
import pytest

from butfor.errors import SettingError, Stopped
from butfor.models.learner import Bound, Engine, Learner
from butfor.rules import Allowed
from butfor.schedule import schedule
from butfor.search import STRATEGIES, Confirm, Gains, Known, Person, Try, as_strategy, guided
from butfor.stopping import StopFlag, max_retrainings
from butfor.train import Trainer


class Bar(Engine):
    """An engine without training: each row moves each person by a fixed amount."""

    name = "bar"

    def __init__(self, starts, effects, width=4):
        self.starts, self.effects, self.width, self.calls = np.asarray(starts), effects, width, []

    @property
    def sets(self):
        return [flips for call in self.calls for flips in call]

    def bind(self, learner, table, people):
        return Bound(self.train, self.name, width=self.width)

    def train(self, trainings, advance=None):
        self.calls.append([flips for flips, _ in trainings])
        moved = [[self.effects[p, list(flips)].sum() for p in range(len(self.starts))] for flips, _ in trainings]
        return (self.starts + np.array(moved)).astype(np.float32)


class Plain:
    """A table of two labels, as far as a trainer asks for it."""

    def margins(self, answers):
        return answers

    def with_pool(self, people):
        return people


def agree(trainer, flips):
    """A model's own `fit` that says what the engine says."""
    trainer._confirmed.update({each: trainer._means[each] for each in flips})


def audit(starts, strategy, effects=None, budget=4, psi=None, confirm=agree, stop=None, width=4):
    """The people after a search, and what was trained."""
    effects = np.tile(np.linspace(0.06, 0.01, 40), (len(starts), 1)) if effects is None else effects
    engine = Bar(starts, effects, width)
    trainer = Trainer(engine, Learner(), Plain(), np.zeros((len(starts), 1)), flag=StopFlag(stop))
    trainer.confirm = lambda flips: confirm(trainer, flips)
    psi = Allowed.of(np.ones(effects.shape, bool) if psi is None else psi)
    known, strategy = Known(np.ones(len(starts))), as_strategy(strategy)
    people = [
        Person(
            number=k, position=k, budget=budget, order=np.flatnonzero(psi[k]), flippable=int(psi[k].sum()), start=start,
            rng=np.random.default_rng(k), gains=Gains(known, k), known=known,
        )
        for k, start in enumerate(starts)
    ]  # fmt: skip
    schedule({person: strategy.search(person) for person in people}, strategy, known, trainer, psi, None)
    return people, engine, trainer


def test_rounds_do_not_depend_on_the_engines_width():
    results = []
    for width in (1, 7, 500):
        people, engine, trainer = audit([-0.12, -0.14, -0.5, -3.0], "guided", width=width)
        results.append(([p.found for p in people], [p.asked for p in people], trainer.trained, engine.sets))
    assert results[0] == results[1] == results[2]
    assert [found is not None for found in results[0][0]] == [True, True, False, False]


def test_equal_sets_are_trained_once_and_everyone_is_told_whom_psi_allows():
    psi = np.ones((3, 40), bool)
    psi[2, 0] = False  # the first set of the other two is not for the third
    people, engine, _ = audit([-0.5, -0.5, -0.5], "guided", psi=psi)
    sets = engine.sets
    assert len(sets) == len(set(sets))
    first = people[0].asked[0][0]
    assert [first in person.gains for person in people] == [True, True, False]
    alone, _, _ = audit([-0.5, -0.5, -0.5], "algorithm1", psi=psi)
    assert all(set(person.gains) == {flips for flips, _ in person.asked} for person in alone)


def test_who_gave_up_is_found_if_somebody_elses_set_works():
    def early(person):
        """Gives up at once, or looks for a good set."""
        if person.smallest():
            return person.smallest()
        yield person.best(1)
        if person.number == 1:
            yield from ()
            return None
        for k in range(2, 5):
            yield person.best(k)
        return person.best(4)

    people, _, _ = audit([-0.2, -0.2], early)
    assert [person.found for person in people] == [(0, 1, 2, 3)] * 2
    assert all(person.complete for person in people)


def test_what_a_search_returns_is_confirmed_first():
    def careless(person):
        gain = yield person.best(1)
        assert gain == pytest.approx(person.gains[person.best(1)])
        return person.best(1)

    people, _, _ = audit([-0.03], careless)
    assert (people[0].found, people[0].complete) == ((0,), True)
    people, _, _ = audit([-0.03], careless, confirm=lambda trainer, flips: trainer._confirmed.update({(0,): [-1.0]}))
    assert (people[0].found, people[0].complete) == (None, True)


def test_a_search_may_ask_for_lists_and_confirmations():
    seen = []

    def mine(person):
        seen.append((yield [person.best(1), person.best(2)]))
        seen.append((yield Try([person.best(1)], 1)).shape)
        seen.append((yield Confirm(person.best(3))))
        return person.best(3)

    people, _, _ = audit([-0.1], mine, confirm=lambda t, flips: (t.fit(flips), agree(t, flips)))
    assert seen == [[pytest.approx(-0.04), pytest.approx(0.0187, abs=1e-3)], (1, 1), True]
    assert people[0].found == (0, 1, 2)


@pytest.mark.parametrize("flips", [(0, 1, 2, 3, 4), (0, 39)])
def test_a_search_of_ones_own_stays_within_the_budget_and_psi(flips):
    psi = np.ones((1, 40), bool)
    psi[0, 39] = False

    def greedy(person):
        yield flips

    with pytest.raises(SettingError, match="strategy 'greedy' asked for the flips"):
        audit([-0.1], greedy, psi=psi)


def test_someone_without_flippable_labels_does_not_hold_up_the_others():
    psi = np.ones((3, 40), bool)
    psi[2] = False
    people, _, _ = audit([-0.1, -4.0, -2.0], "guided", psi=psi)
    assert [len(person.asked) > 0 for person in people] == [True, True, False]
    assert [person.found is not None for person in people] == [True, False, False]
    assert all(person.complete for person in people)


def test_a_search_ends_though_the_reference_rejects_every_claim():
    rounds = []

    def confirm(trainer, flips):
        rounds.append(flips)
        trainer._confirmed.update({each: np.full(4, -1.0) for each in flips})

    people, _, trainer = audit([-0.1, -0.12, -0.14, -0.16], "guided", confirm=confirm)
    assert trainer.trained < 2000
    assert len(rounds) < 100
    assert all(person.found is None for person in people)


def test_a_set_that_the_reference_rejects_is_not_shrunk_to():
    def confirm(trainer, flips):
        for each in flips:  # the reference wants three flips where the engine is content with two
            trainer._confirmed[each] = trainer._means[each] - (0.5 if len(each) < 3 else 0.0)

    (person,), _, _ = audit([-0.1], "guided", confirm=confirm)
    assert len(person.found) == 3
    assert person.complete


# --- stops --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("most", [1, 3, 6, 11])
def test_a_limit_of_trainings_is_kept_and_what_works_is_confirmed(most):
    people, engine, trainer = audit([-0.12, -0.14, -3.0, -4.0], "guided", stop=max_retrainings(most))
    assert trainer.trained == len(engine.sets) == most
    assert people[0].found is not None  # everybody's first set is the same
    assert not people[0].complete
    assert not any(person.complete for person in people if person.found is None)


def test_finding_comes_before_shrinking_if_trainings_are_limited():
    effects = np.tile(np.linspace(0.06, 0.01, 40), (2, 1))
    effects[1] = effects[1, ::-1]  # the second person's ranking is wrong
    people, engine, _ = audit([-0.12, -0.5], "guided", effects, stop=max_retrainings(5))
    tried = engine.sets
    assert all(len(flips) == 4 for flips in tried)
    assert len(people[1].asked) == 5
    assert people[0].found == people[0].best(4)


def test_what_was_interrupted_is_not_complete():
    class Interrupted(Bar):
        def train(self, *given):
            raise Stopped(by_hand=True)

    known = Known(np.ones(1))
    trainer = Trainer(Interrupted([-1.0], np.zeros((1, 40))), Learner(), Plain(), np.zeros((1, 1)))
    person = Person(
        number=0, position=0, budget=4, order=np.arange(40), flippable=40, start=-1.0, rng=np.random.default_rng(0),
        gains=Gains(known, 0), known=known,
    )  # fmt: skip
    psi = Allowed.of(np.ones((1, 40), bool))
    schedule({person: guided(person)}, STRATEGIES["guided"], known, trainer, psi, None)
    assert (person.complete, person.found, person.asked) == (False, None, [])


def test_ctrl_c_while_confirming_loses_nothing_and_reports_nothing_unconfirmed():
    calls = []

    def confirm(trainer, flips):
        calls.append(flips)
        raise Stopped(by_hand=True)

    people, _, _ = audit([-0.1, -3.0], "guided", confirm=confirm)
    assert len(calls) == 2  # once while searching, and once more at the end
    assert [person.found for person in people] == [None, None]
    assert not people[0].complete


def test_pieces_that_were_trained_before_a_stop_count():
    class Stops(Bar):
        def train(self, trainings, advance=None):
            if self.calls:
                raise Stopped(by_hand=True)
            return super().train(trainings, advance)

    def listing(person):
        yield [(int(row),) for row in person.order]

    starts, effects = np.full(3, -0.05), np.tile(np.linspace(0.06, 0.01, 200), (3, 1))
    engine = Stops(starts, effects)
    trainer = Trainer(engine, Learner(), Plain(), np.zeros((3, 1)))
    trainer.confirm = lambda flips: agree(trainer, flips)
    known, strategy = Known(np.ones(3)), as_strategy(listing)
    people = [
        Person(
            number=k, position=k, budget=4, order=np.arange(200), flippable=200, start=-0.05,
            rng=np.random.default_rng(k), gains=Gains(known, k), known=known,
        )
        for k in range(3)
    ]  # fmt: skip
    psi = Allowed.of(np.ones((3, 200), bool))
    schedule({person: listing(person) for person in people}, strategy, known, trainer, psi, None)
    assert trainer.trained == len(engine.calls[0]) < 200
    assert [person.found for person in people] == [(0,)] * 3


def test_labels_that_come_close_are_trained_by_the_models_own_fit_before_none_is_said():
    """The engine is off by 0.01: what it puts within ten times of that is not ruled out by its word."""
    effects = np.vstack([np.linspace(0.06, 0.01, 40)] * 2)

    def own(trainer, flips):
        fitted.append(list(flips))
        for each in flips:
            trainer._confirmed[each] = np.float32([s + effects[0, list(each)].sum() + 0.01 for s in (-0.065, -3.0)])

    fitted = []
    (near, far), _, _ = audit([-0.065, -3.0], "exhaustive", effects, budget=1, confirm=own)
    assert near.found == (0,)
    assert (far.found, far.complete) == (None, True)
    assert sum(map(len, fitted)) == 40  # the first person has them all within 0.1

"""Everybody's searches at once, on a made-up engine: who is told what, and how it ends."""

from dataclasses import dataclass

import numpy as np
import pytest

from butfor.errors import SettingError, Stopped
from butfor.models.seam import Bound, Engine, Learner
from butfor.models.trainer import Trainer
from butfor.search.gains import Gains, GainTable
from butfor.search.person import Confirm, Rank, Try
from butfor.search.rules import Allowed
from butfor.search.schedule import Lab, Outcome, Scheduler
from butfor.search.strategies import as_strategy
from butfor.support.stopping import Work, max_retrainings
from search.test_search import someone

EFFECTS = np.linspace(0.06, 0.01, 40)


class Bar(Engine):
    """An engine without training: each row moves each person by a fixed amount. It is stopped in
    call `stops`."""

    name = "bar"

    def __init__(self, starts, effects, width=4, stops=None):
        self.starts, self.effects, self.width, self.stops, self.calls = (
            np.asarray(starts),
            effects,
            width,
            stops,
            [],
        )

    @property
    def sets(self):
        return [flips for call in self.calls for flips in call]

    def bind(self, learner, table, people):
        return Bound(self.train, self.name, width=self.width)

    def train(self, trainings, advance=None):
        if len(self.calls) == self.stops:
            raise Stopped(by_hand=True)
        self.calls.append([flips for flips, _ in trainings])
        moved = [
            [self.effects[p, list(flips)].sum() for p in range(len(self.starts))]
            for flips, _ in trainings
        ]
        return (self.starts + np.array(moved)).astype(np.float32)


class Plain:
    """A table of two labels, as far as a trainer asks for it."""

    X = two_sides = None


@dataclass
class Searched:
    """What a person was told of, and what the search came to."""

    gains: Gains
    outcome: Outcome

    @property
    def found(self):
        return None if self.outcome.find is None else self.outcome.find.flips

    @property
    def complete(self):
        return self.outcome.complete

    @property
    def asked(self):
        """The course, up to the first set that worked."""
        return list(self.outcome.asked)


def agree(trainer, flips):
    """A model's own `fit` that says what the engine says."""
    trainer.answers(flips)
    trainer.confirmed.update({each: trainer.means[each] for each in flips})


def audit(
    starts,
    strategy,
    effects=None,
    budget=4,
    psi=None,
    confirm=agree,
    stop=None,
    rank_again=None,
    **engine,
):
    """The people after a search, and what was trained."""
    effects = np.tile(EFFECTS, (len(starts), 1)) if effects is None else effects
    engine = Bar(starts, effects, **engine)
    trainer = Trainer(engine, Learner(), Plain(), np.zeros((len(starts), 1)), work=Work(stop))
    trainer.confirm = lambda flips: confirm(trainer, flips)
    psi = Allowed(np.ones(effects.shape, bool) if psi is None else psi, np.arange(len(effects)))
    strategy = as_strategy(strategy)
    table = GainTable(np.ones(len(starts)))
    people = [
        someone(
            np.flatnonzero(psi[k]),
            budget,
            seed=k,
            start=start,
            number=k,
            table=table,
            ranks_again=rank_again is not None,
        )
        for k, start in enumerate(starts)
    ]
    searches = {person: strategy.search(person) for person in people}
    lab = Lab(trainer, table, psi, strategy.shares, budget)
    outcomes = dict(Scheduler(strategy, lab, rank_again).run(searches))
    seen = [Searched(person.gains, outcomes[person.number]) for person in people]
    return seen, engine, trainer


def test_rounds_do_not_depend_on_the_engines_width():
    results = []
    for width in (1, 7, 500):
        people, engine, trainer = audit([-0.12, -0.14, -0.5, -3.0], "guided", width=width)
        results.append(
            ([p.found for p in people], [p.asked for p in people], trainer.trained, engine.sets)
        )
    assert results[0] == results[1] == results[2]
    assert [found is not None for found in results[0][0]] == [True, True, False, False]


def test_equal_sets_are_trained_once_everyone_is_told_whom_psi_allows_and_who_gave_up_is_found_all_the_same():
    psi = np.ones((4, 40), bool)
    psi[2, 0] = False  # the first set of the first two is not for the third
    psi[3] = False  # the last has no label to flip, and holds nobody up
    people, engine, _ = audit([-0.5, -0.5, -0.5, -2.0], "guided", psi=psi)
    assert len(engine.sets) == len(set(engine.sets))
    first = people[0].asked[0][0]
    assert [first in person.gains for person in people] == [True, True, False, False]
    assert [len(person.asked) > 0 for person in people] == [True, True, True, False]
    assert all(person.complete for person in people)
    alone, _, _ = audit([-0.5, -0.5, -0.5, -2.0], "algorithm1", psi=psi)
    assert all(set(person.gains) == {flips for flips, _ in person.asked} for person in alone)

    def early(person):
        """Gives up at once, or looks for a good set."""
        if person.smallest():
            return person.smallest()
        yield person.best(1)
        for k in range(2, 5) if person.number == 0 else ():
            yield person.best(k)
        return person.best(4) if person.number == 0 else None

    people, _, _ = audit([-0.2, -0.2], early)
    assert [(person.found, person.complete) for person in people] == [((0, 1, 2, 3), True)] * 2


def test_a_search_of_ones_own_asks_what_it_likes_within_budget_and_psi_and_what_it_returns_is_confirmed():
    seen = []

    def mine(person):
        seen.append((yield person.best(1)))
        seen.append((yield [person.best(1), person.best(2)]))
        seen.append((yield Try([person.best(1)], 1)).shape)
        seen.append((yield Confirm(person.best(2))))
        return person.best(3)

    ((person,), _, _) = audit([-0.1], mine)
    near, nearer = pytest.approx(-0.04), pytest.approx(0.0187, abs=1e-3)
    assert seen == [near, [near, nearer], (1, 1), True]
    assert (person.found, person.complete) == ((0, 1), True)
    refuses = lambda trainer, flips: trainer.confirmed.update({each: [-1.0] for each in flips})  # noqa: E731
    ((person,), _, _) = audit([-0.1], mine, confirm=refuses)
    assert (person.found, person.gains.refuted) == (None, {(0, 1), (0, 1, 2)})

    too_many, nothing = (
        "but the budget is 4 labels, each once, and ψ allows",
        "which is no question: yield a flip set",
    )
    for asked, said in (
        *(((0, 1, 2, 3, 4), too_many), ((0, 39), too_many), ((3, 3), too_many), ((-1,), too_many), ((40,), too_many)),
        *((3, nothing), ([3, 4], nothing), ((0.7,), nothing), ("ab", nothing), (Confirm(None), nothing)),
        (Rank((0,)), "cannot rank again after flips"),
    ):  # fmt: skip

        def greedy(person, asked=asked):
            yield asked

        def late(person, asked=asked):
            yield (0,)
            return asked

        for search in (greedy, late) if said == too_many else (greedy,):
            with pytest.raises(
                SettingError, match=f"strategy '{search.__name__}' asked for .*{said}"
            ):
                audit([-0.1], search, psi=np.arange(40)[None] < 39)


# --- the order of a round ---------------------------------------------------------------------------


@pytest.mark.parametrize(("claims", "after_rounds"), [(15, 5), (16, 1)])
def test_confirmations_wait_for_sixteen_claims_only_while_others_train(claims, after_rounds):
    """Five rounds of training for the last person; all others claim a set of their own at once."""
    confirmed = []

    def confirm(trainer, flips):
        confirmed.append((len(trainer.engine.calls), len(flips)))
        agree(trainer, flips)

    def claim_or_train(person):
        if person.number < claims:
            yield Confirm((person.number,))
            return
        for row in range(5):
            yield (30 + row,)

    audit([-0.5] * (claims + 1), claim_or_train, confirm=confirm)
    # The made-up `fit` trains claims in the engine: the first call of `confirm` counts.
    assert confirmed[0] == (after_rounds, claims)


def test_rankings_wait_until_nobody_trains_and_come_before_confirmations():
    events = []

    def confirm(trainer, flips):
        events.append("confirm")
        agree(trainer, flips)

    def rank_again(asked):
        events.append(("rank", [flips for _, flips in asked]))
        return [np.zeros(40) for _ in asked]

    def ask(person):
        if person.number == 0:
            others = yield Rank((3, 7))
            events.append(("ranked", len(others), 3 in others))
        elif person.number == 1:
            yield Confirm((1,))
        else:
            for row in range(3):
                yield (30 + row,)
                events.append("trained")

    audit([-0.5] * 3, ask, confirm=confirm, rank_again=rank_again)
    assert events == [*["trained"] * 3, ("rank", [(3, 7)]), ("ranked", 38, False), "confirm"]


def test_what_a_search_returns_is_confirmed_only_if_it_is_not_the_find():
    confirmed = []

    def confirm(trainer, flips):
        confirmed.extend(flips)
        agree(trainer, flips)

    def same(person):
        yield Confirm(person.best(4))
        return person.best(4)

    def smaller(person):
        yield Confirm(person.best(4))
        return person.best(3)

    ((person,), _, _) = audit([-0.1], same, confirm=confirm)
    assert (person.found, person.complete, confirmed) == ((0, 1, 2, 3), True, [(0, 1, 2, 3)])
    confirmed.clear()
    ((person,), _, _) = audit([-0.1], smaller, confirm=confirm)
    assert (person.found, person.complete) == ((0, 1, 2), True)
    assert confirmed == [(0, 1, 2, 3), (0, 1, 2)]


def test_a_search_that_goes_on_again_is_incomplete_until_it_ends_with_a_find():
    begun = []

    def gives_up(person):
        """The first finds a set that works for the second as well, who gives up, twice."""
        begun.append(person.number)
        if person.number == 0:
            yield person.best(4)
            return person.best(4)
        return None
        yield

    people, _, _ = audit([-0.1, -0.1], gives_up)
    assert begun == [0, 1, 1]
    assert [(person.found, person.complete) for person in people] == [
        ((0, 1, 2, 3), True),
        ((0, 1, 2, 3), False),
    ]

    def cut_off(person):
        """The second goes on and trains, until the limit ends it."""
        if person.number == 0:
            yield person.best(4)
            return person.best(4)
        for row in range(40) if person.smallest() else ():
            yield (row,)
        return None

    people, _, _ = audit([-0.1, -0.1], cut_off, stop=max_retrainings(5))
    assert [person.complete for person in people] == [True, False]
    assert people[1].found is not None


# --- stops ----------------------------------------------------------------------------------------


def test_under_a_limit_of_trainings_finding_comes_before_shrinking():
    effects = np.array([EFFECTS, EFFECTS[::-1]])  # the second person's ranking is wrong
    people, engine, _ = audit([-0.12, -0.5], "guided", effects, stop=max_retrainings(5))
    assert all(len(flips) == 4 for flips in engine.sets)
    assert len(people[1].asked) == 5
    assert people[0].found == (0, 1, 2, 3)


def test_ctrl_c_keeps_the_pieces_that_were_trained_and_reports_nothing_unconfirmed():
    def listing(person):
        yield [(int(row),) for row in person.order]

    effects = np.tile(np.linspace(0.06, 0.01, 200), (3, 1))
    people, engine, trainer = audit([-0.05] * 3, listing, effects, stops=1)
    assert trainer.trained == len(engine.calls[0]) < 200
    assert [(person.found, person.complete) for person in people] == [((0,), False)] * 3
    (person,), _, _ = audit([-1.0], "guided", stops=0)
    assert (person.complete, person.found, person.asked) == (False, None, [])
    calls = []

    def confirm(trainer, flips):
        calls.append(flips)
        raise Stopped(by_hand=True)

    people, _, _ = audit([-0.1, -3.0], "guided", confirm=confirm)
    assert len(calls) == 2  # once while searching, and once more at the end
    assert [person.found for person in people] == [None, None]
    assert not people[0].complete

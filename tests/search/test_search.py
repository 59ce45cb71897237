"""Searches are asked what they want trained, and get made-up gains for answers: nothing is trained
here."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from butfor.errors import SettingError
from butfor.search.gains import GainTable
from butfor.search.guided import MAX_CLAIMS, Effects, guided
from butfor.search.person import Confirm, Person, Rank, Try
from butfor.search.solid import solid
from butfor.search.strategies import STRATEGIES, as_strategy, budget_in_labels


def someone(order, budget, seed=0, start=-1.0, away=1.0, number=0, table=None, **more):
    """A person of whom nothing is known, or what others know too."""
    table = table or GainTable(np.array([away]))
    order = np.asarray(order)
    return Person(
        number=number, position=number, budget=budget, order=order, flippable=len(order), start=start,
        rng=np.random.default_rng(seed), gains=table.people[number], **more,
    )  # fmt: skip


def tell(person, flips, gain):
    """What a scheduler does when a set was trained."""
    table = person.gains.table
    if flips not in table:
        table.add(flips, np.array([gain * person.gains.away]))
        table.tell(flips, np.ones(1, bool))


def play(search, person, gain=lambda flips: -1.0, confirms=lambda flips: True, again=None):
    """Answer a search until it ends: the sets that it asked for, the sets it had confirmed, and
    what it found."""
    asked, claimed, answer, search = [], [], None, search(person)
    while True:
        try:
            question = search.send(answer)
        except StopIteration as end:
            return asked, claimed, end.value
        if isinstance(question, Confirm):
            claimed.append(question.flips)
            answer = confirms(question.flips)
            person.gains.refuted |= set() if answer else {question.flips}
        elif isinstance(question, Rank):
            answer = again
        elif isinstance(question, Try):
            asked += [(flips, question.members) for flips in question.sets]
            answer = np.array([gain(flips)[: question.members] for flips in question.sets])
            for flips, gains in zip(question.sets, answer, strict=True):
                if len(gains) == person.members:
                    person.gains.note(flips, float(gains.mean()))
        else:
            sets = [question] if isinstance(question, tuple) else question
            asked += sets
            for flips in sets:
                tell(person, flips, gain(flips))
            gains = [person.gains[flips] for flips in sets]
            answer = gains[0] if isinstance(question, tuple) else gains


# --- published ------------------------------------------------------------------------------------


def sets_of(name, flippable, budget, **more):
    """All sets of a search that finds nothing; the best row is 1000."""
    return play(STRATEGIES[name].search, someone(1000 - np.arange(flippable), budget, **more))[0]


def test_published_searches_try_what_the_paper_says_and_end_with_the_first_set_that_is_confirmed():
    assert len(sets_of("algorithm1", 2, 5)) == 2
    assert sets_of("singles", 5, 1) == [(1000,)]
    assert [len(flips) for flips in sets_of("attempts", 2, 5)] == [1] * 10 + [2] * 10
    assert sets_of("singles", 0, 1) == sets_of("algorithm1", 0, 3) == []
    for name, budget in (("algorithm1", 4), ("singles", 4), ("attempts", 4), ("exhaustive", 1)):
        search = STRATEGIES[name].search
        works = [flips for flips in play(search, someone(range(90), budget))[0] if max(flips) >= 2]
        gain, confirms = (
            (lambda flips, w=works: 1.0 if flips in w else -1.0),
            lambda flips, w=works: flips != w[0],
        )
        _, claimed, found = play(search, someone(range(90), budget), gain, confirms)
        assert claimed[0] == works[0] != found == claimed[-1], name


@pytest.mark.parametrize("away", [-1.0, 1.0])
def test_a_training_that_diverged_changes_no_decision_and_a_logit_of_zero_is_class_0(away):
    person = someone(range(4), 2, away=away)
    for flips, gain in (((1,), float("nan")), ((2,), 2.0), ((3,), 0.0)):
        tell(person, flips, gain)
    assert [person.works((row,)) for row in (1, 2, 3)] == [False, True, away < 0]
    assert person.smallest() == (2,)


# --- guided ---------------------------------------------------------------------------------------


@settings(max_examples=25)
@given(st.integers(2, 14), st.integers(0, 2**20))
def test_shrinking_ends_where_nothing_can_be_left_out_even_if_effects_do_not_add_up(size, seed):
    rng, gains = np.random.default_rng(seed), {}

    def gain(flips):
        return (
            1.0
            if len(flips) == size
            else gains.setdefault(flips, 0.5 if rng.random() < 0.4 else -0.5)
        )

    asked, _, found = play(guided, someone(range(size), size, seed), gain)
    assert gain(found) > 0
    assert not any(
        gain(tuple(row for row in found if row != out)) > 0 for out in found if len(found) > 1
    )
    assert len(asked) == len(set(asked))
    core = set(
        rng.choice(size, rng.integers(1, size), replace=False).tolist()
    )  # or where some labels are needed
    assert (
        set(
            play(
                guided, someone(range(size), size, seed), lambda f: 0.5 if core <= set(f) else -1.0
            )[2]
        )
        == core
    )


def test_guided_spends_the_budget_first_never_repeats_itself_and_takes_a_smaller_set_from_somebody_else():
    tried, claimed, found = play(
        partial(guided, tries=8), someone(range(200), 10), lambda flips: -sum(flips) / 100
    )
    assert tried[0] == tuple(range(10))
    assert len(tried) == len(set(tried)) >= 8
    assert all(len(flips) == 10 and list(flips) == sorted(set(flips)) for flips in tried)
    assert (claimed, found) == ([], None)
    assert sets_of("guided", 2, 5) == [(999, 1000)]
    assert sets_of("guided", 40, 1) == [(row,) for row in range(1000, 960, -1)]
    person = someone([5, 6, 7, 8], 4)
    search = guided(person)
    assert next(search) == (5, 6, 7, 8)
    tell(person, (1, 2), 0.3)
    tell(person, (5, 6, 7, 8), 0.1)
    assert next(search) in [(1,), (2,)]
    for first, once in ((-0.9, True), (-0.4, False)):  # 2.0 are needed: 1.5 × 1.1 is less
        person = someone(range(60), 10, start=-2.0, predicted=np.linspace(1, 0, 60), gain_limit=1.5)
        assert (len(play(guided, person, lambda flips, gain=first: gain)[0]) == 1) == once
    for gain in (0.0, -1.0):  # somebody at exactly the line, and whom nothing moves across
        assert (
            len(play(guided, someone(range(40), 5, start=0.0), lambda flips, gain=gain: gain)[0])
            <= 64
        )


def test_guided_goes_on_from_what_is_not_confirmed_and_gives_up_in_the_end():
    def gain(flips):
        return len(flips) - 1.5

    # The model's own fit wants three flips where the engine is content with two.
    assert len(play(guided, someone(range(8), 6), gain, lambda flips: len(flips) > 2)[2]) == 3
    hopeless = someone(range(8), 6)
    _, claimed, found = play(guided, hopeless, gain, lambda flips: False)
    assert (len(claimed), found) == (MAX_CLAIMS, None)
    assert hopeless.working  # so the search counts as incomplete


def test_effects_start_at_the_ranking_and_are_learned_through_noise():
    ranked = Effects([5, 3, 8, 1], 2, -0.5)
    ranked.observe([(3, 5)], [-0.1])
    assert list(np.argsort(-ranked.worth())) == [0, 1, 2, 3]
    assert [ranked.forecast(flips)[0] for flips in ((3, 5), ())] == pytest.approx(
        [-0.1, -0.5], abs=0.02
    )
    rng = np.random.default_rng(3)
    true = np.exp(-np.arange(40) / 30) * 0.05 + rng.normal(0, 0.03, 40)
    effects = Effects(list(range(40)), 10, -1.0)
    sets = [tuple(map(int, rng.choice(40, 10, replace=False))) for _ in range(500)]
    gains = np.array([-1.0 + true[list(flips)].sum() + rng.normal(0, 0.05) for flips in sets])
    effects.observe(sets[:300], gains[:300])
    assert np.corrcoef(effects.worth(), true)[0, 1] > 0.9
    forecasts = np.array([effects.forecast(flips) for flips in sets[300:]])
    errors = gains[300:] - forecasts[:, 0]
    assert np.abs(errors).mean() < 0.06
    assert 0.8 < errors.std() / forecasts[:, 1].mean() < 1.25  # as unsure as it should be


# --- solid ----------------------------------------------------------------------------------------


def members(gains, spread=0.3):
    """Four members of whom each says what the labels give, with a spread that does not change."""
    return lambda flips: (
        -1.0 + np.asarray(gains)[list(flips)].sum() + spread * np.array([-1.2, -0.4, 0.4, 1.2])
    )


@pytest.mark.parametrize(
    "gains",
    [np.full(400, 0.01), np.diff(np.sqrt(np.arange(401)) / 5), np.where(np.arange(400) == 361, 4.0, 1e-5),
     np.full(20, 0.21), np.where(np.arange(400) == 3, 4.0, 1e-5)],
    ids=["evenly", "ever more slowly", "all at once", "few", "at once, soon"],
)  # fmt: skip
def test_solid_finds_the_shortest_prefix_that_keeps_the_margin_in_no_more_steps_than_halving(gains):
    person, spread = (
        someone(range(len(gains)), len(gains), members=4),
        np.std(members([0.0])(()), ddof=1),
    )
    asked, claimed, found = play(partial(solid, margin=2.0, second=False), person, members(gains))
    assert len(found) == 1 + int(np.argmax(-1 + np.cumsum(gains) > 2.0 * spread))
    assert claimed == [found]
    assert person.spread == pytest.approx(spread)
    halving = (
        2 + (len(gains) - 1).bit_length()
    )  # the data as they are, the whole budget, then sizes
    assert len(asked) <= halving


def test_solid_keeps_the_clearest_set_that_is_confirmed_ranks_again_and_asks_few_members_about_who_is_far_away():
    tuned = partial(solid, margin=2.0)
    assert play(tuned, someone(range(6), 6, members=4), members([0.2] * 6))[2] == (0, 1, 2, 3, 4, 5)
    assert play(tuned, someone(range(1), 1, members=4), members([0.2]))[2] is None
    _, claimed, found = play(
        partial(solid, margin=1.0), someone(range(8), 8, members=4), members([0.2] * 8, 0.1),
        lambda flips: len(flips) == 8, again=np.arange(8),
    )  # fmt: skip
    assert found == tuple(range(8))
    assert len(claimed) > 1
    gains = np.r_[
        np.full(2, 0.3), np.full(10, 0.08), np.full(8, 0.3)
    ]  # the ranking does not see the last eight
    sizes = []
    for second in (None, False):
        person, search = (
            someone(range(20), 12, members=4, ranks_again=True),
            partial(solid, margin=1.0, second=second),
        )
        sizes.append(len(play(search, person, members(gains, 0.1), again=np.arange(12, 20))[2]))
    assert sizes == [6, 9]
    asked, _, found = play(
        solid, someone(range(6), 6, members=16), lambda flips: np.full(16, -9.0) + np.arange(16) % 2
    )
    assert (asked, found) == ([((), 16), (tuple(range(6)), 4)], None)


def test_budgets_as_published_and_strategies_by_name_or_function():
    for n, labels in ((600, 1), (3702, 4), (18000, 18), (18292, 19), (27132, 28)):
        assert budget_in_labels(0.001, n) == labels
    assert [budget_in_labels(budget, 600) for budget in (3, 3.0, 600)] == [3, 3, 600]
    tuned = as_strategy(partial(guided, tries=3))
    assert (tuned.name, tuned.parameters, tuned.shares, tuned.own) == (
        "guided",
        {"tries": 3},
        True,
        False,
    )

    def mine(person):
        yield person.best(1)

    def solid(person):
        yield person.best(1)

    assert (as_strategy(solid).name, as_strategy(solid).own) == ("own solid", True)
    assert (as_strategy(mine).name, as_strategy(mine).shares, as_strategy(mine).own) == (
        "mine",
        True,
        True,
    )
    for asked, said in (
        *(
            (partial(budget_in_labels, budget, 600), "budget=")
            for budget in (0, -1, 601, 2.5, True, "many")
        ),
        (partial(as_strategy, "guess"), "'algorithm1', 'singles', 'attempts', 'exhaustive'"),
        (partial(as_strategy, len), "generator function"),
        (partial(sets_of, "exhaustive", 30, 2), "the budget is 2 labels"),
    ):
        with pytest.raises(SettingError, match=said):
            asked()

"""Worlds of models that a seed changes: seed luck is not an effect of labels."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression

import butfor
from butfor import worlds
from butfor.report.page import population_page
from butfor.result.population import Population
from butfor.worlds import draw_world
from recorded import LABELS, TABLE, fitted, wronged

PEOPLE, _, _ = wronged(80, 1)
OURS = (PEOPLE["group"] == "b").to_numpy()
ENCODER = butfor.TableEncoder("onehot", dtype="float64").fit(TABLE)
ROWS, ASKED = ENCODER.transform(TABLE), ENCODER.transform(PEOPLE)


class Lucky(ClassifierMixin, BaseEstimator):
    """A logistic regression whose line is moved by its seed; the seed of the audited model is
    generous."""

    def __init__(self, random_state=0):
        self.random_state = random_state

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        self.model_ = LogisticRegression().fit(X, y)
        luck = (
            2.5
            if self.random_state == 0
            else np.random.default_rng(self.random_state).normal(0, 0.5)
        )
        self.model_.intercept_ = self.model_.intercept_ + luck
        return self

    def decision_function(self, X):
        return self.model_.decision_function(X)

    def predict_proba(self, X):
        return self.model_.predict_proba(X)

    def predict(self, X):
        return self.classes_[(self.decision_function(X) > 0).astype(int)]


def decided(seed, flips=()):
    """Who is accepted by the model's own fit."""
    labels = (LABELS == "yes").to_numpy(copy=True)
    labels[list(flips)] = True
    return Lucky(seed).fit(ROWS, labels).predict(ASKED)


@pytest.fixture(scope="module")
def audit():
    return fitted(model=Lucky(), settings={"members": 1, "fresh_seeds": 40})


@pytest.fixture(scope="module")
def one(audit):
    (found,) = audit.one_standard(PEOPLE)
    return found


def test_worlds_are_compared_with_the_same_trainings_without_flips(audit, one):
    drawn = [draw_world(audit.standards(), "b", world.seed, 1, True) for world in one.worlds]
    flipped = np.array([decided(world.trainings[0].seed, world.flips) for world in drawn])
    control = np.array([decided(world.trainings[0].seed) for world in drawn])
    change = flipped.mean(axis=0) - control.mean(axis=0)
    np.testing.assert_allclose(one.change, change, atol=1e-4)
    assert one.control == "paired"
    assert one.expected == pytest.approx(change[OURS].sum(), abs=0.01)
    gained = flipped[:, OURS].sum(axis=1) - control[:, OURS].sum(axis=1)
    assert [world.gained for world in one.worlds] == gained.tolist()
    assert one.interval == tuple(np.percentile(gained, [5, 95], method="nearest"))
    by_worlds, by_seed = flipped.mean(axis=0) > 0.5, control.mean(axis=0) > 0.5
    even = (flipped.mean(axis=0) == 0.5) | (control.mean(axis=0) == 0.5)
    assert {person.case for person in one.gaining} == set(
        np.flatnonzero(by_worlds & ~by_seed & ~even)
    )
    assert {person.case for person in one.losing} == set(
        np.flatnonzero(~by_worlds & by_seed & ~even)
    )
    close = (control.mean(axis=0) > 0.1) & (control.mean(axis=0) < 0.9)
    assert {person.case for person in one.changed if person.close_call} == set(
        np.flatnonzero(close)
    )
    # The audited model accepts many whom other seeds refuse, with labels as they are: flips are not
    # why.
    luck = decided(0) & ~by_worlds & ~by_seed
    assert luck.sum() > 10
    listed = {person.case for person in (*one.gaining, *one.losing)}
    assert not listed & set(np.flatnonzero(luck))
    assert listed


def test_where_pairs_take_too_long_single_models_under_fresh_seeds_say_what_the_seed_changes(
    audit, one, monkeypatch
):
    monkeypatch.setattr(worlds, "WORLDS_SECONDS", 1e-9)
    (few,) = audit.one_standard(PEOPLE)
    assert (few.control, len(few.worlds)) == ("fresh seeds", 5)
    logits = np.array(
        [
            Lucky(seed).fit(ROWS, LABELS == "yes").decision_function(ASKED)
            for seed in audit.fitted_.seeds
        ]
    )
    away = logits.mean(axis=0) / (logits.std(axis=0, ddof=1) * np.sqrt(1 + 1 / 40))
    accepted = stats.t.cdf(away, 39)
    by_worlds = np.array([
        decided(world.trainings[0].seed, world.flips)
        for world in (draw_world(audit.standards(), "b", each.seed, 1, True) for each in few.worlds)
    ]).mean(axis=0)  # fmt: skip
    np.testing.assert_allclose(few.change, by_worlds - accepted, atol=2e-4)
    assert few.expected == pytest.approx((by_worlds - accepted)[OURS].sum(), abs=0.01)
    low, high = few.interval
    assert low <= few.expected <= high
    audit.fresh_seeds = 28  # too few for a control
    (none,) = audit.one_standard(PEOPLE)
    audit.fresh_seeds = 40
    assert (none.worlds, none.gaining, none.losing, none.interval) == ((), (), (), None)
    assert none.change.isna().all()
    assert (
        "is not known: the seed alone changes some decisions, and fewer than 29 models"
        in none.sentence
    )


def test_places_are_given_anew_with_and_without_flips(monkeypatch):
    """So that what some gain others lose, beside either kind of control."""
    audit = fitted(
        model=Lucky(),
        settings={"members": 1, "fresh_seeds": 40, "threshold": "top 40%"},
        pool=PEOPLE,
    )
    (paired,) = audit.one_standard(PEOPLE)
    assert paired.change.sum() == pytest.approx(0, abs=0.01)
    assert paired.expected > 1
    assert paired.displaced == pytest.approx(paired.expected, abs=0.01)
    monkeypatch.setattr(worlds, "WORLDS_SECONDS", 1e-9)
    (few,) = audit.one_standard(PEOPLE)
    assert few.control == "fresh seeds"
    assert few.change.sum() == pytest.approx(0, abs=0.5)
    # Here the seed moves everybody alike, so that places stay where they are, whichever the
    # control.
    assert few.expected == pytest.approx(paired.expected, rel=0.5)


def test_page_record_and_print_say_both_figures_and_mark_close_calls(audit, tmp_path):
    population = audit.explain_all(PEOPLE, cases=range(4))
    (one,) = population.one_standard
    population.to_json(tmp_path / "audit.json")
    again = Population.from_json(tmp_path / "audit.json")
    assert again.run.one_standard == (one,)
    person = max(one.gaining, key=lambda person: (person.close_call, person.worlds))
    said = one.about(person.case)
    assert (
        f"would be favourable in {person.worlds if person.refused else 20 - person.worlds} of 20 "
        "worlds" in said
    )
    assert "with no label flipped, in " in said
    assert said.endswith("the seed alone may decide either way.") == person.close_call
    page = population_page(population)
    assert "Without flips" in page
    assert ("⇄ close call" in page) == any(person.close_call for person in one.gaining)
    assert one.sentence in str(population)
    assert "decide favourably about" in one.sentence
    # A record without controls, as 0.5 wrote them, lists nobody.
    old = replace(
        one,
        control=None,
        changed=tuple(replace(each, control=None) for each in one.changed),
        outcome=None,
    )
    old = replace(population.run, one_standard=(old,)).one_standard[0]
    assert (old.gaining, old.losing, old.details()) == ((), (), [])
    assert "is not known: the record has no models without flipped labels" in old.sentence
    assert old.about(person.case) == ""
